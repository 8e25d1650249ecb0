"""Symmetric inputs: fewest samples, statistical efficiency, rates and conditioning.

thresholds   noiseless, orthonormal weights: share of seeds with error <= 1e-12
efficiency   noise 0.1 and 1, n = 10,000: mean squared error of W and A over the Cramér-Rao bound without biases
stages       the same ratio for the unrefined variants: what each step of the pipeline is worth
rate         error of the unrefined variants against n
conditioning condition number 50 of W or A, n = 20,000, mixture inputs, noiseless
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _table import Line, at_least, parse_options, report

import planted
from planted import Outcome, Recovery, TwoLayerNetwork, simulate
from planted.fitting._jacobian import information
from planted.moments import accumulate_normal
from planted.networks import match_units
from planted.rows import RowBlocks
from planted.simulate import Conditioned, Dataset

METHOD = "symmetric-inputs"
SOLVER = 10_000  # solver seeds stay away from data seeds
THRESHOLDS = {10: 60, 20: 200, 32: 500}
SHAPES = ((10, 10, 10), (10, 6, 10), (40, 8, 16), (32, 32, 32))
LAWS = ("gaussian", "mixture")
EXACT = 1e-12


def world(n: int, shape: tuple[int, int, int], seed: int, **options: Any) -> Dataset:
    d, k, m = shape
    options = {"hidden": "orthonormal", "outputs": "orthonormal"} | options
    return simulate.dataset(n, n_features=d, n_hidden=k, n_outputs=m, random_state=seed, **options)


def solve(data: Dataset, seed: int, n_hidden: int | str = "auto", **options: Any) -> tuple[Recovery, float]:
    answer = planted.recover(data.X, data.Y, n_hidden, method=METHOD, random_state=SOLVER + seed, **options)
    error = np.inf if answer.network is None else planted.parameter_error(answer.network, data.network)
    return answer, float(error)


def thresholds(seeds: int, first: int) -> tuple[list[Line], list[dict[str, Any]]]:
    lines, rows = [], []
    for size, n in THRESHOLDS.items():
        answers = [solve(world(n, (size, size, size), first + s), s) for s in range(seeds)]
        hits = sum(error <= EXACT for _, error in answers)
        certified = sum(answer.outcome is Outcome.RECOVERED for answer, _ in answers)
        false = sum(answer.outcome is Outcome.RECOVERED and error > 1e-9 for answer, error in answers)
        rows.append(
            {"part": "thresholds", "d": size, "n": n, "hits": hits, "certified": certified, "false": false}
        )
        note = f", {certified} certified, {false} falsely"
        lines.append(at_least(f"noiseless d=k=m={size}, n={n}, >= 95 %", hits, seeds, 0.95, note))
    return lines, rows


def squared_error(found: TwoLayerNetwork, truth: TwoLayerNetwork) -> float:
    """Sum of squared differences of W and A with unit rows of W and matched units."""
    matching = match_units(found, truth)
    net, true, order = matching.network, matching.truth, matching.permutation
    return float(((net.W[order] - true.W) ** 2).sum() + ((net.A[:, order] - true.A) ** 2).sum())


def bound(data: Dataset, noise: float) -> float:
    """The Cramér-Rao bound of that sum at the truth, on these inputs."""
    norms = np.linalg.norm(data.network.W, axis=1)
    truth = TwoLayerNetwork(data.network.W / norms[:, None], None, data.network.A * norms)
    sums = accumulate_normal(RowBlocks.from_arrays(data.X, data.Y), truth)
    variances = information(sums, truth, offset=False, biases=False).variances
    assert variances is not None
    return noise**2 * float(variances["W"].sum() + variances["A"].sum())


def efficiency(
    seeds: int, first: int, shapes: tuple[tuple[int, int, int], ...] = SHAPES
) -> tuple[list[Line], list[dict[str, Any]]]:
    lines, rows = [], []
    for noise, required in ((0.1, 1.1), (1.0, 1.2)):
        for shape in shapes:
            for law in LAWS:
                count = seeds if shape[1] < 30 else max(2, seeds // 5)
                errors, bounds, right = [], [], 0
                for seed in range(count):
                    data = world(10_000, shape, first + seed, law=law, noise=noise)
                    answer, _ = solve(data, seed)
                    right += answer.network is not None and answer.network.n_hidden == shape[1]
                    if answer.network is not None and answer.network.n_hidden == shape[1]:
                        errors.append(squared_error(answer.network, data.network))
                        bounds.append(bound(data, noise))
                ratio = float(np.sum(errors) / np.sum(bounds)) if errors else np.inf
                rows.append(
                    {"part": "efficiency", "shape": str(shape), "law": law, "noise": noise, "ratio": ratio,
                     "seeds": count, "right_k": right}
                )  # fmt: skip
                target = f"noise {noise:g} {shape} {law}: MSE / Cramér-Rao <= {required}"
                passed = ratio <= required and right == count
                lines.append(Line(target, f"{ratio:.3f}, k right {right}/{count}", passed))
    return lines, rows


def stages(seeds: int, first: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """What the unrefined variants reach at d = k = m = 10, n = 10,000, noise 0.1."""
    rows = []
    for variant in ("paper", "practical", "efficient"):
        errors, bounds = [], []
        for seed in range(seeds):
            data = world(10_000, (10, 10, 10), first + seed, noise=0.1)
            answer, _ = solve(data, seed, 10, variant=variant, refined=False)
            assert answer.network is not None
            errors.append(squared_error(answer.network, data.network))
            bounds.append(bound(data, 0.1))
        ratio = float(np.median(np.array(errors) / bounds))
        rows.append({"part": "stages", "variant": variant, "median_ratio": ratio, "seeds": seeds})
    found = {row["variant"]: row["median_ratio"] for row in rows}
    text = ", ".join(f"{name} {ratio:.3g}" for name, ratio in found.items())
    better = found["efficient"] * 20 <= found["paper"]
    return [Line("unrefined, median MSE / Cramér-Rao: efficient 20 times below paper", text, better)], rows


def rate(seeds: int, first: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """The median slope of log error against log n, with its standard error from the spread over seeds.

    Medians, because a single random pair of Jennrich's step is sometimes nearly degenerate.
    """
    lines, rows = [], []
    sizes = np.array([16_000, 64_000, 256_000])
    for variant in ("paper", "efficient"):
        slopes = []
        for seed in range(seeds):
            errors = []
            for n in sizes:
                data = world(int(n), (6, 4, 4), first + seed, noise=0.1)
                answer, _ = solve(data, seed, 4, variant=variant, refined=False)
                assert answer.network is not None
                errors.append(np.sqrt(squared_error(answer.network, data.network)))
            rows += [{"part": "rate", "variant": variant, "n": int(n), "seed": seed, "error": float(e)}
                     for n, e in zip(sizes, errors, strict=True)]  # fmt: skip
            slopes.append(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
        middle = float(np.median(slopes))
        error = 1.2533 * 1.4826 * float(np.median(np.abs(np.array(slopes) - middle))) / np.sqrt(seeds)
        passed = bool(abs(middle + 0.5) <= 3 * error and error < 0.1)
        lines.append(Line(f"slope of {variant}, unrefined: -1/2", f"{middle:.3f} ± {error:.3f}", passed))
    return lines, rows


def conditioning(seeds: int, first: int) -> tuple[list[Line], list[dict[str, Any]]]:
    lines, rows = [], []
    for layer in ("hidden", "outputs"):
        errors = []
        for seed in range(seeds):
            data = world(20_000, (10, 10, 10), first + seed, law="mixture", **{layer: Conditioned(50)})
            errors.append(solve(data, seed)[1])
        rows.append({"part": "conditioning", "layer": layer, "errors": errors})
        name = "W" if layer == "hidden" else "A"
        lines.append(
            Line(
                f"cond({name}) = 50: error <= 1e-10",
                f"largest {max(errors):.1e} of {seeds}",
                max(errors) <= 1e-10,
            )
        )
    return lines, rows


def main() -> None:
    options = parse_options(__doc__ or "")
    first, quick = options.seed, options.quick
    parts = (
        thresholds(5 if quick else 20, first),
        efficiency(2 if quick else 10, first, SHAPES[: 3 if quick else 4]),
        stages(3 if quick else 10, first),
        rate(5 if quick else 12, first),
        conditioning(2 if quick else 5, first),
    )
    lines = [line for part, _ in parts for line in part]
    report("symmetric", lines, [row for _, part in parts for row in part], options)


if __name__ == "__main__":
    main()
