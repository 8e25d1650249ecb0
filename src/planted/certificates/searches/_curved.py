"""Repeated paths of widths for units of any activation, until a certificate holds.

Problem     Find the network of a given activation behind the rows, and know when to stop.
Idea        Each attempt follows widths up and down from a fresh start (`fitting.curved._path`). One that reproduces its
            rows is oriented, refined on all rows and certified; then further attempts of the same width are rivals: they
            must end at the same network or fail. With noise attempts go on until the best one was reached twice; it is
            refined on all rows, and one more unit and other activations are tried beside it.

            Activations that differ from their mirror image by a linear function are searched with a free linear part, in
            which orientation is a gauge, and oriented afterwards (`fitting.curved._orientation`). A linear part stays where
            none of the orientations explains the rows. Leaky units of unknown slope are searched as absolute values.
Guarantee   The network may be missed; the certificate decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import linalg, stats

from planted._typing import Array
from planted.certificates._curved import certify_curved_exactly, certify_curved_noisily
from planted.certificates._exact import certify_noiseless
from planted.certificates._few_outputs import few_outputs_evidence
from planted.certificates._noisy import certify_noisy
from planted.checks import Check
from planted.fitting._jacobian import polish
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import MethodRun, Problem
from planted.fitting.curved._orientation import orient_fit, read_slope
from planted.fitting.curved._path import FIRST_WIDTH, UnitPath, follow_units
from planted.fitting.multistart._rows import SearchRows
from planted.moments import augment, check_rows_against, output_columns
from planted.networks import (
    Activation,
    TwoLayerNetwork,
    is_slope_unknown,
    parameter_error,
    parse_activation,
)
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict
from planted.rows import RowWeights

__all__ = ["UnitSearch", "search_units"]

SAME_CRITERION = (
    1.0  # difference of criteria, each n m log(cost), at which two attempts ended at the same optimum
)
SAME_NETWORK = 1e-5  # largest difference of parameters of one network found twice, relative to the largest
LEAST_ATTEMPTS = 4  # with noise: the best optimum of few starts may be a local one
APPROXIMATED = 2  # attempts where more units than an expanded fit begins with approximate the rows
UNSETTLED = 3  # attempts that reproduce the rows without a certificate before the search ends
RIVAL_SEARCHES = {"quick": 1, "normal": 2, "thorough": 5}
N_ORIENTED = 3  # attempts whose units are turned: the best beside a linear part need not be the best without
LINEAR_LEVEL = 1e-3  # of the F test for a linear part
RIVAL_MARGIN = 9.0  # noise variances by which another activation must fit worse
RIVALS = ("relu", "tanh", "softplus", "gelu", "silu", "elu")
SLOPE_STEPS = 4
SLOPE_SHOWN = 1e-12  # part of the outputs below the kinks that nothing else can take up


@dataclass(slots=True)
class UnitSearch:
    """Attempts at the units of a network, and the best so far."""

    run: MethodRun
    rows: SearchRows  # the rows in memory, split
    activation: Activation
    n_hidden: int | None  # None: to be found
    is_leaky: bool  # leaky units of unknown slope, searched as absolute values
    weights: RowWeights | None  # weights of all rows, mean one
    offset: bool = True  # whether c is free where there is no linear part
    affine: bool | str = "auto"  # whether there is a linear part; "auto" keeps it when it is needed
    effort: str = "normal"
    n_restarts: int = 10
    extra: int | None = None  # units beyond those looked for; as many again if None
    best: UnitPath | None = None
    ended: list[UnitPath] = field(default_factory=list)  # attempts that did not reproduce their rows
    linear: bool = False  # whether the present attempts have a free linear part
    fit: Refinement | None = None  # the fit to all rows that was judged, of noisy ones

    @classmethod
    def begin(
        cls,
        run: MethodRun,
        rows: SearchRows,
        activation: str,
        n_hidden: int | str,
        *,
        weights: RowWeights | None,
    ) -> UnitSearch:
        """Return a search for units of an activation by name."""
        is_leaky = is_slope_unknown(activation)
        shape = parse_activation("absolute" if is_leaky else activation)
        wanted = n_hidden if isinstance(n_hidden, int) else None
        return cls(run, rows, shape, wanted, is_leaky, weights)

    @property
    def problem(self) -> Problem:
        """The standardised problem."""
        return self.run.problem

    @property
    def can_turn(self) -> bool:
        """Whether units are to be oriented after a fit with a free linear part."""
        mirror = self.activation.mirror
        slopes = self.is_leaky or (mirror is not None and mirror.slope != 0)
        return slopes and self.affine is not True

    def frees_offset(self, network: TwoLayerNetwork) -> bool:
        """Whether c is free: a linear part moves it, since inputs are centred."""
        return self.offset or network.B is not None

    def attempt(self, n_hidden: int | None, known: Array | None = None) -> UnitPath:
        """Follow the widths once."""
        path = follow_units(
            self.problem,
            self.rows,
            self.activation,
            linear=self.linear,
            n_hidden=n_hidden,
            extra=self.extra,
            known=known,
            n_rows=None if self.best is None else len(self.best.data.Y),
        )
        self.run.trace.extend(path.records)
        return path

    def record(
        self, network: TwoLayerNetwork | None, verdict: Verdict, path: UnitPath | None = None
    ) -> Recovery:
        """Make the record of a verdict."""
        trace = self.run.trace
        if path is not None and self.n_hidden is None:
            chosen = Evidence("units that the path of widths chose", path.n_hidden, key=Check.WIDTH)
            verdict = replace(verdict, evidence=(chosen, *verdict.evidence))
        return self.run.finish(
            network,
            verdict,
            restarts=sum(item["start"] == "expand" for item in trace),
            iterations=sum(len(item["costs"]) for item in trace),
        )

    def interrupted(self, reason: str) -> Recovery:
        """Return the best so far; nothing more is read."""
        doubt = Unavailable("The search was interrupted.")
        if self.best is None:
            text = f"{reason} No attempt had ended."
            return self.record(None, Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (), text, doubt))
        error = float(np.sqrt(self.best.score))
        level = Evidence("held-out residual, in output standard deviations", error, key=Check.HELD_OUT_ERROR)
        text = f"{reason} The best attempt misses held-out rows by {error:.2g} output standard deviations."
        verdict = Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (level,), text, doubt)
        return self.record(self.best.fit.network(self.activation), verdict, self.best)


def search_units(search: UnitSearch) -> Recovery:
    """Attempt until a certificate holds; with ``affine="auto"`` a linear part is tried where one is missing."""
    search.run.on_stop = search.interrupted
    search.linear = search.can_turn or search.affine is True
    answer = _recover(search)
    if search.affine != "auto" or search.can_turn or answer.outcome is Outcome.RECOVERED:
        return answer
    if any(line.passed for line in answer.find(Check.RESIDUAL)) or not _lacks_linear_part(search):
        return answer
    bent = replace(search, linear=True, best=None, ended=[])
    other = _recover(bent)
    return other if other.outcome is Outcome.RECOVERED else answer


def _recover(search: UnitSearch) -> Recovery:
    """Attempt until a certificate holds; else return the best with what speaks against it."""
    answer, unsettled, is_repeated = None, 0, False
    for number in range(search.n_restarts):
        path = search.attempt(search.n_hidden)
        search.problem.progress(f"restart {number + 1}", (number + 1) / search.n_restarts)
        if path.is_exact:
            found = _finish_exactly(search, path)
            if found.outcome is Outcome.RECOVERED:
                return found
            answer, unsettled = answer or found, unsettled + 1
            if unsettled == UNSETTLED:
                return answer
            continue
        search.ended.append(path)
        best = search.best
        if best is not None and abs(path.criterion - best.criterion) <= SAME_CRITERION:
            is_repeated = True
        if best is None or path.criterion < best.criterion:
            is_repeated &= best is not None and path.criterion >= best.criterion - SAME_CRITERION
            search.best = path
        if answer is None and number + 1 >= (LEAST_ATTEMPTS if is_repeated else _patience(search)):
            break
    if answer is not None:
        return answer
    assert search.best is not None
    return _finish_noisily(search, search.best, is_repeated)


def _patience(search: UnitSearch) -> int:
    """How many attempts to make: few where units are added without end, to a function that has none of this activation."""
    assert search.best is not None
    is_approximation = search.n_hidden is None and search.best.n_hidden >= FIRST_WIDTH
    return APPROXIMATED if is_approximation else search.n_restarts


def _oriented(search: UnitSearch, path: UnitPath) -> TwoLayerNetwork | None:
    """The network without a linear part that a fit with one turns into; None if there is nothing to turn."""
    if not search.can_turn:
        return None
    if search.is_leaky:
        activation, fit = read_slope(path.data, path.fit)
        return fit.network(activation)
    return orient_fit(path.data, path.fit).network(search.activation)


def _finish_exactly(search: UnitSearch, path: UnitPath) -> Recovery:
    """Orient, refine and certify a fit that reproduces its rows, and look for rivals."""
    network = path.fit.network(search.activation)
    plain = _oriented(search, path)
    refined = None if plain is None else _refined(search, plain, exact=True)
    if refined is None or (search.affine == "auto" and not _reproduces(search.problem, refined)):
        refined = _refined(search, network, exact=True) if refined is None or not search.is_leaky else refined
    verdict = _exact_verdict(search, refined, None, 0)
    if verdict.outcome is Outcome.RECOVERED:
        searches = RIVAL_SEARCHES[search.effort]
        rivals = _count_rivals(search, path, refined.network, searches)
        verdict = _exact_verdict(search, refined, rivals, searches)
    return search.record(refined.network, verdict, path)


def _exact_verdict(search: UnitSearch, refined: Refinement, rivals: int | None, searches: int) -> Verdict:
    """Certify a network that seems to reproduce all rows; kinks have their own certificate."""
    if not refined.network.activation.is_piecewise_linear:
        return certify_curved_exactly(
            search.problem,
            refined,
            offset=search.frees_offset(refined.network),
            rivals=rivals,
            searches=searches,
        )
    active = check_rows_against(search.problem.blocks, refined.network).active
    further = few_outputs_evidence(search.problem, refined.network, active)
    return certify_noiseless(
        search.problem, refined, offset=search.frees_offset(refined.network), rivals=rivals, further=further
    )


def _count_rivals(search: UnitSearch, path: UnitPath, network: TwoLayerNetwork, searches: int) -> int:
    """Count searches from other starts that reproduce the rows with another network of this width or fewer units."""
    rivals = 0
    size = max(float(np.abs(getattr(network, name)).max(initial=1.0)) for name in network.parts)
    for _ in range(searches):
        other = search.attempt(path.n_hidden)
        if not other.is_exact:
            continue
        rival = _oriented(search, other) if search.is_leaky else other.fit.network(search.activation)
        assert rival is not None
        rival = replace(
            rival, activation=network.activation
        )  # the slope of leaky units was found to rounding
        rivals += not parameter_error(rival, network) <= SAME_NETWORK * size
    return rivals


def _refined(search: UnitSearch, network: TwoLayerNetwork, *, exact: bool) -> Refinement:
    """Refine a network on all rows; an exact one is polished on those in memory too."""
    problem = search.problem
    network = problem.scaling.in_order(network)
    offset = search.frees_offset(network)
    fit = refine(problem.blocks, network, offset=offset, weights=search.weights)
    for _ in range(SLOPE_STEPS if search.is_leaky and network.B is None else 0):
        slope = -fit.network.activation.left + _slope_step(problem, fit.network, offset)
        if abs(slope) == 1:
            break
        moved = parse_activation(f"leaky-relu:{slope!r}")
        start = replace(fit.network, activation=moved)
        trial = refine(problem.blocks, start, offset=offset, weights=search.weights)
        if not trial.cost < fit.cost:
            break
        fit = trial
    if exact and not _reproduces(problem, fit):
        better = polish(problem.X, problem.Y, fit.network, offset=offset)
        fit = refine(problem.blocks, better, offset=offset, max_iter=0)
    return fit


def _reproduces(problem: Problem, fit: Refinement) -> bool:
    from planted.certificates._parts import reproduces_rows

    return not reproduces_rows(problem, fit.network)[0].missed


def _slope_step(problem: Problem, network: TwoLayerNetwork, offset: bool) -> float:
    """The Gauss-Newton step of the slope of leaky units at a minimum over all else; zero where no sample shows the slope."""
    t = network.preactivations(problem.X)
    rows = augment(problem.X)
    masked = (network.activation.derivative(t)[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
    G = output_columns(network, network.activation(t), problem.X, offset=offset)
    hidden = [masked * np.repeat(row, rows.shape[1]) for row in network.A]
    J = np.hstack([np.vstack(hidden), np.kron(np.eye(network.n_outputs), G)])
    column = (np.minimum(t, 0.0) @ network.A.T).T.ravel()
    residual = (problem.Y - network(problem.X)).T.ravel()
    own = column - J @ linalg.lstsq(J, column, check_finite=False)[0]
    size = float(own @ own)
    return float(own @ residual) / size if size > SLOPE_SHOWN**2 * float(column @ column) else 0.0


def _finish_noisily(search: UnitSearch, path: UnitPath, is_repeated: bool) -> Recovery:
    """Orient, refine on all rows and judge a fit whose residual is noise."""
    problem = search.problem
    free = _refined(search, path.fit.network(search.activation), exact=False) if not search.is_leaky else None
    same = [each for each in search.ended if each.n_hidden == path.n_hidden]
    near = sorted(same, key=lambda each: each.criterion)[:N_ORIENTED]
    turned = [net for net in (_oriented(search, each) for each in near) if net is not None]
    fit = free
    if turned:
        fit = min((_refined(search, net, exact=False) for net in turned), key=lambda each: each.cost)
        if search.affine == "auto" and free is not None and _needs_linear_part(problem, free, fit):
            fit = free
    assert fit is not None
    search.fit = fit
    further = [
        Evidence("attempts that ended at the best optimum", 1 + is_repeated, 2, ">=", key=Check.LOCAL_MINIMUM)
    ]
    if fit.network.activation.is_piecewise_linear:
        active = check_rows_against(problem.blocks, fit.network).active
        further += few_outputs_evidence(problem, fit.network, active)
        verdict = certify_noisy(
            problem, fit, offset=search.frees_offset(fit.network), weights=search.weights, further=further
        )
        return search.record(fit.network, verdict, path)
    told = Evidence(
        "whether the number of units was given: noise hides units, and lets one stand for two",
        int(search.n_hidden is not None),
        1,
        ">=",
        key=Check.WIDTH,
    )
    wider = path.criteria.get(path.n_hidden + 1)
    further += [told] if wider is None else [told, _one_more(path, wider)]
    verdict = _noisy_verdict(search, fit, further)
    if verdict.outcome is Outcome.RECOVERED:  # the dearest searches come last
        wider = search.attempt(path.n_hidden + 1).criterion if wider is None else wider
        verdict = _noisy_verdict(
            search, fit, [*further[:2], _one_more(path, wider), _other_activations(search, path)]
        )
    return search.record(fit.network, verdict, path)


def _noisy_verdict(search: UnitSearch, fit: Refinement, further: list[Evidence]) -> Verdict:
    return certify_curved_noisily(
        search.problem, fit, offset=search.frees_offset(fit.network), weights=search.weights, further=further
    )


def _lacks_linear_part(search: UnitSearch) -> bool:
    """Whether a linear part beside the units of the fit explains more than noise lets it."""
    if search.fit is None:
        return True
    problem, network = search.problem, search.fit.network
    start = replace(network, B=np.zeros((network.n_outputs, network.n_features)))
    return _needs_linear_part(problem, refine(problem.blocks, start, weights=search.weights), search.fit)


def _needs_linear_part(problem: Problem, free: Refinement, plain: Refinement) -> bool:
    """Whether the sum of squares rises without the linear part by more than noise lets it."""
    spare = problem.n_features * problem.n_outputs
    left = problem.n_samples * problem.n_outputs - free.network.n_parameters
    if left <= 0 or free.cost <= 0:
        return plain.cost > free.cost
    ratio = (plain.cost - free.cost) / spare / (free.cost / left)
    return bool(stats.f.sf(ratio, spare, left) < LINEAR_LEVEL)


def _one_more(path: UnitPath, wider: float) -> Evidence:
    """Return what one more unit gains in the criterion of the path: less than nothing is needed."""
    name = "gain of one more unit in n m log(cost) + log(n m) unknowns"
    return Evidence(name, float(path.criterion - wider), 0.0, "<=", "Schwarz", key=Check.MISSING_UNIT)


def _other_activations(search: UnitSearch, path: UnitPath) -> Evidence:
    """Compare with other activations of as many units on the same rows; the nearest one is named."""
    best, nearest = np.inf, ""
    for name in RIVALS:
        activation = parse_activation(name)
        own = (search.activation.respelled or (search.activation.name,))[
            0
        ]  # sigmoid is tanh in another spelling
        if name == own:
            continue
        mirror = activation.mirror
        linear = search.linear or (mirror is not None and mirror.slope != 0)
        rival = follow_units(
            search.problem,
            search.rows,
            activation,
            linear=linear,
            n_hidden=path.n_hidden,
            n_rows=len(path.data.Y),
        )
        gap = path.data.Y.size * (np.log(rival.fit.cost) - np.log(path.fit.cost))
        if gap < best:
            best, nearest = float(gap), name
    line = f"rise of n m log(cost) with {nearest} units, the nearest other activation"
    return Evidence(line, best, RIVAL_MARGIN, ">=", key=Check.SMOOTH_BENDS)
