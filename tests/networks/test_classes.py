"""The networks themselves: what they compute, by hand, and what they refuse, word by word."""

import re

import numpy as np
import pytest

import planted
from planted.networks import ThreeLayerNetwork, TwoLayerNetwork
from planted.networks._activations import Activation, parse_activation
from planted.outcomes import BadInputError, BadInputTypeError

NET = TwoLayerNetwork(
    W=[[1.0, -2.0], [0.5, 0.0], [0.0, 3.0]], b=[1.0, 0.0, -1.0], A=[[1.0, 2.0, -1.0]], c=[0.25]
)
X = np.array([[1.0, 0.0], [-1.0, 1.0], [2.0, 0.5]])


def raises(message, kind=BadInputError):
    """Expect exactly this text."""
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def test_a_network_computes_what_its_formula_says():
    np.testing.assert_array_equal(NET.preactivations(X), [[2, 0.5, -1], [-2, -0.5, 2], [2, 1, 0.5]])
    np.testing.assert_array_equal(
        NET.patterns(X), [[True, True, False], [False, False, True], [True, True, True]]
    )
    np.testing.assert_array_equal(NET(X), [[3.25], [-1.75], [3.75]])
    np.testing.assert_array_equal(NET(X.tolist()), NET(X))
    np.testing.assert_array_equal(NET(X.astype(np.float32)), NET(X))


def test_a_unit_at_its_kink_is_off():
    assert not TwoLayerNetwork(W=[[1.0]], A=[[1.0]]).patterns([[0.0]]).any()


def test_counts_and_repr():
    assert (NET.n_hidden, NET.n_features, NET.n_outputs) == (3, 2, 1)
    assert NET.n_parameters == 3 * 3 + 3 - 3 + 1
    assert TwoLayerNetwork(np.ones((2, 4)), A=np.ones((5, 2))).n_parameters == 2 * 5 + 10 - 2 + 5
    assert repr(NET) == "TwoLayerNetwork(n_features=2, n_hidden=3, n_outputs=1, activation='relu')"


def test_parameters_are_frozen_copies_in_double_precision():
    W = np.ones((2, 2), dtype=np.float32, order="F")
    net = TwoLayerNetwork(W, A=[1, 2])
    W[:] = 5.0
    for name, shape in {"W": (2, 2), "b": (2,), "A": (1, 2), "c": (1,)}.items():
        part = getattr(net, name)
        assert part.shape == shape and part.dtype == np.float64 and part.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 0.0
    np.testing.assert_array_equal(net.W, 1.0)
    assert not net.b.any() and not net.c.any() and net.activation.name == "relu"
    with pytest.raises(AttributeError):
        net.W = W


def test_what_is_no_network_is_refused_with_the_numbers():
    W, A = np.ones((3, 2)), np.ones((4, 3))
    with raises("A is required: the output weights, of shape (m, k)"):
        TwoLayerNetwork(W)
    with raises("A has 2 columns but W has 3 rows; both count hidden units"):
        TwoLayerNetwork(W, A=np.ones((4, 2)))
    with raises("b has shape (2,) but W has 3 rows"):
        TwoLayerNetwork(W, np.ones(2), A)
    with raises("c has shape (3,) but A has 4 rows"):
        TwoLayerNetwork(W, None, A, np.ones(3))
    with raises("W has 1 dimension(s); expected 2"):
        TwoLayerNetwork(np.ones(3), A=A)
    with raises("b has 2 dimension(s); expected 1"):
        TwoLayerNetwork(W, np.ones((3, 1)), A)
    with raises("A has 3 dimension(s); expected 2"):
        TwoLayerNetwork(W, A=A[None])
    bad = W.copy()
    bad[2, 1] = np.nan
    with raises("W contains NaN or infinity, first at (2, 1)"):
        TwoLayerNetwork(bad, A=A)
    with raises("c contains NaN or infinity, first at (3,)"):
        TwoLayerNetwork(W, A=A, c=[0, 0, 0, np.inf])
    with raises("W has dtype complex128; expected real numbers", BadInputTypeError):
        TwoLayerNetwork(W + 1j, A=A)
    with raises("A has dtype <U1; expected real numbers", BadInputTypeError):
        TwoLayerNetwork(W, A=[["a"] * 3])
    with raises("X has shape (3, 1); expected (n, 2)"):
        NET(X[:, :1])
    with raises("X has shape (2,); expected (n, 2)"):
        NET.preactivations(X[0])


@pytest.mark.parametrize("scale, same", [(2e-11, True), (1e-8, False)])
def test_default_tolerances(scale, same):
    """Hyperplanes within 1e-10 are one; functions are compared at 1e-9."""
    near = TwoLayerNetwork(W=[[1.0, 0.0], [1.0, scale]], b=[1.0, 1.0], A=[[1.0, 1.0]])
    assert near.simplify().n_hidden == near.canonical().n_hidden == (1 if same else 2)
    assert near.is_equivalent(TwoLayerNetwork(W=[[1.0, 0.0]], b=[1.0], A=[[2.0]])) is same
    assert near.simplify(tol=1e-6).n_hidden == near.canonical(tol=1e-6).n_hidden == 1
    assert near.is_equivalent(TwoLayerNetwork(W=[[1.0, 0.0]], b=[1.0], A=[[2.0]]), tol=1e-6)
    assert near.simplify(tol=1e-14).n_hidden == 2


def test_offsets_are_compared_relative_to_the_spread_of_the_outputs():
    def net(c):
        return TwoLayerNetwork(W=[[1.0]], b=[0.5], A=[[1.0]], c=[c])

    assert net(1e6).is_equivalent(net(1e6 + 1e-9)) and net(-1e6).is_equivalent(net(-1e6 + 1e-9))
    assert not net(1e6).is_equivalent(net(1e6 + 1e-4)) and not net(0.0).is_equivalent(net(1e-4))


# --- activations


@pytest.mark.parametrize(
    ("name", "degree", "at_two", "at_minus_two", "slopes"),
    [
        ("relu", 1, 2.0, 0.0, (1.0, 0.0, 0.0)),
        ("leaky-relu:0.1", 1, 2.0, -0.2, (1.0, 0.1, 0.1)),
        ("leaky-relu:-0.5", 1, 2.0, 1.0, (1.0, -0.5, -0.5)),
        ("absolute", 1, 2.0, 2.0, (1.0, -1.0, -1.0)),
        ("quadratic", 2, 4.0, 4.0, (4.0, -4.0, 0.0)),
        ("power:3", 3, 8.0, 0.0, (12.0, 0.0, 0.0)),
    ],
)
def test_activations_and_their_derivatives_by_hand(name, degree, at_two, at_minus_two, slopes):
    f = parse_activation(name)
    assert f.degree == degree and f.is_piecewise_linear == (degree == 1)
    np.testing.assert_allclose(f(np.array([2.0, -2.0, 0.0])), [at_two, at_minus_two, 0.0], rtol=1e-15)
    np.testing.assert_allclose(f.derivative(np.array([2.0, -2.0, 0.0])), slopes, rtol=1e-15)
    np.testing.assert_allclose(f(np.array([6.0])), 3.0**degree * at_two, rtol=1e-15)  # homogeneous
    assert parse_activation(f) is f and parse_activation(f.name) == f
    if degree == 1:
        t = np.linspace(-3, 3, 7)
        np.testing.assert_allclose(f.kink * np.abs(t) + f.slope * t, f(t), atol=1e-15)


def test_names_of_activations():
    assert parse_activation("power:1") == parse_activation("relu") == Activation("relu", 1, 1.0, 0.0)
    assert parse_activation("leaky-relu:1e-1").name == "leaky-relu:0.1"
    assert parse_activation("power:12").name == "power:12"


@pytest.mark.parametrize(
    "name",
    [
        "wave",
        "tanh:2",
        "relu:1",
        "absolute:2",
        "leaky-relu",
        "leaky-relu:",
        "leaky-relu:x",
        "leaky-relu:inf",
        "leaky-relu:1",
        "leaky-relu:-1",
        "power",
        "power:0",
        "power:-2",
        "power:0.5",
        "power:nan",
        "",
    ],
)
def test_unknown_activations_are_refused_with_the_known_ones(name):
    with raises(
        f"unknown activation {name!r}; known are 'relu', 'leaky-relu:SLOPE' (SLOPE not 1 or -1), 'power:P' "
        "(P at least 1), 'absolute', 'quadratic' and the curved 'tanh', 'sigmoid', 'softplus', 'gelu', 'silu', "
        "'elu'; planted.register_activation adds one of your own"
    ):
        parse_activation(name)


@pytest.mark.parametrize(("name", "near"), [("tanhh", "tanh"), ("ReLU", "relu"), ("SoftPlus", "softplus")])
def test_the_nearest_activation_is_named(name, near):
    with pytest.raises(
        BadInputError, match=rf"unknown activation .{name}. \(did you mean .{near}.\?\); known are"
    ):
        parse_activation(name)


# --- three layers

HEAD = TwoLayerNetwork(W=[[1.0, 2.0]], b=[0.5], A=[[3.0], [1.0]], c=[0.0, 1.0], activation="quadratic")
DEEP = ThreeLayerNetwork(np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]), np.array([0.0, 1.0]), 2, HEAD)


def test_three_layers_by_hand():
    rows = [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    np.testing.assert_array_equal(DEEP.features(rows), [[4.0, 9.0], [0.0, 1.0]])
    np.testing.assert_array_equal(DEEP(rows), [[3 * 22.5**2, 1 + 22.5**2], [3 * 2.5**2, 1 + 2.5**2]])
    assert (DEEP.n_features, DEEP.n_hidden, DEEP.n_outputs) == (3, 1, 2)
    assert repr(DEEP) == "ThreeLayerNetwork(n_features=3, n_random=2, power=2, n_hidden=1, n_outputs=2)"
    for part in (DEEP.R, DEEP.s):
        assert not part.flags.writeable and part.dtype == np.float64


def test_three_layers_refuse_what_does_not_fit():
    R, s = np.ones((2, 3)), np.zeros(2)
    with raises("R has 1 dimension(s); expected 2"):
        ThreeLayerNetwork(R[0], s, 2, HEAD)
    with raises("s has 2 dimension(s); expected 1"):
        ThreeLayerNetwork(R, s[None], 2, HEAD)
    with raises("s contains NaN or infinity, first at (1,)"):
        ThreeLayerNetwork(R, np.array([0.0, np.inf]), 2, HEAD)
    for rows, offsets in ((np.ones((3, 3)), s), (np.ones((3, 3)), np.zeros(3))):
        with raises(
            f"R has 3 rows, s has {len(offsets)} entries and the head has 2 inputs; expected the same number"
        ):
            ThreeLayerNetwork(rows, offsets, 2, HEAD)
    for power in (1, 65, 2.0, True):
        with raises(f"power={power!r}; expected an integer from 2 to 64"):
            ThreeLayerNetwork(R, s, power, HEAD)
    assert ThreeLayerNetwork(R, s, 64, HEAD).power == 64
    with raises("X has shape (3, 2); expected (n, 3)"):
        DEEP(X)
    with raises("X has shape (3,); expected (n, 3)"):
        DEEP.features(np.ones(3))


def test_both_are_saved_and_read_back(tmp_path):
    for net, path in ((NET, tmp_path / "two.safetensors"), (DEEP, tmp_path / "three.safetensors")):
        net.save(path)
        again = planted.load_network(path)
        rows = np.random.default_rng(0).standard_normal((5, net.n_features))
        np.testing.assert_array_equal(again(rows), net(rows))
        assert repr(again) == repr(net)
