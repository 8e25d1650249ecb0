"""`planted.compare`: decide whether two networks or black boxes are the same function, and show where they differ.

Two-layer networks are compared on their parameters, everywhere at once. With a box the question is another one, and any
depth will do: how far apart are the outputs on the inputs that matter? `planted.verification` brackets the largest
difference from below, by an input, and from above, by a proof. Black boxes can only be asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import log
from os import PathLike
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from planted._clock import StopRequested, time_budget
from planted._streams import solver_streams
from planted._threads import one_thread_inside
from planted._typing import Array, Json, Seed
from planted.identification._oracles import Oracle, as_oracle
from planted.identification._session import QuerySession
from planted.networks import DeepNetwork, TwoLayerNetwork
from planted.networks._equivalence import find_agreement
from planted.networks._kinks import group_units, scale_units, sum_groups
from planted.outcomes import BadInputError
from planted.verification import Bracket, as_input_set, as_plain, bracket, exact_differences, rounded_down

__all__ = ["Comparison", "compare"]

CONFIDENCE = 0.99
ASKED_TOL = 1e-9  # tolerance for black boxes, unless one is given
NEAR = 0.1  # distance of two hyperplanes, normals and offsets together, up to which they are versions of one
BATCH_ROWS = 4096  # questions in one call of a black box
SAME = 1e-9  # part of the largest output: without a tolerance, proved differences up to this are none
BOX_SECONDS = 60.0  # time for the bracket on a box, unless a budget is given
NOTED = 30  # rows of the bracket's history that are kept


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer of `compare`.

    Parameters
    ----------
    is_equal : bool or None
        True if the two are equal, False if they differ. None if it is not decided: rounding of the weights hides the
        difference of two networks, or the comparison of black boxes was stopped before one was found.
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
    bound : float
        For two networks, proved on the parameters: the outputs differ by no more on typical inputs, three times ``scale``
        in every coordinate, and in proportion to the distance beyond. With a box: no output differs by more on it.
        Infinite for black boxes.
    differences, bounds : tuple of float
        With a box: what was found and what is proved for every output.
    relative : float
        With a box: the bound, each output in units of the largest value of the first network that was seen; infinite
        without a box.
    history : tuple of (float, float, float)
        With a box: seconds, largest difference found and proved, as the bracket closed.
    """

    is_equal: bool | None
    is_exact: bool
    witness: Array | None
    difference: float
    units: tuple[tuple[int, int], ...]
    fraction: float
    confidence: float
    detail: str
    bound: float = float("inf")
    differences: tuple[float, ...] = ()
    bounds: tuple[float, ...] = ()
    relative: float = float("inf")
    history: tuple[tuple[float, float, float], ...] = ()

    def to_dict(self) -> Json:
        """Return the answer as plain numbers, lists and text, ready for JSON.

        Returns
        -------
        dict
            All fields by name; infinite numbers are None.
        """
        return {
            "is_equal": self.is_equal,
            "is_exact": self.is_exact,
            "witness": None if self.witness is None else [float(value) for value in self.witness],
            "difference": _finite(self.difference),
            "bound": _finite(self.bound),
            "differences": [_finite(value) for value in self.differences],
            "bounds": [_finite(value) for value in self.bounds],
            "relative": _finite(self.relative),
            "history": [[_finite(value) for value in row] for row in self.history],
            "units": [list(pair) for pair in self.units],
            "fraction": self.fraction,
            "confidence": self.confidence,
            "detail": self.detail,
        }

    def __str__(self) -> str:
        lines = [self.detail]
        if self.bounds:
            lines.append(f"{'output':>8}  {'found':>12}  {'proved':>12}")
            lines += [
                f"{place:>8}  {found:>12.6g}  {proved:>12.6g}"
                for place, (found, proved) in enumerate(zip(self.differences, self.bounds, strict=True))
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The answer as a small table for notebooks."""
        word = {True: "equal", False: "different", None: "not decided"}[self.is_equal]
        rows = "".join(
            f"<tr><td>{place}</td><td>{found:.6g}</td><td>{proved:.6g}</td></tr>"
            for place, (found, proved) in enumerate(zip(self.differences, self.bounds, strict=True))
        )
        table = f"<table><tr><th>output</th><th>found</th><th>proved</th></tr>{rows}</table>" if rows else ""
        return f"<div><b>{word}</b><p>{escape(self.detail)}</p>{table}</div>"


def _finite(number: float) -> float | None:
    """A number for JSON, which knows no infinity."""
    return float(number) if np.isfinite(number) else None


@one_thread_inside
def compare(
    first: Any,
    second: Any,
    n_features: int | None = None,
    *,
    tol: float | None = None,
    n_queries: int = 10_000,
    scale: Any = 1.0,
    random_state: Seed = None,
    budget_seconds: float | None = None,
    box: Any = None,
    certified: bool = False,
) -> Comparison:
    """Decide whether two networks or black boxes are the same function, and show where they are not.

    Parameters
    ----------
    first, second : TwoLayerNetwork or anything `identify` can ask
        Two networks are compared on their parameters. Otherwise both are asked the same random questions.
    n_features : int, optional
        Number of inputs; may be omitted if one of the two tells it.
    tol : float, optional
        Differences up to this size, relative to the spread of each output on typical inputs, are none. For a copy in
        single precision 1e-5 is sensible. Without it two networks are equal if they agree exactly, or if rounding of
        their weights explains all differences; for black boxes it is then 1e-9. With a box it is the absolute difference
        of an output that is allowed; without it the bracket is closed as far as time permits, and the two are equal if
        the bound is below 1e-9 of the largest output.
    n_queries : int, default=10000
        Random questions asked to black boxes: normal inputs of the size ``scale``.
    scale : float or array_like of shape (d,), default=1.0
        Size of typical inputs.
    random_state : int, Generator, SeedSequence or None
        Seed of the questions.
    budget_seconds : float, optional
        Time limit for asking black boxes, looked at before every batch of questions. A difference found by then decides;
        without one the answer says that nothing is decided. With a box: the time for the bracket, 60 seconds if not
        given; what is found and proved by then is returned. Without a box two networks are compared to the end.
    box : (low, high) or (low, high, A, b), optional
        The inputs that matter: ends as numbers or one for each input, and inequalities ``A x <= b`` if given. The largest
        difference on this set is then found and proved, for ReLU and leaky ReLU networks of any depth.
    certified : bool, default=False
        Demand a proof. Two-layer networks are proved without a box, deeper ones need one; black boxes are refused.

    Returns
    -------
    Comparison
        Equal or not, with a witness and the units that differ; with a box, what was found and what is proved.

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
    >>> answer = planted.compare(one, other, box=(-1, 2), random_state=0)
    >>> answer.difference, round(answer.bound, 9), answer.witness.tolist()[0]
    (1.0, 1.0, 2.0)
    """
    if tol is not None and not tol >= 0:
        raise BadInputError(f"tol={tol}; expected a number that is not negative")
    if n_queries < 1:
        raise BadInputError(f"n_queries={n_queries}; expected a number of at least 1")
    (rng,) = solver_streams(random_state, 1)
    is_proof = certified or box is not None
    if is_proof:
        first, second = _with_weights(first), _with_weights(second)
    if box is not None:
        with time_budget(BOX_SECONDS if budget_seconds is None else budget_seconds):
            return _compare_on_box(first, second, box, tol=tol, rng=rng)
    with time_budget(budget_seconds):
        if is_proof and not (isinstance(first, TwoLayerNetwork) and isinstance(second, TwoLayerNetwork)):
            raise BadInputError("a proof for networks with several hidden layers needs a box of inputs")
        if isinstance(first, TwoLayerNetwork) and isinstance(second, TwoLayerNetwork):
            return _compare_networks(first, second, tol=tol, scale=scale, rng=rng)
        oracles = as_oracle(first), as_oracle(second)
        d = _common_n_features(oracles, n_features)
        rows = _typical_rows(d, n_queries, scale, rng) * 2.0 ** rng.uniform(-2, 2, (n_queries, 1))
        return _compare_answers(oracles, rows, tol=ASKED_TOL if tol is None else tol)


def _compare_networks(
    first: TwoLayerNetwork,
    second: TwoLayerNetwork,
    *,
    tol: float | None,
    scale: Any,
    rng: np.random.Generator,
) -> Comparison:
    """Decide on the parameters: equal, different with a witness, or hidden by rounding."""
    shapes = [(net.n_features, net.n_outputs) for net in (first, second)]
    if shapes[0] != shapes[1]:
        detail = f"One takes {shapes[0][0]} inputs to {shapes[0][1]} outputs, the other {shapes[1][0]} to {shapes[1][1]}."
        return Comparison(False, True, None, float("inf"), (), 0.0, 1.0, detail)
    found = find_agreement(first, second, tol=tol, scale=scale, rng=rng)
    units: tuple[tuple[int, int], ...] = ()
    if found.is_exact:
        detail = "The same function everywhere: their difference is zero in exact arithmetic."
    elif found.is_equal:
        reach = f"by at most {found.bound:.2g} on typical inputs, {found.relative:.2g} of an output's scale"
        reason = "rounding of the weights explains it" if tol is None else f"the tolerance is {tol:g}"
        detail = f"The same function: they differ {reach}, in proportion to the distance beyond; {reason}."
    elif found.is_equal is None:
        detail = (
            f"Not decided: the bound on their difference is {found.bound:.2g} on typical inputs, and none was found "
            "that rounding of the weights does not explain"
            + (
                ". A tolerance decides what counts."
                if tol is None
                else f" and that exceeds the tolerance {tol:g}."
            )
        )
    else:
        units = _differing_units(first, second, 1e-12 if tol is None else tol)
        named = f"; {len(units)} unit(s) differ" if units else ""
        detail = f"They differ by {found.difference:.3g} at the witness{named}."
    if not found.is_equal and tol is None and found.relative <= ASKED_TOL:
        detail += (
            f" No output differs by more than {found.relative:.2g} of its scale, which arithmetic in double precision "
            f"leaves: with the tolerance {ASKED_TOL:g}, right for a network that was recovered, they are equal."
        )
    return Comparison(
        found.is_equal, True, found.witness, found.difference, units, 0.0, 1.0, detail, found.bound
    )


def _with_weights(source: Any) -> Any:
    """A network whose weights can be read; files, PyTorch modules and scikit-learn models are imported."""
    if isinstance(source, TwoLayerNetwork | DeepNetwork):
        return source
    if isinstance(source, str | PathLike) or hasattr(source, "coefs_") or hasattr(source, "state_dict"):
        from planted.io.networks._exports import import_network

        return import_network(source)
    return source  # `as_plain` says what is wrong with it


def _compare_on_box(
    first: Any, second: Any, box: Any, *, tol: float | None, rng: np.random.Generator
) -> Comparison:
    """Bracket the largest difference on a set of inputs, and decide where the bracket does."""
    f, g = as_plain(first), as_plain(second)
    shapes = [(net.widths[0], net.widths[-1]) for net in (f, g)]
    if shapes[0] != shapes[1]:
        detail = f"One takes {shapes[0][0]} inputs to {shapes[0][1]} outputs, the other {shapes[1][0]} to {shapes[1][1]}."
        return Comparison(False, True, None, float("inf"), (), 0.0, 1.0, detail)
    inputs = as_input_set(box, f.widths[0])
    known = bracket(f, g, inputs, tol=tol, rng=rng)
    m = f.widths[-1]
    bounds, bound = np.maximum(known.proved[:m], known.proved[m:]) + 0.0, known.largest_proved + 0.0
    # A difference in one direction is minus that in the other: only on an empty set are both negative.
    if bound < 0:
        raise BadInputError("box: no input satisfies the inequalities")
    if not np.isfinite(known.largest_found):  # no input of the set was met
        detail = "Not decided: no input was found that satisfies the inequalities; the set may be empty."
        return Comparison(None, True, None, 0.0, (), 0.0, 1.0, detail, bound)
    # The proof is for real numbers, so what was found is evaluated exactly, and rounded down.
    upwards = (known.found[:m] >= known.found[m:])[:, None]
    rows = np.unique(np.where(upwards, known.inputs[:m], known.inputs[m:]), axis=0)
    exact = [exact_differences(f, g, row) for row in rows]
    worst = max(range(len(rows)), key=lambda place: max(exact[place]))
    witness, largest = rows[worst], max(exact[worst])
    difference = rounded_down(largest)
    differences = [rounded_down(max(column)) for column in zip(*exact, strict=True)]
    scale = np.abs(f(known.inputs)).max(axis=0)
    limit = SAME * float(scale.max()) if tol is None else tol
    is_equal: bool | None = None
    if bound <= limit:
        is_equal = True
    elif largest > limit:
        is_equal = False
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = float(np.nanmax(np.where(bounds > 0, bounds / scale, 0.0)))
    return Comparison(
        is_equal,
        True,
        witness if difference > 0 else None,
        difference,
        (),
        0.0,
        1.0,
        _box_detail(known, difference, is_equal, limit),
        bound,
        tuple(differences),
        tuple(map(float, bounds)),
        relative,
        _thinned(known.history),
    )


def _box_detail(known: Bracket, found: float, is_equal: bool | None, limit: float) -> str:
    """The answer for a box in a sentence."""
    proved = known.largest_proved + 0.0  # no minus zero
    ends = f"found {found:.6g}, proved at most {proved:.6g}"
    if is_equal:
        return f"Equal up to {limit:.3g} on the whole set of inputs: {ends}."
    if is_equal is False:
        return f"They differ by {found:.6g} at the witness, more than {limit:.3g}; no input gives more than {proved:.6g}."
    stopped = f" Stopped: {known.reason}." if known.reason else ""
    return f"Not decided for {limit:.3g}: {ends}.{stopped}"


def _thinned(history: list[tuple[float, float, float]]) -> tuple[tuple[float, float, float], ...]:
    """At most `NOTED` rows, the first and the last among them."""
    places = np.unique(np.linspace(0, len(history) - 1, NOTED).round().astype(int))
    return tuple(history[place] for place in places)


def _typical_rows(d: int, count: int, scale: Any, rng: np.random.Generator) -> Array:
    return np.asarray(scale * rng.standard_normal((count, d)), dtype=np.float64)


def _differing_units(
    first: TwoLayerNetwork, second: TwoLayerNetwork, tol: float
) -> tuple[tuple[int, int], ...]:
    """Pair units by hyperplane, the nearest first; those that differ, or that have no counterpart within `NEAR`.

    Units with a curved activation are no hyperplanes, and are not named.
    """
    if first.activation.is_curved or second.activation.is_curved:
        return ()
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
        return Comparison(None, False, None, 0.0, (), 1.0, 0.0, detail)
    answers, others = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _judge_answers(rows[: len(answers)], answers, others, tol=tol, reason=reason)


def _judge_answers(rows: Array, answers: Array, others: Array, *, tol: float, reason: str) -> Comparison:
    """Look for a difference in the answers of two black boxes; ``reason`` says why there are no more of them."""
    count = len(rows)
    gaps = np.abs(answers - others)
    spread = np.maximum(answers.std(axis=0), others.std(axis=0))
    # An output that is constant in both is judged by its size.
    scale = np.where(spread > 0, spread, np.maximum(np.abs(answers), np.abs(others)).max(axis=0))
    off = (gaps / np.where(scale > 0, scale, 1.0)).max(axis=1)
    worst = int(np.argmax(off))
    difference, is_off = float(gaps[worst].max()), off > tol
    if is_off.any():
        share = float(is_off.mean())
        detail = (
            f"They differ on {share:.1%} of {count} random questions, by {difference:.3g} at the witness."
        )
        return Comparison(False, False, rows[worst], difference, (), share, 1.0, detail)
    fraction = min(log(1 / (1 - CONFIDENCE)) / count, 1.0)
    detail = (
        f"No difference above {tol:g} of an output's spread in {count} random questions: with {CONFIDENCE:.0%} "
        f"confidence they differ on less than {fraction:.2g} of such inputs."
    )
    if reason:
        detail = f"Not decided, stopped: {reason}. {detail}"
    return Comparison(None if reason else True, False, None, difference, (), fraction, CONFIDENCE, detail)
