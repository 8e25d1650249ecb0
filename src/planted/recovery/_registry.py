"""The table of methods, made from what lies in `planted.methods`.

A method is a package there, with the name it has on the command line, whose function ``recover(run, n_hidden, **options)``
is the whole algorithm; its card is the module of the same name in `planted.methods.cards`. Cards are data: listing methods
loads no algorithm, and a package is imported when its method runs.

What a recovery costs is predicted before it is begun. Every pass reads d + m numbers of each row; most also sum the
normal equations: with u = k (d + 1) they form u masked inputs of each row and their symmetric product, u² operations
with those of the outputs beside them. A search on at most 20,000 rows, on one core, comes before:

    seconds = n / workers · ( passes · 8 (d + m) / READ_RATE + steps · step ) + searches · min(n, 20,000) · step + 1,
    step    = (u² + 2 u (k + 1 + m)) / FLOP_RATE + u · FEATURE_SECONDS .

How many passes, steps and searches there are depends on the noise and was counted for the method `complementarity`; so were
the rates, on one core: `benchmarks/scale.py --only products`, `--only processes`, and `--only cost`, which compares whole
recoveries with this prediction. Memory is that of the sums, once for every open node of their tree, of the rows kept for the
search and of those being read; it does not depend on n but for the height of that tree.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import ceil, log
from time import perf_counter
from typing import Any

import numpy as np

from planted._conversion import available_memory
from planted._threads import one_thread
from planted._typing import Progress, Seed
from planted.fitting._run import SEARCH_ROWS, MethodRun, Preparation
from planted.methods import cards
from planted.outcomes import BadInputError
from planted.results import Recovery, Requirements
from planted.rows import DEFAULT_BLOCK_ROWS, FAN_IN, PART_BLOCKS, RowBlocks

__all__ = [
    "Cost",
    "Method",
    "core_pace",
    "find_method",
    "methods",
    "predict_cost",
    "require_room",
    "weighing_method",
]

_PLAIN = (str, int, float, bool, tuple, list, type(None))  # what a record can hold as it is


@dataclass(frozen=True, slots=True)
class Method:
    """A method, ready to run."""

    requires: Requirements  # its card
    recover: Callable[..., Recovery]  # recover(run, n_hidden, **options)

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options the method understands."""
        return tuple(name for name in self._parameters if name != "activation")

    @property
    def defaults(self) -> dict[str, object]:
        """The options with what they are if nothing is said."""
        return {name: self._parameters[name].default for name in self.options}

    @property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        """The keyword parameters of the method: its options, and the activation where it handles several."""
        parameters = inspect.signature(self.recover).parameters
        return {name: value for name, value in parameters.items() if value.kind is value.KEYWORD_ONLY}

    def read_options(self, texts: Mapping[str, str]) -> dict[str, object]:
        """Return options that were typed as text, each as the type that the method's signature names.

        Examples
        --------
        >>> find_method("hermite").read_options({"order": "3", "refined": "false", "variant": "paper"})
        {'order': 3, 'refined': False, 'variant': 'paper'}
        """
        self.check_options(dict(texts))
        return {name: _read(name, text, self._parameters[name].annotation) for name, text in texts.items()}

    def at_effort(self, effort: str) -> dict[str, str]:
        """Return the option that asks for an effort, where the method has one."""
        return {"effort": effort} if "effort" in self.options else {}

    def assuming_nothing(self) -> dict[str, bool]:
        """Return the option that drops what the method assumes and no data can show, where it has one."""
        return {"rare_units": True} if "rare_units" in self.options else {}

    def with_affine(self, affine: bool | str) -> dict[str, bool | str]:
        """Return the option that asks for a linear part, or for none, where the method has one."""
        return {"affine": affine} if "affine" in self.options else {}

    def check_options(self, options: dict[str, object]) -> None:
        """Refuse options the method does not know."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            raise BadInputError(
                f"method {self.requires.method!r} has no option {', '.join(unknown)}; it knows {', '.join(self.options)}"
            )

    def run(
        self,
        data: Preparation,
        n_hidden: int | str = "auto",
        *,
        activation: str = "relu",
        **options: Any,
    ) -> Recovery:
        """Run the method on prepared data; every way in which it can end is a record."""
        if "activation" in self._parameters:
            options = {"activation": activation, **options}
        chosen = {name: options.get(name, value.default) for name, value in self._parameters.items()}
        recorded = {name: value if isinstance(value, _PLAIN) else "given" for name, value in chosen.items()}
        return MethodRun(self.requires, data, n_hidden, recorded, _solve).execute(self.recover, **options)


_READERS: dict[str, Callable[[str], object]] = {
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "int": int,
    "float": float,
    "None": lambda text: {"none": None}[text.lower()],
    "tuple[float, float]": lambda text: (float(text.split(",")[0]), float(text.split(",")[1])),
    "str": str,
}


def _read(name: str, text: str, annotation: str) -> object:
    """Return a text as the first of the types of an annotation that can be made of it."""
    kinds = [kind.strip() for kind in annotation.split("|")]
    for kind, reader in _READERS.items():
        if kind in kinds:
            try:
                return reader(text)
            except (KeyError, ValueError, IndexError):
                continue
    readable = [kind for kind in kinds if kind in _READERS]
    raise BadInputError(
        f"{name}={text!r}; expected {' or '.join(readable)}"
        if readable
        else f"{name} cannot be given as text; use it from Python"
    )


def _solve(
    method: str,
    blocks: RowBlocks,
    n_hidden: int | str,
    *,
    random_state: Seed,
    progress: Progress | None = None,
    **options: Any,
) -> Recovery:
    """Run a method by its name: how one method uses another without knowing it."""
    data = Preparation(blocks, random_state=random_state, progress=progress)
    return find_method(method).run(data, n_hidden, **options)


def methods() -> dict[str, Requirements]:
    """Return the table of methods with what each requires.

    Returns
    -------
    dict
        Method name to `Requirements`, in the order in which ``method="auto"`` considers them.

    Examples
    --------
    >>> import planted
    >>> planted.methods()["complementarity"].n_outputs
    'm >= k'
    """
    return {card.method: card for card in _cards()}


@cache
def _cards() -> tuple[Requirements, ...]:
    """Every card there is, in the order of "auto"."""
    names = [entry.name for entry in pkgutil.iter_modules(cards.__path__)]
    found = [import_module(f"{cards.__name__}.{name}").REQUIRES for name in names]
    return tuple(sorted(found, key=lambda card: (card.order, card.method)))


def find_method(name: str) -> Method:
    """Return the method of a name; its package is imported."""
    if name not in methods():
        raise BadInputError(f"unknown method {name!r}; known are 'auto', {', '.join(map(repr, methods()))}")
    package = import_module(f"planted.methods.{name.replace('-', '_')}")
    return Method(methods()[name], package.recover)


def weighing_method(name: str) -> str:
    """Return the method for rows that carry weights, or refuse one that cannot use them; "auto" is the first that can.

    Examples
    --------
    >>> weighing_method("auto")
    'restarts'
    """
    able = [each for each, card in methods().items() if card.takes_weights]
    if name == "auto":
        return able[0]
    if name in methods() and name not in able:
        raise BadInputError(
            f"method {name!r} cannot weigh rows; {', '.join(map(repr, able))} can. Name it with method=..., or leave the "
            "weights out."
        )
    return name


FLOP_RATE = 3.6e10
"""Floating-point operations in a second of one core, of the bare matrix product (measured: 3.5e10, 3.6e10)."""

FEATURE_SECONDS = 2.5e-9
"""Time to build one masked input of one row (measured: 2.6e-9, 2.7e-9, from the difference to the bare product)."""

READ_RATE = 3.6e8
"""Bytes of float64 columns in a second that one core reads from Parquet, checks and standardises (measured: 3.6e8)."""

START_SECONDS = 1.0
"""Imports and small algebra (measured: 0.9)."""

READ_AHEAD = 4
"""Row groups of 65,536 rows that the reader of Parquet holds."""


@dataclass(frozen=True, slots=True)
class Work:
    """How often rows are read and normal equations are summed."""

    passes: int  # passes over all rows
    steps: int  # those that sum normal equations
    searches: int  # sums of normal equations over the rows of the search, with the algebra between them
    start: float = START_SECONDS  # imports, and small algebra whatever the rows
    tests: float = 0.0  # seconds of tests for each row of the search


EXACT_WORK = Work(5, 2, 10)
NOISY_WORK = Work(20, 16, 200)  # counted: 19 to 22 passes; a test of the residual costs one and a half steps
# In a process that is running, on a core that takes `PACE_SECONDS` for the kernel of `core_pace`: twelve recoveries of 500
# to 100,000 rows were within a factor of two (`benchmarks/speed.py`).
EXACT_IN_PROCESS = Work(2, 1, 6, start=0.017)
NOISY_IN_PROCESS = Work(6, 5, 32, start=0.05, tests=6e-6)
PACE_SECONDS = 9.5e-4


@cache
def core_pace() -> float:
    """How long this core takes for a small step of a search, over the one on which such steps were measured.

    Machines differ by a factor of two and more. Measured once in a process, in about 10 ms.
    """
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((2_000, 11)), rng.standard_normal((10, 11))
    seconds = np.inf
    with one_thread():
        for _ in range(7):
            start = perf_counter()
            masked = ((X @ W.T > 0)[:, :, None] * X[:, None, :]).reshape(len(X), -1)
            _ = masked.T @ masked
            seconds = min(seconds, perf_counter() - start)
    return float(seconds / PACE_SECONDS)


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted cost of a recovery."""

    seconds: float  # time of all passes and of the search
    # Memory of sums, blocks and sampled rows in one process, beside that of Python and its libraries.
    n_bytes: int
    passes: int  # passes assumed
    workers: int  # cores assumed, one task on each

    def __str__(self) -> str:
        cores = "one core" if self.workers == 1 else f"{self.workers} cores"
        return (
            f"about {_duration(self.seconds)} on {cores} ({self.passes} passes), {self.n_bytes / 1e6:,.0f} MB"
        )


def predict_cost(
    n_samples: float,
    n_features: int,
    n_hidden: int,
    *,
    n_outputs: int,
    workers: int = 1,
    is_noisy: bool = True,
    in_process: bool = False,
) -> Cost:
    """Predict seconds and bytes of a recovery from Parquet files by the method "complementarity".

    `is_noisy`: whether the outputs have noise; without it far fewer steps are enough. `in_process`: whether the rows
    come from this process, which has started.

    Examples
    --------
    >>> cost = predict_cost(1e9, 32, 16, n_outputs=16, workers=100)
    >>> cost.workers, cost.n_bytes < 1e9
    (100, True)
    """
    d, k, m = n_features, n_hidden, n_outputs
    unknowns = k * (d + 1)
    works = (EXACT_IN_PROCESS, NOISY_IN_PROCESS) if in_process else (EXACT_WORK, NOISY_WORK)
    work = works[is_noisy]
    step = (unknowns**2 + 2 * unknowns * (k + 1 + m)) / FLOP_RATE + unknowns * FEATURE_SECONDS
    read = 8 * (d + m) / READ_RATE
    seconds = n_samples / workers * (work.passes * read + work.steps * step)
    seconds += min(n_samples, SEARCH_ROWS) * (work.searches * step + work.tests) + work.start
    if in_process:
        seconds *= core_pace()
    sums = 8 * (unknowns * (unknowns + k + 1 + m) + (k + 1 + m) ** 2)
    parts = max(n_samples / (PART_BLOCKS * DEFAULT_BLOCK_ROWS), 1.0)
    nodes = 4 + ceil(log(parts, FAN_IN)) if parts > 1 else 4
    rows = 3 * SEARCH_ROWS + (2 + READ_AHEAD) * PART_BLOCKS * DEFAULT_BLOCK_ROWS
    return Cost(float(seconds), int(nodes * sums + 8 * rows * (d + m) + 16e6), work.passes, workers)


def require_room(blocks: RowBlocks, n_hidden: int | str) -> None:
    """Refuse, before anything is read, a recovery whose sums do not fit into memory.

    `n_hidden`: number of units; with "auto" as many as there are outputs are assumed.
    """
    free = available_memory()
    if free is None:
        return
    d, m = blocks.widths()
    k = n_hidden if isinstance(n_hidden, int) else m
    needed = predict_cost(1.0, d, k, n_outputs=m).n_bytes
    if needed > free:
        raise BadInputError(
            f"the sums for {k} units of {d} inputs need {needed / 1e9:,.1f} GB, but {free / 1e9:,.1f} GB of memory "
            "are available. Use fewer inputs or units, or run on a cluster whose client and workers have so much memory."
        )


def _duration(seconds: float) -> str:
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
