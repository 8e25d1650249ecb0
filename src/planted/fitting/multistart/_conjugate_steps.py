r"""Steps of the absolute-value form without its normal matrix, for networks with many unknowns.

Problem     A Levenberg–Marquardt step in k hyperplanes of p = d + 1 numbers solves (N + λ D) step = gradient. Forming N
            costs n (k p)²/2 multiplications and factoring it (k p)³/3. At 75 units of 50 inputs these are 7 seconds of
            a step, for a direction that need not be known to three digits.
Idea        In the notation of `planted.moments._kink_normal`, the function changes by :math:`T = \sum_j \beta_j\, s_j
            \circ \tilde X u_j` when the hyperplanes change by u. That is one product of the rows with u, masked by signs.
            What the regressors G = [|t|, x̃] explain of T is taken away, since (β, Λ) is eliminated, and the transposed
            product gives

            .. math:: (N u)_j = \beta_j^\top \left( s_j \circ (T - G (G^\top G)^{-1} G^\top T) \right)^\top \tilde X.
                      \quad (1)

            One such product takes 4 n k p multiplications. Conjugate gradients need 10 to 30 of them, because the blocks
            on the diagonal of N are nearly known: since :math:`s_j^2 = 1`, all are multiples of :math:`\tilde X^\top
            \tilde X`, up to what is eliminated. The system is solved in the coordinates in which these blocks are one.
Guarantee   A truncated solution is still a descent direction, and steps are accepted by the cost alone.
Departures  Products are in float32, so that a step is right to about six digits; the gradient and the cost are float64.
            Exact data therefore end at rounding error all the same, after one or two steps more.
Cost        O(n k p) per product, O(k p³) once per step. Measured at 75 units of 50 inputs: 0.15 s instead of 7 s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator, cg

from planted._typing import Array, as_array
from planted.fitting._refine import Damping, Descent, Trial
from planted.linalg.symmetric import Spectrum, column_spectrum

__all__ = ["KinkTangent", "linearise_kinks"]

Single = npt.NDArray[np.float32]

CG_TOL = 0.03  # part of the gradient that a step may leave, in the coordinates of the blocks
CG_ITER = 100
SLICE = 1024  # rows whose products stay in the cache


def linearise_kinks(
    rows: tuple[Array, Single],
    Y: Array,
    V: Array,
    *,
    coefficients: Array,
    GG: Array,
    weights: Array | None = None,
) -> KinkTangent:
    """Linearise the absolute-value form at some hyperplanes.

    `rows`: in double and in single precision. `GG`: products of the regressors there. Shapes: rows (n, p), Y (n, m),
    V (k, p), coefficients (m, k + p), GG (k + p, k + p), weights (n,).
    """
    inputs, k = rows[0], len(V)
    kinks = coefficients[:, :k]
    t = inputs @ V.T
    sizes = np.abs(t)
    residual = Y - sizes @ kinks.T - inputs @ coefficients[:, k:].T
    weighted = residual if weights is None else residual * weights[:, None]
    pull = weighted @ kinks
    np.negative(pull, out=pull, where=t < 0)
    return KinkTangent(
        rows[1],
        None if weights is None else weights[:, None].astype(np.float32),
        np.where(t < 0, np.float32(-1), np.float32(1)),
        sizes.astype(np.float32),
        V,
        kinks,
        GG,
        column_spectrum(GG).regular(),
        (pull.T @ inputs).ravel(),
        float((residual * weighted).sum()),
    )


@dataclass(frozen=True, slots=True)
class KinkTangent:
    """The absolute-value form linearised at some hyperplanes, as products with its rows."""

    rows: Single  # (n, p): inputs and one
    weights: Single | None  # (n, 1): weights of the rows
    signs: Single  # (n, k)
    sizes: Single  # (n, k): |t|
    V: Array  # (k, p): hyperplanes
    kinks: Array  # (m, k): β
    GG: Array  # (k + p, k + p): products of the regressors
    regressors: Spectrum  # of these
    gradient: Array  # (k p,): the direction of descent
    cost: float  # sum of squared residuals

    def descend(self, damping: Damping, try_step: Callable[[Array], Trial]) -> Descent[Trial]:
        """Raise the damping until a step lowers the cost."""
        system = self, self.gradient, self.scales
        return damping.descend(system, try_step, self.cost, solve=KinkTangent.solve)

    @property
    def squares(self) -> Array:
        """X̃'X̃ with the weights, (p, p)."""
        return as_array(self.GG[len(self.V) :, len(self.V) :])

    @property
    def scales(self) -> Array:
        """The diagonal that damping multiplies, (k p,)."""
        scales = np.outer((self.kinks**2).sum(axis=0), np.diag(self.squares)).ravel()
        return as_array(np.maximum(scales, 1e-12 * scales.max(initial=0.0)))

    def effect(self, moved: Array) -> Array:
        """Return the products of the regressors with the change of the function when the hyperplanes move.

        Shapes: moved (k, p), result (k + p, m).
        """
        return self._with_regressors(self._weighted(self._forward(moved)))

    def solve(self, gradient: Array, damping: Array) -> Array | None:
        """Solve (N + diag(damping)) step = gradient by conjugate gradients; None as in `damped_step`.

        Shapes: gradient (k p,), damping (k p,), result (k p,).
        """
        k, p = self.V.shape
        pins = self.scales.reshape(k, p).mean(axis=1) / (self.V**2).sum(axis=1)
        damping = damping.reshape(k, p)
        try:
            to_unit = self._to_unit_blocks(pins, damping)
        except np.linalg.LinAlgError:
            return None

        def product(unit: Array) -> Array:
            moved = np.einsum("jab,ja->jb", to_unit, unit.reshape(k, p))
            pinned = self.V * (pins * (self.V * moved).sum(axis=1))[:, None]
            curved = self._curve(moved) + pinned + damping * moved
            return as_array(np.einsum("jab,jb->ja", to_unit, curved).ravel())

        operator = LinearOperator((k * p, k * p), matvec=product, dtype=np.float64)
        target = np.einsum("jab,jb->ja", to_unit, gradient.reshape(k, p)).ravel()
        unit, _ = cg(operator, target, rtol=CG_TOL, maxiter=CG_ITER)
        step = as_array(np.einsum("jab,ja->jb", to_unit, unit.reshape(k, p)).ravel())
        return step if np.isfinite(step).all() else None

    def _to_unit_blocks(self, pins: Array, damping: Array) -> Array:
        """Return for each unit the matrix C with C B C' = 1, where B is its block before the elimination, damped."""
        strengths = (self.kinks**2).sum(axis=0)
        blocks = strengths[:, None, None] * self.squares + np.einsum("j,ja,jb->jab", pins, self.V, self.V)
        diagonal = np.arange(len(self.squares))
        blocks[:, diagonal, diagonal] += damping
        return as_array(np.linalg.inv(np.linalg.cholesky(blocks)))

    def _curve(self, moved: Array) -> Array:
        """Apply (1). Shapes: moved (k, p), result (k, p)."""
        k = len(self.V)
        T = self._forward(moved)
        explained = self.regressors.solve(self._with_regressors(self._weighted(T))).astype(np.float32)
        T -= self.sizes @ explained[:k]
        T -= self.rows @ explained[k:]
        return self._backward(self._weighted(T))

    def _forward(self, moved: Array) -> Single:
        """Return the change T of the function. Shapes: moved (k, p), result (n, m)."""
        turned, kinks = moved.T.astype(np.float32), self.kinks.T.astype(np.float32)
        T = np.empty((len(self.rows), kinks.shape[1]), dtype=np.float32)
        for part in self._slices():
            masked = self.rows[part] @ turned
            masked *= self.signs[part]
            np.matmul(masked, kinks, out=T[part])
        return T

    def _backward(self, T: Single) -> Array:
        """Return β_j' (s_j ∘ T)' X̃ for every unit. Shapes: T (n, m), result (k, p)."""
        kinks, is_scalar = self.kinks.astype(np.float32), T.shape[1] == 1
        total = np.zeros(self.V.shape, dtype=np.float32)
        for part in self._slices():
            spread = T[part] if is_scalar else T[part] @ kinks  # one weight for each unit can wait
            total += (self.signs[part] * spread).T @ self.rows[part]
        return total.astype(np.float64) * (self.kinks.T if is_scalar else 1.0)

    def _with_regressors(self, T: Single) -> Array:
        return np.vstack([self.sizes.T @ T, self.rows.T @ T]).astype(np.float64)

    def _weighted(self, T: Single) -> Single:
        return T if self.weights is None else T * self.weights

    def _slices(self) -> list[slice]:
        return [slice(start, start + SLICE) for start in range(0, len(self.rows), SLICE)]
