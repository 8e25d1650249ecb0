"""What a reproduction of a paper's figure consists of.

A study is a function of `StudyOptions` that returns a `Study`: rows of numbers, the axes in which the paper draws
them, and a table *paper's claim | ours*. Drawing, CSV and the command line are shared and know nothing of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from planted._typing import Progress
from planted.outcomes import BadInputError

__all__ = ["Axes", "Claim", "Study", "StudyOptions", "find_study", "studies"]

# paper name -> module with FIGURES: dict[str, Callable[[StudyOptions], Study]]
_MODULES: dict[str, str] = {
    "general-relu": "planted.reproduce.general_relu",
    "landscape": "planted.reproduce.landscape",
    "memorize": "planted.reproduce.memorize",
    "rectified": "planted.reproduce.rectified",
    "symmetric-inputs": "planted.reproduce.symmetric_inputs",
}


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """How to run a study.

    Parameters
    ----------
    quick : bool
        A small version, under a minute.
    seed : int
        Seed of data and solvers (their streams are separate).
    progress : callable
        Told what is being done.
    extra : mapping
        Options of a single study, such as a data folder; ``out`` is where unfinished runs may be kept.
    """

    quick: bool = False
    seed: int = 0
    progress: Progress = lambda what, fraction: None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Axes:
    """One panel: which columns of the rows are drawn, and how.

    Parameters
    ----------
    title, x, y : str
        Title and the columns on the two axes.
    series : str
        The column that tells the curves apart.
    log_x, log_y : bool
        Logarithmic axes.
    where : mapping
        Only rows with these values belong to the panel.
    """

    title: str
    x: str
    y: str
    series: str
    log_x: bool = False
    log_y: bool = True
    where: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper beside our number.

    Parameters
    ----------
    paper : str
        What the paper says.
    ours : str
        What was measured here.
    """

    paper: str
    ours: str


@dataclass(frozen=True, slots=True)
class Study:
    """The result of a study.

    Parameters
    ----------
    name : str
        File name stem.
    title : str
        One line.
    rows : sequence of mapping
        The numbers, one row per measurement; all rows have the same keys.
    panels : sequence of Axes
        How to draw them.
    claims : sequence of Claim
        The paper's claims beside ours.
    """

    name: str
    title: str
    rows: Sequence[Mapping[str, Any]]
    panels: Sequence[Axes]
    claims: Sequence[Claim] = ()


def studies() -> dict[str, tuple[str, ...]]:
    """Return the papers that can be reproduced, each with its figures.

    Returns
    -------
    dict
        Paper name to figure names.
    """
    return {paper: tuple(import_module(module).FIGURES) for paper, module in _MODULES.items()}


def find_study(paper: str, figure: str) -> Callable[[StudyOptions], Study]:
    """Return the function that reproduces a figure.

    Parameters
    ----------
    paper : str
        A key of `studies`.
    figure : str
        One of its figures.

    Returns
    -------
    callable
        The study.
    """
    if paper not in _MODULES:
        raise BadInputError(f"unknown paper {paper!r}; known are {', '.join(_MODULES) or 'none yet'}")
    figures: dict[str, Callable[[StudyOptions], Study]] = import_module(_MODULES[paper]).FIGURES
    if figure not in figures:
        raise BadInputError(f"{paper!r} has no figure {figure!r}; it has {', '.join(figures)}")
    return figures[figure]
