r"""Tests whether a model beside the network explains what it leaves: other powers, bent labels, a drift in the rows.

Problem     A model that is slightly wrong passes tests that look for anything at all. Units :math:`t_+^{1.1}`, labels of an
            instrument that saturates, :math:`L \tanh(f / L)`, rows that are missing where labels are large, an offset that
            drifts: each moves the parameters by many standard errors and leaves little of itself, which dozens of
            functions of x do not find among the noise of all of them.
Idea        Each such model departs from the network along one known function of x, or of the order of rows, in all outputs
            together. With D this departure, (n, m), and :math:`D_\perp` what the Jacobian leaves of it, the coefficient is

            .. math:: \hat\theta = \langle D_\perp, R\rangle / \|D_\perp\|^2,                                   \quad (1)

            which is one number with a standard error of its own. The departures are: h log|t|, the derivative of a power, in
            all units and in each (*powers*); a round bend in place of the kink, likewise, since a few weak units beside
            strong ones may stand for something smooth; the other side of the kink (*leaks*); the square and the cube of
            what the units add up to, in all outputs and in each (*bent labels*: saturation, selection by the label); the
            place in the order of rows, and the network times it (*drifts*).

            What matters is not whether a departure can be seen, but what it does. The part of D that the Jacobian takes
            moves the parameters, by :math:`\hat\theta J^+ D`. A departure that stays within `SEEN` standard errors of zero
            is chance. One beyond is held against a claim if it would move a parameter by more than `MOVES` of the
            parameter's standard errors, or if it is beyond `CERTAIN` itself. For departures of single units and outputs, of
            which there are many, the first number is the quantile at `LEVEL` for all of them.

            Standard errors of (1) are those of the noise: from the covariance of outputs if rows are independent and of one
            variance, from squares of the rows' own contributions, with lags if rows are correlated, otherwise. The
            contributions are those of the residual without the departure: a drift would else be its own noise.
            *Uncertain sides.* Standard errors take it for granted on which side of a kink every sample is. Where all inputs
            lie near a curve, a few samples that a unit just reaches may fix a direction which all others leave free, and
            another network, for which they are off, fits as well with quite other weights. So the standard errors are
            computed again without the samples in which a unit adds less than `CERTAIN_SIDE` standard deviations of the
            noise, and none may rise by more than `LARGEST_RISE`.
Guarantee   Asymptotic levels. In networks of 2 to 6 units a departure of one standard error moves the worst parameter by
            one; for single units by two. What it cannot see may so move a parameter by four standard errors, and other
            departures than these by more: the claim is about networks of this activation.
Cost        n k p (k p + 2 k + 5 m) operations on the rows in memory, p = d + 1.
References  Ramsey (1969), J. R. Statist. Soc. B 31, for powers of the prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from planted._typing import Array, IntArray, as_array
from planted.certificates.noise._chosen_rows import chosen_rows_evidence
from planted.certificates.noise._fitted_rows import FittedRows
from planted.certificates.noise._law import NoiseLaw
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom, hidden_changes, tangent_basis
from planted.fitting._refine import Refinement, weigh_blocks
from planted.fitting._run import Problem, Scaling
from planted.fitting._sandwich import long_run_deviation
from planted.linalg.symmetric import inverse_of, spectrum_of
from planted.moments import NormalSums, mask_rows
from planted.networks import TwoLayerNetwork
from planted.results import Evidence, Unavailable, Uncertainty
from planted.rows import RowWeights

__all__ = ["Beside", "Departure", "chosen_rows_line", "near_model_evidence"]

SEEN, CERTAIN = 2.0, 3.5  # standard errors of a coefficient
MOVES = 3.0  # standard errors of a parameter
BEND_WIDTH = 0.25  # of a softplus, in standard deviations of a unit's pre-activation
CERTAIN_SIDE = 3.0  # standard deviations of the noise, all outputs together
LARGEST_RISE = 3.0  # ordinary problems have at most 2; inputs on a curve gave 60, with parameters 180 standard errors off
SOME_OF_ALL = 1e-4
LEVEL = 0.005  # of the tests of single units and outputs, all together
_SLICE_ROWS = 1024  # masked inputs of one slice stay in the cache
FAR_FROM_DEPENDENT = (
    1e-3  # part of a column outside the others above which products of them lose no digits that matter
)
DEPENDENT = 1e-6  # part of a departure outside the Jacobian below which it is one of the network's own


def near_model_evidence(
    problem: Problem,
    fit: Refinement,
    law: NoiseLaw,
    doubt: Uncertainty | Unavailable,
    *,
    offset: bool,
    biases: bool = True,
    weights: RowWeights | None = None,
    at: FittedRows | None = None,
) -> tuple[Evidence, ...]:
    """Return the line on the departure that speaks most against a network, and that on samples of uncertain side.

    `doubt`: the standard errors of the parameters, in the user's units. `at`: the network at the rows in memory, if that
    was computed already. Nothing where no departure could be tested.
    """
    at = at or FittedRows(problem, fit.network, weights)
    freedom = (
        len(problem.X) - degrees_of_freedom(fit.network, offset=offset, biases=biases) / problem.n_outputs
    )
    if freedom <= 0:
        return ()
    functions, departures, squares_and_cubes = _departures(at)
    # Rows with weights of their own are summed with them, and are taken without them here.
    known = fit.sums if problem.holds_all_rows and problem.w is None else None
    beside = Beside.of(at, functions, offset=offset, biases=biases, known=known)
    singles = sum(departure.is_single for departure in departures)
    least = float(special.ndtri(1 - LEVEL / 2 / max(singles, 1)))
    lines = []
    for departure, coefficient, score in zip(
        departures, *beside.coefficients(departures, law, freedom), strict=True
    ):
        limit, effect = least if departure.is_single else SEEN, ""
        if abs(score) > limit:
            moved = abs(coefficient) * _largest(beside.shifts(departure, problem.scaling), doubt)
            most = MOVES * abs(score) / moved if moved * CERTAIN > MOVES * abs(score) else CERTAIN
            limit, effect = max(limit, most), f"moves a parameter by {moved:.2g} standard errors"
        name = f"{departure.name}, in standard errors"
        lines.append(Evidence(name, abs(score), limit, "<=", effect, key=Check.NEAR_MODELS))
    nearest = max(lines, key=lambda line: line.measured / line.required)
    chosen = _chosen_evidence(at, beside, squares_and_cubes, law, freedom)
    return nearest, *_side_evidence(beside, freedom, biases=biases), *chosen


def chosen_rows_line(
    problem: Problem, network: TwoLayerNetwork, law: NoiseLaw, *, offset: bool
) -> tuple[Evidence, ...]:
    """Return the line on rows chosen by their labels for a network that was fitted to combinations of the outputs."""
    at, m = FittedRows(problem, network), network.n_outputs
    freedom = len(problem.X) - degrees_of_freedom(network, offset=offset) / m
    beside = Beside.of(at, np.vstack(_powers_of_outputs(at)), offset=offset)
    return _chosen_evidence(at, beside, np.arange(2 * m).reshape(2, m), law, freedom)


def _chosen_evidence(
    at: FittedRows, beside: Beside, squares_and_cubes: IntArray, law: NoiseLaw, freedom: float
) -> tuple[Evidence, ...]:
    """Return the line on rows chosen by their labels; nothing for weighted rows, whose noise has other laws.

    `squares_and_cubes`: places of those of the outputs among the functions, (2, m).
    """
    if at.weights is not None:
        return ()
    net = at.network
    # The square, the cube and both: the last has the covariance of the others in its variance.
    powers = [
        Departure("", places[part], np.repeat(np.eye(net.n_outputs)[:, [output]], len(places[part]), axis=1))
        for output, places in enumerate(squares_and_cubes.T)
        for part in (slice(0, 1), slice(1, 2), slice(0, 2))
    ]
    _, along, errors = beside.along(powers, law, freedom)
    first, second, both = (errors**2).reshape(-1, 3).T
    mixed = (both - first - second) / 2
    covariances = [np.array([[a, c], [c, b]]) for a, b, c in zip(first, second, mixed, strict=True)]
    return chosen_rows_evidence(at.F - net.c[:, None], at.residual, along.reshape(-1, 3)[:, :2], covariances)


def _side_evidence(beside: Beside, freedom: float, *, biases: bool) -> tuple[Evidence, ...]:
    """Return by how much a standard error rises without samples whose side of a kink the noise does not tell.

    Nothing for units without kinks.
    """
    net = beside.network
    if net.activation.is_curved:
        return ()
    levels = np.sqrt(np.maximum(np.diag(beside.squares) / freedom, np.finfo(float).tiny))
    A = net.A / levels[:, None]
    is_certain = (A**2).sum(axis=0)[:, None] * beside.H**2 > CERTAIN_SIDE**2
    # A little of all samples, so that a direction which the others leave free has an error, and a large one.
    certain = beside.products_without(np.where(is_certain, 0.0, beside.slopes))
    certain += SOME_OF_ALL * beside.hidden_products
    T = tangent_basis(net, biases=biases)
    variances = [np.diag(_spread(N, A, T)) for N in (beside.hidden_products, certain)]
    is_free = variances[0] > DEPENDENT**2 * variances[0].max()
    rise = float(np.sqrt(np.max(variances[1][is_free] / variances[0][is_free], initial=1.0)))
    name = "rise of a standard error without samples that are on by less than three standard deviations of the noise"
    return (Evidence(name, rise, LARGEST_RISE, "<=", key=Check.UNCERTAIN_SIDES),)


@dataclass(frozen=True, slots=True)
class Departure:
    """A direction beside the network: some functions of the rows times weights in the outputs."""

    name: str
    functions: IntArray  # (q,): places among all functions
    outputs: Array  # (m, q)
    is_single: bool = False  # of one unit or one output


@dataclass(frozen=True, slots=True)
class _Parts:
    """The functions of several departures side by side."""

    functions: IntArray  # (all,): places among all functions
    outputs: Array  # (m, all)
    starts: IntArray  # (r,): where each departure begins

    @classmethod
    def of(cls, departures: Sequence[Departure]) -> _Parts:
        """Put them side by side."""
        functions = np.concatenate([item.functions for item in departures])
        starts = np.cumsum([0, *(len(item.functions) for item in departures[:-1])])
        return cls(functions, np.hstack([item.outputs for item in departures]), starts)

    def sums(self, values: Array) -> Array:
        """Sum over the functions of each departure. Shapes: values (..., all), result (..., r)."""
        return as_array(np.add.reduceat(values, self.starts, axis=-1))


def _departures(at: FittedRows) -> tuple[Array, list[Departure], IntArray]:
    """Return functions of the rows, (q, n), the departures that they make up, and where outputs' powers are, (2, m)."""
    net, t, H, n = at.network, at.t, at.H, len(at.problem.X)
    A, m, k = net.A, net.n_outputs, net.n_hidden
    has_kinks, is_whole = not net.activation.is_curved, at.problem.holds_all_rows
    functions = np.empty((3 * k * has_kinks + 2 * m + (m + 1) * is_whole, n))
    departures: list[Departure] = []
    taken = 0

    def depart(names: tuple[str, str], outputs: Array) -> Array:
        """Add a departure in all of some functions together, and in every one if there are several; where they go."""
        nonlocal taken
        places = taken + np.arange(outputs.shape[1])
        taken += len(places)
        together, alone = names
        departures.append(Departure(together, places, outputs))
        if alone and len(places) > 1:
            departures.extend(
                Departure(f"{alone} {index + 1}", places[[index]], outputs[:, [index]], True)
                for index in range(len(places))
            )
        return functions[taken - len(places) : taken]

    if has_kinks:
        powers = depart(("another power of the units", "another power of unit"), A)
        np.abs(t, out=powers)
        np.maximum(powers, np.finfo(float).tiny, out=powers)
        np.multiply(H, np.log(powers, out=powers), out=powers)
        bumps = depart(("round bends of the units", "a round bend of unit"), A)
        widths = np.maximum(BEND_WIDTH * t.std(axis=1), np.finfo(float).tiny)[:, None]
        np.abs(t, out=bumps)
        np.exp(np.divide(bumps, -widths, out=bumps), out=bumps)
        np.multiply(widths, np.log(np.add(1, bumps, out=bumps), out=bumps), out=bumps)
        leaks = depart(("the other side of the kinks", ""), A)
        np.maximum(-t, 0.0, out=leaks)
        if net.activation.degree != 1:  # a power of one takes as long as any other
            np.power(leaks, net.activation.degree, out=leaks)
    added, each = at.F - net.c[:, None], np.eye(m)
    squares_and_cubes = taken + np.arange(2 * m).reshape(2, m)
    names = (
        ("the square of the outputs", "the square of output"),
        ("the cube of the outputs", "the cube of output"),
    )
    for name, power in zip(names, _powers_of_outputs(at), strict=True):
        depart(name, each)[:] = power
    if is_whole:
        place = np.linspace(-1.0, 1.0, n)
        np.multiply(place, added, out=depart(("the outputs' size rising with the order of rows", ""), each))
        functions[taken] = place
        departures.extend(
            Departure(f"the order of rows in output {output + 1}", np.array([taken]), each[:, [output]], True)
            for output in range(m)
        )
    return functions, departures, squares_and_cubes


def _powers_of_outputs(at: FittedRows) -> tuple[Array, Array]:
    """Return squares and cubes of what the units and the linear part add up to, over its size and its square, (m, n)."""
    added = at.F - at.network.c[:, None]
    sizes = np.sqrt(np.einsum("mn,mn->m", added, added) / added.shape[1])
    relative = added / np.maximum(sizes, np.finfo(float).tiny)[:, None]
    squares = added * relative
    return squares, squares * relative


@dataclass(frozen=True, slots=True)
class Beside:
    """Functions of the rows beside the Jacobian of a network, on the rows in memory, the output layer eliminated."""

    network: TwoLayerNetwork
    has_offset: bool
    rows: Array  # (p, n): inputs and one
    H: Array  # (k, n): activations
    slopes: Array  # (k, n): of the units, weighted like all that follows
    residual: Array  # (m, n)
    Q: Array  # (g, n): orthonormal columns of the output layer
    inverse: Array  # (g, g): from coefficients of these to those of the columns themselves
    inner: Array  # (g, k p): coefficients of the hidden layer's columns
    hidden_products: Array  # (k p, k p): of what these leave of them
    spread: Array  # (k p, k p): inverse of the reduced normal matrix, along unit rows
    inside: Array  # (g, q): coefficients of the functions
    functions: Array  # (q, n): the functions
    squares_of_functions: Array  # (q,): their sums of squares
    products: Array  # (q, q): of what the output layer leaves of them
    with_hidden: Array  # (k p, q): their products with the hidden layer's columns
    with_residual: Array  # (q, m): their products with the residual
    hidden_residual: Array  # (k p, m): products of the hidden layer's columns with the residual
    squares: Array  # (m, m): products of the residual

    @classmethod
    def of(
        cls,
        at: FittedRows,
        functions: Array,
        *,
        offset: bool,
        biases: bool = True,
        known: NormalSums | None = None,
    ) -> Beside:
        """Take the Jacobian at the rows in memory, beside some functions of them, (q, n).

        `known`: the normal equations on these rows, with these weights, if they were summed already.
        """
        net = at.network
        rows = np.vstack([at.X, np.ones(at.X.shape[1])])
        G = np.vstack([at.H, *([] if net.B is None else [at.X]), *([rows[-1:]] if offset else [])])
        slopes, residual = at.slopes, at.weighted_residual
        if at.root is not None:
            slopes, G, functions = (at.root * values for values in (slopes, G, functions))
        Q, inverse, is_regular = _orthonormal_rows(G)
        # Products with the columns of the output layer and with the residual follow from the normal equations.
        given = known if is_regular else None
        products, with_hidden, among = _hidden_products(
            slopes,
            rows,
            [functions, Q, residual],
            n_masked=None if given is None else len(functions),
            known=None if known is None else known.ZZ,
        )
        q, g = len(functions), len(Q)
        if given is not None:
            inner, hidden_residual = inverse.T @ given.GZ[:g], given.ZR
        else:
            inner, hidden_residual = with_hidden[:, q : q + g].T, with_hidden[:, q + g :]
        own, inside, of_residual = np.split(among[:q], [q, q + g], axis=1)
        inside, in_residual = inside.T, among[q : q + g, q + g :]
        products = products - inner.T @ inner
        return cls(
            net,
            offset,
            rows,
            at.H,
            slopes,
            residual,
            Q,
            inverse,
            inner,
            products,
            _spread(products, net.A, tangent_basis(net, biases=biases)),
            inside,
            functions,
            np.diag(own),
            own - inside.T @ inside,
            with_hidden[:, :q] - inner.T @ inside,
            of_residual - inside.T @ in_residual,
            hidden_residual - inner.T @ in_residual,
            among[q + g :, q + g :],
        )

    def products_without(self, left_out: Array) -> Array:
        """Return the products of the hidden layer's columns, the output layer eliminated, without some of their entries.

        Few entries are left out, and the products of all are known. With U the columns of those, and Z all columns, the
        products of the rest are Z'Z less (Z - U/2)'U and its transpose. Shapes: left_out (k, n): slopes, zero where an
        entry stays; result (k p, k p).
        """
        k, p = len(left_out), len(self.rows)
        taken, kept = np.empty((k * p, k * p)), self.inner.T.copy()
        places = [np.flatnonzero(slopes) for slopes in left_out]
        memory = np.empty((k * p, max(map(len, places), default=0)))  # one for all: fresh memory takes longer
        halved = self.slopes - left_out / 2
        for unit, some in enumerate(places):
            own, rows = slice(unit * p, (unit + 1) * p), self.rows[:, some]
            masked = left_out[unit, some] * rows
            taken[:, own] = mask_rows(halved[:, some].T, rows.T, memory) @ masked.T
            kept[own] -= masked @ self.Q[:, some].T
        products = self.hidden_products + self.inner.T @ self.inner
        return as_array(products - taken - taken.T - kept @ kept.T)

    def coefficients(
        self, departures: Sequence[Departure], law: NoiseLaw, freedom: float
    ) -> tuple[Array, Array]:
        """Return (1) for every departure, and the same in its standard errors; zero for one inside the Jacobian."""
        sizes, along, errors = self.along(departures, law, freedom)
        values = along / np.where(sizes > 0, sizes, 1.0)
        return values, along / np.maximum(errors, np.finfo(float).tiny)

    def along(
        self, departures: Sequence[Departure], law: NoiseLaw, freedom: float
    ) -> tuple[Array, Array, Array]:
        """Return what the Jacobian leaves of departures: squares, products with the residual, errors of these.

        All three are zero for a departure inside the Jacobian.
        """
        A, parts = self.network.A, _Parts.of(departures)
        hidden = self.spread @ self._gradients(parts, A, np.eye(len(A)))
        sizes = self._squares_outside(parts, hidden, A, np.eye(len(A)))
        whole = parts.sums((parts.outputs**2).sum(axis=0) * self.squares_of_functions[parts.functions])
        is_outside = sizes > DEPENDENT**2 * whole
        if law.is_unequal or law.is_ordered:
            pairs = [
                self._from_rows(departure, column, law) if is_out else (0.0, 1.0)
                for departure, column, is_out in zip(departures, hidden.T, is_outside, strict=True)
            ]
            along, errors = np.array(pairs).T
        else:
            shares = parts.sums((parts.outputs.T * self.with_residual[parts.functions]).sum(axis=1))
            taken = (np.repeat(A.T, len(hidden) // A.shape[1], axis=0) * self.hidden_residual).sum(axis=1)
            along = shares - taken @ hidden
            # The variance of (1) follows if outputs are multiplied by a root of the noise's covariance.
            root = spectrum_of(self.squares / freedom).above(0.0).root()
            errors = np.sqrt(np.maximum(self._squares_outside(parts, hidden, root @ A, root), 0.0))
        sizes, along, errors = (np.where(is_outside, values, 0.0) for values in (sizes, along, errors))
        return as_array(sizes), as_array(along), as_array(errors)

    def _squares_outside(self, parts: _Parts, hidden: Array, A: Array, root: Array) -> Array:
        """Return the sums of squares of what the Jacobian leaves of departures.

        `hidden`: how the hidden layer follows them; `root`: multiplies the outputs; A: the output weights, so multiplied.
        Shapes: hidden (k p, r), A (m, k), root (m, m), result (r,).
        """
        outputs, here = root @ parts.outputs, parts.functions
        own = np.diag(parts.sums(parts.sums(outputs.T @ outputs * self.products[here[:, None], here]).T))
        mixed = (hidden * self._gradients(parts, A, root)).sum(axis=0)
        taken = (hidden * (weigh_blocks(self.hidden_products, A) @ hidden)).sum(axis=0)
        return as_array(own - 2 * mixed + taken)

    def _gradients(self, parts: _Parts, A: Array, root: Array) -> Array:
        """Return the products of departures with the columns of the hidden layer, outputs multiplied, (k p, r)."""
        along = A.T @ root @ parts.outputs  # (k, all their functions)
        products = self.with_hidden[:, parts.functions]
        products = (products.reshape(len(along), -1, along.shape[1]) * along[:, None]).reshape(products.shape)
        return parts.sums(products)

    def _from_rows(self, departure: Departure, hidden: Array, law: NoiseLaw) -> tuple[float, float]:
        """Return the product of a departure with the residual, and its standard error from the rows' own contributions."""
        A, places = self.network.A, departure.functions
        weighted = hidden[:, None] * np.repeat(A.T, len(hidden) // A.shape[1], axis=0)  # (k p, m)
        turned = A @ (self.slopes * (hidden.reshape(A.shape[1], -1) @ self.rows))
        inside = self.inside[:, places] @ departure.outputs.T - self.inner @ weighted
        rest = departure.outputs @ self.functions[places] - turned - inside.T @ self.Q
        along, size = float((rest * self.residual).sum()), float((rest**2).sum())
        terms = (rest * (self.residual - along / size * rest)).sum(axis=0)
        return along, long_run_deviation(terms, law.correlation if law.is_ordered else 0.0)

    def hidden(self, departure: Departure) -> Array:
        """Return how the hidden layer follows a departure, (k p,)."""
        A = self.network.A
        return as_array(self.spread @ self._gradients(_Parts.of([departure]), A, np.eye(len(A)))[:, 0])

    def shifts(self, departure: Departure, scaling: Scaling) -> dict[str, Array]:
        """Return how far the parameters follow a departure, in the user's units."""
        net, k = self.network, self.network.n_hidden
        hidden = self.hidden(departure)
        changes = hidden_changes(hidden.reshape(k, -1, 1), net, scaling)
        inside = self.inside[:, departure.functions] @ departure.outputs.T  # (g, m)
        weighted = hidden[:, None] * np.repeat(net.A.T, len(hidden) // k, axis=0)
        weights = self.inverse @ (inside - self.inner @ weighted)
        outer = scaling.y_scale * np.stack(
            [changes.output_changes(weights[:, [row]], net.A[row], net)[:, 0] for row in range(net.n_outputs)]
        )
        moved = {"W": changes.dW[:, :, 0], "b": changes.db[:, 0], "A": outer[:, :k]}
        return moved | ({"c": outer[:, -1]} if self.has_offset else {})


def _orthonormal_rows(G: Array) -> tuple[Array, Array, bool]:
    """Return orthonormal rows Q of the same span, the matrix that gives them, Q = inverse' G, and if it does to rounding.

    Cholesky's factor of the products gives both in less than half the time of Householder's way, twice for what rounding
    left, unless the rows are close to dependent. Shapes: G (g, n), results (g, n), (g, g).
    """
    lengths = np.sqrt(np.einsum("gn,gn->g", G, G))
    inverse = np.diag(1 / np.where(lengths > 0, lengths, 1.0))
    for _ in range(2):
        Q = inverse.T @ G
        factor, is_singular = linalg.lapack.dpotrf(Q @ Q.T)
        if is_singular or np.diag(factor).min(initial=1.0) < FAR_FROM_DEPENDENT:
            Q, triangle = linalg.qr(G.T, mode="economic", check_finite=False)
            return np.ascontiguousarray(Q.T), linalg.pinv(triangle, check_finite=False), False
        inverse = inverse @ linalg.lapack.dtrtri(factor)[0]
    return inverse.T @ G, inverse, True


def _hidden_products(
    slopes: Array,
    rows: Array,
    others: Sequence[Array],
    *,
    n_masked: int | None = None,
    known: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Return the products of the hidden layer's columns with themselves, with others, and of the others.

    `n_masked`: so many of the others are multiplied with the hidden layer's columns; all if omitted. `known`: the products
    of these with themselves, if they are known. Shapes: slopes (k, n), rows (p, n), others (q, n) each, results (k p, k p),
    (k p, n_masked) and (q, q) for q others together.
    """
    width, count = len(slopes) * len(rows), sum(len(item) for item in others)
    own = np.zeros((width, width)) if known is None else known
    mixed, among = np.zeros((width, count if n_masked is None else n_masked)), np.zeros((count, count))
    memory = np.empty((width, min(_SLICE_ROWS, rows.shape[1])))
    for start in range(0, rows.shape[1], _SLICE_ROWS):
        here = slice(start, start + _SLICE_ROWS)
        Z = mask_rows(slopes[:, here].T, rows[:, here].T, memory)
        beside = np.vstack([item[:, here] for item in others])
        if known is None:
            own += Z @ Z.T
        mixed += Z @ beside[:n_masked].T
        among += beside @ beside.T
    return own, mixed, among


def _spread(products: Array, A: Array, T: Array) -> Array:
    """Return the inverse of the normal matrix of the hidden layer along its tangents T, (k p, k p).

    Shapes: products (k p, k p), A (m, k), T (k p, tangents).
    """
    return as_array(T @ inverse_of(T.T @ weigh_blocks(products, A) @ T) @ T.T)


def _largest(shifts: dict[str, Array], doubt: Uncertainty | Unavailable) -> float:
    """Return the largest of some shifts, in standard errors; parameters without one are known."""
    if isinstance(doubt, Unavailable):
        return 0.0
    parts = [(shifts[name], error) for name, error in doubt.standard_errors.items() if name in shifts]
    return max(float(np.abs(shift[error > 0] / error[error > 0]).max(initial=0.0)) for shift, error in parts)
