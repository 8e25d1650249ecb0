r"""How well two close units with like output weights would explain what one unit of a noisy network does.

Problem     Where the noise drowns what is between two close hyperplanes, a network with one unit in place of two leaves
            nothing that a test of the residual could find, and would be claimed with a unit too few.
Idea        Put a pair in the place of unit j: hyperplanes at the angle α around that of the unit, in a random direction,
            each with half of its output weights. The departure of the pair from the unit is one function of the rows, a
            wedge w along both hyperplanes, times :math:`a_j`. With :math:`D_\perp` what the Jacobian leaves of it, R the
            residual and σ² the variance of the noise, the pair is as likely as the unit times exp(ℓ),

            .. math:: \ell = \frac{\langle D_\perp, R\rangle - \|D_\perp\|^2 / 2}{\sigma^2}.                     \quad (1)

            A pair that would show and is not there has ℓ far below zero; one that the noise hides, near zero; one that is
            there, above zero, also where the search for a missing unit has not met it. Pairs are drawn for every unit, with
            angles between `ANGLES`. Where no pair is, ℓ is normal with mean -δ²/2 and variance δ², δ the length of
            :math:`D_\perp` over σ. So exp(ℓ) has mean one for every δ, and a few draws decide it; its root has mean
            exp(-δ²/8). A claim needs the mean of exp(ℓ/2) over all pairs below `LIMIT`. What is said in words is the largest
            angle of a drawn pair with exp(ℓ) above a twentieth.

            Of 500 problems with two units 6 to 35 degrees apart 46 pass all other tests with one unit for the two; 4 of
            these pass this one. Of 133 right networks of ordinary problems that pass the others it refuses 18. A limit on
            the angle from which on the search for a missing unit finds nearly all pairs refuses 46 for as few wrong ones.

            With one input the number of kinks is decided by tests of its own, and the angle is stated only.
Guarantee   An estimate: (1) is linear in the departure, the output weights of the two are the same, the noise is normal.
            Pairs closer than the smallest angle are not excluded.
Cost        n (k p + 3 p) operations for each of `DRAWN` pairs on the rows in memory, p = d + 1; for up to four times as many
            where the mean over these is near its limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from planted._streams import copy_stream
from planted._typing import Array, IntArray, as_array
from planted.certificates.noise._beside import Beside
from planted.certificates.noise._fitted_rows import FittedRows
from planted.checks import Check
from planted.fitting._refine import Refinement
from planted.fitting._run import Problem
from planted.linalg.symmetric import unit_rows
from planted.moments import mask_rows
from planted.results import Evidence

__all__ = ["ClosePairs"]

ANGLES = (0.1, 0.6)  # radians between the hyperplanes of a pair
LIMIT = 0.1
LIKELY = np.log(1 / 20)
DRAWN, TIMES = 400, 4  # pairs of all units together, and how often so many are drawn at most
DECIDED = 4.0  # standard errors of the mean over the pairs drawn so far, from `LIMIT`
LARGEST = 50.0  # ℓ beyond which nothing changes
_SLICE_ROWS = 512


@dataclass(frozen=True, slots=True)
class ClosePairs:
    """Pairs of close units in the places of single ones."""

    angles: Array  # (s,)
    squares: Array  # (s,): what the Jacobian leaves of the departure, in noise variances
    ratios: Array  # (s,): ℓ of (1)
    is_limited: bool  # whether a claim rests on them

    @classmethod
    def of(
        cls,
        problem: Problem,
        fit: Refinement,
        at: FittedRows,
        *,
        noise: float,
        offset: bool,
        biases: bool = True,
    ) -> Self:
        """Draw pairs for every unit of a fit and compare them with what it leaves."""
        known = fit.sums if problem.holds_all_rows and problem.w is None else None
        beside = Beside.of(at, np.empty((0, at.X.shape[1])), offset=offset, biases=biases, known=known)
        parts: list[tuple[Array, Array, Array]] = []
        rng = copy_stream(
            problem.rng
        )  # what a search draws later is the same, however many pairs were drawn here
        for _ in range(TIMES):
            angles, units, ends = _draw(rng, at, biases)
            parts.append((angles, *_departures(beside, at, units, ends, noise)))
            roots = _roots(np.concatenate([ratios for *_, ratios in parts]))
            if abs(roots.mean() - LIMIT) > DECIDED * roots.std() / np.sqrt(len(roots)):
                break
        angles, squares, ratios = (np.concatenate(values) for values in zip(*parts, strict=True))
        return cls(angles, squares, ratios, is_limited=problem.n_features > 1)

    @property
    def hidden_angle(self) -> float:
        """The largest angle of a drawn pair that is not excluded, in radians."""
        return float(self.angles[self.ratios > LIKELY].max(initial=ANGLES[0]))

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The angle, and the mean of exp(ℓ/2), which must be small."""
        name = "root of the likelihood of two close units with like output weights in place of one, over that of one"
        line = Evidence(
            name, self._mean_root(1.0), LIMIT, "<=", "mean over random pairs", key=Check.CLOSE_UNITS
        )
        return (
            Evidence(
                "largest angle at which two units with like output weights may look like one (radians)",
                self.hidden_angle,
                key=Check.HIDDEN_ANGLE,
            ),
            *([line] if self.is_limited else []),
        )

    @property
    def samples_needed(self) -> float:
        """How many times as many samples exclude enough pairs, if none is there: ℓ falls by half of its squares."""
        times = np.geomspace(1.0, 1e4, 200)
        left = sum(self._mean_root(float(more)) > LIMIT for more in times)
        return float(times[min(left, len(times) - 1)])

    def _mean_root(self, times: float) -> float:
        """The mean of exp(ℓ/2), with so many times as many samples if no pair is there."""
        return float(_roots(self.ratios, (times - 1) * self.squares / 2).mean())


def _roots(ratios: Array, fall: Array | float = 0.0) -> Array:
    """Return exp(ℓ/2), of ratios that fall by so much."""
    return as_array(np.exp((np.minimum(ratios, LARGEST) - fall) / 2))


def _draw(
    rng: np.random.Generator, at: FittedRows, biases: bool
) -> tuple[Array, IntArray, tuple[Array, Array]]:
    """Return angles, the units in whose places the pairs are, and their hyperplanes: (s,), (s,), twice (s, p)."""
    net = at.network
    units = np.repeat(np.arange(net.n_hidden), -(-DRAWN // net.n_hidden))
    planes = np.column_stack([net.W, net.b])
    v, lengths = unit_rows(planes)[0][units], np.linalg.norm(planes, axis=1)[units, None]
    u = rng.standard_normal(v.shape)
    u[:, -1] *= biases
    u = unit_rows(u - (u * v).sum(axis=1, keepdims=True) * v)[0]
    angles = rng.uniform(*ANGLES, len(units))
    middle, beside = np.cos(angles / 2)[:, None] * v, np.sin(angles / 2)[:, None] * u
    return angles, units, (lengths * (middle + beside), lengths * (middle - beside))


def _departures(
    beside: Beside, at: FittedRows, units: IntArray, ends: tuple[Array, Array], noise: float
) -> tuple[Array, Array]:
    """Return the squares of what the Jacobian leaves of departures, in noise variances, and ℓ of (1); (s,) each.

    Wedges and their products are in single precision.
    """
    net, s, p = at.network, len(units), len(beside.rows)
    A, n = net.A, at.X.shape[1]
    residual = A.T @ (
        beside.residual - (beside.residual @ beside.Q.T) @ beside.Q
    )  # along the weights of each unit
    single: list[Any] = [
        values.astype(np.float32) for values in (beside.rows, at.H, beside.Q, beside.slopes, residual, *ends)
    ]
    rows, H, Q, slopes, own, first, second = single
    inside, masked = np.zeros((len(Q), s)), np.zeros((len(slopes) * p, s))
    squares, along = np.zeros(s), np.zeros(s)
    memory: Any = np.empty((len(masked), min(_SLICE_ROWS, n)), dtype=np.float32)
    for start in range(0, n, _SLICE_ROWS):
        here = slice(start, start + _SLICE_ROWS)
        x = rows[:, here]
        wedge = (net.activation(first @ x) + net.activation(second @ x)) / 2 - H[units, here]
        if at.root is not None:
            wedge *= at.root[here]
        masked += mask_rows(slopes[:, here].T, x.T, memory) @ wedge.T
        inside += Q[:, here] @ wedge.T
        squares += np.einsum("sn,sn->s", wedge, wedge)
        along += np.einsum("sn,sn->s", wedge, own[units, here])
    masked -= beside.inner.T @ inside
    squares -= (inside**2).sum(axis=0)
    gradients = (masked.reshape(len(slopes), p, s) * (A.T @ A[:, units])[:, None]).reshape(-1, s)
    hidden = beside.spread @ gradients
    taken = (np.repeat(A.T, p, axis=0) * beside.hidden_residual).sum(axis=1)
    left = np.maximum((A[:, units] ** 2).sum(axis=0) * squares - (hidden * gradients).sum(axis=0), 0.0)
    return as_array(left / noise**2), as_array((along - taken @ hidden - left / 2) / noise**2)
