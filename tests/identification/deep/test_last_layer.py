"""The last hidden layer: put together from breaks, with weights that were not seen taken from the linear part."""

from itertools import pairwise

import numpy as np
import pytest

import planted
from planted import DeepNetwork
from planted.identification.deep._gathered import gather_units, switches_on
from planted.identification.deep._layers import Base, pass_layers
from planted.identification.deep._space import Breaks
from planted.identification.deep._top import fit_top
from planted.identification.deep.ending._polish import polish, refined_top
from planted.identification.two_layer._jumps import Line
from planted.outcomes import Outcome


def draw(seed, widths):
    rng = np.random.default_rng([seed, 71])
    return DeepNetwork(
        [
            (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
            for into, out in pairwise(widths)
        ]
    )


def breaks_on(net, line, n_lower):
    """Exact breaks of the layers above the first `n_lower` on a line in the inputs, as two gradients would show them."""
    d = net.widths[0]
    base = plain(d)
    lower = switches_on(list(net.layers[:n_lower]), base, line, -8.0, 8.0)
    every = switches_on(list(net.layers[:-1]), base, line, -8.0, 8.0)
    own = np.array([t for t in every if np.abs(lower - t).min() > 1e-9])
    places = line.at(own)

    def gradient(x):
        G = np.eye(d)
        for (W, _), on in zip(net.layers[:-1], net.patterns(x[None]), strict=True):
            G = (W * on[0][:, None]) @ G
        return net.layers[-1][0] @ G

    jumps = np.array(
        [gradient(line.at(np.array([t + 1e-7]))[0]) - gradient(line.at(np.array([t - 1e-7]))[0]) for t in own]
    )
    jumps = jumps.reshape(-1, 1, d)
    sizes = np.linalg.norm(jumps[:, 0], axis=1)
    count = len(own)
    return Breaks(
        jumps[:, 0] / sizes[:, None],
        sizes[None],
        places,
        np.full(count, 1e-12),
        np.zeros((count, 2, 1, d)),
        np.zeros((count, 2, d)),
    )


def plain(d):
    return Base(np.eye(d), np.zeros(d), np.zeros((0, d)), np.zeros(0))


def some_lines(d, count):
    rng = np.random.default_rng(5)
    return [Line(rng.normal(size=d), rng.normal(size=d) / np.sqrt(d)) for _ in range(count)]


@pytest.mark.parametrize("n_lower", [2, 1])  # without breaks of the second layer, and with them
def test_breaks_on_lines_are_put_together_by_units(n_lower):
    net = draw(3, (8, 7, 6, 4, 1))
    parts = [(breaks_on(net, line, n_lower), plain(8)) for line in some_lines(8, 8)]
    rows, is_last = gather_units(parts, list(net.layers[:2]))
    assert is_last
    W, b = net.layers[2]
    truth = np.column_stack([W, b]) * net.layers[3][0].T
    matched = set()
    for weights, bias, known in zip(rows.weights, rows.biases, rows.known, strict=True):
        seen = np.append(known, True)
        row = np.append(weights, bias)[seen]
        off = [min(np.abs(row - sign * each[seen]).max() for sign in (1, -1)) for each in truth]
        assert min(off) < 1e-6
        matched.add(int(np.argmin(off)))
    assert len(rows.biases) == len(matched) >= 3  # one row for each unit that the lines met


@pytest.mark.parametrize("seed", range(2))
def test_breaks_of_a_layer_below_the_last_differ_in_scale(seed):
    net = draw(seed, (8, 7, 6, 5, 4, 1))
    parts = [(breaks_on(net, line, 2), plain(8)) for line in some_lines(8, 8)]
    assert not gather_units(parts, list(net.layers[:2]))[1]


def one_sided_net(weight):
    """A last layer whose first unit is on one side wherever the second unit below is on."""
    lower = (np.eye(2), np.zeros(2))
    return DeepNetwork(
        [
            lower,
            (np.array([[1.0, weight], [0.3, -1.0]]), np.array([-0.5, 0.2])),
            (np.array([[2.0, -1.0]]), np.ones(1)),
        ]
    )


@pytest.mark.parametrize(("weight", "unseen"), [(1.5, 0), (-1.5, 1)])
def test_a_weight_that_was_not_seen_is_taken_from_the_linear_part(weight, unseen):
    net = one_sided_net(weight)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2)) * 2
    H = pass_layers(list(net.layers[:1]), X)
    T = H @ net.layers[1][0][0] + net.layers[1][1][0]
    # Keep to inputs at which unit 1 is on, or else off, wherever the unit below with the gap is on.
    X = X[(H[:, 1] == 0) | ((T > 0) == (weight > 0))]
    rows, biases = (part.copy() for part in net.layers[1])
    known = np.ones(rows.shape, dtype=np.bool_)
    rows[0, 1], known[0, 1] = 0.0, False
    top = fit_top((X, net(X)), list(net.layers[:1]), (rows, biases), known)
    assert top is not None and top.passing == 0 and top.unseen == unseen
    if not unseen:
        assert np.allclose(np.abs(top.layer[0]), np.abs(net.layers[1][0]), atol=1e-9)


def draw_lively(seed, widths):
    """A network whose hidden units are all on for 3 to 97 % of typical inputs."""
    X = np.random.default_rng(0).normal(size=(2000, widths[0]))
    nets = (draw(seed + 10 * number, widths) for number in range(99))
    return next(
        net for net in nets if all((np.abs(on.mean(axis=0) - 0.5) < 0.47).all() for on in net.patterns(X))
    )


def test_three_hidden_layers_are_read_back():
    net = draw_lively(1, (12, 8, 6, 5, 1))
    found = planted.identify(net, random_state=101)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, net) < 1e-10
    assert found.stats["queries"] <= 40 * net.n_parameters


@pytest.mark.parametrize("seed", range(3))
def test_units_with_few_digits_that_nearly_explain_the_answers_are_refined(seed):
    net, rng = draw(seed, (6, 5, 4, 1)), np.random.default_rng([seed, 72])
    X = rng.normal(size=(1500, 6)) * 2
    first, (W, b), _ = net.layers
    rough = W + 1e-6 * rng.normal(size=W.shape), b
    assert fit_top((X, net(X)), [first], rough, explained=1e-9) is None
    found = refined_top((X, net(X)), [first], rough)
    assert found is not None
    top, layers = found
    assert top.residual < 1e-11 and not top.passing
    assert planted.parameter_error(DeepNetwork([*layers, top.layer, top.output]), net) < 1e-11
    far = W + 0.3 * rng.normal(size=W.shape), b
    assert refined_top((X, net(X)), [first], far) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_polish_goes_on_as_long_as_it_gains(seed):
    net, rng = draw(seed, (6, 6, 5, 1)), np.random.default_rng([seed, 73])
    X = rng.normal(size=(3000, 6)) * 2
    rough = DeepNetwork(
        [
            (W * (1 + 0.1 * rng.normal(size=W.shape)), b + 0.05 * rng.normal(size=b.shape))
            for W, b in net.layers
        ]
    )
    better = polish(rough, X, net(X), np.ones(len(X)))
    assert np.abs(better(X) - net(X)).max() < 1e-11


@pytest.mark.parametrize("seed", [61_012, 30_009])  # weights of few digits; a missing unit of few digits
def test_three_hidden_layers_of_ten_units_are_read_back(seed):
    rng = np.random.default_rng([seed, 27, 10, 10, 10, 10, 1])
    net = DeepNetwork(
        [
            (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
            for into, out in pairwise((10, 10, 10, 10, 1))
        ]
    )
    found = planted.identify(net, random_state=10_000 + seed)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, net) < 1e-10
    assert found.stats["queries"] < 35 * net.n_parameters
