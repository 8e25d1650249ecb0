"""Row blocks: what they refuse, and the uniform sample drawn from them in one pass."""

import numpy as np
import pytest

from planted.outcomes import BadInputError, BadInputTypeError
from planted.rows import RowBlocks, sample_rows


def blocks_of(*pairs):
    return RowBlocks(lambda: iter(pairs))


def test_arrays_come_back_in_order_and_again_on_a_second_reading():
    X, Y = np.arange(14.0).reshape(7, 2), np.arange(7.0)[:, None]
    blocks = RowBlocks.from_arrays(X, Y, block_rows=3)
    for _ in range(2):
        parts = list(blocks)
        assert [len(rows) for rows, _ in parts] == [3, 3, 1]
        np.testing.assert_array_equal(np.concatenate([rows for rows, _ in parts]), X)
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in parts]), Y)


def test_a_vector_of_outputs_is_one_column_and_integers_become_floats():
    ((X, Y),) = blocks_of((np.ones((2, 3), dtype=int), np.array([1, 2])))
    assert X.dtype == Y.dtype == np.float64
    np.testing.assert_array_equal(Y, [[1.0], [2.0]])


def test_map_sees_every_block_and_checks_what_it_returns():
    blocks = RowBlocks.from_arrays(np.ones((5, 1)), np.ones((5, 1)), block_rows=2)
    assert [float(X.sum()) for X, _ in blocks.map(lambda X, Y: (3 * X, Y))] == [6.0, 6.0, 3.0]
    with pytest.raises(BadInputError, match="block 0"):
        list(blocks.map(lambda X, Y: (X[:1], Y)))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ((np.ones((2, 3)), np.ones((2, 1))), "block 1 has 3 inputs and 1 outputs; the first had 2 and 1"),
        ((np.ones((2, 2)), np.ones((2, 4))), "block 1 has 2 inputs and 4 outputs; the first had 2 and 1"),
        ((np.ones((2, 2)), np.ones((3, 1))), r"block 1: X has shape \(2, 2\) and Y \(3, 1\)"),
        ((np.ones(2), np.ones((2, 1))), r"block 1: X has shape \(2,\)"),
        ((np.array([[1.0, np.nan]]), np.ones((1, 1))), "block 1 contains NaN or infinity"),
        ((np.ones((1, 2)), np.array([[np.inf]])), "block 1 contains NaN or infinity"),
    ],
)
def test_a_bad_block_is_refused_with_its_number(second, message):
    with pytest.raises(BadInputError, match=message):
        list(blocks_of((np.ones((2, 2)), np.ones((2, 1))), second))


def test_the_sample_of_no_rows_is_refused():
    with pytest.raises(BadInputError, match="0 sample"):
        sample_rows(blocks_of(), 5, np.random.default_rng(0))


@pytest.mark.parametrize("block_rows", [1, 7, 100])
def test_a_sample_larger_than_the_data_is_the_data(block_rows):
    X, Y = np.arange(40.0).reshape(20, 2), np.arange(20.0)[:, None]
    sampled = sample_rows(RowBlocks.from_arrays(X, Y, block_rows=block_rows), 20, np.random.default_rng(0))
    np.testing.assert_array_equal(sampled[0], X)
    np.testing.assert_array_equal(sampled[1], Y)


@pytest.mark.parametrize("block_rows", [1, 3, 50])
def test_the_sample_keeps_order_and_pairs_and_does_not_depend_on_the_blocks(block_rows):
    index = np.arange(50.0)
    blocks = RowBlocks.from_arrays(index[:, None], -index[:, None], block_rows=block_rows)
    X, Y = sample_rows(blocks, 12, np.random.default_rng(4))
    whole = RowBlocks.from_arrays(index[:, None], -index[:, None])
    again, _ = sample_rows(whole, 12, np.random.default_rng(4))
    assert X.shape == (12, 1)
    assert (np.diff(X[:, 0]) > 0).all()
    np.testing.assert_array_equal(Y, -X)
    np.testing.assert_array_equal(X, again)


def test_every_row_and_every_pair_is_equally_likely():
    """Row i is kept with probability s/n, rows i and j together with s(s-1)/(n(n-1)); 4 standard errors each."""
    n, s, repeats, rng = 12, 4, 4000, np.random.default_rng(11)
    blocks = RowBlocks.from_arrays(np.arange(float(n))[:, None], np.zeros((n, 1)), block_rows=5)
    together = np.zeros((n, n))
    for _ in range(repeats):
        kept = sample_rows(blocks, s, rng)[0][:, 0].astype(int)
        together[np.ix_(kept, kept)] += 1
    frequency = together / repeats
    single, pair = s / n, s * (s - 1) / (n * (n - 1))
    # The largest of 12 (66) frequencies: 4.5 standard errors are exceeded once in 2,000 runs, and the seed is fixed.
    assert np.abs(np.diag(frequency) - single).max() < 4.5 * np.sqrt(single * (1 - single) / repeats)
    off = frequency[np.triu_indices(n, 1)]
    assert np.abs(off - pair).max() < 4.5 * np.sqrt(pair * (1 - pair) / repeats)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones((4, 2), dtype=complex), "X of block 0 has dtype complex128"),
        (np.full((4, 2), "1.5"), "X of block 0 has dtype <U3"),
        (np.zeros((4, 2), dtype="datetime64[D]"), r"X of block 0 has dtype datetime64"),
        (np.ma.masked_greater(np.ones((4, 2)), 0), "X of block 0 is a masked array"),
    ],
)
def test_what_is_not_a_real_number_is_not_converted_silently(values, words):
    with pytest.raises(BadInputTypeError, match=words):
        list(RowBlocks.from_arrays(values, np.ones((4, 1))))
