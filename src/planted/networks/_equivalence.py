r"""Decide from the parameters whether two networks are the same function: equal, different, or not to be told.

Problem     Two networks f and g are given by floating-point numbers, and copies of one network (scaled, split, sorted) agree
            only up to rounding. Say "equal" or "different" only if it is true.
Idea        The difference h = f - g is first computed exactly (`_exact_units`): if it is zero, the two are the same
            function everywhere. Otherwise hyperplanes that nearly agree are grouped. With a reference row r in each group,
            every row of the group is λ r + δ, and since a rectifier moves by no more than its argument,

            .. math:: |h(x)| \le \sum_i |a_i|\,|\delta_i|\,|\tilde x| + \sum_g |s_g|\,|r_g|\,|\tilde x|
                      + |V \tilde x|, \qquad \tilde x = (x, 1)                                         \quad (1)

            where s_g is what is left of the coefficients in group g and V the affine part that is left. Conversely, if
            every weight is only known up to a relative error u, the value of the difference at x is known up to

            .. math:: \varepsilon(x) = 2u \sum_i |a_i|\,(|w_i|\,|x| + |b_i|) + u\,|c|                   \quad (2)

            with the sum over the units that are on at x.
Decision    *Equal* without a tolerance: each sum in (1) is at most u times the sum of the sizes of its terms, hyperplane by
            hyperplane and weight by weight, and (1) is below `HIDDEN` of the outputs' scale. With a tolerance: (1) is at
            most the tolerance times the scale. *Different*: at a witness the difference, evaluated exactly, exceeds the
            tolerance and (2). Otherwise the parameters do not tell. Sizes of terms that cancel enter neither tolerance.
Scale       The scale of an output is half its range on typical inputs: standard normal ones times `scale`, and the feet of
            its hyperplanes among them. An output that is constant there is looked at farther out. A bound holds on the box
            `BOX * scale`, and in proportion to the p-th power of the distance beyond it (p is the degree).
Powers      For activations of degree p > 1 the bound (1) uses |t^p - s^p| <= p max(|t|, |s|)^(p-1) |t - s| on the box,
            and norms of the symmetric tensors of the polynomial that is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from planted._streams import solver_streams
from planted._typing import Array, IntArray
from planted.networks._curved_forms import curved_agreement
from planted.networks._exact_units import ExactSum, Plane, exact_sum, to_float
from planted.networks._kinks import ScaledUnits, group_units, scale_units, sum_labels

if TYPE_CHECKING:
    from planted.networks._network import TwoLayerNetwork

__all__ = ["Agreement", "are_equivalent", "find_agreement"]

ROUNDING = 2.0**-49  # u of (2): eight roundings of one weight
UNIT = 2.0**-53
UNDERFLOW = 2.0**-1000  # more than is lost where numbers far below one underflow
# Part of the scale: a larger difference is not put down to rounding, whatever the sizes of the terms.
HIDDEN = 1e-9
VALUES = 2.0**-48  # rounding of the outputs themselves, relative to their values
BOX = 3.0  # in units of the typical inputs
N_TYPICAL = 256
N_FEET = 500  # of hyperplanes, at which outputs are evaluated
MOST_VALUES = 30_000_000  # pre-activations that are computed in the search for a witness
FARTHER = tuple(4.0**j for j in range(26))
N_WITNESSES = 2000
CLEARLY = 2.0  # times what is needed
N_VERIFIED = 5  # candidates whose difference is evaluated exactly
LARGEST_TENSOR = 1_000_000  # entries
NORM_ERROR = 1e-7  # of the norm identity for larger tensors: square root of 1e-14


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether two networks are the same function."""

    is_equal: bool | None  # None: the parameters do not tell
    is_exact: bool  # whether the difference is zero in exact arithmetic
    bound: float  # proved: largest difference on the box; infinite if there is none
    relative: float  # the bound, each output in units of its scale
    difference: float  # at the witness
    witness: Array | None  # an input at which the two differ


def are_equivalent(net: TwoLayerNetwork, other: TwoLayerNetwork, *, tol: float) -> bool:
    """Decide whether two networks are proved to agree up to `tol`; False if their inputs or outputs differ in number."""
    if (net.n_features, net.n_outputs) != (other.n_features, other.n_outputs):
        return False
    return find_agreement(net, other, tol=tol, needs_witness=False).is_equal is True


def find_agreement(
    net: TwoLayerNetwork,
    other: TwoLayerNetwork,
    *,
    tol: float | None,
    scale: Any = 1.0,
    rng: np.random.Generator | None = None,
    needs_witness: bool = True,
) -> Agreement:
    """Decide whether two networks of the same shape are the same function.

    `tol`: differences up to this part of an output's scale are none; if None, only what rounding of the weights explains.
    """
    sizes = np.broadcast_to(np.asarray(scale, dtype=np.float64), (net.n_features,))
    rng = solver_streams(0, 1)[0] if rng is None else rng
    if not (_is_polynomial(net) and _is_polynomial(other)):
        return curved_agreement((net, other), tol=tol, sizes=sizes, rng=rng)
    difference = exact_sum([(net, 1), (other, -1)])
    if difference.is_zero():
        return Agreement(True, True, 0.0, 0.0, 0.0, None)
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = _output_scales((net, other), sizes, rng)
        box = np.append(BOX * outputs.farther * sizes, 1.0)
        proof = _best_bound(difference, box, outputs, tol)
        share = outputs.allowed(HIDDEN if tol is None else tol)
        is_small = (proof.bound <= share).all()
        relative = float((proof.bound / np.where(outputs.scale > 0, outputs.scale, np.inf)).max())
        bound = float(proof.bound.max())
        if is_small and (tol is not None or proof.is_rounding):
            return Agreement(True, False, bound, relative, 0.0, None)
        found = None
        if needs_witness:
            share = np.zeros_like(share) if tol is None else share
            found = _find_witness((net, other), difference, box, share, rng)
    if found is None:
        return Agreement(None, False, bound, relative, 0.0, None)
    return Agreement(False, False, bound, relative, found[1], found[0])


@dataclass(frozen=True, slots=True)
class _Outputs:
    """The scales of the outputs: half their range, and their largest value on typical inputs."""

    scale: Array  # (m,)
    values: Array  # (m,)
    farther: float  # how many times larger than typical the inputs are

    def allowed(self, tol: float) -> Array:
        """Differences that count as none: a part of the scale, or the rounding of the values."""
        return np.maximum(tol * self.scale, VALUES * self.values)


def _output_scales(nets: tuple[TwoLayerNetwork, ...], sizes: Array, rng: np.random.Generator) -> _Outputs:
    """Half the range of each output, from below: what rounding may add to the values is taken off.

    If cancelling terms leave too few digits, some values are computed exactly.
    """
    typical = rng.standard_normal((N_TYPICAL, sizes.size)) * sizes
    feet = np.concatenate([_feet(net) for net in nets])
    feet = feet[:: 1 + len(feet) // N_FEET]
    found: list[_Outputs] = []
    for farther in FARTHER:
        near = feet[(np.abs(feet) <= BOX * farther * sizes).all(axis=1)]
        rows = np.concatenate([typical * farther, near])
        parts = [_half_range(net, rows) for net in nets]
        scale, values = (np.maximum(one, other) for one, other in zip(*parts, strict=True))
        # Rounding is that of values on typical inputs; farther out they are larger, and so is what would count as none.
        usual = found[0].values if found else values
        found.append(_Outputs(np.where(scale > 0, scale, values), usual, farther))
        # Exact where terms that cancel hide it: their size says nothing about the outputs.
        if (scale > 0).all():
            return found[-1]
        if len(near) == len(feet):
            break  # nothing new farther out
    return found[0]


def _half_range(net: TwoLayerNetwork, rows: Array) -> tuple[Array, Array]:
    """Half the range of each output, and its largest value.

    The range is computed exactly on a few rows where rounding hides it.
    """
    answers, terms = net(rows), _term_sizes(net, rows)
    doubt = 8 * UNIT * (net.n_hidden + net.n_features + 2) * terms
    high, low = (answers - doubt).max(axis=0), (answers + doubt).min(axis=0)
    certain, apparent = (high - low) / 2, np.ptp(answers, axis=0) / 2
    values = np.abs(answers).max(axis=0)
    if (certain < apparent / 2).any():
        total = exact_sum([(net, 1)])
        few = np.concatenate([rows[:12], rows[N_TYPICAL : N_TYPICAL + 12]])
        exact = np.array([[to_float(one) for one in total(row)] for row in few])
        return np.ptp(exact, axis=0) / 2, np.abs(exact).max(axis=0)
    return np.maximum(certain, 0.0), values


def _is_polynomial(net: TwoLayerNetwork) -> bool:
    """Whether the pieces of the activation are polynomials, which are added up exactly."""
    return not net.activation.is_curved and float(net.activation.degree).is_integer()


def _term_sizes(net: TwoLayerNetwork, rows: Array) -> Array:
    """Sizes of the terms of the outputs at rows, counting the units that may be on; (n, m)."""
    p, activation = net.activation.degree, net.activation
    reach = np.abs(rows) @ np.abs(net.W).T + np.abs(net.b)
    t = rows @ net.W.T + net.b
    slack = 4 * ROUNDING * reach
    factor = np.maximum(
        np.where(t > -slack, abs(activation.right), 0.0), np.where(t < slack, abs(activation.left), 0.0)
    )
    terms = (factor * reach**p) @ np.abs(net.A).T + np.abs(net.c)
    return np.asarray(terms if net.B is None else terms + np.abs(rows) @ np.abs(net.B).T)


def _feet(net: TwoLayerNetwork) -> Array:
    """The points of the hyperplanes that are nearest to the origin."""
    units = scale_units(net)
    return np.asarray(-units.offsets[:, None] * units.normals)


@dataclass(frozen=True, slots=True)
class _Proof:
    """The bound (1) on the box, output by output, and whether rounding of the weights explains all of it."""

    bound: Array
    is_rounding: bool


def _best_bound(difference: ExactSum, box: Array, outputs: _Outputs, tol: float | None) -> _Proof:
    """The first bound that proves equality, or the smallest, over several ways to group hyperplanes; each is valid."""
    widths = {1e-14, 1e-12, 1e-9} | (set() if tol is None else {min(tol, 0.1), min(30 * tol, 0.1)})
    scale = np.where(outputs.scale > 0, outputs.scale, 1.0)
    straight = [plane for plane in difference.planes.get(1, []) if not any(plane.breaks(1))]
    left = {id(plane) for plane in straight}
    bent = {
        p: _as_arrays(kept, p)
        for p, planes in difference.planes.items()
        if (kept := [plane for plane in planes if id(plane) not in left])
    }
    proofs = []
    for width in sorted(widths):
        rest = _Rest(difference, straight, box.size)
        proof = _bound(bent, rest, box, width)
        if proof.is_rounding if tol is None else (proof.bound <= outputs.allowed(tol)).all():
            return proof
        proofs.append(proof)
    return min(proofs, key=lambda proof: float(np.nan_to_num(proof.bound / scale, nan=np.inf).max()))


def _bound(bent: dict[int, _Bent], rest: _Rest, box: Array, width: float) -> _Proof:
    """The bound (1) where hyperplanes within `width` are grouped."""
    bound, is_rounding = np.zeros(len(rest.affine)), True
    for planes in bent.values():
        part, is_explained = _group(planes, width).bound(box, rest)
        bound = bound + part
        is_rounding = is_rounding and is_explained
    left, is_explained = rest.bound(box)
    return _Proof(bound + left, is_rounding and is_explained)


class _Rest:
    """The affine part that is left, with the sizes of its terms, and polynomials of higher degree."""

    def __init__(self, difference: ExactSum, straight: list[Plane], width: int) -> None:
        """Begin with the constant and with the hyperplanes of degree one whose breaks cancel exactly."""
        m = len(difference.constant)
        self.affine = np.zeros((m, width))
        self.sizes = np.zeros((m, width))
        self.errors = np.zeros((m, width))
        self.powers: list[tuple[int, Array, Array]] = []  # degree, rows (h, d + 1), coefficients (m, h)
        exact = difference.affine(straight)
        self.affine[:, -len(exact[0]) :] = [[to_float(one) for one in row] for row in exact]
        self.sizes[:, -1] += difference.constant_size
        if difference.linear is not None:
            self.sizes[:, :-1] += difference.linear_size
        for plane in straight:
            self.sizes += plane.size[:, None] * np.abs(plane.row)

    def add(self, coefficients: Array, rows: Array, sizes: Array) -> None:
        """Add affine terms: coefficients (m, h), sizes of what they were summed from (m, h), rows (h, d + 1)."""
        self.affine = self.affine + coefficients @ rows
        self.sizes = self.sizes + sizes @ np.abs(rows)
        self.errors = self.errors + (2 + len(rows)) * UNIT * (np.abs(coefficients) @ np.abs(rows))

    def bound(self, box: Array) -> tuple[Array, bool]:
        size = np.abs(self.affine) + self.errors
        total = size @ box
        is_rounding = bool((np.abs(self.affine) <= ROUNDING * self.sizes).all())
        for degree, rows, coefficients in self.powers:
            part = _polynomial_bound(degree, rows, coefficients, box)
            whole = np.abs(coefficients) @ (np.abs(rows) @ box) ** degree
            is_rounding = is_rounding and bool((part <= 2 * (1 + degree) * ROUNDING * whole).all())
            total = total + part
        return total, is_rounding


@dataclass(frozen=True, slots=True)
class _Bent:
    """Hyperplanes of one degree as arrays; rows are scaled by powers of two to numbers of order one."""

    degree: int
    rows: Array  # (n, d + 1)
    ahead: Array  # (m, n)
    behind: Array  # (m, n)
    sizes: Array  # (m, n)


def _as_arrays(planes: list[Plane], degree: int) -> _Bent:
    """Round the exact coefficients of hyperplanes to floating point."""
    raw = np.array([plane.row for plane in planes])
    exponents = np.frexp(np.abs(raw).max(axis=1))[1]
    units = [Fraction(2) ** (int(e) * degree) for e in exponents]
    ahead, behind, sizes = (
        np.array([[to_float(x * unit) for x in part] for part, unit in zip(parts, units, strict=True)]).T
        for parts in zip(
            *((plane.ahead, plane.behind, map(Fraction, plane.size)) for plane in planes), strict=True
        )
    )
    return _Bent(degree, np.ldexp(raw, -exponents[:, None]), ahead, behind, sizes)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Hyperplanes grouped by near equality: row_i = ratio_i * row of the reference + shift_i."""

    planes: _Bent
    labels: IntArray  # (n,)
    reference: IntArray  # (h,): the plane to which a group is referred
    ratios: Array  # (n,)
    shifts: Array  # (n, d + 1): sizes, rounded up

    def bound(self, box: Array, rest: _Rest) -> tuple[Array, bool]:
        """The first two sums of (1) on the box, and whether rounding explains them; the rest is added to `rest`."""
        p, h = self.planes.degree, self.reference.size
        scale = np.abs(self.ratios) ** p
        facing = self.ratios > 0
        ahead = sum_labels(np.where(facing, self.planes.ahead, self.planes.behind) * scale, self.labels, h)
        behind = sum_labels(np.where(facing, self.planes.behind, self.planes.ahead) * scale, self.labels, h)
        terms = np.abs(self.planes.ahead) + np.abs(self.planes.behind)
        size = sum_labels(self.planes.sizes * scale, self.labels, h)
        slack = (2 + np.bincount(self.labels, minlength=h)) * UNIT * sum_labels(terms * scale, self.labels, h)
        is_sided = (np.abs(ahead) <= ROUNDING * size) & (np.abs(behind) <= ROUNDING * size)
        breaks = ahead - (-1.0) ** p * behind
        left = np.where(is_sided, np.abs(ahead) + np.abs(behind), np.abs(breaks)) + slack
        rows = self.planes.rows[self.reference]
        smooth = np.where(is_sided, 0.0, (-1.0) ** p * behind)
        if p == 1:
            rest.add(smooth, rows, np.where(is_sided, 0.0, size))
        elif smooth.any():
            rest.powers.append((p, rows, smooth))
        reach = np.abs(self.planes.rows) @ box
        moved = p * reach ** (p - 1) * (self.shifts @ box)
        total = terms @ moved * (1 + 1e-12) + left @ (np.abs(rows) @ box) ** p
        # In every weight the rows of a group may differ by no more than rounding.
        are_near = (self.shifts <= ROUNDING * np.abs(self.planes.rows) + UNDERFLOW).all()
        return total, bool((left <= ROUNDING * size + slack).all() and are_near)


def _group(planes: _Bent, width: float) -> _Groups:
    """Group hyperplanes within `width` of each other and refer each group to its strongest one."""
    rows, ahead, behind = planes.rows, planes.ahead, planes.behind
    norms = np.linalg.norm(rows[:, :-1], axis=1)
    norms = np.where(norms > 0, norms, 1.0)
    scaled = ScaledUnits(rows[:, :-1] / norms[:, None], rows[:, -1] / norms, ahead, np.zeros(0))
    labels = group_units(scaled, tol=width).labels
    reference = np.zeros(int(labels.max()) + 1, dtype=np.intp)
    ascending = np.argsort(np.abs(ahead).sum(axis=0) + np.abs(behind).sum(axis=0), kind="stable")
    reference[labels[ascending]] = ascending  # the strongest writes last
    base = rows[reference][labels]
    pivot = np.abs(base).argmax(axis=1)
    place = np.arange(len(rows))
    ratios = rows[place, pivot] / base[place, pivot]
    ratios = np.where(ratios == 0, 1.0, ratios)
    product, error = _product(ratios[:, None], base)
    shifts = np.abs((rows - product) - error) * (1 + 4 * UNIT) + UNDERFLOW * ((rows != 0) | (base != 0))
    shifts[place == reference[labels]] = 0.0
    return _Groups(planes, labels, reference, ratios, shifts)


def _product(one: Array, other: Array) -> tuple[Array, Array]:
    """A product and its rounding error (Dekker); exact for numbers of order one."""
    product = one * other
    parts = []
    for factor in (one, other):
        large = factor * (2.0**27 + 1)
        high = large - (large - factor)
        parts.append((high, factor - high))
    (a, b), (c, e) = parts
    return product, ((a * c - product) + a * e + b * c) + b * e


def _polynomial_bound(degree: int, rows: Array, coefficients: Array, box: Array) -> Array:
    """Bound |sum_j g_j (n_j x + o_j)^p| on the box by the norms of its symmetric tensors, order by order.

    The normals are first written in coordinates of the space that they span.
    """
    used = (coefficients != 0).any(axis=0)
    coefficients, normals, offsets = coefficients[:, used], rows[used, :-1] * box[:-1], rows[used, -1]
    vectors, values, _ = np.linalg.svd(normals, full_matrices=False)
    kept = values > 0
    coordinates = vectors[:, kept] * values[kept]
    radius = np.sqrt(normals.shape[1])  # of the box, whose sides were scaled to one
    total = np.zeros(len(coefficients))
    lengths = np.linalg.norm(coordinates, axis=1)
    for order in range(degree + 1):
        weights = coefficients * (comb(degree, order) * offsets ** (degree - order))
        size = np.abs(weights) @ lengths**order
        norm, error = _tensor_norm(weights, coordinates, order)
        total = total + (norm + (error + 4 * degree * len(offsets) * UNIT) * size) * radius**order
    return total


def _tensor_norm(weights: Array, rows: Array, order: int) -> tuple[Array, float]:
    """Norm of sum_j w_j n_j^{⊗order} for each output, and the relative error of that number."""
    if order == 0:
        return np.abs(weights.sum(axis=1)), 0.0
    if max(rows.shape[1], 1) ** order > LARGEST_TENSOR:
        squares = np.einsum("ri,ij,rj->r", weights, (rows @ rows.T) ** order, weights, optimize=True)
        return np.sqrt(np.maximum(squares, 0.0)), NORM_ERROR
    low, high = _tensor_powers(rows, order // 2), _tensor_powers(rows, order - order // 2)
    return np.array([np.linalg.norm((low * row[:, None]).T @ high) for row in weights]), 0.0


def _tensor_powers(rows: Array, order: int) -> Array:
    """The tensor power of each row, flattened."""
    count, d = rows.shape
    powers = np.ones((count, 1))
    for _ in range(order):
        powers = (powers[:, :, None] * rows[:, None, :]).reshape(count, powers.shape[1] * d)
    return powers


def _find_witness(
    nets: tuple[TwoLayerNetwork, TwoLayerNetwork],
    difference: ExactSum,
    box: Array,
    allowed: Array,
    rng: np.random.Generator,
) -> tuple[Array, float] | None:
    """An input at which the exact difference exceeds what is allowed there and (2), and the difference; or None."""
    sides = box[:-1]
    rows = _candidates(nets, sides, rng)
    rows = rows[:: 1 + len(rows) * sum(net.n_hidden for net in nets) // MOST_VALUES]
    p = max(net.activation.degree for net in nets)
    doubt = sum((1 + p) * ROUNDING * 1.05 * _term_sizes(net, rows) for net in nets)
    growth = np.maximum(1.0, (np.abs(rows) / sides).max(axis=1)) ** p
    needed = doubt + growth[:, None] * allowed
    gaps = np.abs(_evaluate(difference, rows))
    with np.errstate(divide="ignore"):
        excess = np.where(np.isfinite(gaps), gaps / needed, -1.0).max(axis=1)
    # Of those that show a difference clearly, the one where it is largest for its distance.
    clear = np.where(excess > CLEARLY, gaps.max(axis=1) / growth, -1.0)
    likely = np.concatenate([np.argsort(-clear, kind="stable")[:1], np.argsort(-excess, kind="stable")])
    for row in likely[:N_VERIFIED]:
        if not excess[row] > 0.5:
            continue
        exact = np.array([abs(to_float(one)) for one in difference(rows[row])])
        if (exact > needed[row]).any():
            return rows[row], float(exact.max())
    return None


def _evaluate(difference: ExactSum, rows: Array) -> Array:
    """The difference in floating point, after what cancels exactly is gone; (n, m)."""
    total = np.tile([to_float(one) for one in difference.constant], (len(rows), 1))
    if difference.linear is not None:
        total = total + rows @ np.array([[to_float(one) for one in row] for row in difference.linear]).T
    for p, planes in difference.planes.items():
        t = rows @ np.array([plane.row[:-1] for plane in planes]).T + [plane.row[-1] for plane in planes]
        ahead, behind = (
            np.array([[to_float(x) for x in getattr(plane, side)] for plane in planes])
            for side in ("ahead", "behind")
        )
        total = total + np.maximum(t, 0.0) ** p @ ahead + np.maximum(-t, 0.0) ** p @ behind
    return total


def _candidates(nets: tuple[TwoLayerNetwork, ...], sides: Array, rng: np.random.Generator) -> Array:
    """Typical inputs, places on every hyperplane and on either side of it, near and far."""
    typical = rng.standard_normal((N_WITNESSES, sides.size)) * sides / BOX
    parts = [typical]
    size = float(np.linalg.norm(sides))
    for net in nets:
        units = scale_units(net)
        feet = _feet(net)
        near = np.minimum(1.0, size / np.maximum(np.abs(units.offsets), size))[:, None] * feet
        along = rng.standard_normal(feet.shape) * sides / BOX
        along -= np.einsum("kd,kd->k", along, units.normals)[:, None] * units.normals
        for places in (feet, feet + along, near):
            parts.append(places)
            parts += [places + step * size * units.normals for step in (-1.0, -1e-3, 1e-3, 1.0)]
        parts += [
            feet + step * (size + np.abs(units.offsets[:, None])) * units.normals for step in (-1.0, 1.0)
        ]
    rows = np.concatenate(parts)
    return rows[np.isfinite(rows).all(axis=1)]
