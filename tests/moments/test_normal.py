"""The normal sums against a Jacobian made by differences of the network itself."""

from dataclasses import fields, replace

import numpy as np
import pytest

from planted.moments import NormalSums, _gram, accumulate_normal, augment
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks

ACTIVATIONS = ["relu", "leaky-relu:0.2", "absolute", "power:2", "power:3", "quadratic"]


def small_problem(activation, seed=0, n=30, d=3, k=2, m=2):
    rng = np.random.default_rng(seed)
    network = TwoLayerNetwork(
        rng.standard_normal((k, d)),
        rng.standard_normal(k),
        rng.standard_normal((m, k)),
        rng.standard_normal(m),
        activation,
    )
    X = rng.standard_normal((n, d))
    X = X[np.abs(network.preactivations(X)).min(axis=1) > 1e-3]  # differences must not straddle a kink
    return X, rng.standard_normal((len(X), m)), network


def numerical_jacobian(X, network):
    """Central differences of all outputs: shape (n, m, k p) for (w, b) of each unit, (n, m, m (k+1)) for (A, c)."""
    k, d, m = network.n_hidden, network.n_features, network.n_outputs
    step = 1e-5

    def outputs(V, B):
        return TwoLayerNetwork(V[:, :d], V[:, d], B[:, :k], B[:, k], network.activation)(X)

    V, B = np.hstack([network.W, network.b[:, None]]), np.hstack([network.A, network.c[:, None]])
    inner, outer = [], []
    for index in np.ndindex(V.shape):
        delta = np.zeros_like(V)
        delta[index] = step
        inner.append((outputs(V + delta, B) - outputs(V - delta, B)) / (2 * step))
    for index in np.ndindex(B.shape):
        delta = np.zeros_like(B)
        delta[index] = step
        outer.append((outputs(V, B + delta) - outputs(V, B - delta)) / (2 * step))
    return np.stack(inner, axis=-1), np.stack(outer, axis=-1).reshape(len(X), m, m, k + 1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_sums_are_the_products_of_the_jacobian(activation):
    X, Y, network = small_problem(activation)
    k, p, m = network.n_hidden, network.n_features + 1, network.n_outputs
    inner, outer = numerical_jacobian(X, network)
    R = Y - network(X)
    sums = accumulate_normal(RowBlocks.from_arrays(X, Y), network)
    weights = np.repeat(network.A, p, axis=1)  # (m, k p)
    # Differences of a cubic with step 1e-5 are good to 1e-10; products of 30 rows of size ten to about 1e-7.
    close = {"rtol": 1e-7, "atol": 1e-7}
    for one in range(m):
        assert (outer[:, one, 1 - one] == 0).all()
        np.testing.assert_allclose(sums.GG, outer[:, one, one].T @ outer[:, one, one], **close)
        np.testing.assert_allclose(sums.GR, outer[:, one, one].T @ R, **close)
        np.testing.assert_allclose(sums.GZ * weights[one], outer[:, one, one].T @ inner[:, one], **close)
        np.testing.assert_allclose(
            sums.ZZ * np.outer(weights[one], weights[one]), inner[:, one].T @ inner[:, one], **close
        )
        np.testing.assert_allclose(sums.ZR[:, one] * weights[one], inner[:, one].T @ R[:, one], **close)
    assert sums.ZZ.shape == (k * p, k * p)
    np.testing.assert_allclose(sums.RR, R.T @ R, rtol=1e-13)
    assert sums.count == len(X)


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_merging_blocks_gives_the_whole(block_rows):
    X, Y, network = small_problem("relu", seed=3)
    whole = accumulate_normal(RowBlocks.from_arrays(X, Y), network)
    parts = accumulate_normal(RowBlocks.from_arrays(X, Y, block_rows=block_rows), network)
    halves = [
        accumulate_normal(RowBlocks.from_arrays(X[s], Y[s]), network) for s in (slice(0, 9), slice(9, None))
    ]
    for field in fields(NormalSums):
        expected = getattr(whole, field.name)
        scale = 1e-14 * (1 + np.abs(expected).max())
        np.testing.assert_allclose(getattr(parts, field.name), expected, rtol=0, atol=scale)
        np.testing.assert_allclose(
            getattr(halves[1].merge(halves[0]), field.name), expected, rtol=0, atol=scale
        )


def test_a_slice_inside_a_block_changes_nothing(monkeypatch):
    """Blocks larger than the memory budget are cut into slices of at least 64 rows."""
    X, Y, network = small_problem("relu", n=300)
    whole = accumulate_normal(RowBlocks.from_arrays(X, Y), network)
    monkeypatch.setattr("planted.moments._gram._SLICE_BYTES", 1)
    monkeypatch.setattr("planted.moments._gram._MIN_SLICE", 64)
    cut = accumulate_normal(RowBlocks.from_arrays(X, Y), network)
    assert cut.count == whole.count
    np.testing.assert_allclose(cut.ZZ, whole.ZZ, rtol=0, atol=1e-14 * np.abs(whole.ZZ).max())
    np.testing.assert_allclose(cut.ZR, whole.ZR, rtol=0, atol=1e-14 * np.abs(whole.ZZ).max())


def test_weights_of_a_slice_are_those_of_its_rows(monkeypatch):
    X, Y, network = small_problem("relu", n=300)
    numbers = 7 + np.arange(len(X))

    def weights(first_row, inputs, outputs):
        return 1.0 / (numbers[first_row : first_row + len(inputs)])

    whole = accumulate_normal(RowBlocks.from_arrays(X, Y), network, weights=weights)
    monkeypatch.setattr("planted.moments._gram._SLICE_BYTES", 1)
    monkeypatch.setattr("planted.moments._gram._MIN_SLICE", 64)
    cut = accumulate_normal(RowBlocks.from_arrays(X, Y, block_rows=150), network, weights=weights)
    scale = np.abs(whole.ZZ).max()
    np.testing.assert_allclose(cut.ZZ, whole.ZZ, rtol=0, atol=1e-14 * scale)
    np.testing.assert_allclose(cut.ZR, whole.ZR, rtol=0, atol=1e-14 * scale)


def test_augment_appends_the_constant_last():
    np.testing.assert_array_equal(augment(np.array([[2.0, 3.0]])), [[2.0, 3.0, 1.0]])


@pytest.mark.parametrize("activation", ["relu", "power:2"])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_products_of_pairs_give_the_same_sums(activation, m, weighted, affine, monkeypatch):
    """Many unknowns take another way through the same block."""
    X, Y, net = small_problem(activation, n=200, d=4, k=5, m=m)
    net = replace(net, B=np.ones((m, 4))) if affine else net
    w = np.random.default_rng(8).uniform(0.5, 2.0, len(X))
    summand = _gram.NormalSummand(net, (lambda first, X, Y: w[first : first + len(X)]) if weighted else None)
    plain = summand(0, X, Y)
    monkeypatch.setattr(_gram, "_MANY_UNKNOWNS", 0)
    pairs = summand(0, X, Y)
    for item in fields(plain):
        np.testing.assert_allclose(
            getattr(pairs, item.name), getattr(plain, item.name), rtol=1e-11, atol=1e-10
        )
