"""Does `method="auto"` cost anything against knowing the best method beforehand? And does it keep its budget?

Every class of problem is solved by auto and by each single method, the number of units unknown to all. A success is a
network called RECOVERED that is the truth: to 1e-6 without noise, within six of its own standard errors with noise. The
best single method of a class is the one with most successes, then the fastest. Time is CPU time, summed over the class.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

from _table import Line, gather, run_sections
from calibration import judge

import planted
from planted import simulate

SOLVER = 700_000
CLASSES: dict[str, dict[str, Any]] = {
    "exact, m >= k": {"n": 150, "n_features": 8, "n_hidden": 4, "n_outputs": 6, "law": "exponential"},
    "exact, m >= k, overcomplete": {"n": 400, "n_features": 4, "n_hidden": 6, "n_outputs": 8, "law": "uniform"},
    "exact, scalar": {"n": 800, "n_features": 8, "n_hidden": 4, "outputs": "magnitudes"},
    "noise 0.1, m >= k": {"n": 1500, "n_features": 8, "n_hidden": 4, "n_outputs": 6, "noise": 0.1},
    "noise 0.1, scalar": {"n": 3000, "n_features": 6, "n_hidden": 3, "outputs": "magnitudes", "noise": 0.1},
    "symmetric, no biases, noise 0.1": {
        "n": 5000, "n_features": 8, "n_hidden": 6, "n_outputs": 8, "noise": 0.1, "activity": None
    },
}  # fmt: skip
BUDGETED = {
    "scalar (20,20)": {"n": 5292, "n_features": 20, "n_hidden": 20, "outputs": "magnitudes"},
    "scalar (10,20), noise 0.1": {"n": 6930, "n_features": 10, "n_hidden": 20, "outputs": "magnitudes", "noise": 0.1},
    "(30,20,25), noise 0.1": {"n": 20_000, "n_features": 30, "n_hidden": 20, "n_outputs": 25, "noise": 0.1},
}  # fmt: skip


def draw(design: dict[str, Any], seed: int) -> simulate.Dataset:
    options = {"activity": (0.3, 0.7), **design}
    return simulate.dataset(options.pop("n"), random_state=seed, **options)


def run(data: simulate.Dataset, method: str, seed: int) -> tuple[planted.Recovery, float]:
    clock = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = planted.recover(
            data.X, data.Y, method=method, random_state=SOLVER + seed, budget_seconds=120
        )
    return answer, time.process_time() - clock


def is_success(answer: planted.Recovery, data: simulate.Dataset, noisy: bool) -> bool:
    right = judge(answer, data.network, data.X, "noisy" if noisy else "exact")[0]
    return bool(right and answer.outcome is planted.Outcome.RECOVERED)


def compare(name: str, seeds: range) -> tuple[Line, list[dict[str, Any]]]:
    design = CLASSES[name]
    able = [method for method in planted.methods() if method != "small-network"]  # it never claims a recovery
    totals = {method: [0, 0.0] for method in ("auto", *able)}
    for seed in seeds:
        data = draw(design, seed)
        for method, total in totals.items():
            answer, cpu = run(data, method, seed)
            total[0] += is_success(answer, data, "noise" in design)
            total[1] += cpu
    best = max((m for m in totals if m != "auto"), key=lambda m: (totals[m][0], -totals[m][1]))
    (hits, cpu), (best_hits, best_cpu) = totals["auto"], totals[best]
    ratio = cpu / best_cpu
    text = f"{hits}/{len(seeds)} against {best_hits}/{len(seeds)} of {best}; {ratio:.2f} of its time"
    rows = [
        {"class": name, "method": m, "hits": h, "tries": len(seeds), "cpu": c} for m, (h, c) in totals.items()
    ]
    passed = hits >= best_hits - 0.01 * len(seeds) and ratio <= 2
    return Line(f"{name}: success >= best - 1 %, time <= 2x", text, passed), rows


def budget(name: str, seeds: range) -> tuple[Line, list[dict[str, Any]]]:
    rows = []
    for seed in seeds:
        data = draw(BUDGETED[name], seed)
        clock, cpu = time.perf_counter(), time.process_time()
        answer = planted.recover(data.X, data.Y, random_state=SOLVER + seed, budget_seconds=1.0)
        rows.append({"case": name, "seed": seed, "outcome": answer.outcome.name,
                     "seconds": time.perf_counter() - clock, "cpu": time.process_time() - cpu})  # fmt: skip
    worst = max(row["seconds"] for row in rows)
    outcomes = ", ".join(sorted({row["outcome"] for row in rows}))
    return Line(
        f"{name}: a budget of 1 s is kept within 2x", f"longest {worst:.2f} s ({outcomes})", worst <= 2
    ), rows


SECTIONS = {name: gather(lambda seeds, name=name: compare(name, seeds(20))) for name in CLASSES} | {
    "budget": gather(*(lambda seeds, name=name: budget(name, seeds(5)) for name in BUDGETED))
}


if __name__ == "__main__":
    run_sections("automatic", __doc__ or "", SECTIONS)
