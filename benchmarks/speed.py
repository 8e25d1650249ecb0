"""How long users wait: default threads, the time until the answer is no, and the price of a certificate.

threads      The same call with the default number of BLAS threads and with one, each in a process of its own, as users
             start it: wall time, least of three, alternating; alone and beside a process that keeps one core busy. The
             networks must be equal, bit by bit.
no           Tables that no network made: processor time until the final answer over that of scikit-learn's
             ``GridSearchCV(MLPRegressor(max_iter=1000), 5 widths, 5 folds)`` on the same training rows in the same run,
             one thread for both, and the error on the same held-out rows: worse if the mean difference of squared errors
             is more than `WORSE` of its standard errors above zero. Five draws, for the real tables five splits; the
             largest ratio counts.
certificate  Instance ii (ten orthonormal units, ten outputs, noise 0.1, n = 10,000): processor time of finding, and of
             the certificate, per hit, over that of MLPRegressor with L-BFGS told the width.
cost         What `planted.diagnose` predicts over the processor time of ``planted.recover`` on the same rows in memory,
             nothing told and no method named. It predicts where complementarity, the first method, settles the answer,
             for fewer units than outputs; the other cases should have no prediction.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _table import Line, Rows, gather, run_sections

import planted
from planted.certificates import _noisy
from planted.recovery._registry import core_pace

WALL_RATIO = 1.15
NO_RATIO, QUICK_RATIO = 0.5, 0.1
WORSE = 2.0
REPEATS = 7  # of which the least counts: other work on a machine of two cores adds up to a quarter
SOLVER = 10_000  # solver seeds start here: never those of the data
WIDTHS = (4, 8, 16, 32, 64)
TABLES, SPLIT = 2000, 7  # first seed of the drawn tables; seed of what is held out

CALL = """
import hashlib, json, sys, time
import numpy as np
import planted
d, k, m, n, noise, table = json.loads(sys.argv[1])
if table:
    from sklearn.datasets import load_diabetes
    X, Y = load_diabetes(return_X_y=True)
else:
    data = planted.simulate.dataset(
        n, n_features=d, n_hidden=k, n_outputs=m, activity=(0.3, 0.7), noise=noise, random_state=3)
    X, Y = data.X, data.Y
planted.recover(X[:20], Y[:20], random_state=0, budget_seconds=0.5)  # imports
start = time.perf_counter()
net = planted.recover(X, Y, random_state=0).network
seconds = time.perf_counter() - start
bits = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in (net.W, net.b, net.A, net.c))).hexdigest()
print(json.dumps({"seconds": seconds, "bits": bits}))
"""
CALLS = {
    "noisy (10,6,7), n = 8,000": (10, 6, 7, 8000, 0.1, False),
    "scalar (20,20), n = 12 P": (20, 20, 1, 5300, 0.0, False),
    "few (20,10,15), n = 3 L": (20, 10, 15, 75, 0.0, False),
    "diabetes": (0, 0, 0, 0, 0.0, True),
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure_threads(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    """T17: wall time with default threads over one thread."""
    lines: list[Line] = []
    rows: Rows = []
    repeats = REPEATS if len(seeds(10)) > 1 else 1
    for name, shape in CALLS.items():
        for beside in (False, True):
            best = {"default": np.inf, "one": np.inf}
            bits = set()
            for _ in range(repeats):
                for threads, extra in (("default", {}), ("one", ONE_THREAD)):
                    done = run_call(shape, extra, beside)
                    best[threads] = min(best[threads], done["seconds"])
                    bits.add(done["bits"])
            ratio = best["default"] / best["one"]
            where = "beside a busy process" if beside else "alone"
            text = f"{ratio:.2f} ({best['default']:.2f} s); {'equal' if len(bits) == 1 else 'DIFFERENT'} bits"
            lines.append(
                Line(
                    f"threads, {name}, {where}: <= {WALL_RATIO}", text, ratio <= WALL_RATIO and len(bits) == 1
                )
            )
            rows.append({"call": name, "beside": beside, **best, "networks": len(bits)})
    return lines, rows


def run_call(shape: tuple[Any, ...], extra: dict[str, str], beside: bool) -> dict[str, Any]:
    """Run one recovery in a process of its own, perhaps beside one that never rests."""
    environment = {name: value for name, value in os.environ.items() if name not in ONE_THREAD} | extra
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if beside else None
    try:
        command = [sys.executable, "-c", CALL, json.dumps(shape)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    finally:
        if busy is not None:
            busy.kill()
            busy.wait()
    return dict(json.loads(done.stdout.splitlines()[-1]))


def tables(seed: int) -> dict[str, tuple[Any, Any]]:
    """Eight tables that no ReLU network made."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
    from sklearn.tree import DecisionTreeRegressor

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 8))
    W, b = rng.standard_normal((4, 8)) / 2, rng.standard_normal(4) / 2
    A = rng.standard_normal((5, 4))
    t = X @ W.T + b
    noise = 0.1 * rng.standard_normal((400, 5))
    wine, cancer = load_wine(), load_breast_cancer()
    tree = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, np.tanh(t) @ A[0])
    return {
        "tanh": (X, np.tanh(t) @ A.T),
        "GELU": (X, (t / (1 + np.exp(-1.702 * t))) @ A.T + noise),
        "tree": (X, tree.predict(X)[:, None] + noise[:, :1]),
        "polynomial": (X, (X[:, :1] * X[:, 1:2] + X[:, 2:3] ** 2) + noise[:, :1]),
        "diabetes": (load_diabetes().data, load_diabetes().target[:, None]),
        "wine": (wine.data[:, 1:], wine.data[:, :1]),
        "breast cancer": (cancer.data[:, 1:], cancer.data[:, :1]),
        "white noise": (X, rng.standard_normal((400, 1))),
    }


def measure_no(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    """T18: processor time until the final answer on tables that are not planted, the largest of several draws."""
    rows = [no_of_table(*item, seed) for seed in seeds(5) for item in tables(TABLES + seed).items()]
    lines = []
    for name in tables(TABLES):
        own = [row for row in rows if row["table"] == name]
        for effort, limit in (("normal", NO_RATIO), ("quick", QUICK_RATIO)):
            ratios = [row[effort] / row["peer"] for row in own]
            error, peer = (np.mean([row["errors"][who] for row in own]) for who in (effort, "MLP"))
            excess = np.concatenate([row["excess"][effort] for row in own])
            is_worse = excess.mean() > WORSE * excess.std(ddof=1) / np.sqrt(len(excess))
            text = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(own)}; error {error:.3f}, MLP {peer:.3f}"
            lines.append(
                Line(f"no, {name}, {effort}: <= {limit}", text, max(ratios) <= limit and not is_worse)
            )
    for row in rows:
        del row["excess"]
    return lines, rows


def no_of_table(name: str, table: tuple[Any, Any], seed: int) -> dict[str, Any]:
    """Measure one table: seconds, held-out errors, and by how much the squared error of a row exceeds the rival's."""
    from threadpoolctl import threadpool_limits

    X, Y = table
    parts = np.random.default_rng([SPLIT, seed]).permutation(len(X)) % 5
    train, test = parts != 0, parts == 0
    level = float(((Y[test] - Y[train].mean(axis=0)) ** 2).mean())
    scale = Y[train].std(axis=0)
    with threadpool_limits(1):
        peer_seconds, peer = cpu(search_mlp, X[train], np.squeeze(Y[train] / scale))
        predicted = {"MLP": peer.predict(X[test]).reshape(Y[test].shape) * scale}
        seconds = {}
        for effort in ("quick", "normal"):
            seconds[effort], found = cpu(
                planted.recover, X[train], Y[train], effort=effort, random_state=seed
            )
            predicted[effort] = found.network(X[test])
    squares = {who: ((values - Y[test]) ** 2).mean(axis=1) / level for who, values in predicted.items()}
    return {
        "table": name,
        "seed": seed,
        "peer": peer_seconds,
        **seconds,
        "errors": {who: float(values.mean()) for who, values in squares.items()},
        "excess": {effort: squares[effort] - squares["MLP"] for effort in seconds},
    }


def search_mlp(X: Any, Y: Any) -> Any:
    """Search the width of a network as users of scikit-learn do."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    grid = {"mlpregressor__hidden_layer_sizes": [(width,) for width in WIDTHS]}
    model = make_pipeline(StandardScaler(), MLPRegressor(max_iter=1000, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GridSearchCV(model, grid, cv=5).fit(X, Y)


def measure_certificate(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    """T19: finding and certifying instance ii beside L-BFGS."""
    from sklearn.neural_network import MLPRegressor
    from threadpoolctl import threadpool_limits

    spent = {"certificate": 0.0}
    plain = _noisy.certify_noisy

    def timed(*args: Any, **options: Any) -> Any:
        seconds, verdict = cpu(plain, *args, **options)
        spent["certificate"] += seconds
        return verdict

    hits, peer_hits, ours, peers = 0, 0, 0.0, 0.0
    warm = planted.simulate.dataset(
        400, n_features=3, n_hidden=2, n_outputs=2, activity=(0.4, 0.6), noise=0.1, random_state=0
    )
    planted.recover(warm.X, warm.Y, 2, random_state=0)  # imports, of both
    MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", max_iter=5, random_state=0).fit(warm.X, warm.Y)
    for seed in seeds(10):
        rng = np.random.default_rng(seed)
        truth = planted.TwoLayerNetwork(
            np.linalg.qr(rng.standard_normal((10, 10)))[0],
            None,
            np.linalg.qr(rng.standard_normal((10, 10)))[0],
        )
        data = planted.simulate.dataset(10_000, truth, noise=0.1, random_state=seed)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            replace_everywhere(plain, timed)
            seconds, found = cpu(planted.recover, data.X, data.Y, 10, random_state=seed)
            replace_everywhere(timed, plain)
            ours += seconds
            hits += planted.parameter_error(found.network, truth) < 0.02
            model = MLPRegressor(hidden_layer_sizes=(10,), solver="lbfgs", max_iter=2000, random_state=seed)
            seconds, model = cpu(model.fit, data.X, data.Y)
            peers += seconds
            peer = planted.TwoLayerNetwork(
                model.coefs_[0].T, model.intercepts_[0], model.coefs_[1].T, model.intercepts_[1]
            )
            peer_hits += planted.parameter_error(peer, truth) < 0.02
    each = peers / max(peer_hits, 1)
    finding, everything = (ours - spent["certificate"]) / max(hits, 1) / each, ours / max(hits, 1) / each
    share = spent["certificate"] / ours
    lines = [
        Line("certificate, finding per hit over L-BFGS: <= 1", f"{finding:.2f} ({hits}, {peer_hits} hits)", finding <= 1),
        Line("certificate, with it: <= 2", f"{everything:.2f}", everything <= 2),
        Line("certificate, its share of a recovery: <= 30 %", f"{share:.0%}", share <= 0.3),
    ]  # fmt: skip
    return lines, [
        {"ours": ours, "certificate": spent["certificate"], "lbfgs": peers, "hits": [hits, peer_hits]}
    ]


COSTS = (
    (4, 2, 3, 500, 0.05), (10, 5, 6, 1000, 0.1), (10, 6, 7, 8000, 0.1), (6, 3, 4, 20_000, 0.1), (16, 8, 9, 20_000, 0.1),
    (10, 5, 6, 100_000, 0.1), (8, 4, 5, 60_000, 0.3), (4, 2, 3, 500, 0.0), (10, 5, 6, 1000, 0.0),
    (20, 10, 15, 5000, 0.0), (10, 5, 6, 100_000, 0.0), (16, 8, 9, 60_000, 0.0),
    (5, 3, 3, 600, 0.1), (5, 3, 3, 600, 0.0), (6, 4, 2, 1000, 0.1), (4, 3, 1, 800, 0.1),
)  # fmt: skip


def measure_cost(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    """Processor time that `diagnose` predicts over that of the recovery, rows in memory."""
    lines: list[Line] = []
    rows: Rows = []
    seed = seeds(1)[0]
    for *shape, noise in (
        (4, 2, 3, 500, 0.1),
        (4, 2, 3, 500, 0.0),
        *COSTS,
    ):  # the first two are for the imports
        d, k, m, n = shape
        data = planted.simulate.dataset(
            n, n_features=d, n_hidden=k, n_outputs=m, activity=(0.3, 0.7), noise=noise, random_state=seed
        )
        cost = planted.diagnose(data.X, data.Y, random_state=SOLVER + seed).cost
        seconds, found = cpu(planted.recover, data.X, data.Y, random_state=SOLVER + seed)
        row = {"shape": shape, "noise": noise, "predicted": cost and cost.seconds, "seconds": seconds}
        row["pace"] = core_pace()
        rows.append(row | {"outcome": found.outcome.name, "method": found.provenance.algorithm})
        name = f"cost, ({d},{k},{m}), n = {n:,}, noise {noise:g}: "
        ratio = cost.seconds / seconds if cost else float("nan")
        text = (
            f"{ratio:.2f} ({cost.seconds:.2f} s, took {seconds:.2f} s)"
            if cost
            else f"none (took {seconds:.2f} s)"
        )
        wanted = "predicted over measured, 0.5 to 2" if k < m else "the same, or no prediction"
        lines.append(Line(f"{name}{wanted}", text, 0.5 < ratio < 2 or (cost is None and k >= m)))
    return lines[2:], rows[2:]


def replace_everywhere(old: Any, new: Any) -> None:
    """Put one certificate in the place of another in every module that holds it."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("planted") and vars(module).get("certify_noisy") is old:
            module.certify_noisy = new  # type: ignore[attr-defined]


def cpu(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[float, Any]:
    """Call a function; return processor seconds and the result."""
    start = time.process_time()
    result = function(*args, **options)
    return time.process_time() - start, result


if __name__ == "__main__":
    run_sections(
        "speed",
        __doc__ or "",
        {
            "threads": gather(measure_threads),
            "no": gather(measure_no),
            "certificate": gather(measure_certificate),
            "cost": gather(measure_cost),
        },
    )
