r"""Read deep networks of leaky units, f(t) = t for t > 0 and s t below, with one slope s.

A leaky layer can be inverted. Once the units of a layer are known, and are no more than the numbers below, any outputs h of
the layer can be asked for, at x = W⁺(f⁻¹(h) − b): no region is out of reach, and h ↦ f(x(h)) is a network with one layer
less. Its first layer breaks along whole hyperplanes again.

A unit takes part in the gradients on both sides of its hyperplane. The side with the larger part is the one on which it is
on, and the ratio of the parts is s. With f(t) = (1 − s)/2 |t| + (1 + s)/2 t the last hidden layer is

.. math:: y = \sum_j \alpha_j |t_j| + L h + c, \qquad L = \frac{1 + s}{1 - s} \sum_j o_j \alpha_j w_j    \quad (1)

with o the orientations. At the end all parameters, s among them, are refined by Gauss–Newton steps on all answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from scipy import linalg

from planted._typing import Array, Progress
from planted.identification.deep._kinds import sides_of_leaky
from planted.identification.deep._planes import Survey
from planted.identification.deep._space import Records, Space
from planted.identification.deep._top import EXPLAINED, NO_REST, Top, orientations
from planted.identification.deep.ending._finish import (
    DeepFinding,
    check_line,
    missing_rank,
    one_sided_units,
    rare_places,
    weigh,
)
from planted.identification.deep.ending._polish import jacobian, moved, polish
from planted.identification.deep.stages._state import Reading
from planted.identification.two_layer._search import check_network
from planted.networks import DeepNetwork
from planted.networks._deep import Layer

__all__ = ["finish_leaky", "read_leaky"]

SAME = 1e-4  # relative difference of slopes that are the same
MOST_LAYERS = 6
REACH = 256.0  # radii: how far lines go; far out, errors of the layers below bend what is straight
FRESH = 2.0  # fresh equations for each parameter
REFINED = 3_000_000  # numbers of the Jacobian in which the slope is refined
STEPS = 4
ROUGH, SHORT = (
    1e-5,
    1e-9,
)  # relative distance from a short number at which the slope may be, and is, that number


def read_leaky(
    records: Records,
    survey: Survey,
    slope: float,
    survey_layer: Callable[[Space], Survey],
    *,
    rng: np.random.Generator,
    progress: Progress,
) -> Iterator[tuple[list[Layer], Top | None, str]]:
    """Read layer after layer above the first, which was surveyed; yield the layers, the output layer, and why it ended.

    `survey_layer`: looks for the hyperplanes of a space.
    """
    layers: list[Layer] = []
    sizes = np.ones(records.box.n_features)
    while True:
        number = len(layers) + 1
        top = _fit_top(records, layers, (survey.planes.normals / sizes, survey.planes.offsets), slope)
        if top is not None:
            yield [*layers, top.layer], top, ""
            return
        signs, slopes = sides_of_leaky(survey)
        if not np.isfinite(slopes).all() or number > MOST_LAYERS:
            yield layers, None, f"which side of the units of layer {number} is on was not settled"
            return
        if np.abs(slopes - slope).max() > SAME * slope + 1e-6:
            yield layers, None, f"units of layer {number} have another slope below zero than those of layer 1"
            return
        layers.append((signs[:, None] * survey.planes.normals / sizes, signs * survey.planes.offsets))
        yield layers, None, ""
        progress(f"layer {number + 1}", 0.0)
        space, sizes = _outputs_space(records, layers, slope, rng)
        survey = survey_layer(space)
        if not survey.planes.offsets.size:
            yield layers, None, f"no unit of layer {number + 1} was found"
            return


def _outputs_space(
    records: Records, layers: list[Layer], slope: float, rng: np.random.Generator
) -> tuple[Space, Array]:
    """The function of the outputs of the last known layer, in units of their typical sizes, and these."""
    box = records.box
    typical = _pass(layers, box.draw(400, rng), slope)
    sizes = np.sqrt((typical**2).mean(axis=0))
    inverses = [np.linalg.pinv(W) for W, _ in layers]

    def ask(V: Array) -> Array:
        H = V * sizes
        for (_, b), inverse in zip(layers[::-1], inverses[::-1], strict=True):
            H = (np.where(H > 0, H, H / slope) - b) @ inverse.T
        return records.ask(H)

    def draw(count: int, stream: np.random.Generator) -> Array:
        return np.asarray(_pass(layers, box.draw(count, stream), slope) / sizes)

    k = sizes.size
    space = Space.calibrated(
        ask, draw, sides=np.zeros((0, k)), limits=np.zeros(0), reach=REACH, rng=rng, grid=box.grid
    )
    return space, sizes


def _pass(layers: list[Layer], X: Array, slope: float) -> Array:
    for W, b in layers:
        T = X @ W.T + b
        X = np.where(T > 0, T, slope * T)
    return X


def _fit_top(records: Records, layers: list[Layer], planes: Layer, slope: float) -> Top | None:
    """The last hidden layer and the output layer by eq. (1); None if it is not the last."""
    X, Y = records.all()
    H = _pass(layers, X, slope)
    rows, biases = planes
    k, p = rows.shape
    T = H @ rows.T + biases
    weights = weigh(X)[:, None]
    features = np.column_stack([np.abs(T), H, np.ones(len(H))])
    if features.shape[0] < 2 * features.shape[1]:
        return None
    lengths = np.linalg.norm(features * weights, axis=0)
    coefficients = (
        np.linalg.lstsq(features * weights / lengths, Y * weights, rcond=1e-13)[0] / lengths[:, None]
    )
    left = np.abs((features @ coefficients - Y) * weights).max(axis=0)
    spread = (Y * weights).std(axis=0)
    residual = float((left / np.where(spread > 0, spread, 1.0)).max())
    if residual > EXPLAINED:
        return None
    alphas, linear, constant = coefficients[:k].T, coefficients[k : k + p].T, coefficients[-1]
    columns = (1 + slope) / (1 - slope) * np.einsum("mk,kp->mpk", alphas, rows)
    ups, is_unique, rest = orientations(columns.reshape(-1, k), linear.ravel(), NO_REST)
    if rest > NO_REST:
        return None
    A = 2 / (1 - slope) * alphas
    c = constant - (1 + slope) / 2 * A @ (biases * ups)
    return Top(
        (rows * ups[:, None], biases * ups),
        (A, c),
        0.0,
        0,
        is_unique,
        residual,
        np.zeros(rows.shape, dtype=np.bool_),
    )


def finish_leaky(reading: Reading, records: Records, *, rng: np.random.Generator) -> DeepFinding:
    """Refine the network and its slope on fresh answers, and check it on others."""
    assert reading.top is not None and reading.rounding is not None and reading.slope is not None
    rounding = reading.rounding
    net = DeepNetwork([*reading.layers, reading.top.output], _name(reading.slope))
    box = replace(records.box, ask=records.ask)
    asked = records.all()[0]
    count = int(np.ceil(FRESH * net.n_parameters / net.n_outputs)) + 20
    rows = box.draw(count, rng) * 2.0 ** rng.uniform(-1, 2, (count, 1))
    rows = box.snap(np.concatenate([rows, rare_places(net, rows, asked, box, rng)]))
    Y = records.ask(rows)
    short = polish(_shortened(net, ROUGH), rows, Y, weigh(rows))
    allowed = rounding.seen(rows, Y).at(rows)
    if (np.abs(short(rows) - Y) <= allowed).all():
        net = short
    else:
        net = _refine(polish(net, rows, Y, weigh(rows)), rows, Y)
        net = polish(_shortened(net, SHORT), rows, Y, weigh(rows))
    checks = check_network(box, net, rounding, rng)
    off, on = check_line(net, records, rounding, rng)
    Z = np.concatenate([asked, rows])
    return DeepFinding(net, checks, off, on, missing_rank(net, Z), one_sided_units(net, Z), rounding)


def _name(slope: float) -> str:
    return f"leaky-relu:{slope!r}"


def _slope(net: DeepNetwork) -> float:
    return -net.activation.left


def _refine(net: DeepNetwork, X: Array, Y: Array) -> DeepNetwork:
    """Gauss–Newton steps of all parameters and the slope; the sum of squares does not rise."""
    most = max(REFINED // (net.n_parameters * net.n_outputs), 2 * net.n_parameters // net.n_outputs)
    X, Y = X[:most], Y[:most]
    weights = np.repeat(weigh(X), net.n_outputs)
    for _ in range(STEPS):
        slope = _slope(net)
        steeper = DeepNetwork(net.layers, _name(slope * (1 + 1e-4)))
        column = ((steeper(X) - net(X)) / (1e-4 * slope)).ravel()
        J = np.column_stack([jacobian(net, X), column]) * weights[:, None]
        lengths = np.linalg.norm(J, axis=0)
        lengths[lengths == 0] = 1.0
        target = (Y - net(X)).ravel() * weights
        step = linalg.lstsq(J / lengths, target, cond=1e-13, lapack_driver="gelsy")[0] / lengths
        trial = DeepNetwork(moved(net, step[:-1]).layers, _name(float(slope + step[-1])))
        if not _cost(trial, X, Y) < _cost(net, X, Y):
            break
        net = trial
    return net


def _shortened(net: DeepNetwork, near: float) -> DeepNetwork:
    """The network with a short number as slope, if its own is as near to that, relative."""
    short = float(f"{_slope(net):.4g}")
    return DeepNetwork(net.layers, _name(short)) if abs(short - _slope(net)) <= near * short else net


def _cost(net: DeepNetwork, X: Array, Y: Array) -> float:
    return float((weigh(X)[:, None] ** 2 * (Y - net(X)) ** 2).sum())
