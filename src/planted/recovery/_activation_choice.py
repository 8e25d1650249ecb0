"""`recover(activation="auto")`: try a short list of activations and say how each explains the samples.

Problem     The activation is not known. Which one made the samples?
Idea        Each activation of the list is fitted by a path of widths (`planted.fitting.curved._path`). One that reproduces
            its rows to rounding goes first; with noise it is the one with the smallest n m log(cost) + log(n m) unknowns.
            Units whose orientation is found beside a free linear part are turned before they are compared in noise, and
            fitted from new starts without it: its d m unknowns would count against them.
            Kinks go before curved units that explain the rows equally: steep softplus units look like ReLU.
            ReLU and leaky units are fitted as one, as absolute values beside a linear part. The method "restarts" then
            recovers the network with the activation that was chosen.
Guarantee   That of "restarts". If two activations reproduce the rows, nothing is claimed; with noise "restarts" claims
            nothing either while another activation explains the samples as well. Sigmoid is not on the list: it is tanh with
            other weights, tanh(t) = 2 sigmoid(2t) - 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planted.checks import Check
from planted.fitting._run import MethodRun
from planted.fitting.curved._orientation import orient_fit, read_slope
from planted.fitting.curved._path import UnitPath, follow_units, width_criterion
from planted.fitting.curved._units import UnitFit, UnitRows, fit_units
from planted.fitting.multistart._rows import SearchRows, split_rows
from planted.networks import Activation, is_rectifier, parse_activation
from planted.outcomes import Guarantee, Outcome
from planted.recovery._registry import find_method
from planted.results import Evidence, Recovery

__all__ = ["SHORTLIST", "recover_with_some_activation"]

SHORTLIST = ("relu", "tanh", "softplus", "gelu", "silu", "power:2")
PASSES = 3  # over the list, until an activation reproduces its rows
UNDECIDED = 9.0  # noise variances by which the best activation must be better than the next


@dataclass(frozen=True, slots=True)
class _Try:
    """How one activation explains the rows."""

    name: str
    path: UnitPath
    criterion: float  # of the path, or without a linear part if that is better

    @classmethod
    def follow(cls, run: MethodRun, rows: SearchRows, name: str, n_hidden: int | None) -> _Try:
        """Follow the widths with one activation, beside a linear part where that makes orientation a gauge."""
        path = follow_units(
            run.problem,
            rows,
            _shape(name),
            linear=_has_slope(parse_activation(name)),
            n_hidden=n_hidden,
            is_brief=True,
        )
        return cls(name, path, path.criterion)

    def without_linear_part(self, run: MethodRun, rows: SearchRows) -> _Try:
        """Return the try with the smallest criterion without a linear part, if that is smaller."""
        if not self.path.data.linear:
            return self
        activation, size = parse_activation(self.name), len(self.path.data.Y)
        criteria = [self.criterion, *_turned_criteria(self.path, activation)]
        for _ in range(0 if activation.is_piecewise_linear else PASSES):
            plain = follow_units(
                run.problem,
                rows,
                activation,
                linear=False,
                n_hidden=self.path.n_hidden,
                n_rows=size,
                is_brief=True,
            )
            criteria.append(plain.criterion)
        return replace(self, criterion=min(criteria))

    @property
    def rank(self) -> tuple[bool, float]:
        """Activations that reproduce their rows first, with few units; then the criterion."""
        return not self.path.is_exact, self.path.n_hidden if self.path.is_exact else self.criterion

    def explains_as_well_as(self, best: _Try) -> bool:
        """Whether nothing tells the two apart: as few units that reproduce the rows, or a criterion as small."""
        if best.path.is_exact:
            return self.path.is_exact and self.path.n_hidden <= best.path.n_hidden
        return self.criterion < best.criterion + UNDECIDED


def recover_with_some_activation(
    run: MethodRun,
    n_hidden: int | str,
    *,
    activation: str,
    effort: str = "normal",
    affine: bool | str = "auto",
) -> Recovery:
    """Choose an activation of the list, and recover the network with it."""
    tries = _try_all(run, n_hidden)
    best, *rivals = equally_good(tries)
    options: dict[str, Any] = {"effort": effort, "affine": affine}
    method = find_method("restarts")
    answer = method.run(run.data, n_hidden, activation=best.name, **options)
    if is_rectifier(best.name) and (answer.network is None or answer.network.B is not None):
        leaky = method.run(run.data, n_hidden, activation="leaky-relu", effort=effort)
        answer = leaky if leaky.outcome is Outcome.RECOVERED else answer
    lines = tuple(
        Evidence(
            f"held-out residual with {each.path.n_hidden} {each.name} units, in output standard deviations",
            float(np.sqrt(each.path.score)),
            key=Check.HELD_OUT_ERROR,
        )
        for each in tries
    )
    equals = [each.name for each in rivals]
    answer = replace(
        answer, evidence=(*answer.evidence, *lines), stats={**answer.stats, "activations_as_good": equals}
    )
    if not rivals or answer.network is None:
        return answer
    text = (
        f"{' and '.join(equals)} units explain the samples as well as {best.name} units; "
        "the samples do not tell which they are."
    )
    if answer.outcome is not Outcome.RECOVERED:
        return replace(answer, detail=f"{answer.detail} {text}".strip())
    return replace(answer, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)


def _try_all(run: MethodRun, n_hidden: int | str) -> list[_Try]:
    """Fit every activation of the list, again from other starts while none reproduces its rows."""
    rows = split_rows(run.problem, loss="squared", omega=None)
    wanted = n_hidden if isinstance(n_hidden, int) else None
    best: dict[str, _Try] = {}
    for _ in range(PASSES):
        for name in SHORTLIST:
            found = _Try.follow(run, rows, name, wanted)
            run.trace.extend(found.path.records)
            if name not in best or found.rank < best[name].rank:
                best[name] = found
        if any(each.path.is_exact for each in best.values()):
            return list(best.values())
    return [each.without_linear_part(run, rows) for each in best.values()]


def equally_good(tries: list[_Try]) -> list[_Try]:
    """Return those that nothing tells apart from the best: kinks first, then by rank."""
    first = min(tries, key=lambda each: each.rank)
    same = [each for each in tries if each.explains_as_well_as(first)]
    return sorted(same, key=lambda each: (not parse_activation(each.name).is_piecewise_linear, each.rank))


def _shape(name: str) -> Activation:
    """What is fitted to find the width: of kinks absolute values, of which ReLU and leaky units are made."""
    activation = parse_activation(name)
    return parse_activation("absolute") if activation.is_piecewise_linear else activation


def _has_slope(activation: Activation) -> bool:
    """Whether a unit and its mirror image differ by a linear function."""
    return activation.mirror is not None and activation.mirror.slope != 0


def _turned_criteria(path: UnitPath, activation: Activation) -> list[float]:
    """The criterion of the path's units without a linear part, each turned or not; of kinks with a slope below them too."""
    data, fit = replace(path.data, activation=activation), path.fit
    if not activation.is_piecewise_linear:
        return [_turned_criterion(data, fit)]
    leaky, turned = read_slope(path.data, fit)
    slope_found = width_criterion(replace(data, activation=leaky, linear=False), turned, 1)
    same = fit_units(data, fit.V, max_iter=0, decrease_tol=1.0)  # beside a linear part |t| is ReLU
    return [slope_found, _turned_criterion(data, same)]


def _turned_criterion(data: UnitRows, fit: UnitFit) -> float:
    return width_criterion(replace(data, linear=False), orient_fit(data, fit))
