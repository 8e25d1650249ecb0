"""The images and settings behind Figures 3, 4 and 6 to 10 of [GWZ20] (appendix A.1).

MNIST is read from its files; scikit-learn's digits stand in for it in quick versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planted._streams import data_streams
from planted._typing import Array
from planted.io.tables._mnist import ImageSet, load_mnist
from planted.linalg import unit_rows
from planted.outcomes import BadInputError
from planted.reproduce._study import StudyOptions

__all__ = ["SETTINGS", "ImageSetting", "adam_options", "feature_options", "load_images", "prepare_images"]

PCA_DIRECTIONS, PCA_NOISE, FEATURES, FEATURE_STD = 100, 0.05, 750, 0.15
WIDTH, LEARNING_RATE, EPOCHS, DECAY_EVERY = 3000, 0.003, 60, 15
QUICK_DIRECTIONS, QUICK_FEATURES, QUICK_WIDTH = 30, 150, 300
QUICK_EPOCHS, QUICK_DECAY_EVERY = 200, 50  # 1,500 digits make 12 steps per epoch, 60,000 images 469


@dataclass(frozen=True, slots=True)
class ImageSetting:
    """One panel: architecture, labels and noise of the inputs."""

    title: str  # heading of the panel
    layers: int  # 2, or 3 on principal directions
    noise: float  # standard deviation of the noise added to each input
    has_random_labels: bool  # whether labels are drawn from 0 to 9 instead


SETTINGS = {
    "two-layers": ImageSetting("two layers, noise 0.01", 2, 0.01, False),
    "two-layers-random": ImageSetting("two layers, noise 0.01, random labels", 2, 0.01, True),
    "two-layers-no-noise": ImageSetting("two layers, no noise", 2, 0.0, False),
    "three-layers": ImageSetting("three layers, principal directions", 3, PCA_NOISE, False),
    "three-layers-random": ImageSetting("three layers, random labels", 3, PCA_NOISE, True),
}


def load_images(name: str, folder: str | Path) -> ImageSet:
    """Return digits or MNIST with rows of unit norm."""
    if name == "mnist":
        images = load_mnist(folder)
    elif name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        images = ImageSet(X[:1500], y[:1500].astype(np.float64), X[1500:], y[1500:].astype(np.float64))
    else:
        raise BadInputError(f"unknown images {name!r}; expected 'digits' or 'mnist'")
    train, test = unit_rows(images.X_train)[0], unit_rows(images.X_test)[0]
    return ImageSet(train, images.y_train, test, images.y_test)


def prepare_images(
    images: ImageSet, setting: ImageSetting, options: StudyOptions
) -> tuple[Array, Array, Array]:
    """Return inputs, labels and test inputs of a panel (appendix A.1).

    Returns X: inputs with their noise; y: true or random labels; X_test: test inputs without noise.
    """
    noise_stream, label_stream = data_streams(options.seed, 2)
    X, X_test = images.X_train, images.X_test
    if setting.layers == 3:
        count = QUICK_DIRECTIONS if options.quick else PCA_DIRECTIONS
        mean = X.mean(axis=0)
        _, axes = np.linalg.eigh((X - mean).T @ (X - mean))
        X, X_test = (X - mean) @ axes[:, -count:], (X_test - mean) @ axes[:, -count:]
    X = X + setting.noise * noise_stream.standard_normal(X.shape)
    labels = label_stream.integers(0, 10, len(X)).astype(np.float64)
    return X, labels if setting.has_random_labels else images.y_train, X_test


def feature_options(setting: ImageSetting, options: StudyOptions) -> dict[str, Any]:
    """Return the options of `planted.memorize` for the random features of a panel."""
    if setting.layers == 2:
        return {}
    n_random = QUICK_FEATURES if options.quick else FEATURES
    return {"layers": 3, "n_random": n_random, "feature_std": FEATURE_STD, "smoothing": setting.noise}


def adam_options(X: Array, y: Array, setting: ImageSetting, options: StudyOptions) -> dict[str, Any]:
    """Return the options of `planted.memorize` for the paper's training with Adam.

    `options`: whether this is the quick version; ``epochs`` in the extra options. The result: width, epochs and
    learning rate. Adam's steps do not shrink with the weights, so that the paper's rate is turned into that of rows
    and labels of root mean square one, in which `planted.memorize` trains. Shapes: X (n, d), y (n,).
    """
    squares = np.sum(X**2, axis=1)
    # E‖(Qx)²‖² = 3 q s⁴ ‖x‖⁴ for q Gaussian features of standard deviation s.
    q = QUICK_FEATURES if options.quick else FEATURES
    row_square = squares.mean() if setting.layers == 2 else 3 * q * FEATURE_STD**4 * np.mean(squares**2)
    rate = LEARNING_RATE * float(np.sqrt(row_square) / np.mean(y**2) ** 0.25)
    quick = (QUICK_WIDTH, QUICK_EPOCHS, QUICK_DECAY_EVERY)
    width, epochs, decay_every = quick if options.quick else (WIDTH, EPOCHS, DECAY_EVERY)
    sizes = {
        "width": width,
        "max_epochs": int(options.extra.get("epochs", epochs)),
        "decay_every": decay_every,
    }
    return {"solver": "adam", "learning_rate": rate, **sizes, **feature_options(setting, options)}
