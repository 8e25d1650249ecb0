"""Standard errors against the explicit information matrix, in both units, and against repeated fits."""

import numpy as np
import pytest
from scipy import linalg, signal

import planted
from planted.fitting._jacobian import identity_scaling, information
from planted.fitting._refine import refine
from planted.fitting._run import Scaling
from planted.fitting._sandwich import long_run_deviation
from planted.moments import accumulate_normal
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks
from planted.simulate import dataset, teacher


def small_world(seed=0, n=120, activation="relu", d=3, k=2, m=2):
    data = dataset(
        n,
        n_features=d,
        n_hidden=k,
        n_outputs=m,
        bias=(-0.5, 0.5),
        activation=activation,
        random_state=seed,
    )
    return data.X, data.network


def explicit_variances(X, net, *, offset, biases=True):
    """Diagonal of T (T'J'J T)^-1 T' with J of all parameters and T the tangent space of unit rows, plus conditioning."""
    n, d = X.shape
    k, m = net.n_hidden, net.n_outputs
    rows = np.hstack([X, np.ones((n, 1))])
    t = net.preactivations(X)
    inner = np.einsum("lj,nj,np->nljp", net.A, net.activation.derivative(t), rows).reshape(n * m, -1)
    G = np.hstack([net.activation(t), np.ones((n, 1))])
    outer = np.einsum("ng,lr->nlrg", G, np.eye(m)).reshape(n * m, -1)
    J = np.hstack([inner, outer])
    blocks = []
    for row in net.W:
        block = linalg.block_diag(linalg.null_space(row[None, :]), np.ones((1, 1)))
        blocks.append(block if biases else block[:, :-1])
    keep = np.ones((m, k + 1), dtype=bool)
    keep[:, k] = offset
    T = linalg.block_diag(*blocks, np.eye(m * (k + 1))[:, keep.ravel()])
    tangent = J @ T
    covariance = T @ np.linalg.pinv(tangent.T @ tangent) @ T.T
    V = np.diag(covariance)[: k * (d + 1)].reshape(k, d + 1)
    B = np.diag(covariance)[k * (d + 1) :].reshape(m, k + 1)
    return {"W": V[:, :d], "b": V[:, d], "A": B[:, :k], "c": B[:, k]}


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.2", "absolute", "power:2"])
@pytest.mark.parametrize("offset", [True, False])
def test_variances_are_the_diagonal_of_the_inverse_information(activation, offset):
    X, net = small_world(activation=activation)
    sums = accumulate_normal(RowBlocks.from_arrays(X, net(X)), net)
    info = information(sums, net, offset=offset)
    expected = explicit_variances(X, net, offset=offset)
    for name, value in expected.items():
        # The explicit inverse squares a condition number of about a hundred.
        np.testing.assert_allclose(info.variances[name], value, rtol=1e-9, atol=1e-14)
    assert (info.variances["c"] > 0).all() == offset


def test_known_biases_have_no_variance_and_lower_the_others():
    X, net = small_world()
    net = TwoLayerNetwork(net.W, None, net.A)
    sums = accumulate_normal(RowBlocks.from_arrays(X, net(X)), net)
    info = information(sums, net, offset=False, biases=False)
    expected = explicit_variances(X, net, offset=False, biases=False)
    for name, value in expected.items():
        np.testing.assert_allclose(info.variances[name], value, rtol=1e-9, atol=1e-14)
    assert (info.variances["b"] == 0).all()
    free = information(sums, net, offset=False)
    assert (free.variances["W"] >= info.variances["W"] * (1 - 1e-12)).all()


@pytest.mark.parametrize("offset", [True, False])
def test_standard_errors_do_not_depend_on_the_units_of_the_computation(offset):
    """Standardised problem with the user's scaling, or the user's data as they are: the same numbers."""
    X, _ = small_world(n=200)
    X = X * [10.0, 0.3, 2.0] + [5.0, -1.0, 0.2]
    scaling = Scaling(X.mean(axis=0), X.std(axis=0), np.array([1.0, -2.0]), 7.5)
    standard = teacher(3, 2, 2, bias=(-0.5, 0.5), random_state=8)
    user = scaling.restore(standard)
    Y = user(X)
    Xs, Ys = scaling.apply(X, Y)
    np.testing.assert_allclose(Ys, standard(Xs), rtol=0, atol=1e-13)  # the two networks are one function
    inside = information(
        accumulate_normal(RowBlocks.from_arrays(Xs, Ys), standard), standard, offset=offset, units=scaling
    )
    outside = information(accumulate_normal(RowBlocks.from_arrays(X, Y), user), user, offset=offset)
    for name in "WbAc":
        # Noise of one standardised unit is y_scale user units.
        expected = outside.variances[name] * scaling.y_scale**2
        np.testing.assert_allclose(inside.variances[name], expected, rtol=1e-8, atol=1e-14)


def test_identity_scaling_changes_nothing():
    X, net = small_world()
    scaling = identity_scaling(3, 2)
    np.testing.assert_array_equal(scaling.apply(X, net(X))[0], X)
    assert planted.parameter_error(scaling.restore(net), net) < 1e-15


def test_conditioning_is_a_singular_value_of_the_scaled_jacobian():
    """One unit of two inputs, where the tangent basis is unique: project its columns off the activation, scale them."""
    X, net = small_world(d=2, k=1, m=1)
    info = information(accumulate_normal(RowBlocks.from_arrays(X, net(X)), net), net, offset=False)
    on = net.preactivations(X)[:, 0] > 0
    columns = np.hstack([X @ linalg.null_space(net.W), np.ones((len(X), 1))]) * on[:, None]
    lengths = np.linalg.norm(columns, axis=0)
    h = np.maximum(net.preactivations(X), 0.0)
    projected = columns - h @ np.linalg.pinv(h) @ columns
    value = linalg.svdvals(projected / lengths)[-1]
    # The normal matrix squares it, so half of the digits are safe; here it is about 0.3 and all but a few are.
    assert info.conditioning == pytest.approx(value, rel=1e-10)
    assert info.weakest_unit == 0


def test_a_dead_unit_is_named():
    X, net = small_world()
    b = net.b.copy()
    b[1] = -100.0
    dead = TwoLayerNetwork(net.W, b, net.A)
    info = information(accumulate_normal(RowBlocks.from_arrays(X, dead(X)), dead), dead, offset=False)
    assert (info.conditioning, info.weakest_unit, info.variances) == (0.0, 1, None)


def test_an_undetermined_direction_has_no_variances_and_names_its_unit():
    """Unit 1 is on at two samples only, so its three hidden unknowns cannot be determined."""
    X, net = small_world()
    t = np.sort(X @ net.W[1])
    b = net.b.copy()
    b[1] = -(t[-2] + t[-3]) / 2
    rare = TwoLayerNetwork(net.W, b, net.A)
    info = information(accumulate_normal(RowBlocks.from_arrays(X, rare(X)), rare), rare, offset=False)
    assert info.conditioning < 1e-7
    assert info.weakest_unit == 1


def test_repeated_fits_scatter_as_the_standard_errors_say():
    """200 fits of fresh noise: z-scores have mean 0, variance 1 and 95 % coverage within 4 standard errors."""
    X, truth = small_world(n=400, seed=5)
    Y = truth(X)
    rng = np.random.default_rng(77)
    scores, repeats = [], 200
    for _ in range(repeats):
        blocks = RowBlocks.from_arrays(X, Y + 0.1 * rng.standard_normal(Y.shape))
        fit = refine(blocks, truth, offset=True, decrease_tol=1e-4)
        variance = fit.cost / (Y.size - truth.n_parameters)
        variances = information(fit.sums, fit.network, offset=True).variances
        deviations = {
            "W": fit.network.W - truth.W,
            "b": fit.network.b - truth.b,
            "A": fit.network.A - truth.A,
            "c": fit.network.c - truth.c,
        }
        scores.append(
            np.concatenate([(deviations[n] / np.sqrt(variance * variances[n])).ravel() for n in "WbAc"])
        )
    z = np.array(scores)
    assert np.abs(z.mean(axis=0)).max() < 4 / np.sqrt(repeats)
    assert np.abs(z.var(axis=0) - 1).max() < 4 * np.sqrt(2 / repeats)
    coverage = (np.abs(z) < 1.96).mean(axis=0)
    assert np.abs(coverage - 0.95).max() < 4 * np.sqrt(0.95 * 0.05 / repeats)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_lagged_sums_cover_where_the_noise_is_correlated(correlation):
    """The mean of a product of inputs and noise: of inputs that follow one another or do not, 95 % are covered."""
    rng, n, draws = np.random.default_rng(3), 400, 1500
    steps = rng.standard_normal((2, draws, n))
    noise = signal.lfilter([1.0], [1.0, -0.6], steps[0], axis=1)
    inputs = signal.lfilter([1.0], [1.0, -correlation], steps[1], axis=1)
    sums = [(terms.sum(), long_run_deviation(terms - terms.mean(), 0.6)) for terms in noise * inputs]
    share = np.mean([abs(total) < 1.96 * deviation for total, deviation in sums])
    assert abs(share - 0.95) < 0.015  # 2.7 standard errors; 0.97 if sums below zero were left out
