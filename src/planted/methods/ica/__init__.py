r"""Recover a network with orthonormal hidden weights by independent component analysis (BJW18 §4.1).

Problem     Noiseless Y = f(X W') A' with f rectified, x standard normal, the rows of W orthonormal, A of full column
            rank k. Sought: W and A.
Idea        The entries of W x are then independent, and so are the activations h = f(W x): to separate them from y = A h
            is a problem of independent components. As in Algorithm 3,

            1. sketch z = T y with a random k × m matrix T, so that T A is square;
            2. take independent components of z, which estimate the activations up to order, shift and scale;
            3. on the rows where a component is lowest its unit is off, and the null space of Y on these rows is the
               unit's exact coordinate (`fitting.units`);
            4. find W by least squares where the unit is on, and A by least squares.
Guarantee   Theorem 4 of [BJW18]_: exact with high probability, polynomially many samples. Kind: exact, once certified.
            For rows of W that are not orthonormal, or x that is not normal, step 2 is only a guess; the certificate
            decides.
Notation    paper: A (ours Y'), U (A), V (W), T (sketch).
Departures  ``variant="paper"`` is Algorithm 3 (`printed`): of the first ℓ rows it takes those below a small threshold.
            ``variant="blocks"`` applies the same box to one block of ℓ rows after another. ``variant="trimmed"``
            (default) takes the lowest 30 % of all rows and iterates, then looks for the units that were not reached by
            random pursuit. The component analysis with a provable rate that the paper cites is replaced by
            scikit-learn's FastICA (`_components`).
Cost        O(n k²) for each step of the component analysis; the rest is small.
References  [BJW18]_, [Hyvarinen1999]_
"""

from __future__ import annotations

from functools import partial

import numpy as np

from planted._typing import Array
from planted._validation import check_choice
from planted.certificates.searches._exact_units import (
    ExactSearch,
    begin_search,
    complete_units,
    finish_search,
    units_as_printed,
)
from planted.certificates.searches._warm_start import WarmStart, scores_of_start
from planted.checks import Check
from planted.fitting._run import MethodRun
from planted.fitting.units._quantile_null_space import units_from_scores
from planted.linalg import unit_rows
from planted.methods.ica.printed import TAU, steps_1_to_3, steps_4_to_8
from planted.results import Evidence, Recovery

__all__ = ["recover"]

VARIANTS = ("trimmed", "paper", "blocks")
COMPONENT_ROWS = 20_000


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    variant: str = "trimmed",
    ell: int | str = "auto",
    tau: float = TAU,
    warm_start: WarmStart | None = None,
    max_starts: int = 2000,
    activation: str = "relu",
) -> Recovery:
    """Recover a network whose hidden units are independent.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; the rank of the outputs if "auto".
    variant : {"trimmed", "paper", "blocks"}
        Rows that are surely off, the printed threshold on the first ℓ rows, or on one block of ℓ rows after another.
    ell : int or "auto"
        The paper's ℓ: rows of the exact step; four times the larger of d and k if "auto".
    tau : float
        The paper's τ: scores up to this part of their spread count as zero.
    warm_start : TwoLayerNetwork, Recovery or mapping, optional
        An approximate network, or ``{"W": W}`` or ``{"A": A}``, in place of the components.
    max_starts : int
        Random starts for units that the components do not lead to; none in the paper's variant.
    activation : str
        ``"relu"`` or a rectified power such as ``"power:2"``.

    Returns
    -------
    Recovery
        The network with its evidence.
    """
    check_choice("variant", variant, VARIANTS)
    search = begin_search(run, activation)
    scores = _scores(search, warm_start)  # steps 1 and 2, which are 1 to 3 of the box
    if variant == "trimmed":
        W = units_from_scores(search.X, search.Q, scores, search.activation).W  # step 3
    else:
        box = partial(steps_4_to_8, activation=search.activation, tau=tau)
        W = units_as_printed(search, box, scores, ell=ell, in_blocks=variant == "blocks")  # 4 to 8
    run.trace.append({"search": "components", "starts": scores.shape[1], "units": len(W)})
    if variant == "trimmed":
        W = complete_units(search, W, max_starts=max_starts)
    _note_condition(search, W)
    return finish_search(search, W)  # step 4


def _scores(search: ExactSearch, warm_start: WarmStart | None) -> Array:
    """Return numbers that are low where a unit is off, one column for each unit."""
    if warm_start is not None:
        return scores_of_start(search, warm_start)
    problem = search.problem
    scores, components = steps_1_to_3(problem.Y[:COMPONENT_ROWS], search.n_hidden, problem.rng)
    name = "steps of the component analysis" + ("" if components.converged else ", which did not converge")
    search.run.note(Evidence(name, components.iterations, key=Check.ITERATIONS))
    return scores[: len(search.X)]


def _note_condition(search: ExactSearch, W: Array) -> None:
    """Note how far the rows of W are from orthonormal, in the user's units."""
    if len(W) >= search.n_hidden:
        rows = unit_rows(W[: search.n_hidden] / search.problem.scaling.x_scale)[0]
        name = "condition number of W (1 if orthonormal)"
        search.run.note(Evidence(name, float(np.linalg.cond(rows)), key=Check.CONDITION_OF_W))
