"""Bracket the largest outputs of a network, or the largest difference of two, on a set of inputs.

Found: a search climbs from many starts, and every branch and bound offers the inputs it meets; values are those of the
networks. Proved: bounds of the whole set first, then branch and bound: on the signs of the units with a semidefinite
relaxation for one hidden layer, on the inputs for deeper networks, and on signs with linear programs beside it for boxes cut
by inequalities and for few open signs. It ends when the question is answered, when the two ends meet, or when the time is
over; the bracket is valid at any moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from planted._clock import StopRequested, check_time
from planted._typing import Array
from planted.verification._backward import Domain, improve, start_weights
from planted.verification._copies import UNDERFLOW, Match, match_copies, rewriting_error
from planted.verification._limits import find_limits, open_signs, output_limits
from planted.verification._search import Found, InputSet, climb
from planted.verification._signs import SignSearch, suits_signs
from planted.verification._splitting import InputSearch
from planted.verification._stages import Plain, Stage, matched_stages, single_stages, stacked_stages
from planted.verification._two_layers import TwoLayerSearch

__all__ = ["Bracket", "bracket"]

ROOT_STEPS = 30
ROUNDING = 1e-12  # of the largest output: what rounding may leave of the proof of a smaller difference
SMALLEST = -500  # exponent of products of weights that, with all their roundings, are far from underflow
CLIMB_EVERY = 20  # rounds of branch and bound between two searches from the best inputs


@dataclass(slots=True)
class Bracket:
    """What is known about the largest values: m directions upwards, then m downwards unless only upwards is asked."""

    found: Array  # (2m,) or (m,): values of the networks at `inputs`
    inputs: Array  # (2m, d) or (m, d)
    proved: Array  # as found: no value is larger
    interval: Array  # what intervals alone prove
    relaxed: Array  # what one relaxation of the whole set proves, before any branching
    history: list[tuple[float, float, float]] = field(default_factory=list)  # seconds, found, proved
    reason: str = ""  # why it ended early; empty if it did not
    match: Match | None = None

    @property
    def largest_found(self) -> float:
        """The largest value in any direction."""
        return float(self.found.max())

    @property
    def largest_proved(self) -> float:
        """A bound of all values in all directions."""
        return float(self.proved.max())


def bracket(
    f: Plain,
    g: Plain | None,
    inputs: InputSet,
    *,
    tol: float | None = None,
    gap: float = 1e-9,
    only_upwards: bool = False,
    margin: float = 0.0,
    rng: np.random.Generator,
) -> Bracket:
    """Bracket the outputs of f, or of f - g, in both directions; the largest values alone with `only_upwards`.

    With `tol` it ends as soon as a value above it is found or none is proved to be; without, when the ends of the largest
    bracket are within `gap` of each other, relative to the size of the larger one, or within what rounding leaves.
    `check_time` ends it at any time. What is found is taken to be smaller by `margin`, so that rounding of the networks does
    not decide.
    """
    run = _Run((f,) if g is None else (f, g), inputs, tol, gap, only_upwards, margin, rng)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            run.close_in()
    except StopRequested as stop:
        run.state.reason = str(stop)
    except KeyboardInterrupt:
        run.state.reason = "interrupted"
    run.note(run.state.proved)
    return run.state


class _Run:
    """One bracket while it closes."""

    def __init__(
        self,
        nets: tuple[Plain, ...],
        inputs: InputSet,
        tol: float | None,
        gap: float,
        only_upwards: bool,
        margin: float,
        rng: np.random.Generator,
    ) -> None:
        self.nets, self.margin = nets, margin
        self.inputs, self.tol, self.gap, self.rng = inputs, tol, gap, rng
        count = nets[0].widths[-1] * (1 if only_upwards else 2)
        self.found = Found(np.full(count, -np.inf), np.tile(inputs.low, (count, 1)), self.evaluate)
        unknown = np.full(count, np.inf)
        self.state = Bracket(self.found.values, self.found.inputs, unknown, unknown, unknown)
        self.begun = monotonic()

    def evaluate(self, rows: Array) -> Array:
        """The outputs, or the differences of outputs."""
        outputs = [net(rows) for net in self.nets]
        values = outputs[0] if len(outputs) == 1 else np.asarray(outputs[0] - outputs[1])
        return values - self.margin if self.margin else values

    def note(self, proved: Array) -> None:
        """Keep what is found and proved by now."""
        state, found = self.state, self.found
        state.found, state.inputs = found.values, found.inputs
        state.proved = np.minimum(state.proved, np.maximum(proved, found.values))
        now = (monotonic() - self.begun, state.largest_found, state.largest_proved)
        if not state.history or state.history[-1][1:] != now[1:]:
            state.history.append(now)

    def goal(self) -> float:
        """The bound that ends the work."""
        if self.tol is not None:
            return float(self.tol)
        top = float(self.found.values.max())
        if not np.isfinite(top):
            return -np.inf
        size = float(np.abs(self.nets[0](self.found.inputs)).max())
        return top + max(self.gap * abs(top), ROUNDING * size)

    def is_done(self) -> bool:
        """Whether the question is answered."""
        if self.tol is not None and float(self.found.values.max()) > self.tol:
            return True
        return self.state.largest_proved <= self.goal()

    def close_in(self) -> None:
        """Search, bound the whole set, then branch until the goal is reached."""
        inputs, found, state = self.inputs, self.found, self.state
        middle = (0.5 * inputs.low + 0.5 * inputs.high)[None]
        found.offer(middle[inputs.contains(middle)])
        stages, error, state.match = _choose_stages(self.nets, inputs)
        count = len(found.values)
        error = np.concatenate([error, error])[:count] + sum(_underflow(net, inputs) for net in self.nets)
        whole = Domain(inputs.low[None], inputs.high[None], inputs.G, inputs.g)
        state.interval, state.relaxed = (part[:count] for part in _root_bounds(stages, whole))
        self.note(state.relaxed + error)
        if self.is_done():
            return
        climb(self.nets, inputs, found, self.rng)
        self._branch(stages, error)

    def _branch(self, stages: tuple[Stage, ...], error: Array) -> None:
        """Branch and bound until the goal is reached: the searches take turns, and each has bounds of its own."""
        inputs, found, state = self.inputs, self.found, self.state
        by_inputs = InputSearch(stages, inputs, found)
        by_inputs.start()
        self.note(by_inputs.bounds() + error)
        searches: list[InputSearch | TwoLayerSearch | SignSearch] = [by_inputs]
        if len(stages) == 2 and not self.is_done():
            two_layers = TwoLayerSearch(stages, inputs, found, self.rng)
            two_layers.caps = np.minimum(by_inputs.bounds(), state.relaxed)
            two_layers.start(np.arange(len(found.values)))
            self.note(two_layers.bounds() + error)
            searches = [two_layers]
        if (len(inputs.g) or len(stages) > 2) and not self.is_done() and suits_signs(stages, inputs):
            by_signs = SignSearch(stages, inputs, found)
            by_signs.start(self.goal() - float(error.max()))
            self.note(by_signs.bounds() + error)
            searches.append(by_signs)
        rounds = 0
        while not self.is_done():
            check_time()
            search = searches[rounds % len(searches)]
            rounds += 1
            if search.step(self.goal() - float(error.max())):
                self.note(search.bounds() + error)
            elif search is by_inputs:
                break
            else:  # a leaf may be bounded too loosely: the inputs are split instead
                searches = [other for other in searches if other is not search] or [by_inputs]
            if rounds % CLIMB_EVERY == 0:
                climb(self.nets, inputs, found, self.rng, starts=np.unique(found.inputs, axis=0))


def _choose_stages(
    nets: tuple[Plain, ...], inputs: InputSet
) -> tuple[tuple[Stage, ...], Array, Match | None]:
    """The stages to bound, what rewriting the second network costs, and the matching of units if it is used."""
    f = nets[0]
    nothing = np.zeros(f.widths[-1])
    if len(nets) == 1:
        return single_stages(f), nothing, None
    g = nets[1]
    whole = Domain(inputs.low[None], inputs.high[None], inputs.G, inputs.g)
    choices: list[tuple[tuple[Stage, ...], Array, Match | None]] = []
    for keep_order in (True, False):
        match = match_copies(f, g, keep_order=keep_order)
        if match is not None:
            error = rewriting_error(match, inputs.low, inputs.high)
            choices.append((matched_stages(f, match.network), error, match))
    choices.append((stacked_stages(f, g), nothing, None))
    bounds = [_root_bounds(stages, whole, 0)[1].max() + error.max() for stages, error, _ in choices]
    return choices[int(np.argmin(np.nan_to_num(bounds, nan=np.inf)))]


def _underflow(net: Plain, inputs: InputSet) -> float:
    """What is lost at most where numbers underflow, carried to the outputs; zero for weights of ordinary size."""
    parts = [np.append(inputs.low, inputs.high), *(np.append(W, b) for W, b in net.layers)]
    sizes = [np.abs(part[part != 0]).min(initial=1.0) for part in parts]
    if np.log2(sizes).sum() > SMALLEST:
        return 0.0
    gain = 1.0
    for (W, _), slopes in zip(net.layers, [*net.slopes, np.ones(1)], strict=True):
        gain = 1.0 + gain * float(np.abs(W).sum(axis=1).max() * np.abs(slopes).max(initial=1.0))
    return UNDERFLOW * gain


def _root_bounds(stages: tuple[Stage, ...], whole: Domain, n_steps: int = ROOT_STEPS) -> tuple[Array, Array]:
    """Bounds of all directions on the whole set: by intervals, and through lines."""
    signs = open_signs(stages, 1)
    limits, lines = find_limits(stages, whole, signs)
    out = output_limits(stages[-1], limits[-1], whole, stages[-2].slopes)
    r, k = len(stages[-1].e), len(stages[-1].b)
    m = r or k
    low, high = (out.d_low, out.d_high) if r else (out.z_low, out.z_high)
    interval = np.concatenate([high[0], -low[0]])
    both = np.vstack([np.eye(m), -np.eye(m)])[None]
    target = (np.zeros((1, 2 * m, k)), both) if r else (both, np.zeros((1, 2 * m, 0)))
    weights = start_weights(lines, 2 * m, len(whole.g))
    through = improve(stages, lines, signs, whole, target, weights, n_steps=n_steps)[0][0]
    return interval, np.minimum(interval, np.where(np.isnan(through), np.inf, through))
