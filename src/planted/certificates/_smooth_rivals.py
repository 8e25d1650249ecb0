"""Tests whether the units of a network bend sharply, or whether smooth activations explain the data as well.

Problem     The sum of a few ReLU units approximates a smooth function. With noise, a network with tanh, softplus or
            GELU units is then fitted by ReLU units, one more at a time, until no test of the residual fails; the
            result has a wrong activation and a wrong number of units.
Idea        Replace the kink of every unit by a smooth bend of the same freedom and refine the network again. Bends are
            those of softplus, s log(1 + exp(t/s)), and of GELU, t Φ(t/s), whose width s is a part of the spread of the
            unit's pre-activation t. If the kinks are real, the sum of squares rises by what the bends cannot follow;
            if the truth is smooth, a bend of the right width explains more than the kinks do, although neither network
            fails a test by itself. Let the rise be measured in noise variances. If the network with smooth bends were
            the truth and δ² the expected rise of the one with kinks, the measured difference would be normal with mean
            -δ² and variance 4δ²: a difference of L in favour of the kinks has at most the probability of √L standard
            deviations, 1e-3 for `SHARPER`.

            If the truth is smooth, bends that are narrower than its own still come closer to it than kinks do. So the
            wider ones are tried only where the closest are not far off (`FAR`).

            A single unit must bend more sharply still (`SHARPER_ALONE`). Noise on the inputs rounds a kink, and where there
            is one kink and one output no other test sees that with certainty: of 260 single units under noise of 20 to 35
            per cent on the inputs 11 were claimed at the lower limit, with differences of 9 to 19, up to six standard
            errors off.

            Narrow bends cannot be distinguished from kinks at most noise levels. They are only required not to explain
            the data better than the kinks, by more than `ROUNDER`.

            *Nearly parallel units.* All bends together say little about a few of them: where the other kinks are sharp,
            the sum of squares rises by what these lose. But two units with nearly parallel hyperplanes, of equal or of
            opposite sides, are a function of one direction, piecewise linear with two kinks: the broken line that
            stands for a smooth curve, such as a square (opposite sides) or a step (equal sides). So for every pair
            within `PARALLEL` the two kinks alone are replaced by bends. The pair and its rival have the same
            freedom, and the same limit holds. Wide bends of opposite sides make up a square: a softplus of large width
            is a line plus a square.
Guarantee   The refined rival may be a local minimum, in which case the rise is too large. Bends that are narrower than
            the rivals are not excluded: the claim is about bends of at least those widths.
Cost        Three to six refinements on `SOME_ROWS` rows, and two for each pair of nearly parallel units, which end where
            the rise is seen to stay large; those that come close are repeated on more, and on the rows in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from planted._typing import Array, as_array
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import Problem
from planted.linalg.symmetric import unit_rows
from planted.networks import Activation, TwoLayerNetwork
from planted.results import Evidence
from planted.rows import RowBlocks, RowWeights

__all__ = ["SoftActivation", "smooth_rival_evidence"]

SHARPER, SHARPER_ALONE = 9.0, 25.0  # noise variances
ROUNDER = 9.0  # noise variances
FAR = 10.0  # times the limit: where the closest bends are so far off, wider ones are farther
CLEARLY = 3.0  # times the limit: a difference on some rows that needs no others
# Bends, with their widths in standard deviations of a unit's pre-activation.
CLOSEST = (("GELU", 0.5), ("softplus", 0.25))
WIDER = (("GELU", 1.0), ("softplus", 0.5), ("softplus", 1.0))
NARROW = (("softplus", 0.1),)
OF_PAIRS = (("softplus", 0.5), ("GELU", 1.0))
PARALLEL = 0.3  # radians between the normals of two units, or one and the other turned round
SHARP = 1e-6  # width that is no bend
SOME_ROWS, ROWS_PER_UNKNOWN = (300, 1000), (8, 8)  # so many rows, or so many equations for each unknown
STEPS = 8
STEP_GAIN = 0.5  # noise variances: a step that gains less does not matter here


@dataclass(frozen=True, slots=True)
class SoftActivation(Activation):
    """A piecewise linear activation with a smooth bend in place of its kink."""

    widths: Array  # (k,): width of each unit's bend
    bend: str  # "softplus" or "GELU"

    def __call__(self, t: Array) -> Array:
        """Return the activation of ``t``, elementwise; columns are units."""
        right = as_array(self.right * self._rectified(t))
        return right if self.left == 0.0 else right + self.left * self._rectified(-t)

    def derivative(self, t: Array) -> Array:
        """Return the derivative."""
        right = as_array(self.right * self._slope(t))
        return right if self.left == 0.0 else right - self.left * self._slope(-t)

    def _rectified(self, t: Array) -> Array:
        if self.bend == "GELU":
            return as_array(t * special.ndtr(t / self.widths))
        return as_array(self.widths * np.logaddexp(0.0, t / self.widths))

    def _slope(self, t: Array) -> Array:
        u = t / self.widths
        if self.bend == "GELU":
            return as_array(special.ndtr(u) + u * np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi))
        return as_array(special.expit(u))


def smooth_rival_evidence(
    problem: Problem,
    network: TwoLayerNetwork,
    *,
    offset: bool,
    noise: float,
    biases: bool = True,
    weights: RowWeights | None = None,
) -> tuple[Evidence, ...]:
    """Compare the kinks of a network with smooth bends in their place.

    Returns two lines: the smallest rise of the sum of squares with wide bends, of all units or of two that are nearly
    parallel, and the largest fall with narrow ones.
    An activation that is not piecewise linear has no kink, and no line.
    """
    if not network.activation.is_piecewise_linear:
        return ()
    fits = _Fits(problem, network, offset, noise, biases, weights)
    wide = {_name(rival): fits.rise(rival, SHARPER, least=FAR * SHARPER) for rival in CLOSEST}
    if min(wide.values()) < FAR * SHARPER:
        wide |= {_name(rival): fits.rise(rival, SHARPER) for rival in WIDER}
    for pair in _parallel_pairs(network):
        units = f"the kinks of units {pair[0] + 1} and {pair[1] + 1}"
        wide |= {_name(rival, units): fits.rise(rival, SHARPER, pair) for rival in OF_PAIRS}
    narrow = {_name(rival): fits.rise(rival, -ROUNDER) for rival in NARROW}
    closest, rounder = min(wide, key=lambda rival: wide[rival]), min(narrow, key=lambda rival: narrow[rival])
    return (
        Evidence(
            f"rise of the sum of squares with {closest}, in noise variances",
            wide[closest],
            SHARPER if network.n_hidden > 1 else SHARPER_ALONE,
            ">=",
            key=Check.SMOOTH_BENDS,
        ),
        Evidence(
            f"fall of the sum of squares with {rounder}, in noise variances",
            max(-narrow[rounder], 0.0),
            ROUNDER,
            "<=",
            key=Check.ROUNDED_KINKS,
        ),
    )


def _name(rival: tuple[str, float], kinks: str = "kinks") -> str:
    return f"{rival[0]} bends of width {rival[1]:g} in place of {kinks}"


def _parallel_pairs(network: TwoLayerNetwork) -> list[tuple[int, int]]:
    """Return the pairs of units whose hyperplanes are nearly parallel; where there are two units, all is said."""
    if network.n_hidden == 2:
        return []
    normals = unit_rows(network.W)[0]
    is_near = np.triu(np.abs(normals @ normals.T) > np.cos(PARALLEL), 1)
    return [(int(first), int(second)) for first, second in zip(*np.nonzero(is_near), strict=True)]


@dataclass(frozen=True)
class _Fits:
    """Refits of one network with other bends."""

    problem: Problem
    network: TwoLayerNetwork
    offset: bool
    noise: float
    biases: bool
    weights: RowWeights | None

    def rise(
        self, rival: tuple[str, float], limit: float, units: Sequence[int] = (), *, least: float = -np.inf
    ) -> float:
        """Return the rise of the sum of squares with a rival's bends, in noise variances; on some rows if it is clear.

        `units`: those that bend, all of them if none are named. A refinement ends where the rise is seen to stay beyond
        what is clear, and beyond `least`.
        """
        rise, clear = np.inf, limit + CLEARLY * abs(limit)
        for sample in self.samples:
            goal = sample.own_cost + max(clear, least) * self.noise**2
            rise = (self.cost(sample.rows, self._soft(rival, units), goal) - sample.own_cost) / self.noise**2
            if rise >= clear:
                break
        return float(rise)

    @cached_property
    def samples(self) -> tuple[_Sample, ...]:
        """Few rows and more, evenly spaced so that the verdict does not depend on a seed, and last those in memory."""
        least = self.network.n_parameters // self.network.n_outputs
        counts = (max(rows, share * least) for rows, share in zip(SOME_ROWS, ROWS_PER_UNKNOWN, strict=True))
        some = [rows for rows in map(self.problem.evenly_spaced_rows, counts) if rows is not None]
        return tuple(_Sample(rows, self) for rows in (*some, self.problem.sampled_rows))

    def _soft(self, rival: tuple[str, float], units: Sequence[int]) -> SoftActivation:
        bend, width = rival
        kinks = self.network.activation
        shares = np.full(self.network.n_hidden, SHARP if units else width)
        shares[list(units)] = width
        widths = np.maximum(shares * self.spreads, np.finfo(float).tiny)
        return SoftActivation(kinks.name, kinks.degree, kinks.right, kinks.left, widths, bend)

    @cached_property
    def spreads(self) -> Array:
        """Standard deviations of the units' pre-activations."""
        return as_array(self.network.preactivations(self.problem.X).std(axis=0))

    def cost(self, rows: RowBlocks, activation: Activation, goal: float = -np.inf) -> float:
        """Return the sum of squares of the network with other bends, refined on some rows towards a goal."""
        net = self.network
        return refine(
            rows,
            replace(net, activation=activation),
            offset=self.offset,
            biases=self.biases,
            max_iter=STEPS,
            decrease_tol=STEP_GAIN,
            weights=self.weights,
            goal=goal,
        ).cost


@dataclass(frozen=True)
class _Sample:
    """Some rows, and the sum of squares of the network itself, refined on them."""

    rows: RowBlocks
    fits: _Fits

    @cached_property
    def own_cost(self) -> float:
        return self.fits.cost(self.rows, self.fits.network.activation)
