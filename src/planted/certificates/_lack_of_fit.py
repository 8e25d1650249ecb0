r"""Test whether the residual of a fitted network still depends on x.

Problem     A least-squares network leaves a residual. Decide whether it is noise that ignores x, or the trace of a
            unit that is missing, misplaced or of another kind.
Idea        Every output gets, beside the network, a linear part in some functions Φ of x. The test asks how much the
            sum of squares falls, to first order in the network's parameters, whose Jacobian is J:

            .. math:: F = \frac{(Q_{J,\Phi} - Q_J) / \nu}{(Q - Q_{J,\Phi}) / (n m - \nu_{J,\Phi})},         \quad (1)

            where Q is the sum of squares of the residual, :math:`Q_M` the part of it that the columns M explain, and
            ν the number of dimensions added. J and Φ are removed *together*. Taking every column of J out of every
            output would be simpler, but it would hide most of what a wrong network leaves, since J has k(d+1) + mk
            directions and not m times k(d+1).

            Adding Φ to every output is the same as adding columns to G = [H, 1], so (1) needs only the sums and the
            elimination of `refine`. For every unit Φ holds its pre-activation and the squares on both sides of its
            kink, where a unit of another kind shows first; ReLU random features are added for everything else.
            Outputs are whitened by the residual's covariance, so that noise may differ and correlate between outputs.
Guarantee   If the network is right, F has an F distribution: exactly for Gaussian noise of known covariance and a
            linear model, otherwise as n grows. At most half of the degrees of freedom go to Φ.
Cost        One pass and O((k p)³) algebra.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from planted.certificates._residual_sums import ResidualSums, inverse_root
from planted.fitting._damping import weigh_blocks

__all__ = ["lack_of_fit"]


def lack_of_fit(sums: ResidualSums) -> tuple[float, int]:
    """Test whether functions of x explain more of the residual than noise would.

    Returns the probability of an F as large as (1) if the network is right, NaN when nothing could be tested, and the
    number of dimensions that Φ added.
    """
    plain, dimension = _explained(sums, end=sums.own)
    full, full_dimension = _explained(sums, end=len(sums.products))
    outputs, tested = len(sums.A), full_dimension - dimension
    freedom = sums.n_samples * outputs - full_dimension
    if tested <= 0 or freedom <= 0:
        return float("nan"), 0
    rest = max(outputs - full, np.finfo(float).tiny)  # each whitened output has a sum of squares of one
    ratio = (full - plain) / tested / (rest / freedom)
    return float(stats.f.sf(ratio, tested, freedom)), tested


def _explained(sums: ResidualSums, *, end: int) -> tuple[float, int]:
    """Return what the hidden Jacobian explains with the columns up to ``end`` free in every output."""
    products, cross, A, hidden = sums.products, sums.cross, sums.A, sums.hidden
    free = slice(hidden, end)
    root = inverse_root(products[free, free], np.diag(products)[free])
    own, mixed = root.T @ cross[free], root.T @ products[free, :hidden]
    N = weigh_blocks(products[:hidden, :hidden] - mixed.T @ mixed, A)
    remaining = (cross[:hidden] - mixed.T @ own).reshape(A.shape[1], -1, len(A))
    gradient = np.einsum("jpl,lj->jp", remaining, A).ravel()
    root_N = inverse_root(N, np.diag(weigh_blocks(products[:hidden, :hidden], A)))
    total = float((own**2).sum() + ((root_N.T @ gradient) ** 2).sum())
    return total, root.shape[1] * len(A) + root_N.shape[1]
