"""Deep ReLU networks from questions: layer by layer, then all layers at once, judged by fresh answers."""

from planted.identification.deep._coarse import read_coarse
from planted.identification.deep._kinds import looks_deep, miss_on_lines
from planted.identification.deep._leaky import finish_leaky, read_leaky
from planted.identification.deep._reading import read_layers
from planted.identification.deep._space import Records
from planted.identification.deep.ending._far import FARTHEST, with_far_answers
from planted.identification.deep.ending._finish import DeepFinding, add_missing, finish_reading, refine_nearby
from planted.identification.deep.ending._single import finish_single
from planted.identification.deep.ending._verdict import judge_deep, judge_deep_stop
from planted.identification.deep.stages._first import breaks_bend, survey_layer
from planted.identification.deep.stages._state import Reading
from planted.identification.deep.stages._tally import Tally

__all__ = [
    "FARTHEST",
    "DeepFinding",
    "Reading",
    "Records",
    "Tally",
    "add_missing",
    "breaks_bend",
    "finish_leaky",
    "finish_reading",
    "finish_single",
    "judge_deep",
    "judge_deep_stop",
    "looks_deep",
    "miss_on_lines",
    "read_coarse",
    "read_layers",
    "read_leaky",
    "refine_nearby",
    "survey_layer",
    "with_far_answers",
]
