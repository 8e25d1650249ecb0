r"""Signs of hidden directions from noisy outputs (BJW18 §5).

Problem     Y = f(X W' + b) A' + E with mean-zero noise. The rows of W, and b, are known approximately and up to sign.
            Find the signs, then A.
Idea        Let S_i(±) hold both :math:`\sigma(\pm t_j)` of every other unit and one of :math:`\sigma(\pm t_i)` of unit
            i, where t = x'w + b. Algorithm 6 projects the outputs off its span, and the sign with the smaller residual
            wins. Each of these 2k projections has 2k - 1 of the columns of

            .. math:: F = [\sigma(T), \sigma(-T)], \qquad \beta = (F^\top F)^{-1} F^\top Y .                 \quad (1)

            Leaving out column r raises the sum of squares by

            .. math:: |\beta_r|^2 / ((F^\top F)^{-1})_{rr},                                              \quad (2)

            so the sign whose column costs more to leave out is kept. This is the same decision from one solve, and
            from sums over rows alone. A follows by regression on the kept columns.
Guarantee   Theorem 9 of [BJW18]_: right with high probability for noise of any variance once the directions are
            accurate and the samples many. Kind: asymptotic. The theorem needs k ≤ d (k ≤ d + 1 with biases): with
            more units the linear functions σ(t) - σ(-t) of the others span that of unit i, and both signs fit alike.
Notation    paper: V (ours W), U (A), A (Y'), v_i (a direction before its sign is known), ξ_i (its sign).
Departures  The box itself is `algorithm_6` of `planted.methods.joint_diagonalisation.printed`; a test checks that both
            decide alike. The rise (2) is summed over outputs; Algorithm 6 compares output by output and votes by the
            sum as well.
Cost        O(n k²) and O(k³).
References  [BJW18]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.linalg.symmetric import column_spectrum, rises_of_columns
from planted.networks import Activation, parse_activation
from planted.outcomes import BadInputError

__all__ = ["SignedDirections", "orient_directions", "signs_of_preactivations"]


@dataclass(frozen=True, slots=True)
class SignedDirections:
    """Directions with their signs."""

    W: Array  # (k, d): hidden directions, turned to the side they look
    b: Array  # (k,): biases, turned with them
    A: Array  # (m, k): output weights by regression on the turned units
    # (k,): difference of the residuals of the two signs, in standard errors of that difference; some five are safe.
    margins: Array


def orient_directions(
    X: Array,
    Y: Array,
    W: Array,
    *,
    b: Array | None = None,
    activation: Activation | None = None,
) -> SignedDirections:
    """Find the signs of hidden directions, then the output weights.

    Shapes: X (n, d), Y (n, m), W (k, d), b (k,).

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(500, n_features=4, n_hidden=3, n_outputs=3, noise=0.5, random_state=0)
    >>> signed = orient_directions(data.X, data.Y, -data.network.W)
    >>> bool(np.allclose(signed.W, data.network.W))
    True
    """
    k = len(W)
    biases = np.zeros(k) if b is None else b
    f = activation or parse_activation("relu")
    T = X @ W.T + biases
    F = np.hstack([f(T), f(-T)])
    rises = _rises(F, Y)
    if rises is None:
        raise BadInputError(
            f"the {2 * k} columns of both signs are linearly dependent on these {len(X)} samples: signs can be told "
            f"for k <= d directions that are both on and off on more than 2k samples; here k = {k}, d = {X.shape[1]}"
        )
    turned = _signs(rises)
    A = linalg.lstsq(f(T * turned), Y, check_finite=False)[0].T
    residual = Y - F @ linalg.lstsq(F, Y, check_finite=False)[0]
    variance = float((residual**2).sum()) / (Y.shape[1] * max(len(Y) - F.shape[1], 1))
    # A rise is a squared length; noise moves it by twice that length times its standard deviation.
    error = 2 * np.sqrt(np.maximum(variance * (rises[:k] + rises[k:]), np.finfo(float).tiny))
    return SignedDirections(W * turned[:, None], biases * turned, A, np.abs(rises[:k] - rises[k:]) / error)


def signs_of_preactivations(T: Array, Y: Array, *, activation: Activation) -> Array | None:
    """Find the signs of pre-activations, one or minus one, by (2).

    The result is None where the columns of both signs are dependent, as for k > d. Shapes: T (n, k), Y (n, m), result
    (k,).
    """
    rises = _rises(np.hstack([activation(T), activation(-T)]), Y)
    return None if rises is None else _signs(rises)


def _signs(rises: Array) -> Array:
    """Keep the sign whose column costs more to leave out."""
    plus, minus = rises.reshape(2, -1)
    return np.where(plus >= minus, 1.0, -1.0)


def _rises(F: Array, Y: Array) -> Array | None:
    """Return (2) for every column, or None where they are dependent."""
    if len(F) <= F.shape[1]:
        return None
    rises = rises_of_columns(column_spectrum(F.T @ F), linalg.lstsq(F, Y, check_finite=False)[0])
    return rises if rises.all() else None
