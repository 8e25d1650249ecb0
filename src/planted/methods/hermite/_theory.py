r"""Are the inputs normal, what can the moments show, and which signs can be known? The numbers behind the evidence.

For whitened inputs the order-3 and order-4 Hermite coefficients of the *inputs' law* vanish exactly if it is normal to
that order. Contracted with the identity they are the vector :math:`s = E[x(|x|^2 - d - 2)]` and the matrix
:math:`M = E[xx^\top(|x|^2 - d - 4)] - (E|x|^2 - d - 2) I`. Under normality, by orthogonality,

.. math:: \frac{n |s|^2}{2(d+2)} \to \chi^2_d, \qquad
          \frac{n \|M_0\|_F^2}{4(d+4)} + \frac{n (\mathrm{tr} M)^2}{8 d (d+2)} \to \chi^2_{d(d+1)/2}, \quad (1)

with M_0 the traceless part: off-diagonal entries of M have variance 2(d+4), its trace has 8d(d+2). One pass, all rows.
Fourth powers have heavy tails, so the statistics over their degrees of freedom are compared with an F law with n/25
degrees in the denominator; the p-value is twice the smaller of the two. The tests calibrate it by simulation.

A unit with output weight a and bias b has strength a φ(b) in T_2. Below the sampling error of T_2 it is absorbed by the
linear part (Lemma D.13 of [ATV21]_).

Turning a set S of units round changes the function by the linear term Σ_S a_i (w_i'x + b_i). If Σ_S a_i w_i = 0 the
function stays the same up to a constant, which the offset takes: Claim 4.8.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import stats

from planted._typing import Array
from planted.checks import Check
from planted.linalg import khatri_rao_values
from planted.linalg.signs import enumerate_flips
from planted.moments import accumulate_grams
from planted.networks import TwoLayerNetwork
from planted.results import Evidence, Recovery, Uncertainty
from planted.rows import RowBlocks

__all__ = [
    "distinct_values_evidence",
    "fourth_moments",
    "identifiability_evidence",
    "largest_visible_bias",
    "normality_evidence",
    "offer_alternatives",
    "sign_alternatives",
    "tail_evidence",
]

NORMALITY_LEVEL = 1e-6  # p-value below which inputs are called not normal
HEAVIEST_TAILS = 5.0  # times the fourth moments of normal inputs, which stay below 1.6 from 20 rows on
FEWEST_VALUES = 11  # distinct values of an input below which it is not called normal
TAIL_ROWS = 25  # rows for one degree of freedom in the denominator
PERTURBATION = 0.1  # τ of the smoothed analysis
MAX_ALTERNATIVES = 16
ALTERNATIVE_TOL = 1e-7  # how well turned units of an exact network must cancel, relative to their sizes
SIGN_SIGMAS, LOOSEST_SIGNS = 4.0, 0.02  # the same for noisy networks: standard errors, and the loosest


def fourth_moments(blocks: RowBlocks, n_samples: int) -> Array:
    """Return E[|x|² (1, x)(1, x)'] of whitened inputs, from which both statements on their law are read.

    Shapes: result (d + 1, d + 1).
    """
    sums = accumulate_grams(blocks, _squared_radius, quadratic=False)
    return np.asarray(sums.linear[:, 0].sum(axis=0) / n_samples)


def _squared_radius(X: Array, Y: Array) -> Array:
    """Return the weight |x|²."""
    return np.asarray((X**2).sum(axis=1, keepdims=True))


def normality_evidence(G: Array, n_samples: int) -> Evidence:
    """Test whether whitened inputs are normal, by (1): the p-value must be at least `NORMALITY_LEVEL`.

    `G`: their `fourth_moments`; E[x] = 0 and E[xx'] = I.
    """
    d = len(G) - 1
    skewness = G[0, 1:]
    M = G[1:, 1:] - (d + 4) * np.eye(d) - (G[0, 0] - d - 2) * np.eye(d)
    trace = float(np.trace(M))
    traceless = M - trace / d * np.eye(d)
    third = n_samples * float(skewness @ skewness) / (2 * (d + 2))
    fourth = n_samples * (float((traceless**2).sum()) / (4 * (d + 4)) + trace**2 / (8 * d * (d + 2)))
    pairs, freedom = d * (d + 1) // 2, n_samples / TAIL_ROWS
    p_value = 2 * min(stats.f.sf(third / d, d, freedom), stats.f.sf(fourth / pairs, pairs, freedom))
    text = f"order 3: χ² = {third:.4g} ({d}), order 4: χ² = {fourth:.4g} ({pairs})"
    name, measured = "p-value of the test that x is Gaussian", float(min(p_value, 1.0))
    return Evidence(name, measured, NORMALITY_LEVEL, ">=", text, key=Check.NORMAL_INPUTS)


def tail_evidence(G: Array) -> Evidence:
    """Compare the fourth moments of whitened inputs with those of normal ones, in the heaviest direction.

    For a law without fourth moments they grow with the number of samples, and so does every average of order four.
    """
    measured = float(np.linalg.eigvalsh(G[1:, 1:])[-1]) / (len(G) + 1)
    name = "fourth moments of x over those of normal inputs"
    return Evidence(name, measured, HEAVIEST_TAILS, "<=", "|E[xx'|x|²]| / (d + 2)", key=Check.FOURTH_MOMENTS)


def distinct_values_evidence(X: Array) -> Evidence:
    """Count the values of the input that has fewest, constant ones aside: normal inputs have as many as samples.

    Shapes: X (n, d).

    Examples
    --------
    >>> bits = np.array([[0.0, 0.1], [1.0, 0.2], [1.0, 0.3]])
    >>> distinct_values_evidence(bits).measured, distinct_values_evidence(bits[:, 1:]).passed
    (2.0, True)
    """
    counts = [len(np.unique(column)) for column in X.T]
    fewest = min((count for count in counts if count > 1), default=len(X))
    name, needed = "distinct values of the input with fewest", min(len(X), FEWEST_VALUES)
    return Evidence(name, float(fewest), needed, ">=", "continuous inputs", key=Check.CONTINUOUS_INPUTS)


def largest_visible_bias(noise: float) -> float:
    """Return the largest |b| at which a unit of output weight 1 stands out in T_2: the solution of φ(b) = noise.

    It is 0 if no unit stands out, infinite without noise.
    """
    peak = 1 / np.sqrt(2 * np.pi)
    if noise <= 0:
        return float("inf")
    return float(np.sqrt(2 * np.log(peak / noise))) if noise < peak else 0.0


def identifiability_evidence(W: Array, order: int, rng: np.random.Generator) -> tuple[Evidence, ...]:
    """Return the smallest singular value of the Khatri–Rao power, as found and after a small perturbation.

    Shapes: W (k, d).
    """
    if not len(W):
        return ()
    shaken = W + PERTURBATION / np.sqrt(W.shape[1]) * rng.standard_normal(W.shape)
    shaken /= np.linalg.norm(shaken, axis=1, keepdims=True)
    name = f"smallest singular value of the Khatri-Rao power {order} of W"
    later, equation = (
        f"{name} after a perturbation of size {PERTURBATION}",
        "smoothed analysis, Corollary 3.3",
    )
    found, left = (float(khatri_rao_values(rows, order)[-1]) for rows in (W, shaken))
    return (
        Evidence(name, found, equation="s_k, Theorem D.1", key=Check.KHATRI_RAO),
        Evidence(later, left, equation=equation, key=Check.KHATRI_RAO_PERTURBED),
    )


def offer_alternatives(answer: Recovery) -> Recovery:
    """Add the networks that differ by signs alone as ``stats["alternatives"]``, and a sentence on them (Claim 4.8)."""
    if answer.network is None:
        return answer
    others = sign_alternatives(answer.network, tol=_sign_tolerance(answer))
    name = "other sign patterns of the units with the same function"
    line = Evidence(name, len(others), equation="Claim 4.8", key=Check.SIGN_PATTERNS)
    plain = [{part: getattr(net, part).tolist() for part in "WbAc"} for net in others]
    stats = {**answer.stats, "alternatives": plain}
    detail = answer.detail
    if others:
        turned = np.flatnonzero((others[0].W != answer.network.W).any(axis=1))
        detail += (
            f" No amount of data can tell the signs of units {', '.join(map(str, turned + 1))}: turned round together they "
            "give the same function. The network shown and the other(s) in stats['alternatives'] are equally right."
        )
    return replace(answer, evidence=(*answer.evidence, line), stats=stats, detail=detail)


def sign_alternatives(network: TwoLayerNetwork, *, tol: float = 1e-8) -> list[TwoLayerNetwork]:
    """Return the other networks, at most 15, that give the same function with units turned round (Claim 4.8).

    `tol`: how well the sum of turned units must vanish, relative to its terms.
    """
    k = network.n_hidden
    columns = np.einsum("mk,kd->mdk", network.A, network.W).reshape(-1, k)
    nowhere = np.zeros(k, dtype=np.bool_)
    patterns = enumerate_flips(
        columns, np.zeros(len(columns)), preferred=nowhere, tol=tol, limit=MAX_ALTERNATIVES
    )
    others = []
    for flips in patterns:
        if flips.any():
            signs = np.where(flips, -1.0, 1.0)
            constant = network.c + network.A[:, flips] @ network.b[flips]
            others.append(TwoLayerNetwork(network.W * signs[:, None], network.b * signs, network.A, constant))
    return others


def _sign_tolerance(answer: Recovery) -> float:
    """Return how well turned units must cancel: to rounding, or to their standard errors."""
    if not isinstance(answer.uncertainty, Uncertainty):
        return ALTERNATIVE_TOL
    errors = answer.uncertainty.standard_errors
    assert answer.network is not None
    sizes = np.linalg.norm(answer.network.A, axis=0)
    relative = np.sqrt((errors["W"] ** 2).sum(axis=1)) + np.linalg.norm(errors["A"], axis=0) / sizes
    return float(np.clip(SIGN_SIGMAS * relative.max(initial=0.0), ALTERNATIVE_TOL, LOOSEST_SIGNS))
