r"""Recover a two-layer ReLU network from any inputs when there are as many outputs as units.

Problem     Y = f(X W' + b) A' + c + ξ with f the ReLU and A of full column rank, m ≥ k. Nothing is assumed of the law of
            x; k may exceed d; biases and an unknown offset are allowed. Sought: W, b, A, c up to order and scale of units.
Idea        The columns of H = f(X W' + b) lie in the column space of Y, and each is a ReLU of an affine function of x: a
            unit h = z'(y - c) with t = w'x + b satisfies h (h - t) = 0 on every sample, which is linear in zz' and
            z(w, b)'.

            Noiseless data: (1) take a basis of the column space of Y; (2) with about q = k(k+1)/2 + k(d+1) samples read
            all units from the null space of these equations (`fitting.units._null_units`), with fewer find them one by one
            (`fitting.units._pursuit`); (3) refine on all rows; (4) certify.

            With a linear part B x the same is done in the column space beside the affine functions of x (`linear_part`).

            Noisy data: the same equations hold in covariance with any function of x (`fitting.units._instruments`). Every
            candidate is refined on all rows and judged by what it predicts on rows held out; the best is certified.
Guarantee   Noiseless: the uniqueness theorem of docs/theory/complementarity.md when n ≥ q - k, else local uniqueness.
            Noisy: consistency and the standard errors of least squares. Kind: exact | asymptotic.
            Not promised: fewer outputs than units; units never seen off (linear on the sample) or never seen on; noise
            that depends on x in the mean.
Notation    Z = pseudo-inverse of A (rows z_i), h = z'(y - c) activation, t = w'x + b pre-activation.
Departures  Ours; no paper. The noisy detector of [GKLW19]_ is the special case of quadratic instruments with P tied to S
            by symmetry of x.
Cost        Noiseless: O(n q²) or some hundred pursuit starts. Noisy: a few refinements, O(n (k(d+1))²) per pass.
References  [GKLW19]_
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array
from planted._validation import check_choice
from planted.certificates._exact import certify_noiseless, count_rivals, pursuit_rows
from planted.certificates._parts import UNDETERMINED
from planted.checks import Check
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import MethodRun, Problem
from planted.fitting.units._null_units import (
    complementarity_null_space,
    uniqueness_evidence,
    units_from_null_space,
)
from planted.fitting.units._pursuit import Pursuit, pursue_units
from planted.linalg import column_space, numerical_rank
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Verdict

__all__ = ["recover"]

NULL_SPACE_ROWS = 1.5  # times q: above, the null space is tried before pursuit
MAX_NULL_COLUMNS = 4000  # q beyond which its decomposition costs more than it tells
ROUNDS = (0.125, 0.125, 0.25, 0.5)  # parts of the pursuit's starts, each with biases and without
COMPLETIONS = 3  # random fillings of missing units, tried when most are known
COMPLETION_STEPS = 30
STARTS = {"quick": 1, "normal": 8, "thorough": 24}  # random ones, on noisy data
LINEAR_TOL = 1e-8  # sine of the angle below which a vector of the column space is an affine function of x


@dataclass(frozen=True, slots=True)
class _Outputs:
    """The column space of the outputs on the rows in memory."""

    Q: Array  # orthonormal basis, with the constant first when there is an offset
    y: Array  # outputs projected to k dimensions, columns of unit variance
    n_hidden: int
    n_linear: int  # directions of the column space that are affine functions of x
    offset: bool
    singular_values: Array


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    offset: bool | str = "auto",
    affine: bool | str = "auto",
    noise: str = "auto",
    n_restarts: int | None = None,
    effort: str = "normal",
    max_starts: int = 4000,
) -> Recovery:
    """Recover a network with at least as many outputs as units.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; read from the rank of the outputs if "auto".
    offset : bool or "auto"
        Whether the outputs may have an unknown constant; "auto" tries without first.
    affine : bool or "auto"
        Whether the network has a linear part B x; "auto" looks for one where no network without it reproduces noiseless
        samples. From noisy samples one is read only if it is known to be there; `restarts` looks for one else.
    noise : {"auto", "none", "present"}
        Which route to take; "auto" tries the noiseless one first.
    n_restarts : int, optional
        Random starts beside the instrumental one on noisy data; by the effort if omitted.
    effort : {"quick", "normal", "thorough"}
        1, 8 or 24 random starts.
    max_starts : int
        Largest number of pursuit starts on noiseless data.

    Returns
    -------
    Recovery
        The network with its evidence.
    """
    check_choice("effort", effort, tuple(STARTS))
    n_restarts = STARTS[effort] if n_restarts is None else n_restarts
    problem = run.problem
    if problem.n_samples > 1:
        vary = int(np.ptp(problem.Y, axis=0).any())
        run.refuse_unless(Evidence("outputs that vary", vary, 1, ">=", "rank Y >= 1", key=Check.OUTPUTS))
    if isinstance(n_hidden, int):
        run.refuse_unless(Evidence("outputs", problem.n_outputs, n_hidden, ">=", "m >= k", key=Check.OUTPUTS))
    rank = problem.n_outputs
    if affine is True:
        return _known_linear_part(run, n_hidden, noise, n_restarts, max_starts)
    if noise != "present":
        bent = None
        if affine == "auto" and _holds_affine(problem):
            bent = _beside_linear_part(run, n_hidden, max_starts)
        if bent is not None and bent.outcome is Outcome.RECOVERED:
            return bent
        exact = _fit_exactly(run, n_hidden, offset, max_starts)  # the noiseless route
        is_stopped = exact.verdict.outcome is Outcome.STOPPED_EARLY
        if is_stopped and bent is None and affine == "auto" and problem.n_outputs > 1:
            bent = _beside_linear_part(run, n_hidden, max_starts)
        if is_stopped and bent is not None:
            return bent
        if not is_stopped or noise == "none":
            return exact.record(run)
        rank = exact.outputs.n_hidden
    if rank < problem.n_outputs:  # exact rank deficiency: there is no noise, only a fit can be offered
        n_hidden, n_restarts = (rank or 1) if n_hidden == "auto" else n_hidden, min(n_restarts, 1)
    from planted.certificates.searches._noisy import recover_from_noise  # only noisy data need it

    return recover_from_noise(run, n_hidden, offset, n_restarts)


@dataclass(frozen=True, slots=True)
class _ExactFit:
    """What the noiseless route came to; STOPPED_EARLY when no network reproduces the samples."""

    outputs: _Outputs
    fit: Refinement | None
    starts: int
    verdict: Verdict

    def record(self, run: MethodRun) -> Recovery:
        """Make the record, with the rank of the outputs as its first line."""
        run.note(Evidence("rank of the outputs", self.outputs.n_hidden, key=Check.OUTPUT_RANK))
        return run.finish(
            None if self.fit is None else self.fit.network,
            self.verdict,
            starts=self.starts,
            iterations=self.fit.iterations if self.fit else 0,
            output_singular_values=[float(v) for v in self.outputs.singular_values],
        )


def _holds_affine(problem: Problem) -> bool:
    """Whether an affine function of x lies in the span of several outputs: no unit, or one that is always on."""
    return problem.n_outputs > 1 and _column_space_of_outputs(problem, True).n_linear > 0


def _beside_linear_part(
    run: MethodRun, n_hidden: int | str, max_starts: int, *, affine: bool | str = "auto"
) -> Recovery | None:
    """Read units beside a linear part; None where there are none to be read."""
    from planted.methods.complementarity.linear_part import recover_with_linear_part  # few data need it

    return recover_with_linear_part(run, n_hidden, affine=affine, max_starts=max_starts)


def _known_linear_part(
    run: MethodRun, n_hidden: int | str, noise: str, n_restarts: int, max_starts: int
) -> Recovery:
    """Read the units beside a linear part that is known to be there; from noisy samples where there is noise."""
    bent = None if noise == "present" else _beside_linear_part(run, n_hidden, max_starts, affine=True)
    if bent is not None:
        return bent
    if noise == "none":
        run.refuse(
            Outcome.STOPPED_EARLY,
            "No network with as many outputs as units and a linear part was read from the samples: there is noise, or "
            "there are too few samples or outputs. method='restarts' searches for one.",
        )
    from planted.methods.complementarity.linear_part import recover_from_noise_with_linear_part

    return recover_from_noise_with_linear_part(run, n_hidden, n_restarts=n_restarts)


def _fit_exactly(run: MethodRun, n_hidden: int | str, offset: bool | str, max_starts: int) -> _ExactFit:
    """Run the noiseless route, without an offset first where there may be none."""
    problem = run.problem
    for has_offset in _offsets_to_try(problem, offset):
        outputs = _column_space_of_outputs(problem, has_offset)  # step 1
        rank = Evidence("rank of the outputs", outputs.n_hidden, key=Check.OUTPUT_RANK)
        if isinstance(n_hidden, int):
            rank = replace(rank, required=n_hidden, comparison="<=", equation="rank Y <= k")
        if outputs.n_hidden < problem.n_outputs:
            run.refuse_unless(rank)
        fit, starts, judged = _find_units(problem, outputs, max_starts)  # steps 2 to 4
        text = "No ReLU network with this many units reproduces the samples to rounding."
        verdict = judged or Verdict.refusal(Outcome.STOPPED_EARLY, text)
        # More units than were asked for are no answer unless they are certain.
        doubtful = {Outcome.FITTED}
        if not rank.passed:
            doubtful |= {Outcome.TOO_FEW_SAMPLES, *UNDETERMINED}
        if verdict.outcome in doubtful:
            fit, verdict = None, Verdict.refusal(Outcome.STOPPED_EARLY, text)
        if verdict.outcome is not Outcome.STOPPED_EARLY:
            run.refuse_unless(rank)
            verdict = _against_request(verdict, n_hidden, outputs.n_hidden)
            break
    return _ExactFit(outputs, fit, starts, verdict)


def _against_request(verdict: Verdict, n_hidden: int | str, found: int) -> Verdict:
    """Return the verdict, or NOT_IDENTIFIABLE where fewer units than were asked for reproduce all samples."""
    if not isinstance(n_hidden, int) or n_hidden <= found:
        return verdict
    text = (
        f"{found} units reproduce all samples; {n_hidden} were asked for. "
        "A unit that is never on, or whose output weights depend on the others', leaves no trace."
    )
    return replace(verdict, outcome=Outcome.NOT_IDENTIFIABLE, guarantee=Guarantee.NONE, detail=text)


def _offsets_to_try(problem: Problem, offset: bool | str) -> list[bool]:
    """Return whether to allow an offset, in the order in which to try; it is sure where centring lowers the rank."""
    if isinstance(offset, bool):
        return [offset]
    if problem.scaling.y_shift.any():
        return [True]
    plain, centred = (
        numerical_rank(column_space(Y)[1]) for Y in (problem.Y, problem.Y - problem.Y.mean(axis=0))
    )
    return [True] if plain > centred else [False, True]


def _column_space_of_outputs(problem: Problem, offset: bool) -> _Outputs:
    """Return a basis of the column space of the outputs, and how much of it is affine in x (step 1)."""
    X, Y = problem.X, problem.Y
    n = len(X)
    Q, values = column_space(Y - Y.mean(axis=0) if offset else Y)
    k = Q.shape[1]
    y = Q * np.sqrt(n)
    if offset:
        Q = np.hstack([np.full((n, 1), n**-0.5), Q])
    inputs = linalg.orth(augment(X))
    outside = Q - inputs @ (inputs.T @ Q)
    sines = linalg.svdvals(outside, check_finite=False) if Q.size else np.zeros(0)
    n_linear = int((sines < LINEAR_TOL).sum()) - int(offset)
    return _Outputs(Q, y, k, max(n_linear, 0), offset, values)


def _find_units(
    problem: Problem, outputs: _Outputs, max_starts: int
) -> tuple[Refinement | None, int, Verdict | None]:
    """Find the units (step 2), refine on all rows (3), certify (4).

    There is no fit where there are no units to find or too few samples to look for them.
    """
    k, d, rows = outputs.n_hidden, problem.n_features, len(problem.X)
    if rows <= d + 1 + k or k == 0:
        return None, 0, None
    q = outputs.y.shape[1] * (k + 1) // 2 + (k + int(outputs.offset)) * (d + 1)
    used = min(rows, int(2 * q) + 50)
    X, y, offset = problem.X[:used], outputs.y[:used], outputs.offset
    space = V = None
    if rows >= NULL_SPACE_ROWS * q and q <= MAX_NULL_COLUMNS and not outputs.n_linear:
        check_time()
        problem.progress("complementarity null space", float("nan"))
        space = complementarity_null_space(X, y, offset=offset)
        V = units_from_null_space(X, y, space, offset=offset, rng=problem.rng)
        if space.dimension < k:  # a network of k units leaves one vector for each of them: this is noise
            return None, 0, None
    found = Pursuit(V, 0) if V is not None else _pursue(problem, outputs, max_starts)
    fit = _best_fit(problem, outputs, found.V)
    if fit is None:
        return None, found.starts, None
    if space is None and rows >= q - k and q <= MAX_NULL_COLUMNS:
        space = complementarity_null_space(X, y, offset=offset)
    rivals = max(count_rivals(problem, fit.network, outputs.Q), len(found.V) - (k - outputs.n_linear))
    uniqueness = uniqueness_evidence(space, k) if space is not None and space.dimension <= k else ()
    verdict = certify_noiseless(problem, fit, offset=offset, uniqueness=uniqueness, rivals=rivals)
    return fit, found.starts, verdict


def _pursue(problem: Problem, outputs: _Outputs, max_starts: int) -> Pursuit:
    """Pursue units on a small part of the rows first, on more if some are missing."""
    wanted = outputs.n_hidden - outputs.n_linear
    total = len(problem.X)
    rows = pursuit_rows(problem, outputs.n_hidden)
    V = np.zeros((0, problem.n_features + 1))
    starts = 0
    origin = -problem.scaling.x_mean / problem.scaling.x_scale
    while True:
        X, Q = problem.X[:rows], linalg.orth(outputs.Q[:rows])
        # d samples are enough for a unit without a bias; which kind is missing is not known
        rounds = (
            [(share, at) for share in ROUNDS for at in (None, origin)] if rows == total else [(1.0, None)]
        )
        for share, at in rounds:
            found = pursue_units(
                X,
                Q,
                wanted,
                rng=problem.rng,
                max_starts=int(share * max_starts),
                known=V,
                origin=at,
                progress=problem.progress,
            )
            V, starts = found.V, starts + found.starts
            if len(V) >= wanted or not len(V):
                return Pursuit(V, starts)
        if rows == total or starts >= max_starts:
            return Pursuit(V, starts)
        rows = min(total, 4 * rows)


def _best_fit(problem: Problem, outputs: _Outputs, V: Array) -> Refinement | None:
    """Refine the found units on all rows (step 3); missing ones are the affine rest or are completed at random."""
    V = V[: outputs.n_hidden]  # more than there should be: the certificate will say so
    missing = outputs.n_hidden - len(V)
    if missing and missing == outputs.n_linear:
        return refine(problem.blocks, _with_affine_rest(problem, outputs, V), offset=outputs.offset)
    if not missing:
        return refine(problem.blocks, _network_of(problem, outputs, V), offset=outputs.offset)
    if 4 * missing > outputs.n_hidden:
        return None
    best: Refinement | None = None
    for _ in range(COMPLETIONS):
        rest = np.hstack([problem.rng.standard_normal((missing, problem.n_features)), np.zeros((missing, 1))])
        start = _network_of(problem, outputs, np.vstack([V, rest]))
        fit = refine(problem.blocks, start, offset=outputs.offset, max_iter=COMPLETION_STEPS)
        if best is None or fit.cost < best.cost:
            best = fit
        if best.cost < 1e-18 * problem.n_samples:
            break
    return best


def _network_of(problem: Problem, outputs: _Outputs, V: Array) -> TwoLayerNetwork:
    """Put least-squares output weights on hidden rows (w, b)."""
    H = np.maximum(augment(problem.X) @ V.T, 0.0)
    G = augment(H) if outputs.offset else H
    B = linalg.lstsq(G, problem.Y, check_finite=False)[0].T
    network = TwoLayerNetwork(V[:, :-1], V[:, -1], B[:, : len(V)], B[:, -1] if outputs.offset else None)
    return problem.scaling.in_order(network)


def _with_affine_rest(problem: Problem, outputs: _Outputs, V: Array) -> TwoLayerNetwork:
    """Express what the found units leave, an affine map of rank ``n_linear``, by units that are always on."""
    rows = augment(problem.X)
    H = np.maximum(rows @ V.T, 0.0)
    fitted = linalg.lstsq(np.hstack([H, rows]), problem.Y, check_finite=False)[0][len(V) : -1]
    right = linalg.svd(fitted, check_finite=False)[0][:, : outputs.n_linear].T
    reach = 2 * np.abs(problem.X @ right.T).max(axis=0) + 1.0
    return _network_of(problem, outputs, np.vstack([V, np.hstack([right, reach[:, None]])]))
