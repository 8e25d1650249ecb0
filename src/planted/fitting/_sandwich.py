r"""Standard errors for noise of any variance: the sandwich estimate and the bootstrap.

Problem     The standard errors of `_standard_errors` assume noise of one variance. If the noise grows with x, or
            differs between outputs, they are too small or too large.
Idea        *Sandwich.* The estimate is a sum of influences of rows. With the projected masked inputs
            :math:`\tilde Z = Z - G (G^\top G)^{-1} G^\top Z` and the score
            :math:`s_i = \sum_l r_{il} (a_l \otimes 1) \circ \tilde z_i`, row i moves V by
            :math:`\psi_i = T (T^\top N T)^{-1} T^\top s_i` and the output weights by :math:`(G^\top G)^{-1} (g_i
            r_{il} - G^\top Z (a_l \otimes 1) \circ \psi_i)`. The squares of these influences, summed over rows and
            expressed in the user's units, are variances for any noise, as long as the rows are independent.

            *Bootstrap.* Refit on rows drawn with replacement; the spread of the fits is the standard error.
Guarantee   Both are asymptotic, for independent rows. Sandwich variances are enlarged by n m / (n m - unknowns).
Cost        Sandwich: one pass, O(n (k p)²). Bootstrap: n_boot refinements on the rows in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.fitting._problem import Problem, Scaling
from planted.fitting._refine import Refinement, reduced_normal_matrix, refine
from planted.fitting._standard_errors import degrees_of_freedom, hidden_changes, tangent_basis
from planted.moments import augment
from planted.results import Unavailable, Uncertainty
from planted.rows import RowBlocks, Sums, accumulate

__all__ = ["bootstrap_errors", "sandwich_errors"]

SLICE = 1024


def sandwich_errors(problem: Problem, fit: Refinement, *, offset: bool) -> Uncertainty | Unavailable:
    """Return standard errors that hold for noise of any shape."""
    net = fit.network
    freedom = problem.n_samples * net.n_outputs - degrees_of_freedom(net, offset=offset)
    T = tangent_basis(net)
    N = T.T @ reduced_normal_matrix(fit.sums, net, offset=offset) @ T
    if freedom <= 0 or np.linalg.cond(N) > 1 / np.finfo(float).eps:
        return Unavailable("The samples do not determine the network even locally.")
    spread = T @ linalg.solve(N, T.T, assume_a="pos", check_finite=False)
    totals = accumulate(problem.blocks, _InfluenceSummand(fit, spread, problem.scaling, offset))
    correction = problem.n_samples * net.n_outputs / freedom
    errors = {name: np.sqrt(correction * getattr(totals, name)) for name in "WbAc"}
    noise = float(np.sqrt(fit.cost / freedom)) * problem.scaling.y_scale
    return Uncertainty(errors, noise, kind="sandwich")


@dataclass(frozen=True, slots=True)
class InfluenceSums(Sums):
    """Squared influences of rows on every parameter, in the user's units."""

    W: Array  # (k, d)
    b: Array  # (k,)
    A: Array  # (m, k)
    c: Array  # (m,)


@dataclass(frozen=True, slots=True)
class _InfluenceSummand:
    """The squared influences at a fit."""

    fit: Refinement
    spread: Array
    units: Scaling
    offset: bool

    def __call__(self, first_row: int, X: Array, Y: Array) -> InfluenceSums:
        parts = [
            _influence_squares(X[start : start + SLICE], Y[start : start + SLICE], self)
            for start in range(0, len(X), SLICE)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total.merge(part)
        return total


def _influence_squares(X: Array, Y: Array, at: _InfluenceSummand) -> InfluenceSums:
    """Return the squared influences of some rows."""
    fit, spread, units, offset = at.fit, at.spread, at.units, at.offset
    net, k, p = fit.network, fit.network.n_hidden, fit.network.n_features + 1
    size = k + int(offset)
    t = net.preactivations(X)
    Z = (net.activation.derivative(t)[:, :, None] * augment(X)[:, None, :]).reshape(len(X), k * p)
    G = augment(net.activation(t))[:, :size]
    residual = Y - net(X)
    inverse = linalg.pinvh(fit.sums.GG[:size, :size])
    projected = Z - G @ (inverse @ fit.sums.GZ[:size])
    score = projected * np.repeat(residual @ net.A, p, axis=1)
    psi = score @ spread
    hidden = hidden_changes(psi.T.reshape(k, p, len(X)), net, units)
    outputs = np.zeros((net.n_outputs, k + 1))
    for index, row in enumerate(net.A):
        own = (G * residual[:, [index]]).T - (fit.sums.GZ[:size] * np.repeat(row, p)) @ psi.T
        outputs[index, :size] = (hidden.output_changes(inverse @ own, row, net) ** 2).sum(axis=1)
    outputs *= units.y_scale**2
    return InfluenceSums(
        (hidden.dW**2).sum(axis=2), (hidden.db**2).sum(axis=1), outputs[:, :k], outputs[:, k]
    )


def bootstrap_errors(
    problem: Problem, fit: Refinement, *, offset: bool, n_boot: int = 200
) -> Uncertainty | Unavailable:
    """Return standard errors from refits on rows drawn with replacement.

    `problem`: the standardised problem; its rows in memory are drawn from.
    """
    if not problem.holds_all_rows:
        return Unavailable(
            f"The bootstrap needs all rows in memory; {len(problem.X)} of {problem.n_samples} are."
        )
    found: dict[str, list[Array]] = {name: [] for name in "WbAc"}
    for index in range(n_boot):
        problem.progress(f"bootstrap refit {index + 1} of {n_boot}", index / n_boot)
        rows = problem.rng.integers(0, len(problem.X), len(problem.X))
        refit = refine(
            RowBlocks.from_arrays(problem.X[rows], problem.Y[rows]), fit.network, offset=offset, max_iter=30
        )
        network = problem.scaling.restore(refit.network)
        for name, values in found.items():
            values.append(getattr(network, name))
    errors = {name: np.std(np.array(values), axis=0, ddof=1) for name, values in found.items()}
    freedom = problem.n_samples * problem.n_outputs - degrees_of_freedom(fit.network, offset=offset)
    noise = float(np.sqrt(fit.cost / max(freedom, 1))) * problem.scaling.y_scale
    return Uncertainty(errors, noise, kind="bootstrap")
