r"""Tests whether a network has one unit too few, by the score of a further unit.

Problem     If the noise is large, a network with one unit too few can leave a residual that passes a global test. A unit
            fitted to all of the residual, the others refined with it, would tell, but costs as much as the recovery.
Idea        At a minimum the residual R is orthogonal to the Jacobian J of the network. For a further unit with given
            half-space, activation h and output weights zero, only the output weights enter the linearised problem. To
            second order the refined network of k + 1 units lowers the sum of squares by

            .. math:: u^\top S^{-1} u, \qquad u = h^\top R, \qquad
                      S = \|h\|^2 1_m - C^\top (J^\top J)^+ C, \qquad C = J^\top (1_m \otimes h), \quad (1)

            the score statistic, which has m degrees of freedom where no unit is missing. J'J and C have the structure of
            the normal equations: the output layer is eliminated first, and what is left of C for output l is that of
            Z'h, weighted by :math:`a_l`. One pass gives (1) for hundreds of half-spaces at once. `HALF_SPACES` random
            ones are tried, in single precision; then the best are varied, less and less, and the last ones computed
            exactly, so that the largest value is close to what a refinement finds: at (d, k, m, n) = (10, 6, 7, 8000),
            (10, 5, 5, 600), (4, 5, 1, 800) and (2, 3, 1, 300) it was 35, 30, 11 and 6.6 in the mean without a missing
            unit, and a refinement from the best three random ones found 36, 32, 10 and 4.9; for d = 20 the refinement
            finds up to twice as much.

            If no unit is missing, the fall is due to d + m parameters and to a search over half-spaces: about a χ² with
            2 (d + m) degrees of freedom, whose 99 % quantile is the limit. Only when (1) comes within `ALARM` of the
            limit, and not beyond it, is the network with the best half-space refined, and with the next one if the first
            ends within `NEARLY`.

            J has the columns of biases, also where the method takes them for zero: half-spaces without biases beside a
            network without them say nothing of data with a small bias and bent labels, where each hides the other.

            *What would not have been seen.* A unit with output weights a that is there raises (1) by
            :math:`a^\top S a` noise variances on average, beyond the d + m that noise gives it. It is hidden where that
            stays below the limit. The half-spaces that were drawn at random, each with output weights of random direction
            and half the size of those found, say which part of such units the noise would hide: near other units, among
            several, or too weak. Of networks of k + 1 units some k times that part look like k. A claim needs it below
            `HIDDEN_PART`. In five hundred networks at noise of 1 to 60 per cent the units that could be left out unseen
            were those of two networks of several outputs, where it was above 0.01, and of four of one, above 0.2.
Guarantee   Heuristic. The search may miss a unit, and no test excludes one that is too weak for the noise: the fall that
            was found is a lower bound.
Cost        One pass for the normal equations and one of n · k (d + 1) operations for each half-space, on the rows in
            memory; after an alarm up to `STARTS` refinements of k + 1 units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from planted._typing import Array, as_array
from planted.certificates._residual import inverse_root
from planted.certificates.noise._fitted_rows import FittedRows
from planted.checks import Check
from planted.fitting._jacobian import tangent_basis
from planted.fitting._refine import Refinement, refine, weigh_blocks
from planted.fitting._run import Problem
from planted.linalg.symmetric import Spectrum, column_spectrum, unit_rows
from planted.moments import (
    NormalSums,
    accumulate_normal,
    mask_rows,
    n_output_columns,
)
from planted.networks import Activation, TwoLayerNetwork
from planted.results import Evidence, Recovery
from planted.rows import RowWeights, Sums

__all__ = ["LEVEL", "lacks_a_unit", "missing_unit_evidence", "noise_limit"]

NAME = "fall of the sum of squares with one more unit, in noise variances"
HIDDEN_NAME = "part of random units, half as strong as those found, that this noise would hide"
LEVEL = 0.01
HALF_SPACES = 400
VARIED, VARIATIONS = 4, 40  # so many of the best half-spaces, each varied so often
REACHES = (0.5, 0.25, 0.12)  # how far they are varied, in radians and standard deviations
ALARM = 0.7  # part of the limit from which on the score is not trusted to be the whole fall
NEARLY = 0.85  # the same after a refinement: from other half-spaces it ended at most a tenth higher
HIDDEN_PART = 2e-3
STRENGTH = 0.5  # of units that might be hidden, in those found
DRAWN_WEIGHTS = 200  # output weights drawn for each half-space
STARTS = 2
STEPS = 12
STEP_GAIN = 0.01  # part of the limit: a step that gains less decides nothing
QUANTILE_ROWS = 500
# Part of a unit's activation that the Jacobian leaves: below it the unit is one of the network's own. In single
# precision it is added to what is left.
INSIDE, INSIDE_SINGLE = 1e-6, 1e-4
FEW_ACTIVE = 0.01  # of the largest squares of an activation
SOME_ROWS, ROWS_PER_UNKNOWN = 1500, 10  # so many rows, or so many equations for each unknown
_SLICE_ROWS, _SCREEN_ROWS = 1024, 512
_HELD_NUMBERS = 4_000_000  # of masked inputs: fewer are held from one product to the next


def missing_unit_evidence(
    problem: Problem,
    fit: Refinement,
    *,
    offset: bool,
    noise: float,
    biases: bool = True,
    weights: RowWeights | None = None,
    at: FittedRows | None = None,
) -> tuple[Evidence, ...]:
    """Measure how much one more unit than those of a fit lowers the sum of squares, and which units that would not show.

    The fall, in noise variances, must stay below what noise alone reaches once in a hundred times. The claim of one kink
    on a line states the angle that the noise hides, and asks for no part of hidden units. `at`: the network at the rows in
    memory, if that was computed already.
    """
    limit, network = noise_limit(problem, LEVEL), fit.network
    known = fit.sums if problem.holds_all_rows else None
    W, b, falls, S = _best_half_spaces(_Score(at or FittedRows(problem, network, weights), offset, known))
    fall = float(falls[0]) / noise**2
    if ALARM * limit < fall <= limit:
        rows = problem.sampled_rows
        base = fit.cost
        if known is None or not (fit.converged and biases):
            base = refine(rows, network, offset=offset, max_iter=STEPS, weights=weights).cost
        for unit in range(min(STARTS, len(b))):
            wider = _with_unit(network, W[unit], float(b[unit]))
            cost = refine(
                rows,
                wider,
                offset=offset,
                max_iter=STEPS,
                decrease_tol=STEP_GAIN * limit,
                weights=weights,
                goal=base - limit * noise**2,
            ).cost
            fall = max(fall, (base - cost) / noise**2)
            if not NEARLY * limit < fall <= limit:
                break
    missing = Evidence(NAME, fall, limit, "<=", "99 % of χ² with 2(d + m)", key=Check.MISSING_UNIT)
    if network.n_hidden == problem.n_features == 1:
        return (missing,)
    hidden = _hidden_part(problem, network, S / noise**2, limit)
    return missing, Evidence(HIDDEN_NAME, hidden, HIDDEN_PART, "<=", key=Check.HIDDEN_UNITS)


def _hidden_part(problem: Problem, network: TwoLayerNetwork, S: Array, limit: float) -> float:
    """Return the part of units of random half-space and random output weights that stay below the limit.

    Eigenvalues are computed only where those that Gershgorin's circles leave possible do not settle it.
    Shapes: S of (1) for each half-space, in noise variances, (s, m, m).
    """
    sizes = (network.A**2).sum(axis=0) * (network.W**2).sum(axis=1)
    directions = unit_rows(problem.rng.standard_normal((DRAWN_WEIGHTS, problem.n_outputs)))[0]
    strength, needed = STRENGTH**2 * float(sizes.mean()), limit - problem.n_features - problem.n_outputs
    least = (2 * np.diagonal(S, axis1=1, axis2=2) - np.abs(S).sum(axis=2)).min(axis=1)
    spectra = np.linalg.eigvalsh(S[strength * least <= needed])
    raised = strength * directions**2 @ np.maximum(spectra, 0.0).T
    return float((raised < needed).sum() / (DRAWN_WEIGHTS * len(S)))


def noise_limit(problem: Problem, level: float) -> float:
    """Return what a unit fitted to noise explains, in noise variances, with at most a given probability."""
    return float(special.chdtri(2 * (problem.n_features + problem.n_outputs), level))


def lacks_a_unit(recovery: Recovery) -> bool:
    """Return whether a recovery failed because one more unit, or one split in two, would explain more than noise."""
    return any(item.key in (Check.MISSING_UNIT, Check.SPLIT_UNIT) for item in recovery.failed)


def _with_unit(network: TwoLayerNetwork, w: Array, b: float) -> TwoLayerNetwork:
    return replace(
        network,
        W=np.vstack([network.W, w]),
        b=np.append(network.b, b),
        A=np.hstack([network.A, np.zeros((network.n_outputs, 1))]),
    )


def _best_half_spaces(score: _Score) -> tuple[Array, Array, Array, Array]:
    """Return half-spaces with the falls (1) they promise, the best first, and S of random ones.

    Shapes: the normals (s, d), the biases (s,), the falls (s,), S (`HALF_SPACES`, m, m).
    """
    problem, screen = score.at.problem, _Screen.of(score)
    rng, d = problem.rng, problem.n_features
    W = unit_rows(rng.standard_normal((HALF_SPACES, d)))[0]
    t = W @ problem.X[:: max(1, len(problem.X) // QUANTILE_ROWS)].T
    places = (rng.uniform(0.05, 0.95, (HALF_SPACES, 1)) * t.shape[1]).astype(np.intp)
    b = -np.take_along_axis(np.sort(t, axis=1), places, axis=1)[:, 0]
    falls, S = screen.of_units(W, b)
    for reach in REACHES:
        best = np.argsort(falls)[::-1][:VARIED]
        centres, levels = np.repeat(W[best], VARIATIONS, axis=0), np.repeat(b[best], VARIATIONS)
        near = unit_rows(centres + reach / np.sqrt(d) * rng.standard_normal(centres.shape))[0]
        beside = levels + 0.5 * reach * rng.standard_normal(len(levels))
        W, b = np.vstack([W[best], near]), np.append(b[best], beside)
        falls = np.append(falls[best], screen.falls(near, beside))
    best = np.argsort(falls)[::-1][: 2 * VARIED]
    falls = score.falls(W[best], b[best])
    order = np.argsort(falls)[::-1]
    return W[best][order], b[best][order], falls[order], S


@dataclass(frozen=True)
class _Score:
    """The statistic (1) of units that a network lacks, on some rows."""

    at: FittedRows
    offset: bool
    known: NormalSums | None = None  # the normal equations on these rows, if they were summed already

    @property
    def network(self) -> TwoLayerNetwork:
        """The network that may lack units."""
        return self.at.network

    @cached_property
    def sums(self) -> NormalSums:
        rows, weights = self.at.problem.sampled_rows, self.at.weights
        return self.known or accumulate_normal(rows, self.network, weights=weights)

    @cached_property
    def outputs(self) -> Array:
        """The columns of the output layer, (g, n)."""
        linear = [] if self.network.B is None else [self.at.X]
        return np.vstack([self.at.H, *linear, self.at.inputs[-1:]])[: self.size]

    @property
    def size(self) -> int:
        """Number of columns of the output layer."""
        return n_output_columns(self.network, offset=self.offset)

    @cached_property
    def outer(self) -> Spectrum:
        return column_spectrum(self.sums.GG[: self.size, : self.size]).regular()

    @cached_property
    def weighted(self) -> Array:
        """Weights of the hidden layer's columns in every output, (k p, m)."""
        return np.repeat(self.network.A.T, self.network.n_features + 1, axis=0)

    @cached_property
    def whitening(self) -> Array:
        """A root of the pseudo-inverse of the hidden layer's products, the output layer eliminated; (k p, rank)."""
        GZ = self.sums.GZ[: self.size]
        N = weigh_blocks(self.sums.ZZ - GZ.T @ self.outer.solve(GZ), self.network.A)
        T = tangent_basis(self.network)
        along = T.T @ N @ T
        return as_array(T @ inverse_root(along, np.diag(along)))

    @cached_property
    def step(self) -> tuple[Array, Array]:
        """The Gauss-Newton step, in weights of the hidden layer (k p,) and of the output layer (m, g).

        It is zero at a minimum on these rows; rows in memory that are not all rows leave some of it.
        """
        GZ, GR = self.sums.GZ[: self.size], self.sums.GR[: self.size]
        gradient = ((self.sums.ZR - GZ.T @ self.outer.solve(GR)) * self.weighted).sum(axis=1)
        hidden = self.whitening @ (self.whitening.T @ gradient)
        return hidden, self.outer.solve(GR - GZ @ (hidden[:, None] * self.weighted)).T

    @cached_property
    def left_over(self) -> Array:
        """The residual less the step, weighted, (m, n)."""
        hidden, outer = self.step
        moved = hidden.reshape(self.network.n_hidden, -1) @ self.at.inputs
        R = self.at.residual - outer @ self.outputs - self.network.A @ (self.at.slopes * moved)
        return R if self.at.w is None else self.at.w * R

    def falls(self, W: Array, b: Array) -> Array:
        """Return (1) for every half-space.

        Shapes: W (s, d), b (s,), result (s,).
        """
        u, S, squares = self.terms(W, b)
        values, vectors = np.linalg.eigh(S)
        is_outside = values > INSIDE * squares[:, None]
        along = (u[:, None] @ vectors)[:, 0]
        return as_array(np.where(is_outside, along**2 / np.where(is_outside, values, 1.0), 0.0).sum(axis=1))

    def terms(self, W: Array, b: Array) -> tuple[Array, Array, Array]:
        """Return u (s, m) and S (s, m, m) of (1) for every half-space, and the squares of its activation (s,)."""
        normals, start = np.hstack([W, b[:, None]]), 0
        products, u = [], np.zeros((len(b), self.network.n_outputs))
        for part in self.parts(np.float64, _SLICE_ROWS):
            H = part.activations(self.network.activation, normals)
            products.append(part.products(H))
            u += H @ self.left_over[:, start : start + H.shape[1]].T
            start += H.shape[1]
        total = reduce(_Products.merge, products)
        return u, self.outside(total), total.HH

    def parts(self, kind: type[np.floating[Any]], rows: int) -> Iterator[_Part]:
        """Give what belongs to the network for so many rows at a time, in some precision: in memory that the next take."""
        at, (p, n) = self.at, self.at.inputs.shape
        masked = self.network.n_hidden * p
        memory = np.empty((masked + self.size) * min(rows, n), dtype=kind)  # fresh memory takes longer
        inputs, slopes = (values.astype(kind, copy=False) for values in (at.inputs, at.slopes))
        for start in range(0, n, rows):
            here = slice(start, start + rows)
            own = inputs[:, here]
            columns = memory[: (masked + self.size) * own.shape[1]].reshape(-1, own.shape[1])
            mask_rows(slopes[:, here].T, own.T, columns[:masked])
            columns[masked:] = self.outputs[:, here]
            yield _Part(own, columns, None if at.w is None else at.w[here].astype(kind))

    def outside(self, products: _Products) -> Array:
        """Return S of (1) for every half-space: what the Jacobian leaves of its activation in all outputs, (s, m, m)."""
        root, A = self.whitening, self.network.A
        HZ, HG = np.split(products.HC, [len(root)], axis=1)
        lifted = self.outer.solve(HG.T)
        HZ = HZ - lifted.T @ self.sums.GZ[: self.size]
        k = self.network.n_hidden
        # The share of every unit; output l has it with weight A[l, unit].
        inside = np.empty((len(HZ), k, root.shape[1]))
        width = len(root) // k
        for unit in range(k):
            own = slice(unit * width, (unit + 1) * width)
            np.matmul(HZ[:, own], root[own], out=inside[:, unit])
        S = -(A @ (inside @ inside.transpose(0, 2, 1)) @ A.T)
        diagonal = range(len(A))
        S[:, diagonal, diagonal] += (products.HH - (HG * lifted.T).sum(axis=1))[:, None]
        return as_array(S)


@dataclass(frozen=True)
class _Screen:
    """The statistic (1), nearly, for many half-spaces: u from all rows in memory, S from some of them.

    S holds no noise, so that some rows give it to a few per cent, and its products are nearly all of the work. Products
    are in single precision.
    """

    some: _Score  # on some rows
    share: float  # of all rows in memory
    inputs: npt.NDArray[np.float32]  # (d + 1, rows): of all rows in memory, and one
    residual: npt.NDArray[np.float32]  # (rows, m): what the Jacobian leaves of it, weighted
    along: Array  # (d + 1, m): products of the two
    held: tuple[_Part, ...] = ()  # some rows, unless they are too many to be held

    @classmethod
    def of(cls, score: _Score) -> _Screen:
        """Prepare the search for units that a network lacks."""
        net, problem = score.network, score.at.problem
        n, rows = len(problem.X), max(SOME_ROWS, ROWS_PER_UNKNOWN * net.n_parameters // net.n_outputs)
        few = problem.evenly_spaced(rows)
        some = score if few is None else _Score(FittedRows(few, net, score.at.weights), score.offset)
        is_small = min(rows, n) * net.n_hidden * (net.n_features + 1) <= _HELD_NUMBERS
        return cls(
            some,
            min(rows / n, 1.0),
            score.at.inputs.astype(np.float32),
            np.ascontiguousarray(score.left_over.T, dtype=np.float32),
            score.at.inputs @ score.left_over.T,
            tuple(some.parts(np.float32, rows)) if is_small else (),
        )

    def falls(self, W: Array, b: Array) -> Array:
        """Return (1), nearly, for every half-space: see `of_units`."""
        return self.of_units(W, b)[0]

    def of_units(self, W: Array, b: Array) -> tuple[Array, Array]:
        """Return (1) and S, nearly, for every half-space.

        Shapes: W (s, d), b (s,), results (s,) and (s, m, m).
        """
        products = self._products(W, b)
        S, u = self.some.outside(products), self._scores(W, b)[:, :, None]
        diagonal = range(S.shape[1])
        S[:, diagonal, diagonal] += _least_outside(products.HH)[:, None]
        return as_array(self.share * (u * np.linalg.solve(S, u)).sum(axis=(1, 2))), S / self.share

    def _products(self, W: Array, b: Array) -> _Products:
        """Return the products of the activations of half-spaces on some rows."""
        normals, activation = np.hstack([W, b[:, None]]).astype(np.float32), self.some.network.activation
        parts = self.held or self.some.parts(np.float32, _SLICE_ROWS)
        return reduce(
            _Products.merge, (part.products(part.activations(activation, normals)) for part in parts)
        )

    def _scores(self, W: Array, b: Array) -> Array:
        """Return u of (1).

        A piecewise linear activation of t is a multiple of the size of t, which takes a sixth of the time of max(t, 0),
        and one of t.
        """
        normals, activation = np.hstack([W, b[:, None]]).astype(np.float32), self.some.network.activation
        u = np.zeros((len(b), self.residual.shape[1]))
        memory = np.empty(len(b) * _SCREEN_ROWS, dtype=np.float32)  # one for all: fresh memory takes longer
        for start in range(0, len(self.residual), _SCREEN_ROWS):
            inputs, residual = (
                self.inputs[:, start : start + _SCREEN_ROWS],
                self.residual[start : start + _SCREEN_ROWS],
            )
            t: Any = np.matmul(normals, inputs, out=memory[: len(b) * len(residual)].reshape(len(b), -1))
            u += (np.abs(t, out=t) if activation.is_piecewise_linear else activation(t)) @ residual
        if activation.is_piecewise_linear:
            u = activation.kink * u + activation.slope * (normals @ self.along)
        return as_array(u)


def _least_outside(squares: Array) -> Array:
    """Return what is added to S in single precision, from the squares of the activations, (s,).

    In directions inside the Jacobian S is rounding, and it is nothing for half-spaces without a row: neither may count.
    """
    return as_array(INSIDE_SINGLE * (squares + FEW_ACTIVE * squares.max()) + np.finfo(float).tiny)


@dataclass(frozen=True, slots=True)
class _Products(Sums):
    """Products of s further activations H with what belongs to a network: see `NormalSums`."""

    HC: Array  # (s, k p + g): with the masked inputs and the columns of the output layer
    HH: Array  # (s,)


@dataclass(frozen=True, slots=True)
class _Part:
    """What belongs to a network on some rows, in some precision; rows come last."""

    inputs: npt.NDArray[Any]  # (p, n): inputs and one
    columns: npt.NDArray[Any]  # (k p + g, n): masked inputs, and the columns of the output layer
    w: npt.NDArray[Any] | None  # (n,): weights

    def activations(self, activation: Activation, normals: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the activations of half-spaces. Shapes: normals (s, p), result (s, n)."""
        t: Any = normals @ self.inputs
        return activation(t).astype(normals.dtype, copy=False)

    def products(self, H: npt.NDArray[Any]) -> _Products:
        """Return their products. Shapes: H (s, n)."""
        weighted = H if self.w is None else self.w * H
        sums = weighted @ self.columns.T, np.einsum("hn,hn->h", H, weighted)
        return _Products(*(as_array(item.astype(np.float64)) for item in sums))
