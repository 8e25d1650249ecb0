"""Reading networks back by queries: how exact, with how many questions, and what is refused.

The number of units is never given. The published extraction needs 2**17.66 = 207,000 questions for a 10-5-1 network
[Carlini2020]; it is set beside, not run.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from _table import Line, parse_options, report

import planted
from planted import TwoLayerNetwork
from planted.checks import Check
from planted.outcomes import PlantedError

PUBLISHED = 207_000
EXACT, MOST = 1e-9, 20.0
# Questions per parameter when gradients were asked for in pairs, the least of three seeds: none may need as many again.
IN_PAIRS = {
    (10, 5, 1): 10.3,
    (20, 10, 1): 7.6,
    (50, 50, 1): 7.1,
    (20, 10, 5): 6.2,
    (64, 32, 10): 5.8,
    (100, 200, 1): 7.9,
    (784, 32, 1): 6.9,
    (784, 32, 10): 7.5,
}
SINGLE = 1e-4
SOLVER = 10_000  # solver seeds start here: never those of the data

Result = tuple[Line, dict[str, Any]]


def random_net(d: int, k: int, m: int, seed: int) -> TwoLayerNetwork:
    return planted.simulate.teacher(d, k, m, bias=(-0.5, 0.5), random_state=seed)


def trained_net(data: str, k: int) -> TwoLayerNetwork:
    """Train scikit-learn's MLPRegressor on real data and take its weights."""
    from sklearn.datasets import load_diabetes, load_digits
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    if data == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    else:
        X, y = load_digits(return_X_y=True)
        X, y = X / 16.0, np.eye(10)[y] if data == "digits, ten outputs" else y.astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MLPRegressor(hidden_layer_sizes=(k,), max_iter=300, random_state=0).fit(X, y)
    return planted.import_network(model)


def with_dead_and_duplicates(net: TwoLayerNetwork) -> TwoLayerNetwork:
    d = net.n_features
    return TwoLayerNetwork(
        W=np.vstack([net.W, 2 * net.W[:1], -net.W[1:2], np.zeros((2, d)), net.W[2:3]]),
        b=np.concatenate([net.b, 2 * net.b[:1], -net.b[1:2], [1.0, -1.0], net.b[2:3]]),
        A=np.hstack([net.A, [[0.3, 0.7, 2.0, 5.0, 0.0]]]),
    )


def exact_line(case: str, truth: TwoLayerNetwork, seed: int) -> Result:
    """Identify with k unknown and compare parameters; the gauge-free number of parameters counts."""
    small = truth.canonical()
    start = perf_counter()
    found = planted.identify(truth, random_state=seed)
    seconds = perf_counter() - start
    error = float("inf") if found.network is None else planted.parameter_error(found.network, truth)
    ratio = found.stats["queries"] / small.n_parameters
    most = IN_PAIRS.get((small.n_features, small.n_hidden, small.n_outputs), MOST)
    units = None if found.network is None else found.network.n_hidden
    is_met = (
        found.outcome.name == "RECOVERED" and error <= EXACT and ratio <= most and units == small.n_hidden
    )
    numbers = {
        "outcome": found.outcome.name,
        "error": error,
        "queries": found.stats["queries"],
        "queries_per_parameter": ratio,
        "units_found": units,
        "units": small.n_hidden,
        "seconds": seconds,
    }
    measured = (
        f"{found.outcome.name}, k = {units}, error {error:.1e}, {found.stats['queries']} questions = {ratio:.1f} per "
        f"parameter, {seconds:.1f} s"
    )
    target = f"{case}: k = {small.n_hidden}, error <= {EXACT:g}, <= {most:g} questions per parameter"
    return Line(target, measured, is_met), {"case": case, **numbers}


def exact_cases(quick: bool, first: int) -> Iterator[tuple[str, TwoLayerNetwork]]:
    shapes = [(10, 5, 1), (20, 10, 1), (50, 50, 1), (20, 10, 5), (64, 32, 10)]
    shapes += [] if quick else [(100, 200, 1), (784, 32, 1), (784, 32, 10)]
    for d, k, m in shapes:
        for seed in range(first, first + (1 if quick or d > 64 else 3)):
            yield f"random {d}-{k}-{m}, seed {seed}", random_net(d, k, m, 100 + seed)
    yield "trained diabetes 10-5-1", trained_net("diabetes", 5)
    yield "trained diabetes 10-10-1", trained_net("diabetes", 10)
    yield "trained digits 64-32-10", trained_net("digits, ten outputs", 32)
    if not quick:
        yield "trained digits 64-64-1", trained_net("digits", 64)
    yield "dead and duplicate units, 10-5-1", with_dead_and_duplicates(random_net(10, 5, 1, 7))


def single_line(folder: Path) -> Result:
    """A trained network as an ONNX file in single precision."""
    truth = trained_net("digits, ten outputs", 32)
    path = folder / "digits.onnx"
    written = planted.export_network(truth, path, precision="float32")
    found = planted.identify(str(path), random_state=0)
    error = float("inf") if found.network is None else planted.parameter_error(found.network, truth)
    size = max(float(np.abs(getattr(truth.canonical(), name)).max()) for name in "WbAc")
    bound = next((line.measured for line in found.find(Check.ERROR_BOUND)), float("nan"))
    same = (
        found.network is not None
        and planted.compare(found.network, str(path), tol=1e-5, random_state=1).is_equal
    )
    is_met = found.outcome.name == "RECOVERED" and error / size <= SINGLE and error <= bound and same
    numbers = {
        "outcome": found.outcome.name,
        "relative_error": error / size,
        "bound": bound,
        "equal_to_rounding": same,
        "export_difference": written.largest_difference,
        "queries": found.stats["queries"],
    }
    measured = (
        f"{found.outcome.name}, relative error {error / size:.1e}, bound {bound:.1e}, function equal to 1e-5: {same}, "
        f"{found.stats['queries']} questions"
    )
    case = "float32 ONNX, trained digits 64-32-10"
    target = f"{case}: relative error <= {SINGLE:g}, within the bound"
    return Line(target, measured, is_met), {"case": case, **numbers}


def refusal_lines() -> Iterator[Result]:
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import RandomForestRegressor

    X, y = load_diabetes(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    forest = RandomForestRegressor(50, random_state=0).fit(X, y)
    first, last = random_net(10, 16, 16, 1), random_net(16, 16, 1, 2)
    cases: dict[str, Callable[[Any], Any]] = {
        "two hidden layers where depth=1 is said": lambda rows: last(np.maximum(first(rows), 0)),
        "tanh": lambda rows: np.tanh(first.preactivations(rows)) @ first.A.T,
        "random forest": forest.predict,
    }
    for name, oracle in cases.items():
        depth: int | str = 1 if "depth=1" in name else "auto"
        found = planted.identify(oracle, 10, depth=depth, random_state=0)
        numbers = {"outcome": found.outcome.name, "queries": found.stats["queries"], "detail": found.detail}
        is_met = found.outcome.name == "ASSUMPTION_FAILED" and found.network is None
        measured = f"{found.stats['queries']} questions: {found.detail}"
        yield Line(f"{name}: refused", measured, is_met), {"case": name, **numbers}


def fault_lines(folder: Path) -> Iterator[Result]:
    """Broken oracles and files end in one of planted's own errors; the log keeps the answers."""
    net = random_net(10, 5, 1, 3)
    log = folder / "queries.log"
    calls = [0]

    def dying(rows: Any) -> Any:
        calls[0] += 1
        if calls[0] > 5:
            raise ConnectionError("gone")
        return net(rows)

    rng = np.random.default_rng(0)
    bad_file, outside = folder / "broken.onnx", folder / "outside.onnx"
    planted.export_network(net, bad_file)
    bad_file.write_bytes(bad_file.read_bytes()[:-40])
    _write_external(net, outside)
    cases: dict[str, Any] = {
        "oracle that raises": dying,
        "oracle that answers NaN": lambda rows: np.full((len(rows), 1), np.nan),
        "oracle of the wrong shape": lambda rows: np.ones((3, 1)),
        "oracle that changes its answers": lambda rows: net(rows) + rng.standard_normal((len(rows), 1)),
        "truncated ONNX": str(bad_file),
        "ONNX with numbers in another file": str(outside),
    }
    for name, oracle in cases.items():
        keep = log if name == "oracle that raises" else None
        try:
            outcome = planted.identify(oracle, 10, log=keep, random_state=0).outcome.name
            text, is_met = outcome, False
        except PlantedError as error:
            text, is_met = f"{type(error).__name__}: {error}".replace(str(folder), "."), True
        if keep is not None:
            is_met = is_met and log.stat().st_size > 0
        yield Line(f"{name}: a clear error", text, is_met), {"case": name, "error_text": text}


def _write_external(net: TwoLayerNetwork, path: Path) -> None:
    import onnx

    planted.export_network(net, path)
    model = onnx.load(str(path))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../secret.bin"
    path.write_bytes(model.SerializeToString())


def main() -> None:
    options = parse_options(__doc__ or "")
    results: list[Result] = []
    for number, (case, net) in enumerate(exact_cases(options.quick, options.seed)):
        results.append(exact_line(case, net, SOLVER + options.seed + number))
        print(f"{case}: {results[-1][0].measured}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        results += [single_line(Path(name)), *refusal_lines(), *fault_lines(Path(name))]
    asked = next(row["queries"] for _, row in results if row["case"].startswith("random 10-5-1"))
    beside = Line(f"10-5-1 beside {PUBLISHED:,} published questions", f"{asked} questions", asked < PUBLISHED)
    report("queries", [beside, *(line for line, _ in results)], [row for _, row in results], options)


if __name__ == "__main__":
    main()
