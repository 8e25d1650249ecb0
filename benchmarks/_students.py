"""A peer for `activations.py`: expand and cluster. Units that over-wide PyTorch students share are kept and fitted again.

Several students of `EXPANSION` times the teacher's width are trained in double precision, by Adam with a cosine schedule or
by L-BFGS with a strong Wolfe search. Units without part in the output are left out; those of all students are clustered by
average linkage of (w, b), turned round where the activation is odd. A cluster with units in at least half of the students
becomes one unit, the median of them, with the sum of their output weights; the network of these units is fitted again by
L-BFGS. Learning rate, steps and the distance of clusters are not tuned yet.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from sklearn.cluster import AgglomerativeClustering

from planted import TwoLayerNetwork

EXPANSION, STUDENTS = 3, 3
ADAM_STEPS, ADAM_RATE = 3000, 2e-2
LBFGS_STEPS, TUNING_STEPS = 600, 600
SILENT = 1e-3  # part of the outputs' standard deviation that a unit moves
NEAR = 0.15  # distance of clusters, relative to the median norm of units

SHAPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": torch.nn.functional.softplus,
    "gelu": torch.nn.functional.gelu,
}


def expand_and_cluster(
    X: np.ndarray, y: np.ndarray, k: int, name: str, solver: str, seed: int
) -> TwoLayerNetwork | None:
    """Return the fitted network of the shared units, None if students share none."""
    torch.manual_seed(seed)
    f, rows = SHAPES[name], torch.as_tensor(np.column_stack([X, np.ones(len(X))]))
    mean, scale = float(y.mean()), float(y.std())
    target = torch.as_tensor((y - mean) / scale)
    width, p = EXPANSION * k, rows.shape[1]
    V = torch.randn(STUDENTS, width, p, dtype=torch.float64)
    a = torch.randn(STUDENTS, width, dtype=torch.float64) / np.sqrt(width)
    c = torch.zeros(STUDENTS, 1, dtype=torch.float64)
    students = (
        _adam(f, rows, target, (V, a, c)) if solver == "adam" else _lbfgs_each(f, rows, target, (V, a, c))
    )
    units = _shared_units(f, rows, students, name)
    if units is None:
        return None
    parts = units[0][None], units[1][None], students[2].mean()[None, None]
    V, a, c = (part[0].numpy() for part in _lbfgs(f, rows, target, parts, TUNING_STEPS))
    return TwoLayerNetwork(V[:, :-1], V[:, -1], scale * a[None], scale * c + mean, name)


Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Shape = Callable[[torch.Tensor], torch.Tensor]


def _losses(f: Shape, rows: torch.Tensor, target: torch.Tensor, parts: Parts) -> torch.Tensor:
    V, a, c = parts
    outputs = torch.einsum("snk,sk->sn", f(rows @ V.transpose(1, 2)), a) + c
    return ((outputs - target) ** 2).mean(dim=1)


def _adam(f: Shape, rows: torch.Tensor, target: torch.Tensor, parts: Parts) -> Parts:
    """All students at once: the steps of Adam do not mix them."""
    free = [part.clone().requires_grad_() for part in parts]
    solver = torch.optim.Adam(free, lr=ADAM_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(solver, ADAM_STEPS)
    for _ in range(ADAM_STEPS):
        solver.zero_grad()
        _losses(f, rows, target, (free[0], free[1], free[2])).sum().backward()
        solver.step()
        schedule.step()
    V, a, c = (part.detach() for part in free)
    return V, a, c


def _lbfgs(f: Shape, rows: torch.Tensor, target: torch.Tensor, parts: Parts, steps: int) -> Parts:
    free = [part.clone().requires_grad_() for part in parts]
    solver = torch.optim.LBFGS(
        free, max_iter=steps, history_size=50, line_search_fn="strong_wolfe", tolerance_grad=1e-14, tolerance_change=1e-16
    )  # fmt: skip

    def closure() -> torch.Tensor:
        solver.zero_grad()
        loss = _losses(f, rows, target, (free[0], free[1], free[2])).sum()
        loss.backward()
        return loss

    solver.step(closure)
    V, a, c = (part.detach() for part in free)
    return V, a, c


def _lbfgs_each(f: Shape, rows: torch.Tensor, target: torch.Tensor, parts: Parts) -> Parts:
    ends = [_lbfgs(f, rows, target, tuple(part[[i]] for part in parts), LBFGS_STEPS) for i in range(STUDENTS)]
    V, a, c = (torch.cat([end[place] for end in ends]) for place in range(3))
    return V, a, c


def _shared_units(
    f: Shape, rows: torch.Tensor, students: Parts, name: str
) -> tuple[torch.Tensor, torch.Tensor] | None:
    V, a, _ = students
    parts = a.abs() * f(rows @ V.transpose(1, 2)).std(dim=1)
    owner, number = torch.nonzero(parts > SILENT, as_tuple=True)
    units, weights = V[owner, number].numpy(), a[owner, number].numpy()
    if name == "relu":
        sizes = np.linalg.norm(units[:, :-1], axis=1)
        units, weights = units / sizes[:, None], weights * sizes
    if name in ("tanh", "sigmoid"):
        first = np.take_along_axis(units, np.abs(units).argmax(axis=1)[:, None], axis=1)[:, 0]
        units, weights = units * np.sign(first)[:, None], weights * np.sign(first)
    if len(units) < 2:
        return None
    limit = NEAR * float(np.median(np.linalg.norm(units, axis=1)))
    clusters = AgglomerativeClustering(None, distance_threshold=limit, linkage="average").fit_predict(units)
    kept = []
    for cluster in range(clusters.max() + 1):
        own = clusters == cluster
        owners = np.unique(owner.numpy()[own])
        if len(owners) >= STUDENTS / 2:
            kept.append(np.append(np.median(units[own], axis=0), weights[own].sum() / len(owners)))
    if not kept:
        return None
    found = np.array(kept)
    return torch.as_tensor(found[:, :-1]), torch.as_tensor(found[:, -1])
