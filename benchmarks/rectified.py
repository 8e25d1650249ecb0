"""Exact recovery without biases: few samples, arbitrary inputs, all sign patterns, lone units, powers, formulas.

default      noiseless ReLU at three times the information limit: `planted.recover` with its defaults
cone         sign-patterns on arbitrary inputs: right or refused
enumeration  all sign patterns: the network, and the number of patterns in general position
lone units   fewer outputs than units, at twice the expected sample needs
powers       rectified squares and cubes by joint diagonalisation
formulas     two-unit fits decided by an integer program against all assignments
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _table import Line, at_least, parse_options, report

import planted
from planted import TwoLayerNetwork, simulate
from planted._streams import data_streams
from planted.linalg import fit_units_exactly
from planted.methods.sign_patterns._enumeration import count_patterns, enumerate_patterns

SHAPES = ((10, 5, 5), (10, 10, 10), (20, 10, 15), (30, 20, 25))
INPUTS = ("gaussian", "exponential", "rademacher", "grid", "clustered")
LONE = {("orthonormal", 3): 200, ("orthonormal", 4): 400, ("orthonormal", 5): 800}
LONE |= {("random", 3): 400, ("random", 4): 1600, ("random", 5): 6400}


def measure(name: str, draw: Any, seeds: range, tol: float = 1e-12, **options: Any) -> dict[str, Any]:
    """Count recoveries, wrong ones among them, and the largest error."""
    hits = recovered = wrong = 0
    largest = 0.0
    began = time.process_time()
    for seed in seeds:
        X, truth = draw(seed)
        answer = planted.recover(X, truth(X), random_state=seed, **options)
        error = (
            np.inf if answer.network is None else planted.parameter_error(answer.network, visible(truth, X))
        )
        is_recovered = answer.outcome is planted.Outcome.RECOVERED
        recovered += is_recovered
        hits += error <= tol
        wrong += is_recovered and error > max(tol, 1e-9)
        largest = max(largest, error) if is_recovered else largest
    return {
        "name": name, "seeds": len(seeds), "hits": hits, "recovered": recovered, "wrong": wrong,
        "largest_error": largest, "cpu_seconds": round((time.process_time() - began) / len(seeds), 3),
    }  # fmt: skip


def visible(network: TwoLayerNetwork, X: Any) -> TwoLayerNetwork:
    """Leave out units that are on for no sample."""
    seen = network.patterns(X).any(axis=0)
    return TwoLayerNetwork(network.W[seen], None, network.A[:, seen], None, network.activation)


def limit_without_biases(d: int, k: int, m: int) -> float:
    return (k * d + m * k - k) / m


def default_rows(seeds: range) -> list[dict[str, Any]]:
    rows = []
    for d, k, m in SHAPES:
        n = int(np.ceil(3 * limit_without_biases(d, k, m)))
        rows.append(
            measure(
                f"default {(d, k, m)} n={n}", lambda seed, d=d, k=k, m=m, n=n: world(n, d, k, m, seed), seeds
            )
        )
    return rows


def world(n: int, d: int, k: int, m: int, seed: int, **options: Any) -> tuple[Any, TwoLayerNetwork]:
    return simulate.inputs(n, d, random_state=seed), simulate.teacher(d, k, m, random_state=seed, **options)


def arbitrary(kind: str, seed: int) -> tuple[Any, TwoLayerNetwork]:
    """Two hundred arbitrary inputs for one to six units."""
    n, k, d = 200, 1 + seed % 6, 5 + seed % 4
    if kind == "grid":
        X = np.round(simulate.inputs(n, d, random_state=seed))
    elif kind == "clustered":
        (choice,) = data_streams(seed + 10_000, 1)
        centres = simulate.inputs(6, d, random_state=seed)
        X = centres[choice.integers(6, size=n)] + 0.01 * choice.standard_normal((n, d))
    else:
        X = simulate.inputs(n, d, law=kind, random_state=seed)
    return X, simulate.teacher(d, k, k + seed % 2, random_state=seed)


def formulas(count: int, seed: int) -> dict[str, Any]:
    (rng,) = data_streams(seed + 20_000, 1)
    agree = solvable = 0
    for _ in range(count):
        variables = int(rng.integers(2, 6))
        size = min(variables, 3)
        formula = simulate.Formula(
            variables,
            tuple(
                tuple(
                    int(v + 1) * int(s)
                    for v, s in zip(rng.permutation(variables)[:size], rng.choice([-1, 1], size), strict=True)
                )
                for _ in range(int(rng.integers(1, 14)))
            ),
        )
        instance = simulate.hard_instance("sat", formula)
        expected = formula.find_assignment() is not None
        answer = fit_units_exactly(instance.X, instance.Y[:, 0], bound=20.0)
        agree += answer.status.name == ("OPTIMAL" if expected else "INFEASIBLE")
        solvable += expected
    return {"name": "formulas", "seeds": count, "hits": agree, "solvable": solvable}


def large_row(seed: int) -> dict[str, Any]:
    return measure("(100, 50, 60) n=800", lambda s: world(800, 100, 50, 60, s), range(seed, seed + 1))


def enumeration_rows(seeds: range) -> list[dict[str, Any]]:
    rows = []
    for k, n in ((3, 100), (4, 60)):
        row = measure(
            f"enumeration k={k} n={n}", lambda seed, k=k, n=n: world(n, 5, k, k, seed), seeds,
            method="sign-patterns", variant="paper",
        )  # fmt: skip
        (rng,) = data_streams(k, 1)
        row["patterns"] = len(enumerate_patterns(rng.standard_normal((n, k))))
        row["formula"] = count_patterns(n, k)
        rows.append(row)
    return rows


def main() -> None:
    options = parse_options(__doc__)
    count = 10 if options.quick else 100
    seeds = range(options.seed, options.seed + count)
    rows = default_rows(seeds)
    lines = [at_least(f"{row['name']}: error <= 1e-12", row["hits"], count, 0.99) for row in rows]
    large = large_row(options.seed)
    lines.append(
        Line(
            "(100, 50, 60) n=800: error <= 1e-12, once",
            f"{large['largest_error']:.1e} in {large['cpu_seconds']} s CPU",
            large["hits"] == 1,
        )
    )
    cone = [
        measure(f"cone {kind}", lambda seed, kind=kind: arbitrary(kind, seed), seeds, method="sign-patterns")
        for kind in INPUTS
    ]
    lines += [
        Line(
            f"{row['name']} k <= 6, n = 200: no wrong network",
            f"{row['wrong']} wrong, {row['recovered']}/{count} recovered",
            row["wrong"] == 0,
        )
        for row in cone
    ]
    enumeration = enumeration_rows(seeds[: max(count // 10, 3)])
    for row in enumeration:
        lines.append(at_least(f"{row['name']}: the true network", row["hits"], row["seeds"], 1.0))
        lines.append(
            Line(
                "   patterns in general position = formula",
                f"{row['patterns']} = {row['formula']}",
                row["patterns"] == row["formula"],
            )
        )
    lone = []
    for (hidden, k), n in LONE.items():
        for m in (2, 3):
            row = measure(
                f"lone units {hidden} k={k} m={m} n={2 * n}",
                lambda seed, n=n, k=k, m=m, hidden=hidden: world(2 * n, 10, k, m, seed, hidden=hidden),
                seeds[: max(count // 5, 5)], method="lone-units", n_hidden=k,
            )  # fmt: skip
            lone.append(row)
            lines.append(at_least(row["name"], row["hits"], row["seeds"], 0.9))
    powers = [
        measure(
            f"{name} (10, 5, 5) n=600", lambda seed, name=name: world(600, 10, 5, 5, seed, activation=name), seeds,
            tol=1e-10, method="joint-diagonalisation", activation=name,
        )
        for name in ("power:2", "power:3")
    ]  # fmt: skip
    lines += [at_least(f"{row['name']}: error <= 1e-10", row["hits"], count, 0.95) for row in powers]
    sat = formulas(20 if options.quick else 60, options.seed)
    lines.append(
        at_least(
            "formulas: integer program = all assignments",
            sat["hits"],
            sat["seeds"],
            1.0,
            f", {sat['solvable']} solvable",
        )
    )
    every = [*rows, large, *cone, *enumeration, *lone, *powers]
    lines.append(
        Line(
            "RECOVERED on a wrong network",
            str(sum(row["wrong"] for row in every)),
            not any(row["wrong"] for row in every),
        )
    )
    report("rectified", lines, [*every, sat], options)


if __name__ == "__main__":
    main()
