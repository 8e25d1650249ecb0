"""All lines of a certificate that only predictions and residuals are needed for: what noise of the labels may not do."""

from __future__ import annotations

from planted._typing import Array
from planted.certificates.noise._groups import grouped_rows_evidence
from planted.certificates.noise._jumps import jump_evidence
from planted.certificates.noise._labels import copied_rows, label_fault_evidence, one_sided_evidence
from planted.certificates.noise._law import NoiseLaw
from planted.fitting._run import Problem
from planted.results import Evidence

__all__ = ["fault_evidence"]


def fault_evidence(problem: Problem, F: Array, law: NoiseLaw) -> tuple[Evidence, ...]:
    """Return the lines on the law of the noise and on faults of labels and rows. Shapes: F, the predictions, (n, m)."""
    residual = problem.Y - F
    return (
        *law.evidence,
        *label_fault_evidence(problem.Y, F),
        one_sided_evidence(residual),
        copied_rows(problem.X, problem.Y),
        *grouped_rows_evidence(problem.X, residual),
        *jump_evidence(F, residual, law.correlation if law.is_ordered else 0.0),
    )
