"""The angle below which noise hides that one unit is two.

Problem     Two units with nearly the same hyperplane and output weights of one sign look like one unit. Their
            difference from it is confined to the wedge between the hyperplanes. Below some angle the noise hides it,
            every test of the residual passes, and a network with one unit too few would be called recovered.
Idea        In the space of hyperplanes v = (w, b) let the pair be v ± ε u with |u| = 1. With one output the
            difference is a (ε |u'x̃| - |t|)₊ / 2 in the wedge, of mean square a² p(0) ε³ E|u'x̃|³ / 6, where p(0) is
            the density of t at the kink. With several outputs the two units have different output weights, and the
            difference is of first order, of mean square |a|² ε² / 2. It is seen when n times the mean square exceeds
            L noise variances, where L is the limit of the test for a missing unit (`_missing_unit`). This gives for
            each unit the angle α = 2 ε below which it may be two.

            Whether this matters depends on the dimension. Of k other units with random hyperplanes, some k P(α) lie
            within α of a given one, and P(α) falls like α to the power d. The sum over units, halved, is the expected
            number of hidden pairs; a network is claimed when it is below `HIDDEN_PAIRS`. A single unit has no other
            beside it that chance could have hidden; the claim is about networks of one unit, and states the angle.
Guarantee   An estimate for random units. Nothing excludes a network that was built with nearly parallel units.
Cost        One product of n d k multiplications on the rows in memory.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from planted._typing import Array, as_array
from planted.certificates._missing_unit import LEVEL, noise_limit
from planted.checks import Check
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.results import Evidence

__all__ = ["hidden_angles", "resolution_evidence", "samples_that_resolve"]

NAME = "pairs of units that look like one at this noise, expected among random units"

HIDDEN_PAIRS = 0.01
NEAR_KINK = 0.5  # standard deviations of t within which the density at the kink is counted
THIRD_MOMENT = 1.6  # E|u'x|³ of standardised inputs


def resolution_evidence(
    problem: Problem, network: TwoLayerNetwork, *, noise: float, biases: bool = True
) -> tuple[Evidence, Evidence]:
    """Return the angle that noise hides and how many pairs of random units it would hide.

    The largest angle is for information; the expected number of hidden pairs must be small.
    """
    angles = hidden_angles(problem, network, noise=noise)
    dimension = problem.n_features + int(biases)
    k = network.n_hidden
    pairs = k * _chance_within(angles, dimension).sum() / 2 if k > 1 else 0.0
    return (
        Evidence(
            "largest angle at which two units look like one (radians)",
            float(angles.max()),
            key=Check.HIDDEN_ANGLE,
        ),
        Evidence(NAME, float(pairs), HIDDEN_PAIRS, "<=", key=Check.HIDDEN_PAIRS),
    )


def samples_that_resolve(problem: Problem, pairs: Evidence, *, biases: bool = True) -> float:
    """Return about how many samples would make the expected number of hidden pairs small enough.

    The angle falls like n to the power 1/3, or 1/2 with several outputs, and the number of pairs like the angle to the
    power of the dimension of hyperplanes, if it is small.
    """
    dimension = max(problem.n_features + int(biases) - 1, 1)
    power = (2.0 if problem.n_outputs > 1 else 3.0) / dimension
    return float(problem.n_samples * (pairs.measured / pairs.required) ** power)


def hidden_angles(problem: Problem, network: TwoLayerNetwork, *, noise: float) -> Array:
    """Return for each unit the angle below which it may be two.

    Shapes: result (k,).
    """
    norms = np.linalg.norm(np.column_stack([network.W, network.b]), axis=1)
    weights = (np.linalg.norm(network.A, axis=0) * norms) ** 2
    limit = noise_limit(problem, LEVEL) * noise**2
    if problem.n_outputs > 1:
        return as_array(np.minimum(2 * np.sqrt(2 * limit / (problem.n_samples * weights)), np.pi))
    t = network.preactivations(problem.X) / norms
    width = NEAR_KINK * t.std(axis=0)
    density = np.maximum((np.abs(t) < width).mean(axis=0), 1 / len(t)) / (2 * width)
    cubes = 6 * limit / (problem.n_samples * weights * density * THIRD_MOMENT)
    return as_array(np.minimum(2 * np.cbrt(cubes), np.pi))


def _chance_within(angles: Array, dimension: int) -> Array:
    """Return the part of the unit sphere within an angle of a point: the cap of that angle."""
    if dimension < 2:
        return np.full(len(angles), 0.5)
    half = special.betainc((dimension - 1) / 2, 0.5, np.sin(np.minimum(angles, np.pi / 2)) ** 2) / 2
    return np.where(angles <= np.pi / 2, half, 0.5)
