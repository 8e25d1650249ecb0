r"""Decide on which side of its hyperplane each unit is active, from the linear rest of the function.

Problem     The breaks of a function give hyperplanes n_i'x + o_i = 0 and strengths α_i. They do not show the
            orientation of a unit, because α σ(t) and α σ(-t) have the same break. Find the orientations.
Idea        The two possibilities differ by the linear function α t. Let z_i = 1 if unit i is active where n_i'x + o_i
            is positive, and z_i = 0 if it is active on the other side. The gradient g(x) of the function at a place x
            is the sum of z_i α_i n_i' over all units, less the sum of α_i n_i' over the units for which n_i'x + o_i is
            negative. Therefore

            .. math:: \sum_i z_i\, \alpha_i n_i^\top = R = g(x) + \sum_{i: n_i^\top x + o_i < 0} \alpha_i n_i^\top \quad (1)

            at every x, which is a system of m·d linear equations for k unknowns. `planted.linalg.signs` solves it: by
            least squares if the columns are independent, otherwise by a search among the corners of the cube. A least
            squares solution other than 0 or 1 belongs to two units that share a hyperplane and look opposite ways; z
            and 1 - z are their shares of the strength. Such a pair is one unit with the slope -(1 - z) / z below zero,
            and if all pairs have one slope the activation is leaky. What is left of (1) is a linear part B x.
Guarantee   With independent columns the solution is unique. Otherwise the solution satisfies (1) to the stated
            tolerance, and another corner of the cube does so by accident with a probability of about 2^k tol^(m d),
            which is returned. Kind: exact.
Cost        One least-squares problem, or a mixed-integer program with k binary unknowns.
References  [ATV21]_ Claim 4.8
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, BoolArray
from planted.identification.two_layer._jumps import Jumps, Measurement
from planted.linalg.signs import round_shares, search_corners
from planted.networks import TwoLayerNetwork

__all__ = ["Orientation", "OtherKind", "build_network", "estimate_rest", "orient_units", "other_kind"]

LARGEST_CHANCE = -6.0  # log10 of the probability of an accidental second solution, at most
ERRORS = 10.0  # standard errors by which the sum in (1) may be off
ROUNDING = 1e-13  # of the sum in (1), relative to its terms
# Difference of two shares up to which they are the same: of answers in double precision, in units of their rounding, and
# at most.
SAME_SHARE, SHARE_ROUNDINGS, LARGEST_SHARE = 1e-8, 1e4, 1e-3
DIGITS, SNAPPED = 8, 1e-10  # a slope within this of a number of so many digits is that number


@dataclass(frozen=True, slots=True)
class Orientation:
    """The orientation of every unit, and how certain it is."""

    # (k,): 1 for a unit that is active on the side of its normal, 0 for the other side, other numbers for two units on
    # one hyperplane; None if no answer was found.
    shares: Array | None
    is_unique: bool  # whether the equations have no other solution
    residual: float  # what is left of (1), relative to its terms: a linear part that no unit explains
    # Logarithm of the probability that another choice fits as well by accident; minus infinity if none can.
    log10_chance: float

    @property
    def doubled(self) -> BoolArray:
        """Hyperplanes on which two units look opposite ways."""
        if self.shares is None:
            return np.zeros(0, dtype=np.bool_)
        return np.asarray((self.shares != 0) & (self.shares != 1))


UNSETTLED = Orientation(None, is_unique=False, residual=0.0, log10_chance=0.0)


def estimate_rest(measured: Measurement, jumps: Jumps) -> tuple[Array, float]:
    """Return R of (1), shape (m, d), averaged over all measured gradients, and its standard error."""
    behind = measured.places @ jumps.normals.T + jumps.offsets < 0
    columns = np.einsum("mk,kd->kmd", jumps.strengths, jumps.normals)
    estimates = measured.gradients + np.einsum("pk,kmd->pmd", behind, columns, optimize=True)
    size = np.linalg.norm(jumps.strengths, axis=0)
    carried = np.sqrt(behind @ (size * jumps.errors) ** 2)
    errors = np.hypot(measured.errors, carried)
    if not np.isfinite(errors).any():
        return np.zeros(measured.gradients.shape[1:]), float("inf")
    best = np.argsort(errors)[: max(1, len(errors) // 2)]
    smallest = np.maximum(errors[best], np.finfo(float).tiny)
    weights = (smallest.min() / smallest) ** 2
    weights /= weights.sum()
    return np.einsum("p,pmd->md", weights, estimates[best]), float(np.median(errors[best]))


def orient_units(jumps: Jumps, rest: Array, *, error: float) -> Orientation:
    """Solve (1) for the orientations; `error` is the standard error of an entry of the rest, infinite if unknown.

    Shapes: rest (m, d).
    """
    k = jumps.offsets.size
    if not np.isfinite(error):
        return UNSETTLED
    target = rest.ravel()
    columns = np.einsum("mk,kd->mdk", jumps.strengths, jumps.normals).reshape(target.size, k)
    sizes = np.linalg.norm(columns, axis=0)
    scale = float(np.linalg.norm(target) + sizes.sum()) or 1.0
    spread = error * np.sqrt(target.size) + float(np.linalg.norm(sizes * jumps.errors))
    allowed = ERRORS * spread + ROUNDING * scale
    if k == 0:
        left = float(np.linalg.norm(target))
        return Orientation(np.zeros(0), left <= allowed, left / scale if left > allowed else 0.0, -np.inf)
    shares = round_shares(columns, target, error=allowed)
    if shares is not None:
        left = float(np.linalg.norm(columns @ shares - target))
        return Orientation(shares, True, left / scale if left > allowed else 0.0, -np.inf)
    corner = search_corners(columns, target, error=allowed)
    if corner is None:
        return UNSETTLED
    return Orientation(corner[0], corner[1] < LARGEST_CHANCE, 0.0, corner[1])


def build_network(
    jumps: Jumps, orientation: Orientation, *, rest: Array, measured: Measurement
) -> TwoLayerNetwork:
    """Write the function as a ReLU network; a linear part that no unit explains becomes pairs of units.

    Returns units with rows of W of unit norm. Shapes: rest (m, d).
    """
    shares = np.ones(jumps.offsets.size) if orientation.shares is None else orientation.shares
    ahead, against = shares != 0, shares != 1
    W = [jumps.normals[ahead], -jumps.normals[against]]
    b = [jumps.offsets[ahead], -jumps.offsets[against]]
    A = [(jumps.strengths * shares)[:, ahead], (jumps.strengths * (1 - shares))[:, against]]
    if orientation.shares is None or orientation.residual > 0:
        left = rest - np.einsum("k,mk,kd->md", shares, jumps.strengths, jumps.normals)
        vectors, values, rows = np.linalg.svd(left, full_matrices=False)
        kept = values > 1e-12 * values.max(initial=0.0)
        W += [rows[kept], -rows[kept]]
        b += [np.zeros(2 * int(kept.sum()))]
        A += [vectors[:, kept] * values[kept], -vectors[:, kept] * values[kept]]
    net = TwoLayerNetwork(np.concatenate(W), np.concatenate(b), np.concatenate(A, axis=1))
    finite = np.isfinite(measured.errors)
    residual = measured.values[finite] - net(measured.places[finite])
    return TwoLayerNetwork(net.W, net.b, net.A, np.median(residual, axis=0) if finite.any() else net.c)


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A network whose units are not plain ReLUs, or that has a linear part beside them."""

    network: TwoLayerNetwork
    words: str  # what it has, as part of a sentence
    slopes: Array  # (k,): of the units below zero, or empty


def other_kind(network: TwoLayerNetwork, orientation: Orientation, *, relative: float) -> OtherKind | None:
    """Write the network of `build_network` as what it is: with a linear part, or with leaky units; None if neither.

    `relative` is the relative rounding error of the answers. With different slopes the network stays one of ReLUs, two for
    each unit.
    """
    shares = orientation.shares
    if shares is None or not shares.size:
        return None
    n_ahead, n_own = int((shares != 0).sum()), int((shares != 0).sum() + (shares != 1).sum())
    if orientation.residual > 0:
        W, b, A = network.W[n_own:], network.b[n_own:], network.A[:, n_own:]
        first = slice(0, len(b) // 2)  # of every pair
        return OtherKind(
            TwoLayerNetwork(
                network.W[:n_own],
                network.b[:n_own],
                network.A[:, :n_own],
                network.c + A[:, first] @ b[first],
                B=A[:, first] @ W[first],
            ),
            "a linear part B x beside the units: a connection that skips the hidden layer, units that are on wherever it "
            "was asked, or a unit too weak for its break to be seen",
            np.zeros(0),
        )
    if shares.size < 2 or not orientation.doubled.all():
        return None
    larger = np.maximum(shares, 1 - shares)
    slopes = 1 - 1 / larger
    if np.ptp(larger) > min(max(SAME_SHARE, SHARE_ROUNDINGS * relative), LARGEST_SHARE) * larger.max():
        words = (
            f"units with slopes from {slopes.min():.4g} to {slopes.max():.4g} below zero, each as two ReLUs"
        )
        return OtherKind(network, words, slopes)
    slope = float(np.median(slopes))
    short = float(f"{slope:.{DIGITS}g}")
    slope = short if abs(slope - short) <= max(SNAPPED, SHARE_ROUNDINGS * relative) else slope
    rows = np.where(shares >= 0.5, np.arange(shares.size), n_ahead + np.arange(shares.size))
    name = "absolute" if slope == -1 else f"leaky-relu:{slope!r}"
    leaky = TwoLayerNetwork(network.W[rows], network.b[rows], network.A[:, rows], network.c, activation=name)
    words = f"units with the slope {slope:.10g} below zero, as {name.partition(':')[0]} has"
    return OtherKind(leaky, words, slopes)
