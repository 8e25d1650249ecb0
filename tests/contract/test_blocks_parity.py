"""The same rows as arrays, blocks of any size, a memory map or a generator give the same answer in flat memory."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

import planted
from planted import RowBlocks
from planted.outcomes import BadInputError, Outcome
from planted.simulate import dataset

recover = partial(planted.recover, method="complementarity")


def world(n, noise=0.0, seed=0):
    return dataset(
        n,
        n_features=6,
        n_hidden=3,
        n_outputs=4,
        law="exponential",
        activity=(0.3, 0.7),
        noise=noise,
        random_state=seed,
    )


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("block_rows", [7, 64, 5000])
def test_blocks_of_any_size_give_the_network_of_the_arrays(noise, block_rows):
    data = world(400, noise)
    whole = recover(data.X, data.Y, random_state=0)
    blocks = RowBlocks.from_arrays(data.X, data.Y, block_rows=block_rows)
    parts = recover(blocks, random_state=0)
    assert whole.outcome is parts.outcome is Outcome.RECOVERED
    assert planted.parameter_error(whole.network, parts.network) < 1e-12
    assert [item.name for item in whole.evidence] == [item.name for item in parts.evidence]
    for name in "WbAc":
        errors = (each.uncertainty.standard_errors[name] for each in (parts, whole))
        np.testing.assert_allclose(*errors, rtol=1e-8, atol=1e-12)  # without noise both are rounding


def test_a_memory_map_gives_the_bits_of_the_arrays(tmp_path):
    data = world(600, 0.05)
    for name, array in (("X", data.X), ("Y", data.Y)):
        np.save(tmp_path / f"{name}.npy", array)
    X, Y = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "XY")
    mapped = recover(RowBlocks.from_arrays(X, Y), random_state=0)
    whole = recover(data.X, data.Y, random_state=0)
    for name in "WbAc":
        np.testing.assert_array_equal(getattr(mapped.network, name), getattr(whole.network, name))


def test_rows_beyond_the_memory_of_the_search_still_count():
    """Only a sample is searched, but refinement and standard errors use all rows."""
    data = world(30_000, 0.1)
    blocks = RowBlocks.from_arrays(data.X, data.Y, block_rows=2500)
    recovery = recover(blocks, n_hidden=3, noise="present", random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.provenance.shape == (30_000, 6, 4)
    assert next(e for e in recovery.evidence if e.name == "equations").measured == 120_000
    start = recover(data.X[:20_000], data.Y[:20_000], 3, noise="present", random_state=0)
    ratio = recovery.uncertainty.standard_errors["W"] / start.uncertainty.standard_errors["W"]
    # Rows are exchangeable: standard errors fall like the root of their number, to some per cent.
    np.testing.assert_allclose(ratio.mean(), np.sqrt(2 / 3), rtol=0.03)


def generated_source(network, n, block_rows=500):
    """Rows made on the fly, the same at every reading."""

    def open_source():
        for number in range(n // block_rows):
            rng = np.random.default_rng(10_000 + number)
            X = rng.standard_normal((block_rows, network.n_features))
            yield X, network(X) + 0.1 * rng.standard_normal((block_rows, network.n_outputs))

    return RowBlocks(open_source)


def peak_memory(source, network):
    tracemalloc.start()
    recovery = recover(source, n_hidden=3, random_state=0, noise="present", n_restarts=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The work was really done: no parameter is off by more than six standard errors of 5,000 rows (at most 0.0037).
    assert planted.parameter_error(recovery.network, network) < 6 * 0.0037
    return peak


def test_memory_is_flat_when_rows_grow_twentyfold(monkeypatch):
    """Beyond the rows kept for the search nothing grows with n: 2,000 kept rows here, 5,000 against 100,000 in all."""
    monkeypatch.setattr("planted.fitting._run.SEARCH_ROWS", 2000)
    network = world(10).network
    small = peak_memory(generated_source(network, 5_000), network)
    large = peak_memory(generated_source(network, 100_000), network)
    # 5,000 rows are 400 kB, 100,000 rows 8 MB; blocks, sums and the kept rows are the same in both.
    assert large < 1.2 * small


def test_a_nan_deep_in_a_stream_is_named_by_its_block():
    data = world(600)
    X = data.X.copy()
    X[450, 2] = np.nan
    with pytest.raises(BadInputError, match="block 4 contains NaN"):
        recover(RowBlocks.from_arrays(X, data.Y, block_rows=100), random_state=0)
