"""Two nearly parallel units fitted by one are noticed; a network with all its units is not suspected."""

import numpy as np
import pytest

from planted.certificates._residual import (
    lack_of_fit,
    largest_root_p_value,
    residual_sums,
    split_unit_p_value,
)
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks
from planted.simulate import inputs

D, K, M = 6, 3, 4


def p_value_of(seed, *, angle, n=4000, noise=0.1, biases=True):
    """Fit K units to data of K units, the last of which is split by an angle into two with different output weights."""
    rng = np.random.default_rng([7, seed])
    W, A = rng.standard_normal((K + 1, D)), rng.standard_normal((M, K + 1))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    across = W[K] - (W[K] @ W[K - 1]) * W[K - 1]
    W[K] = np.cos(angle) * W[K - 1] + np.sin(angle) * across / np.linalg.norm(across)
    b = 0.3 * rng.standard_normal(K + 1) * biases
    b[K] = b[K - 1]
    X = inputs(n, D, random_state=seed)
    Y = TwoLayerNetwork(W, b, A)(X) + noise * rng.standard_normal((n, M))
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=seed)
    s = problem.scaling
    merged = np.column_stack([A[:, : K - 1], A[:, K - 1] + A[:, K]])
    start = TwoLayerNetwork(
        W[:K] * s.x_scale, b[:K] + W[:K] @ s.x_mean, merged / s.y_scale, -s.y_shift / s.y_scale
    )
    fit = refine(problem.blocks, start, biases=biases)
    return split_unit_p_value(residual_sums(problem, fit.network, offset=True, biases=biases)), fit.network, s


@pytest.mark.parametrize("biases", [True, False])
def test_a_pair_two_degrees_apart_is_noticed_and_the_unit_named(biases):
    (p_value, unit), network, scaling = p_value_of(3, angle=np.radians(2), biases=biases)
    assert p_value < 1e-3
    rows = network.W / scaling.x_scale
    assert unit == np.argmax(rows @ rows[K - 1] / np.linalg.norm(rows, axis=1))


def test_no_unit_is_suspected_more_often_than_the_level_says():
    """200 networks without a split unit: at level 0.1 at most 0.1 + 4 binomial standard errors are suspected."""
    suspected = sum(p_value_of(seed, angle=0.0, n=500)[0][0] < 0.1 for seed in range(200))
    assert suspected <= 200 * 0.1 + 4 * np.sqrt(200 * 0.1 * 0.9)
    assert suspected >= 3  # and the test is not silent: the entries have nearly unit variance


def test_one_output_has_nothing_to_show():
    X = inputs(200, 3, random_state=0)
    network = TwoLayerNetwork(np.eye(3)[:2], None, np.ones((1, 2)))
    Y = network(X) + 0.1 * np.random.default_rng(1).standard_normal((200, 1))
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    p_value, unit = split_unit_p_value(residual_sums(problem, network, offset=True))
    assert np.isnan(p_value)
    assert unit == -1


@pytest.mark.parametrize("shape", [(1, 5), (2, 5), (7, 10), (20, 20)])
def test_the_largest_root_has_the_stated_law(shape):
    rng = np.random.default_rng(11)
    roots = np.linalg.svd(rng.standard_normal((4000, *shape)), compute_uv=False)[:, 0] ** 2
    for level in (0.1, 0.02):
        assert largest_root_p_value(float(np.quantile(roots, 1 - level)), shape) == pytest.approx(
            level, rel=0.25
        )


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("is_weighted", [True, False])
@pytest.mark.parametrize("has_line", [True, False])
def test_products_that_the_fit_knows_are_those_of_the_rows(biases, offset, is_weighted, has_line):
    rng = np.random.default_rng([biases, offset, is_weighted, has_line])
    d, k, m = 3, 2, 2
    b = rng.uniform(-0.5, 0.5, k) if biases else None
    B = rng.standard_normal((m, d)) if has_line else None
    net = TwoLayerNetwork(rng.standard_normal((k, d)), b, rng.standard_normal((m, k)), B=B)
    X = rng.standard_normal((1500, d))
    Y = net(X) + 0.3 * rng.standard_normal((1500, m))
    weights = (lambda first, X, Y: np.exp(X[:, 0] / 2)) if is_weighted else None
    form = "centred" if biases else "uncentred"

    def sums(**known):
        problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0, form=form)
        start = problem.scaling.standardise(net)
        fit = refine(problem.blocks, start, offset=offset, biases=biases, weights=weights)
        known = {"known": fit.sums} if known else {}
        return residual_sums(problem, fit.network, offset=offset, biases=biases, weights=weights, **known)

    summed, taken = sums(), sums(known=True)
    scale = np.abs(summed.products).max()
    np.testing.assert_allclose(taken.products, summed.products, rtol=1e-10, atol=1e-12 * scale)
    np.testing.assert_allclose(taken.cross, summed.cross, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(lack_of_fit(taken), lack_of_fit(summed), rtol=1e-7)
