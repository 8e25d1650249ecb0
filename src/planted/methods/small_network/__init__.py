r"""Fit a small network to data that need not come from one.

Problem     No network made the data, as with most tables of the world, yet a small one may predict well. Find it, the same
            one at every run with the same seed, and claim nothing but its prediction error.
Idea        1. Write a linear fit as pairs of units, since σ(t) - σ(-t) = t; where a linear part is asked for, as that.
            2. Add units greedily: of many random half-spaces the one whose activation explains most of the residual.
            3. At each of some widths refine all units together, with a ridge on the output weights.
            4. Choose the width and the ridge with the smallest cross-validated error, and refine on all rows. The mean of
               the outputs and straight lines, by ridge regression, are among the choices. Wider networks are tried until
               the error stops falling. On the way the ridge beside that of the path is tried too, from the same networks,
               and a better one is kept from there on. At the end as many units beside a linear part of their own are tried
               in place of the pairs, and kept if they predict better. The last refinement goes the whole way again, so
               that what was cross-validated is what is done. (The smallest width within one standard error of the best
               predicted worse on real tables: on one of them it left 0.88 of the variance instead of 0.62.)
            5. A quick look is for predicting. It tries few widths, and none beyond two that predict worse than a line.
               Instead it fits one wide network, random half-spaces of which only the output weights are fitted
               (`_half_spaces`), and mixes the outputs of both, in equal parts if there are as many rows as half-spaces,
               unless the wide one is far worse. The two err in different places, above all far from the rows, where
               cross-validation sees nothing: their mean is the safer choice (benchmarks/quick_tables.py measures it).
               Nobody can read the units of a wide network; with more effort the answer stays small.
Guarantee   None; the outcome is FITTED. The cross-validated error is in the evidence.
Departures  Ours; no paper.
Cost        A few hundred small refinements on at most `MAX_ROWS` rows, one on all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg

from planted._typing import Array, IntArray
from planted._validation import check_choice
from planted.certificates.searches._far_samples import far_samples, far_sentence
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import MethodRun, Problem
from planted.linalg import unit_rows
from planted.methods.small_network._half_spaces import RIDGES, HalfSpaces
from planted.moments import augment, joint_moments
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict
from planted.rows import RowBlocks

__all__ = ["recover"]

LINEAR_RIDGE = 1e-3
MAX_ROWS = 3000
HALF_SPACES = 200
LAST_STEPS = 15
MEANINGFUL = (
    1.0  # residual variances: a step that lowers the sum of squares by less means nothing for prediction
)
WIDE = 150  # half-spaces of the wide network
LEAST_RIDGE = 1e-3  # of a wide network with fewer rows than weights: with less it goes through them all
FAR_WORSE = 2.0  # times the small network's error: a wide one beyond it has no part in the answer
LEAST_ROWS = 4  # of which two folds can be made
FEW_ROWS = 100  # of fewer a third decides too much: they are split into more folds in a quick look too
FOLDS_OF_FEW = 5
PATIENCE = 2  # widths in a row that do not predict better before no wider one is tried


@dataclass(frozen=True, slots=True)
class _Effort:
    """What is tried."""

    widths: tuple[int, ...]
    ridges: tuple[float, ...]  # per row of standardised data, strongest first
    first: float  # the ridge of the linear network
    folds: int
    steps: int  # of a refinement
    is_hurried: bool = False  # whether widths end where a line predicts better, and a wide network is tried
    affine: bool = False  # whether the linear part is one, instead of pairs of units


EFFORTS = {
    "quick": _Effort((0, 1, 3, 8), (1e-1, 1e-2), 1e-2, 3, 8, is_hurried=True),
    "normal": _Effort((0, 1, 2, 3, 5, 8, 12, 16), (1.0, 1e-1, 1e-2, 1e-3), 1e-1, 5, 15),
    "thorough": _Effort((0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (1.0, 1e-1, 1e-2, 1e-3), 1e-1, 10, 15),
}
LEAST_TURNED = 1  # width from which another ridge is tried
MAX_LINEAR_RANK = 3
PRESENT = 1e-8  # length of what is left of an activation that the units already present explain


@dataclass(frozen=True, slots=True)
class _Choice:
    """A width and a ridge with what they miss on rows held out. Shape: misses (n, m)."""

    width: int
    ridge: float
    misses: Array
    way: tuple[tuple[int, float], ...] = ()  # widths and ridges of the refinements that lead to it
    is_refined: bool = True  # or only its output weights were fitted, to half-spaces as they were drawn
    beside: _Choice | None = None  # a wide network with a share in the answer
    share: float = 0.0

    @property
    def is_wide(self) -> bool:
        return not self.is_refined and self.width > 0

    @property
    def error(self) -> float:
        """The mean squared error."""
        return float((self.misses**2).mean())


def recover(
    run: MethodRun, n_hidden: int | str = "auto", *, affine: bool | str = "auto", effort: str = "normal"
) -> Recovery:
    """Fit a small network; its outcome is FITTED.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Units beside the linear part; chosen by cross-validation if "auto".
    affine : bool or "auto"
        Whether the network has a linear part B x of its own, which no ridge pulls to zero. False makes it of units, which
        bends where the samples do; "auto" takes what predicts better, and units in a quick look.
    effort : {"quick", "normal", "thorough"}
        How many widths, ridges and folds of the cross-validation are tried.

    Returns
    -------
    Recovery
        The network with its cross-validated error.
    """
    problem = run.problem = run.problem.with_sample(MAX_ROWS)
    check_choice("effort", effort, tuple(EFFORTS))
    check_choice("affine", affine, ("auto", True, False))
    asked = replace(EFFORTS[effort], affine=affine is True)
    path = _cross_validate(problem, n_hidden, asked)
    choice = _best(path, problem.n_samples)
    if affine == "auto" and not asked.is_hurried and np.isfinite(choice.ridge):
        beside = _beside_line(problem, choice, asked)
        if beside is not None:
            choice, asked = beside, replace(asked, affine=True)
    network, iterations = _fit(problem, choice, asked)
    level = float((problem.Y - problem.Y.mean(axis=0)).var()) or 1.0
    name = "cross-validated squared error, relative to the outputs' variance"
    is_tested = len(problem.X) >= LEAST_ROWS
    far = far_samples(problem.Y - network(problem.X))
    run.note(
        *([Evidence(name, choice.error / level, key=Check.HELD_OUT_ERROR)] if is_tested else []),
        Evidence("units beside the linear part", choice.width, key=Check.WIDTH),
        Evidence("ridge per sample", choice.ridge, key=Check.RIDGE),
        far,
    )
    run.trace += [{"k": item.width, "ridge": item.ridge, "score": item.error} for item in path]
    found = (
        "The best small network by cross-validation"
        if is_tested
        else "A line through too few samples to test it"
    )
    if choice.beside is not None:
        found += (
            f", mixed with a wide one of {choice.beside.width} random half-spaces, whose units cannot be read (the default "
            "effort gives few units)"
        )
    text = f"{found}; nothing shows that it is the planted one. {far_sentence(far)}".rstrip()
    doubt = Unavailable("The fit is penalised and not claimed to be the planted network.")
    return run.finish_restored(
        problem.scaling.restore(network).simplify(),
        Verdict(Outcome.FITTED, Guarantee.NONE, (), text, doubt),
        iterations=iterations,
        held_out_mse=choice.error * problem.scaling.y_scale**2 if is_tested else None,
    )


def _best(path: list[_Choice], n_samples: int) -> _Choice:
    """Return the choice of the least error; the mean of the outputs unless another is better by a parameter's worth.

    A parameter that means nothing changes the error by about one part in n, either way. A wide network that was tried stands
    beside the choice.
    """
    best = min((item for item in path if not item.is_wide), key=lambda item: (item.error, item.width))
    mean = next((item for item in path if np.isinf(item.ridge)), None)
    if mean is not None and mean.error * (1 - 1 / n_samples) <= best.error:
        return mean
    wide = next((item for item in path if item.is_wide), None)
    if wide is None or wide.error > FAR_WORSE * best.error:
        return best
    share = min(n_samples / WIDE, 1.0) / 2
    return replace(best, misses=(1 - share) * best.misses + share * wide.misses, beside=wide, share=share)


def _fit(problem: Problem, choice: _Choice, effort: _Effort) -> tuple[TwoLayerNetwork, int]:
    """Fit the chosen width and ridge to all rows; the number of steps is returned too."""
    d, m = problem.n_features, problem.n_outputs
    if choice.beside is not None:
        alone, steps = _fit(problem, replace(choice, beside=None), effort)
        wide, _ = _fit(problem, choice.beside, effort)
        return problem.scaling.in_order(_mixed(alone, wide, choice.share)), steps
    if np.isinf(choice.ridge):
        mean = joint_moments(problem.blocks).mean[d:]
        return TwoLayerNetwork(np.zeros((0, d)), None, np.zeros((m, 0)), mean), 0
    if not choice.is_refined:
        units = _drawn(problem.X, choice.width)
        line = partial(_line, affine=effort.affine, most=min(d, m))
        return problem.scaling.in_order(units.fitted(problem.blocks, choice.ridge, line)), 0
    network = _linear_network(problem.X, problem.Y, affine=effort.affine)
    for place, (width, ridge) in enumerate(choice.way):
        added = width - (choice.way[place - 1][0] if place else 0)
        network = _grown(problem.X, problem.Y, network, added, ridge, effort.steps, (effort.folds, width))
    ridge = choice.ridge * problem.n_samples
    fit = refine(problem.blocks, problem.scaling.in_order(network), ridge=ridge, max_iter=LAST_STEPS)
    return fit.network, fit.iterations


def _mixed(first: TwoLayerNetwork, second: TwoLayerNetwork, share: float) -> TwoLayerNetwork:
    """Return the network that mixes the outputs of two, the second with a share; both have a linear part or none."""
    return TwoLayerNetwork(
        np.vstack([first.W, second.W]),
        np.concatenate([first.b, second.b]),
        np.hstack([(1 - share) * first.A, share * second.A]),
        (1 - share) * first.c + share * second.c,
        B=None if first.B is None or second.B is None else (1 - share) * first.B + share * second.B,
    )


def _cross_validate(problem: Problem, n_hidden: int | str, effort: _Effort) -> list[_Choice]:
    """Return widths and ridges with their held-out errors."""
    if len(problem.X) < LEAST_ROWS:
        return [_Choice(0, effort.first, problem.Y - problem.Y.mean(), ((0, effort.first),))]
    folds, effort = _folds(problem, effort)
    drawn = [_regression(problem, folds, count) for count in ((0, WIDE) if effort.is_hurried else (0,))]
    lowest = drawn[0].error if effort.is_hurried else np.inf
    choices = [item.choice for item in _along_widths(problem, n_hidden, folds, effort, lowest)]
    if n_hidden != "auto":
        return [item for item in choices if item.width == n_hidden]
    return [*choices, *drawn, *(() if effort.affine else (_constant(problem, folds),))]


def _folds(problem: Problem, effort: _Effort) -> tuple[IntArray, _Effort]:
    """Return the fold of each row, the same at every seed, and how many there are, as part of what is tried."""
    n = len(problem.X)
    wanted = max(effort.folds, FOLDS_OF_FEW) if n < FEW_ROWS else effort.folds
    effort = replace(effort, folds=max(min(wanted, n // 3), 2))
    return np.random.default_rng(effort.folds).permutation(n) % effort.folds, effort


def _beside_line(problem: Problem, choice: _Choice, effort: _Effort) -> _Choice | None:
    """Return as many units beside a linear part of their own, or None where that predicts no better.

    A straight line is the same with it.
    """
    if not choice.width and not choice.is_refined:
        return choice
    if len(problem.X) < LEAST_ROWS:
        return None
    folds, effort = _folds(problem, replace(effort, affine=True))
    start = _Tried(_Choice(0, choice.ridge, problem.Y), _lines(problem, folds, effort))
    bent = _tried(problem, start, choice.width, choice.ridge, folds, effort.steps).choice
    return bent if bent.error < choice.error else None


def _lines(problem: Problem, folds: IntArray, effort: _Effort) -> tuple[TwoLayerNetwork, ...]:
    """Return the linear fits of all folds but one."""
    kept = (folds != fold for fold in range(effort.folds))
    return tuple(_linear_network(problem.X[rows], problem.Y[rows], affine=effort.affine) for rows in kept)


def _drawn(X: Array, count: int) -> HalfSpaces:
    return HalfSpaces.drawn(X, count, np.random.default_rng(0))  # of its own: the same at every seed


def _regression(problem: Problem, folds: IntArray, count: int) -> _Choice:
    """Return the best ridge of a regression on half-spaces; of a straight line if there are none."""
    X, Y = problem.X, problem.Y
    misses = np.empty((len(RIDGES), *Y.shape))
    for fold in range(folds.max() + 1):
        inside = folds != fold
        misses[:, ~inside] = _drawn(X[inside], count).held_out(X, Y, inside)
    errors = (misses**2).mean(axis=(1, 2))
    if count and len(X) < X.shape[1] + count:
        errors[RIDGES < LEAST_RIDGE] = np.inf
    best = int(errors.argmin())
    return _Choice(count, float(RIDGES[best]), misses[best], is_refined=False)


def _constant(problem: Problem, folds: IntArray) -> _Choice:
    """Return the mean of the outputs as the choice of an infinite ridge."""
    Y = problem.Y
    means = np.array([Y[folds != fold].mean(axis=0) for fold in range(folds.max() + 1)])
    return _Choice(0, np.inf, Y - means[folds])


@dataclass(frozen=True, slots=True)
class _Tried:
    """A width and a ridge with the networks fitted to all folds but one."""

    choice: _Choice
    networks: tuple[TwoLayerNetwork, ...]


def _along_widths(
    problem: Problem, n_hidden: int | str, folds: IntArray, effort: _Effort, lowest: float
) -> Iterator[_Tried]:
    """Yield growing widths until the held-out error has not fallen below `lowest` `PATIENCE` times in a row.

    From `LEAST_TURNED` units on the next ridge on one side is tried as well. While it is better, the path goes on with it
    and that side is tried again; where it is not, the other side is tried at the next width.
    """
    n, m = problem.Y.shape
    room = max(n * m // (4 * (problem.X.shape[1] + 1 + m)), 0)
    widths = _path(effort.widths, n_hidden if isinstance(n_hidden, int) else min(room, effort.widths[-1]))
    place, side, patience = effort.ridges.index(effort.first), 1, PATIENCE
    here = _Tried(_Choice(0, effort.first, problem.Y), _lines(problem, folds, effort))
    for number, width in enumerate(widths):
        problem.progress("cross-validating small networks", number / len(widths))
        here = _tried(problem, here, width, effort.ridges[place], folds, effort.steps)
        yield here
        while width >= LEAST_TURNED:
            beside = place + side
            if not 0 <= beside < len(effort.ridges):
                side = -side
                break
            other = _tried(problem, here, width, effort.ridges[beside], folds, effort.steps)
            yield other
            if other.choice.error >= here.choice.error:
                side = -side
                break
            here, place = other, beside
        patience = PATIENCE if here.choice.error < lowest else patience - 1
        lowest = min(lowest, here.choice.error)
        if n_hidden == "auto" and not patience:
            return


def _tried(problem: Problem, start: _Tried, width: int, ridge: float, folds: IntArray, steps: int) -> _Tried:
    """Go on from the networks of all folds to a width and a ridge."""
    X, Y = problem.X, problem.Y
    misses = np.empty(Y.shape)
    networks = []
    for fold, network in enumerate(start.networks):
        inside = folds != fold
        added = width - start.choice.width
        networks.append(_grown(X[inside], Y[inside], network, added, ridge, steps, (fold, width)))
        misses[~inside] = Y[~inside] - networks[-1](X[~inside])
    way = (*start.choice.way, (width, ridge))
    return _Tried(_Choice(width, ridge, misses, way), tuple(networks))


def _grown(
    X: Array, Y: Array, network: TwoLayerNetwork, added: int, ridge: float, steps: int, seed: tuple[int, int]
) -> TwoLayerNetwork:
    """Add units greedily, and refine all."""
    if added:
        network = _add_units(network, X, Y, added, np.random.default_rng(seed))
    rows = RowBlocks.from_arrays(X, Y)
    return refine(rows, network, ridge=ridge * len(X), max_iter=steps, decrease_tol=MEANINGFUL).network


def _path(widths: tuple[int, ...], widest: int) -> list[int]:
    """Return the widths at which the units are refined."""
    return [*(k for k in widths if k < widest), widest]


def _linear_network(X: Array, Y: Array, *, affine: bool) -> TwoLayerNetwork:
    """Write a ridge regression as a linear part, or if its rank is small as pairs of opposite units."""
    mean = Y.mean(axis=0)
    gram = X.T @ X + LINEAR_RIDGE * max(len(X), 1) * np.eye(X.shape[1])
    slope = linalg.solve(gram, X.T @ (Y - mean), assume_a="pos", check_finite=False).T
    return _line(slope, mean, affine=affine, most=MAX_LINEAR_RANK)


def _line(slope: Array, constant: Array, *, affine: bool, most: int) -> TwoLayerNetwork:
    """Write a linear function as a linear part, or its `most` largest directions as pairs of opposite units."""
    m, d = slope.shape
    if affine:
        return TwoLayerNetwork(np.zeros((0, d)), None, np.zeros((m, 0)), constant, B=slope)
    left, values, right = linalg.svd(slope, full_matrices=False, check_finite=False)
    rank = min(max(int((values > 1e-12 * max(values[0], 1e-300)).sum()), 1), most)
    W = np.vstack([right[:rank], -right[:rank]])
    A = np.hstack([left[:, :rank] * values[:rank], -left[:, :rank] * values[:rank]])
    return TwoLayerNetwork(W, None, A, constant)


def _add_units(
    network: TwoLayerNetwork, X: Array, Y: Array, count: int, rng: np.random.Generator
) -> TwoLayerNetwork:
    """Add the half-spaces that explain most of the residual, one after the other."""
    directions = unit_rows(rng.standard_normal((HALF_SPACES, X.shape[1])))[0]
    t = X @ directions.T
    places = (rng.uniform(0.1, 0.9, HALF_SPACES) * (len(X) - 1)).astype(np.intp)
    cuts = np.take_along_axis(np.sort(t, axis=0), places[None], axis=0)[0]
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
    return TwoLayerNetwork(W, b, A, network.c, B=network.B)
