"""A real cluster on this machine: same bits as one process; killed workers, poison blocks and lost schedulers."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client, LocalCluster
from pyarrow import parquet, table

import planted
from planted import RowBlocks, checkpointed, on_cluster, open_blocks
from planted.distributed import _engine, blocks_of_collections
from planted.io import write_table
from planted.moments import RowMoments, accumulate_normal, joint_moments
from planted.outcomes import BadInputError, ClusterError
from planted.rows import PART_BLOCKS, StoredWeights, SumTree, accumulate, pack_sums

BLOCK = 64
PART = BLOCK * PART_BLOCKS
DATA = planted.simulate.dataset(
    20 * PART + 77,
    n_features=4,
    n_hidden=2,
    n_outputs=3,
    law="exponential",
    activity=(0.3, 0.7),
    random_state=1,
)
NAMES = [f"x{j}" for j in range(4)] + [f"y{j}" for j in range(3)]
OPTIONS = {"n_hidden": 2, "method": "complementarity", "random_state": 0}


def in_memory():
    return RowBlocks.from_arrays(DATA.X, DATA.Y, block_rows=BLOCK)


def network_bits(recovery):
    return b"".join(getattr(recovery.network, name).tobytes() for name in "WbAc")


@pytest.fixture(scope="module")
def expected():
    recovery = planted.recover(in_memory(), **OPTIONS)
    assert recovery.outcome is planted.Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, DATA.network) < 1e-12
    return recovery


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("rows")
    values = np.hstack([DATA.X, DATA.Y])
    for place, part in enumerate(np.array_split(values, [3000, 9 * PART])):
        columns = dict(zip(NAMES, part.T, strict=True))
        parquet.write_table(table(columns), where / f"part-{place}.parquet", row_group_size=1700)
    return where


@pytest.fixture(scope="module")
def client():
    """Two worker processes; a task that has ended one worker is not tried a third time."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


def slow_sums(marker, pause=0.01):
    """A summand that takes its time and leaves a mark once it has begun; made here so that it travels by value."""

    def summand(first_row, X, Y):
        if first_row == 4 * PART:
            Path(marker).touch()
        time.sleep(pause)
        return RowMoments.of(np.hstack([X, Y]))

    return summand


def wait_for(path):
    for _ in range(3000):
        if Path(path).exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} never came")


def test_processes_threads_and_one_process_give_the_same_bits(client, expected, folder):
    rows = open_blocks(folder, targets=NAMES[4:], block_rows=BLOCK)
    assert network_bits(planted.recover(rows, **OPTIONS)) == network_bits(expected)
    recovery = planted.recover(on_cluster(rows, client), **OPTIONS)
    assert network_bits(recovery) == network_bits(expected)
    assert recovery.stats["passes"] == expected.stats["passes"]
    assert network_bits(planted.recover(on_cluster(in_memory(), client), **OPTIONS)) == network_bits(expected)
    with Client(
        processes=False,
        n_workers=1,
        threads_per_worker=2,
        dashboard_address="127.0.0.1:0",
        set_as_default=False,
    ) as threads:
        assert network_bits(planted.recover(on_cluster(rows, threads), **OPTIONS)) == network_bits(expected)


def test_rows_that_only_the_client_can_read_are_sent_to_the_workers(client, expected, tmp_path):
    columns = dict(zip(NAMES, np.hstack([DATA.X, DATA.Y]).T, strict=True))
    sources = {}
    for name in ("rows.csv", "rows.feather"):
        write_table(tmp_path / name, columns)
        sources[name] = open_blocks(tmp_path / name, targets=NAMES[4:], block_rows=BLOCK)
    np.savez_compressed(tmp_path / "rows.npz", X=DATA.X, Y=DATA.Y)
    starts = range(0, len(DATA.X), BLOCK)
    sources = {
        name: open_blocks(tmp_path / name, targets=NAMES[4:], block_rows=BLOCK)
        for name in ("rows.csv", "rows.feather")
    }
    sources["rows.npz"] = open_blocks(tmp_path / "rows.npz", block_rows=BLOCK)
    sources["generator"] = RowBlocks(lambda: ((DATA.X[i : i + BLOCK], DATA.Y[i : i + BLOCK]) for i in starts))
    for name, rows in sources.items():
        assert rows.source.n_parts is None
        recovery = planted.recover(on_cluster(rows, client), **OPTIONS)
        assert network_bits(recovery) == network_bits(expected), name


def test_no_more_parts_of_a_stream_are_read_than_are_under_way(client, tmp_path):
    """The client reads part after part; with two threads no more than five are read and not yet summed."""
    read = []

    def source():
        for start in range(0, len(DATA.X), BLOCK):
            if start % PART == 0:
                read.append(start // PART)
            yield DATA.X[start : start + BLOCK], DATA.Y[start : start + BLOCK]

    ahead = []

    class Summed:
        """Hears of every branch that has been merged."""

        def open_pass(self, number, summand, source):
            return SumTree()

        def note(self, number, tree):
            ahead.append(read[-1] + 1 - tree.n_parts)

        def save(self, number, tree):
            """Nothing is kept."""

        def close_pass(self, number, total):
            """Nothing is kept."""

    blocks = on_cluster(RowBlocks(source), client).executed(journal=Summed())
    total = joint_moments(blocks)
    np.testing.assert_array_equal(total.scatter, joint_moments(in_memory()).scatter)
    assert len(ahead) == 21 and max(ahead) <= 6  # five under way and the one that is being read


def test_weights_go_with_their_rows(client, folder, tmp_path):
    weights = np.random.default_rng(9).integers(0, 3, len(DATA.X)) / 2
    noisy = DATA.Y + 0.1 * np.random.default_rng(10).standard_normal(DATA.Y.shape)
    whole = RowBlocks.from_arrays(DATA.X, noisy, block_rows=BLOCK, weights=weights)
    expected = weighted_bits(whole)
    columns = dict(zip([*NAMES, "w"], np.column_stack([DATA.X, noisy, weights]).T, strict=True))
    parquet.write_table(table(columns), tmp_path / "rows.parquet", row_group_size=1700)
    write_table(tmp_path / "rows.csv", columns)
    for name in ("rows.parquet", "rows.csv"):
        rows = open_blocks(tmp_path / name, targets=NAMES[4:], weights="w", block_rows=BLOCK)
        assert weighted_bits(on_cluster(rows, client)) == expected, name
    frame = dd.read_parquet(tmp_path / "rows.parquet")
    collections = frame[NAMES[:4]], frame[NAMES[4:]]
    rows = blocks_of_collections(*collections, weights=frame["w"], block_rows=len(DATA.X))
    sums = accumulate_normal(rows, DATA.network, weights=StoredWeights())
    np.testing.assert_allclose(
        sums.ZZ, accumulate_normal(whole, DATA.network, weights=StoredWeights()).ZZ, rtol=1e-12
    )
    with pytest.raises(BadInputError, match=r"the weight of row 5 is -1.0"):
        list(blocks_of_collections(*collections, weights=frame["w"] - (frame.index == 5) * (1 + frame["w"])))


def weighted_bits(blocks):
    sums = accumulate_normal(blocks, DATA.network, weights=StoredWeights())
    return b"".join(part.tobytes() for part in pack_sums(sums).values())


def test_dask_collections_are_summed_where_they_are(client, expected, folder):
    X, Y = (da.from_array(part, chunks=(PART, -1)) for part in (DATA.X, DATA.Y))
    mapped = joint_moments(planted.recovery._diagnose.blocks_of(X, Y))
    whole = joint_moments(RowBlocks.from_arrays(DATA.X, DATA.Y))  # the same partitions, in one block each
    np.testing.assert_allclose(mapped.scatter, whole.scatter, rtol=1e-12)
    frame = dd.read_parquet(folder)
    recovery = planted.recover(frame[NAMES[:4]], frame[NAMES[4:]], **OPTIONS)
    assert planted.parameter_error(recovery.network, expected.network) < 1e-12
    assert recovery.provenance.shape == (len(DATA.X), 4, 3)


def test_a_killed_worker_costs_time_and_no_bit(client, tmp_path):
    alone = accumulate(in_memory(), slow_sums(tmp_path / "unused", pause=0.0))
    pids = client.run(os.getpid)
    blocks = on_cluster(in_memory(), client)
    marker = tmp_path / "begun"
    killer = subprocess.Popen(
        [sys.executable, "-c", KILL_WHEN_MARKED, str(marker), str(next(iter(pids.values())))]
    )
    together = accumulate(blocks, slow_sums(marker))
    assert killer.wait(60) == 0
    assert not set(client.run(os.getpid).values()) >= set(pids.values())  # one of them is another process now
    np.testing.assert_array_equal(together.scatter, alone.scatter)
    np.testing.assert_array_equal(together.mean, alone.mean)


KILL_WHEN_MARKED = """
import os, pathlib, signal, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.005)
os.kill(int(sys.argv[2]), signal.SIGKILL)
"""


def test_a_poison_block_is_named(client, folder, tmp_path):
    X = DATA.X.copy()
    X[5 * PART + 130, 2] = np.nan
    with pytest.raises(BadInputError, match=f"block {5 * PART_BLOCKS + 2} contains NaN"):
        joint_moments(on_cluster(RowBlocks.from_arrays(X, DATA.Y, block_rows=BLOCK), client))

    def deadly(first_row, X, Y):
        if first_row == 9 * PART:
            os._exit(1)
        return RowMoments.of(X)

    with pytest.raises(ClusterError, match="parts 9 to 9 ended 2 workers one after the other"):
        accumulate(on_cluster(in_memory(), client), deadly)

    def faulty(first_row, X, Y):
        raise ZeroDivisionError("by zero")

    with pytest.raises(ClusterError, match="parts 0 to 0 failed on a worker: ZeroDivisionError"):
        accumulate(on_cluster(in_memory(), client), faulty)


def start(command, log):
    dask_command = str(Path(sys.executable).parent / "dask")
    with open(log, "w") as file:
        return subprocess.Popen([dask_command, *command], stdout=file, stderr=subprocess.STDOUT)


def _when_written(path, process, seconds=120):
    """Wait for the text of a file that a process writes; an error if the process ends before."""
    for _ in range(10 * seconds):
        if path.exists() and path.read_text():
            return path.read_text()
        assert process.poll() is None, "the process has ended"
        time.sleep(0.1)
    raise AssertionError(f"{path.name} was not written")


@pytest.fixture
def by_hand(tmp_path):
    """A scheduler and two workers, started as the documentation says; ended by their own ids."""
    card = tmp_path / "scheduler.json"  # written once it listens, at a port of its own choice
    scheduler = start(
        ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(card)],
        tmp_path / "s.log",
    )
    address = json.loads(_when_written(card, scheduler))["address"]
    workers = [
        start(
            ["worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard",
             "--local-directory", str(tmp_path)],
            tmp_path / f"w{i}.log",
        )
        for i in range(2)
    ]  # fmt: skip
    yield address, scheduler
    for process in (*workers, scheduler):
        process.kill()
        process.wait()


def test_started_by_hand_and_the_scheduler_lost(by_hand, expected, folder, tmp_path):
    address, scheduler = by_hand
    with Client(address, timeout="60s", set_as_default=False) as connected:
        connected.wait_for_workers(2, timeout=60)
        out = tmp_path / "net.safetensors"
        command = [
            str(Path(sys.executable).parent / "planted"), "recover", str(folder), "--targets", *NAMES[4:],
            "--hidden", "2", "--method", "complementarity", "--seed", "0", "--cluster", address, "--out", str(out),
        ]  # fmt: skip
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 0, run.stdout + run.stderr
        # The command cuts larger blocks than this test: the same network, other roundings.
        assert planted.parameter_error(planted.load_network(out), expected.network) < 1e-12

        marker, kept = tmp_path / "begun", tmp_path / "kept"
        alone = accumulate(in_memory(), slow_sums(marker, pause=0.0))
        marker.unlink()
        killer = subprocess.Popen([sys.executable, "-c", KILL_WHEN_MARKED, str(marker), str(scheduler.pid)])
        with pytest.raises(ClusterError, match=r"connection to the scheduler .* was lost .* resume"):
            accumulate(checkpointed(on_cluster(in_memory(), connected), kept), slow_sums(marker))
        assert killer.wait(60) == 0
    assert (kept / "planted-open-pass.npz").exists()
    resumed = accumulate(checkpointed(in_memory(), kept, resume=True), slow_sums(marker))
    np.testing.assert_array_equal(resumed.scatter, alone.scatter)


def test_no_scheduler_is_said_so(monkeypatch):
    monkeypatch.setattr(_engine, "CONNECT_SECONDS", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ClusterError, match=f"no Dask scheduler answers at {address}.* dask scheduler"):
        on_cluster(in_memory(), address)
