"""Activations other than ReLU from samples: exact recovery, the statistical limit in noise, an unknown activation, a peer.

Teachers: unit rows of W, biases uniform in [-1, 1], normal output weights (in noise: sizes uniform in [0.5, 1.5], signs
mixed); inputs standard normal, n = 12 (k+1)(d+1), one output. The number of units is not told, except in noise, where
n = 8,000 and the squared error of each parameter is divided by its Cramér–Rao bound at the truth; the mean of these ratios
is one for an efficient estimate. The bound speaks of small errors: teachers with units so nearly linear or saturated that
it leaves a parameter, all being of order one, a standard error above 0.1 are drawn again. The peer is a plain version of
the same idea: twice the units, `scipy.optimize.least_squares` with the exact Jacobian, drop the least useful unit and fit
again until k are left; it is told k and begins once. Both are called once before the clock runs.

Toys: 150 teachers of 2, 4 or 8 normal inputs with 2, 4, 6, 9 or 12 units of five activations, two of each; norms of units
uniform in [1, 3], biases and offset normal, output weights of size 0.5 to 1.5, signs mixed. Found means the width and every
parameter to 0.01. The peer is `_students.py`, expand and cluster, on every fifth teacher, in a section of its own; it is
told how wide students are to be. Its paper reports 80 % of 150 toy tasks of its own.

Unknown activations: the list of "auto" has to find those of teachers with sizes of output weights uniform in [0.5, 1.5].
Two that explain the samples as well are named in the answer, which then counts as undecided; sigmoid is tanh with other
weights. In noise every second teacher has its width told, without which curved units are not claimed, and a claim is wrong
if its activation or its width is; without noise also if a parameter is.

Class labels: log-odds are a teacher with output weights of size 1 to 3 and an offset that makes their median zero, n =
20,000 labels, k told, default effort. Units are on for 30 to 70 % of inputs, as the teachers of the other benchmarks are; a
second line has biases uniform in [-1, 1], with which units may be on, or off, for one input in six. The squared error of
each parameter is divided by its Cramér–Rao bound, here of the Bernoulli likelihood, and compared with its own interval of
95 %. No teacher is drawn again; beside the mean of the ratios stands its standard error. Tables of scikit-learn: mean
log-loss of five stratified folds, beside MLPClassifier on standardised columns (its defaults, 1,000 iterations), of which
the median of five seeds is taken. Questions: a black box of curved units is asked (`planted.identify`), the number of units
is not told. Probabilities: scikit-learn's MLPClassifier, trained for 200 rounds on standardised columns, is asked by
`predict_proba`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from time import process_time
from typing import Any

import numpy as np
from _table import Line, Measure, Rows, at_least, gather, run_sections
from scipy.linalg import block_diag, null_space
from scipy.optimize import least_squares
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import planted
from planted import Outcome, TwoLayerNetwork, Uncertainty

Seeds = Callable[[int], range]
SOLVER = 10_000  # solver seeds start here: never those of the data
EXACT = 1e-8
SLOPE = 0.1  # error of a leaky slope up to which it counts as found in noise
NOISY_ROWS = 8000
LARGEST_BOUND = 0.1  # standard error of a parameter
NAMES = ("tanh", "sigmoid", "softplus", "gelu", "silu", "leaky-relu:0.2", "power:2")
TOY = 0.01  # error of all parameters up to which a toy teacher counts as found, by ours and by students
TOY_NAMES = ("tanh", "sigmoid", "softplus", "gelu", "relu")
TOYS = tuple((d, k) for d in (2, 4, 8) for k in (2, 4, 6, 9, 12))
TOYS_OF_STUDENTS = (2, 4), (4, 6), (8, 9)  # students take minutes
ON_AND_OFF = {"activity": (0.3, 0.7)}  # shares of inputs for which units are on
ASKED = {"leaky-relu:0.2": "leaky-relu"}  # the slope is not told


def draw(
    name: str, d: int, k: int, seed: int, outputs: str = "random", n: int | None = None
) -> tuple[TwoLayerNetwork, np.ndarray]:
    truth = planted.simulate.teacher(
        d, k, 1, bias=(-1, 1), activation=name, outputs=outputs, random_state=seed
    )
    return truth, np.random.default_rng([seed, d, k]).standard_normal((n or 12 * (k + 1) * (d + 1), d))


def error_of(network: TwoLayerNetwork | None, truth: TwoLayerNetwork) -> float:
    """The parameter error; a leaky slope that agrees to `EXACT` counts as the same activation."""
    if network is None:
        return np.inf
    gap = abs(network.activation.left - truth.activation.left)
    if network.activation.is_piecewise_linear and gap <= EXACT:
        network = replace(network, activation=truth.activation)
    return planted.parameter_error(network, truth)


def exact(name: str, d: int, k: int, count: int, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(count):
        truth, X = draw(name, d, k, seed)
        Y, began = truth(X), process_time()
        answer = planted.recover(
            X, Y, method="restarts", activation=ASKED.get(name, name), random_state=SOLVER + seed
        )
        cpu, error = process_time() - began, error_of(answer.network, truth)
        is_claimed = answer.outcome is Outcome.RECOVERED
        rows.append(
            {
                "case": f"{name} ({d},{k})",
                "seed": seed,
                "outcome": answer.outcome.name,
                "error": float(error) if np.isfinite(error) else None,
                "is_exact": bool(is_claimed and error <= EXACT),
                "is_wrong": bool(is_claimed and not error <= EXACT),
                "cpu": cpu,
            }
        )
    hits, wrong = (sum(row[key] for row in rows) for key in ("is_exact", "is_wrong"))
    cpu = float(np.mean([row["cpu"] for row in rows]))
    note = f", {wrong} wrong and claimed, {cpu:.2f} s of CPU each"
    share = 0.99 if d < 20 else 0.95
    target = f"{name} ({d},{k}), noiseless: {100 * share:.0f} % exact to 1e-8, width found"
    line = at_least(target, hits, len(rows), share, note)
    return replace(line, passed=line.passed and not wrong), rows


def noisy(name: str, d: int, k: int, count: int, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(count):
        truth, X, redrawn = draw_in_regime(name, d, k, seed)
        clean = truth(X)
        sigma = 0.1 * float(clean.std())
        Y = clean + sigma * np.random.default_rng([seed, 7]).standard_normal(clean.shape)
        answer = planted.recover(X, Y, k, method="restarts", activation=name, random_state=SOLVER + seed)
        matching = planted.match_units(answer.network, truth)
        one, true, order = matching.network, matching.truth, matching.permutation
        gaps = [one.W[order] - true.W, one.b[order] - true.b, one.A[:, order] - true.A, one.c - true.c]
        errors = np.concatenate([gap.ravel() for gap in gaps])
        rows.append(
            {
                "case": f"{name} ({d},{k}) noise 0.1",
                "seed": seed,
                "outcome": answer.outcome.name,
                "redrawn": redrawn,
                "ratio": float(np.mean(errors**2 / cramer_rao(true, X, sigma))),
            }
        )
    ratio = float(np.mean([row["ratio"] for row in rows]))
    claimed = sum(row["outcome"] == Outcome.RECOVERED.name for row in rows)
    measured = f"{ratio:.3f}, {claimed}/{len(rows)} recovered"
    return Line(f"{name} ({d},{k}), noise 0.1: MSE over Cramér–Rao at most 1.1", measured, ratio <= 1.1), rows


def draw_in_regime(name: str, d: int, k: int, seed: int) -> tuple[TwoLayerNetwork, np.ndarray, int]:
    """A teacher whose bound under noise of 0.1 is small, its inputs, and how many were passed over."""
    for redrawn in range(1000):
        truth, X = draw(name, d, k, seed + 100_000 * redrawn, outputs="magnitudes", n=NOISY_ROWS)
        if cramer_rao(truth, X, 0.1 * float(truth(X).std())).max() <= LARGEST_BOUND**2:
            return truth, X, redrawn
    raise RuntimeError(f"no {name} teacher of 1000 has a small bound")


def cramer_rao(truth: TwoLayerNetwork, X: np.ndarray, sigma: float) -> np.ndarray:
    """The smallest variances of all parameters of a network with one output, in the order W, b, A, c."""
    t = truth.preactivations(X)
    slopes = truth.activation.derivative(t) * truth.A[0]
    weights = (slopes[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    J = np.column_stack([weights, slopes, truth.activation(t), np.ones(len(X))])
    return sigma**2 * np.diag(np.linalg.inv(J.T @ J))


def unknown(d: int, k: int, noise: float, count: int, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for name, seed in product((*NAMES, "relu"), seeds(count)):
        truth, X = draw(name, d, k, seed, outputs="magnitudes")
        clean = truth(X)
        Y = clean + noise * clean.std() * np.random.default_rng([seed, 8]).standard_normal(clean.shape)
        told = {"n_hidden": k} if noise and seed % 2 else {}
        began = process_time()
        answer = planted.recover(X, Y, activation="auto", random_state=SOLVER + seed, **told)
        is_claimed, found = answer.outcome is Outcome.RECOVERED, answer.network
        is_right = is_same_kind(found, truth, SLOPE if noise else EXACT)
        is_true = is_right and (found.n_hidden == k if noise else error_of(found, truth) <= EXACT)
        rows.append(
            {
                "case": f"auto {name} ({d},{k}), noise {noise}",
                "seed": seed,
                "outcome": answer.outcome.name,
                "found": None if found is None else found.activation.name,
                "n_hidden": None if found is None else found.n_hidden,
                "as_good": answer.stats["activations_as_good"],
                "is_right": is_right,
                "is_named": is_right or is_named(answer.stats["activations_as_good"], truth),
                "is_wrong": bool(is_claimed and not is_true),
                "cpu": process_time() - began,
            }
        )
    apart, unsure = ([row for row in rows if bool(row["as_good"]) is flag] for flag in (False, True))
    hits, wrong = sum(row["is_right"] for row in apart), sum(row["is_wrong"] for row in rows)
    claimed = sum(row["outcome"] == Outcome.RECOVERED.name for row in rows)
    named = sum(row["is_named"] for row in unsure)
    cpu = float(np.mean([row["cpu"] for row in rows]))
    target = (
        f'activation="auto" ({d},{k}), noise {noise}: right in 90 % where told apart, none wrong and claimed'
    )
    note = f" told apart, {named}/{len(unsure)} undecided ones name it, {claimed} claimed, {wrong} of them wrong, "
    line = at_least(target, hits, len(apart), 0.9, f"{note}{cpu:.1f} s of CPU each")
    return replace(line, passed=line.passed and bool(apart) and not wrong), rows


def is_same_kind(network: TwoLayerNetwork | None, truth: TwoLayerNetwork, tol: float) -> bool:
    """Whether the activation was found: a slope to `tol`, or a linear part, beside which it is ReLU in another spelling."""
    if network is None:
        return False
    one, other = (net.activation for net in (network, truth))
    if one.is_piecewise_linear and other.is_piecewise_linear:
        return network.B is not None or abs(one.left - other.left) <= tol
    return {"sigmoid": "tanh"}.get(one.name, one.name) == {"sigmoid": "tanh"}.get(other.name, other.name)


def is_named(names: list[str], truth: TwoLayerNetwork) -> bool:
    """Whether the activation is among others that explain the samples as well; "relu" stands for leaky units too."""
    name = "relu" if truth.activation.is_piecewise_linear else truth.activation.name
    return {"sigmoid": "tanh"}.get(name, name) in names


def peer(name: str, d: int, k: int, count: int, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    truth, X = draw(name, 2, 1, SOLVER)
    plain_fit(truth, X, truth(X)[:, 0], 1, np.random.default_rng(0))  # what is loaded once is not counted
    planted.recover(X, truth(X), method="restarts", activation=name, random_state=0)
    for seed in seeds(count):
        truth, X = draw(name, d, k, seed)
        Y = truth(X)
        began = process_time()
        residual = plain_fit(truth, X, Y[:, 0], k, np.random.default_rng(SOLVER + seed))
        plain = process_time() - began
        began = process_time()
        answer = planted.recover(X, Y, method="restarts", activation=name, random_state=SOLVER + seed)
        ours = process_time() - began
        hit = answer.outcome is Outcome.RECOVERED and error_of(answer.network, truth) <= EXACT
        rows.append(
            {"case": f"peer {name} ({d},{k})", "seed": seed, "plain_cpu": plain, "cpu": ours}
            | {"plain_residual": residual, "is_exact": bool(hit)}
        )
    ours, plain = (float(np.mean([row[key] for row in rows])) for key in ("cpu", "plain_cpu"))
    hits = sum(row["is_exact"] for row in rows), sum(row["plain_residual"] < 1e-10 for row in rows)
    return Line(
        f"{name} ({d},{k}): CPU at most a third of a plain SciPy version that is told k",
        f"{ours:.2f} s ({hits[0]}/{len(rows)} exact, certified) against {plain:.2f} s ({hits[1]}/{len(rows)} at rounding)",
        ours <= plain / 3,
    ), rows


def plain_fit(
    truth: TwoLayerNetwork, X: np.ndarray, y: np.ndarray, k: int, rng: np.random.Generator
) -> float:
    """The peer: all parameters by `least_squares`, the unit with the least part in the output dropped each time."""
    f, p = truth.activation, X.shape[1] + 1
    rows = np.column_stack([X, np.ones(len(X))])

    def values(theta: np.ndarray) -> np.ndarray:
        V, a = theta[:-1].reshape(-1, p + 1)[:, :p], theta[:-1].reshape(-1, p + 1)[:, p]
        return f(rows @ V.T) @ a + theta[-1] - y

    def jacobian(theta: np.ndarray) -> np.ndarray:
        V, a = theta[:-1].reshape(-1, p + 1)[:, :p], theta[:-1].reshape(-1, p + 1)[:, p]
        t = rows @ V.T
        hidden = (f.derivative(t) * a)[:, :, None] * rows[:, None, :]
        both = np.concatenate([hidden, f(t)[:, :, None]], axis=2).reshape(len(X), -1)
        return np.column_stack([both, np.ones(len(X))])

    units = np.hstack([rng.standard_normal((2 * k, p)) / np.sqrt(p), 0.1 * rng.standard_normal((2 * k, 1))])
    offset = 0.0
    while True:
        is_last = len(units) == k
        tol = 1e-15 if is_last else 1e-6
        fit = least_squares(
            values, np.append(units.ravel(), offset), jacobian, method="trf", x_scale="jac",
            ftol=tol, xtol=tol, gtol=tol, max_nfev=400 if is_last else 60,
        )  # fmt: skip
        if is_last:
            return float(np.sqrt((fit.fun**2).mean()) / y.std())
        units, offset = fit.x[:-1].reshape(-1, p + 1), float(fit.x[-1])
        part = np.abs(units[:, p]) * f(rows @ units[:, :p].T).std(axis=0)
        units = np.delete(units, int(np.argmin(part)), axis=0)


def toys(name: str, count: int, seeds: Seeds) -> tuple[Line, Rows]:
    rows = [solve_toy(name, d, k, seed) for seed in seeds(count) for d, k in TOYS]
    hits, wrong = sum(is_found(row["error"]) for row in rows), sum(row["is_wrong"] for row in rows)
    cpu = float(np.mean([row["cpu"] for row in rows]))
    note = f", {wrong} wrong and claimed, {cpu:.1f} s of CPU each"
    line = at_least(f"toy {name} teachers: 80 % found", hits, len(rows), 0.8, note)
    return replace(line, passed=line.passed and not wrong), rows


def students(name: str, count: int, seeds: Seeds) -> tuple[Line, Rows]:
    from _students import expand_and_cluster  # PyTorch, for this section only

    rows: Rows = []
    for seed, (d, k) in product(seeds(count), TOYS_OF_STUDENTS):
        truth, X = draw_toy(name, d, k, seed)
        row = solve_toy(name, d, k, seed)
        for solver in ("adam", "lbfgs"):
            began = process_time()
            student = expand_and_cluster(X, truth(X)[:, 0], k, name, solver, SOLVER + seed)
            row |= {f"{solver}_cpu": process_time() - began, f"{solver}_error": toy_error(student, truth)}
        rows.append(row)
    keys = {"": "ours", "adam_": "Adam", "lbfgs_": "L-BFGS"}
    found = {key: sum(is_found(row[f"{key}error"]) for row in rows) for key in keys}
    cpu = {key: float(np.mean([row[f"{key}cpu"] for row in rows])) for key in keys}
    return Line(
        f"toy {name} teachers: found and CPU beside clustered students",
        ", ".join(f"{label} {found[key]}/{len(rows)}, {cpu[key]:.1f} s" for key, label in keys.items()),
        all(found[""] >= found[key] and cpu[""] <= cpu[key] for key in keys),
    ), rows


def solve_toy(name: str, d: int, k: int, seed: int) -> dict[str, Any]:
    truth, X = draw_toy(name, d, k, seed)
    Y, began = truth(X), process_time()
    answer = planted.recover(X, Y, method="restarts", activation=name, random_state=SOLVER + seed)
    cpu, error = process_time() - began, toy_error(answer.network, truth)
    is_wrong = answer.outcome is Outcome.RECOVERED and not is_found(error)
    return {
        "case": f"toy {name} ({d},{k})",
        "seed": seed,
        "outcome": answer.outcome.name,
        "error": error,
        "is_wrong": is_wrong,
        "cpu": cpu,
    }


def is_found(error: float | None) -> bool:
    return error is not None and error <= TOY


def draw_toy(name: str, d: int, k: int, seed: int) -> tuple[TwoLayerNetwork, np.ndarray]:
    rng = np.random.default_rng([seed, d, k, 11])
    W = rng.standard_normal((k, d))
    W *= (rng.uniform(1, 3, k) / np.linalg.norm(W, axis=1))[:, None]
    A = rng.uniform(0.5, 1.5, (1, k)) * rng.choice([-1, 1], (1, k))
    truth = TwoLayerNetwork(W, rng.standard_normal(k), A, rng.standard_normal(1), name)
    return truth, rng.standard_normal((12 * (k + 1) * (d + 1), d))


def toy_error(network: TwoLayerNetwork | None, truth: TwoLayerNetwork) -> float | None:
    """The largest error of a parameter; nothing where there is no network, or of another width."""
    if network is None or network.n_hidden != truth.n_hidden:
        return None
    error = float(planted.parameter_error(network, truth))
    return error if np.isfinite(error) else None


def labels(name: str, d: int, k: int, count: int, law: dict[str, Any], seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(count):
        truth = planted.simulate.teacher(
            d, k, 1, activation=name, outputs="magnitudes", random_state=seed, **law
        )
        rng = np.random.default_rng([seed, d, k, 9])
        X = rng.standard_normal((20_000, d))
        truth = replace(truth, A=2 * truth.A, c=-np.median(2 * (truth(X) - truth.c), axis=0))
        chance = expit(truth(X)[:, 0])
        y = np.where(rng.random(len(X)) < chance, "yes", "no")
        began = process_time()
        answer = planted.recover(X, y, k, activation=name, likelihood="logistic", random_state=SOLVER + seed)
        cpu = process_time() - began
        matching = planted.match_units(answer.network, truth)
        one, true, order = matching.network, matching.truth, matching.permutation
        # Without standard errors no interval holds anything.
        known = isinstance(answer.uncertainty, Uncertainty)
        errors = (
            answer.uncertainty.standard_errors
            if known
            else {part: 0.0 * getattr(one, part) for part in "WbAc"}
        )
        gaps = {"W": one.W[order] - true.W, "b": one.b[order] - true.b, "A": one.A[:, order] - true.A}
        own = {"W": errors["W"][order], "b": errors["b"][order], "A": errors["A"][:, order]}
        gaps, own = gaps | {"c": one.c - true.c}, own | {"c": errors["c"]}
        inside = [np.abs(gaps[part]) <= 1.96 * own[part] for part in gaps]
        squares, bound = np.concatenate([gap.ravel() ** 2 for gap in gaps.values()]), bernoulli_bound(true, X)
        rows.append(
            {
                "case": f"logistic {name} ({d},{k})",
                "seed": seed,
                "outcome": answer.outcome.name,
                "ratio": float(np.mean(squares / bound)),
                "squared_error": float(squares.sum()),
                "bound": float(bound.sum()),
                "largest_error": float(np.sqrt(bound.max())),
                "covered": int(sum(part.sum() for part in inside)),
                "parameters": int(sum(part.size for part in inside)),
                "cpu": cpu,
            }
        )
    biases = "" if law == ON_AND_OFF else ", biases in [-1, 1]"
    ratios = np.array([row["ratio"] for row in rows])
    coverage = sum(row["covered"] for row in rows) / sum(row["parameters"] for row in rows)
    cpu = float(np.mean([row["cpu"] for row in rows]))
    error = ratios.std() / np.sqrt(len(rows))
    return Line(
        f"logistic {name} ({d},{k}){biases}, 20,000 labels: MSE over Cramér–Rao at most 1.15, coverage 93 to 97 %",
        f"{ratios.mean():.3f} ± {error:.3f}, {100 * coverage:.1f} %, {len(rows)} teachers, {cpu:.1f} s of CPU each",
        bool(ratios.mean() <= 1.15 and 0.93 <= coverage <= 0.97),
    ), rows


def bernoulli_bound(truth: TwoLayerNetwork, X: np.ndarray) -> np.ndarray:
    """The smallest variances from labels, in the order W, b, A, c; rows of W of unit norm where that is the gauge."""
    t, (k, d) = truth.preactivations(X), truth.W.shape
    slopes = truth.activation.derivative(t) * truth.A[0]
    weights = (slopes[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    J = np.column_stack([weights, slopes, truth.activation(t), np.ones(len(X))])
    free = np.eye(k * d)
    if not truth.activation.is_curved:
        free = block_diag(*(null_space(row[None, :]) for row in truth.W))
    moves = block_diag(free, np.eye(2 * k + 1))
    chance = expit(truth(X))
    information = moves.T @ (J * (chance * (1 - chance))).T @ J @ moves
    return np.diag(moves @ np.linalg.inv(information) @ moves.T)


def table(load: Callable[..., tuple[np.ndarray, np.ndarray]], seeds: Seeds) -> tuple[Line, Rows]:
    X, y = load(return_X_y=True)
    name, rows = load.__name__.removeprefix("load_"), []
    folds = StratifiedKFold(5, shuffle=True, random_state=seeds(1)[0])
    for number, (train, test) in enumerate(folds.split(X, y)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the network is a fit only
            began = process_time()
            model = planted.TwoLayerClassifier(random_state=SOLVER + number).fit(X[train], y[train])
            cpu = process_time() - began
            rivals = [
                make_pipeline(StandardScaler(), MLPClassifier(max_iter=1000, random_state=seed)).fit(
                    X[train], y[train]
                )
                for seed in range(5)
            ]
        rows.append(
            {
                "case": name,
                "fold": number,
                "outcome": model.recovery_.outcome.name,
                "n_hidden": model.network_.n_hidden,
                "log_loss": float(log_loss(y[test], model.predict_proba(X[test]))),
                "mlp": [float(log_loss(y[test], rival.predict_proba(X[test]))) for rival in rivals],
                "cpu": cpu,
            }
        )
    ours = float(np.mean([row["log_loss"] for row in rows]))
    theirs = float(np.median(np.mean([row["mlp"] for row in rows], axis=0)))
    is_fit = all(row["outcome"] == Outcome.FITTED.name for row in rows)
    return Line(
        f"{name}: log-loss no worse than MLPClassifier's median, FITTED",
        f"{ours:.4f} against {theirs:.4f}, {'all FITTED' if is_fit else 'not all FITTED'}",
        ours <= theirs and is_fit,
    ), rows


def asked(name: str, d: int, k: int, count: int, seeds: Seeds) -> tuple[Line, Rows]:
    rows = []
    for seed in seeds(count):
        truth, _ = draw(name, d, k, seed)
        began = process_time()
        answer = planted.identify(truth, d, activation=name, random_state=SOLVER + seed)
        error, is_claimed = error_of(answer.network, truth), answer.outcome is Outcome.RECOVERED
        rows.append(
            {
                "case": f"asked {name} ({d},{k})",
                "seed": seed,
                "outcome": answer.outcome.name,
                "error": float(error) if np.isfinite(error) else None,
                "is_exact": bool(is_claimed and error <= EXACT),
                "is_wrong": bool(is_claimed and not error <= EXACT),
                "queries": answer.stats["queries"],
                "per_parameter": answer.stats["queries"] / truth.n_parameters,
                "cpu": process_time() - began,
            }
        )
    hits, wrong = (sum(row[key] for row in rows) for key in ("is_exact", "is_wrong"))
    most = max(row["per_parameter"] for row in rows)
    cpu = float(np.mean([row["cpu"] for row in rows]))
    note = f", {wrong} wrong and claimed, at most {most:.1f} questions per parameter, {cpu:.2f} s of CPU each"
    line = at_least(f"{name} ({d},{k}) by questions: exact to 1e-8", hits, len(rows), 1.0, note)
    return replace(line, passed=line.passed and not wrong), rows


def classifier(load: Callable[..., tuple[np.ndarray, np.ndarray]], k: int, seeds: Seeds) -> tuple[Line, Rows]:
    X, y = load(return_X_y=True)
    X, name, rows = StandardScaler().fit_transform(X), load.__name__.removeprefix("load_"), []
    for seed in seeds(1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that training may go on
            model = MLPClassifier((k,), max_iter=200, random_state=seed).fit(X, y)
        (W, A), (b, c) = model.coefs_, model.intercepts_
        truth = TwoLayerNetwork(W.T, b, (A[:, :-1] - A[:, -1:]).T, c[:-1] - c[-1])
        began = process_time()
        answer = planted.identify(model, random_state=SOLVER + seed)
        error = planted.parameter_error(answer.network, truth) if answer.network else np.inf
        rows.append(
            {
                "case": f"predict_proba {name} {W.shape[0]}-{k}-{A.shape[1]}",
                "seed": seed,
                "outcome": answer.outcome.name,
                "error": float(error) if np.isfinite(error) else None,
                "per_parameter": answer.stats["queries"] / truth.n_parameters,
                "cpu": process_time() - began,
            }
        )
    (row,) = rows
    return Line(
        f"{row['case']}: read back to 1e-6, at most 25 questions per parameter",
        f"{row['outcome']}, error {error:.1g}, {row['per_parameter']:.1f} per parameter, {row['cpu']:.0f} s of CPU",
        row["outcome"] == Outcome.RECOVERED.name and error <= 1e-6 and row["per_parameter"] <= 25,
    ), rows


WIDTHS = ((5, 4, 100), (10, 5, 100), (10, 12, 100), (20, 20, 20))
CELLS: dict[str, Measure] = {
    **{
        f"exact {name} ({d},{k})": partial(exact, name, d, k, count)
        for name in NAMES
        for d, k, count in WIDTHS
    },
    **{f"noise {name}": partial(noisy, name, 5, 4, 20) for name in NAMES[:5]},
    **{f"toys {name}": partial(toys, name, 2) for name in TOY_NAMES},
    **{f"students {name}": partial(students, name, 2) for name in TOY_NAMES},
    **{
        f"auto ({d},{k}) {noise}": partial(unknown, d, k, noise, count)
        for d, k in ((3, 2), (5, 3))
        for noise, count in ((0.0, 4), (0.1, 4))
    },
    **{
        f"labels {name} ({d},{k}){rest}": partial(labels, name, d, k, count, law)
        for name, d, k, count, rest, law in (
            ("relu", 5, 3, 60, "", ON_AND_OFF),
            ("relu", 10, 5, 10, "", ON_AND_OFF),
            ("tanh", 5, 3, 20, "", ON_AND_OFF),
            ("tanh", 10, 5, 6, "", ON_AND_OFF),
            ("relu", 5, 3, 60, " biases", {"bias": (-1, 1)}),
        )
    },
    **{f"tables {load.__name__[5:]}": partial(table, load) for load in (load_wine, load_breast_cancer)},
    **{
        f"questions {name} ({d},{k})": partial(asked, name, d, k, count)
        for name in NAMES[:5]
        for d, k, count in ((10, 5, 4), (20, 10, 2))
    },
    **{
        f"probabilities {load.__name__[5:]}": partial(classifier, load, k)
        for load, k in ((load_wine, 8), (load_digits, 32))
    },
    **{
        f"peer {name} ({d},{k})": partial(peer, name, d, k, count)
        for name in ("tanh", "softplus")
        for d, k, count in ((10, 5, 10), (10, 12, 3))
    },
}

if __name__ == "__main__":
    run_sections("activations", __doc__ or "", {name: gather(cell) for name, cell in CELLS.items()})
