r"""Generalised least squares for noise that is correlated or unequal between outputs.

Problem     Least squares gives every output the same weight. If the noise of the outputs differs or is correlated,
            the fit is still consistent, but its estimates are not the best possible and its standard errors are
            wrong.
Idea        Estimate the covariance Σ of the residual across outputs and map the outputs by :math:`T = \bar s\,
            \Sigma^{-1/2}`, after which the noise is equal and uncorrelated. Refine there and map back [Aitken1936]_:

            .. math:: T y = (T A) f(W x + b) + T c + T \xi, \qquad \mathrm{Cov}(T \xi) = \bar s^2 1 .        \quad (1)

            Σ can be estimated when there are `ROWS_PER_OUTPUT` rows for each output. It is used when it differs from
            a multiple of the identity by more than chance (Mauchly's likelihood ratio) and its eigenvalues differ by
            a factor `RATIO`; otherwise there is nothing to gain. If they differ by a factor `SINGULAR`, some
            combination of outputs has no noise by which it could be weighed, and least squares is kept.
Guarantee   Asymptotic: the maximum-likelihood estimate for normal noise of unknown covariance, to first order.
Cost        One more refinement and one more certificate.
References  [Aitken1936]_
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg, stats

from planted._typing import Array
from planted.certificates._near_models import chosen_rows_line
from planted.certificates._noisy import certify_noisy
from planted.certificates._parts import first_failure, with_curvature
from planted.certificates.noise._labels import label_fault_evidence, one_sided_evidence
from planted.certificates.noise._law import noise_law
from planted.certificates.noise._rounding import half_steps, with_half_step
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom, information
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import Problem
from planted.fitting._sandwich import sandwich_errors
from planted.linalg.symmetric import spectrum_of
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Unavailable, Uncertainty, Verdict

__all__ = ["certify_whitened", "sphericity_p_value"]

ROWS_PER_OUTPUT = 20
LEVEL = 1e-3
RATIO = 1.25
SINGULAR = 1e8  # ratio of variances from which a combination of outputs has no noise that could be weighed
JUDGED = (Outcome.RECOVERED, Outcome.FITTED)  # correlated noise can fail tests that are made for equal noise


def certify_whitened(
    problem: Problem, fit: Refinement, verdict: Verdict, *, offset: bool
) -> tuple[TwoLayerNetwork, Verdict]:
    """Refine and judge again with whitened outputs, if the noise is correlated or unequal between them.

    Returns the generalised least-squares network, or the given one where there is nothing to gain, and the verdict on
    it, with standard errors in the user's units.
    """
    n, m = problem.n_samples, problem.n_outputs
    if verdict.outcome not in JUDGED or m == 1 or n < ROWS_PER_OUTPUT * m:
        return fit.network, verdict
    covariance = fit.sums.RR / n
    spectrum = spectrum_of(covariance)
    values = spectrum.values
    ratio = float(values[-1] / max(values[0], np.finfo(float).tiny))
    kurtosis = _excess_kurtosis(problem.Y - fit.network(problem.X))
    if not RATIO <= ratio < SINGULAR or sphericity_p_value(covariance, n, kurtosis) >= LEVEL:
        return fit.network, verdict
    level = np.sqrt(values.mean())
    T = spectrum.mapped(level / np.sqrt(values))  # (1)
    back = spectrum.mapped(np.sqrt(values) / level)
    whitened = replace(problem, blocks=problem.blocks.map(lambda X, Y: (X, Y @ T)), Y=problem.Y @ T)
    refined = refine(whitened.blocks, _mixed(fit.network, T), offset=offset)
    judged = certify_noisy(whitened, refined, offset=offset)
    line = Evidence(
        "largest over smallest variance of the noise across outputs", ratio, key=Check.NOISE_ACROSS_OUTPUTS
    )
    network = _mixed(refined.network, back)
    # Whitening mixes the labels of a row: lines on single labels are about those of the user.
    F = network(problem.X)
    lines = (line, *label_fault_evidence(problem.Y, F), one_sided_evidence(problem.Y - F))
    if judged.outcome is Outcome.RECOVERED:
        lines += chosen_rows_line(problem, network, noise_law(problem, network), offset=offset)
    doubt = with_curvature(_errors(whitened, refined, offset, back), problem.scaling.restore(network))
    doubt = with_half_step(doubt, problem, network, half_steps(problem), offset=offset)
    return network, replace(_with_earlier(judged, verdict, lines), uncertainty=doubt)


def sphericity_p_value(covariance: Array, n_samples: int, kurtosis: float = 0.0) -> float:
    """Test that a covariance is a multiple of the identity.

    Returns the probability that the likelihood ratio is as large by chance. `kurtosis`: excess over that of normal
    noise, by which the ratio of heavy-tailed noise is larger. Shapes: covariance (m, m).

    Examples
    --------
    >>> sphericity_p_value(np.eye(3), 100)
    1.0
    """
    m = len(covariance)
    values = np.maximum(linalg.eigvalsh(covariance, check_finite=False), np.finfo(float).tiny)
    log_ratio = m * np.log(values.mean()) - np.log(values).sum()
    factor = n_samples - 1 - (2 * m * m + m + 2) / (6 * m)
    statistic = max(factor * log_ratio, 0.0) / (1 + kurtosis / 2)
    return float(stats.chi2.sf(statistic, m * (m + 1) // 2 - 1))


def _excess_kurtosis(residual: Array) -> float:
    """Return the mean excess kurtosis of the outputs, at least zero; missing labels and constant outputs are left out."""
    values = stats.kurtosis(residual, axis=0, nan_policy="omit")
    known = values[np.isfinite(values)]
    return float(max(known.mean(), 0.0)) if len(known) else 0.0


def _mixed(network: TwoLayerNetwork, T: Array) -> TwoLayerNetwork:
    """Map the outputs of a network."""
    linear = None if network.B is None else T @ network.B
    return replace(network, A=T @ network.A, c=T @ network.c, B=linear)


def _with_earlier(judged: Verdict, earlier: Verdict, lines: tuple[Evidence, ...]) -> Verdict:
    """Put `lines` in place of those of the second verdict, and keep those of the first that are in neither.

    One of them that failed is a doubt still.
    """
    new = {item.key for item in lines}
    own = tuple(item for item in judged.evidence if item.key not in new)
    known = new | {item.key for item in own}
    kept = (*lines, *(item for item in earlier.evidence if item.key not in known))
    judged = replace(judged, evidence=(*own, *kept))
    if judged.outcome is Outcome.RECOVERED and not all(item.passed for item in kept):
        text = first_failure(kept)
        return replace(judged, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)
    return replace(judged, detail=f"{judged.detail} Outputs were weighed by the covariance of their noise.")


def _errors(problem: Problem, fit: Refinement, offset: bool, back: Array) -> Uncertainty | Unavailable:
    """Return the standard errors of a fit to whitened outputs, in the user's units."""
    law = noise_law(problem, fit.network)
    if law.is_unequal or law.is_ordered:
        correlation = law.correlation if law.is_ordered else 0.0
        return sandwich_errors(problem, fit, offset=offset, mixing=back, correlation=correlation)
    freedom = problem.n_samples * problem.n_outputs - degrees_of_freedom(fit.network, offset=offset)
    info = information(fit.sums, fit.network, offset=offset, units=problem.scaling, mixing=back)
    if info.variances is None or freedom <= 0:
        return Unavailable(f"The information matrix is singular along unit {info.weakest_unit + 1}.")
    variance = fit.cost / freedom
    errors = {name: np.sqrt(variance * value) for name, value in info.variances.items()}
    return Uncertainty(errors, float(np.sqrt(variance)) * problem.scaling.y_scale, kind="generalised")
