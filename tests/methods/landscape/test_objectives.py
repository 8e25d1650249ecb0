"""Objectives: closed forms against autograd, quadrature, enumeration by hand, and large samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, special

from planted.methods.landscape._coefficients import hermite_polynomials, quadrature_nodes
from planted.methods.landscape._descent import random_rows
from planted.methods.landscape._low_degree import FIT_TOL, fit_low_degree
from planted.methods.landscape._targets import sample_target
from planted.methods.landscape.objectives import (
    OBJECTIVES,
    ConstrainedDesign,
    hermite_coefficients,
    population_objective,
    sample_objective,
    theorem_weights,
)
from planted.moments import fit_polynomial
from planted.networks import parse_activation
from planted.outcomes import BadInputError
from planted.rows import RowBlocks

torch = pytest.importorskip("torch")
AUTOGRAD = 1e-10  # relative; both are double precision
RELU = hermite_coefficients("relu", 4)


def world(seed: int, d: int = 5, k: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return random_rows(k, d, rng), rng.uniform(1, 3, k), random_rows(k, d, rng), rng.standard_normal(k)


def samples(seed: int, n: int, W: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng([99, seed]).standard_normal((n, W.shape[1]))
    return X, np.maximum(X @ W.T, 0.0) @ a


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "softplus", "absolute", "relu", "leaky-relu:0.2"])
def test_hermite_coefficients_agree_with_adaptive_quadrature(name: str) -> None:
    sigma = parse_activation(name)
    for order, ours in enumerate(hermite_coefficients(name, 6)):

        def integrand(t: float, order: int = order) -> float:
            h = hermite_polynomials(np.array([t]), max(order, 1))[order, 0]
            return float(sigma(np.array([t]))[0] * h * np.exp(-t * t / 2) / np.sqrt(2 * np.pi))

        halves = [
            integrate.quad(integrand, *ends, epsabs=1e-13, epsrel=1e-13)[0] for ends in ((-12, 0), (0, 12))
        ]
        assert abs(ours - sum(halves)) < 1e-11


def test_hermite_coefficients_of_the_relu_are_those_of_the_paper() -> None:
    expected = [1 / np.sqrt(2 * np.pi), 0.5, 1 / np.sqrt(4 * np.pi), 0.0, -1 / np.sqrt(48 * np.pi)]
    np.testing.assert_allclose(RELU, expected, rtol=1e-14)


def test_hermite_polynomials_are_orthonormal() -> None:
    t, weights = quadrature_nodes()
    H = hermite_polynomials(t, 12)
    np.testing.assert_allclose((H * weights) @ H.T, np.eye(13), atol=1e-10)


def test_hermite_polynomials_are_those_of_the_normalised_recursion() -> None:
    """h_{j+1} = (t h_j - √j h_{j-1})/√(j+1), at all nodes and up to the order that the risk uses.

    Both recursions make one rounding error of 1e-16 for each of 100 orders, relative to the largest polynomial so far.
    """
    t, weights = quadrature_nodes()
    rows = [np.ones_like(t), t]
    for j in range(1, 100):
        rows.append((t * rows[j] - np.sqrt(j) * rows[j - 1]) / np.sqrt(j + 1))
    expected, found = np.array(rows), hermite_polynomials(t, 100)
    largest = np.maximum.accumulate(np.abs(expected), axis=0)
    assert (np.abs(found - expected) <= 1e-13 * largest).all()
    assert np.abs((found - expected) * np.sqrt(weights)).max() < 1e-13


@pytest.mark.parametrize(("name", "factor"), [("absolute", 1.0), ("relu", 0.5), ("leaky-relu:0.2", 0.4)])
def test_even_coefficients_are_double_factorials(name: str, factor: float) -> None:
    """σ̂_j(|t|) = √(2/π) (-1)^{j/2+1} (j-3)!!/√j! for even j ≥ 2, zero for odd j; a multiple of it for the others."""
    found = hermite_coefficients(name, 12)
    for j in range(2, 13, 2):
        odd = float(special.factorial2(j - 3)) if j >= 4 else 1.0
        expected = np.sqrt(2 / np.pi) * (-1) ** (j // 2 + 1) * odd / np.sqrt(float(special.factorial(j)))
        assert found[j] == pytest.approx(factor * expected, rel=1e-14)
    np.testing.assert_array_equal(found[3::2], 0.0)
    assert [len(hermite_coefficients(name, order)) for order in (0, 1)] == [1, 2]


def torch_population(name: str, W: np.ndarray, a: np.ndarray) -> Callable[[object, object], object]:
    """Return the population objective written in sums over tensors, as the paper states it."""
    W_true, a_true = torch.tensor(W), torch.tensor(a)
    second, fourth = RELU[2], RELU[4]
    mu, lam = theorem_weights(name, fourth, largest=a.max(), smallest=a.min())

    def tensor(order: int, V: object, c: object) -> object:
        letters = "abcd"[:order]
        return torch.einsum(",".join(f"i{x}" for x in letters) + f",i->{letters}", *[V] * order, c)

    def value(V: object, c: object) -> object:
        if name == "f'":
            gaps = [(tensor(j, W_true, a_true) - tensor(j, V, c)).square().sum() for j in (2, 4)]
            return second**2 * gaps[0] + fourth**2 * gaps[1]
        R = (V @ W_true.T).square()
        pairs = sum(a_true @ (R[j] * R[m]) for j in range(len(R)) for m in range(len(R)) if j != m)
        singles = (R.square() @ a_true).sum()
        if name == "P'":
            return pairs / 2
        quartic = np.sqrt(24) * abs(fourth) * (pairs / 2 - mu / 24 * singles)
        norms = V.square().sum(1) if name == "G" else R @ a_true
        return quartic + lam * (norms - 1).square().sum()

    return value


@pytest.mark.parametrize("name", ["f'", "P'", "G", "F"])
def test_population_gradients_agree_with_autograd(name: str) -> None:
    W, a, V, c = world(1)
    V = V * 1.3 if name in ("G", "F") else V
    ours = population_objective(name, W, a)(V, c)
    V_t, c_t = torch.tensor(V, requires_grad=True), torch.tensor(c, requires_grad=True)
    theirs = torch_population(name, W, a)(V_t, c_t)
    theirs.backward()
    assert ours[0] == pytest.approx(float(theirs.detach()), rel=AUTOGRAD)
    np.testing.assert_allclose(ours[1], V_t.grad.numpy(), rtol=0, atol=AUTOGRAD * np.abs(ours[1]).max())
    if name == "f'":
        np.testing.assert_allclose(ours[2], c_t.grad.numpy(), rtol=0, atol=AUTOGRAD * np.abs(ours[2]).max())


def torch_sample(name: str, X: np.ndarray, y: np.ndarray) -> Callable[[object, object], object]:
    """Return the sample objective as an average over single samples, (2.7) and Theorem A.5 written out."""
    X_t, y_t = torch.tensor(X), torch.tensor(y)
    mu, lam = theorem_weights(name, RELU[4], largest=1.0, smallest=1.0)

    def he4(s: object, r: object, v: object, w: object) -> object:
        nv, nw, vw = v @ v, w @ w, v @ w
        return s**2 * r**2 - nw * s**2 - nv * r**2 - 4 * s * r * vw + nv * nw + 2 * vw**2

    def value(V: object, c: object) -> object:
        S = X_t @ V.T
        if name == "l2":
            return (torch.relu(S) @ c - y_t).square().mean()
        if name == "f'":
            G = V @ V.T
            energy = c @ (RELU[2] ** 2 * G**2 + RELU[4] ** 2 * G**4) @ c
            h2 = (S**2 - V.square().sum(1)) / np.sqrt(2)
            h4 = torch.stack([he4(S[:, j], S[:, j], V[j], V[j]) for j in range(len(V))], 1) / np.sqrt(24)
            return energy - 2 * (y_t[:, None] * (RELU[2] * h2 + RELU[4] * h4)).mean(0) @ c
        sign = np.sign(RELU[4])
        total = 0.0
        for j in range(len(V)):
            for m in range(len(V)):
                factor = -mu / 24 if j == m else 0.5
                total = total + factor * (y_t * he4(S[:, j], S[:, m], V[j], V[m])).mean()
        if name == "P'":  # without the single terms
            singles = sum((y_t * he4(S[:, j], S[:, j], V[j], V[j])).mean() for j in range(len(V)))
            return (total + mu / 24 * singles) / (np.sqrt(24) * RELU[4])
        if name == "G":
            return sign * total + lam * (V.square().sum(1) - 1).square().sum()
        halves = [(y_t[i::2, None] * (S[i::2] ** 2 - V.square().sum(1))).mean(0) for i in (0, 1)]
        forms = [half / (np.sqrt(2) * RELU[2]) - 1 for half in halves]
        return sign * total + lam * (forms[0] * forms[1]).sum()

    return value


@pytest.mark.parametrize("name", OBJECTIVES)
def test_sample_gradients_agree_with_autograd(name: str) -> None:
    W, a, V, c = world(2)
    V = V * 0.9
    X, y = samples(2, 600, W, a)
    ours = sample_objective(name, RowBlocks.from_arrays(X, y[:, None], block_rows=200), degree=0)(V, c)
    V_t, c_t = torch.tensor(V, requires_grad=True), torch.tensor(c, requires_grad=True)
    theirs = torch_sample(name, X, y)(V_t, c_t)
    theirs.backward()
    assert ours[0] == pytest.approx(float(theirs.detach()), rel=AUTOGRAD)
    np.testing.assert_allclose(ours[1], V_t.grad.numpy(), rtol=0, atol=AUTOGRAD * np.abs(ours[1]).max())
    if name in ("l2", "f'"):
        np.testing.assert_allclose(ours[2], c_t.grad.numpy(), rtol=0, atol=AUTOGRAD * np.abs(ours[2]).max())


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "softplus", "tanh"])
def test_exact_risk_has_the_gradient_of_its_values(activation: str) -> None:
    W, a, V, c = world(3)
    V = V * np.array([0.5, 1.0, 1.5, 0.8])[:, None]
    risk = population_objective("l2", W, a, activation=activation)
    value, dW, da = risk(V, c)
    assert value > 0
    rng = np.random.default_rng(4)
    move, shift, h = rng.standard_normal(V.shape), rng.standard_normal(c.shape), 1e-5
    slope = (risk(V + h * move, c + h * shift)[0] - risk(V - h * move, c - h * shift)[0]) / (2 * h)
    assert slope == pytest.approx(
        float((dW * move).sum() + da @ shift), rel=1e-7
    )  # differences: h² and eps/h


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_exact_risk_is_the_hermite_series_of_theorem_2_1(activation: str) -> None:
    W, a, V, c = world(5)
    coefficients = hermite_coefficients(activation, 60)
    series = 0.0
    for order, coefficient in enumerate(coefficients):
        gap = a @ (W @ W.T) ** order @ a - 2 * a @ (W @ V.T) ** order @ c + c @ (V @ V.T) ** order @ c
        series += coefficient**2 * float(gap)
    tail = 1e-3 if activation == "relu" else 1e-10  # σ̂_j² falls like j^(-5/2) for the ReLU
    assert population_objective("l2", W, a, activation=activation)(V, c)[0] == pytest.approx(series, rel=tail)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_population_value_is_the_large_sample_mean(name: str) -> None:
    """Twenty independent batches: the mean is within four standard errors of the population value."""
    W, a, V, c = world(6, d=3, k=3)
    values = []
    for batch in range(20):
        X, y = samples(100 + batch, 20_000, W, a)
        rows = RowBlocks.from_arrays(X, y[:, None])
        extreme = {"largest": a.max(), "smallest": a.min()}
        weights = theorem_weights(name, RELU[4], **extreme) if name in ("G", "F") else None
        options = {} if weights is None else {"mu": weights[0], "lam": weights[1]}
        values.append(sample_objective(name, rows, degree=0, **options)(V, c)[0])
    exact = population_objective(name, W, a)
    constant = (
        exact.weights[0] * exact.target.energy[0] + exact.weights[1] * exact.target.energy[1]
        if name == "f'"
        else 0.0
    )
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    assert abs(np.mean(values) + constant - exact(V, c)[0]) < 4 * error
    assert error < 0.1 * abs(exact(V, c)[0])  # the test would notice a factor two


def test_residuals_of_low_degree_make_the_estimate_better() -> None:
    """Mean squared error of the gradient over ten samples; the variance of y falls to a fifth, then to an eighth of that."""
    W, a, V, c = world(7)
    exact = population_objective("f'", W, a)(V, c)[1]
    squares = np.zeros(3)
    for sample in range(10):
        X, y = samples(200 + sample, 3000, W, a)
        rows = RowBlocks.from_arrays(X, y[:, None])
        for degree in (0, 1, 2):
            squares[degree] += ((sample_objective("f'", rows, degree=degree)(V, c)[1] - exact) ** 2).sum()
    assert squares[0] > 4 * squares[1] > 8 * squares[2]


def test_low_degree_fit_is_least_squares() -> None:
    W, a, _, _ = world(8, d=3, k=2)
    X, y = samples(8, 300, W, a)
    low = fit_low_degree(RowBlocks.from_arrays(X, y[:, None]), 2)
    pairs = np.stack([X[:, i] * X[:, j] for i in range(3) for j in range(i, 3)], axis=1)
    features = np.hstack([np.ones((len(X), 1)), X, pairs])
    wanted = features @ np.linalg.lstsq(features, y, rcond=None)[0]
    np.testing.assert_allclose(
        low(X), wanted, atol=1e-7 * np.abs(y).max()
    )  # FIT_TOL of the conjugate gradients


@pytest.mark.parametrize("degree", [1, 2])
def test_low_degree_fit_agrees_with_the_regression_of_moments(degree: int) -> None:
    """Conjugate gradients end at a residual of FIT_TOL; the normal matrix of 3,000 rows has eigenvalues above 1/2."""
    W, a, _, _ = world(8)
    X, y = samples(8, 3000, W, a)
    rows = RowBlocks.from_arrays(X, y[:, None], block_rows=700)
    low, tensors = fit_low_degree(rows, degree), fit_polynomial(rows, degree).tensors()
    size = 2 * FIT_TOL * np.sqrt((y**2).mean())
    assert abs(low.constant - tensors.zeroth[0]) < size
    np.testing.assert_allclose(low.linear, tensors.first[0], rtol=0, atol=size)
    np.testing.assert_allclose(2 * low.quadratic, tensors.second[0], rtol=0, atol=2 * size)


def test_low_degree_fit_bears_two_valued_inputs() -> None:
    """Their squares are constant, so that the products of the features are singular; the fit is still least squares."""
    X = np.random.default_rng(3).choice([-1.0, 1.0], (400, 3)) @ np.linalg.qr(np.ones((3, 3)) + np.eye(3))[0]
    y = np.maximum(X @ [1.0, 2.0, -0.5], 0.0)[:, None]
    low = fit_low_degree(RowBlocks.from_arrays(X, y), 2)
    pairs = np.stack([X[:, i] * X[:, j] for i in range(3) for j in range(i, 3)], axis=1)
    features = np.hstack([np.ones((len(X), 1)), X, pairs])
    assert np.linalg.matrix_rank(features) < features.shape[1]
    wanted = features @ np.linalg.lstsq(features, y, rcond=None)[0]
    np.testing.assert_allclose(low(X)[:, None], wanted, rtol=0, atol=1e-6)
    assert np.abs(low.quadratic).max() < 10


def test_tensors_of_samples_are_averages_over_the_rows() -> None:
    """T₂ from the rows of even and of odd number, E[r xx'] and E[y x] written out as means."""
    W, a, _, _ = world(9, d=3, k=2)
    X, y = samples(9, 501, W, a)
    target = sample_target(
        RowBlocks.from_arrays(X, y[:, None], block_rows=100), parse_activation("relu"), degree=0
    )
    for half, found in enumerate((target.second, target.second_again)):
        Z, r = X[half::2], y[half::2]
        expected = ((Z * r[:, None]).T @ Z / len(Z) - r.mean() * np.eye(3)) / (np.sqrt(2) * RELU[2])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(target.weighted, (X * y[:, None]).T @ X / 501, rtol=0, atol=1e-13)
    np.testing.assert_allclose(target.slope, X.T @ y / 501, rtol=0, atol=1e-13)
    assert (target.count, target.mean) == (501, pytest.approx(y.mean(), rel=1e-13))


def test_streamed_and_whole_samples_give_the_same_tensors() -> None:
    W, a, V, _ = world(9)
    X, y = samples(9, 1000, W, a)
    sigma = parse_activation("relu")
    whole, streamed = (
        sample_target(RowBlocks.from_arrays(X, y[:, None], block_rows=size), sigma) for size in (1000, 64)
    )
    u = np.ones(len(V))
    for ours, theirs in zip(whole.fourth(V, u, 0.5), streamed.fourth(V, u, 0.5), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_constrained_design_is_the_general_one_on_its_constraint() -> None:
    W, a, _, _ = world(10, d=4, k=4)
    general = population_objective("F", W, a, mu=0.1, lam=3.0)
    values, vectors = np.linalg.eigh(general.target.second)
    R = (vectors / np.sqrt(values)).T
    constrained = ConstrainedDesign(general.target, 0.1, R)
    rows = random_rows(4, 4, np.random.default_rng(11))
    assert constrained(rows, a)[0] == pytest.approx(general(rows @ R, a)[0], rel=1e-12)


def test_constants_are_half_of_the_printed_ones() -> None:
    """E[σ(u'x) φ(v,w,x)] = √6 σ̂_4 ⟨u,v⟩²⟨u,w⟩² by quadrature in two dimensions; Theorem A.6 prints 2√6."""
    t, weights = quadrature_nodes()
    x, y = np.meshgrid(t, t, indexing="ij")
    law = np.outer(weights, weights)
    v, w = np.array([0.6, 0.8]), np.array([1.0, 0.0])
    s, r = v[0] * x + v[1] * y, w[0] * x + w[1] * y
    phi = (s**2 * r**2 - s**2 - r**2 - 4 * s * r * (v @ w) + 1 + 2 * (v @ w) ** 2) / 2
    measured = float((law * np.maximum(x, 0) * phi).sum())  # u = e1
    assert measured == pytest.approx(np.sqrt(6) * RELU[4] * v[0] ** 2 * w[0] ** 2, rel=1e-10)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh"])
@pytest.mark.parametrize("name", ["f'", "G", "F"])
def test_odd_activations_are_refused_with_the_reason(activation: str, name: str) -> None:
    with pytest.raises(BadInputError, match="Hermite coefficient of order 4 of the activation is zero"):
        population_objective(name, np.eye(2), np.ones(2), activation=activation)


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(BadInputError, match="objective='H'"):
        population_objective("H", np.eye(2), np.ones(2))
    with pytest.raises(BadInputError, match="does not know the options"):
        population_objective("G", np.eye(2), np.ones(2), weights=(1.0, 1.0))
    with pytest.raises(BadInputError, match="unit rows of the truth"):
        population_objective("G", 2 * np.eye(2), np.ones(2))
