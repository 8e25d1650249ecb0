"""Input laws: the distributions from which inputs are drawn.

A law is a frozen object with its dimension and a method ``sample(n, rng)``; it holds no randomness itself.
With the defaults every coordinate has mean zero; it has variance one except under `StudentT`, `Mixture` and
`Smoothed`. All are symmetric about their mean except `Exponential` and what is built on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from planted._conversion import frozen_array
from planted._typing import Array
from planted.outcomes import BadInputError
from planted.simulate._roles import Checked, bounded

__all__ = [
    "Exponential",
    "Gaussian",
    "InputLaw",
    "Laplace",
    "Mixture",
    "Rademacher",
    "Smoothed",
    "Sphere",
    "StudentT",
    "Uniform",
]


@runtime_checkable
class InputLaw(Protocol):
    """Anything with a dimension ``n_features`` and a method ``sample(n, rng)``."""

    @property
    def n_features(self) -> int:
        """Number of inputs, d."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return ``n`` independent rows.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : numpy.random.Generator
            Where the randomness comes from.

        Returns
        -------
        ndarray of shape (n, d)
            The rows.
        """


@dataclass(frozen=True, eq=False)
class Gaussian(Checked):
    """The normal law.

    Parameters
    ----------
    n_features : int
        Number of inputs, d.
    mean : float or array_like of shape (d,), default=0
        Mean.
    covariance : array_like of shape (d, d), optional
        Covariance; the identity if omitted.
    """

    n_features: int
    mean: npt.ArrayLike = 0.0
    covariance: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "mean", _vector("mean", self.mean, self.n_features))
        if self.covariance is not None:
            object.__setattr__(self, "covariance", _covariance(self.covariance, self.n_features))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""
        rows = rng.standard_normal((n, self.n_features))
        if self.covariance is not None:
            variances, axes = np.linalg.eigh(np.asarray(self.covariance))
            # A semi-definite covariance may have eigenvalues rounded to just below zero.
            rows = (rows * np.sqrt(np.maximum(variances, 0.0))) @ axes.T
        return rows + np.asarray(self.mean, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Mixture(Checked):
    """The symmetric mixture of two normal laws at plus and minus a centre.

    Parameters
    ----------
    n_features : int
        Number of inputs, d.
    centre : float or array_like of shape (d,), default=1
        One of the two means; the other is its opposite.
    std : float, default=1
        Standard deviation around each mean, in every direction.
    """

    n_features: int
    centre: npt.ArrayLike = 1.0
    std: float = bounded(1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "centre", _vector("centre", self.centre, self.n_features))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""
        noise = self.std * rng.standard_normal((n, self.n_features))
        return _signs((n, 1), rng) * np.asarray(self.centre, dtype=np.float64) + noise


@dataclass(frozen=True)
class Uniform(Checked):
    """Independent coordinates, uniform on a symmetric interval.

    Parameters
    ----------
    n_features : int
        Number of inputs, d.
    half_width : float, default=sqrt(3)
        Half the length of the interval; the default has variance one.
    """

    n_features: int
    half_width: float = bounded(3.0**0.5, is_open=True)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""
        return rng.uniform(-self.half_width, self.half_width, (n, self.n_features))


@dataclass(frozen=True)
class Sphere(Checked):
    """Uniform on the sphere around the origin.

    Parameters
    ----------
    n_features : int
        Number of inputs, d.
    radius : float, optional
        Length of every row; sqrt(d) if omitted, which gives every coordinate variance one.
    """

    n_features: int
    radius: float | None = bounded(None, is_open=True)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""
        radius = self.n_features**0.5 if self.radius is None else self.radius
        rows = rng.standard_normal((n, self.n_features))
        return np.asarray(radius * rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float64)


@dataclass(frozen=True)
class Laplace(Checked):
    """Independent Laplace coordinates.

    Parameters
    ----------
    n_features : int
        Number of inputs, d.
    scale : float, default=1/sqrt(2)
        Mean absolute value; the default has variance one.
    """

    n_features: int
    scale: float = bounded(0.5**0.5, is_open=True)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""
        return rng.laplace(0.0, self.scale, (n, self.n_features))


@dataclass(frozen=True)
class StudentT(Checked):
    """Independent Student t coordinates; moments of order df and above are infinite.

    Parameters
    ----------
    n_features : int
        Number of inputs, d.
    df : float, default=5
        Degrees of freedom.
    scale : float, default=1
        Factor; the variance is ``scale**2 * df / (df - 2)`` for df above 2.
    """

    n_features: int
    df: float = bounded(5.0, is_open=True)
    scale: float = bounded(1.0, is_open=True)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""
        return np.asarray(self.scale * rng.standard_t(self.df, (n, self.n_features)), dtype=np.float64)


@dataclass(frozen=True)
class Exponential(Checked):
    """Independent coordinates ``scale * (E - 1) + shift`` with E standard exponential: not symmetric.

    Parameters
    ----------
    n_features : int
        Number of inputs, d.
    scale : float, default=1
        Standard deviation.
    shift : float, default=0
        Mean.
    """

    n_features: int
    scale: float = bounded(1.0, is_open=True)
    shift: float = bounded(0.0, least=-np.inf)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""
        return self.scale * (rng.standard_exponential((n, self.n_features)) - 1.0) + self.shift


@dataclass(frozen=True)
class Rademacher(Checked):
    """Independent coordinates, plus or minus one with equal chance.

    Parameters
    ----------
    n_features : int
        Number of inputs, d.
    """

    n_features: int

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""
        return _signs((n, self.n_features), rng)


@dataclass(frozen=True, eq=False)
class Smoothed(Checked):
    """Another law, perturbed: rows replaced by ``Q g`` with g standard normal, then normal noise added.

    Parameters
    ----------
    base : InputLaw
        The law to perturb.
    lam : float, default=0
        Probability of replacing a row: the lambda of the (Q, lambda)-perturbation of [GKLW19]_, section C.
    matrix : array_like of shape (d, d), optional
        The matrix Q; needed if ``lam`` is not zero.
    noise_std : float, default=0
        Standard deviation of the normal noise added to every coordinate.
    """

    base: InputLaw
    lam: float = bounded(0.0, most=1.0)
    matrix: npt.ArrayLike | None = None
    noise_std: float = bounded(0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.matrix is None and self.lam > 0:
            raise BadInputError(
                f"lam={self.lam:g} needs a matrix Q of shape (d, d); pass matrix= or use lam=0"
            )
        if self.matrix is not None:
            object.__setattr__(self, "matrix", _square("matrix", self.matrix, self.n_features))

    @property
    def n_features(self) -> int:
        """Number of inputs, d."""
        return self.base.n_features

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows."""
        rows = self.base.sample(n, rng)
        if self.matrix is not None:
            replacement = rng.standard_normal(rows.shape) @ np.asarray(self.matrix, dtype=np.float64).T
            rows = np.where(rng.random((n, 1)) < self.lam, replacement, rows)
        return rows + self.noise_std * rng.standard_normal(rows.shape)


def _signs(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return independent fair signs."""
    return np.asarray(2.0 * rng.integers(0, 2, size=shape) - 1.0, dtype=np.float64)


def _vector(name: str, values: npt.ArrayLike, width: int) -> Array:
    """Return a read-only vector of length ``width`` from a number or a vector."""
    array = frozen_array(name, values, np.ndim(values))
    if array.shape not in ((), (width,)):
        raise BadInputError(f"{name} has shape {array.shape}; expected a number or shape ({width},)")
    return np.broadcast_to(array, (width,))


def _square(name: str, values: npt.ArrayLike, width: int) -> Array:
    """Return a read-only matrix of shape (width, width)."""
    array = frozen_array(name, values, np.ndim(values))
    if array.shape != (width, width):
        raise BadInputError(f"{name} has shape {array.shape}; expected ({width}, {width})")
    return array


def _covariance(values: npt.ArrayLike, width: int) -> Array:
    """Return a read-only covariance, or say why it is none."""
    array = _square("covariance", values, width)
    if np.abs(array - array.T).max() > 1e-10 * np.abs(array).max():  # rounding of a product is below 1e-12
        raise BadInputError("covariance is not symmetric; pass (C + C.T) / 2")
    smallest, largest = np.linalg.eigvalsh(array)[[0, -1]]
    if smallest < -1e-10 * abs(largest):
        raise BadInputError(f"covariance has the negative eigenvalue {smallest:g}; expected none")
    return array
