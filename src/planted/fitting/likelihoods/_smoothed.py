r"""The maximum of a likelihood that kinked units leave rough.

Problem     Every label at which a kinked unit switches bends the likelihood a little. It has many small maxima within a
            standard error of each other, and the highest of them is where chance is, not where the network is; its second
            derivative sees no kink at all.
Idea        The score of a row is J'(y - μ), where the Jacobian J of the outputs jumps as a unit switches. Another matrix in
            its place, any function of x and θ, leaves the mean of the score zero at the truth. We take the Jacobian of
            units that are averaged over normal errors of their pre-activation t,

            .. math:: \bar f(t) = \mathrm{E} f(t + s z), \quad \bar f'(t) = \mathrm{E} f'(t + s z), \quad
                      s(x)^2 = h^2\, \tilde x^\top C_i\, \tilde x, \quad (1)

            with the covariance C_i of the unit's weights by the information at a fit. The residual y - μ stays that of the
            kinked network. The solution of

            .. math:: \psi(\theta) = \sum \bar J^\top (y - \mu) = 0 \quad (2)

            is found by Newton's method, with the derivative H of -ψ in closed form, first for wide errors, h = 4, of which
            small maxima do not reach the solution, and from there for h = 2 and h = 1, which lose little. With the
            covariance V of labels its errors are

            .. math:: \mathrm{Cov}(\hat\theta) = H^{-1} \Big(\sum \bar J^\top V \bar J\Big) H^{-\top}. \quad (3)

            Moves are tangent to unit rows of W, since the scale of a unit is a gauge.
Guarantee   None; asymptotically the solution is that of greatest likelihood, and (3) is the inverse information. On twenty
            teachers with 5 inputs and 3 units, 20,000 labels, mean squared errors over the Cramér–Rao bound were 1.08, 1.10,
            1.20 and 1.51 with h = 1, 2, 4 and 8, and 1.12 at a maximum of the rough likelihood.
Cost        O(n m q²) per step for q parameters, a few steps for each h.
References  Huber (1967), Proc. Fifth Berkeley Symposium (estimates as solutions of equations, and their covariance).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg
from scipy.special import ndtr

from planted._clock import check_time
from planted._typing import Array, as_array
from planted.fitting._jacobian import tangent_basis
from planted.fitting.likelihoods._families import Likelihood
from planted.fitting.likelihoods._fit import (
    LabelFit,
    LabelRows,
    Linearised,
    SoftScore,
    parameters_of,
    rows_in_slices,
    sum_labels,
    with_parameters,
)
from planted.moments import hidden_rows, output_weights
from planted.networks import TwoLayerNetwork
from planted.rows import RowWeights, accumulate

__all__ = ["free_moves", "smoothed_maximum"]

SCALES = (4.0, 2.0, 1.0)  # h in (1)
MAX_STEPS, MAX_HALVINGS = 20, 6
SOLVED = 1e-4  # nats that one more step would gain


def free_moves(network: TwoLayerNetwork) -> Array:
    """Return a basis of the directions in which all parameters can move at unit rows of W; (q, r)."""
    return as_array(linalg.block_diag(tangent_basis(network), np.eye(output_weights(network).size)))


def smoothed_maximum(rows: LabelRows, fit: LabelFit) -> LabelFit:
    """Return the solution of (2) near a fit with unit rows of W, for the smallest h that has one.

    If no h has one, the fit itself with its own soft score; if the rows do not determine it, without.
    """
    best = fit
    for scale in SCALES:
        errors = _covariance(best)
        if errors is None:
            return best
        found = _solve(rows, best, scale**2 * errors)
        if found is None:
            break
        best = found
    if best.soft is None:
        errors = _covariance(fit)
        assert errors is not None
        best = replace(fit, soft=_soft_score(rows, fit.network, errors))
    return best


def _covariance(fit: LabelFit) -> Array | None:
    """The inverse information in free directions, (q, q); nothing where it is singular."""
    moves = free_moves(fit.network)
    inner = moves.T @ fit.sums.information @ moves
    values = linalg.eigvalsh(inner, check_finite=False)
    if not values[0] > len(values) * np.finfo(float).eps * values[-1]:
        return None
    return as_array(moves @ linalg.solve(inner, moves.T, assume_a="pos"))


def _solve(rows: LabelRows, fit: LabelFit, errors: Array) -> LabelFit | None:
    """Solve (2) by Newton's method with halved steps; nothing if it does not end, or not at a maximum."""
    network = fit.network
    soft = _soft_score(rows, network, errors)
    for _ in range(MAX_STEPS):
        check_time()
        moves = free_moves(network)
        inner = moves.T @ fit.sums.information @ moves
        score, H = moves.T @ soft.score, moves.T @ soft.curvature @ moves
        gain = _gain(inner, score)
        if gain <= SOLVED:
            break
        step = moves @ linalg.solve(H, score, check_finite=False)
        for _ in range(MAX_HALVINGS):
            trial = _scaled(with_parameters(network, parameters_of(network) + step))
            there, tangent = _soft_score(rows, trial, errors), free_moves(trial)
            if _gain(tangent.T @ fit.sums.information @ tangent, tangent.T @ there.score) < gain:
                break
            step = step / 2
        else:
            return None
        network, soft = trial, there
    else:
        return None
    if linalg.eigvalsh(H + H.T, check_finite=False)[0] <= 0:
        return None
    sums = replace(sum_labels(rows, network), score=soft.score)
    return LabelFit(network, sums, sums.loss, fit.n_steps, soft)


def _gain(information: Array, score: Array) -> float:
    """What a step would gain, in nats."""
    return float(0.5 * score @ linalg.solve(information, score, assume_a="pos", check_finite=False))


def _scaled(network: TwoLayerNetwork) -> TwoLayerNetwork:
    W, norms = network.activation.unit_scale(network.W)
    return replace(network, W=W, b=network.b / norms, A=network.A * norms)


def _soft_score(rows: LabelRows, network: TwoLayerNetwork, errors: Array) -> SoftScore:
    """Return ψ of (2) for errors of this covariance, with its derivative and covariance."""
    k, p = network.n_hidden, network.n_features + 1
    own = [errors[i * p : (i + 1) * p, i * p : (i + 1) * p] for i in range(k)]
    return accumulate(rows.blocks, _SoftSummand(network, rows.likelihood, rows.weights, own))


@dataclass(frozen=True, slots=True)
class _SoftSummand:
    """The score (2), its derivative and its covariance."""

    network: TwoLayerNetwork
    likelihood: Likelihood
    weights: RowWeights | None
    covariances: list[Array]  # of the weights of each unit; (p, p)

    def __call__(self, first_row: int, X: Array, Y: Array) -> SoftScore:
        return rows_in_slices(self._of_slice, self.network, self.weights, first_row, X, Y)

    def _of_slice(self, X: Array, Y: Array, w: Array | None) -> SoftScore:
        net, sharp = self.network, Linearised.at(self.network, X)
        roots, rest = self.likelihood.roots(sharp.eta), Y - self.likelihood.means(sharp.eta)
        if w is not None:
            roots, rest = np.sqrt(w)[:, None, None] * roots, w[:, None] * rest
        soft, bends = self._softened(sharp)
        H = soft.information(roots, sharp)
        k, p, n_columns = net.n_hidden, net.n_features + 1, output_weights(net).shape[1]
        pulls = net.A.T @ rest.T  # (k, n)
        for i in range(k):
            own = slice(i * p, (i + 1) * p)
            H[own, own] -= (sharp.rows * (pulls[i] * bends[i])) @ sharp.rows.T
            mixed = (sharp.rows * soft.slopes[i]) @ rest  # (p, m): hidden weights with output weights
            for output in range(net.n_outputs):
                column = k * p + output * n_columns + i
                H[own, column] -= mixed[:, output]
                H[column, own] -= mixed[:, output]
        return SoftScore(soft.score(rest), soft.information(roots), H)

    def _softened(self, sharp: Linearised) -> tuple[Linearised, Array]:
        """The units averaged over errors by (1), and their second derivatives, (k, n).

        A change of slope by c at t = 0 becomes c Φ(t/s), with the normal distribution Φ and its density φ: values grow
        by c (s φ - |t| Φ(-|t|/s)).
        """
        net, rows = self.network, sharp.rows
        t = hidden_rows(net) @ rows
        variances = np.stack([((C @ rows) * rows).sum(axis=0) for C in self.covariances])
        spread = np.sqrt(np.maximum(variances, 1e-300))
        change = 2 * net.activation.kink
        tails = ndtr(-np.abs(t) / spread)
        density = np.exp(-0.5 * (t / spread) ** 2) / np.sqrt(2 * np.pi)
        columns = sharp.columns.copy()
        columns[: net.n_hidden] += change * (spread * density - np.abs(t) * tails)
        slopes = sharp.slopes - change * np.where(t > 0, 1.0, -1.0) * tails
        return replace(sharp, slopes=slopes, columns=columns), change * density / spread
