"""The method `landscape` on a cluster: its objectives are summed by the workers, to the bits of one process."""

import numpy as np
import pytest

import planted
from planted import RowBlocks, on_cluster
from planted.methods.landscape.objectives import sample_objective
from planted.rows import ArraySource

BLOCK = 128


@pytest.fixture
def rows_read_here(monkeypatch):
    """The number of rows that this process reads; workers are other processes."""
    read = []
    blocks = ArraySource.blocks

    def counted(self, first, last):
        for block in blocks(self, first, last):
            read.append(len(block.X))
            yield block

    monkeypatch.setattr(ArraySource, "blocks", counted)
    return read


def rows_of(seed, n):
    data = planted.simulate.dataset(
        n, n_features=4, n_hidden=2, n_outputs=1, law="gaussian", random_state=seed
    )
    return data, RowBlocks.from_arrays(data.X, data.Y, block_rows=BLOCK)


@pytest.mark.parametrize("seed", [12])
def test_a_recovery_has_the_bits_of_one_process(client, rows_read_here, seed):
    data, rows = rows_of(seed, 2_500 + 7 * seed)
    options = {"n_hidden": 2, "method": "landscape", "random_state": seed, "refined": False}
    alone = planted.recover(rows, **options)
    rows_read_here.clear()
    together = planted.recover(on_cluster(rows, client), **options)
    assert together.network is not None
    for name in "WbAc":
        np.testing.assert_array_equal(getattr(together.network, name), getattr(alone.network, name))
    # Blocks are looked at for their widths; all others were read by the workers.
    assert sum(rows_read_here) <= 8 * BLOCK < len(data.X)
    assert together.stats["passes"] > alone.stats["passes"]


@pytest.mark.parametrize("name", ["l2", "f'", "G"])
def test_every_objective_is_a_pass_over_the_cluster(client, rows_read_here, name):
    _, rows = rows_of(13, 5_000)
    rng = np.random.default_rng(14)
    W, a = np.linalg.qr(rng.standard_normal((4, 4)))[0][:2], rng.standard_normal(2)
    expected = sample_objective(name, rows)(W, a)
    rows_read_here.clear()
    objective = sample_objective(name, on_cluster(rows, client))
    for here, there in zip(expected, objective(W, a), strict=True):
        np.testing.assert_array_equal(here, there)
    assert sum(rows_read_here) <= 4 * BLOCK
