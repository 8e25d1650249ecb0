"""`planted.recover_from_sums`: the network from merged summaries of rows that nobody holds together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planted.checks import Check
from planted.moments import RowSummary
from planted.recovery._recover import recover
from planted.results import Evidence, Recovery
from planted.rows import RowBlocks

__all__ = ["recover_from_sums"]


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
    text = f"{recovery.detail} Judged on {len(summary.X):,} of {summary.count:,} rows.".strip()
    return replace(recovery, evidence=(*recovery.evidence, total, kept), detail=text)
