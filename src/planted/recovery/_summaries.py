"""`planted.recover_from_sums`: the network from merged summaries of rows that nobody holds together.

The claim rests on the rows that a summary kept, a uniform sample. A unit that none of them turns on leaves no trace in
them, but it does in the mean and the scatter of all rows. So these are compared with the sample: for a uniform sample
the moments of the outputs, predicted by regression from the moments of the inputs of all rows, agree with those of all
rows up to their standard errors. A claim that they contradict is withdrawn, and one that they do not contradict says
how rare a unit must be to be missed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg, stats

from planted._threads import one_thread_inside
from planted._typing import Array
from planted.checks import Check
from planted.moments import RowSummary
from planted.outcomes import Guarantee, Outcome
from planted.recovery._recover import recover
from planted.results import Evidence, Recovery
from planted.rows import RowBlocks

__all__ = ["recover_from_sums"]

LEVEL = 1e-4  # of the comparison of all moments together
CONFIDENCE = 0.99  # with which a unit that no kept row turns on is rarer than stated
ROWS_PER_CONTROL = 5  # kept rows for each moment of the inputs that is used


@one_thread_inside
def recover_from_sums(summary: RowSummary, n_hidden: int | str = "auto", **options: Any) -> Recovery:
    """Recover the network from a summary of rows.

    Parameters
    ----------
    summary : RowSummary
        Of all rows, merged in any order.
    n_hidden : int or "auto"
        Number of hidden units, if it is known.
    **options
        As in `planted.recover`.

    Returns
    -------
    Recovery
        The network; the claim rests on the rows that the summary kept, a uniform sample, and says how many they are.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(80, n_features=6, n_hidden=3, n_outputs=4, law="exponential",
    ...                                 activity=(0.3, 0.7), random_state=0)
    >>> summary = planted.moments.summarise_rows(planted.RowBlocks.from_arrays(data.X, data.Y), 1000)
    >>> recover_from_sums(summary, random_state=0).outcome.name
    'RECOVERED'
    """
    recovery = recover(RowBlocks.from_arrays(summary.X, summary.Y), n_hidden=n_hidden, **options)
    if summary.holds_all_rows:
        return recovery
    kept = Evidence(
        "rows looked at one by one, a uniform sample of those summed", len(summary.X), key=Check.ROWS_SEEN
    )
    total = Evidence("rows summed", summary.count, key=Check.ROWS_SUMMED)
    moments = _moment_evidence(summary)
    rarest = 1 - (1 - CONFIDENCE) ** (1 / len(summary.X))
    text = (
        f"{recovery.detail} Judged on {len(summary.X):,} of {summary.count:,} rows: a unit that is on in fewer than "
        f"{100 * rarest:.2g} % of them may be missed."
    ).strip()
    recovery = replace(recovery, evidence=(*recovery.evidence, total, kept, moments), detail=text)
    if recovery.outcome is not Outcome.RECOVERED:
        return recovery
    if moments.passed:
        return replace(recovery, guarantee=Guarantee.ASYMPTOTIC)
    text = (
        f"Mean and scatter of all {summary.count:,} rows contradict the {len(summary.X):,} rows that were kept, by "
        f"{moments.measured:.3g} standard errors: rows that were not kept show something else."
    )
    return replace(recovery, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)


def _moment_evidence(summary: RowSummary) -> Evidence:
    """Compare the moments of the outputs of all rows with what the kept rows predict from moments of the inputs."""
    n, d = summary.X.shape
    scale = np.sqrt(np.maximum(np.diag(summary.scatter) / summary.count, np.finfo(np.float64).tiny))
    rows = (np.hstack([summary.X, summary.Y]) - summary.mean) / scale
    covariance = summary.scatter / summary.count / np.outer(scale, scale)
    x, y = rows[:, :d], rows[:, d:]
    controls = [np.ones((n, 1)), x]
    if n >= ROWS_PER_CONTROL * (1 + d + d * (d + 1) // 2):
        controls.append(_products(x, x, covariance[:d, :d]))
    targets = np.hstack([y, _products(y, x, covariance[d:, :d]), _products(y, y, covariance[d:, d:])])
    errors = _largest_intercept(np.hstack(controls), targets) / np.sqrt(max(1 - n / summary.count, 1e-3))
    limit = float(stats.norm.isf(LEVEL / (2 * targets.shape[1])))
    name = "moments of all rows against those of the kept ones, in standard errors"
    return Evidence(name, errors, limit, "<=", key=Check.SUMMARY_MOMENTS)


def _products(left: Array, right: Array, mean: Array) -> Array:
    """Return the products of columns minus their mean over all rows, each pair once."""
    pairs = [
        (i, j) for i in range(left.shape[1]) for j in range(right.shape[1]) if left is not right or j <= i
    ]
    return np.column_stack([left[:, i] * right[:, j] - mean[i, j] for i, j in pairs])


def _largest_intercept(controls: Array, targets: Array) -> float:
    """Return the largest intercept of regressions on controls of mean zero, in standard errors; the first column is one."""
    Q, R = linalg.qr(controls, mode="economic", check_finite=False)
    kept = np.abs(np.diag(R)) > 1e-10 * np.abs(np.diag(R)).max()
    Q, R = linalg.qr(controls[:, kept], mode="economic", check_finite=False)
    coefficients = linalg.solve_triangular(R, Q.T @ targets, check_finite=False)
    residual = targets - Q @ (Q.T @ targets)
    # Standard errors that hold for residuals of unequal variance (HC3).
    leverage = np.minimum((Q**2).sum(axis=1), 0.99)
    row = linalg.solve_triangular(R, np.eye(len(R)), check_finite=False)[0]
    spread = np.sqrt(((Q @ row / (1 - leverage)) ** 2) @ residual**2)
    # A target that the controls determine has no error but rounding.
    floor = 1e-9 * np.sqrt((targets**2).mean(axis=0)) + 1e-12
    return float(np.max(np.abs(coefficients[0]) / np.maximum(spread, floor)))
