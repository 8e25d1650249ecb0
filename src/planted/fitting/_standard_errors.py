r"""Standard errors, conditioning and the Cramér–Rao bound of a two-layer network.

Problem     How well do the rows determine the parameters?
Idea        With Gaussian noise of variance s² the information about (V, B), where V = (W, b) and B = (A, c), is J'J /
            s². With the rows of W held at unit norm a unit moves only along the tangent basis T, which consists of
            w_j⊥ and b_j. Eliminating B gives the reduced matrix N of `refine`, hence

            .. math:: \mathrm{Cov}(V) = s^2\, T (T^\top N T)^{-1} T^\top, \qquad
                      \mathrm{Cov}(B_l) = s^2 \left( (G^\top G)^{-1} + K_l\, \mathrm{Cov}(V) K_l^\top / s^2 \right),

            with :math:`K_l = (G^\top G)^{-1} G^\top Z\, \mathrm{diag}(a_l \otimes 1_p)`. No matrix of size m·k is
            formed. The smallest singular value of J, its columns scaled to unit length, is the square root of the
            smallest eigenvalue of the scaled T'NT. If it is zero, the samples do not determine the network even
            locally.
Guarantee   Asymptotic, for noise independent of x with equal variance in all outputs.
Cost        O((k p)³) once; nothing is read from rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.fitting._problem import Scaling
from planted.fitting._refine import reduced_normal_matrix
from planted.linalg.products import unit_rows
from planted.moments import NormalSums
from planted.networks import TwoLayerNetwork

__all__ = [
    "HiddenChanges",
    "Information",
    "degrees_of_freedom",
    "hidden_changes",
    "identity_scaling",
    "information",
    "tangent_basis",
]


@dataclass(frozen=True, slots=True)
class Information:
    """What the rows say about the parameters, per unit of noise variance."""

    # Smallest singular value of the Jacobian with unit columns, after eliminating the output layer.
    conditioning: float
    weakest_unit: int  # the unit that carries most of the worst-determined direction
    # Keys ``W, b, A, c``: variances of the parameters for unit noise variance; None when singular.
    variances: dict[str, Array] | None


def information(
    sums: NormalSums,
    network: TwoLayerNetwork,
    *,
    offset: bool,
    biases: bool = True,
    units: Scaling | None = None,
    mixing: Array | None = None,
) -> Information:
    """Measure how well the rows determine a network.

    `biases`: whether b is a parameter; it is known to be zero otherwise. `units`: the user's units, in which
    variances are expressed; those of the network itself if omitted. `mixing`: maps the network's outputs to those of
    the units, where they were whitened; the identity if omitted. Shapes: mixing (m, m).
    """
    k = network.n_hidden
    T = tangent_basis(network, biases=biases)
    units = units or identity_scaling(network.n_features, network.n_outputs)
    if not T.shape[1]:  # one input and no bias: a unit is its sign, and nothing of it can move
        return Information(1.0, 0, _variances(T, sums, network, offset, units, mixing))
    N = T.T @ reduced_normal_matrix(sums, network, offset=offset) @ T
    lengths = np.sqrt(np.maximum(_column_squares(sums, network, T), 0.0))  # rounding may leave -1e-17
    if not (lengths > 0).all():
        dead = int(np.flatnonzero(lengths <= 0)[0] // (len(lengths) // k))
        return Information(0.0, dead, None)
    values, vectors = linalg.eigh(N / np.outer(lengths, lengths), check_finite=False)
    weakest = int(np.argmax((vectors[:, 0].reshape(k, -1) ** 2).sum(axis=1)))
    conditioning = float(np.sqrt(max(values[0], 0.0)))
    if values[0] <= len(values) * np.finfo(float).eps * values[-1]:
        return Information(conditioning, weakest, None)
    root = (T / lengths) @ (vectors / np.sqrt(values))
    return Information(conditioning, weakest, _variances(root, sums, network, offset, units, mixing))


def tangent_basis(network: TwoLayerNetwork, *, biases: bool = True) -> Array:
    """Return an orthonormal basis of the directions in which units can move at unit norm.

    For each unit these are the directions of w_j⊥ and, unless it is known, that of b_j. Shapes: result
    (k (d + 1), k d), or (k (d + 1), k (d - 1)) without biases.
    """
    k, d = network.W.shape
    size = d if biases else d - 1
    T = np.zeros((k, d + 1, k, size))
    for j, row in enumerate(network.W):
        complement = linalg.qr(row[:, None], mode="full")[0][:, 1:]
        T[j, :d, j, : d - 1] = complement
        if biases:
            T[j, d, j, d - 1] = 1.0
    return T.reshape(k * (d + 1), k * size)


def _column_squares(sums: NormalSums, network: TwoLayerNetwork, T: Array) -> Array:
    """Squared lengths of the Jacobian's columns before elimination: diag(T' (A'A ∘ Z'Z) T)."""
    k, p = network.n_hidden, network.n_features + 1
    strengths = (network.A**2).sum(axis=0)
    squares = []
    for j in range(k):
        block = slice(j * p, (j + 1) * p)
        basis = T[block, j * (T.shape[1] // k) : (j + 1) * (T.shape[1] // k)]
        squares.append(strengths[j] * np.einsum("ai,ab,bi->i", basis, sums.ZZ[block, block], basis))
    return np.concatenate(squares)


def _variances(
    root: Array,
    sums: NormalSums,
    network: TwoLayerNetwork,
    offset: bool,
    units: Scaling,
    mixing: Array | None,
) -> dict[str, Array]:
    """Return the diagonals of the covariances in the user's units, for unit noise variance, by the delta method."""
    k, p, m = network.n_hidden, network.n_features + 1, network.n_outputs
    hidden = hidden_changes(root.reshape(k, p, root.shape[1]), network, units)
    size = k + int(offset)
    inverse = linalg.pinvh(sums.GG[:size, :size])
    stretch = np.append(hidden.rho**network.activation.degree, 1.0)[:size]
    outputs = np.zeros((m, k + 1))
    own = np.ones(m) if mixing is None else (mixing**2).sum(axis=1)
    mixed = np.zeros((m, size, root.shape[1])) if mixing is not None else None
    for index, row in enumerate(network.A):
        dB = hidden.output_changes(-inverse @ (sums.GZ[:size] * np.repeat(row, p)) @ root, row, network)
        if mixing is not None and mixed is not None:
            mixed += mixing[:, index, None, None] * dB
        else:
            outputs[index, :size] = (dB**2).sum(axis=1)
    if mixed is not None:
        outputs[:, :size] = (mixed**2).sum(axis=2)
    outputs[:, :size] += own[:, None] * (np.diag(inverse) * stretch**2)
    outputs *= units.y_scale**2
    variances = {"W": (hidden.dW**2).sum(axis=2), "b": (hidden.db**2).sum(axis=1)}
    return variances | {"A": outputs[:, :k], "c": outputs[:, k]}


@dataclass(frozen=True, slots=True)
class HiddenChanges:
    """Changes of the hidden layer in the user's units, r of them side by side."""

    dW: Array  # (k, d, r): changes of unit rows
    db: Array  # (k, r): changes of biases
    rho: Array  # (k,): norms by which rows were divided to be of unit norm in the user's units
    d_rho: Array  # (k, r): changes of these norms, which move the output weights

    def output_changes(self, dB: Array, row: Array, network: TwoLayerNetwork) -> Array:
        """Return the changes of one output's weights (and offset) that go with them, up to the outputs' scale.

        Shapes: dB (k or k + 1, r), row (k,), result (k or k + 1, r).
        """
        degree = network.activation.degree
        stretch = np.append(self.rho**degree, 1.0)[: len(dB)]
        changes = dB * stretch[:, None]
        changes[: len(row)] += row[:, None] * (degree * self.rho[:, None] ** (degree - 1)) * self.d_rho
        return as_array(changes)


def hidden_changes(dV: Array, network: TwoLayerNetwork, units: Scaling) -> HiddenChanges:
    """Express small changes of (w, b) in the user's units, rows of W kept at unit norm.

    Shapes: dV (k, d + 1, r).
    """
    # Rows of W are rescaled by 1/rho, columns of A by rho**degree.
    W, rho = unit_rows(network.W / units.x_scale)
    d_scaled = dV[:, :-1] / units.x_scale[:, None]
    d_rho = np.einsum("jp,jpr->jr", W, d_scaled)
    dW = (d_scaled - W[:, :, None] * d_rho[:, None, :]) / rho[:, None, None]
    db = (dV[:, -1] - (network.b / rho)[:, None] * d_rho) / rho[:, None]
    return HiddenChanges(dW, db - np.einsum("jpr,p->jr", dW, units.x_mean), rho, d_rho)


def identity_scaling(d: int, m: int) -> Scaling:
    """Return the scaling that changes nothing."""
    return Scaling(np.zeros(d), np.ones(d), np.zeros(m), 1.0)


def degrees_of_freedom(network: TwoLayerNetwork, *, offset: bool, biases: bool = True) -> int:
    """Return the number of unknowns of a network up to the scale of its units."""
    known = (0 if offset else network.n_outputs) + (0 if biases else network.n_hidden)
    return network.n_parameters - known
