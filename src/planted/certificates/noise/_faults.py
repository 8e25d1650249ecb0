"""All lines of a certificate that only predictions and residuals are needed for: what noise of the labels may not do."""

from __future__ import annotations

from planted.certificates.noise._fitted_rows import FittedRows
from planted.certificates.noise._groups import grouped_rows_evidence
from planted.certificates.noise._jumps import jump_evidence
from planted.certificates.noise._labels import copied_rows, label_fault_evidence, one_sided_evidence
from planted.certificates.noise._law import NoiseLaw
from planted.results import Evidence

__all__ = ["fault_evidence"]


def fault_evidence(at: FittedRows, law: NoiseLaw) -> tuple[Evidence, ...]:
    """Return the lines on the law of the noise and on faults of labels and rows."""
    residual = at.residual.T
    return (
        *law.evidence,
        *label_fault_evidence(at.Y.T, at.F.T, ordered=at.ordered_labels),
        one_sided_evidence(residual),
        copied_rows(at.problem.X, at.problem.Y),
        *grouped_rows_evidence(at.X.T, residual),
        *jump_evidence(at.F.T, residual, law.correlation if law.is_ordered else 0.0),
    )
