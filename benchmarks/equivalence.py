"""How far apart are two networks on a box: what is found, what is proved, and how long it takes.

exact      random pairs of two-layer networks, at most 12 units together: the maximum over all patterns of signs
copies     permuted and rescaled copies are proved equal; one weight changed by 1e-3 is refuted, or proved to change nothing:
           a weight between units of which one is off wherever the other is on does not reach the outputs
rounded    copies in int8 and float32 of trained networks, and random search of equal time beside it
verdicts   random pairs of any depth: no verdict contradicts an exact evaluation
acas       a pair of the verification competition, read from --acas FOLDER: decided within 100 s of processor time

Times are seconds of one processor core; the budget of a bracket is wall time.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from _table import Line, Rows, at_least, gather, run_sections
from scipy.optimize import linprog

import planted
from planted import DeepNetwork
from planted._clock import time_budget
from planted.verification import Plain, as_input_set, as_plain, bracket, exact_outputs

ACAS = {
    "type": Path,
    "metavar": "FOLDER",
    "help": "folder with the pair 2_2 of isomorphic_acasxu_2026 (.onnx) and monotonic*.vnnlib",
}
SLOPES = (0.0, 0.01, 0.2, -1.0)


def draw(rng: np.random.Generator, widths: tuple[int, ...], slope: float = 0.0) -> Plain:
    layers = tuple(
        (rng.standard_normal((k, p)) / np.sqrt(p), 0.5 * rng.standard_normal(k))
        for p, k in zip(widths[:-1], widths[1:], strict=True)  # noqa: RUF007
    )
    return Plain(layers, tuple(np.full(k, slope) for k in widths[1:-1]))


def near(net: Plain, rng: np.random.Generator, size: float) -> Plain:
    layers = tuple((W + size * rng.standard_normal(W.shape), b) for W, b in net.layers)
    return Plain(layers, net.slopes)


def patterns(rows: np.ndarray, limits: np.ndarray) -> list[np.ndarray]:
    """All patterns of signs that occur in a box, unit by unit."""
    known: list[list[float]] = [[]]
    for count in range(1, len(rows) + 1):
        longer = [[*pattern, sign] for pattern in known for sign in (1.0, -1.0)]
        known = [
            pattern
            for pattern in longer
            if linprog(
                np.zeros(len(limits)),
                A_ub=-np.array(pattern)[:, None] * rows[:count, :-1],
                b_ub=np.array(pattern) * rows[:count, -1],
                bounds=limits,
            ).status
            == 0
        ]
    return [np.array(pattern) for pattern in known]


def enumerate_maximum(f: Plain, g: Plain, limits: np.ndarray) -> float:
    """The largest difference of the one output: a linear program for every pattern."""
    (W, b), (A, c) = f.layers
    (V, e), (C, h) = g.layers
    rows = np.vstack([np.column_stack([W, b]), np.column_stack([V, e])])
    slopes, weights = np.concatenate([f.slopes[0], g.slopes[0]]), np.concatenate([A[0], -C[0]])
    best = 0.0
    for pattern in patterns(rows, limits):
        line = (weights * np.where(pattern > 0, 1.0, slopes)) @ rows
        for sign in (1.0, -1.0):
            answer = linprog(
                -sign * line[:-1],
                A_ub=-pattern[:, None] * rows[:, :-1],
                b_ub=pattern * rows[:, -1],
                bounds=limits,
            )
            if answer.status == 0:
                best = max(best, -answer.fun + sign * (line[-1] + float(c[0] - h[0])))
    return best


def exact(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    rows = []
    for seed in seeds(200):
        rng = np.random.default_rng([1, seed])
        d = int(rng.integers(1, 7))
        most = 12 if d <= 2 else 8 if d <= 4 else 6  # the enumeration is what takes time
        k = int(rng.integers(1, most // 2 + 1))
        f = draw(rng, (d, k, 1), float(rng.choice(SLOPES)))
        other = draw(rng, (d, int(rng.integers(1, most - k + 1)), 1), float(f.slopes[0][0]))
        g = near(f, rng, 10.0 ** rng.uniform(-4, 0)) if seed % 2 else other
        low = rng.uniform(-2, 0, d)
        limits = np.column_stack([low, low + rng.uniform(0.1, 3, d)])
        start = process_time()
        known = bracket(f, g, as_input_set((limits[:, 0], limits[:, 1]), d), rng=rng)
        seconds = process_time() - start
        largest = enumerate_maximum(f, g, limits)
        gap = float(max(abs(known.largest_found - largest), abs(known.largest_proved - largest)))
        rows.append({"seed": seed, "d": d, "units": [k, len(g.layers[0][1])], "gap": gap, "seconds": seconds})
    hits = sum(bool(row["gap"] <= 1e-9) for row in rows)
    note = f", largest gap {max(row['gap'] for row in rows):.1e}, median {np.median([r['seconds'] for r in rows]):.2f} s"
    return [
        at_least("found and proved within 1e-9 of the maximum by enumeration", hits, len(rows), 1.0, note)
    ], rows


def scrambled(net: Plain, rng: np.random.Generator) -> Plain:
    layers, order, scale = [], np.arange(net.widths[0]), np.ones(net.widths[0])
    for W, b in net.layers[:-1]:
        weights = W[:, order] / scale
        order, scale = rng.permutation(len(b)), np.exp(rng.uniform(-2, 2, len(b)))
        layers.append((weights[order] * scale[:, None], b[order] * scale))
    W, b = net.layers[-1]
    return Plain((*layers, (W[:, order] / scale, b)), net.slopes)


@cache
def trained_digits(hidden: tuple[int, ...]) -> Plain:
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    X, y = load_digits(return_X_y=True)
    return _trained(MLPClassifier(hidden, max_iter=300, random_state=0), X / 16, y)


def trained_table(hidden: tuple[int, ...]) -> Plain:
    from sklearn.neural_network import MLPRegressor

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 10))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3] - 0.5) - np.cos(4 * X[:, 5] * X[:, 6])
    return _trained(MLPRegressor(hidden_layer_sizes=hidden, max_iter=2000, random_state=0), X, y)


def _trained(model: Any, X: np.ndarray, y: np.ndarray) -> Plain:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    layers = [(W.T.copy(), b.copy()) for W, b in zip(model.coefs_, model.intercepts_, strict=True)]
    return Plain(tuple(layers), tuple(np.zeros(len(b)) for _, b in layers[:-1]))


def copies(shape: str, count: int, seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    rows = []
    for seed in seeds(count):
        rng = np.random.default_rng([2, seed])
        hidden = tuple(map(int, shape.split("-")[1:-1]))
        f = trained_digits(hidden) if shape.startswith("64") else draw(rng, tuple(map(int, shape.split("-"))))
        box = as_input_set((0, 1), f.widths[0])
        g = scrambled(f, rng)
        start = process_time()
        with time_budget(30):
            known = bracket(f, g, box, tol=1e-9, rng=rng)
        seconds = process_time() - start
        changed = with_changed_weight(g, rng)
        start = process_time()
        with time_budget(300):
            answer = bracket(f, changed, box, tol=1e-9, rng=rng)
        changed_seconds = process_time() - start
        gap = exact_gap(f, changed, answer.inputs[answer.found.argmax()])
        row = {"seed": seed, "shape": shape, "proved": known.largest_proved, "seconds": seconds, "gap": gap}
        word = "refuted" if gap > 1e-9 else "equal" if answer.largest_proved <= 1e-9 else "undecided"
        more = {"changed": word, "changed proved": answer.largest_proved, "changed seconds": changed_seconds}
        rows.append(row | more)
    equal = sum(bool(row["proved"] <= 1e-9 and row["seconds"] <= 10) for row in rows)
    note = f", bound up to {max(row['proved'] for row in rows):.1e}, {max(row['seconds'] for row in rows):.2f} s at most"
    words = [str(row["changed"]) for row in rows]
    decided = len(words) - words.count("undecided")
    told = f": {words.count('refuted')} refuted by a witness confirmed exactly, {words.count('equal')} proved equal"
    told += f", {max(row['changed seconds'] for row in rows):.1f} s at most"
    return [
        at_least(
            f"{shape}: permuted and rescaled copies proved equal to 1e-9 in 10 s", equal, len(rows), 1.0, note
        ),
        at_least(
            f"{shape}: one weight changed by 1e-3, refuted or proved to change nothing (1e-9)",
            decided,
            len(rows),
            1.0,
            told,
        ),
    ], rows


def with_changed_weight(g: Plain, rng: np.random.Generator) -> Plain:
    """Return a copy whose largest weight of a drawn layer is changed by 1e-3, whether or not that reaches the outputs."""
    layers = [(W.copy(), b.copy()) for W, b in g.layers]
    W = layers[int(rng.integers(len(layers)))][0]
    W[np.unravel_index(np.abs(W).argmax(), W.shape)] += 1e-3
    return Plain(tuple(layers), g.slopes)


def exact_gap(f: Plain, g: Plain, x: np.ndarray) -> float:
    pairs = zip(exact_outputs(f, x), exact_outputs(g, x), strict=True)
    return float(max(abs(a - b) for a, b in pairs))


def int8(W: np.ndarray) -> np.ndarray:
    step = np.abs(W).max() / 127
    return np.asarray(np.round(W / step) * step)


COPIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "int8": int8,
    "float32": lambda W: W.astype(np.float32).astype(np.float64),
}
ROUNDED = {
    "10-16-1": (partial(trained_table, (16,)), 1.05),
    "10-16-8-1": (partial(trained_table, (16, 8)), 1.05),
    "64-16-10": (partial(trained_digits, (16,)), 1.05),
    "64-32-10": (partial(trained_digits, (32,)), 1.5),
    "64-32-16-10": (partial(trained_digits, (32, 16)), np.inf),  # reported
}


def random_search(f: Plain, g: Plain, seconds: float, rng: np.random.Generator) -> float:
    """Uniform inputs and corners of the unit box, for a given time."""
    best, start = 0.0, process_time()
    while process_time() - start < seconds:
        X = rng.random((2000, f.widths[0]))
        X[1000:] = X[1000:] > 0.5
        best = max(best, float(np.abs(f(X) - g(X)).max()))
    return best


def rounded(name: str, copy: str, options: argparse.Namespace) -> tuple[list[Line], Rows]:
    make, goal = ROUNDED[name]
    f = make()
    g = Plain(tuple((COPIES[copy](W), COPIES[copy](b)) for W, b in f.layers), f.slopes)
    rng = np.random.default_rng(options.seed)
    start = process_time()
    with time_budget(10 if options.quick else 300 if np.isfinite(goal) else 60):
        known = bracket(f, g, as_input_set((0, 1), f.widths[0]), gap=0.01, rng=rng)
    seconds = process_time() - start
    sampled = random_search(f, g, min(seconds, 60.0), rng)
    ratio = known.largest_proved / known.largest_found
    row = {
        "network": name,
        "copy": copy,
        "found": known.largest_found,
        "proved": known.largest_proved,
        "interval": float(known.interval.max()),
        "lines": float(known.relaxed.max()),
        "random search": sampled,
        "seconds": seconds,
    }
    measured = (
        f"{ratio:.3f} ({known.largest_found:.4g} found, {known.largest_proved:.4g} proved in {seconds:.1f} s; lines "
        f"{row['lines']:.3g}, intervals {row['interval']:.3g}; random search of equal time {sampled:.4g})"
    )
    target = f"at most {goal}" if np.isfinite(goal) else "reported"
    return [Line(f"{name} {copy}: proved / found, {target}", measured, bool(ratio <= goal))], [row]


def verdicts(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    counts = {"True": 0, "False": 0, "None": 0}
    wrong, unsound = 0, 0
    for seed in seeds(2000):
        rng = np.random.default_rng([3, seed])
        widths = (int(rng.integers(1, 5)), *map(int, rng.integers(1, 7, int(rng.integers(1, 4)))), 1)
        slope = float(rng.choice(SLOPES))
        f = draw(rng, widths, slope)
        g = (
            near(f, rng, 10.0 ** rng.uniform(-12, 0))
            if rng.random() < 0.7
            else draw(rng, (widths[0], 3, 1), slope)
        )
        kind = f"leaky-relu:{slope}" if abs(slope) < 1 else "absolute"
        nets = [DeepNetwork(net.layers, kind) for net in (f, g)]
        size = 10.0 ** rng.uniform(-3, 3)
        box = -size * rng.random(widths[0]), size * rng.random(widths[0])
        tol = 10.0 ** rng.uniform(-10, 1)
        answer = planted.compare(*nets, box=box, tol=tol, budget_seconds=0.5, random_state=seed)
        counts[str(answer.is_equal)] += 1
        X = np.vstack([box[0], box[1], box[0] + rng.random((20, widths[0])) * (box[1] - box[0])])
        plain = [as_plain(net) for net in nets]
        seen = max(
            abs(a - b)
            for x in [*X, *([] if answer.witness is None else [answer.witness])]
            for a, b in zip(exact_outputs(plain[0], x), exact_outputs(plain[1], x), strict=True)
        )
        unsound += bool(np.isfinite(answer.bound) and seen > Fraction(answer.bound))
        wrong += bool(
            (answer.is_equal and seen > Fraction(tol)) or (answer.is_equal is False and seen <= Fraction(tol))
        )
    total = sum(counts.values())
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    return [
        Line("verdicts that an exact evaluation contradicts: none", f"{wrong}/{total} ({told})", wrong == 0),
        Line("bounds below an exact value: none", f"{unsound}/{total}", unsound == 0),
    ], [{"verdicts": counts, "wrong": wrong, "unsound": unsound}]


def acas(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    """Network 2_2 against its perturbed copy on the box of instance 0, tolerance 0.05."""
    if options.acas is None:
        return [Line("ACAS Xu: not run, --acas FOLDER was not given", "", True)], []
    one, other = (planted.import_network(path) for path in sorted(options.acas.glob("*2_2*.onnx"))[:2])
    low = np.array([0.6, -0.5, -0.5, 0.45, -0.5])
    high = np.array([0.679857769, 0.5, 0.5, 0.5, -0.45])
    start = process_time()
    answer = planted.compare(
        one,
        other,
        box=(low, high),
        tol=0.05,
        budget_seconds=20 if options.quick else 3000,
        random_state=options.seed,
    )
    seconds = process_time() - start
    row = {
        "found": answer.difference,
        "proved": answer.bound,
        "is_equal": answer.is_equal,
        "seconds": seconds,
    }
    measured = f"{answer.is_equal}: found {answer.difference:.4g}, proved {answer.bound:.4g}, {seconds:.0f} s"
    is_met = answer.is_equal is not None and seconds <= 100
    lines = [Line("ACAS Xu 2_2 and its perturbed copy, 0.05: decided in 100 s", measured, is_met)]
    rows = [row | {"history": [list(entry) for entry in answer.history]}]
    for path in sorted(options.acas.glob("monotonic*.vnnlib*")):
        start = process_time()
        found = planted.verify(path, one, budget_seconds=100, random_state=options.seed)
        seconds = process_time() - start
        word = {True: "proved", False: "refuted, witness confirmed exactly", None: "not decided"}[found.holds]
        lines.append(
            Line(
                "ACAS Xu 2_2, monotonicity: decided in 100 s",
                f"{word}, {seconds:.1f} s",
                found.holds is not None,
            )
        )
        rows.append({"property": path.name, "holds": found.holds, "seconds": seconds})
    return lines, rows


def all_rounded(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    parts = [rounded(name, copy, options) for name in ROUNDED for copy in COPIES]
    return [line for lines, _ in parts for line in lines], [row for _, rows in parts for row in rows]


SECTIONS: dict[str, Callable[[argparse.Namespace], tuple[list[Line], Rows]]] = {
    "exact": gather(exact),
    "copies": gather(
        partial(copies, "64-32-10", 10),
        partial(copies, "64-32-16-10", 10),
        partial(copies, "5-50-50-50-50-50-50-5", 40),
    ),
    "rounded": all_rounded,
    "verdicts": gather(verdicts),
    "acas": acas,
}

if __name__ == "__main__":
    run_sections("equivalence", __doc__ or "", SECTIONS, acas=ACAS)
