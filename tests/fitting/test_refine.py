"""Refinement against scipy.optimize.least_squares with an exact Jacobian, in all parameters."""

import numpy as np
import pytest
from scipy.optimize import least_squares

import planted
from planted.fitting._refine import reduced_normal_matrix, refine
from planted.moments import accumulate_normal
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks
from planted.simulate import dataset

ACTIVATIONS = ["relu", "leaky-relu:0.2", "absolute", "power:2"]


def planted_data(activation="relu", *, noise=0.1, seed=0, n=300):
    return dataset(
        n,
        n_features=4,
        n_hidden=3,
        n_outputs=3,
        noise=noise,
        bias=(-0.5, 0.5),
        activation=activation,
        random_state=seed,
    )


def nearby(network, seed, size=0.05):
    rng = np.random.default_rng(1000 + seed)
    return TwoLayerNetwork(
        network.W + size * rng.standard_normal(network.W.shape),
        network.b + size * rng.standard_normal(network.b.shape),
        network.A,
        network.c,
        network.activation,
    )


def rows_of(data, **options):
    return RowBlocks.from_arrays(data.X, data.Y, **options)


def unpack(theta, like):
    k, d, m = like.n_hidden, like.n_features, like.n_outputs
    V, B = theta[: k * (d + 1)].reshape(k, d + 1), theta[k * (d + 1) :].reshape(m, k + 1)
    return TwoLayerNetwork(V[:, :d], V[:, d], B[:, :k], B[:, k], like.activation)


def oracle(X, Y, start):
    """Minimise over W, b, A, c at once: exact Jacobian, trust region, all tolerances at rounding."""
    k, d, m, n = start.n_hidden, start.n_features, start.n_outputs, len(X)
    rows = np.hstack([X, np.ones((n, 1))])

    def residual(theta):
        return (unpack(theta, start)(X) - Y).ravel()

    def jacobian(theta):
        net = unpack(theta, start)
        t = net.preactivations(X)
        J = np.zeros((n, m, len(theta)))
        inner = np.einsum("lj,nj,np->nljp", net.A, net.activation.derivative(t), rows)
        J[:, :, : k * (d + 1)] = inner.reshape(n, m, -1)
        G = np.hstack([net.activation(t), np.ones((n, 1))])
        for index in range(m):
            first = k * (d + 1) + index * (k + 1)
            J[:, index, first : first + k + 1] = G
        return J.reshape(n * m, -1)

    theta = np.concatenate(
        [
            np.hstack([start.W, start.b[:, None]]).ravel(),
            np.hstack([start.A, start.c[:, None]]).ravel(),
        ]
    )
    best = least_squares(
        residual, theta, jacobian, x_scale="jac", ftol=1e-15, xtol=1e-15, gtol=1e-15, max_nfev=500
    )
    return unpack(best.x, start), 2 * best.cost


@pytest.mark.parametrize("seed", [0, 1])
def test_a_smooth_problem_ends_where_least_squares_ends(seed):
    data = planted_data("power:2", seed=seed)
    start = nearby(data.network, seed)
    fit = refine(rows_of(data), start, decrease_tol=0.0)
    best, cost = oracle(data.X, data.Y, start)
    assert fit.cost == pytest.approx(cost, rel=1e-13)
    # A minimum known to a relative cost of 1e-15 places the parameters to its root, some 3e-8.
    assert planted.parameter_error(fit.network, best) < 1e-7


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("seed", [0, 1])
def test_least_squares_finds_nothing_to_improve_at_the_end(activation, seed):
    """With kinks there are many minima, so the oracle starts where the refinement ended."""
    data = planted_data(activation, seed=seed)
    fit = refine(rows_of(data), nearby(data.network, seed), decrease_tol=0.0, max_iter=400)
    best, cost = oracle(data.X, data.Y, fit.network)
    assert fit.converged
    assert fit.cost <= cost * (1 + 1e-12)
    assert planted.parameter_error(fit.network, best) < 1e-7  # the root of rounding, as above
    assert fit.cost == pytest.approx(((data.Y - fit.network(data.X)) ** 2).sum(), rel=1e-12)


def test_the_default_stop_is_within_a_tenth_of_what_noise_leaves():
    """The cost above the minimum, in noise variances, is chi-squared-like doubt: far below one per parameter."""
    for seed in range(4):
        data = planted_data(seed=seed)
        fit = refine(rows_of(data), nearby(data.network, seed))
        _, cost = oracle(data.X, data.Y, fit.network)
        variance = cost / (data.Y.size - data.network.n_parameters)
        assert (fit.cost - cost) / variance < 0.1 * data.network.n_parameters
        assert fit.converged


@pytest.mark.parametrize("activation", [*ACTIVATIONS, "quadratic"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_noiseless_data_end_at_rounding_error(activation, seed):
    data = planted_data(activation, noise=0.0, seed=seed)
    fit = refine(rows_of(data), nearby(data.network, seed))
    assert fit.converged
    assert planted.parameter_error(fit.network, data.network) < 1e-13
    assert np.sqrt(fit.cost / data.Y.size) < 1e-14


@pytest.mark.parametrize("size", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_start_with_useless_output_weights_also_ends_at_rounding_error(size, seed):
    """The first elimination of A removes nearly all of the cost, so the cost must not be a difference of large sums."""
    data = planted_data(noise=0.0, seed=seed)
    truth = data.network
    start = TwoLayerNetwork(truth.W, truth.b, np.full_like(truth.A, size), None)
    fit = refine(rows_of(data), start)
    assert fit.converged
    assert planted.parameter_error(fit.network, truth) < 1e-13


def test_a_start_at_the_truth_stays_there():
    data = planted_data(noise=0.0)
    fit = refine(rows_of(data), data.network)
    assert fit.converged
    assert planted.parameter_error(fit.network, data.network) < 1e-14


@pytest.mark.parametrize("block_rows", [1, 17, 64, 299])
def test_blocks_of_any_size_give_the_same_network(block_rows):
    for noise in (0.0, 0.1):
        data = planted_data(noise=noise)
        start = nearby(data.network, 0, size=0.02)
        whole = refine(rows_of(data), start, max_iter=6)
        parts = refine(rows_of(data, block_rows=block_rows), start, max_iter=6)
        assert planted.parameter_error(parts.network, whole.network) < 1e-12
        assert parts.iterations == whole.iterations


def test_a_known_offset_is_kept_and_a_free_one_is_found():
    data = planted_data(noise=0.0)
    truth = TwoLayerNetwork(data.network.W, data.network.b, data.network.A, [1.0, -2.0, 0.5])
    blocks = RowBlocks.from_arrays(data.X, truth(data.X))
    start = nearby(truth, 3)
    kept = refine(blocks, start, offset=False)
    np.testing.assert_array_equal(kept.network.c, truth.c)
    assert planted.parameter_error(kept.network, truth) < 1e-13
    wrong = TwoLayerNetwork(start.W, start.b, start.A, [5.0, 5.0, 5.0])
    assert planted.parameter_error(refine(blocks, wrong).network, truth) < 1e-13
    stuck = refine(blocks, wrong, offset=False)
    np.testing.assert_array_equal(stuck.network.c, [5.0, 5.0, 5.0])
    assert stuck.cost > 1.0


def test_the_last_iteration_allowed_is_not_convergence():
    data = planted_data(noise=0.1)
    start = nearby(data.network, 0, size=0.3)
    full = refine(rows_of(data), start)
    assert full.converged
    assert full.iterations >= 3
    cut = refine(rows_of(data), start, max_iter=2)
    assert not cut.converged
    assert cut.iterations == 2
    none = refine(rows_of(data), start, max_iter=0)
    assert not none.converged
    assert none.iterations == 0


def test_the_record_is_consistent():
    data = planted_data(noise=0.1)
    fit = refine(rows_of(data), nearby(data.network, 0, size=0.2))
    assert fit.costs[-1] == fit.cost
    assert (np.diff(fit.costs) < 0).all()
    assert len(fit.costs) == fit.iterations + 1
    assert fit.passes >= fit.iterations + 1
    np.testing.assert_allclose(np.linalg.norm(fit.network.W, axis=1), 1.0, rtol=1e-14)
    sums = accumulate_normal(rows_of(data), fit.network)
    # At the optimum of (A, c) the residual is orthogonal to the activations and the constant.
    assert np.abs(sums.GR).max() < 1e-11 * np.sqrt(sums.GG.max() * np.trace(sums.RR))
    np.testing.assert_allclose(fit.sums.RR, sums.RR, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(fit.sums.ZZ, sums.ZZ, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 7.0])
def test_the_scale_of_a_unit_in_the_start_does_not_matter(scale):
    data = planted_data("power:2", noise=0.1)
    start = nearby(data.network, 1)
    moved = TwoLayerNetwork(scale * start.W, scale * start.b, start.A / scale**2, None, "power:2")
    one, two = (refine(rows_of(data), each, max_iter=3) for each in (start, moved))
    assert planted.parameter_error(one.network, two.network) < 1e-11


def test_the_reduced_matrix_is_the_schur_complement_of_the_full_one():
    """Equation (1) against the explicit Jacobian with the output layer projected out."""
    data = planted_data(n=60)
    net, X = data.network, data.X
    rows = np.hstack([X, np.ones((60, 1))])
    t = net.preactivations(X)
    J = np.einsum("lj,nj,np->lnjp", net.A, net.activation.derivative(t), rows).reshape(3, 60, -1)
    for offset in (True, False):
        G = np.hstack([net.activation(t), np.ones((60, 1))])[:, : 3 + offset]
        projected = J - G @ np.linalg.pinv(G) @ J
        expected = np.einsum("lna,lnb->ab", projected, projected)
        N = reduced_normal_matrix(accumulate_normal(rows_of(data), net), net, offset=offset)
        np.testing.assert_allclose(N, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(3))
def test_a_goal_out_of_reach_ends_the_refinement_and_one_in_reach_does_not(seed):
    data = planted_data(noise=0.1, seed=seed)
    rows, start = rows_of(data), nearby(data.network, seed, size=0.3)
    whole = refine(rows, start, max_iter=12)
    early = refine(rows, start, max_iter=12, goal=whole.cost / 2)
    assert len(early.costs) < len(whole.costs) and not early.converged
    assert early.costs == whole.costs[: len(early.costs)]
    gained = early.costs[-2] - early.costs[-1]
    assert early.cost - (12 - early.iterations) * gained > whole.cost / 2
    assert refine(rows, start, max_iter=12, goal=whole.cost).costs == whole.costs
