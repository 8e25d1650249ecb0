"""What a reproduction of a paper's figure consists of.

A study is a function of `StudyOptions` that returns a `Study`: rows of numbers, the axes in which the paper draws
them, and a table *the paper says | we measured | verdict*. The verdict is computed from the numbers. Drawing, CSV and
the command line are shared and know nothing of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import Any

from planted._typing import Progress
from planted.outcomes import BadInputError

__all__ = ["Agreement", "Axes", "Claim", "Study", "StudyOptions", "find_study", "studies"]

# paper name -> module with FIGURES: dict[str, Callable[[StudyOptions], Study]]
_MODULES: dict[str, str] = {
    "general-relu": "planted.reproduce.general_relu",
    "landscape": "planted.reproduce.landscape",
    "memorize": "planted.reproduce.memorize",
    "rectified": "planted.reproduce.rectified",
    "symmetric-inputs": "planted.reproduce.symmetric_inputs",
}


class Agreement(Enum):
    """Whether what was measured is what the paper says."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNFINISHED = "not run to the end"

    @classmethod
    def of(cls, holds: bool, *, finished: bool = True) -> Agreement:
        """Return the verdict on a statement; one that does not hold yet may hold after a longer run."""
        if holds:
            return cls.AGREES
        return cls.DISAGREES if finished else cls.UNFINISHED


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """How to run a study."""

    quick: bool = False  # a small version, under a minute
    seed: int = 0  # seed of data and solvers (their streams are separate)
    progress: Progress = lambda what, fraction: None  # callback progress(message, fraction)
    # Options of a single study, such as a data folder; ``out`` is where unfinished runs may be kept.
    extra: Mapping[str, Any] = field(default_factory=dict)

    def verdict(self, holds: bool) -> Agreement:
        """Return the verdict on a statement; one that does not hold in a small version was not run to the end."""
        return Agreement.of(holds, finished=not self.quick)


@dataclass(frozen=True, slots=True)
class Axes:
    """One panel: which columns of the rows are drawn, and how."""

    title: str  # title and the columns on the two axes
    x: str
    y: str
    series: str  # the column that tells the curves apart
    log_x: bool = False  # logarithmic axes
    log_y: bool = True
    where: Mapping[str, Any] = field(default_factory=dict)  # only rows with these values belong to the panel


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper beside our number."""

    paper: str  # what the paper says
    ours: str  # what was measured here
    verdict: Agreement  # whether the two agree


@dataclass(frozen=True, slots=True)
class Study:
    """The result of a study."""

    name: str  # file name stem
    title: str  # one line
    rows: Sequence[Mapping[str, Any]]  # the numbers, one row per measurement; all rows have the same keys
    panels: Sequence[Axes]  # how to draw them
    claims: Sequence[Claim] = ()  # the paper's claims beside ours


def studies() -> dict[str, tuple[str, ...]]:
    """Return the papers that can be reproduced, each with its figures."""
    return {paper: tuple(import_module(module).FIGURES) for paper, module in _MODULES.items()}


def find_study(paper: str, figure: str) -> Callable[[StudyOptions], Study]:
    """Return the function that reproduces a figure."""
    if paper not in _MODULES:
        raise BadInputError(f"unknown paper {paper!r}; known are {', '.join(_MODULES) or 'none yet'}")
    figures: dict[str, Callable[[StudyOptions], Study]] = import_module(_MODULES[paper]).FIGURES
    if figure not in figures:
        raise BadInputError(f"{paper!r} has no figure {figure!r}; it has {', '.join(figures)}")
    return figures[figure]
