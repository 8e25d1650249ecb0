"""Does RECOVERED ever name a wrong network? Three thousand problems of every kind, none chosen after the fact.

Each problem is drawn by its seed alone: two of three from the mixture below, the third from a family of
`families_exact.py`, `families_noisy.py` or `families_doors.py`, each aimed at one inequality of a certificate. A claim is
false when

exact          the network differs from the truth by more than 1e-6 in any matched parameter, inputs standardised and every
               output divided by its own spread
noisy          the number of units is wrong, or a parameter is more than 6 standard errors off
beside         the same, where the model is slightly wrong: intervals are not promised to cover. What cannot be told from
               another network, or hardly, is counted too: rows chosen by their labels so that the offset follows, a jump
               of the offset at the first rows
rounded        both: neither within 1e-6 nor within 6 standard errors
cut off        the same; a refusal is as good, since nothing tells labels that were cut off from rounded ones
unidentifiable any network is claimed that is not the truth to 1e-6 (units never seen on are not part of the truth here:
               nothing in the data can show them; units never seen off are a linear part)
mis-specified  anything is claimed at all

A problem gets 2 seconds of a core, one in 61 gets 20, so that long searches are among them; what is not certified by
then is STOPPED_EARLY. The clock is that of the process: other work on the machine does not change the results. An
interrupted run with --write or --out goes on where it stopped: finished problems are kept in calibration.partial.jsonl.
With --minutes it ends at that time, and the result is about the problems that were solved until then; a later run of the
same seeds goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import families_doors
import families_exact
import families_noisy
import numpy as np
from _table import RESULTS, Line, Rows, parse_options, report, wilson
from scipy.optimize import linear_sum_assignment

import planted
from planted import TwoLayerNetwork, _clock, simulate
from planted._streams import data_streams
from planted.linalg.symmetric import unit_rows

LAWS = ("gaussian", "exponential", "uniform", "laplace", "student-t", "mixture", "correlated")
BUDGET, LONG_BUDGET, LONG_SHARE = 2.0, 20.0, 61  # seconds of a core for a problem, and for one in so many
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
    # Of different values: rows on which all units are off share one. A threshold there would switch nothing, and what is
    # left would be a two-layer network.
    middle = np.array([np.median(np.unique(values)) for values in hidden.T])
    return X, np.maximum(hidden - middle, 0) @ last, None, "mis-specified"


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


FAMILIES = {**families_exact.FAMILIES, **families_noisy.FAMILIES, **families_doors.FAMILIES}
FAMILY_SHARE = 3  # one problem of so many is of a family


def count_own_time() -> None:
    """Let budgets of time count what this process works, not what it waits for others."""
    vars(_clock)["monotonic"] = time.process_time


def draw(seed: int) -> tuple[str, Problem]:
    """Draw the problem of a seed: its kind and itself."""
    rng = data_streams(seed + 1_000_000, 1)[0]
    if seed % FAMILY_SHARE == 0:
        name = list(FAMILIES)[(seed // FAMILY_SHARE) % len(FAMILIES)]
        return name, FAMILIES[name](rng)
    makers, shares = zip(*MIXTURE.items(), strict=True)
    maker = makers[int(rng.choice(len(makers), p=shares))]
    return maker.__name__, maker(rng, seed)


def solve(seed: int) -> dict[str, Any]:
    kind, (X, Y, truth, family) = draw(seed)
    ask = families_doors.DOORS.get(kind, planted.recover)
    start = _clock.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        budget = BUDGET if seed % LONG_SHARE else LONG_BUDGET
        answer = ask(X, Y, random_state=seed, budget_seconds=budget)
    claimed = answer.outcome is planted.Outcome.RECOVERED
    right, cover, count = judge(answer, truth, (X, Y), family)
    return {
        "seed": seed, "kind": kind, "family": family, "outcome": answer.outcome.name,
        "method": answer.provenance.algorithm, "claimed": claimed, "right": right, "false": claimed and not right,
        "covered": cover, "parameters": count, "seconds": round(_clock.monotonic() - start, 2),
    }  # fmt: skip


def judge(
    answer: planted.Recovery, truth: TwoLayerNetwork | None, data: tuple[np.ndarray, np.ndarray], family: str
) -> tuple[bool, int, int]:
    """Return whether the network is the truth, and how many of its parameters lie in their 95 % intervals."""
    if answer.network is None or truth is None:
        return False, 0, 0
    truth = as_seen(truth, data[0], folded=answer.network.B is not None)
    if family not in ("noisy", "beside"):
        error = planted.parameter_error(standardised(answer.network, *data), standardised(truth, *data))
        if error <= 1e-6 or family not in ("rounded", "cut off"):
            return error <= 1e-6, 0, 0
    if (answer.network.B is None) != (truth.B is None):
        return False, 0, 0
    if answer.network.n_hidden != truth.n_hidden or not isinstance(answer.uncertainty, planted.Uncertainty):
        return False, 0, 0
    ours, errors, target = answer.network, answer.uncertainty.standard_errors, truth.canonical()
    planes = [np.column_stack([net.W, net.b]) for net in (ours, target)]
    order = linear_sum_assignment(((planes[0][:, None] - planes[1][None]) ** 2).sum(axis=2))[1]
    gaps = {"W": ours.W - target.W[order], "b": ours.b - target.b[order], "A": ours.A - target.A[:, order]}
    gaps["c"] = ours.c - target.c
    z = np.concatenate([_in_errors(gap, errors[name]) for name, gap in gaps.items()])
    return bool(z.max() < 6), int((z < 1.96).sum()), int(z.size)


def as_seen(net: TwoLayerNetwork, X: np.ndarray, *, folded: bool) -> TwoLayerNetwork:
    """Leave out units that no sample sees; units that are on in all samples are a linear part of the outputs.

    Nothing in the data tells such a unit from a linear part: either form is the truth, `folded` says in which it is
    written. Nor does anything tell units that are on in the same samples, with parallel output weights, from the one unit
    that is their sum there; beside a linear part a unit that is on where another is off is one that is on with it.
    """
    turned = _one_of_those_on_together(_turned_to_others(net, X), X)
    net = _one_of_those_on_together(net, X)
    if folded and turned.n_hidden < net.n_hidden:
        net = turned
    on = net.patterns(X)
    kept = on.any(axis=0) & (net.A != 0).any(axis=0)
    always = kept & on.all(axis=0)
    if folded and always.any():
        kept &= ~always
        B, c = net.A[:, always] @ net.W[always], net.c + net.A[:, always] @ net.b[always]
        return TwoLayerNetwork(net.W[kept], net.b[kept], net.A[:, kept], c, B=B)
    return TwoLayerNetwork(net.W[kept], net.b[kept], net.A[:, kept], net.c, B=net.B)


def _turned_to_others(net: TwoLayerNetwork, X: np.ndarray) -> TwoLayerNetwork:
    """Turn a unit round that is on exactly where another before it is off: what it adds then is linear."""
    on, W, b = net.patterns(X), net.W.copy(), net.b.copy()
    B, c = np.zeros((net.n_outputs, net.n_features)) if net.B is None else net.B.copy(), net.c.copy()
    for first, second in combinations(range(net.n_hidden), 2):
        if on[:, second].any() and (on[:, first] != on[:, second]).all():
            B, c = B + np.outer(net.A[:, second], W[second]), c + net.A[:, second] * b[second]
            W[second], b[second], on[:, second] = -W[second], -b[second], ~on[:, second]
    return TwoLayerNetwork(W, b, net.A, c, B=B if B.any() else net.B)


def _one_of_those_on_together(net: TwoLayerNetwork, X: np.ndarray) -> TwoLayerNetwork:
    """Write two units that are on in the same samples as one, where one gives the same outputs at all of them."""
    on, planes = net.patterns(X), np.column_stack([net.W, net.b])
    for first, second in combinations(range(net.n_hidden), 2):
        u = unit_rows(net.A[:, [first]].T)[0][0]
        rest = net.A[:, second] - u * (u @ net.A[:, second])
        if (on[:, first] != on[:, second]).any() or np.abs(rest).max() > 1e-12 * np.abs(
            net.A[:, second]
        ).max():
            continue
        plane = (u @ net.A[:, [first, second]]) @ planes[[first, second]]
        size = np.linalg.norm(plane[:-1])
        for sign in (1.0, -1.0):
            if size and ((sign * (X @ plane[:-1] + plane[-1]) > 0) == on[:, first]).all():
                kept = ~np.isin(np.arange(net.n_hidden), (first, second))
                W, b = (
                    np.vstack([net.W[kept], sign * plane[:-1] / size]),
                    np.append(net.b[kept], sign * plane[-1] / size),
                )
                one = TwoLayerNetwork(
                    W, b, np.column_stack([net.A[:, kept], sign * size * u]), net.c, B=net.B
                )
                return _one_of_those_on_together(one, X)
    return net


def standardised(net: TwoLayerNetwork, X: np.ndarray, Y: np.ndarray) -> TwoLayerNetwork:
    """Write a network for inputs of mean 0 and variance 1 and outputs of variance 1, each on its own scale."""
    x_scale, y_scale = spread_of(X), spread_of(Y)
    W = net.W * x_scale
    norms = np.linalg.norm(W, axis=1)
    b = net.b + net.W @ X.mean(axis=0)
    B = None if net.B is None else net.B * x_scale / y_scale[:, None]
    c = net.c if net.B is None else net.c + net.B @ X.mean(axis=0)
    return TwoLayerNetwork(
        W / norms[:, None], b / norms, net.A * norms / y_scale[:, None], c / y_scale, net.activation, B
    )


def spread_of(columns: np.ndarray) -> np.ndarray:
    """Return the standard deviations of columns; those of constant ones are the largest of all."""
    spread = columns.std(axis=0)
    varies = spread > 1e-13 * np.abs(columns.mean(axis=0))
    return np.where(varies, spread, spread[varies].max(initial=0.0) or 1.0)


def _in_errors(gap: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return gaps in standard errors, those of free parameters alone: a bias that was not fitted has none."""
    return np.abs(gap[error > 0] / error[error > 0])


def main() -> None:
    options = parse_options(
        __doc__,
        problems={"type": int, "default": 3000, "help": "how many, such as 600; --quick takes 120"},
        workers={"type": int, "default": 2, "help": "processes"},
        minutes={"type": float, "default": float("inf"), "help": "end after so many"},
    )
    total = 120 if options.quick else options.problems
    seeds = range(options.seed, options.seed + total)
    store = partial_file(options)
    rows = [row for row in stored_rows(store) if row["seed"] in seeds]
    waiting = sorted(set(seeds) - {row["seed"] for row in rows})
    end = time.monotonic() + 60 * options.minutes
    with ProcessPoolExecutor(max_workers=options.workers, initializer=count_own_time) as pool:
        for row in pool.map(solve, waiting):
            rows.append(row)
            if store is not None:
                with store.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            if len(rows) % 50 == 0:
                print(f"{len(rows)} of {total}, {sum(r['false'] for r in rows)} false", flush=True)
            if time.monotonic() > end:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    summarise(sorted(rows, key=lambda row: row["seed"]), options)
    if store is not None and len(rows) == total:
        store.unlink(missing_ok=True)


def partial_file(options: argparse.Namespace) -> Path | None:
    """Return where finished problems are kept until the end; None where nothing is stored."""
    folder: Path | None = RESULTS if options.write else options.out
    if folder is None:
        return None
    folder.mkdir(exist_ok=True)
    return folder / "calibration.partial.jsonl"


def stored_rows(store: Path | None) -> Rows:
    if store is None or not store.exists():
        return []
    return [json.loads(line) for line in store.read_text().splitlines()]


def summarise(rows: Rows, options: argparse.Namespace) -> None:
    for kind in [*(maker.__name__ for maker in MIXTURE), *FAMILIES]:
        mine = [row for row in rows if row["kind"] == kind]
        print(
            f"{kind:20s} {len(mine):4d}",
            dict(Counter(row["outcome"] for row in mine)),
            "false",
            sum(r["false"] for r in mine),
        )
    false = [row for row in rows if row["false"]]
    for row in false:
        print("FALSE CLAIM", row)
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in families_noisy.FAMILIES}
    beside = [row for row in rows if row["family"] == "beside"]
    claims, wrong = (sum(row[key] for row in beside) for key in ("claimed", "false"))
    lines = [
        Line(f"false RECOVERED among {len(rows)} problems: 0", str(len(false)), not false),
        Line(
            "of these where rows and labels are as the claim says: 0",
            str(len(false) - wrong),
            len(false) == wrong,
        ),
        Line(
            "of these beside the model: 0", f"{wrong} of {claims} claims, {len(beside)} problems", not wrong
        ),
        share_recovered(rows, "exact", 0.98, "identifiable noiseless problems"),
        share_recovered(rows, "rounded", 0.95, "problems with rounded labels"),
        coverage(rows, "all laws of noise"),
        *(
            coverage(mine, kind)
            for kind, mine in by_kind.items()
            if not any(row["family"] == "beside" for row in mine)
        ),
    ]
    report("calibration", lines, rows, options)


def share_recovered(rows: Rows, family: str, share: float, name: str) -> Line:
    mine = [row for row in rows if row["family"] == family]
    hits = sum(row["claimed"] and row["right"] for row in mine)
    return Line(f"{name} recovered: >= {100 * share:.0f} %", f"{hits}/{len(mine)}", hits >= share * len(mine))


def coverage(rows: Rows, name: str) -> Line:
    """Say how many parameters of claimed networks lie in their intervals; no claim is no error."""
    mine = [row for row in rows if row["family"] == "noisy" and row["claimed"] and row["right"]]
    count, covered = sum(row["parameters"] for row in mine), sum(row["covered"] for row in mine)
    target = f"95 % intervals cover 93-97 %: {name}"
    if not count:
        return Line(target, "no claim", True)
    return Line(target, f"{100 * covered / count:.1f} % of {count}", covers(covered, count))


def covers(covered: int, count: int) -> bool:
    """Return whether the binomial interval of the share of parameters in their intervals reaches 93 to 97 %."""
    if not count:
        return True
    low, high = wilson(covered, count)
    return low <= 0.97 and high >= 0.93


if __name__ == "__main__":
    main()
