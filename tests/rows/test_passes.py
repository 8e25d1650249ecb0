"""Passes over rows, what remembers them, and samples drawn on the way."""

import re
from functools import partial

import numpy as np
import pytest

from planted.moments._gram import RowMoments, sum_joint
from planted.moments._summary import summarise_rows
from planted.outcomes import BadInputError
from planted.rows import RowBlocks
from planted.rows._passes import RowSample, SumTree, _sample_block, accumulate, sample_rows, sum_branch
from planted.rows._sources import ArraySource

X = np.arange(84.0).reshape(42, 2)
Y = -np.arange(42.0)[:, None]


def raises(message, kind=BadInputError):
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def source():
    return ArraySource(X, Y, 1)


# --- passes


class Diary:
    """A journal that remembers what it was told."""

    def __init__(self, found=None):
        self.found, self.said = found, []

    def open_pass(self, number, summand, source):
        self.said.append(("open", number, summand))
        return SumTree() if self.found is None else self.found

    def note(self, number, tree):
        self.said.append(("note", number, tree.n_parts))

    def save(self, number, tree):
        self.said.append(("save", number, tree.n_parts))

    def close_pass(self, number, total):
        self.said.append(("close", number, total))


def test_a_journal_hears_of_every_part_and_of_the_end():
    diary, summand = Diary(), sum_joint
    blocks = RowBlocks.from_source(source()).executed(journal=diary)
    total = accumulate(blocks, summand)
    assert diary.said == [
        ("open", 1, summand), ("note", 1, 1), ("note", 1, 2), ("note", 1, 3), ("close", 1, total),
    ]  # fmt: skip
    accumulate(blocks, summand)
    assert diary.said[5][:2] == ("open", 2) and blocks.passes.count == 2


def test_a_pass_that_is_complete_is_not_read_again():
    known = RowMoments.of(X)
    blocks = RowBlocks(lambda: 1 / 0).executed(journal=Diary(known))
    assert accumulate(blocks, sum_joint) is known


def test_an_interrupted_pass_is_saved_and_goes_on_where_it_stopped():
    spoiled = X.copy()
    spoiled[35] = np.nan  # in the third part
    diary = Diary()
    with raises("block 35 contains NaN or infinity"):
        accumulate(RowBlocks.from_arrays(spoiled, Y, block_rows=1).executed(journal=diary), sum_joint)
    assert diary.said[-1] == ("save", 1, 2)
    tree = SumTree()
    for first in (0, 1):
        tree.push(sum_branch(source(), sum_joint, first, first + 1))
    rest = RowBlocks.from_source(source()).executed(journal=Diary(tree))
    whole = accumulate(RowBlocks.from_source(source()), sum_joint)
    np.testing.assert_array_equal(accumulate(rest, sum_joint).scatter, whole.scatter)
    assert whole.count == 42


def test_an_engine_is_asked_for_the_parts_that_are_left():
    class Engine:
        def run(self, rows, summand, *, first):
            asked.append((rows, summand, first))
            yield 0, RowMoments.of(np.ones((1, 3)))

    asked, summand, rows = [], sum_joint, source()
    blocks = RowBlocks.from_source(rows).executed(engine=Engine())
    assert accumulate(blocks, summand).count == 1 and asked == [(rows, summand, 0)]
    same = blocks.executed(journal=Diary())
    assert isinstance(same.passes.engine, Engine) and isinstance(same.passes.journal, Diary)
    assert same.executed().passes.journal is same.passes.journal and same.passes.count == 0


def test_no_rows_are_refused_in_words():
    with raises("the data have 0 sample(s)"):
        accumulate(RowBlocks.from_arrays(X[:0], Y[:0]), sum_joint)
    with raises("all weights are zero: the data have 0 sample(s)"):
        accumulate(RowBlocks.from_arrays(X, Y, weights=np.zeros(42)), sum_joint)
    with raises("the data have 0 sample(s)"):
        RowBlocks(lambda: []).widths()
    assert sum_branch(ArraySource(X[:0], Y[:0]), sum_joint, 0, 1) is None


# --- samples


def test_the_sample_is_that_of_the_smallest_keys_of_the_given_stream():
    rng = np.random.default_rng(5)
    rows, targets = sample_rows(RowBlocks.from_arrays(X, Y, block_rows=4), 7, rng)
    keys = np.random.default_rng(5).random(42)
    chosen = np.sort(np.argsort(keys)[:7])
    np.testing.assert_array_equal(rows, X[chosen])
    np.testing.assert_array_equal(targets, Y[chosen])
    # The stream has moved on by one number for each row.
    after = np.random.default_rng(5)
    after.random(42)
    assert rng.random() == after.random()


def test_hopeless_rows_are_dropped_where_they_are_read():
    n = 20_000
    rows = np.arange(float(n))[:, None]
    blocks = RowBlocks.from_arrays(rows, rows)
    plain = sample_rows(blocks, 9, np.random.default_rng(3))[0]
    np.testing.assert_array_equal(sample_rows(blocks, 9, np.random.default_rng(3), n_rows=n)[0], plain)
    state = np.random.default_rng(3).bit_generator.state
    few = _sample_block(9, state, 0.01, 0, rows, rows)
    assert few.seen == n and len(few.keys) == 9
    np.testing.assert_array_equal(few.X, plain)
    none = _sample_block(9, state, 0.0, 0, rows, rows)
    assert none.seen == n and len(none.keys) == 0
    some = _sample_block(500, state, 0.005, 0, rows, rows)
    assert 0 < len(some.keys) < 500 and some.keys.max() <= 0.005


def test_samples_merge_to_the_sample_of_the_union():
    keys = np.array([0.9, 0.1, 0.5, 0.3])
    rows = np.arange(4.0)[:, None]
    parts = [RowSample(2, 3, keys[i], rows[i], -rows[i]) for i in (slice(0, 2), slice(2, 4))]
    both = parts[0].merge(parts[1])
    assert (both.size, both.seen) == (2, 6)
    np.testing.assert_array_equal(both.X[:, 0], [1.0, 3.0])
    np.testing.assert_array_equal(both.Y[:, 0], [-1.0, -3.0])
    np.testing.assert_array_equal(both.keys, [0.1, 0.3])
    small = RowSample(5, 4, keys, rows, rows)
    assert small.cut() is small and RowSample(4, 4, keys, rows, rows).cut().X is rows


def test_a_summary_is_merged_in_any_order():
    cut = partial(RowBlocks.from_arrays, block_rows=3)
    whole = summarise_rows(cut(X, Y), 10)
    one, other = (summarise_rows(cut(X[i], Y[i]), 10) for i in (slice(0, 15), slice(15, 42)))
    for merged in (one.merge(other), other.merge(one)):
        assert merged.count == 42 and merged.size == 10 and not merged.holds_all_rows
        np.testing.assert_array_equal(merged.X, whole.X)
        np.testing.assert_array_equal(merged.keys, whole.keys)
        np.testing.assert_allclose(merged.mean, np.r_[X.mean(axis=0), Y.mean(axis=0)], rtol=1e-14)
        np.testing.assert_allclose(merged.moments.scatter, whole.scatter, rtol=1e-12)
    assert summarise_rows(cut(X, Y), 42).holds_all_rows and (np.diff(whole.keys.astype(float)) > 0).all()
    assert one.merge(summarise_rows(cut(X[15:], Y[15:]), 4)).size == 4
    with raises("sums of 2 inputs and 1 outputs cannot be merged with sums of 1 and 1"):
        one.merge(summarise_rows(cut(X[:, :1], Y), 10))
