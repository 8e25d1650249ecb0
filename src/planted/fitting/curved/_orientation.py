r"""Orient units that were fitted beside a free linear part; read the slope of leaky units.

Problem     The activation differs from its mirror image by a linear function, f(-t) = f(t) + s t. With a free linear part B
            orientation is a gauge, which makes the fit easy (`_units`). Find the orientations for which B vanishes.
Idea        Turning unit i round adds :math:`-s\, a_i w_i^\top` to B. With signs ξ_i = ±1 and :math:`q_i = s\, a_i w_i^\top`

            .. math:: \sum_i \xi_i q_i = \sum_i q_i - 2 B                                              \quad (1)

            must hold, in the metric in which the sum of squares grows when B is wrong. Up to as many units as numbers in B
            least squares and rounding find the signs; beyond, the nearest sums of signs are searched
            (`planted.linalg.signs`). Each choice is tried on the rows, and the one with the smallest sum of squares wins.

            *Leaky units of unknown slope* are fitted as absolute values beside a linear part L. With slope α below the kink
            and ρ = (1 + α) / (1 - α), L = ρ Σ ξ_i β_i w_i' (2). The signs make the part of the sum that is orthogonal to L
            vanish, and ρ is read off.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from planted._typing import Array, BoolArray, as_array
from planted.fitting._refine import Damping
from planted.fitting.curved._units import UnitFit, UnitRows, fit_units
from planted.linalg.signs import nearest_sign_sums
from planted.networks import Activation, parse_activation

__all__ = ["orient_fit", "read_slope", "sign_choices"]

LARGEST_TREE = 26  # units whose sums of signs are searched
N_NEAREST = 16
N_FITTED = 4  # of the choices, the best, that are fitted and not only tried
LARGEST_RATIO = 1e12  # of (2): slopes nearer to one are those of a line
PLAINLY = 1e-10  # part of the worst choice's sum of squares
FIT_ITER, FIT_TOL = 40, 1e-6
LIGHT_DAMPING = Damping(1e-2, down=0.2, up=4.0, after_rejection=0.2)


def orient_fit(data: UnitRows, fit: UnitFit) -> UnitFit:
    """Return the best fit without a linear part whose units are those of a fit with one, each turned or not."""
    mirror = data.activation.mirror
    assert mirror is not None and mirror.slope
    net = fit.network(data.activation)
    assert net.B is not None
    root = _metric(data, fit)
    turned = (net.W @ root.T) * mirror.slope
    columns = np.einsum("li,ia->lai", net.A, turned).reshape(-1, net.n_hidden)
    target = columns.sum(axis=1) - 2 * (net.B @ root.T).ravel()
    plain = replace(data, linear=False)
    tries = [
        fit_units(plain, _turned(fit.V, flips), max_iter=0, decrease_tol=1.0)
        for flips in sign_choices(columns, target)
    ]
    likely = sorted(tries, key=lambda each: each.cost)
    # Without noise the right choice stands out before it is fitted.
    is_plain = likely[0].cost <= PLAINLY * likely[-1].cost
    likely = likely[: 1 if is_plain else N_FITTED]
    return min((_fitted(plain, each) for each in likely), key=lambda each: each.cost)


def read_slope(data: UnitRows, fit: UnitFit) -> tuple[Activation, UnitFit]:
    """Return the leaky activation by (2), and its best fit without a linear part from one of absolute values with one."""
    net = fit.network(data.activation)
    assert net.B is not None
    root = _metric(data, fit)
    columns = np.einsum("li,ia->lai", net.A, net.W @ root.T).reshape(-1, net.n_hidden)
    linear = (net.B @ root.T).ravel()
    along = linear / (np.linalg.norm(linear) or 1.0)
    across = columns - np.outer(along, along @ columns)
    if net.n_hidden < len(columns):
        choices = [np.asarray(linalg.lstsq(columns, linear, check_finite=False)[0] < 0)]
    else:
        choices = sign_choices(across, np.zeros(len(across)))
    tries = [_leaky_fit(data, fit, columns, linear, flips) for flips in choices]
    leaky, best = min(tries, key=lambda each: each[1].cost)
    return leaky, _fitted(replace(data, activation=leaky, linear=False), best)


def _leaky_fit(
    data: UnitRows, fit: UnitFit, columns: Array, linear: Array, flips: BoolArray
) -> tuple[Activation, UnitFit]:
    total = columns @ np.where(flips, -1.0, 1.0)
    size = float(total @ total)
    ratio = float(linear @ total) / size if size > 0 else 1.0  # units without weight may have any slope
    if ratio < 0:
        ratio, flips = -ratio, ~flips
    ratio = min(ratio, LARGEST_RATIO)
    slope = (ratio - 1) / (ratio + 1)
    leaky = parse_activation("absolute" if slope == -1 else f"leaky-relu:{slope!r}")
    plain = replace(data, activation=leaky, linear=False)
    return leaky, fit_units(plain, _turned(fit.V, flips), max_iter=0, decrease_tol=1.0)


def _fitted(plain: UnitRows, start: UnitFit) -> UnitFit:
    """Fit the units again: with noise they move when the linear part is gone."""
    return fit_units(plain, start.V, max_iter=FIT_ITER, decrease_tol=FIT_TOL, damping=LIGHT_DAMPING)


def _turned(V: Array, flips: BoolArray) -> Array:
    return V * np.where(flips, -1.0, 1.0)[:, None]


def sign_choices(columns: Array, target: Array) -> list[BoolArray]:
    """Choices of the units to be turned that come near to (1)."""
    k = columns.shape[1]
    rounded = np.asarray(linalg.lstsq(columns, target, check_finite=False)[0] < 0)
    singly = [rounded ^ (np.arange(k) == unit) for unit in range(k)]
    if k > LARGEST_TREE:
        return [rounded, *singly]
    return [rounded, *singly, *nearest_sign_sums(columns, target, count=N_NEAREST)]


def _metric(data: UnitRows, fit: UnitFit) -> Array:
    """A root of the curvature of the sum of squares in a row of B, the other coefficients being free; (d, d)."""
    G = data.columns(data.rows @ fit.V.T)
    k = fit.n_units
    units = np.hstack([G[:, :k], G[:, -1:]])
    left = linalg.qr(units, mode="economic", check_finite=False)[0]
    inputs = G[:, k:-1]
    rest = inputs - left @ (left.T @ inputs)
    R = linalg.qr(rest, mode="r", check_finite=False)[0]
    return as_array(R[: inputs.shape[1]])
