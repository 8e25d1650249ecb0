"""One output, any inputs: how often is the network found, at what cost, and is the outcome right?

Targets are those of the method `restarts`; P = (k+1)(d+1). Rivals run in the same process on the same data, are told k, and
count a hit at a parameter error below 1e-3. L-BFGS is tuned first: it runs with the settings of `LBFGS_GRID` that
need least CPU per hit on teachers that are not used again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _table import Line, Measure, Rows, gather, run_sections
from scipy import optimize

import planted
from planted import TwoLayerNetwork, simulate
from planted.fitting._jacobian import information
from planted.fitting._refine import refine
from planted.moments import accumulate_normal
from planted.networks import match_units
from planted.rows import RowBlocks

TEACHER: dict[str, Any] = {"bias": (-1.0, 1.0), "outputs": "magnitudes"}
LBFGS_GRID = tuple(
    itertools.product((0.0, 0.5, 1.0), (10, 30), (500, 2000))
)  # spread of biases, memory, iterations
TUNING = 900_000  # first seed of the teachers on which the rival is tuned
EXACT = 1e-12
HIT = 1e-3
SOLVER = 10_000  # solver seeds start here: never those of the data


def recover(data: simulate.Dataset, k: int | str, seed: int) -> tuple[planted.Recovery, float]:
    start = time.process_time()
    recovery = planted.recover(data.X, data.Y, k, method="restarts", random_state=SOLVER + seed)
    return recovery, time.process_time() - start


def error_of(recovery: planted.Recovery, truth: TwoLayerNetwork) -> float:
    if recovery.network is None:
        return float("inf")
    return planted.parameter_error(recovery.network, truth)


def success_rate(
    name: str, seeds: range, least: float, make: Callable[[int], tuple[simulate.Dataset, int]]
) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds:
        data, k = make(seed)
        recovery, cpu = recover(data, k, seed)
        rows.append(
            {
                "case": name,
                "seed": seed,
                "outcome": recovery.outcome.name,
                "error": error_of(recovery, data.network),
                "cpu": cpu,
                "restarts": recovery.stats["restarts"],
            }
        )
    hits = sum(row["error"] <= EXACT and row["outcome"] == "RECOVERED" for row in rows)
    false_claims = sum(row["error"] > 1e-6 and row["outcome"] == "RECOVERED" for row in rows)
    cpu = float(np.median([row["cpu"] for row in rows]))
    text = f"{hits}/{len(rows)} exact, {false_claims} false claims, median {cpu:.2f} s CPU"
    return Line(f"{name}: >= {least:.0%}", text, hits >= least * len(rows) and not false_claims), rows


def mixed(d: int, k: int, law: str = "gaussian") -> Callable[[int], tuple[simulate.Dataset, int]]:
    def make(seed: int) -> tuple[simulate.Dataset, int]:
        n = 12 * (k + 1) * (d + 1)
        return simulate.dataset(n, n_features=d, n_hidden=k, law=law, random_state=seed, **TEACHER), k

    return make


def same_sign(seed: int) -> tuple[simulate.Dataset, int]:
    n = 12 * 21 * 21
    options = TEACHER | {"hidden": "orthonormal", "signs": "same"}
    return simulate.dataset(n, n_features=20, n_hidden=20, random_state=seed, **options), 20


def shifted_exponential(seed: int) -> tuple[simulate.Dataset, int]:
    net = simulate.teacher(10, 10, random_state=seed, **TEACHER)
    X = simulate.inputs(12 * 121, 10, law="exponential", random_state=seed) + 1.0
    moved = TwoLayerNetwork(net.W, net.b - net.W.sum(axis=1), net.A)  # the same kinks, moved with the inputs
    data = simulate.dataset(12 * 121, moved, law="exponential", random_state=seed)
    return simulate.Dataset(X, moved(X), moved(X), moved, data.law, data.noise), 10


def efficiency(d: int, k: int, seeds: range, most: float) -> tuple[Line, Rows]:
    """Root mean square error over the Cramér–Rao bound, noise 0.1, n = 30P."""
    squares, bound, rows = 0.0, 0.0, []
    for seed in seeds:
        n = 30 * (k + 1) * (d + 1)
        data = simulate.dataset(n, n_features=d, n_hidden=k, noise=0.1, random_state=seed, **TEACHER)
        recovery, cpu = recover(data, k, seed)
        error = error_of(recovery, data.network)
        rows.append(
            {
                "case": f"noise ({d},{k})",
                "seed": seed,
                "outcome": recovery.outcome.name,
                "error": error,
                "cpu": cpu,
            }
        )
        if recovery.network is None or recovery.network.n_hidden != k:
            squares = float("inf")
            continue
        matching = match_units(recovery.network, data.network)
        found, truth, order = matching.network, matching.truth, matching.permutation
        blocks = RowBlocks.from_arrays(data.X, data.Y)
        variances = information(accumulate_normal(blocks, truth), truth, offset=False).variances
        assert variances is not None
        gaps = (found.W[order] - truth.W, found.b[order] - truth.b, found.A[:, order] - truth.A)
        squares += sum(float((gap**2).sum()) for gap in gaps)
        bound += 0.01 * sum(float(variances[name].sum()) for name in "WbA")
    ratio = float(np.sqrt(squares / bound)) if bound else float("inf")
    recovered = sum(row["outcome"] == "RECOVERED" for row in rows)
    text = f"{ratio:.3f} over {len(rows)} teachers, {recovered} called recovered"
    return Line(f"noise 0.1, ({d},{k}): RMS / Cramér–Rao <= {most}", text, ratio <= most), rows


def hinge_start(d: int, k: int, rng: np.random.Generator, spread: float = 0.5) -> np.ndarray:
    W = rng.standard_normal((k, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return np.hstack([W, spread * rng.standard_normal((k, 1))])


def with_outputs(data: simulate.Dataset, V: np.ndarray) -> TwoLayerNetwork:
    H = np.maximum(data.X @ V[:, :-1].T + V[:, -1], 0.0)
    A = np.linalg.lstsq(H, data.Y, rcond=None)[0].T
    return TwoLayerNetwork(V[:, :-1], V[:, -1], A)


def run_lm(data: simulate.Dataset, k: int, rng: np.random.Generator) -> TwoLayerNetwork:
    start = with_outputs(data, hinge_start(data.X.shape[1], k, rng))
    return refine(RowBlocks.from_arrays(data.X, data.Y), start, offset=False).network


def run_lbfgs(
    data: simulate.Dataset, k: int, rng: np.random.Generator, settings: tuple[float, int, int]
) -> TwoLayerNetwork:
    spread, memory, iterations = settings
    X, y = data.X, data.Y[:, 0]
    start = with_outputs(data, hinge_start(X.shape[1], k, rng, spread))
    rows = np.hstack([X, np.ones((len(X), 1))])
    p = rows.shape[1]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        V, a = theta[: k * p].reshape(k, p), theta[k * p :]
        t = rows @ V.T
        H = np.maximum(t, 0.0)
        residual = H @ a - y
        slope = (t > 0) * residual[:, None] * a
        gradient = np.concatenate([(slope.T @ rows).ravel(), H.T @ residual])
        return float(residual @ residual) / (2 * len(y)), gradient / len(y)

    first = np.concatenate([np.hstack([start.W, start.b[:, None]]).ravel(), start.A[0]])
    options = {"maxcor": memory, "maxiter": iterations, "maxfun": 10_000, "ftol": 0, "gtol": 1e-10}
    end = optimize.minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x
    V = end[: k * p].reshape(k, p)
    return TwoLayerNetwork(V[:, :-1], V[:, -1], end[k * p :][None])


def tune_lbfgs(
    make: Callable[[int], tuple[simulate.Dataset, int]], n_teachers: int
) -> tuple[float, int, int]:
    """Return the settings of the grid with the least CPU per hit on other teachers; two starts each."""
    cost = {}
    for settings in LBFGS_GRID:
        hits, clock = 0, time.process_time()
        for seed, start in itertools.product(range(TUNING, TUNING + n_teachers), range(2)):
            data, k = make(seed)
            network = run_lbfgs(data, k, np.random.default_rng([SOLVER, seed, start]), settings)
            hits += planted.parameter_error(network, data.network) < HIT
        cost[settings] = (time.process_time() - clock) / max(hits, 0.5)  # none: as if half of one
    return min(cost, key=lambda settings: cost[settings])


def against_rivals(
    name: str, make: Callable[[int], tuple[simulate.Dataset, int]], teachers: range, n_starts: int
) -> tuple[list[Line], Rows]:
    """CPU per hit of `restarts`, of Levenberg–Marquardt and of L-BFGS from random starts, interleaved."""
    settings = tune_lbfgs(make, max(len(teachers) // 3, 1))
    rivals = {"LM": run_lm, "L-BFGS": partial(run_lbfgs, settings=settings)}
    cpu = dict.fromkeys(("restarts", "LM", "L-BFGS"), 0.0)
    hits, tries = dict.fromkeys(cpu, 0), dict.fromkeys(cpu, 0)
    for seed in teachers:
        data, k = make(seed)
        recovery, used = recover(data, k, seed)
        cpu["restarts"] += used
        tries["restarts"] += 1
        hits["restarts"] += error_of(recovery, data.network) < HIT
        for start in range(n_starts):
            for rival, run in rivals.items():
                rng = np.random.default_rng([SOLVER, seed, start])
                clock = time.process_time()
                network = run(data, k, rng)
                cpu[rival] += time.process_time() - clock
                tries[rival] += 1
                hits[rival] += planted.parameter_error(network, data.network) < HIT
    per_hit = {method: cpu[method] / hits[method] if hits[method] else float("inf") for method in cpu}
    lines = []
    for rival in rivals:
        ratio = per_hit["restarts"] / per_hit[rival]
        text = f"{ratio:.2f} ({per_hit['restarts']:.2f} s against {per_hit[rival]:.2f} s; hits "
        text += f"{hits['restarts']}/{tries['restarts']} against {hits[rival]}/{tries[rival]})"
        lines.append(Line(f"{name}: CPU per hit / {rival} <= 1/3", text, ratio <= 1 / 3))
    rows = [{"case": name, "method": m, "hits": hits[m], "tries": tries[m], "cpu": cpu[m]} for m in cpu]
    return lines, [*rows, {"case": name, "spread, memory, iterations of L-BFGS": settings}]


def instance_iii(seed: int) -> tuple[simulate.Dataset, int]:
    return simulate.dataset(20_000, n_features=10, n_hidden=5, random_state=seed, **TEACHER), 5


def instance_iv(seed: int) -> tuple[simulate.Dataset, int]:
    data = simulate.dataset(
        20_000, n_features=20, n_hidden=10, outputs="magnitudes", signs="same", random_state=seed
    )
    return data, 10


def hard_case(kind: str, seed: int) -> tuple[simulate.Dataset, set[str]]:
    """A problem and the outcomes that are right for it; the claim RECOVERED must also name the truth."""
    net = simulate.teacher(10, 5, random_state=seed, **TEACHER)
    W, b, A = net.W.copy(), net.b.copy(), net.A.copy()
    law, right = "gaussian", {"RECOVERED"}
    if kind in ("b = 3", "b = -3", "b = 4", "b = -4"):
        b[0], right = float(kind[4:]), {"NOT_IDENTIFIABLE"}
    elif kind == "x in {-1, 1}":
        law, right = "rademacher", {"NOT_IDENTIFIABLE"}
    elif kind == "a = 1e-4":
        A[0, 0] = 1e-4
    elif kind == "angle 0.05":
        across = W[1] - (W[1] @ W[0]) * W[0]
        W[1] = np.cos(0.05) * W[0] + np.sin(0.05) * across / np.linalg.norm(across)
    elif kind == "duplicate units":
        W[1], b[1], A[0, 1], right = W[0], b[0], abs(A[0, 1]) * np.sign(A[0, 0]), {"NOT_IDENTIFIABLE"}
    data = simulate.dataset(12 * 66, TwoLayerNetwork(W, b, A), law=law, random_state=seed)
    return data, right


def hard_cases(seeds: range) -> tuple[list[Line], Rows]:
    kinds = (
        "b = 3",
        "b = -3",
        "b = 4",
        "b = -4",
        "x in {-1, 1}",
        "a = 1e-4",
        "angle 0.05",
        "duplicate units",
    )
    lines, rows = [], []
    for kind in kinds:
        good, seen = 0, []
        for seed in seeds:
            data, right = hard_case(kind, seed)
            recovery, cpu = recover(data, 5, seed)
            error = error_of(recovery, data.network)
            is_right = recovery.outcome.name in right and (
                recovery.outcome.name != "RECOVERED" or error < 1e-9
            )
            good += is_right
            seen.append(recovery.outcome.name)
            rows.append({"case": kind, "seed": seed, "outcome": seen[-1], "error": error, "cpu": cpu})
        counts = ", ".join(f"{seen.count(name)} {name}" for name in sorted(set(seen)))
        lines.append(Line(f"{kind}: right outcome", f"{good}/{len(seen)} ({counts})", good == len(seen)))
    return lines, rows


def chosen_width(noise: float, seeds: range) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds:
        d, k = ((10, 5), (10, 10), (8, 12), (5, 8))[seed % 4]
        n = (30 if noise else 12) * (k + 1) * (d + 1)
        data = simulate.dataset(n, n_features=d, n_hidden=k, noise=noise, random_state=seed, **TEACHER)
        recovery, cpu = recover(data, "auto", seed)
        found = 0 if recovery.network is None else recovery.network.n_hidden
        rows.append(
            {
                "case": f"width, noise {noise}",
                "seed": seed,
                "outcome": recovery.outcome.name,
                "k": k,
                "found": found,
                "cpu": cpu,
            }
        )
    right = sum(row["k"] == row["found"] for row in rows)
    wrong = sum(row["k"] != row["found"] and row["outcome"] == "RECOVERED" for row in rows)
    text = f"{right}/{len(rows)} right, {wrong} wrong and called recovered"
    return Line(f"k chosen, noise {noise}: >= 95%", text, right >= 0.95 * len(rows) and not wrong), rows


def rate(name: str, count: int, least: float, make: Any) -> Measure:
    return lambda seeds: success_rate(name, seeds(count), least, make)


def rate_and_time(name: str, count: int, most: float, make: Any) -> Measure:
    """All exact, and the median processor time."""

    def measure(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
        line, rows = success_rate(name, seeds(count), 1.0, make)
        median = float(np.median([row["cpu"] for row in rows]))
        return [line, Line(f"{name}: median <= {most:.0f} s CPU", f"{median:.1f} s", median <= most)], rows

    return measure


def attempt(d: int, k: int, budget: float) -> Measure:
    """One teacher, a limit of time by the clock: what is reached, and what stops it."""

    def measure(seeds: Callable[[int], range]) -> tuple[Line, Rows]:
        seed = seeds(1)[0]
        data, _ = mixed(d, k)(seed)
        heard: Rows = []
        clock = time.process_time()

        def progress(what: str, fraction: float) -> None:
            if not heard or heard[-1]["step"] != what:
                heard.append({"step": what, "cpu": round(time.process_time() - clock, 1)})

        recovery = planted.recover(
            data.X,
            data.Y,
            k,
            method="restarts",
            random_state=SOLVER + seed,
            progress=progress,
            budget_seconds=budget,
        )
        cpu, error = time.process_time() - clock, error_of(recovery, data.network)
        units = 0
        if recovery.network is not None:
            gaps = (
                np.abs(recovery.network.W @ data.network.W.T)
                / np.linalg.norm(recovery.network.W, axis=1)[:, None]
            )
            units = int((gaps.max(axis=0) > 1 - 1e-8).sum())  # teachers have unit rows
        text = f"{recovery.outcome.name}, error {error:.0e}, {units} of {k} directions found, {cpu:.0f} s CPU"
        row = {"seed": seed, "n": len(data.X), "outcome": recovery.outcome.name, "error": error, "cpu": cpu}
        row |= {"directions found": units, "stats": recovery.stats, "progress": heard[-20:]}
        return Line(f"({d},{k}), once, {budget:.0f} s by the clock, measured only", text, True), [row]

    return measure


SECTIONS = {
    "rates": gather(
        *(rate(f"({d},{k})", 100, 0.99, mixed(d, k)) for d, k in ((10, 5), (10, 15), (20, 20), (10, 20)))
    ),
    "(30,30)": gather(rate("(30,30)", 20, 0.95, mixed(30, 30))),
    "same-sign": gather(rate("same-sign orthogonal (20,20)", 40, 0.95, same_sign)),
    "laws": gather(
        *(rate(f"{law} (10,10)", 40, 0.95, mixed(10, 10, law)) for law in ("uniform", "student-t", "correlated")),
        rate("shifted exponential (10,10)", 40, 0.95, shifted_exponential),
    ),
    "noise": gather(
        lambda seeds: efficiency(10, 5, seeds(20), 1.05),
        lambda seeds: efficiency(10, 10, seeds(20), 1.05),
        lambda seeds: efficiency(20, 10, seeds(20), 1.05),
        lambda seeds: efficiency(8, 12, seeds(20), 1.25),
    ),
    "iii": gather(lambda seeds: against_rivals("iii", instance_iii, seeds(10), 10)),
    "iv": gather(lambda seeds: against_rivals("iv", instance_iv, seeds(10), 10)),
    "hard": gather(lambda seeds: hard_cases(seeds(10))),
    "width": gather(
        lambda seeds: chosen_width(0.0, seeds(40)),
        lambda seeds: chosen_width(0.1, seeds(40)),
    ),
    "(15,45)": gather(rate("(15,45), measured only", 5, 0.0, mixed(15, 45))),
    "(50,50)": gather(rate_and_time("(50,50)", 10, 60.0, mixed(50, 50))),
    "(100,100)": gather(attempt(100, 100, 3600.0)),
}  # fmt: skip


if __name__ == "__main__":
    run_sections("scalar", __doc__ or "", SECTIONS)
