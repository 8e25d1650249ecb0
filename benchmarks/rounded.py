"""Rounded answers of a black box: is the network read back, and within the bound that is stated?

Answers in double precision, in single precision, and with 11 to 2 decimals, of networks 10-5-1 and 20-10-1. Where the
answers have few decimals, `identify` asks farther out. Noise is never exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _table import Line, Measure, Rows, at_least, gather, run_sections

import planted
from planted import Guarantee, Outcome, TwoLayerNetwork
from planted.checks import Check
from planted.outcomes import PlantedError

SIZES = ((10, 5), (20, 10))
SOLVER = 10_000  # solver seeds start here: never those of the data
Oracle = Callable[[np.ndarray], np.ndarray]


def single(net: TwoLayerNetwork) -> Oracle:
    W, b, A, c = (getattr(net, name).astype(np.float32) for name in "WbAc")
    return lambda X: np.maximum(X.astype(np.float32) @ W.T + b, 0) @ A.T + c


def with_decimals(decimals: int, net: TwoLayerNetwork) -> Oracle:
    return lambda X: np.round(net(X), decimals)


GRIDS: dict[str, Callable[[TwoLayerNetwork], Oracle]] = {
    "double precision": lambda net: net,
    "single precision": single,
    **{f"{decimals} decimals": partial(with_decimals, decimals) for decimals in (11, 8, 6, 4, 2)},
}


def ask(oracle: Oracle, truth: TwoLayerNetwork, seed: int) -> dict[str, Any]:
    """Identify once and note what came of it."""
    try:
        found = planted.identify(oracle, truth.n_features, random_state=SOLVER + seed)
    except PlantedError as error:
        return {"seed": seed, "outcome": type(error).__name__, "guarantee": "NONE"}
    row = {"seed": seed, "outcome": found.outcome.name, "guarantee": found.guarantee.name}
    if found.network is None:
        return row
    return row | {
        "error": planted.parameter_error(found.network, truth),
        "bound": found.find(Check.ERROR_BOUND)[0].measured,
        "queries": found.stats["queries"],
    }


def is_recovered(row: dict[str, Any]) -> bool:
    return bool(row["outcome"] == Outcome.RECOVERED.name)


def rounded(grid: str, size: tuple[int, int], seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    d, k = size
    rows = []
    for seed in seeds(10):
        truth = planted.simulate.teacher(d, k, 1, bias=(-0.5, 0.5), random_state=seed)
        rows.append({"case": f"{d}-{k}-1, {grid}", **ask(GRIDS[grid](truth), truth, seed)})
    found = [row for row in rows if is_recovered(row)]
    outside = sum(row["error"] > row["bound"] for row in found)
    largest = max((row["error"] for row in found), default=float("nan"))
    bound = max((row["bound"] for row in found), default=float("nan"))
    note = f", error up to {largest:.1e}, stated bound up to {bound:.1e}"
    return [
        at_least(f"{d}-{k}-1, {grid}: at least 95 % recovered", len(found), len(rows), 0.95, note),
        Line(f"{d}-{k}-1, {grid}: errors above the bound: none", f"{outside}/{len(found)}", outside == 0),
    ], rows


def noisy(seeds: Callable[[int], range]) -> tuple[Line, Rows]:
    rows = []
    for level in (1e-12, 1e-9, 1e-6):
        for seed in seeds(10):
            truth = planted.simulate.teacher(10, 5, 1, bias=(-0.5, 0.5), random_state=seed)
            noise = np.random.default_rng([seed, 9])

            def oracle(
                X: np.ndarray,
                truth: TwoLayerNetwork = truth,
                noise: np.random.Generator = noise,
                level: float = level,
            ) -> np.ndarray:
                return truth(X) + level * noise.standard_normal((len(X), 1))

            rows.append({"case": f"noise {level:g}", **ask(oracle, truth, seed)})
    wrong = sum(
        row["guarantee"] == Guarantee.EXACT.name or (is_recovered(row) and row["error"] > row["bound"])
        for row in rows
    )
    return Line(
        "noisy answers called exact, or outside the bound: none", f"{wrong}/{len(rows)}", wrong == 0
    ), rows


MEASURES: list[Measure] = [partial(rounded, grid, size) for size in SIZES for grid in GRIDS]

if __name__ == "__main__":
    run_sections("rounded", __doc__ or "", {"rounded": gather(*MEASURES), "noisy": gather(noisy)})
