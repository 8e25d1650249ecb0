"""Symmetric inputs with broken assumptions: every outcome has a name, and no wrong network may be called recovered.

A recovered network is wrong when its parameters are further from the truth than 1e-9 (noiseless) or six of its own
standard errors (noisy). With noise, two units closer than the angle that the evidence states look like one; merging such a
pair is counted apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _table import Line, parse_options, report
from symmetric import solve, world

from planted import Outcome, Recovery, TwoLayerNetwork
from planted.checks import Check
from planted.simulate import Dataset


def refusals(seeds: int, first: int) -> tuple[list[Line], list[dict[str, Any]]]:
    shape = (10, 6, 8)
    parallel: dict[str, Any] = {"hidden": "near-parallel"}
    few = {"outputs": "random"}
    cases: dict[str, tuple[Callable[[int, float], Dataset], int | str]] = {
        "exponential x": (lambda s, e: world(5000, shape, s, law="exponential", noise=e), "auto"),
        "shifted x": (lambda s, e: _shifted(world(5000, shape, s, noise=e)), "auto"),
        "dependent columns of A": (lambda s, e: _dependent(world(5000, shape, s, noise=e)), "auto"),
        "dependent columns of A, k given": (lambda s, e: _dependent(world(5000, shape, s, noise=e)), 6),
        "k one too large": (lambda s, e: world(5000, shape, s, noise=e), 7),
        "k one too small": (lambda s, e: world(5000, shape, s, noise=e), 5),
        "rows 5° apart": (lambda s, e: world(5000, shape, s, angle=5.0, noise=e, **parallel), "auto"),
        "rows 1° apart": (lambda s, e: world(5000, shape, s, angle=1.0, noise=e, **parallel), "auto"),
        "rows 1° apart, k given": (lambda s, e: world(5000, shape, s, angle=1.0, noise=e, **parallel), 6),
        "fewer outputs than units": (lambda s, e: world(5000, (10, 6, 4), s, noise=e, **few), 6),
        "fewer outputs, k unknown": (lambda s, e: world(5000, (10, 6, 4), s, noise=e, **few), "auto"),
        "biases": (lambda s, e: world(5000, shape, s, bias=(0.2, 0.6), noise=e), "auto"),
    }
    lines, rows = [], []
    for name, (make, k) in cases.items():
        for noise in (0.0, 0.1):
            outcomes: dict[str, int] = {}
            false = 0
            for seed in range(seeds):
                data = make(first + seed, noise)
                answer, error = solve(data, seed, k)
                label = answer.outcome.name
                if answer.outcome is Outcome.RECOVERED and error > _tolerance(answer, noise):
                    merged = _merged_below_resolution(answer, data.network)
                    label = (
                        "RECOVERED with pairs closer than the stated resolution merged" if merged else label
                    )
                    false += not merged
                outcomes[label] = outcomes.get(label, 0) + 1
            text = ", ".join(f"{key} {value}" for key, value in sorted(outcomes.items()))
            rows.append(
                {"part": "refusals", "case": name, "noise": noise, "false": false, "outcomes": outcomes}
            )
            lines.append(Line(f"{name}, noise {noise:g}: none falsely recovered", text, false == 0))
    return lines, rows


def _dependent(data: Dataset) -> Dataset:
    """Make the last column of A the sum of the two before it."""
    net = data.network
    A = net.A.copy()
    A[:, -1] = A[:, -2] + A[:, -3]
    net = TwoLayerNetwork(net.W, None, A)
    noise = data.Y - data.Y_clean
    return Dataset(data.X, net(data.X) + noise, net(data.X), net, data.law, data.noise)


def _shifted(data: Dataset) -> Dataset:
    X = data.X + 0.5
    clean = data.network(X)
    return Dataset(X, clean + data.Y - data.Y_clean, clean, data.network, data.law, data.noise)


def _tolerance(answer: Recovery, noise: float) -> float:
    """Six of its own largest standard errors: beyond, a recovered network is wrong."""
    errors = getattr(answer.uncertainty, "standard_errors", None)
    if noise == 0 or errors is None:
        return 1e-9
    return 6 * max(float(np.max(errors[name])) for name in "WA")


def _merged_below_resolution(answer: Recovery, truth: TwoLayerNetwork) -> bool:
    """Whether all that is missing are partners closer than the angle that the evidence says noise hides."""
    assert answer.network is not None
    stated = [line.measured for line in answer.find(Check.HIDDEN_ANGLE)]
    W = truth.W / np.linalg.norm(truth.W, axis=1, keepdims=True)
    angles = np.arccos(np.clip(W @ W.T, -1, 1))[np.triu_indices(len(W), 1)]
    hidden = int((angles < stated[0]).sum()) if stated else 0
    return answer.network.n_hidden + hidden == truth.n_hidden


def main() -> None:
    options = parse_options(__doc__ or "")
    lines, rows = refusals(2 if options.quick else 5, options.seed)
    report("symmetric_refusals", lines, rows, options)


if __name__ == "__main__":
    main()
