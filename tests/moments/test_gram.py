"""Sums of products of rows: mean and scatter at any offset, regressions, and the pass that judges a network."""

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planted.moments import RegressionSums, RowMoments, check_rows_against, joint_moments
from planted.moments._gram import RowChecks
from planted.outcomes import BadInputError
from planted.rows import RowBlocks, kind_of, pack_sums, unpack_sums
from planted.simulate import dataset


def exact_scatter(rows):
    """The scatter in rational arithmetic, rounded once."""
    columns = [[Fraction(value) for value in column] for column in rows.T]
    centred = [[value - sum(column) / len(column) for value in column] for column in columns]
    return np.array(
        [[float(sum(a * b for a, b in zip(u, v, strict=True))) for v in centred] for u in centred]
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e8, -1e8]))
def test_parts_merged_in_any_order_equal_the_whole(seed, offset):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((40, 3)) + offset
    cuts = np.sort(rng.choice(np.arange(1, 40), 5, replace=False))
    parts = [RowMoments.of(part) for part in np.split(rows, cuts)]
    merged = reduce(RowMoments.merge, [parts[i] for i in rng.permutation(len(parts))])
    assert merged.count == 40
    # Five merges round the mean five times, the mean of the whole and of the parts once each: seven roundings of 2^-52.
    np.testing.assert_allclose(merged.mean, rows.mean(axis=0), rtol=7 * 2.0**-52, atol=1e-15)
    scale = np.trace(merged.scatter)
    # Steps between means of parts lose 1e-8 absolutely at offset 1e8: relative 1e-8 of a standard deviation of one.
    tol = 1e-13 if offset == 0 else 4e-8
    np.testing.assert_allclose(merged.scatter, exact_scatter(rows), rtol=0, atol=tol * scale)


def test_hand_numbers():
    left, right = RowMoments.of(np.array([[0.0, 1.0], [2.0, 3.0]])), RowMoments.of(np.array([[4.0, -1.0]]))
    both = left.merge(right)
    assert both.count == 3
    np.testing.assert_allclose(both.mean, [2.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(both.scatter, [[8.0, -4.0], [-4.0, 8.0]], rtol=1e-15)
    np.testing.assert_allclose(both.covariance, [[8 / 3, -4 / 3], [-4 / 3, 8 / 3]], rtol=1e-15)


def test_scales_near_the_ends_of_the_number_range():
    rows = np.array([[1.0, -2.0], [3.0, 0.0], [2.0, 5.0]])
    for scale in (1e150, 1e-150):
        parts = [RowMoments.of(scale * rows[:1]), RowMoments.of(scale * rows[1:])]
        scatter = parts[0].merge(parts[1]).scatter / scale / scale
        np.testing.assert_allclose(scatter, RowMoments.of(rows).scatter, rtol=1e-13)


def test_joint_moments_skip_empty_blocks_and_refuse_no_rows():
    X, Y = np.arange(6.0).reshape(3, 2), np.array([[1.0], [0.0], [2.0]])
    empty = (np.zeros((0, 2)), np.zeros((0, 1)))
    blocks = RowBlocks(lambda: iter([empty, (X[:1], Y[:1]), empty, (X[1:], Y[1:])]))
    moments = joint_moments(blocks)
    assert moments.count == 3
    np.testing.assert_allclose(moments.mean, [2.0, 3.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(moments.scatter[:2, 2], [2.0, 2.0], rtol=1e-14)
    with pytest.raises(BadInputError, match="0 sample"):
        joint_moments(RowBlocks(lambda: iter([empty])))


EPS = np.finfo(float).eps


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((500, 4)), rng.standard_normal((500, 3)) + 2.0


def test_sums_of_a_block_are_the_former_ones_to_the_bit(rows):
    """Design, product and controlled sums formed the same products; squares differ by the order of addition."""
    G, Y = rows
    sums = RegressionSums.of(G, Y)
    assert sums.count == 500
    np.testing.assert_array_equal(sums.GG, G.T @ G)
    np.testing.assert_array_equal(sums.GY, G.T @ Y)
    np.testing.assert_array_equal(sums.YY, Y.T @ Y)
    design = np.ascontiguousarray(G.T)  # one row of memory for each feature
    np.testing.assert_array_equal(RegressionSums.of(design.T, Y).GG, design @ design.T)
    np.testing.assert_array_equal(RegressionSums.of(design.T, Y).GY, design @ Y)
    # n positive terms, added in any order: at most n roundings of the sum.
    np.testing.assert_allclose(np.diag(sums.YY), (Y**2).sum(axis=0), rtol=500 * EPS)
    np.testing.assert_allclose(np.trace(sums.YY), float((Y**2).sum()), rtol=1500 * EPS)


def test_merged_parts_are_the_whole(rows):
    G, Y = rows
    parts = [RegressionSums.of(G[i : i + 64], Y[i : i + 64]) for i in range(0, 500, 64)]
    merged, whole = reduce(RegressionSums.merge, parts), RegressionSums.of(G, Y)
    assert merged.count == 500
    for name in ("GG", "GY", "YY"):
        size = 500 * EPS * np.sqrt((G**2).sum() * (Y**2).sum())  # n roundings of the largest product
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), rtol=0, atol=size)


def test_weights_count_rows_as_often_as_they_say(rows):
    G, Y = rows
    weights = np.random.default_rng(1).integers(0, 4, 500).astype(float)
    weighed = RegressionSums.of(G, Y, weights)
    repeated = RegressionSums.of(*(np.repeat(part, weights.astype(int), axis=0) for part in rows))
    np.testing.assert_array_equal(weighed.GG, weighed.GG.T)
    for name in ("GG", "GY", "YY"):
        np.testing.assert_allclose(getattr(weighed, name), getattr(repeated, name), rtol=0, atol=1e-11)


def test_single_precision_features_are_summed_in_double(rows):
    G, Y = rows
    sums = RegressionSums.of(G.astype(np.float32), Y)
    assert {getattr(sums, name).dtype for name in ("GG", "GY", "YY")} == {np.dtype(np.float64)}
    np.testing.assert_array_equal(sums.YY, Y.T @ Y)
    np.testing.assert_array_equal(sums.GY, G.astype(np.float32).T @ Y.astype(np.float32))


def test_regression_sums_travel_through_files(rows):
    sums = RegressionSums.of(*rows)
    back = unpack_sums(kind_of(RegressionSums), pack_sums(sums))
    assert isinstance(back, RegressionSums) and back.count == sums.count
    np.testing.assert_array_equal(back.GG, sums.GG)


@pytest.fixture
def world():
    data = dataset(700, n_features=4, n_hidden=3, n_outputs=2, noise=0.1, random_state=0)
    return data, RowBlocks.from_arrays(data.X, data.Y, block_rows=128)


@pytest.mark.parametrize("tol", [1e-9, 0.1, np.inf])
def test_the_pass_gives_what_three_passes_gave(world, tol):
    data, blocks = world
    net = data.network
    checks = check_rows_against(blocks, net, tol=tol)
    t = net.preactivations(data.X)
    residual = data.Y - net.activation(t) @ net.A.T - net.c
    # The certificates: largest residual, activity and count, to the bit.
    assert checks.largest_residual == np.abs(residual).max()
    np.testing.assert_array_equal(checks.active, (t > 0).sum(axis=0))
    assert checks.n_samples == 700
    # The searches: rows beyond a tolerance.
    assert checks.missed == (np.abs(residual).max(axis=1) > tol).sum()
    # The diagnosis: the sum of squares; 1,400 positive terms in another order, each residual to a few roundings of y.
    squares = float(((data.Y - net(data.X)) ** 2).sum())
    size = 4 * EPS * np.abs(data.Y).max() * np.abs(residual).sum()
    assert checks.squares == pytest.approx(squares, rel=1400 * EPS, abs=size)
    np.testing.assert_array_equal(checks.active, net.patterns(data.X).sum(axis=0))
    assert blocks.passes.count == 1


def test_the_largest_of_parts_is_the_largest_and_the_rest_adds_up(world):
    data, blocks = world
    halves = [
        check_rows_against(RowBlocks.from_arrays(data.X[part], data.Y[part]), data.network, tol=0.1)
        for part in (slice(0, 300), slice(300, None))
    ]
    whole, merged = check_rows_against(blocks, data.network, tol=0.1), halves[0].merge(halves[1])
    assert merged.largest_residual == whole.largest_residual
    assert (merged.n_samples, merged.missed) == (whole.n_samples, whole.missed)
    assert merged.squares == pytest.approx(whole.squares, rel=1400 * EPS)
    np.testing.assert_array_equal(merged.active, whole.active)


def test_row_checks_travel_through_files(world):
    data, blocks = world
    checks = check_rows_against(blocks, data.network, tol=0.1)
    back = unpack_sums(kind_of(RowChecks), pack_sums(checks))
    assert isinstance(back, RowChecks)
    assert (back.missed, back.squares, back.largest_residual) == (
        checks.missed,
        checks.squares,
        checks.largest_residual,
    )
