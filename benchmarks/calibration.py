"""Does RECOVERED ever name a wrong network? A thousand problems of every kind, none chosen after the fact.

Each problem is drawn from the mixture below by its seed alone. A claim is false when

exact          the network differs from the truth by more than 1e-6 in any matched parameter
noisy          the number of units is wrong, or a parameter is more than 6 standard errors off
unidentifiable any network is claimed that is not the truth to 1e-6 (units never seen on are not part of the truth here:
               nothing in the data can show them)
mis-specified  anything is claimed at all
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from _table import Line, Rows, parse_options, report
from scipy.optimize import linear_sum_assignment

import planted
from planted import TwoLayerNetwork, simulate
from planted._streams import data_streams

LAWS = ("gaussian", "exponential", "uniform", "laplace", "student-t", "mixture", "correlated")
BUDGET = 20.0  # seconds for a problem; what is not certified by then ends as STOPPED_EARLY
Problem = tuple[np.ndarray, np.ndarray, TwoLayerNetwork | None, str]


def shape_of(rng: np.random.Generator, *, scalar: bool) -> tuple[int, int, int]:
    d = int(rng.integers(3, 11))
    k = int(rng.integers(2, 7))
    return d, k, 1 if scalar else k + int(rng.integers(0, 4))


def draw_teacher(rng: np.random.Generator, seed: int, *, scalar: bool = False) -> tuple[TwoLayerNetwork, str]:
    d, k, m = shape_of(rng, scalar=scalar)
    law = str(rng.choice(LAWS))
    design = {"outputs": "magnitudes"} if scalar else {}
    return simulate.teacher(d, k, m, activity=(0.3, 0.7), law=law, random_state=seed, **design), law


def enough(net: TwoLayerNetwork, multiple: float) -> int:
    limit = simulate.information_limit(net.n_features, net.n_hidden, net.n_outputs)
    # Three times the limit, and for each unit's own system three times d + 1 samples on its rarer side.
    return int(np.ceil(max(multiple * limit, multiple * (net.n_features + 1) / 0.3)))


def exact(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed)
    X = simulate.inputs(enough(net, 3), net.n_features, law=law, random_state=seed)
    return X, net(X), net, "exact"


def exact_scalar(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed, scalar=True)
    X = simulate.inputs(enough(net, 8), net.n_features, law=law, random_state=seed)
    return X, net(X), net, "exact"


def noisy(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed, scalar=bool(rng.random() < 0.3))
    X = simulate.inputs(int(rng.choice([500, 1500, 4000])), net.n_features, law=law, random_state=seed)
    level = float(rng.choice([0.01, 0.1, 0.5]))
    return X, net(X) + level * rng.standard_normal((len(X), net.n_outputs)), net, "noisy"


def below_limit(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed, scalar=bool(rng.random() < 0.3))
    limit = simulate.information_limit(net.n_features, net.n_hidden, net.n_outputs)
    X = simulate.inputs(
        max(int(rng.uniform(0.5, 1.5) * limit), 2), net.n_features, law=law, random_state=seed
    )
    return X, net(X), net, "unidentifiable"


def always_on(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed, scalar=bool(rng.random() < 0.3))
    X = simulate.inputs(enough(net, 4), net.n_features, law=law, random_state=seed)
    b = net.b.copy()
    b[0] = 1 - (X @ net.W[0]).min()
    net = TwoLayerNetwork(net.W, b, net.A)
    return X, net(X), net, "unidentifiable"


def rarely_on(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed, scalar=bool(rng.random() < 0.3))
    X = simulate.inputs(enough(net, 4), net.n_features, law=law, random_state=seed)
    b = net.b.copy()
    t = np.sort(X @ net.W[0])[::-1]
    count = int(rng.integers(1, net.n_features + 1))
    b[0] = -(t[count - 1] + t[count]) / 2
    net = TwoLayerNetwork(net.W, b, net.A)
    return X, net(X), net, "unidentifiable"


def discrete(rng: np.random.Generator, seed: int) -> Problem:
    net, _ = draw_teacher(rng, seed, scalar=bool(rng.random() < 0.3))
    X = simulate.inputs(enough(net, 6), net.n_features, law="rademacher", random_state=seed)
    return X, net(X), net, "unidentifiable"


def parallel(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed, scalar=bool(rng.random() < 0.3))
    X = simulate.inputs(enough(net, 6), net.n_features, law=law, random_state=seed)
    W, b = net.W.copy(), net.b.copy()
    W[1], b[1] = W[0] * rng.choice([1.0, -1.0]), b[0]
    net = TwoLayerNetwork(W, b, net.A)
    return X, net(X), net, "unidentifiable"


def repeated_rows(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed)
    X = simulate.inputs(max(enough(net, 0.3), 2), net.n_features, law=law, random_state=seed)
    X = np.repeat(X, 12, axis=0)
    return X, net(X), net, "unidentifiable"


def wrong_activation(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed, scalar=bool(rng.random() < 0.3))
    X = simulate.inputs(enough(net, 8), net.n_features, law=law, random_state=seed)
    functions = (
        np.tanh,
        lambda t: np.log1p(np.exp(t)),
        lambda t: np.maximum(t, 0) ** 2,
        lambda t: np.maximum(t, 0.0) + 0.3 * np.sin(t),
    )
    function = functions[int(rng.integers(len(functions)))]
    return X, function(X @ net.W.T + net.b) @ net.A.T, None, "mis-specified"


def three_layers(rng: np.random.Generator, seed: int) -> Problem:
    net, law = draw_teacher(rng, seed)
    X = simulate.inputs(enough(net, 8), net.n_features, law=law, random_state=seed)
    hidden = net(X)
    last = rng.standard_normal((hidden.shape[1], max(hidden.shape[1] - 1, 1)))
    return X, np.maximum(hidden - np.median(hidden, axis=0), 0) @ last, None, "mis-specified"


def interactions(rng: np.random.Generator, seed: int) -> Problem:
    d, m = int(rng.integers(3, 9)), int(rng.integers(1, 5))
    X = simulate.inputs(600, d, law=str(rng.choice(LAWS)), random_state=seed)
    weights = rng.standard_normal((d, m))
    Y = (X * np.roll(X, 1, axis=1)) @ weights + np.sin(X) @ rng.standard_normal((d, m))
    return X, Y + float(rng.choice([0.0, 0.1])) * rng.standard_normal(Y.shape), None, "mis-specified"


MIXTURE: dict[Callable[[np.random.Generator, int], Problem], float] = {
    exact: 0.25, exact_scalar: 0.12, noisy: 0.2, below_limit: 0.08, always_on: 0.05, rarely_on: 0.05, discrete: 0.05,
    parallel: 0.05, repeated_rows: 0.03, wrong_activation: 0.06, three_layers: 0.03, interactions: 0.03,
}  # fmt: skip


def solve(seed: int) -> dict[str, Any]:
    rng = data_streams(seed + 1_000_000, 1)[0]
    makers, shares = zip(*MIXTURE.items(), strict=True)
    maker = makers[int(rng.choice(len(makers), p=shares))]
    X, Y, truth, family = maker(rng, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = planted.recover(X, Y, random_state=seed, budget_seconds=BUDGET)
    claimed = answer.outcome is planted.Outcome.RECOVERED
    right, cover, count = judge(answer, truth, X, family)
    return {
        "seed": seed, "kind": maker.__name__, "family": family, "outcome": answer.outcome.name,
        "method": answer.provenance.algorithm, "claimed": claimed, "right": right, "false": claimed and not right,
        "covered": cover, "parameters": count,
    }  # fmt: skip


def judge(
    answer: planted.Recovery, truth: TwoLayerNetwork | None, X: np.ndarray, family: str
) -> tuple[bool, int, int]:
    """Return whether the network is the truth, and how many of its parameters lie in their 95 % intervals."""
    if answer.network is None or truth is None:
        return False, 0, 0
    seen = truth.patterns(X).any(axis=0)
    truth = TwoLayerNetwork(truth.W[seen], truth.b[seen], truth.A[:, seen], truth.c)
    if family != "noisy":
        return planted.parameter_error(answer.network, truth) <= 1e-6, 0, 0
    if answer.network.n_hidden != truth.n_hidden or not isinstance(answer.uncertainty, planted.Uncertainty):
        return False, 0, 0
    ours, errors, target = answer.network, answer.uncertainty.standard_errors, truth.canonical()
    planes = [np.column_stack([net.W, net.b]) for net in (ours, target)]
    order = linear_sum_assignment(((planes[0][:, None] - planes[1][None]) ** 2).sum(axis=2))[1]
    gaps = {"W": ours.W - target.W[order], "b": ours.b - target.b[order], "A": ours.A - target.A[:, order]}
    z = np.concatenate([_in_errors(gap, errors[name]) for name, gap in gaps.items()])
    return bool(z.max() < 6), int((z < 1.96).sum()), int(z.size)


def _in_errors(gap: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return gaps in standard errors, those of free parameters alone: a bias that was not fitted has none."""
    return np.abs(gap[error > 0] / error[error > 0])


def main() -> None:
    options = parse_options(__doc__)
    total = 100 if options.quick else 1000
    rows: Rows = []
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for row in pool.map(solve, range(options.seed, options.seed + total), chunksize=4):
            rows.append(row)
            if len(rows) % 50 == 0:
                print(f"{len(rows)} of {total}, {sum(r['false'] for r in rows)} false", flush=True)
    summarise(rows, options)


def summarise(rows: Rows, options: argparse.Namespace) -> None:
    for kind in (maker.__name__ for maker in MIXTURE):
        mine = [row for row in rows if row["kind"] == kind]
        print(
            f"{kind:18s} {len(mine):4d}",
            dict(Counter(row["outcome"] for row in mine)),
            "false",
            sum(r["false"] for r in mine),
        )
    false = [row for row in rows if row["false"]]
    for row in false:
        print("FALSE CLAIM", row)
    exacts = [row for row in rows if row["family"] == "exact"]
    hits = sum(row["claimed"] and row["right"] for row in exacts)
    noisy_rows = [row for row in rows if row["family"] == "noisy" and row["claimed"] and row["right"]]
    share = sum(r["covered"] for r in noisy_rows) / max(sum(r["parameters"] for r in noisy_rows), 1)
    lines = [
        Line(f"false RECOVERED among {len(rows)} problems: 0", str(len(false)), not false),
        Line(
            "identifiable noiseless problems recovered: >= 98 %",
            f"{hits}/{len(exacts)}",
            hits >= 0.98 * len(exacts),
        ),
        Line(
            "95 % intervals cover 93-97 %",
            f"{100 * share:.1f} % of {sum(r['parameters'] for r in noisy_rows)}",
            0.93 <= share <= 0.97,
        ),
    ]
    report("calibration", lines, rows, options)


if __name__ == "__main__":
    main()
