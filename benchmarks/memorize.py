"""Memorising against its rivals: targets, what was measured, verdicts.

python benchmarks/memorize.py --quick                  # synthetic data alone, under a minute
python benchmarks/memorize.py --data DIR               # with MNIST (planted fetch-mnist DIR), some minutes, 2 threads
python benchmarks/memorize.py --data DIR --rows 10000  # the same on part of it
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np

import planted
from planted._streams import data_streams
from planted.io._mnist import ImageSet, load_mnist
from planted.reproduce import StudyOptions
from planted.reproduce._images import SETTINGS, feature_options, load_images, prepare_images

LABELS = ("target", "measured", "verdict")
EPOCHS = 60
STEPS = 60


def every_solver(seed: int = 0) -> list[dict[str, Any]]:
    """N = 300, d = 100, r = 300, uniform entries, unit rows: every solver to a loss of 1e-10."""
    X, y = uniform_data(300, 100, seed)
    options: dict[str, dict[str, Any]] = {
        "direct": {},
        "cg": {},
        "low-rank": {},
        "ridge": {"penalty": 1e-8},
        "pgd": {"width": 300},
        "lbfgs": {"width": 300},
        "adam": {
            "width": 300,
            "learning_rate": 0.01,
            "batch_size": 300,
            "decay": 0.5,
            "decay_every": 100,
            "max_epochs": 2000,
            "precision": "float64",
        },
    }
    rows = []
    for solver, extra in options.items():
        memory = planted.memorize(X, y, solver=solver, random_state=seed, **extra)
        measured = f"{memory.loss:.1e} in {memory.stats['solver_cpu_seconds']:.2f} CPU s, {memory.network.n_hidden} units"
        rows.append(line(f"n=300, d=100, {solver}: loss <= 1e-10", measured, memory.loss <= 1e-10))
    return rows


def near_capacity(seed: int = 1) -> list[dict[str, Any]]:
    """Solve d = 100 up to 0.99 d(d+1)/2 by auto; at n = 5,000 against CG and L-BFGS."""
    rows = []
    for n in (2500, 4000, 4999):
        X, y = uniform_data(n, 100, seed)
        memory = planted.memorize(X, y, random_state=seed)
        rows.append(line(f"d=100, n={n}, auto: loss <= 1e-10", f"{memory.loss:.1e}", memory.loss <= 1e-10))
        rows.append(
            line(
                f"d=100, n={n}: units <= d",
                f"{memory.network.n_hidden}, largest error {memory.conditions['largest_error']:.1e}",
                memory.network.n_hidden <= 100,
            )
        )
    X, y = uniform_data(5000, 100, seed)
    auto = planted.memorize(X, y, random_state=seed)
    ours = auto.stats["solver_cpu_seconds"]
    for rival, options in (("cg", {"max_iter": 3000}), ("lbfgs", {"max_iter": 2500})):
        other = planted.memorize(X, y, solver=rival, random_state=seed, **options)
        theirs = other.stats["solver_cpu_seconds"]
        measured = f"{ours:.1f} s (loss {auto.loss:.0e}) against {theirs:.1f} s (loss {other.loss:.0e}): {ours / theirs:.2f}"
        rows.append(
            line(
                f"d=100, n=5000: CPU of auto <= 1/5 of {rival}",
                measured,
                ours <= theirs / 5 and auto.loss <= 1e-10,
            )
        )
    return rows


def low_rank(seed: int = 2) -> list[dict[str, Any]]:
    """Rank-3 teacher, d = 60, n = 1,500: relative test error of the low-rank, ridge and least-norm solutions."""
    network = planted.simulate.teacher(60, 3, activation="quadratic", random_state=seed)
    data = planted.simulate.dataset(1500, network, random_state=seed)
    fresh = planted.simulate.dataset(2000, network, random_state=seed + 100)
    errors = {}
    for solver in ("low-rank", "ridge", "direct"):
        memory = planted.memorize(data.X, data.Y, solver=solver, random_state=seed)
        errors[solver] = float(np.mean((memory.network(fresh.X) - fresh.Y) ** 2) / np.mean(fresh.Y**2))
    listed = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
    return [line("rank-3 teacher: low-rank test error <= 1e-6 relative", listed, errors["low-rank"] <= 1e-6)]


def mnist(folder: Path, n_rows: int, seed: int = 3) -> list[dict[str, Any]]:
    """MNIST with noise 0.01 to a loss of 1e-10, against Adam's 60 epochs extrapolated from 60 steps."""
    images = load_mnist(folder)
    (rng,) = data_streams(seed, 1)
    X = unit_rows(images.X_train[:n_rows])
    X = X + 0.01 * rng.standard_normal(X.shape)
    y = images.y_train[:n_rows]
    ours = planted.memorize(X, y, solver="cg", tol=1e-11 / float(np.mean(y**2)), random_state=seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds, cpu = {}, {}
    for steps in (1, 1 + STEPS):  # the difference leaves out the start
        adam = planted.memorize(X, y, solver="adam", width=3000, max_iter=steps, random_state=seed)
        seconds[steps] = adam.stats["solver_seconds"]
        cpu[steps] = adam.stats["solver_cpu_seconds"]
    per_epoch = (seconds[1 + STEPS] - seconds[1]) / STEPS * np.ceil(n_rows / 128)
    ratio = ours.stats["solver_seconds"] / (EPOCHS * per_epoch)
    n_steps = EPOCHS * np.ceil(n_rows / 128)
    cpu_ratio = ours.stats["solver_cpu_seconds"] / ((cpu[1 + STEPS] - cpu[1]) / STEPS * n_steps)
    test_error = float(np.mean((ours.network(unit_rows(images.X_test))[:, 0] - images.y_test) ** 2))
    taken = f"{ours.stats['solver_seconds']:.0f} s, {ours.stats['iterations']} iterations"
    return [
        line(f"MNIST {n_rows:,}, noise 0.01: loss <= 1e-10", f"{ours.loss:.1e}", ours.loss <= 1e-10),
        line(
            "time <= 1/4 of 60 Adam epochs",
            f"{taken}; Adam {EPOCHS * per_epoch:.0f} s (from {STEPS} steps): {ratio:.3f}, CPU {cpu_ratio:.3f}",
            ratio <= 0.25,
        ),
        line("peak memory <= 12 GB", f"{peak:.1f} GB", peak <= 12),
        line(
            "units <= 784",
            f"{ours.network.n_hidden}; largest error {ours.conditions['largest_error']:.1e}",
            ours.network.n_hidden <= 784,
        ),
        line("test MSE (paper, no noise: 1.21)", f"{test_error:.3f}", None),
    ]


def mnist_settings(folder: Path, n_rows: int, settings: list[str], seed: int = 3) -> list[dict[str, Any]]:
    """Solve the paper's other settings of MNIST by conjugate gradients: loss, time and test error."""
    images = load_images("mnist", folder)
    part = ImageSet(images.X_train[:n_rows], images.y_train[:n_rows], images.X_test, images.y_test)
    rows = []
    for name in settings:
        setting = SETTINGS[name]
        X, y, X_test = prepare_images(part, setting, StudyOptions(seed=seed))
        options = feature_options(setting, StudyOptions(seed=seed))
        limit = {"max_iter": 150} if setting.noise == 0 else {}
        memory = planted.memorize(X, y, solver="cg", random_state=seed, **options, **limit)
        test_error = float(np.mean((memory.network(X_test)[:, 0] - images.y_test) ** 2))
        taken = f"{memory.stats['iterations']} iterations, {memory.stats['solver_cpu_seconds']:.0f} CPU s"
        measured = f"{memory.loss:.1e}, {taken}"
        if not setting.has_random_labels:
            measured += f"; test MSE {test_error:.3f}"
        passed = memory.loss <= 1e-10 if setting.noise else None
        rows.append(line(f"MNIST {n_rows:,}, {name}: loss <= 1e-10", measured, passed))
    return rows


def uniform_data(n: int, d: int, seed: int) -> tuple[Any, Any]:
    """Entries uniform in [-1, 1], rows of norm one, labels uniform in [-1, 1]."""
    rows, labels = data_streams(seed, 2)
    return unit_rows(rows.uniform(-1, 1, (n, d))), labels.uniform(-1, 1, n)


def unit_rows(X: Any) -> Any:
    """Divide each row by its norm."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def line(target: str, measured: str, passed: bool | None) -> dict[str, Any]:
    """Make one row of the table and show it."""
    verdict = "" if passed is None else ("pass" if passed else "FAIL")
    print(f"{target:58} | {measured:75} | {verdict}", flush=True)
    return dict(zip(LABELS, (target, measured, verdict), strict=True))


def main() -> None:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--only", choices=["mnist", "synthetic", "settings"])
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if chosen.only in (None, "synthetic"):
        rows += every_solver() + low_rank()
        rows += [] if chosen.quick else near_capacity()
    if chosen.data is not None and not chosen.quick:
        rows += mnist(chosen.data, chosen.rows) if chosen.only in (None, "mnist") else []
        rows += mnist_settings(chosen.data, chosen.rows, chosen.settings) if chosen.only == "settings" else []
    suffix = "" if chosen.only is None else f"_{chosen.only}"
    suffix += f"_{chosen.rows}" if chosen.only == "settings" else ""
    if not chosen.quick:
        out = Path(__file__).parent / "results" / f"memorize{suffix}.json"
        out.parent.mkdir(exist_ok=True)
        out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
