"""Memorise any labels with few units: quadratic networks of two and three layers.

Problem     Given n samples (x_j, y_j), find a network with about √n units per layer that reproduces every label.
            Two layers: y = Σ_i a_i (w_i'x + b_i)² with a_i = ±1. Three layers: the same on random features z = (Rx
            + s)^p.
Idea        The output depends on the weights only through the symmetric matrix M = W'diag(a)W and is linear in it,
            so memorising is one linear system (`memorize_kernel`, `memorize_cg`), whose solution is split into at
            most d signed units. Training the weights instead is the paper's way (`memorize_descent`,
            `memorize_adam`); `memorize_low_rank` looks for the fewest units.
Guarantee   Theorem 4 of [GWZ20]_: if the x_j⊗x_j are linearly independent, 2d+2 units memorise any labels. With the
            linear system d units do. Theorem 5: 2⌈√n⌉ random features suffice for three layers if the inputs are
            slightly perturbed. What is NOT promised: anything about inputs that were not memorised.
Notation    paper: r units, W d × r, k features;  here: W (k, d) with one unit per row, q features. f = 1/(4n) Σ
            (output - y)².
Departures  Linear solves beside descent. Units per output: at most d (linear solvers), 2d+2 (descent). With
            ``bias`` the inputs are centred and a constant is appended, which the paper has not: zero rows and
            labels with an offset become possible. Several outputs share nothing but the random features.
Cost        See the modules of the solvers.
References  [GWZ20]_
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np

from planted._streams import seed_entropy, solver_streams
from planted._typing import Progress, Seed
from planted._validation import CheckedData, check_rows
from planted.memorization._adam import solve_adam
from planted.memorization._cg import solve_cg
from planted.memorization._evidence import gather_conditions, gather_evidence, judge
from planted.memorization._kernel import solve_direct, solve_ridge
from planted.memorization._lbfgs import solve_lbfgs
from planted.memorization._low_rank import solve_low_rank
from planted.memorization._result import Memory
from planted.memorization._task import MemoryFit, MemoryTask
from planted.memorization._units import draw_features, restore, standardise
from planted.memorization.printed import solve_pgd
from planted.outcomes import BadInputError
from planted.results import Provenance

__all__ = ["SOLVERS", "memorize"]

SOLVERS: Mapping[str, Callable[..., MemoryFit]] = {
    "direct": solve_direct,
    "cg": solve_cg,
    "low-rank": solve_low_rank,
    "ridge": solve_ridge,
    "pgd": solve_pgd,
    "adam": solve_adam,
    "lbfgs": solve_lbfgs,
}

DIRECT_ROWS = 15_000
"""Up to here "auto" factorises the kernel (1.8 GB); above, conjugate gradients take less time and memory."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What the user asked for."""

    layers: int
    solver: str
    bias: bool
    tol: float
    options: Mapping[str, Any]
    random_state: Seed

    def provenance(self, chosen: str, data: CheckedData) -> Provenance:
        """Return where an answer came from."""
        asked = {"layers": self.layers, "solver": self.solver, "bias": self.bias, "tol": self.tol}
        return Provenance(
            algorithm=f"memorize, {self.layers} layers, {chosen}",
            reference="GWZ20",
            parameters={**asked, **self.options},
            seed=seed_entropy(self.random_state),
            shape=(*data.X.shape, data.Y.shape[1]),
        )


def memorize(
    X: Any,
    y: Any,
    *,
    layers: int = 2,
    solver: str = "auto",
    bias: bool = False,
    tol: float = 1e-12,
    random_state: Seed = None,
    progress: Progress | None = None,
    **options: Any,
) -> Memory:
    """Find a small quadratic network that reproduces every label.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs.
    y : array_like of shape (n,) or (n, m)
        Labels: numbers of any kind; for classes see `planted.MemorizingClassifier`.
    layers : {2, 3}, default=2
        Two layers memorise up to d(d+1)/2 labels, three layers more, on random features.
    solver : str, default="auto"
        ``direct``, ``cg``, ``low-rank``, ``ridge``, ``pgd``, ``adam``, ``lbfgs``, or "auto": direct up to 15,000 rows,
        else cg.
    bias : bool, default=False
        Whether units may have biases and the output an offset.
    tol : float, default=1e-12
        The labels count as memorised when the loss is below ``tol`` times their mean square.
    random_state : int, Generator, SeedSequence or None
        Seed of random features and solver.
    progress : callable, optional
        Called as ``progress(what, fraction)`` while working.
    **options : Any
        Options of the solver (such as ``max_iter``, ``width``, ``penalty``, ``rank``, ``constants``) and, with three
        layers, ``power`` (2), ``n_random`` (2⌈√n⌉), ``feature_std`` (1) and ``smoothing``, the standard deviation of
        the noise that the inputs already carry.

    Returns
    -------
    Memory
        The network, the loss curve, and the theorem's conditions with their numbers.

    Examples
    --------
    >>> import planted
    >>> X = planted.simulate.inputs(300, n_features=100, law="uniform", random_state=0)
    >>> labels = planted.simulate.inputs(300, n_features=1, law="uniform", random_state=1)[:, 0]
    >>> memory = planted.memorize(X, labels)
    >>> memory.outcome.name, memory.loss < 1e-20, memory.network.n_hidden
    ('MEMORISED', True, 100)
    """
    _check_choices(layers, solver, tol)
    request = _Request(layers, solver, bias, tol, options, random_state)
    return _answer(request, check_rows(X, y, y_name="y"), progress or (lambda what, fraction: None))


def _answer(request: _Request, data: CheckedData, progress: Progress) -> Memory:
    """Standardise, solve, restore the user's units, judge."""
    watch, tol = _Watch(), request.tol
    feature_rng, solver_rng, theory_rng = solver_streams(request.random_state, 3)
    feature_options, solver_options = _split_options(request.options, request.layers)
    frame = standardise(data, feature_rng, bias=request.bias, features=feature_options)
    task = MemoryTask(frame.Z, frame.Y, solver_rng, tol * frame.Y.shape[1], progress)
    chosen = _choose(task) if request.solver == "auto" else request.solver
    solving = _Watch()
    fit = _run(chosen, task, solver_options)
    stats = {"solver": chosen, "iterations": int(fit.curve[-1][0]), **solving.read("solver_")}
    network = restore(fit, frame)
    conditions = gather_conditions(task, fit, network, data, label_scale=frame.label_scale)
    evidence = gather_evidence(task, fit, conditions, tol=tol, features=frame.theory(), rng=theory_rng)
    fallback = str(fit.notes.get("fallback", ""))
    outcome, detail = judge(chosen, conditions, data, tol=tol, has_bias=request.bias, fallback=fallback)
    return Memory(
        network=network,
        outcome=outcome,
        evidence=evidence,
        loss_curve=np.array(fit.curve, dtype=np.float64) * [1.0, frame.label_scale**2],
        conditions=conditions,
        stats={**stats, **watch.read(), **fit.notes, **task.interruption()},
        provenance=request.provenance(chosen, data),
        detail=detail,
    )


class _Watch:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self.started, self.cpu = perf_counter(), process_time()

    def read(self, prefix: str = "") -> dict[str, float]:
        taken = {"seconds": perf_counter() - self.started, "cpu_seconds": process_time() - self.cpu}
        return {prefix + name: value for name, value in taken.items()}


def _check_choices(layers: int, solver: str, tol: float) -> None:
    """Refuse what cannot be chosen."""
    if layers not in (2, 3):
        raise BadInputError(f"layers={layers!r}; expected 2 or 3")
    if solver != "auto" and solver not in SOLVERS:
        raise BadInputError(f"unknown solver {solver!r}; known are auto, {', '.join(SOLVERS)}")
    if not tol > 0:
        raise BadInputError(f"tol={tol}; expected a positive number")


def _split_options(options: Mapping[str, Any], layers: int) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Part the options of the random features, None for two layers, from those of the solver."""
    known = _options_of(draw_features)
    mine = {name: value for name, value in options.items() if name in known}
    if mine and layers == 2:
        raise BadInputError(f"{', '.join(sorted(mine))}: only with layers=3, which has random features")
    rest = {name: value for name, value in options.items() if name not in known}
    return mine if layers == 3 else None, rest


def _options_of(function: Callable[..., Any]) -> list[str]:
    """Return the keyword-only parameters of a function."""
    parameters = inspect.signature(function).parameters.values()
    return [item.name for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY]


def _choose(task: MemoryTask) -> str:
    """Return the solver of "auto"."""
    return "direct" if min(len(task.Z), task.capacity) <= DIRECT_ROWS else "cg"


def _run(solver: str, task: MemoryTask, options: dict[str, Any]) -> MemoryFit:
    """Run a solver with the options it knows."""
    known = _options_of(SOLVERS[solver])
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise BadInputError(
            f"solver {solver!r} has no option {', '.join(unknown)}; it knows {', '.join(known) or 'none'}"
        )
    limit = options.get("max_iter")
    if limit is not None and not (isinstance(limit, int | np.integer) and limit >= 1):
        raise BadInputError(f"max_iter={limit!r}; expected an integer of at least 1")
    fit = SOLVERS[solver](task, **options)
    if len(fit.W):
        return fit
    # Labels that are all zero need no unit; a network has at least one.
    q, m = task.Z.shape[1], task.Y.shape[1]
    return MemoryFit(np.zeros((1, q)), np.ones((m, 1)), fit.curve, fit.facts, fit.notes)
