r"""From Hermite tensors to units up to sign, our way: three orders are decomposed together.

Contracted along random directions, T_{2l}, T_{2l+1} and T_{2l+2} are matrices between products of l inputs that all
have the form Σ_i c_i z_i z_i', z_i = w_i^{⊗l}. [ATV21]_ decomposes the two upper orders separately, each by one random
pair, and merges what they show (Algorithm 4, `printed`). Ours weighs each matrix of the three orders by its sampling
error and diagonalises all of them together: there is nothing to merge, no unit is missed by a root of one Hermite
polynomial, and every draw adds to the accuracy instead of being a chance to be nearly degenerate. Both end with
RecoverScalars.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.linalg import decompose_shared_terms, roots_of_powers
from planted.methods.hermite.printed import (
    EXACT_FLOOR,
    Thresholds,
    Units,
    algorithm_2,
    noise_edge,
)
from planted.moments import Contractions, Draws, HermiteMoments

__all__ = ["EFFICIENT_DRAWS", "recover_units"]

EFFICIENT_DRAWS = 6


def recover_units(
    moments: HermiteMoments, order: int, *, rng: np.random.Generator, n_hidden: int | None = None
) -> Units:
    """Recover the visible units up to sign, with three orders decomposed together.

    `n_hidden`: at most so many units; what the thresholds leave if omitted.
    """
    found = moments.contract(order, Draws.random(EFFICIENT_DRAWS, *moments.shape, rng=rng))
    W, values = _decompose_together(found, order, rng, n_hidden)
    b, A = algorithm_2(order, W, moments)
    return Units(W, b, A, values, 1.0)


def _decompose_together(
    found: Contractions, order: int, rng: np.random.Generator, n_hidden: int | None
) -> tuple[Array, Array]:
    """Return the rows that three orders share, each weighed by its sampling error, and the singular values per draw."""
    stacks = (found.base, found.odd, found.even)
    sizes = np.array([np.linalg.norm(stack, 2, axis=(1, 2)).max() for stack in stacks])
    errors = np.maximum(found.noise, EXACT_FLOOR * sizes)
    weighed = np.concatenate([stack / error for stack, error in zip(stacks, errors, strict=True)])
    threshold = Thresholds().rank * noise_edge(len(weighed))
    largest = weighed.shape[1] if n_hidden is None else n_hidden
    terms = decompose_shared_terms(weighed, rng, threshold=threshold, largest_rank=largest)
    return roots_of_powers(terms.Z.T, order), terms.values / np.sqrt(len(weighed))
