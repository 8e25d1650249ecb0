"""Hermite features, weighted Gram sums, tensors and fits, against brute force and quadrature."""

from __future__ import annotations

from itertools import product
from math import factorial, prod
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy import integrate

from planted import TwoLayerNetwork, simulate
from planted.linalg import smat, svec
from planted.moments import (
    Draws,
    HermiteTensors,
    SampleHermite,
    accumulate_grams,
    design_size,
    fit_polynomial,
    hermite_values,
    leading_span,
    relu_coefficients,
    whitening_map,
)
from planted.moments._hermite_fit import hermite_design, hermite_exponents
from planted.moments.population_hermite import PopulationHermite
from planted.outcomes import BadInputError
from planted.rows import RowBlocks

ROWS_SEED, DRAW_SEED = 1, 2


def _rows(n: int, d: int, m: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(ROWS_SEED)
    return rng.standard_normal((n, d)), rng.standard_normal((n, m))


def _full_tensor(x: Any, order: int) -> Any:
    """He_order(x) as a d × ... × d array, entry by entry from one-dimensional polynomials."""
    d = len(x)
    values = hermite_values(x, order)
    tensor = np.empty((d,) * order)
    for slots in product(range(d), repeat=order):
        tensor[slots] = prod(values[slots.count(i), i] for i in range(d))
    return tensor


def _average(X: Any, y: Any, order: int) -> Any:
    return sum(weight * _full_tensor(x, order) for x, weight in zip(X, y, strict=True)) / len(X)


def _pairs_first(tensor: Any) -> Any:
    """Vectorise the two leading slots."""
    return np.moveaxis(svec(np.moveaxis(tensor, (0, 1), (-2, -1))), -1, 0)


def test_values_are_those_of_numpy() -> None:
    t = np.linspace(-3, 3, 7)
    for order, row in enumerate(hermite_values(t, 6)):
        assert np.allclose(row, hermite_e.hermeval(t, [0] * order + [1]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("b", [-1.3, 0.0, 0.4, 2.0])
def test_relu_coefficients_are_the_integrals(b: float) -> None:
    """E[σ(t + b) He_j(t)] for t ~ N(0, 1); the integral starts at the kink."""
    for order, value in enumerate(relu_coefficients(np.array([b]), 6)[:, 0]):

        def integrand(t: float, order: int = order) -> float:
            density = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
            return float((t + b) * hermite_values(np.array([t]), order)[order, 0] * density)

        expected, _ = integrate.quad(integrand, -b, 12.0, epsabs=1e-13)
        assert value == pytest.approx(expected, abs=1e-10)


def test_derivative_of_a_coefficient_is_the_next() -> None:
    b, step = np.linspace(-2, 2, 9), 1e-6
    slope = (relu_coefficients(b + step, 5) - relu_coefficients(b - step, 5)) / (2 * step)
    assert np.abs(slope - relu_coefficients(b, 6)[1:]).max() < 1e-8


def test_tensors_are_averages_of_full_hermite_tensors() -> None:
    X, Y = _rows(40, 3, 2)
    found = SampleHermite(RowBlocks.from_arrays(X, Y, block_rows=7), (3, 2)).tensors()
    for output in range(2):
        full = [_average(X, Y[:, output], order) for order in range(1, 5)]
        assert np.allclose(found.first[output], full[0])
        assert np.allclose(found.second[output], full[1])
        assert np.allclose(found.third[output], _pairs_first(full[2]))
        assert np.allclose(found.fourth[output], svec(_pairs_first(full[3])))


@pytest.mark.parametrize("degree", [None, 1, 2, 4])
@pytest.mark.parametrize("order", [1, 2])
def test_contractions_are_those_of_full_tensors(order: int, degree: int | None) -> None:
    """Orders 3 to 6 contracted, from rows with or without a polynomial taken out; T_j of the fit is added back."""
    X, Y = _rows(60, 2, 2)
    blocks = RowBlocks.from_arrays(X, Y)
    fit = None if degree is None else fit_polynomial(blocks, degree)
    draws = Draws.random(2, 2, 2, rng=np.random.default_rng(DRAW_SEED))
    found = SampleHermite(blocks, (2, 2), fit).contract(order, draws)
    j = 2 * order
    left = Y if fit is None else Y - fit(X)
    known = None if fit is None else fit.tensors()
    for draw, (theta, eta, mix) in enumerate(zip(draws.theta, draws.eta, draws.outputs, strict=True)):
        full = [_average(X, left @ mix, j + extra) for extra in (0, 1, 2)]
        full[1] = full[1] @ theta
        full[2] = full[2] @ theta @ eta
        matrices = full if order == 1 else [svec(_pairs_first(part)) for part in full]
        if known is not None and fit is not None and fit.degree >= j:
            matrices[0] = matrices[0] + np.tensordot(mix, known.second if order == 1 else known.fourth, 1)
        if known is not None and fit is not None and fit.degree == 4 and order == 1:
            mixed = (np.outer(theta, eta) + np.outer(eta, theta)) / 2
            matrices[1] = matrices[1] + np.tensordot(mix, known.contract_third(theta), 1)
            matrices[2] = matrices[2] + np.tensordot(mix, known.contract_fourth(mixed), 1)
        for stack, matrix in zip((found.base, found.odd, found.even), matrices, strict=True):
            assert np.allclose(stack[draw], matrix, atol=1e-10)


def test_sums_merge_and_halves_make_the_whole() -> None:
    X, Y = _rows(50, 3, 1)
    blocks = RowBlocks.from_arrays(X, Y, block_rows=11)

    def weights(inputs: Any, outputs: Any) -> Any:
        return outputs * inputs[:, :1]

    whole = accumulate_grams(blocks, weights, quadratic=True)
    parts = [
        accumulate_grams(RowBlocks.from_arrays(X[rows], Y[rows]), weights, quadratic=True)
        for rows in (slice(0, 20), slice(20, 50))
    ]
    assert np.allclose(parts[0].merge(parts[1]).squares, whole.squares)
    assert whole.counts.tolist() == [25.0, 25.0]
    even = accumulate_grams(RowBlocks.from_arrays(X[::2], Y[::2]), weights, quadratic=True)
    assert np.allclose(even.moment(0, 4), whole.moment(0, 4, 0))
    assert np.allclose((whole.moment(0, 3, 0) + whole.moment(0, 3, 1)) / 2, whole.moment(0, 3))


def test_sampling_error_is_that_of_repeated_samples() -> None:
    """Half the difference of halves estimates the spectral error; a factor of 1.5 is some four standard errors."""
    net = simulate.teacher(3, 2, bias=(-1, 1), random_state=3)
    draws = Draws.random(2, 3, 1, rng=np.random.default_rng(DRAW_SEED))
    exact = PopulationHermite(net).contract(1, draws)
    measured, true = [], []
    for seed in range(30):
        X = simulate.inputs(2_000, 3, random_state=100 + seed)
        found = SampleHermite(RowBlocks.from_arrays(X, net(X)), (3, 1)).contract(1, draws)
        measured.append(found.noise)
        pairs = ((found.base, exact.base), (found.odd, exact.odd), (found.even, exact.even))
        true.append([(np.linalg.norm(a - b, 2, axis=(1, 2)) ** 2).mean() for a, b in pairs])
    ratio = np.sqrt(np.mean(np.square(measured), axis=0) / np.mean(true, axis=0))
    assert (ratio < 1.5).all() and (ratio > 1 / 1.5).all()


def test_values_along_directions_agree() -> None:
    """Rows, tensors and the closed form: E[y He_j(w'x)], with a fit of degree 4 taken out and added back."""
    net = simulate.teacher(4, 3, 2, bias=(-1, 1), random_state=4)
    X = simulate.inputs(3_000, 4, random_state=5)
    blocks = RowBlocks.from_arrays(X, net(X))
    W = simulate.teacher(4, 3, random_state=6).W
    brute = np.stack([net(X).T @ values / len(X) for values in hermite_values(X @ W.T, 6)])
    assert np.allclose(SampleHermite(blocks, (4, 2)).along(W, 6), brute)
    assert np.allclose(SampleHermite(blocks, (4, 2)).tensors().along(W, 4), brute[:5])
    fit = fit_polynomial(blocks, 4)
    reduced = SampleHermite(blocks, (4, 2), fit).along(W, 6)
    exact = PopulationHermite(net).along(W, 6)
    errors = [np.abs(values - exact).max(axis=(1, 2)) for values in (brute, reduced)]
    assert (errors[1][1:5] < errors[0][1:5] / 2).all()  # the variance falls by 40 and more
    assert np.allclose(PopulationHermite(net).tensors().along(W, 4), exact[:5])


def test_the_design_is_orthonormal_and_its_exponents_say_what_it_is() -> None:
    X = np.random.default_rng(7).standard_normal((6, 3))
    design, exponents = hermite_design(X, 4), hermite_exponents(3, 4)
    assert design.shape == (design_size(3, 4), 6) and len(np.unique(exponents, axis=0)) == 35
    for row, alpha in zip(design, exponents, strict=True):
        values = [hermite_values(X[:, i], 4)[power] for i, power in enumerate(alpha)]
        scale = np.sqrt(prod(factorial(power) for power in alpha))
        assert np.allclose(row, np.prod(values, axis=0) / scale)
    nodes, weights = hermite_e.hermegauss(9)
    grid = np.array(list(product(nodes, repeat=2)))
    mass = np.array([a * b for a, b in product(weights, repeat=2)]) / (2 * np.pi)
    columns = hermite_design(grid, 4)
    assert np.allclose((columns * mass) @ columns.T, np.eye(15), atol=1e-12)


def test_a_polynomial_is_fitted_exactly() -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((400, 3))
    y = 1 + X[:, 0] ** 4 - 2 * X[:, 0] * X[:, 1] * X[:, 2] + X[:, 1] ** 2
    fit = fit_polynomial(RowBlocks.from_arrays(X, y[:, None]), 4)
    fresh = rng.standard_normal((20, 3))
    values = 1 + fresh[:, 0] ** 4 - 2 * fresh.prod(axis=1) + fresh[:, 1] ** 2
    assert np.allclose(fit(fresh)[:, 0], values)
    tensors = fit.tensors()
    # x⁴ = He₄ + 6 He₂ + 3: T₄ has 24 at (0,0,0,0), T₂ has 12 at (0,0); -2 x₀x₁x₂ has -2 at each permutation.
    assert np.allclose(smat(tensors.fourth[0])[0][0, 0], 24)
    assert np.allclose(tensors.second[0], np.diag([12.0, 2.0, 0.0]))
    assert np.allclose(tensors.contract_third(np.array([1.0, 0, 0]))[0], [[0, 0, 0], [0, 0, -2], [0, -2, 0]])
    assert float(fit.residual_variance[0]) < 1e-20


def test_tensors_in_a_subspace_become_those_of_all_inputs() -> None:
    rng = np.random.default_rng(DRAW_SEED)
    span = np.linalg.qr(rng.standard_normal((6, 3)))[0]
    inner = simulate.teacher(3, 2, 2, bias=(-1, 1), random_state=10)
    outer = TwoLayerNetwork(inner.W @ span.T, inner.b, inner.A, inner.c)
    gap = PopulationHermite(inner).tensors().embed(span).minus(PopulationHermite(outer).tensors())
    parts = (gap.zeroth, gap.first, gap.second, gap.third, gap.fourth)
    assert max(float(np.abs(part).max()) for part in parts) < 1e-14


def test_a_polynomial_of_a_subspace_is_fitted_there_and_leaves_the_rest_of_the_inputs_to_averages() -> None:
    rng = np.random.default_rng(11)
    span = np.linalg.qr(rng.standard_normal((4, 2)))[0]
    X = rng.standard_normal((300, 4))
    inside = (X @ span[:, 0]) ** 3 - X @ span[:, 1]
    blocks = RowBlocks.from_arrays(X, inside[:, None])
    fit = fit_polynomial(blocks, 4, span)
    assert fit.n_features == 2 and np.allclose(fit(X)[:, 0], inside)
    gap = fit.tensors().minus(fit_polynomial(blocks, 4).tensors())
    assert max(float(np.abs(part).max()) for part in (gap.first, gap.second, gap.third, gap.fourth)) < 1e-9
    beyond = 5 * X[:, 0] * X[:, 1] - 5 * X[:, 2] * X[:, 3]
    found = SampleHermite(RowBlocks.from_arrays(X, (inside + beyond)[:, None]), (4, 1), fit).tensors()
    left = SampleHermite(RowBlocks.from_arrays(X, beyond[:, None]), (4, 1)).tensors()
    rest = found.minus(left.plus(fit.tensors()))
    assert (
        max(float(np.abs(part).max()) for part in (rest.first, rest.second, rest.third, rest.fourth)) < 1e-9
    )


def test_the_leading_span_is_that_of_the_units() -> None:
    truth = simulate.teacher(7, 3, bias=(-1, 1), random_state=12)
    span, values = leading_span(PopulationHermite(truth).tensors().second, 3)
    assert np.allclose(truth.W @ span @ span.T, truth.W) and np.allclose(span.T @ span, np.eye(3))
    assert values[2] > 1e-3 and values[3] < 1e-14


def test_too_few_rows_for_a_fit_are_refused() -> None:
    X, Y = _rows(15, 2, 1)
    with pytest.raises(BadInputError, match="15 samples for 15 coefficients"):
        fit_polynomial(RowBlocks.from_arrays(X, Y), 4)


def test_whitening_undoes_the_covariance_and_drops_constant_directions() -> None:
    rng = np.random.default_rng(9)
    root = rng.standard_normal((4, 4))
    K = whitening_map(root @ root.T)
    assert np.allclose(K.T @ root @ root.T @ K, np.eye(4)) and np.allclose(K, K.T)
    thin = rng.standard_normal((4, 2))
    K = whitening_map(thin @ thin.T)
    assert K.shape == (4, 2) and np.allclose(K.T @ thin @ thin.T @ K, np.eye(2))


def test_offset_is_part_of_order_zero_only() -> None:
    net = TwoLayerNetwork(W=[[1.0, 0.0]], b=[0.3], A=[[2.0]], c=[5.0])
    plain = TwoLayerNetwork(W=net.W, b=net.b, A=net.A)
    difference = PopulationHermite(net).tensors().minus(PopulationHermite(plain).tensors())
    assert difference.zeroth[0] == pytest.approx(5.0)
    parts = (difference.first, difference.second, difference.third, difference.fourth)
    assert all(not part.any() for part in parts)
    assert isinstance(difference, HermiteTensors)
