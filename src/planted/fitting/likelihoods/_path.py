"""Find units behind labels: expand, fit, take units away one by one, and turn them round.

Problem     Find a network, perhaps with the number of its units, that explains labels of classes or counts.
Idea        As for units of any activation in least squares (`planted.fitting.curved._path`), with the loss of the labels:

            *Up.* With k given the fit begins with twice as many units, otherwise with `FIRST_WIDTH`, and with twice as
            many again while more than half of them are kept. *Down.* The unit whose removal costs least by the information
            of the output layer is taken away and the others are fitted again. The width chosen has the smallest

                2 loss + log(n) unknowns                                                                  (1)

            (Schwarz 1978). A small ridge keeps weights finite where labels are separated on the way; the answer is fitted
            again without it.

            *Orientation.* Where an activation differs from its mirror image by a linear function, f(-t) = f(t) + s t, the
            search has a free linear part B, beside which orientation is a gauge. Turning unit i round adds
            :math:`-s a_i w_i'` to B; the choices of signs for which B nearly vanishes, in the metric of the information, are
            tried on the rows without B.
Guarantee   None that the global maximum is found; the certificate decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from planted._typing import Array, BoolArray, as_array
from planted.fitting.curved._orientation import sign_choices
from planted.fitting.curved._units import random_units
from planted.fitting.likelihoods._fit import (
    LabelFit,
    LabelRows,
    fit_labels,
)
from planted.moments import n_output_columns, output_weights
from planted.networks import Activation, TwoLayerNetwork

__all__ = [
    "LabelPath",
    "criterion",
    "fit_from",
    "follow_labels",
    "oriented",
    "unknowns_of",
]

FIRST_WIDTH = 6
WIDEST = 48
ROWS_PER_UNKNOWN = 4  # labels that an expanded fit leaves for each of its unknowns
LEFT = 3.0  # penalties of a unit by which a path has left the best width
SEARCH_RIDGE = 0.1  # nats per squared weight of standardised inputs
OUTPUT_ITER, WIDE_ITER, STEP_ITER = 8, 60, 20
WIDE_TOL, STEP_TOL, FIT_TOL, ROUGH_TOL = (
    0.05,
    0.05,
    1e-9,
    1e-3,
)  # nats; the last for kinks, whose maxima are small
FIT_ITER = 100
N_TRIED, TRIED_ITER = 4, 2


@dataclass(frozen=True, slots=True)
class LabelPath:
    """The end of one way up and down."""

    network: TwoLayerNetwork
    criteria: dict[int, float]  # (1) for every width passed on the way down
    records: list[dict[str, Any]]


def follow_labels(
    rows: LabelRows,
    activation: Activation,
    *,
    linear: bool,
    n_hidden: int | None,
    start: Array,
    varies: Array,
    rng: np.random.Generator,
) -> LabelPath:
    """Follow the widths up and down once, from random units.

    `start`: outputs of the best constant. `varies`: one for inputs that vary. Shapes: start (m,), varies (d + 1,).
    """
    records: list[dict[str, Any]] = []
    m, p = len(start), len(varies)
    affordable = max(rows.n_samples * m // (ROWS_PER_UNKNOWN * (p + m)), n_hidden or 1)
    width = FIRST_WIDTH if n_hidden is None else n_hidden + max(n_hidden, 3)
    units = np.zeros((0, p))
    while True:
        width = min(width, affordable, max(WIDEST, n_hidden or 1))
        fresh = random_units(width - len(units), p - 1, rng) * varies
        fit = _fit_fresh(rows, np.vstack([units, fresh]), activation, linear, start)
        records.append(_record("expand", fit))
        fits = _narrow(rows, fit, n_hidden, records)
        criteria = {each.network.n_hidden: criterion(rows, each) for each in fits}
        chosen = min(fits, key=lambda each: criteria[each.network.n_hidden])
        if n_hidden is not None:
            return LabelPath(fits[-1].network, criteria, records)
        k = chosen.network.n_hidden
        if 2 * k <= width or width >= min(affordable, WIDEST):
            return LabelPath(chosen.network, criteria, records)
        units = np.hstack([chosen.network.W, chosen.network.b[:, None]])
        width *= 2


def fit_from(rows: LabelRows, network: TwoLayerNetwork, *, ridge: float = 0.0) -> LabelFit:
    """Fit a network to the end."""
    tol = ROUGH_TOL if network.activation.is_piecewise_linear else FIT_TOL
    return fit_labels(rows, network, ridge=ridge, max_iter=FIT_ITER, tol=tol)


def unknowns_of(network: TwoLayerNetwork) -> int:
    """Return the number of unknowns, up to the scale of units where it is a gauge."""
    return int(network.n_parameters)


def criterion(rows: LabelRows, fit: LabelFit) -> float:
    """Return (1)."""
    return float(2 * fit.sums.loss + np.log(rows.n_samples) * unknowns_of(fit.network))


def oriented(rows: LabelRows, fit: LabelFit) -> list[LabelFit]:
    """Return the best fits without a linear part whose units are those of a fit with one, each turned or not."""
    net = fit.network
    mirror = net.activation.mirror
    assert net.B is not None and mirror is not None and mirror.slope
    root = _linear_metric(fit)
    columns = root @ (mirror.slope * np.einsum("li,ia->lai", net.A, net.W)).reshape(-1, net.n_hidden)
    target = columns.sum(axis=1) - 2 * root @ net.B.ravel()
    tries = [
        fit_labels(rows, _turned(net, flips), ridge=SEARCH_RIDGE, max_iter=TRIED_ITER, tol=STEP_TOL)
        for flips in _distinct(sign_choices(columns, target))
    ]
    near = sorted(tries, key=lambda each: each.cost)[:N_TRIED]
    fitted = [
        fit_labels(rows, each.network, ridge=SEARCH_RIDGE, max_iter=WIDE_ITER, tol=STEP_TOL) for each in near
    ]
    return [fit_from(rows, each.network) for each in sorted(fitted, key=lambda each: each.cost)]


def _fit_fresh(rows: LabelRows, V: Array, activation: Activation, linear: bool, start: Array) -> LabelFit:
    """Fit the output layer of random units, then all parameters."""
    m, d = len(start), V.shape[1] - 1
    B = np.zeros((m, d)) if linear else None
    network = TwoLayerNetwork(V[:, :-1], V[:, -1], np.zeros((m, len(V))), start, activation, B)
    fit = fit_labels(rows, network, ridge=SEARCH_RIDGE, outputs_only=True, max_iter=OUTPUT_ITER, tol=WIDE_TOL)
    return fit_labels(rows, fit.network, ridge=SEARCH_RIDGE, max_iter=WIDE_ITER, tol=WIDE_TOL)


def _narrow(
    rows: LabelRows, fit: LabelFit, n_hidden: int | None, records: list[dict[str, Any]]
) -> list[LabelFit]:
    """Take units away one by one and fit the others again, until (1) has clearly risen or k are left."""
    fits, best = [fit], criterion(rows, fit)
    network = fit.network
    penalty = np.log(rows.n_samples) * (network.n_features + 1 + network.n_outputs)
    while fit.network.n_hidden > (n_hidden or 1):
        fewer = _without_unit(fit)
        fit = fit_labels(rows, fewer, ridge=SEARCH_RIDGE, max_iter=STEP_ITER, tol=STEP_TOL)
        fits.append(fit)
        records.append(_record("narrow", fit))
        here = criterion(rows, fit)
        if n_hidden is None and here > best + LEFT * penalty:
            break
        best = min(best, here)
    return fits


def _without_unit(fit: LabelFit) -> TwoLayerNetwork:
    """Leave out the unit whose weights are the smallest by the information of the output layer."""
    net = fit.network
    m, k = net.A.shape
    hidden, size = net.W.size + k, n_output_columns(net, offset=True)
    inner = fit.sums.information[hidden:, hidden:]
    covariance = linalg.pinvh(inner + 1e-12 * np.trace(inner) / len(inner) * np.eye(len(inner)))
    rises = []
    for unit in range(k):
        own = unit + size * np.arange(m)
        rises.append(float(net.A[:, unit] @ linalg.pinvh(covariance[np.ix_(own, own)]) @ net.A[:, unit]))
    kept = np.arange(k) != int(np.argmin(rises))
    return replace(net, W=net.W[kept], b=net.b[kept], A=net.A[:, kept])


def _linear_metric(fit: LabelFit) -> Array:
    """A root of the information on B, the other weights of the output layer being free; (m d, m d)."""
    net = fit.network
    m, k = net.A.shape
    hidden, size = net.W.size + k, output_weights(net).shape[1]
    inner = fit.sums.information[hidden:, hidden:]
    is_linear = np.tile((np.arange(size) >= k) & (np.arange(size) < size - 1), m)
    cross = inner[np.ix_(~is_linear, is_linear)]
    others = linalg.pinvh(inner[np.ix_(~is_linear, ~is_linear)])
    values, vectors = linalg.eigh(inner[np.ix_(is_linear, is_linear)] - cross.T @ others @ cross)
    return as_array((vectors * np.sqrt(np.maximum(values, 0.0))).T)


def _turned(net: TwoLayerNetwork, flips: BoolArray) -> TwoLayerNetwork:
    """Turn units round; without the linear part, whose rest the choice of units has made small."""
    mirror = net.activation.mirror
    assert mirror is not None
    signs = np.where(flips, -1.0, 1.0)
    # f(t) = f(u) + s u with u = -t: the constant of s u goes to the offset.
    c = net.c - (net.A * (mirror.slope * net.b * flips)).sum(axis=1)
    return replace(net, W=net.W * signs[:, None], b=net.b * signs, c=c, B=None)


def _distinct(choices: list[BoolArray]) -> list[BoolArray]:
    return [np.array(choice) for choice in dict.fromkeys(tuple(map(bool, choice)) for choice in choices)]


def _record(start: str, fit: LabelFit) -> dict[str, Any]:
    return {"start": start, "k": fit.network.n_hidden, "loss": fit.sums.loss, "steps": fit.n_steps}
