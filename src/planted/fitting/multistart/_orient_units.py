r"""Turn a fit of absolute values back into ReLU units by finding the orientation of each unit.

Problem     A fit :math:`\sum_i \beta_i |v_i^\top \tilde x| + \Lambda \tilde x` is a ReLU network with output weights
            :math:`a_i = 2 \beta_i` exactly if its linear part is made of halves of the units:

            .. math:: \sum_i \xi_i\, \beta_i w_i^\top = \Lambda_w, \qquad \xi_i \in \{-1, 1\}; \quad (1)

            unit i is then :math:`a_i \sigma(\xi_i v_i^\top \tilde x)`, and the constants go into c.
Idea        *Exact fits.* `planted.linalg.signs` finds all solutions of (1), by least squares and rounding for units
            in no linear dependence, and by meeting in the middle for the others. If there are several, this is the
            ambiguity of Claim 4.8 of [ATV21]_; the one with the smallest offset is returned and their number
            reported. If there is none, the linear part needs units of its own, which `TwoLayerNetwork.simplify` adds.

            *Noisy fits.* Candidates are the signs of `_direction_signs`, the least-squares rounding of (1) and, for
            dependent units, the nearest points of two sets of half sums in the metric of the residual. From each,
            units are turned one by one while the residual of the ReLU form falls; it is known from the products of
            the regressors.

            *No orientation.* If no signs solve (1), the linear part is one of the network's own: with B free, orientation
            is a gauge and nothing has to be solved. On noisy data this is decided by how much imposing (1) raises the
            cost, which for a network without B is a χ² with m d degrees of freedom at most.

            *Leaky units.* A network of units with slope α below their kink has :math:`\\Lambda_w = \\rho \\sum_i
            \\xi_i \\beta_i w_i^\\top` with :math:`\\rho = (1 + α) / (1 - α)`. Where the units are linearly independent,
            their coefficients are read off by least squares; if all have one size, it is ρ, and α is named. Of dependent
            ones all signs are tried: with at least two equations only the right ones make both sides parallel.
References  [ATV21]_
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy import linalg, stats

from planted._typing import Array, BoolArray
from planted.fitting.multistart._absolute_form import KinkFit
from planted.linalg.signs import enumerate_flips, nearest_sign_sums
from planted.linalg.symmetric import column_spectrum, rises_of_columns, solve_symmetric
from planted.networks import TwoLayerNetwork

__all__ = [
    "LINEAR_LEVEL",
    "Oriented",
    "as_network",
    "leak_of",
    "needs_linear_part",
    "orient_exactly",
    "orient_noisily",
    "with_linear_part",
]

TOLERANCES = (1e-12, 1e-10, 1e-8)  # of (1), relative to its terms; the first that has a solution
LARGEST_BLOCK = 46  # two tables of 2**23 numbers
MAX_PATTERNS = 16
SIMPLIFY_TOL = 1e-8
LARGEST_TREE = 26  # units whose half sums are compared point by point on noisy data
N_NEAREST = 8
LINEAR_LEVEL = 1e-4  # of the test whether a linear part is needed: networks without one are to keep none
LEAK_TOL = 1e-9
LARGEST_LEAKY = 14  # dependent units whose signs are all tried


@dataclass(frozen=True, slots=True)
class Oriented:
    """A ReLU network made from a fit of absolute values."""

    network: TwoLayerNetwork  # the network
    # Sign patterns that give the same function; 0 if none does and the linear part got units of its own.
    n_patterns: int
    # Rise of the sum of squares when the least certain unit is turned round, hyperplanes kept; infinite for exact
    # fits.
    gap: float
    rise: float = 0.0  # rise of the sum of squares by imposing (1) on a noisy fit


def orient_exactly(fit: KinkFit) -> Oriented:
    """Orient the units of an exact fit."""
    kinks, normals = fit.kinks, fit.V[:, :-1]
    terms = np.einsum("li,ia->lai", kinks, normals).reshape(-1, fit.n_units)
    rest = fit.linear[:, :-1].ravel() - terms.sum(axis=1)
    # What rounding leaves of zero is no part of the terms that are chosen for it, and would have to be met exactly.
    rest = np.where(np.abs(rest) <= TOLERANCES[0] * np.abs(terms).sum(axis=1), 0.0, rest)
    nowhere = np.zeros(fit.n_units, dtype=np.bool_)
    for tol in TOLERANCES:
        patterns = enumerate_flips(
            -2 * terms, rest, preferred=nowhere, tol=tol, limit=MAX_PATTERNS, largest_block=LARGEST_BLOCK
        )
        if patterns:
            networks = [as_network(fit, flips) for flips in patterns]
            simplest = min(networks, key=lambda net: float(np.abs(net.c).max()))
            return Oriented(simplest, len(patterns), np.inf)
    return Oriented(_with_linear_units(fit, rest.reshape(kinks.shape[0], -1)), 0, np.inf)


def orient_noisily(fit: KinkFit, *, is_hasty: bool = False) -> Oriented:
    """Orient the units of a fit with noise by the residual of the ReLU form.

    The output weights are fitted again; the answer holds the gap to the next best orientation. `is_hasty`: take the best
    of the nearest orientations as it is, without turning single units.
    """
    candidates = _nearest_patterns(fit)
    flips = min(candidates, key=lambda pattern: _rise(fit, pattern)[0])
    rise, turned = _rise(fit, flips)[0], np.full(fit.n_units, np.inf)
    while not is_hasty:
        turned = np.array([_rise(fit, _turn(flips, unit))[0] for unit in range(fit.n_units)])
        unit = int(np.argmin(turned))
        if not turned[unit] < rise:
            break
        flips, rise = _turn(flips, unit), float(turned[unit])
    coefficients = _rise(fit, flips)[1]
    signs = np.where(flips, -1.0, 1.0)
    network = TwoLayerNetwork(
        fit.V[:, :-1] * signs[:, None], fit.V[:, -1] * signs, coefficients[:-1].T, coefficients[-1]
    )
    return Oriented(network, 1, float(turned.min() - rise), float(rise))


def with_linear_part(fit: KinkFit, x_scale: Array) -> TwoLayerNetwork:
    """Return a fit as a network with a linear part, units turned so that their largest weight is positive.

    `x_scale`: scales of the inputs, so that the largest weight is that in the user's units. Shapes: x_scale (d,).
    """
    weights = fit.V[:, :-1] / x_scale
    leading = np.take_along_axis(weights, np.abs(weights).argmax(axis=1)[:, None], axis=1)[:, 0]
    plain = as_network(fit, np.asarray(leading < 0))
    return replace(plain, B=fit.linear[:, :-1] - fit.kinks @ plain.W)


def needs_linear_part(fit: KinkFit, oriented: Oriented, noise_variance: float) -> bool:
    """Whether imposing the best orientation on a noisy fit costs more than noise explains; heuristic.

    `noise_variance`: of one output, in the weights of the fit.
    """
    freedom = fit.coefficients.shape[0] * (fit.V.shape[1] - 1)
    limit = float(stats.chi2.ppf(1 - LINEAR_LEVEL, freedom))
    return oriented.rise > limit * noise_variance


def leak_of(network: TwoLayerNetwork) -> float | None:
    """Return the slope below their kinks of leaky units that make up a network with a linear part, or None.

    The slope is between -1 and 1; -1 is the absolute value. None as well with a single equation, which some slope always
    solves, and for more than `LARGEST_LEAKY` units that are linearly dependent.
    """
    if network.B is None:
        return None
    kinks = network.A / 2
    terms = np.einsum("li,ia->lai", kinks, network.W).reshape(network.B.size, network.n_hidden)
    total = network.B.ravel() + terms.sum(axis=1)
    scale = np.abs(terms).sum(axis=1).max()
    if np.abs(total).max() <= LEAK_TOL * scale:
        return -1.0
    if network.n_hidden < network.B.size and np.linalg.matrix_rank(terms) == network.n_hidden:
        sizes, *_ = linalg.lstsq(terms, total, check_finite=False)
        patterns, ratios = np.sign(sizes)[None], np.array([np.abs(sizes).mean()])
    elif network.B.size > 1 and network.n_hidden <= LARGEST_LEAKY:
        patterns = np.array(list(product((-1.0, 1.0), repeat=network.n_hidden)))
        sums = patterns @ terms.T
        ratios = (sums @ total) / np.maximum((sums**2).sum(axis=1), np.finfo(float).tiny)
        patterns, ratios = patterns[ratios > 0], ratios[ratios > 0]
    else:
        return None
    missed = np.abs(patterns @ terms.T * ratios[:, None] - total).max(axis=1)
    (found,) = np.nonzero(missed <= LEAK_TOL * (1 + ratios) * scale)
    if len(found) != 1:
        return None
    rho = float(ratios[found[0]])
    return (rho - 1) / (rho + 1)


def as_network(fit: KinkFit, flips: BoolArray) -> TwoLayerNetwork:
    """Return the units of a fit, those of `flips` turned; what of the linear part they do not make up is left out."""
    signs = np.where(flips, -1.0, 1.0)
    b = fit.V[:, -1] * signs
    return TwoLayerNetwork(
        fit.V[:, :-1] * signs[:, None], b, 2 * fit.kinks, fit.linear[:, -1] - fit.kinks @ b
    )


def _with_linear_units(fit: KinkFit, rest: Array) -> TwoLayerNetwork:
    """Add pairs f(u'x) - f(-u'x) for the linear rest, then look for fewer units."""
    plain = as_network(fit, np.zeros(fit.n_units, dtype=np.bool_))
    left, values, right = linalg.svd(rest, full_matrices=False, check_finite=False)
    kept = values > SIMPLIFY_TOL * max(values[0], 1.0)
    rows, outputs = right[kept], left[:, kept] * values[kept]
    wide = TwoLayerNetwork(
        np.vstack([plain.W, rows, -rows]),
        np.concatenate([plain.b, np.zeros(2 * len(rows))]),
        np.hstack([plain.A, outputs, -outputs]),
        plain.c,
    )
    return wide.simplify(tol=SIMPLIFY_TOL)


def _nearest_patterns(fit: KinkFit) -> list[BoolArray]:
    """Sign patterns near a solution of (1), in the metric in which the residual grows."""
    columns, target = _in_residual_metric(fit)
    k = fit.n_units
    rounded = np.asarray(linalg.lstsq(columns, target, check_finite=False)[0] < 0)
    told = _signs_by_rises(fit)
    first = [rounded] if told is None else [told, rounded]
    if k <= columns.shape[0] or k > LARGEST_TREE:
        return first
    return [*first, *nearest_sign_sums(columns, target, count=N_NEAREST)]


def _signs_by_rises(fit: KinkFit) -> BoolArray | None:
    """Units to be turned according to `direction_signs`, or None where their two columns are dependent."""
    k, p = fit.V.shape
    basis = np.zeros((k + p, 2 * k + 1))  # f(t), f(-t) and one in terms of [|t|, x̃]
    basis[:k, :k] = basis[:k, k : 2 * k] = np.eye(k) / 2
    basis[k:, :k], basis[k:, k : 2 * k] = fit.V.T / 2, -fit.V.T / 2
    basis[-1, -1] = 1.0
    products = fit.GG @ basis
    inner = basis.T @ products
    columns = column_spectrum(inner)
    rises = rises_of_columns(columns, columns.regular().solve(products.T @ fit.coefficients.T))
    return np.asarray(rises[:k] < rises[k : 2 * k]) if rises.all() else None


def _in_residual_metric(fit: KinkFit) -> tuple[Array, Array]:
    """Columns β_i ⊗ w_i and target Λ_w, multiplied by a root of the curvature of the cost in Λ_w."""
    k, d = fit.n_units, fit.V.shape[1] - 1
    slopes = np.arange(k, k + d)
    others = np.concatenate([np.arange(k), [k + d]])
    cross = fit.GG[np.ix_(others, slopes)]
    curvature = fit.GG[np.ix_(slopes, slopes)] - cross.T @ solve_symmetric(
        fit.GG[np.ix_(others, others)], cross
    )
    values, vectors = linalg.eigh(curvature, check_finite=False)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    turned = fit.V[:, :-1] @ root.T
    columns = np.einsum("li,ia->lai", fit.kinks, turned).reshape(-1, k)
    return columns, (fit.linear[:, :-1] @ root.T).ravel()


def _turn(flips: BoolArray, unit: int) -> BoolArray:
    turned = flips.copy()
    turned[unit] = not turned[unit]
    return turned


def _rise(fit: KinkFit, flips: BoolArray) -> tuple[float, Array]:
    """Rise of the cost when (1) is imposed with these signs, and the best output weights and offset (k + 1, m)."""
    k, p = fit.V.shape
    signs = np.where(flips, -1.0, 1.0)
    basis = np.zeros((k + p, k + 1))  # ReLU features and one in terms of [|t|, x̃]
    basis[:k, :k] = np.eye(k) / 2
    basis[k:, :k] = (fit.V * signs[:, None]).T / 2
    basis[-1, k] = 1.0
    products = fit.GG @ basis
    target = products.T @ fit.coefficients.T
    solution = solve_symmetric(basis.T @ products, target)
    miss = fit.coefficients.T - basis @ solution
    return float((miss * (fit.GG @ miss)).sum()), solution
