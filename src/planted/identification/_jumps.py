"""Jumps of a gradient: the records that the search for units passes on.

A break of a piecewise-linear function is a hyperplane n'x + o = 0 across which the function gains ``α (n'x + o)``.
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
    """The points ``origin + t direction``.

    Parameters
    ----------
    origin, direction : ndarray of shape (d,)
        A point and a unit vector.
    """

    origin: Array
    direction: Array

    def at(self, t: Array) -> Array:
        """Return the points of shape (n, d) for parameters of shape (n,).

        Parameters
        ----------
        t : ndarray of shape (n,)
            Parameters.

        Returns
        -------
        ndarray of shape (n, d)
            Points.
        """
        return np.asarray(self.origin + np.asarray(t)[:, None] * self.direction)


@dataclass(frozen=True, slots=True)
class Jumps:
    """Units up to orientation: ``strengths (normals x + offsets)`` is what the function gains across each break.

    Parameters
    ----------
    normals : ndarray of shape (k, d)
        Unit normals.
    offsets : ndarray of shape (k,)
        Offsets.
    strengths : ndarray of shape (m, k)
        Output weights.
    errors : ndarray of shape (k,)
        Standard error of a normal, and of the offset at the anchor.
    anchors : ndarray of shape (k, d)
        Where each was measured.
    lines : ndarray of shape (k, d)
        Directions in which the hyperplane is known much better than ``errors`` says: that of the line on which it was
        found; zero if there is none.
    """

    normals: Array
    offsets: Array
    strengths: Array
    errors: Array
    anchors: Array
    lines: Array

    def doubts(self, X: Array) -> Array:
        """Return how far each hyperplane may be off its place at each row.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Places.

        Returns
        -------
        ndarray of shape (n, k)
            `DOUBT` standard errors.
        """
        squares = (X**2).sum(axis=1)[:, None] + (self.anchors**2).sum(axis=1) - 2 * X @ self.anchors.T
        along = X @ self.lines.T - np.einsum("kd,kd->k", self.anchors, self.lines)
        moved = np.sqrt(np.maximum(squares - along**2, 0.0))
        return np.asarray(DOUBT * self.errors * (AT_ANCHOR + moved))

    @classmethod
    def none(cls, d: int, m: int) -> Jumps:
        """Return no units.

        Parameters
        ----------
        d, m : int
            Inputs and outputs.

        Returns
        -------
        Jumps
            Empty arrays.
        """
        return cls(
            np.zeros((0, d)), np.zeros(0), np.zeros((m, 0)), np.zeros(0), np.zeros((0, d)), np.zeros((0, d))
        )

    def select(self, which: BoolArray | IntArray) -> Jumps:
        """Return some of the units.

        Parameters
        ----------
        which : ndarray of bool or int
            A mask or indices.

        Returns
        -------
        Jumps
            Those units.
        """
        return Jumps(
            self.normals[which],
            self.offsets[which],
            self.strengths[:, which],
            self.errors[which],
            self.anchors[which],
            self.lines[which],
        )

    def replace(self, which: IntArray, other: Jumps) -> Jumps:
        """Return the units with some of them replaced.

        Parameters
        ----------
        which : ndarray of int
            Those to replace.
        other : Jumps
            Their replacements.

        Returns
        -------
        Jumps
            All units.
        """
        kept = np.ones(self.offsets.size, dtype=np.bool_)
        kept[which] = False
        joined = self.select(kept).join(other)
        order = np.argsort(np.concatenate([np.flatnonzero(kept), which]))
        return joined.select(order)

    def join(self, other: Jumps) -> Jumps:
        """Return the units of both.

        Parameters
        ----------
        other : Jumps
            Further units.

        Returns
        -------
        Jumps
            All of them.
        """
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
    """The second pass: better units, and what else was seen at the places where they were measured.

    Parameters
    ----------
    jumps : Jumps
        The units.
    is_confirmed : ndarray of bool, shape (k,)
        Whether the jump was found again, at another place of the same hyperplane.
    is_missed : ndarray of bool, shape (k,)
        Whether it was looked for at such a place and not found.
    places : ndarray of shape (p, d)
        On either side of each hyperplane.
    values : ndarray of shape (p, m)
        The function there.
    gradients : ndarray of shape (p, m, d)
        Its gradients there.
    errors : ndarray of shape (p,)
        Standard errors of the gradients; infinite where another break was crossed.
    """

    jumps: Jumps
    is_confirmed: BoolArray
    is_missed: BoolArray
    places: Array
    values: Array
    gradients: Array
    errors: Array
