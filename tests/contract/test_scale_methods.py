"""Every method: what it sums can be kept in a checkpoint and sent to another process, and comes back bit by bit."""

import warnings

import numpy as np
import pytest
from distributed import Client, LocalCluster

import planted
from planted import RowBlocks, checkpointed, on_cluster
from planted.outcomes import DataWarning

# law of the inputs, samples, outputs, units, noise
WORLDS = {
    "complementarity": ("exponential", 400, 4, 2, 0.1),
    "restarts": ("gaussian", 400, 1, 2, 0.0),
    "symmetric-inputs": ("gaussian", 1000, 3, 3, 0.1),
    "hermite": ("gaussian", 2500, 3, 2, 0.05),
    "landscape": ("gaussian", 4000, 1, 2, 0.0),
    "sign-patterns": ("gaussian", 200, 3, 2, 0.0),
    "joint-diagonalisation": ("gaussian", 1000, 3, 3, 0.0),
    "ica": ("gaussian", 1000, 3, 3, 0.0),
    "lone-units": ("gaussian", 400, 3, 3, 0.0),
    "gross-errors": ("gaussian", 400, 6, 2, 0.0),
    "half-spaces": ("gaussian", 1000, 3, 2, 0.1),
    "small-network": ("gaussian", 80, 1, 2, 0.3),
    "auto": ("exponential", 400, 4, 2, 0.1),
}


def test_no_method_is_left_out():
    assert set(WORLDS) == {*planted.methods(), "auto"}


def rows_for(method):
    law, n, m, k, noise = WORLDS[method]
    data = planted.simulate.dataset(
        n, n_features=4, n_hidden=k, n_outputs=m, law=law, noise=noise, random_state=3
    )
    return RowBlocks.from_arrays(data.X, data.Y, block_rows=n // 36), k  # three parts


def recovered_bits(method, blocks, k):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        recovery = planted.recover(blocks, n_hidden=k, method=method, random_state=0)
    assert recovery.network is not None, recovery.detail
    return recovery, b"".join(
        np.ascontiguousarray(getattr(recovery.network, name)).tobytes() for name in "WbAc"
    )


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


@pytest.mark.parametrize("method", WORLDS)
def test_a_resumed_run_and_one_on_a_worker_give_the_same_bits(method, client, tmp_path):
    blocks, k = rows_for(method)
    first, expected = recovered_bits(method, checkpointed(blocks, tmp_path), k)
    passes = sorted(tmp_path.glob("planted-pass-*.npz"))
    # A certificate speaks of the rows at hand: its one or two passes over them are made again, never read.
    assert len(passes) >= first.stats.get("passes", 3) - 2
    passes[-1].unlink()  # the last pass is summed again, all others are read
    assert recovered_bits(method, checkpointed(blocks, tmp_path, resume=True), k)[1] == expected
    assert recovered_bits(method, on_cluster(blocks, client), k)[1] == expected
