r"""What certificates share: rounding errors of a residual, checks of single units, reasons for failure, standard errors.

*What rounding may leave of a residual*, sample by sample and output by output.

Problem     A network that made noiseless data reproduces them to rounding. How large may its residual be? One number
            for all entries would be wrong: an output that is 1e10 times smaller than the others, or a sample at which
            all terms are small, would have to fit on no scale of its own.
Idea        Every evaluation of :math:`y_l = \sum_i a_{li} f(w_i^\top x + b_i) + c_l` in floating point, whatever the
            order of its operations, errs by a small multiple of

            .. math:: u \Big( \sum_i |a_{li}| (|w_i|^\top |x| + |b_i|)^p + |c_l| \Big), \qquad (1)

            where u is the unit of rounding and p the degree of f. The data are shifted and scaled before they are
            used; the shift belongs to the terms of (1). `ROUNDING_STEPS` times (1) is the tolerance of an entry.

            Labels may have been rounded once more, when they were stored. If all of them are numbers of single or
            half precision, or of so many significant digits, u is that of the format; if they have few decimals, the
            step of the last one is added. The labels are looked at only when double precision does not explain the
            residual, and a residual that no grid explains is noise.
Cost        One pass over the rows, and a second one over the labels where there is need. The pass is never taken from
            a checkpoint: a certificate speaks of the rows at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from planted._typing import Array, BoolArray, IntArray, as_array
from planted.checks import Check
from planted.fitting._jacobian import Information, degrees_of_freedom, information
from planted.fitting._refine import Refinement
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.outcomes import Outcome
from planted.results import Evidence, Unavailable, Uncertainty
from planted.rows import RowBlocks, Sums, accumulate
from planted.rows._passes import Passes

__all__ = [
    "CONDITIONING_TOL",
    "DOUBLE",
    "UNDETERMINED",
    "LabelGrid",
    "RoundingChecks",
    "both_sides",
    "check_rounding",
    "find_grids",
    "first_failure",
    "model_uncertainty",
    "named_failure",
    "reproduces_rows",
]

# Rounding errors (1) that a sample may be missed by in double precision. Noiseless fits end between 1 and 100.
ROUNDING_STEPS = 1024.0
FORMAT_STEPS = 2.0  # the same for formats of lower precision: half a step for the label, the rest for the fit
FORMATS: dict[str, type[np.floating[Any]]] = {
    "half precision": np.float16,
    "single precision": np.float32,
}  # the coarsest first
MOST_DECIMALS = 12
MOST_DIGITS = 13
COARSEST = 1e-2  # largest step of a grid, in output standard deviations, that is called rounding


@dataclass(frozen=True, slots=True)
class LabelGrid:
    """The numbers on which labels lie."""

    name: str  # in words
    unit: float  # tolerance of an entry, in terms of (1)
    steps: Array  # (m,) or (1,): tolerance that is added to it, in standardised units
    format: type[np.floating[Any]] | None = None  # precision in which labels are stored, if that is the grid
    places: Array | None = None  # (m,): decimals of each output, or None
    digits: int = 0  # significant digits, if they are the grid

    def spacing(self, Y: Array) -> Array:
        """Return the step of the grid at every label, in the user's units.

        Shapes: Y and result (n, m).
        """
        if self.format is not None:
            return np.spacing(np.abs(Y).astype(self.format)).astype(np.float64)
        if self.places is not None:
            return np.broadcast_to(10.0**-self.places, Y.shape)
        exponents = np.floor(np.log10(np.where(Y == 0, 1.0, np.abs(Y))))
        return as_array(10.0 ** (exponents + 1 - self.digits))

    @property
    def is_double(self) -> bool:
        """Whether labels have the precision of the computation."""
        return self is DOUBLE


DOUBLE = LabelGrid("double precision", ROUNDING_STEPS * np.finfo(np.float64).eps, np.zeros(1))


@dataclass(frozen=True, slots=True)
class RoundingChecks(Sums):
    """What one pass over all rows says about a network that claims to be exact."""

    n_samples: int  # number of rows
    excess: Array  # (m,): largest residual of each output, over the tolerance of its entry
    largest: Array  # (m,): largest absolute residual of each output
    missed: int  # rows with an entry beyond its tolerance
    squares: float  # sum of squared residuals
    scales: float  # sum of squared tolerances
    active: IntArray  # (k,): rows on which each unit is on

    def merge(self, other: RoundingChecks) -> RoundingChecks:
        """Return the checks of both sets of rows: the larger residuals, the sums of the rest."""
        return RoundingChecks(
            self.n_samples + other.n_samples,
            np.maximum(self.excess, other.excess),
            np.maximum(self.largest, other.largest),
            self.missed + other.missed,
            self.squares + other.squares,
            self.scales + other.scales,
            self.active + other.active,
        )

    @property
    def largest_residual(self) -> float:
        """The largest absolute residual of one output of one row."""
        return float(self.largest.max(initial=0.0))

    @property
    def noise(self) -> float:
        """Root mean square of the residual of an entry, at least that of rounding in the last place."""
        cells = max(self.n_samples * len(self.largest), 1)
        return float(np.sqrt(max(self.squares, self.scales / ROUNDING_STEPS**2) / cells))


def check_rounding(
    problem: Problem, network: TwoLayerNetwork, grid: LabelGrid = DOUBLE, *, blocks: RowBlocks | None = None
) -> RoundingChecks:
    """Compare a network with every row, each entry on its own scale.

    `blocks`: other standardised rows than those of the problem.
    """
    chosen = problem.blocks if blocks is None else blocks
    at_hand = replace(chosen, passes=Passes(chosen.passes.engine))
    chosen.passes.count += 1
    scaling = problem.scaling
    shift, level = np.abs(scaling.x_mean / scaling.x_scale), np.abs(scaling.y_shift / scaling.y_scale)
    return accumulate(at_hand, _RoundingSummand(network, grid, shift, level))


@dataclass(frozen=True, slots=True)
class _RoundingSummand:
    """Residuals over their tolerances at a network of standardised inputs, which were shifted by ``shift``."""

    network: TwoLayerNetwork
    grid: LabelGrid
    shift: Array
    level: Array

    def __call__(self, first_row: int, X: Array, Y: Array) -> RoundingChecks:
        net = self.network
        t = net.preactivations(X)
        residual = np.abs(net.less_linear(X, Y) - net.activation(t) @ net.A.T - net.c)
        sizes = (np.abs(X) + 2 * self.shift) @ np.abs(net.W).T + np.abs(net.b)
        terms = net.activation.rounding_terms(t, sizes) @ np.abs(net.A).T + np.abs(net.c) + self.level
        if net.B is not None:
            terms = terms + (np.abs(X) + 2 * self.shift) @ np.abs(net.B).T
        # Huge terms that cancel would allow any residual; beyond `COARSEST` none is called rounding.
        arithmetic = np.minimum(self.grid.unit * terms, COARSEST)
        tolerance = arithmetic + self.grid.steps + np.finfo(np.float64).tiny
        ratios = residual / tolerance
        return RoundingChecks(
            len(X),
            ratios.max(axis=0, initial=0.0),
            residual.max(axis=0, initial=0.0),
            int((~(ratios <= 1)).any(axis=1).sum()),
            float((residual**2).sum()),
            float((tolerance**2).sum()),
            (t > 0).sum(axis=0),
        )


def reproduces_rows(problem: Problem, network: TwoLayerNetwork) -> tuple[RoundingChecks, LabelGrid]:
    """Compare a network with every row, to double precision or to the grid on which the labels lie."""
    rows = check_rounding(problem, network)
    if not rows.missed or rows.largest_residual > COARSEST:
        return rows, DOUBLE
    for grid in find_grids(problem):
        rounded = check_rounding(problem, network, grid)
        if not rounded.missed:
            return rounded, grid
    return rows, DOUBLE


def find_grids(problem: Problem) -> list[LabelGrid]:
    """Return the grids coarser than double precision on which all labels lie.

    Labels with so many decimals have as many significant digits as the largest of them needs. That is no grid of its own,
    and would allow small labels the steps of large ones.
    """
    labels = accumulate(problem.source, _GridSummand())
    decimals, digits = int(labels.decimals.max()), int(labels.digits.max())
    places = labels.decimals.astype(np.float64)
    steps = 10.0**-places / problem.scaling.y_scale
    nothing = np.zeros(1)
    grids = [
        LabelGrid(name, FORMAT_STEPS * float(np.finfo(kind).eps), nothing, format=kind)
        for (name, kind), fits in zip(FORMATS.items(), labels.fits, strict=True)
        if fits.all()
    ]
    if decimals <= MOST_DECIMALS and steps.max() <= COARSEST:
        grids.append(LabelGrid(f"{decimals} decimals", DOUBLE.unit, steps, places=places))
    if digits <= MOST_DIGITS and (labels.digits < labels.decimals + labels.exponents + 1).any():
        unit = FORMAT_STEPS * 10.0 ** (1 - digits)
        grids.append(LabelGrid(f"{digits} significant digits", unit, nothing, digits=digits))
    return grids


@dataclass(frozen=True, slots=True)
class _LabelChecks(Sums):
    """On which grids the labels of each output lie."""

    fits: BoolArray  # (formats, m)
    decimals: IntArray  # (m,): decimals that are needed, `MOST_DECIMALS` + 1 if there are more
    digits: IntArray  # (m,): significant digits that are needed, `MOST_DIGITS` + 1 if there are more
    exponents: IntArray  # (m,): of the largest label

    def merge(self, other: _LabelChecks) -> _LabelChecks:
        return _LabelChecks(
            self.fits & other.fits,
            np.maximum(self.decimals, other.decimals),
            np.maximum(self.digits, other.digits),
            np.maximum(self.exponents, other.exponents),
        )


@dataclass(frozen=True, slots=True)
class _GridSummand:
    """The grids of a block of labels in the user's units."""

    def __call__(self, first_row: int, X: Array, Y: Array) -> _LabelChecks:
        with np.errstate(over="ignore"):
            fits = np.stack([(Y.astype(kind) == Y).all(axis=0) for kind in FORMATS.values()])
        exponents = np.floor(np.log10(np.where(Y == 0, 1.0, np.abs(Y))))
        decimals = _fewest([Y * 10.0**places for places in range(MOST_DECIMALS + 1)])
        digits = 1 + _fewest([Y * 10.0 ** (places - exponents) for places in range(MOST_DIGITS)])
        return _LabelChecks(fits, decimals, digits, exponents.max(axis=0).astype(np.int64))


def _fewest(scaled: list[Array]) -> IntArray:
    """Return for each output the first of several scales on which all labels are integers, or their number."""
    first = np.full(scaled[0].shape[1], len(scaled))
    for place in range(len(scaled) - 1, -1, -1):
        rounding = 4 * np.finfo(np.float64).eps * np.abs(scaled[place])
        is_integer = np.abs(scaled[place] - np.rint(scaled[place])) <= rounding
        first[(is_integer & (rounding < COARSEST)).all(axis=0)] = place
    return first


# Relative singular value of the Jacobian that noisy data need, and what rounding leaves of a singular one. The value is the
# root of an eigenvalue of a Gram matrix, in which a fit by normal equations moves little along what lies below: nearly
# collinear inputs ended a hundred per cent off at 2e-6.
CONDITIONING_TOL = 1e-5
SINGULAR = 1e-8
# The samples are reproduced, but they do not settle the network.
UNDETERMINED = (Outcome.NOT_IDENTIFIABLE, Outcome.ILL_CONDITIONED)


class UnitCounts(Protocol):
    """On how many samples each unit is on, as several passes count it."""

    @property
    def n_samples(self) -> int:
        """Number of samples."""

    @property
    def active(self) -> IntArray:
        """Samples on which each unit is on; shape (k,)."""


def both_sides(network: TwoLayerNetwork, rows: UnitCounts) -> tuple[Evidence, Evidence]:
    """Every unit needs d + 2 samples where it is on and k + 1 where it is off.

    It is d + 2 on either side where there is one input, and where a linear part makes both sides alike.
    """
    on, off = rows.active, rows.n_samples - rows.active
    needed, source = (network.n_hidden + 1, "k + 1") if network.n_features > 1 else (3, "d + 2")
    if network.B is not None:
        needed, source = network.n_features + 2, "d + 2"
    return (
        Evidence(
            "samples on which the rarest unit is on",
            int(on.min()),
            network.n_features + 2,
            ">=",
            "d + 2",
            key=Check.UNIT_ON,
        ),
        Evidence(
            "samples on which the most frequent unit is off",
            int(off.min()),
            needed,
            ">=",
            source,
            key=Check.UNIT_OFF,
        ),
    )


def named_failure(
    rows: UnitCounts,
    info: Information,
    rank: Evidence,
    on: Evidence,
    off: Evidence,
    *search: Evidence,
    singular: float = SINGULAR,
) -> tuple[Outcome, str] | None:
    """Return the outcome with a sentence that names the unit at fault, or None if all checks hold.

    `on`, `off`: as `both_sides` returns them; `search`: the line on rival units, if they were searched for;
    `singular`: what rounding leaves of a singular value that is zero.
    """
    if not on.passed:
        unit = int(np.argmin(rows.active))
        seen = f"{rows.active[unit]} of {rows.n_samples} samples"
        return (
            Outcome.NOT_IDENTIFIABLE,
            f"Unit {unit + 1} was active in {seen}; {on.required:.0f} are needed.",
        )
    if not off.passed:
        unit = int(np.argmax(rows.active))
        idle = rows.n_samples - rows.active[unit]
        return (
            Outcome.NOT_IDENTIFIABLE,
            f"Unit {unit + 1} was inactive in {idle} of {rows.n_samples} samples ({off.required:.0f} are needed): "
            "it cannot be told from a linear part.",
        )
    if not rank.passed:
        is_singular = info.conditioning <= singular
        return (
            Outcome.NOT_IDENTIFIABLE if is_singular else Outcome.ILL_CONDITIONED,
            f"The samples leave a direction of unit {info.weakest_unit + 1} undetermined: relative singular value "
            f"{info.conditioning:.1e}, needed {rank.required:.1e}.",
        )
    for line in search:
        if not line.passed:
            text = f"{line.measured:.0f} further unit(s) explain the same samples equally well."
            return Outcome.NOT_IDENTIFIABLE, text
    return None


def first_failure(checks: Sequence[Evidence]) -> str:
    """Return a sentence on the first check that fails, or nothing."""
    for item in checks:
        if not item.passed:
            return f"{item.shortfall}."
    return ""


def model_uncertainty(
    problem: Problem, fit: Refinement, offset: bool, biases: bool, known: Information | None = None
) -> Uncertainty | Unavailable:
    """Return the standard errors of a fit, for noise of one variance, in the user's units.

    `known`: what the rows say about it in other units.
    """
    unknowns = degrees_of_freedom(fit.network, offset=offset, biases=biases)
    freedom = problem.n_samples * problem.n_outputs - unknowns
    if freedom <= 0:
        return Unavailable("There are no more equations than unknowns, so the noise cannot be estimated.")
    info = information(
        fit.sums, fit.network, offset=offset, biases=biases, units=problem.scaling, known=known
    )
    if info.variances is None:
        return Unavailable(f"The information matrix is singular along unit {info.weakest_unit + 1}.")
    variance = fit.cost / freedom
    errors = {name: np.sqrt(variance * value) for name, value in info.variances.items()}
    return Uncertainty(errors, float(np.sqrt(variance)) * problem.scaling.y_scale)


def with_curvature(doubt: Uncertainty | Unavailable, network: TwoLayerNetwork) -> Uncertainty | Unavailable:
    """Add to standard errors what the curvature of unit rows does at second order.

    A row w that moves by δ across itself is divided by its norm, 1 + |δ|²/2, and so are its bias and, inversely, its
    output weights. To first order that is nothing: a weight that is found at 1 would have no error at all. For normal δ
    of total variance e² the root mean square of |δ|²/2 is at most √(3/4) e². `network`: in the user's units.

    Examples
    --------
    >>> doubt = Uncertainty({"W": np.array([[0.0, 0.1]])}, 1.0)
    >>> errors = with_curvature(doubt, TwoLayerNetwork([[1.0, 0.0]], None, [[1.0]]))
    >>> errors.standard_errors["W"].round(4)
    array([[0.0087, 0.1   ]])
    """
    if isinstance(doubt, Unavailable):
        return doubt
    errors = dict(doubt.standard_errors)
    relative = np.sqrt(0.75) * (errors["W"] ** 2).sum(axis=1)
    errors["W"] = np.hypot(errors["W"], network.W * relative[:, None])
    for name, size in {"b": network.b * relative, "A": network.A * relative}.items():
        if name in errors:  # a bias that was not fitted has no error
            errors[name] = np.where(errors[name] > 0, np.hypot(errors[name], size), 0.0)
    return replace(doubt, standard_errors=errors)
