"""Rows and their sums: sources by parts, views, weights and the tree, with numbers that can be counted."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

from planted.moments._gram import RowMoments
from planted.outcomes import BadInputError, FileFormatError
from planted.rows import RowBlocks
from planted.rows._passes import Sums, SumTree, kind_of, pack_sums, unpack_sums
from planted.rows._sources import (
    PART_BLOCKS,
    ArraySource,
    HeldSource,
    Mapped,
    StoredWeights,
    Stream,
    Weighted,
    bind_weights,
    checked_pair,
    checked_weights,
    root_of,
    weighed_rows,
    with_root,
)

X = np.arange(84.0).reshape(42, 2)
Y = -np.arange(42.0)[:, None]
ROWS = 1  # rows in a block: 42 rows are 3 parts, the last of ten blocks


def raises(message, kind=BadInputError):
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def source(**options):
    return ArraySource(X, Y, ROWS, **options)


# --- sources


@pytest.mark.parametrize(("first", "last"), [(0, None), (1, None), (0, 1), (1, 2), (2, 9), (0, 3)])
def test_arrays_are_cut_where_the_parts_say(first, last):
    rows = source()
    assert rows.n_parts == 3 and not rows.is_weighted
    found = list(rows.blocks(first, last))
    numbers = list(range(first * PART_BLOCKS, min(42, 999 if last is None else last * PART_BLOCKS)))
    assert [block.number for block in found] == numbers == [block.first_row for block in found]
    assert [block.part for block in found] == [number // PART_BLOCKS for number in numbers]
    for block in found:
        np.testing.assert_array_equal(block.X, X[block.number : block.number + 1])
        np.testing.assert_array_equal(block.Y, Y[block.number : block.number + 1])
        assert block.w is None


def test_an_excerpt_keeps_the_numbers_of_the_whole():
    w, order = np.arange(1.0, 43.0), np.arange(42)[::-1]
    for options in ({}, {"w": w}, {"w": w, "order": order}):
        whole = source(**options)
        part = whole.excerpt(1, 3)
        assert part.n_parts == 3 and part.first_part == 1
        again = part.excerpt(2, 3)
        for few, first in ((part, 1), (again, 2)):
            for one, other in zip(whole.blocks(first, None), few.blocks(first, None), strict=True):
                assert one[:3] == other[:3]
                np.testing.assert_array_equal(one.X, other.X)
                np.testing.assert_array_equal(one.Y, other.Y)
                if options:
                    np.testing.assert_array_equal(one.w, other.w)
        part.X[:] = 0.0  # a copy: the worker's rows are its own
    assert X[20, 0] == 40.0


def test_rows_are_read_in_the_order_that_is_asked_for():
    order = np.random.default_rng(0).permutation(42)
    found = np.vstack([block.X for block in source(order=order).blocks(0, None)])
    np.testing.assert_array_equal(found, X[order])


def test_sources_say_what_they_hold():
    assert repr(RowBlocks.from_source(source())) == "RowBlocks(42 rows, d=2, m=1, blocks of 1, arrays)"
    assert repr(source(w=np.ones(42))).endswith("arrays, weighted")
    assert repr(ArraySource(X, Y[:, 0])) == "42 rows, d=2, m=1, blocks of 4,096, arrays"
    assert repr(Stream(lambda: [])) == "rows not counted, a stream"
    assert repr(Mapped(source(), None)) == "42 rows, d=2, m=1, blocks of 1, arrays, transformed"
    assert repr(Weighted(Stream(lambda: []), np.ones(1))) == "rows not counted, a stream, weighted"


def test_a_memory_map_says_that_it_is_one(tmp_path):
    np.save(tmp_path / "x.npy", X)
    assert "a memory map" in repr(ArraySource(np.load(tmp_path / "x.npy", mmap_mode="r"), Y))


def test_a_stream_is_counted_from_its_beginning():
    pairs = [(X[i : i + 2], Y[i : i + 2]) for i in range(0, 42, 2)]
    stream = Stream(lambda: pairs)
    assert stream.n_parts is None
    found = list(stream.blocks(1, None))
    assert [block.number for block in found] == [16, 17, 18, 19, 20]
    assert [block.first_row for block in found] == [32, 34, 36, 38, 40]
    assert {block.part for block in found} == {1}
    assert len(list(stream.blocks(0, 1))) == PART_BLOCKS
    held = HeldSource(tuple(stream.blocks(0, None)))
    assert held.n_parts is None
    assert [block.number for block in held.blocks(1, 2)] == [16, 17, 18, 19, 20]
    assert [block.number for block in held.blocks(0, 1)] == list(range(16))
    assert len(list(held.blocks(0, None))) == 21


def test_blocks_are_refused_by_their_number():
    assert checked_pair(0, X, Y[:, 0], None)[1].shape == (42, 1)
    assert checked_pair(0, X.astype(np.float32), Y, (2, 1))[0].dtype == np.float64
    shapes = "block 3: X has shape (42, 2) and Y (41, 1); expected (rows, d) and (rows, m)"
    with raises(shapes):
        checked_pair(3, X, Y[1:], None)
    with raises("block 0: X has shape (42,) and Y (42, 1); expected (rows, d) and (rows, m)"):
        checked_pair(0, X[:, 0], Y, None)
    with raises("block 0: X has shape (42, 2) and Y (42, 1, 1); expected (rows, d) and (rows, m)"):
        checked_pair(0, X, Y[:, :, None], None)
    with raises("block 5 has 2 inputs and 1 outputs; the first had 3 and 1"):
        checked_pair(5, X, Y, (3, 1))
    with raises("block 5 has 2 inputs and 1 outputs; the first had 2 and 2"):
        checked_pair(5, X, Y, (2, 2))
    for place, value in ((X, np.nan), (Y, np.inf)):
        spoiled = place.copy()
        spoiled[3] = value
        pair = (spoiled, Y) if place is X else (X, spoiled)
        for may_miss in (False, True):
            with raises("block 2 contains NaN or infinity"):
                checked_pair(2, *pair, None, may_miss=may_miss)
    missing = np.where(np.arange(42)[:, None] == 3, np.nan, Y)
    with raises("block 2 contains NaN or infinity"):
        checked_pair(2, X, missing, None)
    np.testing.assert_array_equal(checked_pair(2, X, missing, None, may_miss=True)[1], missing)


def test_blocks_that_change_their_width_are_refused():
    stream = Stream(lambda: [(X, Y), (X[:, :1], Y)])
    with raises("block 1 has 1 inputs and 1 outputs; the first had 2 and 1"):
        list(stream.blocks(0, None))
    widths = iter([2, 1])
    narrowing = Mapped(Stream(lambda: [(X, Y), (X, Y)]), lambda first, x, y: (x[:, : next(widths)], y))
    with raises("block 1 has 1 inputs and 1 outputs; the first had 2 and 1"):
        list(narrowing.blocks(0, None))


# --- views and weights


def test_functions_see_the_number_of_the_first_row_and_the_weights():
    w = np.arange(42.0)

    @dataclass(frozen=True)
    class Scale:
        weights: object

        def __call__(self, first_row, x, y):
            return x + first_row, y * self.weights(first_row, x, y)[:, None]

    blocks = RowBlocks.from_arrays(X, Y, block_rows=5, weights=w).map_numbered(Scale(StoredWeights(2.0)))
    assert blocks.is_weighted and blocks.widths() == (2, 1)
    found = list(blocks.source.blocks(0, None))
    # The first row has weight zero and is left out where it is read.
    assert [len(block.X) for block in found] == [4, 5, 5, 5, 5, 5, 5, 5, 2]
    np.testing.assert_array_equal(found[1].Y[:, 0], -2.0 * w[5:10] * w[5:10])
    np.testing.assert_array_equal(found[1].X, X[5:10] + 5)
    np.testing.assert_array_equal(np.concatenate([block.w for block in found]), w[1:])
    np.testing.assert_array_equal(np.vstack([x for x, _ in blocks]), np.vstack([b.X for b in found]))


def test_weights_belong_to_rows_of_any_source():
    w = np.arange(42.0) % 3
    stream = RowBlocks(lambda: ((X[i : i + 4], Y[i : i + 4]) for i in range(0, 42, 4)))
    arrays = RowBlocks.from_arrays(X, Y, block_rows=4)
    assert not stream.is_weighted and not arrays.is_weighted
    for blocks in (stream, arrays, arrays.map(lambda x, y: (x, y))):
        weighed = blocks.weighted(w)
        assert weighed.is_weighted and weighed.source.is_weighted
        np.testing.assert_array_equal(np.vstack([x for x, _ in weighed]), X[w > 0])
        found = np.concatenate([block.w for block in weighed.source.blocks(0, None)])
        np.testing.assert_array_equal(found, w[w > 0])
        assert weighed.passes is blocks.passes
    with raises("the weights have shape (3,); expected (42,)"):
        arrays.weighted(np.ones(3))
    with raises("there are 2 weights for 4 rows; expected one for each"):
        list(stream.weighted(w[:2]).source.blocks(0, None))


def test_weights_are_refused_by_row():
    text = "weights must be finite and zero or more. Give rows that should not count a weight of 0."
    for value in (-1.0, np.nan, np.inf):
        with raises(f"table: the weight of row 12 is {value}; {text}"):
            checked_weights([1.0, 0.0, value, -5.0], 10, "table")
    with raises(f"block 2: the weight of row 2 is -1.0; {text}"):
        list(
            RowBlocks.from_arrays(X[:3], Y[:3], block_rows=1, weights=np.array([1, 1, -1])).source.blocks(
                0, None
            )
        )
    np.testing.assert_array_equal(checked_weights(np.ones((2, 1), dtype=int), 0, "w"), [1.0, 1.0])
    rows = weighed_rows(X[:2], Y[:2], np.array([1.0, 2.0]))
    assert np.shares_memory(rows[0], X)  # nothing is copied when all count


def test_weights_are_bound_to_the_block_they_belong_to():
    stored = StoredWeights(3.0)
    with pytest.raises(AssertionError, match="stored weights are read with their rows"):
        stored(0, X, Y)

    @dataclass(frozen=True)
    class Summand:
        weights: object = None

    bound = bind_weights(Summand(stored), 10, np.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(bound.weights(11, X[:2], Y[:2]), [6.0, 12.0])
    for other in (Summand(), Summand(len), len):
        assert bind_weights(other, 10, np.ones(3)) is other


def test_the_root_of_views_can_be_exchanged():
    inner = source()
    view = Weighted(
        Mapped(Mapped(inner, lambda first, x, y: (x + 1, y)), lambda first, x, y: (2 * x, y)), Y[:, 0] + 50
    )
    assert root_of(view) is inner and view.n_parts == 3 and root_of(inner) is inner
    other = with_root(view, inner.excerpt(1, 2))
    (first, *_) = other.blocks(1, 2)
    np.testing.assert_array_equal(first.X, 2 * (X[16:17] + 1))
    np.testing.assert_array_equal(first.w, [34.0])
    assert with_root(inner, other) is other
    weighted = Mapped(source(w=Y[:, 0] + 50), None)
    assert view.is_weighted and not inner.is_weighted and weighted.is_weighted


def test_missing_labels_stay_missing_through_further_functions():
    gap = RowBlocks.from_arrays(X, Y).map(lambda x, y: (x, np.where(y == -3, np.nan, y)), may_miss=True)
    ((_, found),) = list(gap.map(lambda x, y: (x, 2 * y)))
    assert np.isnan(found[3]).all() and np.isnan(found).sum() == 1
    with raises("block 0 contains NaN or infinity"):
        list(RowBlocks.from_arrays(X, Y).map(lambda x, y: (x, np.where(y == -3, np.nan, y))))


# --- the tree


@dataclass(frozen=True, slots=True)
class Names(Sums):
    """Sums that remember how they were merged."""

    text: str

    def merge(self, other):
        return Names(f"({self.text}{other.text})")


def test_the_tree_merges_in_its_fixed_order():
    tree = SumTree()
    for letter in "abcdefghijklmnopqr":
        tree.push(Names(letter))
    assert tree.counts == [2, 2] and tree.n_parts == 18
    eight = "(((((((ab)c)d)e)f)g)h)"
    sixteen = f"({eight}{eight.translate(str.maketrans('abcdefgh', 'ijklmnop'))})"
    assert [node.text for node in tree.nodes] == ["(qr)", sixteen]
    assert tree.total().text == f"({sixteen}(qr))"
    assert tree.counts == [2, 2]  # asking for the total changes nothing


def test_branches_enter_the_tree_at_their_height():
    tree = SumTree()
    tree.push(Names("A"), 2)
    assert tree.counts == [0, 0, 1] and tree.n_parts == 64
    tree.push(None)
    tree.push(Names("z"))
    assert tree.n_parts == 66 and tree.total().text == "(Az)"
    for _ in range(6):
        tree.push(None)
    assert tree.counts == [0, 1, 1] and tree.nodes[0] is None
    assert SumTree().total() is None and SumTree().n_parts == 0


def test_sums_survive_packing():
    moments = RowMoments.of(np.column_stack([X, Y]))
    packed = pack_sums(moments)
    again = unpack_sums(kind_of(RowMoments), packed)
    assert again.count == 42 and isinstance(again.count, int)
    np.testing.assert_array_equal(again.scatter, moments.scatter)
    with raises("sums of the unknown kind 'Nothing'; they were written by another version", FileFormatError):
        unpack_sums("Nothing", packed)
    packed.pop("mean")
    with raises(
        "sums of kind RowMoments with fields ['count', 'scatter']; expected ['count', 'mean', 'scatter']",
        FileFormatError,
    ):
        unpack_sums(kind_of(RowMoments), packed)
