"""The bracket of the largest difference: against enumeration of all patterns, and never on the wrong side of a value."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from planted import DeepNetwork, TwoLayerNetwork, compare
from planted._clock import time_budget
from planted.outcomes import BadInputError
from planted.verification import (
    Bracket,
    Plain,
    as_input_set,
    as_plain,
    bracket,
    exact_differences,
    exact_outputs,
    match_copies,
)
from planted.verification._backward import Domain
from planted.verification._limits import find_limits, open_signs, refine_limits
from planted.verification._stages import matched_stages, single_stages, stacked_stages
from planted.verification._zonotopes import reach

SLOPES = (0.0, 0.1, 0.9, -0.3, -1.0)


def random_plain(rng: np.random.Generator, widths: tuple[int, ...], slope: float) -> Plain:
    layers = tuple(
        (rng.standard_normal((k, p)) / np.sqrt(p), rng.standard_normal(k))
        for p, k in itertools.pairwise(widths)
    )
    return Plain(layers, tuple(np.full(k, slope) for k in widths[1:-1]))


def near(net: Plain, rng: np.random.Generator, size: float) -> Plain:
    layers = tuple(
        (W + size * rng.standard_normal(W.shape), b + size * rng.standard_normal(b.shape))
        for W, b in net.layers
    )
    return Plain(layers, net.slopes)


def scrambled(net: Plain, rng: np.random.Generator, *, is_exact: bool) -> Plain:
    """Permute and rescale the units of every hidden layer; with powers of two the function is the same exactly."""
    layers, order, scale = [], np.arange(net.widths[0]), np.ones(net.widths[0])
    for W, b in net.layers[:-1]:
        weights = W[:, order] / scale
        order = rng.permutation(len(b))
        scale = 2.0 ** rng.integers(-3, 4, len(b)) if is_exact else np.exp(rng.uniform(-2, 2, len(b)))
        layers.append((weights[order] * scale[:, None], b[order] * scale))
    W, b = net.layers[-1]
    return Plain((*layers, (W[:, order] / scale, b)), net.slopes)


def random_box(rng: np.random.Generator, d: int) -> tuple[np.ndarray, np.ndarray]:
    low = rng.uniform(-2, 0, d)
    return low, low + rng.uniform(0, 3, d) * (rng.random(d) > 0.15)


def enumerated(f: Plain, g: Plain, low: np.ndarray, high: np.ndarray) -> float:
    """The largest difference of an output: every pattern of signs of both networks is a linear program."""
    (W, b), (A, c) = f.layers
    (V, e), (C, h) = g.layers
    rows = np.vstack([np.column_stack([W, b]), np.column_stack([V, e])])
    slopes = np.concatenate([f.slopes[0], g.slopes[0]])
    limits = np.column_stack([low, high])
    patterns: list[list[float]] = [[]]
    for count in range(1, len(rows) + 1):
        patterns = [
            pattern
            for known in patterns
            for pattern in ([*known, 1.0], [*known, -1.0])
            if linprog(
                np.zeros(len(low)),
                A_ub=-np.array(pattern)[:, None] * rows[:count, :-1],
                b_ub=np.array(pattern) * rows[:count, -1],
                bounds=limits,
            ).status
            == 0
        ]
    best = 0.0
    for pattern in map(np.array, patterns):
        rate = np.where(pattern > 0, 1.0, slopes)
        for row in np.vstack([np.eye(len(c)), -np.eye(len(c))]):
            line = (np.concatenate([row @ A, -(row @ C)]) * rate) @ rows
            answer = linprog(
                -line[:-1], A_ub=-pattern[:, None] * rows[:, :-1], b_ub=pattern * rows[:, -1], bounds=limits
            )
            if answer.status == 0:
                best = max(best, -answer.fun + line[-1] + row @ (c - h))
    return float(best)


@pytest.mark.parametrize("seed", range(6))
def test_the_bracket_closes_at_the_maximum_over_all_patterns(seed: int) -> None:
    rng = np.random.default_rng([7, seed])
    d, k = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    f = random_plain(rng, (d, k, 1), float(rng.choice(SLOPES)))
    g = near(f, rng, 10.0 ** rng.uniform(-3, 0)) if seed % 2 else random_plain(rng, (d, 3, 1), f.slopes[0][0])
    low, high = random_box(rng, d)
    known = bracket(f, g, as_input_set((low, high), d), rng=rng)
    largest = enumerated(f, g, low, high)
    assert known.largest_found == pytest.approx(largest, rel=1e-9, abs=1e-12)
    assert known.largest_proved == pytest.approx(largest, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("seed", range(12))
def test_no_sample_leaves_the_limits(seed: int) -> None:
    """Lines, zonotopes and both networks apart: every pre-activation and every output lies between its limits."""
    rng = np.random.default_rng([8, seed])
    widths = tuple(int(k) for k in rng.integers(1, 7, int(rng.integers(3, 6))))
    f = random_plain(rng, widths, float(rng.choice(SLOPES)))
    g = near(f, rng, 10.0 ** rng.uniform(-8, 0))
    low, high = random_box(rng, widths[0])
    domain = Domain(low[None], high[None], np.zeros((0, len(low))), np.zeros(0))
    X = low + rng.random((3000, len(low))) * (high - low)
    for stages, outputs in (
        (matched_stages(f, g), f(X) - g(X)),
        (stacked_stages(f, g), f(X) - g(X)),
        (single_stages(f), f(X)),
    ):
        zonotope = reach(stages, domain)
        assert (outputs <= zonotope.high + 1e-12).all() and (outputs >= zonotope.low - 1e-12).all()
        through, _ = find_limits(stages, domain, open_signs(stages, 1), n_steps=3)
        refine_limits(stages, domain, zonotope.limits)
        hidden, other = X, X
        for place, stage in enumerate(stages[:-1]):
            z = hidden @ stage.W.T + stage.b
            for limits in (through[place], zonotope.limits[place]):
                assert (z <= limits.z_high + 1e-12).all() and (z >= limits.z_low - 1e-12).all()
                if stage.other is not None:
                    u = other @ stage.other[0].T + stage.other[1]
                    assert (u <= limits.u_high + 1e-12).all() and (u >= limits.u_low - 1e-12).all()
                    assert (z - u <= limits.d_high + 1e-12).all() and (z - u >= limits.d_low - 1e-12).all()
            hidden = np.where(z > 0, z, stage.slopes * z)
            if stage.other is not None:
                other = np.where(u > 0, u, stage.slopes * u)


@pytest.mark.parametrize("seed", range(10))
def test_a_bracket_holds_whenever_it_is_stopped(seed: int) -> None:
    """Deep networks, little time: what is found is a value, what is proved is above all samples."""
    rng = np.random.default_rng([9, seed])
    widths = (int(rng.integers(1, 5)), *(int(k) for k in rng.integers(2, 8, int(rng.integers(1, 4)))), 2)
    f = random_plain(rng, widths, float(rng.choice(SLOPES)))
    other = (widths[0], 3, 2) if seed % 3 == 0 else None
    g = random_plain(rng, other, f.slopes[0][0]) if other else near(f, rng, 10.0 ** rng.uniform(-6, 0))
    low, high = random_box(rng, widths[0])
    with time_budget(0.3):
        known = bracket(f, g, as_input_set((low, high), widths[0]), rng=rng)
    X = low + rng.random((20_000, len(low))) * (high - low)
    assert np.abs(f(X) - g(X)).max() <= known.largest_proved * (1 + 1e-12) + 1e-13
    assert_found(known, f, g, low, high)


def assert_found(known: Bracket, f: Plain, g: Plain, low: np.ndarray, high: np.ndarray) -> None:
    for value, x, place in zip(known.found, known.inputs, range(len(known.found)), strict=True):
        assert (x >= low).all() and (x <= high).all()
        m = len(known.found) // 2
        exact = exact_outputs(f, x)[place % m] - exact_outputs(g, x)[place % m]
        assert value == pytest.approx(float(exact if place < m else -exact), rel=1e-9, abs=1e-12)
        assert float(exact if place < m else -exact) <= known.proved[place] + 1e-12


@pytest.mark.parametrize("widths", [(6, 8, 3), (6, 8, 5, 3), (5, 20, 20, 20, 2)])
@pytest.mark.parametrize("is_exact", [True, False])
def test_permuted_and_rescaled_copies_are_proved_equal(widths: tuple[int, ...], is_exact: bool) -> None:
    rng = np.random.default_rng(len(widths))
    f = random_plain(rng, widths, 0.0)
    g = scrambled(f, rng, is_exact=is_exact)
    known = bracket(f, g, as_input_set((-1, 1), widths[0]), tol=1e-9, rng=rng)
    assert known.largest_proved <= 1e-9 and not known.reason
    layers = [(W.copy(), b.copy()) for W, b in g.layers]
    layers[0][0][1, 2] += 1e-3
    changed = Plain(tuple(layers), g.slopes)
    known = bracket(f, changed, as_input_set((-1, 1), widths[0]), tol=1e-9, rng=rng)
    x = known.inputs[known.found.argmax()]
    gap = max(abs(a - b) for a, b in zip(exact_outputs(f, x), exact_outputs(changed, x), strict=True))
    assert gap > Fraction(1, 10**9)


@pytest.mark.parametrize("seed", range(8))
def test_hostile_networks_and_boxes(seed: int) -> None:
    """Weights over many decades, dead and doubled units, boxes that are points or huge: never a wrong verdict."""
    rng = np.random.default_rng([10, seed])
    d, k = int(rng.integers(1, 4)), 5
    f = random_plain(rng, (d, k, 1), float(rng.choice(SLOPES)))
    layers = [(W * 10.0 ** rng.uniform(-12, 8, (len(b), 1)), b) for W, b in f.layers]
    layers[0][0][0] = 0.0  # a dead unit
    layers[0][0][1] = layers[0][0][2]  # a doubled one
    f = Plain(tuple(layers), f.slopes)
    g = near(f, rng, 10.0 ** rng.uniform(-10, -3))
    side = 10.0 ** rng.uniform(-3, 12)
    low = rng.uniform(-side, side, d)
    high = low + (0.0 if seed % 3 == 0 else side)
    tol = float(np.abs(f(low[None]) - g(low[None])).max() * 10.0 ** rng.uniform(-1, 3) + 1e-300)
    nets = [
        TwoLayerNetwork(
            W, b, A, c, f"leaky-relu:{net.slopes[0][0]}" if abs(net.slopes[0][0]) < 1 else "absolute"
        )
        for net in (f, g)
        for (W, b), (A, c) in [net.layers]
    ]
    answer = compare(*nets, box=(low, high), tol=tol, budget_seconds=1.0, random_state=0)
    X = np.vstack([low, high, low + rng.random((200, d)) * (high - low)])
    seen = max(
        abs(a - b)
        for x in X[:40]
        for a, b in zip(exact_outputs(as_plain(nets[0]), x), exact_outputs(as_plain(nets[1]), x), strict=True)
    )
    assert seen <= Fraction(answer.bound) if np.isfinite(answer.bound) else True
    assert not (answer.is_equal and seen > Fraction(tol))
    if answer.is_equal is False:
        assert answer.witness is not None
        values = [exact_outputs(as_plain(net), answer.witness) for net in nets]
        assert max(abs(a - b) for a, b in zip(*values, strict=True)) > Fraction(tol)


def test_inequalities_cut_the_box() -> None:
    rng = np.random.default_rng(3)
    f, g = (random_plain(rng, (2, 4, 1), 0.0) for _ in range(2))
    G, limit = np.array([[1.0, 1.0]]), np.array([0.2])
    inside = bracket(f, g, as_input_set((0, 1, G, limit), 2), rng=rng)
    X = rng.dirichlet(np.ones(3), 20_000)[:, :2] * 0.2
    assert np.abs(f(X) - g(X)).max() <= inside.largest_proved + 1e-12
    assert inside.largest_found == pytest.approx(inside.largest_proved, rel=1e-6)
    x = inside.inputs[inside.found.argmax()]
    assert x.sum() <= 0.2 + 1e-9


def test_a_deep_network_equals_its_two_layer_form_on_a_box() -> None:
    """Networks of other depths: the shorter one is extended."""
    rng = np.random.default_rng(4)
    W, A = rng.standard_normal((4, 3)), rng.standard_normal((2, 4))
    two = TwoLayerNetwork(W, A=A)
    deep = DeepNetwork([(W, None), (np.eye(4), None), (A, None)])
    answer = compare(two, deep, box=(-1, 1), tol=1e-6, budget_seconds=0.5, random_state=0)
    assert answer.is_equal is not False and answer.difference <= 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_a_set_that_is_empty_is_never_called_equal(seed: int) -> None:
    rng = np.random.default_rng([13, seed])
    nets = [
        DeepNetwork([(rng.standard_normal((3, 2)), None), (rng.standard_normal((1, 3)), None)])
        for _ in range(2)
    ]
    box = (0.0, 1.0, np.array([[1.0, 1.0], [-1.0, -1.0]]), np.array([0.5, -0.6 - rng.random()]))
    try:
        answer = compare(*nets, box=box, tol=1e6, budget_seconds=0.5, random_state=0)
    except BadInputError as error:
        assert "no input" in str(error)
    else:
        assert answer.is_equal is None and answer.witness is None


@pytest.mark.parametrize("seed", range(6))
def test_units_are_matched_only_with_units_of_the_same_slope(seed):
    """A linear part is carried by units with slope one; where they lie between two others, a swap would be shorter."""
    rng = np.random.default_rng([11, seed])
    d, k, m = 1 + seed % 3, 2, 2
    axes = np.eye(d)[rng.integers(d, size=k)]
    tilt, shift = 0.5 * rng.standard_normal((k, d)), rng.uniform(0.3, 0.8, k)
    parts = {"A": rng.standard_normal((m, k)), "B": rng.standard_normal((m, d))}
    activation = f"leaky-relu:{SLOPES[seed % 4]}"
    f, g = (
        TwoLayerNetwork(axes + side * tilt, side * shift, activation=activation, **parts) for side in (1, -1)
    )
    match = match_copies(as_plain(f), as_plain(g))
    assert all(
        (slope == slope[order]).all() for slope, order in zip(match.network.slopes, match.orders, strict=True)
    )
    answer = compare(f, g, box=(-1, 1), budget_seconds=0.2, random_state=seed)
    corners = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=d)))
    rows = np.concatenate([corners, rng.uniform(-1, 1, (200, d))])
    assert (np.abs(f(rows) - g(rows)).max(axis=0) <= np.array(answer.bounds) + 1e-12).all()


@pytest.mark.parametrize("seed", range(6))
def test_no_output_is_said_to_differ_more_than_at_an_input(seed: int) -> None:
    """Large terms that cancel: what floating point sees at an input is not what the weights say."""
    rng = np.random.default_rng([13, seed])
    W, b, A = rng.standard_normal((4, 1)), rng.standard_normal(4), rng.standard_normal((3, 4))
    large = 10.0 ** rng.uniform(6, 10, (3, 1))
    f = TwoLayerNetwork(W, b, A)
    g = TwoLayerNetwork(
        np.vstack([W, W[:1], W[:1]]), np.append(b, b[[0, 0]]), np.hstack([A * (1 + 1e-9), large, -large])
    )
    low, high = np.sort(rng.standard_normal(2))
    kinks = [Fraction(float(-c)) / Fraction(float(w)) for w, c in zip(W[:, 0], b, strict=True)]
    places = [
        Fraction(float(low)),
        Fraction(float(high)),
        *(kink for kink in kinks if low <= kink <= high),
    ]
    values = [exact_differences(as_plain(f), as_plain(g), [x]) for x in places]
    answer = compare(f, g, box=(low, high), budget_seconds=0.1, random_state=seed)
    for place, largest in enumerate(map(max, zip(*values, strict=True))):
        assert answer.differences[place] <= largest <= answer.bounds[place]
    assert answer.difference <= max(exact_differences(as_plain(f), as_plain(g), answer.witness))


@pytest.mark.parametrize("seed", range(6))
def test_numbers_that_underflow_are_part_of_the_bound(seed: int) -> None:
    rng = np.random.default_rng([17, seed])
    size = 10.0 ** rng.uniform(-320, -300)
    W, b, A = rng.standard_normal((4, 1)) * size, rng.standard_normal(4) * size, rng.standard_normal((1, 4))
    f, g = TwoLayerNetwork(W, b, A), TwoLayerNetwork(W[::-1], b[::-1], A[:, ::-1] * (1 + 1e-3))
    answer = compare(f, g, box=(-1, 1), budget_seconds=0.1, random_state=seed)
    for x in np.linspace(-1, 1, 101):
        assert exact_differences(as_plain(f), as_plain(g), [Fraction(x)])[0] <= answer.bound


@pytest.mark.parametrize("seed", [1, 2])
def test_a_narrow_bump_is_bounded_by_its_height(seed: int) -> None:
    """Signs that contradict each other are bounded loosely where units are steep; splitting the inputs helps."""
    rng = np.random.default_rng(seed)
    W, b, A = rng.standard_normal((4, 1)), rng.standard_normal(4), rng.standard_normal((1, 4))
    width, place = 1e-4 * rng.random(), rng.uniform(-1, 1)
    kinks, bends = place + width * np.array([-1, 0, 1]), np.array([[1, -2, 1]]) / width
    f = TwoLayerNetwork(W, b, A)
    g = TwoLayerNetwork(np.vstack([W, np.ones((3, 1))]), np.append(b, -kinks), np.hstack([A, bends]))
    assert compare(f, g, box=(-1, 1), tol=2.0, random_state=0).is_equal is True
    assert compare(f, g, box=(-1, 1), tol=0.5, random_state=0).is_equal is False
