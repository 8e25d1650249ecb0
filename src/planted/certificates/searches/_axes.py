"""Noisy samples of several inputs: kinks that concern one column each are named, tested and fitted as such.

A search over hyperplanes gives every kink a weight on every input. Where the tests of `planted.fitting.segments._axes` find
kinks along single columns and no further one across columns, the hyperplanes from there are refined with all weights free
and certified as any other network. If freeing the weights explains no more than noise (an F test), and the kinks along
columns have the smaller BIC than what the search has found, the network with a single input for each kink is the answer,
with intervals of the places, p-values, and standard errors of this smaller model. Else each hyperplane of the search's
answer gets the p-value of the test that there is no kink in its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from planted._streams import copy_stream
from planted._typing import Array
from planted.certificates.searches._far_samples import far_samples, far_sentence
from planted.certificates.searches._kink_search import KinkSearch
from planted.certificates.searches._kink_verdict import finish_noisily, without_claim
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom
from planted.fitting._run import Scaling
from planted.fitting.multistart._attempts import POLISH_ITER, POLISH_TOL, Attempt
from planted.fitting.segments._axes import AxisKinks, find_axis_kinks, hyperplane_p_values
from planted.networks import TwoLayerNetwork, unit_order
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Uncertainty, Verdict

__all__ = ["answer_from_axes", "may_have_axes", "with_p_values"]

FEWEST_SAMPLES, MOST_NUMBERS = (
    30,
    200_000,
)  # of samples; of samples times inputs, beyond which tests take long
MOST_INPUTS = 20
LEVEL = 0.01  # of the tests against kinks across columns
MOST_TESTED = 10_000  # samples times hyperplanes, beyond which the tests of hyperplanes take long
PLANE_LEVEL = 0.05  # of the same test where there is no kink along a column either


def may_have_axes(search: KinkSearch, found: Recovery) -> bool:
    """Whether kinks along columns are to be looked for: noisy samples of several inputs and one output, in memory."""
    problem = search.problem
    n, d, m = problem.shape
    is_exact = any(line.passed for line in found.find(Check.RESIDUAL))
    is_claimed = found.outcome is Outcome.RECOVERED and found.network is not None and found.network.B is None
    return (
        1 < d <= MOST_INPUTS
        and m == 1
        and FEWEST_SAMPLES <= n <= MOST_NUMBERS // d
        and search.affine is not False
        and search.loss == "squared"
        and search.weights is None
        and problem.holds_all_rows
        and not (is_exact or is_claimed or found.outcome is Outcome.STOPPED_EARLY)
    )


def answer_from_axes(search: KinkSearch, found: Recovery) -> Recovery | None:
    """Return the answer with kinks along single columns; None where they do not explain the samples better."""
    problem = search.problem
    told = search.n_hidden if isinstance(search.n_hidden, int) else None
    problem.progress("tests for kinks along columns", float("nan"))
    axes = find_axis_kinks(problem.X, problem.Y[:, 0], copy_stream(problem.rng), n_kinks=told)
    if axes is None or _bic_of(search, found) < _bic(search, axes):
        return None
    if not axes.kinks:
        return _plane(search, axes) if axes.oblique_p_value >= PLANE_LEVEL else None
    if axes.oblique_p_value < LEVEL:
        return None
    answer = finish_noisily(replace(search, affine=True), _free_attempt(search, axes))
    net = answer.network
    if net is None or net.n_hidden != len(axes.kinks):
        return None
    answer = answer if search.affine is True else without_claim(answer, net.n_hidden)
    line = _restriction_line(search, net, axes)
    return _restricted(answer, axes, search, line) if line.passed else None


def with_p_values(search: KinkSearch, found: Recovery) -> Recovery:
    """Add to an answer the p-value of each hyperplane, where the samples are few enough to test them."""
    net, problem = found.network, search.problem
    if net is None or not 0 < net.n_hidden * problem.n_samples <= MOST_TESTED:
        return found
    inner = problem.scaling.standardise(net)
    V = np.column_stack([inner.W, inner.b])
    p_values = hyperplane_p_values(problem.X, problem.Y[:, 0], V, copy_stream(problem.rng))
    tested = {
        "verdict": "",
        "is_correlated": False,
        "slopes": [],
        "rows": [{"p_value": p_value} for p_value in p_values],
    }
    return replace(found, stats={**found.stats, "kinks": tested})


def _plane(search: KinkSearch, axes: AxisKinks) -> Recovery:
    """Return the plane without any unit: all that samples without a kink show."""
    problem = search.problem
    one, two = axes.p_values[0]
    text = (
        f"No kink: one along a column explains no more than noise (p = {one:.2g}), nor do two (p = {two:.2g}), nor one "
        f"across columns (p = {axes.oblique_p_value:.2g}). A linear function is all that these samples show."
    )
    plane = _network(axes, problem.n_features)
    far = far_samples(problem.Y - plane(problem.X))
    lines = (*_number_lines(axes), _oblique_line(axes), far)
    doubt = _uncertainty(axes, problem.scaling, problem.n_samples)
    text = f"{text} {far_sentence(far)}".rstrip()
    return search.record(plane, Verdict(Outcome.FITTED, Guarantee.HEURISTIC, lines, text, doubt))


def _free_attempt(search: KinkSearch, axes: AxisKinks) -> Attempt:
    """Fit hyperplanes with all weights free from the kinks along columns."""
    k, start = len(axes.kinks), _network(axes, search.problem.n_features)
    V = np.column_stack([start.W, start.b])
    everything = np.arange(len(search.problem.X))
    fit = search.rows.fit(everything, V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    variance = fit.cost / search.problem.n_samples
    record = {"start": "columns", "k": k, "residual": float(np.sqrt(variance)), "costs": list(fit.costs)}
    attempt = Attempt(fit, variance, False, 0, True, variance, record)
    search.note(attempt)
    return attempt


def _network(axes: AxisKinks, d: int) -> TwoLayerNetwork:
    """Return the network of kinks along columns, in standardised units."""
    W = np.zeros((len(axes.kinks), d))
    W[np.arange(len(W)), axes.inputs] = 1.0
    c, B, A = np.split(axes.weights, [1, 1 + d])
    return TwoLayerNetwork(W, [-kink.place for kink in axes.kinks], A[None], c, B=B[None])


def _bic(search: KinkSearch, axes: AxisKinks) -> float:
    n, d, _ = search.problem.shape
    return float(n * np.log(axes.cost / n) + (1 + d + 2 * len(axes.kinks)) * np.log(n))


def _bic_of(search: KinkSearch, found: Recovery) -> float:
    """Return the BIC of the network that the search has found; infinite without one."""
    if found.network is None:
        return np.inf
    n = search.problem.n_samples
    cost = _cost(search, found.network)
    return float(n * np.log(cost / n) + degrees_of_freedom(found.network, offset=True) * np.log(n))


def _cost(search: KinkSearch, network: TwoLayerNetwork) -> float:
    problem = search.problem
    residual = problem.Y - problem.scaling.standardise(network)(problem.X)
    return max(float((residual**2).sum()), np.finfo(float).tiny)


def _restriction_line(search: KinkSearch, free: TwoLayerNetwork, axes: AxisKinks) -> Evidence:
    """Test whether free weights explain more than noise beside one input for each kink."""
    n, d, _ = search.problem.shape
    cost = _cost(search, free)
    extra = len(axes.kinks) * (d - 1)
    freedom = max(n - degrees_of_freedom(free, offset=True), 1)
    ratio = max(axes.cost - cost, 0.0) / extra / (cost / freedom)
    name = "p-value of the test that every kink concerns one column"
    p_value = float(stats.f.sf(ratio, extra, freedom))
    return Evidence(name, p_value, LEVEL, ">=", "F test", key=Check.ONE_COLUMN)


def _restricted(answer: Recovery, axes: AxisKinks, search: KinkSearch, line: Evidence) -> Recovery:
    """Put the network of single inputs in the place of the free one, with its errors, intervals and tests."""
    problem, k = search.problem, len(axes.kinks)
    unordered = problem.scaling.restore(_network(axes, problem.n_features))
    axes = axes.in_order(unit_order(unordered.W, unordered.b))
    network = problem.scaling.restore(_network(axes, problem.n_features))
    is_claim = answer.outcome is Outcome.RECOVERED
    far = far_samples(problem.Y - problem.scaling.standardise(network)(problem.X))
    named = f"{'1 kink' if k == 1 else f'{k} kinks, each'} along one column."
    return replace(
        answer,
        network=network,
        outcome=Outcome.RECOVERED if is_claim else Outcome.FITTED,
        guarantee=answer.guarantee if is_claim else Guarantee.HEURISTIC,
        evidence=(*answer.evidence, *_number_lines(axes), line, _oblique_line(axes), far),
        uncertainty=_uncertainty(axes, problem.scaling, problem.n_samples),
        stats={**answer.stats, "kinks": _in_user_units(axes, problem.scaling)},
        detail=" ".join(filter(None, (named, far_sentence(far), answer.detail))),
    )


def _oblique_line(axes: AxisKinks) -> Evidence:
    name = "p-value of the test for a further kink across columns"
    return Evidence(name, axes.oblique_p_value, LEVEL, ">=", "wild bootstrap", key=Check.OBLIQUE_KINKS)


def _number_lines(axes: AxisKinks) -> tuple[Evidence, ...]:
    if not axes.p_values:
        return ()
    return tuple(
        Evidence(
            f"p-value of the test for {word} more", p, equation="wild bootstrap", key=Check.FURTHER_KINKS
        )
        for word, p in zip(
            ("one kink along a column", "two kinks along a column"), axes.p_values[-1], strict=True
        )
    )


def _user_scales(axes: AxisKinks, scaling: Scaling) -> Array:
    """Return the linear map from errors of (c, B, a, τ) of the standardised problem to the user's units."""
    d = len(scaling.x_scale)
    slopes = scaling.y_scale / scaling.x_scale
    T = np.diag(
        np.concatenate([[scaling.y_scale], slopes, slopes[axes.inputs], scaling.x_scale[axes.inputs]])
    )
    T[0, 1 : 1 + d] = -slopes * scaling.x_mean  # c = τ c' + ν - B μ
    return T


def _uncertainty(axes: AxisKinks, scaling: Scaling, n: int) -> Uncertainty:
    """Return the standard errors of the smaller model; a weight that is zero by decision has none."""
    d, k = len(scaling.x_scale), len(axes.kinks)
    T = _user_scales(axes, scaling)
    errors = np.sqrt(np.maximum(np.diag(T @ axes.covariance @ T.T), 0.0))
    freedom = max(n - (1 + d + 2 * k), 1)
    return Uncertainty(
        {
            "W": np.zeros((k, d)),
            "b": errors[1 + d + k :],
            "A": errors[None, 1 + d : 1 + d + k],
            "B": errors[None, 1 : 1 + d],
            "c": errors[:1],
        },
        float(np.sqrt(axes.cost / freedom)) * scaling.y_scale,
        "sandwich",
    )


def _in_user_units(axes: AxisKinks, scaling: Scaling) -> dict[str, Any]:
    """Return the kinks as plain data in the user's units, in the order of the units; an open end is None."""
    rows = []
    for j, kink in zip(axes.inputs, axes.kinks, strict=True):
        shift, scale = float(scaling.x_mean[j]), float(scaling.x_scale[j])
        slope = scaling.y_scale / scale
        low, high = (shift + scale * end if np.isfinite(end) else None for end in (kink.low, kink.high))
        rows.append(
            {
                "input": int(j),
                "place": shift + scale * kink.place,
                "low": low,
                "high": high,
                "change": slope * kink.change,
                "change_low": slope * kink.change_low,
                "change_high": slope * kink.change_high,
                "p_value": kink.p_value,
                "below": kink.below,
                "above": kink.above,
            }
        )
    return {"verdict": "", "is_correlated": False, "slopes": [], "rows": rows}
