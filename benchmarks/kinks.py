"""Slopes and kinks: exact recovery with a linear part, the number and the places of kinks in noise, and no false claims.

Scale of the noisy cases: x uniform in [0, 1], changes of slope of size one, noise of standard deviation 0.1 s. Cases: one
kink in the middle (1c) or near the edge (1e), two of the same (2s) and of opposite sign (2a), three alternating (3a).

Peers are pwlf, piecewise-regression and mars-earth, each told what it has to be told; they run in the same process and on
the same data if ``--peers FOLDER`` names a folder in which they are installed (``pip install --target FOLDER pwlf
piecewise-regression mars-earth``), and are left out else.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from time import process_time
from typing import Any

import numpy as np
from _table import Line, Measure, Rows, Section, at_least, gather, run_sections
from scipy import stats

import planted
from planted import Outcome, TwoLayerNetwork
from planted.checks import Check
from planted.fitting.segments._axes import find_axis_kinks, hyperplane_p_values
from planted.fitting.segments._kinks import FIRST_LEVEL, LEVEL, find_segments, further_kinks
from planted.fitting.segments._least_squares import KinkData, segment_fits
from planted.fitting.segments._places import at_median_places

Seeds = Callable[[int], range]
SOLVER = 10_000  # solver seeds start here: never those of the data
EXACT = 1e-10
LEAKS = (0.01, 0.1, 0.5, -1)  # slopes of leaky units; -1 is the absolute value
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
    for seed in seeds(100):
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


def leaky_by_asking(slope: float, seeds: Seeds) -> tuple[Line, Rows]:
    """Ask a box of leaky units, and read the slope from the answer."""
    rows = []
    for seed in seeds(100):
        name = "absolute" if slope == -1 else f"leaky-relu:{slope}"
        truth = planted.simulate.teacher(8, 4, 1, activity=(0.3, 0.7), activation=name, random_state=seed)
        answer = planted.identify(truth, n_features=8, random_state=SOLVER + seed)
        leak = next((line.measured for line in answer.find(Check.LEAK)), np.nan)
        hit = answer.outcome is Outcome.RECOVERED and abs(leak - slope) <= EXACT
        rows.append(
            {"case": f"asked, leaky {slope}", "seed": seed, "outcome": answer.outcome.name, "hit": bool(hit)}
        )
    hits = sum(row["hit"] for row in rows)
    return at_least(f"asked, leaky units of slope {slope}: the slope to 1e-10", hits, len(rows), 0.98), rows


def draw(case: str, n: int, s: float, seed: int, noise: str = "normal") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n, sum(map(ord, case))])
    x = rng.random(n)
    y = 0.3 * x + sum(change * np.maximum(x - place, 0) for place, change in CASES.get(case, ()))
    return x, y + 0.1 * s * NOISES[noise](rng, x)


def number(n: int, s: float, share: float, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for case, truth in CASES.items():
        for seed in seeds(20):
            x, y = draw(case, n, s, seed)
            started = process_time()
            segments = find_segments(x, y, np.random.default_rng(SOLVER + seed), details=False)
            rows.append(
                {
                    "case": f"{case}, n={n}, s={s}",
                    "seed": seed,
                    "number": len(segments.kinks),
                    "right": len(segments.kinks) == len(truth),
                    "seconds": process_time() - started,
                }
            )
    hits = sum(row["right"] for row in rows)
    seconds = np.median([row["seconds"] for row in rows])
    many = sum(row["number"] > len(CASES[row["case"][:2]]) for row in rows)
    name = f"number of kinks, n={n}, s={s}: right in {share:.0%}"
    note = f", too many in {many}, {seconds:.2f} CPU s with the bootstrap"
    return at_least(name, hits, len(rows), share, note), rows


def coverage(case: str, n: int, s: float, seeds: Seeds) -> tuple[list[Line], Rows]:
    """Count how often the intervals of places, of changes of slope and of slopes hold what was drawn, the number told."""
    places, changes = zip(*CASES[case], strict=True)
    truth = {"places": places, "changes of slope": changes, "slopes": 0.3 + np.cumsum([0, *changes])}
    held: dict[str, list[bool]] = {name: [] for name in truth}
    missed: dict[str, list[int]] = {name: [] for name in truth}
    for seed in seeds(400):
        x, y = draw(case, n, s, seed)
        segments = find_segments(x, y, np.random.default_rng(SOLVER + seed), n_kinks=len(places))
        ends = {
            "places": [(kink.low, kink.high) for kink in segments.kinks],
            "changes of slope": [(kink.change_low, kink.change_high) for kink in segments.kinks],
            "slopes": [(low, high) for _, low, high in segments.slopes],
        }
        for name, values in truth.items():
            each = [bool(low <= value <= high) for (low, high), value in zip(ends[name], values, strict=True)]
            held[name] += each
            missed[name] += [seed] * (len(each) - sum(each))
    lines = []
    for name, each in held.items():
        share = float(np.mean(each))
        aim = "93 to 97 %" if name == "places" else "at least 93 %"
        passed = 0.93 <= share <= (0.97 if name == "places" else 1.0)
        title = f"95 % intervals of {name}, {case}, n={n}, s={s}: cover {aim}"
        lines.append(Line(title, f"{share:.1%} of {len(each)}", passed))
    return lines, [{"case": f"{case}, n={n}, s={s}", "missed_seeds": missed}]


def efficiency(case: str, n: int, seeds: Seeds) -> tuple[Line, Rows]:
    """Compare the squared error of slopes, changes and places with the Cramér–Rao bound, the number of kinks told.

    The estimate that is linear at the true parameters has a ratio of exactly one on average. Its ratio in the same data
    sets is the luck of the draw, and is taken off. The Cramér–Rao bound is not sharp where the place of a kink moves over
    several samples: Barankin's bound, which compares the truth with parameters at some distance, says how much no unbiased
    estimate can do without.
    """
    rows, sigma = [], 0.025
    places, changes = (np.array(part) for part in zip(*CASES[case], strict=True))
    truth = np.array([0.0, 0.3, *changes, *places])
    for seed in seeds(800):
        x, y = draw(case, n, sigma / 0.1, seed)
        fit = find_segments(
            x, y, np.random.default_rng(SOLVER + seed), n_kinks=len(places), details=False
        ).fit
        hinges = np.maximum(x[:, None] - places, 0)
        J = np.column_stack([np.ones(n), x, hinges, -(x[:, None] > places).astype(float) * changes])
        bound = np.diag(np.linalg.inv(J.T @ J)) * sigma**2
        linear = np.linalg.lstsq(J, y - 0.3 * x - hinges @ changes, rcond=None)[0]
        error = np.concatenate([fit.weights, fit.kinks]) - truth
        ratios = [float(np.mean(each**2 / bound)) for each in (error, linear)]
        row = {"case": f"{case}, n={n}", "seed": seed, "ratio": ratios[0], "linear": ratios[1]}
        rows.append(row | {"least": float(np.mean(_barankin(x, truth, J / sigma) / bound))})
    plain, linear, least = (np.array([row[key] for row in rows]) for key in ("ratio", "linear", "least"))
    excess = plain - linear
    mean, error = 1 + float(excess.mean()), float(excess.std() / np.sqrt(len(rows)))
    raw = f"{plain.mean():.3f} ± {plain.std() / np.sqrt(len(rows)):.3f}"
    name = f"squared error over the Cramér–Rao bound, {case}, n={n}: at most 1.1"
    text = f"{mean:.3f} ± {error:.3f} in {len(rows)} fits; with the luck of the draw {raw}"
    text += f"; no unbiased estimate below {least.mean():.3f} (Barankin's bound)"
    return Line(name, text, mean <= 1.1), rows


def _barankin(x: np.ndarray, truth: np.ndarray, J: np.ndarray) -> np.ndarray:
    """Return a lower bound of the variance of any unbiased estimate of each parameter.

    The test points lie up to 1.5 standard errors from the truth, along the least favourable direction of each parameter
    and along the columns of a root of the covariance. `J`: Jacobian over the standard deviation of the noise.
    """
    k, covariance = (len(truth) - 2) // 2, np.linalg.inv(J.T @ J)
    directions = np.hstack([covariance / np.sqrt(np.diag(covariance)), np.linalg.cholesky(covariance)])
    moves = np.hstack([step * directions for step in (-1.5, -1.0, -0.5, -0.05, 0.05, 0.5, 1.0, 1.5)])

    def mean(parameters: np.ndarray) -> np.ndarray:
        hinges = np.maximum(x[:, None] - parameters[2 + k :], 0)
        return parameters[0] + parameters[1] * x + hinges @ parameters[2 : 2 + k]

    scale = np.linalg.norm(J[:, 0]) / np.sqrt(len(x))  # one over the standard deviation of the noise
    M = scale * np.array([mean(truth + move) - mean(truth) for move in moves.T])
    G = np.expm1(M @ M.T)
    lengths = np.sqrt(np.diag(G))
    values, vectors = np.linalg.eigh(G / np.outer(lengths, lengths))
    # Any combinations of test points give a lower bound: those that rounding makes of nothing are left out.
    parts = (moves / lengths) @ vectors[:, values > 1e-7]
    return np.asarray((parts**2 / values[values > 1e-7]).sum(axis=1))


def no_kinks(seeds: Seeds) -> tuple[list[Line], Rows]:
    rows: Rows = []
    for n in (50, 200, 1000):
        for noise in NOISES:
            for seed in seeds(60):
                x, y = draw("", n, 1.0, seed, noise)
                segments = find_segments(x, y, np.random.default_rng(SOLVER + seed), details=False)
                rows.append({"noise": noise, "n": n, "seed": seed, "number": len(segments.kinks)})
    lines = []
    for noise in (*NOISES, "any"):
        part = [row["number"] > 0 for row in rows if noise in (row["noise"], "any")]
        share = 0.05 if noise == "any" else 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(part))
        name = f"no kink, n = 50 to 1,000, {noise} noise: false ones in at most {share:.1%}"
        lines.append(Line(name, f"{sum(part)}/{len(part)}", bool(sum(part) <= share * len(part))))
    return lines, rows


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
    for n, s in ((100, 0.0), (100, 0.1), (200, 0.25), (400, 1.0)):
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


COLUMN_CASES = {
    "one": ((0, 0.5, 1.0),),
    "two": ((0, 0.4, 1.0), (1, 0.6, -1.0)),
    "opposite": ((0, 0.33, 1.0), (0, 0.66, -1.0)),
    "three": ((0, 0.3, 1.0), (0, 0.7, -1.0), (2, 0.5, 1.0)),
    "none": (),
}


def draw_columns(case: str, n: int, s: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n, 5, list(COLUMN_CASES).index(case)])
    X = rng.random((n, 5))
    bends = sum(a * np.maximum(X[:, j] - place, 0) for j, place, a in COLUMN_CASES[case])
    return X, X @ rng.standard_normal(5) + bends + 0.1 * s * rng.standard_normal(n)


def columns(n: int, s: float, share: float, seeds: Seeds) -> tuple[list[Line], Rows]:
    """Five inputs, kinks along some of them: number, columns and intervals."""
    rows: Rows = []
    for case, truth in COLUMN_CASES.items():
        for seed in seeds(30):
            X, y = draw_columns(case, n, s, seed)
            started = process_time()
            axes = find_axis_kinks(X, y, np.random.default_rng(SOLVER + seed))
            found = [] if axes is None else [int(j) for j in axes.inputs]
            right = found == sorted(j for j, _, _ in truth)
            pairs = zip(axes.kinks, truth, strict=True) if axes is not None and right else ()
            covers = [bool(kink.low <= place <= kink.high) for kink, (_, place, _) in pairs]
            rows.append(
                {
                    "case": f"columns {case}, n={n}, s={s}",
                    "seed": seed,
                    "right": right,
                    "covers": covers,
                    "seconds": process_time() - started,
                }
            )
    hits, covered = sum(row["right"] for row in rows), [each for row in rows for each in row["covers"]]
    cell = f"n={n}, s={s}"
    seconds = np.median([row["seconds"] for row in rows])
    first = at_least(
        f"kinks along columns of five, {cell}: number and columns right in {share:.0%}",
        hits,
        len(rows),
        share,
        f", {seconds:.2f} CPU s with intervals and bootstrap",
    )
    rate = float(np.mean(covered))
    second = Line(
        f"95 % intervals of places along columns, {cell}: cover 92 to 98 %",
        f"{rate:.1%} of {len(covered)}",
        0.92 <= rate <= 0.98,
    )
    return [first, second], rows


def oblique(seeds: Seeds) -> tuple[list[Line], Rows]:
    """Three inputs, one kink across them or none, and one kink more asked for than there is: its p-value."""
    rows: Rows = []
    for is_bent in (False, True):
        for seed in seeds(100):
            rng = np.random.default_rng([seed, 77])
            X = rng.standard_normal((200, 3))
            normal = np.array([0.7, 0.7, 0.1])
            y = X @ [1.0, 0.5, -1.0] + 0.5 * rng.standard_normal(200)
            y += is_bent * np.maximum(X @ normal, 0)
            V = np.column_stack([rng.standard_normal((1, 3)), 0.3 * rng.standard_normal(1)])
            if is_bent:
                V = np.vstack([np.append(normal, 0.0), V])
            p_values = hyperplane_p_values(X, y, V, np.random.default_rng(SOLVER + seed))
            rows.append(
                {"is_bent": is_bent, "seed": seed, "p_values": p_values, "told": _told_p_value(X, y, V)}
            )
    chance = [row["p_values"][-1] < 0.05 for row in rows]
    real, told = (
        sum(value < 0.05 for value in values)
        for values in zip(*((row["p_values"][0], row["told"]) for row in rows if row["is_bent"]), strict=True)
    )
    most = 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(chance))
    return [
        Line(
            f"kinks across columns that are not there, n=200, d=3: p < 0.05 in at most {most:.1%}",
            f"{sum(chance)}/{len(chance)}",
            bool(sum(chance) <= most * len(chance)),
        ),
        Line(
            "a kink across columns, two noises high: p < 0.05 in 90 % of the samples where the F test told its hyperplane "
            "has it",
            f"{real} against {told} of {len(rows) // 2}",
            bool(real >= 0.9 * told),
        ),
    ], rows


def _told_p_value(X: np.ndarray, y: np.ndarray, V: np.ndarray) -> float:
    """Return the p-value of the F test that is told the first hyperplane and fits its weights and its bias."""
    rows = np.column_stack([X, np.ones(len(X))])
    designs = [rows, *(rows * (rows @ v > 0)[:, None] for v in V[::-1])]
    left = [y @ y - ((np.linalg.qr(np.hstack(part))[0].T @ y) ** 2).sum() for part in (designs[:-1], designs)]
    freedom = len(y) - rows.shape[1] * len(designs)
    return float(
        stats.f.sf((left[0] - left[1]) / rows.shape[1] / (left[1] / freedom), rows.shape[1], freedom)
    )


Places = Callable[[np.ndarray, np.ndarray, int], Any]


def _planted_told(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    return find_segments(x, y, np.random.default_rng(SOLVER), n_kinks=k, details=False).fit.kinks


def _planted_untold(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    return find_segments(x, y, np.random.default_rng(SOLVER), details=False).fit.kinks


def _fitfast(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    return sys.modules["pwlf"].PiecewiseLinFit(x, y, seed=0).fitfast(k + 1)[1:-1]


def _pwlf(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    return sys.modules["pwlf"].PiecewiseLinFit(x, y, seed=0).fit(k + 1)[1:-1]


def _piecewise(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    np.random.seed(0)  # noqa: NPY002 - the package draws from the global stream
    with redirect_stdout(StringIO()):
        found = sys.modules["piecewise_regression"].Fit(x, y, n_breakpoints=k)
    estimates = found.get_results()["estimates"]
    return [] if estimates is None else [estimates[f"breakpoint{i + 1}"]["estimate"] for i in range(k)]


def _mars(x: np.ndarray, y: np.ndarray, k: int) -> Any:
    return [place for _, place in _mars_knots(x[:, None], y)]


def _mars_knots(X: np.ndarray, y: np.ndarray) -> list[tuple[int, float]]:
    """Return columns and knots of the hinges that mars-earth keeps, each once."""
    with redirect_stdout(StringIO()):
        model = sys.modules["pymars"].Earth(max_degree=1).fit(X, y)
    knots = {
        (int(term.variable_idx), float(term.knot_val))
        for term in model.basis_
        if getattr(term, "knot_val", None) is not None
    }
    return sorted(knots)


# Package, function, one data set of so many at low and middle noise; at high noise, where they differ, all take all.
PEERS: dict[str, tuple[str | None, Places, int]] = {
    "planted, told": (None, _planted_told, 1),
    "planted, not told": (None, _planted_untold, 1),
    "pwlf.fitfast, told": ("pwlf", _fitfast, 1),
    "pwlf.fit, told": ("pwlf", _pwlf, 5),
    "piecewise-regression, told": ("piecewise_regression", _piecewise, 5),
    "mars-earth, not told": ("pymars", _mars, 5),
}
NEAR = 0.05  # of the range: a kink is found
HIGH_NOISE = 1.0
LEVELS = (LEVEL, 0.1, 0.2, 0.3)  # of the test for further kinks; the first is in use
MOST_TRIED = 4


def peers(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    """Kinks found by all packages on the same data: one to three kinks, n = 200, 100 data sets at each noise level."""
    if options.peers:
        sys.path.append(options.peers)
    present = {
        name: entry for name, entry in PEERS.items() if entry[0] is None or _is_importable(str(entry[0]))
    }
    rows: Rows = []
    count = 2 if options.quick else 25
    for case in ("1c", "2s", "2a", "3a"):
        for s in (0.25, 0.5, 1.0):
            for seed in range(options.seed, options.seed + count):
                x, y = draw(case, 200, s, seed)
                for name, (_, places, every) in present.items():
                    if s == HIGH_NOISE or seed % every == 0:
                        found = _found(places, x, y, [place for place, _ in CASES[case]])
                        rows.append({"peer": name, "s": s, "case": case, "seed": seed, **found})
    lines = []
    for s in (0.25, 0.5, 1.0):
        lines += [_peer_line(rows, name, s) for name in present]
        lines += [
            _untold_line(rows, name, s) for name in present if name.endswith(", told") and present[name][0]
        ]
        if "pwlf.fitfast, told" in present:
            lines.append(_time_line(rows, s))
    return lines, rows


def _is_importable(package: str) -> bool:
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True


def _found(places: Places, x: np.ndarray, y: np.ndarray, truth: Sequence[float]) -> dict[str, Any]:
    """Run one package on one data set; what it raises is a data set without kinks."""
    started = process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = np.asarray(places(x, y, len(truth)), dtype=float)
    except Exception as error:  # other packages raise what they like: a failure of theirs is a result
        return {"found": 0, "seconds": process_time() - started, "number": 0, "error": repr(error)[:100]}
    hits = sum(bool(len(got)) and np.abs(got - place).min() <= NEAR for place in truth)
    return {"found": int(hits), "seconds": process_time() - started, "number": len(got)}


def _time_line(rows: Rows, s: float) -> Line:
    """Compare CPU times with pwlf.fitfast; what the tests for the number cost beside the fits is stated apart."""
    told, untold, fast = (
        np.mean([row["seconds"] for row in rows if row["s"] == s and row["peer"] == name])
        for name in ("planted, told", "planted, not told", "pwlf.fitfast, told")
    )
    text = f"{told:.3f} against {fast:.3f} CPU s; tests for the number {untold - told:.3f} more"
    return Line(f"CPU of planted, told, at most that of pwlf.fitfast, n=200, s={s}", text, bool(told <= fast))


def _peer_line(rows: Rows, name: str, s: float) -> Line:
    """Compare the kinks found with those that planted, told the number, finds in the same data sets."""
    mine = [row for row in rows if row["s"] == s and row["peer"] == name]
    data = {(row["case"], row["seed"]) for row in mine}
    ours = [
        row
        for row in rows
        if row["s"] == s and row["peer"] == "planted, told" and (row["case"], row["seed"]) in data
    ]
    total = sum(len(CASES[row["case"]]) for row in mine)
    found, best = (sum(row["found"] for row in part) for part in (mine, ours))
    seconds = np.mean([row["seconds"] for row in mine])
    number = sum(row["number"] == len(CASES[row["case"]]) for row in mine)
    many = sum(row["number"] > len(CASES[row["case"]]) for row in mine)
    return Line(
        f"kinks within 5 % of the range, n=200, s={s}: {name}, no more than planted told",
        f"{found}/{total} in {len(mine)} data sets, number right in {number}, too many in {many}, {seconds:.3f} CPU s "
        f"each; planted told {best}/{total}",
        found <= best,
    )


def _untold_line(rows: Rows, name: str, s: float) -> Line:
    """Compare the kinks that planted finds without the number with those of a package that is told it."""
    theirs = {
        (row["case"], row["seed"]): row["found"] for row in rows if row["s"] == s and row["peer"] == name
    }
    ours = [
        row["found"]
        for row in rows
        if row["s"] == s and row["peer"] == "planted, not told" and (row["case"], row["seed"]) in theirs
    ]
    found, best = sum(ours), sum(theirs.values())
    return Line(
        f"kinks within 5 % of the range, n=200, s={s}: planted, not told, no fewer than {name}",
        f"{found} against {best} in {len(theirs)} data sets",
        found >= best,
    )


def drawn_peers(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    """Kinks at drawn places, of drawn sizes and signs, at high noise: even places suit a median better than any other.

    One to three kinks from 0.08 to 0.92, at least 0.12 apart, changes of slope of 0.6 to 1.4 in size.
    """
    if options.peers:
        sys.path.append(options.peers)
    names = ("planted, told", "planted, not told", "pwlf.fitfast, told", "pwlf.fit, told")
    present = [name for name in names if PEERS[name][0] is None or _is_importable(str(PEERS[name][0]))]
    rows: Rows = []
    for k in (1, 2, 3):
        for seed in range(options.seed, options.seed + (3 if options.quick else 100)):
            x, y, truth = _drawn(k, seed)
            rows += [
                {"peer": name, "kinks": k, "seed": seed, **_found(PEERS[name][1], x, y, truth)}
                for name in present
            ]
    found = {name: sum(row["found"] for row in rows if row["peer"] == name) for name in present}
    total = sum(row["kinks"] for row in rows if row["peer"] == names[0])
    lines = [
        Line(
            f"kinks at drawn places within 5 % of the range, n=200, s=1.0: {ours}, no fewer than {name}",
            f"{found[ours]} against {found[name]} of {total}",
            found[ours] >= found[name],
        )
        for ours in names[:2]
        for name in present[2:]
    ]
    return lines, rows


def levels(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    """The same drawn kinks at other levels of the test for further ones: kinks found against kinks too many.

    A level at which the number is right more often than at the level in use would be better.
    """
    rows: Rows = []
    for k in (1, 2, 3):
        for seed in range(options.seed, options.seed + (3 if options.quick else 100)):
            x, y, truth = _drawn(k, seed)
            order = np.argsort(x)
            data, rng = KinkData(x[order], y[order]), np.random.default_rng(SOLVER)
            fits = segment_fits(data, MOST_TRIED)
            p_values: list[float] = []
            while len(p_values) < MOST_TRIED and (not p_values or p_values[-1] < max(LEVELS)):
                p_values.append(further_kinks(data, fits[len(p_values)], rng))
            for level in LEVELS:
                passed = [p < (level if i else FIRST_LEVEL) for i, p in enumerate(p_values)]
                number = passed.index(False) if False in passed else MOST_TRIED
                got = at_median_places(data, fits[number]).kinks
                hits = sum(bool(len(got)) and np.abs(got - place).min() <= NEAR for place in truth)
                rows.append({"level": level, "kinks": k, "seed": seed, "number": number, "found": int(hits)})
    kept = {level: [row for row in rows if row["level"] == level] for level in LEVELS}
    right = {level: np.array([row["number"] == row["kinks"] for row in kept[level]]) for level in LEVELS}
    many, found, total = (
        {level: sum(count(row) for row in kept[level]) for level in LEVELS}
        for count in (
            lambda row: row["number"] > row["kinks"],
            lambda row: row["found"],
            lambda row: row["kinks"],
        )
    )
    lines = []
    for level in LEVELS[1:]:
        gain = right[level].sum() - right[LEVEL].sum()
        lines.append(
            Line(
                f"drawn kinks, n=200, s=1.0, further kinks tested at the level {level}: number right no more often than at "
                f"{LEVEL}, within two standard errors",
                f"{right[level].sum()} against {right[LEVEL].sum()} of {len(right[level])} data sets, too many in "
                f"{many[level]} against {many[LEVEL]}; {found[level]} against {found[LEVEL]} of {total[level]} kinks found",
                bool(gain <= 2 * np.sqrt((right[level] != right[LEVEL]).sum())),
            )
        )
    return lines, rows


def _drawn(k: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[float]]:
    rng = np.random.default_rng([seed, k, 200])
    places = np.sort(rng.uniform(0.08, 0.92, k))
    while np.diff(places, append=2.0).min() < 0.12:
        places = np.sort(rng.uniform(0.08, 0.92, k))
    changes = rng.choice([-1.0, 1.0], k) * rng.uniform(0.6, 1.4, k)
    x = rng.random(200)
    y = 0.3 * x + np.maximum(x[:, None] - places, 0) @ changes + 0.1 * HIGH_NOISE * rng.standard_normal(200)
    return x, y, [float(place) for place in places]


def column_peers(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    """Five inputs with kinks along columns: planted beside mars-earth."""
    if options.peers:
        sys.path.append(options.peers)
    has_mars = _is_importable("pymars")
    rows: Rows = []
    for case, truth in COLUMN_CASES.items():
        for seed in range(options.seed, options.seed + (2 if options.quick else 10)):
            X, y = draw_columns(case, 200, 0.5, seed)
            axes = find_axis_kinks(X, y, np.random.default_rng(SOLVER + seed))
            knots = {
                "planted": []
                if axes is None
                else [(int(j), k.place) for j, k in zip(axes.inputs, axes.kinks, strict=True)]
            }
            if has_mars:
                knots["mars-earth"] = _mars_knots(X, y)
            for name, found in knots.items():
                near = [any(j == i and abs(place - at) <= NEAR for i, at in found) for j, place, _ in truth]
                right = len(found) == len(truth) and all(near)
                rows.append(
                    {
                        "peer": name,
                        "case": case,
                        "seed": seed,
                        "found": sum(near),
                        "kinks": len(truth),
                        "right": right,
                    }
                )
    lines = []
    for name in dict.fromkeys(row["peer"] for row in rows):
        mine = [row for row in rows if row["peer"] == name]
        right, share = sum(row["right"] for row in mine), 0.8 if name == "planted" else 0.0
        note = f" right; {sum(row['found'] for row in mine)}/{sum(row['kinks'] for row in mine)} kinks found"
        lines.append(
            at_least(
                f"five inputs, n=200, s=0.5, no more and no fewer kinks, within 5 %: {name}",
                right,
                len(mine),
                share,
                note,
            )
        )
    return lines, rows


MEASURES: dict[str, list[Measure]] = {
    "exact": [
        *(partial(exact, 1, k, 1, 0, 100) for k in range(1, 9)),
        *(partial(exact, 1, k, k + 1, 0, 100) for k in range(1, 9)),
        partial(exact, 10, 6, 7, 230, 100),
    ],
    "exact-several": [
        partial(exact, d, k, m, n, count)
        for d, k, n, count in ((4, 2, 240, 100), (10, 5, 960, 100), (10, 15, 2400, 100))
        for m in (1, k + 1)
    ],
    "leaky": [partial(leaky, slope) for slope in LEAKS]
    + [partial(leaky_by_asking, slope) for slope in LEAKS],
    "number": [partial(number, 200, s, share) for s, share in ((0.25, 0.9), (0.5, 0.75), (1.0, 0.55))],
    "places": [partial(coverage, case, n, 0.5) for case in ("1c", "1e", "2a") for n in (100, 400)],
    "efficiency": [partial(efficiency, case, n) for case in ("1c", "2a", "1e") for n in (400, 100)],
    "columns": [partial(columns, 200, s, share) for s, share in ((0.5, 0.9), (1.0, 0.85))],
    "no-kink": [no_kinks],
    "correlated": [partial(correlated, n) for n in (100, 400)],
    "smooth": [partial(smooth, curve) for curve in CURVES],
    "oblique": [oblique],
}

if __name__ == "__main__":
    sections: dict[str, Section] = {name: gather(*measures) for name, measures in MEASURES.items()}
    sections |= {"peers": peers, "drawn-peers": drawn_peers, "levels": levels, "column-peers": column_peers}
    folder = {"metavar": "FOLDER", "help": "packages of the peers, as pip install --target makes it"}
    run_sections("kinks", __doc__ or "", sections, peers=folder)
