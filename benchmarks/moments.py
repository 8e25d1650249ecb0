"""Streaming sums of the method of symmetric inputs against a bare matrix product of the same flops, in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _table import Line, parse_options, report

from planted import simulate
from planted.moments import PairMaps, accumulate_pairs
from planted.rows import RowBlocks

SHAPES = (10, 20, 32)
REQUIRED = 0.6
ROUNDS = 7


def fastest(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the shortest time of several runs, after a warm-up."""
    work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def measure(size: int, n: int, precision: str, seed: int) -> dict[str, Any]:
    data = simulate.dataset(n, n_features=size, n_hidden=size, n_outputs=size, random_state=seed)
    B = data.network.A @ data.network.W
    maps = PairMaps(np.eye(size), np.eye(size), B / 2)
    blocks = RowBlocks.from_arrays(data.X, data.Y)
    p = size * (size + 1) // 2
    dtype = np.float64 if precision == "double" else np.float32
    rows = 1024
    features = np.random.default_rng(seed).standard_normal((2 * p, rows)).astype(dtype)
    repeats = n // rows
    total = np.zeros((p, 2 * p))

    def bare_product() -> None:
        for _ in range(repeats):
            total[:] += features[:p] @ features.T

    sums, bare = [], []
    for _ in range(3):  # interleaved: the machine is shared
        sums.append(fastest(lambda: accumulate_pairs(blocks, maps, precision=precision), 3) / n)
        bare.append(fastest(bare_product, 3) / (repeats * rows))
    return {
        "d": size, "precision": precision, "n": n, "sums_us_per_row": 1e6 * min(sums),
        "product_us_per_row": 1e6 * min(bare), "share": min(bare) / min(sums),
    }  # fmt: skip


def main() -> None:
    options = parse_options(__doc__ or "")
    n = 8192 if options.quick else 32768
    rows, lines = [], []
    for size in SHAPES:
        for precision in ("double", "single"):
            row = measure(size, n, precision, options.seed)
            rows.append(row)
            text = f"{row['share']:.0%} ({row['sums_us_per_row']:.1f} µs per row)"
            required = REQUIRED if size == max(SHAPES) else 0.0
            target = f"d=k={size}, {precision}: speed of a bare product" + (
                f" >= {required:.0%}" if required else ""
            )
            lines.append(Line(target, text, row["share"] >= required))
    report("moments", lines, rows, options)


if __name__ == "__main__":
    main()
