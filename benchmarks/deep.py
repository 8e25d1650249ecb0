"""Reading networks with several hidden layers back by queries: how exact, with how many questions, what is refused.

Depth and widths are never given. Teachers have He-scaled normal weights and biases of standard deviation 0.5. A teacher with
a unit that switches nowhere (its weights from units that are ever on and its bias have one sign) has several networks with
the same answers: it must not be claimed. Times are of the processor. The published extraction needs 92 questions per
parameter for 80-40-20-1 [Carlini2020]. ACAS Xu, a network that was trained elsewhere, is read from --acas FOLDER.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from _table import Line, parse_options, report
from scipy.optimize import Bounds, LinearConstraint, milp

import planted
from planted import DeepNetwork
from planted.outcomes import PlantedError

EXACT = 1e-10
SOLVER = 10_000  # solver seeds start here: never those of the data
# widths: (seeds, share that must be exact, questions per parameter in the median)
CONTRACTIVE = {
    (10, 10, 10, 1): (20, 1.0, 15),
    (20, 10, 10, 1): (20, 1.0, 15),
    (20, 10, 5, 3): (20, 1.0, 15),
    (40, 20, 10, 1): (20, 1.0, 7),
    (64, 32, 16, 10): (8, 1.0, 7),
    (80, 40, 20, 1): (6, 1.0, 7),
}
THREE = {
    (20, 10, 8, 6, 1): (10, 0.9, 30),
    (40, 20, 10, 10, 1): (4, 0.9, 30),
    (10, 10, 10, 10, 1): (4, 0.9, 30),
}
WIDENING = {
    (8, 14, 10, 1): (10, 0.9, 40),
    (10, 20, 20, 1): (4, 0.9, 40),
    (4, 16, 16, 2): (4, 0.9, 40),
}
# widths: questions that may be asked
ATTEMPTED = {(20, 8, 16, 1): 20_000, (30, 16, 12, 8, 6, 1): 40_000, (4, 64, 64, 2): 60_000}
BOX = (-3.0, 3.0)
BOXED = {(20, 10, 10, 1): (10, 0.9, 40)}
ACAS_BUDGET = 40_000
ACAS_OPTION = {
    "type": Path,
    "metavar": "FOLDER",
    "help": "folder with an ACAS Xu network 2_2 (.onnx)",
}

Result = tuple[Line, dict[str, Any]]


def draw(widths: tuple[int, ...], seed: int) -> DeepNetwork:
    rng = np.random.default_rng([seed, 27, *widths])
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]
    return DeepNetwork(layers)


def switches(net: DeepNetwork) -> bool:
    """Whether every unit above the first layer that is not dead may switch: it has weights or a bias of both signs.

    Weights from dead units, and dead units themselves, leave no trace and are not counted.
    """
    alive = np.ones(net.widths[1], dtype=np.bool_)
    for W, b in net.layers[1:-1]:
        signs = np.column_stack([np.sign(W[:, alive]), np.sign(b)])
        if (signs >= 0).all(axis=1).any():
            return False
        alive = (signs > 0).any(axis=1)
    return True


def seen_within(net: DeepNetwork, box: tuple[float, float] | None) -> DeepNetwork:
    """The network without units of its second layer that a mixed-integer program proves to be off in the whole box."""
    if box is None:
        return net
    (V, v), (W, b), (A, c) = net.layers
    k, d = V.shape
    reach = np.abs(V).sum(axis=1) * max(map(abs, box)) + np.abs(v)  # bounds on the pre-activations
    eye, none = np.eye(k), np.zeros((k, k))
    # Variables x, h, z: h >= 0, h >= Vx + v, h <= Vx + v + reach (1 - z), h <= reach z.
    rows = np.block([[-V, eye, none], [-V, eye, np.diag(reach)], [np.zeros((k, d)), eye, -np.diag(reach)]])
    low = np.concatenate([v, np.full(2 * k, -np.inf)])
    high = np.concatenate([np.full(k, np.inf), v + reach, np.zeros(k)])
    limits = Bounds(
        np.concatenate([np.full(d, box[0]), np.zeros(2 * k)]),
        np.concatenate([np.full(d, box[1]), reach, np.ones(k)]),
    )
    kept = []
    for row, bias in zip(W, b, strict=True):
        goal = np.concatenate([np.zeros(d), -row, np.zeros(k)])
        kinds = np.concatenate([np.zeros(d + k), np.ones(k)])
        best = milp(goal, constraints=LinearConstraint(rows, low, high), bounds=limits, integrality=kinds)
        kept.append(not (best.status == 0 and bias - best.mip_dual_bound < -1e-6))
    return DeepNetwork([(V, v), (W[kept], b[kept]), (A[:, kept], c)])


def ask(net: DeepNetwork, seed: int, **options: Any) -> dict[str, Any]:
    """Identify one teacher and compare parameters; a claim with an error above 1e-6 is false."""
    start = process_time()
    found = planted.identify(net, random_state=SOLVER + seed, **options)
    seconds, net = process_time() - start, seen_within(net, options.get("box"))
    error = float("inf") if found.network is None else planted.parameter_error(found.network, net)
    is_claimed = found.outcome.name == "RECOVERED"
    return {
        "widths": "-".join(map(str, net.widths)),
        "seed": seed,
        "switches": switches(net),
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
    counted = [row for row in rows if row["switches"]]
    exact = sum(row["is_exact"] for row in counted)
    false = sum(row["is_false"] for row in rows)
    asked = median(row["queries_per_parameter"] for row in rows)
    name = "-".join(map(str, widths)) + ("" if box is None else f" within ±{box[1]:g}")
    seconds = sum(row["seconds"] for row in rows) / len(rows)
    worst = max((row["error"] for row in rows if row["is_exact"]), default=float("nan"))
    line = Line(
        f"{name}: at least {share:.0%} exact to {EXACT:g}, <= {most:g} questions per parameter, no false claim",
        f"{exact}/{len(counted)} exact, worst {worst:.0e}, {len(rows) - len(counted)} with a unit that never switches, "
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


def trained_line(data: str, hidden: tuple[int, ...]) -> tuple[Line, list[Any]]:
    """A network that scikit-learn trained on real data, asked through its predictions."""
    from sklearn.datasets import load_diabetes, load_digits
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    X, y = (load_diabetes if data == "diabetes" else load_digits)(return_X_y=True)
    X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0)
    y = (y - y.mean()) / y.std() if data == "diabetes" else np.eye(10)[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MLPRegressor(hidden_layer_sizes=hidden, max_iter=200, random_state=0).fit(X, y)
    truth = planted.import_network(model)
    row = {**ask(truth, 0), "data": data}
    name = f"trained {data} {row['widths']}"
    measured = (
        f"{row['outcome']}, error {row['error']}, {row['queries_per_parameter']:.1f} questions per parameter"
    )
    return Line(f"{name}: exact, or not claimed", measured, not row["is_false"]), [row]


def acas_line(folder: Path) -> tuple[Line, list[Any]]:
    """ACAS Xu, 5-50x6-5, asked as a function in double precision; its first layer is compared."""
    truth = planted.import_network(next(iter(sorted(folder.glob("*2_2*.onnx")))))
    found = planted.identify(truth, random_state=SOLVER, budget=ACAS_BUDGET)
    planes = found.stats.get("first_hyperplanes", {"W": np.zeros((0, 5)), "b": []})
    W, b = truth.layers[0]
    true_rows, rows = np.column_stack([W, b]), np.column_stack([planes["W"], planes["b"]])
    true_rows, rows = (each / np.linalg.norm(each[:, :-1], axis=1)[:, None] for each in (true_rows, rows))
    apart = [np.abs(true_rows[:, None] - side * rows[None]).max(axis=2) for side in (1, -1)]
    right = int((np.minimum(*apart).min(axis=0) < 1e-6).sum())
    queries = found.stats["queries"]
    certain = [len(layer["b"]) for layer in found.stats["certain_layers"]]
    row = {"case": "ACAS Xu", "outcome": found.outcome.name, "certain": certain, "queries": queries}
    line = Line(
        "ACAS Xu 5-50-50-50-50-50-50-5: what is said of the first layer is right, no claim",
        f"{found.outcome.name}, certain layers {certain}, {right} of {len(rows)} hyperplanes of the first layer right, "
        f"{queries} questions: {found.detail}",
        found.outcome.name != "RECOVERED" and right == len(rows) and not certain,
    )
    return line, [row | {"hyperplanes": len(rows), "right": right}]


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
        "leaky": DeepNetwork(net.layers, "leaky-relu:0.1"),
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


def main() -> None:
    options = parse_options(__doc__ or "", acas=ACAS_OPTION)
    measures: list[Callable[[], tuple[Line, list[Any]]]] = [
        *(partial(family_line, *each, options) for each in CONTRACTIVE.items()),
        *(partial(family_line, *each, options, BOX) for each in BOXED.items()),
        *(partial(family_line, *each, options) for each in (THREE | WIDENING).items()),
        *(partial(hidden_line, kind, options) for kind in ("never off", "dead", "on for 0.4 % of inputs")),
        partial(trained_line, "diabetes", (16, 8)),
        *([] if options.quick else [partial(trained_line, "digits", (32, 16))]),
        *(partial(attempted_line, *each, options) for each in ATTEMPTED.items()),
        *([] if options.acas is None else [partial(acas_line, options.acas)]),
    ]
    lines, rows = [], []
    for line, row in refusal_lines(options):
        lines.append(line)
        rows.append(row)
    for measure in measures:
        line, more = measure()
        lines.append(line)
        rows += more
        with redirect_stdout(StringIO()):  # what was measured is kept if a later family is interrupted
            report("deep", lines, rows, options)
    report("deep", lines, rows, options)


if __name__ == "__main__":
    main()
