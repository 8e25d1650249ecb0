"""Inputs by the name of their law.

Laws that have to be drawn first, a random covariance or a random perturbation, are drawn once by `input_law`
and are then as fixed as any other, so that training and test inputs come from the same law.

===============  ==========================================  ==================================
name             one row                                     options, with their defaults
===============  ==========================================  ==================================
gaussian         normal                                      mean=0, covariance=identity
mixture          half at +centre, half at -centre, normal    centre=1, std=1
uniform          independent on [-half_width, half_width]    half_width=sqrt(3)
sphere           uniform direction, fixed length             radius=sqrt(d)
laplace          independent Laplace                         scale=1/sqrt(2)
student-t        independent Student t                       df=5, scale=1
exponential      independent scale*(E - 1) + shift           scale=1, shift=0
rademacher       independent signs                           (none)
correlated       normal with a random covariance             condition=10
smoothed         another law, perturbed                      base="gaussian", lam=0.1, noise_std=0
===============  ==========================================  ==================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planted._threads import one_thread_inside
from planted._typing import Array, Seed
from planted.outcomes import BadInputError
from planted.simulate._laws import (
    Exponential,
    Gaussian,
    InputLaw,
    Laplace,
    Mixture,
    Rademacher,
    Smoothed,
    Sphere,
    StudentT,
    Uniform,
)
from planted.simulate._roles import build_named, check_number, check_size, world_streams
from planted.simulate._weights import random_orthonormal

__all__ = ["input_law", "inputs", "resolve_law"]


@one_thread_inside
def inputs(
    n_samples: int,
    n_features: int,
    *,
    law: str | InputLaw = "gaussian",
    random_state: Seed = None,
    **options: Any,
) -> Array:
    """Draw inputs from a law.

    Parameters
    ----------
    n_samples : int
        Number of rows, n.
    n_features : int
        Number of columns, d.
    law : str or InputLaw, default="gaussian"
        A name (gaussian, mixture, uniform, sphere, laplace, student-t, exponential, rademacher, correlated,
        smoothed) or a law object.
    random_state : int, SeedSequence, Generator or None
        Seed of the inputs, and of the law if it has to be drawn first.
    **options : Any
        Options of a law given by name, such as ``df`` for ``student-t``.

    Returns
    -------
    ndarray of shape (n, d)
        Inputs, one sample per row.

    Examples
    --------
    >>> inputs(4, 3, law="rademacher", random_state=0).shape
    (4, 3)
    """
    rows = check_size("n_samples", n_samples)
    streams = world_streams(random_state)
    return resolve_law(law, n_features, rng=streams.law, options=options).sample(rows, streams.inputs)


def input_law(name: str, n_features: int, *, random_state: Seed = None, **options: Any) -> InputLaw:
    """Make the law of that name, to draw from it more than once.

    Parameters
    ----------
    name : str
        One of the names of `inputs`.
    n_features : int
        Number of inputs, d.
    random_state : int, SeedSequence, Generator or None
        Seed of the random covariance of ``correlated`` or the random matrix of ``smoothed``.
    **options : Any
        Options of that law.

    Returns
    -------
    InputLaw
        The law.

    Examples
    --------
    >>> law = input_law("correlated", 4, condition=100.0, random_state=0)
    >>> print(round(float(np.linalg.cond(law.covariance))))
    100
    """
    return resolve_law(name, n_features, rng=world_streams(random_state).law, options=options)


@dataclass(frozen=True)
class _RandomCovariance:
    """How ``correlated`` is drawn: random axes, variances geometric from 1 down to 1/condition."""

    condition: float = 10.0

    def draw(self, n_features: int, rng: np.random.Generator) -> Gaussian:
        condition = check_number("condition", self.condition, least=1.0)
        axes = random_orthonormal(n_features, n_features, rng)
        variances = np.geomspace(1.0, 1.0 / condition, n_features)
        covariance = (axes * variances) @ axes.T
        return Gaussian(n_features, covariance=(covariance + covariance.T) / 2)


@dataclass(frozen=True)
class _RandomSmoothing:
    """How ``smoothed`` is drawn: the matrix Q has independent standard normal entries."""

    base: str | InputLaw = "gaussian"
    lam: float = 0.1
    noise_std: float = 0.0

    def draw(self, n_features: int, rng: np.random.Generator) -> Smoothed:
        base = resolve_law(self.base, n_features, rng=rng, options={})
        matrix = rng.standard_normal((n_features, n_features))
        return Smoothed(base, lam=self.lam, matrix=matrix, noise_std=self.noise_std)


_LAWS: Mapping[str, type] = {
    "gaussian": Gaussian,
    "mixture": Mixture,
    "uniform": Uniform,
    "sphere": Sphere,
    "laplace": Laplace,
    "student-t": StudentT,
    "exponential": Exponential,
    "rademacher": Rademacher,
    "correlated": _RandomCovariance,
    "smoothed": _RandomSmoothing,
}


def resolve_law(
    law: str | InputLaw, n_features: int, *, rng: np.random.Generator, options: Mapping[str, Any]
) -> InputLaw:
    """Return the law that ``law`` stands for, in ``n_features`` dimensions; ``rng`` draws a random law."""
    width = check_size("n_features", n_features)
    if isinstance(law, InputLaw) and not isinstance(law, type):
        if law.n_features != width:
            raise BadInputError(
                f"the law has n_features={law.n_features}, but n_features={width} was asked for"
            )
        if options:
            raise BadInputError(
                f"option {next(iter(options))!r} goes with a law given by name, not with an object"
            )
        return law
    if law in ("correlated", "smoothed"):
        recipe: _RandomCovariance | _RandomSmoothing = build_named("law", law, _LAWS, options=options)
        return recipe.draw(width, rng)
    named: InputLaw = build_named("law", law, _LAWS, options=options, n_features=width)
    return named
