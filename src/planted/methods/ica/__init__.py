r"""Recover a network with orthonormal hidden weights by independent component analysis (BJW18 §4.1).

Problem     Noiseless Y = f(X W') A' with f rectified, x standard normal, the rows of W orthonormal, A of full column
            rank k. Sought: W and A.
Idea        The entries of W x are then independent, and so are the activations h = f(W x): y = A h is a problem of
            independent components (Algorithm 3).
            1. sketch: z = T y with a random k × m matrix T, so that T A is square;
            2. independent components of z give (T A)⁻¹ roughly, hence h roughly;
            3. rows where a coordinate of h is low are those where that unit is off; the null space of Y on them is the
               unit's exact coordinate (`quantile_null_space`);
            4. W by least squares where the unit is on, A by least squares.
Guarantee   Theorem 4 of [BJW18]_: exact with high probability, polynomially many samples. Kind: exact, once
            certified. For rows of W that are not orthonormal, or x that is not normal, step 2 is only a guess; the
            certificate decides.
Notation    paper: A (ours Y'), U (A), V (W), T (sketch), τ (threshold of step 3).
Departures  ``variant="paper"`` takes {h ≤ τ} for the rows that are off, as printed; these contain rows where the unit
            is barely on, and one of them is enough to spoil the null space. ``variant="trimmed"`` (default) takes the
            lowest 30 % and iterates, then looks for units that were not reached by random pursuit. The provable
            component analysis of the paper is replaced by the fixed-point iteration of [Hyvarinen1999]_.
Cost        O(n k²) for each step of the component analysis; the rest is small.
References  [BJW18]_, [Hyvarinen1999]_
"""

from __future__ import annotations

import numpy as np

from planted._validation import check_choice
from planted.certificates.searches._exact_units import begin_search, complete_units, finish_search
from planted.certificates.searches._warm_start import WarmStart, scores_of_start
from planted.checks import Check
from planted.fitting._run import MethodRun
from planted.fitting.units._quantile_null_space import units_from_scores
from planted.linalg import independent_components
from planted.results import Evidence, Recovery

__all__ = ["recover"]

VARIANTS = ("trimmed", "paper")
COMPONENT_ROWS = 20_000


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    variant: str = "trimmed",
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
    variant : {"trimmed", "paper"}
        Rows that are surely off, or the printed threshold.
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
    problem, k, rng = search.problem, search.n_hidden, search.problem.rng
    if warm_start is None:
        T = rng.standard_normal((k, problem.n_outputs))  # step 1 of Algorithm 3
        sketch = problem.Y[:COMPONENT_ROWS] @ T.T
        components = independent_components(sketch, rng)  # steps 2 and 3
        run.note(Evidence("steps of the component analysis", components.iterations, key=Check.ITERATIONS))
        scores = sketch[: len(search.X)] @ components.unmixing.T
    else:
        scores = scores_of_start(search, warm_start)
    rule = "threshold" if variant == "paper" else "quantile"
    units = units_from_scores(search.X, search.Q, scores, search.activation, rule=rule)  # steps 4 to 8
    search.run.trace.append({"search": "components", "starts": scores.shape[1], "units": len(units.W)})
    W = units.W if variant == "paper" else complete_units(search, units.W, max_starts=max_starts)
    if len(W) >= k:
        rows = W[:k] / problem.scaling.x_scale
        condition = float(np.linalg.cond(rows / np.linalg.norm(rows, axis=1, keepdims=True)))
        run.note(Evidence("condition number of W (1 if orthonormal)", condition, key=Check.CONDITION_OF_W))
    return finish_search(search, W)
