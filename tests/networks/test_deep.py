"""Deep networks: what they compute, their forms, and what they refuse."""

import itertools
import re

import numpy as np
import pytest

import planted
from planted import DeepNetwork
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError


def draw(seed, widths, activation="relu"):
    rng = np.random.default_rng(seed)
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in itertools.pairwise(widths)
    ]
    return DeepNetwork(layers, activation)


def inputs(net, seed=99, n=400):
    return 2 * np.random.default_rng(seed).normal(size=(n, net.n_features))


def scrambled(net, seed):
    """The same function with permuted and scaled units."""
    rng = np.random.default_rng(seed)
    layers = [list(layer) for layer in net.layers]
    for below, above in itertools.pairwise(layers):
        order, scale = rng.permutation(len(below[1])), rng.uniform(0.2, 5, size=len(below[1]))
        below[0], below[1] = (below[0] * scale[:, None])[order], (below[1] * scale)[order]
        above[0] = (above[0] / scale**net.activation.degree)[:, order]
    return DeepNetwork([tuple(layer) for layer in layers], net.activation)


def raises(message, kind=BadInputError):
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def test_a_network_computes_what_its_formula_says():
    net = DeepNetwork([([[1, -2]], [1]), ([[2], [-1]], [0, 1]), ([[1, 3]], None)], "leaky-relu:0.5")
    # x = (1, 0): 2; then 4 and -1 -> -0.5; then 4 - 1.5. x = (-1, 1): -2 -> -1; then -2 -> -1 and 2; then -1 + 6.
    np.testing.assert_array_equal(net([[1, 0], [-1.0, 1.0]]), [[2.5], [5.0]])
    first, second = net.preactivations([[1, 0]])
    np.testing.assert_array_equal(first, [[2.0]])
    np.testing.assert_array_equal(second, [[4.0, -1.0]])
    assert [each.tolist() for each in net.patterns([[1, 0]])] == [[[True]], [[True, False]]]


def test_counts_and_repr():
    net = draw(0, (20, 10, 5, 3))
    assert (net.n_features, net.n_outputs, net.n_hidden_layers, net.n_hidden) == (20, 3, 2, 15)
    assert net.widths == (20, 10, 5, 3)
    assert net.n_parameters == 21 * 10 + 11 * 5 + 6 * 3 - 15
    assert repr(net) == "DeepNetwork(widths=(20, 10, 5, 3), activation='relu')"


def test_parameters_are_frozen_copies():
    W = np.ones((2, 2))
    net = DeepNetwork([(W, [0, 0]), ([[1, 2]], [0])])
    W[:] = 5
    assert net([[1.0, 0.0]]) == 3.0
    with pytest.raises(ValueError, match="read-only"):
        net.layers[0][0][0, 0] = 2.0


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.1", "power:2"])
def test_one_hidden_layer_is_a_two_layer_network(activation):
    net = draw(3, (4, 6, 2), activation)
    two = net.to_two_layer()
    np.testing.assert_allclose(two(inputs(net)), net(inputs(net)), rtol=1e-12)
    assert DeepNetwork.from_two_layer(two).layers[0][0].tobytes() == net.layers[0][0].tobytes()
    with raises("the network has 2 hidden layers; expected one"):
        draw(3, (4, 6, 5, 2)).to_two_layer()


def test_what_is_no_network_is_refused():
    good = (np.ones((3, 2)), np.ones(3))
    with raises("layers is of type int; expected a sequence of pairs (W, b)", BadInputTypeError):
        DeepNetwork(3)
    with raises("1 layer(s); expected 2 to 1000: hidden layers, then the output"):
        DeepNetwork([good])
    with raises("layers[1] is not a pair (W, b)"):
        DeepNetwork([good, (1, 2, 3)])
    with raises("the weights of layer 1 have 2 columns but layer 0 has 3 units"):
        DeepNetwork([good, (np.ones((1, 2)), None)])
    with raises("layer 0 has 2 biases but 3 rows of weights"):
        DeepNetwork([(np.ones((3, 2)), [0, 0]), (np.ones((1, 3)), None)])
    with raises("b of layer 1 contains NaN or infinity, first at (0,)"):
        DeepNetwork([good, (np.ones((1, 3)), [np.inf])])
    with raises("W of layer 0 has dtype <U1; expected real numbers", BadInputTypeError):
        DeepNetwork([([["a"]], None), (np.ones((1, 1)), None)])
    with raises("X has shape (1, 3); expected (n, 2)"):
        DeepNetwork([good, (np.ones((1, 3)), None)])(np.ones((1, 3)))


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.2", "absolute", "power:2"])
@pytest.mark.parametrize("seed", range(3))
def test_canonical_keeps_the_function_and_forgets_scales_and_order(seed, activation):
    net = draw(seed, (6, 5, 4, 3, 2), activation)
    form, other = net.canonical(), scrambled(net, seed + 50).canonical()
    X = inputs(net)
    np.testing.assert_allclose(form(X), net(X), rtol=1e-9, atol=1e-9)
    for (W, b), (V, a) in zip(form.layers, other.layers, strict=True):
        np.testing.assert_allclose(W, V, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
    for W, _ in form.layers[:-1]:
        np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_parameter_error_is_the_change_of_one_parameter(seed):
    net = draw(seed, (6, 5, 4, 2))
    assert planted.parameter_error(scrambled(net, seed), net) < 1e-12
    layers = [list(layer) for layer in net.canonical().layers]
    place = seed % 3
    layers[place][1] = layers[place][1].copy()
    layers[place][1][1] += 1e-4
    changed = scrambled(DeepNetwork([tuple(layer) for layer in layers]), seed)
    assert planted.parameter_error(changed, net) == pytest.approx(1e-4, rel=1e-6)


def test_networks_of_other_shapes_are_infinitely_far():
    net = draw(1, (6, 5, 4, 2))
    assert planted.parameter_error(net, draw(1, (6, 5, 3, 2))) == np.inf
    assert planted.parameter_error(net, draw(1, (6, 5, 2))) == np.inf
    assert planted.parameter_error(net, draw(1, (6, 5, 4, 1))) == np.inf
    two = draw(1, (6, 5, 2))
    assert planted.parameter_error(two, two.to_two_layer()) < 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_simplify_removes_planted_waste_and_keeps_the_function(seed):
    rng = np.random.default_rng(seed)
    net = draw(seed, (5, 6, 4, 2))
    (W1, b1), (W2, b2), (A, c) = net.layers
    # in layer 1 a copy of a unit with another scale and a constant unit; in layer 2 a unit that is never on
    # and five that are never off, which two outputs need at most four for; everything seen by the layer above
    W1, b1 = np.vstack([W1, 3 * W1[:1], np.zeros((1, 5))]), np.append(b1, [3 * b1[0], 0.7])
    W2 = np.hstack([W2, rng.normal(size=(4, 2))])
    W2 = np.vstack([W2, -rng.uniform(size=(1, 8)), rng.uniform(size=(5, 8))])
    b2 = np.append(b2, [-0.1, *rng.uniform(size=5)])
    A = np.hstack([A, rng.normal(size=(2, 6))])
    wasteful = DeepNetwork([(W1, b1), (W2, b2), (A, c)])
    simple = wasteful.simplify()
    assert simple.widths[1] == 6 and 4 < simple.widths[2] <= 8
    X = inputs(net)
    np.testing.assert_allclose(simple(X), wasteful(X), rtol=1e-10, atol=1e-10)


def test_a_layer_without_effect_leaves_a_constant():
    net = DeepNetwork([(np.eye(3), np.ones(3)), (-np.ones((2, 3)), [-1.0, -2.0]), ([[1.0, 2.0]], [0.5])])
    simple = net.simplify()
    assert simple.widths == (3, 0, 0, 1)
    np.testing.assert_array_equal(simple(np.ones((2, 3))), [[0.5], [0.5]])
    assert net.simplify().simplify().widths == (3, 0, 0, 1)


@pytest.mark.parametrize("seed", range(20))
def test_narrow_networks_of_any_kind_have_canonical_forms(seed):
    """Layers of one or two units, often dead or always on: layers may vanish, the function stays."""
    rng = np.random.default_rng(seed)
    widths = (3, *rng.integers(1, 4, size=rng.integers(2, 5)), 2)
    net = draw(seed, widths)
    shifted = DeepNetwork([(W, b + rng.choice([-2.0, 0.0, 2.0])) for W, b in net.layers])
    form = shifted.canonical()
    np.testing.assert_allclose(form(inputs(net)), shifted(inputs(net)), rtol=1e-8, atol=1e-8)
    assert planted.parameter_error(form, shifted) < 1e-8


def test_a_network_without_waste_is_returned_as_it_is():
    net = draw(5, (6, 5, 4, 2))
    assert net.simplify() is net


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.2"])
def test_a_saved_network_is_read_back_bit_by_bit(tmp_path, activation):
    net = draw(7, (5, 4, 3, 2), activation)
    net.save(tmp_path / "net.safetensors", features=list("abcde"), targets=["u", "v"])
    again = planted.load_network(tmp_path / "net.safetensors")
    assert isinstance(again, DeepNetwork) and again.activation == net.activation
    for (W, b), (V, a) in zip(again.layers, net.layers, strict=True):
        assert W.tobytes() == V.tobytes() and b.tobytes() == a.tobytes()
    damaged = bytearray((tmp_path / "net.safetensors").read_bytes())
    damaged[-5] ^= 1
    (tmp_path / "bad.safetensors").write_bytes(damaged)
    with pytest.raises(FileFormatError, match="checksum"):
        planted.load_network(tmp_path / "bad.safetensors")
