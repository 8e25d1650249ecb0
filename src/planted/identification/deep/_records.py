"""Everything that was asked of a black box while its layers are read."""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.identification._search import BlackBox

__all__ = ["Records"]


class Records:
    """All questions, in the units of the search, and their answers."""

    def __init__(self, box: BlackBox) -> None:
        self.box = box
        self.parts: list[tuple[Array, Array]] = []

    def ask(self, Z: Array) -> Array:
        """Ask and remember."""
        Y = self.box.ask(Z)
        self.parts.append((Z, Y))
        return Y

    def all(self) -> tuple[Array, Array]:
        """Return everything asked so far."""
        return np.concatenate([Z for Z, _ in self.parts]), np.concatenate([Y for _, Y in self.parts])
