r"""How many pairs of random units noise would hide, each looking like one unit.

Problem     Two units with nearly the same hyperplane and similar output weights look like one unit. Their difference from
            it is confined to the wedge between the hyperplanes. Below some angle the noise hides it, every test of the
            residual passes, and a network with one unit too few would be called recovered.
Idea        In the space of hyperplanes v = (w, b) let the two be an angle α apart, with output weights a/2 ± r |a| e,
            where e is a unit vector across a, so that the one unit in their place has the output weights a. With x̃ = (x, 1)
            and t = v'x̃, n times the mean square of the difference, in noise variances σ², is

            .. math:: \delta^2 = \frac{n |a|^2}{\sigma^2} \Bigl( \frac{r^2 \alpha^2}{2}
                      + \frac{p(0)\, E|u^\top \tilde x|^3 \alpha^3}{48} \Bigr),                             \quad (1)

            u being the direction in which the hyperplanes differ and p(0) the density of t at the kink. The first term is
            that of output weights which differ, the second that of the wedge, which is all there is with one output or
            with output weights of one direction. The Jacobian of the network takes a part of δ²: of 120 pairs drawn three
            in four kept more than `KEPT`.

            The test for a missing unit finds a fall of δ² + ν on average, ν = d + m, with variance 4 δ² + 2 ν. A pair is
            missed if that stays below the limit L of the test.

            Whether this matters depends on the dimension. Of k other units with random hyperplanes and random output
            weights some are close to a given one in both; the chance that such a pair is missed is (1) summed over
            angles, and over those between the output weights of two equally strong units, tan(φ/2) = 2 r. The sum over
            units, halved, is the expected number of hidden pairs; a network is claimed when it is below `HIDDEN_PAIRS`.
            A single unit has no other beside it that chance could have hidden.
Guarantee   An estimate for random units. Networks that were built with close units are looked for in `noise._close_units`.
Cost        One product of n d k multiplications on the rows in memory.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from planted._typing import Array, as_array
from planted.certificates._missing_unit import LEVEL, noise_limit
from planted.certificates.noise._fitted_rows import FittedRows
from planted.checks import Check
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.results import Evidence

__all__ = ["resolution_evidence", "samples_that_resolve"]

NAME = "pairs of units that look like one at this noise, expected among random units"

# Of 71 noisy networks that no other test refused this line expects 0.23 to lack a unit, of the 55 below the limit 0.03.
HIDDEN_PAIRS = 0.003
NEAR_KINK = 0.5  # standard deviations of t within which the density at the kink is counted
THIRD_MOMENT = 1.6  # E|u'x|³ of standardised inputs
KEPT = 0.5  # part of (1) that the Jacobian leaves
MORE_NEAR = (
    1.5  # kinks lie among the samples: so much more often than directions of v at random two are close
)
_STEPS = 60  # of sums over angles


def resolution_evidence(
    problem: Problem,
    network: TwoLayerNetwork,
    *,
    noise: float,
    biases: bool = True,
    at: FittedRows | None = None,
) -> Evidence:
    """Return how many pairs of random units the noise would hide: that must be small.

    `at`: the network at the rows in memory, if that was computed already.
    """
    sizes, densities = _sizes(at or FittedRows(problem, network), noise)
    k = network.n_hidden
    pairs = k * _chances(problem, sizes, densities, biases).sum() / 2 if k > 1 else 0.0
    return Evidence(NAME, float(pairs), HIDDEN_PAIRS, "<=", key=Check.HIDDEN_PAIRS)


def samples_that_resolve(problem: Problem, pairs: Evidence, *, biases: bool = True) -> float:
    """Return about how many samples would make the expected number of hidden pairs small enough.

    By (1) the angles that are hidden fall like n to the power 1/3 among pairs of like output weights, which are the rarer
    the more outputs there are, and like n to the power 1/2 among others; the number of pairs falls like the angle to the
    power of the dimension of hyperplanes, if it is small.
    """
    dimension, outputs = max(problem.n_features + int(biases) - 1, 1), problem.n_outputs
    like = dimension / 3 + (outputs - 1) / 6
    power = 1 / (like if outputs == 1 else min(like, dimension / 2))
    return float(problem.n_samples * (pairs.measured / pairs.required) ** power)


def _chances(problem: Problem, sizes: Array, densities: Array, biases: bool) -> Array:
    """Return for each unit the chance that a random one beside it is missed; (k,)."""
    limit, freedom = _limit(problem)
    angles, chances = _random_angles(problem.n_features + int(biases))
    near = angles < np.pi / 2  # of hyperplanes; units that look to opposite sides are not taken for one
    angles, chances = angles[near], MORE_NEAR * chances[near]
    across, shares = _random_angles(problem.n_outputs)
    first = (np.tan(across / 2) / 2) ** 2 * angles[:, None] ** 2 / 2
    third = densities[:, None, None] * THIRD_MOMENT * angles[:, None] ** 3 / 48
    raised = KEPT * sizes[:, None, None] * (first + third)  # (k, angles, angles across)
    missed = special.ndtr((limit - freedom - raised) / np.sqrt(4 * raised + 2 * freedom))
    return as_array(missed @ shares @ chances)


def _limit(problem: Problem) -> tuple[float, int]:
    """Return the limit of the test for a missing unit, and what a unit that is there adds to its fall by chance."""
    return noise_limit(problem, LEVEL), problem.n_features + problem.n_outputs


def _sizes(at: FittedRows, noise: float) -> tuple[Array, Array]:
    """Return n |a|² of each unit in noise variances, its hyperplane of length one, and its density at the kink."""
    network = at.network
    norms = np.linalg.norm(np.column_stack([network.W, network.b]), axis=1)
    sizes = (np.linalg.norm(network.A, axis=0) * norms / noise) ** 2 * at.problem.n_samples
    n, width = at.t.shape[1], NEAR_KINK * at.t.std(axis=1)
    near = np.array([np.count_nonzero(np.abs(t) < reach) for t, reach in zip(at.t, width, strict=True)])
    return sizes, np.maximum(near, 1) / n / (2 * width / norms)


def _random_angles(dimension: int) -> tuple[Array, Array]:
    """Return angles between two random directions in some dimensions, and the chances of each."""
    if dimension == 1:
        return np.array([0.0, np.pi]), np.array([0.5, 0.5])
    angles = np.pi * (np.arange(_STEPS) + 0.5) / _STEPS
    density = np.sin(angles) ** (dimension - 2)
    return angles, density / density.sum()
