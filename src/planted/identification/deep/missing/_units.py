"""Units of the last hidden layer that are known so far, and the features with which they explain the answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, BoolArray

__all__ = ["LastUnits"]


@dataclass(frozen=True, slots=True)
class LastUnits:
    """Units of the last hidden layer, with gaps where weights are not known."""

    rows: Array  # (k, p): zero where there is a gap
    biases: Array  # (k,)
    known: BoolArray  # (k, p)
    alphas: Array  # (k, m): coefficients of eq. (1) of `_search`, NaN where they are not known
    mostly: Array  # (k,): the side, +1 or -1, on which a unit with gaps is where these have an effect; 0 if not known

    @classmethod
    def whole(cls, planes: tuple[Array, Array], n_outputs: int) -> LastUnits:
        """Return units without gaps, whose coefficients are not known."""
        rows, biases = planes
        k = len(biases)
        return cls(
            rows, biases, np.ones(rows.shape, dtype=np.bool_), np.full((k, n_outputs), np.nan), np.zeros(k)
        )

    def select(self, kept: BoolArray) -> LastUnits:
        """Return some of the units."""
        return LastUnits(
            self.rows[kept], self.biases[kept], self.known[kept], self.alphas[kept], self.mostly[kept]
        )

    def add(self, other: LastUnits) -> LastUnits:
        """Return these units and others."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return LastUnits(*(np.concatenate(pair) for pair in pairs))

    def sides(self, H: Array) -> Array:
        """The sides on which the units are, +1 or -1, shape (n, k)."""
        beyond = (H > 0) @ ~self.known.T
        return np.asarray(np.where(beyond, self.mostly, np.sign(H @ self.rows.T + self.biases)))

    def features(self, H: Array) -> Array:
        """The features of eq. (1) of `_search`."""
        T = H @ self.rows.T + self.biases
        return np.column_stack([self.sides(H) * T, H, np.ones(len(H))])
