"""Weights that rows carry: a column of a file, an array or a repetition of rows are the same thing."""

import numpy as np
import pytest

import planted
from planted import RowBlocks, checkpointed, open_blocks
from planted.fitting._refine import refine
from planted.io import write_table
from planted.moments import accumulate_normal, joint_moments
from planted.outcomes import BadInputError, Outcome
from planted.rows import StoredWeights, pack_sums

DATA = planted.simulate.dataset(
    600, n_features=3, n_hidden=2, n_outputs=1, bias=(-0.5, 0.5), noise=0.01, random_state=5
)
COUNTS = np.random.default_rng(5).integers(0, 4, 600)
COLUMNS = {"a": DATA.X[:, 0], "w": COUNTS / 4, "b": DATA.X[:, 1], "c": DATA.X[:, 2], "y": DATA.Y[:, 0]}
OPTIONS = {"n_hidden": 2, "random_state": 0, "n_restarts": 2}
BLOCK = 50


def in_memory():
    return RowBlocks.from_arrays(DATA.X, DATA.Y, block_rows=BLOCK, weights=COUNTS / 4)


def bits(recovery):
    return b"".join(getattr(recovery.network, name).tobytes() for name in "WbAc")


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.feather", "rows.npy", "rows.npz"])
def test_a_column_of_weights_is_the_array_of_weights(tmp_path, name):
    file = tmp_path / name
    if name == "rows.npy":
        np.save(file, np.column_stack(list(COLUMNS.values())))
    elif name == "rows.npz":
        np.savez(file, X=DATA.X, Y=DATA.Y, w=COUNTS / 4)
    else:
        write_table(file, COLUMNS)
    rows = open_blocks(file, weights=1 if name == "rows.npy" else "w", block_rows=BLOCK)
    assert rows.is_weighted and rows.widths() == (3, 1)
    for found, expected in zip(rows.source.blocks(0, None), in_memory().source.blocks(0, None), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_weighted_sums_are_the_sums_of_repeated_rows():
    repeated = RowBlocks.from_arrays(DATA.X.repeat(COUNTS, 0), DATA.Y.repeat(COUNTS, 0), block_rows=BLOCK)
    expected = pack_sums(accumulate_normal(repeated, DATA.network))
    found = pack_sums(accumulate_normal(in_memory(), DATA.network, weights=StoredWeights(4.0)))
    for name, sums in expected.items():
        # Sums of 900 terms of size one, in two orders.
        np.testing.assert_allclose(found[name], sums, rtol=1e-12, atol=1e-12)


def test_a_weighted_fit_is_the_fit_to_repeated_rows():
    """From the same start; where a search begins is a matter of chance, and the noise has many small minima."""
    repeated = RowBlocks.from_arrays(DATA.X.repeat(COUNTS, 0), DATA.Y.repeat(COUNTS, 0))
    found = refine(in_memory(), DATA.network, weights=StoredWeights(4.0))
    assert planted.parameter_error(found.network, refine(repeated, DATA.network).network) < 1e-12
    assert planted.parameter_error(found.network, refine(in_memory(), DATA.network).network) > 1e-3


def test_weights_of_a_file_or_of_blocks_are_the_weights_of_the_option(tmp_path):
    in_blocks = planted.recover(in_memory(), **OPTIONS)
    write_table(tmp_path / "rows.csv", COLUMNS)
    from_file = open_blocks(tmp_path / "rows.csv", weights="w", block_rows=BLOCK)
    assert bits(planted.recover(from_file, method="restarts", **OPTIONS)) == bits(in_blocks)
    as_option = planted.recover(DATA.X, DATA.Y, method="restarts", sample_weight=COUNTS / 4, **OPTIONS)
    assert in_blocks.outcome is as_option.outcome is Outcome.RECOVERED
    assert in_blocks.provenance.shape[0] == (COUNTS > 0).sum()
    # Blocks of 50 against one: other roundings. A step is taken where the cost falls, which tells parameters apart to the
    # root of rounding.
    assert planted.parameter_error(in_blocks.network, as_option.network) < np.sqrt(np.finfo(float).eps)
    plain = planted.recover(DATA.X, DATA.Y, method="restarts", **OPTIONS)
    assert planted.parameter_error(in_blocks.network, plain.network) > 1e-3


def test_rows_of_weight_zero_are_no_rows():
    """Without noise all weights give the planted network; here rows of weight zero would spoil it."""
    Y = np.where(COUNTS[:, None] > 0, DATA.Y_clean, 1e3)
    recovery = planted.recover(RowBlocks.from_arrays(DATA.X, Y, weights=COUNTS), **OPTIONS)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, DATA.network) < 1e-11


@pytest.mark.parametrize(("value", "said"), [(-0.5, "is -0.5"), (np.inf, "is inf")])
def test_bad_weights_are_refused_by_row(value, said):
    weights = np.ones(600)
    weights[217] = value
    blocks = RowBlocks.from_arrays(DATA.X, DATA.Y, block_rows=BLOCK, weights=weights)
    with pytest.raises(BadInputError, match=f"block 4: the weight of row 217 {said}"):
        planted.recover(blocks, **OPTIONS)


def test_missing_weights_in_a_file_are_refused_by_row(tmp_path):
    weights = np.ones(600)
    weights[217] = np.nan
    write_table(tmp_path / "rows.parquet", COLUMNS | {"w": weights})
    with pytest.raises(BadInputError, match=r"block 4 of .*row 217, column 4 \('w'\)"):
        joint_moments(open_blocks(tmp_path / "rows.parquet", weights="w", block_rows=BLOCK))


def test_what_is_no_column_of_weights_is_refused(tmp_path):
    write_table(tmp_path / "rows.csv", COLUMNS)
    with pytest.raises(BadInputError, match=r"no column 'weight' \(weights, --weights\)"):
        open_blocks(tmp_path / "rows.csv", weights="weight")
    with pytest.raises(BadInputError, match="'w' of the weights is a feature or target too"):
        open_blocks(tmp_path / "rows.csv", weights="w", features=["a", "w"])
    np.savez(tmp_path / "rows.npz", X=DATA.X, Y=DATA.Y, w=DATA.X[:, :2])
    with pytest.raises(BadInputError, match="stands for 2 columns"):
        open_blocks(tmp_path / "rows.npz", weights="w")
    with pytest.raises(BadInputError, match=r"the weights have shape \(3,\)"):
        RowBlocks.from_arrays(DATA.X, DATA.Y, weights=np.ones(3))
    with pytest.raises(BadInputError, match="all weights are zero"):
        planted.recover(RowBlocks.from_arrays(DATA.X, DATA.Y, weights=np.zeros(600)), **OPTIONS)


def test_methods_without_weights_say_so():
    with pytest.raises(BadInputError, match="'complementarity' cannot weigh rows; 'restarts' can"):
        planted.recover(in_memory(), method="complementarity")
    with pytest.raises(BadInputError, match="carry weights already"):
        planted.recover(in_memory(), method="restarts", sample_weight=np.ones(600))
    with pytest.raises(BadInputError, match="cannot have missing labels"):
        planted.recover(in_memory(), missing_labels="mask")


def test_a_checkpoint_knows_its_weights(tmp_path):
    kept = checkpointed(RowBlocks.from_arrays(DATA.X, DATA.Y, block_rows=BLOCK), tmp_path / "option")
    planted.recover(kept, method="restarts", sample_weight=COUNTS / 4, **OPTIONS)
    again = checkpointed(
        RowBlocks.from_arrays(DATA.X, DATA.Y, block_rows=BLOCK), tmp_path / "option", resume=True
    )
    with pytest.raises(BadInputError, match="its pass 1 summed something else"):
        planted.recover(again, method="restarts", sample_weight=COUNTS / 4 + 1, **OPTIONS)
    first = planted.recover(checkpointed(in_memory(), tmp_path / "rows"), **OPTIONS)
    second = planted.recover(checkpointed(in_memory(), tmp_path / "rows", resume=True), **OPTIONS)
    assert bits(first) == bits(second)
    other = RowBlocks.from_arrays(DATA.X, DATA.Y, block_rows=BLOCK, weights=COUNTS / 4 + 1)
    with pytest.raises(BadInputError, match="of other data"):
        planted.recover(checkpointed(other, tmp_path / "rows", resume=True), **OPTIONS)


def test_the_representation_says_what_there_is_and_shows_no_number(tmp_path):
    assert repr(in_memory()) == "RowBlocks(600 rows, d=3, m=1, blocks of 50, arrays, weighted)"
    write_table(tmp_path / "rows.csv", COLUMNS)
    rows = open_blocks(tmp_path / "rows.csv", targets="y")
    assert repr(rows) == "RowBlocks(rows not counted, d=4, m=1, blocks of 4,096, a file (.csv))"
    assert repr(rows.map(lambda X, Y: (X, Y))).endswith(", a file (.csv), transformed)")
    assert repr(RowBlocks(lambda: iter([]))) == "RowBlocks(rows not counted, a stream)"
    write_table(tmp_path / "rows.parquet", COLUMNS)
    several = open_blocks([tmp_path / "rows.parquet"] * 2)
    assert repr(several) == "RowBlocks(1,200 rows, d=4, m=1, blocks of 4,096, 2 files (.parquet))"
