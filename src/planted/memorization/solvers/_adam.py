"""Memorise by Adam on mini-batches, as the paper's experiments do.

Problem     Minimise the loss of `planted.memorization.solvers._weights` for more rows than full gradients can afford.
Idea        Run Adam on batches of 128 rows with a learning rate of 0.003 that is multiplied by 0.3 every 15 epochs
            (appendix A.1 of [GWZ20]_).
Guarantee   None; the result is judged by its loss. Kind: heuristic.
Notation    As in `planted.memorization.solvers._weights`: k units in the rows of W, with signs a.
Departures  Rows and labels are scaled to a root mean square of one. The paper does not state its start; ours is
            Gaussian with standard deviation 1/√k.
Cost        6nkq flops per epoch. It needs PyTorch (``pip install 'planted[torch]'``).
References  [GWZ20]_
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planted._typing import Array
from planted.memorization._task import MemoryFit, MemoryTask
from planted.memorization.solvers._weights import check_width, half_signs, loss_and_gradient, trained_fit
from planted.outcomes import BadInputError

__all__ = ["solve_adam"]

RECORD_EVERY = 5  # iterations between recorded losses (appendix A.2)


def solve_adam(
    task: MemoryTask,
    *,
    width: int | str = "auto",
    learning_rate: float = 0.003,
    batch_size: int = 128,
    decay: float = 0.3,
    decay_every: int = 15,
    max_epochs: int = 60,
    max_iter: int | None = None,
    precision: str = "float32",
    fused: bool = False,
) -> MemoryFit:
    """Memorise by Adam; the curve has the batch loss of every fifth step.

    `fused`: PyTorch's step in one pass over the weights, which saves about half of the CPU time and rounds
    differently.
    """
    torch = _import_torch()
    _check_options(learning_rate, batch_size, decay, decay_every, max_epochs, precision)
    a = half_signs(check_width(width, task.Z.shape[1]))
    dtype = getattr(torch, precision)
    rows = torch.as_tensor(np.ascontiguousarray(task.Z), dtype=dtype)
    runs = [
        _Trainer(torch, task, rows, y, a).run(
            schedule=(learning_rate, decay, decay_every),
            batch_size=min(batch_size, len(y)),
            n_epochs=max_epochs,
            max_iter=max_iter,
            fused=fused,
        )
        for y in task.Y.T
    ]
    notes = {"record_every": RECORD_EVERY, "precision": precision}
    return trained_fit(runs, a, every=RECORD_EVERY, notes=notes)


def _import_torch() -> Any:
    """Return PyTorch, or say how to get it."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise BadInputError(
            "solver='adam' needs PyTorch, which is not installed. Run: pip install 'planted[torch]', "
            "or use solver='auto', which does not need it."
        ) from error
    return torch


def _check_options(
    learning_rate: float, batch_size: int, decay: float, decay_every: int, max_epochs: int, precision: str
) -> None:
    """Refuse what cannot be trained with."""
    if precision not in ("float32", "float64"):
        raise BadInputError(f"precision={precision!r}; expected 'float32' or 'float64'")
    if not (
        learning_rate > 0 and batch_size >= 1 and decay_every >= 1 and max_epochs >= 1 and 0 < decay <= 1
    ):
        raise BadInputError(
            f"learning_rate={learning_rate}, batch_size={batch_size}, decay={decay}, decay_every={decay_every}, "
            f"max_epochs={max_epochs}; expected positive numbers and a decay of at most 1"
        )


class _Trainer:
    """One output's training: parameters, data and the random stream of its batches."""

    def __init__(self, torch: Any, task: MemoryTask, rows: Any, y: Array, a: Array) -> None:
        self.torch, self.task, self.rows, self.y, self.signs = torch, task, rows, y, a
        start = task.rng.standard_normal((len(a), rows.shape[1])) / np.sqrt(len(a))
        self.labels = torch.as_tensor(np.array(y), dtype=rows.dtype)
        self.W = torch.tensor(start, dtype=rows.dtype, requires_grad=True)
        self.a = torch.as_tensor(a, dtype=rows.dtype)
        self.generator = torch.Generator().manual_seed(int(task.rng.integers(2**62)))

    def run(
        self,
        *,
        schedule: tuple[float, float, int],
        batch_size: int,
        n_epochs: int,
        max_iter: int | None,
        fused: bool,
    ) -> tuple[Array, list[float]]:
        """Train; return the weights and the recorded losses."""
        torch = self.torch
        rate, decay, decay_every = schedule
        optimiser = torch.optim.Adam([self.W], lr=rate, fused=fused)
        goal = self.task.tol / self.task.Y.shape[1]
        losses: list[float] = []
        n_steps = 0
        with self.task.stoppable():
            self.task.check()
            for epoch in range(n_epochs):
                optimiser.param_groups[0]["lr"] = rate * decay ** (epoch // decay_every)
                total = 0.0
                for batch in torch.randperm(len(self.rows), generator=self.generator).split(batch_size):
                    loss = self._step(optimiser, batch)
                    if n_steps % RECORD_EVERY == 0:
                        losses.append(loss)
                    total += loss * len(batch)
                    n_steps += 1
                    if max_iter is not None and n_steps >= max_iter:
                        return self._weights(), losses
                    self.task.check()
                self.task.progress(f"Adam, loss {total / len(self.rows):.1e}", (epoch + 1) / n_epochs)
                if total / len(self.rows) <= goal:
                    break
        # Stopped before the first step, the start is the best so far.
        weights = self._weights()
        return weights, losses or [loss_and_gradient(self.task.Z, self.y, weights, self.signs)[0]]

    def _step(self, optimiser: Any, batch: Any) -> float:
        """Make one step on a batch and return its loss before the step."""
        optimiser.zero_grad(set_to_none=True)
        outputs = (self.rows[batch] @ self.W.T).square() @ self.a
        loss = (outputs - self.labels[batch]).square().mean() / 4
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    def _weights(self) -> Array:
        """Return the weights as an array."""
        return np.asarray(self.W.detach().numpy(), dtype=np.float64)
