"""How few samples suffice without noise: recovery at small multiples of the information limit.

The limit is L = (unknowns) / m, with k(d+1) + mk - k unknowns, k fewer without biases. Every unit is on for 30-70 % of the
inputs, and for one more than determine it, since that one checks them: d + 2 with a bias, d + 1 without. Biases are placed
so, and without them units are drawn until k are. The method is told neither k nor whether there are biases; a hit is an
error of at most 1e-12 on matched parameters.

With --closer the cases where 30 % of the inputs are fewer than that are measured "as drawn" too: 30-70 % and nothing else. A
unit that is on for fewer inputs than it has weights is not identifiable, whatever the method; the line shows the hits among
all networks, and among those without such a unit, of which 99 % are asked for.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
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


def biased_teacher(X: np.ndarray, shape: tuple[int, int, int], seed: int, *, least: int) -> TwoLayerNetwork:
    """Return a network with biases at quantiles of these inputs, each unit on for 30-70 % of them and for `least`."""
    d, k, m = shape
    net = simulate.teacher(d, k, m, random_state=seed)
    shares = data_streams(seed + SHARES, 1)[0].uniform(max(0.3, least / len(X)), 0.7, k)
    cuts = [np.quantile(X @ w, 1 - share) for w, share in zip(net.W, shares, strict=True)]
    return TwoLayerNetwork(net.W, -np.array(cuts), net.A)


def unbiased_teacher(X: np.ndarray, shape: tuple[int, int, int], seed: int, *, least: int) -> TwoLayerNetwork:
    """Return the first k of many units that are on for 30-70 % of the inputs and for `least`."""
    d, k, m = shape
    pool = simulate.teacher(d, 10 * k, m, random_state=seed)
    count = pool.patterns(X).sum(axis=0)
    chosen = np.flatnonzero((count >= max(0.3 * len(X), least)) & (count <= 0.7 * len(X)))[:k]
    return TwoLayerNetwork(pool.W[chosen], None, pool.A[:, chosen])


@dataclass(frozen=True)
class Case:
    """A shape, a number of samples, a law; as drawn, or with units that one input more than determines them turns on."""

    shape: tuple[int, int, int]
    law: str
    bias: bool
    multiple: float
    as_drawn: bool = False

    @property
    def n_samples(self) -> int:
        return ceil(self.multiple * limit(self.shape, self.bias))

    @property
    def unknowns(self) -> int:
        """Weights of a unit."""
        return self.shape[0] + self.bias

    @property
    def can_lack_rows(self) -> bool:
        """Whether a unit that is on for 30 % of the inputs may be on for fewer than it has weights."""
        return 0.3 * self.n_samples < self.unknowns

    def __str__(self) -> str:
        drawn = ", as drawn" if self.as_drawn else ""
        bias = "biases" if self.bias else "no biases"
        return f"{bias} {self.shape} n={self.n_samples} ({self.multiple:g} L) {self.law}{drawn}"


def try_once(case: Case, seed: int) -> tuple[float, str, bool]:
    """Return the parameter error and the outcome of one seed, and whether every unit is on for as many rows as weights."""
    X = simulate.inputs(case.n_samples, case.shape[0], law=case.law, random_state=seed)
    least = 0 if case.as_drawn else case.unknowns + 1
    truth = (biased_teacher if case.bias else unbiased_teacher)(X, case.shape, seed, least=least)
    determined = bool((truth.patterns(X).sum(axis=0) >= case.unknowns).all())
    answer = planted.recover(X, truth(X), method="complementarity", random_state=SOLVER + seed)
    error = np.inf if answer.network is None else planted.parameter_error(answer.network, truth)
    return float(error), answer.outcome.name, determined


def row_of(case: Case, answers: list[tuple[float, str, bool]]) -> dict[str, Any]:
    """Return what is stored of a case."""
    hits = [error <= 1e-12 for error, _, _ in answers]
    row = {
        "case": str(case),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "hits": sum(hits),
        "seeds": len(answers),
        "missed": [number for number, hit in enumerate(hits) if not hit],  # beyond the first seed
        "recovered": sum(outcome == "RECOVERED" for _, outcome, _ in answers),
        "false": sum(outcome == "RECOVERED" and error > 1e-9 for error, outcome, _ in answers),
    }
    if case.as_drawn:
        determined = [answer[2] for answer in answers]
        row["determined"] = sum(determined)
        row["determined_hits"] = sum(
            hit for hit, is_determined in zip(hits, determined, strict=True) if is_determined
        )
    return row


def line_of(row: dict[str, Any]) -> Line:
    """Return the line of a case."""
    hits, seeds = row.get("determined_hits", row["hits"]), row.get("determined", row["seeds"])
    text = f"{row['hits']}/{row['seeds']} exact, {row['recovered']} certified, {row['false']} falsely"
    if "determined" in row:
        text = f"{hits}/{seeds} of the identifiable, {text}"
    return Line(f"{row['case']}: >= 99 %", text, hits >= 0.99 * seeds and not row["false"])


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
    missing = {
        "action": "store_true",
        "help": "measure only cases not stored with so many seeds; keep the others",
    }
    only = {"metavar": "TEXT", "help": "measure cases with this text in their name again; keep the others"}
    workers = {"type": int, "default": os.cpu_count(), "help": "processes"}
    plot = {"action": "store_true", "help": "only draw what is stored, for the documentation"}
    options = parse_options(
        __doc__ or "", closer=closer, count=count, missing=missing, only=only, plot=plot, workers=workers
    )
    if options.plot:
        draw()
        return
    multiples = CLOSER if options.closer else MULTIPLES
    name = "limits_closer" if options.closer else "limits"
    seeds = range(options.seed, options.seed + (5 if options.quick else options.count))
    kept = stored_rows(name, options.out) if options.missing or options.only else {}
    cases = [
        Case(shape, law, bias, multiples[bias])
        for bias in (True, False)
        for shape in SHAPES
        for law in LAWS[bias]
    ]
    if options.closer:
        cases += [replace(case, as_drawn=True) for case in cases if case.can_lack_rows]
    with ProcessPoolExecutor(max_workers=options.workers) as pool:
        for case in cases:
            if is_wanted(case, kept.get(str(case)), len(seeds), options.only):
                kept[str(case)] = row_of(case, list(pool.map(partial(try_once, case), seeds)))
                rows = [kept[str(each)] for each in cases if str(each) in kept]
                report(name, [line_of(row) for row in rows], rows, options)  # what is measured is kept


def is_wanted(case: Case, stored: dict[str, Any] | None, n_seeds: int, only: str | None) -> bool:
    """Whether a case is to be measured: those named, or those not stored with so many seeds."""
    if only is not None:
        return only in str(case)
    return stored is None or stored["seeds"] < n_seeds


if __name__ == "__main__":
    main()
