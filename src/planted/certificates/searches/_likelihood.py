"""The search for a network behind class labels or counts, to the certificate.

Problem     Labels of a law (`fitting.likelihoods._families`) whose predictors are a network. Find it, and say how far to
            trust it.
Idea        Paths of widths from several starts (`fitting.likelihoods._path`) until the best maximum was reached twice. It is
            fitted on all rows without a ridge and certified (`certificates._likelihood`). Beside it stand the lines of the
            search: other starts, one unit more and one less, other activations.

            Labels say less than numbers. A kink and a sharp bend look alike in them, and noise lets one curved unit stand
            for two. So nothing is claimed of kinked units, nor of a width that the labels chose.

            Where nothing is claimed and labels are few, or separated, the maximum fits the noise or does not exist. The
            answer is then a fit with a ridge, whose size cross-validation chooses (`fitting.likelihoods._ridge`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from planted.certificates._likelihood import certify_labels, is_separated
from planted.checks import Check
from planted.fitting._run import MethodRun
from planted.fitting.likelihoods._fit import LabelFit, LabelRows
from planted.fitting.likelihoods._path import (
    LabelPath,
    criterion,
    fit_from,
    follow_labels,
    oriented,
    unknowns_of,
)
from planted.fitting.likelihoods._ridge import RidgeChoice, choose_ridge
from planted.fitting.likelihoods._smoothed import smoothed_maximum
from planted.networks import Activation, TwoLayerNetwork, parse_activation
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict

__all__ = ["LabelSearch", "search_labels"]

SAME_LOSS = 0.25  # nats between two ends at the same maximum; kinks leave many small ones
ATTEMPTS = {"quick": 1, "normal": 4, "thorough": 10}
# Attempts without a linear part, beside those with a free one.
DIRECT = {"quick": 0, "normal": 2, "thorough": 4}
WORSE_LOSS, COMPARED = 10.0, 4  # nats on the rows searched, and how many maxima: all rows decide between them
LINEAR_LEVEL = 1e-3  # of the likelihood-ratio test for a linear part
FEW_ROWS = 50  # samples per unknown above which a ridge gains nothing
RIVAL_MARGIN = 4.5  # nats by which another activation must fit worse
RIVALS = ("relu", "tanh", "softplus", "gelu", "silu", "elu")


@dataclass(slots=True)
class LabelSearch:
    """What is looked for, and the best so far."""

    run: MethodRun
    rows: LabelRows  # all rows
    sample: LabelRows  # those in memory
    activation: Activation
    n_hidden: int | None  # None: to be found
    affine: bool | str
    effort: str
    best: LabelPath | None = None
    ends: list[LabelFit] = field(default_factory=list)  # the end of every attempt on the rows in memory

    @property
    def turns(self) -> bool:
        """Whether units are searched beside a free linear part and turned afterwards."""
        mirror = self.activation.mirror
        return self.affine == "auto" and mirror is not None and mirror.slope != 0

    def attempt(
        self, n_hidden: int | None, activation: Activation | None = None, *, linear: bool | None = None
    ) -> LabelPath:
        """Follow the widths once; `linear`: whether beside a linear part, otherwise as the search asks for."""
        problem, shape = self.run.problem, activation or self.activation
        if linear is None:
            linear = self.affine is True or (shape is self.activation and self.turns)
        path = follow_labels(
            self.sample,
            shape,
            linear=linear,
            n_hidden=n_hidden,
            start=self.sample.likelihood.start(_label_means(problem.Y, problem.w)),
            varies=np.append((np.abs(problem.X).max(axis=0) > 0).astype(np.float64), 1.0),
            rng=problem.rng,
        )
        self.run.trace.extend(path.records)
        return path

    def interrupted(self, reason: str) -> Recovery:
        """Return the best so far."""
        network = None if self.best is None else self.best.network
        return self.run.interrupted(reason, network)


def search_labels(search: LabelSearch) -> Recovery:
    """Search, fit on all rows, certify; with few labels and no claim, fit again with a ridge."""
    search.run.on_stop = search.interrupted
    is_repeated = _attempt_until_repeated(search)
    assert search.best is not None
    fit = _fit_all_rows(search)
    further = [
        Evidence(
            "attempts that ended at the best maximum", 1 + is_repeated, 2, ">=", key=Check.LOCAL_MINIMUM
        ),
        *_width_evidence(search, fit),
    ]
    verdict = _verdict(search, fit, further)
    if verdict.outcome is Outcome.RECOVERED:  # the dearest searches come last
        verdict = _verdict(search, fit, [*further, _one_more(search, fit), _other_activations(search, fit)])
    if verdict.outcome is Outcome.RECOVERED or not _has_few_labels(search, fit):
        return _finish(search, fit.network, verdict)
    choice = choose_ridge(
        search.sample,
        min(
            search.ends, key=lambda each: criterion(search.sample, each)
        ).network,  # with the linear part of the search
        can_narrow=search.n_hidden is None,
        is_brief=search.effort == "quick",
        rng=search.run.problem.rng,
    )
    return _finish(
        search, _in_order(search, choice.fit.network), _ridge_verdict(fit, choice, verdict, search)
    )


def _attempt_until_repeated(search: LabelSearch) -> bool:
    """Make attempts until two end at the best maximum; return whether two did."""
    is_repeated = False
    for number in range(ATTEMPTS[search.effort]):
        path = search.attempt(search.n_hidden)
        search.run.problem.progress(f"restart {number + 1}", (number + 1) / ATTEMPTS[search.effort])
        end = fit_from(search.sample, path.network)
        search.ends.append(end)
        if is_separated(end):
            search.best = path
            return False
        values = sorted(criterion(search.sample, each) for each in search.ends)
        if criterion(search.sample, end) == values[0]:
            search.best = path
        is_repeated = len(values) > 1 and values[1] - values[0] <= 2 * SAME_LOSS
        if is_repeated:
            break
    return is_repeated


def _fit_all_rows(search: LabelSearch) -> LabelFit:
    """Turn the units, fit on all rows, and keep a linear part only where it is needed."""
    ends = sorted(search.ends, key=lambda each: criterion(search.sample, each))
    if any(map(is_separated, ends)):
        return next(each for each in ends if is_separated(each))
    last = ends[:1]
    if search.turns:
        k, spare = ends[0].network.n_hidden, ends[0].network.n_features * ends[0].network.n_outputs
        near = [each for each in ends if each.network.n_hidden == k][:2]
        plain = [turned for each in near for turned in oriented(search.sample, each)]
        # Beside a free linear part units have errors of their own: a search without one may end at another maximum.
        direct = [search.attempt(k, linear=False).network for _ in range(DIRECT[search.effort])]
        plain = _different([*plain, *(fit_from(search.sample, network) for network in direct)])
        if stats.chi2.sf(2 * (plain[0].sums.loss - ends[0].sums.loss), spare) >= LINEAR_LEVEL:
            last = plain
    fit = min(
        (fit_from(search.rows, _in_order(search, each.network)) for each in last), key=lambda each: each.cost
    )
    if not search.activation.is_piecewise_linear or is_separated(fit):
        return fit
    return smoothed_maximum(search.rows, fit)


def _different(fits: list[LabelFit]) -> list[LabelFit]:
    """Return the best maxima of some rows, which all rows may put into another order."""
    chosen: list[LabelFit] = []
    for each in sorted(fits, key=lambda each: each.sums.loss):
        if all(abs(each.sums.loss - other.sums.loss) > SAME_LOSS for other in chosen):
            chosen.append(each)
    return [each for each in chosen if each.sums.loss < chosen[0].sums.loss + WORSE_LOSS][:COMPARED]


def _in_order(search: LabelSearch, network: TwoLayerNetwork) -> TwoLayerNetwork:
    """Give units unit rows where their scale is a gauge, and the order and orientation of the canonical form."""
    W, norms = network.activation.unit_scale(network.W)
    scaled = replace(network, W=W, b=network.b / norms, A=network.A * norms**network.activation.degree)
    return search.run.problem.scaling.in_order(scaled)


def _width_evidence(search: LabelSearch, fit: LabelFit) -> list[Evidence]:
    """Say whether the width was given and the units may bend; and what one unit less would cost."""
    k = fit.network.n_hidden
    told = Evidence(
        "whether the number of units was given: labels hide units, and let one stand for two",
        int(search.n_hidden is not None),
        1,
        ">=",
        key=Check.WIDTH,
    )
    smooth = Evidence(
        "whether units are smooth: labels do not tell a kink from a sharp bend",
        int(search.activation.is_curved),
        1,
        ">=",
        key=Check.SHARP_KINKS,
    )
    lines = [told, smooth]
    if k > 1 and search.n_hidden is not None and search.activation.is_curved:
        fewer = fit_from(search.sample, search.attempt(k - 1).network)
        here = min(criterion(search.sample, each) for each in search.ends)
        name = "rise of the deviance + log(n) unknowns with one unit less"
        lines.append(
            Evidence(
                name, criterion(search.sample, fewer) - here, 0.0, ">=", "Schwarz", key=Check.NEEDLESS_UNIT
            )
        )
    return lines


def _one_more(search: LabelSearch, fit: LabelFit) -> Evidence:
    wider = fit_from(search.sample, search.attempt(fit.network.n_hidden + 1).network)
    here = min(criterion(search.sample, each) for each in search.ends)
    name = "gain of one more unit in the deviance + log(n) unknowns"
    return Evidence(
        name, here - criterion(search.sample, wider), 0.0, "<=", "Schwarz", key=Check.MISSING_UNIT
    )


def _other_activations(search: LabelSearch, fit: LabelFit) -> Evidence:
    """Compare with other activations of as many units; the nearest one is named."""
    own = (search.activation.respelled or (search.activation.name,))[0]
    best, nearest = np.inf, ""
    here = min(each.sums.loss for each in search.ends)
    for name in RIVALS:
        if name == own:
            continue
        rival = fit_from(search.sample, search.attempt(fit.network.n_hidden, parse_activation(name)).network)
        if rival.sums.loss - here < best:
            best, nearest = rival.sums.loss - here, name
    line = f"rise of the loss, in nats, with {nearest} units, the nearest other activation"
    return Evidence(line, float(best), RIVAL_MARGIN, ">=", key=Check.SMOOTH_BENDS)


def _verdict(search: LabelSearch, fit: LabelFit, further: list[Evidence]) -> Verdict:
    problem = search.run.problem
    return certify_labels(search.rows, fit, scaling=problem.scaling, rng=problem.rng, further=further)


def _has_few_labels(search: LabelSearch, fit: LabelFit) -> bool:
    return is_separated(fit) or search.rows.n_samples < FEW_ROWS * unknowns_of(fit.network)


def _ridge_verdict(fit: LabelFit, choice: RidgeChoice, verdict: Verdict, search: LabelSearch) -> Verdict:
    """Say what the ridge is for, and how well the network foretells labels it has not seen."""
    lines = [
        Evidence(
            "ridge that cross-validation chose, in nats per squared weight", choice.ridge, key=Check.RIDGE
        ),
    ]
    if np.isfinite(choice.held_out):
        name = "loss of a label that the fit had not seen, in nats"
        lines.append(Evidence(name, choice.held_out, key=Check.HELD_OUT_ERROR))
    text = f"{verdict.detail} Fitted with a ridge of {choice.ridge:g} nats per squared weight of standardised inputs."
    doubt = Unavailable("The fit has a ridge, whose bias standard errors do not show.")
    return Verdict(Outcome.FITTED, Guarantee.HEURISTIC, (*lines, *verdict.evidence), text, doubt)


def _finish(search: LabelSearch, network: TwoLayerNetwork, verdict: Verdict) -> Recovery:
    trace = search.run.trace
    counts: dict[str, Any] = {
        "restarts": sum(item["start"] == "expand" for item in trace),
        "iterations": sum(item["steps"] for item in trace),
    }
    return search.run.finish(network, verdict, **counts)


def _label_means(Y: Any, w: Any) -> Any:
    """Weighted means of the encoded labels, moved away from zero and one by one label."""
    means = np.average(Y, axis=0, weights=w)
    n = len(Y)
    return (means * n + 1.0 / (Y.shape[1] + 1)) / (n + 1.0)
