"""Reading networks with several hidden layers back by queries: how exact, with how many questions, what is refused.

Depth and widths are never given. Teachers have He-scaled normal weights and biases of standard deviation 0.5; typical inputs
are standard normal. A teacher with a unit that is never off within ±4, a weight that has no effect there, or a unit that is
on only where more units below are on than there are inputs, or units of the last hidden layer that are all on wherever one
below is on and can trade their weights to it, has several networks with the same answers: mixed-integer programs decide
that, it must not be claimed, and it is not counted. The solver takes binaries within 1e-6 of an integer for
integers, so a program cannot tell a unit that is on by less than 2e-6 of the largest bound in it from one that is off: on,
or off, by no more than that counts as never. What a program does not decide in 20 seconds counts against us. Units that are
off everywhere within ±4 leave no trace and are left out of the comparison. Times are of the processor. The published
extraction needs 92 questions per parameter for 80-40-20-1 [Carlini2020]. ACAS Xu, a network that was trained elsewhere, is
read from --acas FOLDER.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from _table import Line, Rows, Section, run_sections
from scipy.optimize import Bounds, LinearConstraint, milp

import planted
from planted import DeepNetwork
from planted.checks import Check
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._patterns import network_constraints
from planted.outcomes import PlantedError

EXACT = 1e-10
SOLVER = 10_000  # solver seeds start here: never those of the data
# widths: (seeds, share that must be exact, questions per parameter in the median)
CONTRACTIVE = {
    (10, 10, 10, 1): (20, 1.0, 15),
    (20, 10, 10, 1): (20, 1.0, 15),
    (20, 10, 5, 3): (20, 1.0, 15),
    (40, 20, 10, 1): (20, 1.0, 7),
    (64, 32, 16, 10): (20, 1.0, 7),
    (80, 40, 20, 1): (20, 1.0, 7),
}
THREE = {
    (20, 10, 8, 6, 1): (20, 0.9, 30),
    (40, 20, 10, 10, 1): (10, 0.9, 30),
    (10, 10, 10, 10, 1): (30, 0.9, 30),
}
WIDENING = {
    (8, 14, 10, 1): (10, 0.9, 40),
    (10, 20, 20, 1): (10, 0.9, 40),
    (4, 16, 16, 2): (20, 0.9, 40),
}
# widths: questions that may be asked
ATTEMPTED = {(20, 8, 16, 1): 20_000, (30, 16, 12, 8, 6, 1): 40_000, (4, 64, 64, 2): 60_000}
LEAKY = (((20, 10, 10, 1), 0.1), ((20, 10, 5, 3), 0.05), ((20, 10, 8, 6, 1), 0.2))
REGION = 4.0  # typical inputs are within ±4
INTEGRAL = 2e-6  # of the largest bound: what the solver takes for zero, twice its tolerance for integers
BOX = (-3.0, 3.0)
BOXED = {(20, 10, 10, 1): (10, 0.9, 40)}
ACAS_BUDGET = 40_000
ACAS_OPTION = {
    "type": Path,
    "metavar": "FOLDER",
    "help": "folder with an ACAS Xu network 2_2 (.onnx)",
}

Result = tuple[Line, dict[str, Any]]
Families = dict[tuple[int, ...], tuple[int, float, float]]


def draw(widths: tuple[int, ...], seed: int) -> DeepNetwork:
    rng = np.random.default_rng([seed, 27, *widths])
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]
    return DeepNetwork(layers)


class Program:
    """What a unit of the next layer can reach above known layers, for inputs within ±room: mixed-integer programs."""

    def __init__(self, layers: list[Any], room: float) -> None:
        self.matrix, self.low, self.high, self.n_binary = network_constraints(layers, room)
        self.d, self.width, total = layers[0][0].shape[1], len(layers[-1][1]), self.matrix.shape[1]
        self.start = total - self.n_binary - self.width
        self.room, self.total = room, total
        self.margin = INTEGRAL * float(np.abs(self.matrix.data).max())

    def reaches(self, row: Any, bias: float, below: int | None = None, *, off: bool = False) -> bool:
        """Whether row·h + bias can be positive, with unit `below` on, or off, if one is given; True if it is not refuted."""
        at_least = np.concatenate([np.full(self.d, -self.room), np.zeros(self.total - self.d)])
        at_most = np.concatenate([np.full(self.d, self.room), np.full(self.total - self.d, np.inf)])
        at_most[-self.n_binary :] = 1.0
        if below is not None and off:
            at_most[self.start + below] = 0.0
        elif below is not None:
            at_least[self.start + below] = self.margin
        goal = np.zeros(self.total)
        goal[self.start : self.start + self.width] = -row
        kinds = np.concatenate([np.zeros(self.total - self.n_binary), np.ones(self.n_binary)])
        best = milp(
            goal,
            constraints=LinearConstraint(self.matrix, self.low, self.high),
            bounds=Bounds(at_least, at_most),
            integrality=kinds,
            options={"time_limit": 20.0},
        )
        if best.status == 2:  # infeasible
            return False
        return best.mip_dual_bound is None or bias - best.mip_dual_bound > self.margin


def seen_within(net: DeepNetwork, room: float) -> tuple[DeepNetwork, bool]:
    """The network without units that are off for all inputs within ±room, and whether answers there determine the rest.

    They do not where a unit is never off, or where a unit is never on together with one below it: their weight has no
    effect. Nor do they where more units of the first layer than there are inputs are on wherever one above is on: it sees a
    linear function of the inputs only, which other weights give as well. Nor where more units of the last hidden layer than
    their output weights have dimensions are on wherever one below is on: only sums of their weights to it show. What a
    sample shows needs no program.
    """
    X = (
        np.random.default_rng(0).uniform(-room, room, (20_000, net.widths[0]))
        * np.linspace(0.05, 1, 20_000)[:, None]
    )
    layers, determined = [net.layers[0]], True
    kept = np.ones(net.widths[1], dtype=np.bool_)
    for number in range(1, net.n_hidden_layers):
        W, b = net.layers[number]
        W = W[:, kept]
        H = pass_layers(layers, X)
        on = H @ W.T + b > 0
        program = Program(layers, room)
        kept = np.array([on[:, i].any() or program.reaches(W[i], b[i]) for i in range(len(b))])
        for i in np.flatnonzero(kept):
            if on[:, i].all() and not program.reaches(-W[i], -b[i]):
                determined = False
            for below in np.flatnonzero(~((H > 0) & on[:, i : i + 1]).any(axis=0)):
                determined = determined and program.reaches(W[i], b[i], int(below))
            with_it = np.flatnonzero((H[on[:, i]] > 0).all(axis=0)) if number == 1 else np.zeros(0, dtype=int)
            if determined and len(with_it) > program.d:
                always = (not program.reaches(W[i], b[i], int(below), off=True) for below in with_it)
                determined = sum(always) <= program.d
        layers.append((W[kept], b[kept]))
    A, c = net.layers[-1]
    if determined and net.n_hidden_layers > 1:
        off = ~on[:, kept]
        for below in range(H.shape[1]):
            rarely = np.flatnonzero(~(off & (H[:, below : below + 1] > 0)).any(axis=0))
            rows = ((i, layers[-1][0][i], layers[-1][1][i]) for i in rarely)
            never = [i for i, row, bias in rows if not program.reaches(-row, -bias, below)]
            determined = determined and len(never) <= np.linalg.matrix_rank(A[:, kept][:, never])
    return DeepNetwork([*layers, (A[:, kept], c)]), bool(determined)


def ask(net: DeepNetwork, seed: int, **options: Any) -> dict[str, Any]:
    """Identify one teacher and compare parameters; a claim with an error above 1e-6 is false."""
    start = process_time()
    found = planted.identify(net, random_state=SOLVER + seed, **options)
    seconds = process_time() - start
    error = float("inf") if found.network is None else planted.parameter_error(found.network, net)
    is_claimed, is_determined = found.outcome.name == "RECOVERED", True
    if not (is_claimed and error <= EXACT):  # is there anything that no answer shows?
        seen, is_determined = seen_within(net, (options.get("box") or (-REGION, REGION))[1])
        if found.network is not None:
            error = min(error, planted.parameter_error(found.network, seen))
    return {
        "widths": "-".join(map(str, net.widths)),
        "seed": seed,
        "is_determined": is_determined or is_claimed,
        "outcome": found.outcome.name,
        "error": error if np.isfinite(error) else None,
        "is_exact": is_claimed and error <= EXACT,
        "is_false": is_claimed and not error <= 1e-6,
        "certain": [len(layer["b"]) for layer in found.stats.get("certain_layers", [])],
        "queries_per_parameter": found.stats["queries"] / net.n_parameters,
        "seconds": seconds,
    }


def family_line(
    widths: tuple[int, ...],
    terms: tuple[int, float, float],
    options: Any,
    box: tuple[float, float] | None = None,
) -> tuple[Line, list[Any]]:
    seeds, share, most = terms
    count = max(1, seeds // 10) if options.quick else seeds
    rows = [ask(draw(widths, seed), seed, box=box) for seed in range(options.seed, options.seed + count)]
    counted = [row for row in rows if row["is_determined"]]
    exact = sum(row["is_exact"] for row in counted)
    false = sum(row["is_false"] for row in rows)
    asked = median(row["queries_per_parameter"] for row in rows)
    name = "-".join(map(str, widths)) + ("" if box is None else f" within ±{box[1]:g}")
    seconds = sum(row["seconds"] for row in rows) / len(rows)
    worst = max((row["error"] for row in rows if row["is_exact"]), default=float("nan"))
    line = Line(
        f"{name}: at least {share:.0%} exact to {EXACT:g}, <= {most:g} questions per parameter, no false claim",
        f"{exact}/{len(counted)} exact, worst {worst:.0e}, {len(rows) - len(counted)} not determined by answers, "
        f"{asked:.1f} questions per parameter, {false} false, {seconds:.1f} CPU s each",
        exact >= share * len(counted) and asked <= most and false == 0,
    )
    print(f"{line.target}: {line.measured}", flush=True)
    return line, rows


def attempted_line(widths: tuple[int, ...], budget: int, options: Any) -> tuple[Line, list[Any]]:
    """Shapes that are beyond what is promised: right, or the layers that are certain; never a false claim."""
    count = 1 if options.quick else 2
    rows = [
        ask(draw(widths, seed), seed, budget=budget) for seed in range(options.seed, options.seed + count)
    ]
    name = "-".join(map(str, widths))
    said = "; ".join(
        f"{row['outcome']}, certain layers {row['certain']}, {row['queries_per_parameter']:.0f} questions per parameter"
        for row in rows
    )
    line = Line(f"{name}: attempted, no false claim", said, not any(row["is_false"] for row in rows))
    print(f"{line.target}: {line.measured}", flush=True)
    return line, rows


def hidden_line(kind: str, options: Any) -> tuple[Line, list[Any]]:
    """Units that never switch, are dead, or are on for few inputs: right or named, never a false claim."""
    rows = []
    for seed in range(options.seed, options.seed + (1 if options.quick else 3)):
        net = draw((20, 10, 10, 1), 500 + seed)
        W, b = (part.copy() for part in net.layers[1])
        if kind == "never off":
            W[0], b[0] = np.abs(W[0]), abs(b[0])
        elif kind == "dead":
            W[0], b[0] = -np.abs(W[0]), -abs(b[0])
        else:
            X = np.random.default_rng(seed).normal(size=(20_000, 20))
            H = np.maximum(X @ net.layers[0][0].T + net.layers[0][1], 0)
            b[0] = -np.quantile(H @ W[0], 0.996)
        rows.append(ask(DeepNetwork([net.layers[0], (W, b), net.layers[2]]), seed))
    false = sum(row["is_false"] for row in rows)
    outcomes = ", ".join(sorted({row["outcome"] for row in rows}))
    return Line(
        f"20-10-10-1 with a unit {kind}: right or named", f"{outcomes}; {false} false", false == 0
    ), rows


def train(data: str, hidden: tuple[int, ...]) -> Any:
    """A network that scikit-learn trains on real data."""
    from sklearn.datasets import load_diabetes, load_digits
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    X, y = (load_diabetes if data == "diabetes" else load_digits)(return_X_y=True)
    X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0)
    y = (y - y.mean()) / y.std() if data == "diabetes" else np.eye(10)[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPRegressor(hidden_layer_sizes=hidden, max_iter=200, random_state=0).fit(X, y)


def trained_line(data: str, hidden: tuple[int, ...]) -> tuple[Line, list[Any]]:
    """A network that scikit-learn trained on real data, asked through its predictions."""
    truth = planted.import_network(train(data, hidden))
    row = {**ask(truth, 0), "data": data}
    return _trained(f"trained {data} {row['widths']}", row), [row]


def _trained(name: str, row: dict[str, Any]) -> Line:
    measured = (
        f"{row['outcome']}, error {row['error']}, {row['queries_per_parameter']:.1f} questions per parameter"
    )
    return Line(f"{name}: exact, or not claimed", measured, not row["is_false"])


def regulator() -> tuple[Any, Any]:
    """States, and what a linear-quadratic regulator with four actuators that saturate does there."""
    from scipy.linalg import solve_continuous_are

    rng = np.random.default_rng([27, 12])
    A, B = rng.normal(size=(12, 12)) / 4, rng.normal(size=(12, 4))
    gain = B.T @ solve_continuous_are(A, B, np.eye(12), np.eye(4))
    X = rng.normal(size=(4_000, 12))
    return X, np.clip(-X @ gain.T, -1.5, 1.5)


def policy_line() -> tuple[Line, list[Any]]:
    """A policy network of control: it imitates a linear-quadratic regulator whose four actuators saturate."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    X, U = regulator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MLPRegressor(hidden_layer_sizes=(12, 10), max_iter=100, random_state=0)
        model.fit(X, U)
    row = {**ask(planted.import_network(model), 0), "data": "policy"}
    return _trained(f"policy of a saturating regulator {row['widths']}", row), [row]


def decimals_line(decimals: int, options: Any) -> tuple[Line, list[Any]]:
    """Answers rounded to a number of decimals: every parameter within the stated bound, or not claimed."""
    rows = []
    for seed in range(options.seed, options.seed + (1 if options.quick else 4)):
        net = draw((20, 10, 10, 1), 700 + seed)
        found = planted.identify(partial(_rounded, net, decimals), 20, random_state=SOLVER + seed)
        is_claimed = found.outcome.name == "RECOVERED"
        error = float("inf") if found.network is None else planted.parameter_error(found.network, net)
        bounds = [each.measured for each in found.evidence if each.key is Check.ERROR_BOUND]
        bound = float(bounds[0]) if bounds else 0.0
        rows.append(
            {
                "case": f"{decimals} decimals",
                "seed": seed,
                "outcome": found.outcome.name,
                "error": error if np.isfinite(error) else None,
                "bound": bound,
                "is_false": is_claimed and not error <= bound,
                "queries_per_parameter": found.stats["queries"] / net.n_parameters,
            }
        )
    claimed = [row for row in rows if row["outcome"] == "RECOVERED"]
    largest = max((row["bound"] for row in claimed), default=float("nan"))
    false = sum(row["is_false"] for row in rows)
    line = Line(
        f"20-10-10-1, answers with {decimals} decimals: within the stated bound, or not claimed",
        f"{len(claimed)}/{len(rows)} claimed, bounds up to {largest:.0e}, {false} false",
        false == 0,
    )
    return line, rows


def _rounded(net: DeepNetwork, decimals: int, rows: Any) -> Any:
    return np.round(net(rows), decimals)


def in_single(net: DeepNetwork) -> tuple[DeepNetwork, Callable[[Any], Any]]:
    """The network with parameters that single precision holds, and its evaluation in single precision."""
    layers = [(W.astype(np.float32), b.astype(np.float32)) for W, b in net.layers]

    def answer(rows: Any) -> Any:
        H = rows.astype(np.float32)
        for W, b in layers[:-1]:
            H = np.maximum(H @ W.T + b, np.float32(0))
        return H @ layers[-1][0].T + layers[-1][1]

    return DeepNetwork(layers), answer


def ask_single(name: str, net: DeepNetwork, oracle: Any, seed: int) -> dict[str, Any]:
    """Identify a network that answers in single precision; a claim with an error above its bound is false."""
    start = process_time()
    found = planted.identify(oracle, net.widths[0], random_state=SOLVER + seed)
    is_claimed = found.outcome.name == "RECOVERED"
    error = float("inf") if found.network is None else planted.parameter_error(found.network, net)
    bounds = [float(each.measured) for each in found.evidence if each.key is Check.ERROR_BOUND]
    bound = bounds[0] if bounds and np.isfinite(bounds[0]) else None
    return {
        "case": f"single precision, {name}",
        "seed": seed,
        "outcome": found.outcome.name,
        "error": error if np.isfinite(error) else None,
        "bound": bound,
        "is_false": is_claimed and not (bound is not None and error <= bound),
        "queries_per_parameter": found.stats["queries"] / net.n_parameters,
        "seconds": process_time() - start,
        "detail": found.detail,
    }


def single_line(widths: tuple[int, ...], options: Any) -> tuple[Line, list[Any]]:
    """Random teachers that answer in single precision: every parameter within the stated bound, or not claimed."""
    name = "-".join(map(str, widths))
    seeds = range(options.seed, options.seed + (1 if options.quick else 10))
    rows = [ask_single(name, *in_single(draw(widths, 800 + seed)), seed) for seed in seeds]
    return _single(f"{name} in single precision", rows), rows


def _single(name: str, rows: list[Any]) -> Line:
    claimed = [row for row in rows if row["outcome"] == "RECOVERED"]
    bound = max((row["bound"] for row in claimed), default=float("nan"))
    asked = median(row["queries_per_parameter"] for row in rows)
    false = sum(row["is_false"] for row in rows)
    others = sorted({row["detail"] for row in rows if row not in claimed})
    return Line(
        f"{name}: within the stated bound, or not claimed",
        f"{len(claimed)}/{len(rows)} claimed, bounds up to {bound:.0e}, {asked:.1f} questions per parameter, {false} false"
        + "".join(f"; {each}" for each in others[:1]),
        false == 0,
    )


def trained_single_line(data: str, hidden: tuple[int, ...]) -> tuple[Line, list[Any]]:
    """A network that scikit-learn trained on real data, evaluated in single precision."""
    net, oracle = in_single(planted.import_network(train(data, hidden)))
    row = ask_single(data, net, oracle, 0) | {"data": data}
    return _single(f"trained {data} {'-'.join(map(str, net.widths))} in single precision", [row]), [row]


def torch_line() -> tuple[Line, list[Any]]:
    """A module of PyTorch in single precision that imitates a saturating regulator."""
    import torch

    torch.manual_seed(27)
    model = torch.nn.Sequential(
        torch.nn.Linear(12, 10),
        torch.nn.ReLU(),
        torch.nn.Linear(10, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 4),
    )
    X, U = regulator()
    rows, targets = (torch.tensor(each, dtype=torch.float32) for each in (X, U))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        optimiser.zero_grad()
        ((model(rows) - targets) ** 2).mean().backward()
        optimiser.step()
    row = ask_single("PyTorch policy", planted.import_network(model), model, 0)
    return _single("PyTorch policy 12-10-8-4 in single precision", [row]), [row]


def leaky_line(widths: tuple[int, ...], slope: float, options: Any) -> tuple[Line, list[Any]]:
    """Teachers with leaky units: exact, slope included, or not claimed."""
    rows = []
    for seed in range(options.seed, options.seed + (1 if options.quick else 10)):
        net = DeepNetwork(draw(widths, 600 + seed).layers, f"leaky-relu:{slope}")
        start = process_time()
        found = planted.identify(net, random_state=SOLVER + seed)
        is_claimed = found.outcome.name == "RECOVERED"
        error = float("inf") if found.network is None else planted.parameter_error(found.network, net)
        rows.append(
            {
                "case": f"leaky-relu:{slope}",
                "widths": "-".join(map(str, widths)),
                "seed": seed,
                "outcome": found.outcome.name,
                "error": error if np.isfinite(error) else None,
                "is_exact": is_claimed and error <= EXACT,
                "is_false": is_claimed and not error <= 1e-6,
                "queries_per_parameter": found.stats["queries"] / net.n_parameters,
                "seconds": process_time() - start,
            }
        )
    exact, false = (sum(row[name] for row in rows) for name in ("is_exact", "is_false"))
    asked = median(row["queries_per_parameter"] for row in rows)
    line = Line(
        f"{rows[0]['widths']} of leaky units, slope {slope}: exact to {EXACT:g}, or not claimed",
        f"{exact}/{len(rows)} exact, {asked:.1f} questions per parameter, {false} false",
        false == 0,
    )
    return line, rows


def acas_line(folder: Path, precision: str) -> tuple[Line, list[Any]]:
    """ACAS Xu, 5-50x6-5, asked in double precision, or through onnxruntime as the file is; its first layer is compared."""
    path = next(iter(sorted(folder.glob("*2_2*.onnx"))))
    truth = planted.import_network(path)
    oracle = truth if precision == "double" else _session(path)
    found = planted.identify(oracle, 5, random_state=SOLVER, budget=ACAS_BUDGET)
    planes = found.stats.get("first_hyperplanes", {"W": np.zeros((0, 5)), "b": []})
    W, b = truth.layers[0]
    true_rows, rows = np.column_stack([W, b]), np.column_stack([planes["W"], planes["b"]])
    true_rows, rows = (each / np.linalg.norm(each[:, :-1], axis=1)[:, None] for each in (true_rows, rows))
    apart = [np.abs(true_rows[:, None] - side * rows[None]).max(axis=2) for side in (1, -1)]
    right = int((np.minimum(*apart).min(axis=0) < (1e-6 if precision == "double" else 1e-2)).sum())
    queries = found.stats["queries"]
    certain = [len(layer["b"]) for layer in found.stats.get("certain_layers", [])]
    row = {
        "case": f"ACAS Xu, {precision}",
        "outcome": found.outcome.name,
        "certain": certain,
        "queries": queries,
    }
    line = Line(
        f"ACAS Xu 5-50-50-50-50-50-50-5 in {precision} precision: what is said of the first layer is right, no claim",
        f"{found.outcome.name}, certain layers {certain}, {right} of {len(rows)} hyperplanes of the first layer right, "
        f"{queries} questions: {found.detail}",
        found.outcome.name != "RECOVERED" and right == len(rows) and not certain,
    )
    return line, [row | {"hyperplanes": len(rows), "right": right}]


def _session(path: Path) -> Callable[[Any], Any]:
    """The file as it is run elsewhere: one row at a time, in single precision."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    (entry,) = session.get_inputs()

    def answer(rows: Any) -> Any:
        shaped = np.asarray(rows, dtype=np.float32).reshape(-1, *entry.shape)
        return np.concatenate([session.run(None, {entry.name: row})[0].reshape(1, -1) for row in shaped])

    return answer


def refusal_lines(options: Any) -> list[Result]:
    net, rng = draw((20, 10, 8, 1), 900 + options.seed), np.random.default_rng(options.seed)
    skip, out = rng.normal(size=(2, 20, 1))
    block, back = rng.normal(size=(2, 12, 12)) / 3
    kernels, top = rng.normal(size=(2, 3)), rng.normal(size=(36, 6)) / 6

    def convolution(rows: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(rows, 3, axis=1)
        units = np.maximum(windows @ kernels.T + 0.3, 0).reshape(len(rows), -1)
        return np.maximum(units @ top - 0.1, 0) @ out[:6]

    def statistics(rows: Any) -> Any:
        return net((rows - rows.mean(axis=0)) / (1e-9 + rows.std(axis=0)))

    cases: dict[str, Callable[[Any], Any]] = {
        "skip": lambda rows: net(rows) + rows @ skip,
        "residual": lambda rows: (
            np.maximum(rows + np.maximum(rows @ block + 0.3, 0) @ back - 0.2, 0) @ out[:12]
        ),
        "convolution": convolution,
        "tanh": lambda rows: np.tanh(net(rows)),
        "batch statistics": statistics,
        "noise": lambda rows: net(rows) + 1e-3 * rng.normal(size=(len(rows), 1)),
    }
    found = []
    for name, oracle in cases.items():
        try:
            answer = planted.identify(oracle, 12 if name == "residual" else 20, random_state=SOLVER)
            asked, text = answer.stats["queries"], answer.detail
            is_met = answer.outcome.name == "ASSUMPTION_FAILED" and asked <= 2_000
        except PlantedError as error:
            asked, text, is_met = 16, str(error), True
        row = {"case": name, "queries": asked, "detail": text}
        found.append(
            (Line(f"{name}: refused by name within 2,000 questions", f"{asked}: {text}", is_met), row)
        )
    return found


def measures(options: argparse.Namespace) -> Iterator[tuple[Line, list[Any]]]:
    """What is measured beside the families of random teachers and the refusals."""
    for kind in ("never off", "dead", "on for 0.4 % of inputs"):
        yield hidden_line(kind, options)
    yield trained_line("diabetes", (16, 8))
    if not options.quick:
        yield trained_line("digits", (32, 16))
    yield policy_line()
    for decimals in (6, 8, 10):
        yield decimals_line(decimals, options)


def _singles(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    trained = [
        ("diabetes", (16, 8)),
        ("diabetes", (8, 6)),
        *([] if options.quick else [("digits", (32, 16))]),
    ]
    return _joined(
        [
            *(single_line(widths, options) for widths in ((20, 10, 10, 1), (20, 10, 5, 3))),
            *(trained_single_line(*each) for each in trained),
            torch_line(),
        ]
    )


def _leaky(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    return _joined(leaky_line(*each, options) for each in LEAKY)


def _refusals(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    lines, rows = zip(*refusal_lines(options), strict=True)
    return list(lines), list(rows)


def _families(
    families: Families, options: argparse.Namespace, box: tuple[float, float] | None = None
) -> tuple[list[Line], Rows]:
    return _joined(family_line(*each, options, box) for each in families.items())


def _others(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    return _joined(measures(options))


def _attempts(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    return _joined(attempted_line(*each, options) for each in ATTEMPTED.items())


def _acas(options: argparse.Namespace) -> tuple[list[Line], Rows]:
    precisions = () if options.acas is None else ("double", "single")
    return _joined(acas_line(options.acas, each) for each in precisions)


def _joined(parts: Iterable[tuple[Line, Rows]]) -> tuple[list[Line], Rows]:
    found = list(parts)
    return [line for line, _ in found], [row for _, rows in found for row in rows]


def main() -> None:
    """Run the sections."""
    each = {f"three {_name(w)}": {w: terms} for w, terms in THREE.items()}
    each |= {f"contractive {_name(w)}": {w: terms} for w, terms in CONTRACTIVE.items()}
    each |= {f"widening {_name(w)}": {w: terms} for w, terms in WIDENING.items()}
    sections: dict[str, Section] = {"refusals": _refusals, "box": partial(_families, BOXED, box=BOX)}
    sections |= {name: partial(_families, family) for name, family in each.items()}
    sections |= {
        "others": _others,
        "single": _singles,
        "leaky": _leaky,
        "attempted": _attempts,
        "acas": _acas,
    }
    run_sections("deep", __doc__ or "", sections, acas=ACAS_OPTION)


def _name(widths: tuple[int, ...]) -> str:
    return "-".join(map(str, widths))


if __name__ == "__main__":
    main()
