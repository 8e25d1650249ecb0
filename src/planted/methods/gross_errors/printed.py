r"""Section 8 of BJW18: the convex program of Theorem 14, and Corollary 8, which solves it and then any exact method.

Problem     Y = f(X W') A' + E with m > k, E zero in most entries and of any size in the others. Sought: W and A, exactly.
Idea        The true labels M have rank k and the errors are sparse. Theorem 14 recovers M by principal component pursuit,

            .. math:: \min \|L\|_* + \lambda \|S\|_1 \quad \text{subject to} \quad L + S = Y, \qquad
                      \lambda = 1/\sqrt{\max(n, m)} .                                                     \quad (1)

            Corollary 8 then runs any method for exact labels on L.
Guarantee   Theorem 14 of [BJW18]_, after Theorem 1.1 of [CLMW11]_: with high probability L = M for a constant fraction of
            errors at random places, if A has orthonormal, μ-incoherent columns, x is normal and k ≤ m / (μ̄ log² n).
Notation    paper: A (ours Y'), M and the minimiser Y (L'), E (S'), U (A), V (W).
Departures  The section has no box. It prints (1) without λ, which is that of [CLMW11]_. With λ = 1 the minimiser is L = Y
            and S = 0, errors included: PQ' of the decomposition Y = PΣQ' is a subgradient of the nuclear norm, and none
            of its entries exceeds one. The display before it, the best approximation of rank k in the Frobenius norm, is
            the truncated singular value decomposition, which is neither hard to compute nor exact under gross errors.
            (1) is solved to 1e-7, and L is polished to rounding afterwards (`polish_low_rank`). Rows with no more than k
            clean entries have no redundancy; Corollary 8 leaves them out.
Cost        O(n m²) for each step of the augmented Lagrangian method, some tens of steps.
References  [BJW18]_, [CLMW11]_
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planted._typing import Array, BoolArray
from planted.linalg.low_rank_sparse import LowRankSparse, principal_component_pursuit
from planted.results import Recovery

__all__ = ["corollary_8", "theorem_14"]


def theorem_14(Y: Array, *, known: BoolArray) -> Array:
    """Return the low-rank part of labels by (1); `known` is false where a label is missing.

    Shapes: Y (n, m), known (n, m), result (n, m).
    """
    weight = 1.0 / float(np.sqrt(max(Y.shape)))
    return principal_component_pursuit(Y, weight=weight, known=known)[0]


def corollary_8(X: Array, split: LowRankSparse, exact: Callable[[Array, Array], Recovery]) -> Recovery:
    """Run a method for exact labels on the low-rank part, on the rows where that is decided.

    Shapes: X (n, d).
    """
    return exact(X[split.is_decided], split.L[split.is_decided])
