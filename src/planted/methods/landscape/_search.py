"""A run of the method `landscape`: checks, tensors, descents from random rows, refinement, verdict.

The steps have the numbers of `landscape`'s docstring.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg, stats

from planted._typing import Array
from planted.certificates._certificate import certify_noiseless, certify_noisy
from planted.checks import Check
from planted.fitting._problem import Problem, without_network
from planted.fitting._refine import Refinement, refine
from planted.fitting.objectives._descent import descend, random_rows
from planted.fitting.objectives._hermite import ScalarActivation, scalar_activation
from planted.fitting.objectives._objectives import (
    ConstrainedDesign,
    Objective,
    designed_objective,
    theorem_weights,
)
from planted.fitting.objectives._targets import SampleTarget, sample_target
from planted.methods.landscape._read import invert_rows, read_outputs
from planted.moments import joint_moments
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Requirements, Unavailable, Verdict
from planted.rows import RowBlocks

__all__ = ["Failure", "LandscapeSearch"]

FEWEST = 4.0  # samples per d² below which T₄ is noise and nothing is tried
SIGNAL = 4.0  # sampling errors by which an eigenvalue of T₂ must stand out
CENTRED = 1e-6  # p-value of the mean of x below which it is not zero
FULL_RANK = 1e-10  # smallest relative eigenvalue of E[xx']
EXACT_RESIDUAL = 1e-9  # root mean square, in root mean squares of the outputs
ROWS_PER_UNKNOWN, LEAST_ROWS = 4, 4000  # of the refinement of candidates
GRADIENT_TOL = 1e-3  # in mean output weights; sampling error dwarfs what is beyond
MAX_STEPS = 1500
PRESUMED_KAPPA = (
    4.0  # largest over smallest output weight, for μ of G and F: nothing is known of it beforehand
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing was tried."""

    outcome: Outcome  # the outcome
    evidence: Evidence  # the line that failed
    detail: str  # the reason as a sentence


@dataclass(slots=True)
class LandscapeSearch:
    """What is known on the way: the data, T₂ and T₄, every candidate so far."""

    problem: Problem  # the standardised problem, not centred
    options: dict[str, Any]  # options of the method
    requires: Requirements  # its card
    frame: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (d, d): z = x @ frame is whitened
    target: SampleTarget | None = None  # T₂ and T₄, and what is descended
    objective: Objective | None = None
    n_hidden: int = 0  # number of units
    best: Refinement | None = None  # the best candidate
    evidence: list[Evidence] = field(default_factory=list)  # lines so far
    trace: list[dict[str, Any]] = field(default_factory=list)  # one line per start

    @property
    def activation(self) -> ScalarActivation:
        """The activation of the units."""
        return scalar_activation(self.options["activation"])

    def check_inputs(self) -> Failure | None:
        """Check what needs one pass: one output, samples, x about zero in every direction; whiten (step 1).

        Returns the first assumption that does not hold.
        """
        problem = self.problem
        n, d = problem.n_samples, problem.n_features
        outputs = Evidence("outputs", problem.n_outputs, 1, "==", "one output", key=Check.OUTPUTS)
        if not outputs.passed:
            text = f"{problem.n_outputs} outputs, but landscape design is for one; recover from each output by itself."
            return Failure(Outcome.ASSUMPTION_FAILED, outputs, text)
        samples = Evidence("samples", n, max(FEWEST * d * d, 10 * d), ">=", "4 d²", key=Check.SAMPLES)
        if not samples.passed:
            text = f"{n} samples of {d} inputs show nothing of the moments of order four; some {30 * d * d} are needed."
            return Failure(Outcome.TOO_FEW_SAMPLES, samples, text)
        moments = joint_moments(problem.blocks)
        mean, covariance = moments.mean[:d], moments.covariance[:d, :d]
        values, vectors = linalg.eigh(covariance + np.outer(mean, mean), check_finite=False)
        spread = Evidence(
            "smallest relative eigenvalue of E[xx']",
            values[0] / values[-1],
            FULL_RANK,
            ">=",
            "rank d",
            key=Check.INPUT_RANK,
        )
        if not spread.passed:
            return Failure(
                Outcome.ASSUMPTION_FAILED,
                spread,
                "The inputs do not vary in all directions; normal inputs do.",
            )
        chance = float(stats.chi2.sf(n * mean @ linalg.lstsq(covariance, mean, check_finite=False)[0], d))
        centred = Evidence(
            "p-value of the mean of x being zero", chance, CENTRED, ">=", "E x = 0", key=Check.CENTRED_INPUTS
        )
        self.evidence.append(centred)
        if not centred.passed:
            text = "The mean of the inputs is not zero: to this method that is the same as biases. Use method='restarts'."
            return Failure(Outcome.ASSUMPTION_FAILED, centred, text)
        self.frame = vectors / np.sqrt(values)
        return None

    def prepare_objective(self) -> Failure | None:
        """Fit the low degrees, read k and the signs of a from T₂, set the objective up (step 2).

        Returns the first assumption that does not hold.
        """
        self.problem.progress("fitting the low degrees", float("nan"))
        target = self._target_in(self.frame)
        T2 = (target.second + target.second_again) / 2
        error = float(linalg.norm(target.second - target.second_again, 2)) / 2
        values, vectors = linalg.eigh(T2, check_finite=False)
        shown = int((np.abs(values) > SIGNAL * error).sum())
        asked, name, d = self.options["n_hidden"], self.options["objective"], self.problem.n_features
        k = self.n_hidden = asked if isinstance(asked, int) else shown
        self.evidence.append(Evidence("directions of T₂ beyond sampling error", shown, key=Check.SIGNAL_RANK))
        units = Evidence("hidden units", k, 1, ">=", "rank of T₂", key=Check.UNITS)
        if not units.passed:
            return Failure(
                Outcome.ASSUMPTION_FAILED, units, "No direction of T₂ stands out from sampling error."
            )
        inputs = Evidence("inputs", d, k, ">=", "k <= d", key=Check.INPUTS)
        if not inputs.passed:
            return Failure(
                Outcome.ASSUMPTION_FAILED, inputs, f"{k} units, but {d} inputs; this method needs k <= d."
            )
        signs = Evidence(
            "smallest eigenvalue of T₂, in sampling errors",
            values[0] / error,
            -SIGNAL,
            ">=",
            "a > 0",
            key=Check.SIGN_OF_OUTPUTS,
        )
        if name != "f'":
            self.evidence.append(signs)
            if not signs.passed:
                text = (
                    f"T₂ has a negative eigenvalue ({signs.measured:.1f} sampling errors): an output weight is "
                    f'negative, and {name} has its minima at the truth for positive ones only. Use objective="f\'", '
                    "which allows both signs."
                )
                return Failure(Outcome.ASSUMPTION_FAILED, signs, text)
        if name == "F" and not values[-k] > 0.0:
            rank = Evidence(
                "directions of T₂ beyond sampling error",
                shown,
                k,
                ">=",
                "T₂ of rank k",
                key=Check.SIGNAL_RANK,
            )
            text = f"T₂ shows {shown} of {k} directions; F needs all of them."
            return Failure(Outcome.TOO_FEW_SAMPLES, rank, text)
        self.target = target
        self.objective = self._objective(target, (vectors[:, -k:] / np.sqrt(np.abs(values[-k:]))).T)
        return None

    def _target_in(self, frame: Array) -> SampleTarget:
        white = self.problem.blocks.map(lambda X, Y: (X @ frame, Y))
        return sample_target(white, self.activation, degree=self.options["degree"])

    def _objective(self, target: SampleTarget, R: Array) -> Objective:
        name, weights = self.options["objective"], self.options["weights"]
        if name == "f'":
            return designed_objective(name, target, **({} if weights is None else {"weights": weights}))
        mu, _ = theorem_weights(name, target.hermite[1], largest=PRESUMED_KAPPA, smallest=1.0)
        if name == "F":
            return ConstrainedDesign(target, mu, R)
        return designed_objective(name, target, mu=mu, has_unit_rows=True)

    def run(self) -> None:
        """Descend from random rows until the samples are reproduced (steps 3 to 5)."""
        n_restarts = self.options["n_restarts"]
        for number in range(n_restarts):
            network = self.candidate()
            fit = refine(self._some_rows(), network, offset=False, biases=False)
            size = self._some_rows_count()
            self.trace[-1]["cost"] = fit.cost / size
            if self.best is None or fit.cost < self.best.cost:
                self.best = fit
            self.problem.progress(
                f"start {number + 1}, best residual {np.sqrt(self.best.cost / size):.1e}",
                (number + 1) / n_restarts,
            )
            if self.is_exact:
                return

    def candidate(self) -> TwoLayerNetwork:
        """Descend from random rows and read a network off the minimum (steps 3 and 4).

        Returns in the units of the standardised problem.
        """
        assert self.objective is not None and self.target is not None
        name, rng = self.objective.name, self.problem.rng
        k = self.n_hidden
        T2 = (self.target.second + self.target.second_again) / 2
        scale = max(float(np.abs(np.diag(T2)).sum()) / k, np.finfo(float).tiny)
        W = random_rows(k, k if name == "F" else self.frame.shape[1], rng)
        a = np.full(k, scale)
        if name == "f'" and linalg.eigvalsh(T2, check_finite=False)[0] < -SIGNAL * self._error:
            a = a * rng.choice([-1.0, 1.0], k)
        end = descend(
            self.objective,
            W,
            a,
            optimiser=self.options["optimiser"],
            max_iter=MAX_STEPS,
            gradient_tol=GRADIENT_TOL * scale,
        )
        self.trace.append({"start": name, "k": k, "value": end.value, "evaluations": end.evaluations})
        rows = (
            invert_rows(end.W @ self.objective.R) if isinstance(self.objective, ConstrainedDesign) else end.W
        )
        first = float(self.activation.coefficients(1)[1])
        trained = end.a if name == "f'" else None
        if first:
            rows, a = read_outputs(rows, self.target.slope, first, is_orthonormal=name == "G", a=trained)
        else:
            a = _fit_second(rows, T2) if trained is None else trained
        return TwoLayerNetwork(rows @ self.frame.T, A=a[None], activation=self.options["activation"])

    @property
    def _error(self) -> float:
        assert self.target is not None
        return float(linalg.norm(self.target.second - self.target.second_again, 2)) / 2

    def _some_rows_count(self) -> int:
        wanted = max(ROWS_PER_UNKNOWN * self.n_hidden * (self.problem.n_features + 1), LEAST_ROWS)
        return min(len(self.problem.X), wanted)

    def _some_rows(self) -> RowBlocks:
        count = self._some_rows_count()
        return RowBlocks.from_arrays(self.problem.X[:count], self.problem.Y[:count])

    @property
    def is_exact(self) -> bool:
        """Whether the best candidate reproduces the rows it was refined on."""
        return self.best is not None and self.best.cost <= EXACT_RESIDUAL**2 * self._some_rows_count()

    def finish(self) -> Recovery:
        """Judge the best candidate, refined on all rows unless it is exact already (step 6)."""
        assert self.best is not None
        problem = self.problem
        start = problem.scaling.in_order(self.best.network)
        rows = self._some_rows() if self.is_exact else problem.blocks
        problem.progress("refining" if self.is_exact else "refining on all rows", float("nan"))
        self.best = refine(rows, start, offset=False, biases=False)
        if self.best.cost <= EXACT_RESIDUAL**2 * self.best.sums.count:
            verdict = certify_noiseless(problem, self.best, offset=False, biases=False, rivals=None)
            if verdict.outcome is not Outcome.FITTED:
                return self._record(verdict)
            self.best = refine(problem.blocks, self.best.network, offset=False, biases=False)
        verdict = certify_noisy(problem, self.best, offset=False, biases=False)
        if verdict.outcome is Outcome.RECOVERED and not self.best.converged:
            text = "The refinement on all rows did not converge."
            verdict = Verdict(
                Outcome.STOPPED_EARLY, Guarantee.NONE, verdict.evidence, text, verdict.uncertainty
            )
        return self._record(verdict)

    def _record(self, verdict: Verdict) -> Recovery:
        problem, best = self.problem, self.best
        return Recovery(
            network=None if best is None else problem.scaling.restore(best.network),
            outcome=verdict.outcome,
            guarantee=verdict.guarantee,
            evidence=(*self.evidence, *verdict.evidence),
            uncertainty=verdict.uncertainty,
            stats=problem.stats(
                restarts=len(self.trace), evaluations=sum(line["evaluations"] for line in self.trace)
            ),
            provenance=problem.provenance(self.requires, self.options),
            detail=verdict.detail,
            trace=tuple(self.trace),
        )

    def refusal(self, failure: Failure) -> Recovery:
        """Return the record of a search that was not begun."""
        lines = [line for line in self.evidence if line is not failure.evidence]
        return without_network(
            self.problem,
            self.requires,
            self.options,
            outcome=failure.outcome,
            evidence=(*lines, failure.evidence),
            detail=failure.detail,
        )

    def interrupted(self) -> Recovery:
        """Return the best so far."""
        text = f"Interrupted after {len(self.trace)} start(s)."
        reason = Unavailable("The search was interrupted.")
        return self._record(Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (), text, reason))


def _fit_second(W: Array, T2: Array) -> Array:
    """Return the a for which Σ a_i w_i w_i' is nearest to T₂."""
    return np.asarray(linalg.lstsq((W @ W.T) ** 2, ((W @ T2) * W).sum(axis=1), check_finite=False)[0])
