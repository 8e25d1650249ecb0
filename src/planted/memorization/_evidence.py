"""Whether labels were memorised, and which of the theorems' conditions the data meet.

Problem     When a solver has ended, say in the user's units what it reached, and compare the data with what the
            theorems need.
Idea        The loss is measured on the returned network and the user's rows; the solver's own account is not used.
            Conditions that cost more than the fit (singular values of a large kernel, Lanczos iterations on many
            rows) are left out, and so is every costly one once the time budget is used up; a number left out is NaN.
Guarantee   ``MEMORISED`` is said only of the measured loss.
Notation    As in `planted.memorization._theory`; singular values and constants are in the solver's units (rows and
            labels of root mean square 1).
Departures  Where the Hessian is too large for Lanczos iterations, Lemma 3's identity gives its smallest eigenvalue.
Cost        One evaluation of the network, and up to 2,000 rows an eigenvalue decomposition of the kernel.
References  [GWZ20]_
"""

from __future__ import annotations

from collections.abc import Mapping
from math import comb

import numpy as np

from planted._validation import CheckedData
from planted.checks import Check
from planted.memorization._result import MemoryOutcome
from planted.memorization._task import BLOCK_ROWS, MemoryFit, MemoryTask, quadratic_forms
from planted.memorization._theory import (
    TheoremFacts,
    curvature_matrix,
    landscape_bound,
    smallest_hessian_eigenvalue,
    smoothed_singular_value_bound,
)
from planted.memorization._units import Features, Frame
from planted.memorization.solvers._kernel import RANK_TOL, rounding_of_products, spectrum_of_products
from planted.networks import ThreeLayerNetwork, TwoLayerNetwork
from planted.results import Evidence

__all__ = ["find_contradiction", "gather_conditions", "gather_evidence", "judge"]

KERNEL_ROWS = 2000
LANCZOS_WORK = 3e7  # flops of one Hessian product above which Lanczos is left out
EPSILON = 1e-2  # the loss for which Theorem 4's iterations are predicted
FITTING = ("ridge", "low-rank")  # solvers that fit a smaller network on purpose
NAN = float("nan")


def gather_conditions(
    task: MemoryTask,
    fit: MemoryFit,
    network: TwoLayerNetwork | ThreeLayerNetwork,
    data: CheckedData,
    frame: Frame,
) -> dict[str, float]:
    """Measure the network on the user's rows and the conditions of Theorem 4.

    Three layers are forms of degree 2p in the d inputs: whatever the number of random features q, they have at most
    C(d+2p-1, 2p) dimensions.
    """
    (n, q), label_scale = task.Z.shape, frame.label_scale
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS)]
    relative = np.vstack([(network(data.X[rows]) - data.Y[rows]) / label_scale for rows in blocks])
    rank, smallest = _spectrum(task, fit)
    squares = np.einsum("ij,ij->i", task.Z, task.Z)
    capacity = task.capacity
    if frame.features is not None:
        degree = 2 * frame.features.power
        capacity = min(capacity, comb(frame.inputs.shape[1] + degree - 1, degree))
    return {
        "samples": float(n),
        "inputs": float(q),
        "capacity": float(capacity),
        "units": float(network.n_hidden),
        "rank": rank,
        "sigma_min": float(np.sqrt(smallest)),
        "sigma_bound": float(np.sqrt(max(fit.eigenvalue_bound, 0.0))),
        "largest_norm": float(np.sqrt(squares.max())),
        "largest_label": float(np.abs(task.Y).max()),
        "initial_loss": float(np.sum(task.Y**2)) / (4 * n),
        "relative_loss": float(np.sum(relative**2)) / (4 * n * task.Y.shape[1]),
        "loss": float(np.sum(relative**2)) / (4 * n) * label_scale**2,
        "largest_error": float(np.abs(relative).max()) * label_scale,
    }


def gather_evidence(
    task: MemoryTask,
    fit: MemoryFit,
    conditions: Mapping[str, float],
    frame: Frame,
    *,
    tol: float,
    rng: np.random.Generator,
) -> tuple[Evidence, ...]:
    """Compare the data with what the theorems need."""
    sigma = conditions["sigma_min"]
    n, q = task.Z.shape
    lines = _fit_evidence(task, fit, conditions, tol) + _independence_evidence(task, conditions)
    if task.has_time():
        lines += _landscape_evidence(task, fit, sigma, rng)
    if sigma > 0:
        facts = {name: conditions[name] for name in ("largest_norm", "largest_label", "initial_loss")}
        predicted = TheoremFacts(n, q, sigma=sigma, epsilon=EPSILON, **facts).predicted_iterations()
        name, key = "iterations to loss 0.01 that the theorem predicts", Check.PREDICTED_STEPS
        lines.append(Evidence(name, predicted, equation="Theorem 4", key=key))
    if frame.features is not None:
        lines += _feature_evidence(task, sigma, frame, frame.features)
    return tuple(lines)


def judge(
    task: MemoryTask,
    fit: MemoryFit,
    conditions: Mapping[str, float],
    data: CheckedData,
    *,
    solver: str,
    tol: float,
    has_bias: bool,
) -> tuple[MemoryOutcome, str]:
    """Return how it ended, and the measured reason as sentences."""
    reached = f"Loss {conditions['loss']:.3g}, largest error {conditions['largest_error']:.3g}"
    reached += f", {conditions['units']:.0f} hidden units for {conditions['samples']:.0f} samples."
    if fit.fallback:
        reached += f" Fallback: {fit.fallback}."
    if conditions["relative_loss"] <= tol:
        return MemoryOutcome.MEMORISED, reached
    contradiction = find_contradiction(data, has_bias=has_bias) if task.has_time() else ""
    outcome, obstacle = MemoryOutcome.STOPPED_EARLY, ""
    if contradiction:
        outcome, obstacle = MemoryOutcome.CONTRADICTION, contradiction
    elif conditions["samples"] > conditions["capacity"]:
        obstacle = f"{conditions['samples']:.0f} samples, {conditions['capacity']:.0f} dimensions."
        outcome = MemoryOutcome.TOO_MANY_SAMPLES
    elif conditions["rank"] < conditions["samples"]:
        obstacle = f"The rank of [x⊗x] is {conditions['rank']:.0f}."
        outcome = MemoryOutcome.DEPENDENT_INPUTS
    if task.interruptions:
        return MemoryOutcome.STOPPED_EARLY, _sentences(_how_it_stopped(task, fit), obstacle, reached)
    if solver in FITTING:
        return MemoryOutcome.FITTED, _sentences(contradiction, reached)
    if fit.promised_loss is not None and conditions["relative_loss"] <= fit.promised_loss:
        goal = f"Algorithm 1 ended by its own rule; the loss is at most ε = {fit.promised_loss:g}."
        return MemoryOutcome.CONVERGED, _sentences(goal, reached)
    return outcome, _sentences(obstacle, reached)


def find_contradiction(data: CheckedData, *, has_bias: bool) -> str:
    """Name two rows that no quadratic network can tell apart but whose labels differ.

    Without a bias x and -x give the same output, and zero gives zero.
    """
    X, Y = data.X, data.Y
    if not has_bias:
        zero = np.flatnonzero(~X.any(axis=1) & Y.any(axis=1))
        if len(zero):
            return f"Row {zero[0]} is zero but its label is not; without a bias its output is always 0."
        leading = X[np.arange(len(X)), (X != 0).argmax(axis=1)]
        X = X * np.where(leading < 0, -1.0, 1.0)[:, None]
    _, group = np.unique(X, axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    same = group[order[1:]] == group[order[:-1]]
    differs = (Y[order[1:]] != Y[order[:-1]]).any(axis=1)
    clashes = np.flatnonzero(same & differs)
    if len(clashes) == 0:
        return ""
    first, second = order[clashes[0]], order[clashes[0] + 1]
    return f"Rows {first} and {second} have equal inputs (up to sign) and different labels; {len(clashes)} such pairs."


def _how_it_stopped(task: MemoryTask, fit: MemoryFit) -> str:
    """Say what stopped a solver, when, and whether there is anything to show for it."""
    n_iterations = int(fit.curve[-1][0])
    text = f"Stopped ({task.interruptions[0]}) after {n_iterations} iterations"
    if not fit.W.any():
        return f"{text}, before anything was found: all weights are zero."
    if n_iterations == 0 and fit.width is not None:
        return f"{text}: the weights are at or near their random start."
    return f"{text}."


def _sentences(*parts: str) -> str:
    """Join the sentences that are not empty."""
    return " ".join(filter(None, parts))


def _spectrum(task: MemoryTask, fit: MemoryFit) -> tuple[float, float]:
    """Return the rank of [x⊗x] and its kernel's smallest eigenvalue, from the solver or, for few rows, anew."""
    if fit.spectrum is not None:
        return float(fit.spectrum[0]), fit.spectrum[1]
    if len(task.Z) > KERNEL_ROWS or not task.has_time():
        return NAN, 0.0 if len(task.Z) > task.capacity else NAN
    rank, smallest = spectrum_of_products(task.Z)
    return float(rank), smallest


def _fit_evidence(
    task: MemoryTask, fit: MemoryFit, conditions: Mapping[str, float], tol: float
) -> list[Evidence]:
    """Say how well the network fits and how large it is."""
    n, q = task.Z.shape
    relative, largest, units = (conditions[name] for name in ("relative_loss", "largest_error", "units"))
    name, capacity = "samples against the dimensions of the forms", conditions["capacity"]
    source = "Theorem 4: q(q+1)/2; three layers: at most C(d+2p-1, 2p)"
    lines = [
        Evidence("loss over mean square of the labels", relative, tol, "<=", key=Check.LOSS),
        Evidence("largest |output - label|", largest, key=Check.RESIDUAL),
        Evidence(name, n, capacity, "<=", source, key=Check.SAMPLES),
        Evidence("hidden units", units, key=Check.UNITS),
    ]
    if fit.width is not None:
        width = float(fit.width)
        lines.append(Evidence("units per output", width, 2 * q + 2, ">=", "Theorem 4", key=Check.WIDTH))
    return lines


def _independence_evidence(task: MemoryTask, conditions: Mapping[str, float]) -> list[Evidence]:
    """Give the smallest singular value of [x⊗x] or, where it was too costly, a bound of it."""
    name, key = "smallest singular value of [x⊗x]", Check.INDEPENDENT_SAMPLES
    sigma, bound = conditions["sigma_min"], conditions["sigma_bound"]
    if np.isfinite(sigma):
        return [Evidence(name, sigma, rounding_of_products(task.Z), ">", "Theorem 4", key=key)]
    return [Evidence(f"{name}, at most", bound, key=key)] if np.isfinite(bound) else []


def _landscape_evidence(
    task: MemoryTask, fit: MemoryFit, sigma: float, rng: np.random.Generator
) -> list[Evidence]:
    """Evaluate Lemmas 1 and 3 at the end point, for the output with the largest loss."""
    n, q = task.Z.shape
    outputs = [quadratic_forms(task.Z, fit.W.T @ (signs[:, None] * fit.W)) for signs in fit.A]
    residuals = np.array(outputs) - task.Y.T
    worst = int(np.argmax(np.sum(residuals**2, axis=1)))
    curvature = float(np.linalg.norm(curvature_matrix(task.Z, residuals[worst]), 2))
    name = "spectral norm of (1/n) Σ δ x x'"
    lines = [Evidence(name, curvature, equation="Lemma 3", key=Check.STATIONARITY)]
    if 4.0 * n * q**2 <= LANCZOS_WORK and curvature > 0:
        name, value = "smallest eigenvalue of the Hessian", _smallest_curvature(task, fit, worst, rng)
        lines.append(Evidence(name, value, equation="Lemma 1, by Lanczos", key=Check.CURVATURE))
    if np.isfinite(sigma) and sigma > 0:
        loss = float(np.sum(residuals[worst] ** 2)) / (4 * n)
        bound = landscape_bound(n, q, curvature=curvature, sigma=sigma)
        name, key = "loss against the landscape bound", Check.LANDSCAPE_BOUND
        lines.append(Evidence(name, loss, bound, "<=", "Lemma 1", key=key))
    return lines


def _smallest_curvature(task: MemoryTask, fit: MemoryFit, output: int, rng: np.random.Generator) -> float:
    """Return the smallest Hessian eigenvalue of one output; two zero units are added, where Lanczos starts."""
    q = task.Z.shape[1]
    own = fit.A[output] != 0
    W = np.vstack([fit.W[own], np.zeros((2, q))])
    signs = np.append(fit.A[output][own], [1.0, -1.0])
    start = np.vstack([np.zeros((int(own.sum()), q)), rng.standard_normal((2, q))])
    return smallest_hessian_eigenvalue(task.Z, task.Y[:, output], W=W, a=signs, start=start, rng=rng)


def _feature_evidence(task: MemoryTask, sigma: float, frame: Frame, features: Features) -> list[Evidence]:
    """Evaluate Lemma 2, Theorem 5 and Theorem 6 for random features."""
    n, q = task.Z.shape
    smoothing = features.smoothing / frame.scale
    lines = [Evidence("random features", q, 2 * np.ceil(np.sqrt(n)), ">=", "Theorem 5", key=Check.FEATURES)]
    if smoothing > 0 and np.isfinite(sigma):
        d, variance = frame.inputs.shape[1], float(smoothing) ** 2
        bound = smoothed_singular_value_bound(n, d, n_random=q, power=features.power, variance=variance)
        name, key = "smallest singular value of [z⊗z]", Check.INDEPENDENT_FEATURES
        lines.append(Evidence(name, sigma, bound, ">=", "Lemma 2, eq. (4)", key=key))
    if n <= KERNEL_ROWS and task.has_time():
        values = np.linalg.eigvalsh((frame.inputs @ frame.inputs.T) ** (2 * features.power))
        rounding = RANK_TOL * n * float(values[-1])
        name = "smallest eigenvalue of the kernel (x'x)^2p"
        lines.append(Evidence(name, float(values[0]), rounding, ">", "Theorem 6", key=Check.KERNEL))
    return lines
