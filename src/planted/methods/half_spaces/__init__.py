r"""Recover a network whatever the law of the noise (BJW18 §7).

Problem     Y = f(X W' + b) A' + c + E with f the ReLU, m ≥ k and E independent of x, of any law: heavy tails, no variance,
            no mean. Sought: W, b, A, c.
Idea        *As printed* (Algorithm 8, `half_space_guesses`). Sketch the outputs to a few dimensions, guess a left inverse M
            of the sketched A, smooth M S y with Gaussian noise and read its signs as noisy labels of the half-spaces
            w_p'x > 0; the best w is the normalised sum of labelled inputs. Regress, keep the best guess.
            *Practical* (default).
            1. Clip every output at a few robust standard deviations: what is left has moments of all orders.
            2. Start from the clipped outputs: second-order directions with the signs of `direction_signs`,
               instruments, random half-spaces; refine on a part, score on rows held out (`noisy`).
            3. Refine on the outputs themselves under a loss that forgives outliers, scales by the median absolute
               residual (`_robust_loss`). ``loss="auto"`` takes the loss with the smallest estimated variance: the
               squared one on normal noise, so that safety has no price.
            4. Certify on the influences of the entries (`_robust_verdict`); where noise is correlated or unequal
               between outputs, once more with outputs whitened (`output_covariance`). List the outliers.
Guarantee   Printed: Theorem 13 of [BJW18]_, ‖Y - Ŷ‖ ≤ ‖E‖ + small, after exponentially many guesses in k²; no
            statement on parameters. Practical: consistency and standard errors of M-estimates. Kind: asymptotic.
Notation    paper: A (ours Y'), U (A), V (W), S (sketch), M (left inverse of S A), G (smoothing noise).
Departures  The practical form is ours: clipping, spectral start and reweighting in place of the enumeration, whose labels
            give errors of 0.2 even with the true left inverse. Biases and offsets are allowed there.
Cost        A few refinements on `noisy.CANDIDATE_ROWS` rows, then ten to thirty passes. Printed: see `half_space_guesses`.
References  [BJW18]_, [Huber1981]_
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planted._clock import check_time
from planted._typing import Array, Progress, Seed
from planted._validation import check_choice
from planted.certificates._output_covariance import certify_whitened
from planted.certificates._robust import certify_with_loss
from planted.checks import Check
from planted.fitting._clipping import prepare_clipped
from planted.fitting._losses import RobustFit, check_loss, refine_with_loss
from planted.fitting._outlier_table import find_outliers
from planted.fitting._problem import Problem, without_network
from planted.fitting.multistart._candidates import MIN_ROWS, best_candidate
from planted.fitting.units._direction_signs import signs_of_preactivations
from planted.fitting.units._instruments import FirstStage, first_stage, rank_of_signal
from planted.methods.half_spaces.printed import LARGEST_COUNT, GuessGrid, guess_half_spaces, predict_guesses
from planted.methods.joint_diagonalisation import hermite_directions
from planted.networks import TwoLayerNetwork, parse_activation
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Requirements, Unavailable, Verdict
from planted.rows import RowBlocks

__all__ = ["recover_half_spaces"]

VARIANTS = ("practical", "paper")
FAR = 4.0  # scales beyond which an entry is listed as an outlier


def recover_half_spaces(
    blocks: RowBlocks,
    n_hidden: int | str = "auto",
    *,
    variant: str = "practical",
    loss: str = "auto",
    offset: bool | str = "auto",
    covariance: str = "auto",
    n_restarts: int = 8,
    n_levels: int = 3,
    random_state: Seed = None,
    progress: Progress | None = None,
) -> Recovery:
    """Recover a network under noise of any law.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    n_hidden : int or "auto"
        Number of units; the number of output directions that x explains if "auto".
    variant : {"practical", "paper"}
        Robust start and refinement, or the printed enumeration (k at most 2).
    loss : {"auto", "squared", "huber", "cauchy", "sharp-cauchy", "l1"}
        Loss of the refinement; "auto" chooses by the tails of the residual and says which.
    offset : bool or "auto"
        Whether the outputs may have an unknown constant.
    covariance : {"auto", "equal"}
        Whether noise that is correlated or unequal between outputs is weighed by its estimated covariance.
    n_restarts : int
        Random starts beside the others.
    n_levels : int
        Sizes on the grid of guesses of the printed algorithm.
    random_state : int, Generator, SeedSequence or None
        Seed of the solver.
    progress : callable, optional
        Told what is being done.

    Returns
    -------
    Recovery
        The network with its evidence; ``stats["outliers"]`` counts and lists the entries it does not believe.
    """
    check_loss(loss)
    check_choice("variant", variant, VARIANTS)
    check_choice("covariance", covariance, ("auto", "equal"))
    options = {
        "n_hidden": n_hidden,
        "variant": variant,
        "loss": loss,
        "offset": offset,
        "covariance": covariance,
        "n_restarts": n_restarts,
        "n_levels": n_levels,
    }
    clipped, problem = prepare_clipped(blocks, random_state=random_state, progress=progress)
    stage = first_stage(clipped.X, clipped.Y, clipped.rng)
    rank = rank_of_signal(stage)
    k = n_hidden if isinstance(n_hidden, int) else max(rank, 1)
    refusal = _refuse(problem, k, options)
    if refusal is not None:
        return refusal
    spectrum = Evidence("output directions explained by x beyond noise", rank, key=Check.SIGNAL_RANK)
    if variant == "paper":
        return _recover_as_printed(problem, k, n_levels, options, spectrum)
    return _recover_practically(problem, clipped, k, stage, options, spectrum)


def _refuse(problem: Problem, k: int, options: dict[str, Any]) -> Recovery | None:
    n, d, m = problem.n_samples, problem.n_features, problem.n_outputs
    if k > m:
        line, outcome = (
            Evidence("outputs", m, k, ">=", "m >= k", key=Check.OUTPUTS),
            Outcome.ASSUMPTION_FAILED,
        )
    elif n < MIN_ROWS or n * m <= k * (d + 1):
        need = max(MIN_ROWS, k * (d + 1) // m + 1)
        line, outcome = (
            Evidence("samples", n, need, ">=", "k(d+1)/m and some", key=Check.SAMPLES),
            Outcome.TOO_FEW_SAMPLES,
        )
    elif options["variant"] == "paper" and k > 2:
        line, outcome = (
            Evidence("units", k, 2, "<=", "guesses grow like 2^(k²)", key=Check.UNITS),
            Outcome.ASSUMPTION_FAILED,
        )
    else:
        return None
    text = f"{line.name}: {line.measured:.0f}; the method needs {line.comparison} {line.required:.0f} ({line.equation})."
    return without_network(problem, REQUIRES, options, outcome=outcome, evidence=(line,), detail=text)


def _recover_practically(
    problem: Problem, clipped: Problem, k: int, stage: FirstStage, options: dict[str, Any], spectrum: Evidence
) -> Recovery:
    """Steps 2 to 4, with one more unit while x shows in the residual and m allows."""
    trace: list[dict[str, Any]] = []
    is_open = options["n_hidden"] == "auto"
    robust = _fit_width(problem, clipped, k, stage, options, trace)
    if is_open:  # clipping bends the column space of the outputs; influences do not
        influences = first_stage(robust.problem.X, robust.problem.Y, problem.rng)
        rank = max(rank_of_signal(influences), 1)
        if rank < k:
            k = rank
            robust = _fit_width(problem, clipped, k, stage, options, trace)
    network, verdict = _judge(problem, robust, options)
    while is_open and verdict.outcome is Outcome.FITTED and k < problem.n_outputs:
        k += 1
        robust = _fit_width(problem, clipped, k, stage, options, trace)
        network, verdict = _judge(problem, robust, options)
    return _record(problem, network, verdict, robust, options, (spectrum,), trace)


def _fit_width(
    problem: Problem,
    clipped: Problem,
    k: int,
    stage: FirstStage,
    options: dict[str, Any],
    trace: list[dict[str, Any]],
) -> RobustFit:
    """Find a start for k units on clipped outputs and refine it on the outputs themselves (steps 2 and 3)."""
    check_time()
    start = best_candidate(
        clipped,
        k,
        offset=options["offset"] is not False,
        n_restarts=options["n_restarts"],
        stage=stage,
        trace=trace,
        given=_spectral_start(clipped, k),
    )
    return refine_with_loss(problem, start, options["offset"], loss=options["loss"])


def _judge(problem: Problem, robust: RobustFit, options: dict[str, Any]) -> tuple[TwoLayerNetwork, Verdict]:
    """Certify a fit, with whitened outputs where noise differs between them (step 4)."""
    network, verdict = robust.fit.network, certify_with_loss(problem, robust, asked=options["loss"])
    if options["covariance"] == "auto":
        network, verdict = certify_whitened(robust.problem, robust.fit, verdict, offset=robust.has_offset)
    return network, verdict


def _spectral_start(clipped: Problem, k: int) -> list[tuple[str, Array]]:
    """Second-order directions of the clipped outputs with the signs of §5, where there are no more units than inputs."""
    if k > clipped.n_features or not np.ptp(clipped.X, axis=0).all():
        return []
    try:
        W = hermite_directions(clipped.X, clipped.Y, k, rng=clipped.rng)
    except np.linalg.LinAlgError:  # inputs that do not vary in all dimensions have no second-order directions
        return []
    signs = signs_of_preactivations(clipped.X @ W.T, clipped.Y, activation=parse_activation("relu"))
    return [] if signs is None else [("spectral", np.hstack([W * signs[:, None], np.zeros((k, 1))]))]


def _record(
    problem: Problem,
    network: TwoLayerNetwork,
    verdict: Verdict,
    robust: RobustFit,
    options: dict[str, Any],
    evidence: tuple[Evidence, ...],
    trace: list[dict[str, Any]],
) -> Recovery:
    table = find_outliers(
        problem.blocks, network, limits=FAR * robust.scales, loss=robust.loss, scales=robust.scales
    )
    outliers = table.to_dict()
    for item in outliers["largest"]:
        item["residual"] *= problem.scaling.y_scale
    lines = (
        Evidence(f"entries beyond {FAR:g} scales of the residual", table.n_entries, key=Check.WRONG_LABELS),
        Evidence("samples with such an entry", table.n_rows, key=Check.WRONG_SAMPLES),
    )
    return Recovery(
        network=problem.scaling.restore(network),
        outcome=verdict.outcome,
        guarantee=verdict.guarantee,
        evidence=(*evidence, *verdict.evidence, *lines),
        uncertainty=verdict.uncertainty,
        stats=problem.stats(
            starts=len(trace), iterations=robust.fit.iterations, loss=robust.loss, outliers=outliers
        ),
        provenance=problem.provenance(REQUIRES, options),
        detail=verdict.detail,
        trace=tuple(trace),
    )


def _recover_as_printed(
    problem: Problem, k: int, n_levels: int, options: dict[str, Any], spectrum: Evidence
) -> Recovery:
    """Run Algorithm 8 on a grid that can be enumerated; its answer is a fit, no more."""
    grid = GuessGrid(sketch_rows=k, n_levels=n_levels)
    printed = Evidence(
        "log10 of the guesses on the printed grid",
        predict_guesses(k),
        comparison="info",
        key=Check.PRINTED_GUESSES,
    )
    count = Evidence(
        "guesses on the grid used",
        grid.count(k),
        LARGEST_COUNT,
        "<=",
        "(2 levels)^(k · sketch rows)",
        key=Check.GUESSES,
    )
    if not count.passed:
        text = f"{grid.count(k):.3g} guesses; at most {LARGEST_COUNT:.0g} are tried. Lower n_levels."
        return without_network(
            problem,
            REQUIRES,
            options,
            outcome=Outcome.ASSUMPTION_FAILED,
            evidence=(printed, count),
            detail=text,
        )
    network, residual = guess_half_spaces(problem.X, problem.Y, k, grid=grid, rng=problem.rng)
    level = Evidence(
        "root mean square residual, in output standard deviations", residual, key=Check.NOISE_LEVEL
    )
    text = f"The best of {grid.count(k):,} guesses of the left inverse, by its sum of squares; no parameter is claimed."
    return Recovery(
        network=problem.scaling.restore(network),
        outcome=Outcome.FITTED,
        guarantee=Guarantee.HEURISTIC,
        evidence=(spectrum, printed, count, level),
        uncertainty=Unavailable("The printed algorithm states no error of its parameters."),
        stats=problem.stats(guesses=grid.count(k)),
        provenance=problem.provenance(REQUIRES, options),
        detail=text,
    )
