r"""Tests for a trace of x in the residual of a fitted network, from one pass over the rows.

Problem     A least-squares network leaves a residual. Decide whether it is noise that ignores x, or the trace of a
            unit that is missing, misplaced, of another kind, or really two that are nearly parallel.
Idea        *Lack of fit.* Every output gets, beside the network, a linear part in some functions Φ of x. The test asks
            how much the sum of squares falls, to first order in the network's parameters, whose Jacobian is J:

            .. math:: F = \frac{(Q_{J,\Phi} - Q_J) / \nu}{(Q - Q_{J,\Phi}) / (n m - \nu_{J,\Phi})},         \quad (1)

            where Q is the sum of squares of the residual, :math:`Q_M` the part of it that the columns M explain, and
            ν the number of dimensions added. J and Φ are removed *together*. Taking every column of J out of every
            output would be simpler, but it would hide most of what a wrong network leaves, since J has k(d+1) + mk
            directions and not m times k(d+1).

            Adding Φ to every output is the same as adding columns to G = [H, 1], so (1) needs only the sums and the
            elimination of `refine`. For every unit Φ holds its pre-activation and the squares on both sides of its
            kink, where a unit of another kind shows first; ReLU random features are added for everything else.
            Outputs are whitened by the residual's covariance, so that noise may differ and correlate between outputs.

            *Split units.* Two units at a small angle θ with output weights A₁ and A₂ look like one with weights
            A₁ + A₂. The difference, :math:`\tfrac12 (A_1 - A_2)\, θ\, (v^⊤ x)\, 1[w^⊤ x > 0]` with v orthogonal to
            w, is spread so thinly over the functions of (1) that noise hides it, but it has rank one. For every unit,
            take the part of the whitened residual that is orthogonal to the unit's own output weights, and regress it
            on the inputs of its active side, with the network's activations taken out. If there is no second unit,
            the whitened coefficients are a matrix of standard normal entries, and its largest singular value follows
            the Tracy–Widom law (with Johnstone's scaling, Ma's correction by halves, and Chiani's gamma form of the
            law; for a single row or column it is a χ²).
            *Single inputs, pairs, neighbours.* A function of one input in one output, or the product of two inputs, is lost
            among the many functions of (1). Every input gets cosines of its ranks, up to `COSINES` half periods, and the
            coefficients of each output's residual are tested together, with the covariance that the residual itself gives
            them (White), so that the noise may have any variance. Products of inputs, clipped, are tested one by one. A
            function of many inputs that changes too fast for all of these makes the residuals of nearest neighbours agree,
            in an output or in all; so does noise that near copies of a row share. The Jacobian is not taken out, which can
            only make the coefficients smaller.
Guarantee   If the network is right, F has an F distribution: exactly for Gaussian noise of known covariance and a
            linear model, otherwise as n grows. At most half of the degrees of freedom go to Φ. The level of the
            second test is at most that of its law as n grows: the Jacobians of the other units are not taken out,
            which only shrinks the entries. With one output nothing is visible at first order in θ, and it says
            nothing.
Cost        One pass, `residual_sums`, and O((k p)³) algebra.
References  Johnstone (2001), Ann. Statist. 29; Ma (2012), Bernoulli 18; Chiani (2014), J. Multivariate Anal. 129.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import linalg, spatial, special, stats

from planted._typing import Array, as_array
from planted.checks import Check
from planted.fitting._jacobian import tangent_basis
from planted.fitting._refine import weigh_blocks
from planted.fitting._run import Problem
from planted.linalg.symmetric import column_spectrum, spectrum_of, unit_rows
from planted.moments import (
    NormalSums,
    RegressionSums,
    augment,
    hidden_rows,
    mask_rows,
    n_output_columns,
)
from planted.networks import TwoLayerNetwork
from planted.results import Evidence
from planted.rows import RowWeights, accumulate

__all__ = [
    "SPLIT_NAME",
    "ResidualSums",
    "input_trace_evidence",
    "inverse_root",
    "lack_of_fit",
    "largest_root_p_value",
    "residual_sums",
    "split_unit_p_value",
]

N_RANDOM_FEATURES = 40
COSINES = 8
INPUT_LEVEL = 1e-3  # of the tests of single inputs and pairs, all together
INPUT_ROWS = 20  # for each cosine, at least
CLIPPED = 3.0  # standard deviations of an input
NEIGHBOURS, NEIGHBOUR_ROWS = 3, 600
LEAF_ROWS = 150  # of the tree: in ten dimensions half of the time that leaves of ten take
COSINE_PRODUCTS = 2e5  # of rows, inputs and outputs: rows are left out beyond
_SLICE_ROWS = 1024
RANK_TOL = 1e-11  # of normal matrices with unit diagonal: a relative singular value of 3e-6
CLEARLY_REGULAR = 1e3  # times that: the condition is estimated, mostly within a factor of three


@dataclass(frozen=True, slots=True)
class ResidualSums:
    """Products of the rows [Z, G, Φ] with themselves and with the residual, outputs whitened.

    Z holds the inputs masked by the slope of every unit, G = [H, 1] the activations, Φ functions of x to test with.
    """

    products: Array  # (width, width): of the rows
    # (width, outputs): of the rows with the whitened residual; each output has a sum of squares of one.
    cross: Array
    A: Array  # (outputs, k): output weights, whitened like the residual
    hidden: int  # columns of Z
    own: int  # columns of Z and G
    n_samples: int  # number of rows
    tangents: Array  # (columns of Z, r): directions in which units can move at unit norm


def residual_sums(
    problem: Problem,
    network: TwoLayerNetwork,
    *,
    offset: bool,
    biases: bool = True,
    weights: RowWeights | None = None,
    known: NormalSums | None = None,
) -> ResidualSums:
    """Accumulate the sums in one pass.

    Φ holds, for every unit, its pre-activation and the squares on both sides of its kink, and ReLU random features;
    at most half of the degrees of freedom go to it. `known`: the normal equations of the network with these weights, if
    they were summed already; the products of Z and G are taken from there.
    """
    k, m, d = network.n_hidden, network.n_outputs, network.n_features
    hidden = k * (d + int(biases))
    outer = n_output_columns(network, offset=offset)
    unknowns = hidden - k + m * outer
    budget = max(int((problem.n_samples - unknowns / m) / 2), 0)
    directions = unit_rows(problem.rng.standard_normal((N_RANDOM_FEATURES, d)))[0]
    thresholds = problem.rng.standard_normal(N_RANDOM_FEATURES)
    own = hidden + outer
    probes = np.hstack([directions, thresholds[:, None]])
    summand = _ProductSummand(
        network=network,
        offset=offset,
        biases=biases,
        probes=probes,
        budget=budget,
        weights=weights,
        first=0 if known is None else own,
    )
    sums = accumulate(problem.all_rows, summand)
    is_free = np.tile(np.append(np.ones(d), float(biases)), k) > 0
    products, cross = sums.GG, sums.GY
    if known is not None:
        kept = np.append(np.flatnonzero(is_free), k * (d + 1) + np.arange(outer))
        of_own = np.block([[known.ZZ, known.GZ.T], [known.GZ, known.GG]])[np.ix_(kept, kept)]
        products = np.vstack([np.hstack([of_own, products[:, :own].T]), products])
        cross = np.vstack([np.vstack([known.ZR, known.GR])[kept], cross])
    # A combination of outputs without residual is left out.
    whiten = inverse_root(sums.YY, np.diag(sums.YY))
    tangents = tangent_basis(network, biases=biases)[is_free]
    return ResidualSums(products, cross @ whiten, whiten.T @ network.A, hidden, own, sums.count, tangents)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProductSummand:
    """The products at a network; Φ is made of the units and of the probes (direction, threshold).

    The columns from the `first` on are multiplied with all of them and with the residual.
    """

    network: TwoLayerNetwork
    offset: bool
    biases: bool
    probes: Array
    budget: int
    weights: RowWeights | None
    first: int

    def __call__(self, first_row: int, X: Array, Y: Array) -> RegressionSums:
        width = self.network.n_hidden * (self.network.n_features + 1 + 4) + len(self.probes) + X.shape[1] + 1
        memory = np.empty((width, min(_SLICE_ROWS, len(X))))  # one for all slices: fresh memory takes longer

        def of_slice(start: int) -> RegressionSums:
            here = slice(start, start + _SLICE_ROWS)
            rows, residual = self._turned(X[here], Y[here], memory)
            if self.weights is not None:
                root = np.sqrt(self.weights(first_row + start, X[here], Y[here]))
                rows, residual = rows * root, residual * root
            some, others = rows[self.first :], rows[: self.first]
            products = np.hstack(
                [(others @ some.T).T, some @ some.T]
            )  # the second is symmetric: half of the work
            return RegressionSums(residual.shape[1], products, some @ residual.T, residual @ residual.T)

        return reduce(RegressionSums.merge, map(of_slice, range(0, len(X), _SLICE_ROWS)))

    def _turned(self, X: Array, Y: Array, memory: Array) -> tuple[Array, Array]:
        """Return the columns [Z, G, Φ] as rows, written to some memory, and the residual, turned as well."""
        network, k = self.network, self.network.n_hidden
        x = np.ascontiguousarray(augment(X).T)
        inputs = x if self.biases else x[:-1]
        t = hidden_rows(network) @ x
        H = network.activation(t)
        columns = [H, *([] if network.B is None else [x[:-1]]), *([x[-1:]] if self.offset else [])]
        hidden = k * len(inputs)
        own = hidden + sum(len(column) for column in columns)
        end = own + min(self.budget, 3 * k + len(self.probes))
        rows = memory.ravel()[: len(memory) * len(X)].reshape(-1, len(X))
        mask_rows(network.activation.derivative(t).T, inputs.T, rows[:hidden])
        np.concatenate(columns, out=rows[hidden:own])
        tests = rows[own:]
        tests[:k] = t
        random = tests[k : k + len(self.probes)]
        np.matmul(self.probes[:, :-1], X.T, out=random)
        random -= self.probes[:, -1:]
        np.maximum(random, 0.0, out=random)
        squares = tests[k + len(self.probes) :]
        np.square(np.maximum(t, 0.0, out=squares[:k]), out=squares[:k])
        np.square(np.minimum(t, 0.0, out=squares[k : 2 * k]), out=squares[k : 2 * k])
        residual = network.less_linear(X, Y).T - network.A @ H
        residual -= network.c[:, None]
        return rows[:end], residual


def inverse_root(M: Array, squares: Array) -> Array:
    """Return R with R'MR = 1 on the directions in which M, scaled to unit ``squares``, is not zero to rounding.

    Which of these R is returned is not said. Shapes: M (p, p), squares (p,), result (p, rank).
    """
    regular = _regular_root(M, squares)
    return _singular_root(M, squares) if regular is None else regular


def _singular_root(M: Array, squares: Array) -> Array:
    """Return such an R from eigenvectors."""
    lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
    return spectrum_of(M / np.outer(lengths, lengths)).above(RANK_TOL).whitening() / lengths[:, None]


def _regular_root(M: Array, squares: Array) -> Array | None:
    """Return such an R from Cholesky's factor, in a tenth of the time, or None if M is not clearly regular."""
    lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
    scaled = M / np.outer(lengths, lengths)
    factor, is_singular = linalg.lapack.dpotrf(scaled) if len(M) else (scaled, True)
    size = np.abs(scaled).sum(axis=0).max(initial=0.0)
    if is_singular or size * linalg.lapack.dpocon(factor, size)[0] <= CLEARLY_REGULAR * RANK_TOL:
        return None
    return as_array(linalg.lapack.dtrtri(factor)[0] / lengths[:, None])


def lack_of_fit(sums: ResidualSums) -> tuple[float, int]:
    """Test whether functions of x explain more of the residual than noise would.

    Returns the probability of an F as large as (1) if the network is right, NaN when nothing could be tested, and the
    number of dimensions that Φ added. Without a residual there is nothing to explain.
    """
    if not len(sums.A):
        return float("nan"), 0
    plain, dimension = _explained(sums, end=sums.own)
    full, full_dimension = _explained(sums, end=len(sums.products))
    outputs, tested = len(sums.A), full_dimension - dimension
    freedom = sums.n_samples * outputs - full_dimension
    if tested <= 0 or freedom <= 0:
        return float("nan"), 0
    rest = max(outputs - full, np.finfo(float).tiny)  # each whitened output has a sum of squares of one
    # The F distribution, without dividing by what may be nothing.
    share = rest / (rest + max(full - plain, 0.0))
    return float(special.betainc(freedom / 2, tested / 2, share)), tested


def _explained(sums: ResidualSums, *, end: int) -> tuple[float, int]:
    """Return what the hidden Jacobian explains with the columns up to ``end`` free in every output."""
    products, cross, A, hidden = sums.products, sums.cross, sums.A, sums.hidden
    free = slice(hidden, end)
    root = inverse_root(products[free, free], np.diag(products)[free])
    own, mixed = root.T @ cross[free], root.T @ products[free, :hidden]
    N = weigh_blocks(products[:hidden, :hidden] - mixed.T @ mixed, A)
    remaining = (cross[:hidden] - mixed.T @ own).reshape(A.shape[1], -1, len(A))
    gradient = np.einsum("jpl,lj->jp", remaining, A).ravel()
    lengths, T = weigh_blocks(products[:hidden, :hidden], A), sums.tangents
    root_N = _regular_root(T.T @ N @ T, np.einsum("ij,ij->j", T, lengths @ T))
    # The scale of a unit moves nothing: without it the matrix is mostly regular.
    root_N = inverse_root(N, np.diag(lengths)) if root_N is None else T @ root_N
    total = float((own**2).sum() + ((root_N.T @ gradient) ** 2).sum())
    return total, root.shape[1] * len(A) + root_N.shape[1]


def input_trace_evidence(X: Array, residual: Array) -> tuple[Evidence, ...]:
    """Test whether functions of single inputs, products of two, or any smooth function are left in one output's residual.

    Nothing where there are few rows. Shapes: X (n, d), residual (n, m).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.standard_normal((400, 3)), rng.standard_normal((400, 2))
    >>> [line.passed for line in input_trace_evidence(X, noise)]
    [True]
    >>> [line.passed for line in input_trace_evidence(X, noise + 0.7 * np.sin(3 * X[:, :1]))]
    [False]
    >>> [line.passed for line in input_trace_evidence(X, noise + 0.4 * X[:, :1] * X[:, 1:2])]
    [False]
    >>> [line.passed for line in input_trace_evidence(X, noise + 1.5 * np.sin(2 * X @ np.ones((3, 1))))]
    [False]
    """
    (n, d), m = X.shape, residual.shape[1]
    if n < INPUT_ROWS * COSINES:
        return ()
    some = np.linspace(0, n - 1, int(np.clip(COSINE_PRODUCTS / (d * m), INPUT_ROWS * COSINES, n))).astype(
        np.int64
    )
    X, residual = X[some], residual[some]
    of_inputs = _cosine_p_values(X, residual).min(axis=1)
    score, pair = _pair_score(X, residual)
    tests = {
        f"a function of input {int(np.argmin(of_inputs))}": d * m * float(of_inputs.min()),
        f"the product of inputs {pair[0]} and {pair[1]}": d * (d - 1) * m * float(special.ndtr(-score)),
        "what neighbouring rows share": (m + 1) * float(special.ndtr(-_neighbour_score(X, residual))),
    }
    if d == 1:
        del tests[f"the product of inputs {pair[0]} and {pair[1]}"]
    name = min(tests, key=lambda key: tests[key])
    return (
        Evidence(
            f"p-value of the test for {name} in the residual",
            min(1.0, len(tests) * tests[name]),
            INPUT_LEVEL,
            ">=",
            key=Check.INPUT_TRACE,
        ),
    )


def _cosine_p_values(X: Array, residual: Array) -> Array:
    """Return the p-value of each output's residual for functions of each input.

    The product of two cosines is half the sum of two others, so that sums of 2 `COSINES` + 1 of them give all covariances.
    Shapes: X (n, d), residual (n, m), result (d, m).
    """
    (n, d), m = X.shape, residual.shape[1]
    first = np.cos(np.pi / n * (_ranks(np.ascontiguousarray(X.T)) - 0.5))
    both = np.hstack([residual, residual**2])
    sums = np.empty((2 * COSINES + 1, d, 2 * m))
    sums[0] = both.sum(axis=0)
    older, C = np.ones_like(first), first.copy()
    for order in range(1, len(sums)):
        sums[order] = C @ both
        older *= -1
        older += 2 * first * C
        older, C = C, older
    scores, sums = sums[1 : COSINES + 1, :, :m], sums[:, :, m:]
    orders = np.arange(1, COSINES + 1)
    covariances = (sums[np.abs(orders[:, None] - orders)] + sums[orders[:, None] + orders]) / 2
    values, vectors = np.linalg.eigh(covariances.transpose(2, 3, 0, 1))
    kept = values > np.maximum(RANK_TOL * values[..., -1:], np.finfo(float).tiny)
    along = (scores.transpose(1, 2, 0)[:, :, None] @ vectors)[:, :, 0]
    squares = np.where(kept, along**2 / np.where(kept, values, 1.0), 0.0).sum(axis=2)
    return as_array(special.chdtrc(np.maximum(kept.sum(axis=2), 1), squares))


def _ranks(columns: Array) -> Array:
    """Return the places of numbers in the order of their row, from one on; equal ones share the mean of theirs.

    Shapes: columns and result (d, n).
    """
    order = np.argsort(columns, axis=1)
    ordered = np.take_along_axis(columns, order, axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        return as_array(stats.rankdata(columns, axis=1))
    ranks = np.empty_like(columns)
    np.put_along_axis(ranks, order, np.arange(1.0, columns.shape[1] + 1)[None], axis=1)
    return ranks


def _pair_score(X: Array, residual: Array) -> tuple[float, tuple[int, int]]:
    """Return the largest score of the product of two inputs in an output, and the two."""
    d, Z = X.shape[1], np.clip(X, -CLIPPED, CLIPPED)
    turned, columns = (np.ascontiguousarray(values.T) for values in (Z, residual))
    weighted = (columns[:, None] * turned).reshape(-1, len(X))
    sums, squares = weighted @ Z, weighted**2 @ Z**2
    scores = np.abs(sums) / np.sqrt(np.maximum(squares, np.finfo(float).tiny))
    scores = np.triu(scores.reshape(-1, d, d), 1)
    first, second = divmod(int(np.argmax(scores)) % d**2, d)
    return float(scores.max()), (first, second)


def _neighbour_score(X: Array, residual: Array) -> float:
    """Return by how much the residuals of nearest neighbours agree, in standard errors: of an output, or of all."""
    some = np.linspace(0, len(X) - 1, min(len(X), NEIGHBOUR_ROWS)).astype(np.int64)
    products = residual.T @ residual
    u = residual[some] @ column_spectrum(products).above(RANK_TOL).whitening()
    if not u.shape[1]:
        return 0.0
    nearest = spatial.KDTree(X[some], leafsize=LEAF_ROWS).query(X[some], k=NEIGHBOURS + 1)[1][:, 1:]
    rows, others = np.repeat(np.arange(len(some)), NEIGHBOURS), nearest.ravel()
    low, high = np.minimum(rows, others), np.maximum(rows, others)
    low, high = np.divmod(np.unique((low * len(some) + high)[low != high]), len(some))
    terms = u[low] * u[high]
    terms = np.column_stack([terms, terms.sum(axis=1)])
    scores = terms.sum(axis=0) / np.maximum(np.linalg.norm(terms, axis=0), np.finfo(float).tiny)
    return float(scores.max())


SPLIT_NAME = "p-value of the test whether a unit is two nearly parallel ones"

# Tracy–Widom of order 1 as a gamma variable: shape, scale, shift.
GAMMA = (46.446, 0.186054, 9.84801)


def split_unit_p_value(sums: ResidualSums) -> tuple[float, int]:
    """Test every unit for a second one nearly parallel to it.

    Returns the p-value of the most suspicious unit, times the number of units, and that unit; NaN and -1 where
    nothing could be tested.
    """
    A, k = sums.A, sums.A.shape[1]
    if k == 0 or len(A) < 2:
        return float("nan"), -1
    freedom = sums.n_samples - (sums.hidden - k) / len(A) - (sums.own - sums.hidden)
    free = slice(sums.hidden, sums.own)
    root = inverse_root(sums.products[free, free], np.diag(sums.products)[free])
    p_values = np.array([_unit_p_value(sums, unit, freedom, root) for unit in range(k)])
    if freedom <= 0 or np.isnan(p_values).all():
        return float("nan"), -1
    unit = int(np.nanargmin(p_values))
    return min(1.0, k * float(p_values[unit])), unit


def _unit_p_value(sums: ResidualSums, unit: int, freedom: float, root: Array) -> float:
    """Return the p-value of the largest singular value of the unit's coefficients; `root` whitens the activations."""
    width = sums.hidden // sums.A.shape[1]
    masked, free = slice(unit * width, (unit + 1) * width), slice(sums.hidden, sums.own)
    shared = sums.products[masked, free] @ root
    gram = sums.products[masked, masked] - shared @ shared.T
    score = sums.cross[masked] - shared @ (root.T @ sums.cross[free])
    white = _singular_root(
        gram, np.diag(sums.products)[masked]
    )  # along the unit's own weights nothing is left
    weights, size = sums.A[:, unit], float(np.linalg.norm(sums.A[:, unit]))
    coefficients = white.T @ score
    if size > 0:
        coefficients = coefficients - np.outer(coefficients @ (weights / size), weights / size)
    shape = len(coefficients), len(weights) - int(size > 0)
    if 0 in shape:
        return float("nan")
    largest = freedom * float(np.linalg.eigvalsh(coefficients.T @ coefficients)[-1])
    return largest_root_p_value(largest, shape)


def largest_root_p_value(value: float, shape: tuple[int, ...]) -> float:
    """Return how often a matrix of standard normal entries has a larger squared singular value.

    Compared with simulation the probability is right to a tenth at 0.02 and, for the smallest shapes, to a factor of
    three at 0.002.

    Examples
    --------
    >>> round(largest_root_p_value(3.841, (1, 1)), 3)
    0.05
    """
    a, b = sorted(shape)
    if a == 1:
        return float(special.chdtrc(b, value))
    sides = np.sqrt([a - 0.5, b - 0.5])
    scale = sides.sum() * (1 / sides).sum() ** (1 / 3)
    gamma_shape, gamma_scale, shift = GAMMA
    place = max((value - sides.sum() ** 2) / scale + shift, 0.0)
    return float(special.gammaincc(gamma_shape, place / gamma_scale))
