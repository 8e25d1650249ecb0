"""Families of problems that come in by another door: summaries of rows, checkpoints of other data, a method by its name.

`FAMILIES[name](rng)` draws a problem as in `families_exact.py`; `DOORS[name]` asks for its network.

summed_rare_unit    a summary keeps few of many rows, and a unit that is on in none of these is large in their moments
other_checkpoint    a run is interrupted, its file is replaced by other rows of the same shape, and the run goes on
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from families_exact import draw_inputs, draw_network
from families_noisy import Problem

import planted
from planted import RowBlocks, StopRequested, TwoLayerNetwork, simulate
from planted.moments import RowSummary, summarise_rows
from planted.outcomes import BadInputError, Outcome

__all__ = ["DOORS", "FAMILIES"]

KEPT = 300  # rows that a summary keeps


def summed_rare_unit(rng: np.random.Generator) -> Problem:
    net = draw_network(rng)
    law = str(rng.choice(["gaussian", "exponential", "uniform", "laplace"]))
    X = simulate.inputs(
        int(rng.integers(4000, 12_000)), net.n_features, law=law, random_state=int(rng.integers(2**31))
    )
    w = rng.standard_normal(net.n_features)
    w /= np.linalg.norm(w)
    b = -(_summary(X, net(X)).X @ w).max() * float(rng.uniform(1.0, 1.05))
    size = float(rng.uniform(1, 5)) * net(X).std() / np.maximum(np.maximum(X @ w + b, 0).std(), 1e-300)
    a = rng.standard_normal(net.n_outputs)
    whole = TwoLayerNetwork(
        np.vstack([net.W, w]),
        np.append(net.b, b),
        np.column_stack([net.A, size * a / np.linalg.norm(a)]),
        net.c,
    )
    return X, whole(X), whole, "unidentifiable"


def _summary(X: np.ndarray, Y: np.ndarray) -> RowSummary:
    return summarise_rows(RowBlocks.from_arrays(X, Y), KEPT)


def from_summary(X: np.ndarray, Y: np.ndarray, **options: Any) -> planted.Recovery:
    return planted.recover_from_sums(_summary(X, Y), **options)


def other_checkpoint(rng: np.random.Generator) -> Problem:
    net = draw_network(rng)
    X = draw_inputs(rng, net)
    return X, net(X), net, "unidentifiable"


def over_another(
    X: np.ndarray, Y: np.ndarray, *, random_state: int, budget_seconds: float
) -> planted.Recovery:
    """Interrupt a run on other rows, put these in their place, and let the run go on; a refusal of the rows is one."""
    rng = np.random.default_rng([random_state, 3])
    other = TwoLayerNetwork(
        rng.standard_normal((3, X.shape[1])), rng.standard_normal(3), rng.standard_normal((Y.shape[1], 3))
    )
    left = int(rng.integers(0, 4))

    def stop_after(what: str, fraction: float | None) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise StopRequested

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        run = partial(planted.recover, random_state=random_state, budget_seconds=budget_seconds)
        np.savez(path, X=X, Y=other(X))
        rows = partial(planted.open_blocks, path, block_rows=max(len(X) // 50, 1))
        keep = partial(planted.checkpointed, folder=Path(folder) / "kept", parameters={"seed": random_state})
        first = run(keep(rows()), progress=stop_after)
        np.savez(path, X=X, Y=Y)
        try:
            return run(keep(rows(), resume=True))
        except BadInputError:  # the rows are not those of the checkpoint: the run does not go on
            return replace(first, network=None, outcome=Outcome.STOPPED_EARLY)


FAMILIES: dict[str, Callable[[np.random.Generator], Problem]] = {
    "summed_rare_unit": summed_rare_unit,
    "other_checkpoint": other_checkpoint,
}
DOORS: dict[str, Callable[..., planted.Recovery]] = {
    "rare_unit": partial(planted.recover, method="half-spaces"),
    "rare_unit_gross": partial(planted.recover, method="half-spaces"),
    "summed_rare_unit": from_summary,
    "other_checkpoint": over_another,
}
