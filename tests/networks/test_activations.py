"""The activation object: derivatives, mirror images, gauges of networks, functions that users register."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import planted
from planted.networks import activation_names, parse_activation, register_activation
from planted.networks._curved_forms import turn_units
from planted.networks._curves import measure_mirror
from planted.outcomes import BadInputError

CURVED = activation_names(curved=True)
HOMOGENEOUS = ("relu", "leaky-relu:0.3", "absolute", "power:2", "power:3", "quadratic")
T = np.concatenate([np.linspace(-30, 30, 301), [0.013, -0.013]])


def network(activation, seed, *, linear=False, m=2):
    rng = np.random.default_rng(seed)
    return planted.TwoLayerNetwork(
        rng.standard_normal((4, 3)),
        rng.standard_normal(4),
        rng.standard_normal((m, 4)),
        rng.standard_normal(m),
        activation,
        rng.standard_normal((m, 3)) if linear else None,
    )


@pytest.mark.parametrize("name", [*CURVED, *HOMOGENEOUS])
def test_derivatives_are_limits_of_differences(name):
    f, t = parse_activation(name), T[np.abs(T) > 1e-3]
    step = 1e-5
    differences = (f(t + step) - f(t - step)) / (2 * step)
    np.testing.assert_allclose(f.derivative(t), differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_derivatives_keep_their_digits_in_the_tails(name):
    # d/dt of the tail c e^{-st} is -s times it; 1 - tanh² would be zero from t = 19 on.
    t, rate = np.array([20.0, 25.0]), 2.0 if name == "tanh" else 1.0
    slopes = parse_activation(name).derivative(t)
    np.testing.assert_allclose(slopes[1] / slopes[0], np.exp(-5 * rate), rtol=1e-6)


@pytest.mark.parametrize("name", [*CURVED, *HOMOGENEOUS])
def test_mirror_images(name):
    f = parse_activation(name)
    mirror = f.mirror
    assert (mirror is None) == (name in ("elu", "power:2", "power:3"))
    assert mirror is None or measure_mirror(f) == pytest.approx(mirror, abs=1e-9)
    if mirror is not None:
        expected = mirror.sign * f(T) + mirror.constant + mirror.slope * T
        np.testing.assert_allclose(f(-T), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CURVED)
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_canonical_form_is_the_same_function_for_every_representative(name, linear, seed):
    net = network(name, seed, linear=linear)
    rng = np.random.default_rng(100 + seed)
    order = rng.permutation(4)
    other = replace(net, W=net.W[order], b=net.b[order], A=net.A[:, order])
    mirror = net.activation.mirror
    if mirror is not None and (linear or not mirror.slope):
        other = turn_units(other, rng.random(4) < 0.5)
    X = 2 * rng.standard_normal((60, 3))
    np.testing.assert_allclose(other(X), net(X), rtol=1e-12, atol=1e-12)
    one, two = net.canonical(), other.canonical()
    np.testing.assert_allclose(one(X), net(X), rtol=1e-12, atol=1e-12)
    for part in one.parts:
        np.testing.assert_allclose(getattr(two, part), getattr(one, part), rtol=1e-10, atol=1e-12)
    assert planted.parameter_error(other, net) < 1e-13
    assert net.is_equivalent(other)
    changed = replace(net, W=net.W * 1.001)
    assert planted.parameter_error(changed, net) > 1e-5  # the scale of a curved unit is no gauge
    assert not net.is_equivalent(changed)
    assert planted.compare(net, changed, random_state=0).is_equal is False


@pytest.mark.parametrize("name", CURVED)
def test_equal_constant_and_idle_units_are_folded(name):
    net = network(name, 7)
    wide = planted.TwoLayerNetwork(
        np.vstack([net.W, net.W[1], np.zeros(3), net.W[0]]),
        [*net.b, net.b[1], 0.4, 2.0],
        np.column_stack([net.A, net.A[:, 1], [1.0, 2.0], [0.0, 0.0]]),
        net.c,
        name,
    )
    X = np.random.default_rng(0).standard_normal((50, 3))
    simple = wide.simplify()
    assert simple.n_hidden == 4
    np.testing.assert_allclose(simple(X), wide(X), rtol=1e-12, atol=1e-12)


def test_a_linear_part_that_turned_units_explain_is_absent_in_canonical_form():
    net = network("softplus", 3, m=1)
    turned = turn_units(net, np.array([True, False, True, False]))
    assert turned.B is not None
    assert turned.canonical().B is None
    assert planted.parameter_error(turned, net) < 1e-12


def test_degrees_of_freedom_count_the_scale_of_curved_units():
    assert network("tanh", 0).n_parameters == network("relu", 0).n_parameters + 4


@pytest.mark.parametrize("seed", range(3))
def test_sigmoid_networks_are_tanh_networks(seed):
    net = network("sigmoid", seed)
    other = planted.TwoLayerNetwork(net.W / 2, net.b / 2, net.A / 2, net.c + net.A.sum(axis=1) / 2, "tanh")
    assert planted.parameter_error(other, net) < 1e-14
    assert other.is_equivalent(net)


def test_registered_functions_are_known_by_name(tmp_path):
    cubic = register_activation("bent-line", lambda t: t + np.sin(t), lambda t: 1 + np.cos(t))
    assert cubic.mirror is not None and cubic.mirror.sign == -1
    net = network("bent-line", 1)
    net.save(tmp_path / "net.safetensors")
    assert planted.parameter_error(planted.load_network(tmp_path / "net.safetensors"), net) == 0
    with pytest.raises(BadInputError, match="cannot be written in ONNX"):
        planted.export_network(net, tmp_path / "net.onnx")


WAYS = {
    "ONNX": lambda net, folder: planted.export_network(net, folder / "net.onnx"),
    "NumPy": lambda net, folder: planted.export_network(net, folder / "net.py"),
    "C": lambda net, folder: planted.export_network(net, folder / "net.h"),
    "JSON": lambda net, folder: planted.export_network(net, folder / "net.json"),
    "a module of PyTorch (to_torch)": lambda net, folder: planted.to_torch(net),
    "a file of planted": lambda net, folder: net.save(folder / "net.safetensors"),
    "a state": lambda net, folder: planted.export_network(net, folder / "net.pt.safetensors", to="torch"),
    "scikit-learn": lambda net, folder: planted.to_sklearn(net),
}


@pytest.mark.parametrize("name", ["relu", "absolute", "power:2.5", "quadratic", "elu", "tanh", "own-arc"])
def test_a_form_that_an_activation_does_not_have_is_refused_with_those_that_it_has(name, tmp_path):
    register_activation("own-arc", np.arctan, lambda t: 1 / (1 + t**2))
    net, refusals = network(name, 2), []
    works = {way: True for way in WAYS}
    for way, write in WAYS.items():
        try:
            write(net, tmp_path)
        except BadInputError as refusal:
            works[way], words = False, str(refusal)
            refusals.append(words.split("it can in: ")[1].split(", "))
    named = {way for way, is_written in works.items() if is_written} - {"a state", "scikit-learn"}
    assert all(set(ways) == named for ways in refusals)
    assert bool(refusals) == (name != "relu")  # a state has weights alone
    if works["ONNX"]:
        assert planted.import_network(tmp_path / "net.onnx").activation == net.activation


@pytest.mark.parametrize(
    ("name", "function", "derivative", "words"),
    [
        ("wrong-slope", np.sin, np.sin, "differences of the function"),
        ("tanh", np.sin, np.cos, "that exists"),
        ("a b", np.sin, np.cos, "expected letters"),
        ("endless", np.exp, lambda t: np.full_like(t, np.nan), "not finite"),
        ("shapeless", np.sin, lambda t: 1.0, "shapes"),
    ],
)
def test_registering_refuses(name, function, derivative, words):
    with pytest.raises(BadInputError, match=words):
        register_activation(name, function, derivative)


@pytest.mark.parametrize(
    ("function", "derivative", "inverse", "words"),
    [
        (np.exp, np.exp, np.log, "rise from zero"),
        (np.expm1, np.exp, np.log, "give t back"),
        (np.expm1, np.cos, np.log1p, "differences of the function"),
        (lambda t: t + 2 * np.sin(t), lambda t: 1 + 2 * np.cos(t), np.sqrt, "everywhere"),
        (np.expm1, np.exp, lambda y: 1.0, "give t back"),
    ],
)
def test_registering_a_rectified_function_refuses(function, derivative, inverse, words):
    with pytest.raises(BadInputError, match=words):
        register_activation("refused", function, derivative, inverse)


def test_rectified_functions_are_zero_behind_and_networks_of_them_compare():
    rising = register_activation("rising-test", np.expm1, np.exp, inverse=np.log1p)
    assert (
        rising(np.array([-2.0, 0.0])).tolist() == rising.derivative(np.array([-2.0, 0.0])).tolist() == [0, 0]
    )
    assert rising.derivative(np.array([1.0]))[0] == np.e
    assert rising.steepest_up_to(2.0) == np.exp(2.0)
    net = network("rising-test", 2)
    swapped = planted.TwoLayerNetwork(net.W[::-1], net.b[::-1], net.A[:, ::-1], net.c, "rising-test")
    assert swapped.is_equivalent(net)
    longer = planted.TwoLayerNetwork(1.001 * net.W, net.b, net.A, net.c, "rising-test")
    assert not longer.is_equivalent(net)


def test_powers_that_are_no_whole_numbers_are_homogeneous():
    power = parse_activation("power:1.5")
    assert power.name == "power:1.5" and parse_activation("power:2.0").name == "power:2"
    assert power(np.array([-1.0, 4.0])).tolist() == [0.0, 8.0]
    assert power.derivative(np.array([-1.0, 4.0])).tolist() == [0.0, 3.0]
    assert power.inverse(np.array([8.0]))[0] == pytest.approx(4.0, rel=1e-15)
    assert power.steepest_up_to(4.0) == 3.0
    assert parse_activation("leaky-relu:0.1").inverse is None and parse_activation("tanh").inverse is None
    net = network("power:1.5", 3)
    stretched = planted.TwoLayerNetwork(4 * net.W, 4 * net.b, net.A / 8, net.c, "power:1.5")
    assert stretched.is_equivalent(net) and planted.parameter_error(stretched, net) < 1e-14
    other = planted.TwoLayerNetwork(net.W, net.b, 1.001 * net.A, net.c, "power:1.5")
    assert not other.is_equivalent(net)
    assert "pow(s, (double)0x1.8" in power.c_code("double", "")[1]
