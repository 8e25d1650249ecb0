"""Slopes and kinks: exact recovery with a linear part, the number and the places of kinks in noise, and no false claims.

Scale of the noisy cases: x uniform in [0, 1], changes of slope of size one, noise of standard deviation 0.1 s. Cases: one
kink in the middle (1c) or near the edge (1e), two of the same (2s) and of opposite sign (2a), three alternating (3a).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from _table import Line, Measure, Rows, at_least, gather, run_sections

import planted
from planted import Outcome, TwoLayerNetwork
from planted.checks import Check
from planted.fitting.segments._kinks import find_segments

Seeds = Callable[[int], range]
SOLVER = 10_000  # solver seeds start here: never those of the data
EXACT = 1e-10
CASES = {
    "1c": ((0.5, 1.0),),
    "1e": ((0.12, 1.0),),
    "2s": ((0.33, 1.0), (0.66, 1.0)),
    "2a": ((0.33, 1.0), (0.66, -1.0)),
    "3a": ((0.25, 1.0), (0.5, -1.0), (0.75, 1.0)),
}
CURVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sine": lambda x: np.sin(4 * x),
    "exponential": lambda x: np.exp(2 * x) / 4,
    "logistic": lambda x: 1 / (1 + np.exp(-10 * (x - 0.5))),
    "quadratic": lambda x: 2 * (x - 0.4) ** 2,
}
NOISES: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "normal": lambda rng, x: rng.standard_normal(len(x)),
    "t3": lambda rng, x: rng.standard_t(3, len(x)) / np.sqrt(3),
    "unequal": lambda rng, x: rng.standard_normal(len(x)) * (0.4 + 1.2 * x),
}


def one_input(k: int, m: int, seed: int) -> tuple[np.ndarray, TwoLayerNetwork]:
    """Draw a network of one input, every piece of it with some samples."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-3, 3, 25 * (k + 1)))
    # A kink midway between two neighbours that are as close as most.
    places = [
        25 * (i + 1) - 5 + int(np.argmin(np.diff(x[25 * (i + 1) - 5 : 25 * (i + 1) + 5]))) for i in range(k)
    ]
    kinks = np.array([(x[j] + x[j + 1]) / 2 for j in places])
    W = rng.choice([-1.0, 1.0], (k, 1))
    A = rng.choice([-1.0, 1.0], (m, k)) * rng.uniform(0.5, 1.5, (m, k))
    B, c = rng.standard_normal((m, 1)), rng.standard_normal(m)
    return x[:, None], TwoLayerNetwork(W, -W[:, 0] * kinks, A, c, B=B)


def exact(d: int, k: int, m: int, n: int, count: int, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(count):
        if d == 1:
            X, truth = one_input(k, m, seed)
        else:
            data = planted.simulate.dataset(
                n, n_features=d, n_hidden=k, n_outputs=m, activity=(0.3, 0.7), affine=True, random_state=seed
            )
            X, truth = data.X, data.network
        rows.append(
            {"case": f"exact ({d},{k},{m})", "seed": seed, **found(X, truth(X), truth, SOLVER + seed)}
        )
    hits = sum(row["is_exact"] for row in rows)
    return at_least(
        f"({d},{k},{m}) with a linear part: 98 % exact and recovered", hits, len(rows), 0.98
    ), rows


def found(X: np.ndarray, Y: np.ndarray, truth: TwoLayerNetwork, seed: int) -> dict[str, Any]:
    """Recover once and compare with the truth."""
    answer = planted.recover(X, Y, random_state=seed)
    error = np.inf if answer.network is None else planted.parameter_error(answer.network, truth)
    is_claimed = answer.outcome is Outcome.RECOVERED
    return {
        "outcome": answer.outcome.name,
        "error": float(error) if np.isfinite(error) else None,
        "is_exact": bool(is_claimed and error <= EXACT),
        "is_wrong": bool(is_claimed and not error <= EXACT),
        "leak": next((line.measured for line in answer.find(Check.LEAK)), None),
    }


def leaky(slope: float, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(10):
        name = "absolute" if slope == -1 else f"leaky-relu:{slope}"
        truth = planted.simulate.teacher(8, 4, 1, activity=(0.3, 0.7), activation=name, random_state=seed)
        X = np.random.default_rng([seed, 1]).standard_normal((500, 8))
        answer = planted.recover(X, truth(X), random_state=SOLVER + seed)
        leak = next((line.measured for line in answer.find(Check.LEAK)), np.nan)
        hit = answer.outcome is Outcome.RECOVERED and abs(leak - slope) <= EXACT
        rows.append(
            {"case": f"leaky {slope}", "seed": seed, "outcome": answer.outcome.name, "hit": bool(hit)}
        )
    hits = sum(row["hit"] for row in rows)
    return at_least(f"leaky units of slope {slope}: the slope named to 1e-10", hits, len(rows), 0.98), rows


def draw(case: str, n: int, s: float, seed: int, noise: str = "normal") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n])
    x = rng.random(n)
    y = 0.3 * x + sum(change * np.maximum(x - place, 0) for place, change in CASES.get(case, ()))
    return x, y + 0.1 * s * NOISES[noise](rng, x)


def number(n: int, s: float, share: float, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for case, truth in CASES.items():
        for seed in seeds(20):
            x, y = draw(case, n, s, seed)
            started = process_time()
            segments = find_segments(x, y, np.random.default_rng(SOLVER + seed))
            rows.append(
                {
                    "case": f"{case}, n={n}, s={s}",
                    "seed": seed,
                    "number": len(segments.kinks),
                    "right": len(segments.kinks) == len(truth),
                    "verdict": segments.verdict,
                    "seconds": process_time() - started,
                }
            )
    hits = sum(row["right"] for row in rows)
    seconds = np.median([row["seconds"] for row in rows])
    name = f"number of kinks, n={n}, s={s}: right in {share:.0%}"
    return at_least(name, hits, len(rows), share, f", {seconds:.2f} CPU s with intervals and bootstrap"), rows


def coverage(case: str, n: int, s: float, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(400):
        x, y = draw(case, n, s, seed)
        segments = find_segments(x, y, np.random.default_rng(SOLVER + seed), n_kinks=len(CASES[case]))
        for kink, (place, _) in zip(segments.kinks, CASES[case], strict=True):
            rows.append(
                {"case": f"{case}, n={n}, s={s}", "seed": seed, "covers": kink.low <= place <= kink.high}
            )
    hits = sum(row["covers"] for row in rows)
    share = hits / len(rows)
    name = f"95 % intervals of places, {case}, n={n}, s={s}: cover 93 to 97 %"
    return Line(name, f"{share:.1%} of {len(rows)}", 0.93 <= share <= 0.97), rows


def no_kink(n: int, noise: str, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(100):
        x, y = draw("", n, 1.0, seed, noise)
        segments = find_segments(x, y, np.random.default_rng(SOLVER + seed), details=False)
        rows.append({"case": f"no kink, n={n}, {noise}", "seed": seed, "number": len(segments.kinks)})
    false = sum(row["number"] > 0 for row in rows)
    return Line(
        f"no kink, n={n}, {noise} noise: false ones in at most 7 %",
        f"{false}/{len(rows)}",
        false <= 0.07 * len(rows),
    ), rows


def correlated(n: int, seeds: Seeds) -> tuple[Line, Rows]:
    """Noise that follows its neighbours along x, and no kink."""
    rows = []
    for seed in seeds(50):
        rng = np.random.default_rng([seed, n])
        x, noise = np.sort(rng.random(n)), rng.standard_normal(n)
        for i in range(1, n):
            noise[i] += 0.5 * noise[i - 1]
        segments = find_segments(
            x, 0.3 * x + 0.1 * noise, np.random.default_rng(SOLVER + seed), details=False
        )
        unnoticed = len(segments.kinks) > 0 and not segments.is_correlated
        rows.append({"case": f"correlated, n={n}", "seed": seed, "unnoticed": unnoticed})
    missed = sum(row["unnoticed"] for row in rows)
    return Line(
        f"correlated noise, n={n}: kinks without a warning in at most 5 %",
        f"{missed}/{len(rows)}",
        missed <= 0.05 * len(rows),
    ), rows


def smooth(curve: str, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for n, s in ((100, 0.0), (100, 0.1), (400, 0.25), (1000, 1.0)):
        for seed in seeds(25):
            rng = np.random.default_rng([seed, n])
            x = rng.random(n)
            y = CURVES[curve](x) + 0.1 * s * rng.standard_normal(n)
            answer = planted.recover(x[:, None], y[:, None], random_state=SOLVER + seed)
            rows.append({"case": f"{curve}, n={n}, s={s}", "seed": seed, "outcome": answer.outcome.name})
    wrong = sum(row["outcome"] == Outcome.RECOVERED.name for row in rows)
    return Line(
        f"{curve}: called recovered in at most 1 %", f"{wrong}/{len(rows)}", wrong <= 0.01 * len(rows)
    ), rows


MEASURES: dict[str, list[Measure]] = {
    "exact": [
        *(partial(exact, 1, k, m, 0, 100) for k in range(1, 9) for m in (1, k + 1)),
        *(partial(exact, 4, 2, m, 240, 100) for m in (1, 2, 3)),
        *(partial(exact, 10, 5, m, 960, 100) for m in (1, 5, 6)),
        *(partial(exact, 10, 15, m, 2400, 100) for m in (1, 15, 16)),
        partial(exact, 10, 6, 7, 230, 100),
    ],
    "leaky": [partial(leaky, slope) for slope in (0.01, 0.1, 0.5, -1)],
    "number": [partial(number, 200, s, share) for s, share in ((0.25, 0.9), (0.5, 0.75), (1.0, 0.55))],
    "places": [partial(coverage, case, n, 0.5) for case in ("1c", "1e", "2a") for n in (100, 400)],
    "no-kink": [partial(no_kink, n, noise) for n in (50, 200, 1000) for noise in NOISES],
    "correlated": [partial(correlated, n) for n in (100, 400)],
    "smooth": [partial(smooth, curve) for curve in CURVES],
}

if __name__ == "__main__":
    run_sections("kinks", __doc__ or "", {name: gather(*measures) for name, measures in MEASURES.items()})
