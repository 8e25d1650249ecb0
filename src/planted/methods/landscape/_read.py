r"""Read a network off a minimum: output weights and signs (Appendix D), and the inverse of F's minimiser.

Problem     Even objectives find rows up to sign, and G and F say nothing of the output weights.
Idea        E[y w'x] = σ̂_1 Σ a*_i ⟨b*_i, w⟩ (Claim D.1; σ̂_1 = 1/2 for the ReLU). With u_i = E[y w_i'x]/σ̂_1
            Algorithm 1, for orthonormal rows, takes a′ = u; Algorithm 2 takes a′ = (WW')⁻¹u. The sign of a′_i tells whether
            w_i is turned around; its size is a_i when all a* are positive. F's minimiser B shows the rows as those of B^{-T}
            (Theorem C.4), the pseudo-inverse for k < d.
Guarantee   Lemmas 2.5 and D.2 of [GLM18]_: as accurate as the rows, up to condition numbers.
Departures  When a was trained (f′), its signs are kept and only rows are turned. Without an odd part (σ̂_1 = 0) signs of
            rows mean nothing; a is then fitted to T₂.
References  [GLM18]_
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array

__all__ = ["invert_rows", "read_outputs"]


def read_outputs(
    W: Array, slope: Array, first: float, *, is_orthonormal: bool = False, a: Array | None = None
) -> tuple[Array, Array]:
    """Return rows with their signs, and output weights.

    `a`: output weights that were trained; all are taken to be positive otherwise. Returns W: the rows, turned around
    where needed; a: the output weights. Shapes: W (k, d), slope (d,), a (k,).

    Examples
    --------
    >>> W, a = read_outputs(np.array([[-1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.5]), 0.5)
    >>> W.diagonal(), a
    (array([1., 1.]), array([2., 1.]))
    """
    u = W @ slope / first
    signed = u if is_orthonormal else linalg.lstsq(W @ W.T, u, check_finite=False)[0]
    turned = np.where(signed * (1.0 if a is None else a) < 0, -1.0, 1.0)
    return W * turned[:, None], np.abs(signed) if a is None else a


def invert_rows(B: Array) -> Array:
    """Return the unit rows of the transposed (pseudo-)inverse, which are those of the truth at a minimum of F.

    Shapes: B (k, d), result (k, d).

    Examples
    --------
    >>> invert_rows(np.array([[2.0, 0.0], [0.0, 4.0]]))
    array([[1., 0.],
           [0., 1.]])
    """
    rows = np.linalg.pinv(B).T
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True)) + 0.0
