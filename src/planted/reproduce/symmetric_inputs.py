"""Figures 2 to 4 of [GKLW19]_, the number in its text, and its smoothed analysis, with three variants side by side.

The error is the paper's: squared distance of matched rows of W and columns of A, both of unit norm, and the mean squared
error on fresh samples of the same law (noise included, where there is some). Every method is told k, as in the paper.
The paper's variants run Algorithm 2 on noiseless and Algorithm 3 on noisy data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from planted.diagnostics import augmented_matrix
from planted.networks import TwoLayerNetwork, gklw_error
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
Row = dict[str, Any]


def _figure_2(options: StudyOptions) -> Study:
    """Error against the number of samples and against the dimension."""
    quick = options.quick
    small = (500, 2000, 10_000) if quick else (250, 500, 1000, 2500, 5000, 10_000)
    large = (2500,) if quick else (2500, 5000, 10_000)
    sizes = (10, 14) if quick else (10, 16, 22, 32)
    cases = [
        *(("10 x 10", {"size": 10, "n": n}) for n in small),
        *((("20 x 20", {"size": 20, "n": n}) if quick else ("32 x 32", {"size": 32, "n": n})) for n in large),
        *(("dimension", {"size": size, "n": 10_000}) for size in sizes),
    ]
    rows = _run_cases(options, cases)
    for row in rows:
        row["root_per_dimension"] = float(np.sqrt(row["error"]) / row["size"])
    centre = "20 x 20" if quick else "32 x 32"
    panels = (
        _panel("10 x 10", "n", log_x=True),
        _panel(centre, "n", log_x=True),
        _panel("dimension", "size", y="root_per_dimension"),
    )
    claims = [
        Claim(
            "A few samples for every parameter are enough for a small error (10 x 10)",
            _sentence(rows, "10 x 10", "n", 10_000, "A"),
        ),
        Claim(f"The same at 32 x 32 (here {centre})", _sentence(rows, centre, "n", large[-1], "A")),
        Claim(
            "The root of the error divided by the dimension stays as it is from 10 to 32",
            "; ".join(_trend(rows, variant, sizes) for variant in VARIANTS),
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
                + ", ".join(f"{_mean(rows, law, 'noise', s, variant, 'MSE') / s**2:.3g}" for s in levels)
                for variant in VARIANTS
            ),
        )
        for law in ("gaussian", "mixture")
    ]
    claims += [
        Claim(f"Error of A, {law} inputs, noise {level:g}", _sentence(rows, law, "noise", level, "A"))
        for law in ("gaussian", "mixture")
        for level in (0.1, 1.0)
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
        )
        for layer in ("W", "A")
    ] + [
        Claim(
            f"The mean squared error stays low; condition of {layer} 50",
            _sentence(rows, layer, "condition", 50.0, "MSE"),
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
    claims = [
        Claim(
            "original formulation: error about 0.15 in A and in W on average, test error close to zero",
            "; ".join(
                f"{quantity} {_mean(rows, 'plain', 'n', 10_000, 'paper', quantity):.3g}"
                for quantity in ("A", "W", "MSE")
            ),
        ),
        *(
            Claim(f"(the {variant} variant on the same data)", _sentence(rows, "plain", "n", 10_000, "A"))
            for variant in ("efficient",)
        ),
    ]
    title = f"10 x 10, n = 10,000, no noise, {trials} trials"
    return Study("symmetric-inputs-text", title, rows, panels, claims)


def _smoothed(options: StudyOptions) -> Study:
    """The smallest singular value of M before and after perturbing W (Theorem 9) or the input law (Theorem 10)."""
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
    panels = tuple(Axes(part, "perturbation", "sigma_min", "part", where={"part": part}) for part in _PARTS)
    claims = [
        Claim(
            f"{_PARTS[part]}: σ_min(M) is bounded away from zero after perturbation",
            ", ".join(f"{_smoothed_mean(rows, part, s):.2g} at {s:g}" for s in scales),
        )
        for part in _PARTS
    ]
    title = "Smallest singular value of the augmented distinguishing matrix"
    return Study("symmetric-inputs-smoothed", title, rows, panels, claims)


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
    """Run every variant on every case and trial; three rows (W, A, MSE) for each."""
    trials = trials or (QUICK_TRIALS if options.quick else TRIALS)
    rows: list[Row] = []
    total, done = len(cases) * trials, 0
    for panel, case in cases:
        for trial in range(trials):
            data, test = _world(case, options.seed + trial)
            for variant in VARIANTS:
                network = _answer(data, variant, case, options.seed + trial)
                rows += _measured(panel, case, trial, variant, network, data, test)
            done += 1
            options.progress(f"{panel}: {case}", done / total)
    return rows


def _world(case: Row, seed: int) -> tuple[Dataset, Dataset]:
    size = case["size"]
    layers: dict[str, Any] = {"hidden": "orthonormal", "outputs": "orthonormal"}
    if case.get("condition", 1.0) > 1.0:
        layers["hidden" if case["layer"] == "W" else "outputs"] = Conditioned(case["condition"])
    law, noise = case.get("law", "gaussian"), case.get("noise", 0.0)
    data = dataset(
        case["n"],
        n_features=size,
        n_hidden=size,
        n_outputs=size,
        law=law,
        noise=noise,
        random_state=seed,
        **layers,
    )
    test = dataset(TEST_ROWS, data.network, law=law, noise=noise, random_state=TEST_SEED + seed)
    return data, test


def _answer(data: Dataset, variant: str, case: Row, seed: int) -> TwoLayerNetwork | None:
    return recover(
        data.X,
        data.Y,
        case["size"],
        method="symmetric-inputs",
        variant=variant,
        noise="present" if case.get("noise") else ("auto" if variant == "efficient" else "none"),
        random_state=SOLVER_SEED + seed,
    ).network


def _measured(
    panel: str,
    case: Row,
    trial: int,
    variant: str,
    network: TwoLayerNetwork | None,
    data: Dataset,
    test: Dataset,
) -> Iterable[Row]:
    """Return the rows of one answer; no answer counts with the error of the zero network."""
    if network is None:
        errors = {"W": 2.0 * case["size"], "A": 2.0 * case["size"], "MSE": float((test.Y**2).mean())}
    else:
        distance = gklw_error(network, data.network)
        errors = {"W": distance.W, "A": distance.A, "MSE": float(((network(test.X) - test.Y) ** 2).mean())}
    base = {"panel": panel, "size": case["size"], "n": case["n"], "noise": case.get("noise", 0.0)}
    base |= {"condition": case.get("condition", 1.0), "trial": trial, "variant": variant}
    return [
        base | {"quantity": name, "series": f"{name} ({variant})", "error": value}
        for name, value in errors.items()
    ]


def _panel(name: str, x: str, *, y: str = "error", log_x: bool = False) -> Axes:
    return Axes(name, x, y, "series", log_x=log_x, where={"panel": name})


def _mean(rows: Sequence[Row], panel: str, x: str, at: float, variant: str, quantity: str) -> float:
    chosen = [
        row["error"]
        for row in rows
        if (row["panel"], row[x], row["variant"], row["quantity"]) == (panel, at, variant, quantity)
    ]
    return float(np.mean(chosen))


def _sentence(rows: Sequence[Row], panel: str, x: str, at: float, quantity: str) -> str:
    parts = [f"{name} {_mean(rows, panel, x, at, name, quantity):.2g}" for name in VARIANTS]
    label = "mean squared error" if quantity == "MSE" else f"error of {quantity}"
    return f"{label} at {x} = {at:g}: " + ", ".join(parts)


def _trend(rows: Sequence[Row], variant: str, sizes: Sequence[int]) -> str:
    roots = [np.sqrt(_mean(rows, "dimension", "size", size, variant, "A")) / size for size in sizes]
    return f"{variant} " + ", ".join(f"{root:.2g}" for root in roots)


def _smoothed_row(part: str, scale: float, trial: int, W: Any, law: InputLaw) -> Row:
    M = augmented_matrix(W, law, n_samples=20_000, random_state=TEST_SEED + trial)
    smallest = float(np.linalg.svd(M, compute_uv=False)[-1])
    return {"part": part, "perturbation": scale, "trial": trial, "sigma_min": smallest}


def _smoothed_mean(rows: Sequence[Row], part: str, scale: float) -> float:
    return float(
        np.mean([row["sigma_min"] for row in rows if (row["part"], row["perturbation"]) == (part, scale)])
    )
