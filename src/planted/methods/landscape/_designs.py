"""The designed objectives f′, P′, G and F as functions of rows, with their gradients; the formulas are in `objectives`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from planted._typing import Array
from planted.methods.landscape._targets import Target

__all__ = [
    "ConstrainedDesign",
    "GeneralDesign",
    "Objective",
    "OrthogonalDesign",
    "PairPotential",
    "TensorFit",
]


class Objective(Protocol):
    """A function of hidden rows and output weights, with its gradient."""

    @property
    def name(self) -> str:
        """One of the names of `objectives`."""

    @property
    def trains_outputs(self) -> bool:
        """Whether it depends on a."""

    @property
    def has_unit_rows(self) -> bool:
        """Whether rows live on the unit sphere."""

    def __call__(self, W: Array, a: Array) -> tuple[float, Array, Array]:
        """Return the value and the gradients in W and a.

        Shapes: W (k, d), a (k,).
        """


@dataclass(frozen=True, slots=True)
class TensorFit:
    """f′: the squared distances of the tensors of order two and four (Theorem 2.2)."""

    target: Target  # the tensors of the truth
    weights: tuple[float, float]  # ω_2 and ω_4
    name, trains_outputs, has_unit_rows = "f'", True, True

    def __call__(self, W: Array, a: Array) -> tuple[float, Array, Array]:
        """Return the value and the gradients; see `Objective`."""
        two, four = self.weights
        T2 = (self.target.second + self.target.second_again) / 2
        G, across = W @ W.T, ((W @ T2) * W).sum(axis=1)
        single, _, pull = self.target.fourth(W, a, 0.0)
        energies = self.target.energy
        inner = two * G**2 + four * G**4
        value = (
            two * energies[0] + four * energies[1] + a @ inner @ a - 2 * a @ (two * across + four * single)
        )
        slope = 2 * (inner @ a - two * across - four * single)
        turn = (np.outer(a, a) * (4 * two * G + 8 * four * G**3)) @ W
        dW = turn - 4 * two * a[:, None] * (W @ T2) - 2 * four * pull
        return float(value), dW, slope


@dataclass(frozen=True, slots=True)
class PairPotential:
    """P′: the sum over pairs alone, which has bad minima once a_max > 2 a_min (Appendix F)."""

    target: Target  # the tensors of the truth
    name, trains_outputs, has_unit_rows = "P'", False, True

    def __call__(self, W: Array, a: Array) -> tuple[float, Array, Array]:
        """Return the value and the gradients; see `Objective`."""
        single, pairs, dW = self.target.fourth(W, np.full(len(W), -0.5), 0.5)
        return float(pairs - single.sum()) / 2, dW, np.zeros_like(a)


@dataclass(frozen=True, slots=True)
class OrthogonalDesign:
    """G: no bad minima when the rows of the truth are orthonormal and a* > 0 (Theorem 2.3)."""

    target: Target  # the tensors of the truth
    mu: float  # weights of the single terms and of the norms
    lam: float
    # Whether rows are kept on the unit sphere, which bounds G from below on samples.
    has_unit_rows: bool = False
    name, trains_outputs = "G", False

    def __call__(self, W: Array, a: Array) -> tuple[float, Array, Array]:
        """Return the value and the gradients; see `Objective`."""
        value, dW = _quartic_part(self.target, W, self.mu)
        excess = (W**2).sum(axis=1) - 1.0
        value += self.lam * float(excess @ excess)
        return value, dW + 4 * self.lam * excess[:, None] * W, np.zeros_like(a)


@dataclass(frozen=True, slots=True)
class GeneralDesign:
    """F and F_δ: no bad minima for any full-rank rows of the truth and a* > 0 (Theorems C.4 and C.5)."""

    target: Target  # the tensors of the truth
    mu: float  # weights of the single terms, of the norms in the metric T₂, and of half the squared norm of W
    lam: float
    delta: float
    name, trains_outputs, has_unit_rows = "F", False, False

    def __call__(self, W: Array, a: Array) -> tuple[float, Array, Array]:
        """Return the value and the gradients; see `Objective`."""
        value, dW = _quartic_part(self.target, W, self.mu)
        one, other = W @ self.target.second, W @ self.target.second_again
        excess, again = (one * W).sum(axis=1) - 1.0, (other * W).sum(axis=1) - 1.0
        value += self.lam * float(excess @ again) + self.delta / 2 * float((W**2).sum())
        dW = dW + 2 * self.lam * (again[:, None] * one + excess[:, None] * other) + self.delta * W
        return value, dW, np.zeros_like(a)


@dataclass(frozen=True, slots=True)
class ConstrainedDesign:
    """F with its regulariser as a constraint: rows w = R'v of unit v, so that w'T₂w = 1 always.

    On samples F itself is not bounded from below; this is its limit of large λ, and it is. In the coordinates v the truth is
    orthonormal with output weights 1/a* (Theorem C.2).
    """

    target: Target  # the tensors of the truth
    mu: float  # weight of the single terms
    R: Array  # (k, d): rows with R T₂ R' = I
    name, trains_outputs, has_unit_rows = "F", False, True

    def __call__(self, W: Array, a: Array) -> tuple[float, Array, Array]:
        """Return the value and the gradients in the unit rows and a.

        Shapes: W (k, k), a (k,).
        """
        value, dW = _quartic_part(self.target, W @ self.R, self.mu)
        return value, dW @ self.R.T, np.zeros_like(a)


def _quartic_part(target: Target, W: Array, mu: float) -> tuple[float, Array]:
    """Return the first two terms of G with their gradient."""
    scale = np.sqrt(24.0) * abs(target.hermite[1])
    single, pairs, dW = target.fourth(W, np.full(len(W), -0.5 - mu / 24), 0.5)
    value = (pairs - float(single.sum())) / 2 - mu / 24 * float(single.sum())
    return scale * value, scale * dW
