"""Standardise the data; convert networks back to the original scale.

Every method works on standardised data. The columns of X are shifted and scaled to mean 0 and variance 1. Y is
divided by one scale for all outputs, so that equal noise stays equal, and is shifted only when its mean is far larger
than its spread. The network is returned in the user's units:

    x' = (x - μ) / s,   y' = (y - ν) / τ   ⇒   W = W'/s,  b = b' - W μ,  A = τ A',  c = τ c' + ν .

Inputs at offset 1e8 or scale 1e±150 thus become the same problem as well-scaled ones. Constant columns become zero
and get zero weight. The search phases of all methods use a sample of rows in memory (`Problem.X`, `Problem.Y`);
refinement and certificates read all rows, in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from planted._streams import copy_stream, seed_entropy, seed_root, solver_streams
from planted._typing import Array, Progress, Seed
from planted.fitting._clipping import clip_outputs
from planted.linalg.products import unit_rows
from planted.moments import RowMoments, joint_moments
from planted.networks import TwoLayerNetwork, unit_order
from planted.outcomes import BadInputError
from planted.rows import RowBlocks, sample_rows

__all__ = ["Preparation", "Problem", "Scaling", "prepare_problem"]

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

        It is the same function of the user's inputs, with rows of W of unit norm.
        """
        W, norms = unit_rows(network.W / self.x_scale)
        degree = network.activation.degree
        return TwoLayerNetwork(
            W,
            network.b / norms - W @ self.x_mean,
            network.A * (self.y_scale * norms**degree),
            network.c * self.y_scale + self.y_shift,
            network.activation,
        )

    def standardise(self, network: TwoLayerNetwork) -> TwoLayerNetwork:
        """Express a network of the user's units in those of the standardised problem; the inverse of `restore`.

        It is the same function of standardised inputs, units in the same order.
        """
        return TwoLayerNetwork(
            network.W * self.x_scale,
            network.b + network.W @ self.x_mean,
            network.A / self.y_scale,
            (network.c - self.y_shift) / self.y_scale,
            network.activation,
        )

    def in_order(self, network: TwoLayerNetwork) -> TwoLayerNetwork:
        """Sort the units as the canonical form of the restored network sorts them.

        This is done before the last refinement, so that units have the same number in the network, in its standard
        errors and in the sentences of its evidence, whatever the seed.
        """
        restored = self.restore(network)
        order = unit_order(restored.W, restored.b)
        return TwoLayerNetwork(
            network.W[order], network.b[order], network.A[:, order], network.c, network.activation
        )


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

    Methods ask for one of three forms: ``"centred"`` shifts and scales the inputs; ``"uncentred"`` only scales, so
    that a network without biases keeps none; ``"clipped"`` takes its units from clipped outputs, for wild or missing
    labels. Every problem of one preparation begins with the same random numbers, whichever came before.
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
        """Return a problem in one of the three forms; two passes over the rows the first time, none later."""
        started, earlier = perf_counter(), self.blocks.passes.count
        problem = self._clipped if form == "clipped" else self._standardise(centre=form == "centred")
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

    def _standardise(self, *, centre: bool) -> Problem:
        moments, X, Y = self._read
        spread = np.sqrt(np.maximum(np.diag(moments.covariance), 0.0))
        scaling = (_scaling if centre else _plain_scaling)(moments.mean, spread, X.shape[1])
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
