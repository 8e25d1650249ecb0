r"""Does x still show in the residual of a fitted network?

Problem     A least-squares network leaves a residual. Decide whether it is noise that ignores x, or the trace of a unit
            that is missing, misplaced or of another kind.
Idea        Let every output have, beside the network, a linear part in some functions Φ of x, and ask how much the sum
            of squares falls, to first order in the network's parameters, whose Jacobian is J:

            .. math:: F = \frac{(Q_{J,\Phi} - Q_J) / \nu}{(Q - Q_{J,\Phi}) / (n m - \nu_{J,\Phi})},         \quad (1)

            Q the sum of squares of the residual, :math:`Q_M` what the columns M explain of it, ν the dimensions added.
            J and Φ are removed *together*: taking every column of J out of every output would be simpler, but it hides
            most of what a wrong network leaves, since J has k(d+1) + mk directions and not m times k(d+1).
            Adding Φ to every output is adding columns to G = [H, 1], so (1) needs only the sums and the elimination of
            `refine`. Φ holds, for every unit, its pre-activation and the squares on both sides of its kink (a unit of
            another kind shows there first) and ReLU random features (anything else). Outputs are whitened by the
            residual's covariance, so that noise may differ and correlate between outputs.
Guarantee   Under the truth F has an F distribution: exactly for Gaussian noise of known covariance and a linear model,
            else as n grows. At most half of the degrees of freedom go to Φ.
Cost        One pass; O((k p)³) algebra.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from planted.certificates._residual_sums import ResidualSums, inverse_root
from planted.fitting._damping import weigh_blocks

__all__ = ["lack_of_fit"]


def lack_of_fit(sums: ResidualSums) -> tuple[float, int]:
    """Test whether functions of x explain more of the residual than noise would.

    Returns p_value: probability of an F as large as (1) under the truth; NaN when nothing could be tested; tested:
    dimensions added by Φ.
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
    """Return the sum of squares explained by the hidden Jacobian with the columns up to ``end`` free in every output."""
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
