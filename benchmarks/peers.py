"""What the alternatives reach on the same data: scikit-learn, PyTorch and SciPy, tuned on other teachers, then frozen.

Protocol: every peer is told k. Its settings are chosen from the grid below on teachers that are not used again (most hits,
then least CPU; the short version takes the first). Then all peers and planted run on the same teachers, interleaved, each
peer from several starts. A hit is a parameter error below 1e-3 on matched units, with noise twice that of least squares
started at the truth; hits come with a 95 % Wilson interval and CPU seconds per hit. Ratios below two are noise.

few   as many outputs as units, biases, only four times the information limit of samples: (10, 5, 5), n = 60
ii    as many outputs as units, orthonormal, no biases, noise 0.1: (10, 10, 10), n = 2,000
iii   one output, biases: (10, 5), n = 2,000
iv    one output, units of one sign, no biases: (20, 10), n = 2,000
x1    one output, more units than inputs: (10, 15), n = 2,000
convex  iii with n = 1,000 for pyscnn, which solves a convex problem instead: it has no starts and no k. Measured is what it
      finds of the truth. It runs by the Python that PLANTED_SCNN_PYTHON names, where ``pip install pyscnn`` was done.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from _table import Line, Rows, Section, run_sections, wilson
from scipy import optimize

import planted
from planted import RowBlocks, TwoLayerNetwork, simulate
from planted.fitting._refine import refine
from planted.outcomes import BadInputError

HIT = 1e-3
TUNING = 50_000  # teachers for tuning start here, and solver seeds at SOLVER: never those of the comparison
SOLVER = 10_000
CONVEX_NEURONS, CONVEX_PENALTIES = 200, (1e-5, 1e-4, 1e-3)
Settings = dict[str, Any]
TEACHER: Settings = {"bias": (-1.0, 1.0), "outputs": "magnitudes"}


def problem(name: str, seed: int, n: int) -> tuple[simulate.Dataset, int]:
    if name == "few":
        shape: Settings = {"n_features": 10, "n_hidden": 5, "n_outputs": 5, "activity": (0.3, 0.7)}
        return simulate.dataset(60, random_state=seed, **shape), 5
    if name == "ii":
        shape = {"n_features": 10, "n_hidden": 10, "n_outputs": 10, "noise": 0.1}
        designs: Settings = {"hidden": "orthonormal", "outputs": "orthonormal"}
        return simulate.dataset(n, random_state=seed, **shape, **designs), 10
    if name == "iv":
        shape = {"n_features": 20, "n_hidden": 10, "outputs": "magnitudes", "signs": "same"}
        return simulate.dataset(n, random_state=seed, **shape), 10
    k = {"iii": 5, "x1": 15}[name]
    return simulate.dataset(n, n_features=10, n_hidden=k, random_state=seed, **TEACHER), k


def limit(name: str, data: simulate.Dataset) -> float:
    """Return the parameter error of a hit."""
    if name != "ii":
        return HIT
    best = refine(RowBlocks.from_arrays(data.X, data.Y), data.network)
    return 2 * planted.parameter_error(best.network, data.network)


def start(data: simulate.Dataset, k: int, spread: float, rng: np.random.Generator) -> list[Any]:
    """Return hidden weights and biases, output weights and offset drawn as is usual, times `spread`."""
    d, m = data.X.shape[1], data.Y.shape[1]
    W = spread * rng.standard_normal((k, d)) * sqrt(2 / d)
    return [W, spread * rng.standard_normal(k), rng.standard_normal((m, k)) * sqrt(2 / k), np.zeros(m)]


def fit_scipy(data: simulate.Dataset, k: int, settings: Settings, seed: int) -> TwoLayerNetwork:
    """Minimise the squared error by L-BFGS-B with exact gradients."""
    X, Y = data.X, data.Y
    parts = start(data, k, settings["spread"], np.random.default_rng(seed))
    cuts = np.cumsum([part.size for part in parts])[:-1]
    shapes = [part.shape for part in parts]

    def split(theta: Any) -> list[Any]:
        return [part.reshape(shape) for part, shape in zip(np.split(theta, cuts), shapes, strict=True)]

    def loss(theta: Any) -> tuple[float, Any]:
        W, b, A, c = split(theta)
        T = X @ W.T + b
        H = np.maximum(T, 0.0)
        residual = (H @ A.T + c - Y) / len(X)
        slope = (residual @ A) * (T > 0)
        gradient = [slope.T @ X, slope.sum(0), residual.T @ H, residual.sum(0)]
        return len(X) * float((residual**2).sum()) / 2, np.concatenate([part.ravel() for part in gradient])

    options = {"maxcor": settings["maxcor"], "maxiter": 2000, "maxfun": 10_000, "ftol": 0, "gtol": 1e-10}
    first = np.concatenate([part.ravel() for part in parts])
    return TwoLayerNetwork(
        *split(optimize.minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x)
    )


def fit_sklearn(data: simulate.Dataset, k: int, settings: Settings, seed: int) -> TwoLayerNetwork:
    from sklearn.neural_network import MLPRegressor

    model = MLPRegressor(hidden_layer_sizes=(k,), alpha=0.0, random_state=seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when its iterations end; the table shows the result
        model.fit(data.X, data.Y if data.Y.shape[1] > 1 else data.Y[:, 0])
    (hidden, outputs), (biases, offset) = model.coefs_, model.intercepts_
    return TwoLayerNetwork(hidden.T, biases, outputs.T, offset)


def fit_torch(data: simulate.Dataset, k: int, settings: Settings, seed: int) -> TwoLayerNetwork:
    import torch

    X, Y = torch.from_numpy(np.array(data.X)), torch.from_numpy(np.array(data.Y))
    parts = start(data, k, settings["spread"], np.random.default_rng(seed))
    W, b, A, c = (torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in parts)

    def loss(rows: Any) -> Any:
        return ((torch.relu(X[rows] @ W.T + b) @ A.T + c - Y[rows]) ** 2).mean()

    if settings["solver"] == "lbfgs":
        solver = torch.optim.LBFGS([W, b, A, c], max_iter=settings["steps"], history_size=30, tolerance_grad=1e-12,
                                   tolerance_change=0.0, line_search_fn="strong_wolfe")  # fmt: skip

        def closure() -> Any:
            solver.zero_grad()
            value = loss(slice(None))
            value.backward()
            return value

        solver.step(closure)
    else:
        adam = torch.optim.Adam([W, b, A, c], lr=settings["lr"])
        fall = torch.optim.lr_scheduler.CosineAnnealingLR(adam, settings["steps"])
        generator = torch.Generator().manual_seed(seed)
        for _ in range(settings["steps"]):
            adam.zero_grad()
            loss(torch.randint(len(X), (min(settings["batch"], len(X)),), generator=generator)).backward()
            adam.step()
            fall.step()
    return TwoLayerNetwork(*(part.detach().numpy() for part in (W, b, A, c)))


Fit = Callable[[simulate.Dataset, int, Settings, int], TwoLayerNetwork]
PEERS: dict[str, tuple[Fit, list[Settings]]] = {
    "SciPy L-BFGS": (fit_scipy, [{"spread": s, "maxcor": c} for s in (0.3, 1.0) for c in (10, 30)]),
    "MLPRegressor lbfgs": (
        fit_sklearn,
        [{"solver": "lbfgs", "max_iter": n, "max_fun": 4 * n, "tol": 1e-12} for n in (1000, 4000)],
    ),
    "MLPRegressor adam": (
        fit_sklearn,
        [{"solver": "adam", "max_iter": 400, "tol": 1e-9, "n_iter_no_change": 30, "learning_rate_init": lr}
         for lr in (1e-3, 3e-3, 1e-2)],
    ),
    "PyTorch L-BFGS": (fit_torch, [{"solver": "lbfgs", "spread": s, "steps": 1500} for s in (0.3, 1.0)]),
    "PyTorch Adam": (
        fit_torch,
        [{"solver": "adam", "spread": s, "lr": lr, "steps": 3000, "batch": 256} for s in (0.3, 1.0) for lr in (1e-2, 3e-2)],
    ),
}  # fmt: skip


def attempt(
    fit: Fit, problem: tuple[simulate.Dataset, int], settings: Settings, seed: int, *, below: float
) -> tuple[bool, float]:
    """Return whether a start hit the planted network, and its CPU seconds."""
    began = time.process_time()
    try:
        network = fit(*problem, settings, seed)
    except BadInputError:  # weights that are not finite are no network
        return False, time.process_time() - began
    cpu = time.process_time() - began
    return planted.parameter_error(network, problem[0].network) < below, cpu


def tune(name: str, peer: str, n: int, sizes: tuple[int, int]) -> Settings:
    """Choose the settings with most hits, then least CPU, on teachers that are not used again."""
    fit, grid = PEERS[peer]
    scores = []
    for settings in grid:
        tries = []
        for teacher in range(sizes[0]):
            data, k = problem(name, TUNING + teacher, n)
            below = limit(name, data)
            tries += [
                attempt(fit, (data, k), settings, SOLVER + first, below=below) for first in range(sizes[1])
            ]
        scores.append((-sum(hit for hit, _ in tries), sum(cpu for _, cpu in tries)))
    return grid[min(range(len(grid)), key=lambda i: scores[i])]


def compare(name: str, n: int, teachers: range, starts: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """Run everyone on the same teachers, interleaved."""
    tuning = (max(len(teachers) // 4, 1), max(starts // 4, 1))
    is_short = len(teachers) == 1
    chosen = {peer: grid[0] if is_short else tune(name, peer, n, tuning) for peer, (_, grid) in PEERS.items()}
    totals = {peer: [0, 0, 0.0] for peer in ("planted", *PEERS)}
    for teacher in teachers:
        data, k = problem(name, teacher, n)
        below = limit(name, data)
        began = time.process_time()
        answer = planted.recover(data.X, data.Y, k, random_state=SOLVER + teacher)
        cpu = time.process_time() - began
        is_hit = answer.network is not None and planted.parameter_error(answer.network, data.network) < below
        totals["planted"] = [a + b for a, b in zip(totals["planted"], (int(is_hit), 1, cpu), strict=True)]
        for first in range(starts):
            for peer, settings in chosen.items():
                seed = SOLVER + 100 * teacher + first
                hit, used = attempt(PEERS[peer][0], (data, k), settings, seed, below=below)
                totals[peer] = [a + b for a, b in zip(totals[peer], (int(hit), 1, used), strict=True)]
    lines, rows = [], []
    for peer, (hits, tries, cpu) in totals.items():
        low, high = wilson(int(hits), int(tries))
        per_hit = f"{cpu / hits:.2f} s CPU per hit" if hits else f"no hit in {cpu:.1f} s CPU"
        text = f"{hits}/{tries} hits ({low:.0%} to {high:.0%}), {per_hit}"
        is_ours = peer == "planted"
        lines.append(Line(f"{name}: {peer}", text, not is_ours or hits == tries))
        rows.append({"problem": name, "peer": peer, "hits": hits, "tries": tries, "cpu": cpu,
                     "settings": chosen.get(peer, {})})  # fmt: skip
        print(lines[-1].target, text, flush=True)
    return lines, rows


def measure(name: str) -> Section:
    """Make the section of a problem."""

    def section(options: argparse.Namespace) -> tuple[list[Line], Rows]:
        teachers = range(options.seed, options.seed + (1 if options.quick else 10))
        return compare(name, 2000, teachers, 1 if options.quick else 10)

    return section


def fit_convex(data: simulate.Dataset, penalty: float, seed: int) -> tuple[TwoLayerNetwork, float]:
    """Return pyscnn's network and its CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/data.npz", f"{folder}/network.npz"
        np.savez(source, X=data.X, y=data.Y)
        worker = Path(__file__).with_name("_pyscnn_fit.py")
        arguments = [worker, source, target, str(CONVEX_NEURONS), str(penalty), str(seed)]
        subprocess.run([os.environ["PLANTED_SCNN_PYTHON"], *arguments], check=True, capture_output=True)
        with np.load(target, allow_pickle=False) as found:
            return TwoLayerNetwork(found["W"], found["b"], found["A"]), float(found["cpu"])


def judge_convex(network: TwoLayerNetwork, truth: TwoLayerNetwork, X: Any) -> dict[str, float]:
    """Return the error on rows not used, the units, and how many of the truth's are among them, up to scale."""
    y = truth(X)
    hyperplanes = [
        np.hstack([net.W, net.b[:, None]]) / np.linalg.norm(net.W, axis=1, keepdims=True)
        for net in (network, truth)
    ]
    nearest = np.linalg.norm(hyperplanes[0][:, None] - hyperplanes[1], axis=2).min(axis=0)
    error = float(((network(X) - y) ** 2).mean() / y.var())
    return {"error": error, "units": network.n_hidden, "found": int((nearest < HIT).sum())}


def convex(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    """Ask pyscnn, its penalty tuned on another teacher, for the units of ten networks."""
    if not os.environ.get("PLANTED_SCNN_PYTHON"):
        return [Line("convex: pyscnn", "not compared: PLANTED_SCNN_PYTHON names no Python with it", True)], []

    def ask(teacher: int, penalty: float) -> dict[str, Any]:
        data, _ = problem("iii", teacher, 1000)
        network, cpu = fit_convex(data, penalty, SOLVER + teacher)
        X = simulate.inputs(2000, data.X.shape[1], random_state=TUNING + teacher)
        return {"seed": teacher, "penalty": penalty, "cpu": cpu} | judge_convex(network, data.network, X)

    penalty = min(CONVEX_PENALTIES, key=lambda value: ask(TUNING, value)["error"])
    rows = [ask(options.seed + i, penalty) for i in range(1 if options.quick else 10)]
    error, units, cpu = (float(np.median([row[key] for row in rows])) for key in ("error", "units", "cpu"))
    text = (
        f"{sum(row['found'] for row in rows)} of {5 * len(rows)} units found; error on other rows {error:.2f} of the "
        f"variance, {units:.0f} units, {cpu:.0f} s CPU in the median"
    )
    return [Line("convex: pyscnn", text, True)], rows


SECTIONS = {name: measure(name) for name in ("few", "ii", "iii", "iv", "x1")} | {"convex": convex}


if __name__ == "__main__":
    run_sections("peers", __doc__ or "", SECTIONS)
