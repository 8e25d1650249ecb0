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
from planted.certificates.noise._law import NoiseLaw
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom, hidden_changes, tangent_basis
from planted.fitting._refine import Refinement, weigh_blocks
from planted.fitting._run import Problem, Scaling
from planted.fitting._sandwich import long_run_deviation
from planted.linalg.symmetric import inverse_of, spectrum_of
from planted.moments import NormalSums, augment, mask_rows, output_columns
from planted.networks import TwoLayerNetwork
from planted.results import Evidence, Unavailable, Uncertainty
from planted.rows import RowWeights

__all__ = ["Beside", "Departure", "near_model_evidence"]

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
) -> tuple[Evidence, ...]:
    """Return the line on the departure that speaks most against a network, and that on samples of uncertain side.

    `doubt`: the standard errors of the parameters, in the user's units. Nothing where no departure could be tested.
    """
    freedom = (
        len(problem.X) - degrees_of_freedom(fit.network, offset=offset, biases=biases) / problem.n_outputs
    )
    if freedom <= 0:
        return ()
    functions, departures = _departures(problem, fit.network)
    known = fit.sums if problem.holds_all_rows else None
    beside = Beside.of(
        problem, fit.network, functions, offset=offset, biases=biases, weights=weights, known=known
    )
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
    return nearest, *_side_evidence(beside, freedom, biases=biases)


def _side_evidence(beside: Beside, freedom: float, *, biases: bool) -> tuple[Evidence, ...]:
    """Return by how much a standard error rises without samples whose side of a kink the noise does not tell.

    Nothing for units without kinks.
    """
    net = beside.network
    if net.activation.is_curved:
        return ()
    levels = np.sqrt(np.maximum(np.diag(beside.squares) / freedom, np.finfo(float).tiny))
    A = net.A / levels[:, None]
    turned = beside.rows @ np.hstack([net.W, net.b[:, None]]).T
    is_certain = (A**2).sum(axis=0) * net.activation(turned) ** 2 > CERTAIN_SIDE**2
    products, mixed, _ = _hidden_products(beside.slopes * is_certain, beside.rows, beside.Q)
    # A little of all samples, so that a direction which the others leave free has an error, and a large one.
    certain = products - mixed @ mixed.T + SOME_OF_ALL * beside.hidden_products
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


def _departures(problem: Problem, network: TwoLayerNetwork) -> tuple[Array, list[Departure]]:
    """Return functions of the rows, and the departures that they make up."""
    X, A, m = problem.X, network.A, network.n_outputs
    t = network.preactivations(X)
    H = network.activation(t)
    added = H @ A.T + (0.0 if network.B is None else X @ network.B.T)
    relative = added / np.maximum(np.sqrt((added**2).mean(axis=0)), np.finfo(float).tiny)
    each = np.eye(m)
    columns: list[Array] = []
    departures: list[Departure] = []

    def depart(names: tuple[str, str], values: Array, outputs: Array) -> None:
        """Add a departure in all columns together, and in every one if there are several."""
        places = sum(column.shape[1] for column in columns) + np.arange(values.shape[1])
        columns.append(values)
        together, alone = names
        departures.extend([Departure(together, places, outputs)] if together else [])
        if alone and (len(places) > 1 or not together):
            departures.extend(
                Departure(f"{alone} {index + 1}", places[[index]], outputs[:, [index]], True)
                for index in range(len(places))
            )

    if not network.activation.is_curved:
        widths = np.maximum(BEND_WIDTH * t.std(axis=0), np.finfo(float).tiny)
        powers = H * np.log(np.maximum(np.abs(t), np.finfo(float).tiny))
        depart(("another power of the units", "another power of unit"), powers, A)
        bumps = widths * np.log(1 + np.exp(-np.abs(t) / widths))
        depart(("round bends of the units", "a round bend of unit"), bumps, A)
        depart(("the other side of the kinks", ""), np.maximum(-t, 0.0) ** network.activation.degree, A)
    depart(("the square of the outputs", "the square of output"), added * relative, each)
    depart(("the cube of the outputs", "the cube of output"), added * relative**2, each)
    if problem.holds_all_rows:
        place = np.linspace(-1.0, 1.0, len(X))[:, None]
        depart(("the outputs' size rising with the order of rows", ""), place * added, each)
        alone = np.array([sum(column.shape[1] for column in columns)])
        columns.append(place)
        departures.extend(
            Departure(f"the order of rows in output {output + 1}", alone, each[:, [output]], True)
            for output in range(m)
        )
    return np.hstack(columns), departures


@dataclass(frozen=True, slots=True)
class Beside:
    """Functions of the rows beside the Jacobian of a network, on the rows in memory, the output layer eliminated."""

    network: TwoLayerNetwork
    has_offset: bool
    rows: Array  # (n, p): inputs and one
    slopes: Array  # (n, k): of the units, weighted like all that follows
    residual: Array  # (n, m)
    Q: Array  # (n, g): orthonormal columns of the output layer
    inverse: Array  # (g, g): from coefficients of these to those of the columns themselves
    inner: Array  # (g, k p): coefficients of the hidden layer's columns
    hidden_products: Array  # (k p, k p): of what these leave of them
    spread: Array  # (k p, k p): inverse of the reduced normal matrix, along unit rows
    inside: Array  # (g, q): coefficients of the functions
    functions: Array  # (n, q): the functions
    squares_of_functions: Array  # (q,): their sums of squares
    products: Array  # (q, q): of what the output layer leaves of them
    with_hidden: Array  # (k p, q): their products with the hidden layer's columns
    with_residual: Array  # (q, m): their products with the residual
    hidden_residual: Array  # (k p, m): products of the hidden layer's columns with the residual
    squares: Array  # (m, m): products of the residual

    @classmethod
    def of(
        cls,
        problem: Problem,
        network: TwoLayerNetwork,
        functions: Array,
        *,
        offset: bool,
        biases: bool = True,
        weights: RowWeights | None = None,
        known: NormalSums | None = None,
    ) -> Beside:
        """Take the Jacobian at the rows in memory, beside some functions of them, (n, q).

        `known`: the normal equations on these rows, with these weights, if they were summed already.
        """
        X = problem.X
        t, rows = network.preactivations(X), augment(X)
        slopes, H = network.activation.derivative(t), network.activation(t)
        G = output_columns(network, H, X, offset=offset)
        residual = network.less_linear(X, problem.Y) - H @ network.A.T - network.c
        if weights is not None:
            root = np.sqrt(weights(0, X, problem.Y) if problem.w is None else problem.w)[:, None]
            slopes, G, residual, functions = (root * values for values in (slopes, G, residual, functions))
        Q, inverse = _orthonormal_columns(G)
        products, with_hidden, among = _hidden_products(
            slopes, rows, Q, functions, residual, known=None if known is None else known.ZZ
        )
        places = np.cumsum([Q.shape[1], functions.shape[1]])
        inner, mixed, hidden_residual = np.split(with_hidden, places, axis=1)
        _, inside, in_residual = np.split(among[: places[0]], places, axis=1)
        _, own, of_residual = np.split(among[places[0] : places[1]], places, axis=1)
        inner = inner.T
        products = products - inner.T @ inner
        return cls(
            network,
            offset,
            rows,
            slopes,
            residual,
            Q,
            inverse,
            inner,
            products,
            _spread(products, network.A, tangent_basis(network, biases=biases)),
            inside,
            functions,
            np.diag(own),
            own - inside.T @ inside,
            mixed - inner.T @ inside,
            of_residual - inside.T @ in_residual,
            hidden_residual - inner.T @ in_residual,
            among[places[1] :, places[1] :],
        )

    def coefficients(
        self, departures: Sequence[Departure], law: NoiseLaw, freedom: float
    ) -> tuple[Array, Array]:
        """Return (1) for every departure, and the same in its standard errors; zero for one inside the Jacobian."""
        A = self.network.A
        hidden = self.spread @ self._gradients(departures, A, np.eye(len(A)))
        sizes = self._squares_outside(departures, hidden, A, np.eye(len(A)))
        whole = [
            (item.outputs**2).sum(axis=0) @ self.squares_of_functions[item.functions] for item in departures
        ]
        is_outside = sizes > DEPENDENT**2 * np.array(whole)
        if law.is_unequal or law.is_ordered:
            pairs = [
                self._from_rows(departure, column, law) if is_out else (0.0, 1.0)
                for departure, column, is_out in zip(departures, hidden.T, is_outside, strict=True)
            ]
            along, errors = np.array(pairs).T
        else:
            shares = [(item.outputs.T * self.with_residual[item.functions]).sum() for item in departures]
            taken = (np.repeat(A.T, len(hidden) // A.shape[1], axis=0) * self.hidden_residual).sum(axis=1)
            along = np.array(shares) - taken @ hidden
            # The variance of (1) follows if outputs are multiplied by a root of the noise's covariance.
            root = spectrum_of(self.squares / freedom).above(0.0).root()
            errors = np.sqrt(np.maximum(self._squares_outside(departures, hidden, root @ A, root), 0.0))
        values = np.where(is_outside, along / np.where(is_outside, sizes, 1.0), 0.0)
        scores = np.where(is_outside, along / np.maximum(errors, np.finfo(float).tiny), 0.0)
        return as_array(values), as_array(scores)

    def _squares_outside(
        self, departures: Sequence[Departure], hidden: Array, A: Array, root: Array
    ) -> Array:
        """Return the sums of squares of what the Jacobian leaves of departures.

        `hidden`: how the hidden layer follows them; `root`: multiplies the outputs; A: the output weights, so multiplied.
        Shapes: hidden (k p, r), A (m, k), root (m, m), result (r,).
        """
        own = np.empty(len(departures))
        for place, item in enumerate(departures):
            outputs, here = root @ item.outputs, item.functions
            own[place] = (outputs.T @ outputs * self.products[here[:, None], here]).sum()
        mixed = (hidden * self._gradients(departures, A, root)).sum(axis=0)
        taken = (hidden * (weigh_blocks(self.hidden_products, A) @ hidden)).sum(axis=0)
        return as_array(own - 2 * mixed + taken)

    def _gradients(self, departures: Sequence[Departure], A: Array, root: Array) -> Array:
        """Return the products of departures with the columns of the hidden layer, outputs multiplied, (k p, r)."""
        along = A.T @ root @ np.hstack([item.outputs for item in departures])  # (k, all their functions)
        products = self.with_hidden[:, np.concatenate([item.functions for item in departures])]
        products = (products.reshape(len(along), -1, along.shape[1]) * along[:, None]).reshape(products.shape)
        starts = np.cumsum([0, *(len(item.functions) for item in departures[:-1])])
        return as_array(np.add.reduceat(products, starts, axis=1))

    def _from_rows(self, departure: Departure, hidden: Array, law: NoiseLaw) -> tuple[float, float]:
        """Return the product of a departure with the residual, and its standard error from the rows' own contributions."""
        A, places = self.network.A, departure.functions
        weighted = hidden[:, None] * np.repeat(A.T, len(hidden) // A.shape[1], axis=0)  # (k p, m)
        turned = (self.slopes * (self.rows @ hidden.reshape(A.shape[1], -1).T)) @ A.T
        inside = self.inside[:, places] @ departure.outputs.T - self.inner @ weighted
        rest = self.functions[:, places] @ departure.outputs.T - turned - self.Q @ inside
        along, size = float((rest * self.residual).sum()), float((rest**2).sum())
        terms = (rest * (self.residual - along / size * rest)).sum(axis=1)
        return along, long_run_deviation(terms, law.correlation if law.is_ordered else 0.0)

    def hidden(self, departure: Departure) -> Array:
        """Return how the hidden layer follows a departure, (k p,)."""
        A = self.network.A
        return as_array(self.spread @ self._gradients([departure], A, np.eye(len(A)))[:, 0])

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


def _orthonormal_columns(G: Array) -> tuple[Array, Array]:
    """Return orthonormal columns Q of the same span, and the matrix that gives them from G.

    Cholesky's factor of the products gives both in less than half the time of Householder's way, twice for what rounding
    left, unless the columns are close to dependent. Shapes: G (n, g), results (n, g), (g, g).
    """
    lengths = np.sqrt(np.einsum("ng,ng->g", G, G))
    inverse = np.diag(1 / np.where(lengths > 0, lengths, 1.0))
    for _ in range(2):
        Q = G @ inverse
        factor, is_singular = linalg.lapack.dpotrf(Q.T @ Q)
        if is_singular or np.diag(factor).min(initial=1.0) < FAR_FROM_DEPENDENT:
            Q, triangle = linalg.qr(G, mode="economic", check_finite=False)
            return Q, linalg.pinv(triangle, check_finite=False)
        inverse = inverse @ linalg.lapack.dtrtri(factor)[0]
    return G @ inverse, inverse


def _hidden_products(
    slopes: Array, rows: Array, *columns: Array, known: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return the products of the hidden layer's columns with themselves, with others, and of the others.

    `known`: the first, if they are. Shapes: slopes (n, k), rows (n, p), columns (n, q) each, results (k p, k p), (k p, q)
    and (q, q) for q columns together.
    """
    width, others = slopes.shape[1] * rows.shape[1], sum(item.shape[1] for item in columns)
    own = np.zeros((width, width)) if known is None else known
    mixed, among = np.zeros((width, others)), np.zeros((others, others))
    memory = np.empty((width, min(_SLICE_ROWS, len(rows))))
    for start in range(0, len(rows), _SLICE_ROWS):
        here = slice(start, start + _SLICE_ROWS)
        Z = mask_rows(slopes[here], rows[here], memory)
        beside = np.hstack([item[here] for item in columns])
        if known is None:
            own += Z @ Z.T
        mixed += Z @ beside
        among += beside.T @ beside
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
