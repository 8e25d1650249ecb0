r"""Recover a network by joint diagonalisation of Hermite moments across outputs (BJW18 §4.2).

Problem     Noiseless Y = f(X W') A' with f rectified, x normal (any covariance), W and A of full rank k ≤ d, m.
            Sought: W and A, signs included.
Idea        For whitened x and He_q the Hermite tensor of degree q, Stein's identity gives for each output l

            .. math:: E[y_l\, He_q(x)] = \sum_i c_q\, A_{li}\, w_i^{\otimes q}, \qquad c_q = E[f^{(q)}(t)] .    \quad (1)

            For q = 2 these are m matrices W' diag(A_l) W, diagonalised together by one congruence, which gives the
            w_i up to sign and scale (`linalg.joint_diagonalisation`). For q = 3, 4 contract with random vectors
            first. Each direction, with the sign that `direction_signs` prefers and else with both, ranks the samples;
            the null space on the lowest of them is the unit, exactly, and exists for the right sign only (Algorithm 5,
            `quantile_null_space`).
Guarantee   Theorem 7 of [BJW18]_: exact with high probability from polynomially many samples. Kind: exact, once
            certified.
Notation    paper: A (ours Y'), U (A), V (W), S_3 (He_3), v_i (a direction before its sign is known).
Departures  ``variant="paper-third-order"`` is Algorithm 4 as printed, up to its tensor power method (joint
            diagonalisation of the contracted tensor instead) and the noise it adds to the outputs, which can only
            harm; five mixtures of the outputs instead of one, since a unit that a mixture happens to weaken is lost.
            It cannot work for the ReLU: the third derivative of f is that of Dirac's function, and c_3 = E[δ'(t)] = 0
            for t symmetric. The same holds for every t₊^p when q - p is even and at least two, in particular q = 4
            for t₊². It is refused with this reason.
            ``variant="second-order"`` (default) reads the matrices of q = 2 from a regression of Y on 1, x and its
            products, which removes the sampling error of the linear part. ``rule="threshold"`` is Algorithm 5's own
            way to choose rows; the default is the quantile. Units that no direction leads to are searched for at
            random (not in the paper's variant).
Cost        A regression with 1 + d + d(d+1)/2 features, O(n d⁴); or k contractions of O(n d²).
References  [BJW18]_
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array, Progress, Seed
from planted._validation import check_choice
from planted.certificates.searches._exact_units import (
    ExactSearch,
    begin_search,
    complete_units,
    finish_search,
    give_up,
)
from planted.checks import Check
from planted.fitting.units._direction_signs import signs_of_preactivations
from planted.fitting.units._quantile_null_space import units_from_scores
from planted.fitting.units._warm_start import WarmStart, scores_of_start
from planted.linalg import column_space, diagonalise_by_congruence, numerical_rank, smat, svec_outer
from planted.moments import augment
from planted.networks import Activation
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Requirements
from planted.rows import RowBlocks

__all__ = [
    "directions_of_matrices",
    "hermite_directions",
    "recover_joint_diagonalisation",
    "vanishing_coefficient",
]

ORDERS = {"second-order": 2, "paper-third-order": 3, "fourth-order": 4}
MAX_REGRESSION = 1500  # features of the quadratic regression
ROWS_PER_FEATURE = 1.5  # below, raw moments are used
MIXTURES = 5  # random mixtures of the outputs, one tensor each, for orders three and four
CONTRACTIONS = 4  # times k random contractions of the tensors of order three and four


def recover_joint_diagonalisation(
    blocks: RowBlocks,
    n_hidden: int | str = "auto",
    *,
    variant: str = "second-order",
    rule: str = "quantile",
    warm_start: WarmStart | None = None,
    max_starts: int = 2000,
    activation: str = "relu",
    random_state: Seed = None,
    progress: Progress | None = None,
) -> Recovery:
    """Recover a network from Hermite moments of normal inputs.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    n_hidden : int or "auto"
        Number of units; the rank of the outputs if "auto".
    variant : {"second-order", "fourth-order", "paper-third-order"}
        Which moments; the third is the printed one.
    rule : {"quantile", "threshold"}
        Rows that are surely off, or the printed threshold.
    warm_start : TwoLayerNetwork, Recovery or mapping, optional
        An approximate network, or ``{"W": W}`` or ``{"A": A}``, in place of the moments.
    max_starts : int
        Random starts for units that the moments do not lead to; none in the paper's variant.
    activation : str
        ``"relu"`` or a rectified power such as ``"power:2"``.
    random_state : int, Generator, SeedSequence or None
        Seed of the solver.
    progress : callable, optional
        Told what is being done.

    Returns
    -------
    Recovery
        The network with its evidence.
    """
    check_choice("variant", variant, ORDERS)
    options = {
        "n_hidden": n_hidden,
        "variant": variant,
        "rule": rule,
        "warm_start": warm_start is not None,
        "max_starts": max_starts,
        "activation": activation,
    }
    search = begin_search(blocks, REQUIRES, options, random_state=random_state, progress=progress)
    if isinstance(search, Recovery):
        return search
    if warm_start is not None:
        scores = scores_of_start(search, warm_start)
    else:
        refusal = _refuse_moments(search, ORDERS[variant])
        if refusal is not None:
            return refusal
        scores = _scores_of_moments(search, ORDERS[variant])
    as_printed = variant == "paper-third-order" or rule == "threshold"
    likely = scores if as_printed or warm_start is not None else _likely_signs(search, scores)
    units = units_from_scores(search.X, search.Q, likely, search.activation, rule=rule)
    if len(units.W) < search.n_hidden and likely is not scores:
        units = units_from_scores(search.X, search.Q, scores, search.activation, rule=rule)
    search.trace.append({"search": "moments", "starts": scores.shape[1], "units": len(units.W)})
    W = units.W if as_printed else complete_units(search, units.W, max_starts=max_starts)
    return finish_search(search, W)


def vanishing_coefficient(activation: Activation, order: int) -> bool:
    """Decide whether c_q of (1) is zero for a rectified power and a normal variable of mean zero.

    Returns whether q - p is even and at least two.

    Examples
    --------
    >>> from planted.networks import parse_activation
    >>> [vanishing_coefficient(parse_activation("relu"), order) for order in (2, 3, 4)]
    [False, True, False]
    """
    beyond = order - activation.degree
    return beyond >= 2 and beyond % 2 == 0


def _refuse_moments(search: ExactSearch, order: int) -> Recovery | None:
    """Refuse moments without signal, and more units than inputs."""
    k, d = search.n_hidden, search.problem.n_features
    if k > d:
        text = f"{k} units, but {d} inputs; joint diagonalisation needs k <= d."
        search.evidence.append(Evidence("inputs", d, k, ">=", "k <= d", key=Check.INPUTS))
        return give_up(search, text, outcome=Outcome.ASSUMPTION_FAILED)
    centred = search.X - search.X.mean(axis=0)
    spanned = numerical_rank(column_space(centred)[1])
    if spanned < d:
        text = f"The inputs vary in {spanned} of {d} dimensions; normal inputs vary in all."
        search.evidence.append(
            Evidence(
                "dimensions in which the inputs vary", spanned, d, "==", "rank of Cov x", key=Check.INPUT_RANK
            )
        )
        return give_up(search, text, outcome=Outcome.ASSUMPTION_FAILED)
    if vanishing_coefficient(search.activation, order):
        name = search.activation.name
        text = (
            f"The moments of order {order} of {name!r} vanish: E[f^({order})(t)] = 0 for normal t of mean zero, so that "
            "they hold sampling noise alone. Use variant='second-order'."
        )
        search.evidence.append(
            Evidence(
                f"Gaussian coefficient of order {order}",
                0.0,
                0.0,
                ">",
                "E[f^(q)(t)] != 0",
                key=Check.GAUSSIAN_COEFFICIENT,
            )
        )
        return give_up(search, text, outcome=Outcome.ASSUMPTION_FAILED)
    return None


def _scores_of_moments(search: ExactSearch, order: int) -> Array:
    """Rank the samples by every direction, with both signs."""
    problem, rng = search.problem, search.problem.rng
    rounds = 1 if order == 2 else MIXTURES
    W = np.vstack(
        [
            hermite_directions(problem.X, problem.Y, search.n_hidden, order=order, rng=rng)
            for _ in range(rounds)
        ]
    )
    forward = search.X @ W.T
    return np.hstack([forward, -forward])


def _likely_signs(search: ExactSearch, scores: Array) -> Array:
    """Keep the sign of every direction that `direction_signs` prefers; all of them where it cannot tell."""
    forward = scores[:, : scores.shape[1] // 2]
    signs = signs_of_preactivations(forward, search.problem.Y[: len(forward)], activation=search.activation)
    return scores if signs is None else np.asarray(forward * signs)


def hermite_directions(
    X: Array, Y: Array, n_hidden: int, *, order: int = 2, rng: np.random.Generator
) -> Array:
    """Estimate the hidden directions, up to sign, from the moments (1).

    Shapes: X (n, d), Y (n, m), result (k, d).
    """
    centred = X - X.mean(axis=0)
    root = linalg.cholesky(centred.T @ centred / len(X), lower=True, check_finite=False)
    white = linalg.solve_triangular(root, centred.T, lower=True, check_finite=False).T
    matrices = (
        _second_order(white, Y) if order == 2 else _contracted(white, Y, n_hidden, order=order, rng=rng)
    )
    white_rows = directions_of_matrices(matrices, n_hidden, rng)
    W = linalg.solve_triangular(root, white_rows.T, lower=True, trans=1, check_finite=False).T
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def directions_of_matrices(matrices: Array, n_hidden: int, rng: np.random.Generator) -> Array:
    """Find w_1, ..., w_k from matrices W' D W with diagonal D.

    Returns unit rows, in any order and with any sign. Shapes: matrices (T, d, d), result (k, d).
    """
    basis = linalg.eigh(np.einsum("tij,tkj->ik", matrices, matrices), check_finite=False)[1][:, -n_hidden:]
    factor = diagonalise_by_congruence(basis.T @ matrices @ basis, rng)
    return np.asarray((basis @ factor.Z).T)


def _second_order(X: Array, Y: Array) -> Array:
    """Return the m matrices of order two, from a regression where there are rows enough."""
    n, d = X.shape
    products = d * (d + 1) // 2
    if 1 + d + products <= min(MAX_REGRESSION, n / ROWS_PER_FEATURE):
        features = np.hstack([augment(X), svec_outer(X)])
        coefficients = linalg.lstsq(features, Y, check_finite=False)[0][d + 1 :]
        return np.asarray(smat(coefficients.T))
    residual = _without_linear_part(X, Y)
    moments = np.einsum("nl,ni,nj->lij", residual, X, X, optimize=True) / n
    return np.asarray(moments - residual.mean(axis=0)[:, None, None] * np.eye(d))


def _contracted(X: Array, Y: Array, k: int, *, order: int, rng: np.random.Generator) -> Array:
    """Return contractions of one mixed output's tensor of order three or four with random vectors."""
    n, d = X.shape
    r = _without_linear_part(X, Y) @ rng.standard_normal(Y.shape[1])
    matrices = []
    for u in rng.standard_normal((CONTRACTIONS * k, d)):
        u = u / np.linalg.norm(u)
        s = X @ u
        weight = r * s if order == 3 else r * s**2
        matrix = (X * weight[:, None]).T @ X / n
        if (
            order == 4
        ):  # the other terms of He_3 and He_4 are averages of r, or of r x, and vanish; not so r x x'
            edge = 2 * X.T @ (r * s) / n
            matrix -= np.outer(edge, u) + np.outer(u, edge) + weight.mean() * np.eye(d)
            matrix -= (X * r[:, None]).T @ X / n
        matrices.append(matrix)
    return np.array(matrices)


def _without_linear_part(X: Array, Y: Array) -> Array:
    """Subtract what 1 and x explain: it has no moment of order two or more, but much of the sampling error."""
    rows = augment(X)
    return np.asarray(Y - rows @ linalg.lstsq(rows, Y, check_finite=False)[0])
