"""Data that were once refused without need: labels on a grid, one input, heavy tails, constant outputs. Are they recovered?

Every problem is drawn by its seed. A claim counts if it is right as `calibration.py` judges it: to 1e-6, or within six
standard errors where labels are rounded or noisy. `diagnose` must not call noisy data free of noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _table import Line, Measure, Rows, at_least, gather, run_sections
from calibration import count_own_time, judge
from families_exact import (
    computed_labels,
    constant_outputs,
    draw_inputs,
    draw_network,
    float32_labels,
    heavy_tails,
    many_kinks,
)
from families_noisy import Problem

import planted
from planted import Outcome, TwoLayerNetwork

SOLVER = 10_000  # solver seeds start here: never those of the data
BUDGET = 20.0  # seconds of a core
Draw = Callable[[np.random.Generator], Problem]


def with_decimals(decimals: int, rng: np.random.Generator) -> Problem:
    net = draw_network(rng)
    X = draw_inputs(rng, net, 12)
    return X, np.round(net(X), decimals), net, "rounded"


def one_noisy_kink(rng: np.random.Generator) -> Problem:
    """One input, one unit, noise of 3 to 10 per cent: with much more a smooth bend may explain as much."""
    net = TwoLayerNetwork([[rng.choice([-1.0, 1.0])]], [rng.uniform(-0.7, 0.7)], [[rng.normal()]])
    X = rng.standard_normal((int(rng.choice([300, 1000])), 1))
    F = net(X)
    return X, F + float(rng.uniform(0.03, 0.1)) * F.std() * rng.standard_normal(F.shape), net, "noisy"


def noisy_data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    net = draw_network(rng, d=int(rng.integers(1, 8)))
    X = rng.standard_normal((int(rng.choice([100, 400, 1000])), net.n_features))
    F = net(X)
    return X, F + float(rng.choice([0.01, 0.1, 0.3])) * F.std() * rng.standard_normal(F.shape)


CASES: dict[str, Draw] = {
    "labels of single precision": float32_labels,
    "labels computed in single precision": computed_labels,
    **{f"labels with {decimals} decimals": partial(with_decimals, decimals) for decimals in range(4, 12)},
    "one input, 3 to 20 units": many_kinks,
    "one input, one unit, noise of 3 to 10 %": one_noisy_kink,
    "inputs with heavy tails": heavy_tails,
    "constant outputs": constant_outputs,
}


def recovered(name: str, seeds: Callable[[int], range]) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(40):
        X, Y, truth, kind = CASES[name](np.random.default_rng([seed, *name.encode()]))
        answer = planted.recover(X, Y, random_state=SOLVER + seed, budget_seconds=BUDGET)
        is_claimed = answer.outcome is Outcome.RECOVERED
        is_right, covered, count = judge(answer, truth, (X, Y), kind)
        # Where all outputs are constant there is no network to recover.
        possible = bool((np.ptp(Y, axis=0) > 0).any())
        row: dict[str, Any] = {
            "case": name,
            "seed": seed,
            "outcome": answer.outcome.name,
            "possible": possible,
        }
        rows.append(row | {"hit": is_claimed and is_right, "false": is_claimed and not is_right})
        rows[-1] |= {"covered": covered, "parameters": count}
    able = [row for row in rows if row["possible"]]
    hits, false = sum(row["hit"] for row in able), sum(row["false"] for row in rows)
    line = at_least(f"{name}: at least 95 % recovered, none wrongly", hits, len(able), 0.95)
    return Line(line.target, f"{line.measured}, {false} wrong", line.passed and not false), rows


def diagnosed(seeds: Callable[[int], range]) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(40):
        X, Y = noisy_data(np.random.default_rng([seed, 4]))
        noise = planted.diagnose(X, Y, random_state=SOLVER + seed).noise
        rows.append({"case": "diagnose", "seed": seed, "noise": noise.relative_std})
    zeros = sum(not row["noise"] > 0 for row in rows)
    return Line("noisy data diagnosed as free of noise: none", f"{zeros}/{len(rows)}", zeros == 0), rows


MEASURES: list[Measure] = [partial(recovered, name) for name in CASES]

if __name__ == "__main__":
    count_own_time()
    run_sections("refusals", __doc__ or "", {"recover": gather(*MEASURES), "diagnose": gather(diagnosed)})
