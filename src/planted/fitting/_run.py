"""One run of one method: what was asked, what is known so far, and the record made of it.

A method receives a `MethodRun`, whose problem is prepared in the form that the method's card asks for. It notes lines
of evidence (`note`), refuses by name when one does not hold (`require`, `refuse`), and ends with `finish`. Options,
provenance, counts and trace are filled in here; no method builds a `Recovery` itself. A method that can return the
best so far when it is stopped says how in `on_stop`.

The problem is standardised. The columns of X are shifted and scaled to mean 0 and variance 1. Y is
divided by one scale for all outputs, so that equal noise stays equal, and is shifted only when its mean is far larger
than its spread. The network is returned in the user's units:

    x' = (x - μ) / s,   y' = (y - ν) / τ   ⇒   W = W'/s,  b = b' - W μ,  A = τ A',  B = τ B'/s,  c = τ c' + ν - B μ .

Inputs at offset 1e8 or scale 1e±150 thus become the same problem as well-scaled ones. Constant columns become zero
and get zero weight. The search phases of all methods use a sample of rows in memory (`Problem.X`, `Problem.Y`);
refinement and certificates read all rows, in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import Any, NoReturn

import numpy as np
from numpy.linalg import LinAlgError

from planted._clock import StopRequested
from planted._streams import copy_stream, seed_entropy, seed_root, solver_streams
from planted._typing import Array, Progress, Seed
from planted.checks import Check
from planted.fitting._clipping import clip_outputs
from planted.moments import RowMoments, joint_moments
from planted.networks import TwoLayerNetwork, is_rectifier, turn_units, turned_away, unit_order
from planted.outcomes import BadInputError, Guarantee, Outcome
from planted.results import Evidence, Provenance, Recovery, Requirements, Unavailable, Verdict
from planted.rows import RowBlocks, sample_rows

__all__ = ["MethodRun", "Preparation", "Problem", "Scaling", "Solve", "prepare_problem"]

SEARCH_ROWS = 20_000
DWARFING_MEAN = 1e3  # standard deviations; below, an offset costs fewer digits than it would cost parameters


@dataclass(frozen=True, slots=True)
class Scaling:
    """The affine change of units between the user's data and the standardised problem."""

    x_mean: Array  # (d,): shift of the inputs
    x_scale: Array  # (d,): scale of the inputs
    y_shift: Array  # (m,): shift of the outputs, zero unless their mean dwarfs their spread
    y_scale: float  # common scale of the outputs

    def apply(self, X: Array, Y: Array) -> tuple[Array, Array]:
        """Standardise rows.

        Shapes: X (n, d), Y (n, m).
        """
        return (X - self.x_mean) / self.x_scale, (Y - self.y_shift) / self.y_scale

    def restore(self, network: TwoLayerNetwork) -> TwoLayerNetwork:
        """Express a network of the standardised problem in the user's units.

        It is the same function of the user's inputs, with rows of W of unit norm where their scale is a gauge.
        """
        W, norms = network.activation.unit_scale(network.W / self.x_scale)
        degree = network.activation.degree
        c, B = network.c * self.y_scale + self.y_shift, None
        if network.B is not None:
            B = network.B * self.y_scale / self.x_scale
            c = c - B @ self.x_mean
        return TwoLayerNetwork(
            W,
            network.b / norms - W @ self.x_mean,
            network.A * (self.y_scale * norms**degree),
            c,
            network.activation,
            B,
        )

    def standardise(self, network: TwoLayerNetwork) -> TwoLayerNetwork:
        """Express a network of the user's units in those of the standardised problem; the inverse of `restore`.

        It is the same function of standardised inputs, units in the same order.
        """
        c, B = network.c - self.y_shift, None
        if network.B is not None:
            c, B = c + network.B @ self.x_mean, network.B * self.x_scale / self.y_scale
        return TwoLayerNetwork(
            network.W * self.x_scale,
            network.b + network.W @ self.x_mean,
            network.A / self.y_scale,
            c / self.y_scale,
            network.activation,
            B,
        )

    def in_order(self, network: TwoLayerNetwork) -> TwoLayerNetwork:
        """Turn the units where that is a gauge, and sort them, as the canonical form of the restored network has them.

        This is done before the last refinement, so that units have the same number in the network, in its standard
        errors and in the sentences of its evidence, whatever the seed.
        """
        if network.B is not None or not is_rectifier(network.activation):
            network = turn_units(network, turned_away(self.restore(network)))
        restored = self.restore(network)
        order = unit_order(restored.W, restored.b)
        return replace(network, W=network.W[order], b=network.b[order], A=network.A[:, order])


@dataclass(frozen=True, slots=True)
class Problem:
    """Standardised data with what every method needs around them."""

    source: RowBlocks  # all rows, in the user's units
    blocks: RowBlocks  # all rows, standardised
    X: Array  # (rows, d): sampled standardised inputs (all of them when there are few)
    Y: Array  # (rows, m): sampled standardised outputs
    n_samples: int  # number of rows in all blocks
    scaling: Scaling  # the way back
    rng: np.random.Generator  # the solver's stream
    root: np.random.SeedSequence  # what all streams of this problem are spawned from
    seed: int | None  # its entropy, for the provenance
    progress: Progress  # told what is being done
    started: float  # clock at the beginning
    earlier_passes: int = 0  # passes over the rows before this problem
    w: Array | None = None  # (rows,): weights of the sampled rows, where a method uses weights
    clipped: Problem | None = None  # the same rows with clipped outputs, in the form of that name

    @property
    def n_features(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return int(self.Y.shape[1])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Samples, inputs and outputs."""
        return self.n_samples, self.n_features, self.n_outputs

    @property
    def sampled_rows(self) -> RowBlocks:
        """The sampled rows as blocks, with their weights if they have any."""
        return RowBlocks.from_arrays(self.X, self.Y, weights=self.w)

    @property
    def all_rows(self) -> RowBlocks:
        """All rows, standardised: those in memory where these are all, which need not be read and standardised again."""
        return self.sampled_rows if self.holds_all_rows else self.blocks

    def evenly_spaced(self, count: int) -> Problem | None:
        """Return the problem with so many of the rows in memory, whatever the seed, or None if there are no more."""
        if count >= len(self.X):
            return None
        places = np.linspace(0, len(self.X) - 1, count).astype(np.int64)
        w = None if self.w is None else self.w[places]
        return replace(self, X=self.X[places], Y=self.Y[places], w=w)

    def evenly_spaced_rows(self, count: int) -> RowBlocks | None:
        """So many of the rows in memory as blocks, or None if there are no more."""
        some = self.evenly_spaced(count)
        return None if some is None else some.sampled_rows

    @property
    def holds_all_rows(self) -> bool:
        """Whether the sample in memory is the whole data set."""
        return len(self.X) == self.n_samples

    def with_sample(self, rows: int) -> Problem:
        """Return the same problem with at most so many rows in memory; no pass if it holds all of them."""
        if self.holds_all_rows and self.n_samples <= rows:
            return self
        sampling = solver_streams(self.root, 2)[0]
        X, Y = sample_rows(self.blocks, rows, sampling, n_rows=self.n_samples)
        return replace(self, X=X, Y=Y)

    def stats(self, **items: Any) -> dict[str, Any]:
        """Return items with the seconds spent and the passes made over all rows so far."""
        passes = self.blocks.passes.count - self.earlier_passes
        return {**items, "passes": passes, "seconds": perf_counter() - self.started}


class Preparation:
    """Data and a seed, from which each method gets its problem; what was read once is not read again.

    Methods ask for one of four forms: ``"centred"`` shifts and scales the inputs; ``"uncentred"`` only scales, so
    that a network without biases keeps none; ``"clipped"`` takes its units from clipped outputs, for wild or missing
    labels; ``"labels"`` leaves the outputs, classes or counts, as they are. Every problem of one preparation begins with
    the same random numbers, whichever came before.
    """

    def __init__(
        self,
        blocks: RowBlocks,
        *,
        random_state: Seed = None,
        progress: Progress | None = None,
        search_rows: int | None = None,
    ) -> None:
        self.blocks = blocks
        self.search_rows = search_rows or SEARCH_ROWS
        self.progress = progress or _ignore
        self.seed = seed_entropy(random_state)
        self.root = seed_root(random_state)
        if random_state is None:  # fresh entropy, but recorded: the result can be made again
            self.seed = seed_entropy(self.root)

    def of(self, blocks: RowBlocks) -> Preparation:
        """Return the preparation of other rows with the same seed."""
        other = Preparation(
            blocks, random_state=self.root, progress=self.progress, search_rows=self.search_rows
        )
        other.seed = self.seed
        return other

    def problem(self, form: str = "centred") -> Problem:
        """Return a problem in one of the four forms; two passes over the rows the first time, none later."""
        started, earlier = perf_counter(), self.blocks.passes.count
        problem = self._clipped if form == "clipped" else self._standardise(form)
        fresh = copy_stream(problem.rng)
        inner = None if problem.clipped is None else replace(problem.clipped, rng=fresh)
        return replace(problem, rng=fresh, clipped=inner, started=started, earlier_passes=earlier)

    @cached_property
    def _read(self) -> tuple[RowMoments, Array, Array]:
        """The moments of all rows, and the sampled rows in the user's units."""
        moments = joint_moments(self.blocks)
        try:
            self.blocks.widths()
        except BadInputError as error:
            raise BadInputError(
                "the rows could be read only once; `open` must return a fresh iterable every time"
            ) from error
        sampling = solver_streams(self.root, 2)[0]
        return moments, *sample_rows(self.blocks, self.search_rows, sampling, n_rows=moments.count)

    def _standardise(self, form: str) -> Problem:
        moments, X, Y = self._read
        spread = np.sqrt(np.maximum(np.diag(moments.covariance), 0.0))
        scaling = (_plain_scaling if form == "uncentred" else _scaling)(moments.mean, spread, X.shape[1])
        if form == "labels":
            scaling = replace(scaling, y_shift=np.zeros(Y.shape[1]), y_scale=1.0)
        rng = solver_streams(self.root, 2)[1]
        return Problem(
            self.blocks,
            self.blocks.map(scaling.apply),
            *scaling.apply(X, Y),
            moments.count,
            scaling,
            rng,
            self.root,
            self.seed,
            self.progress,
            perf_counter(),
        )

    @cached_property
    def _clipped(self) -> Problem:
        """The problem in the units of clipped outputs, with the clipped one beside it."""
        limits = clip_outputs(self.blocks, solver_streams(self.root, 3)[2])
        clipped = self.of(limits).problem()
        rows = self.blocks.map(clipped.scaling.apply)
        X, Y = sample_rows(rows, len(clipped.X), clipped.rng)
        return replace(clipped, source=self.blocks, blocks=rows, X=X, Y=Y, clipped=clipped)


def prepare_problem(
    blocks: RowBlocks,
    *,
    random_state: Seed = None,
    progress: Progress | None = None,
    search_rows: int | None = None,
    form: str = "centred",
) -> Problem:
    """Standardise data and sample rows for the search phases: one problem of a `Preparation`."""
    data = Preparation(blocks, random_state=random_state, progress=progress, search_rows=search_rows)
    return data.problem(form)


def _scaling(mean: Array, spread: Array, d: int) -> Scaling:
    rounding = np.abs(mean) * 4 * np.finfo(float).eps
    spread = np.where(spread > rounding, spread, 0.0)  # a constant column, up to rounding
    x_scale = np.where(spread[:d] > 0, spread[:d], 1.0)
    y_mean, y_spread = mean[d:], spread[d:]
    level = float(np.sqrt((y_spread**2).mean()))
    shift = np.where(np.abs(y_mean) > DWARFING_MEAN * level, y_mean, 0.0)
    return Scaling(mean[:d], x_scale, shift, level if level > 0 else 1.0)


def _plain_scaling(mean: Array, spread: Array, d: int) -> Scaling:
    """Scale by root mean squares, shift nothing."""
    size = np.hypot(mean, spread)
    level = float(np.sqrt((size[d:] ** 2).mean()))
    x_scale = np.where(size[:d] > 0, size[:d], 1.0)
    return Scaling(np.zeros(d), x_scale, np.zeros(len(mean) - d), level if level > 0 else 1.0)


def _ignore(what: str, fraction: float) -> None:
    """Progress goes nowhere unless someone listens."""


Solve = Callable[..., Recovery]
"""``solve(method, blocks, n_hidden, random_state=..., **options)``: another method on other rows, by its name."""


class _Refused(Exception):  # carries an answer, not an error
    """A refusal on its way to the end of the run."""

    def __init__(self, recovery: Recovery) -> None:
        super().__init__(recovery.detail)
        self.recovery = recovery


@dataclass(slots=True)
class MethodRun:
    """A run in progress."""

    card: Requirements  # what the method needs
    data: Preparation  # the data, prepared once for every method that is tried
    n_hidden: int | str  # number of units asked for
    options: Mapping[str, Any]  # of the method, defaults included
    solve: Solve  # runs another method on other rows
    evidence: list[Evidence] = field(default_factory=list)  # lines noted so far
    trace: list[dict[str, Any]] = field(default_factory=list)  # one record for each attempt or step
    # Makes the record of the best so far from the reason for stopping; None while there is nothing to show.
    on_stop: Callable[[str], Recovery] | None = None
    _problem: Problem | None = None  # None until it is first looked at

    @property
    def problem(self) -> Problem:
        """The data in the form that the method's card asks for; prepared when it is first looked at."""
        if self._problem is None:
            self._problem = self.data.problem(self.card.form)
            self._refuse_constant_outputs(self._problem)
        return self._problem

    @problem.setter
    def problem(self, problem: Problem) -> None:
        self._problem = problem

    def note(self, *lines: Evidence) -> None:
        """Add lines of evidence."""
        self.evidence += lines

    def require(
        self, *lines: Evidence, outcome: Outcome = Outcome.ASSUMPTION_FAILED, detail: str = ""
    ) -> None:
        """Add lines of evidence; end the run at the first that does not hold."""
        for line in lines:
            self.note(line)
            if not line.passed:
                self.refuse(outcome, detail or _unmet(line))

    def refuse_unless(
        self, *lines: Evidence, outcome: Outcome = Outcome.ASSUMPTION_FAILED, detail: str = ""
    ) -> None:
        """End the run at the first line that does not hold; lines that hold go without saying."""
        self.require(*[line for line in lines if not line.passed][:1], outcome=outcome, detail=detail)

    def refuse(self, outcome: Outcome, detail: str, *lines: Evidence) -> NoReturn:
        """End the run without a network."""
        raise _Refused(self.finish(None, Verdict.refusal(outcome, detail, *lines)))

    def finish(self, network: TwoLayerNetwork | None, verdict: Verdict, **counts: Any) -> Recovery:
        """Return the record of a verdict on a network of the standardised problem, in the user's units."""
        if network is None:
            return self.finish_restored(None, verdict, **counts)
        if self.problem.holds_all_rows:  # for the table of kinks
            counts["samples_on"] = network.patterns(self.problem.X).sum(axis=0).tolist()
        return self.finish_restored(self.problem.scaling.restore(network), verdict, **counts)

    def finish_restored(
        self,
        network: TwoLayerNetwork | None,
        verdict: Verdict,
        *,
        held_out_mse: float | None = None,
        **counts: Any,
    ) -> Recovery:
        """Return the record of a verdict on a network that is in the user's units already."""
        parameters = {"n_hidden": self.n_hidden, **self.options}
        shape = (0, 0, 0) if self._problem is None else self._problem.shape
        return replace(verdict, evidence=(*self.evidence, *verdict.evidence)).record(
            network,
            counts if self._problem is None else self._problem.stats(**counts),
            Provenance(self.card.method, self.card.reference, parameters, self.data.seed, shape),
            trace=tuple(self.trace),
            held_out_mse=held_out_mse,
        )

    def interrupted(
        self, reason: str, network: TwoLayerNetwork | None = None, *lines: Evidence, **counts: Any
    ) -> Recovery:
        """Return the record of a run that was stopped, with what it has."""
        doubt = Unavailable("The search was interrupted.")
        verdict = Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, lines, reason, doubt)
        return self.finish(network, verdict, **counts)

    def execute(self, recover: Callable[..., Recovery], **options: Any) -> Recovery:
        """Run a method to its end: an answer, a refusal, or the best so far when it is stopped.

        Ctrl-C ends in the best so far too where the method keeps one, and is passed on where it does not.
        """
        try:
            return recover(self, self.n_hidden, **options)
        except _Refused as refused:
            return refused.recovery
        except LinAlgError as error:
            text = f"A decomposition broke down: {error}."
            return self.finish(None, Verdict.refusal(Outcome.SOLVER_FAILED, text))
        except StopRequested as stop:
            reason = f"Stopped: {stop}."
            return self.interrupted(reason) if self.on_stop is None else self.on_stop(reason)
        except KeyboardInterrupt:
            if self.on_stop is None:
                raise
            return self.on_stop("Interrupted.")

    def _refuse_constant_outputs(self, problem: Problem) -> None:
        """Outputs that never vary show no unit; decompositions of them would divide by zero."""
        if len(problem.Y) > 1 and not np.ptp(problem.Y, axis=0).any():
            line = Evidence("outputs that vary", 0, 1, ">=", "rank Y >= 1", key=Check.OUTPUTS)
            self.require(line)


def _unmet(line: Evidence) -> str:
    """Say what the method needs and what the data have."""
    source = f" ({line.equation})" if line.equation else ""
    return (
        f"{line.name}: {line.measured:.3g}; the method needs {line.comparison} {line.required:.3g}{source}."
    )
