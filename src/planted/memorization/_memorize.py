"""Memorise any labels with few units: quadratic networks of two and three layers.

Problem     Given n samples (x_j, y_j), find a network with about √n units per layer that reproduces every label. With
            two layers it is y = Σ_i a_i (w_i'x + b_i)² with a_i = ±1; with three layers the same on random features
            z = (Rx + s)^p.
Idea        The output depends on the weights only through the symmetric matrix M = W'diag(a)W and is linear in it, so
            that memorising is one linear system (`solvers._kernel` and `solvers._cg`), whose solution is split into
            at most d signed units. The paper trains the weights instead (`solvers._descent`, `solvers._adam`, and for
            comparison `solvers._lbfgs`); `solvers._low_rank` looks for the fewest units.
Guarantee   Theorem 4 of [GWZ20]_: if the x_j⊗x_j are linearly independent, 2d+2 units memorise any labels. With the
            linear system d units do. Theorem 5: 2⌈√n⌉ random features suffice for three layers if the inputs are
            slightly perturbed. Nothing is promised about inputs that were not memorised.
Notation    paper: r units, W is d × r, k features;  here: W is (k, d) with one unit per row, and there are q
            features. The loss is f = 1/(4n) Σ (output - y)².
Departures  Linear solves are offered beside descent. The number of units per output is at most d with linear solvers
            and 2d+2 with descent. With ``bias`` the inputs are centred and a constant is appended, which the paper
            does not do; rows of zeros and labels with an offset then become possible. Several outputs share nothing
            but the random features.
Cost        See the modules of the solvers.
References  [GWZ20]_
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import Any

import numpy as np

from planted._clock import StopRequested, time_budget
from planted._streams import seed_entropy, solver_streams
from planted._threads import one_thread_inside
from planted._typing import Progress, Seed
from planted._validation import CheckedData, check_rows
from planted.memorization._evidence import gather_conditions, gather_evidence, judge
from planted.memorization._result import Memory
from planted.memorization._task import MemoryFit, MemoryTask
from planted.memorization._units import draw_features, restore, standardise
from planted.memorization.solvers import SOLVERS
from planted.outcomes import BadInputError
from planted.results import Provenance

__all__ = ["SOLVERS", "memorize"]

DIRECT_ROWS = 15_000
"""Up to here "auto" factorises the kernel (1.8 GB); above, conjugate gradients take less time and memory."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What the user asked for."""

    layers: int
    solver: str
    bias: bool
    tol: float
    budget_seconds: float | None
    random_state: Seed
    options: Mapping[str, Any]

    def provenance(self, chosen: str, data: CheckedData) -> Provenance:
        """Return where an answer came from."""
        asked = {name: getattr(self, name) for name in ("layers", "solver", "bias", "tol", "budget_seconds")}
        return Provenance(
            algorithm=f"memorize, {self.layers} layers, {chosen}",
            reference="GWZ20",
            parameters={**asked, **self.options},
            seed=seed_entropy(self.random_state),
            shape=(*data.X.shape, data.Y.shape[1]),
        )


@one_thread_inside
def memorize(
    X: Any,
    y: Any,
    *,
    layers: int = 2,
    solver: str = "auto",
    bias: bool = False,
    tol: float = 1e-12,
    random_state: Seed = None,
    budget_seconds: float | None = None,
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
        Two layers memorise up to d(d+1)/2 labels; three layers, on q random features of power p, up to the smaller of
        q(q+1)/2 and C(d+2p-1, 2p).
    solver : str, default="auto"
        ``direct``, ``cg``, ``low-rank``, ``ridge``, ``pgd``, ``adam``, ``lbfgs``, or "auto": direct up to 15,000 rows,
        else cg.
    bias : bool, default=False
        Whether units may have biases and the output an offset.
    tol : float, default=1e-12
        The labels count as memorised when the loss is below ``tol`` times their mean square.
    random_state : int, Generator, SeedSequence or None
        Seed of random features and solver.
    budget_seconds : float, optional
        Time limit, checked between the steps of the solver. The best network so far is then returned, as
        ``STOPPED_EARLY`` unless it reproduces every label; it is zero if there is none yet. Costly conditions are left
        out of a record whose time is used up.
    progress : callable, optional
        Callback ``progress(message, fraction)``.
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
    if layers not in (2, 3):
        raise BadInputError(f"layers={layers!r}; expected 2 or 3")
    if solver != "auto" and solver not in SOLVERS:
        raise BadInputError(f"unknown solver {solver!r}; known are auto, {', '.join(SOLVERS)}")
    if not tol > 0:
        raise BadInputError(f"tol={tol}; expected a positive number")
    request = _Request(layers, solver, bias, tol, budget_seconds, random_state, options)
    with time_budget(budget_seconds):
        return _answer(request, check_rows(X, y, y_name="y"), progress or (lambda what, fraction: None))


def _answer(request: _Request, data: CheckedData, progress: Progress) -> Memory:
    """Standardise, solve, convert to the user's units, measure and judge."""
    watch, tol = _Watch(), request.tol
    feature_rng, solver_rng, theory_rng = solver_streams(request.random_state, 3)
    feature_options, solver_options = _split_options(request.options, request.layers)
    frame = standardise(data, feature_rng, bias=request.bias, features=feature_options)
    task = MemoryTask(frame.Z, frame.Y, solver_rng, tol * frame.Y.shape[1], progress)
    chosen = request.solver
    if chosen == "auto":
        chosen = "direct" if min(len(task.Z), task.capacity) <= DIRECT_ROWS else "cg"
    solving = _Watch()
    fit = _solve(chosen, task, solver_options)
    stats: dict[str, Any] = {"solver": chosen, "iterations": int(fit.curve[-1][0]), **solving.read("solver_")}
    network = restore(fit, frame)
    conditions = gather_conditions(task, fit, network, data, frame)
    evidence = gather_evidence(task, fit, conditions, frame, tol=tol, rng=theory_rng)
    outcome, detail = judge(task, fit, conditions, data, solver=chosen, tol=tol, has_bias=request.bias)
    stats |= {**watch.read(), **fit.notes}
    stats |= {"fallback": fit.fallback} if fit.fallback else {}
    stats |= {"interrupted_by": task.interruptions[0]} if task.interruptions else {}
    return Memory(
        network=network,
        outcome=outcome,
        evidence=evidence,
        loss_curve=np.array(fit.curve, dtype=np.float64) * [1.0, frame.label_scale**2],
        conditions=conditions,
        stats=stats,
        provenance=request.provenance(chosen, data),
        detail=detail,
    )


class _Watch:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self.started, self.cpu = perf_counter(), process_time()

    def read(self, prefix: str = "") -> dict[str, float]:
        """Return both numbers, with a prefix before their names."""
        taken = {"seconds": perf_counter() - self.started, "cpu_seconds": process_time() - self.cpu}
        return {prefix + name: value for name, value in taken.items()}


def _split_options(options: Mapping[str, Any], layers: int) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the options of the random features, None for two layers, and those of the solver."""
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


def _solve(solver: str, task: MemoryTask, options: dict[str, Any]) -> MemoryFit:
    """Run a solver with the options it knows; a stop before it has anything to show leaves a zero network."""
    known = _options_of(SOLVERS[solver])
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise BadInputError(
            f"solver {solver!r} has no option {', '.join(unknown)}; it knows {', '.join(known) or 'none'}"
        )
    limit = options.get("max_iter")
    if limit is not None and not (isinstance(limit, int | np.integer) and limit >= 1):
        raise BadInputError(f"max_iter={limit!r}; expected an integer of at least 1")
    zero = MemoryFit.zero(task)
    try:
        fit = SOLVERS[solver](task, **options)
    except StopRequested as stop:
        task.note_stop(stop)
        return zero
    # Labels that are all zero need no unit; a network has at least one.
    return fit if len(fit.W) else replace(fit, W=zero.W, A=zero.A)
