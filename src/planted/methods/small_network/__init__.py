r"""Fit a small network to data that need not come from one.

Problem     No network made the data, as with most tables of the world, yet a small one may predict well. Find it, the same
            one at every run with the same seed, and claim nothing but its prediction error.
Idea        1. Write a linear fit as pairs of units, since σ(t) - σ(-t) = t.
            2. Add units greedily: of many random half-spaces the one whose activation explains most of the residual.
            3. At each of some widths refine all units together, with a ridge on the output weights.
            4. Choose the width and the ridge with the smallest cross-validated error, and refine on all rows. (The
               smallest width within one standard error of the best predicted worse on real tables: on one of them it
               left 0.88 of the variance instead of 0.62.)
Guarantee   None; the outcome is FITTED. The cross-validated error is in the evidence.
Departures  Ours; no paper.
Cost        A few hundred small refinements on at most `MAX_ROWS` rows, one on all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.checks import Check
from planted.fitting._problem import Problem
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import MethodRun
from planted.linalg import unit_rows
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict
from planted.rows import RowBlocks

__all__ = ["recover"]

WIDTHS = (0, 1, 2, 3, 5, 8, 12, 16)
RIDGES = (1.0, 1e-1, 1e-2, 1e-3)  # per row of standardised data
LINEAR_RIDGE = 1e-3
FOLDS = 5
MAX_ROWS = 3000
HALF_SPACES = 200
STEPS = 15
MAX_LINEAR_RANK = 3
PRESENT = 1e-8  # length of what is left of an activation that the units already present explain


@dataclass(frozen=True, slots=True)
class _Choice:
    """A width and a ridge with their mean squared error on rows held out."""

    width: int
    ridge: float
    error: float


def recover(run: MethodRun, n_hidden: int | str = "auto") -> Recovery:
    """Fit a small network; its outcome is FITTED.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Units beside the linear part; chosen by cross-validation if "auto".

    Returns
    -------
    Recovery
        The network with its cross-validated error.
    """
    problem = run.problem = run.problem.with_sample(MAX_ROWS)
    path = list(_cross_validate(problem, n_hidden))
    choice = min(path, key=lambda item: (item.error, item.width))
    rng = np.random.default_rng(0)  # of its own: the same at every seed
    network = _fit_path(problem.X, problem.Y, choice.width, choice.ridge, rng)[-1].network
    ridge = choice.ridge * problem.n_samples
    fit = refine(problem.blocks, problem.scaling.in_order(network), ridge=ridge, max_iter=STEPS)
    level = float((problem.Y - problem.Y.mean(axis=0)).var()) or 1.0
    name = "cross-validated squared error, relative to the outputs' variance"
    run.note(
        Evidence(name, choice.error / level, key=Check.HELD_OUT_ERROR),
        Evidence("units beside the linear part", choice.width, key=Check.WIDTH),
        Evidence("ridge per sample", choice.ridge, key=Check.RIDGE),
    )
    run.trace += [{"k": item.width, "ridge": item.ridge, "score": item.error} for item in path]
    text = "The best small network by cross-validation; nothing shows that it is the planted one."
    doubt = Unavailable("The fit is penalised and not claimed to be the planted network.")
    return run.finish_restored(
        problem.scaling.restore(fit.network).simplify(),
        Verdict(Outcome.FITTED, Guarantee.NONE, (), text, doubt),
        iterations=fit.iterations,
        held_out_mse=choice.error * problem.scaling.y_scale**2,
    )


def _cross_validate(problem: Problem, n_hidden: int | str) -> Iterator[_Choice]:
    """Yield the mean held-out error of every width and ridge."""
    X, Y = problem.X, problem.Y
    n, m = Y.shape
    if n < 2 * FOLDS:
        yield _Choice(0, RIDGES[0], float(Y.var()))
        return
    folds = np.random.default_rng(FOLDS).permutation(n) % FOLDS  # of its own: the same at every seed
    per_unit = X.shape[1] + 1 + m
    widest = n_hidden if isinstance(n_hidden, int) else max(n * m // (4 * per_unit), 0)
    widths = [n_hidden] if isinstance(n_hidden, int) else [k for k in WIDTHS if k <= widest]
    errors: dict[tuple[int, float], list[float]] = {}
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        for number, ridge in enumerate(RIDGES):
            done = (fold + number / len(RIDGES)) / FOLDS
            problem.progress("cross-validating small networks", done)
            fits = _fit_path(X[train], Y[train], max(widths), ridge, np.random.default_rng(fold))
            for fit, width in zip(fits, _path(max(widths)), strict=True):
                if width in widths:
                    loss = float(((Y[test] - fit.network(X[test])) ** 2).mean())
                    errors.setdefault((width, ridge), []).append(loss)
    for (width, ridge), losses in errors.items():
        yield _Choice(width, ridge, float(np.mean(losses)))


def _path(widest: int) -> list[int]:
    """Return the widths at which the units are refined."""
    return [*(k for k in WIDTHS if k < widest), widest]


def _fit_path(X: Array, Y: Array, widest: int, ridge: float, rng: np.random.Generator) -> list[Refinement]:
    """Fit the linear part, then add units greedily; one refinement for each width of the path."""
    rows = RowBlocks.from_arrays(X, Y)
    network = _linear_network(X, Y)
    fits, present = [], 0
    for width in _path(widest):
        if width > present:
            network = _add_units(network, X, Y, width - present, rng)
            present = width
        fit = refine(rows, network, ridge=ridge * len(X), max_iter=STEPS)
        network = fit.network
        fits.append(fit)
    return fits


def _linear_network(X: Array, Y: Array) -> TwoLayerNetwork:
    """Write a ridge regression of small rank as pairs of opposite units."""
    mean = Y.mean(axis=0)
    gram = X.T @ X + LINEAR_RIDGE * max(len(X), 1) * np.eye(X.shape[1])
    slope = linalg.solve(gram, X.T @ (Y - mean), assume_a="pos", check_finite=False).T
    left, values, right = linalg.svd(slope, full_matrices=False, check_finite=False)
    rank = min(max(int((values > 1e-12 * max(values[0], 1e-300)).sum()), 1), MAX_LINEAR_RANK)
    W = np.vstack([right[:rank], -right[:rank]])
    A = np.hstack([left[:, :rank] * values[:rank], -left[:, :rank] * values[:rank]])
    return TwoLayerNetwork(W, None, A, mean)


def _add_units(
    network: TwoLayerNetwork, X: Array, Y: Array, count: int, rng: np.random.Generator
) -> TwoLayerNetwork:
    """Add the half-spaces that explain most of the residual, one after the other."""
    directions = unit_rows(rng.standard_normal((HALF_SPACES, X.shape[1])))[0]
    t = X @ directions.T
    cuts = np.diag(np.quantile(t, rng.uniform(0.1, 0.9, HALF_SPACES), axis=0))
    H = np.maximum(t - cuts, 0.0)
    Q = linalg.orth(augment(np.hstack([X, network.activation(network.preactivations(X))])))
    residual = Y - network(X)
    chosen: list[int] = []
    for _ in range(count):
        remaining = H - Q @ (Q.T @ H)
        norms = np.linalg.norm(remaining, axis=0)
        gains = np.linalg.norm(remaining.T @ residual, axis=1) / np.maximum(norms, PRESENT)
        gains = np.where(norms > PRESENT, gains, -1.0)
        gains[chosen] = -1.0
        best = int(np.argmax(gains))
        chosen.append(best)
        if norms[best] > PRESENT:
            Q = np.column_stack([Q, remaining[:, best] / norms[best]])
    W = np.vstack([network.W, directions[chosen]])
    b = np.concatenate([network.b, -cuts[chosen]])
    A = np.hstack([network.A, np.zeros((len(network.A), count))])
    return TwoLayerNetwork(W, b, A, network.c)
