"""Figures 2 to 10 of [GWZ20]: how fast small networks memorise, with true and random labels.

The paper trains with Adam (Figures 2 and 5: gradient descent) and draws the logarithm of a running mean of the
loss. Here the same training runs, and beside it the linear solve. ``--quick`` uses scikit-learn's digits in place of
MNIST.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from planted._streams import data_streams
from planted._typing import Array
from planted.algorithms.memorize import memorize
from planted.algorithms.memorize_result import Memory
from planted.io._mnist import ImageSet, load_mnist
from planted.outcomes import BadInputError
from planted.reproduce._study import Axes, Claim, Study, StudyOptions

__all__ = [
    "FIGURES",
    "SETTINGS",
    "ImageSetting",
    "averaged_curve",
    "feature_options",
    "load_images",
    "prepare_images",
]

RECORDS_AVERAGED = 20  # appendix A.2: every 5th loss is recorded, and 20 records are averaged
PCA_DIRECTIONS, PCA_NOISE, FEATURES, FEATURE_STD = 100, 0.05, 750, 0.15
POINTS_DRAWN = 400


@dataclass(frozen=True, slots=True)
class ImageSetting:
    """One panel: architecture, labels and noise of the inputs.

    Parameters
    ----------
    title : str
        Heading of the panel.
    layers : int
        2, or 3 on principal directions.
    noise : float
        Standard deviation of the noise added to each input.
    has_random_labels : bool
        Whether labels are drawn from 0 to 9 instead.
    """

    title: str
    layers: int
    noise: float
    has_random_labels: bool


TWO = ImageSetting("two layers, noise 0.01", 2, 0.01, False)
TWO_PLAIN = ImageSetting("two layers, no noise", 2, 0.0, False)
THREE = ImageSetting("three layers, 100 principal directions", 3, PCA_NOISE, False)
TWO_RANDOM = ImageSetting("two layers, noise 0.01, random labels", 2, 0.01, True)
THREE_RANDOM = ImageSetting("three layers, random labels", 3, PCA_NOISE, True)

SETTINGS = {
    "three-layers": THREE,
    "three-layers-random": THREE_RANDOM,
    "random": TWO_RANDOM,
    "no-noise": TWO_PLAIN,
}


def load_images(name: str, folder: str | Path) -> ImageSet:
    """Return digits or MNIST with rows of unit norm.

    Parameters
    ----------
    name : {"digits", "mnist"}
        scikit-learn's 8 × 8 digits, or MNIST from its files.
    folder : path-like
        Where the MNIST files are.

    Returns
    -------
    ImageSet
        Training and test images.

    Examples
    --------
    >>> images = load_images("digits", "")
    >>> images.X_train.shape, round(float(np.linalg.norm(images.X_train[0])), 12)
    ((1500, 64), 1.0)
    """
    if name == "mnist":
        images = load_mnist(folder)
    elif name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        images = ImageSet(X[:1500], y[:1500].astype(np.float64), X[1500:], y[1500:].astype(np.float64))
    else:
        raise BadInputError(f"unknown images {name!r}; expected 'digits' or 'mnist'")
    return ImageSet(_unit_rows(images.X_train), images.y_train, _unit_rows(images.X_test), images.y_test)


def averaged_curve(curve: Array) -> Array:
    """Average each recorded loss with the 19 before it, as the paper does.

    Parameters
    ----------
    curve : ndarray of shape (t, 2)
        Iteration and loss.

    Returns
    -------
    ndarray of shape (t, 2)
        Iteration and mean loss.

    Examples
    --------
    >>> averaged_curve(np.array([[0.0, 4.0], [5.0, 2.0]])).tolist()
    [[0.0, 4.0], [5.0, 3.0]]
    """
    sums = np.concatenate([[0.0], np.cumsum(curve[:, 1])])
    ends = np.arange(1, len(curve) + 1)
    starts = np.maximum(ends - RECORDS_AVERAGED, 0)
    return np.column_stack([curve[:, 0], (sums[ends] - sums[starts]) / (ends - starts)])


def prepare_images(
    images: ImageSet, setting: ImageSetting, options: StudyOptions
) -> tuple[Array, Array, Array]:
    """Return inputs, labels and test inputs of a panel (appendix A.1).

    Parameters
    ----------
    images : ImageSet
        Images with rows of unit norm.
    setting : ImageSetting
        What the panel shows.
    options : StudyOptions
        Seed, and whether this is the quick version.

    Returns
    -------
    X : ndarray of shape (n, d)
        Inputs with their noise.
    y : ndarray of shape (n,)
        True or random labels.
    X_test : ndarray of shape (l, d)
        Test inputs without noise.
    """
    noise_stream, label_stream = data_streams(options.seed, 2)
    X, X_test = images.X_train, images.X_test
    if setting.layers == 3:
        count = min(PCA_DIRECTIONS, 30 if options.quick else PCA_DIRECTIONS)
        mean = X.mean(axis=0)
        _, axes = np.linalg.eigh((X - mean).T @ (X - mean))
        X, X_test = (X - mean) @ axes[:, -count:], (X_test - mean) @ axes[:, -count:]
    X = X + setting.noise * noise_stream.standard_normal(X.shape)
    labels = label_stream.integers(0, 10, len(X)).astype(np.float64)
    return X, labels if setting.has_random_labels else images.y_train, X_test


def feature_options(setting: ImageSetting, options: StudyOptions) -> dict[str, Any]:
    """Return the options of `planted.memorize` for the random features of a panel.

    Parameters
    ----------
    setting : ImageSetting
        What the panel shows.
    options : StudyOptions
        Whether this is the quick version.

    Returns
    -------
    dict
        Nothing for two layers.
    """
    if setting.layers == 2:
        return {}
    n_random = 150 if options.quick else FEATURES
    return {"layers": 3, "n_random": n_random, "feature_std": FEATURE_STD, "smoothing": setting.noise}


def _synthetic(options: StudyOptions, *, number: str) -> Study:
    """Figures 2 and 5: N = 300, d = 100, r = 300."""
    rows_stream, label_stream = data_streams(options.seed, 2)
    X = _unit_rows(rows_stream.uniform(-1, 1, (300, 100)))
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
        claims.append(Claim("the loss falls to zero quickly", f"{name}: {_told(memory)}"))
    sigma = memorize(X, y).conditions["sigma_min"]
    claims.append(Claim("the products x⊗x are independent: smallest singular value", f"{sigma:.3g}"))
    panel = Axes("N=300, d=100, r=300", "iteration", "loss", "solver", where={"panel": "synthetic"})
    return Study(f"memorize-{number}", f"Figure {number}: synthetic data", rows, [panel], claims)


def _images(options: StudyOptions, *, number: str, settings: tuple[ImageSetting, ...], claim: str) -> Study:
    """Adam's loss curve and the linear solve, for each panel."""
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
                told += f"; test MSE {error:.3g} (paper, two layers, no noise: 1.21)"
            claims.append(Claim(claim, told))
    panels = [
        Axes(setting.title, "iteration", "loss", "solver", where={"panel": setting.title})
        for setting in settings
    ]
    return Study(
        f"memorize-{number}",
        f"Figure {number}: {'digits' if options.quick else 'MNIST'}",
        rows,
        panels,
        claims,
    )


def _runs(X: Array, y: Array, setting: ImageSetting, options: StudyOptions) -> list[tuple[str, Memory]]:
    """Train with Adam as the paper does, and solve."""
    common: dict[str, Any] = {"random_state": options.seed, "progress": options.progress}
    common |= feature_options(setting, options)
    training: dict[str, Any] = (
        {"width": 300, "max_epochs": 60}
        if options.quick
        else {"width": 3000, "max_epochs": int(options.extra.get("epochs", 60))}
    )
    solve: dict[str, Any] = (
        {"solver": "cg", "max_iter": 150} if setting.noise == 0 and not options.quick else {"solver": "auto"}
    )
    return [
        ("Adam", memorize(X, y, solver="adam", **training, **common)),
        ("linear solve", memorize(X, y, **solve, **common)),
    ]


def _chosen_images(options: StudyOptions) -> ImageSet:
    """Digits for a quick look, MNIST otherwise; ``rows`` in the extra options takes part of it."""
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
    stats = memory.stats
    return f"loss {memory.loss:.2g} after {stats['iterations']} iterations, {stats['solver_seconds']:.1f} s"


def _unit_rows(X: Array) -> Array:
    """Divide each row by its norm; zero rows stay."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(norms > 0, norms, 1.0))


def _image_study(number: str, claim: str, *settings: ImageSetting) -> Callable[[StudyOptions], Study]:
    return partial(_images, number=number, settings=settings, claim=claim)


FIGURES: dict[str, Callable[[StudyOptions], Study]] = {
    "2": partial(_synthetic, number="2"),
    "3": _image_study("3", "the loss falls below 1e-5", TWO, THREE),
    "4": _image_study("4", "random labels are memorised too", TWO_RANDOM, THREE_RANDOM),
    "5": partial(_synthetic, number="5"),
    "6": _image_study("6", "the loss falls to about 0.1 and then slows down", TWO_PLAIN),
    "7": _image_study("7", "the loss falls below 1e-5", TWO),
    "8": _image_study("8", "the loss becomes very small", THREE),
    "9": _image_study("9", "random labels are fitted to high accuracy", TWO_RANDOM),
    "10": _image_study("10", "random labels are fitted as well as true ones", THREE_RANDOM),
}
