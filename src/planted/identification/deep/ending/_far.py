r"""Compare a network with the black box far out, where units may switch that no line through typical inputs has met.

Far from the origin biases are small beside everything else. Along a ray every pre-activation is eventually linear, and a
unit that switches at distance T has changed answers by a fixed share of their size at a few times T, wherever that is. One
answer for each ray and each of some distances that grow geometrically shows it.

Which rays? If the first layer is no wider than the inputs, a ray raises the pre-activation of one of its units and leaves
those of the others at zero. A unit of the second layer that switches anywhere where all of the first are on switches on one
of these rays. For higher layers and wider ones, rays go to corners of what the layers below reach without their biases
(`corner_places`), and in random directions: a unit that switches in a narrow cone only may be between them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planted._typing import Array
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
INDEPENDENT = 1e-7  # smallest singular value of unit rows
OFF = 1e-9  # of the size of answers at a distance: by how much a network that was refined may be off
BOUNDS = 10.0  # times the bound on the error of a parameter, where there is one


def with_far_answers(finding: DeepFinding, records: Records, rng: np.random.Generator) -> DeepFinding:
    """Ask on rays, and return the finding with the distance within which all answers are the network's.

    Within a box nothing is asked.
    """
    box, net, rounding = records.box, finding.network, finding.rounding
    if box.has_box:
        return finding
    rays = _rays(net, box, rng)
    sizes = DISTANCES * 2.0 ** rng.uniform(-1, 0, (len(rays), DISTANCES.size))
    X = box.snap((sizes[:, :, None] * rays[:, None, :]).reshape(-1, rays.shape[1]))
    truth = records.ask(X)
    growth = (1 + np.linalg.norm(X, axis=1) / rounding.radius)[:, None]
    steepest = (np.abs(truth) / growth).max(axis=0)
    share = OFF + BOUNDS * (finding.bound or 0.0)
    allowed = PREDICTED * rounding.seen(X, truth).at(X) + share * steepest * growth
    is_off = (np.abs(truth - net(X)) > allowed).any(axis=1)
    nearest = float(sizes.ravel()[is_off].min(initial=np.inf))
    within = FARTHEST if nearest == np.inf else float(sizes[sizes < nearest].max(initial=0.0))
    return replace(finding, rays=len(rays), agrees_within=within)


def _rays(net: DeepNetwork, box: BlackBox, rng: np.random.Generator) -> Array:
    """Directions of the length of typical inputs, shape (n, d)."""
    rays = [box.draw(RANDOM, rng)]
    rays.append(-rays[0])
    W = net.layers[0][0]
    rows = W / np.linalg.norm(W, axis=1, keepdims=True)
    is_independent = len(W) <= box.n_features and np.linalg.svd(rows, compute_uv=False)[-1] > INDEPENDENT
    if is_independent:
        rays.append(np.linalg.pinv(rows).T)
    if net.n_hidden_layers > 2 or not is_independent:
        lower = [(weights, np.zeros(len(weights))) for weights, _ in net.layers[:-2]]
        rays.append(corner_places(lower, box, CORNERS, rng))
    found = np.concatenate(rays)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True) * np.sqrt(box.n_features))
