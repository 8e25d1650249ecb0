"""Choose a ridge for networks fitted to few labels, by cross-validation.

Problem     With few labels per unknown, or labels that a network separates, the likelihood has its maximum far from the
            truth or nowhere. A ridge λ/2 |θ|² on the weights of standardised inputs keeps the fit finite. How large?
Idea        Folds of the rows; on each, fits from the same random units with ridges from the smallest to the largest, each
            begun where the last one ended (a large ridge switches units off, and none comes back); the largest ridge
            (and, where it is free, the smallest width) whose loss on the rows left out exceeds the smallest by no more than
            one standard error of that excess: separated labels make fits that are too sure of themselves. A ridge on both
            layers switches needless units off, so that few widths are worth trying. The answer is the best of several fits
            with that ridge on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planted._typing import Array, BoolArray, IntArray
from planted.fitting.curved._units import random_units
from planted.fitting.likelihoods._fit import LabelFit, LabelRows, fit_labels
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks

__all__ = ["RidgeChoice", "choose_ridge"]

# The smallest is the weakly informative prior of Gelman et al. (2008, Ann. Appl. Stat. 2): weights of inputs with standard
# deviation one half have 2.5, so that 1 / 1.25² belongs to standardised ones.
RIDGES = (0.64, 1.6, 4.0, 10.0, 25.0)
BRIEF_RIDGE = 1.0
WIDTHS = (0, 1, 4)  # none: the linear part alone
FOLDS = 5
STARTS = 3
FOLD_ITER, FOLD_TOL = 30, 0.02
FIT_ITER, FIT_TOL = 200, 1e-7


@dataclass(frozen=True, slots=True)
class RidgeChoice:
    """A fit with a ridge."""

    fit: LabelFit
    ridge: float
    held_out: float  # mean loss on rows left out; NaN if none were


def choose_ridge(
    rows: LabelRows, like: TwoLayerNetwork, *, can_narrow: bool, is_brief: bool, rng: np.random.Generator
) -> RidgeChoice:
    """Choose the ridge and fit with it.

    `like`: a network of the form that is fitted. `can_narrow`: whether other widths may be chosen. `is_brief`: no
    cross-validation, the ridge is `BRIEF_RIDGE`.
    """
    widths = tuple(k for k in WIDTHS if k or like.B is not None) if can_narrow else (like.n_hidden,)
    ridge, width, held_out = BRIEF_RIDGE, widths[-1], float("nan")
    if not is_brief:
        X, Y, w = _in_memory(rows)
        folds = _folds(Y, rng)
        losses: dict[tuple[float, int], Array] = {}
        for k in widths:
            start = _fresh(like, k, rng)
            parts = [_fold_losses(rows, (X, Y, w), folds == fold, start) for fold in range(FOLDS)]
            losses |= {(size, -k): part for size, part in zip(RIDGES, np.array(parts).T, strict=True)}
        ridge, width = _most_careful(losses)
        held_out = float(losses[ridge, width].sum() / len(X))
        width = -width
    fits = [
        _fit(rows, _fresh(like, width, rng), ridge, FIT_ITER, FIT_TOL)
        for _ in range(1 if is_brief else STARTS)
    ]
    return RidgeChoice(min(fits, key=lambda each: each.cost), ridge, held_out)


def _most_careful(losses: dict[tuple[float, int], Array]) -> tuple[float, int]:
    """Return the largest choice whose loss exceeds the smallest by no more than one standard error of that excess."""
    least = min(losses.values(), key=lambda each: float(each.sum()))

    def is_near(each: Array) -> bool:
        excess = each - least
        return bool(excess.sum() <= np.sqrt(len(excess)) * excess.std(ddof=1))

    return max(choice for choice, each in losses.items() if is_near(each))


def _fold_losses(
    rows: LabelRows, data: tuple[Array, Array, Array | None], is_out: BoolArray, start: TwoLayerNetwork
) -> list[float]:
    """Loss on the rows left out, for every ridge."""
    X, Y, w = data
    inner = None if w is None else w[~is_out]
    part = replace(
        rows,
        blocks=RowBlocks.from_arrays(X[~is_out], Y[~is_out], weights=inner),
        n_samples=int((~is_out).sum()),
    )
    losses, network = [], start
    for ridge in RIDGES:
        network = _fit(part, network, ridge, FOLD_ITER, FOLD_TOL).network
        each = rows.likelihood.losses(Y[is_out], network(X[is_out]))
        losses.append(float(each.sum() if w is None else (w[is_out] * each).sum() / np.mean(w)))
    return losses


def _fit(rows: LabelRows, network: TwoLayerNetwork, ridge: float, max_iter: int, tol: float) -> LabelFit:
    first = network
    if not network.A.any():  # fresh units: the output layer first
        first = fit_labels(rows, network, ridge=ridge, outputs_only=True, max_iter=8, tol=tol).network
    return fit_labels(rows, first, ridge=ridge, max_iter=max_iter, tol=tol)


def _fresh(like: TwoLayerNetwork, width: int, rng: np.random.Generator) -> TwoLayerNetwork:
    """A network of random units without output weights."""
    V = random_units(width, like.n_features, rng)
    A, B = np.zeros((like.n_outputs, width)), None if like.B is None else np.zeros_like(like.B)
    return replace(like, W=V[:, :-1], b=V[:, -1], A=A, c=np.zeros(like.n_outputs), B=B)


def _folds(Y: Array, rng: np.random.Generator) -> IntArray:
    """Number the folds, every class spread over all of them."""
    order = np.lexsort((rng.random(len(Y)), *Y.T))
    folds = np.empty(len(Y), dtype=np.int64)
    folds[order] = np.arange(len(Y)) % FOLDS
    return folds


def _in_memory(rows: LabelRows) -> tuple[Array, Array, Array | None]:
    """The rows as arrays, with their weights as they are stored."""
    parts = [(block.X, block.Y, block.w) for block in rows.blocks.source.blocks(0, None)]
    w = None if parts[0][2] is None else np.concatenate([part[2] for part in parts if part[2] is not None])
    return np.vstack([part[0] for part in parts]), np.vstack([part[1] for part in parts]), w
