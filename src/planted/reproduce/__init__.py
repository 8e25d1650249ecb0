"""The papers' figures, each made again by one command."""

from planted.reproduce._study import Agreement, Axes, Claim, Study, StudyOptions, find_study, studies
from planted.reproduce._write import check_places, write_study

__all__ = [
    "Agreement",
    "Axes",
    "Claim",
    "Study",
    "StudyOptions",
    "check_places",
    "find_study",
    "studies",
    "write_study",
]
