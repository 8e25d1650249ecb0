"""How many samples, which inputs, how much noise: the flagship method against its limits.

noiseless   biases placed so that every unit is on for 30-70 % of the given inputs; error <= 1e-12 on matched parameters
below       how far below four times the information limit it still succeeds (drawn by --write as a picture)
noisy       mean squared error divided by the Cramér-Rao bound
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import numpy as np
from _table import RESULTS, Line, at_least, parse_options, report

import planted
from planted import TwoLayerNetwork, simulate
from planted._streams import data_streams
from planted.fitting._jacobian import information
from planted.moments import accumulate_normal
from planted.networks import match_units
from planted.reporting import draw_panels
from planted.reproduce import Axes
from planted.rows import RowBlocks

LAWS = ("exponential", "uniform", "laplace", "student-t", "mixture", "correlated")
SHAPES = {(10, 5, 5): 4, (20, 10, 15): 4, (30, 20, 25): 6}
LAW_OPTIONS = {"student-t": {"df": 5}}


def planted_world(n: int, shape: tuple[int, int, int], law: str, seed: int, noise: float = 0.0) -> Any:
    """Draw X, then biases at sample quantiles, so that every unit is on for 30-70 % of these very inputs."""
    d, k, m = shape
    X = simulate.inputs(n, d, law=law, random_state=seed, **LAW_OPTIONS.get(law, {}))
    net = simulate.teacher(d, k, m, random_state=seed)
    shares, errors = data_streams(seed + 10_000, 2)
    cuts = [
        np.quantile(X @ w, 1 - share) for w, share in zip(net.W, shares.uniform(0.3, 0.7, k), strict=True)
    ]
    net = TwoLayerNetwork(net.W, -np.array(cuts), net.A)
    return X, net(X) + noise * errors.standard_normal((n, m)), net


def try_once(case: tuple[int, tuple[int, int, int], str, int]) -> tuple[bool, bool, bool, bool, float]:
    """Return whether one seed hits, is certified, is falsely certified, has the right width, and its CPU seconds."""
    n, shape, law, seed = case
    X, Y, net = planted_world(n, shape, law, seed)
    began = time.process_time()
    answer = planted.recover(X, Y, method="complementarity", random_state=seed)
    cpu = time.process_time() - began
    error = np.inf if answer.network is None else planted.parameter_error(answer.network, net)
    recovered = answer.outcome is planted.Outcome.RECOVERED
    right_k = answer.network is not None and answer.network.n_hidden == shape[1]
    return error <= 1e-12, recovered, recovered and error > 1e-9, right_k, cpu


def count_hits(pool: Executor, n: int, shape: tuple[int, int, int], law: str, seeds: range) -> dict[str, Any]:
    results = list(pool.map(try_once, [(n, shape, law, seed) for seed in seeds], chunksize=5))
    hits, certified, false, right_k = (sum(int(row[i]) for row in results) for i in range(4))
    cpu = float(np.mean([row[4] for row in results]))
    return {
        "shape": str(shape), "n": n, "law": law, "seeds": len(seeds), "hits": hits, "certified": certified,
        "false": false, "right_k": right_k, "cpu_seconds": round(cpu, 3),
    }  # fmt: skip


def fit_once(case: tuple[tuple[int, int, int], str, int]) -> tuple[float, bool, bool]:
    """Return the squared error over the Cramér-Rao bound, whether the width is right, and whether it is certified."""
    shape, law, seed = case
    X, Y, net = planted_world(10_000, shape, law, seed, noise=0.1)
    truth = net.canonical()
    info = information(accumulate_normal(RowBlocks.from_arrays(X, Y), truth), truth, offset=False)
    bound = 0.01 * sum(float(values.sum()) for values in info.variances.values())
    answer = planted.recover(X, Y, method="complementarity", random_state=seed)
    right_k = answer.network is not None and answer.network.n_hidden == shape[1]
    return squared_error(answer.network, truth) / bound, right_k, answer.outcome is planted.Outcome.RECOVERED


def efficiency(pool: Executor, shape: tuple[int, int, int], law: str, seeds: range) -> dict[str, Any]:
    results = list(pool.map(fit_once, [(shape, law, seed) for seed in seeds]))
    ratios = [row[0] for row in results]
    right_k, recovered = (sum(int(row[i]) for row in results) for i in (1, 2))
    floor = sum(ratio < 3 for ratio in ratios)
    good = [ratio for ratio in ratios if ratio < 3]
    return {
        "shape": str(shape), "law": law, "seeds": len(seeds), "at_floor": floor, "recovered": recovered,
        "right_k": right_k, "mean_ratio": round(float(np.mean(good)), 3),
    }  # fmt: skip


def squared_error(net: TwoLayerNetwork | None, truth: TwoLayerNetwork) -> float:
    if net is None or net.n_hidden != truth.n_hidden:
        return np.inf
    match = match_units(net, truth)
    got, want, order = match.network, match.truth, match.permutation
    parts = (got.W[order] - want.W, got.b[order] - want.b, got.A[:, order] - want.A, got.c - want.c)
    return float(sum((part**2).sum() for part in parts))


def main() -> None:
    options = parse_options(__doc__)
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        measure(options, pool)


def measure(options: argparse.Namespace, pool: Executor) -> None:
    count = 10 if options.quick else 100
    seeds = range(options.seed, options.seed + count)
    lines: list[Line] = []
    noiseless: list[dict[str, Any]] = []
    for shape, multiple in SHAPES.items():
        n = int(np.ceil(multiple * simulate.information_limit(*shape)))
        for law in LAWS:
            row = count_hits(pool, n, shape, law, seeds) | {"multiple": float(multiple)}
            noiseless.append(row)
            lines.append(
                at_least(f"{shape} n={n} ({multiple} L) {law}: error <= 1e-12", row["hits"], count, 0.95)
            )
    for shape in SHAPES:
        d, k, _ = shape
        n = int(1.5 * (k * (k + 1) / 2 + k * (d + 1))) + 1
        row = count_hits(pool, n, shape, "exponential", seeds) | {
            "multiple": n / simulate.information_limit(*shape)
        }
        noiseless.append(row)
        lines.append(at_least(f"{shape} n={n} (1.5 q) exponential: error <= 1e-12", row["hits"], count, 0.99))
    below = []
    for shape in SHAPES:
        for multiple in (2.0, 2.5, 3.0, 3.5):
            n = int(np.ceil(multiple * simulate.information_limit(*shape)))
            below.append(
                count_hits(pool, n, shape, "exponential", seeds[: max(count // 10, 5)])
                | {"multiple": multiple}
            )
    every = noiseless + below
    lines.append(
        Line(
            "RECOVERED on a wrong network",
            str(sum(row["false"] for row in every)),
            not any(r["false"] for r in every),
        )
    )
    total = sum(row["seeds"] for row in noiseless)
    lines.append(
        at_least("number of units found, noiseless", sum(row["right_k"] for row in noiseless), total, 0.95)
    )
    noisy = []
    for law in ("gaussian", "exponential"):
        for shape in ((10, 5, 5), (10, 10, 10)):
            row = efficiency(
                pool, shape, law, range(options.seed, options.seed + (4 if options.quick else 20))
            )
            noisy.append(row)
            lines.append(
                at_least(
                    f"{shape} n=10000 noise 0.1 {law}: at the statistical floor",
                    row["at_floor"],
                    row["seeds"],
                    0.95,
                )
            )
            lines.append(
                Line(
                    "   mean squared error / Cramér-Rao <= 1.1",
                    str(row["mean_ratio"]),
                    row["mean_ratio"] <= 1.1,
                )
            )
    report("recovery", lines, every + noisy, options)
    if options.write:
        for row in every:
            row["share of seeds at error <= 1e-12"] = row["hits"] / row["seeds"]
        panel = Axes(
            "shifted exponential inputs",
            "multiple",
            "share of seeds at error <= 1e-12",
            "shape",
            log_y=False,
            where={"law": "exponential"},
        )
        (RESULTS / "recovery.svg").write_text(
            draw_panels(every, [panel], title="Samples needed, in units of the information limit")
        )


if __name__ == "__main__":
    main()
