"""How few samples suffice without noise: recovery at small multiples of the information limit.

The limit is L = (unknowns) / m, with k(d+1) + mk - k unknowns, k fewer without biases. Every unit is on for 30-70 % of the
inputs, and for one more than determine it, since that one checks them: d + 2 with a bias, d + 1 without. Biases are placed
so, and without them units are drawn until k are. The method is told neither k nor whether there are biases; a hit is an
error of at most 1e-12 on matched parameters.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from _table import RESULTS, Line, parse_options, report

import planted
from planted import TwoLayerNetwork, simulate
from planted._streams import data_streams

SHAPES = ((10, 5, 5), (20, 10, 15), (30, 20, 25))
LAWS = {True: ("gaussian", "exponential", "uniform"), False: ("gaussian", "uniform")}
MULTIPLES, CLOSER = {True: 3.0, False: 2.5}, {True: 2.5, False: 2.0}
PICTURE = Path(__file__).parents[1] / "docs" / "theory" / "few-samples.svg"
SHARES = 10_000  # seeds of the biases start here
SOLVER = 10_000  # solver seeds start here: never those of the data


def limit(shape: tuple[int, int, int], bias: bool) -> float:
    """Return the number of samples whose outputs are as many as the unknowns."""
    d, k, m = shape
    return (k * (d + bias) + m * k - k) / m


def biased_teacher(X: np.ndarray, shape: tuple[int, int, int], seed: int) -> TwoLayerNetwork:
    """Return a network with biases at quantiles of these inputs, each unit on for 30-70 % of them and for d + 2."""
    d, k, m = shape
    net = simulate.teacher(d, k, m, random_state=seed)
    least = max(0.3, (d + 2) / len(X))
    shares = data_streams(seed + SHARES, 1)[0].uniform(least, 0.7, k)
    cuts = [np.quantile(X @ w, 1 - share) for w, share in zip(net.W, shares, strict=True)]
    return TwoLayerNetwork(net.W, -np.array(cuts), net.A)


def unbiased_teacher(X: np.ndarray, shape: tuple[int, int, int], seed: int) -> TwoLayerNetwork:
    """Return the first k of many units that are on for 30-70 % of the inputs and for more than d."""
    d, k, m = shape
    pool = simulate.teacher(d, 10 * k, m, random_state=seed)
    count = pool.patterns(X).sum(axis=0)
    chosen = np.flatnonzero((count >= max(0.3 * len(X), d + 1)) & (count <= 0.7 * len(X)))[:k]
    return TwoLayerNetwork(pool.W[chosen], None, pool.A[:, chosen])


def try_once(case: tuple[int, tuple[int, int, int], str, bool, int]) -> tuple[float, str]:
    """Return the parameter error and the outcome of one seed."""
    n, shape, law, bias, seed = case
    X = simulate.inputs(n, shape[0], law=law, random_state=seed)
    truth = (biased_teacher if bias else unbiased_teacher)(X, shape, seed)
    answer = planted.recover(X, truth(X), method="complementarity", random_state=SOLVER + seed)
    error = np.inf if answer.network is None else planted.parameter_error(answer.network, truth)
    return float(error), answer.outcome.name


def line_of(row: dict[str, Any]) -> Line:
    """Return the line of a case."""
    text = f"{row['hits']}/{row['seeds']} exact, {row['recovered']} certified, {row['false']} falsely"
    return Line(f"{row['case']}: >= 99 %", text, row["hits"] >= 0.99 * row["seeds"] and not row["false"])


def stored_rows(name: str, folder: Path | None) -> dict[str, dict[str, Any]]:
    """Return the cases that are stored already."""
    path = (folder or RESULTS) / f"{name}.json"
    return {row["case"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}


def draw() -> None:
    """Draw the stored shares of exact answers over the number of samples in units of the limit."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "limits"
    from matplotlib import pyplot as plt

    rows = [row for name in ("limits", "limits_closer") for row in stored_rows(name, None).values()]
    figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.text(1.02, 50, "information limit L", rotation=90, va="center")
    axes.axhline(99, color="grey", linewidth=0.5, linestyle=":")
    for bias, marker in (("biases", "o"), ("no biases", "s")):
        for place, shape in enumerate(SHAPES):
            own = [row for row in rows if row["case"].startswith(f"{bias} {shape} ")]
            multiples = [
                float(row["case"].partition("(")[2].partition(" L)")[0].rpartition("(")[2]) for row in own
            ]
            shares = [100 * row["hits"] / row["seeds"] for row in own]
            axes.plot(
                multiples, shares, marker, color=f"C{place}", fillstyle="none", label=f"{shape}, {bias}"
            )
    axes.set(xlabel="samples, in units of L", ylabel="exact, per cent", xlim=(0.9, 3.2), ylim=(0, 103))
    axes.legend(fontsize="x-small", loc="lower right")
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    closer = {"action": "store_true", "help": "2.5 L with biases and 2 L without"}
    count = {"type": int, "default": 100, "help": "seeds of every case"}
    missing = {"action": "store_true", "help": "measure only cases that are not stored; keep the others"}
    plot = {"action": "store_true", "help": "only draw what is stored, for the documentation"}
    options = parse_options(__doc__ or "", closer=closer, count=count, missing=missing, plot=plot)
    if options.plot:
        draw()
        return
    multiples = CLOSER if options.closer else MULTIPLES
    name = "limits_closer" if options.closer else "limits"
    seeds = range(options.seed, options.seed + (5 if options.quick else options.count))
    kept = stored_rows(name, options.out) if options.missing else {}
    rows: list[dict[str, Any]] = []
    cases = [(shape, law, bias) for bias in (True, False) for shape in SHAPES for law in LAWS[bias]]
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for shape, law, bias in cases:
            n = ceil(multiples[bias] * limit(shape, bias))
            case = f"{'biases' if bias else 'no biases'} {shape} n={n} ({multiples[bias]:g} L) {law}"
            if case in kept:
                rows.append(kept[case])
                continue
            answers = list(pool.map(try_once, [(n, shape, law, bias, seed) for seed in seeds]))
            rows.append(
                {
                    "case": case,
                    "hits": sum(error <= 1e-12 for error, _ in answers),
                    "seeds": len(seeds),
                    "recovered": sum(outcome == "RECOVERED" for _, outcome in answers),
                    "false": sum(outcome == "RECOVERED" and error > 1e-9 for error, outcome in answers),
                }
            )
            report(name, [line_of(row) for row in rows], rows, options)  # what is measured is kept


if __name__ == "__main__":
    main()
