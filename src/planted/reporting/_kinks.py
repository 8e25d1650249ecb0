"""The section on slopes and kinks, where a function is read by them: with one input, or with a linear part."""

from __future__ import annotations

from collections.abc import Sequence

from planted.networks import TwoLayerNetwork
from planted.outcomes import Outcome
from planted.recovery._kinks import HEADS, KinkTable, kinks
from planted.reporting._outline import Section, Table
from planted.results import Recovery

__all__ = ["kink_section"]

MAX_KINKS = 40
SHOWN = (Outcome.RECOVERED, Outcome.FITTED)


def kink_section(
    recovery: Recovery,
    *,
    feature_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
) -> Section | None:
    """Return the table of kinks, or None where a network is not read by them.

    It is shown for functions of one input, and for networks with a linear part, if the samples were fitted.
    """
    net = recovery.network
    if not isinstance(net, TwoLayerNetwork) or not net.activation.is_piecewise_linear:
        return None
    if (net.B is None and net.n_features > 1) or recovery.outcome not in SHOWN:
        return None
    has_names = feature_names is not None and len(feature_names) == net.n_features
    has_targets = target_names is not None and len(target_names) == net.n_outputs
    table = kinks(
        recovery,
        features=feature_names if has_names else None,
        targets=target_names if has_targets else None,
    )
    lead = "Where the slope changes, and by how much. A dash stands for what is not known, a question mark for an open end."
    return Section("kinks", "Slopes and kinks", (lead, *table.notes), tuple(_tables(table)))


def _tables(table: KinkTable) -> list[Table]:
    """The kinks and, with one input, the slopes between them."""
    note = "" if len(table) <= MAX_KINKS else f"The first {MAX_KINKS} of {len(table)}."
    blocks = [Table("Kinks", HEADS, tuple(table.cells()[:MAX_KINKS]), note=note)]
    if table.slopes:
        blocks.append(Table("Slopes between the kinks", ("segment", "slope"), tuple(table.segments())))
    return blocks
