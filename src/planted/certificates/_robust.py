"""The verdict on a fit under a robust loss: the certificate of least squares, applied to the pseudo-outputs.

At an M-estimate the pseudo-outputs of `planted.fitting._losses` form a least-squares problem whose residual is the
influence of each entry. The tests for traces of x and for a missing unit, which are made for least squares, therefore
apply to it. Five things are added. The labels themselves are tested for those that were cut off or lost, which the
pseudo-outputs do not show (`noise._labels`). Then, a robust loss finds the mean of the labels only if the noise is
symmetric for every x; an excess of one sign, among all residuals or among those beyond `FAR` scales, by itself or where
the prediction is large, turns RECOVERED into FITTED. Next, what the loss has written off must not be a unit that is on
in a few samples (`_error_places.unit_among_outliers`), and every unit needs `SIDE_ROWS` (d + 1) samples on both sides
of its kink: with fewer the influence of a sample on it is not that of the average sample. Further, the spread of the
noise must not depend on x (`noise._law.spread_evidence`). Last, the evidence names the loss and the variances by which
it was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planted._typing import Array
from planted.certificates._error_places import unit_among_outliers
from planted.certificates._noisy import certify_noisy
from planted.certificates.noise._covariance import certify_whitened
from planted.certificates.noise._labels import label_fault_evidence
from planted.certificates.noise._law import spread_evidence
from planted.checks import Check
from planted.fitting._losses import RobustFit
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Verdict

__all__ = ["asymmetry_evidence", "certify_whitened_with_loss", "certify_with_loss"]

ASYMMETRY = 4.0  # standard errors
FAR = 3.0  # scales
SIDE_ROWS = 5  # times d + 1
NOT_SYMMETRIC = "the noise is not symmetric, and a robust loss finds neither its mean nor the offset c."
FAULTY_LABELS = (
    "labels were cut off, lost or replaced by a constant, which errs towards one side where the prediction is large, and a "
    "robust loss follows the labels that are left."
)
UNEQUAL_SPREAD = (
    "the noise is larger for some x than for others, and the standard errors of a robust loss do not hold. Give each "
    "sample a weight (sample_weight), inverse to its variance."
)
UNIT_AMONG_OUTLIERS = (
    "samples that the loss has written off as outliers lie in one half-space and agree, as if a unit that is on there "
    "were missing."
)


def certify_with_loss(
    problem: Problem, robust: RobustFit, *, further: Sequence[Evidence] = (), asked: str = "auto"
) -> Verdict:
    """Judge a network fitted under a loss.

    `asked`: the loss that was asked for; nothing is said about the loss when that was the squared one. Returns
    RECOVERED (asymptotic), FITTED, or a refusal.
    """
    verdict = _certify_influences(problem, robust, further)
    return _with_labels(problem, robust, robust.fit.network, verdict, asked)


def certify_whitened_with_loss(
    problem: Problem, robust: RobustFit, *, asked: str = "auto"
) -> tuple[TwoLayerNetwork, Verdict]:
    """Judge a network fitted under a loss, with whitened outputs where noise differs between them.

    The labels are tested last, with the network that is returned: a verdict on whitened outputs may be a claim where that
    on the outputs as they are was none.
    """
    verdict = _certify_influences(problem, robust, ())
    network, verdict = certify_whitened(robust.problem, robust.fit, verdict, offset=robust.has_offset)
    return network, _with_labels(problem, robust, network, verdict, asked)


def _certify_influences(problem: Problem, robust: RobustFit, further: Sequence[Evidence]) -> Verdict:
    """Judge the fit to the pseudo-outputs."""
    if robust.loss != "squared":
        further = (*further, _rarer_side(problem, robust.fit.network))
    return certify_noisy(
        robust.problem, robust.fit, offset=robust.has_offset, weights=robust.weights, further=further
    )


def _with_labels(
    problem: Problem, robust: RobustFit, network: TwoLayerNetwork, verdict: Verdict, asked: str
) -> Verdict:
    """Ask of the labels what their influences do not show, and name the loss."""
    if robust.loss != "squared":
        is_whole = np.isfinite(problem.Y).all(axis=1)  # labels may be missing
        X, Y = (problem.X, problem.Y) if is_whole.all() else (problem.X[is_whole], problem.Y[is_whole])
        F = network(X)
        residual = Y - F
        faults = label_fault_evidence(Y, F)
        of_labels = {line.key for line in faults}
        others = tuple(line for line in verdict.evidence if line.key not in of_labels)
        verdict = replace(verdict, evidence=others)  # pseudo-outputs are no labels
        for line in faults:
            verdict = _demanding(verdict, line, FAULTY_LABELS)
        verdict = _demanding(verdict, asymmetry_evidence(residual, F), NOT_SYMMETRIC)
        verdict = _demanding(verdict, spread_evidence(X, F, residual), UNEQUAL_SPREAD)
        if verdict.outcome is Outcome.RECOVERED:  # the dearest test comes last
            verdict = _demanding(
                verdict, unit_among_outliers(X, residual, robust.scales), UNIT_AMONG_OUTLIERS
            )
    if verdict.outcome is Outcome.RECOVERED and not (robust.converged and robust.fit.converged):
        verdict = replace(verdict, outcome=Outcome.STOPPED_EARLY, guarantee=Guarantee.NONE)
    return verdict if asked == "squared" else _with_name(verdict, robust)


def asymmetry_evidence(residual: Array, prediction: Array) -> Evidence:
    """Test whether residuals are as often positive as negative, the far ones too, whatever the prediction.

    The evidence measures the largest excess of one sign in an output, in standard errors: of the signs themselves and
    of signs times prediction. Labels that are lost, or cut off, err towards one side where the prediction is large; a
    robust loss then follows the labels that are left. Shapes: residual and prediction (n, m).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise, prediction = rng.standard_t(2, (500, 3)), rng.standard_normal((500, 3))
    >>> asymmetry_evidence(noise, prediction).passed
    True
    >>> asymmetry_evidence(np.where(noise < 5, noise, 10.0) + 0.3, prediction).passed
    False
    >>> asymmetry_evidence(np.where(np.abs(noise) < 3, noise, -5 * prediction), prediction).passed
    False
    """
    scales = np.median(np.abs(residual), axis=0) * 1.4826
    signs = np.sign(residual)
    excess = [
        np.abs(terms.sum(axis=0)) / np.maximum(np.linalg.norm(terms, axis=0), np.finfo(float).tiny)
        for side in (signs, signs * (np.abs(residual) > FAR * scales))
        for terms in (side, side * prediction)
    ]
    name = "excess of one sign of the residual, in standard errors"
    return Evidence(name, float(np.max(excess)), ASYMMETRY, "<=", "symmetric noise", key=Check.LOSS)


def _rarer_side(problem: Problem, network: TwoLayerNetwork) -> Evidence:
    """Count the samples in memory on the rarer side of a unit."""
    active = network.patterns(problem.X).sum(axis=0)
    rarer = np.minimum(active, len(problem.X) - active)
    unit = int(np.argmin(rarer))
    name = f"samples on the rarer side of unit {unit + 1}, for a robust loss"
    needed = SIDE_ROWS * (problem.n_features + 1)
    return Evidence(name, int(rarer[unit]), needed, ">=", "5(d + 1)", key=Check.RARER_SIDE)


def _demanding(verdict: Verdict, line: Evidence, otherwise: str) -> Verdict:
    """Add a line that a claim needs; one that fails it is a fit, and `otherwise` says what that means."""
    verdict = replace(verdict, evidence=(*verdict.evidence, line))
    if line.passed or verdict.outcome is not Outcome.RECOVERED:
        return verdict
    text = f"{line.shortfall}: {otherwise}"
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
