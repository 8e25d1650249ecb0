"""Noisy samples of one input and one output: the kinks of `planted.fitting.segments`, certified as any other network.

The search along widths chooses a number of kinks that predicts well, which with few samples and large noise is not the
number of kinks. Here the number comes from tests, and what the table of kinks needs is kept with the answer: intervals
of the places, p-values, slopes. A claim needs, beside the certificate for noisy data, that kinks explain the samples
better than a smooth curve does and that neighbouring samples are not correlated.

The number that is most likely has a kink too many in one of twenty curves, which a claim cannot have: a unit must be
needed beyond doubt. Where one is not, the curve with one kink less is judged as well, and claimed if its own certificate
holds, which asks that no further unit be seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from planted._typing import Array, as_array
from planted.certificates.searches._far_samples import far_samples, far_sentence
from planted.certificates.searches._kink_search import KinkSearch
from planted.certificates.searches._kink_verdict import finish_noisily
from planted.checks import Check
from planted.fitting._run import Problem, Scaling
from planted.fitting.multistart._attempts import POLISH_ITER, POLISH_TOL, Attempt
from planted.fitting.segments._kinks import KINKS_SHARP, Segments, find_segments
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Uncertainty, Verdict

__all__ = ["answer_from_segments", "has_one_curve"]

FEWEST_SAMPLES = 20
WIDEST_GAP = 12.0  # spacings, as for samples without noise
NEIGHBOUR_LEVEL = 0.01  # of claims; the table of kinks warns at a higher one


def has_one_curve(search: KinkSearch) -> bool:
    """Whether the samples are those of one input and one output, all in memory and of equal weight."""
    problem = search.problem
    return (
        problem.n_features == problem.n_outputs == 1
        and search.affine is not False
        and search.loss == "squared"
        and search.weights is None
        and problem.holds_all_rows
        and problem.n_samples >= FEWEST_SAMPLES
    )


def answer_from_segments(search: KinkSearch) -> Recovery | None:
    """Return the answer of the tests for kinks, a straight line if there is none; None where they cannot be made."""
    told = search.n_hidden if isinstance(search.n_hidden, int) else None
    search.problem.progress("tests for kinks", float("nan"))
    answer = _answer_with(search, told)
    if told is None and answer is not None and answer.network is not None and _has_needless_unit(answer):
        thinner = _answer_with(search, answer.network.n_hidden - 1)
        if thinner is not None and thinner.outcome is Outcome.RECOVERED:
            return thinner
    return answer


def _has_needless_unit(answer: Recovery) -> bool:
    """Whether a unit of several is not needed beyond doubt."""
    assert answer.network is not None
    return answer.network.n_hidden > 1 and any(
        line.key is Check.NEEDLESS_UNIT and not line.passed for line in answer.evidence
    )


def _answer_with(search: KinkSearch, n_kinks: int | None) -> Recovery | None:
    """Return the answer with so many kinks, or as many as the tests find."""
    problem = search.problem
    segments = find_segments(problem.X[:, 0], problem.Y[:, 0], problem.rng, n_kinks=n_kinks)
    if segments is None:
        return None
    if not segments.kinks:
        return _straight_line(search, segments)
    everything = np.arange(len(problem.X))
    V = np.column_stack([np.ones(len(segments.kinks)), -segments.least.kinks])
    fit = search.rows.fit(everything, V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    variance = fit.cost / problem.n_samples
    record = {
        "start": "segments",
        "k": fit.n_units,
        "residual": float(np.sqrt(variance)),
        "costs": list(fit.costs),
    }
    attempt = Attempt(fit, variance, False, 0, True, variance, record)
    search.note(attempt)
    answer = finish_noisily(search, attempt)
    seen = _places_seen(answer, problem)
    if len(seen) < len(segments.kinks) and answer.network is not None and answer.network.B is None:
        # A unit that no sample sees off stands for the slope: the kinks are those of the others.
        segments = find_segments(problem.X[:, 0], problem.Y[:, 0], problem.rng, n_kinks=len(seen))
    if segments is not None and _are_those(seen, segments):
        answer = _with_kinks(_at_places(answer, segments, problem), segments, problem.scaling)
    return _with_far_samples(answer, problem)


def _places_seen(answer: Recovery, problem: Problem) -> Array:
    """Return the kinks of an answer between samples, from left to right, in standardised units."""
    if answer.network is None:
        return np.zeros(0)
    inner = problem.scaling.standardise(answer.network)
    places = np.sort(-inner.b / inner.W[:, 0])
    return as_array(places[(places > problem.X.min()) & (places < problem.X.max())])


def _are_those(places: Array, segments: Segments) -> bool:
    """Whether kinks of a network are those that were tested: as many, each within its interval."""
    return len(places) == len(segments.kinks) > 0 and all(
        kink.low <= place <= kink.high for place, kink in zip(places, segments.kinks, strict=True)
    )


def _at_places(answer: Recovery, segments: Segments, problem: Problem) -> Recovery:
    """Put the network with its kinks at their median places in the place of that of least squares.

    A network that needs no linear part beside its units has fewer parameters than the tests fit, and stays.
    """
    if answer.network is None or answer.network.B is None or segments.fit is segments.least:
        return answer
    level, slope, *changes = segments.fit.weights
    k = len(changes)
    units = TwoLayerNetwork(np.ones((k, 1)), -segments.fit.kinks, [changes], [level], B=[[slope]])
    scaling = problem.scaling
    rise = (segments.fit.cost / segments.least.cost - 1) * (problem.n_samples - segments.least.n_parameters)
    line = Evidence(
        "rise of the sum of squares from the places of least squares to the median ones, in noise variances",
        rise,
        comparison="info",
        key=Check.MEDIAN_PLACES,
    )
    network = scaling.restore(scaling.in_order(units))
    return replace(answer, network=network, evidence=(*answer.evidence, line))


def _straight_line(search: KinkSearch, segments: Segments) -> Recovery:
    """Return the line without any unit: all that samples without a kink show."""
    problem, scaling = search.problem, search.problem.scaling
    text = "A straight line, as asked for."
    if segments.p_values:
        text = (
            f"No kink: up to three explain no more than noise (p = {segments.p_values[0]:.2g}). A straight line is all that "
            "these samples show."
        )
    level, slope = segments.fit.weights
    line = TwoLayerNetwork(np.zeros((0, 1)), None, np.zeros((1, 0)), [level], B=[[slope]])
    n = problem.n_samples
    noise = float(np.sqrt(segments.fit.cost / max(n - 2, 1))) * scaling.y_scale
    slope_error = noise / float(scaling.x_scale[0] * np.sqrt((problem.X**2).sum()))
    errors = {
        "W": np.zeros((0, 1)),
        "b": np.zeros(0),
        "A": np.zeros((1, 0)),
        "B": np.array([[slope_error]]),
        "c": np.array([np.hypot(noise / np.sqrt(n), slope_error * scaling.x_mean[0])]),
    }
    if segments.is_correlated:
        text += f" {_correlation_sentence(segments)}"
    neighbours = replace(_neighbour_line(segments), required=float("nan"), comparison="info")
    far = far_samples(problem.Y - line(problem.X))
    text = f"{text} {far_sentence(far)}".rstrip()
    lines = (*_number_lines(segments), neighbours, far)
    doubt = Uncertainty(errors, noise)
    return search.record(line, Verdict(Outcome.FITTED, Guarantee.HEURISTIC, lines, text, doubt))


def _with_kinks(answer: Recovery, segments: Segments, scaling: Scaling) -> Recovery:
    """Add what the tests say, and lower a claim that they do not support."""
    lines = (*_number_lines(segments), *_shape_lines(segments), _gap_line(segments))
    is_claimed = answer.outcome is Outcome.RECOVERED and all(line.passed for line in lines)
    table = _in_user_units(segments, scaling)
    answer = replace(
        answer,
        evidence=(*answer.evidence, *lines),
        stats={**answer.stats, "kinks": table | ({"is_correlated": False} if is_claimed else {})},
    )
    if is_claimed or answer.outcome not in (Outcome.RECOVERED, Outcome.FITTED):
        return answer
    return replace(
        answer,
        outcome=Outcome.FITTED,
        guarantee=Guarantee.HEURISTIC,
        detail=f"{_sentence(segments)} {answer.detail}",
    )


def _with_far_samples(answer: Recovery, problem: Problem) -> Recovery:
    """Say where samples far from all others may decide about kinks."""
    if answer.network is None:
        return answer
    far = far_samples(problem.Y - problem.scaling.standardise(answer.network)(problem.X))
    detail = f"{far_sentence(far)} {answer.detail}".lstrip()
    return replace(answer, evidence=(*answer.evidence, far), detail=detail)


def _sentence(segments: Segments) -> str:
    count = len(segments.kinks)
    text = f"{count} kink{'s' if count > 1 else ''}"
    if segments.p_values:
        text += f"; further ones explain no more than noise (p = {segments.p_values[-1]:.2g})"
    text += {
        "kink": ". A smooth curve explains the samples less well.",
        "undecided": ". Whether these are kinks or the bends of a smooth curve is undecided.",
        "smooth": ". A smooth curve explains the samples better: the kinks only approximate it.",
    }[segments.verdict]
    return f"{text} {_correlation_sentence(segments)}" if segments.is_correlated else text


def _correlation_sentence(segments: Segments) -> str:
    return (
        f"Residuals of neighbours along x are correlated ({segments.neighbours:.2f}): kinks may be chance, and intervals "
        "and p-values are too small."
    )


def _number_lines(segments: Segments) -> tuple[Evidence, ...]:
    """Return the p-value of the last test for further kinks."""
    name = "p-value of the test for one, two or three kinks more"
    return tuple(
        Evidence(name, p_value, equation="wild bootstrap", key=Check.FURTHER_KINKS)
        for p_value in segments.p_values[-1:]
    )


def _shape_lines(segments: Segments) -> tuple[Evidence, ...]:
    """Return the comparison with smooth curves and the correlation of neighbours, as conditions of a claim."""
    return (
        Evidence(
            "BIC of the best smooth curve less that of the kinks",
            segments.sharpness,
            KINKS_SHARP,
            ">=",
            key=Check.SHARP_KINKS,
        ),
        Evidence(
            "fall of BIC with the best smooth curve in place of the kinks",
            max(-segments.sharpness, 0.0),
            -segments.threshold,
            "<=",
            "log n",
            key=Check.SMOOTH_CURVE,
        ),
        _neighbour_line(segments),
    )


def _neighbour_line(segments: Segments) -> Evidence:
    return Evidence(
        "p-value of the test that residuals of neighbours along x are not correlated",
        segments.neighbour_p_value,
        NEIGHBOUR_LEVEL,
        ">=",
        key=Check.NEIGHBOURS,
    )


def _gap_line(segments: Segments) -> Evidence:
    """Return the widest gap between samples that reaches into the interval of a kink: several kinks may hide in it."""
    name = "widest gap between samples within the interval of a kink, in spacings beside it"
    return Evidence(name, segments.widest_gap, WIDEST_GAP, "<=", key=Check.GAP)


def _in_user_units(segments: Segments, scaling: Scaling) -> dict[str, Any]:
    """Return the kinks as plain data in the user's units; an open end of an interval is None."""
    shift, scale = float(scaling.x_mean[0]), float(scaling.x_scale[0])
    slope = scaling.y_scale / scale

    def place(value: float) -> float | None:
        return shift + scale * value if np.isfinite(value) else None

    return {
        "verdict": segments.verdict,
        "is_correlated": segments.is_correlated,
        "slopes": [[slope * value for value in item] for item in segments.slopes],
        "rows": [
            {
                "place": place(kink.place),
                "low": place(kink.low),
                "high": place(kink.high),
                "change": slope * kink.change,
                "change_low": slope * kink.change_low,
                "change_high": slope * kink.change_high,
                "p_value": kink.p_value,
                "below": kink.below,
                "above": kink.above,
            }
            for kink in segments.kinks
        ],
    }
