r"""When may a network be called *the* planted one?

Problem     A small residual is not recovery: at few samples wrong networks fit exactly. Decide, from the rows, between
            RECOVERED, FITTED and the refusals, and put every number behind the decision into the evidence.
Idea        *Noiseless.* (1) every sample is reproduced to rounding; (2) a drawn part of the distinct samples alone gives
            more equations than unknowns and a Jacobian of full rank, so that the network is locally determined by that
            part and the *other* samples are a test it passed (repeated rows would be no test); (3) every unit was seen on
            at least d + 2 distinct samples and off on at least k + 1: one more than its own linear system needs on each
            side; (4) a renewed search finds no further ReLU unit in the column space of the outputs; (5) where there are
            enough samples, the uniqueness theorem of
            `complementarity` (null space of dimension k).
            *Noisy.* The residual must look like noise that ignores x: functions of x, added to every output, must not
            explain more of it than chance (`_lack_of_fit`, an F test; `_split_units` for units that are two). The statistic
            grows like n when a unit is missing, misplaced or of another kind. Then every unit's kink must be significant
            and the Jacobian of full rank.
Guarantee   Noiseless with (5): EXACT and global. Without (5): EXACT in the sense of (1)–(4); local uniqueness is
            proved, global uniqueness is the outcome of a search that found nothing else. Noisy: ASYMPTOTIC.
Cost        Two passes over the rows; O((k p)³) algebra.
"""

from __future__ import annotations

from planted.certificates._exact import RESIDUAL_TOL, certify_noiseless
from planted.certificates._noisy import certify_noisy
from planted.certificates._parts import (
    RowChecks,
    check_rows_against,
)
from planted.results import Verdict

__all__ = [
    "RESIDUAL_TOL",
    "RowChecks",
    "Verdict",
    "certify_noiseless",
    "certify_noisy",
    "check_rows_against",
]
