"""`recover(activation="auto")`: try a short list of activations and say how each explains the samples.

Problem     The activation is not known. Which one made the samples?
Idea        Each activation of the list is fitted by a path of widths (`planted.fitting.curved._path`). One that reproduces
            its rows to rounding goes first; with noise it is the one with the smallest n m log(cost) + log(n m) unknowns.
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
from planted.fitting.curved._path import UnitPath, follow_units
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

    @property
    def rank(self) -> tuple[bool, float]:
        """Activations that reproduce their rows first, with few units; then the criterion."""
        return not self.path.is_exact, self.path.n_hidden if self.path.is_exact else self.path.criterion

    def explains_as_well_as(self, best: _Try) -> bool:
        """Whether nothing tells the two apart: as few units that reproduce the rows, or a criterion as small."""
        if best.path.is_exact:
            return self.path.is_exact and self.path.n_hidden <= best.path.n_hidden
        return self.path.criterion < best.path.criterion + UNDECIDED


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
            found = _Try(name, _follow(run, rows, name, wanted))
            run.trace.extend(found.path.records)
            if name not in best or found.rank < best[name].rank:
                best[name] = found
        if any(each.path.is_exact for each in best.values()):
            break
    return list(best.values())


def equally_good(tries: list[_Try]) -> list[_Try]:
    """Return those that nothing tells apart from the best: kinks first, then by rank."""
    first = min(tries, key=lambda each: each.rank)
    same = [each for each in tries if each.explains_as_well_as(first)]
    return sorted(same, key=lambda each: (not parse_activation(each.name).is_piecewise_linear, each.rank))


def _follow(run: MethodRun, rows: SearchRows, name: str, n_hidden: int | None) -> UnitPath:
    """Follow the widths with one activation; kinks as absolute values, of which ReLU and leaky units are made."""
    activation: Activation = parse_activation(name)
    if activation.is_piecewise_linear:
        return follow_units(
            run.problem, rows, parse_activation("absolute"), linear=True, n_hidden=n_hidden, is_brief=True
        )
    mirror = activation.mirror
    linear = mirror is not None and mirror.slope != 0
    return follow_units(run.problem, rows, activation, linear=linear, n_hidden=n_hidden, is_brief=True)
