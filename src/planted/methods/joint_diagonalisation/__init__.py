r"""Recover a network by joint diagonalisation of Hermite moments across outputs (BJW18 §4.2).

Problem     Noiseless Y = f(X W') A' with f rectified, x normal (any covariance), W and A of full rank k ≤ d, m.
            Sought: W and A, signs included.
Idea        1. For whitened x and He_q the Hermite tensor of degree q, Stein's identity gives for each output l

               .. math:: E[y_l\, He_q(x)] = \sum_i c_q\, A_{li}\, w_i^{\otimes q}, \qquad c_q = E[f^{(q)}(t)] .  \quad (1)

               For q = 2 these are m matrices W' diag(c_2 A_l) W. One congruence diagonalises them together, which gives
               the w_i up to sign and scale (`diagonalise_by_congruence`). For q = 3 and 4 the tensors are contracted
               with random vectors first.
            2. A direction, with the sign that fits the outputs better and else with both, ranks the samples. The null
               space of Y on the lowest of them is the unit, exactly, and exists for the right sign only (Algorithm 5).
            3. Find A by least squares.
Guarantee   Theorem 7 of [BJW18]_: exact with high probability from polynomially many samples. Kind: exact, once
            certified.
Notation    paper: A (ours Y'), U (A), V (W), S_3 (He_3), v_i (a direction before its sign is known).
Departures  ``variant="paper-third-order"`` is Algorithm 4 (`printed`). It cannot work for the ReLU: the third derivative
            of f is that of Dirac's function, and c_3 = E[δ'(t)] = 0 for t symmetric. The same holds for every t₊^p when
            q - p is even and at least two, in particular for q = 4 and t₊². Such orders are refused with this reason.
            ``variant="second-order"`` (default) reads the matrices of q = 2 from a regression of Y on 1, x and its
            products, which removes the sampling error of the linear part. ``rule="threshold"`` is Algorithm 5 on the first
            ℓ rows, ``rule="blocks"`` the same box on one block of ℓ rows after another; the default takes the lowest 30 %
            of all rows and iterates. Units that no direction leads to are searched for at random (not in the paper's
            variants).
Cost        A regression with 1 + d + d(d+1)/2 features, O(n d⁴); or 4k contractions of O(n d²) for each of five mixtures.
References  [BJW18]_
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
from planted.fitting.units._direction_signs import signs_of_preactivations
from planted.fitting.units._hermite_directions import hermite_directions
from planted.fitting.units._quantile_null_space import units_from_scores
from planted.linalg import column_space, numerical_rank
from planted.methods.joint_diagonalisation.printed import MIXTURES, TAU, algorithm_4, algorithm_5
from planted.networks import Activation
from planted.results import Evidence, Recovery

__all__ = ["recover", "vanishing_coefficient"]

ORDERS = {"second-order": 2, "paper-third-order": 3, "fourth-order": 4}
RULES = ("quantile", "threshold", "blocks")


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    variant: str = "second-order",
    rule: str = "quantile",
    ell: int | str = "auto",
    tau: float = TAU,
    warm_start: WarmStart | None = None,
    max_starts: int = 2000,
    activation: str = "relu",
) -> Recovery:
    """Recover a network from Hermite moments of normal inputs.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; the rank of the outputs if "auto".
    variant : {"second-order", "fourth-order", "paper-third-order"}
        Which moments; the third is the printed one.
    rule : {"quantile", "threshold", "blocks"}
        Rows that are surely off, the printed threshold on the first ℓ rows, or on one block of ℓ rows after another.
    ell : int or "auto"
        The paper's ℓ: rows of the exact step; four times the larger of d and k if "auto".
    tau : float
        The paper's τ: scores up to this part of their spread count as zero.
    warm_start : TwoLayerNetwork, Recovery or mapping, optional
        An approximate network, or ``{"W": W}`` or ``{"A": A}``, in place of the moments.
    max_starts : int
        Random starts for units that the moments do not lead to; none in the paper's variant.
    activation : str
        ``"relu"``, a rectified power such as ``"power:1.5"``, or a function registered with its inverse
        (`planted.register_activation`).

    Returns
    -------
    Recovery
        The network with its evidence.
    """
    check_choice("variant", variant, ORDERS)
    check_choice("rule", rule, RULES)
    search = begin_search(run, activation)
    if warm_start is None:
        _check_moments(search, ORDERS[variant])
        scores = _scores_of_moments(search, ORDERS[variant])  # step 1
    else:
        scores = scores_of_start(search, warm_start)  # §4.3
    if rule != "quantile":
        box = partial(algorithm_5, activation=search.activation, tau=tau)
        W = units_as_printed(search, box, scores, ell=ell, in_blocks=rule == "blocks")  # step 2
    elif variant == "paper-third-order" or warm_start is not None:
        W = units_from_scores(search.X, search.Q, scores, search.activation).W
    else:
        W = _units_of_likely_signs(search, scores)
    run.trace.append({"search": "moments", "starts": scores.shape[1], "units": len(W)})
    if variant != "paper-third-order" and rule == "quantile":
        W = complete_units(search, W, max_starts=max_starts)
    return finish_search(search, W)  # step 3


def vanishing_coefficient(activation: Activation, order: int) -> bool:
    """Decide whether c_q of (1) is zero for a rectified power t₊^p: whether q - p is even and at least two."""
    beyond = order - activation.degree
    return not activation.is_curved and beyond >= 2 and beyond % 2 == 0


def _check_moments(search: ExactSearch, order: int) -> None:
    """Refuse more units than inputs, inputs that do not vary in all dimensions, and moments without signal."""
    run, k, d = search.run, search.n_hidden, search.problem.n_features
    run.refuse_unless(
        Evidence("inputs", d, k, ">=", "k <= d", key=Check.INPUTS),
        detail=f"{k} units, but {d} inputs; joint diagonalisation needs k <= d.",
    )
    spanned = numerical_rank(column_space(search.X - search.X.mean(axis=0))[1])
    name, equation = "dimensions in which the inputs vary", "rank of Cov x"
    run.refuse_unless(
        Evidence(name, spanned, d, "==", equation, key=Check.INPUT_RANK),
        detail=f"The inputs vary in {spanned} of {d} dimensions; normal inputs vary in all.",
    )
    if vanishing_coefficient(search.activation, order):
        text = (
            f"The moments of order {order} of {search.activation.name!r} vanish: E[f^({order})(t)] = 0 for normal t of "
            "mean zero, so that they hold sampling noise alone. Use variant='second-order'."
        )
        name, equation = f"Gaussian coefficient of order {order}", "E[f^(q)(t)] != 0"
        run.require(Evidence(name, 0.0, 0.0, ">", equation, key=Check.GAUSSIAN_COEFFICIENT), detail=text)


def _scores_of_moments(search: ExactSearch, order: int) -> Array:
    """Rank the samples by every direction that the moments of an order show, with both signs."""
    X, Y, k, rng = search.problem.X, search.problem.Y, search.n_hidden, search.problem.rng
    if order == 2:
        V = hermite_directions(X, Y, k, rng=rng)
    elif order == 3:
        V = algorithm_4(X, Y, k, rng=rng)
    else:
        V = np.vstack([hermite_directions(X, Y, k, order=order, rng=rng) for _ in range(MIXTURES)])
    forward = search.X @ V.T
    return np.hstack([forward, -forward])


def _units_of_likely_signs(search: ExactSearch, scores: Array) -> Array:
    """Make units exact with the sign that §5 prefers for each direction; with both where that leaves units out."""
    forward = scores[:, : scores.shape[1] // 2]
    signs = signs_of_preactivations(forward, search.problem.Y[: len(forward)], activation=search.activation)
    if signs is not None:
        W = units_from_scores(search.X, search.Q, np.asarray(forward * signs), search.activation).W
        if len(W) >= search.n_hidden:
            return W
    return units_from_scores(search.X, search.Q, scores, search.activation).W
