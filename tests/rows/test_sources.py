"""Arrays, memory maps, files and folders are one source: the same blocks, the same bits, from any part on."""

import numpy as np
import pyarrow
import pytest
from pyarrow import feather, parquet, table

import planted
from planted import RowBlocks, open_blocks
from planted.io import write_table
from planted.moments import joint_moments
from planted.outcomes import BadInputError

BLOCK = 10
N = 16 * BLOCK * 3 + 47  # three parts and a piece
RNG = np.random.default_rng(7)
VALUES = RNG.standard_normal((N, 5))
NAMES = ["a", "b", "c", "y", "z"]
COLUMNS = dict(zip(NAMES, VALUES.T, strict=True))
TARGETS = ["y", "z"]


def write_all(folder):
    """Write the same table in every form; return how each is opened."""
    np.save(folder / "rows.npy", VALUES)
    write_table(folder / "rows.csv", COLUMNS)
    feather.write_feather(table(COLUMNS), str(folder / "rows.feather"), chunksize=70)
    parquet.write_table(table(COLUMNS), folder / "rows.parquet", row_group_size=33)
    (folder / "many").mkdir()
    for place, part in enumerate(np.array_split(VALUES, [5, 200, 205])):
        columns = dict(zip(NAMES, part.T, strict=True))
        parquet.write_table(table(columns), folder / "many" / f"part-{place}.parquet", row_group_size=21)
    np.savez(folder / "rows.npz", X=VALUES[:, :3], Y=VALUES[:, 3:])
    options = {"targets": TARGETS, "block_rows": BLOCK}
    names = ("rows.csv", "rows.feather", "rows.parquet", "many")
    forms = {name: open_blocks(folder / name, **options) for name in names}
    forms["rows.npy"] = open_blocks(folder / "rows.npy", targets=[3, 4], block_rows=BLOCK)
    forms["rows.npz"] = open_blocks(folder / "rows.npz", block_rows=BLOCK)
    mapped = np.load(folder / "rows.npy", mmap_mode="r")
    forms["memory map"] = RowBlocks.from_arrays(mapped[:, :3], mapped[:, 3:], block_rows=BLOCK)
    forms["generator"] = RowBlocks(
        lambda: ((VALUES[i : i + BLOCK, :3], VALUES[i : i + BLOCK, 3:]) for i in range(0, N, BLOCK))
    )
    return forms


def test_every_form_gives_the_same_bits(tmp_path):
    whole = RowBlocks.from_arrays(VALUES[:, :3], VALUES[:, 3:], block_rows=BLOCK)
    expected = joint_moments(whole)
    for name, blocks in write_all(tmp_path).items():
        found = joint_moments(blocks)
        assert np.array_equal(found.mean, expected.mean), name
        assert np.array_equal(found.scatter, expected.scatter), name
        again = [np.hstack(pair) for pair in blocks]
        np.testing.assert_array_equal(np.concatenate(again), VALUES)
        assert {len(part) for part in again[:-1]} == {BLOCK}, name


def test_every_form_can_be_entered_at_any_part(tmp_path):
    for name, blocks in write_all(tmp_path).items():
        everything = list(blocks.source.blocks(0, None))
        for first, last in ((1, None), (2, 3), (3, None)):
            found = list(blocks.source.blocks(first, last))
            wanted = [
                block for block in everything if block.part >= first and (last is None or block.part < last)
            ]
            assert [block[:3] for block in found] == [block[:3] for block in wanted], name
            assert all(np.array_equal(a.X, b.X) for a, b in zip(found, wanted, strict=True)), name


def test_what_can_be_shared_between_workers_says_so(tmp_path):
    shared = {name: blocks.source.n_parts for name, blocks in write_all(tmp_path).items()}
    assert {name for name, n_parts in shared.items() if n_parts == 4} == {
        "rows.parquet", "many", "rows.npy", "memory map",
    }  # fmt: skip


def test_parquet_holds_no_more_than_some_row_groups(tmp_path):
    """A hundred groups of 80 kB: Arrow never holds more than ten of them, however far the reading has come."""
    rows = np.random.default_rng(3).standard_normal((200_000, 5))
    parquet.write_table(
        table(dict(zip(NAMES, rows.T, strict=True))), tmp_path / "long.parquet", row_group_size=2000
    )
    before, most = pyarrow.total_allocated_bytes(), 0
    for _ in open_blocks(tmp_path / "long.parquet", targets=TARGETS, block_rows=2000):
        most = max(most, pyarrow.total_allocated_bytes() - before)
    assert 0 < most < 10 * 2000 * 5 * 8  # four, and what its reading thread has not yet let go


def test_columns_are_chosen_by_name_and_order(tmp_path):
    write_all(tmp_path)
    blocks = open_blocks(tmp_path / "many", targets="b", features=["z", "a"], block_rows=100)
    X, Y = next(iter(blocks))
    np.testing.assert_array_equal(X, VALUES[:100, [4, 0]])
    np.testing.assert_array_equal(Y[:, 0], VALUES[:100, 1])


def test_a_bad_value_is_named_by_block_row_and_column(tmp_path):
    values = VALUES.copy()
    values[207, 1] = np.nan
    parquet.write_table(table(dict(zip(NAMES, values.T, strict=True))), tmp_path / "bad.parquet")
    blocks = open_blocks(tmp_path / "bad.parquet", targets=TARGETS, block_rows=BLOCK)
    with pytest.raises(BadInputError, match=r"block 20 of .*bad.parquet.* row 207, column 1 \('b'\)"):
        joint_moments(blocks)


def test_folders_that_are_no_table_are_refused(tmp_path):
    with pytest.raises(BadInputError, match="holds no table"):
        open_blocks(tmp_path)
    write_table(tmp_path / "a.csv", COLUMNS)
    write_table(tmp_path / "b.parquet", COLUMNS)
    with pytest.raises(BadInputError, match="several formats"):
        open_blocks(tmp_path)
    with pytest.raises(BadInputError, match="no file was given"):
        open_blocks([])
    write_table(tmp_path / "c.csv", {"a": [1.0], "other": [2.0]})
    with pytest.raises(BadInputError, match=r"c.csv has the columns \('a', 'other'\)"):
        open_blocks([tmp_path / "a.csv", tmp_path / "c.csv"])


def test_offsets_and_scales_of_columns_do_not_change_the_network(tmp_path):
    """Columns 1e8 deviations from zero, with scales of 2^±20, about 1e±6: the network of the standardised inputs."""
    data = planted.simulate.dataset(
        400, n_features=4, n_hidden=2, n_outputs=3, law="exponential", activity=(0.3, 0.7), random_state=3
    )
    scale = np.ldexp(1.0, np.array([20, -20, 0, -20]))
    offset = 1e8 * scale * np.array([1.0, -1.0, 1.0, 1.0])
    far = data.X * scale + offset
    near = (far - offset) / scale  # exact: what rounding at the offset has left of the inputs
    Y = data.network(near)
    np.savez(tmp_path / "far.npz", X=far, Y=Y)
    options = {"n_hidden": 2, "method": "complementarity", "random_state": 0}
    plain = planted.recover(near, Y, **options).network.canonical()
    found = planted.recover(open_blocks(tmp_path / "far.npz"), **options)
    assert found.outcome is planted.Outcome.RECOVERED
    W = found.network.W * scale
    norms = np.linalg.norm(W, axis=1)
    b = (found.network.b + found.network.W @ offset) / norms
    back = planted.TwoLayerNetwork(
        W / norms[:, None], b, found.network.A * norms, found.network.c
    ).canonical()
    # Weights lose nothing; a bias is stored beside |W| 1e8, so to some 1e8 eps, and its units' offset with it.
    np.testing.assert_allclose(back.W, plain.W, atol=1e-12)
    np.testing.assert_allclose(back.A, plain.A, atol=1e-12)
    np.testing.assert_allclose(back.b, plain.b, atol=50e8 * np.finfo(float).eps)
