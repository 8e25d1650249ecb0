r"""Read a network off a minimum: rows, signs and output weights.

Problem     Even objectives find rows up to sign, and G and F say nothing of the output weights.
Idea        Signs and output weights are those of Appendix D (`printed`): Algorithm 1 for G, whose rows are orthonormal,
            Algorithm 2 for F. F's minimiser B shows the rows as those of B^{-T} (Theorem C.4), the pseudo-inverse for
            k < d.
Departures  f′ trains the output weights itself; their signs are kept and only rows are turned. Without an odd part
            (σ̂_1 = 0) signs of rows mean nothing; a is then fitted to T₂.
References  [GLM18]_
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.linalg import unit_rows
from planted.methods.landscape.printed import algorithm_2, signed_outputs

__all__ = ["fit_second", "invert_rows", "read_outputs"]


def read_outputs(W: Array, slope: Array, first: float, *, a: Array | None = None) -> tuple[Array, Array]:
    """Return rows with their signs, and output weights: those that were trained, or those of Algorithm 2.

    Shapes: W (k, d), slope (d,), a (k,), results (k, d) and (k,).
    """
    if a is None:
        return algorithm_2(W, slope, first)
    turned = np.where(signed_outputs(W, slope, first) * a < 0, -1.0, 1.0)
    return W * turned[:, None], a


def fit_second(W: Array, T2: Array) -> Array:
    """Return the a for which Σ a_i w_i w_i' is nearest to T₂.

    Shapes: W (k, d), T2 (d, d), result (k,).
    """
    return np.asarray(linalg.lstsq((W @ W.T) ** 2, ((W @ T2) * W).sum(axis=1), check_finite=False)[0])


def invert_rows(B: Array) -> Array:
    """Return the unit rows of the transposed (pseudo-)inverse, which are those of the truth at a minimum of F.

    Shapes: B (k, d), result (k, d).
    """
    return unit_rows(as_array(np.linalg.pinv(B).T))[0] + 0.0
