r"""Algorithms 1 and 2 of GLM18 (Appendix D): output weights and signs from rows that are known up to sign.

Problem     y = Σ a*_i σ(b*_i'x) + ξ, x ~ N(0, I), a* > 0. Given: rows B close to B*, up to order and sign. Sought: a* and
            the signs. The objectives whose minima give B are formulas and not boxes: (2.5), (2.7), (C.1) and (C.5) are
            in `objectives`.
Idea        E[y ⟨x, v⟩] = σ̂_1 Σ a*_i ⟨b*_i, v⟩ for every v (Claim D.1), with σ̂_1 = 1/2 for the ReLU. For orthonormal rows
            u_i = E[y ⟨x, b_i⟩] / σ̂_1 is a*_i, with the sign of b_i. For other rows u = B B*'a*, so that a' = (BB')⁻¹u.
Guarantee   Lemmas 2.5 and D.2 of [GLM18]_: as accurate as the rows, up to condition numbers. The bound of Lemma 2.5 is
            wrong as printed. Its proof bounds ⟨a*, u⟩, u_j = ⟨b*_j, b_i - b*_i⟩, by a*_max δ; it is bounded by ‖a*‖ δ. With
            a* = 1, δ = 1/2 = 1/(2κ) and five rows, each tilted against the four others, Algorithm 1 gets all signs wrong.
Notation    paper: B, b_i (rows of ``B``), Ê[yx] (``slope``), 1/2 (``first`` = σ̂_1), a', u.
Departures  Any activation with σ̂_1 ≠ 0. A row with a'_i = 0 keeps its sign; sgn(0) = 0 would erase it.
References  [GLM18]_
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array

__all__ = ["algorithm_1", "algorithm_2", "signed_outputs"]


def algorithm_1(B: Array, slope: Array, first: float) -> tuple[Array, Array]:
    """Return orthonormal rows with their signs, and output weights.

    Shapes: B (k, d), slope (d,), results (k, d) and (k,).
    """
    signed = B @ slope / first  # a'_i = 2 Ê[y ⟨x, b_i⟩]
    return B * _signs(signed)[:, None], np.abs(signed)  # b_i sgn(a'_i), |a'_i|


def algorithm_2(B: Array, slope: Array, first: float) -> tuple[Array, Array]:
    """Return rows in general position with their signs, and output weights.

    Shapes: B (k, d), slope (d,), results (k, d) and (k,).
    """
    signed = signed_outputs(B, slope, first)
    return B * _signs(signed)[:, None], np.abs(signed)  # b_i sgn(a'_i), |a'_i|


def signed_outputs(B: Array, slope: Array, first: float) -> Array:
    """Return a' of Algorithm 2: the output weights for rows with the signs they have.

    Shapes: B (k, d), slope (d,), result (k,).
    """
    u = B @ slope / first  # u_i = 2 Ê[y ⟨x, b_i⟩]
    return np.asarray(linalg.lstsq(B @ B.T, u, check_finite=False)[0])  # a' = (BB')⁻¹u


def _signs(values: Array) -> Array:
    return np.where(values < 0, -1.0, 1.0)
