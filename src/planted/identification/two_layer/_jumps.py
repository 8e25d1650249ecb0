"""Records of the breaks of a piecewise-linear function, passed between the steps of the search.

A break is a hyperplane n'x + o = 0, with |n| = 1. Across it the function gains α (n'x + o), where α has one number per
output.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, BoolArray, IntArray

__all__ = ["Jumps", "Line", "Measurement"]

AT_ANCHOR = 0.02  # the error of an offset where it was measured, in errors of the normal
DOUBT = 4.0  # how many standard errors a hyperplane may be off its place


@dataclass(frozen=True, slots=True)
class Line:
    """The points ``origin + t direction``."""

    origin: Array  # (d,): a point and a unit vector
    direction: Array

    def at(self, t: Array) -> Array:
        """Return the points of shape (n, d) for parameters of shape (n,).

        Shapes: t (n,), result (n, d).
        """
        return np.asarray(self.origin + np.asarray(t)[:, None] * self.direction)


@dataclass(frozen=True, slots=True)
class Jumps:
    """Units up to orientation: the function gains ``strengths (normals x + offsets)`` across each break."""

    normals: Array  # (k, d): unit normals
    offsets: Array  # (k,): offsets
    strengths: Array  # (m, k): output weights
    errors: Array  # (k,): standard error of a normal, and of the offset at the anchor
    anchors: Array  # (k, d): where each was measured
    # (k, d): directions in which the hyperplane is known much better than ``errors`` says: that of the line on which
    # it was found; zero if there is none.
    lines: Array

    def doubts(self, X: Array) -> Array:
        """Return how far each hyperplane may be off its place at each row.

        Shapes: X (n, d), result (n, k).
        """
        squares = (X**2).sum(axis=1)[:, None] + (self.anchors**2).sum(axis=1) - 2 * X @ self.anchors.T
        along = X @ self.lines.T - np.einsum("kd,kd->k", self.anchors, self.lines)
        moved = np.sqrt(np.maximum(squares - along**2, 0.0))
        return np.asarray(DOUBT * self.errors * (AT_ANCHOR + moved))

    @classmethod
    def none(cls, d: int, m: int) -> Jumps:
        """Return no units."""
        return cls(
            np.zeros((0, d)), np.zeros(0), np.zeros((m, 0)), np.zeros(0), np.zeros((0, d)), np.zeros((0, d))
        )

    def select(self, which: BoolArray | IntArray) -> Jumps:
        """Return some of the units."""
        return Jumps(
            self.normals[which],
            self.offsets[which],
            self.strengths[:, which],
            self.errors[which],
            self.anchors[which],
            self.lines[which],
        )

    def replace(self, which: IntArray, other: Jumps) -> Jumps:
        """Return the units with some of them replaced."""
        kept = np.ones(self.offsets.size, dtype=np.bool_)
        kept[which] = False
        joined = self.select(kept).join(other)
        order = np.argsort(np.concatenate([np.flatnonzero(kept), which]))
        return joined.select(order)

    def join(self, other: Jumps) -> Jumps:
        """Return the units of both."""
        return Jumps(
            np.concatenate([self.normals, other.normals]),
            np.concatenate([self.offsets, other.offsets]),
            np.concatenate([self.strengths, other.strengths], axis=1),
            np.concatenate([self.errors, other.errors]),
            np.concatenate([self.anchors, other.anchors]),
            np.concatenate([self.lines, other.lines]),
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """The second pass: units with smaller errors, and the answers at the places where they were measured."""

    jumps: Jumps  # the units
    is_confirmed: BoolArray  # (k,): whether the jump was found again, at another place of the same hyperplane
    is_missed: BoolArray  # (k,): whether it was looked for at such a place and not found
    places: Array  # (p, d): on either side of each hyperplane
    values: Array  # (p, m): the function there
    gradients: Array  # (p, m, d): its gradients there
    errors: Array  # (p,): standard errors of the gradients; infinite where another break was crossed
