r"""Compare a network with the black box far out, where units may switch that no line through typical inputs has met.

Far from the origin biases are small beside everything else. Along a ray every pre-activation is eventually linear, and a
unit that switches at distance T has changed answers by a fixed share of their size at a few times T, wherever that is. One
answer for each ray and each of some distances that grow geometrically shows it.

Which rays? If the first layer is no wider than the inputs, a ray raises the pre-activation of one of its units and leaves
those of the others at zero. A unit of the second layer that switches anywhere where all of the first are on switches on one
of these rays. For higher layers and wider ones, rays go to corners of what the layers below reach without their biases
(`corner_places`), and in random directions: a unit that switches in a narrow cone only may be between them. Most rays to
corners are asked at one distance only, so that there can be many.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planted._typing import Array, BoolArray
from planted.identification.deep._patterns import corner_places
from planted.identification.deep._space import Records
from planted.identification.deep.ending._finish import DeepFinding
from planted.identification.two_layer._search import PREDICTED, BlackBox
from planted.networks import DeepNetwork

__all__ = ["FARTHEST", "with_far_answers"]

DISTANCES = 2.0 ** np.array([7.0, 13.0, 19.0, 25.0, 31.0, 37.0])  # typical inputs
FARTHEST = float(DISTANCES[-1])
RANDOM = 4  # rays in random directions, and as many in the opposite ones
CORNERS = 12  # rays to corners
# Further ones, asked at one distance, fewer for few parameters: units are met that are on in one such direction of 200.
MORE_CORNERS, DEEPER_CORNERS = 1_000, 400  # with two hidden layers, and with more
ONCE = 2.0**13  # typical inputs: that distance
INDEPENDENT = 1e-7  # smallest singular value of unit rows
OFF = 1e-9  # of the size of answers at a distance: by how much a network that was refined may be off
LOOKED_AT = 6  # of these, where the network is off: asked nearer by as well
NEARER = 2.0 ** np.arange(0.0, 13.0)
BOUNDS = 10.0  # times the bound on the error of a parameter, where there is one


def with_far_answers(finding: DeepFinding, records: Records, rng: np.random.Generator) -> DeepFinding:
    """Ask on rays, and return the finding with the distance within which all answers are the network's.

    Within a box nothing is asked.
    """
    box, net = records.box, finding.network
    if box.has_box:
        return finding
    rays, more = _rays(net, box, rng), _more_corners(net, box, rng)
    sizes = DISTANCES * 2.0 ** rng.uniform(-1, 0, (len(rays), DISTANCES.size))
    X = np.concatenate([(sizes[:, :, None] * rays[:, None, :]).reshape(-1, rays.shape[1]), ONCE * more])
    sizes = np.append(sizes.ravel(), np.full(len(more), ONCE))
    is_off = _is_off(finding, records, X)
    shown = more[is_off[len(sizes) - len(more) :]][:LOOKED_AT]
    if len(shown):  # from where on
        nearer = np.tile(NEARER, len(shown))
        sizes = np.append(sizes, nearer)
        is_off = np.append(
            is_off, _is_off(finding, records, nearer[:, None] * np.repeat(shown, NEARER.size, axis=0))
        )
    nearest = float(sizes[is_off].min(initial=np.inf))
    within = FARTHEST if nearest == np.inf else float(sizes[sizes < nearest].max(initial=0.0))
    return replace(finding, rays=len(rays) + len(more), agrees_within=within)


def _is_off(finding: DeepFinding, records: Records, X: Array) -> BoolArray:
    """Ask, and say which answers are not the network's, by more than rounding errors at their distance."""
    net, rounding = finding.network, finding.rounding
    X = records.box.snap(X)
    truth = records.ask(X)
    growth = (1 + np.linalg.norm(X, axis=1) / rounding.radius)[:, None]
    steepest = (np.abs(truth) / growth).max(axis=0)
    share = OFF + BOUNDS * (finding.bound or 0.0)
    allowed = PREDICTED * rounding.seen(X, truth).at(X) + share * steepest * growth
    return np.asarray((np.abs(truth - net(X)) > allowed).any(axis=1))


def _more_corners(net: DeepNetwork, box: BlackBox, rng: np.random.Generator) -> Array:
    """Further directions to corners, asked at one distance each; none where rays meet every unit of the last layer."""
    if net.n_hidden_layers == 2 and _is_independent(net.layers[0][0]):
        return np.zeros((0, box.n_features))
    lower = [(weights, np.zeros(len(weights))) for weights, _ in net.layers[:-2]]
    most, size = (MORE_CORNERS, 4.0) if net.n_hidden_layers == 2 else (DEEPER_CORNERS, 0.5)
    count = min(most, int(size * net.n_parameters))
    return _typical(corner_places(lower, box, count, rng))


def _is_independent(W: Array) -> bool:
    """Whether the rows of the first layer are independent."""
    rows = W / np.linalg.norm(W, axis=1, keepdims=True)
    return len(W) <= W.shape[1] and bool(np.linalg.svd(rows, compute_uv=False)[-1] > INDEPENDENT)


def _typical(X: Array) -> Array:
    """Directions with the length of typical inputs."""
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True) * np.sqrt(X.shape[1]))


def _rays(net: DeepNetwork, box: BlackBox, rng: np.random.Generator) -> Array:
    """Directions of the length of typical inputs, shape (n, d)."""
    rays = [box.draw(RANDOM, rng)]
    rays.append(-rays[0])
    W = net.layers[0][0]
    is_independent = _is_independent(W)
    if is_independent:
        rays.append(np.linalg.pinv(W / np.linalg.norm(W, axis=1, keepdims=True)).T)
    if net.n_hidden_layers > 2 or not is_independent:
        lower = [(weights, np.zeros(len(weights))) for weights, _ in net.layers[:-2]]
        rays.append(corner_places(lower, box, CORNERS, rng))
    return _typical(np.concatenate(rays))
