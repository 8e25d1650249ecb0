"""Sums over rows: speed against a bare matrix product, memory against n, processes, and the constants of the cost model.

Everything is measured in this run: T9 (throughput and flat memory), T10 (two workers against one), a recovery from Parquet
in less than 1 GB, and rates from which `planted.diagnose` and the page on scale predict. Speeds are ratios of processor time
inside one run, since the machine may be shared; the load while it ran is stored with the numbers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from _scale_products import (
    D,
    K,
    M,
    cpu_seconds,
    measure_hermite,
    measure_products,
    measure_restarts,
    teacher,
)
from _table import RESULTS, Line, parse_options, report

import planted
from planted.moments import accumulate_normal, joint_moments
from planted.moments._gram import NormalSummand
from planted.recovery import predict_cost
from planted.rows import RowBlocks, accumulate, pack_sums

FLAT, SPEED_UP, MEMORY = 1.05, 1.7, 1e9
FILE_UNITS = 4  # of the recovery from Parquet


CHILD = """
import json, resource, sys
from planted.moments import accumulate_normal
sys.path.insert(0, sys.argv[2])
from scale import generated, teacher
network = teacher(0, 10, 5, 5)
accumulate_normal(generated(int(sys.argv[1]), network), network)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
"""


def generated(n: int, network: planted.TwoLayerNetwork, block_rows: int = 4096) -> RowBlocks:
    """Rows made on the fly, the same at every reading."""

    def blocks() -> Any:
        for number, start in enumerate(range(0, n, block_rows)):
            rng = np.random.default_rng(number)
            X = rng.standard_normal((min(block_rows, n - start), network.n_features))
            yield X, network(X)

    return RowBlocks(blocks)


def peak_bytes(n: int) -> int:
    """Return the peak memory of a fresh process that sums n rows."""
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(n), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    return 1024 * int(json.loads(run.stdout))


def write_parquet(path: Path, n: int, network: planted.TwoLayerNetwork, noise: float = 0.0) -> None:
    """Write rows in groups of 65,536, never holding more than one group."""
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"x{j}" for j in range(network.n_features)] + [f"y{j}" for j in range(network.n_outputs)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, n, 65_536):
            rng = np.random.default_rng([7, start])
            X = rng.exponential(size=(min(65_536, n - start), network.n_features)) - 1.0
            Y = network(X) + noise * rng.standard_normal((len(X), network.n_outputs))
            writer.write_table(pa.table(list(np.hstack([X, Y]).T), schema=schema))


RECOVER = """
import json, resource, sys, time
import planted
began, cpu = time.perf_counter(), time.process_time()
blocks = planted.open_blocks(sys.argv[1], targets=json.loads(sys.argv[2]))
record = planted.recover(blocks, n_hidden=int(sys.argv[3]), method="complementarity", random_state=0)
truth = planted.load_network(sys.argv[4])
print(json.dumps({"outcome": record.outcome.name, "passes": record.stats["passes"], "rows": record.provenance.shape[0],
    "error": planted.parameter_error(record.network, truth), "seconds": time.perf_counter() - began,
    "cpu_seconds": time.process_time() - cpu,
    "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


def from_parquet(path: Path, network: planted.TwoLayerNetwork) -> dict[str, Any]:
    """Recover from a file in a fresh process; its peak memory is what the system says."""
    truth = path.with_suffix(".safetensors")
    network.save(truth)
    targets = json.dumps([f"y{j}" for j in range(network.n_outputs)])
    run = subprocess.run(
        [sys.executable, "-c", RECOVER, str(path), targets, str(network.n_hidden), str(truth)],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(run.stdout))


def read_rate(path: Path, n_values: int) -> float:
    """Return the bytes of float64 that one core reads from Parquet and sums to moments in a second of its time."""
    blocks = planted.open_blocks(path, targets=[f"y{j}" for j in range(M)])
    return 8 * n_values / cpu_seconds(lambda: joint_moments(blocks), 1)


def scaling(path: Path, n: int, network: planted.TwoLayerNetwork) -> list[dict[str, Any]]:
    """One and two worker processes: strong (the same rows) and weak (twice the rows for two).

    On a shared machine the clock tells how many others there are. Compared is the processor time of the busiest worker with
    that of the client beside it, which is the time that a pass takes when every process has a core of its own.
    """
    from distributed import Client, LocalCluster

    rows = planted.open_blocks(path, targets=[f"y{j}" for j in range(M)])
    half = RowBlocks.from_source(_FirstParts(rows.source, (rows.source.n_parts or 2) // 2))
    found: list[dict[str, Any]] = []
    for workers in (1, 2):
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                host="127.0.0.1",
            ) as cluster,
            Client(cluster) as client,
        ):
            accumulate_normal(planted.on_cluster(half, client), network)  # imports on the workers
            for name, source in (("all rows", rows), ("half the rows", half)):
                before, own, clock = client.run(time.process_time), time.process_time(), time.perf_counter()
                accumulate_normal(planted.on_cluster(source, client), network)
                own, clock = time.process_time() - own, time.perf_counter() - clock
                after = client.run(time.process_time)
                busiest = max(after[address] - before[address] for address in before)
                count = n if name == "all rows" else n // 2
                found.append({"workers": workers, "rows": name, "n": count, "busiest_cpu_seconds": busiest,
                              "client_cpu_seconds": own, "clock_seconds": clock, "load": os.getloadavg()[0]})  # fmt: skip
    return found


class _FirstParts:
    """The first parts of a source."""

    is_weighted = False

    def __init__(self, inner: Any, n_parts: int) -> None:
        self.inner, self.n_parts = inner, n_parts

    def blocks(self, first: int, last: int | None) -> Any:
        return self.inner.blocks(first, self.n_parts if last is None else min(last, self.n_parts))


def measure_memory(quick: bool, seed: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """T9: peak memory as the rows grow a hundredfold."""
    small, large = (30_000, 300_000) if quick else (30_000, 3_000_000)
    peaks = {n: peak_bytes(n) for n in (small, large)}
    ratio = peaks[large] / peaks[small]
    text = f"x{ratio:.3f} ({peaks[small] / 1e6:.0f} and {peaks[large] / 1e6:.0f} MB)"
    line = Line(f"T9 peak memory, rows x{large // small}: within 5 %", text, ratio <= FLAT)
    return [line], [{"rows": n, "peak_bytes": peak} for n, peak in peaks.items()]


def measure_file(quick: bool, seed: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """A recovery from a Parquet file that is larger than the memory it takes."""
    network, n = teacher(seed, k=FILE_UNITS), 300_000 if quick else 10_000_000
    with tempfile.TemporaryDirectory(dir=os.environ.get("PLANTED_SCRATCH")) as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, n, network)
        size, found = path.stat().st_size, from_parquet(path, network)
    is_right = found["outcome"] == "RECOVERED" and found["error"] < 1e-12 and found["rows"] == n
    peak, work = (
        f"{found['peak_bytes'] / 1e6:.0f} MB",
        f"{found['passes']} passes, {found['cpu_seconds']:.0f} CPU s",
    )
    text = f"{peak}, {found['outcome']}, error {found['error']:.1e}, {work}"
    target = f"{n:.0e} rows x ({D} in, {M} out) from {size / 1e9:.1f} GB of Parquet: peak < 1 GB"
    return [Line(target, text, is_right and found["peak_bytes"] < MEMORY)], [found]


def measure_cost(quick: bool, seed: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """Processor time of whole recoveries from Parquet against the prediction of the cost model."""
    n, lines, rows = 60_000 if quick else 300_000, [], []
    for k, noise in ((FILE_UNITS, 0.0), (FILE_UNITS, 0.1), (K, 0.0), (K, 0.1)):
        network = teacher(seed, k=k)
        with tempfile.TemporaryDirectory(dir=os.environ.get("PLANTED_SCRATCH")) as folder:
            path = Path(folder) / "rows.parquet"
            write_parquet(path, n, network, noise)
            found = from_parquet(path, network)
        predicted = predict_cost(n, D, k, n_outputs=M, is_noisy=noise > 0)
        ratio = predicted.seconds / found["cpu_seconds"]
        target = f"cost model, {n:,} rows, {k} units, noise {noise}: predicted time within a factor 2"
        text = f"x{ratio:.2f} ({predicted.seconds:.0f} s against {found['cpu_seconds']:.0f} CPU s)"
        lines.append(Line(target, text, 0.5 <= ratio <= 2 and found["outcome"] == "RECOVERED"))
        rows.append({**found, "k": k, "noise": noise, "predicted_seconds": predicted.seconds,
                     "predicted_bytes": predicted.n_bytes})  # fmt: skip
    return lines, rows


def measure_processes(quick: bool, seed: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """T10: two worker processes against one; and the rate of reading for the cost model."""
    network, n = teacher(seed), 131_072 if quick else 524_288
    with tempfile.TemporaryDirectory(dir=os.environ.get("PLANTED_SCRATCH")) as folder:
        path = Path(folder) / "part.parquet"
        write_parquet(path, n, network)
        rate = read_rate(path, n * (D + M))
        rows = scaling(path, n, network)
    needed = {
        (row["workers"], row["rows"]): row["busiest_cpu_seconds"] + row["client_cpu_seconds"] for row in rows
    }
    speed_up = needed[1, "all rows"] / needed[2, "all rows"]
    weak = needed[1, "half the rows"] / needed[2, "all rows"]
    text = f"x{speed_up:.2f} in processor time (weak scaling {weak:.0%}; load {rows[-1]['load']:.0f})"
    lines = [
        Line(f"T10 two workers against one, {n:,} rows: >= {SPEED_UP}", text, speed_up >= SPEED_UP),
        Line("cost model: bytes read and summed in a CPU second", f"{rate:.2g}", True),
    ]
    return lines, [*rows, {"read_rate": rate}]


def measure_killed(quick: bool, seed: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """T10: a worker ended by SIGKILL in the middle of a pass."""
    from distributed import Client, LocalCluster

    network = teacher(seed, 8, 4, 4)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40_000, 8))
    rows = RowBlocks.from_arrays(X, network(X) + 0.1 * rng.standard_normal((len(X), 4)), block_rows=64)
    with tempfile.TemporaryDirectory() as folder:
        marker = Path(folder) / "begun"

        def summand(first_row: int, X: Any, Y: Any) -> Any:
            if first_row >= 10_000:
                marker.touch()
            return NormalSummand(network)(first_row, X, Y)

        alone = pack_sums(accumulate(rows, summand))
        marker.unlink()
        with (
            LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                host="127.0.0.1",
            ) as cluster,
            Client(cluster) as client,
        ):
            pids = set(client.run(os.getpid).values())
            killer = threading.Thread(target=_kill_when, args=(marker, min(pids)))
            killer.start()
            together = pack_sums(accumulate(planted.on_cluster(rows, client), summand))
            killer.join()
            is_gone = min(pids) not in client.run(os.getpid).values()
    is_same = all(np.array_equal(alone[name], together[name]) for name in alone)
    text = f"{'equal' if is_same else 'different'} bits, worker {'gone' if is_gone else 'still there'}"
    return [Line("T10 sums after a worker was killed: equal bits", text, is_same and is_gone)], []


def _kill_when(marker: Path, pid: int) -> None:
    while not marker.exists():
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)


SECTIONS = {
    "killed": measure_killed,
    "products": measure_products,
    "hermite": measure_hermite,
    "restarts": measure_restarts,
    "memory": measure_memory,
    "processes": measure_processes,
    "file": measure_file,
    "cost": measure_cost,
}


def main() -> None:
    options = parse_options(
        __doc__ or "", only={"choices": SECTIONS, "help": "one section; the others keep what is stored"}
    )
    folder = RESULTS if options.write else options.out
    stored = folder / "scale.json" if folder is not None else None
    kept: dict[str, Any] = {}
    if options.only and stored is not None and stored.exists():
        kept = {part["section"]: part for part in json.loads(stored.read_text())["rows"]}
    for name, measure in SECTIONS.items():
        if options.only in (None, name):
            lines, rows = measure(options.quick, options.seed)
            kept[name] = {
                "section": name,
                "made": datetime.now(UTC).isoformat(timespec="seconds"),
                "load": os.getloadavg()[0],
                "targets": [asdict(line) for line in lines],
                "rows": rows,
            }
    parts = [kept[name] for name in SECTIONS if name in kept]
    report("scale", [Line(**line) for part in parts for line in part["targets"]], parts, options)


if __name__ == "__main__":
    main()
