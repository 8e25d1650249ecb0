"""Figures 2 to 4 of [GKLW19]_, the number in its text, and its smoothed analysis, with three variants side by side.

The error is the paper's: squared distance of matched rows of W and columns of A, both of unit norm, and the mean squared
error on fresh samples of the same law (noise included, where there is some). Every method is told k, as in the paper.
The paper's variants run Algorithm 2 on noiseless and Algorithm 3 on noisy data. ``practical`` is the pipeline of the paper's
own experiments, and the verdicts are about it, or about ``paper`` where the text speaks of the original formulation.

Claims are told in medians over the trials. The error of Algorithm 2 has a heavy tail: it is about the inverse square of
the smallest gap between quotients of a random pair, and gaps below ε have a probability proportional to ε. On one data set
2,000 pairs had a median of 0.05, a mean of 0.18, and a quarter of them more than four times the median. Alternating least
squares fails in a trial when all ten runs end in a swamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from planted._typing import Array
from planted.diagnostics import augmented_matrix
from planted.networks import TwoLayerNetwork, gklw_error, parameter_error
from planted.recovery import recover
from planted.reproduce._study import Axes, Claim, Study, StudyOptions
from planted.simulate import (
    Conditioned,
    Dataset,
    Gaussian,
    InputLaw,
    Smoothed,
    dataset,
    perturb_teacher,
    teacher,
)

__all__ = ["FIGURES"]

VARIANTS = ("paper", "practical", "efficient")
TRIALS, QUICK_TRIALS = 5, 2
TEST_ROWS = 5000
SOLVER_SEED, TEST_SEED = 1_000_000, 2_000_000  # added to the seed of the data
SMALL = 0.25  # squared distance for each unit that is called small: unit vectors 30 degrees apart
LOW = 0.05  # mean squared error that is called low: the outputs have variance one half
CLOSE, NOTHING = 0.1, 10.0  # error of a recovered network, and what counts for no network
NEAR = 2.0  # factor within which a number is "about" another
STEADY = 2.0  # factor within which a number that "stays as it is" may move
Row = dict[str, Any]


def _figure_2(options: StudyOptions) -> Study:
    """Error against the number of samples and against the dimension."""
    quick = options.quick
    small = (500, 10_000) if quick else (250, 500, 1000, 2500, 5000, 10_000)
    large = (2500,) if quick else (2500, 5000, 10_000)
    sizes = (10, 12) if quick else (10, 16, 22, 32)
    cases = [
        *(("10 x 10", {"size": 10, "n": n}) for n in small),
        *((("12 x 12", {"size": 12, "n": n}) if quick else ("32 x 32", {"size": 32, "n": n})) for n in large),
        *(("dimension", {"size": size, "n": 10_000}) for size in sizes),
    ]
    rows = _run_cases(options, cases)
    for row in rows:
        row["root_per_dimension"] = float(np.sqrt(row["error"]) / row["size"])
    centre, side = ("12 x 12", 12) if quick else ("32 x 32", 32)
    panels = (
        _panel("10 x 10", "n", log_x=True),
        _panel(centre, "n", log_x=True),
        _panel("dimension", "size", y="root_per_dimension"),
    )
    roots = {
        variant: [float(np.sqrt(_median(rows, "dimension", "size", d, variant, "A"))) / d for d in sizes]
        for variant in VARIANTS
    }
    is_small = _median(rows, "10 x 10", "n", 10_000, "practical", "A") < SMALL * 10
    large_too = _median(rows, centre, "n", large[-1], "practical", "A") < SMALL * side
    claims = [
        Claim(
            "A few samples for every parameter are enough for a small error (10 x 10)",
            _sentence(rows, "10 x 10", "n", 10_000, "A"),
            options.verdict(is_small),
        ),
        Claim(
            f"The same at 32 x 32 (here {centre})",
            _sentence(rows, centre, "n", large[-1], "A"),
            options.verdict(large_too),
        ),
        Claim(
            f"The root of the error divided by the dimension stays as it is from 10 to 32 (here {sizes[-1]})",
            "; ".join(
                f"{name} " + ", ".join(f"{root:.2g}" for root in found) for name, found in roots.items()
            ),
            options.verdict(max(roots["practical"]) < STEADY * min(roots["practical"])),
        ),
    ]
    title = "Random orthonormal weights, normal inputs, no noise"
    return Study("symmetric-inputs-figure-2", title, rows, panels, claims)


def _figure_3(options: StudyOptions) -> Study:
    """Error against the level of the noise."""
    levels = (0.1, 1.0) if options.quick else (0.05, 0.1, 0.2, 0.5, 1.0)
    n = 4000 if options.quick else 10_000
    cases = [
        (law, {"size": 10, "n": n, "law": law, "noise": level})
        for law in ("gaussian", "mixture")
        for level in levels
    ]
    rows = _run_cases(options, cases)
    panels = tuple(_panel(law, "noise", log_x=True) for law in ("gaussian", "mixture"))
    claims = [
        Claim(
            f"The mean squared error follows the noise, {law} inputs",
            "mean squared error over noise variance: "
            + "; ".join(
                f"{variant} "
                + ", ".join(f"{_median(rows, law, 'noise', s, variant, 'MSE') / s**2:.3g}" for s in levels)
                for variant in VARIANTS
            )
            + f"; {_sentence(rows, law, 'noise', levels[-1], 'A')}",
            options.verdict(
                all(_median(rows, law, "noise", s, "practical", "MSE") < STEADY * s**2 for s in levels)
            ),
        )
        for law in ("gaussian", "mixture")
    ]
    title = f"Label noise, 10 x 10, n = {n}"
    return Study("symmetric-inputs-figure-3", title, rows, panels, claims)


def _figure_4(options: StudyOptions) -> Study:
    """Error against the condition number of W or of A."""
    conditions = (1.0, 50.0) if options.quick else (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
    n = 8000 if options.quick else 20_000
    cases = [
        (layer, {"size": 10, "n": n, "law": "mixture", "condition": condition, "layer": layer})
        for layer in ("W", "A")
        for condition in conditions
    ]
    rows = _run_cases(options, cases)
    panels = tuple(_panel(layer, "condition", log_x=True) for layer in ("W", "A"))
    claims = [
        Claim(
            f"Steady while {layer} is well conditioned, fluctuating later; condition 50",
            _sentence(rows, layer, "condition", 50.0, layer),
            options.verdict(_median(rows, layer, "condition", 1.0, "practical", layer) < SMALL * 10),
        )
        for layer in ("W", "A")
    ] + [
        Claim(
            f"The mean squared error stays low; condition of {layer} 50",
            _sentence(rows, layer, "condition", 50.0, "MSE"),
            options.verdict(_median(rows, layer, "condition", 50.0, "practical", "MSE") < LOW),
        )
        for layer in ("W", "A")
    ]
    title = f"Condition number of one layer, mixture inputs, n = {n}, no noise"
    return Study("symmetric-inputs-figure-4", title, rows, panels, claims)


def _text(options: StudyOptions) -> Study:
    """The original formulation at n = 10,000, 10 × 10: an error of about 0.15 in A and W over ten trials."""
    trials = 3 if options.quick else 10
    rows = _run_cases(options, [("plain", {"size": 10, "n": 10_000})], trials=trials)
    panels = (_panel("plain", "trial"),)
    found = {
        quantity: _values(rows, "plain", "n", 10_000, "paper", quantity) for quantity in ("A", "W", "MSE")
    }
    near = [np.median(found[layer]) / NEAR < 0.15 < NEAR * found[layer].mean() for layer in "AW"]
    claims = [
        Claim(
            "original formulation: error about 0.15 in A and in W on average",
            "; ".join(
                f"{layer}: median {np.median(found[layer]):.3g}, mean {found[layer].mean():.3g}, largest "
                f"{found[layer].max():.3g}"
                for layer in "AW"
            ),
            options.verdict(all(near)),
        ),
        Claim(
            "original formulation: test error close to zero",
            f"median {np.median(found['MSE']):.3g}, largest {found['MSE'].max():.3g}; Section 4 on the same data "
            f"{_median(rows, 'plain', 'n', 10_000, 'practical', 'MSE'):.2g}",
            options.verdict(bool(np.median(found["MSE"]) < LOW)),
        ),
    ]
    title = f"10 x 10, n = 10,000, no noise, {trials} trials"
    return Study("symmetric-inputs-text", title, rows, panels, claims)


def _smoothed(options: StudyOptions) -> Study:
    """Perturbed networks recovered (Theorem 3), and σ_min(M) after perturbing W (Theorem 9) or the law (Theorem 10)."""
    scales = (0.0, 0.01, 0.03, 0.1, 0.3)
    trials = QUICK_TRIALS if options.quick else TRIALS
    rows: list[Row] = []
    for trial in range(trials):
        seed = options.seed + trial
        network = teacher(15, 3, 3, hidden="near-parallel", angle=1e-6, random_state=seed)
        for scale in scales:
            W = perturb_teacher(network, scale, random_state=seed).W
            rows.append(_smoothed_row("W + rho E", scale, trial, W, Gaussian(15)))
        plain = teacher(21, 3, 3, hidden="orthonormal", random_state=seed).W
        law = _Line(21, plain[0] - plain[1])
        Q = np.random.default_rng([TEST_SEED, seed]).standard_normal((21, 21))
        for scale in scales:
            rows.append(_smoothed_row("(Q, lambda)", scale, trial, plain, Smoothed(law, lam=scale, matrix=Q)))
        rows += [_perturbed_row(scale, seed) for scale in scales]
        options.progress(f"trial {trial + 1}", (trial + 1) / trials)
    panels = (
        *(Axes(part, "perturbation", "sigma_min", "part", where={"part": part}) for part in _PARTS),
        Axes(_END_TO_END, "perturbation", "error", "part", where={"part": _END_TO_END}),
    )
    claims = [
        Claim(
            f"{_PARTS[part]}: σ_min(M) is bounded away from zero after perturbation",
            ", ".join(f"{_smoothed_mean(rows, part, s):.2g} at {s:g}" for s in scales),
            options.verdict(
                _smoothed_mean(rows, part, 0.0)
                < 1e-9
                < min(_smoothed_mean(rows, part, s) for s in scales[1:])
            ),
        )
        for part in _PARTS
    ]
    errors = {
        scale: max(row["error"] for row in rows if (row["part"], row["perturbation"]) == (_END_TO_END, scale))
        for scale in scales
    }
    claims.append(
        Claim(
            "Theorem 3, A and W perturbed by ρ, two rows of each equal before: the network is recovered",
            "largest error of an entry, spectral answer of the efficient variant, n = 20,000: "
            + ", ".join(f"{error:.2g} at {scale:g}" for scale, error in errors.items()),
            options.verdict(errors[scales[-1]] < CLOSE < errors[0.0]),
        )
    )
    title = (
        "Smallest singular value of the augmented distinguishing matrix, and recovery after a perturbation"
    )
    return Study("symmetric-inputs-smoothed", title, rows, panels, claims)


_END_TO_END = "A + rho E, W + rho E"
_PARTS = {
    "W + rho E": "Theorem 9, normal inputs, d = 15, two rows of W a millionth of a degree apart",
    "(Q, lambda)": "Theorem 10, d = 21, inputs on one line",
}
FIGURES: dict[str, Callable[[StudyOptions], Study]] = {
    "2": _figure_2,
    "3": _figure_3,
    "4": _figure_4,
    "text": _text,
    "smoothed": _smoothed,
}


class _Line:
    """Inputs on one line: the most degenerate symmetric law that is not a point."""

    def __init__(self, n_features: int, direction: Any) -> None:
        self.n_features = n_features
        self._direction = np.asarray(direction)

    def sample(self, n: int, rng: np.random.Generator) -> Any:
        """Return n rows."""
        return rng.standard_normal((n, 1)) * self._direction


def _run_cases(
    options: StudyOptions, cases: Sequence[tuple[str, Row]], *, trials: int | None = None
) -> list[Row]:
    """Run every variant on every case and trial; three rows (W, A, MSE) for each. A case of two panels is run once."""
    trials = trials or (QUICK_TRIALS if options.quick else TRIALS)
    rows: list[Row] = []
    known: dict[tuple[Any, ...], list[Row]] = {}
    total, done = len(cases) * trials, 0
    for panel, case in cases:
        for trial in range(trials):
            key = (trial, *sorted(case.items()))
            if key not in known:
                seed = options.seed + trial
                data, test = _world(case, seed)
                known[key] = [
                    row
                    for variant in VARIANTS
                    for row in _measured(case, trial, variant, _answer(data, variant, case, seed), data, test)
                ]
            rows += [{"panel": panel} | row for row in known[key]]
            done += 1
            options.progress(f"{panel}: {case}", done / total)
    return rows


def _world(case: Row, seed: int) -> tuple[Dataset, Dataset]:
    size = case["size"]
    layers: dict[str, Any] = {"hidden": "orthonormal", "outputs": "orthonormal"}
    if case.get("condition", 1.0) > 1.0:
        layers["hidden" if case["layer"] == "W" else "outputs"] = Conditioned(case["condition"])
    shape: Row = dict.fromkeys(("n_features", "n_hidden", "n_outputs"), size)
    world: Row = {"law": case.get("law", "gaussian"), "noise": case.get("noise", 0.0)}
    data = dataset(case["n"], random_state=seed, **shape, **world, **layers)
    return data, dataset(TEST_ROWS, data.network, random_state=TEST_SEED + seed, **world)


def _answer(data: Dataset, variant: str, case: Row, seed: int) -> TwoLayerNetwork | None:
    noise = "present" if case.get("noise") else ("auto" if variant == "efficient" else "none")
    options: Row = {"method": "symmetric-inputs", "variant": variant, "noise": noise}
    answer = recover(data.X, data.Y, case["size"], random_state=SOLVER_SEED + seed, **options)
    network: TwoLayerNetwork | None = answer.network
    return network


def _measured(
    case: Row, trial: int, variant: str, network: TwoLayerNetwork | None, data: Dataset, test: Dataset
) -> Iterable[Row]:
    """Return the rows of one answer; no answer counts with the error of the zero network."""
    if network is None:
        errors = {"W": 2.0 * case["size"], "A": 2.0 * case["size"], "MSE": float((test.Y**2).mean())}
    else:
        distance = gklw_error(network, data.network)
        errors = {"W": distance.W, "A": distance.A, "MSE": float(((network(test.X) - test.Y) ** 2).mean())}
    base = {"size": case["size"], "n": case["n"], "noise": case.get("noise", 0.0)}
    base |= {"condition": case.get("condition", 1.0), "trial": trial, "variant": variant}
    return [
        base | {"quantity": name, "series": f"{name} ({variant})", "error": value}
        for name, value in errors.items()
    ]


def _panel(name: str, x: str, *, y: str = "error", log_x: bool = False) -> Axes:
    return Axes(name, x, y, "series", log_x=log_x, where={"panel": name})


def _values(rows: Sequence[Row], panel: str, x: str, at: float, variant: str, quantity: str) -> Array:
    names, wanted = ("panel", x, "variant", "quantity"), (panel, at, variant, quantity)
    return np.array([row["error"] for row in rows if tuple(row[name] for name in names) == wanted])


def _median(rows: Sequence[Row], panel: str, x: str, at: float, variant: str, quantity: str) -> float:
    return float(np.median(_values(rows, panel, x, at, variant, quantity)))


def _sentence(rows: Sequence[Row], panel: str, x: str, at: float, quantity: str) -> str:
    parts = []
    for name in VARIANTS:
        found = _values(rows, panel, x, at, name, quantity)
        parts.append(f"{name} {np.median(found):.2g} (largest {found.max():.2g})")
    label = "mean squared error" if quantity == "MSE" else f"error of {quantity}"
    return f"median {label} at {x} = {at:g}: " + ", ".join(parts)


def _perturbed_row(scale: float, seed: int) -> Row:
    """Perturb both layers of a degenerate network and recover it from samples, without refinement."""
    plain = teacher(8, 3, 3, hidden="orthonormal", outputs="orthonormal", random_state=seed)
    rng = np.random.default_rng([TEST_SEED, seed, 3])
    W, A = plain.W.copy(), plain.A.copy()
    W[1], A[:, 1] = W[0], A[:, 0]
    moved = TwoLayerNetwork(
        W + scale * rng.standard_normal(W.shape), None, A + scale * rng.standard_normal(A.shape)
    )
    data = dataset(20_000, moved, random_state=seed)
    answer = recover(
        data.X, data.Y, 3, method="symmetric-inputs", refined=False, random_state=SOLVER_SEED + seed
    ).network
    error = NOTHING if answer is None else min(float(parameter_error(answer, moved)), NOTHING)
    nothing = {"sigma_min": float("nan")}
    return {"part": _END_TO_END, "perturbation": scale, "trial": seed, **nothing, "error": error}


def _smoothed_row(part: str, scale: float, trial: int, W: Any, law: InputLaw) -> Row:
    M = augmented_matrix(W, law, n_samples=20_000, random_state=TEST_SEED + trial)
    smallest = float(np.linalg.svd(M, compute_uv=False)[-1])
    nothing = {"error": float("nan")}
    return {"part": part, "perturbation": scale, "trial": trial, "sigma_min": smallest} | nothing


def _smoothed_mean(rows: Sequence[Row], part: str, scale: float) -> float:
    return float(
        np.mean([row["sigma_min"] for row in rows if (row["part"], row["perturbation"]) == (part, scale)])
    )
