"""Do 95 % intervals cover the truth in 93 to 97 of 100 cases, whatever the noise?

    python benchmarks/coverage.py [--quick] [--write]

Every fit has noise of its own on the same network, (d, k, m) = (4, 3, 3) with biases, n = 2,000. The network is
refined from the truth, so that intervals are judged and not the search, and `planted.standard_errors` gives the
intervals: estimate ± 1.96 standard errors. Coverage is the share of them, over all parameters and fits, that hold the
true value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _table import Line, parse_options, report

import planted
from planted import RowBlocks, TwoLayerNetwork, simulate
from planted.fitting._losses import fit_with_loss
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem
from planted.simulate import GaussianNoise, HeteroscedasticNoise, Noise, StudentTNoise

N_ROWS, N_FITS = 2000, 400
CASES: dict[str, tuple[Noise, str, str]] = {
    "normal noise": (GaussianNoise(0.3), "squared", "sandwich"),
    "normal noise, model errors": (GaussianNoise(0.3), "squared", "model"),
    "t5 noise": (StudentTNoise(5, 0.3), "squared", "sandwich"),
    "t5 noise, huber loss": (StudentTNoise(5, 0.3), "huber", "sandwich"),
    "heteroscedastic noise": (HeteroscedasticNoise(0.2, 1.0), "squared", "sandwich"),
}


def main() -> None:
    options = parse_options(__doc__.splitlines()[0])
    fits = N_FITS // 10 if options.quick else N_FITS
    lines, rows = [], []
    for name, (noise, loss, kind) in CASES.items():
        covered = np.array(
            [covers(noise, loss, kind, seed) for seed in range(options.seed, options.seed + fits)]
        )
        share = float(covered.mean())
        text = f"{name}: 95 % intervals cover 93 to 97 % ({fits} fits)"
        lines.append(Line(text, f"{share:.2%}", 0.93 <= share <= 0.97))
        rows.append({"case": name, "loss": loss, "kind": kind, "fits": fits, "coverage": share})
    report("coverage", lines, rows, options)


def covers(noise: Noise, loss: str, kind: str, seed: int) -> np.ndarray:
    """Return for every parameter whether its interval holds the truth."""
    net = simulate.teacher(4, 3, 3, activity=(0.3, 0.7), random_state=1)
    data = simulate.dataset(N_ROWS, net, noise=noise, random_state=seed)
    fitted = fit(net, data, loss)
    errors: Any = planted.standard_errors(fitted, data.X, data.Y, kind=kind, loss=loss, random_state=seed)
    inside = [
        np.abs(getattr(fitted, name) - getattr(net, name)) <= 1.96 * errors.standard_errors[name]
        for name in ("W", "b", "A")
    ]
    return np.concatenate([part.ravel() for part in inside])


def fit(net: TwoLayerNetwork, data: simulate.Dataset, loss: str) -> TwoLayerNetwork:
    """Refine from the truth; units keep their order."""
    blocks = RowBlocks.from_arrays(data.X, data.Y)
    if loss == "squared":
        return refine(blocks, net, offset=False).network
    problem = prepare_problem(blocks, random_state=0)
    start = problem.scaling.standardise(net)
    return problem.scaling.restore(fit_with_loss(problem, start, offset=False, loss=loss)[0].network)


if __name__ == "__main__":
    main()
