"""The Levenberg–Marquardt core shared by `refine`, the absolute-value form and moment matching.

A step solves (N + λ diag(scales)) step = gradient with the Gauss–Newton matrix N. The damping λ is raised until a
step lowers the cost, and lowered after a step that did so at once. `Damping` holds λ and the rule by which it
changes; the fits that use it say how their matrix is formed and what a trial costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array

__all__ = ["Damping", "Descent", "damped_step", "weigh_blocks"]

MAX_REJECTIONS = 14  # 8**14 = 4e12: the step is then below rounding
MIN_DAMPING = 1e-14


class _HasCost(Protocol):
    @property
    def cost(self) -> float: ...


Trial = TypeVar("Trial", bound=_HasCost)


class Descent(NamedTuple, Generic[Trial]):
    """The trial that lowered the cost or None, the damping to go on with, and the number of trials."""

    trial: Trial | None
    damping: Damping
    tried: int


@dataclass(frozen=True, slots=True)
class Damping:
    """How strongly steps are damped, in units of the diagonal, and the rule by which that changes."""

    value: float  # the damping
    down: float = 0.1  # factor after a step that succeeded at once
    up: float = 8.0  # factor after a step that did not lower the cost
    after_rejection: float = 0.1  # factor after a step that succeeded at a raised damping

    def descend(
        self, system: tuple[Array, Array, Array], try_step: Callable[[Array], Trial], cost: float
    ) -> Descent[Trial]:
        """Raise the damping until a step lowers the cost.

        `system`: the Gauss–Newton matrix, the descent direction and the diagonal that damping multiplies. The trial
        of the result is None if no step lowers the cost: the fit is then at a minimum to rounding.
        """
        N, gradient, scales = system
        value, tried = self.value, 0
        for rejections in range(MAX_REJECTIONS):
            step = damped_step(N, gradient, value * scales)
            if step is not None:
                tried += 1
                trial = try_step(step)
                if trial.cost < cost:
                    factor = self.after_rejection if rejections else self.down
                    return Descent(trial, replace(self, value=max(value * factor, MIN_DAMPING)), tried)
            value *= self.up
        return Descent(None, replace(self, value=value), tried)


def damped_step(N: Array, gradient: Array, damping: Array) -> Array | None:
    """Solve (N + diag(damping)) step = gradient; None if the matrix is not positive definite to rounding.

    Shapes: N (q, q), gradient (q,), damping (q,), result (q,).
    """
    try:
        factor = linalg.cho_factor(N + np.diag(damping), lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    return as_array(linalg.cho_solve(factor, gradient, check_finite=False))


def weigh_blocks(inner: Array, A: Array) -> Array:
    """Multiply the p × p block (i, j) by a_i'a_j.

    Shapes: inner (k*p, k*p), A (m, k), result (k*p, k*p).
    """
    k = A.shape[1]
    p = len(inner) // k
    weighed = inner.reshape(k, p, k, p) * (A.T @ A)[:, None, :, None]
    return weighed.reshape(k * p, k * p)
