"""Noises: what is added to the outputs of a teacher.

A noise is a frozen object with a method ``sample(X, shape, rng)``. Given by name it has the defaults below;
any other strength is an object, such as ``StudentTNoise(df=4, scale=0.5)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from planted._typing import Array
from planted.simulate._roles import Checked, bounded, build_named, check_number

__all__ = [
    "CauchyNoise",
    "GaussianNoise",
    "HeteroscedasticNoise",
    "Noise",
    "SparseNoise",
    "StudentTNoise",
    "resolve_noise",
]


@runtime_checkable
class Noise(Protocol):
    """Anything with a method ``sample(X, shape, rng)`` that returns an array of that shape."""

    def sample(self, X: Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return the noise for the rows of X.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, on which the noise may depend.
        shape : tuple of int
            The shape (n, m) of the outputs.
        rng : numpy.random.Generator
            Where the randomness comes from.

        Returns
        -------
        ndarray of shape (n, m)
            The noise.
        """


@dataclass(frozen=True)
class GaussianNoise(Checked):
    """Independent normal noise.

    Parameters
    ----------
    std : float, default=0.1
        Standard deviation.
    """

    std: float = bounded(0.1)

    def sample(self, X: Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return the noise."""
        return self.std * rng.standard_normal(shape)


@dataclass(frozen=True)
class StudentTNoise(Checked):
    """Independent Student t noise.

    Parameters
    ----------
    df : float, default=3
        Degrees of freedom.
    scale : float, default=0.1
        Factor; the variance is ``scale**2 * df / (df - 2)`` for df above 2.
    """

    df: float = bounded(3.0, is_open=True)
    scale: float = bounded(0.1)

    def sample(self, X: Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return the noise."""
        return np.asarray(self.scale * rng.standard_t(self.df, shape), dtype=np.float64)


@dataclass(frozen=True)
class CauchyNoise(Checked):
    """Independent Cauchy noise: no mean, no variance.

    Parameters
    ----------
    scale : float, default=0.1
        Half the distance between the quartiles.
    """

    scale: float = bounded(0.1)

    def sample(self, X: Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return the noise."""
        return np.asarray(self.scale * rng.standard_cauchy(shape), dtype=np.float64)


@dataclass(frozen=True)
class SparseNoise(Checked):
    """Gross errors in a few entries: normal with a large standard deviation there, zero elsewhere.

    Parameters
    ----------
    fraction : float, default=0.1
        Probability that an entry is hit.
    amplitude : float, default=10
        Standard deviation of an error.
    """

    fraction: float = bounded(0.1, most=1.0)
    amplitude: float = bounded(10.0)

    def sample(self, X: Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return the noise."""
        errors = self.amplitude * rng.standard_normal(shape)
        return np.where(rng.random(shape) < self.fraction, errors, 0.0)


@dataclass(frozen=True)
class HeteroscedasticNoise(Checked):
    """Normal noise whose standard deviation ``std * (1 + growth * |x_1|)`` grows with the first input.

    Parameters
    ----------
    std : float, default=0.1
        Standard deviation where the first input is zero.
    growth : float, default=1
        How fast it grows.
    """

    std: float = bounded(0.1)
    growth: float = bounded(1.0)

    def sample(self, X: Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return the noise."""
        spread = self.std * (1.0 + self.growth * np.abs(X[:, :1]))
        return np.asarray(spread * rng.standard_normal(shape), dtype=np.float64)


_NOISES: Mapping[str, type] = {
    "gaussian": GaussianNoise,
    "student-t": StudentTNoise,
    "cauchy": CauchyNoise,
    "sparse": SparseNoise,
    "heteroscedastic": HeteroscedasticNoise,
}


def resolve_noise(noise: float | str | Noise) -> Noise:
    """Return the noise that ``noise`` stands for; a number is the standard deviation of normal noise."""
    if isinstance(noise, Noise) and not isinstance(noise, type):
        return noise
    if isinstance(noise, int | float | np.integer | np.floating):
        return GaussianNoise(check_number("noise", noise))
    named: Noise = build_named("noise", noise, _NOISES, options={})
    return named
