"""Functions of the rows beside the Jacobian of a network: what it leaves of them, and how its parameters follow them.

The output layer is eliminated first. Products of the functions with the hidden layer's columns, with the residual and with
each other are summed once; every departure made up of the functions is then a matter of small matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array, IntArray, as_array
from planted.certificates.noise._fitted_rows import FittedRows
from planted.certificates.noise._law import NoiseLaw
from planted.fitting._jacobian import hidden_changes, tangent_basis
from planted.fitting._refine import weigh_blocks
from planted.fitting._run import Scaling
from planted.fitting._sandwich import long_run_deviation
from planted.linalg.symmetric import inverse_of, spectrum_of
from planted.moments import NormalSums, mask_rows
from planted.networks import TwoLayerNetwork

__all__ = ["DEPENDENT", "Beside", "Departure", "spread_along"]

_SLICE_ROWS = 1024  # masked inputs of one slice stay in the cache
FAR_FROM_DEPENDENT = (
    1e-3  # part of a column outside the others above which products of them lose no digits that matter
)
DEPENDENT = 1e-6  # part of a departure outside the Jacobian below which it is one of the network's own


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
        rows = at.inputs
        G = np.vstack([at.H, *([] if net.B is None else [at.X]), *([rows[-1:]] if offset else [])])
        slopes, residual = at.slopes, at.weighted_residual
        if at.root is not None:
            slopes, G, functions = (at.root * values for values in (slopes, G, functions))
        Q, inverse, is_regular = _orthonormal_rows(G)
        # Products with the columns of the output layer and with the residual follow from the normal equations.
        given = known if is_regular else None
        products, with_hidden = _hidden_products(
            slopes,
            rows,
            [functions, *((Q, residual) if given is None else ())],
            known=None if known is None else known.ZZ,
        )
        q, g = len(functions), len(Q)
        if given is not None:
            inner, hidden_residual = inverse.T @ given.GZ[:g], given.ZR
        else:
            inner, hidden_residual = with_hidden[:, q : q + g].T, with_hidden[:, q + g :]
        own, inside, in_residual = functions @ functions.T, Q @ functions.T, Q @ residual.T
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
            spread_along(products, net.A, tangent_basis(net, biases=biases)),
            inside,
            functions,
            np.diag(own),
            own - inside.T @ inside,
            with_hidden[:, :q] - inner.T @ inside,
            functions @ residual.T - inside.T @ in_residual,
            hidden_residual - inner.T @ in_residual,
            residual @ residual.T,
        )

    def products_without(self, left_out: Array) -> Array:
        """Return the products of the hidden layer's columns, the output layer eliminated, without some of their entries.

        Few entries are left out, and the products of all are known. With U the columns of those, and Z all columns, the
        products of the rest are Z'Z less (Z - U/2)'U and its transpose. Shapes: left_out (k, n): slopes, zero where an
        entry stays; result (k p, k p).
        """
        k, p = len(left_out), len(self.rows)
        taken, kept = np.empty((k * p, k * p)), self.inner.T.copy()
        places = [np.flatnonzero(is_out) for is_out in left_out != 0]
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
    slopes: Array, rows: Array, others: Sequence[Array], *, known: Array | None = None
) -> tuple[Array, Array]:
    """Return the products of the hidden layer's columns with themselves, unless they are known, and with others.

    Shapes: slopes (k, n), rows (p, n), others (q, n) each, results (k p, k p) and (k p, q) for q others together.
    """
    width = len(slopes) * len(rows)
    own = np.zeros((width, width)) if known is None else known
    mixed = np.zeros((width, sum(map(len, others))))
    memory = np.empty((width, min(_SLICE_ROWS, rows.shape[1])))
    for start in range(0, rows.shape[1], _SLICE_ROWS):
        here = slice(start, start + _SLICE_ROWS)
        Z = mask_rows(slopes[:, here].T, rows[:, here].T, memory)
        if known is None:
            own += Z @ Z.T
        mixed += np.hstack([Z @ item[:, here].T for item in others])
    return own, mixed


def spread_along(products: Array, A: Array, T: Array) -> Array:
    """Return the inverse of the normal matrix of the hidden layer along its tangents T, (k p, k p).

    Shapes: products (k p, k p), A (m, k), T (k p, tangents).
    """
    return as_array(T @ inverse_of(T.T @ weigh_blocks(products, A) @ T) @ T.T)
