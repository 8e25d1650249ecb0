r"""Find every breakpoint of a continuous piecewise-linear function of one variable by asking for its values.

Problem     A function t -> y in R^m is linear between unknown breakpoints. It can be evaluated anywhere on an interval,
            with a known rounding error. Find the breakpoints and the linear pieces between them with few evaluations.
Idea        Keep the answered points sorted. Read them from left to right, and collect as many in a row as lie on one
            line: three or more of them form a *piece*. Two neighbouring pieces with no point between them predict where
            they meet,

            .. math:: t^* = -\frac{\langle \Delta s, \Delta y_0 \rangle}{\langle \Delta s, \Delta s \rangle},     \quad (1)

            where Δs is the difference of their slopes and Δy₀ that of their intercepts. Two values close to t* are
            asked, one on each side. If each lies on the line of its side, the breakpoint is known to rounding. If not,
            there are several breakpoints, and the gap is split. All gaps are treated in one batch per round.
Guarantee   Exact up to rounding if no two breakpoints are closer than rounding can resolve, and if no three answered
            points on different pieces happen to lie on one line (for random lines the probability of that is zero).
            Gaps that cannot be resolved and jumps of a discontinuous function are reported as such. Kind: exact.
Cost        About ten evaluations per breakpoint, and two for each halving that separates it from its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from planted._typing import Array, BoolArray

__all__ = ["LineScan", "Piece", "find_breakpoints"]

SPLIT = 0.45  # not the middle: the points asked of a symmetric function would mirror each other
MAX_ROUNDS = 80  # halvings of a gap; 2**-52 is rounding
RESOLUTION = 64.0  # a step of this many rounding errors across a gap that cannot be split is a jump
STEEP = 1e4  # times the slopes around: a continuous network would need weights of that size in one unit
NARROW = 1e-6  # a step across a wider gap, relative to 1 + |t|, may be a ramp between two flat pieces
INNER = 0.02  # a third point nearer to an end than this part of the chord does not show that it is straight
NEARNESS = 8.0  # witnesses of a breakpoint stand this many times its own uncertainty away from it


@dataclass(frozen=True, slots=True)
class Piece:
    """A linear piece ``y = value + slope (t - centre)`` and the answered points that support it."""

    left: float  # first and last answered point on the piece
    right: float
    centre: float  # mean of its answered points
    value: Array  # (m,): the line
    slope: Array

    def at(self, t: float) -> Array:
        """Evaluate the line, shape (m,)."""
        return np.asarray(self.value + self.slope * (t - self.centre))


@dataclass(frozen=True, slots=True)
class LineScan:
    """The pieces, breakpoints and jumps along a line."""

    pieces: tuple[Piece, ...]  # the linear pieces from left to right
    # (len(pieces) - 1,): where each piece meets the next; NaN where the gap holds several breakpoints that could not be
    # separated.
    breakpoints: Array
    jumps: tuple[float, ...]  # places where the function is discontinuous
    is_complete: bool  # false if the search ended at ``max_points`` with gaps left
    n_points: int  # evaluations


def find_breakpoints(
    ask: Callable[[Array], Array],
    start: Array,
    *,
    noise: Callable[[Array], Array],
    values: Array | None = None,
    max_points: int = 20_000,
) -> LineScan:
    """Find the pieces and breakpoints of a piecewise-linear function between two points.

    `ask`: takes points of shape (n,) and returns values of shape (n, m). `start`: first points, ascending; the search
    stays between the first and the last. `noise`: takes points of shape (n,) and returns the largest rounding error
    to be expected there, shape (n, m). `values`: values at the first points, if they have been asked already. Shapes:
    start (n,), values (n, m).

    Examples
    --------
    >>> scan = find_breakpoints(lambda t: np.abs(t - 0.3)[:, None], np.linspace(-1.0, 1.0, 5),
    ...                         noise=lambda t: np.full((len(t), 1), 1e-15))
    >>> [round(float(t), 12) for t in scan.breakpoints]
    [0.3]
    """
    points = _Points(start, ask(start) if values is None else values, noise(start))
    for _ in range(MAX_ROUNDS):
        pieces = _read_pieces(points)
        wanted, settled = _next_questions(points, pieces)
        if wanted.size == 0 or any(is_jump for _, is_jump in settled):
            return _report(points, pieces, settled, is_complete=True)
        if points.t.size + wanted.size > max_points:
            break
        points = points.with_more(wanted, ask(wanted), noise(wanted))
    pieces = _read_pieces(points)
    return _report(points, pieces, _next_questions(points, pieces)[1], is_complete=False)


@dataclass(frozen=True, slots=True)
class _Points:
    """Answered points in ascending order."""

    t: Array
    y: Array
    noise: Array

    def with_more(self, t: Array, y: Array, noise: Array) -> _Points:
        """Merge further points in."""
        places, first = np.unique(np.concatenate([self.t, t]), return_index=True)
        return _Points(places, np.concatenate([self.y, y])[first], np.concatenate([self.noise, noise])[first])


@dataclass(frozen=True, slots=True)
class _Run:
    """A piece with the range of its points, both ends included."""

    first: int
    last: int
    piece: Piece


def _read_pieces(points: _Points) -> list[_Run]:
    """Collect, from left to right, as many points as lie on one line; three or more are a piece."""
    runs: list[_Run] = []
    first, count = 0, points.t.size
    while first <= count - 3:
        last = _farthest_on_line(points, first)
        # A point just before a breakpoint may lie on the next line to rounding: prefer the start that reaches farther.
        later = _farthest_on_line(points, first + 1) if runs and first <= count - 4 else None
        if later is not None and (last is None or later > last):
            first, last = first + 1, later
        if last is None:
            first += 1
            continue
        runs.append(_Run(first, last, _fit_piece(points, first, last)))
        first = last
    return runs


def _farthest_on_line(points: _Points, first: int) -> int | None:
    """Last point that lies on one line with all since ``first``; None if not even three well apart do."""
    count = points.t.size
    if not _is_straight(points, first, first + 2):
        return None
    good, step = first + 2, 1
    while good + step < count and _is_straight(points, first, good + step):
        good, step = good + step, 2 * step
    bad = min(good + step, count)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if _is_straight(points, first, middle) else (good, middle)
    within = (points.t[first + 1 : good] - points.t[first]) / (points.t[good] - points.t[first])
    return good if (np.abs(within - 0.5) < 0.5 - INNER).any() else None


def _is_straight(points: _Points, first: int, last: int) -> bool:
    """Whether the points of a range lie on the chord between its ends, to rounding."""
    t, y, noise = (array[first : last + 1] for array in (points.t, points.y, points.noise))
    share = ((t - t[0]) / (t[-1] - t[0]))[:, None]
    slope = (y[-1] - y[0]) / (t[-1] - t[0])
    # Measured from the end with the larger rounding error, the chord itself would be off.
    anchor = 0 if noise[0].max() <= noise[-1].max() else -1
    gap = np.abs(y - y[anchor] - slope * (t - t[anchor])[:, None])
    return bool((gap <= noise + (1 - share) * noise[0] + share * noise[-1]).all())


def _fit_piece(points: _Points, first: int, last: int) -> Piece:
    """Fit a line to the points of a range, weighted by their rounding errors."""
    t, y = points.t[first : last + 1], points.y[first : last + 1]
    weights = 1.0 / np.maximum(points.noise[first : last + 1].max(axis=1), np.finfo(float).tiny)
    weights = (weights / weights.max()) ** 2
    weights /= weights.sum()
    centre = float(weights @ t)
    offsets = t - centre
    value = weights @ y
    slope = (weights * offsets) @ (y - value) / ((weights * offsets) @ offsets)
    return Piece(float(t[0]), float(t[-1]), centre, value, slope)


def _next_questions(points: _Points, runs: list[_Run]) -> tuple[Array, list[tuple[float, bool]]]:
    """Return the points to ask next, and for each pair of neighbouring pieces (meeting point, is it a jump)."""
    wanted: list[float] = []
    settled: list[tuple[float, bool]] = []
    count = points.t.size
    edges = [(0, runs[0].first if runs else count - 1)]
    for before, after in pairwise(runs):
        questions, answer = _settle_gap(points, before, after)
        wanted += questions
        settled.append(answer)
    if runs:
        edges.append((runs[-1].last, count - 1))
    for low, high in edges:
        wanted += [_split(points, i) for i in range(low, high) if not _is_tiny(points, i)]
    return np.unique(np.asarray(wanted, dtype=np.float64)), settled


def _settle_gap(points: _Points, before: _Run, after: _Run) -> tuple[list[float], tuple[float, bool]]:
    """Decide what lies between two neighbouring pieces: questions to ask, and the answer if there are none."""
    low, high = before.last, after.first
    if _is_jump(points, before, after):
        return [], (float(points.t[low]), True)
    meeting, spread = _meeting_point(points, before, after)
    if points.t[low] - spread <= meeting <= points.t[high] + spread:
        questions = _witnesses(points, before, after, (meeting, spread))
        if questions is not None:
            return questions, (float("nan") if questions else meeting, False)
    # The pieces themselves may be three points on a line by chance: ask within them too.
    last = points.t.size - 2
    open_places = [i for i in range(max(low - 1, 0), min(high, last) + 1) if not _is_tiny(points, i)]
    if open_places:
        widths = points.t[np.array(open_places) + 1] - points.t[open_places]
        wide = [i for i, width in zip(open_places, widths, strict=True) if width >= widths.max() / 100]
        return [_split(points, i) for i in wide], (float("nan"), False)
    return [], (float("nan"), False)


def _is_jump(points: _Points, before: _Run, after: _Run) -> bool:
    """Whether the function changes across a gap thousands of times faster than anywhere on its pieces or overall."""
    low, high = points.t[before.last], points.t[after.first]
    if high - low > NARROW * (1 + abs(low)):
        return False
    step = np.abs(before.piece.at(low) - after.piece.at(high))
    overall = (points.y.max(axis=0) - points.y.min(axis=0)) / (points.t[-1] - points.t[0])
    steepest = np.maximum(np.maximum(np.abs(before.piece.slope), np.abs(after.piece.slope)), overall)
    return bool((step > RESOLUTION * points.noise[before.last] + STEEP * (high - low) * steepest).any())


def _witnesses(points: _Points, before: _Run, after: _Run, place: tuple[float, float]) -> list[float] | None:
    """Return the points to ask beside a supposed breakpoint; none if both lines were seen right up to it.

    The value at the meeting point itself proves nothing: it lies on both lines as soon as it lies on one. The result is
    None if an answered point close to the place does not lie on its line.
    """
    meeting, spread = place
    reach = max(NEARNESS * spread, 64 * np.finfo(float).eps * abs(meeting))
    index = np.arange(points.t.size)
    questions = []
    for side, belongs in ((-1.0, index <= before.last), (1.0, index >= after.first)):
        distance = side * (points.t - meeting)
        near = (distance >= reach / 2) & (distance <= 2 * reach)
        if near.any() and not (near & belongs).any():
            return None
        if not near.any() and points.t[0] < meeting + side * reach < points.t[-1]:
            questions.append(meeting + side * reach)
    return questions


def _meeting_point(points: _Points, before: _Run, after: _Run) -> tuple[float, float]:
    """Where two lines meet, eq. (1), and how far rounding can move that place."""
    weights = 1.0 / np.maximum(points.noise[before.last], np.finfo(float).tiny)
    bend = (after.piece.slope - before.piece.slope) * weights
    at = float(points.t[before.last])
    step = (after.piece.at(at) - before.piece.at(at)) * weights
    size = float(bend @ bend)
    if size == 0.0:
        return float("inf"), 0.0
    return at - float(bend @ step) / size, 4.0 / np.sqrt(size)


def _is_tiny(points: _Points, i: int) -> bool:
    """Whether the interval after point i cannot be split any further."""
    low, high = points.t[i], points.t[i + 1]
    return bool(high - low <= 16 * np.finfo(float).eps * max(abs(low), abs(high)))


def _split(points: _Points, i: int) -> float:
    """Return a point within the interval after point i."""
    return float(points.t[i] + SPLIT * (points.t[i + 1] - points.t[i]))


def _report(
    points: _Points, runs: list[_Run], settled: list[tuple[float, bool]], *, is_complete: bool
) -> LineScan:
    """Write down the pieces and what was settled between them."""
    places = np.array([place for place, _ in settled], dtype=np.float64)
    is_jump: BoolArray = np.array([jump for _, jump in settled], dtype=np.bool_)
    return LineScan(
        pieces=tuple(run.piece for run in runs),
        breakpoints=np.where(is_jump, np.nan, places),
        jumps=tuple(float(place) for place in places[is_jump]),
        is_complete=is_complete,
        n_points=points.t.size,
    )
