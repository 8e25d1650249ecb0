"""Mean and scatter merged in any order equal those of all rows, at any offset."""

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planted.moments import RowMoments, joint_moments
from planted.outcomes import BadInputError
from planted.rows import RowBlocks


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
