"""Whether labels were memorised, and which of the theorem's conditions the data meet.

Problem     After a solver has ended: say what it reached, in the user's units, and compare the data with what the
            theorems need.
Idea        The loss is measured on the returned network and the user's rows, not on the solver's own account.
            Conditions that cost more than the fit (singular values of a large kernel, Lanczos on many rows) are
            left out and say so by NaN.
Guarantee   ``MEMORISED`` is said only of the measured loss.
Notation    As in `memorize_theory`; singular values and constants are in the solver's units (rows and labels of
            root mean square 1).
Departures  Where the Hessian is too large for Lanczos, its smallest eigenvalue is Lemma 3's identity instead.
Cost        One evaluation of the network; up to 2,000 rows an eigenvalue decomposition of the kernel.
References  [GWZ20]_
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planted._typing import Array
from planted._validation import CheckedData
from planted.checks import Check
from planted.memorization._constants import predicted_iterations
from planted.memorization._kernel import RANK_TOL, form_kernel
from planted.memorization._result import MemoryOutcome
from planted.memorization._task import BLOCK_ROWS, MemoryFit, MemoryTask, quadratic_forms
from planted.memorization._theory import (
    curvature_matrix,
    landscape_bound,
    smallest_hessian_eigenvalue,
    smoothed_singular_value_bound,
)
from planted.networks import ThreeLayerNetwork, TwoLayerNetwork
from planted.results import Evidence

__all__ = ["find_contradiction", "gather_conditions", "gather_evidence", "judge"]

KERNEL_ROWS = 2000
LANCZOS_WORK = 3e7  # flops of one Hessian product above which Lanczos is left out
EPSILON = 1e-2  # the loss for which Theorem 4's iterations are predicted
NAN = float("nan")


def gather_conditions(
    task: MemoryTask,
    fit: MemoryFit,
    network: TwoLayerNetwork | ThreeLayerNetwork,
    data: CheckedData,
    *,
    label_scale: float,
) -> dict[str, float]:
    """Measure the network on the user's rows and the conditions of Theorem 4."""
    n, q = task.Z.shape
    relative = _relative_errors(network, data, label_scale)
    rank, smallest = _spectrum(task, fit)
    squares = np.einsum("ij,ij->i", task.Z, task.Z)
    return {
        "samples": float(n),
        "inputs": float(q),
        "capacity": float(task.capacity),
        "units": float(network.n_hidden),
        "rank": rank,
        "sigma_min": float(np.sqrt(smallest)),
        "sigma_bound": float(np.sqrt(max(fit.facts.get("eigenvalue_bound", NAN), 0.0))),
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
    *,
    tol: float,
    features: Mapping[str, Any] | None,
    rng: np.random.Generator,
) -> tuple[Evidence, ...]:
    """Compare the data with what the theorems need.

    `features`: with three layers: ``inputs``, ``power`` and ``smoothing`` of the random features.
    """
    n, q = task.Z.shape
    sigma = conditions["sigma_min"]
    lines = [
        Evidence(
            "loss over mean square of the labels", conditions["relative_loss"], tol, "<=", key=Check.LOSS
        ),
        Evidence("largest |output - label|", conditions["largest_error"], key=Check.RESIDUAL),
        Evidence("samples against q(q+1)/2", n, task.capacity, "<=", "Theorem 4", key=Check.SAMPLES),
        Evidence("hidden units", conditions["units"], key=Check.UNITS),
    ]
    if "width" in fit.facts:  # a solver that trains
        lines.append(
            Evidence("units per output", fit.facts["width"], 2 * q + 2, ">=", "Theorem 4", key=Check.UNITS)
        )
    if np.isfinite(sigma):
        rounding = float(np.sqrt(RANK_TOL * n))
        lines.append(
            Evidence(
                "smallest singular value of [x⊗x]",
                sigma,
                rounding,
                ">",
                "Theorem 4",
                key=Check.INDEPENDENT_SAMPLES,
            )
        )
    elif np.isfinite(conditions["sigma_bound"]):
        lines.append(
            Evidence(
                "smallest singular value of [x⊗x], at most",
                conditions["sigma_bound"],
                key=Check.INDEPENDENT_SAMPLES,
            )
        )
    lines += _landscape_evidence(task, fit, sigma, rng)
    if sigma > 0:
        facts = {name: conditions[name] for name in ("largest_norm", "largest_label", "initial_loss")}
        predicted = predicted_iterations(n, q, sigma=sigma, epsilon=EPSILON, **facts)
        lines.append(
            Evidence(
                "iterations to loss 0.01 that the theorem predicts",
                predicted,
                equation="Theorem 4",
                key=Check.PREDICTED_STEPS,
            )
        )
    return tuple(lines if features is None else lines + _feature_evidence(n, q, sigma, features))


def judge(
    solver: str,
    conditions: Mapping[str, float],
    data: CheckedData,
    *,
    tol: float,
    has_bias: bool,
    fallback: str,
) -> tuple[MemoryOutcome, str]:
    """Say how it ended.

    Returns outcome: how it ended; detail: the measured reason.
    """
    reached = f"Loss {conditions['loss']:.3g}, largest error {conditions['largest_error']:.3g}"
    reached += f", {conditions['units']:.0f} hidden units for {conditions['samples']:.0f} samples."
    if fallback:
        reached += f" Fallback: {fallback}."
    if conditions["relative_loss"] <= tol:
        return MemoryOutcome.MEMORISED, reached
    contradiction = find_contradiction(data, has_bias=has_bias)
    if solver in ("ridge", "low-rank"):
        return MemoryOutcome.FITTED, f"{contradiction} {reached}".strip()
    if contradiction:
        return MemoryOutcome.CONTRADICTION, f"{contradiction} {reached}"
    if conditions["samples"] > conditions["capacity"]:
        room = f"{conditions['samples']:.0f} samples, {conditions['capacity']:.0f} dimensions."
        return MemoryOutcome.TOO_MANY_SAMPLES, f"{room} {reached}"
    if conditions["rank"] < conditions["samples"]:
        return MemoryOutcome.DEPENDENT_INPUTS, f"The rank of [x⊗x] is {conditions['rank']:.0f}. {reached}"
    return MemoryOutcome.STOPPED_EARLY, reached


def find_contradiction(data: CheckedData, *, has_bias: bool) -> str:
    """Name two rows that no quadratic network can tell apart but whose labels differ.

    `has_bias`: without a bias x and -x give the same output, and zero gives zero.
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


def _relative_errors(
    network: TwoLayerNetwork | ThreeLayerNetwork, data: CheckedData, label_scale: float
) -> Array:
    """Return (output - label) / label scale, evaluated in blocks."""
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, len(data.X), BLOCK_ROWS)]
    return np.vstack([(network(data.X[rows]) - data.Y[rows]) / label_scale for rows in blocks])


def _spectrum(task: MemoryTask, fit: MemoryFit) -> tuple[float, float]:
    """Return the rank of [x⊗x] and its kernel's smallest eigenvalue, from the solver or, for few rows, anew."""
    if "rank" in fit.facts:
        return fit.facts["rank"], fit.facts["smallest_eigenvalue"]
    if len(task.Z) > KERNEL_ROWS:
        return NAN, 0.0 if len(task.Z) > task.capacity else NAN
    values = np.linalg.eigvalsh(form_kernel(task.Z))
    rank = np.count_nonzero(values > RANK_TOL * len(values) * values[-1])
    return float(rank), max(float(values[0]), 0.0) if rank == len(values) else 0.0


def _landscape_evidence(
    task: MemoryTask, fit: MemoryFit, sigma: float, rng: np.random.Generator
) -> list[Evidence]:
    """Lemmas 1 and 3 at the end point, for the output with the largest loss; two zero units pad."""
    n, q = task.Z.shape
    outputs = [quadratic_forms(task.Z, fit.W.T @ (signs[:, None] * fit.W)) for signs in fit.A]
    residuals = np.array(outputs) - task.Y.T
    worst = int(np.argmax(np.sum(residuals**2, axis=1)))
    curvature = float(np.linalg.norm(curvature_matrix(task.Z, residuals[worst]), 2))
    lines = [
        Evidence("spectral norm of (1/n) Σ δ x x'", curvature, equation="Lemma 3", key=Check.STATIONARITY)
    ]
    own = fit.A[worst] != 0
    if 4.0 * n * q**2 <= LANCZOS_WORK and curvature > 0:
        W = np.vstack([fit.W[own], np.zeros((2, q))])
        signs = np.append(fit.A[worst][own], [1.0, -1.0])
        start = np.vstack([np.zeros((int(own.sum()), q)), rng.standard_normal((2, q))])
        value = smallest_hessian_eigenvalue(task.Z, task.Y[:, worst], W=W, a=signs, start=start)
        lines.append(
            Evidence(
                "smallest eigenvalue of the Hessian",
                value,
                equation="Lemma 1, by Lanczos",
                key=Check.CURVATURE,
            )
        )
    if np.isfinite(sigma) and sigma > 0:
        loss = float(np.sum(residuals[worst] ** 2)) / (4 * n)
        bound = landscape_bound(n, q, curvature=curvature, sigma=sigma)
        lines.append(
            Evidence(
                "loss against the landscape bound", loss, bound, "<=", "Lemma 1", key=Check.LANDSCAPE_BOUND
            )
        )
    return lines


def _feature_evidence(n: int, q: int, sigma: float, features: Mapping[str, Any]) -> list[Evidence]:
    """Lemma 2, Theorem 5 and Theorem 6 for random features."""
    inputs, power = features["inputs"], int(features["power"])
    lines = [Evidence("random features", q, 2 * np.ceil(np.sqrt(n)), ">=", "Theorem 5", key=Check.FEATURES)]
    if features["smoothing"] > 0 and np.isfinite(sigma):
        bound = smoothed_singular_value_bound(
            n, inputs.shape[1], n_random=q, power=power, variance=float(features["smoothing"]) ** 2
        )
        lines.append(
            Evidence(
                "smallest singular value of [z⊗z]",
                sigma,
                bound,
                ">=",
                "Lemma 2, eq. (4)",
                key=Check.INDEPENDENT_FEATURES,
            )
        )
    if n <= KERNEL_ROWS:
        values = np.linalg.eigvalsh((inputs @ inputs.T) ** (2 * power))
        rounding = RANK_TOL * n * float(values[-1])
        lines.append(
            Evidence(
                "smallest eigenvalue of the kernel (x'x)^2p",
                float(values[0]),
                rounding,
                ">",
                "Theorem 6",
                key=Check.KERNEL,
            )
        )
    return lines
