"""Equality of functions, simplification, canonical form: every gauge move keeps them, every change shows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planted.networks import TwoLayerNetwork, parameter_error
from planted.networks._equivalence import find_agreement
from planted.networks._simplify import facing_form

ACTIVATIONS = ["relu", "leaky-relu:0.1", "leaky-relu:-3.0", "absolute", "power:2", "power:3", "quadratic"]
BENDING = ["relu", "leaky-relu:0.1", "leaky-relu:-3.0"]
# Units have size one; a move of the gauge costs a few roundings of that size.
ROUNDING = 1e-12

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 3))


def random_net(rng, d, k, m, activation="relu", bias=True):
    return TwoLayerNetwork(
        W=rng.standard_normal((k, d)),
        b=rng.standard_normal(k) * bias,
        A=rng.standard_normal((m, k)),
        c=rng.standard_normal(m),
        activation=activation,
    )


def with_parts(net, **parts):
    values = {"W": net.W, "b": net.b, "A": net.A, "c": net.c, "activation": net.activation}
    return TwoLayerNetwork(**{**values, **parts})


def permuted(net, rng):
    order = rng.permutation(net.n_hidden)
    return with_parts(net, W=net.W[order], b=net.b[order], A=net.A[:, order])


def rescaled(net, rng, spread=3.0):
    scale = np.exp(rng.uniform(-spread, spread, net.n_hidden))
    return with_parts(net, W=net.W * scale[:, None], b=net.b * scale, A=net.A / scale**net.activation.degree)


def split(net, rng):
    share = rng.uniform(0.2, 0.8, net.n_hidden)
    return with_parts(
        net,
        W=np.concatenate([net.W, 2 * net.W]),
        b=np.concatenate([net.b, 2 * net.b]),
        A=np.concatenate([net.A * share, net.A * (1 - share) / 2**net.activation.degree], axis=1),
    )


def with_dead_units(net, rng):
    d, m = net.n_features, net.n_outputs
    # no direction and never on; no direction and always on; no output
    b = np.array([-1.0, 2.0, 0.7])
    W = np.concatenate([net.W, np.zeros((2, d)), rng.standard_normal((1, d))])
    extra = rng.standard_normal((m, 3)) * [1.0, 1.0, 0.0]
    c = net.c - extra[:, :2] @ net.activation(b[:2])
    return with_parts(net, W=W, b=np.concatenate([net.b, b]), A=np.concatenate([net.A, extra], axis=1), c=c)


def with_linear_pairs(net, rng, count=1):
    """Add f(t) - f(-t) = 2 slope t with t = w x + o, and a second set of pairs that takes it away."""
    w = rng.standard_normal((count, net.n_features))
    o = rng.standard_normal(count)
    v = rng.standard_normal((net.n_outputs, count))
    W = np.concatenate([net.W, w, -w, 2 * w, -2 * w])
    b = np.concatenate([net.b, o, -o, 2 * o + 1, -2 * o - 1])
    A = np.concatenate([net.A, v, -v, -v / 2, v / 2], axis=1)
    return with_parts(net, W=W, b=b, A=A, c=net.c + 2 * net.activation.slope * v.sum(axis=1) / 2)


MOVES = {
    "permute": permuted,
    "rescale": rescaled,
    "split": split,
    "dead": with_dead_units,
    "all": lambda net, rng: permuted(rescaled(with_dead_units(split(net, rng), rng), rng), rng),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("move", MOVES)
@settings(max_examples=15, deadline=None)
@given(seed=seeds, size=sizes)
def test_gauge_moves_keep_the_function(move, activation, seed, size):
    rng = np.random.default_rng(seed)
    net = random_net(rng, *size, activation)
    if size[0] == 1 or activation == "absolute":
        net = with_parts(net, b=net.b + np.arange(net.n_hidden))
    other = MOVES[move](net, rng)
    assert net.is_equivalent(other)
    assert other.is_equivalent(net)
    assert other.simplify().n_hidden <= net.n_hidden
    # Offsets b/|w| are as large as the inverse of the smallest row; differences are relative to them.
    assert parameter_error(other, net) <= ROUNDING * (1 + np.abs(net.canonical().b).max() ** 2)


@pytest.mark.parametrize("activation", BENDING)
@settings(max_examples=25, deadline=None)
@given(seed=seeds, size=sizes)
def test_linear_pairs_that_cancel_are_removed(activation, seed, size):
    rng = np.random.default_rng(seed)
    net = random_net(rng, *size, activation)
    other = permuted(with_linear_pairs(net, rng, 2), rng)
    assert net.is_equivalent(other)
    assert other.simplify().n_hidden == net.simplify().n_hidden
    assert parameter_error(other, net) <= ROUNDING * (1 + np.abs(net.canonical().b).max() ** 2) * 10


@pytest.mark.parametrize("activation", ACTIVATIONS)
@settings(max_examples=15, deadline=None)
@given(seed=seeds, size=sizes)
def test_a_change_of_any_parameter_shows(activation, seed, size):
    rng = np.random.default_rng(seed)
    d, k, m = size
    # Rows and columns of size one, so that 1e-6 is far above the tolerance 1e-9 times the network's scale.
    unit = rng.standard_normal((k, d))
    net = TwoLayerNetwork(
        W=unit / np.linalg.norm(unit, axis=1, keepdims=True),
        b=rng.uniform(0.5, 1.5, k),
        A=rng.choice([-1.0, 1.0], (m, k)) * rng.uniform(1.0, 2.0, (m, k)),
        c=rng.standard_normal(m),
        activation=activation,
    )
    for name in ("W", "b", "A", "c"):
        array = getattr(net, name).copy()
        array.flat[rng.integers(array.size)] += 1e-6
        changed = with_parts(net, **{name: array})
        assert not net.is_equivalent(changed), name
        assert parameter_error(changed, net) > 1e-8, name


@pytest.mark.parametrize("activation", BENDING)
@settings(max_examples=25, deadline=None)
@given(seed=seeds, d=st.integers(1, 4), extra=st.integers(0, 3), m=st.integers(1, 2))
def test_turning_a_dependent_set_keeps_the_function(activation, seed, d, extra, m):
    """Claim 4.8 of ATV21: if the a_i w_i sum to zero, turning all these units round changes nothing."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((d + 1, d))
    W[-1] = -W[:-1].sum(axis=0)
    column = rng.standard_normal((m, 1))
    more = random_net(rng, d, extra, m, activation)
    b = rng.standard_normal(d + 1)
    A = np.concatenate([np.repeat(column, d + 1, axis=1), more.A], axis=1)
    net = TwoLayerNetwork(
        W=np.concatenate([W, more.W]), b=np.concatenate([b, more.b]), A=A, activation=activation
    )
    # a f(t) - a f(-t) = 2 slope a t, and the t sum to the sum of b.
    turned = with_parts(
        net,
        W=np.concatenate([-W, more.W]),
        b=np.concatenate([-b, more.b]),
        c=2 * net.activation.slope * column[:, 0] * b.sum(),
    )
    assert net.is_equivalent(turned)
    assert not net.is_equivalent(with_parts(turned, c=turned.c + 1e-6))
    one, other = net.canonical(), turned.canonical()
    scale = 1 + np.abs(one.b).max() ** 2
    for name in ("W", "b", "A", "c"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-11 * scale)


def test_the_facing_form_by_hand():
    # 2 relu(x + 1) + relu(-x - 1) - relu(x) = 3 relu(x + 1) - relu(x) - x - 1, since relu(-t) = relu(t) - t.
    form = facing_form(
        TwoLayerNetwork(W=[[1.0], [-1.0], [1.0]], b=[1.0, -1.0, 0.0], A=[[2.0, 1.0, -1.0]]), tol=1e-10
    )
    assert form.W.tolist() == [[1.0], [1.0]]
    assert form.b.tolist() == [1.0, 0.0]
    assert form.A.tolist() == [[3.0, -1.0]]
    assert form.B.tolist() == [[-1.0]]
    assert form.c.tolist() == [-1.0]


@pytest.mark.parametrize("activation", [*BENDING, "absolute"])
def test_the_facing_form_is_the_function(activation):
    rng = np.random.default_rng(3)
    net = split(random_net(rng, 3, 6, 2, activation), rng)
    X = rng.standard_normal((50, 3))
    form = facing_form(net, tol=1e-10)
    assert form.n_hidden == 6
    np.testing.assert_allclose(form(X), net(X), rtol=0, atol=1e-13 * np.abs(net.A).sum() * 10)


def test_both_sides_of_a_hyperplane_stay_apart_for_powers():
    both = TwoLayerNetwork(W=[[1.0], [-1.0]], A=[[1.0, 2.0]], activation="power:2")
    assert both.canonical().n_hidden == 2


@pytest.mark.parametrize(
    ("W", "b", "A", "activation", "units"),
    [
        ([[0.0, 0.0]], [-1.0], [[3.0]], "relu", 0),  # dead
        ([[0.0, 0.0]], [2.0], [[3.0]], "relu", 0),  # constant
        ([[1.0, 0.0]], [2.0], [[0.0]], "relu", 0),  # no output
        ([[1.0, 0.0], [2.0, 0.0]], [1.0, 2.0], [[1.0, 1.0]], "relu", 1),  # parallel
        ([[1.0, 0.0], [2.0, 0.0]], [1.0, 2.0], [[2.0, -1.0]], "relu", 0),  # cancelling
        ([[1.0, 0.0], [1.0, 0.0]], [1.0, 2.0], [[1.0, 1.0]], "relu", 2),  # parallel normals, two hyperplanes
        ([[1.0, 0.0], [-1.0, 0.0]], [1.0, -1.0], [[1.0, 1.0]], "relu", 2),  # |t| needs two
        ([[1.0, 0.0], [-1.0, 0.0]], [1.0, -1.0], [[1.0, 1.0]], "absolute", 1),
        ([[1.0, 0.0], [-1.0, 0.0]], [1.0, -1.0], [[1.0, -1.0]], "relu", 2),  # a linear function needs two
        ([[1.0], [-1.0], [1.0], [-1.0]], [0, 0, 1, -1], [[1.0, -1.0, -1.0, 1.0]], "relu", 0),  # x - (x + 1)
        (
            [[1.0], [-1.0], [1.0], [-1.0]],
            [0, 0, 1, -1],
            [[1.0, -1.0, 1.0, -1.0]],
            "relu",
            2,
        ),  # one pair for 2x
        # relu(x) - x = relu(-x): the pair is absorbed by turning the unit round
        ([[1.0], [1.0], [-1.0]], [0.0, 5.0, -5.0], [[1.0, -1.0, 1.0]], "relu", 1),
        # relu(x) + x: no turn absorbs it, a second unit on the same hyperplane does
        ([[1.0], [1.0], [-1.0]], [0.0, 5.0, -5.0], [[1.0, 1.0, -1.0]], "relu", 2),
        ([[1.0], [-2.0]], [1.0, -2.0], [[1.0, 1.0]], "quadratic", 1),
        ([[1.0], [-2.0]], [1.0, -2.0], [[4.0, -1.0]], "quadratic", 0),
        ([[1.0], [2.0], [-1.0]], [1.0, 2.0, -1.0], [[1.0, 1.0, 1.0]], "power:2", 2),
    ],
)
def test_simplified_counts_by_hand(W, b, A, activation, units):
    net = TwoLayerNetwork(W=W, b=b, A=A, c=[0.25], activation=activation)
    small = net.simplify()
    assert small.n_hidden == units
    assert net.canonical().n_hidden == units
    X = np.random.default_rng(0).standard_normal((40, net.n_features)) * 3
    np.testing.assert_allclose(small(X), net(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(net.canonical()(X), net(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("activation", BENDING)
@settings(max_examples=25, deadline=None)
@given(seed=seeds, size=sizes, pairs=st.integers(0, 2), doubles=st.integers(0, 3))
def test_simplify_never_adds_units_and_keeps_values(activation, seed, size, pairs, doubles):
    rng = np.random.default_rng(seed)
    net = random_net(rng, *size, activation)
    doubles = min(doubles, net.n_hidden)
    w = rng.standard_normal((pairs, net.n_features))
    v = rng.standard_normal((net.n_outputs, pairs))
    A = np.concatenate([net.A, v, -v, rng.standard_normal((net.n_outputs, doubles))], axis=1)
    W = np.concatenate([net.W, w, -w, -2 * net.W[:doubles]])
    b = np.concatenate([net.b, np.zeros(2 * pairs), -2 * net.b[:doubles]])
    big = with_parts(net, W=W, b=b, A=A)
    X = rng.standard_normal((30, net.n_features))
    for smaller in (big.simplify(), big.canonical()):
        assert smaller.n_hidden <= big.n_hidden
        np.testing.assert_allclose(smaller(X), big(X), rtol=0, atol=1e-11 * (1 + np.abs(A).sum()))
        assert smaller.is_equivalent(big)
    again = permuted(rescaled(big, rng), rng)
    assert parameter_error(again, big) <= 1e-10 * (1 + np.abs(big.canonical().b).max() ** 2)


def test_nothing_to_simplify_returns_the_network_itself():
    net = random_net(np.random.default_rng(1), 4, 3, 2)
    assert net.simplify() is net


def test_canonical_rows_have_unit_norm_and_a_fixed_order():
    rng = np.random.default_rng(2)
    net = random_net(rng, 6, 9, 2)
    one, other = net.canonical(), permuted(rescaled(net, rng), rng).canonical()
    np.testing.assert_allclose(np.linalg.norm(one.W, axis=1), 1.0, rtol=1e-15)
    for name in ("W", "b", "A", "c"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=ROUNDING)
    assert TwoLayerNetwork(W=np.eye(5)[::-1], A=np.ones((1, 5))).canonical().W.tolist() == np.eye(5).tolist()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # |x| = relu(x) + relu(-x)
        (([[1.0]], [0.0], [[1.0]], "absolute"), ([[1.0], [-1.0]], [0, 0], [[1.0, 1.0]], "relu")),
        # leaky = relu(x) - 0.1 relu(-x)
        (([[1.0]], [0.0], [[1.0]], "leaky-relu:0.1"), ([[1.0], [-1.0]], [0, 0], [[1.0, -0.1]], "relu")),
        # x^2 = (x)+^2 + (-x)+^2
        (([[1.0]], [0.0], [[1.0]], "quadratic"), ([[1.0], [-1.0]], [0, 0], [[1.0, 1.0]], "power:2")),
        # ((x + 1)^2 - (x - 1)^2) / 4 = x = relu(x) - relu(-x)
        (
            ([[1.0], [1.0]], [1, -1], [[0.25, -0.25]], "quadratic"),
            ([[1.0], [-1.0]], [0, 0], [[1, -1]], "relu"),
        ),
    ],
)
def test_equal_functions_in_different_activations(one, other):
    first, second = (TwoLayerNetwork(W=W, b=b, A=A, activation=name) for W, b, A, name in (one, other))
    assert first.is_equivalent(second)
    assert second.is_equivalent(first)
    assert not first.is_equivalent(with_parts(second, A=second.A * (1 + 1e-6)))
    assert parameter_error(first, second) == np.inf


def test_quadratic_rotation_is_the_same_function():
    # |x|^2 in two orthonormal bases
    q = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 4)))[0]
    one = TwoLayerNetwork(W=np.eye(4), A=np.ones((1, 4)), activation="quadratic")
    assert one.is_equivalent(with_parts(one, W=q))
    assert not one.is_equivalent(with_parts(one, W=q * (1 + 1e-7)))


@pytest.mark.parametrize("d", [2, 120])  # 120^3 entries are more than the tensor may have
@pytest.mark.parametrize("degree", [2, 3])
def test_turning_units_whose_powers_cancel(d, degree):
    """If sum_i beta_i t_i^p = 0, the units may be turned round, times (-1)^(p-1), without any change."""
    rng = np.random.default_rng(6)
    angles = np.arange(degree + 2) * 0.5
    plane = np.column_stack([np.cos(angles), np.sin(angles)])
    monomials = np.stack([plane[:, 0] ** j * plane[:, 1] ** (degree - j) for j in range(degree + 1)])
    beta = np.linalg.svd(monomials)[2][-1]
    W = plane @ np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    one = TwoLayerNetwork(W=W, A=beta, activation=f"power:{degree}")
    turned = with_parts(one, W=-W, A=(-1.0) ** (degree - 1) * beta[None, :])
    assert one.is_equivalent(turned)
    assert not one.is_equivalent(with_parts(turned, A=-turned.A))
    # The same breaks, another polynomial: t+^p and (-t)+^p differ by t^p.
    half = with_parts(one, W=W * np.where(angles > 0, 1, -1)[:, None])
    half = with_parts(half, A=one.A * np.where(angles > 0, 1, (-1.0) ** (degree - 1)))
    assert not one.is_equivalent(half)


def test_shapes_that_differ_are_not_equal():
    net = random_net(np.random.default_rng(7), 3, 2, 1)
    assert not net.is_equivalent(random_net(np.random.default_rng(7), 2, 2, 1))
    assert not net.is_equivalent(random_net(np.random.default_rng(7), 3, 2, 2))


def test_empty_networks_are_their_constants():
    empty = TwoLayerNetwork(W=np.zeros((0, 3)), A=np.zeros((2, 0)), c=[1.0, 2.0])
    assert empty.is_equivalent(TwoLayerNetwork(W=np.zeros((1, 3)), b=[1.0], A=[[1.0], [2.0]]))
    assert empty.canonical().n_hidden == 0
    assert parameter_error(empty, empty) == 0


def test_sizes_far_apart():
    """Rows of W from 1e-200 to 1e200, columns of A to match, offsets up to 1e8: the same network."""
    rng = np.random.default_rng(8)
    net = random_net(rng, 3, 5, 2)
    net = with_parts(net, A=net.A * 10.0 ** np.array([8, 4, 0, -4, -8]))
    scale = 10.0 ** np.array([-200, -100, 0, 100, 200])
    other = permuted(with_parts(net, W=net.W * scale[:, None], b=net.b * scale, A=net.A / scale), rng)
    assert net.is_equivalent(other)
    assert net.canonical().n_hidden == 5
    assert parameter_error(other, net) <= 1e-15 * 1e8 * 100  # rounding of the largest column
    far = with_parts(net, b=net.b + 1e8)
    assert far.is_equivalent(permuted(rescaled(far, rng), rng))
    assert not far.is_equivalent(with_parts(far, b=far.b + 1.0))


def test_thousands_of_units_are_grouped():
    rng = np.random.default_rng(9)
    net = random_net(rng, 20, 2000, 1)
    doubled = permuted(split(net, rng), rng)
    assert doubled.simplify().n_hidden == 2000
    assert doubled.is_equivalent(net)


@pytest.mark.parametrize("tol", [None, 0.0, 1e-12, 1e-9, 1e-6])
def test_units_that_cancel_exactly_do_not_enlarge_what_counts_as_none(tol):
    """The scale of an output is that of its values on typical inputs, however large the terms and far the kinks are."""
    for seed in range(6):
        rng = np.random.default_rng([seed, 71])
        size = 10.0 ** rng.uniform(6, 12)
        plain = TwoLayerNetwork(
            rng.standard_normal((2, 2)), rng.standard_normal(2), rng.standard_normal((1, 2))
        )
        w, a = rng.standard_normal(2), size * rng.standard_normal()
        for shift in (0.0, 0.01, 1.0):
            other = TwoLayerNetwork(
                np.vstack([plain.W, w, w]),
                np.append(plain.b, [size, size]),
                np.append(plain.A, [[a, -a]], axis=1),
                [shift],
            )
            answer = find_agreement(plain, other, tol=tol)
            assert answer.is_equal is True if shift == 0 else answer.is_equal is not True, (seed, shift)
