"""Two networks: equal, different or not decided, and never wrong; black boxes: each output on its own scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planted import TwoLayerNetwork, compare
from planted.networks._exact_units import exact_sum

seeds = st.integers(0, 2**32 - 1)
NOTHING = TwoLayerNetwork([[1.0]], A=[[0.0]])


def random_net(rng: np.random.Generator) -> TwoLayerNetwork:
    d, k, m = rng.integers(1, 6), rng.integers(1, 8), rng.integers(1, 4)
    return TwoLayerNetwork(
        rng.standard_normal((k, d)),
        rng.standard_normal(k),
        rng.standard_normal((m, k)),
        rng.standard_normal(m),
    )


def changed(net: TwoLayerNetwork, **parts: Any) -> TwoLayerNetwork:
    return TwoLayerNetwork(**{**{name: getattr(net, name) for name in "WbAc"}, **parts})


def copied(net: TwoLayerNetwork, rng: np.random.Generator, largest: float = 0.0) -> TwoLayerNetwork:
    """Split, add a linear pair that cancels and a unit that cancels, scale and sort: equal up to rounding."""
    d, k, m = net.n_features, net.n_hidden, net.n_outputs
    share = rng.uniform(0.1, 0.9, k)
    w, u, o = rng.standard_normal((1, d)), rng.standard_normal((1, d)), rng.standard_normal(1)
    v = rng.standard_normal((m, 1))
    big = 10 ** rng.uniform(0, largest) * v
    W = np.concatenate([net.W, net.W, w, -w, 2 * w, -2 * w, u, u])
    b = np.concatenate([net.b, net.b, o, -o, 2 * o + 2, -2 * o - 2, o, o])
    A = np.concatenate([net.A * share, net.A * (1 - share), v, -v, -v / 2, v / 2, big, -big], axis=1)
    scale = np.exp(rng.uniform(-3, 3, len(b)))
    order = rng.permutation(len(b))
    return TwoLayerNetwork(
        (W * scale[:, None])[order], (b * scale)[order], (A / scale)[:, order], net.c + v[:, 0]
    )


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_copies_up_to_rounding_are_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_net(rng)
    copy = copied(net, rng)
    answer = compare(net, copy, random_state=0)
    assert answer.is_equal is True and answer.is_exact and answer.witness is None
    rows = 3 * rng.uniform(-1, 1, (100, net.n_features))
    # Evaluation rounds terms whose weights were drawn up to exp(6) apart.
    assert np.abs(net(rows) - copy(rows)).max() <= answer.bound + 1e-13 * (1 + np.abs(net(rows)).max())


@settings(max_examples=30, deadline=None)
@given(seed=seeds, size=st.floats(-12, -6), largest=st.floats(0, 12))
def test_one_part_in_a_million_million_is_never_equal_and_rounding_never_different(
    seed: int, size: float, largest: float
) -> None:
    rng = np.random.default_rng(seed)
    net = random_net(rng)
    copy = copied(net, rng, largest)
    assert compare(net, copy, random_state=0).is_equal is not False
    name = str(rng.choice(list("WbAc")))
    array = np.array(getattr(copy, name))
    array.flat[rng.integers(array.size)] *= 1 + 10**size
    answer = compare(net, changed(copy, **{name: array}), random_state=0)
    assert answer.is_equal is not True
    if largest < 1:
        assert answer.is_equal is False or size < -11
    if answer.witness is not None:
        gap = exact_sum([(net, 1), (changed(copy, **{name: array}), -1)])(answer.witness)
        assert max(abs(float(one)) for one in gap) == pytest.approx(answer.difference, rel=1e-12)


@settings(max_examples=12, deadline=None)
@given(seed=seeds, exponent=st.floats(3, 15))
@pytest.mark.parametrize("tol", [None, 1e-9])
def test_a_steep_ramp_is_not_nothing(tol: float | None, seed: int, exponent: float) -> None:
    """A ramp or a bump of height one, however narrow; at a width of some roundings of its place nobody can tell."""
    rng = np.random.default_rng(seed)
    steep, at = 10**exponent, rng.integers(-2, 3)
    for jumps in ([1.0, -1.0], [1.0, -2.0, 1.0]):
        k = len(jumps)
        ramp = TwoLayerNetwork(np.full((k, 1), steep), -steep * at - np.arange(k), [jumps])
        answer = compare(ramp, NOTHING, tol=tol, random_state=0)
        assert answer.is_equal is not True
        if exponent <= 12:
            assert answer.is_equal is False and answer.difference >= 0.99
    assert not ramp.is_equivalent(NOTHING)


@settings(max_examples=20, deadline=None)
@given(bias=st.floats(1e3, 1e12), shift=st.floats(0.1, 10), tol=st.sampled_from([None, 1e-9, 1e-3]))
def test_a_shift_beside_large_biases_shows(bias: float, shift: float, tol: float | None) -> None:
    bias = float(np.float32(bias))
    line = TwoLayerNetwork([[1.0], [-1.0]], [bias, -bias], [[1.0, -1.0]], [-bias])
    shifted = changed(line, c=line.c + shift)
    answer = compare(line, shifted, tol=tol, random_state=0)
    assert answer.is_equal is False
    assert compare(line, TwoLayerNetwork([[1.0], [-1.0]], A=[[1.0, -1.0]]), tol=tol).is_equal is True


@settings(max_examples=20, deadline=None)
@given(seed=seeds, exponent=st.floats(0, 11), tol=st.sampled_from([None, 1e-9]))
def test_a_unit_beside_cancelling_terms_shows(seed: int, exponent: float, tol: float | None) -> None:
    rng = np.random.default_rng(seed)
    w, size = rng.standard_normal(2), 10**exponent
    one, two = (TwoLayerNetwork([[0.0, 1.0], w, w], [0.0, 0.1, 0.1], [[a, size, -size]]) for a in (1.0, 2.0))
    assert compare(one, two, tol=tol, random_state=0).is_equal is False
    assert compare(one, TwoLayerNetwork([[0.0, 2.0]], A=[[0.5]]), tol=tol).is_equal is True


def test_what_rounding_hides_is_not_decided() -> None:
    w = np.array([[1.0, 0.3]])
    one = TwoLayerNetwork(np.concatenate([w, w]), [0.1, 0.1], [[1e12, -1e12]])
    other = TwoLayerNetwork(np.concatenate([w, 0.7 * w]), [0.1, 0.7 * 0.1], [[1e12, -1e12 / 0.7]])
    answer = compare(one, other, random_state=0)
    assert answer.is_equal is None and answer.witness is None and answer.detail.startswith("Not decided")
    assert compare(one, other, tol=1e-9, random_state=0).is_equal is None
    assert not one.is_equivalent(other)


@pytest.mark.parametrize("seed", range(3))
def test_differences_of_arithmetic_name_the_tolerance(seed: int) -> None:
    """A recovered network differs from the truth by rounding; what was said before left the reader alone with it."""
    rng = np.random.default_rng(seed)
    net = random_net(rng)
    near = changed(net, W=net.W * (1 + 1e-14 * rng.standard_normal(net.W.shape)))
    answer = compare(net, near, random_state=0)
    assert not answer.is_equal and "with the tolerance 1e-09" in answer.detail
    assert compare(net, near, tol=1e-9, random_state=0).is_equal
    far = changed(net, W=net.W * (1 + 1e-3 * rng.standard_normal(net.W.shape)))
    assert "tolerance" not in compare(net, far, random_state=0).detail


def test_a_unit_far_out_is_a_difference() -> None:
    net = random_net(np.random.default_rng(0))
    far = TwoLayerNetwork(
        np.concatenate([net.W, net.W[:1]]),
        np.append(net.b, -1e5),
        np.concatenate([net.A, net.A[:, :1]], axis=1),
        net.c,
    )
    answer = compare(net, far, random_state=0)
    assert answer.is_equal is False and answer.units == ((-1, net.n_hidden),)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, exponent=st.floats(0, 12))
def test_each_output_of_a_black_box_has_its_own_scale(seed: int, exponent: float) -> None:
    rng = np.random.default_rng(seed)
    net = TwoLayerNetwork(rng.standard_normal((4, 3)), rng.standard_normal(4), rng.standard_normal((2, 4)))
    scales = np.array([10**exponent, 1.0])

    def ask(X: np.ndarray) -> np.ndarray:
        return net(X) * scales

    def other(X: np.ndarray) -> np.ndarray:
        return net(X) * scales + np.column_stack([np.zeros(len(X)), 1e-3 * np.sin(X[:, 0])])

    assert compare(ask, ask, 3, n_queries=500, random_state=0).is_equal is True
    answer = compare(ask, other, 3, n_queries=500, random_state=0)
    assert answer.is_equal is False and answer.witness is not None
