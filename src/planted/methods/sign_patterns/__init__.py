r"""Recover a ReLU network without biases from any inputs, by the sign patterns of the outputs' column space.

Problem     Noiseless Y = f(X W') A' with f the ReLU and rank Y = k, so m ≥ k. X is arbitrary: discrete, clustered,
            chosen by an adversary. Sought: W and A, up to order and scale of the units.
Idea        The columns of f(X W') lie in the k-dimensional column space of Y, with basis Q. Which vectors Q u of it
            are a ReLU of a linear function of x?

            ``variant="paper"`` goes through all sign patterns of the space, of which there are O(n^{k-1})
            (`_enumeration`), and solves a linear system for each (`printed`). No unit can be missed.

            ``variant="cone"`` (default) uses that each unit is an extreme ray of the cone {u : Q u ≥ 0}, hence the
            solution of a linear program with a suitable objective (`linalg.cone`). Objectives vanish on the units
            already found. A ray is accepted if it equals f(X w) on all samples. If some units stay hidden among other
            rays, a mixed-integer program on some tens of samples looks for one at a time (`linalg.relu_programs`).
Guarantee   ``"paper"``: Theorem 1 of [BJW18]_, time n^{O(k)}; the list of units in the column space is complete, so
            that exactly k of them prove that no other network of this width without biases fits. ``"cone"``: right or
            refused; nothing promises that k rays are found, the certificate and a renewed search decide. Kind: exact.
            Needs rank Y = k: below, the problem is NP-hard for two units already (`planted.simulate.hard_instance`).
Notation    paper: A (ours Y'), V' (Q'), V (W), U (A), S (sign pattern).
Departures  The cone is ours. For the enumeration see `printed`. Nonlinear rectified activations are outside the theorem,
            as the paper says itself: f⁻¹(Q u) is not linear in u.
Cost        ``"cone"``: some k log k linear programs with k variables and n inequalities. ``"paper"``: 1 s at k = 4,
            n = 60.
References  [BJW18]_
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array
from planted._validation import check_choice
from planted.certificates.searches._exact_units import ExactSearch, begin_search, finish_search
from planted.certificates.searches._warm_start import WarmStart, scores_of_start
from planted.checks import Check
from planted.fitting._run import MethodRun
from planted.fitting.units._quantile_null_space import EXACT_SINE, exact_unit, units_from_scores
from planted.linalg import ProgramStatus, extreme_ray, unit_in_subspace
from planted.methods.sign_patterns._enumeration import count_patterns, enumerate_patterns
from planted.methods.sign_patterns.printed import PatternUnits, algorithm_2
from planted.outcomes import Outcome
from planted.results import Evidence, Recovery

__all__ = ["recover"]

VARIANTS = ("cone", "paper")
MAX_PAPER_UNITS = 4
ZERO_RAY = 1e-6  # entries of a ray, relative to the largest, that the solver's tolerance makes of zeros
PROGRAMS_PER_UNIT = 30
HOPELESS_AFTER = 20  # programs without a single unit, when nothing shows that there is no noise
MILP_ROWS = 40
MILP_SECONDS = 10.0
SAME_UNIT_COSINE = 1 - 1e-9


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    variant: str = "cone",
    warm_start: WarmStart | None = None,
    max_patterns: int = 100_000,
    activation: str = "relu",
) -> Recovery:
    """Recover a network without biases from arbitrary inputs.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; the rank of the outputs if "auto".
    variant : {"cone", "paper"}
        Linear programs over a cone, or the paper's enumeration of all sign patterns, for at most four units.
    warm_start : TwoLayerNetwork, Recovery or mapping, optional
        An approximate network, or ``{"W": W}`` or ``{"A": A}``: tried before the cone.
    max_patterns : int
        The enumeration is refused when more patterns are predicted.
    activation : str
        ``"relu"``.

    Returns
    -------
    Recovery
        The network with its evidence.
    """
    check_choice("variant", variant, VARIANTS)
    search = begin_search(run, activation)  # the column space of Y, and its basis Q
    if variant == "paper":
        _require_few_patterns(search, max_patterns)
        patterns = enumerate_patterns(search.Q, progress=search.problem.progress)  # Lemma 1
        units = algorithm_2(search.X, search.Q, patterns, progress=search.problem.progress)
        return finish_search(search, units.W, further=_completeness(search, len(patterns), units))
    W = np.zeros((0, search.X.shape[1]))
    if warm_start is not None:  # §4.3
        scores = scores_of_start(search, warm_start)
        W = units_from_scores(search.X, search.Q, scores, search.activation).W
        run.trace.append({"search": "warm start", "starts": scores.shape[1], "units": len(W)})
    W = _units_of_cone(search, W)
    W = _units_by_integer_programs(search, W)
    return finish_search(search, W)


def _require_few_patterns(search: ExactSearch, max_patterns: int) -> None:
    """Refuse the enumeration where its cost is out of reach."""
    n, k = search.Q.shape
    predicted = count_patterns(n, k)
    name = "sign patterns predicted"
    search.run.note(Evidence(name, predicted, max_patterns, "<=", "C(n, k)", key=Check.PREDICTED_PATTERNS))
    if k > MAX_PAPER_UNITS or predicted > max_patterns:
        text = (
            f"{predicted:.3g} sign patterns are predicted for {n} samples and {k} units; the enumeration is limited to "
            f"{max_patterns} patterns and {MAX_PAPER_UNITS} units. Use variant='cone', or fewer samples."
        )
        search.run.refuse(Outcome.ASSUMPTION_FAILED, text)


def _completeness(search: ExactSearch, examined: int, units: PatternUnits) -> tuple[Evidence, ...]:
    """Return what the enumeration proves: all patterns were examined, and k of them hold one unit each."""
    n, k = search.Q.shape
    predicted, found = count_patterns(n, k), len(units.W)
    counts = {"patterns": examined, "predicted": predicted, "candidates": units.candidates, "units": found}
    search.run.trace.append({"search": "sign patterns", **counts})
    of_patterns, of_weights = "sign patterns examined", "patterns with undetermined weights"
    of_units = "ReLU units in the column space, by enumeration"
    return (
        Evidence(of_patterns, examined, predicted, "<=", "C(n, k)", key=Check.EXAMINED_PATTERNS),
        Evidence(of_weights, units.undetermined, 0, "==", "Algorithm 1", key=Check.UNDETERMINED_PATTERNS),
        Evidence(of_units, found, k, "==", "Theorem 1", key=Check.UNITS_IN_SPACE),
    )


def _units_of_cone(search: ExactSearch, W: Array) -> Array:
    """Collect extreme rays that are units, with objectives that vanish on those already found."""
    X, Q, k, rng = search.X, search.Q, search.n_hidden, search.problem.rng
    programs = rays = 0
    while len(W) < k and programs < PROGRAMS_PER_UNIT * k:
        check_time()
        if programs >= HOPELESS_AFTER and not len(W) and not _is_surely_noiseless(search):
            break
        programs += 1
        answer = extreme_ray(Q, _aimed_objective(search, W, rng))
        if answer.status is not ProgramStatus.OPTIMAL or answer.x is None:
            continue
        rays += 1
        h = Q @ answer.x
        w, sine = exact_unit(X, Q, h <= ZERO_RAY * h.max(), activation=search.activation)
        if sine < EXACT_SINE and _is_new(w, W):
            W = np.vstack([W, w])
        search.problem.progress(f"cone: {len(W)} of {k} units, {programs} programs", len(W) / k)
    search.run.trace.append({"search": "cone", "programs": programs, "rays": rays, "units": len(W)})
    return W


def _aimed_objective(search: ExactSearch, W: Array, rng: np.random.Generator) -> Array:
    """Return a random functional that vanishes on the units found."""
    functional = np.asarray(rng.standard_normal(search.Q.shape[1]))
    if not len(W):
        return functional
    coordinates = search.Q.T @ search.activation(search.X @ W.T)
    basis = linalg.orth(coordinates)
    return np.asarray(functional - basis @ (basis.T @ functional))


def _units_by_integer_programs(search: ExactSearch, W: Array) -> Array:
    """Look for one more unit at a time on a few samples; stop at the first failure."""
    k, rng = search.n_hidden, search.problem.rng
    n, d = search.X.shape
    solved = 0
    while len(W) < k and (len(W) or _is_surely_noiseless(search)):
        check_time()
        rows = np.sort(rng.permutation(n)[: max(MILP_ROWS, d + k + 5)])
        functional = _aimed_objective(search, W, rng)
        functional = functional / np.linalg.norm(functional)
        before = len(W)
        for sign in (1.0, -1.0):
            solved += 1
            X, Q = search.X[rows], search.Q[rows] * np.sqrt(n)
            answer = unit_in_subspace(X, Q, sign * functional, time_limit=MILP_SECONDS)
            if answer.x is None:
                continue
            off = search.X @ answer.x[:d] <= 0
            w, sine = exact_unit(search.X, search.Q, off, activation=search.activation)
            if sine < EXACT_SINE and _is_new(w, W):
                W = np.vstack([W, w])
                break
        if len(W) == before:
            break
    if solved:
        search.run.trace.append({"search": "integer programs", "programs": solved, "units": len(W)})
    return W


def _is_surely_noiseless(search: ExactSearch) -> bool:
    """Return whether the outputs span fewer dimensions than there are: noise would fill them all."""
    return bool(search.Q.shape[1] < search.problem.n_outputs)


def _is_new(w: Array, W: Array) -> bool:
    return not len(W) or float((W @ w).max()) < SAME_UNIT_COSINE
