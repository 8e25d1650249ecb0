"""From moments to a network: the three variants by name.

``efficient`` is ours (`_moments`); ``paper`` and ``practical`` compose the boxes of `printed`. The paper prints the
reduction of m > k outputs to k (Algorithm 4) for noisy data only. Without noise, and for Section 4, the same reduction
is put round the box; without noise all rows serve every step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planted._typing import Array
from planted.methods.symmetric_inputs import printed
from planted.methods.symmetric_inputs._moments import recover_efficiently
from planted.methods.symmetric_inputs._slope import Slope, controlled_slope
from planted.methods.symmetric_inputs._spectral import Spectral, with_unit_rows
from planted.moments import SampleMoments
from planted.outcomes import BadInputError

__all__ = ["VARIANTS", "recover_from_moments"]

VARIANTS = ("efficient", "practical", "paper")


def recover_from_moments(
    moments: SampleMoments,
    n_hidden: int,
    *,
    variant: str = "efficient",
    noisy: bool = True,
    rng: np.random.Generator,
    slope: Slope | None = None,
) -> Spectral:
    """Read the network from moments of samples or of a law.

    `noisy`: whether the detector is that of Algorithm 3 or that of Algorithm 2. `slope`: an estimate of B for the efficient
    variant, which makes its own if there is none.
    """
    if variant == "efficient":
        slope = slope or controlled_slope(moments, n_hidden)
        return recover_efficiently(moments, slope, n_hidden, noisy=noisy, rng=rng)
    if variant not in VARIANTS:
        raise BadInputError(f"unknown variant {variant!r}; known are {', '.join(map(repr, VARIANTS))}")
    recover = _as_printed if variant == "paper" else _as_in_section_4
    found = recover(printed.Samples.of(moments), n_hidden, noisy, rng)
    return Spectral(with_unit_rows(found.V, found.A), found.detector_values, found.residual)


def _as_printed(samples: printed.Samples, k: int, noisy: bool, rng: np.random.Generator) -> printed.Layers:
    """Run the box for these data: Algorithm 2 without noise, 3 with it, 4 with noise and more outputs than units."""
    if noisy:
        is_square = samples.n_outputs == k
        return printed.algorithm_3(samples, rng) if is_square else printed.algorithm_4(samples, k, rng)
    P, samples = _reduced(samples, samples, k)
    found = printed.algorithm_2(samples, rng)
    return replace(found, A=P @ found.A)


def _as_in_section_4(
    samples: printed.Samples, k: int, noisy: bool, rng: np.random.Generator
) -> printed.Layers:
    """Run Section 4 with the detector and the samples of Algorithm 2, or of 3 with noise, or of 4 with both."""
    if not noisy:
        P, samples = _reduced(samples, samples, k)
        found = printed.section_4(printed.plain_detector(samples), samples, rng)
        return replace(found, A=P @ found.A)
    P = np.eye(k)
    if samples.n_outputs > k:
        P, samples = _reduced(*samples.halves(), k)
    first, second = samples.halves()
    found = printed.section_4(printed.corrected_detector(first), second, rng)
    return replace(found, A=P @ found.A)


def _reduced(first: printed.Samples, second: printed.Samples, k: int) -> tuple[Array, printed.Samples]:
    """Return P from some samples and (x, P'y) of others (steps 1 to 3 of Algorithm 4); P = I if there are k outputs."""
    P = printed.output_basis(first, k) if first.n_outputs > k else np.eye(k)
    return P, second.mapped(P.T)
