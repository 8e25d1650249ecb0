"""Sums of regressions merge, weigh, and keep float64 totals of float32 features."""

from functools import reduce

import numpy as np
import pytest

from planted.moments import RegressionSums
from planted.rows import kind_of, pack_sums, unpack_sums

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


def test_they_travel_through_files(rows):
    sums = RegressionSums.of(*rows)
    back = unpack_sums(kind_of(RegressionSums), pack_sums(sums))
    assert isinstance(back, RegressionSums) and back.count == sums.count
    np.testing.assert_array_equal(back.GG, sums.GG)
