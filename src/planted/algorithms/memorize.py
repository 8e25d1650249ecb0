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
from planted._typing import Array, Progress, Seed
from planted._validation import check_rows
from planted.algorithms.memorize_adam import solve_adam
from planted.algorithms.memorize_cg import solve_cg
from planted.algorithms.memorize_descent import solve_lbfgs, solve_pgd
from planted.algorithms.memorize_evidence import gather_conditions, gather_evidence, judge
from planted.algorithms.memorize_kernel import solve_direct, solve_ridge
from planted.algorithms.memorize_low_rank import solve_low_rank
from planted.algorithms.memorize_result import Memory, ThreeLayerNetwork
from planted.algorithms.memorize_task import MemoryFit, MemoryTask
from planted.networks import TwoLayerNetwork
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
class _Units:
    """The change from the user's data to the solver's: z = features((x - shift)/scale), y = label_scale y' + offset."""

    shift: Array
    scale: float
    has_bias: bool
    label_scale: float
    offset: Array


@dataclass(frozen=True, slots=True)
class _Features:
    """Random features z = (G u)^p of standardised rows u."""

    G: Array
    power: int
    smoothing: float


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
    started, cpu = perf_counter(), process_time()
    data = check_rows(X, y, y_name="y")
    _check_choices(layers, solver, tol)
    feature_rng, solver_rng, theory_rng = solver_streams(random_state, 3)
    feature_options, solver_options = _split_options(options, layers)
    inputs, units = _standardise(data.X, data.Y, bias)
    features = _draw_features(inputs, feature_rng, **feature_options) if layers == 3 else None
    Z = inputs if features is None else (inputs @ features.G.T) ** features.power
    feature_scale = 1.0 if features is None else _root_mean_square_norm(Z)
    task = MemoryTask(
        Z=Z / feature_scale,
        Y=(data.Y - units.offset) / units.label_scale,
        rng=solver_rng,
        tol=tol * data.Y.shape[1],
        progress=progress or (lambda what, fraction: None),
    )
    chosen = _choose(task) if solver == "auto" else solver
    solve_started, solve_cpu = perf_counter(), process_time()
    fit = _run(chosen, task, solver_options)
    solver_seconds = {
        "solver_seconds": perf_counter() - solve_started,
        "solver_cpu_seconds": process_time() - solve_cpu,
    }
    network = _restore(fit, units, features, feature_scale)
    conditions = gather_conditions(task, fit, network, data, label_scale=units.label_scale)
    theory = (
        None
        if features is None
        else {"inputs": inputs, "power": features.power, "smoothing": features.smoothing / units.scale}
    )
    evidence = gather_evidence(task, fit, conditions, tol=tol, features=theory, rng=theory_rng)
    outcome, detail = judge(
        chosen, conditions, data, tol=tol, has_bias=bias, fallback=str(fit.notes.get("fallback", ""))
    )
    return Memory(
        network=network,
        outcome=outcome,
        evidence=evidence,
        loss_curve=np.array(fit.curve, dtype=np.float64) * [1.0, units.label_scale**2],
        conditions=conditions,
        stats={
            "solver": chosen,
            "iterations": int(fit.curve[-1][0]),
            **solver_seconds,
            "seconds": perf_counter() - started,
            "cpu_seconds": process_time() - cpu,
            **fit.notes,
        },
        provenance=Provenance(
            algorithm=f"memorize, {layers} layers, {chosen}",
            reference="GWZ20",
            parameters={"layers": layers, "solver": solver, "bias": bias, "tol": tol, **options},
            seed=seed_entropy(random_state),
            shape=(*data.X.shape, data.Y.shape[1]),
        ),
        detail=detail,
    )


def _check_choices(layers: int, solver: str, tol: float) -> None:
    """Refuse what cannot be chosen."""
    if layers not in (2, 3):
        raise BadInputError(f"layers={layers!r}; expected 2 or 3")
    if solver != "auto" and solver not in SOLVERS:
        raise BadInputError(f"unknown solver {solver!r}; known are auto, {', '.join(SOLVERS)}")
    if not tol > 0:
        raise BadInputError(f"tol={tol}; expected a positive number")


def _split_options(options: Mapping[str, Any], layers: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part the options of the random features from those of the solver."""
    known = _options_of(_draw_features)
    mine = {name: value for name, value in options.items() if name in known}
    if mine and layers == 2:
        raise BadInputError(f"{', '.join(sorted(mine))}: only with layers=3, which has random features")
    return mine, {name: value for name, value in options.items() if name not in known}


def _options_of(function: Callable[..., Any]) -> list[str]:
    """Return the keyword-only parameters of a function."""
    parameters = inspect.signature(function).parameters.values()
    return [item.name for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY]


def _standardise(X: Array, Y: Array, has_bias: bool) -> tuple[Array, _Units]:
    """Bring rows to a root-mean-square norm of one and labels to a root mean square of one.

    With a bias, rows and labels are centred first and a constant is appended, as large as a typical row.
    """
    shift = X.mean(axis=0) if has_bias else np.zeros(X.shape[1])
    offset = Y.mean(axis=0) if has_bias else np.zeros(Y.shape[1])
    rows = X - shift if has_bias else X
    scale = _root_mean_square_norm(rows)
    label_scale = _root_mean_square_norm(Y - offset) / np.sqrt(Y.shape[1])
    rows = rows / scale
    if has_bias:
        rows = np.column_stack([rows, np.ones(len(rows))]) / np.sqrt(2.0)
    return rows, _Units(shift, scale, has_bias, label_scale, offset)


def _root_mean_square_norm(rows: Array) -> float:
    """Return the root-mean-square norm of the rows without overflow; 1 if all are zero."""
    largest = float(np.abs(rows).max())
    if largest == 0:
        return 1.0
    return largest * float(np.sqrt(np.mean(np.sum((rows / largest) ** 2, axis=1))))


def _draw_features(
    inputs: Array,
    rng: np.random.Generator,
    *,
    power: int = 2,
    n_random: int | str = "auto",
    feature_std: float = 1.0,
    smoothing: float = 0.0,
) -> _Features:
    """Draw the first layer: 2⌈√n⌉ Gaussian features (Theorem 5) unless told otherwise."""
    if isinstance(power, bool) or not isinstance(power, int) or power < 2:
        raise BadInputError(f"power={power!r}; expected an integer of at least 2")
    count = 2 * int(np.ceil(np.sqrt(len(inputs)))) if n_random == "auto" else n_random
    if isinstance(count, str) or count < 1:
        raise BadInputError(f"n_random={n_random!r}; expected 'auto' or a number of at least 1")
    if not feature_std > 0 or smoothing < 0:
        raise BadInputError(
            f"feature_std={feature_std}, smoothing={smoothing}; expected a positive number and one not negative"
        )
    return _Features(feature_std * rng.standard_normal((count, inputs.shape[1])), power, smoothing)


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
    fit = SOLVERS[solver](task, **options)
    if len(fit.W):
        return fit
    # Labels that are all zero need no unit; a network has at least one.
    q, m = task.Z.shape[1], task.Y.shape[1]
    return MemoryFit(np.zeros((1, q)), np.ones((m, 1)), fit.curve, fit.facts, fit.notes)


def _restore(
    fit: MemoryFit, units: _Units, features: _Features | None, feature_scale: float
) -> TwoLayerNetwork | ThreeLayerNetwork:
    """Return the network in the user's units."""
    d = len(units.shift)
    W = fit.W * (np.sqrt(units.label_scale) / feature_scale)
    if features is not None:
        R, s = _restore_affine(features.G, units, d)
        head = TwoLayerNetwork(W=W, A=fit.A, c=units.offset, activation="quadratic")
        return ThreeLayerNetwork(R, s, features.power, head)
    weights, b = _restore_affine(W, units, d)
    return TwoLayerNetwork(W=weights, b=b, A=fit.A, c=units.offset, activation="quadratic")


def _restore_affine(rows: Array, units: _Units, d: int) -> tuple[Array, Array]:
    """Return weights and biases on the user's inputs for rows that act on standardised ones."""
    if not units.has_bias:
        return rows / units.scale, np.zeros(len(rows))
    weights = rows[:, :d] / (np.sqrt(2.0) * units.scale)
    return weights, rows[:, d] / np.sqrt(2.0) - weights @ units.shift
