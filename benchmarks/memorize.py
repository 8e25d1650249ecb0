"""Memorising synthetic labels: every solver, almost full capacity, rivals, and a small network behind the labels.

python benchmarks/memorize.py --quick   # without the rivals at n = 5,000
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _table import Line, parse_options, report

import planted
from planted._streams import data_streams
from planted.linalg import unit_rows

Measured = tuple[list[Line], list[dict[str, Any]]]

SOLVERS: dict[str, dict[str, Any]] = {
    "direct": {},
    "cg": {},
    "low-rank": {},
    "ridge": {"penalty": 1e-8},
    "pgd": {"width": 300},
    "lbfgs": {"width": 300},
    "adam": {
        "width": 300,
        "learning_rate": 0.01,
        "batch_size": 300,
        "decay": 0.5,
        "decay_every": 100,
        "max_epochs": 2000,
        "precision": "float64",
    },
}


def every_solver(seed: int) -> Measured:
    """N = 300, d = 100, r = 300, uniform entries, unit rows: every solver to a loss of 1e-10."""
    X, y = uniform_data(300, 100, seed)
    lines, rows = [], []
    for solver, options in SOLVERS.items():
        memory = planted.memorize(X, y, solver=solver, random_state=seed, **options)
        rows.append({"part": "every solver", "n": 300, "d": 100, **numbers(memory)})
        lines.append(Line(f"n=300, d=100, {solver}: loss <= 1e-10", told(memory), memory.loss <= 1e-10))
    return lines, rows


def near_capacity(seed: int) -> Measured:
    """Solve d = 100 up to 0.99 d(d+1)/2 by auto, with at most d units."""
    lines, rows = [], []
    for n in (2500, 4000, 4999):
        X, y = uniform_data(n, 100, seed)
        memory = planted.memorize(X, y, random_state=seed)
        rows.append({"part": "near capacity", "n": n, "d": 100, **numbers(memory)})
        passed = memory.loss <= 1e-10 and memory.network.n_hidden <= 100
        lines.append(Line(f"d=100, n={n}, auto: loss <= 1e-10 with <= d units", told(memory), passed))
    return lines, rows


def rivals(seed: int) -> Measured:
    """Time auto at n = 5,000 against conjugate gradients and L-BFGS."""
    X, y = uniform_data(5000, 100, seed)
    auto = planted.memorize(X, y, random_state=seed)
    lines, rows = [], [{"part": "rivals", "n": 5000, "d": 100, **numbers(auto)}]
    ours = auto.stats["solver_cpu_seconds"]
    for rival, options in (("cg", {"max_iter": 3000}), ("lbfgs", {"max_iter": 2500})):
        other = planted.memorize(X, y, solver=rival, random_state=seed, **options)
        rows.append({"part": "rivals", "n": 5000, "d": 100, **numbers(other)})
        theirs = other.stats["solver_cpu_seconds"]
        measured = f"{ours:.1f} s (loss {auto.loss:.0e}) against {theirs:.1f} s (loss {other.loss:.0e}): {ours / theirs:.2f}"
        passed = ours <= theirs / 5 and auto.loss <= 1e-10
        lines.append(Line(f"d=100, n=5000: CPU of auto <= 1/5 of {rival}", measured, passed))
    return lines, rows


def low_rank(seed: int) -> Measured:
    """Rank-3 teacher, d = 60, n = 1,500: relative test error of the low-rank, ridge and least-norm solutions."""
    network = planted.simulate.teacher(60, 3, activation="quadratic", random_state=seed)
    data = planted.simulate.dataset(1500, network, random_state=seed)
    fresh = planted.simulate.dataset(2000, network, random_state=seed + 100)
    rows = []
    for solver in ("low-rank", "ridge", "direct"):
        memory = planted.memorize(data.X, data.Y, solver=solver, random_state=seed)
        error = float(np.mean((memory.network(fresh.X) - fresh.Y) ** 2) / np.mean(fresh.Y**2))
        rows.append({"part": "rank three", "n": 1500, "d": 60, "test_error": error, **numbers(memory)})
    measured = ", ".join(f"{row['solver']} {row['test_error']:.1e}" for row in rows)
    target = "rank-3 teacher: low-rank test error <= 1e-6 relative"
    return [Line(target, measured, rows[0]["test_error"] <= 1e-6)], rows


def uniform_data(n: int, d: int, seed: int) -> tuple[Any, Any]:
    """Entries uniform in [-1, 1], rows of norm one, labels uniform in [-1, 1]."""
    rows, labels = data_streams(seed, 2)
    return unit_rows(rows.uniform(-1, 1, (n, d)))[0], labels.uniform(-1, 1, n)


def numbers(memory: planted.Memory) -> dict[str, Any]:
    """Return what is stored of a run."""
    return {
        "solver": memory.stats["solver"],
        "outcome": memory.outcome.name,
        "loss": memory.loss,
        "largest_error": memory.conditions["largest_error"],
        "sigma_min": memory.conditions["sigma_min"],
        "units": memory.network.n_hidden,
        "iterations": memory.stats["iterations"],
        "cpu_seconds": memory.stats["solver_cpu_seconds"],
    }


def told(memory: planted.Memory) -> str:
    """Return the numbers of a run as a sentence."""
    row = numbers(memory)
    fit = f"{row['loss']:.1e}, largest error {row['largest_error']:.1e}, {row['units']} units"
    return f"{fit}, {row['cpu_seconds']:.2f} CPU s"


def main() -> None:
    """Run, print and store the table."""
    options = parse_options(__doc__ or "")
    parts = [every_solver, low_rank, near_capacity] + ([] if options.quick else [rivals])
    results = [part(options.seed) for part in parts]
    lines = [line for found, _ in results for line in found]
    report("memorize", lines, [row for _, found in results for row in found], options)


if __name__ == "__main__":
    main()
