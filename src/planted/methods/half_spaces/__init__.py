r"""Recover a network whatever the law of the noise (BJW18 §7).

Problem     Y = f(X W' + b) A' + c + E with f the ReLU, m ≥ k and E independent of x, of any law: heavy tails, no
            variance, no mean. Sought: W, b, A, c.
Idea        *As printed* (Algorithm 8, `printed`): sketch the outputs to a few dimensions, guess a left inverse M of the
            sketched A, smooth M S y with Gaussian noise and read its signs as noisy labels of the half-spaces w_p'x > 0;
            the best w is the normalised sum of labelled inputs. Regress, keep the best guess.

            *Practical* (default):

            1. Clip every output at a few robust standard deviations; the clipped outputs have moments of all orders.
            2. Start from the clipped outputs: second-order directions with the signs of §5, instruments, random
               half-spaces. Refine each start on a part of the rows, score it on rows held out (`fitting.multistart`).
            3. Refine the best on the outputs themselves under a loss that bounds the influence of outliers, scales by the
               median absolute residual (`fitting._losses`). ``loss="auto"`` takes the loss with the smallest estimated
               variance: on normal noise the squared one, so that robustness costs nothing there.
            4. Certify on the influences of the entries (`certificates._robust`); where noise is correlated or unequal
               between outputs, once more with outputs whitened. List the outliers.
Guarantee   Printed: Theorem 13 of [BJW18]_, ‖Y - Ŷ‖ ≤ ‖E‖ + small, after exponentially many guesses in k²; no
            statement on parameters. Practical: consistency and standard errors of M-estimates. Kind: asymptotic.
Notation    paper: A (ours Y'), U (A), V (W), S (sketch), M (left inverse of S A), G (smoothing noise).
Departures  The practical form is ours: clipping, spectral start and reweighting in place of the enumeration, whose
            labels give errors of 0.2 even with the true left inverse. Biases and offsets are allowed there.
Cost        A few refinements on `CANDIDATE_ROWS` rows, then ten to thirty passes. Printed: see `printed`.
References  [BJW18]_, [Huber1981]_
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planted._clock import check_time
from planted._typing import Array
from planted._validation import check_choice
from planted.certificates._robust import certify_whitened_with_loss, certify_with_loss
from planted.certificates.searches._noisy import MIN_ROWS
from planted.checks import Check
from planted.fitting._losses import RobustFit, check_loss, refine_with_loss
from planted.fitting._outlier_table import find_outliers
from planted.fitting._run import MethodRun, Problem
from planted.fitting.multistart._candidates import best_candidate
from planted.fitting.units._direction_signs import signs_of_preactivations
from planted.fitting.units._hermite_directions import hermite_directions
from planted.fitting.units._instruments import FirstStage, first_stage, rank_of_signal
from planted.methods.half_spaces.printed import LARGEST_COUNT, GuessGrid, algorithm_8, predict_guesses
from planted.networks import TwoLayerNetwork, parse_activation
from planted.outcomes import BadInputError, Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict

__all__ = ["recover"]

VARIANTS = ("practical", "paper")
FAR = 4.0  # scales beyond which an entry is listed as an outlier


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    variant: str = "practical",
    loss: str = "auto",
    offset: bool | str = "auto",
    covariance: str = "auto",
    n_restarts: int = 8,
    n_levels: int = 3,
    sketch_rows: int | str = "auto",
) -> Recovery:
    """Recover a network under noise of any law.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
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
    sketch_rows : int or "auto"
        Rows of its sketch of the outputs; as many as units if "auto".

    Returns
    -------
    Recovery
        The network with its evidence; ``stats["outliers"]`` counts and lists the entries it does not believe.
    """
    check_loss(loss)
    check_choice("variant", variant, VARIANTS)
    check_choice("covariance", covariance, ("auto", "equal"))
    assert run.problem.clipped is not None
    clipped = run.problem.clipped
    stage = first_stage(clipped.X, clipped.Y, clipped.rng)
    rank = rank_of_signal(stage)
    k = n_hidden if isinstance(n_hidden, int) else max(rank, 1)
    _require(run, k, is_printed=variant == "paper")
    run.note(Evidence("output directions explained by x beyond noise", rank, key=Check.SIGNAL_RANK))
    if variant == "paper":
        return _recover_as_printed(run, k, _grid(k, n_levels, sketch_rows))
    return _Search(run, clipped, stage, loss, offset, covariance, n_restarts).recover(k)


def _require(run: MethodRun, k: int, *, is_printed: bool) -> None:
    """Require enough outputs and samples, and at most two units for the printed algorithm."""
    n, d, m = run.problem.shape
    run.refuse_unless(Evidence("outputs", m, k, ">=", "m >= k", key=Check.OUTPUTS))
    need = max(MIN_ROWS, k * (d + 1) // m + 1)
    run.refuse_unless(
        Evidence("samples", n, need, ">=", "k(d+1)/m and some", key=Check.SAMPLES),
        outcome=Outcome.TOO_FEW_SAMPLES,
    )
    if is_printed:
        run.refuse_unless(Evidence("units", k, 2, "<=", "guesses grow like 2^(k²)", key=Check.UNITS))


@dataclass(frozen=True, slots=True)
class _Search:
    """The practical variant: what it was asked, and what it works with."""

    run: MethodRun
    clipped: Problem
    stage: FirstStage
    loss: str
    offset: bool | str
    covariance: str
    n_restarts: int

    def recover(self, k: int) -> Recovery:
        """Run steps 2 to 4; while x explains part of the residual, and m allows, once more with one more unit."""
        problem, is_open = self.run.problem, self.run.n_hidden == "auto"
        robust = self.fit(k)
        if is_open:  # clipping bends the column space of the outputs; influences do not
            influences = first_stage(robust.problem.X, robust.problem.Y, problem.rng)
            rank = max(rank_of_signal(influences), 1)
            if rank < k:
                k = rank
                robust = self.fit(k)
        network, verdict = self.judge(robust)
        while is_open and verdict.outcome is Outcome.FITTED and k < problem.n_outputs:
            k += 1
            robust = self.fit(k)
            network, verdict = self.judge(robust)
        return _record(self.run, network, verdict, robust)

    def fit(self, k: int) -> RobustFit:
        """Find a start for k units on clipped outputs and refine it on the outputs themselves (steps 2 and 3)."""
        check_time()
        start = best_candidate(
            self.clipped,
            k,
            offset=self.offset is not False,
            n_restarts=self.n_restarts,
            stage=self.stage,
            trace=self.run.trace,
            given=_spectral_start(self.clipped, k),
        )
        return refine_with_loss(self.run.problem, start, self.offset, loss=self.loss)

    def judge(self, robust: RobustFit) -> tuple[TwoLayerNetwork, Verdict]:
        """Certify a fit, with whitened outputs where noise differs between them (step 4)."""
        if self.covariance == "auto":
            return certify_whitened_with_loss(self.run.problem, robust, asked=self.loss)
        return robust.fit.network, certify_with_loss(self.run.problem, robust, asked=self.loss)


def _spectral_start(clipped: Problem, k: int) -> list[tuple[str, Array]]:
    """Return second-order directions of the clipped outputs with the signs of §5, if there are no more units than inputs."""
    if k > clipped.n_features or not np.ptp(clipped.X, axis=0).all():
        return []
    try:
        W = hermite_directions(clipped.X, clipped.Y, k, rng=clipped.rng)
    except np.linalg.LinAlgError:  # inputs that do not vary in all dimensions have no second-order directions
        return []
    signs = signs_of_preactivations(clipped.X @ W.T, clipped.Y, activation=parse_activation("relu"))
    return [] if signs is None else [("spectral", np.hstack([W * signs[:, None], np.zeros((k, 1))]))]


def _record(run: MethodRun, network: TwoLayerNetwork, verdict: Verdict, robust: RobustFit) -> Recovery:
    """List the outliers and make the record."""
    problem, limits = run.problem, FAR * robust.scales
    table = find_outliers(problem.blocks, network, limits=limits, loss=robust.loss, scales=robust.scales)
    lines = (
        Evidence(f"entries beyond {FAR:g} scales of the residual", table.n_entries, key=Check.WRONG_LABELS),
        Evidence("samples with such an entry", table.n_rows, key=Check.WRONG_SAMPLES),
    )
    return run.finish(
        network,
        replace(verdict, evidence=(*verdict.evidence, *lines)),
        starts=len(run.trace),
        iterations=robust.fit.iterations,
        loss=robust.loss,
        outliers=table.to_dict(unit=problem.scaling.y_scale),
    )


def _grid(k: int, n_levels: int, sketch_rows: int | str) -> GuessGrid:
    """Return the grid of Algorithm 8, both of whose numbers are positive."""
    rows = k if sketch_rows == "auto" else sketch_rows
    for name, value in (("n_levels", n_levels), ("sketch_rows", rows)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInputError(f"{name}={value!r}; expected a positive whole number")
    return GuessGrid(sketch_rows=int(rows), n_levels=n_levels)


def _recover_as_printed(run: MethodRun, k: int, grid: GuessGrid) -> Recovery:
    """Run Algorithm 8 on a grid that can be enumerated; its answer is called a fit."""
    problem = run.problem
    count, equation = grid.count(k), "(2 levels)^(k · sketch rows)"
    run.note(
        Evidence("log10 of the guesses on the printed grid", predict_guesses(k), key=Check.PRINTED_GUESSES)
    )
    run.require(
        Evidence("guesses on the grid used", count, LARGEST_COUNT, "<=", equation, key=Check.GUESSES),
        detail=f"{count:.3g} guesses; at most {LARGEST_COUNT:.0g} are tried. Lower n_levels or sketch_rows.",
    )
    network, residual = algorithm_8(problem.X, problem.Y, k, grid=grid, rng=problem.rng)
    name = "root mean square residual, in output standard deviations"
    run.note(Evidence(name, residual, key=Check.NOISE_LEVEL))
    text = (
        f"The best of {count:,} guesses of the left inverse, by its sum of squares; no parameter is claimed."
    )
    doubt = Unavailable("The printed algorithm states no error of its parameters.")
    return run.finish(network, Verdict(Outcome.FITTED, Guarantee.HEURISTIC, (), text, doubt), guesses=count)
