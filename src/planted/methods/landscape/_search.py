"""A run of the method `landscape`: checks, tensors, descents from random rows, refinement, verdict.

The steps have the numbers of the package's docstring.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, stats

from planted._typing import Array
from planted.certificates._exact import certify_noiseless
from planted.certificates._noisy import certify_noisy
from planted.checks import Check
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import MethodRun, Problem
from planted.linalg import unit_rows
from planted.methods.landscape._coefficients import hermite_coefficients
from planted.methods.landscape._descent import Descent, descend, random_rows
from planted.methods.landscape._read import fit_second, invert_rows, read_outputs
from planted.methods.landscape._targets import SampleTarget, sample_target
from planted.methods.landscape.objectives import (
    ConstrainedDesign,
    Objective,
    OrthogonalDesign,
    TensorFit,
    designed_objective,
    theorem_weights,
)
from planted.methods.landscape.printed import algorithm_1
from planted.moments import Project, joint_moments
from planted.networks import Activation, TwoLayerNetwork, parse_activation
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict
from planted.rows import RowBlocks

__all__ = ["LandscapeSearch"]

FEWEST = 4.0  # samples per d² below which T₄ is noise and nothing is tried
SIGNAL = 4.0  # sampling errors by which an eigenvalue of T₂ must stand out
CENTRED = 1e-6  # p-value of the mean of x below which it is not zero
FULL_RANK = 1e-10  # smallest relative eigenvalue of E[xx']
EXACT_RESIDUAL = 1e-9  # root mean square, in root mean squares of the outputs
ROWS_PER_UNKNOWN, LEAST_ROWS = 4, 4000  # of the refinement of candidates
GRADIENT_TOL = 1e-3  # in mean output weights; sampling error dwarfs what is beyond
MAX_STEPS = 1500
# Largest over smallest output weight, for μ of G and F: nothing is known of it beforehand.
PRESUMED_KAPPA = 4.0


@dataclass(slots=True)
class LandscapeSearch:
    """What is known on the way: the data, T₂ and T₄, the objective, the best candidate so far."""

    run: MethodRun  # its problem is not centred
    design: str  # name of the objective
    weights: tuple[float, float] | None  # of f₂ and f₄ in f′
    degree: int  # of the fit that is taken from y
    optimiser: str
    activation_name: str
    frame: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (d, d): z = x @ frame is whitened
    target: SampleTarget | None = None  # T₂ and T₄
    objective: Objective | None = None  # what is descended
    n_hidden: int = 0  # number of units
    best: Refinement | None = None  # the best candidate
    began: TwoLayerNetwork | None = None  # the network at the minimum from which it was refined

    @property
    def problem(self) -> Problem:
        """The standardised problem."""
        return self.run.problem

    @property
    def activation(self) -> Activation:
        """The activation of the units."""
        return parse_activation(self.activation_name)

    def whiten_inputs(self) -> None:
        """Require one output, enough samples, and inputs of mean zero that vary in every direction; whiten (step 1)."""
        run = self.run
        n, d, m = self.problem.shape
        run.refuse_unless(
            Evidence("outputs", m, 1, "==", "one output", key=Check.OUTPUTS),
            detail=f"{m} outputs, but landscape design is for one; recover from each output by itself.",
        )
        run.refuse_unless(
            Evidence("samples", n, max(FEWEST * d * d, 10 * d), ">=", "4 d²", key=Check.SAMPLES),
            outcome=Outcome.TOO_FEW_SAMPLES,
            detail=f"{n} samples of {d} inputs show nothing of the moments of order four; some {30 * d * d} are needed.",
        )
        moments = joint_moments(self.problem.blocks)
        mean, covariance = moments.mean[:d], moments.covariance[:d, :d]
        values, vectors = linalg.eigh(covariance + np.outer(mean, mean), check_finite=False)
        name = "smallest relative eigenvalue of E[xx']"
        run.refuse_unless(
            Evidence(name, values[0] / values[-1], FULL_RANK, ">=", "rank d", key=Check.INPUT_RANK),
            detail="The inputs do not vary in all directions; normal inputs do.",
        )
        chance = float(stats.chi2.sf(n * mean @ linalg.lstsq(covariance, mean, check_finite=False)[0], d))
        name = "p-value of the mean of x being zero"
        run.require(
            Evidence(name, chance, CENTRED, ">=", "E x = 0", key=Check.CENTRED_INPUTS),
            detail="The mean of the inputs is not zero: to this method that is the same as biases. Use method='restarts'.",
        )
        self.frame = vectors / np.sqrt(values)

    def prepare_objective(self) -> None:
        """Fit the low degrees, read k and the signs of a from T₂, set the objective up (step 2)."""
        run, d = self.run, self.problem.n_features
        self.problem.progress("fitting the low degrees", float("nan"))
        white = self.problem.blocks.map(Project(self.frame))
        self.target = sample_target(white, self.activation, degree=self.degree)
        values, vectors = linalg.eigh(self._second, check_finite=False)
        shown = int((np.abs(values) > SIGNAL * self._error).sum())
        k = self.n_hidden = run.n_hidden if isinstance(run.n_hidden, int) else shown
        run.note(Evidence("directions of T₂ beyond sampling error", shown, key=Check.SIGNAL_RANK))
        run.refuse_unless(
            Evidence("hidden units", k, 1, ">=", "rank of T₂", key=Check.UNITS),
            detail="No direction of T₂ stands out from sampling error.",
        )
        run.refuse_unless(
            Evidence("inputs", d, k, ">=", "k <= d", key=Check.INPUTS),
            detail=f"{k} units, but {d} inputs; this method needs k <= d.",
        )
        if self.design != "f'":
            self._require_positive_outputs(values, shown)
        self.objective = self._objective(self.target, (vectors[:, -k:] / np.sqrt(np.abs(values[-k:]))).T)

    def _require_positive_outputs(self, values: Array, shown: int) -> None:
        """Refuse negative output weights for G and F; for F also a T₂ without k positive eigenvalues."""
        run, k, smallest = self.run, self.n_hidden, values[0] / self._error
        name = "smallest eigenvalue of T₂, in sampling errors"
        run.require(
            Evidence(name, smallest, -SIGNAL, ">=", "a > 0", key=Check.SIGN_OF_OUTPUTS),
            detail=f"T₂ has a negative eigenvalue ({smallest:.1f} sampling errors): an output weight is negative, and "
            f'{self.design} has its minima at the truth for positive ones only. Use objective="f\'", which allows both '
            "signs.",
        )
        if self.design == "F" and not values[-k] > 0.0:
            name = "directions of T₂ beyond sampling error"
            run.require(
                Evidence(name, shown, k, ">=", "T₂ of rank k", key=Check.SIGNAL_RANK),
                outcome=Outcome.TOO_FEW_SAMPLES,
                detail=f"T₂ shows {shown} of {k} directions; F needs all of them.",
            )

    def _objective(self, target: SampleTarget, R: Array) -> Objective:
        name, weights = self.design, self.weights
        if name == "f'":
            return designed_objective(name, target, **({} if weights is None else {"weights": weights}))  # type: ignore[arg-type]
        mu, _ = theorem_weights(name, target.hermite[1], largest=PRESUMED_KAPPA, smallest=1.0)
        if name == "F":
            return ConstrainedDesign(target, mu, R)
        return designed_objective(name, target, mu=mu, has_unit_rows=True)

    def descend_from_random_rows(self, n_restarts: int) -> None:
        """Descend from random rows until the samples are reproduced (steps 3 to 5)."""
        for number in range(n_restarts):
            network = self.candidate()
            fit = refine(self._some_rows(), network, offset=False, biases=False)
            size = self._some_rows_count()
            self.run.trace[-1]["cost"] = fit.cost / size
            if self.best is None or fit.cost < self.best.cost:
                self.best, self.began = fit, network
            self.problem.progress(
                f"start {number + 1}, best residual {np.sqrt(self.best.cost / size):.1e}",
                (number + 1) / n_restarts,
            )
            if self.is_exact:
                return

    def candidate(self) -> TwoLayerNetwork:
        """Return the network at the minimum below random rows, in the units of the standardised problem (steps 3 and 4)."""
        assert self.objective is not None
        name, k, rng = self.objective.name, self.n_hidden, self.problem.rng
        scale = max(float(np.abs(np.diag(self._second)).sum()) / k, np.finfo(float).tiny)
        W = random_rows(k, k if name == "F" else self.frame.shape[1], rng)
        a = np.full(k, scale)
        if name == "f'" and linalg.eigvalsh(self._second, check_finite=False)[0] < -SIGNAL * self._error:
            a = a * rng.choice([-1.0, 1.0], k)
        tol = GRADIENT_TOL * scale
        end = descend(
            self.objective, W, a, optimiser=self.optimiser, max_iter=MAX_STEPS, gradient_tol=tol, rng=rng
        )
        self.run.trace.append({"start": name, "k": k, "value": end.value, "evaluations": end.evaluations})
        rows, a = self._read_off(end)
        return TwoLayerNetwork(rows @ self.frame.T, A=a[None], activation=self.activation_name)

    def _read_off(self, end: Descent) -> tuple[Array, Array]:
        """Return rows with their signs, and output weights, at the end of a descent (step 4)."""
        assert self.target is not None
        objective, slope = self.objective, self.target.slope
        first = float(hermite_coefficients(self.activation, 1)[1])
        rows, trained = end.W, end.a if isinstance(objective, TensorFit) else None
        if isinstance(objective, ConstrainedDesign):
            rows = invert_rows(end.W @ objective.R)
        if not first:
            return rows, fit_second(rows, self._second) if trained is None else trained
        if isinstance(objective, OrthogonalDesign):
            return algorithm_1(rows, slope, first)
        return read_outputs(rows, slope, first, a=trained)

    @property
    def _second(self) -> Array:
        """T₂, the mean of its two halves."""
        assert self.target is not None
        return np.asarray((self.target.second + self.target.second_again) / 2)

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
        """Refine the best candidate, on all rows unless it is exact already (step 5), and certify it (step 6)."""
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

    def unrefined(self) -> Recovery:
        """Return the network at the first minimum as it is."""
        doubt = Unavailable("Standard errors belong to the refined answer.")
        text = f"The network at a minimum of {self.design}; it was not refined, so nothing was certified."
        network = self.candidate()
        return self.run.finish(network, Verdict(Outcome.FITTED, Guarantee.HEURISTIC, (), text, doubt))

    def _record(self, verdict: Verdict) -> Recovery:
        trace = self.run.trace
        if self.best is not None and self.began is not None:
            self.run.note(_moved(self.began, self.best.network))
        return self.run.finish(
            None if self.best is None else self.best.network,
            verdict,
            restarts=len(trace),
            evaluations=sum(line["evaluations"] for line in trace),
        )

    def interrupted(self, reason: str) -> Recovery:
        """Return the best so far."""
        text = f"{reason} {len(self.run.trace)} start(s) had ended."
        doubt = Unavailable("The search was interrupted.")
        return self._record(Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (), text, doubt))


def _moved(began: TwoLayerNetwork, refined: TwoLayerNetwork) -> Evidence:
    """Tell how far refinement turned the units that the objective led to: near ninety degrees they owe it nothing."""
    cosines = np.abs(unit_rows(refined.W)[0] @ unit_rows(began.W)[0].T).max(axis=1)
    angle = float(np.degrees(np.arccos(np.clip(cosines, 0.0, 1.0))).max())
    name = "largest angle between a refined unit and the nearest at the objective's minimum (degrees)"
    return Evidence(name, angle, key=Check.REFINED_ANGLE)
