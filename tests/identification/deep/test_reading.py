"""Deep networks read back by asking: exact on fresh draws, refused or doubted where several networks agree."""

from itertools import pairwise

import numpy as np
import pytest

import planted
from planted import DeepNetwork, Outcome
from planted.checks import Check
from planted.identification._grid import Grid
from planted.identification.deep.ending._finish import _check_switches
from planted.identification.deep.ending._polish import jacobian
from planted.identification.two_layer._search import BlackBox


def draw(seed, widths, activation="relu"):
    rng = np.random.default_rng(seed)
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]
    return DeepNetwork(layers, activation)


def switches(net):
    """Whether every unit of the second layer switches somewhere: inputs of that layer are not negative."""
    W, b = net.layers[1]
    return bool((np.sign(W) != np.sign(b)[:, None]).any(axis=1).all())


@pytest.mark.parametrize("widths", [(8, 5, 4, 1), (6, 6, 5, 2), (12, 6, 3, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_two_hidden_layers_are_read_back_exactly(widths, seed):
    net = next(each for each in (draw(100 * seed + more, widths) for more in range(9)) if switches(each))
    found = planted.identify(net, random_state=seed)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert isinstance(found.network, DeepNetwork) and found.network.widths == widths
    assert planted.parameter_error(found.network, net) < 1e-10
    assert found.stats["queries"] < 40 * net.n_parameters
    record = planted.Recovery.from_dict(found.to_dict())
    assert planted.parameter_error(record.network, net) < 1e-10


def test_inputs_of_other_scales_and_places():
    net = draw(5, (8, 5, 4, 1))
    size = 2.0 ** np.arange(-4, 4)
    W, b = net.layers[0]
    scaled = DeepNetwork([(W / size, b), *net.layers[1:]])
    found = planted.identify(scaled, scale=size, random_state=0)
    assert found.outcome is Outcome.RECOVERED and planted.parameter_error(found.network, scaled) < 1e-9


def test_the_same_seed_asks_the_same_questions(tmp_path):
    net = draw(3, (8, 5, 4, 1))
    first = planted.identify(net, random_state=4, log=tmp_path / "log.csv")
    again = planted.identify(net, random_state=4, log=tmp_path / "log.csv")
    # only the questions that test whether the oracle changes its answers are asked again
    assert again.stats["queries"] <= 16 and again.stats["reused"] > 0.9 * first.stats["queries"]
    for (W, b), (V, a) in zip(first.network.layers, again.network.layers, strict=True):
        assert W.tobytes() == V.tobytes() and b.tobytes() == a.tobytes()


@pytest.mark.parametrize("seed", range(2))
def test_a_unit_that_never_switches_is_never_claimed(seed):
    net = draw(seed + 40, (8, 5, 4, 1))
    W, b = (part.copy() for part in net.layers[1])
    W[1], b[1] = np.abs(W[1]), abs(b[1])
    passing = DeepNetwork([net.layers[0], (W, b), net.layers[2]])
    found = planted.identify(passing, random_state=seed)
    assert found.outcome is Outcome.NOT_IDENTIFIABLE, found.detail
    assert "never switch" in found.detail and not found.find(Check.LINEAR_REST)[0].passed
    X = np.random.default_rng(seed).normal(size=(2000, 8))
    np.testing.assert_allclose(found.network(X), passing(X), rtol=1e-6, atol=1e-8)


def test_a_dead_unit_leaves_no_trace():
    net = draw(7, (8, 5, 4, 1))
    W, b = (part.copy() for part in net.layers[1])
    W[2], b[2] = -np.abs(W[2]), -abs(b[2])
    dead = DeepNetwork([net.layers[0], (W, b), net.layers[2]])
    found = planted.identify(dead, random_state=0)
    assert found.outcome is Outcome.RECOVERED and found.network.widths == (8, 5, 3, 1)
    assert planted.parameter_error(found.network, dead) < 1e-10


def test_a_pipeline_that_scales_its_inputs_is_read_with_the_scaling_in_its_first_layer():
    preprocessing, neural_network = (
        pytest.importorskip(f"sklearn.{part}") for part in ("preprocessing", "neural_network")
    )
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(31)
    X = rng.normal(size=(200, 6)) * [1, 3, 0.2, 5, 1, 2] + [0, 4, 1, -3, 0, 2]
    y = np.maximum(X[:, 0] + X[:, 2], 0) - np.abs(X[:, 1] - 4)
    model = make_pipeline(
        preprocessing.StandardScaler(),
        neural_network.MLPRegressor(hidden_layer_sizes=(5, 4), solver="lbfgs", tol=0.05, random_state=0),
    )
    model.fit(X, y)
    found = planted.identify(model.predict, 6, random_state=3)
    assert found.outcome is Outcome.RECOVERED, found.detail
    scaler, fitted = model[0], model[1]
    layers = [(W.T, b) for W, b in zip(fitted.coefs_, fitted.intercepts_, strict=True)]
    W = layers[0][0] / scaler.scale_
    truth = DeepNetwork([(W, layers[0][1] - W @ scaler.mean_), *layers[1:]])
    assert planted.parameter_error(found.network, truth) < 1e-9


@pytest.mark.parametrize(("decimals", "seed"), [(6, 0), (8, 1), (10, 2)])
def test_answers_with_decimals_are_read_farther_out_to_within_the_bound_that_is_stated(decimals, seed):
    net = draw(40 + seed, (10, 6, 5, 2))
    found = planted.identify(lambda X: np.round(net(X), decimals), 10, random_state=seed)
    assert found.outcome is Outcome.RECOVERED, found.detail
    bound = found.find(Check.ERROR_BOUND)[0].measured
    assert bound < 200 * 10.0**-decimals and f"right to {bound:.1e}" in found.detail
    assert planted.parameter_error(found.network, net) <= bound


def test_answers_where_units_switch_tell_a_smooth_function_from_a_broken_one():
    net = draw(41, (10, 6, 5, 1))

    def softened(X):
        for W, b in net.layers[:-1]:
            X = np.logaddexp(0, 1e5 * (X @ W.T + b)) / 1e5
        return np.round(X @ net.layers[-1][0].T + net.layers[-1][1], 8)

    for oracle, is_smooth in ((softened, True), (lambda X: np.round(net(X), 8), False)):
        near = BlackBox(oracle, 10, False, lambda X: X, Grid(1e-8, 2.0**-53, "8 decimals"))
        off, on = _check_switches(near, net, np.random.default_rng(0))
        assert on >= 8
        assert off > on / 2 if is_smooth else off == 0


def test_a_budget_ends_with_the_layers_that_are_certain():
    net = draw(11, (20, 10, 8, 1))
    found = planted.identify(net, random_state=0, budget=1800)
    assert found.outcome is Outcome.STOPPED_EARLY and found.network is None
    assert found.stats["queries"] <= 1800
    (layer,) = found.stats["certain_layers"]
    W, b = net.layers[0]
    truth, rows = (np.column_stack(each) for each in ((W, b), (layer["W"], layer["b"])))
    truth /= np.linalg.norm(W, axis=1)[:, None]
    rows /= np.linalg.norm(rows[:, :-1], axis=1)[:, None]
    nearest = np.abs(truth[:, None] - rows[None]).max(axis=2).argmin(axis=1)
    assert sorted(nearest) == list(range(10))
    np.testing.assert_allclose(rows[nearest], truth, atol=1e-7)


def test_hyperplanes_of_the_first_layer_are_kept_where_their_sides_are_not_settled():
    net = draw(0, (4, 7, 5, 1))
    found = planted.identify(net, random_state=0, budget=1000)
    assert found.outcome is Outcome.STOPPED_EARLY and found.stats["certain_layers"] == []
    assert "their sides not settled: 7" in found.detail
    planes = found.stats["first_hyperplanes"]
    truth, rows = (np.column_stack(each) for each in (net.layers[0], (planes["W"], planes["b"])))
    truth, rows = (each / np.linalg.norm(each[:, :-1], axis=1)[:, None] for each in (truth, rows))
    cosines = np.abs(truth[:, :-1] @ rows[:, :-1].T)
    assert sorted(cosines.argmax(axis=1)) == list(range(7))
    rows = rows[cosines.argmax(axis=1)]
    rows *= np.sign((rows[:, :-1] * truth[:, :-1]).sum(axis=1))[:, None]
    np.testing.assert_allclose(rows, truth, atol=1e-7)


def test_depth_is_checked_and_kept():
    net = draw(3, (8, 5, 4, 1))
    for depth in (0, True, 1.5, "two"):
        with pytest.raises(planted.outcomes.BadInputError, match="depth="):
            planted.identify(net, depth=depth)
    assert planted.identify(net, depth=2, random_state=0).outcome is Outcome.RECOVERED
    wrong = planted.identify(net, depth=3, random_state=0)
    assert wrong.outcome is Outcome.ASSUMPTION_FAILED and "2 hidden layers; 3 were asked for" in wrong.detail


def test_jacobian_by_differences():
    net, rng = draw(2, (4, 3, 3, 2)), np.random.default_rng(0)
    X = rng.normal(size=(5, 4))
    J = jacobian(net, X)
    flat = np.concatenate([part.ravel() for layer in net.layers for part in layer])

    def at(values):
        layers, start = [], 0
        for W, b in net.layers:
            layers.append(
                (values[start : start + W.size].reshape(W.shape), values[start + W.size :][: b.size])
            )
            start += W.size + b.size
        return DeepNetwork(layers)(X).ravel()

    for place in range(flat.size):
        step = 1e-6 * np.eye(flat.size)[place]
        np.testing.assert_allclose((at(flat + step) - at(flat - step)) / 2e-6, J[:, place], atol=1e-8)
