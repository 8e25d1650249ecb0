r"""From the layers that were read to a network: polish it on fresh answers, then check it on others.

The checks are of six kinds: random answers at several distances; one answer on every linear piece of a fresh line; with
three hidden layers or more, answers where almost all units below the last of them are off (`_patterns`); answers where a
unit that has shown nowhere is likely to be on (`_unseen`); every answer so far, many of them asked where units are rare; and
the rank of the Jacobian, which says whether the answers determine all parameters, with the errors that they leave. For large
networks the rank is not computed; that every hidden unit was seen on and off stands for it.

Answers with decimals are wrong by half a step everywhere, while the function grows with the distance. Far enough out it is
as good as exact, and the network is read there. Its biases are small there: they show at typical inputs. All answers, far
and near, have the same rounding error, and least squares over all of them refines the network. The covariance of that fit,
with the scales of the hidden units fixed by unit rows, says how exact each parameter is:

.. math:: \Sigma = \frac{s^2}{12} (J'J + C'C)^{-1}, \qquad C\delta = (w_i'\delta w_i)_i                     \quad (1)

with s the step of the decimals. A function that bends smoothly looks broken from afar; fresh answers at typical inputs, some
of them where units switch, must be within two steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from planted._typing import Array, IntArray
from planted.identification._rounding import Rounding
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._patterns import Sought, barely_on, corner_places, least_places
from planted.identification.deep._space import Records
from planted.identification.deep._top import fit_top
from planted.identification.deep.ending._polish import jacobian, polish
from planted.identification.deep.ending._unseen import unseen_places
from planted.identification.deep.missing import LastUnits, MissingUnits
from planted.identification.deep.stages._state import Reading
from planted.identification.two_layer._search import STEPS_OFF, BlackBox, Checks, check_network
from planted.networks import DeepNetwork

__all__ = [
    "DeepFinding",
    "add_missing",
    "check_line",
    "finish_reading",
    "line_places",
    "missing_rank",
    "one_sided_units",
    "rare_places",
    "refine_nearby",
    "rescaled",
    "weigh",
]

ATTEMPTS = 3
# Equations for each parameter in the polish, fresh ones and from earlier questions, by the number of parameters.
PER_PARAMETER = ((600, 0.5, np.inf), (2_000, 1.0, 2.0), (np.inf, 2.5, 0.0))
LARGEST_RANK = 1_200  # parameters up to which the rank is computed
LARGEST_JACOBIAN = 4_000_000  # numbers, if there are more than six rows for each parameter
AT_BREAK = (
    1e-11  # of the terms of a unit and of those below: closer to zero, rounding decides on which side it is
)
UNCERTAIN = 1e-8  # relative error of a parameter that the answers do not determine
DEFICIENT = 1e-11  # singular value of a Jacobian with unit columns that counts as zero
RARE = 3  # rows for each weight of a unit, on and off, below which more are asked
WALK = 30  # steps from a place that was asked to a fresh one
NEAR = 4.0  # times the fresh rows: places farther out are no start of a walk
OUTWARD = 2.0  # log2 of how much farther out a walk begins, where a unit switches only far out
# For each parameter, with two hidden layers and with more: answers farther out, where rare units are less rare.
FAR_ROWS = (2, 1)
FAR = (2.0, 6.0)  # log2 of the distances of these, in typical inputs
CORNERS = 800  # places at which rare units show, at most
PER_CORNER = (4, 2)  # for each parameter, with two hidden layers and with more
UNSEEN, PER_UNSEEN = 400, 0.5  # places where units hide that no answer shows, at most, and per parameter
WEAK = 1e-2  # of the spread of the answers: the largest part of a unit without which the network is tried
AS_GOOD, EXACT = 2.0, 1e-12  # times what is left with it, and relative: what may be left without it
ON_LINE = 400  # questions on a fresh line, at most
NEAR_ANSWERS = 4.0  # for each parameter: answers at typical inputs after a reading farther out
NEAR_LINES = 4  # through typical inputs, asked where units switch
BISECTIONS = 50
MOST_GAPS = 24  # weights that no answer has shown, for which places are looked for
GAP_SIZES = (1.0, 0.1, 0.01)  # of the typical size of a unit that is on: how far it is on at such a place
GAP_ROOMS = (4.0, 30.0, 400.0)  # typical inputs: how far out the place may be
GAP_HEIGHT = 0.05  # of the unit below there, relative to the unit above
GAP_STEP = 1e-4  # from such a place to others around it, relative
UNEXPLAINED = 1e-6  # of the spread of the answers: what no rounding error explains
LARGEST_FIT = 6_000_000  # numbers in the Jacobian for the errors
SIGMAS = 5.0  # standard errors that bound the error of a parameter


@dataclass(frozen=True, slots=True)
class DeepFinding:
    """A deep network in the units of the search, and how it fared with fresh answers."""

    network: DeepNetwork
    checks: Checks  # random answers
    off_line: int  # answers on the pieces of a fresh line, and where units below are off, that did not match
    on_line: int  # how many were asked
    missing_rank: int  # parameters that the answers do not determine; -1 if not computed
    one_sided: tuple[
        tuple[int, int], ...
    ]  # (layer, unit) of hidden units that were never seen on, or never off
    rounding: Rounding  # of the answers
    bound: float | None = None  # on the error of a parameter, where answers are rounded
    words: str = ""  # how they are rounded
    n_attempts: int = 1  # how often fresh questions were asked, so that chance had as many opportunities
    rays: int = 0  # on which answers far out were asked
    agrees_within: float = np.inf  # typical inputs: the distance up to which all of these were as predicted
    unexplained: int = 0  # of all answers so far, those that are clearly not the network's

    @property
    def is_right(self) -> bool:
        """Whether all fresh answers at random places and on lines match, and earlier ones do."""
        return not (self.checks.misfits or self.off_line or self.unexplained)


def finish_reading(reading: Reading, records: Records, *, rng: np.random.Generator) -> DeepFinding:
    """Polish the network of a complete reading, and check it; what fresh answers show to be missing is added."""
    for attempt in range(ATTEMPTS):
        finding = replace(_finish_once(reading, records, rng), n_attempts=attempt + 1)
        if finding.is_right or not add_missing(reading, records, rng):
            break
    return finding


def add_missing(reading: Reading, records: Records, rng: np.random.Generator) -> bool:
    """Add units of the last hidden layer that explain what was asked since; whether there are such."""
    assert reading.top is not None
    layers, (rows, biases) = reading.layers[:-1], reading.layers[-1]
    switching = len(biases) - reading.passing
    units = LastUnits.whole((rows[:switching], biases[:switching]), reading.top.output[0].shape[0])
    units = replace(units, known=~reading.top.gaps[:switching])
    completed = MissingUnits(records, rng, reading.rounding).complete(layers, units)
    top = None if completed is None else fit_top(records.all(), layers, *completed)
    if top is None:
        return False
    reading.layers, reading.top = [*layers, top.layer], top
    return True


def _finish_once(reading: Reading, records: Records, rng: np.random.Generator) -> DeepFinding:
    """Polish the network and check it."""
    assert reading.top is not None and reading.rounding is not None  # only complete readings are finished
    rounding = reading.rounding
    box = replace(records.box, ask=records.ask)
    net = DeepNetwork([*reading.layers, reading.top.output])
    _, per, again = next(terms for terms in PER_PARAMETER if net.n_parameters <= terms[0])
    count = int(np.ceil(per * net.n_parameters / net.n_outputs)) + 20
    asked = records.all()
    rows = box.snap(box.draw(count, rng))
    if not box.has_box:
        rows = box.snap(rows * 2.0 ** rng.uniform(-1, 2, (count, 1)))
    rows = np.concatenate([rows, box.snap(rare_places(net, rows, asked[0], box, rng))])
    if _may_hide(net, box):
        is_deeper = net.n_hidden_layers > 2
        corners = min(CORNERS, PER_CORNER[is_deeper] * net.n_parameters)
        far = box.draw(FAR_ROWS[is_deeper] * net.n_parameters // net.n_outputs, rng)
        if not box.has_box:
            far *= 2.0 ** rng.uniform(*FAR, (len(far), 1))
        rows = np.concatenate(
            [
                rows,
                box.snap(far),
                corner_places(reading.layers[:-1], box, corners, rng),
            ]
        )
    least = np.zeros((0, box.n_features))
    if net.n_hidden_layers > 2:
        least = least_places(reading.layers[:-1], box, rng.spawn(1)[0])
        rows = np.concatenate([rows, least])
    rows = np.concatenate([rows, _gap_places(reading, box, asked[0])])
    if _may_hide(net, box):
        before = np.concatenate([asked[0], rows])
        most = min(UNSEEN, int(PER_UNSEEN * net.n_parameters))
        lower, last = reading.layers[:-1], reading.layers[-1]
        rows = np.concatenate([rows, unseen_places(lower, last, before, box, most=most, rng=rng.spawn(1)[0])])
    fresh: tuple[Array, ...] = (rows, records.ask(rows))
    if fit_top(records.all(), reading.layers[:-1], reading.layers[-1]) is None and (
        _refine(reading, records, asked) or add_missing(reading, records, rng)
    ):
        net = DeepNetwork([*reading.layers, reading.top.output])
        more = box.snap(rare_places(net, rows, records.all()[0], box, rng))
        if len(more):
            records.ask(more)
        fresh = tuple(part[len(asked[0]) :] for part in records.all())
    X, Y = records.all()
    if np.isfinite(again):
        some = rng.permutation(len(asked[0]))[: int(again * net.n_parameters / net.n_outputs)]
        X, Y = (np.concatenate([old[some], new]) for old, new in zip((X, Y), fresh, strict=True))
    net = _without_needless(polish(net, X, Y, weigh(X)), X, Y, reading)
    checks = check_network(box, net, rounding, rng)
    off, on = check_line(net, records, rounding, rng)
    if len(least):  # no random place comes near these
        off += _count_off(net, least, records.ask(least), rounding)
        on += len(least)
    Z, answers = records.all()
    finding = DeepFinding(
        net, checks, off, on, missing_rank(net, Z, answers), one_sided_units(net, Z), rounding
    )
    return replace(finding, unexplained=_count_unexplained(net, Z, answers))


def _count_unexplained(net: DeepNetwork, X: Array, Y: Array) -> int:
    """How many of all answers are clearly not those of the network; a random sample hardly meets rare units."""
    left = np.abs(Y - net(X)) * weigh(X)[:, None]
    return int((left > UNEXPLAINED * _spread(X, Y)).any(axis=1).sum())


def _gap_places(reading: Reading, box: BlackBox, asked: Array) -> Array:
    """Places at which weights of the last hidden layer that no answer has shown have an effect, shape (n, d)."""
    assert reading.top is not None
    layers, (W, b) = reading.layers[:-1], reading.layers[-1]
    T = pass_layers(layers, asked) @ W.T + b
    found = [np.zeros((0, box.n_features))]
    for unit, below in np.argwhere(reading.top.gaps)[:MOST_GAPS]:
        size = float(np.median(T[T[:, unit] > 0, unit])) if (T[:, unit] > 0).any() else 1.0
        sought = Sought(W[unit], float(b[unit]), np.flatnonzero(reading.top.gaps[unit]))
        for share in GAP_SIZES:
            rooms = [1.0] if box.has_box else GAP_ROOMS
            place = barely_on(layers, sought, int(below), size=share * size, height=GAP_HEIGHT, rooms=rooms)
            if place is not None:
                moved = place + GAP_STEP * np.linalg.norm(place) * np.eye(len(place))
                found += [place[None], np.clip(moved, -box.room, box.room)]
                break
    return box.snap(np.concatenate(found))


def _refine(reading: Reading, records: Records, asked: tuple[Array, Array]) -> bool:
    """Refine all layers on earlier answers, then on all, before what is left is put down to missing units; if it helps."""
    assert reading.top is not None
    if reading.passing:
        return False
    for X, Y in (asked, records.all()):
        net = polish(DeepNetwork([*reading.layers, reading.top.output]), X, Y, weigh(X))
        top = fit_top(records.all(), list(net.layers[:-2]), net.layers[-2])
        if top is not None and not top.passing:
            reading.layers, reading.top = [*net.layers[:-2], top.layer], top
            return True
    return False


def _without_needless(net: DeepNetwork, X: Array, Y: Array, reading: Reading) -> DeepNetwork:
    """Drop units of the last hidden layer that the refined network does not need, and refine it again.

    A unit of hardly any part may make up for errors of others that are rarely on: it is needless if they do without it.
    """
    if reading.passing:
        return net
    top = fit_top((X, Y), list(net.layers[:-2]), net.layers[-2])
    if top is not None and not top.passing and len(top.layer[1]) < net.widths[-2]:
        reading.layers, reading.top = [*net.layers[:-2], top.layer], top
        net = polish(DeepNetwork([*reading.layers, top.output]), X, Y, weigh(X))
    *lower, (W, b), (A, c) = net.layers
    values = np.maximum(pass_layers(lower, X) @ W.T + b, 0.0) * weigh(X)[:, None]
    parts = (values.max(axis=0) * np.abs(A)) / _spread(X, Y)[:, None]
    weakest = int(parts.max(axis=0).argmin())
    if len(b) < 2 or parts[:, weakest].max() > WEAK:
        return net
    kept = np.arange(len(b)) != weakest
    fewer = polish(DeepNetwork([*lower, (W[kept], b[kept]), (A[:, kept], c)]), X, Y, weigh(X))
    top = fit_top((X, Y), list(fewer.layers[:-2]), fewer.layers[-2])
    if top is None or top.passing or _left(fewer, X, Y) > max(AS_GOOD * _left(net, X, Y), EXACT):
        return net
    reading.layers, reading.top = [*fewer.layers[:-2], top.layer], top
    return _without_needless(fewer, X, Y, reading)


def _left(net: DeepNetwork, X: Array, Y: Array) -> float:
    """The largest part of an answer that is not the network's, relative."""
    return float((np.abs(Y - net(X)) * weigh(X)[:, None] / _spread(X, Y)).max())


def _spread(X: Array, Y: Array) -> Array:
    """The spread of the answers, far ones scaled down; one where there is none. Shapes: result (m,)."""
    spread = (Y * weigh(X)[:, None]).std(axis=0)
    return np.asarray(np.where(spread > 0, spread, 1.0))


def _may_hide(net: DeepNetwork, box: BlackBox) -> bool:
    """Whether units of the last hidden layer may switch only where no line went.

    With two hidden layers, the first no wider than the inputs, rays along all axes of the first have met every unit.
    """
    return box.has_box or net.n_hidden_layers > 2 or net.widths[1] > net.widths[0]


def rare_places(
    net: DeepNetwork, rows: Array, asked: Array, box: BlackBox, rng: np.random.Generator
) -> Array:
    """Places where units are on that are hardly ever on, or off that are hardly ever off: a walk from asked ones.

    Their parameters show nowhere else. The walk asks nothing. Shapes: rows (n, d), asked (q, d), result (r, d).
    """
    farthest = NEAR * float(np.linalg.norm(rows, axis=1).max())
    near = asked[np.linalg.norm(asked, axis=1) <= farthest]
    found = [np.zeros((0, rows.shape[1]))]
    for layer, (on, seen) in enumerate(zip(net.patterns(rows), net.patterns(near), strict=True)):
        enough = RARE * (net.widths[layer] + 1)
        for unit in range(on.shape[1]):
            for side in (True, False):
                starts = near[seen[:, unit] == side]
                if (on[:, unit] == side).sum() >= enough:
                    continue
                if not len(starts):  # the unit switches farther out only
                    starts = _nearest(asked[net.patterns(asked)[layer][:, unit] == side], enough)
                if not len(starts):
                    continue
                walk = starts[rng.integers(len(starts), size=enough)]
                farther = np.maximum(1.0, np.linalg.norm(walk, axis=1, keepdims=True) / farthest)
                # Most places that were asked are where it barely switches; beyond them it has more room.
                beyond = np.where(farther > 1, walk * 2.0 ** rng.uniform(0.5, OUTWARD, (enough, 1)), walk)
                walk = _moved(net, layer, unit, side, walk, np.clip(beyond, -box.room, box.room))
                for _ in range(WALK):
                    sizes = 2.0 ** rng.uniform(-4, 1 + np.log2(farther))
                    trial = walk + sizes * rng.standard_normal(walk.shape)
                    walk = _moved(net, layer, unit, side, walk, np.clip(trial, -box.room, box.room))
                found.append(walk)
    return np.concatenate(found)


def _moved(net: DeepNetwork, layer: int, unit: int, side: bool, walk: Array, trial: Array) -> Array:
    """The places of a walk after a trial: those at which the unit would switch stay where they are."""
    stays = net.patterns(trial)[layer][:, unit] == side
    return np.asarray(np.where(stays[:, None], trial, walk))


def _nearest(X: Array, count: int) -> Array:
    """The rows that are closest to the origin."""
    return np.asarray(X[np.argsort(np.linalg.norm(X, axis=1), kind="stable")[:count]])


def weigh(X: Array) -> Array:
    """Rounding errors grow with the distance."""
    return np.asarray(1.0 / (1.0 + np.linalg.norm(X, axis=1) / np.sqrt(X.shape[1])))


def check_line(
    net: DeepNetwork, records: Records, rounding: Rounding, rng: np.random.Generator
) -> tuple[int, int]:
    """Ask once on every linear piece of the network on a fresh line; how many answers do not match, and of how many."""
    rows = line_places(net, records.box, rng)
    return _count_off(net, rows, records.ask(rows), rounding), len(rows)


def _count_off(net: DeepNetwork, rows: Array, truth: Array, rounding: Rounding) -> int:
    """How many answers are not those of the network, up to rounding errors."""
    growth = (1 + np.linalg.norm(rows, axis=1) / rounding.radius)[:, None]
    spread = truth.std(axis=0)
    allowed = 16 * rounding.at(rows) + 1e-9 * np.where(spread > 0, spread, 1.0) * growth
    return int((np.abs(truth - net(rows)) > allowed).any(axis=1).sum())


def line_places(net: DeepNetwork, box: BlackBox, rng: np.random.Generator) -> Array:
    """One place on every linear piece of the network on a fresh line, shape (n, d)."""
    ends = box.draw(2, rng)
    reach = np.linspace(0.0, 1.0, 4001) if box.has_box else np.linspace(-3.0, 4.0, 20_001)
    points = ends[0] + reach[:, None] * (ends[1] - ends[0])
    codes = np.concatenate(net.patterns(points), axis=1)
    changes = np.flatnonzero((codes[1:] != codes[:-1]).any(axis=1))
    edges = np.concatenate([[0], changes + 1, [len(points)]])
    middles: IntArray = np.array([(low + high) // 2 for low, high in pairwise(edges)])
    return box.snap(points[middles[:ON_LINE]])


def missing_rank(net: DeepNetwork, X: Array, Y: Array | None = None) -> int:
    """How many parameters are not determined, apart from the scales of the hidden units; -1 for large networks.

    These are the parameters minus the rank of the Jacobian. With answers `Y`, so are those that what the network leaves of
    the answers makes uncertain by more than `UNCERTAIN`, relative to the largest weight of their unit. Units at their break
    to rounding count as off: a whole region may be at the break of a unit.
    """
    if net.n_parameters > LARGEST_RANK:
        return -1
    most = max(6 * net.n_parameters, LARGEST_JACOBIAN // net.n_parameters)
    chosen = _rows_of_all_units(net, X, max(1, len(X) * net.n_outputs // most))
    rows, weights = X[chosen], weigh(X[chosen])
    J = jacobian(net, rows, at_break=AT_BREAK) * np.repeat(weights, net.n_outputs)[:, None]
    lengths = np.linalg.norm(J, axis=0)
    seen = lengths > 0
    _, values, vectors = np.linalg.svd(np.linalg.qr(J[:, seen] / lengths[seen], mode="r"))
    kept = values > DEFICIENT * values[0]
    missing = int(net.n_parameters - kept.sum())
    if Y is None or missing:
        return missing
    left = float(np.sqrt((((Y[chosen] - net(rows)) * weights[:, None]) ** 2).mean()))
    errors = left * np.linalg.norm(vectors[: kept.size][kept] / values[kept, None], axis=0) / lengths[seen]
    return int((errors > UNCERTAIN * _sizes_of_units(net)[seen]).sum())


def _sizes_of_units(net: DeepNetwork) -> Array:
    """The largest weight of the unit of each parameter, in the order of `jacobian`; for outputs, of all of them."""
    parts: list[Array] = []
    for number, (W, b) in enumerate(net.layers):
        sizes = np.abs(W).max(axis=1)
        sizes = sizes if number < net.n_hidden_layers else np.full(len(b), sizes.max())
        parts += [np.repeat(sizes, W.shape[1]), sizes]
    return np.concatenate(parts)


def _rows_of_all_units(net: DeepNetwork, X: Array, stride: int) -> IntArray:
    """Every so many rows, and for each weight some where it has an effect: rare pairs of units show nowhere else."""
    chosen = np.zeros(len(X), dtype=np.bool_)
    chosen[::stride] = True
    below: Array | None = None
    for layer, on in enumerate(net.patterns(X)):
        enough = RARE * (net.widths[layer] + 1)
        for unit in np.flatnonzero(on[chosen].sum(axis=0) < enough):
            chosen[np.flatnonzero(on[:, unit])[:enough]] = True
        if below is not None:
            together = on[chosen].astype(np.float64).T @ below[chosen]
            for unit, other in np.argwhere(together < enough):
                chosen[np.flatnonzero(on[:, unit] & (below[:, other] > 0))[:enough]] = True
        below = on.astype(np.float64)
    return np.flatnonzero(chosen)


def one_sided_units(net: DeepNetwork, X: Array) -> tuple[tuple[int, int], ...]:
    """Hidden units that are always on or always off on everything that was asked."""
    found = []
    for layer, on in enumerate(net.patterns(X)):
        found += [(layer + 1, int(unit)) for unit in np.flatnonzero(on.all(axis=0) | ~on.any(axis=0))]
    return tuple(found)


def refine_nearby(
    finding: DeepFinding, records: Records, near: BlackBox, larger: float, rng: np.random.Generator
) -> DeepFinding:
    """Refine a network that was read `larger` times farther out on typical answers as well, and check it there.

    The finding stays in the units in which it was read.
    """
    net = rescaled(finding.network, 1 / larger)
    count = int(np.ceil(NEAR_ANSWERS * net.n_parameters / net.n_outputs))
    rows = near.snap(near.draw(count, rng) * 2.0 ** rng.uniform(-2, 2, (count, 1)))
    far, answers = records.all()
    X, Y = np.concatenate([far * larger, rows]), np.concatenate([answers, near.ask(rows)])
    # Far out the arithmetic of the black box itself may be coarser than its decimals.
    errors = np.maximum(near.grid.steps(np.abs(Y)), finding.rounding.at(X / larger)).max(axis=1)
    net = polish(net, X, Y, near.grid.step / errors)
    checks = check_network(near, net, finding.rounding, rng, is_fine=True)
    off, on = _check_switches(near, net, rng)
    return replace(
        finding,
        network=rescaled(net, larger),
        checks=checks,
        off_line=finding.off_line + off,
        on_line=finding.on_line + on,
        bound=_error_bound(net, X, errors, rng),
        words=near.grid.words,
    )


def rescaled(net: DeepNetwork, factor: float | Array) -> DeepNetwork:
    """The network of inputs that are measured in larger or smaller units."""
    (W, b), *others = net.layers
    return DeepNetwork([(W * factor, b), *others])


def _check_switches(near: BlackBox, net: DeepNetwork, rng: np.random.Generator) -> tuple[int, int]:
    """Ask where units switch on lines through typical inputs; how many answers are off, and of how many."""
    rows = []
    for _ in range(NEAR_LINES):
        ends = near.draw(2, rng)
        points = ends[0] + np.linspace(-1.0, 2.0, 3001)[:, None] * (ends[1] - ends[0])
        codes = np.concatenate(net.patterns(points), axis=1)
        changes = np.flatnonzero((codes[1:] != codes[:-1]).any(axis=1))
        low, high = points[changes], points[changes + 1]
        before = codes[changes]
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            same = (np.concatenate(net.patterns(middle), axis=1) == before).all(axis=1)[:, None]
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        rows.append(low)
    X = near.snap(np.concatenate(rows))
    truth = near.ask(X)
    steps = np.abs(truth - net(X)) / near.grid.steps(np.abs(truth))
    return int((steps > STEPS_OFF).any(axis=1).sum()), len(X)


def _error_bound(net: DeepNetwork, X: Array, errors: Array, rng: np.random.Generator) -> float:
    """The bound on the error of a parameter of the network with unit rows, by eq. (1)."""
    net = net.canonical()
    most = LARGEST_FIT // (net.n_parameters * net.n_outputs)
    chosen = rng.permutation(len(X))[:most]
    J = jacobian(net, X[chosen]) / np.repeat(errors[chosen], net.n_outputs)[:, None]
    gauge, start = [], 0
    for W, b in net.layers[:-1]:
        for unit, row in enumerate(W):
            fixed = np.zeros(J.shape[1])
            fixed[start + unit * row.size :][: row.size] = row
            gauge.append(fixed)
        start += W.size + b.size
    size = np.linalg.norm(J, axis=0)
    size[size == 0] = 1.0
    J = np.concatenate([J / size, np.array(gauge) / size * np.linalg.norm(size)])
    inverse = np.linalg.pinv(np.linalg.qr(J, mode="r")) / size[:, None]
    return float(SIGMAS / np.sqrt(12) * np.linalg.norm(inverse, axis=1).max())
