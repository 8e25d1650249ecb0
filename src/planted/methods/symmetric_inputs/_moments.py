r"""The efficient form of Algorithms 1 to 4 of [GKLW19]_: from moments of (x, y) to the network, for symmetric x.

Problem     As in `printed`: y = A σ(W x) + ξ, no biases, x and -x equally likely, A and W of full rank, k ≤ min(d, m).
            Given the moments that `planted.moments.SampleMoments` holds, find W and A.
Idea        1. B = A W is twice the slope of a regression of y on x with even functions of x held fixed (`_slope`). Even
               controls are uncorrelated with x and change no expectation, but they take the even part A |W x| / 2 of y
               out of the error.
            2. Project x to the row space of B and y to its column space, and whiten B C B': with P the map of the
               outputs and V that of the inputs let :math:`y' = P y`, :math:`q = \tfrac12 P B x` and, for symmetric U,
               :math:`h_U = 2 y'^\top U q - y'^\top U y'`. The detector is

               .. math:: T(U) = \mathrm{Cov}(g)^{-1/2}\, \mathrm{Cov}(g, h_U), \quad g = V^\top x \otimes V^\top x, \quad (1)

               or the same with plain second moments where there is no noise. It vanishes on the span of z_i z_i',
               z_i'y' being the activation of unit i.
            3. The k matrices on which T is smallest are diagonalised jointly by congruence (UWEDGE, [Tichavsky2009]_);
               E[z_i'y'] > 0 fixes the signs.
            4. W = Z P B and A = P⁺ Z⁻¹.
Guarantee   Theorems 4 to 6, since every step agrees with the printed one on exact moments. Kind: asymptotic.
Departures  From `printed`: even controls, because with exact B and no noise h_U vanishes on every *sample* and all
            error comes from B; projection to k dimensions; T weighted by Cov(g)^-½; UWEDGE instead of one random pair;
            no splitting of the samples. Mean squared error of W and A over Cramér-Rao, unrefined, d = k = m = 10, n =
            10,000, noise 0.1, median of 6: 1030 (paper), 31 (practical), 3.8 (efficient); `benchmarks/symmetric.py`.
Cost        O(n p²) for the sums and O(p³) algebra, p = k(k+1)/2.
References  [GKLW19]_, [Tichavsky2009]_
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.linalg import diagonalise_by_congruence, smat
from planted.methods.symmetric_inputs._slope import Slope, inverse_roots
from planted.methods.symmetric_inputs._spectral import Spectral, positive_rows, with_unit_rows
from planted.moments import PairMaps, SampleMoments

__all__ = ["null_matrices", "recover_efficiently", "separate_outputs"]


def recover_efficiently(
    moments: SampleMoments, slope: Slope, n_hidden: int, *, noisy: bool, rng: np.random.Generator
) -> Spectral:
    """Read the network from moments and a slope (steps 2 to 4).

    `noisy`: whether (1) takes covariances, as in Algorithm 3, or plain second moments, as in Algorithm 2.
    """
    k = n_hidden
    P, B = slope.output_map(k), slope.truncated(k)
    sums = moments.pairs(PairMaps(slope.input_directions(k), P, P @ B / 2))
    cross, spread = (sums.covariance, sums.spread) if noisy else (sums.moment, sums.gg / sums.count)
    matrices, values = null_matrices(inverse_roots(spread)[1] @ cross, k)  # step 2, (1)
    mean = moments.joint().mean[moments.n_features :]
    Z, residual = separate_outputs(matrices, P @ mean, rng=rng)  # step 3
    W, A = Z @ P @ B, slope.left[:, :k] * slope.values[:k] @ linalg.inv(Z)  # step 4
    return Spectral(with_unit_rows(W, A), values, residual)


def null_matrices(T: Array, n_hidden: int) -> tuple[Array, Array]:
    """Return the k symmetric matrices on which the detector is smallest, and all its singular values, descending.

    Shapes: T (p, k(k+1)/2), matrices (k, k, k), values (k(k+1)/2,).
    """
    columns = T.shape[1]
    triangle = linalg.qr(T, mode="r", check_finite=False)[0][:columns] if len(T) > columns else T
    _, values, right = linalg.svd(triangle, full_matrices=True, check_finite=False)
    return smat(right[-n_hidden:]), np.concatenate([values, np.zeros(columns - len(values))])


def separate_outputs(matrices: Array, mean: Array, *, rng: np.random.Generator) -> tuple[Array, float]:
    """Return unit rows z_i with z_i'y a pure neuron, by UWEDGE, and the relative energy left off the diagonals.

    `matrices`: a basis of the null space. Shapes: matrices (k, k, k), mean (k,), result (k, k).
    """
    found = diagonalise_by_congruence(matrices, rng)
    return positive_rows(found.Z.T, mean), found.residual
