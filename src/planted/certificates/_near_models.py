r"""Tests whether a model beside the network explains what it leaves: other powers, bent labels, a drift in the rows.

Problem     A model that is slightly wrong passes tests that look for anything at all. Units :math:`t_+^{1.1}`, labels of an
            instrument that saturates, :math:`L \tanh(f / L)`, rows that are missing where labels are large, an offset that
            drifts: each moves the parameters by many standard errors and leaves little of itself, which dozens of
            functions of x do not find among the noise of all of them.
Idea        Each such model departs from the network along one known function of x, or of the order of rows, in all outputs
            together. With D this departure, (n, m), and :math:`D_\perp` what the Jacobian leaves of it, the coefficient is

            .. math:: \hat\theta = \langle D_\perp, R\rangle / \|D_\perp\|^2,                                   \quad (1)

            which is one number with a standard error of its own. The departures are: h log|t|, the derivative of a power, in
            all units and in each (*powers*); the other side of the kink (*leaks*); the square and the cube of what the units
            add up to, in all outputs and in each (*bent labels*: saturation, selection by the label); the place in the order
            of rows, and the network times it (*drifts*).

            What matters is not whether a departure can be seen, but what it does. The part of D that the Jacobian takes
            moves the parameters, by :math:`\hat\theta J^+ D`. A departure that stays within `SEEN` standard errors of zero
            is chance. One beyond is held against a claim if it would move a parameter by more than `MOVES` of the
            parameter's standard errors, or if it is beyond `CERTAIN` itself. For departures of single units and outputs, of
            which there are many, the first number is the quantile at `LEVEL` for all of them.

            Standard errors of (1) are those of the noise: from the covariance of outputs if rows are independent and of one
            variance, from squares of the rows' own contributions, with lags if rows are correlated, otherwise. The
            contributions are those of the residual without the departure: a drift would else be its own noise.
Guarantee   Asymptotic levels. In networks of 2 to 6 units a departure of one standard error moves the worst parameter by
            one; for single units by two. What it cannot see may so move a parameter by four standard errors, and other
            departures than these by more: the claim is about networks of this activation.
Cost        n k p (k p + 2 k + 5 m) operations on the rows in memory, p = d + 1.
References  Ramsey (1969), J. R. Statist. Soc. B 31, for powers of the prediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg, stats

from planted._typing import Array, as_array
from planted.certificates.noise._law import NoiseLaw
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom, hidden_changes, tangent_basis
from planted.fitting._refine import Refinement, weigh_blocks
from planted.fitting._run import Problem, Scaling
from planted.fitting._sandwich import long_run_deviation
from planted.moments import augment, output_columns
from planted.networks import TwoLayerNetwork
from planted.results import Evidence, Unavailable, Uncertainty
from planted.rows import RowWeights

__all__ = ["Departure", "Jacobian", "near_model_evidence"]

SEEN, CERTAIN = 2.0, 3.5  # standard errors of a coefficient
MOVES = 3.0  # standard errors of a parameter
LEVEL = 0.005  # of the tests of single units and outputs, all together
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
    """Return the line on the departure that speaks most against a network.

    `doubt`: the standard errors of the parameters, in the user's units. Nothing where no departure could be tested.
    """
    jacobian = Jacobian.of(problem, fit.network, offset=offset, biases=biases, weights=weights)
    freedom = len(problem.X) - degrees_of_freedom(fit.network, offset=offset, biases=biases) / problem.n_outputs
    if freedom <= 0:
        return ()
    departures = list(_departures(problem, fit.network, jacobian.root))
    singles = sum(departure.is_single for departure in departures)
    least = float(stats.norm.isf(LEVEL / 2 / max(singles, 1)))
    worst: tuple[float, Evidence] | None = None
    for departure in departures:
        coefficient, score = jacobian.coefficient(departure, law, freedom)
        moved = abs(coefficient) * _largest(jacobian.shifts(departure, problem.scaling), doubt)
        limit = float(np.clip(MOVES * abs(score) / max(moved, 1e-300), SEEN, CERTAIN))
        limit = max(limit, least) if departure.is_single else limit
        line = Evidence(
            f"{departure.name}, in standard errors",
            abs(score),
            limit,
            "<=",
            f"moves a parameter by {moved:.2g} standard errors",
            key=Check.NEAR_MODELS,
        )
        if worst is None or abs(score) / limit > worst[0]:
            worst = abs(score) / limit, line
    return () if worst is None else (worst[1],)


@dataclass(frozen=True, slots=True)
class Departure:
    """A direction beside the network: functions of the rows times weights in the outputs."""

    name: str
    functions: Array  # (n, q)
    outputs: Array  # (m, q)
    is_single: bool = False  # of one unit or one output


def _departures(problem: Problem, network: TwoLayerNetwork, root: Array) -> Iterator[Departure]:
    """Yield the departures, rows weighted by `root`, (n, 1)."""
    X, A, (m, k) = problem.X, network.A, network.A.shape
    t = network.preactivations(X)
    H = network.activation(t)
    powers = root * H * np.log(np.where(t == 0, 1.0, np.abs(t)))
    added = H @ A.T + (0.0 if network.B is None else X @ network.B.T)
    sizes = np.maximum(np.sqrt((added**2).mean(axis=0)), np.finfo(float).tiny)
    bent = {"square": root * added**2 / sizes, "cube": root * added**3 / sizes**2}
    each = np.eye(m)
    if not network.activation.is_curved:
        yield Departure("another power of the units", powers, A)
        yield Departure("the other side of the kinks", root * np.maximum(-t, 0.0) ** network.activation.degree, A)
    for name, values in bent.items():
        yield Departure(f"the {name} of the outputs", values, each)
    if k > 1 and not network.activation.is_curved:
        for unit in range(k):
            yield Departure(f"another power of unit {unit}", powers[:, [unit]], A[:, [unit]], True)
    if m > 1:
        for name, values in bent.items():
            for output in range(m):
                name_of_one = f"the {name} of output {output}"
                yield Departure(name_of_one, values[:, [output]], each[:, [output]], True)
    if problem.holds_all_rows:
        place = root * np.linspace(-1.0, 1.0, len(X))[:, None]
        yield Departure("a drift of the outputs' size with the order of rows", place * added, each)
        for output in range(m):
            name_of_one = f"a drift of output {output} with the order of rows"
            yield Departure(name_of_one, place, each[:, [output]], m > 1)


@dataclass(frozen=True, slots=True)
class Jacobian:
    """The Jacobian of a network on the rows in memory, the output layer eliminated."""

    network: TwoLayerNetwork
    residual: Array  # (n, m), weighted like all rows here
    root: Array  # (n, 1): roots of the rows' weights
    Q: Array  # (n, g): orthonormal columns of the output layer
    triangle: Array  # (g, g): from them to the columns themselves
    Z: Array  # (n, k p): the hidden layer's columns, outside those of the output layer
    inner: Array  # (g, k p): what of them is inside
    spread: Array  # (k p, k p): inverse of the reduced normal matrix, along unit rows

    @classmethod
    def of(
        cls,
        problem: Problem,
        network: TwoLayerNetwork,
        *,
        offset: bool,
        biases: bool,
        weights: RowWeights | None = None,
    ) -> Jacobian:
        """Take it at the rows in memory."""
        X = problem.X
        w = np.ones(len(X))
        if weights is not None:
            w = weights(0, X, problem.Y) if problem.w is None else problem.w
        root = np.sqrt(w)[:, None]
        t = network.preactivations(X)
        slopes = root * network.activation.derivative(t)
        Z = (slopes[:, :, None] * augment(X)[:, None, :]).reshape(len(X), -1)
        G = root * output_columns(network, network.activation(t), X, offset=offset)
        Q, triangle = linalg.qr(G, mode="economic", check_finite=False)
        inner = Q.T @ Z
        Z -= Q @ inner
        T = tangent_basis(network, biases=biases)
        spread = T @ linalg.pinvh(T.T @ weigh_blocks(Z.T @ Z, network.A) @ T, check_finite=False) @ T.T
        return cls(network, root * (problem.Y - network(X)), root, Q, triangle, Z, inner, spread)

    def coefficient(self, departure: Departure, law: NoiseLaw, freedom: float) -> tuple[float, float]:
        """Return (1), and the same in its standard errors; zero for a departure inside the Jacobian."""
        outside = departure.functions - self.Q @ (self.Q.T @ departure.functions)
        hidden, k = self.hidden(departure), self.network.n_hidden
        moved = (self.Z * hidden).reshape(len(self.Z), k, -1).sum(axis=2)
        rest = outside @ departure.outputs.T - moved @ self.network.A.T
        products = rest.T @ rest
        size = float(np.trace(products))
        if not size > DEPENDENT**2 * float(((departure.functions @ departure.outputs.T) ** 2).sum()):
            return 0.0, 0.0
        value = float((rest * self.residual).sum()) / size
        left = self.residual - value * rest
        if law.is_unequal or law.is_ordered:
            correlation = law.correlation if law.is_ordered else 0.0
            error = long_run_deviation((rest * left).sum(axis=1), correlation) / size
        else:
            error = float(np.sqrt((products * (left.T @ left)).sum() / freedom)) / size
        return value, value / max(error, np.finfo(float).tiny)

    def hidden(self, departure: Departure) -> Array:
        """Return how the hidden layer follows a departure, (k p,)."""
        along = self.network.A.T @ departure.outputs  # (k, q)
        width = self.Z.shape[1] // len(along)
        products = self.Z.T @ departure.functions  # the columns of Z are outside those of the output layer
        return as_array(self.spread @ (products * np.repeat(along, width, axis=0)).sum(axis=1))

    def shifts(self, departure: Departure, scaling: Scaling) -> dict[str, Array]:
        """Return how far the parameters follow a departure, in the user's units."""
        net, k, hidden = self.network, self.network.n_hidden, self.hidden(departure)
        changes = hidden_changes(hidden.reshape(k, -1, 1), net, scaling)
        inside = (self.Q.T @ departure.functions) @ departure.outputs.T  # (g, m)
        weighted = hidden[:, None] * np.repeat(net.A.T, len(hidden) // k, axis=0)
        weights = linalg.lstsq(self.triangle, inside - self.inner @ weighted, check_finite=False)[0]
        outer = scaling.y_scale * np.stack(
            [changes.output_changes(weights[:, [row]], net.A[row], net)[:, 0] for row in range(net.n_outputs)]
        )
        moved = {"W": changes.dW[:, :, 0], "b": changes.db[:, 0], "A": outer[:, :k]}
        if outer.shape[1] in (k + 1, k + 1 + net.n_features):
            moved["c"] = outer[:, -1]
        return moved


def _largest(shifts: dict[str, Array], doubt: Uncertainty | Unavailable) -> float:
    """Return the largest of some shifts, in standard errors; parameters without one are known."""
    if isinstance(doubt, Unavailable):
        return 0.0
    parts = [(shifts[name], error) for name, error in doubt.standard_errors.items() if name in shifts]
    return max(float(np.abs(shift[error > 0] / error[error > 0]).max(initial=0.0)) for shift, error in parts)
