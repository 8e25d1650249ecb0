"""Two-layer networks from questions: breaks along lines, the units behind them, their signs, and the verdict."""

from planted.identification.two_layer._breakpoints import LineScan
from planted.identification.two_layer._finish import choose_scale, finish_network
from planted.identification.two_layer._jumps import Line
from planted.identification.two_layer._search import (
    COARSE,
    DEEPER,
    BlackBox,
    Deeper,
    Identification,
    Refusal,
    search_lines,
)
from planted.identification.two_layer._verdict import Terms, judge, judge_stop

__all__ = [
    "COARSE",
    "DEEPER",
    "BlackBox",
    "Deeper",
    "Identification",
    "Line",
    "LineScan",
    "Refusal",
    "Terms",
    "choose_scale",
    "finish_network",
    "judge",
    "judge_stop",
    "search_lines",
]
