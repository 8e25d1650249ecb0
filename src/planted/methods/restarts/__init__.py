r"""Recover a ReLU network with any number of outputs: expand, fit, prune, polish, and certify.

Problem     Y = f(X W' + b) A' + c + ξ with f the ReLU, any m ≥ 1, any law of x, k possibly above d. Most real problems
            have one output, where fits in the ReLU form end in local minima. Sought: W, b, A, c up to order and scale of
            units.
Idea        1. Write the network as absolute values and a linear part, which leaves no orientation to guess
               (`fitting.multistart._absolute_form`).
            2. Fit k + extra hyperplanes by variable projection, remove the units whose removal costs least, polish;
               repeat from other starts until all rows are reproduced or what is left is noise
               (`fitting.multistart._attempts`). Without a given k, use the width after which the held-out error no longer
               falls (`fitting.multistart._width_path`).
            3. Orient the units by the linear part (`fitting.multistart._orient_units`).
            4. Refine on all rows in the ReLU form, certify (`certificates.searches._restarts`).
Guarantee   None that the search succeeds. A network is called recovered by its certificate alone: every row reproduced to
            rounding, among them rows that the search never used; more equations than unknowns; a Jacobian of full rank;
            every unit seen by 2(d+1) rows on either side. Kind: heuristic; with noise asymptotic.
            Not promised: units that fewer rows see on one side (the linear part absorbs them; the outcome names the
            unit), two-valued inputs (several networks agree on all of them).
Notation    V = (W, b) hyperplanes, β halves of the output weights, Λ linear part.
Departures  Ours; no paper. The ambiguity of orientations is Claim 4.8 of [ATV21]_.
Cost        Per step of the search n' (M(d+1))²/2 multiplications for M units on n' rows, about 4 equations per unknown;
            some 20 to 40 steps; a few passes over all rows. Memory O((M(d+1))²) and one block.
References  [ATV21]_
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from planted._validation import check_choice
from planted.certificates.searches._curved import UnitSearch, search_units
from planted.certificates.searches._kink_search import KinkSearch
from planted.certificates.searches._likelihood import LabelSearch, search_labels
from planted.certificates.searches._restarts import search_with_restarts
from planted.checks import Check
from planted.fitting._losses import check_loss
from planted.fitting._row_weights import weigh_rows, weights_in_memory
from planted.fitting._run import MethodRun
from planted.fitting.likelihoods._families import find_likelihood
from planted.fitting.likelihoods._fit import LabelRows
from planted.fitting.multistart._attempts import Attempt, attempt_from
from planted.fitting.multistart._rows import SearchRows, split_rows
from planted.networks import is_rectifier, parse_activation
from planted.outcomes import BadInputError, Outcome
from planted.results import Evidence, Recovery
from planted.rows import RowBlocks, StoredWeights

__all__ = ["recover"]

MIN_ROWS = 8
SEARCHED_LABELS = 10_000  # rows of a search with labels; the answer is fitted on all rows
STARTS = ("random", "landscape")
ATTEMPTS = {"quick": 3, "normal": 10, "thorough": 30}


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    n_restarts: int | None = None,
    effort: str = "normal",
    extra: int | str = "auto",
    start: str = "random",
    offset: bool | str = "auto",
    affine: bool | str = "auto",
    loss: str = "squared",
    sample_weight: Any = None,
    activation: str = "relu",
    likelihood: str = "gaussian",
) -> Recovery:
    """Recover a network with any number of outputs by restarts of an expanded fit.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; chosen by held-out error if "auto".
    n_restarts : int, optional
        Largest number of attempts; by the effort if omitted.
    effort : {"quick", "normal", "thorough"}
        3, 10 or 30 attempts; with "quick" the first one down to the noise is the answer, with or without a certificate.
    extra : int or "auto"
        Units beyond ``n_hidden`` in the expanded fit; half as many again, at least four, if "auto".
    start : {"random", "landscape"}
        First attempt: from random hyperplanes, or from a minimum of the objective f′ of `landscape`, for normal inputs, one
        output and no more units than inputs. Same-sign networks are found from either, at about the same cost.
    offset : bool or "auto"
        Whether the outputs may have an unknown constant; "auto" keeps it when it is needed. It is free beside a linear part.
    affine : bool or "auto"
        Whether the network has a linear part B x; "auto" keeps it when no orientation of the units explains it.
    loss : {"squared", "huber", "cauchy", "sharp-cauchy", "l1", "auto"}
        Loss of the fit; all but the first forgive outliers, "auto" chooses by the tails of the residual.
    sample_weight : array_like of shape (n,), optional
        Weights of the samples, inverse to the variance of their noise; samples of weight zero are left out. Omitted for
        rows that carry their weights, as `planted.open_blocks` reads them.
    activation : str or Activation
        Activation of the units; ``"leaky-relu"`` without a slope finds the slope too.
    likelihood : {"gaussian", "logistic", "multinomial", "poisson"}
        Law of the outputs given the network. Other than "gaussian": the outputs are encoded labels, as `planted.recover`
        encodes them, the loss is their deviance, and the options n_restarts, extra, offset, start and loss are refused.

    Returns
    -------
    Recovery
        The network with its evidence. Interrupted by Ctrl-C, the best network so far with outcome ``STOPPED_EARLY``.
    """
    check_loss(loss)
    check_choice("start", start, STARTS)
    check_choice("effort", effort, tuple(ATTEMPTS))
    check_choice("affine", affine, ("auto", True, False))
    blocks, weights = weigh_rows(run.data.blocks, sample_weight)
    if blocks is not run.data.blocks:
        run.data = run.data.of(blocks)
    if likelihood != "gaussian":
        unused = {"n_restarts": n_restarts, "extra": extra, "start": start, "offset": offset, "loss": loss}
        _refuse_options(f"likelihood={likelihood!r}", unused)
        return _recover_from_labels(run, n_hidden, activation, likelihood, affine, effort, weights)
    run.problem, local = weights_in_memory(run.problem, weights)
    _require_samples(run, n_hidden)
    rows = split_rows(run.problem, loss=loss, omega=local)
    n_restarts = ATTEMPTS[effort] if n_restarts is None else n_restarts
    if not is_rectifier(activation):
        _refuse_options(f"activation={activation!r}", {"start": start, "loss": loss})
        units = UnitSearch.begin(run, rows, activation, n_hidden, weights=weights)
        units.offset, units.affine, units.effort = offset is not False, affine, effort
        units.n_restarts, units.extra = n_restarts, None if extra == "auto" else int(extra)
        return search_units(units)
    search = KinkSearch(run, rows, n_hidden, offset, loss, affine, weights)
    search.patience = 0 if effort == "quick" else search.patience
    if start == "landscape":
        search.start = partial(_attempt_from_landscape, run, rows)
    return search_with_restarts(search, n_restarts=n_restarts, extra=extra)  # steps 1 to 4


def _refuse_options(what: str, options: dict[str, Any]) -> None:
    """Refuse options that a search does not use, where they are not left as they are."""
    defaults = {name: each.default for name, each in signature(recover).parameters.items()}
    for name, value in options.items():
        if value != defaults[name]:
            raise BadInputError(f"{name}={value!r} is not used with {what}; leave it at {defaults[name]!r}")


def _require_samples(run: MethodRun, n_hidden: int | str) -> None:
    """Refuse when there are fewer equations than unknowns, or hardly any rows."""
    n, d, m = run.problem.shape
    k = n_hidden if isinstance(n_hidden, int) else 1
    need = max((k * (d + m)) // m + 1, d + 2, MIN_ROWS) + 1
    run.refuse_unless(
        Evidence("samples", n, need, ">=", "(k(d+1) + mk - k)/m and one more", key=Check.SAMPLES),
        outcome=Outcome.TOO_FEW_SAMPLES,
        detail=f"{n} samples for {k} unit(s) of {d} inputs; at least {need} are needed.",
    )


def _recover_from_labels(
    run: MethodRun,
    n_hidden: int | str,
    activation: str,
    likelihood: str,
    affine: bool | str,
    effort: str,
    weights: StoredWeights | None,
) -> Recovery:
    """Search with the loss of labels in place of squares."""
    run.problem, _ = weights_in_memory(run.data.problem("labels"), weights)
    run.refuse_unless(
        Evidence("samples", run.problem.n_samples, MIN_ROWS, ">=", key=Check.SAMPLES),
        outcome=Outcome.TOO_FEW_SAMPLES,
        detail=f"{run.problem.n_samples} samples; at least {MIN_ROWS} are needed.",
    )
    law = find_likelihood(likelihood)
    rows = LabelRows(run.problem.blocks, run.problem.n_samples, law, weights)
    problem = run.problem
    chosen = np.sort(problem.rng.permutation(len(problem.X))[:SEARCHED_LABELS])
    w = None if problem.w is None else problem.w[chosen]
    searched = RowBlocks.from_arrays(problem.X[chosen], problem.Y[chosen], weights=w)
    sample = replace(rows, blocks=searched, n_samples=len(chosen))
    wanted = n_hidden if isinstance(n_hidden, int) else None
    return search_labels(LabelSearch(run, rows, sample, parse_activation(activation), wanted, affine, effort))


def _attempt_from_landscape(run: MethodRun, rows: SearchRows, n_hidden: int) -> Attempt | None:
    """Make an attempt from a minimum of f′; None where the method `landscape` has no answer."""
    problem = run.problem
    answer = run.solve(
        "landscape", problem.blocks, n_hidden, random_state=problem.rng, refined=False, n_restarts=1
    )
    if answer.network is None:
        return None
    V = np.hstack([answer.network.W, answer.network.b[:, None]])
    return attempt_from(problem, rows, V, n_hidden=n_hidden, start="landscape")
