"""One tree of merges, whoever computes its branches; a uniform sample and a summary that no order changes."""

from dataclasses import dataclass

import numpy as np
import pytest

import planted
from planted.distributed._engine import _branches
from planted.moments import RowMoments, accumulate_normal, joint_moments, summarise_rows
from planted.moments._gram import sum_joint
from planted.outcomes import BadInputError, FileFormatError
from planted.rows import (
    FAN_IN,
    PART_BLOCKS,
    ArraySource,
    RowBlocks,
    Sums,
    SumTree,
    kind_of,
    pack_sums,
    sample_rows,
    sum_branch,
    unpack_sums,
)


def rows(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return 1e3 * rng.standard_normal((n, d)) + 1e5, rng.standard_normal((n, 2))


def same_bits(left, right):
    ours, theirs = pack_sums(left), pack_sums(right)
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("n_parts", [1, 7, 8, 9, 63, 64, 65, 200, 513])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_branches_of_any_height_give_the_bits_of_single_parts(n_parts, threads):
    X, Y = rows(n_parts * PART_BLOCKS - 3)
    source = ArraySource(X, Y, block_rows=1)
    whole = joint_moments(RowBlocks.from_source(source))
    tree = SumTree()
    covered = []
    for level, first, last in _branches(0, n_parts, threads):
        tree.push(sum_branch(source.excerpt(first, last), sum_joint, first, last), level)
        covered += range(first, last)
    assert covered == list(range(n_parts))
    assert same_bits(tree.total(), whole)


def test_the_order_of_merging_is_not_a_matter_of_indifference():
    """The tests of equal bits mean something: another tree gives other bits."""
    X, Y = rows(4 * PART_BLOCKS)
    whole = joint_moments(RowBlocks.from_arrays(X, Y, block_rows=1))
    other = joint_moments(RowBlocks.from_arrays(X[::-1], Y[::-1], block_rows=1))
    assert not np.array_equal(whole.scatter, other.scatter)
    # Merging n rows one by one at an offset of 100 deviations loses about n eps (mean / deviation)².
    np.testing.assert_allclose(whole.scatter, other.scatter, rtol=1e-9, atol=1e-9 * whole.scatter.max())


def test_resuming_inside_a_branch_begins_with_small_branches():
    spans = list(_branches(3, 1000, 1))
    assert spans[0] == (0, 3, 4)
    assert all(first % FAN_IN**level == 0 for level, first, _ in spans)
    assert spans[-1][2] == 1000


def test_parts_without_rows_count_but_change_nothing():
    X, Y = rows(5 * PART_BLOCKS)
    blocks = RowBlocks.from_arrays(X, Y, block_rows=1)
    emptied = blocks.map_numbered(lambda first, X, Y: (X[:0], Y[:0]) if first < 2 * PART_BLOCKS else (X, Y))
    assert joint_moments(emptied).count == 3 * PART_BLOCKS
    nothing = blocks.map_numbered(lambda first, X, Y: (X[:0], Y[:0]))
    with pytest.raises(BadInputError, match="0 sample"):
        joint_moments(nothing)


def test_passes_are_counted_through_maps_and_appear_in_stats():
    data = planted.simulate.dataset(
        300, n_features=3, n_hidden=2, n_outputs=2, law="exponential", activity=(0.3, 0.7), random_state=0
    )
    blocks = RowBlocks.from_arrays(data.X, data.Y)
    joint_moments(blocks.map(lambda X, Y: (2 * X, Y)))
    assert blocks.passes.count == 1
    recovery = planted.recover(blocks, n_hidden=2, method="complementarity", random_state=0)
    assert recovery.stats["passes"] == blocks.passes.count - 1 >= 3


def test_float32_is_summed_in_float64():
    X, Y = rows(1000)
    narrow = joint_moments(RowBlocks.from_arrays(X.astype(np.float32), Y.astype(np.float32)))
    exact = joint_moments(
        RowBlocks.from_arrays(*(part.astype(np.float32).astype(np.float64) for part in (X, Y)))
    )
    assert narrow.scatter.dtype == np.float64
    assert same_bits(narrow, exact)


def test_a_sample_with_known_length_is_the_same_sample():
    X, Y = rows(5000)
    blocks = RowBlocks.from_arrays(X, Y, block_rows=100)
    free, known = (
        sample_rows(blocks, 300, np.random.default_rng(3), n_rows=n_rows)[0] for n_rows in (None, len(X))
    )
    np.testing.assert_array_equal(free, known)
    assert len(free) == 300


def test_other_generators_give_samples_too():
    X, Y = rows(500)
    drawn = [
        sample_rows(RowBlocks.from_arrays(X, Y), 50, np.random.Generator(np.random.Philox(seed)))[0]
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_a_summary_is_a_function_of_the_set_of_rows():
    X, Y = rows(3000)
    whole = summarise_rows(RowBlocks.from_arrays(X, Y), 200)
    order = np.random.default_rng(5).permutation(len(X))
    parts = [summarise_rows(RowBlocks.from_arrays(X[i], Y[i]), 200) for i in np.array_split(order, 7)]
    merged = parts[3]
    for part in (parts[i] for i in (6, 0, 1, 5, 2, 4)):
        merged = merged.merge(part)
    for name in ("keys", "X", "Y"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(merged, name))
    assert merged.count == 3000 and not merged.holds_all_rows
    np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=1e-9, atol=1e-9 * whole.scatter.max())
    with pytest.raises(BadInputError, match="cannot be merged"):
        whole.merge(summarise_rows(RowBlocks.from_arrays(X[:, :2], Y), 200))


def test_the_sample_of_a_summary_is_uniform():
    """Each of 1,000 rows is kept with probability 1/4: the kept numbers have the mean of all, within 4 standard errors."""
    index = np.arange(1000.0)[:, None]
    kept = summarise_rows(RowBlocks.from_arrays(index, np.zeros((1000, 1))), 250).X[:, 0]
    error = np.sqrt(1000**2 / 12 / 250 * 0.75)
    assert abs(kept.mean() - 499.5) < 4 * error


def test_sums_survive_a_file_bit_by_bit():
    data = planted.simulate.dataset(50, n_features=3, n_hidden=2, n_outputs=2, random_state=0)
    blocks = RowBlocks.from_arrays(data.X, data.Y)
    for sums in (joint_moments(blocks), accumulate_normal(blocks, data.network), summarise_rows(blocks, 9)):
        again = unpack_sums(kind_of(type(sums)), pack_sums(sums))
        assert type(again) is type(sums) and same_bits(again, sums)
    with pytest.raises(FileFormatError, match="unknown kind"):
        unpack_sums("NoSuchSums", {})
    with pytest.raises(FileFormatError, match="expected"):
        unpack_sums(kind_of(RowMoments), {"count": np.array(1)})


def test_kinds_of_sums_with_one_short_name_are_told_apart():
    def counting():
        @dataclass(frozen=True, slots=True)
        class Twin(Sums):
            rows: int

        return Twin

    def adding():
        @dataclass(frozen=True, slots=True)
        class Twin(Sums):
            total: float

        return Twin

    for kind, value in ((counting(), 2), (adding(), 1.5)):
        assert unpack_sums(kind_of(kind), pack_sums(kind(value))) == kind(value)
