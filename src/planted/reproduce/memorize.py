"""Figures 2 to 10 of [GWZ20]: how fast small networks memorise, with true and random labels.

The paper trains with Adam, in Figures 2 and 5 with gradient descent, and draws the logarithm of a running mean of the
loss. The same training runs here, and the linear solve is drawn beside it. ``--quick`` uses scikit-learn's digits
instead of MNIST.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from planted._streams import data_streams
from planted._typing import Array
from planted.io.tables._mnist import ImageSet
from planted.linalg import unit_rows
from planted.memorization._memorize import memorize
from planted.memorization._result import Memory
from planted.outcomes import DataWarning
from planted.reproduce._images import (
    SETTINGS,
    ImageSetting,
    adam_options,
    feature_options,
    load_images,
    prepare_images,
)
from planted.reproduce._study import Axes, Claim, Study, StudyOptions

__all__ = ["FIGURES", "averaged_curve"]

RECORDS_AVERAGED = 20  # appendix A.2: every 5th loss is recorded, and 20 records are averaged
POINTS_DRAWN = 400
SMALL_LOSS = 1e-5  # what the paper's curves fall below


def averaged_curve(curve: Array) -> Array:
    """Average each recorded loss with the 19 before it, as the paper does.

    Shapes: curve (t, 2), result (t, 2).
    """
    sums = np.concatenate([[0.0], np.cumsum(curve[:, 1])])
    ends = np.arange(1, len(curve) + 1)
    starts = np.maximum(ends - RECORDS_AVERAGED, 0)
    return np.column_stack([curve[:, 0], (sums[ends] - sums[starts]) / (ends - starts)])


def _synthetic(options: StudyOptions, *, number: str) -> Study:
    """Figures 2 and 5: N = 300, d = 100, r = 300."""
    rows_stream, label_stream = data_streams(options.seed, 2)
    X = unit_rows(rows_stream.uniform(-1, 1, (300, 100)))[0]
    y = label_stream.uniform(-1, 1, 300)
    runs: dict[str, dict[str, Any]] = {
        "gradient descent": {"solver": "pgd", "width": 300},
        "L-BFGS": {"solver": "lbfgs", "width": 300},
        "conjugate gradients": {"solver": "cg"},
    }
    rows, claims = [], []
    for name, settings in runs.items():
        memory = memorize(X, y, random_state=options.seed, progress=options.progress, **settings)
        rows += _curve_rows("synthetic", name, memory.loss_curve)
        verdict = options.verdict(memory.loss < SMALL_LOSS)
        claims.append(Claim("the loss falls to zero quickly", f"{name}: {_told(memory)}", verdict))
    sigma = memorize(X, y).conditions["sigma_min"]
    independent = "the products x⊗x are independent: smallest singular value"
    claims.append(Claim(independent, f"{sigma:.3g}", options.verdict(sigma > 0)))
    panel = Axes("N=300, d=100, r=300", "iteration", "loss", "solver", where={"panel": "synthetic"})
    return Study(f"memorize-{number}", f"Figure {number}: synthetic data", rows, [panel], claims)


def _images(
    options: StudyOptions, *, number: str, settings: tuple[ImageSetting, ...], claim: str, goal: float
) -> Study:
    """Figures 3, 4 and 6 to 10: the loss curves of Adam and of the linear solve, for each panel."""
    images = _chosen_images(options)
    rows: list[dict[str, Any]] = []
    claims = []
    for setting in settings:
        X, y, X_test = prepare_images(images, setting, options)
        for name, memory in _runs(X, y, setting, options):
            curve = averaged_curve(memory.loss_curve) if name == "Adam" else memory.loss_curve
            rows += _curve_rows(setting.title, name, curve)
            told = f"{setting.title}, n={len(X)}, {name}: {_told(memory)}"
            if not setting.has_random_labels:
                error = float(np.mean((memory.network(X_test)[:, 0] - images.y_test) ** 2))
                told += f"; test MSE {error:.3g}"
                told += " (the paper, without noise: 1.21)" if setting.layers == 2 else ""
            claims.append(Claim(claim, told, options.verdict(memory.loss < goal)))
    panels = [
        Axes(setting.title, "iteration", "loss", "solver", where={"panel": setting.title})
        for setting in settings
    ]
    data = f"{'digits' if options.quick else 'MNIST'}, {len(images.X_train):,} images"
    return Study(f"memorize-{number}", f"Figure {number}: {data}", rows, panels, claims)


def _runs(X: Array, y: Array, setting: ImageSetting, options: StudyOptions) -> list[tuple[str, Memory]]:
    """Train with Adam as the paper does, and solve."""
    common: dict[str, Any] = {"random_state": options.seed, "progress": options.progress}
    solve = feature_options(setting, options)
    if setting.noise == 0 and not options.quick:
        solve |= {"solver": "cg", "max_iter": 150}  # the kernel is singular: no number of iterations suffices
    with warnings.catch_warnings():
        # Pixels at the rim are zero in every image; without noise each call would say so.
        warnings.simplefilter("ignore", DataWarning)
        return [
            ("Adam", memorize(X, y, **adam_options(X, y, setting, options), **common)),
            ("linear solve", memorize(X, y, **solve, **common)),
        ]


def _chosen_images(options: StudyOptions) -> ImageSet:
    """Return digits for a quick run and MNIST otherwise; ``rows`` in the extra options takes the first of them."""
    images = load_images("digits" if options.quick else "mnist", options.extra.get("data", "mnist"))
    n = int(options.extra.get("rows", 0)) or len(images.X_train)
    return ImageSet(images.X_train[:n], images.y_train[:n], images.X_test, images.y_test)


def _curve_rows(panel: str, solver: str, curve: Array) -> list[dict[str, Any]]:
    """Return a curve as rows of the study, thinned to what a picture shows."""
    chosen = np.unique(np.linspace(0, len(curve) - 1, min(POINTS_DRAWN, len(curve))).astype(int))
    return [
        {"panel": panel, "solver": solver, "iteration": int(at), "loss": float(max(value, 1e-40))}
        for at, value in curve[chosen]
    ]


def _told(memory: Memory) -> str:
    """Return the loss, the iterations and the seconds in words."""
    stats = memory.stats
    return f"loss {memory.loss:.2g} after {stats['iterations']} iterations, {stats['solver_seconds']:.1f} s"


def _image_study(
    number: str, claim: str, *names: str, goal: float = SMALL_LOSS
) -> Callable[[StudyOptions], Study]:
    """Return the study of one figure, with the panels named and the loss that the paper reaches."""
    settings = tuple(SETTINGS[name] for name in names)
    return partial(_images, number=number, settings=settings, claim=claim, goal=goal)


FIGURES: dict[str, Callable[[StudyOptions], Study]] = {
    "2": partial(_synthetic, number="2"),
    "3": _image_study("3", "the loss falls below 1e-5", "two-layers", "three-layers"),
    "4": _image_study("4", "random labels are memorised too", "two-layers-random", "three-layers-random"),
    "5": partial(_synthetic, number="5"),
    "6": _image_study(
        "6", "the loss falls to about 0.1 and then slows down", "two-layers-no-noise", goal=0.2
    ),
    "7": _image_study("7", "the loss falls below 1e-5", "two-layers"),
    "8": _image_study("8", "the loss becomes very small", "three-layers"),
    "9": _image_study("9", "random labels are fitted to high accuracy", "two-layers-random"),
    "10": _image_study("10", "random labels are fitted as well as true ones", "three-layers-random"),
}
