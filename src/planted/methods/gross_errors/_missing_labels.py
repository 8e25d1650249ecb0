r"""Labels missing in some outputs of some rows: gross errors at known places.

Problem     Y with NaN where a label is missing. Use every label there is; claim nothing that the present ones do not show.
Idea        A network found on the complete rows, or by `gross_errors` or `half_spaces`, which leave missing entries out
            themselves, is compared with every label of the incomplete rows. Exact networks must reproduce all of them; noisy
            ones are refined on all labels (ψ = 0 where there is none, `_robust_loss`) and certified there.
Guarantee   As for the complete rows, if labels are missing independently of their noise. Kind: exact | asymptotic.
Cost        A few passes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planted._typing import Array, IntArray, Progress, Seed
from planted.certificates._certificate import RESIDUAL_TOL
from planted.certificates._robust import certify_with_loss
from planted.checks import Check
from planted.fitting._clipping import prepare_clipped
from planted.fitting._losses import refine_with_loss
from planted.fitting._outlier_table import find_outliers
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery
from planted.rows import RowBlocks, Sums, accumulate

__all__ = ["complete_rows", "judge_with_incomplete_rows", "label_counts"]


def label_counts(blocks: RowBlocks) -> tuple[int, int, IntArray]:
    """Count rows, complete rows and missing labels.

    Returns rows, complete: rows, and rows without a missing label; missing: missing labels of every output.
    """
    found = accumulate(blocks, _count_labels)
    return found.rows, found.complete, found.missing


@dataclass(frozen=True, slots=True)
class LabelSums(Sums):
    """Rows, complete rows, and missing labels of every output."""

    rows: int
    complete: int
    missing: IntArray


def _count_labels(first_row: int, X: Array, Y: Array) -> LabelSums:
    is_missing = np.isnan(Y)
    return LabelSums(len(X), int((~is_missing.any(axis=1)).sum()), is_missing.sum(axis=0))


def complete_rows(blocks: RowBlocks) -> RowBlocks:
    """Return the rows without a missing label."""

    def only(X: Array, Y: Array) -> tuple[Array, Array]:
        kept = ~np.isnan(Y).any(axis=1)
        return X[kept], Y[kept]

    return blocks.map(only)


def judge_with_incomplete_rows(
    blocks: RowBlocks, recovery: Recovery, *, random_state: Seed = None, progress: Progress | None = None
) -> Recovery:
    """Compare a network found on complete rows with all labels, refine it on them if there is noise, and judge again.

    Returns the answer on all labels.
    """
    assert recovery.network is not None
    _, problem = prepare_clipped(blocks, random_state=random_state, progress=progress)
    network = problem.scaling.standardise(recovery.network)
    missing = Evidence("missing labels", int(label_counts(blocks)[2].sum()), key=Check.MISSING_LABELS)
    if recovery.guarantee is Guarantee.EXACT:
        limits = np.full(problem.n_outputs, RESIDUAL_TOL)
        wrong = find_outliers(problem.blocks, network, limits=limits).n_entries
        line = Evidence(
            "labels, also of incomplete rows, that are not reproduced",
            wrong,
            0,
            "==",
            key=Check.CONTRADICTED_LABELS,
        )
        answer = replace(recovery, evidence=(missing, line, *recovery.evidence))
        if line.passed:
            return answer
        text = f"{wrong} label(s) of incomplete rows contradict the network that the complete rows determine."
        return replace(
            answer, outcome=Outcome.ASSUMPTION_FAILED, guarantee=Guarantee.NONE, detail=text, network=None
        )
    robust = refine_with_loss(problem, network, "auto", loss="squared")
    verdict = certify_with_loss(problem, robust, asked="squared")
    return replace(
        recovery,
        network=problem.scaling.restore(robust.fit.network),
        outcome=verdict.outcome,
        guarantee=verdict.guarantee,
        evidence=(missing, *verdict.evidence),
        uncertainty=verdict.uncertainty,
        detail=verdict.detail,
    )
