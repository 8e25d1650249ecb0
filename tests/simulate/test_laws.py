"""Input laws: their moments within 4 standard errors, their symmetry, and their options."""

from __future__ import annotations

import numpy as np
import pytest

from planted import simulate
from planted.outcomes import BadInputError, BadInputTypeError

N, D = 40_000, 4

# Name, options, and E[x], E[x^2], E[x^4] of one coordinate; the last tells the law from a Gaussian of equal
# variance. Student t has 9 degrees of freedom here because the spread of x^4 needs a finite E[x^8].
CLOSED_FORMS = [
    ("gaussian", {}, 0.0, 1.0, 3.0),
    ("gaussian", {"mean": 2.0}, 2.0, 5.0, 16 + 6 * 4 + 3),
    ("mixture", {}, 0.0, 2.0, 1 + 6 + 3),
    ("mixture", {"centre": 2.0, "std": 0.5}, 0.0, 4.25, 16 + 6 * 4 * 0.25 + 3 / 16),
    ("uniform", {}, 0.0, 1.0, 9 / 5),
    ("uniform", {"half_width": 2.0}, 0.0, 4 / 3, 16 / 5),
    ("sphere", {}, 0.0, 1.0, 3 * D / (D + 2)),
    ("sphere", {"radius": 1.0}, 0.0, 1 / D, 3 / (D * (D + 2))),
    ("laplace", {}, 0.0, 1.0, 6.0),
    ("laplace", {"scale": 2.0}, 0.0, 8.0, 24 * 16.0),
    ("student-t", {"df": 9.0}, 0.0, 9 / 7, 3 * 81 / (7 * 5)),
    ("student-t", {"df": 9.0, "scale": 2.0}, 0.0, 36 / 7, 16 * 3 * 81 / (7 * 5)),
    ("exponential", {}, 0.0, 1.0, 9.0),
    (
        "exponential",
        {"scale": 2.0, "shift": 0.5},
        0.5,
        4.25,
        16 * 9 + 4 * 8 * 2 * 0.5 + 6 * 4 * 0.25 + 1 / 16,
    ),
    ("rademacher", {}, 0.0, 1.0, 1.0),
]


def assert_mean(values, expected):
    """The average lies within 4 standard errors of its expectation, plus rounding for laws without spread."""
    error = np.std(values, axis=0) / np.sqrt(len(values))
    assert np.all(np.abs(np.mean(values, axis=0) - expected) <= 4 * error + 1e-12 * (1 + np.abs(expected)))


@pytest.mark.parametrize(("name", "options", "mean", "square", "fourth"), CLOSED_FORMS)
def test_moments(name, options, mean, square, fourth):
    X = simulate.inputs(N, D, law=name, random_state=11, **options)
    assert X.shape == (N, D)
    assert X.dtype == np.float64
    assert_mean(X, mean)
    assert_mean(X**2, square)
    assert_mean(X**4, fourth)


@pytest.mark.parametrize(
    "name", ["gaussian", "uniform", "sphere", "laplace", "student-t", "exponential", "rademacher"]
)
def test_coordinates_are_uncorrelated(name):
    X = simulate.inputs(N, D, law=name, random_state=12)
    assert_mean(X[:, 0] * X[:, 1], 0.0)


def test_mixture_moves_all_coordinates_together():
    X = simulate.inputs(N, D, law="mixture", random_state=13)
    assert_mean(X[:, 0] * X[:, 1], 1.0)


def test_sphere_rows_have_one_length():
    np.testing.assert_allclose(
        np.linalg.norm(simulate.inputs(50, 9, law="sphere", random_state=0), axis=1), 3.0, rtol=1e-14
    )


@pytest.mark.parametrize(
    "name",
    [
        "gaussian",
        "mixture",
        "uniform",
        "sphere",
        "laplace",
        "student-t",
        "rademacher",
        "correlated",
        "smoothed",
    ],
)
def test_symmetric_laws_are_symmetric(name):
    X = simulate.inputs(N, D, law=name, random_state=14)
    # Odd functions of a symmetric law have mean zero; both are bounded, so heavy tails do not blur the test.
    assert_mean(np.tanh(X), 0.0)
    assert_mean(np.tanh(X[:, 0]) * np.tanh(X[:, 1]) * np.tanh(X[:, 2]), 0.0)


def test_exponential_is_not_symmetric():
    X = simulate.inputs(N, D, law="exponential", random_state=14)
    assert_mean(X**3, 2.0)


def test_gaussian_with_mean_and_covariance():
    covariance = np.array([[2.0, 1.0], [1.0, 1.0]])
    X = simulate.inputs(N, 2, law="gaussian", mean=[1.0, -1.0], covariance=covariance, random_state=15)
    assert_mean(X, [1.0, -1.0])
    centred = X - [1.0, -1.0]
    assert_mean((centred[:, :, None] * centred[:, None, :]).reshape(N, 4), covariance.ravel())


def test_gaussian_accepts_a_singular_covariance():
    X = simulate.inputs(100, 2, law="gaussian", covariance=np.ones((2, 2)), random_state=0)
    # A null eigenvalue is computed to about 1e-16, whose root is 1e-8.
    np.testing.assert_allclose(X[:, 0], X[:, 1], atol=1e-7)


def test_correlated_has_the_condition_asked_for_and_that_covariance():
    law = simulate.input_law("correlated", D, condition=30.0, random_state=3)
    assert np.linalg.cond(law.covariance) == pytest.approx(30.0, rel=1e-10)
    X = simulate.inputs(N, D, law=law, random_state=4)
    assert_mean((X[:, :, None] * X[:, None, :]).reshape(N, D * D), law.covariance.ravel())
    assert np.abs(law.covariance - np.diag(np.diag(law.covariance))).max() > 0.01


def test_a_drawn_law_is_the_same_for_training_and_test_inputs():
    law = simulate.input_law("correlated", D, random_state=3)
    np.testing.assert_array_equal(
        law.covariance, simulate.input_law("correlated", D, random_state=3).covariance
    )
    assert not np.allclose(law.covariance, simulate.input_law("correlated", D, random_state=4).covariance)
    by_name = simulate.inputs(20, D, law="correlated", random_state=3)
    np.testing.assert_array_equal(by_name, simulate.inputs(20, D, law=law, random_state=3))


def test_smoothed_replaces_a_fraction_of_the_rows():
    matrix = np.array([[1.0, 2.0], [0.0, 3.0]])
    law = simulate.Smoothed(simulate.Rademacher(2), lam=0.3, matrix=matrix)
    X = simulate.inputs(N, 2, law=law, random_state=16)
    is_replaced = ~np.all(np.abs(X) == 1.0, axis=1)
    assert_mean(is_replaced.astype(float), 0.3)
    rows = X[is_replaced]
    assert_mean((rows[:, :, None] * rows[:, None, :]).reshape(-1, 4), (matrix @ matrix.T).ravel())


def test_smoothed_adds_noise():
    law = simulate.Smoothed(simulate.Rademacher(2), noise_std=0.5)
    X = simulate.inputs(N, 2, law=law, random_state=17)
    assert_mean(X**2, 1.25)
    assert_mean(X**4, 1 + 6 * 0.25 + 3 / 16)


def test_smoothed_by_name_draws_its_matrix_from_the_seed():
    law = simulate.input_law("smoothed", 3, base="uniform", lam=0.2, random_state=0)
    assert isinstance(law.base, simulate.Uniform)
    assert not np.allclose(law.matrix, simulate.input_law("smoothed", 3, lam=0.2, random_state=1).matrix)


def test_same_seed_same_bits():
    for name in ("gaussian", "mixture", "student-t", "correlated", "smoothed"):
        first, second, other = (simulate.inputs(30, 3, law=name, random_state=seed) for seed in (5, 5, 6))
        np.testing.assert_array_equal(first, second)
        assert not np.any(first == other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"law": "normal"}, r"unknown law 'normal'; known are 'gaussian', 'mixture'"),
        ({"law": "student-t", "dof": 3}, r"unknown option 'dof' of law 'student-t'; it takes 'df', 'scale'"),
        ({"law": "rademacher", "scale": 3}, r"unknown option 'scale' of law 'rademacher'; it takes none"),
        (
            {"law": "correlated", "cond": 3},
            r"unknown option 'cond' of law 'correlated'; it takes 'condition'",
        ),
        ({"law": "correlated", "condition": 0.5}, r"condition=0.5; expected a finite number of at least 1"),
        ({"law": "laplace", "scale": 0.0}, r"scale=0; expected a finite number above 0"),
        ({"law": "student-t", "df": np.nan}, r"df=nan; expected a finite number above 0"),
        ({"law": "smoothed", "lam": 1.5}, r"lam=1.5; expected a finite number of at least 0 and at most 1"),
        (
            {"law": "gaussian", "mean": [1.0, 2.0]},
            r"mean has shape \(2,\); expected a number or shape \(3,\)",
        ),
        ({"law": "gaussian", "mean": np.inf}, r"mean contains NaN or infinity"),
        ({"law": "gaussian", "covariance": np.eye(2)}, r"covariance has shape \(2, 2\); expected \(3, 3\)"),
        ({"law": "gaussian", "covariance": -np.eye(3)}, r"covariance has the negative eigenvalue -1"),
        ({"law": "gaussian", "covariance": np.triu(np.ones((3, 3)))}, r"covariance is not symmetric"),
        ({"law": simulate.Uniform(2)}, r"the law has n_features=2, but n_features=3"),
        (
            {"law": simulate.Uniform(3), "half_width": 2.0},
            r"option 'half_width' goes with a law given by name",
        ),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(BadInputError, match=message):
        simulate.inputs(5, 3, random_state=0, **options)


def test_bad_sizes_and_types_are_named():
    with pytest.raises(BadInputError, match=r"n_samples=0; expected at least 1"):
        simulate.inputs(0, 3)
    with pytest.raises(BadInputTypeError, match=r"n_features is of type float"):
        simulate.inputs(3, 3.0)
    with pytest.raises(BadInputTypeError, match=r"law is of type int"):
        simulate.inputs(3, 3, law=3)
    with pytest.raises(BadInputTypeError, match=r"mean has dtype <U1"):
        simulate.inputs(3, 3, mean="a")
    with pytest.raises(BadInputTypeError, match=r"df is of type str"):
        simulate.inputs(3, 3, law="student-t", df="3")
    with pytest.raises(BadInputError, match=r"lam=0.5 needs a matrix Q"):
        simulate.Smoothed(simulate.Uniform(2), lam=0.5)


def test_laws_are_frozen_and_do_not_alias_the_caller():
    mean = np.zeros(2)
    law = simulate.Gaussian(2, mean=mean)
    mean[:] = 7.0
    np.testing.assert_array_equal(law.mean, 0.0)
    with pytest.raises(ValueError, match="read-only"):
        law.mean[0] = 1.0
    assert isinstance(law, simulate.InputLaw)
