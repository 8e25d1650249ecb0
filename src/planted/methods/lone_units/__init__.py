r"""Recover a network with fewer outputs than units from samples on which a single unit is active (BJW18 §6).

Problem     Noiseless Y = f(X W') A' with f rectified, no biases, at least two outputs, no two columns of A parallel;
            m may be smaller than k. Sought: W and A.
Idea        Where unit i alone is active, y = f(w_i'x) a_i: a positive multiple of a column of A. The outputs of samples
            with several active units are parallel with probability zero. As in Algorithm 7 (`printed`),

            1. group the samples whose outputs are positive multiples of each other;
            2. take every group of more than d samples for one unit: f⁻¹(|y|) = w'x on it, by least squares;
            3. find A by least squares on all samples.
Guarantee   Theorem 11 of [BJW18]_: for normal x and n > κ(W)^{O(k)} poly(d, k, m) samples, exact with high
            probability. Here: every group's linear system must be solved exactly, with at least one equation more
            than unknowns, and the network must reproduce all samples. Kind: exact for m ≥ k; heuristic for m < k, where
            there is no search for other explanations.
Notation    paper: A (ours Y'), U (A), V (W), S_i (group i), c_ij (|y_j|).
Departures  The printed condition, no two columns *positive* multiples, is not enough: for columns u and -u a third of
            the samples parallel to u have both units active. Columns must not be parallel in either sign, which rules
            out m = 1; both are refused. The sample need d log(k)(kκ)^{2k} of Lemma 21 is far too large to be useful; the
            prediction is d + 2 over the probability that the rarest unit is alone, for normal x with the measured W.
Cost        O(n log n) for the groups, O(n d²) for the fits.
References  [BJW18]_
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planted._typing import Array
from planted.certificates.searches._exact_units import ExactSearch, begin_search, finish_search
from planted.checks import Check
from planted.fitting._run import MethodRun
from planted.linalg import unit_rows
from planted.methods.lone_units.printed import LINEAR_TOL, PARALLEL_TOL, LoneUnits, algorithm_7
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery

__all__ = ["predict_lone_samples", "recover"]

DRAWS = 20_000  # normal inputs for the prediction


def recover(run: MethodRun, n_hidden: int | str = "auto", *, activation: str = "relu") -> Recovery:
    """Recover a network from samples with one active unit.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; the number of groups if "auto".
    activation : str
        ``"relu"`` or a rectified power such as ``"power:2"``.

    Returns
    -------
    Recovery
        The network with its evidence.
    """
    search = begin_search(run, activation, needs_rank=False)
    problem = run.problem
    run.refuse_unless(
        Evidence("outputs", problem.n_outputs, 2, ">=", "m >= 2", key=Check.OUTPUTS),
        detail="outputs: 1; the method needs >= 2 (with one output all samples are parallel).",
    )
    lone = algorithm_7(problem.X, problem.Y, activation=search.activation, rng=problem.rng)  # steps 1 and 2
    _require_columns_apart(run, lone)
    _require_all_units(search, lone)
    search.n_hidden = len(lone.W)
    _note_samples(search, lone)
    if search.n_hidden <= search.Q.shape[1]:
        return finish_search(search, lone.W)  # step 3
    answer = finish_search(search, lone.W, rivals=None)
    # The column space of Y does not hold the units: other explanations of the samples were not looked for.
    return replace(answer, guarantee=Guarantee.HEURISTIC) if answer.outcome is Outcome.RECOVERED else answer


def _require_columns_apart(run: MethodRun, lone: LoneUnits) -> None:
    """Refuse columns of A that are parallel, with the same or with opposite signs."""
    name = "residual of a group of parallel outputs"
    run.refuse_unless(
        Evidence(name, lone.misfit, LINEAR_TOL, "<=", "Algorithm 7", key=Check.GROUP_RESIDUAL),
        detail=f"The outputs of {lone.misfit_size} samples are parallel, but their inputs do not fit one unit (relative "
        f"residual {lone.misfit:.1e}): two columns of A are parallel, with the same or with opposite signs, or there are "
        "biases or noise.",
    )
    sums = lone.directions[:, None] + lone.directions[None]
    opposite = np.linalg.norm(sums, axis=2) < PARALLEL_TOL
    if opposite.any():
        i, j = (int(index) for index in np.argwhere(opposite)[0])
        count = int(opposite.sum()) // 2
        run.require(
            Evidence("parallel columns of A", count, 0, "==", "Algorithm 7", key=Check.PARALLEL_OUTPUTS),
            detail=f"Columns {i} and {j} of A are parallel with opposite signs: samples along them may have both units "
            "active.",
        )


def _require_all_units(search: ExactSearch, lone: LoneUnits) -> None:
    """Refuse data without lone samples, too few of them, and more units than were asked for."""
    run, (n_samples, d, _) = search.run, search.problem.shape
    found, asked = len(lone.W), run.n_hidden
    wanted = asked if isinstance(asked, int) else max(search.Q.shape[1], 1)
    if not found and not len(lone.small) and n_samples >= (d + 2) * 2**wanted:
        run.require(
            Evidence("samples with parallel outputs", 0, d + 1, ">=", "Algorithm 7", key=Check.ALONE_SAMPLES),
            detail=f"No two of {n_samples} samples have parallel outputs, so no unit was ever alone: there is noise, an "
            "offset, or a unit that is always on.",
        )
    if found < wanted:
        missing, name = wanted - found, f"units alone on more than {d} samples"
        if len(lone.small) >= missing:  # from the groups that are still too small
            need = int(np.ceil(n_samples * (d + 2) / lone.small[missing - 1]))
        else:  # orthonormal units are alone with probability 2^-k
            need = max(int((d + 2) * 2**wanted), 2 * n_samples)
        run.refuse(
            Outcome.TOO_FEW_SAMPLES,
            f"{found} of {wanted} units were alone on more than {d} samples; there are {n_samples} samples, and "
            f"about {need} are needed.",
            Evidence(name, found, wanted, ">=", "Lemma 21", key=Check.UNITS_ALONE),
            Evidence("samples predicted to be needed", need, n_samples, "<=", key=Check.PREDICTED_SAMPLES),
        )
    if isinstance(asked, int):
        run.refuse_unless(
            Evidence("units seen alone", found, asked, "==", "k groups", key=Check.UNITS_ALONE),
            detail=f"{found} units were seen alone; {asked} were asked for.",
        )


def _note_samples(search: ExactSearch, lone: LoneUnits) -> None:
    """Note how often the rarest unit was alone, and how many samples that takes for normal inputs."""
    problem, fewest = search.problem, int(lone.sizes.min())
    need, condition = predict_lone_samples(lone.W / problem.scaling.x_scale, problem.rng)
    name = "samples on which the rarest unit is alone"
    search.run.note(
        Evidence(name, fewest, problem.n_features + 1, ">=", key=Check.ALONE_SAMPLES),
        Evidence("condition number of W", condition, key=Check.CONDITION_OF_W),
        Evidence("samples predicted to be needed for normal inputs", need, key=Check.PREDICTED_SAMPLES),
    )


def predict_lone_samples(W: Array, rng: np.random.Generator) -> tuple[int, float]:
    """Predict the number of samples needed for normal inputs, and return it with the condition number of W.

    The number is d + 2 over the estimated probability that the rarest unit is alone. Shapes: W (k, d), scaled here to
    unit rows.
    """
    d = W.shape[1]
    rows = unit_rows(W)[0]
    on = rng.standard_normal((DRAWS, d)) @ rows.T > 0
    alone = on[on.sum(axis=1) == 1]
    rarest = max(int(alone.sum(axis=0).min(initial=len(alone))) if len(alone) else 0, 1)
    return int(np.ceil((d + 2) * DRAWS / rarest)), float(np.linalg.cond(rows))
