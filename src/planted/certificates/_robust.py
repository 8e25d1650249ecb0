"""The verdict on a fit under a robust loss: the certificate of least squares, applied to the pseudo-outputs.

At an M-estimate the pseudo-outputs of `planted.fitting._losses` form a least-squares problem whose residual is the
influence of each entry. The tests for traces of x and for a missing unit, which are made for least squares, therefore
apply to it. Two things are added. First, the offset c is the mean of the noise only if the noise is symmetric; an
excess of one sign, among all residuals or among those beyond `FAR` scales, turns RECOVERED into FITTED. Second, the
evidence names the loss and the variances by which it was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planted._typing import Array
from planted.certificates._noisy import certify_noisy
from planted.checks import Check
from planted.fitting._losses import RobustFit
from planted.fitting._problem import Problem
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Verdict

__all__ = ["asymmetry_evidence", "certify_with_loss"]

ASYMMETRY = 4.0  # standard errors
FAR = 3.0  # scales


def certify_with_loss(
    problem: Problem, robust: RobustFit, *, further: Sequence[Evidence] = (), asked: str = "auto"
) -> Verdict:
    """Judge a network fitted under a loss.

    `asked`: the loss that was asked for; nothing is said about the loss when that was the squared one. Returns
    RECOVERED (asymptotic), FITTED, or a refusal.
    """
    verdict = certify_noisy(
        robust.problem, robust.fit, offset=robust.has_offset, weights=robust.weights, further=further
    )
    if robust.loss != "squared":
        verdict = _with_symmetry(verdict, asymmetry_evidence(problem.Y - robust.fit.network(problem.X)))
    if verdict.outcome is Outcome.RECOVERED and not (robust.converged and robust.fit.converged):
        verdict = replace(verdict, outcome=Outcome.STOPPED_EARLY, guarantee=Guarantee.NONE)
    return verdict if asked == "squared" else _with_name(verdict, robust)


def asymmetry_evidence(residual: Array) -> Evidence:
    """Test whether residuals are as often positive as negative, the far ones too.

    The evidence measures the largest excess of one sign in an output, in standard errors. Shapes: residual (n, m).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.standard_t(2, (500, 3))
    >>> asymmetry_evidence(noise).passed, asymmetry_evidence(np.where(noise < 5, noise, 10.0) + 0.3).passed
    (True, False)
    """
    scales = np.median(np.abs(residual), axis=0) * 1.4826
    far = np.sign(residual) * (np.abs(residual) > FAR * scales)
    excess = [
        np.abs(signs.sum(axis=0)) / np.sqrt(np.maximum(np.abs(signs).sum(axis=0), 1.0))
        for signs in (np.sign(residual), far)
    ]
    name = "excess of one sign of the residual, in standard errors"
    return Evidence(name, float(np.max(excess)), ASYMMETRY, "<=", "symmetric noise", key=Check.LOSS)


def _with_symmetry(verdict: Verdict, line: Evidence) -> Verdict:
    """Add the test of symmetry; a claim that fails it is a fit."""
    verdict = replace(verdict, evidence=(*verdict.evidence, line))
    if line.passed or verdict.outcome is not Outcome.RECOVERED:
        return verdict
    text = (
        f"{line.name}: {line.measured:.3g}, needed <= {line.required:.3g}: the noise is not symmetric, and the "
        "offset c is not its mean."
    )
    return replace(verdict, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)


def _with_name(verdict: Verdict, robust: RobustFit) -> Verdict:
    """Name the loss, with the variances by which it was chosen."""
    lines = tuple(
        Evidence(
            f"estimated variance under the {name} loss, over the smallest", value, key=Check.LOSS_VARIANCE
        )
        for name, value in robust.efficiencies.items()
    )
    how = "chosen by the tails of the residual" if lines else "as asked for"
    text = f"{verdict.detail} Fitted with the {robust.loss} loss, {how}."
    return replace(verdict, evidence=(*verdict.evidence, *lines), detail=text)
