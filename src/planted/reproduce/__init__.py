"""The papers' figures, each made again by one command."""

from planted.reproduce._study import Axes, Claim, Study, StudyOptions, find_study, studies
from planted.reproduce._write import write_study

__all__ = ["Axes", "Claim", "Study", "StudyOptions", "find_study", "studies", "write_study"]
