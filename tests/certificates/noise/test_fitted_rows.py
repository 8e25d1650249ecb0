"""What is computed once for all tests of a certificate is what the network says."""

from dataclasses import replace

import numpy as np
import pytest

from planted.certificates._residual import _ranks
from planted.certificates.noise._beside import Beside
from planted.certificates.noise._fitted_rows import FittedRows
from planted.certificates.noise._labels import medians
from planted.fitting._run import prepare_problem
from planted.moments import accumulate_normal, augment, check_rows_against
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks


def world(*, is_affine: bool = False, n: int = 90):
    rng = np.random.default_rng(3)
    B = rng.standard_normal((2, 4)) if is_affine else None
    net = TwoLayerNetwork(
        rng.standard_normal((3, 4)), rng.standard_normal(3), rng.standard_normal((2, 3)), [1, 2], B=B
    )
    X = rng.standard_normal((n, 4))
    problem = prepare_problem(RowBlocks.from_arrays(X, net(X) + rng.standard_normal((n, 2))), random_state=1)
    return problem, problem.scaling.standardise(net)


@pytest.mark.parametrize("is_affine", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_numbers_are_those_of_the_network(is_affine: bool, is_weighted: bool) -> None:
    problem, net = world(is_affine=is_affine)
    weights = (lambda first, x, y: np.exp(x[:, 0])) if is_weighted else None
    at = FittedRows(problem, net, weights)
    residual = problem.Y - net(problem.X)
    np.testing.assert_allclose(at.t.T, net.preactivations(problem.X), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(at.F.T, net(problem.X), rtol=1e-12, atol=1e-13)
    root = np.exp(problem.X[:, [0]] / 2) if is_weighted else 1.0
    np.testing.assert_allclose(at.weighted_residual.T, root * residual, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(at.ordered_labels, np.sort(problem.Y.T))


def test_units_are_counted_on_all_samples_also_where_few_are_in_memory() -> None:
    problem, net = world()
    expected = check_rows_against(problem.blocks, net)
    fewer = replace(problem, X=problem.X[:20], Y=problem.Y[:20])
    for given in (problem, fewer):
        counted = FittedRows(given, net).activity
        assert counted.n_samples == expected.n_samples == 90
        np.testing.assert_array_equal(counted.active, expected.active)


@pytest.mark.parametrize("is_known", [False, True])
def test_products_without_some_entries_are_those_of_the_rest(is_known: bool) -> None:
    problem, net = world()
    known = accumulate_normal(problem.sampled_rows, net) if is_known else None
    at = FittedRows(problem, net)
    beside = Beside.of(at, np.sin(at.X[:1]), offset=True, known=known)
    left_out = np.where(np.random.default_rng(0).random(at.slopes.shape) < 0.3, at.slopes, 0.0)
    rows = augment(problem.X)
    Z = np.hstack([slopes[:, None] * rows for slopes in at.slopes - left_out])
    G = augment(at.H.T)
    rest = Z - G @ np.linalg.lstsq(G, Z, rcond=None)[0]
    expected = rest.T @ rest
    np.testing.assert_allclose(
        beside.products_without(left_out), expected, atol=1e-12 * np.abs(expected).max()
    )


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_medians_and_ranks(n: int) -> None:
    values = np.random.default_rng(n).standard_normal((3, n))
    np.testing.assert_array_equal(medians(values), np.median(values, axis=1))
    np.testing.assert_array_equal(_ranks(values), values.argsort(axis=1).argsort(axis=1) + 1)
    np.testing.assert_array_equal(_ranks(np.array([[2.0, 1.0, 2.0]])), [[2.5, 1.0, 2.5]])
