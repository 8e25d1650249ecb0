"""Sums over rows: speed against a bare matrix product, memory against n, processes, and the constants of the cost model.

Everything is measured in this run: T9 (throughput and flat memory), T10 (two workers against one), a recovery from Parquet
in less than 1 GB, and rates from which `planted.diagnose` and the page on scale predict. Speeds are ratios of processor time
inside one run, since the machine may be shared; the load while it ran is stored with the numbers.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _table import Line, parse_options, report

import planted
from planted.moments import PairMaps, RowBlocks, accumulate_normal, accumulate_pairs, joint_moments

GEMM_SHARE, FLAT, SPEED_UP, MEMORY = 0.6, 1.05, 1.7, 1e9
D, M, K = 32, 16, 16
FILE_UNITS = 4  # of the recovery from Parquet


def cpu_seconds(work: Callable[[], Any], rounds: int = 3) -> float:
    """Return the least processor time of several runs, after a warm-up."""
    work()
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def teacher(seed: int, d: int = D, k: int = K, m: int = M) -> planted.TwoLayerNetwork:
    return planted.simulate.dataset(
        10, n_features=d, n_hidden=k, n_outputs=m, activity=(0.3, 0.7), law="exponential", random_state=seed
    ).network


def against_product(n: int, seed: int) -> list[dict[str, Any]]:
    """Sums of the normal equations and of paired features against the bare products of the same shapes."""
    rng = np.random.default_rng(seed)
    rows = []
    for precision in ("float64", "float32"):
        X = rng.standard_normal((n, D)).astype(precision)
        network = teacher(seed)
        Y = network(X.astype(np.float64)).astype(precision)
        blocks = RowBlocks.from_arrays(X, Y)
        Z, G = rng.standard_normal((1024, K * (D + 1))), rng.standard_normal((1024, K + 1 + M))

        def normal_products(Z: Any = Z, G: Any = G) -> None:
            total = np.zeros((Z.shape[1], Z.shape[1]))
            for _ in range(n // 1024):
                total += Z.T @ Z
                Z.T @ G

        rows.append(
            _ratio(
                "normal equations",
                precision,
                n,
                normal_products,
                lambda b=blocks, w=network: accumulate_normal(b, w),
            )
        )
        p, q = D * (D + 1) // 2, K * (K + 1) // 2
        features = rng.standard_normal((p + q, 512)).astype(
            "float32" if precision == "float32" else "float64"
        )

        def pair_products(features: Any = features, p: int = p) -> None:
            total = np.zeros((p, len(features)))
            for _ in range(n // 512):
                total += features[:p] @ features.T

        maps = PairMaps(np.eye(D), np.eye(K, M), network.A[:K] @ network.W / 2)
        kind = "single" if precision == "float32" else "double"
        rows.append(
            _ratio(
                "paired features",
                precision,
                n,
                pair_products,
                lambda b=blocks, s=maps, k=kind: accumulate_pairs(b, s, precision=k),
            )
        )
    return rows


def _ratio(
    name: str, precision: str, n: int, product: Callable[[], Any], sums: Callable[[], Any]
) -> dict[str, Any]:
    bare, ours = [], []
    for _ in range(3):  # interleaved
        bare.append(cpu_seconds(product, 1))
        ours.append(cpu_seconds(sums, 1))
    return {
        "sums": name,
        "precision": precision,
        "n": n,
        "bare_seconds": min(bare),
        "sums_seconds": min(ours),
        "share": min(bare) / min(ours),
        "rows_per_cpu_second": n / min(ours),
    }


CHILD = """
import json, resource, sys, time
import numpy as np
import planted
from planted.moments import RowBlocks, accumulate_normal
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


def write_parquet(path: Path, n: int, network: planted.TwoLayerNetwork) -> None:
    """Write rows in groups of 65,536, never holding more than one group."""
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"x{j}" for j in range(network.n_features)] + [f"y{j}" for j in range(network.n_outputs)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, n, 65_536):
            rng = np.random.default_rng([7, start])
            X = rng.exponential(size=(min(65_536, n - start), network.n_features)) - 1.0
            writer.write_table(pa.table(list(np.hstack([X, network(X)]).T), schema=schema))


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


def scaling(path: Path, n: int, network: planted.TwoLayerNetwork, rounds: int) -> list[dict[str, Any]]:
    """One and two worker processes: strong (the same rows) and weak (twice the rows for two), interleaved."""
    from distributed import Client, LocalCluster

    rows = planted.open_blocks(path, targets=[f"y{j}" for j in range(M)])
    half = RowBlocks.from_source(_FirstParts(rows.source, (rows.source.n_parts or 2) // 2))
    seconds: dict[tuple[int, str], list[float]] = {}
    load = []
    for _ in range(rounds):
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
                    began = time.perf_counter()
                    accumulate_normal(planted.on_cluster(source, client), network)
                    seconds.setdefault((workers, name), []).append(time.perf_counter() - began)
                    load.append(os.getloadavg()[0])
    best = {key: min(values) for key, values in seconds.items()}
    return [
        {
            "workers": w,
            "rows": name,
            "n": n if name == "all rows" else n // 2,
            "seconds": best[w, name],
            "strong_speed_up": best[1, name] / best[w, name],
            "load": max(load),
            "weak_efficiency": best[1, "half the rows"] / best[2, "all rows"]
            if (w, name) == (2, "all rows")
            else 1.0,
        }
        for w, name in best
    ]


class _FirstParts:
    """The first parts of a source."""

    def __init__(self, inner: Any, n_parts: int) -> None:
        self.inner, self.n_parts = inner, n_parts

    def blocks(self, first: int, last: int | None) -> Any:
        return self.inner.blocks(first, self.n_parts if last is None else min(last, self.n_parts))


def main() -> None:
    options = parse_options(__doc__ or "")
    quick = options.quick
    lines, rows = [], []
    shares = against_product(16_384 if quick else 65_536, options.seed)
    for row in shares:
        text = f"{row['share']:.0%} ({row['rows_per_cpu_second']:,.0f} rows per CPU second)"
        lines.append(
            Line(
                f"T9 {row['sums']}, {row['precision']}: speed of a bare product >= {GEMM_SHARE:.0%}",
                text,
                row["share"] >= GEMM_SHARE,
            )
        )
    small, large = (30_000, 300_000) if quick else (30_000, 3_000_000)
    peaks = {n: peak_bytes(n) for n in (small, large)}
    ratio = peaks[large] / peaks[small]
    lines.append(
        Line(
            f"T9 peak memory, rows x{large // small}: within 5 %",
            f"x{ratio:.3f} ({peaks[small] / 1e6:.0f} and {peaks[large] / 1e6:.0f} MB)",
            ratio <= FLAT,
        )
    )
    network, small_network = teacher(options.seed), teacher(options.seed, k=FILE_UNITS)
    n = 300_000 if quick else 10_000_000
    with tempfile.TemporaryDirectory(dir=os.environ.get("PLANTED_SCRATCH")) as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, n, small_network)
        found = from_parquet(path, small_network)
        path.unlink()
        part = Path(folder) / "part.parquet"
        n_part = 131_072 if quick else 1_048_576
        write_parquet(part, n_part, network)
        rate = read_rate(part, n_part * (D + M))
        processes = scaling(part, n_part, network, 1 if quick else 3)
    right = found["outcome"] == "RECOVERED" and found["error"] < 1e-12
    peak, work = (
        f"{found['peak_bytes'] / 1e6:.0f} MB",
        f"{found['passes']} passes, {found['cpu_seconds']:.0f} CPU s",
    )
    text = f"{peak}, {found['outcome']}, error {found['error']:.1e}, {work}"
    lines.append(
        Line(
            f"{n:.0e} rows x ({D} in, {M} out) from Parquet: peak < 1 GB",
            text,
            right and found["peak_bytes"] < MEMORY,
        )
    )
    pair = next(row for row in processes if row["workers"] == 2 and row["rows"] == "all rows")
    lines.append(
        Line(
            f"T10 two workers against one, {n_part:,} rows: >= {SPEED_UP}",
            f"x{pair['strong_speed_up']:.2f} (weak {pair['weak_efficiency']:.0%}, load {pair['load']:.1f})",
            pair["strong_speed_up"] >= SPEED_UP,
        )
    )
    normal = next(
        row for row in shares if row["sums"] == "normal equations" and row["precision"] == "float64"
    )
    unknowns = K * (D + 1)
    flops = unknowns**2 + 2 * unknowns * (K + 1 + M)
    constants = {
        "flop_rate": flops * normal["rows_per_cpu_second"],
        "read_rate": rate,
        "passes": found["passes"],
    }
    lines.append(
        Line(
            "constants of the cost model (one core)",
            f"{constants['flop_rate']:.2g} flop/s, {rate:.2g} B/s read",
            True,
        )
    )
    rows += [
        *shares,
        {"peaks": {str(key): value for key, value in peaks.items()}},
        found,
        *processes,
        constants,
    ]
    rows.append(
        {"load": os.getloadavg(), "own_peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    )
    report("scale", lines, rows, options)


if __name__ == "__main__":
    main()
