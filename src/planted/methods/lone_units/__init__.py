r"""Recover a network with fewer outputs than units from samples on which a single unit is active (BJW18 §6).

Problem     Noiseless Y = f(X W') A' with f rectified, no biases, at least two outputs, no two columns of A parallel;
            m may be smaller than k. Sought: W and A.
Idea        Where unit i alone is active, y = f(w_i'x) a_i: a positive multiple of a column of A. Two samples with
            several active units are parallel with probability zero (Algorithm 7).
            1. group samples whose outputs are positive multiples of each other;
            2. a group of more than d samples is one unit: f⁻¹(|y|) = w'x on it, by least squares;
            3. A by least squares on all samples.
Guarantee   Theorem 11 of [BJW18]_: for normal x and n > κ(W)^{O(k)} poly(d, k, m) samples, exact with high
            probability. Here: every group's linear system must be solved exactly, with at least one equation more
            than unknowns, and the network must reproduce all samples. Kind: heuristic in the sense of the
            certificate, since no search for other explanations exists for m < k.
Notation    paper: A (ours Y'), U (A), V (W), S_i (group i), c_ij (|y_j| relative to the group's direction).
Departures  The printed condition, no two columns *positive* multiples, is not enough: for columns u and -u a third of
            the samples parallel to u have both units active. Columns must not be parallel in either sign, which rules
            out m = 1; both are refused. Repeated and proportional inputs, which are parallel for no reason, are kept
            from forming groups by the rank of the group's inputs. The sample need d log(k)(kκ)^{2k} of Lemma 21 is
            far too large to be useful; the prediction is (d + 2) over the probability that the rarest unit is alone,
            for normal x with the measured W.
Cost        O(n log n) for the groups, O(n d²) for the fits.
References  [BJW18]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, BoolArray, IntArray
from planted.certificates.searches._exact_units import ExactSearch, begin_search, finish_search
from planted.checks import Check
from planted.fitting._run import MethodRun
from planted.outcomes import Outcome
from planted.results import Evidence, Recovery

__all__ = ["parallel_groups", "predict_lone_samples", "recover"]

PARALLEL_TOL = 1e-9  # distance of directions that are the same; rounding leaves 1e-15
LINEAR_TOL = 1e-8  # relative residual of a group's linear system
TINY_OUTPUT = 1e-12  # relative; the direction of smaller outputs is not known
DRAWS = 20_000  # normal inputs for the prediction
PARALLEL_COLUMNS = (
    "the outputs of {size} samples are parallel, but their inputs do not fit one unit (relative residual {residual:.1e}): "
    "two columns of A are parallel, with the same or with opposite signs, or there are biases or noise"
)


@dataclass(frozen=True, slots=True)
class _Lone:
    """What the groups say: one row per group that is large enough."""

    W: Array
    directions: Array
    sizes: IntArray
    small: IntArray  # sizes of the groups that are too small, largest first
    misfit_size: int
    misfit: float


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    activation: str = "relu",
) -> Recovery:
    """Recover a network from samples with one active unit.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; the number of groups if "auto".
    activation : str
        ``"relu"`` or a rectified power such as ``"power:2"``.

    Returns
    -------
    Recovery
        The network with its evidence.
    """
    search = begin_search(run, activation, needs_rank=False)
    problem = search.problem
    search.X = problem.X  # groups need all rows there are
    run.refuse_unless(
        Evidence("outputs", problem.n_outputs, 2, ">=", "m >= 2", key=Check.OUTPUTS),
        detail="outputs: 1; the method needs >= 2 (with one output all samples are parallel).",
    )
    groups = parallel_groups(problem.Y, problem.rng)  # steps 1 and 2 of Algorithm 7
    lone = _fit_groups(search, groups)  # steps 3 and 4
    _check_groups(search, lone)
    search.n_hidden = len(lone.W)
    need, condition = predict_lone_samples(lone.W / problem.scaling.x_scale, problem.rng)
    run.note(
        Evidence(
            "samples on which the rarest unit is alone",
            int(lone.sizes.min()),
            problem.n_features + 1,
            ">=",
            key=Check.ALONE_SAMPLES,
        ),
        Evidence("condition number of W", condition, key=Check.CONDITION_OF_W),
        Evidence("samples predicted to be needed for normal inputs", need, key=Check.PREDICTED_SAMPLES),
    )
    rivals = 0 if search.n_hidden <= search.Q.shape[1] else None
    search.X = problem.X[: len(search.Q)]
    return finish_search(search, lone.W, rivals=rivals)


def parallel_groups(Y: Array, rng: np.random.Generator) -> list[IntArray]:
    """Group rows that are positive multiples of each other (steps 1 and 2).

    Returns row numbers of every group of at least two, largest first. Shapes: Y (n, m).

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [0.0, 0.0], [2.0, 4.0], [-1.0, -2.0]])
    >>> print(*parallel_groups(rows, np.random.default_rng(0)))
    [0 2]
    """
    lengths = np.linalg.norm(Y, axis=1)
    usable = np.flatnonzero(lengths > TINY_OUTPUT * lengths.max(initial=0.0))
    directions = Y[usable] / lengths[usable, None]
    pending = [np.arange(len(usable))]
    for projection in rng.standard_normal((2 * Y.shape[1], Y.shape[1])):
        check_time()
        pending = [part for group in pending for part in _split(group, directions @ projection)]
    groups = [usable[np.sort(group)] for group in pending if len(group) > 1]
    return sorted(groups, key=lambda group: (-len(group), int(group[0])))


def _split(group: IntArray, values: Array) -> list[IntArray]:
    """Cut a group where sorted projections jump."""
    order = group[np.argsort(values[group], kind="stable")]
    jumps = np.flatnonzero(np.diff(values[order]) > PARALLEL_TOL) + 1
    return [part for part in np.split(order, jumps) if len(part) > 1]


def _fit_groups(search: ExactSearch, groups: list[IntArray]) -> _Lone:
    """Solve the linear system of every group with more samples than inputs (steps 3 and 4)."""
    X, Y = search.problem.X, search.problem.Y
    d = X.shape[1]
    rows, directions, sizes, small = [], [], [], []
    worst = (0, 0.0)
    for group in groups:
        kept = group[np.unique(X[group], axis=0, return_index=True)[1]]
        if len(kept) <= d or np.linalg.matrix_rank(X[kept]) < d:
            small.append(len(kept))
            continue
        lengths = np.linalg.norm(Y[kept], axis=1)
        t = lengths ** (1.0 / search.activation.degree)
        w = linalg.lstsq(X[kept], t, check_finite=False)[0]
        misfit = float(np.linalg.norm(X[kept] @ w - t) / np.linalg.norm(t))
        if misfit > LINEAR_TOL:
            worst = max(worst, (len(kept), misfit))
            continue
        rows.append(w / np.linalg.norm(w))
        directions.append((Y[kept] / lengths[:, None]).mean(axis=0))
        sizes.append(len(kept))
    return _Lone(
        np.array(rows).reshape(len(rows), d),
        np.array(directions).reshape(len(rows), Y.shape[1]),
        np.array(sizes, dtype=np.intp),
        np.array(sorted(small, reverse=True), dtype=np.intp),
        *worst,
    )


def _check_groups(search: ExactSearch, lone: _Lone) -> None:
    """Refuse parallel columns and too few groups, by name."""
    run, (n_samples, d, _) = search.run, search.problem.shape
    text = PARALLEL_COLUMNS.format(size=lone.misfit_size, residual=lone.misfit)
    name = "residual of a group of parallel outputs"
    run.refuse_unless(
        Evidence(name, lone.misfit, LINEAR_TOL, "<=", "Algorithm 7", key=Check.GROUP_RESIDUAL),
        detail=f"{text[0].upper()}{text[1:]}.",
    )
    opposite = _opposite(lone.directions)
    if opposite.any():
        i, j = (int(index) for index in np.argwhere(opposite)[0])
        count = int(opposite.sum()) // 2
        run.require(
            Evidence("parallel columns of A", count, 0, "==", "Algorithm 7", key=Check.PARALLEL_OUTPUTS),
            detail=f"Columns {i} and {j} of A are parallel with opposite signs: samples along them may have both units "
            "active.",
        )
    found, asked = len(lone.W), run.n_hidden
    wanted = asked if isinstance(asked, int) else max(search.Q.shape[1], 1)
    if not found and not len(lone.small) and n_samples >= (d + 2) * 2**wanted:
        run.require(
            Evidence("samples with parallel outputs", 0, d + 1, ">=", "Algorithm 7", key=Check.ALONE_SAMPLES),
            detail=f"No two of {n_samples} samples have parallel outputs, so no unit was ever alone: there is noise, an "
            "offset, or a unit that is always on.",
        )
    if found < wanted:
        need = _need_of_missing(search, lone, wanted)
        run.refuse(
            Outcome.TOO_FEW_SAMPLES,
            f"{found} of {wanted} units were alone on more than {d} samples; there are {n_samples} samples, and "
            f"about {need} are needed.",
            Evidence(
                f"units alone on more than {d} samples",
                found,
                wanted,
                ">=",
                "Lemma 21",
                key=Check.UNITS_ALONE,
            ),
            Evidence("samples predicted to be needed", need, n_samples, "<=", key=Check.PREDICTED_SAMPLES),
        )
    if isinstance(asked, int):
        run.refuse_unless(
            Evidence("units seen alone", found, asked, "==", "k groups", key=Check.UNITS_ALONE),
            detail=f"{found} units were seen alone; {asked} were asked for.",
        )


def _opposite(directions: Array) -> BoolArray:
    return np.asarray(np.linalg.norm(directions[:, None] + directions[None], axis=2) < PARALLEL_TOL)


def _need_of_missing(search: ExactSearch, lone: _Lone, wanted: int) -> int:
    """Predict the samples needed from the groups that are still too small; from W = orthonormal where there are none."""
    n, d = search.problem.n_samples, search.problem.n_features
    missing = wanted - len(lone.W)
    if len(lone.small) >= missing:
        return int(np.ceil(n * (d + 2) / lone.small[missing - 1]))
    return max(int((d + 2) * 2**wanted), 2 * n)  # orthonormal units are alone with probability 2^-k


def predict_lone_samples(W: Array, rng: np.random.Generator) -> tuple[int, float]:
    """Predict the samples needed from a measured W.

    Returns need: ``(d + 2)`` over the estimated probability that the rarest unit is alone; condition: condition
    number of W with unit rows. Shapes: W (k, d).
    """
    d = W.shape[1]
    rows = W / np.linalg.norm(W, axis=1, keepdims=True)
    on = rng.standard_normal((DRAWS, d)) @ rows.T > 0
    alone = on[on.sum(axis=1) == 1]
    rarest = max(int(alone.sum(axis=0).min(initial=len(alone))) if len(alone) else 0, 1)
    return int(np.ceil((d + 2) * DRAWS / rarest)), float(np.linalg.cond(rows))
