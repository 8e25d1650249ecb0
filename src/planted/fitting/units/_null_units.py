r"""Read all units at once from the null space of the complementarity system, and prove that they are the only ones.

Problem     Noiseless Y = f(X W' + b) A' + c, where f is the ReLU and A has full column rank k, with at least about q
            samples (q below). Find W and b for *any* X, and decide whether they are unique.
Idea        The activation h and the pre-activation t of a ReLU satisfy h (h - t) = 0 on every sample. With h =
            z'(y - c):

            .. math:: y^\top S y - y^\top P (x, 1) = 0, \qquad S = z z^\top,\ P = z (w, b)^\top,          \quad (1)

            which is linear in the k pairs (S, P). Each sample gives one row [svec(y y'), -y ⊗ (x, 1)]; with the
            outputs projected to their k-dimensional span there are q = k(k+1)/2 + k(d+1) columns. The null space
            contains the k pairs. Its S-parts are linear mixtures of the z_i z_i', and joint diagonalisation by
            congruence separates them. Signs follow from h ≥ 0, and (w, b) by least squares where h > 0. If c is
            unknown, y is replaced by (y, 1) and (x, 1) by x: the constants move into S, whose k × k part is still z
            z'.
Guarantee   Uniqueness theorem. *If the null space has dimension exactly k, every k-unit network with A of full column
            rank that fits the samples is the same network*, up to order and positive scale. Proof: the pair (S', P')
            = (z'z'ᵀ, z'(w', b')ᵀ) of another such network lies in the span of the (S_i, P_i), so z'z'ᵀ = Σ c_i z_i
            z_iᵀ. The z_i are independent, so a combination of rank one has a single non-zero c_i, and z' is
            proportional to z_i. The S_i are independent too, which forces P' = c_i P_i, hence (w', b') is
            proportional to (w_i, b_i) with the same scale. ∎

            The theorem is deterministic and holds for noiseless data of any distribution. It says nothing about wider
            networks or other activations. It needs n ≥ q - k samples. Nested units (j on whenever i is) enlarge the
            null space; nothing is then claimed here.
Departures  Ours; no paper.
Cost        O(n q² + q³) time, O(q²) memory after one QR.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.checks import Check
from planted.linalg import NullSpace, diagonalise_by_congruence, null_space, smat, svec_outer
from planted.moments import augment
from planted.results import Evidence

__all__ = [
    "complementarity_features",
    "complementarity_null_space",
    "scaled_null_space",
    "uniqueness_evidence",
    "units_from_null_space",
]

NULL_TOL = 1e-9  # relative; zero singular values of noiseless data lie near 1e-15
CLEAR_GAP = 1e-6  # smallest relative singular value that is safely not rounding
OFF_TOL = 1e-8  # activation, relative to the largest, below which a sample counts as off


def complementarity_features(X: Array, y: Array, *, offset: bool = False) -> Array:
    """Return the rows of (1).

    They are ``[svec(y y'), -y ⊗ (x, 1)]``, or ``[svec((y,1)(y,1)'), -(y,1) ⊗ x]`` with an offset; the k(k+1)/2
    columns of svec(y y') come first in both. Shapes: X (n, d), y (n, k), result (n, q).
    """
    if not offset:
        return np.hstack([svec_outer(y), -(y[:, :, None] * augment(X)[:, None, :]).reshape(len(X), -1)])
    homogeneous = augment(y)
    mixed = -(homogeneous[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    return np.hstack([svec_outer(y), homogeneous, mixed])


def complementarity_null_space(X: Array, y: Array, *, offset: bool = False) -> NullSpace:
    """Return the null space of (1) on the given samples.

    The outputs `y` are projected to their k-dimensional span, with columns of comparable size. Shapes: X (n, d), y
    (n, k).
    """
    return scaled_null_space(complementarity_features(X, y, offset=offset))


def scaled_null_space(features: Array) -> NullSpace:
    """Return the null space of rows whose columns may be of different sizes.

    Shapes: features (n, q).
    """
    lengths = np.linalg.norm(features, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    space = null_space(features / lengths, tol=NULL_TOL)
    return NullSpace(
        linalg.orth(space.basis / lengths[:, None]) if space.dimension else space.basis, space.singular_values
    )


def units_from_null_space(
    X: Array, y: Array, space: NullSpace, *, offset: bool = False, rng: np.random.Generator
) -> Array | None:
    """Separate a k-dimensional null space into its k units (w, b); None when the dimension is not k.

    Shapes: X (n, d), y (n, k), result (k, d + 1).
    """
    k = y.shape[1]
    if space.dimension != k:
        return None
    Z = diagonalise_by_congruence(smat(space.basis[: k * (k + 1) // 2].T), rng).Z
    rows = augment(X)
    units = []
    for h in (y @ Z).T:
        activation = _non_negative(h, offset)
        on = activation > OFF_TOL * activation.max()
        units.append(linalg.lstsq(rows[on], activation[on], check_finite=False)[0])
    return np.array(units)


def uniqueness_evidence(space: NullSpace, n_hidden: int) -> tuple[Evidence, Evidence]:
    """Return the two lines of the uniqueness theorem.

    The first is the dimension of the null space, the second the singular value that bounds it away from more.
    """
    dropped = f"largest null value {space.largest_dropped:.1e}"
    return (
        Evidence(
            "dimension of the complementarity null space",
            space.dimension,
            n_hidden,
            "==",
            "uniqueness theorem",
            key=Check.NULL_SPACE,
        ),
        Evidence(
            "smallest non-null singular value (relative)",
            space.smallest_kept,
            CLEAR_GAP,
            ">=",
            dropped,
            key=Check.NULL_SPACE_GAP,
        ),
    )


def _non_negative(h: Array, offset: bool) -> Array:
    """Choose the sign (and constant) that makes h an activation: its value where off is its minimum."""
    if not offset:
        return h if (h**3).sum() >= 0 else -h
    low, high = h - h.min(), h.max() - h
    scale = low.max()
    is_low = (low < OFF_TOL * scale).sum() >= (high < OFF_TOL * scale).sum()
    return as_array(low if is_low else high)
