"""The section of a report on labels that disagree with the network."""

from __future__ import annotations

from planted.reporting._outline import Section, Table, format_number
from planted.results import Recovery

__all__ = ["outlier_section"]

LISTED = 20
_LOSSES = {
    "exact": "They are not reproduced by the network, while the others are, to rounding; they were left out."
}


def outlier_section(recovery: Recovery, outputs: tuple[str, ...]) -> Section | None:
    """Say which rows and outputs were flagged or down-weighted, as the method recorded it.

    Returns none if the method looks for no outliers.
    """
    record = recovery.stats.get("outliers")
    if not record:
        return None
    share = format_number(100 * record["share"], digits=3)
    lead = (
        f"{record['entries']:,} labels ({share} %), in {record['rows']:,} samples, lie far from the network. "
    )
    lead += _LOSSES.get(record["loss"], f"The {record['loss']} loss gives them the weights below.")
    if not record["entries"]:
        return Section("outliers", "Outliers", ("No label lies far from the network.",))
    counts = Table(
        title="Outliers of each output",
        columns=("Output", "Labels"),
        rows=tuple(
            (name, f"{count:,}") for name, count in zip(outputs, record["by_output"], strict=True) if count
        ),
        is_folded=len(outputs) > LISTED,
        is_numeric=True,
    )
    largest = Table(
        title="The largest of them",
        columns=("Sample", "Output", "Residual", "Weight in the fit"),
        rows=tuple(
            (
                f"{item['row']:,}",
                outputs[item["output"]],
                format_number(item["residual"]),
                format_number(item["weight"], digits=2),
            )
            for item in record["largest"][:LISTED]
        ),
        note="Samples are counted from 0. planted.outliers(network, X, Y) lists all of them.",
    )
    return Section("outliers", "Outliers", (lead,), (counts, largest))
