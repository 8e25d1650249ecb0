r"""The certificate for networks fitted to class labels and counts.

Problem     A network maximises the likelihood of labels. May it be called the planted one, and how well is it known?
Idea        *Separation.* If the outputs put every label's own class strictly first, larger output weights fit better still:
            the likelihood has no maximum, and no number in the network means anything but its direction. A network that
            separates the samples is a proof of that, so that the number of labels it misplaces must be at least one.
            *Lack of fit.* The deviance of single labels says nothing about the fit, since its law depends on the
            probabilities alone. Rao's score test does: with functions Φ of x beside every output, score s and information
            partitioned by the network's parameters θ and Φ,

            .. math:: T = s_\Phi^\top (I_{\Phi\Phi} - I_{\Phi\theta} I_{\theta\theta}^{-1} I_{\theta\Phi})^{-1} s_\Phi
                      \;\sim\; \chi^2_\nu \quad (1)

            is the fall of the deviance, to first order, if Φ is added; ν counts its dimensions beyond θ. For every unit Φ
            holds the square of its pre-activation on both sides and a bump at its bend, and random kinks for the rest.
            *Link.* Labels of another link, such as a probit, or of which some were flipped, are those of a network whose
            outputs are bent, and the units take up most of the bend. The same test with the square and the cube of the
            outputs alone for Φ has the few dimensions in which it shows (Pregibon). *Dispersion.* Counts that vary by
            more or less than a Poisson law leave the fit right and its standard errors wrong.
            *Standard errors* come from the inverse information, with the scale of units held where it is a gauge; for
            kinked units from (3) of `fitting.likelihoods._smoothed`, which knows how rough kinks leave the likelihood.
Guarantee   Asymptotic. The claim is about networks of this width and activation.
References  Rao (1948), Proc. Cambridge Phil. Soc. 44; Albert and Anderson (1984), Biometrika 71 (separation); Pregibon
            (1980), Applied Statistics 29 (link); Dean and Lawless (1989), J. Am. Statist. Assoc. 84 (dispersion).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, stats

from planted._typing import Array, as_array
from planted.certificates._parts import CONDITIONING_TOL
from planted.checks import Check
from planted.fitting._jacobian import hidden_changes
from planted.fitting._run import Scaling
from planted.fitting.likelihoods._families import Likelihood
from planted.fitting.likelihoods._fit import LabelFit, LabelRows, Linearised
from planted.fitting.likelihoods._path import unknowns_of
from planted.fitting.likelihoods._smoothed import free_moves
from planted.linalg.symmetric import unit_rows
from planted.moments import output_weights
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Unavailable, Uncertainty, Verdict
from planted.rows import RowWeights, Sums, accumulate

__all__ = ["certify_labels", "is_separated", "label_errors", "score_test", "separation"]

SIGNIFICANCE = 0.02  # of the test for traces of x in the residual: one right network in fifty is doubted
LINK_LEVEL = 0.01  # of the test of the link
DISPERSION = 3.0  # standard errors
MIN_ROWS, ROWS_PER_UNKNOWN = 100, 20  # labels carry less than numbers do
RELATIVE_ERROR = 0.25  # largest standard error of a unit's weights, relative to their size
LARGEST_DECREMENT = 1e-3  # nats that one more step would gain
N_PROBES = 10
RANK_TOL = 1e-10


def is_separated(fit: LabelFit) -> bool:
    """Return whether the likelihood has no maximum because every label's own class comes first."""
    return fit.sums.misplaced == 0


def separation(fit: LabelFit) -> Evidence:
    """Return the line on labels that the network does not put first."""
    name = "labels that the network does not put first: with none the likelihood has no maximum"
    return Evidence(name, fit.sums.misplaced, 1, ">=", "Albert, Anderson", key=Check.SEPARATION)


def certify_labels(
    rows: LabelRows, fit: LabelFit, *, scaling: Scaling, rng: np.random.Generator, further: Sequence[Evidence]
) -> Verdict:
    """Judge a network fitted to labels without a ridge; `further`: lines of the search."""
    net, n = fit.network, rows.n_samples
    unknowns = unknowns_of(net)
    level = Evidence(
        "deviance over its degrees of freedom", 2 * fit.sums.loss / max(n - unknowns, 1), key=Check.LOSS
    )
    apart = separation(fit)
    if not apart.passed:
        text = f"The network puts all {n} labels first: the likelihood has no maximum, larger weights always fit better."
        return Verdict(Outcome.FITTED, Guarantee.NONE, (level, apart), text, Unavailable(text))
    doubt, errors, conditioning = label_errors(fit, scaling)
    need = MIN_ROWS + ROWS_PER_UNKNOWN * unknowns
    checks = [
        Evidence("samples", n, need, ">=", "100 + 20 unknowns", key=Check.SAMPLES),
        apart,
        Evidence(
            "smallest relative singular value of the information",
            conditioning,
            CONDITIONING_TOL,
            ">=",
            key=Check.JACOBIAN,
        ),
        Evidence(
            "gain of one more step, in nats", _decrement(fit), LARGEST_DECREMENT, "<=", key=Check.STATIONARITY
        ),
    ]
    if errors is not None:
        unit = int(np.argmax(errors))
        name = f"standard error of the weights of unit {unit + 1}, relative to their size"
        checks.append(Evidence(name, float(errors[unit]), RELATIVE_ERROR, "<=", key=Check.DIRECTION_ERROR))
        p_value, tested = score_test(rows, net, rng)
        name = "p-value of the test for traces of x in the labels, given the network"
        checks.append(
            Evidence(
                name, p_value if tested else 0.0, SIGNIFICANCE, ">=", "score test", key=Check.LACK_OF_FIT
            )
        )
        checks += [_link_evidence(rows, net), *_dispersion_evidence(rows, net)]
    checks += further
    failed = [line for line in checks if not line.passed]
    evidence = (level, *checks)
    if failed:
        text = "; ".join(line.shortfall for line in failed) + "."
        return Verdict(Outcome.FITTED, Guarantee.HEURISTIC, evidence, text, doubt)
    name = (
        f"units ({net.activation.name}) of the networks that the claim is about; wider ones are not excluded"
    )
    scope = Evidence(name, net.n_hidden, key=Check.SCOPE)
    text = "Given the network, the labels carry no trace of x; see the standard errors."
    return Verdict(Outcome.RECOVERED, Guarantee.ASYMPTOTIC, (scope, *evidence), text, doubt)


def label_errors(fit: LabelFit, scaling: Scaling) -> tuple[Uncertainty | Unavailable, Array | None, float]:
    """Return standard errors in the user's units, the relative error of each unit's weights, and the conditioning.

    The last is the smallest singular value of the root of the information, its columns of unit length.
    """
    net = fit.network
    k, p = net.n_hidden, net.n_features + 1
    moves = free_moves(net)
    inner = moves.T @ fit.sums.information @ moves
    lengths = np.sqrt(np.maximum(np.diag(inner), 0.0))
    if not (lengths > 0).all():
        dead = int(np.flatnonzero(moves[:, int(np.argmin(lengths))])[0])
        where = f"unit {dead // p + 1}" if dead < k * p else "the output layer"
        return Unavailable(f"The labels say nothing about a direction of {where}."), None, 0.0
    values, vectors = linalg.eigh(inner / np.outer(lengths, lengths), check_finite=False)
    conditioning = float(np.sqrt(max(values[0], 0.0)))
    if values[0] <= len(values) * np.finfo(float).eps * values[-1]:
        return Unavailable("The information matrix of the labels is singular."), None, conditioning
    root = vectors / np.sqrt(values)
    if fit.soft is not None:
        H, variance = (
            moves.T @ each @ moves / np.outer(lengths, lengths)
            for each in (fit.soft.curvature, fit.soft.variance)
        )
        if linalg.eigvalsh(H + H.T, check_finite=False)[0] <= 0:
            text = "Averaged over its errors, the likelihood of the kinked units has no maximum here."
            return Unavailable(text), None, conditioning
        values, vectors = linalg.eigh(variance, check_finite=False)
        root = linalg.solve(H, vectors * np.sqrt(np.maximum(values, 0.0)))
    root = (moves / lengths) @ root
    hidden = hidden_changes(root[: k * p].reshape(k, p, -1), net, scaling)
    outer = root[k * p :].reshape(net.n_outputs, -1, root.shape[1])
    changes = np.stack(
        [hidden.output_changes(part, row, net) for part, row in zip(outer, net.A, strict=True)]
    )
    variances = (changes**2).sum(axis=2)
    errors = {"W": (hidden.dW**2).sum(axis=2), "b": (hidden.db**2).sum(axis=1)}
    errors |= {"A": variances[:, :k], "c": variances[:, -1]}
    if net.B is not None:
        errors["B"] = variances[:, k:-1]
    roots = {name: np.sqrt(value) for name, value in errors.items()}
    sizes = np.linalg.norm(net.W, axis=1)
    own = np.sqrt((root[: k * p].reshape(k, p, -1)[:, :-1] ** 2).sum(axis=(1, 2)))
    return (
        Uncertainty(roots, 1.0, "information"),
        as_array(own / np.where(sizes > 0, sizes, 1.0)),
        conditioning,
    )


def _decrement(fit: LabelFit) -> float:
    """Half the squared length of the score in the metric of the information: what a Newton step would gain."""
    information = fit.sums.information
    size = np.sqrt(np.maximum(np.diag(information), np.finfo(float).tiny))
    inverse = linalg.pinvh(information / np.outer(size, size), rtol=RANK_TOL)
    score = fit.sums.score / size
    return float(0.5 * score @ inverse @ score)


def score_test(rows: LabelRows, network: TwoLayerNetwork, rng: np.random.Generator) -> tuple[float, int]:
    """Return the p-value of (1) and the number of dimensions tested."""
    directions = unit_rows(rng.standard_normal((N_PROBES, network.n_features)))[0]
    probes = np.hstack([directions, rng.standard_normal((N_PROBES, 1))])

    def traces(X: Array, t: Array, _: Array) -> Array:
        random = np.maximum(X @ probes[:, :-1].T - probes[:, -1], 0.0)
        return np.hstack([np.maximum(t, 0.0) ** 2, np.minimum(t, 0.0) ** 2, np.exp(-2 * t**2), random])

    return _score_test(rows, network, traces)


def _link_evidence(rows: LabelRows, network: TwoLayerNetwork) -> Evidence:
    """Test for the square and the cube of the outputs beside them."""
    p_value, _ = _score_test(rows, network, lambda X, t, eta: np.hstack([eta**2, eta**2 * eta]))
    name = "p-value of the test whether the labels follow this law of the outputs, or bent outputs"
    return Evidence(name, p_value, LINK_LEVEL, ">=", "score test", key=Check.LINK)


def _dispersion_evidence(rows: LabelRows, network: TwoLayerNetwork) -> tuple[Evidence, ...]:
    """Compare the variance of counts with their mean; nothing for classes, whose mean says all."""
    if rows.likelihood.is_of_classes:
        return ()
    sums = accumulate(rows.blocks, _DispersionSummand(network, rows.likelihood, rows.weights))
    score = float(sums.excess / np.sqrt(max(sums.variance, np.finfo(float).tiny)))
    name = "variance of the counts beyond that of their law, or short of it, in standard errors"
    return (Evidence(name, abs(score), DISPERSION, "<=", "Dean, Lawless", key=Check.NOISE_VARIANCE),)


@dataclass(frozen=True, slots=True)
class _DispersionSums(Sums):
    excess: float
    variance: float


@dataclass(frozen=True, slots=True)
class _DispersionSummand:
    """Squared residuals less the means, and the variance of their sum under a Poisson law."""

    network: TwoLayerNetwork
    likelihood: Likelihood
    weights: RowWeights | None

    def __call__(self, first_row: int, X: Array, Y: Array) -> _DispersionSums:
        means = self.likelihood.means(self.network(X))
        w = np.ones(len(X)) if self.weights is None else self.weights(first_row, X, Y)
        excess = w[:, None] * ((Y - means) ** 2 - Y)
        return _DispersionSums(float(excess.sum()), float((2 * (w[:, None] * means) ** 2).sum()))


def _score_test(
    rows: LabelRows, network: TwoLayerNetwork, functions: Callable[[Array, Array, Array], Array]
) -> tuple[float, int]:
    """Return the p-value of (1) for functions of inputs, pre-activations and outputs, and the dimensions tested."""
    sums = accumulate(rows.blocks, _ScoreSummand(network, rows.likelihood, rows.weights, functions))
    is_own = np.ones(len(sums.score), dtype=bool)
    columns = is_own[network.W.size + network.n_hidden :].reshape(network.n_outputs, -1)
    columns[:, output_weights(network).shape[1] :] = False
    lengths = np.sqrt(np.diag(sums.information))
    lengths = np.where(lengths > 0, lengths, 1.0)
    products, score = sums.information / np.outer(lengths, lengths), sums.score / lengths
    inner = linalg.pinvh(products[np.ix_(is_own, is_own)], rtol=RANK_TOL)
    cross = products[np.ix_(is_own, ~is_own)]
    left = products[np.ix_(~is_own, ~is_own)] - cross.T @ inner @ cross
    values, vectors = linalg.eigh(left, check_finite=False)
    kept = values > 1e-6
    rest = vectors[:, kept].T @ (score[~is_own] - cross.T @ inner @ score[is_own])
    statistic = float((rest**2 / values[kept]).sum())
    return float(stats.chi2.sf(statistic, kept.sum())), int(kept.sum())


@dataclass(frozen=True, slots=True)
class _ScoreSums(Sums):
    score: Array
    information: Array


@dataclass(frozen=True, slots=True)
class _ScoreSummand:
    """Score and information with the functions Φ beside the network."""

    network: TwoLayerNetwork
    likelihood: Likelihood
    weights: RowWeights | None
    functions: Callable[[Array, Array, Array], Array]  # of inputs, pre-activations and outputs

    def __call__(self, first_row: int, X: Array, Y: Array) -> _ScoreSums:
        network, law = self.network, self.likelihood
        here = Linearised.at(network, X)
        further = self.functions(X, network.preactivations(X), here.eta)
        here = replace(here, columns=np.vstack([here.columns, further.T]))
        roots, rest = law.roots(here.eta), Y - law.means(here.eta)
        if self.weights is not None:
            w = self.weights(first_row, X, Y)
            roots, rest = np.sqrt(w)[:, None, None] * roots, w[:, None] * rest
        return _ScoreSums(here.score(rest), here.information(roots))
