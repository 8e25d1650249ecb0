"""Noise of every kind: gross errors, heavy tails, signs of directions, and refusals where there is nothing to find.

    python benchmarks/noise.py [--quick] [--write]

Errors of W are the largest distance of a row from its match. Rivals in the same run: least squares (told k), and its
hidden layer with the output layer fitted again by scikit-learn's HuberRegressor. The scale of t and Cauchy noise is 0.25,
the outputs' root mean square is about 1.6; normal noise is 0.5.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from _table import Line, at_least, parse_options, report
from scipy.optimize import linear_sum_assignment

import planted
from planted import RowBlocks, TwoLayerNetwork, simulate
from planted.fitting.units._direction_signs import orient_directions
from planted.fitting.units._hermite_directions import hermite_directions
from planted.simulate import CauchyNoise, GaussianNoise, SparseNoise, StudentTNoise

SHAPE = {"n_features": 10, "n_hidden": 5, "activity": (0.3, 0.7)}
NOISES = {"t2": StudentTNoise(2, 0.25), "Cauchy": CauchyNoise(0.25), "normal": GaussianNoise(0.5)}
CLAIMS: list[dict[str, Any]] = []


def main() -> None:
    options = parse_options(__doc__.splitlines()[0])
    many, few = (5, 1) if options.quick else (50, 5)
    lines: list[Line] = []
    rows: list[dict[str, Any]] = []
    for study in (gross_errors, refusals, heavy_tails, signs, streaming):
        seeds = range(options.seed, options.seed + (many if study is signs else 2 * few))
        if study is heavy_tails:
            seeds = range(options.seed, options.seed + few)
        more, measured = study(seeds, options.quick)
        lines, rows = lines + more, rows + measured
    wrong = sum(row["is_wrong"] for row in CLAIMS)
    lines.append(Line("RECOVERED on a wrong network: never", f"{wrong} of {len(CLAIMS)} claims", wrong == 0))
    report("noise", lines, rows, options)


def gross_errors(seeds: range, quick: bool) -> tuple[list[Line], list[dict[str, Any]]]:
    """T13: m = 50, k = 5, n = 2,000; k is not told."""
    lines, rows = [], []
    for share, amplitude in ((0.35, 100.0), (0.2, 1.0)):
        hits, flags = 0, 0
        for seed in seeds:
            data = simulate.dataset(
                2000, n_outputs=50, noise=SparseNoise(share, amplitude), random_state=seed, **SHAPE
            )
            recovery = planted.recover(data.X, data.Y, method="gross-errors", random_state=seed)
            error = claim(recovery, data.network, tol=1e-6)
            hits += error <= 1e-10
            if recovery.network is not None:
                mask = planted.outliers(recovery.network, data.X, data.Y).mask()
                flags += int((mask != (data.Y_clean != data.Y)).sum())
            rows.append({"study": "gross errors", "share": share, "amplitude": amplitude, "error": error})
        target = f"{share:.0%} wrong at amplitude {amplitude:g}: exact, every flag right"
        line = at_least(target, hits, len(seeds), 1.0, f", {flags} flags missed or false")
        lines.append(Line(line.target, line.measured, line.passed and flags == 0))
    return lines, rows


def refusals(seeds: range, quick: bool) -> tuple[list[Line], list[dict[str, Any]]]:
    """Half of the labels wrong, as many units as outputs, a unit that one output alone sees."""
    kinds: dict[str, Callable[[int], tuple[simulate.Dataset, int | str]]] = {
        "55 % of the labels wrong": lambda seed: (_sparse(seed, 50, 0.55), 5),
        "as many units as outputs": lambda seed: (_sparse(seed, 5, 0.1), "auto"),
        "a unit that one output alone sees": lambda seed: (_coherent(seed), "auto" if seed % 2 else 5),
    }
    lines, rows = [], []
    for name, draw in kinds.items():
        outcomes = []
        for seed in seeds:
            data, k = draw(seed)
            recovery = planted.recover(data.X, data.Y, k, method="gross-errors", random_state=seed)
            claim(recovery, data.network, tol=1e-6)
            outcomes.append(recovery.outcome.name)
        refused = sum(outcome in ("ASSUMPTION_FAILED", "NOT_IDENTIFIABLE") for outcome in outcomes)
        lines.append(at_least(f"{name}: refused by name", refused, len(seeds), 1.0))
        rows.append({"study": "refusals", "kind": name, "outcomes": outcomes})
    return lines, rows


def _sparse(seed: int, m: int, share: float) -> simulate.Dataset:
    return simulate.dataset(2000, n_outputs=m, noise=SparseNoise(share, 10.0), random_state=seed, **SHAPE)


def _coherent(seed: int) -> simulate.Dataset:
    net = simulate.teacher(10, 5, 20, activity=(0.3, 0.7), random_state=seed)
    A = net.A.copy()
    A[:, 0], A[3, 0] = 0.0, 2.0
    net = TwoLayerNetwork(net.W, net.b, A)
    return simulate.dataset(2000, net, noise=SparseNoise(0.1, 10.0), random_state=seed)


def heavy_tails(seeds: range, quick: bool) -> tuple[list[Line], list[dict[str, Any]]]:
    """T14 and the price of safety, (10, 5, 8)."""
    lines, rows = [], []
    for n in (2000,) if quick else (2000, 20_000):
        for name, noise in NOISES.items():
            errors: dict[str, list[float]] = {"half-spaces": [], "least squares": [], "Huber refit": []}
            losses = []
            for seed in seeds[: 3 if n > 2000 else None]:
                data = simulate.dataset(n, n_outputs=8, noise=noise, random_state=seed, **SHAPE)
                recovery = planted.recover(data.X, data.Y, method="half-spaces", random_state=seed)
                claim(recovery, data.network, sigmas=6.0)
                plain = planted.recover(
                    data.X, data.Y, 5, method="complementarity", noise="present", random_state=seed
                )
                losses.append(str(recovery.stats.get("loss")))
                errors["half-spaces"].append(row_error(recovery.network, data.network))
                errors["least squares"].append(row_error(plain.network, data.network))
                refit = huber_refit(plain.network, data.X, data.Y)
                errors["Huber refit"].append(prediction_error(refit, data))
                rows.append(
                    {
                        "study": name,
                        "n": n,
                        "seed": seed,
                        "outcome": recovery.outcome.name,
                        "loss": losses[-1],
                    }
                    | {key: values[-1] for key, values in errors.items()}
                    | {"half-spaces predicts": prediction_error(recovery.network, data)}
                )
            lines += tail_lines(n, name, errors, losses)
    return lines, rows


def tail_lines(n: int, name: str, errors: dict[str, list[float]], losses: list[str]) -> list[Line]:
    ours, plain = (np.array(errors[key]) for key in ("half-spaces", "least squares"))
    ratio = float(np.median(ours) / np.median(plain))
    used = "/".join(sorted(set(losses)))
    most = {"Cauchy": 0.2, "t2": 1.0, "normal": 1.15}[name]
    text = f"{name} noise, n = {n:,}: error of W over least squares at most {most:g}"
    lines = [
        Line(
            text, f"{ratio:.3f} ({np.median(ours):.4f} / {np.median(plain):.4f}; loss {used})", ratio <= most
        )
    ]
    if name == "Cauchy" and n == 20_000:
        worst = float(ours.max())
        lines.append(
            Line(
                "Cauchy noise, n = 20,000, (10, 5, 8): largest error of a row of W <= 0.015",
                f"{worst:.4f}",
                worst <= 0.015,
            )
        )
    return lines


def signs(seeds: range, quick: bool) -> tuple[list[Line], list[dict[str, Any]]]:
    """Signs of directions at noise of half the outputs' root mean square, n = 5,000."""
    lines, rows = [], []
    for d, k, m in ((10, 5, 5), (20, 10, 15)):
        hits = {"directions 10 % off": 0, "second-order directions": 0}
        for seed in seeds:
            data = simulate.dataset(5000, n_features=d, n_hidden=k, n_outputs=m, random_state=seed)
            rng = np.random.default_rng([seed, 1])
            Y = data.Y + 0.5 * np.sqrt((data.Y**2).mean()) * rng.standard_normal(data.Y.shape)
            W = data.network.W
            given = (W + 0.1 * rng.standard_normal(W.shape) / np.sqrt(d)) * rng.choice([-1.0, 1.0], (k, 1))
            found = orient_directions(data.X, Y, given).W
            hits["directions 10 % off"] += bool(((found * W).sum(axis=1) > 0).all())
            spectral = hermite_directions(data.X, Y, k, rng=rng)
            mine, theirs = linear_sum_assignment(-np.abs(spectral @ W.T))
            found = orient_directions(data.X, Y, spectral).W
            hits["second-order directions"] += bool(((found[mine] * W[theirs]).sum(axis=1) > 0).all())
        for name, count in hits.items():
            target = f"signs at noise 0.5 rms, n = 5,000, ({d}, {k}, {m}), {name}: all right"
            lines.append(at_least(target, count, len(seeds), 1.0))
        rows.append({"study": "signs", "shape": [d, k, m], **hits})
    return lines, rows


def streaming(seeds: range, quick: bool) -> tuple[list[Line], list[dict[str, Any]]]:
    """A million rows of 50 outputs, 20 % wrong at amplitude 1, never in memory."""
    n_blocks, step = (5 if quick else 50), 20_000
    net = simulate.teacher(10, 5, 50, activity=(0.3, 0.7), random_state=seeds[0])

    def block(index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng([seeds[0], 7, index])
        X = rng.standard_normal((step, 10))
        wrong = rng.random((step, 50)) < 0.2
        return X, net(X) + np.where(wrong, rng.standard_normal((step, 50)), 0.0), wrong

    def rows() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for index in range(n_blocks):
            X, Y, _ = block(index)
            yield X, Y

    started = perf_counter()
    recovery = planted.recover(RowBlocks(rows), None, "auto", method="gross-errors", random_state=seeds[0])
    error = claim(recovery, net, tol=1e-6)
    mistakes = n_blocks * step * 50
    if recovery.network is not None:
        mask = planted.outliers(recovery.network, RowBlocks(rows)).mask()
        mistakes = sum(int((mask[i * step : (i + 1) * step] != block(i)[2]).sum()) for i in range(n_blocks))
    seconds, peak = perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    n = n_blocks * step
    line = Line(
        f"{n:,} rows × 50 outputs, 20 % wrong: streaming, no flag missed or false, at most 2 GB",
        f"{mistakes} mistakes, {peak:.2f} GB, error {error:.1e}",
        mistakes == 0 and peak <= 2 and error <= 1e-10,
    )
    row = {
        "study": "streaming",
        "n": n,
        "seconds": seconds,
        "peak_gb": peak,
        "error": error,
        "mistakes": mistakes,
    }
    return [line], [row]


def claim(recovery: Any, truth: TwoLayerNetwork, *, tol: float = 0.0, sigmas: float = 0.0) -> float:
    """Return the parameter error; note whether a claim was right, exactly or within standard errors."""
    if recovery.network is None:
        return float("inf")
    error = float(planted.parameter_error(recovery.network, truth))
    if recovery.outcome.name == "RECOVERED":
        limit = tol
        if sigmas and isinstance(recovery.uncertainty, planted.Uncertainty):
            limit = sigmas * max(float(v.max()) for v in recovery.uncertainty.standard_errors.values())
        CLAIMS.append({"is_wrong": not error <= limit})
    return error


def row_error(network: TwoLayerNetwork | None, truth: TwoLayerNetwork) -> float:
    if network is None or network.n_hidden != truth.n_hidden:
        return float("inf")
    W, W_true = (net.W / np.linalg.norm(net.W, axis=1, keepdims=True) for net in (network, truth))
    distance = np.linalg.norm(W[:, None] - W_true[None], axis=2)
    mine, theirs = linear_sum_assignment(distance)
    return float(distance[mine, theirs].max())


def prediction_error(network: TwoLayerNetwork | None, data: simulate.Dataset) -> float:
    if network is None:
        return float("inf")
    return float(np.sqrt(((network(data.X) - data.Y_clean) ** 2).mean()))


def huber_refit(network: TwoLayerNetwork, X: np.ndarray, Y: np.ndarray) -> TwoLayerNetwork:
    """Keep the hidden layer of least squares, fit the output layer by scikit-learn's HuberRegressor."""
    from sklearn.linear_model import HuberRegressor

    H = network.activation(network.preactivations(X))
    fits = [HuberRegressor(alpha=0.0, max_iter=500).fit(H, y) for y in Y.T]
    return TwoLayerNetwork(network.W, network.b, [f.coef_ for f in fits], [f.intercept_ for f in fits])


if __name__ == "__main__":
    main()
