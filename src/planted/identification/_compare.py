"""`planted.compare`: decide whether two networks or black boxes are the same function, and show where they differ."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from planted._clock import StopRequested, time_budget
from planted._streams import solver_streams
from planted._threads import one_thread_inside
from planted._typing import Array, Seed
from planted.identification._oracles import Oracle, as_oracle
from planted.identification._session import QuerySession
from planted.networks import TwoLayerNetwork
from planted.networks._kinks import group_units, scale_units, sum_groups
from planted.outcomes import BadInputError

__all__ = ["Comparison", "compare"]

CONFIDENCE = 0.99
NEAR = 0.1  # distance of two hyperplanes, normals and offsets together, up to which they are versions of one
N_WITNESSES = 2000  # random inputs among which a witness is looked for, beside those at the hyperplanes
BATCH_ROWS = 4096  # questions in one call of a black box


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer of `compare`.

    Parameters
    ----------
    is_equal : bool
        True if no difference was found in all that was to be compared. False if there is one, and also if the comparison
        was stopped before the end without one: there is no witness then, and ``detail`` says that it is not decided.
    is_exact : bool
        True if decided on the parameters, False if on answers to random questions.
    witness : ndarray of shape (d,) or None
        An input on which the two differ.
    difference : float
        Largest absolute difference of an output that was seen; at the witness if there is one.
    units : tuple of (int, int)
        Units that differ: unit of the first and of the second, -1 where there is no counterpart; empty for black boxes.
    fraction : float
        Zero if decided on the parameters. If a difference was seen, the part of the random inputs that show it.
        Otherwise the two differ on at most this part of random inputs, with the confidence given.
    confidence : float
        One if decided on the parameters or by a difference, zero if no question was answered.
    detail : str
        The answer in a sentence.
    """

    is_equal: bool
    is_exact: bool
    witness: Array | None
    difference: float
    units: tuple[tuple[int, int], ...]
    fraction: float
    confidence: float
    detail: str


@one_thread_inside
def compare(
    first: Any,
    second: Any,
    n_features: int | None = None,
    *,
    tol: float = 1e-9,
    n_queries: int = 10_000,
    scale: Any = 1.0,
    random_state: Seed = None,
    budget_seconds: float | None = None,
) -> Comparison:
    """Decide whether two networks or black boxes are the same function, and show where they are not.

    Parameters
    ----------
    first, second : TwoLayerNetwork or anything `identify` can ask
        Two networks are compared on their parameters, and the answer is exact. Otherwise both are asked the same
        random questions.
    n_features : int, optional
        Number of inputs; may be omitted if one of the two tells it.
    tol : float, default=1e-9
        Differences up to this size, relative to the spread of the outputs, are none. For a copy in single precision
        1e-5 is sensible.
    n_queries : int, default=10000
        Random questions asked to black boxes: normal inputs of the size ``scale``.
    scale : float or array_like of shape (d,), default=1.0
        Size of typical inputs.
    random_state : int, Generator, SeedSequence or None
        Seed of the questions.
    budget_seconds : float, optional
        Time limit for asking black boxes, looked at before every batch of questions. A difference found by then decides;
        without one the answer says that nothing is decided. Two networks are always compared to the end.

    Returns
    -------
    Comparison
        Equal or not, with a witness and the units that differ.

    Raises
    ------
    OracleError
        If a black box raises, or answers with NaN or in the wrong shape.

    Examples
    --------
    >>> import planted
    >>> one = planted.TwoLayerNetwork(W=[[1.0, 0.0], [0.0, 1.0]], A=[[1.0, 2.0]])
    >>> other = planted.TwoLayerNetwork(W=[[0.0, 1.0], [1.0, 0.0]], A=[[2.0, 1.5]])
    >>> answer = planted.compare(one, other, random_state=0)
    >>> answer.is_equal, answer.units
    (False, ((0, 1),))
    """
    if not tol >= 0:
        raise BadInputError(f"tol={tol}; expected a number that is not negative")
    if n_queries < 1:
        raise BadInputError(f"n_queries={n_queries}; expected a number of at least 1")
    (rng,) = solver_streams(random_state, 1)
    with time_budget(budget_seconds):
        if isinstance(first, TwoLayerNetwork) and isinstance(second, TwoLayerNetwork):
            return _compare_networks(first, second, tol=tol, scale=scale, rng=rng)
        oracles = as_oracle(first), as_oracle(second)
        d = _common_n_features(oracles, n_features)
        rows = _typical_rows(d, n_queries, scale, rng) * 2.0 ** rng.uniform(-2, 2, (n_queries, 1))
        return _compare_answers(oracles, rows, tol=tol)


def _compare_networks(
    first: TwoLayerNetwork, second: TwoLayerNetwork, *, tol: float, scale: Any, rng: np.random.Generator
) -> Comparison:
    """Decide on the parameters; then look for a witness among random inputs and beside the hyperplanes."""
    shapes = [(net.n_features, net.n_outputs) for net in (first, second)]
    if shapes[0] != shapes[1]:
        detail = f"One takes {shapes[0][0]} inputs to {shapes[0][1]} outputs, the other {shapes[1][0]} to {shapes[1][1]}."
        return Comparison(False, True, None, float("inf"), (), 0.0, 1.0, detail)
    if first.is_equivalent(second, tol=tol):
        detail = f"The same function everywhere, decided on the parameters (tolerance {tol:g})."
        return Comparison(True, True, None, 0.0, (), 0.0, 1.0, detail)
    typical = _typical_rows(first.n_features, N_WITNESSES, scale, rng)
    rows = np.concatenate([typical, _beside_kinks(first, second)])
    gap = np.abs(first(rows) - second(rows)).max(axis=1)
    worst = int(np.argmax(gap))
    units = _differing_units(first, second, tol)
    detail = f"They differ by {gap[worst]:.3g} at the witness; {len(units)} unit(s) differ."
    return Comparison(False, True, rows[worst], float(gap[worst]), units, 0.0, 1.0, detail)


def _typical_rows(d: int, count: int, scale: Any, rng: np.random.Generator) -> Array:
    return np.asarray(scale * rng.standard_normal((count, d)), dtype=np.float64)


def _beside_kinks(first: TwoLayerNetwork, second: TwoLayerNetwork) -> Array:
    """Points on either side of the hyperplanes of both, where a difference of units shows."""
    parts = []
    for net in (first, second):
        units = scale_units(net)
        feet = -units.offsets[:, None] * units.normals
        parts += [feet + units.normals, feet - units.normals]
    return np.concatenate(parts)


def _differing_units(
    first: TwoLayerNetwork, second: TwoLayerNetwork, tol: float
) -> tuple[tuple[int, int], ...]:
    """Pair units by hyperplane, the nearest first; those that differ, or that have no counterpart within `NEAR`."""
    (planes, weights, owner), (other_planes, other_weights, other_owner) = (
        _owners(net, tol) for net in (first, second)
    )
    scale = max(np.abs(weights).max(initial=0.0), np.abs(other_weights).max(initial=0.0))
    distance = cdist(planes, other_planes)
    rows, columns = linear_sum_assignment(np.minimum(distance, NEAR))
    paired = [(i, j) for i, j in zip(rows, columns, strict=True) if distance[i, j] < NEAR]
    differing = [
        (int(owner[i]), int(other_owner[j]))
        for i, j in paired
        if distance[i, j] > tol or np.abs(weights[i] - other_weights[j]).max() > tol * scale
    ]
    alone = sorted(set(range(len(planes))) - {i for i, _ in paired})
    other_alone = sorted(set(range(len(other_planes))) - {j for _, j in paired})
    differing += [(int(owner[i]), -1) for i in alone] + [(-1, int(other_owner[j])) for j in other_alone]
    return tuple(differing)


def _owners(net: TwoLayerNetwork, tol: float) -> tuple[Array, Array, Array]:
    """Oriented hyperplanes of a network as points (h, d + 1), output weights (h, m), and the first unit on each."""
    norms = np.linalg.norm(net.W, axis=1)
    live = np.flatnonzero((norms > 0) & (net.A != 0).any(axis=0))
    units = scale_units(net)
    groups = group_units(units, tol=max(tol, 1e-12))
    planes, weights, owner = [], [], []
    for side in (1.0, -1.0):
        totals = sum_groups(units.outputs * (groups.signs == side), groups)
        for h in np.flatnonzero(totals.any(axis=0)):
            planes.append(side * np.append(groups.normals[h], np.arcsinh(groups.offsets[h])))
            weights.append(totals[:, h])
            owner.append(live[(groups.labels == h) & (groups.signs == side)][0])
    return (
        np.array(planes).reshape(-1, net.n_features + 1),
        np.array(weights).reshape(-1, net.n_outputs),
        np.array(owner),
    )


def _common_n_features(oracles: tuple[Oracle, Oracle], n_features: int | None) -> int:
    """Return the number of inputs that the caller and the two oracles agree on."""
    known = {oracle.n_features for oracle in oracles} | {n_features}
    known.discard(None)
    if len(known) != 1:
        told = "neither tells" if not known else f"they tell {sorted(str(number) for number in known)}"
        raise BadInputError(f"n_features: {told} how many inputs the two take; give one number for both")
    return int(next(number for number in known if number is not None))


def _compare_answers(oracles: tuple[Oracle, Oracle], rows: Array, *, tol: float) -> Comparison:
    """Ask both the same questions, batch by batch, and compare what both have answered when the time is over."""
    for oracle in oracles:
        rows = oracle.snap(rows)
    sessions = [QuerySession(oracle, rows.shape[1], batch_rows=BATCH_ROWS) for oracle in oracles]
    parts: list[tuple[Array, Array]] = []
    reason = ""
    try:
        for start in range(0, len(rows), BATCH_ROWS):
            one, other = (session.ask(rows[start : start + BATCH_ROWS]) for session in sessions)
            if one.shape != other.shape:
                detail = f"One gives {one.shape[1]} outputs, the other {other.shape[1]}."
                return Comparison(False, False, rows[0], float("inf"), (), 1.0, 1.0, detail)
            parts.append((one, other))
    except StopRequested as stop:
        reason = str(stop)
    if not parts:
        detail = f"Not decided, stopped before both had answered a question: {reason}."
        return Comparison(False, False, None, 0.0, (), 1.0, 0.0, detail)
    answers, others = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _judge_answers(rows[: len(answers)], answers, others, tol=tol, reason=reason)


def _judge_answers(rows: Array, answers: Array, others: Array, *, tol: float, reason: str) -> Comparison:
    """Look for a difference in the answers of two black boxes; ``reason`` says why there are no more of them."""
    count = len(rows)
    gap = np.abs(answers - others).max(axis=1)
    spread = float(answers.std(axis=0).max()) or 1.0
    worst = int(np.argmax(gap))
    difference, is_off = float(gap[worst]), gap > tol * spread
    if is_off.any():
        share = float(is_off.mean())
        detail = (
            f"They differ on {share:.1%} of {count} random questions, by {difference:.3g} at the witness."
        )
        return Comparison(False, False, rows[worst], difference, (), share, 1.0, detail)
    fraction = min(log(1 / (1 - CONFIDENCE)) / count, 1.0)
    detail = (
        f"No difference above {tol:g} of the outputs' spread in {count} random questions: with {CONFIDENCE:.0%} "
        f"confidence they differ on less than {fraction:.2g} of such inputs."
    )
    if reason:
        detail = f"Not decided, stopped: {reason}. {detail}"
    return Comparison(not reason, False, None, difference, (), fraction, CONFIDENCE, detail)
