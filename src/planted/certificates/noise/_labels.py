"""Tests whether labels were cut off at a limit, or lost, and whether rows are copies.

Problem     Some faults of labels look like noise but have a mean that depends on x. An instrument that ends at a limit
            *cuts off* what lies beyond it. *Lost* labels were replaced by a constant, or shrunk. In both cases least
            squares finds the mean of what was recorded, which is not the network, and its standard errors do not know.
Idea        *Cut off.* Labels with noise are all different, or lie on a grid, where equal labels are as frequent inside
            their range as at its ends. Labels that equal the largest one of an output and lie above the prediction, by
            more than half the noise, are counted; so are those that equal the smallest one and lie below. There
            must not be more of them than of any value inside the range. Labels of rows on which all units are off may be
            equal as well, but they lie at the prediction. A wide network may have flat pieces at the limit, so that labels
            there lie at their predictions too: where no labels inside are equal, those at an end must not be either on
            more than `CUT` of the rows, counting rows of one prediction once. These are counted one by one where other rows
            of the same prediction have other labels: there is noise, of which a part was cut off. Likewise a single value
            must not be more frequent than twice the next among labels beyond `FAR` scales from their predictions, as a
            placeholder for lost labels is.

            *Lost.* The residual of a lost label is minus a part of what the network says there. Among the residuals
            beyond `FAR` scales it falls with the prediction, while that of noise does not, or rises with it if the noise
            is skewed and larger where the prediction is. The correlation of the two is tested, for outputs one by one and
            together. Labels that were lost gave scores of 8 and more, noise of ten laws at most 3.3.

            *Left out.* If rows are missing because their labels were too large, no label exceeds a limit, and where the
            network is flat near it the noise that is left has another mean, which the offset takes. The residuals of small
            predictions have room: with them in place of their own, labels of large predictions would exceed the largest
            label, by about one in all if nothing is missing. More than `MISSING_BEYOND` are held against a claim.
            Noise that is larger where predictions are small looks the same, and is refused too.
            *One-sided.* Gross errors of one sign move the mean of the noise away from zero, and the offset, or the units
            where there is none, take the difference. What the residuals beyond the middle `MIDDLE` of an output add to its
            mean is tested against zero: in each output, in all together, and in their sum, since a few errors of one output
            are no more than chance. Skewed noise of mean zero looks the same, and is refused too.
            *Copies.* Rows that repeat another one with its label hold the same noise. Standard errors would count it as new.
            Equal inputs may be drawn twice; equal labels with noise are not, unless they have few values.
Guarantee   The level of the second test is that of normal noise. Labels of two values are not tested for limits, since they
            have no inside.
Cost        A sort of each output of the rows in memory.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from planted._typing import Array, IntArray, as_array
from planted.checks import Check
from planted.linalg.symmetric import spectrum_of
from planted.results import Evidence

__all__ = ["copied_rows", "label_fault_evidence", "medians", "one_sided_evidence"]

FAR = 3.0  # scales of the residual
AGAINST = 4.0  # standard errors
HALF_NOISE = 0.5  # standard deviations of the residual
COPIED = 0.01  # part of the rows
CUT = 0.02  # part of the rows; where noise is proportional to the network, a unit that is slightly off touches fewer
NOISY_PART = 0.05  # part of the rows of one prediction; where noise is proportional to the network it has fewer other labels
FEW_VALUES = 0.1  # part of the rows: so many values of labels and fewer are equal by chance
MISSING_BEYOND = 25.0  # labels; the largest of them is exceeded by one on average, by so many hardly ever
FEWEST_SMALL = 30  # rows of small predictions
MIDDLE = 0.8  # part of the residuals
ONE_SIDED_LEVEL = 1e-3  # of all outputs together
DEPENDENT = 1e-9  # variance of a combination of outputs that is one of the others
FEW_EQUAL, FEW_FAR = 2, 5  # equal labels that are chance: on no grid, and far off on a coarse one


def label_fault_evidence(Y: Array, F: Array, *, ordered: Array | None = None) -> tuple[Evidence, ...]:
    """Return the lines on labels that were cut off, on labels that were lost and on rows left out for their labels.

    `ordered`: the labels of every output in order, if they were sorted already. Shapes: Y, the labels, and F, the
    predictions, (n, m), ordered (m, n).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> F = rng.uniform(-1.0, 0.9, (300, 1))
    >>> Y = F + 0.1 * rng.standard_normal((300, 1))
    >>> [line.passed for line in label_fault_evidence(Y, F)]
    [True, True, True]
    >>> [line.passed for line in label_fault_evidence(np.minimum(Y, 0.9), F)]
    [False, True, True]
    >>> [line.passed for line in label_fault_evidence(np.where(rng.random((300, 1)) < 0.1, 0.3 * Y, Y), F)]
    [True, False, True]
    >>> F, noise = np.minimum(3 * F, 0.0), Y - F
    >>> [line.passed for line in label_fault_evidence(F + noise, F)]
    [True, True, True]
    >>> kept = (F + noise < 0.05)[:, 0]
    >>> [line.passed for line in label_fault_evidence((F + noise)[kept], F[kept])]
    [True, True, False]
    """
    labels, residuals = np.ascontiguousarray(Y.T), np.ascontiguousarray((Y - F).T)
    predictions, sizes = labels - residuals, np.abs(residuals)
    limits = FAR * 1.4826 * medians(sizes)
    places = [np.flatnonzero(row > limit) for row, limit in zip(sizes, limits, strict=True)]
    far = [(y[here], r[here]) for y, r, here in zip(labels, residuals, places, strict=True)]
    ordered = np.sort(labels, axis=1) if ordered is None else ordered
    ends = list(zip(labels, residuals, predictions, ordered, strict=True))
    counts = [_at_an_end(*end) for end in ends] + [_equal_and_far(y, r) for y, r in far]
    count, limit = max(counts, key=lambda pair: pair[0] / pair[1])
    scores = _normal_scores([_against(y - r, r) for y, r in far])
    lost = float(max(scores.max(), scores.sum() / np.sqrt(len(scores)), 0.0))
    beyond = max(_beyond_an_end(*end, middle) for end, middle in zip(ends, medians(predictions), strict=True))
    return (
        Evidence(
            "equal labels off their predictions, at an end of the range or far off",
            count,
            limit,
            "<=",
            "labels cut off, or placeholders",
            key=Check.CUT_LABELS,
        ),
        Evidence(
            "fall of far residuals with the prediction, in standard errors",
            lost,
            AGAINST,
            "<=",
            "lost labels",
            key=Check.LOST_LABELS,
        ),
        Evidence(
            "labels expected beyond the largest or the smallest one of an output",
            beyond,
            MISSING_BEYOND,
            "<=",
            "rows left out for their labels, or noise that is smaller there",
            key=Check.LOST_ROWS,
        ),
    )


def one_sided_evidence(residual: Array) -> Evidence:
    """Return the line on what the residuals beyond the middle of the outputs add to their means. Shapes: residual (n, m).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.standard_t(4, (800, 2))
    >>> one_sided_evidence(noise).passed, one_sided_evidence(noise + 6 * (rng.random((800, 2)) < 0.05)).passed
    (True, False)
    """
    n, m = residual.shape
    residual = np.ascontiguousarray(residual.T)  # rows come last: sums over them are fast
    ordered, outside = np.sort(residual, axis=1), int((1 - MIDDLE) / 2 * n)
    middle = ordered[:, outside : n - outside].mean(axis=1)
    # The influence of every row on the mean, less that on the mean of the middle.
    clipped = np.clip(residual, ordered[:, [outside]], ordered[:, [n - 1 - outside]])
    influence = residual - (clipped - clipped.mean(axis=1)[:, None]) / MIDDLE
    influence -= influence.mean(axis=1)[:, None]
    sizes = np.maximum(np.linalg.norm(influence, axis=1), np.finfo(float).tiny)
    scores = n * (residual.mean(axis=1) - middle) / sizes
    influence /= sizes[:, None]
    spectrum = spectrum_of(influence @ influence.T).above(DEPENDENT)
    along, size = float(scores.sum()), float(np.linalg.norm(influence.sum(axis=0)))
    p_values = (
        2 * m * special.ndtr(-np.abs(scores).max()),
        special.chdtrc(len(spectrum.values), ((scores @ spectrum.whitening()) ** 2).sum()),
        2 * special.ndtr(-abs(along) / max(size, np.finfo(float).tiny)),
    )
    p_value = min(1.0, len(p_values) * max(float(min(p_values)), np.finfo(float).tiny))
    name = "what the residuals beyond the middle of the outputs add to their means, in standard errors"
    return Evidence(
        name,
        float(-special.ndtri(p_value / 2)),
        float(-special.ndtri(ONE_SIDED_LEVEL / 2)),
        "<=",
        "one-sided errors",
        key=Check.ONE_SIDED,
    )


def copied_rows(X: Array, Y: Array) -> Evidence:
    """Return the line on the part of the rows that repeat another row, label and noise included.

    Shapes: X (n, d), Y (n, m).

    Examples
    --------
    >>> X = np.arange(6.0)[:, None]
    >>> copied_rows(np.vstack([X, X]), np.vstack([X, X])).measured, copied_rows(X, X).measured
    (0.5, 0.0)
    """
    n_values = len(np.unique(Y[:, 0]))
    copies = 0
    if FEW_VALUES * len(Y) < n_values < len(Y):
        copies = len(Y) - len(np.unique(np.hstack([X, Y]), axis=0))
        again = len(Y) - len(np.unique(X, axis=0))
        copies = copies if 2 * copies > again else 0
    name = "part of the rows that repeat another row and its noise"
    return Evidence(name, copies / max(len(Y), 1), COPIED, "<=", "independent rows", key=Check.COPIED_ROWS)


def _at_an_end(labels: Array, residual: Array, predictions: Array, ordered: Array) -> tuple[int, int]:
    """Count labels at an end of their range beyond the prediction, and the most equal labels inside it.

    `ordered`: the labels in order.
    """
    is_new = ordered[1:] != ordered[:-1]
    if is_new.all() and len(ordered) > 2:  # all labels differ
        most_inside = 1
    else:
        starts = np.flatnonzero(np.concatenate([[True], is_new, [True]]))
        if len(starts) < 4:  # fewer than three values
            return 0, FEW_EQUAL
        most_inside = int(np.diff(starts)[1:-1].max())
    beyond = HALF_NOISE * float(residual.std())
    ends = []
    for value, sign in ((ordered[-1], 1), (ordered[0], -1)):
        there = np.flatnonzero(labels == value)
        # Rows on which all units are off have one prediction.
        is_flat = np.count_nonzero(predictions == predictions[there[0]]) == len(there)
        is_flat = is_flat and bool((predictions[there] == predictions[there[0]]).all())
        if is_flat and len(there) == 1:  # a label and a prediction that no other row has
            ends.append(int(most_inside <= FEW_EQUAL and CUT * len(labels) < 1))
            continue
        ends.append(0 if is_flat else int((sign * residual[there] > beyond).sum()))
        silent = len(np.unique(predictions[there]))
        if most_inside <= FEW_EQUAL and silent > CUT * len(labels):
            ends.append(silent)
        if most_inside <= FEW_EQUAL:
            ends.append(_equal_among_noisy(labels, predictions, there))
    return max(ends), max(most_inside, FEW_EQUAL)


def _equal_among_noisy(labels: Array, predictions: Array, there: IntArray) -> int:
    """Count rows with one label whose prediction is also that of rows with other labels: noise is there, and was cut off."""
    values, counts = np.unique(predictions[there], return_counts=True)
    is_flat = predictions == values[counts.argmax()]
    others = int((is_flat & (labels != labels[there[0]])).sum())
    return int(counts.max()) if others > NOISY_PART * is_flat.sum() else 0


def medians(values: Array) -> Array:
    """Return the median of every row: one partition takes a third of the time of NumPy's medians. Shapes: values (m, n)."""
    n = values.shape[1]
    parted = np.partition(values, n // 2, axis=1)
    upper = parted[:, n // 2]
    return as_array(upper if n % 2 else (parted[:, : n // 2].max(axis=1) + upper) / 2)


def _beyond_an_end(
    labels: Array, residual: Array, predictions: Array, ordered: Array, middle: float
) -> float:
    """Return how many labels of large predictions would exceed all labels with the residuals of small predictions.

    The same downwards: the larger number counts. `ordered`: the labels in order; `middle`: the median prediction.
    """
    steps = np.diff(ordered)
    n_steps = np.count_nonzero(steps)
    step = float(steps[steps > 0].min()) if 0 < n_steps < len(labels) / 2 - 1 else 0.0  # of rounded labels
    most = 0.0
    for sign, end in ((1, ordered[-1]), (-1, ordered[0])):
        if sign < 0:
            predictions, residual, middle = -predictions, -residual, -middle
        is_small = predictions < middle
        small = residual[np.flatnonzero(is_small)]
        if len(small) < FEWEST_SMALL:
            continue
        room = float(sign * end) + step - predictions
        # No residual goes beyond a larger one.
        room = room[np.flatnonzero(~is_small & (room < float(small.max())))]
        if len(room):
            beyond = np.sort(small[small > room.min()])
            above = len(beyond) - np.searchsorted(beyond, room, side="right")
            most = max(most, float(above.sum() / len(small)))
    return most


def _equal_and_far(labels: Array, residual: Array) -> tuple[int, int]:
    """Count the most frequent of some labels far from their predictions, and twice the next.

    Rows of one prediction count once: where all units are off, noise that is proportional to the network is zero.
    """
    if len(np.unique(labels)) == len(labels):  # most often: no two are equal
        return min(len(labels), 1), FEW_FAR
    far = np.column_stack([labels, labels - residual])
    counts = np.sort(np.unique(np.unique(far, axis=0)[:, 0], return_counts=True)[1])[::-1]
    count, other = (int(value) for value in (*counts[:2], 0, 0)[:2])
    return count, max(2 * other, FEW_FAR)


def _against(prediction: Array, residual: Array) -> tuple[float, int]:
    """Return how far some residuals fall with the prediction, as Student's t, with its degrees of freedom."""
    freedom = len(residual) - 2
    if freedom < 1:
        return 0.0, 1
    far, there = residual - residual.mean(), prediction - prediction.mean()
    size = np.linalg.norm(far) * np.linalg.norm(there)
    correlation = float(far @ there / size) if size > 0 else 0.0
    return -correlation * float(np.sqrt(freedom / max(1 - correlation**2, np.finfo(float).eps))), freedom


def _normal_scores(statistics: list[tuple[float, int]]) -> Array:
    """Return the normal variables that are exceeded as often as these of Student's t."""
    t, freedom = np.array(statistics).T
    return as_array(-special.ndtri(np.maximum(special.stdtr(freedom, -t), np.finfo(float).tiny)))
