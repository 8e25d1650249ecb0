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

import numpy as np
from scipy import special

from planted._typing import Array, IntArray
from planted.certificates.noise._beside import DEPENDENT, Beside, Departure, spread_along
from planted.certificates.noise._chosen_rows import chosen_rows_evidence
from planted.certificates.noise._fitted_rows import FittedRows
from planted.certificates.noise._law import NoiseLaw
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom, tangent_basis
from planted.fitting._refine import Refinement
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.results import Evidence, Unavailable, Uncertainty
from planted.rows import RowWeights

__all__ = ["chosen_rows_line", "near_model_evidence"]

SEEN, CERTAIN = 2.0, 3.5  # standard errors of a coefficient
MOVES = 3.0  # standard errors of a parameter
BEND_WIDTH = 0.25  # of a softplus, in standard deviations of a unit's pre-activation
CERTAIN_SIDE = 3.0  # standard deviations of the noise, all outputs together
LARGEST_RISE = 3.0  # ordinary problems have at most 2; inputs on a curve gave 60, with parameters 180 standard errors off
SOME_OF_ALL = 1e-4
LEVEL = 0.005  # of the tests of single units and outputs, all together


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
    is_uncertain = (A**2).sum(axis=0)[:, None] * beside.H**2 <= CERTAIN_SIDE**2
    # A little of all samples, so that a direction which the others leave free has an error, and a large one.
    certain = beside.products_without(is_uncertain * beside.slopes)
    certain += SOME_OF_ALL * beside.hidden_products
    T = tangent_basis(net, biases=biases)
    variances = [np.diag(spread_along(N, A, T)) for N in (beside.hidden_products, certain)]
    is_free = variances[0] > DEPENDENT**2 * variances[0].max()
    rise = float(np.sqrt(np.max(variances[1][is_free] / variances[0][is_free], initial=1.0)))
    name = "rise of a standard error without samples that are on by less than three standard deviations of the noise"
    return (Evidence(name, rise, LARGEST_RISE, "<=", key=Check.UNCERTAIN_SIDES),)


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


def _largest(shifts: dict[str, Array], doubt: Uncertainty | Unavailable) -> float:
    """Return the largest of some shifts, in standard errors; parameters without one are known."""
    if isinstance(doubt, Unavailable):
        return 0.0
    parts = [(shifts[name], error) for name, error in doubt.standard_errors.items() if name in shifts]
    return max(float(np.abs(shift[error > 0] / error[error > 0]).max(initial=0.0)) for shift, error in parts)
