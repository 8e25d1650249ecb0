r"""Stochastic gradient descent on fresh samples, as in the experiments of the paper.

Problem     Minimise ℓ2, f′ or G when every step may draw new samples of a known network with standard normal inputs.
Idea        A step draws a batch, computes the gradient in closed form with the same sums as `_risk` and `_targets`, and
            moves (W, a); for f′ the rows of W are projected to the unit sphere. f′ is the squared risk of the polynomial
            activation σ̂_2 h_2 + σ̂_4 h_4.
Guarantee   None for ℓ2 and f′; Corollary 2.4 of [GLM18]_ for G.
Departures  ``degree`` subtracts a low-degree fit from the outputs first, which leaves the expected gradient as it is
            (degree 1 for f′, 2 for G) and reduces its variance; see docs/theory/landscape.md. The paper does not state
            its step sizes and starts; ours are arguments. The batch of G is processed in parts that fit the cache.
Cost        O(batch d k) per step; needs PyTorch (``pip install 'planted[torch]'``).
References  [GLM18]_
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from planted._clock import check_time
from planted._typing import Array
from planted._validation import check_choice
from planted.methods.landscape._coefficients import hermite_coefficients
from planted.methods.landscape._low_degree import fit_low_degree
from planted.methods.landscape._risk import risk_sums
from planted.methods.landscape._targets import hermite_correction, quartic_sums
from planted.networks import Activation
from planted.outcomes import BadInputError
from planted.rows import RowBlocks

__all__ = ["FreshSamples", "Stage", "Training", "train_on_fresh_samples"]

PART = 8192  # samples processed at once
FIRST_BATCH = 32 * PART  # samples of the low-degree fit


@dataclass(frozen=True, slots=True)
class FreshSamples:
    """A network with standard normal inputs, to draw from."""

    W: Array  # (k, d): hidden weights
    a: Array  # (k,): output weights
    activation: Activation  # the activation
    noise: float = 0.0  # standard deviation of the noise
    # Degree of a least-squares fit to a first batch that is taken from all outputs; 0 for the outputs themselves.
    degree: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps of one size."""

    steps: int  # how many
    rate: float  # step size of W
    rate_outputs: float  # step size of a


@dataclass(frozen=True, slots=True)
class Training:
    """A training as it goes."""

    step: int  # steps made
    W: Array  # (k, d): hidden weights
    a: Array  # (k,): output weights


def train_on_fresh_samples(
    truth: FreshSamples,
    objective: str,
    start: Training,
    *,
    schedule: tuple[Stage, ...],
    batch_size: int,
    record_every: int,
    seed: int,
    weights: tuple[float, float] = (0.0, 0.0),
    precision: str = "float32",
) -> Iterator[Training]:
    """Train on fresh samples and yield the state after every `record_every` steps.

    The samples of each such stretch have a stream of their own, so that a training can be continued from any state.
    """
    torch = _import_torch()
    check_choice("precision", precision, ("float32", "float64"))
    first = torch.Generator().manual_seed(_stream(seed, 0, 1))
    trainer = _Trainer(torch, truth, objective, weights, getattr(torch, precision), first)
    W, a = trainer.tensor(start.W), trainer.tensor(start.a)
    step, stages = start.step, [stage for stage in schedule for _ in range(stage.steps)]
    while step < len(stages):
        check_time()
        generator = torch.Generator().manual_seed(_stream(seed, step, 0))
        for stage in stages[step : step + record_every]:
            dW, da = trainer.gradient(W, a, batch_size, generator)
            W, a = W - stage.rate * dW, a - stage.rate_outputs * da
            if objective == "f'":
                W = W / (W * W).sum(1).sqrt()[:, None]
            step += 1
        yield Training(step, np.asarray(W, dtype=np.float64), np.asarray(a, dtype=np.float64))


def _stream(seed: int, step: int, role: int) -> int:
    """Return the seed of a stretch of steps, or of the first batch."""
    return int(np.random.SeedSequence([seed, step, role]).generate_state(1, np.uint64)[0] >> 1)


def _import_torch() -> Any:
    """Return PyTorch, or say how to get it."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise BadInputError(
            "Training on fresh samples needs PyTorch, which is not installed. Run: pip install 'planted[torch]', "
            "or use method='landscape' with optimiser='sgd' on samples of your own, which does not need it."
        ) from error
    return torch


class _Trainer:
    """Draws batches and computes gradients."""

    def __init__(
        self,
        torch: Any,
        truth: FreshSamples,
        objective: str,
        weights: tuple[float, float],
        dtype: Any,
        generator: Any,
    ) -> None:
        if objective not in ("l2", "f'", "G"):
            raise BadInputError(f"objective={objective!r}; on fresh samples expected 'l2', \"f'\" or 'G'")
        self.torch, self.dtype = torch, dtype
        self.W, self.a, self.noise = self.tensor(truth.W), self.tensor(truth.a), truth.noise
        self.is_identity = np.array_equal(truth.W, np.eye(*truth.W.shape))
        self.objective = objective
        self.mu, self.lam = weights
        coefficients = hermite_coefficients(truth.activation, 4)
        self.fourth = float(coefficients[4])
        self.function = _torch_activation(torch, truth.activation.name)
        polynomial = _two_and_four(float(coefficients[2]), self.fourth)
        self.student = polynomial if objective == "f'" else self.function
        self.low: tuple[float, Any, Any] | None = None
        if truth.degree:
            self.low = self._fit_first_batch(truth.degree, generator)

    def tensor(self, values: Array) -> Any:
        return self.torch.as_tensor(np.array(values), dtype=self.dtype)

    def gradient(self, W: Any, a: Any, batch_size: int, generator: Any) -> tuple[Any, Any]:
        """Return the mean gradient over a fresh batch."""
        dW, da = self.torch.zeros_like(W), self.torch.zeros_like(a)
        parts = [PART] * (batch_size // PART) + ([batch_size % PART] if batch_size % PART else [])
        M, mean = 0.0, 0.0
        u = self.torch.full_like(a, -0.5 - self.mu / 24)
        for size in parts:
            X, y = self._draw(size, generator)
            if self.objective == "G":
                dW = dW + quartic_sums(X, y, W, u, 0.5)[2]
                M, mean = M + (X * y[:, None]).T @ X, mean + y.sum()
            else:
                H, slopes = self.student(X @ W.T)
                _, partial_W, partial_a = risk_sums(X, y, H, slopes, a)
                dW, da = dW + partial_W, da + partial_a
        if self.objective != "G":
            return dW / batch_size, da / batch_size
        lower = hermite_correction(W, M / batch_size, mean / batch_size, u, 0.5)[2]
        sign = 1.0 if self.fourth > 0 else -1.0
        excess = (W * W).sum(1) - 1.0
        return sign * (dW / batch_size + lower) + 4 * self.lam * excess[:, None] * W, da

    def _fit_first_batch(self, degree: int, generator: Any) -> tuple[float, Any, Any]:
        """Fit a polynomial of low degree to fresh samples of their own."""
        parts = [self._draw(PART, generator) for _ in range(FIRST_BATCH // PART)]
        arrays = [(np.asarray(X, np.float64), np.asarray(y, np.float64)) for X, y in parts]
        low = fit_low_degree(RowBlocks(lambda: iter(arrays)), degree)
        quadratic = self.tensor(low.quadratic) if degree == 2 else None
        return low.constant - float(np.trace(low.quadratic)), self.tensor(low.linear), quadratic

    def _draw(self, size: int, generator: Any) -> tuple[Any, Any]:
        """Return fresh inputs and outputs."""
        draw = partial(self.torch.randn, generator=generator, dtype=self.dtype)
        X = draw((size, self.W.shape[1]))
        y = self.function(X if self.is_identity else X @ self.W.T)[0] @ self.a
        if self.low is not None:
            constant, linear, quadratic = self.low
            y = y - constant - X @ linear
            if quadratic is not None:
                y = y - ((X @ quadratic) * X).sum(1)
        if self.noise:
            y = y + self.noise * draw(size)
        return X, y


Elementwise = Callable[[Any], tuple[Any, Any]]


def _torch_activation(torch: Any, name: str) -> Elementwise:
    """Return an activation with its derivative, for tensors."""
    known: dict[str, Elementwise] = {
        "relu": lambda t: (torch.relu(t), (t > 0).to(t.dtype)),
        "absolute": lambda t: (t.abs(), t.sign()),
        "sigmoid": lambda t: (h := torch.sigmoid(t), h * (1 - h)),
        "tanh": lambda t: (h := torch.tanh(t), 1 - h * h),
        "softplus": lambda t: (torch.nn.functional.softplus(t), torch.sigmoid(t)),
    }
    if name not in known:
        raise BadInputError(f"activation={name!r}; on fresh samples expected one of {', '.join(known)}")
    return known[name]


def _two_and_four(second: float, fourth: float) -> Elementwise:
    """Return γ = σ̂_2 h_2 + σ̂_4 h_4 of (2.5) with its derivative."""
    p, q = second / np.sqrt(2.0), fourth / np.sqrt(24.0)

    def gamma(t: Any) -> tuple[Any, Any]:
        square = t * t
        return q * (square - 6) * square + p * square + (3 * q - p), (4 * q * square + (2 * p - 12 * q)) * t

    return gamma
