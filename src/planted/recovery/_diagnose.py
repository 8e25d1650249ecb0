"""`planted.diagnose`: look at the data before anything is fitted.

What is measured: shapes, repeated rows, constant and collinear columns, symmetry and Gaussianity of the inputs at
calibrated levels, noise, and the number of units as far as the outputs show it. From the methods' cards follows which of
them apply, which requirement fails with which number, and about how many samples each needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from planted._streams import solver_streams
from planted._threads import one_thread_inside
from planted._typing import Array, Json, Seed
from planted._validation import check_n_hidden, check_rows
from planted.checks import Check
from planted.diagnostics._noise import NoiseEstimate, estimate_noise
from planted.fitting._run import Problem, prepare_problem
from planted.fitting.units._instruments import first_stage, rank_of_signal
from planted.linalg import column_space, numerical_rank
from planted.moments import check_rows_against
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, Guarantee
from planted.recovery._registry import Cost, methods, predict_cost
from planted.results import Evidence, Requirements
from planted.rows import RowBlocks

__all__ = ["Diagnosis", "Facts", "MethodCheck", "blocks_and_notices", "blocks_of", "check_method", "diagnose"]

LEVEL = 0.05
COLLINEAR = 1e-9  # relative singular value of the standardised inputs
PREDICTED = "complementarity"  # the method whose cost is known beforehand
EXACT_NOISE = 1e-9
WILD = ("any", "sparse")  # noises that only methods made for them bear
WILD_RATIO = 0.6  # t with five degrees of freedom gives 0.56


@dataclass(frozen=True, slots=True)
class MethodCheck:
    """Whether a method applies to the data."""

    method: str  # its name
    applies: bool  # whether every requirement that can be checked holds
    reason: str  # the first requirement that fails, with its number, or what is promised
    samples_needed: int  # about how many samples it needs here
    lacks_samples: bool = False  # whether nothing but the number of samples stands against it


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the data look like and which methods they allow.

    Parameters
    ----------
    shape : tuple of int
        Samples, inputs, outputs.
    findings : tuple of Evidence
        What was measured, with levels where there are any.
    noise : NoiseEstimate
        Noise relative to the outputs.
    n_hidden : tuple of int
        Smallest and largest number of units the outputs are compatible with; the largest is 0 when there is no bound.
    methods : tuple of MethodCheck
        Every method, in the order in which "auto" considers them.
    cost : Cost, optional
        Predicted time and memory of a recovery by "complementarity", the first method, in one process. None where that
        method does not apply, since how long the others search cannot be told beforehand, and where it may not be the
        last: there may be more units than outputs, or as many, and then neither their number nor the noise is known.
    """

    shape: tuple[int, int, int]
    findings: tuple[Evidence, ...]
    noise: NoiseEstimate
    n_hidden: tuple[int, int]
    methods: tuple[MethodCheck, ...]
    cost: Cost | None

    @property
    def prediction(self) -> str:
        """What can be said beforehand about time and memory."""
        if self.cost is None:
            return "none: only complementarity has a time known beforehand, for fewer units than outputs"
        return f"{self.cost} by complementarity, if a network made these data and its claim stands"

    def __str__(self) -> str:
        n, d, m = self.shape
        low, high = self.n_hidden
        units = f"{low}" if low == high else f"{low} to {high}" if high else f"at least {low}"
        bound = "at most " if self.noise.is_bound else ""
        lines = [
            f"{n:,} samples, {d} inputs, {m} outputs; hidden units: {units}",
            f"noise: {bound}{self.noise.relative_std:.2g} of the outputs' spread (from {self.noise.kind})",
            f"predicted: {self.prediction}",
        ]
        lines += [
            f"{'  ' if item.passed else '! '}{item.name}: {item.measured:.4g}" for item in self.findings
        ]
        lines += [
            f"{'+' if item.applies else 'x'} {item.method}: {item.reason} (about {item.samples_needed:,} samples)"
            for item in self.methods
        ]
        return "\n".join(lines)

    def to_dict(self) -> Json:
        """Return the diagnosis as plain data that JSON can hold.

        Returns
        -------
        dict
            The same content.
        """
        return {
            "shape": list(self.shape),
            "findings": [
                {
                    "name": item.name,
                    "measured": item.measured,
                    "required": item.required,
                    "passed": item.passed,
                }
                for item in self.findings
            ],
            "noise": {
                "relative_std": self.noise.relative_std,
                "kind": self.noise.kind,
                "is_bound": self.noise.is_bound,
            },
            "n_hidden": list(self.n_hidden),
            "methods": [
                {
                    "method": item.method,
                    "applies": item.applies,
                    "reason": item.reason,
                    "samples_needed": item.samples_needed,
                }
                for item in self.methods
            ],
            "cost": None
            if self.cost is None
            else {
                "seconds": self.cost.seconds,
                "bytes": self.cost.n_bytes,
                "passes": self.cost.passes,
                "workers": self.cost.workers,
            },
        }


@one_thread_inside
def diagnose(
    X: Any,
    Y: Any = None,
    n_hidden: int | str = "auto",
    *,
    network: TwoLayerNetwork | None = None,
    random_state: Seed = None,
) -> Diagnosis:
    """Say which methods the data allow, why not the others, and how many samples they need.

    Parameters
    ----------
    X : array_like of shape (n, d), DataFrame or RowBlocks
        Inputs; a `planted.RowBlocks` carries the outputs too.
    Y : array_like of shape (n, m) or (n,), optional
        Outputs.
    n_hidden : int or "auto"
        Number of hidden units, if it is known.
    network : TwoLayerNetwork, optional
        A fitted network: the activity of its units on these inputs is reported, and its residual is the estimate of the
        noise.
    random_state : int, Generator, SeedSequence or None
        Seed of the simulated tests.

    Returns
    -------
    Diagnosis
        What was measured and what follows.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(300, n_features=4, n_hidden=3, n_outputs=5, law="exponential", random_state=0)
    >>> diagnosis = planted.diagnose(data.X, data.Y, random_state=0)
    >>> diagnosis.n_hidden, [check.method for check in diagnosis.methods if check.applies][0]
    ((3, 3), 'complementarity')
    """
    k = check_n_hidden(n_hidden)
    blocks = blocks_of(X, Y)
    problem = prepare_problem(blocks, random_state=random_state)
    diagnosis = _diagnose_problem(Facts(problem, k))
    if network is None:
        return diagnosis
    activity, noise = _against_network(blocks, network, problem)
    return replace(diagnosis, findings=diagnosis.findings + activity, noise=noise)


def _against_network(
    blocks: RowBlocks, network: TwoLayerNetwork, problem: Problem
) -> tuple[tuple[Evidence, ...], NoiseEstimate]:
    """Return the activity of a fitted network's units, and the noise that its residual shows."""
    if network.n_features != problem.n_features or network.n_outputs != problem.n_outputs:
        here = f"{problem.n_features} inputs and {problem.n_outputs} outputs"
        there = f"{network.n_features} and {network.n_outputs}"
        raise BadInputError(f"the data have {here}, the network {there}")
    found = check_rows_against(blocks, network)
    freedom = max(problem.n_samples * problem.n_outputs - network.n_parameters, 1)
    level = float(np.sqrt(found.squares / freedom)) / problem.scaling.y_scale
    activity = (
        Evidence(f"samples on which unit {j + 1} is on", int(n), key=Check.UNIT_ON)
        for j, n in enumerate(found.active)
    )
    return tuple(activity), NoiseEstimate(level, "the fitted network", False)


class Facts:
    """What can be measured about a prepared problem, each when it is first asked for."""

    def __init__(self, problem: Problem, n_hidden: int | str) -> None:
        self.problem = problem
        self.n_hidden = n_hidden
        # Streams of their own: a diagnosis does not change what a method draws.
        self._streams = solver_streams(problem.root, 4)

    @cached_property
    def symmetric(self) -> Evidence:
        """The p-value of the symmetry test, on inputs that are scaled but not centred."""
        from planted.diagnostics import symmetry_test  # the laws are tested only if a card asks for one

        scaling = self.problem.scaling
        raw = self.problem.X + scaling.x_mean / scaling.x_scale
        return Evidence(
            "p-value of the test that x is symmetric",
            symmetry_test(raw).p_value,
            LEVEL,
            ">=",
            key=Check.SYMMETRIC_INPUTS,
        )

    @cached_property
    def gaussian(self) -> Evidence:
        """The p-value of the test of Gaussianity."""
        from planted.diagnostics import gaussianity_test

        return gaussianity_test(self.problem.X, self._streams[0], level=LEVEL)

    @cached_property
    def wild(self) -> Evidence:
        """How wild the labels are about a regression on functions of x: a small median for their spread."""
        stage = first_stage(self.problem.X, self.problem.Y, self._streams[3])
        sizes = np.abs(self.problem.Y - stage.fitted)
        level = np.sqrt((sizes**2).mean(axis=0))
        ratio = float((np.median(sizes, axis=0) / np.where(level > 0, level, 1.0)).mean())
        name = "median absolute residual of a regression over its standard deviation"
        return Evidence(name, ratio, WILD_RATIO, "<=", "0.67 for normal noise", key=Check.NOISE_LEVEL)

    @cached_property
    def noise(self) -> NoiseEstimate:
        """The noise of the outputs."""
        return estimate_noise(self.problem.X, self.problem.Y, self._streams[1])

    @cached_property
    def widths(self) -> tuple[int, int]:
        """The smallest and largest number of units compatible with the outputs; 0 for no upper bound."""
        return _compatible_widths(self.problem, self.n_hidden, self.noise, self._streams[2])


def check_method(card: Requirements, facts: Facts, *, n_hidden: int, is_noisy: bool) -> MethodCheck:
    """Say whether a method applies.

    `facts`: the problem; laws are tested only if the card asks for one.
    """
    problem, k = facts.problem, n_hidden
    d, m = problem.n_features, problem.n_outputs
    need = card.predict_samples(d, k, m, is_noisy=is_noisy)
    if problem.n_samples < need and not card.tries_anyway:  # before a law is tested, which takes longer
        reason = f"needs about {need:,} samples, but there are {problem.n_samples:,}"
        return MethodCheck(card.method, False, reason, need)
    law = getattr(facts, card.input_law) if card.input_law != "any" else None
    if card.n_outputs == "m >= k" and k > m:
        reason = f"needs as many outputs as units, but there are {m} outputs and {k} units"
    elif card.n_outputs == "m >= k" and m == 1 and facts.n_hidden == "auto":
        reason = "needs as many outputs as units; with one output that is a single unit"
    elif card.n_outputs == "m > k" and m <= (k if facts.n_hidden != "auto" else 1):
        reason = f"needs more outputs than units, but there are {m} outputs and {k} units"
    elif card.noise in WILD and card.guarantee is not Guarantee.NONE and not facts.wild.passed:
        reason = (
            f"is for gross errors and heavy tails, but the {facts.wild.name} is {facts.wild.measured:.2g}"
        )
    elif card.n_outputs == "m >= 2" and m < 2:
        reason = "needs at least two outputs, but there is one"
    elif card.n_outputs == "m = 1" and m > 1:
        reason = f"needs a single output, but there are {m}"
    elif card.noise == "none" and is_noisy:
        reason = f"needs noiseless outputs, but the noise is {facts.noise.relative_std:.2g} of their spread"
    elif law is not None and not law.passed:
        reason = f"needs {card.input_law} inputs, but the {law.name} is {law.measured:.2g}"
    elif problem.n_samples < need:
        reason = f"needs about {need:,} samples, but there are {problem.n_samples:,}"
        return MethodCheck(card.method, False, reason, need, lacks_samples=True)
    else:
        return MethodCheck(card.method, True, card.summary, need)
    return MethodCheck(card.method, False, reason, need)


def _diagnose_problem(facts: Facts) -> Diagnosis:
    problem = facts.problem
    findings = (*_input_findings(problem.X), facts.symmetric, facts.gaussian)
    is_noisy = facts.noise.relative_std > EXACT_NOISE and not facts.noise.is_bound
    checks = tuple(
        check_method(card, facts, n_hidden=facts.widths[0], is_noisy=is_noisy) for card in methods().values()
    )
    shape = (problem.n_samples, problem.n_features, problem.n_outputs)
    is_exact = facts.noise.relative_std <= EXACT_NOISE
    cost, (fewest, most) = None, facts.widths
    is_known = fewest == most and (is_exact or most < problem.n_outputs)
    if is_known and any(check.method == PREDICTED and check.applies for check in checks):
        cost = predict_cost(
            *shape[:2],
            facts.widths[0],
            n_outputs=shape[2],
            is_noisy=not is_exact,
            in_process=True,
        )
    return Diagnosis(shape, findings, facts.noise, facts.widths, checks, cost)


def _input_findings(X: Array) -> Iterator[Evidence]:
    yield Evidence(
        "distinct rows among those looked at",
        len(np.unique(X, axis=0)),
        len(X),
        ">=",
        key=Check.DISTINCT_ROWS,
    )
    varying = X[:, np.ptp(X, axis=0) > 0]
    yield Evidence(
        "constant input columns", X.shape[1] - varying.shape[1], 0, "==", key=Check.CONSTANT_COLUMNS
    )
    values = linalg.svdvals(varying, check_finite=False) if varying.size else np.zeros(1)
    is_full = len(X) > varying.shape[1] and values[0] > 0
    smallest = float(values[-1] / values[0]) if is_full else 0.0
    yield Evidence(
        "smallest relative singular value of the inputs", smallest, COLLINEAR, ">=", key=Check.INPUT_RANK
    )


def _compatible_widths(
    problem: Problem, n_hidden: int | str, noise: NoiseEstimate, rng: np.random.Generator
) -> tuple[int, int]:
    """Return the smallest and largest number of units the outputs are compatible with; 0 for no upper bound."""
    if isinstance(n_hidden, int):
        return n_hidden, n_hidden
    if noise.relative_std < EXACT_NOISE and not noise.is_bound:
        rank = numerical_rank(column_space(problem.Y - problem.Y.mean(axis=0))[1])
    else:
        rank = rank_of_signal(first_stage(problem.X, problem.Y, rng))
    return max(rank, 1), rank if 0 < rank < problem.n_outputs else 0


def blocks_of(X: Any, Y: Any) -> RowBlocks:
    """Return row blocks of validated arrays, or the blocks themselves.

    Shapes: X (n, d), Y (n, m).
    """
    return blocks_and_notices(X, Y)[0]


def blocks_and_notices(X: Any, Y: Any) -> tuple[RowBlocks, tuple[str, ...]]:
    """Return row blocks and what is worth knowing about arrays: constant columns, repeated rows.

    Returns blocks: the rows; notices: sentences; none for sources that are not looked at as a whole. Shapes: X (n,
    d), Y (n, m).
    """
    if isinstance(X, RowBlocks) and Y is None:
        return X, ()
    if hasattr(X, "__dask_graph__"):
        # The lazy door of Dask collections: only who passes one has Dask imported.
        from planted.distributed._collections import blocks_of_collections

        return blocks_of_collections(X, Y), ()
    data = check_rows(X, Y)
    return RowBlocks.from_arrays(data.X, data.Y), data.notices
