r"""How well the rows determine a network: the smallest singular value of its Jacobian, and standard errors.

*The singular value*, to rounding of the Jacobian itself.

Problem     The samples determine a network locally if its Jacobian has full column rank. The root of the smallest
            eigenvalue of a Gram matrix cannot say so: what rounding leaves of a zero eigenvalue is a singular value of
            1e-8 and, after a Schur complement, of 1e-6.
Idea        The columns are those of the output layer, :math:`1_m \otimes G` with G = [H, 1], and those of the hidden
            layer, which for output l are :math:`Z D_l`: Z holds the inputs masked by the slope of every unit, along
            the tangents of unit rows, and :math:`D_l` the weights :math:`a_{li}` on its diagonal. From

            .. math:: [G, Z] = Q \begin{pmatrix} R_{GG} & R_{GZ} \\ 0 & R_{ZZ} \end{pmatrix}          \quad (1)

            the output layer is eliminated by leaving out the first rows. The hidden layer has then the R factor of the
            stacked :math:`R_{ZZ} D_l`, and A may be replaced by the R factor of A. Columns are scaled to unit length
            before. Rows enter (1) in slices, each stacked under the R of those before (TSQR), so that memory is that
            of a slice.

            Householder triangularisation is backward stable: the value is right up to a small multiple of eps times
            the root of the number of columns. Inputs that were shifted carry a larger rounding error, eps times
            (1 + |μ| / s). What lies below `SINGULAR_STEPS` times this is a singular Jacobian.

            A Gram matrix is cheaper and is believed where its own rounding cannot matter (`need`). For the same
            reason a refinement by normal equations moves little along weak directions, such as those of nearly
            collinear inputs; `polish` ends it with Gauss-Newton steps by orthogonal transformations.
Cost        O(n (k d)²), as a Gram matrix, and O(r (k d)³) for the stack, where r is the rank of A.

*Standard errors* and the Cramér–Rao bound.

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

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.fitting._refine import reduced_normal_matrix
from planted.fitting._run import Scaling
from planted.moments import (
    NormalSums,
    accumulate_normal,
    augment,
    hidden_rows,
    n_output_columns,
    output_columns,
    output_weights,
    with_output_weights,
)
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks

__all__ = [
    "HiddenChanges",
    "Information",
    "degrees_of_freedom",
    "hidden_changes",
    "identity_scaling",
    "information",
    "jacobian_conditioning",
    "polish",
    "rounding_level",
    "tangent_basis",
]

SINGULAR_STEPS = 32.0  # times eps and the root of the number of columns: what rounding leaves of a zero
GRAM_STEPS = 1e6  # the same for an eigenvalue of a Gram matrix before it is believed
SLICE = 4096  # rows of a slice, at least
FAR_FROM_SINGULAR = 1e-9  # smallest eigenvalue of products of columns of unit length
POLISH_STEPS = 4
LARGEST_POLISH = 20_000_000  # entries of a Jacobian that is written out


def rounding_level(network: TwoLayerNetwork, scaling: Scaling) -> float:
    """Return the singular value, of a Jacobian with unit columns, that rounding leaves of zero."""
    columns = network.W.size + network.n_hidden + 1
    shift = 1.0 + float(np.abs(scaling.x_mean / scaling.x_scale).max(initial=0.0))
    return SINGULAR_STEPS * float(np.finfo(np.float64).eps * np.sqrt(columns)) * shift


def jacobian_conditioning(
    X: Array, network: TwoLayerNetwork, *, offset: bool, biases: bool = True, need: float = np.inf
) -> Information:
    """Measure the Jacobian on rows in memory; no variances.

    `need`: a value that is enough. Gram matrices are asked first, and believed if they show it beyond their rounding;
    never if omitted. Shapes: X (n, d).
    """
    T = tangent_basis(network, biases=biases)
    if np.isfinite(need) and T.shape[1]:
        value = _gram_conditioning(X, network, T, offset)
        if value >= need:
            return Information(value, 0, None)
    return _exact_conditioning(X, network, T, offset)


def _gram_conditioning(X: Array, network: TwoLayerNetwork, T: Array, offset: bool) -> float:
    """Return the value from Gram matrices; zero where it is not far above their rounding."""
    k, p = network.n_hidden, network.n_features + 1
    sums = accumulate_normal(RowBlocks.from_arrays(X, np.zeros((len(X), network.n_outputs))), network)
    size = n_output_columns(network, offset=offset)
    outer_lengths = np.sqrt(np.diag(sums.GG)[:size])
    tangents = np.stack(_blocks(T, k))
    squares = np.einsum(
        "jpa,jpq,jqa->ja", tangents, sums.ZZ.reshape(k, p, k, p)[range(k), :, range(k)], tangents
    )
    lengths = np.sqrt(np.maximum(squares, 0.0) * (network.A**2).sum(axis=0)[:, None]).ravel()
    if not (lengths > 0).all() or not (outer_lengths > 0).all():
        return 0.0
    scaled = sums.GG[:size, :size] / np.outer(outer_lengths, outer_lengths)
    outer = float(linalg.eigvalsh(scaled, check_finite=False)[0])
    reduced = _along(reduced_normal_matrix(sums, network, offset=offset), tangents)
    inner = float(linalg.eigvalsh(reduced / np.outer(lengths, lengths), check_finite=False)[0])
    if min(inner, outer) <= 0 or inner * outer < GRAM_STEPS * np.finfo(np.float64).eps:
        return 0.0
    return float(np.sqrt(min(inner, outer)))


def _blocks(T: Array, k: int) -> list[Array]:
    """Return the tangents of each unit, (p, size)."""
    p, size = len(T) // k, T.shape[1] // k
    return [T[j * p : (j + 1) * p, j * size : (j + 1) * size] for j in range(k)]


def _along(N: Array, tangents: Array) -> Array:
    """Return T'NT for a matrix of the hidden layer, from the tangents of each unit.

    Shapes: N (k p, k p), tangents (k, p, size), result (k size, k size).
    """
    k, p, size = tangents.shape
    half = np.einsum("jpa,jpiq->jaiq", tangents, N.reshape(k, p, k, p), optimize=True)
    return as_array(np.einsum("jaiq,iqb->jaib", half, tangents, optimize=True).reshape(k * size, k * size))


def _exact_conditioning(X: Array, network: TwoLayerNetwork, T: Array, offset: bool) -> Information:
    """Return the value by orthogonal transformations alone, and the unit that carries most of its direction."""
    k = network.n_hidden
    n_outer, size = n_output_columns(network, offset=offset), T.shape[1] // k
    R, lengths = _triangle(X, network, T, offset)
    if not (lengths > 0).all():
        dead = int(np.flatnonzero(lengths <= 0)[0])
        return Information(0.0, dead if dead < k else max(dead - n_outer, 0) // max(size, 1), None)
    R = R / lengths
    _, outer, outer_right = linalg.svd(R[:n_outer, :n_outer], check_finite=False)
    unit = int(np.argmax(np.abs(outer_right[-1, :k])))
    if not size:  # one input and no bias: nothing of a unit can move
        return Information(float(outer[-1]), unit, None)
    inner, inner_right = _hidden_spectrum(R[n_outer:, n_outer:], network.A, size)
    if outer[-1] < inner[-1]:
        return Information(float(outer[-1]), unit, None)
    weakest = int(np.argmax((inner_right[-1].reshape(k, -1) ** 2).sum(axis=1)))
    return Information(float(inner[-1]), weakest, None)


def polish(X: Array, Y: Array, network: TwoLayerNetwork, *, offset: bool) -> TwoLayerNetwork:
    """Take Gauss-Newton steps on rows in memory while the largest residual falls.

    A network whose Jacobian is too large to be written out is returned as it is. Shapes: X (n, d), Y (n, m).
    """
    m = network.n_outputs
    T = tangent_basis(network)
    if Y.size * (T.shape[1] + m * n_output_columns(network, offset=True)) > LARGEST_POLISH:
        return network
    residual = Y - network(X)
    for _ in range(POLISH_STEPS):
        trial = _newton_step(X, residual, network, offset)
        left = Y - trial(X)
        if not np.abs(left).max() < np.abs(residual).max():
            break
        network, residual = trial, left
    return network


def _newton_step(X: Array, residual: Array, network: TwoLayerNetwork, offset: bool) -> TwoLayerNetwork:
    """Solve the linearised problem by least squares, columns of unit length, and move all parameters."""
    k, m = network.n_hidden, network.n_outputs
    T = tangent_basis(network)
    rows = augment(X)
    t = network.preactivations(X)
    masked = (network.activation.derivative(t)[:, :, None] * rows[:, None, :]).reshape(len(X), -1)
    G = output_columns(network, network.activation(t), X, offset=offset)
    hidden = [masked * np.repeat(row, rows.shape[1]) @ T for row in network.A]
    J = np.hstack([np.vstack(hidden), np.kron(np.eye(m), G)])
    lengths = np.linalg.norm(J, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    step = linalg.lstsq(J / lengths, residual.T.ravel(), check_finite=False)[0] / lengths
    moved = (T @ step[: T.shape[1]]).reshape(k, -1)
    weights = output_weights(network)
    weights[:, : G.shape[1]] += step[T.shape[1] :].reshape(m, -1)
    W, norms = network.activation.unit_scale(network.W + moved[:, :-1])
    weights[:, :k] *= norms**network.activation.degree
    hidden_layer = replace(network, W=W, b=(network.b + moved[:, -1]) / norms)
    return with_output_weights(hidden_layer, weights)


def _triangle(X: Array, network: TwoLayerNetwork, T: Array, offset: bool) -> tuple[Array, Array]:
    """Return the R factor of [G, Z] and the lengths of its columns (1)."""
    blocks = _blocks(T, network.n_hidden)
    width = n_output_columns(network, offset=offset) + T.shape[1]
    R = np.zeros((0, width))
    for start in range(0, len(X), max(SLICE, 2 * width)):
        rows = augment(X[start : start + max(SLICE, 2 * width)])
        t = rows @ hidden_rows(network).T
        H, slopes = network.activation(t), network.activation.derivative(t)
        Z = [slopes[:, j, None] * (rows @ basis) for j, basis in enumerate(blocks)]
        new = np.hstack([output_columns(network, H, rows[:, :-1], offset=offset), *Z])
        R = linalg.qr(np.vstack([R, new]), mode="r", check_finite=False)[0][:width]
    if len(R) < width:
        R = np.vstack([R, np.zeros((width - len(R), width))])
    return R, np.linalg.norm(R, axis=0)


def _hidden_spectrum(R: Array, A: Array, size: int) -> tuple[Array, Array]:
    """Return singular values and right singular vectors of the stacked R D_l, columns of A of unit length."""
    lengths = np.linalg.norm(A, axis=0)
    weights = linalg.qr(A / np.where(lengths > 0, lengths, 1.0), mode="r", check_finite=False)[0]
    weights = weights[: min(weights.shape)]
    total = np.zeros((0, R.shape[1]))
    for row in weights:
        stacked = np.vstack([total, R * np.repeat(row, size)])
        total = linalg.qr(stacked, mode="r", check_finite=False)[0][: R.shape[1]]
    _, values, right = linalg.svd(total, check_finite=False)
    return as_array(values), as_array(right)


@dataclass(frozen=True, slots=True)
class Information:
    """What the rows say about the parameters, per unit of noise variance."""

    # Smallest singular value of the Jacobian with unit columns, after eliminating the output layer.
    conditioning: float
    weakest_unit: int  # the unit that carries most of the worst-determined direction
    # Keys ``W, b, A, c``: variances of the parameters for unit noise variance; None when singular.
    variances: dict[str, Array] | None
    root: Array | None = None  # (k p, r): root of the hidden layer's covariance, in the network's own units


def information(
    sums: NormalSums,
    network: TwoLayerNetwork,
    *,
    offset: bool,
    biases: bool = True,
    units: Scaling | None = None,
    mixing: Array | None = None,
    known: Information | None = None,
) -> Information:
    """Measure how well the rows determine a network.

    `biases`: whether b is a parameter; it is known to be zero otherwise. `units`: the user's units, in which
    variances are expressed; those of the network itself if omitted. `mixing`: maps the network's outputs to those of
    the units, where they were whitened; the identity if omitted. `known`: the same in other units, so that nothing but
    the variances is left to compute. Shapes: mixing (m, m).
    """
    k = network.n_hidden
    units = units or identity_scaling(network.n_features, network.n_outputs)
    if known is not None and known.root is not None:
        return replace(known, variances=_variances(known.root, sums, network, offset, units, mixing))
    T = tangent_basis(network, biases=biases)
    if not T.shape[1]:  # one input and no bias: a unit is its sign, and nothing of it can move
        return Information(1.0, 0, _variances(T, sums, network, offset, units, mixing), T)
    N = _along(reduced_normal_matrix(sums, network, offset=offset), np.stack(_blocks(T, k)))
    lengths = np.sqrt(np.maximum(_column_squares(sums, network, T), 0.0))  # rounding may leave -1e-17
    if not (lengths > 0).all():
        dead = int(np.flatnonzero(lengths <= 0)[0] // (len(lengths) // k))
        return Information(0.0, dead, None)
    scaled = N / np.outer(lengths, lengths)
    smallest, vectors = linalg.eigh(scaled, check_finite=False, subset_by_index=(0, 0))
    weakest = int(np.argmax((vectors[:, 0].reshape(k, -1) ** 2).sum(axis=1)))
    conditioning = float(np.sqrt(max(smallest[0], 0.0)))
    if smallest[0] > FAR_FROM_SINGULAR:  # Cholesky's factor takes a tenth of the time of all eigenvectors
        root = (T / lengths) @ linalg.lapack.dtrtri(linalg.lapack.dpotrf(scaled)[0])[0]
        return Information(
            conditioning, weakest, _variances(root, sums, network, offset, units, mixing), root
        )
    values, vectors = linalg.eigh(scaled, check_finite=False)
    if values[0] <= len(values) * np.finfo(float).eps * values[-1]:
        return Information(conditioning, weakest, None)
    root = (T / lengths) @ (vectors / np.sqrt(values))
    return Information(conditioning, weakest, _variances(root, sums, network, offset, units, mixing), root)


def tangent_basis(network: TwoLayerNetwork, *, biases: bool = True) -> Array:
    """Return an orthonormal basis of the directions in which units can move at unit norm.

    For each unit these are the directions of w_j⊥ and, unless it is known, that of b_j; for a curved activation all
    directions of w_j. Shapes: result (k (d + 1), k d), or (k (d + 1), k (d - 1)) without biases; k more if curved.
    """
    k, d = network.W.shape
    if network.activation.is_curved:
        free = np.tile(np.append(np.ones(d), float(biases)), k)
        return as_array(np.eye(k * (d + 1))[:, free > 0])
    size = d if biases else d - 1
    T, units = np.zeros((k, d + 1, k, size)), np.arange(k)
    T[units, :d, units, : d - 1] = np.linalg.qr(network.W[:, :, None], mode="complete")[0][:, :, 1:]
    if biases:
        T[units, d, units, d - 1] = 1.0
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
    size = n_output_columns(network, offset=offset)
    inverse = linalg.pinvh(sums.GG[:size, :size])
    outputs = np.zeros((m, n_output_columns(network, offset=True)))
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
    outputs[:, :size] += own[:, None] * hidden.own_variances(inverse, network)
    outputs *= units.y_scale**2
    variances = {"W": (hidden.dW**2).sum(axis=2), "b": (hidden.db**2).sum(axis=1)}
    linear = {} if network.B is None else {"B": outputs[:, k:-1]}
    return variances | {"A": outputs[:, :k], "c": outputs[:, -1]} | linear


@dataclass(frozen=True, slots=True)
class HiddenChanges:
    """Changes of the hidden layer in the user's units, r of them side by side."""

    dW: Array  # (k, d, r): changes of unit rows
    db: Array  # (k, r): changes of biases
    rho: Array  # (k,): norms by which rows were divided to be of unit norm in the user's units
    d_rho: Array  # (k, r): changes of these norms, which move the output weights
    units: Scaling  # the user's units

    def output_changes(self, dB: Array, row: Array, network: TwoLayerNetwork) -> Array:
        """Return the changes of one output's weights (and offset) that go with them, up to the outputs' scale.

        Shapes: dB (size, r), row (k,), result (size, r); size is k or k + 1, or k + d + 1 with a linear part.
        """
        degree = network.activation.degree
        changes = self._in_user_units(dB, network)
        changes[: len(row)] += row[:, None] * (degree * self.rho[:, None] ** (degree - 1)) * self.d_rho
        return as_array(changes)

    def own_variances(self, inverse: Array, network: TwoLayerNetwork) -> Array:
        """Return the variances of one output's weights with the units held fixed, up to the outputs' scale.

        Shapes: inverse (size, size), result (size,).
        """
        if network.B is None:
            stretch = np.append(self.rho**network.activation.degree, 1.0)[: len(inverse)]
            return as_array(np.diag(inverse) * stretch**2)
        once = self._in_user_units(inverse, network)
        return as_array(np.diag(self._in_user_units(once.T.copy(), network)))

    def _in_user_units(self, dB: Array, network: TwoLayerNetwork) -> Array:
        """Return changes of [A, B, c] in the user's units: B x' = (B / s) x - (B / s) μ for x' = (x - μ) / s."""
        k, degree = network.n_hidden, network.activation.degree
        stretch = np.ones(len(dB))
        stretch[:k] = self.rho**degree
        if network.B is None:
            return as_array(dB * stretch[:, None])
        stretch[k:-1] = 1 / self.units.x_scale
        changes = dB * stretch[:, None]
        changes[-1] -= self.units.x_mean @ changes[k:-1]
        return as_array(changes)


def hidden_changes(dV: Array, network: TwoLayerNetwork, units: Scaling) -> HiddenChanges:
    """Express small changes of (w, b) in the user's units, rows of W kept at unit norm.

    Shapes: dV (k, d + 1, r).
    """
    # Rows of W are rescaled by 1/rho, columns of A by rho**degree.
    W, rho = network.activation.unit_scale(network.W / units.x_scale)
    d_scaled = dV[:, :-1] / units.x_scale[:, None]
    d_rho = np.einsum("jp,jpr->jr", W, d_scaled) * float(not network.activation.is_curved)
    dW = (d_scaled - W[:, :, None] * d_rho[:, None, :]) / rho[:, None, None]
    db = (dV[:, -1] - (network.b / rho)[:, None] * d_rho) / rho[:, None]
    return HiddenChanges(dW, db - np.einsum("jpr,p->jr", dW, units.x_mean), rho, d_rho, units)


def identity_scaling(d: int, m: int) -> Scaling:
    """Return the scaling that changes nothing."""
    return Scaling(np.zeros(d), np.ones(d), np.zeros(m), 1.0)


def degrees_of_freedom(network: TwoLayerNetwork, *, offset: bool, biases: bool = True) -> int:
    """Return the number of unknowns of a network up to the scale of its units."""
    known = (0 if offset else network.n_outputs) + (0 if biases else network.n_hidden)
    return network.n_parameters - known
