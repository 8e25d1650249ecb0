"""Figures 1 to 4 of [GLM18]_: stochastic gradient descent on fresh samples for ℓ2, f′ and G, and Theorem 2.3 in numbers.

The truth is W = I, a = 1, without noise, d = 50 (10 with ``--quick``). Every curve is drawn in the paper's metric (4.1),
which a matrix with equal rows can satisfy, and in an honest one: the largest difference of an entry of W or a after matching
units. Losses are exact population values above their minimum, not estimates. The end of a run of ℓ2 is certified: from there
the exact risk is descended until the gradient vanishes, and the kind of that point is told by its whole Hessian. Finished
runs and the middle of unfinished ones are kept in the output folder, from where a second call goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from planted._typing import Array
from planted.diagnostics import classify_point
from planted.io import atomic_write
from planted.methods.landscape._coefficients import hermite_coefficients
from planted.methods.landscape._descent import descend, random_rows
from planted.methods.landscape._read import read_outputs
from planted.methods.landscape._sgd import FreshSamples, Stage, Training, train_on_fresh_samples
from planted.methods.landscape.objectives import Objective, population_objective, theorem_weights
from planted.networks import glm_error, parse_activation
from planted.outcomes import BadInputError, shown
from planted.reproduce._landscape_appendix import appendix_study
from planted.reproduce._landscape_theorem import theorem_study
from planted.reproduce._study import Agreement, Axes, Claim, Study, StudyOptions

__all__ = ["FIGURES"]

FOUND = 0.1  # honest error below which a run has found the truth; unfinished ones are near 1
FOUND_4_1 = 0.01  # the same in the paper's metric, in which its statement is made
PAPER_SIZE = 50  # d of its figures
PAPER_STEPS = 80_000  # the axis of the paper's Figures 3 and 4
START_SEED, SAMPLE_SEED = 3_000_000, 4_000_000  # added to the seed of the study
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the runs of one curve family are made."""

    variant: str
    objective: str
    activation: str
    degree: int
    batch_size: int
    schedule: tuple[Stage, ...]
    record_every: int
    runs: int
    size: int


def _figure_3(options: StudyOptions) -> Study:
    """f′ converges: the paper's objective, and with the linear part of y taken out first."""
    if options.quick:
        size, batch, every, runs = 10, 2048, 50, (2, 2)
        plain = (Stage(1500, 0.1, 0.02), Stage(500, 0.02, 0.01))
        fast = (Stage(200, 1.0, 0.1), Stage(100, 0.2, 0.05))
    else:
        size, batch, every, runs = 50, 8192, 500, (1, 5)
        plain = (Stage(15_000, 0.03, 0.005), Stage(3000, 0.005, 0.001))
        fast = (Stage(600, 1.0, 0.1), Stage(400, 0.2, 0.05))
    plans = [
        _Plan("y as it is", "f'", "relu", 0, batch, plain, every, runs[0], size),
        _Plan("linear part removed", "f'", "relu", 1, batch, fast, 20, runs[1], size),
    ]
    rows = _run_plans(options, "3", plans)
    return _study("3", f"f' with batches of {batch:,}, d = {size}", rows, plans, "converges to the truth")


def _figure_4(options: StudyOptions) -> Study:
    """G converges: with y as it is by small steps, and faster once y is free of its parts of degree two."""
    slow: tuple[Stage, ...]
    if options.quick:
        size, batch, runs = 10, 32_768, 1
        slow = (Stage(1000, 0.02, 0.0), Stage(200, 0.004, 0.0))
        fast = (Stage(150, 0.2, 0.0), Stage(50, 0.05, 0.0))
    else:
        size, batch, runs = 50, 262_144, 3
        slow = (Stage(150, 3e-4, 0.0),)
        fast = (Stage(200, 0.2, 0.0), Stage(60, 0.05, 0.0))
    plans = [
        _Plan("y as it is", "G", "relu", 0, batch, slow, 20, 1, size),
        _Plan("degree two removed", "G", "relu", 2, batch, fast, 10, runs, size),
    ]
    rows = _run_plans(options, "4", plans)
    return _study("4", f"G with batches of {batch:,}, d = {size}", rows, plans, "converges to the truth")


def _stuck_study(options: StudyOptions, *, figure: str, activation: str, rate: float) -> Study:
    """ℓ2: none of five runs converges."""
    quick = options.quick
    size, first, later, stages = (10, 2000, 500, 3) if quick else (50, 40_000, 3000, 5)
    schedule = [Stage(first, rate, 0.02)]
    schedule += [Stage(later, rate / 4**j, 0.02 / 4**j) for j in range(1, stages + 1)]
    plan = _Plan(activation, "l2", activation, 0, 256, tuple(schedule), 250 if quick else 1000, 5, size)
    rows = _run_plans(options, figure, [plan], certify=True)
    title = f"Squared risk, {activation}, batches of 256, d = {size}"
    return _study(figure, title, rows, [plan], "none of five runs reaches the truth")


FIGURES: dict[str, Callable[[StudyOptions], Study]] = {
    "1": partial(_stuck_study, figure="1", activation="relu", rate=0.02),
    "2": partial(_stuck_study, figure="2", activation="sigmoid", rate=0.2),
    "3": _figure_3,
    "4": _figure_4,
    "theorem": theorem_study,
    "appendix": appendix_study,
}


def _run_plans(
    options: StudyOptions, figure: str, plans: Sequence[_Plan], *, certify: bool = False
) -> list[Row]:
    """Run what is not yet done; one line per recorded step, the last line of a run has its certificate."""
    kept = _Kept(options, figure, plans)
    total = sum(plan.runs * sum(stage.steps for stage in plan.schedule) for plan in plans)
    done, rows = 0, []
    for plan in plans:
        activation, ones = parse_activation(plan.activation), np.ones(plan.size)
        truth = FreshSamples(np.eye(plan.size), ones, activation, degree=plan.degree)
        exact = population_objective(plan.objective, truth.W, truth.a, activation=plan.activation)
        floor = descend(exact, truth.W, truth.a).value
        for run in range(plan.runs):
            state = kept.runs.setdefault(f"{plan.variant} {run}", {"rows": []})
            start = _start_of(state, plan, options.seed + run)
            seed = SAMPLE_SEED + options.seed + run
            for now in _trained(truth, plan, start, seed):
                state["rows"].append(_measure(plan, run, now, truth, exact, floor))
                state |= {"step": now.step, "W": now.W.tolist(), "a": now.a.tolist()}
                options.progress(
                    f"figure {figure}: {plan.variant}, run {run + 1}, step {now.step}",
                    (done + now.step) / total,
                )
                kept.save()
            done += sum(stage.steps for stage in plan.schedule)
            if certify and "certificate" not in state:
                options.progress(f"figure {figure}: certificate of run {run + 1}", done / total)
                state["certificate"] = _certificate(exact, state, truth)
                kept.save(force=True)
            rows += [row | state.get("certificate", _NO_CERTIFICATE) for row in state["rows"]]
    kept.save(force=True)
    return rows


class _Kept:
    """Finished and unfinished runs in the output folder; runs of other settings are not taken up."""

    def __init__(self, options: StudyOptions, figure: str, plans: Sequence[_Plan]) -> None:
        folder = options.extra.get("out")
        self.path = None if folder is None else Path(folder) / f"landscape-figure-{figure}.runs.json"
        self.settings = json.loads(json.dumps([asdict(plan) for plan in plans] + [options.seed]))
        self.runs: dict[str, Any] = {}
        self.calls = 0
        if self.path is not None and self.path.exists():
            settings, runs = _read_runs(self.path)
            if settings == self.settings:
                self.runs = runs

    def save(self, *, force: bool = False) -> None:
        """Write every tenth time, or now."""
        self.calls += 1
        if self.path is None or not (force or self.calls % 10 == 0):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_signed(self.settings, self.runs))
        atomic_write(self.path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _signed(settings: Any, runs: Any) -> dict[str, Any]:
    """Return what is kept, with the hash by which it is known again."""
    digest = sha256(json.dumps([settings, runs]).encode()).hexdigest()
    return {"settings": settings, "runs": runs, "sha256": digest}


def _read_runs(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return settings and runs of a file that planted wrote and nobody changed."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored == _signed(stored["settings"], stored["runs"]):
            return stored["settings"], stored["runs"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = type(error).__name__
    else:
        reason = "another hash"
    raise BadInputError(
        f"{shown(path)} holds no runs that planted kept there, or was changed ({reason}). Delete it, or choose another "
        "folder."
    )


def _start_of(state: dict[str, Any], plan: _Plan, seed: int) -> Training:
    """Return the kept state of a run, or random unit rows and a = 1."""
    if "step" in state:
        return Training(state["step"], np.array(state["W"]), np.array(state["a"]))
    rng = np.random.default_rng(START_SEED + seed)
    return Training(0, random_rows(plan.size, plan.size, rng), np.ones(plan.size))


def _trained(truth: FreshSamples, plan: _Plan, start: Training, seed: int) -> Any:
    fourth = float(hermite_coefficients(truth.activation, 4)[4])
    return train_on_fresh_samples(
        truth,
        plan.objective,
        start,
        schedule=plan.schedule,
        batch_size=plan.batch_size,
        record_every=plan.record_every,
        seed=seed,
        weights=theorem_weights("G", fourth, largest=1.0, smallest=1.0),
    )


def _measure(
    plan: _Plan, run: int, now: Training, truth: FreshSamples, exact: Objective, floor: float
) -> Row:
    norms = np.linalg.norm(now.W, axis=1)
    unit = now.W / norms[:, None]
    W, a = now.W, now.a
    if plan.objective != "l2":  # even objectives: signs from Appendix D, with the exact E[y x]
        first = float(hermite_coefficients(truth.activation, 1)[1])
        slope = first * truth.a @ truth.W
        W, a = read_outputs(unit, slope, first, a=now.a if plan.objective == "f'" else None)
    elif truth.activation.is_piecewise_linear:
        W, a = unit, now.a * norms
    return {
        "variant": plan.variant,
        "run": run,
        "series": f"{plan.variant}, run {run + 1}",
        "iteration": now.step,
        "loss": max(exact(now.W, now.a)[0] - floor, 1e-16),
        "error_4_1": max(glm_error(unit, truth.W), 1e-16),
        "matched_error": _matched_error(W, a, truth),
    }


def _matched_error(W: Array, a: Array, truth: FreshSamples) -> float:
    """Return the largest difference of an entry of W or a after matching units."""
    found, wanted = np.hstack([W, a[:, None]]), np.hstack([truth.W, truth.a[:, None]])
    pairs = linear_sum_assignment(cdist(found, wanted, "sqeuclidean"))
    return float(np.abs(found[pairs[0]] - wanted[pairs[1]]).max())


_NUMBERS = ("end_risk", "end_gradient", "end_smallest_eigenvalue", "end_matched_error")
_NO_CERTIFICATE: Row = {"end_kind": "", **dict.fromkeys(_NUMBERS, float("nan"))}


def _certificate(exact: Objective, state: dict[str, Any], truth: FreshSamples) -> Row:
    """Descend the exact risk from the end of a run; tell the kind of the point it leads to."""
    W, a = np.array(state["W"]), np.array(state["a"])
    if exact.has_unit_rows:
        norms = np.linalg.norm(W, axis=1)
        W, a = W / norms[:, None], a * norms
    end = descend(exact, W, a, max_iter=10_000)
    point = classify_point((end.W, end.a), exact, truth=(truth.W, truth.a))
    error = _matched_error(end.W, end.a, truth)
    numbers = (point.value, point.gradient_norm, point.smallest_eigenvalue, error)
    return {"end_kind": point.kind, **dict(zip(_NUMBERS, numbers, strict=True))}


def _study(figure: str, title: str, rows: list[Row], plans: Sequence[_Plan], claim: str) -> Study:
    panels = (
        Axes("loss above its minimum", "iteration", "loss", "series"),
        Axes("error (4.1)", "iteration", "error_4_1", "series"),
        Axes("honest error", "iteration", "matched_error", "series"),
    )
    claims = [
        Claim(f"({plan.variant}) {claim}", _sentence(rows, plan), _verdict(rows, plan)) for plan in plans
    ]
    lasts = _last_rows(rows)
    is_large = plans[0].size >= PAPER_SIZE
    if lasts[0]["end_kind"]:
        stuck = sum(row["end_kind"] == "spurious minimum" for row in lasts)
        claims.append(
            Claim(
                "runs are stuck at bad minima",
                f"{stuck} of {len(lasts)} lead to a certified spurious minimum",
                Agreement.of(stuck == len(lasts), finished=is_large),
            )
        )
        claims += [
            Claim(
                f"run {row['run'] + 1}: the point that descending the exact risk from its end leads to",
                f"{row['end_kind']}: risk {row['end_risk']:.3g}, gradient {row['end_gradient']:.1e}, smallest eigenvalue "
                f"{row['end_smallest_eigenvalue']:.2e}, honest error {row['end_matched_error']:.2g}",
                Agreement.of(row["end_kind"] == "spurious minimum", finished=is_large),
            )
            for row in lasts
        ]
    return Study(f"landscape-figure-{figure}", title, rows, panels, claims)


def _last_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the last line of every run."""
    return list({row["series"]: row for row in rows}.values())


def _verdict(rows: Sequence[Row], plan: _Plan) -> Agreement:
    """Return whether runs end where the paper's do; those of f' and G may be longer than `PAPER_STEPS` at d = 50.

    A run of ℓ2 that is neither at the truth nor at a certified bad minimum was not run to its end.
    """
    lasts = [row for row in _last_rows(rows) if row["variant"] == plan.variant]
    if plan.objective == "l2":
        is_stuck = all(row["end_kind"] == "spurious minimum" for row in lasts)
        return Agreement.of(is_stuck, finished=any(row["matched_error"] <= FOUND for row in lasts))
    found = all(row["error_4_1"] <= FOUND_4_1 for row in lasts)
    return Agreement.of(found, finished=sum(stage.steps for stage in plan.schedule) >= PAPER_STEPS)


def _sentence(rows: Sequence[Row], plan: _Plan) -> str:
    lasts = [row for row in _last_rows(rows) if row["variant"] == plan.variant]
    count, steps = len(lasts), lasts[0]["iteration"]
    honest = sum(row["matched_error"] <= FOUND for row in lasts)
    found = f"{honest} of {count} runs end at the truth"
    if plan.objective != "l2":  # the verdict is in the paper's metric
        near = sum(row["error_4_1"] <= FOUND_4_1 for row in lasts)
        found = f"{near} of {count} runs end below {FOUND_4_1:g} in (4.1), {honest} below {FOUND:g} in the honest error,"
    spread = ", ".join(f"{row['matched_error']:.2g}" for row in lasts)
    paper = ", ".join(f"{row['error_4_1']:.2g}" for row in lasts)
    losses = ", ".join(f"{row['loss']:.2g}" for row in lasts)
    return f"{found} after {steps:,} steps; honest error {spread}; error (4.1) {paper}; loss {losses}"
