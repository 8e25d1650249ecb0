"""How few samples suffice without noise: recovery at small multiples of the information limit.

The limit is L = (unknowns) / m, with k(d+1) + mk - k unknowns, k fewer per missing bias. Every unit is on for 30-70 % of the
inputs (half of them without biases). The methods are not told k; a hit is an error of at most 1e-12 on matched parameters.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from math import ceil
from typing import Any

import numpy as np
from _table import Line, parse_options, report
from recovery import planted_world

import planted
from planted import simulate

SHAPES = ((10, 5, 5), (20, 10, 15), (30, 20, 25))
LAWS = {True: ("gaussian", "exponential", "uniform"), False: ("gaussian",)}
MULTIPLES = {True: 3.0, False: 2.5}
METHODS = {True: "complementarity", False: "sign-patterns"}
SOLVER = 10_000  # solver seeds start here: never those of the data


def limit(shape: tuple[int, int, int], bias: bool) -> float:
    """Return the number of samples whose outputs are as many as the unknowns."""
    d, k, m = shape
    return (k * (d + bias) + m * k - k) / m


def try_once(case: tuple[tuple[int, int, int], str, bool, int]) -> tuple[float, str]:
    """Return the parameter error and the outcome of one seed."""
    shape, law, bias, seed = case
    n = ceil(MULTIPLES[bias] * limit(shape, bias))
    if bias:
        X, Y, truth = planted_world(n, shape, law, seed)
    else:
        d, k, m = shape
        X = simulate.inputs(n, d, law=law, random_state=seed)
        truth = simulate.teacher(d, k, m, random_state=seed)
        Y = truth(X)
    answer = planted.recover(X, Y, method=METHODS[bias], random_state=SOLVER + seed)
    error = np.inf if answer.network is None else planted.parameter_error(answer.network, truth)
    return float(error), answer.outcome.name


def main() -> None:
    options = parse_options(__doc__ or "")
    seeds = range(options.seed, options.seed + (5 if options.quick else 100))
    lines: list[Line] = []
    rows: list[dict[str, Any]] = []
    cases = [(shape, law, bias) for bias in (True, False) for shape in SHAPES for law in LAWS[bias]]
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for shape, law, bias in cases:
            answers = list(pool.map(try_once, [(shape, law, bias, seed) for seed in seeds]))
            hits = sum(error <= 1e-12 for error, _ in answers)
            claimed = sum(outcome == "RECOVERED" for _, outcome in answers)
            false = sum(outcome == "RECOVERED" and error > 1e-9 for error, outcome in answers)
            n = ceil(MULTIPLES[bias] * limit(shape, bias))
            name = f"{'biases' if bias else 'no biases'} {shape} n={n} ({MULTIPLES[bias]:g} L) {law}"
            rows.append(
                {"case": name, "hits": hits, "seeds": len(seeds), "recovered": claimed, "false": false}
            )
            text = f"{hits}/{len(seeds)} exact, {claimed} certified, {false} falsely"
            lines.append(Line(f"{name}: >= 99 %", text, hits >= 0.99 * len(seeds) and not false))
            print(lines[-1].target, text, flush=True)
    report("limits", lines, rows, options)


if __name__ == "__main__":
    main()
