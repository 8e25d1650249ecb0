"""Two hidden layers from answers in single precision: every parameter within the stated bound, or not claimed."""

from itertools import pairwise

import numpy as np
import pytest

import planted
from planted import DeepNetwork, Outcome
from planted.checks import Check
from planted.identification.deep.ending._single import _largest_deviation


def draw_single(seed, widths):
    """A network whose parameters single precision holds."""
    rng = np.random.default_rng([27, seed, *widths])
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]
    return DeepNetwork([(W.astype(np.float32), b.astype(np.float32)) for W, b in layers])


def ask_in_single(net):
    """Evaluate in single precision, as a graphics card or a phone does."""
    layers = [(W.astype(np.float32), b.astype(np.float32)) for W, b in net.layers]

    def answer(X):
        H = X.astype(np.float32)
        for W, b in layers[:-1]:
            H = np.maximum(H @ W.T + b, np.float32(0))
        return H @ layers[-1][0].T + layers[-1][1]

    return answer


def bound_of(found):
    (bound,) = found.find(Check.ERROR_BOUND)
    return float(bound.measured)


@pytest.mark.parametrize(("seed", "widths"), [(1, (12, 6, 5, 2)), (7, (14, 7, 5, 1)), (8, (10, 6, 4, 3))])
def test_parameters_are_within_the_stated_bound(seed, widths):
    net = draw_single(seed, widths)
    found = planted.identify(ask_in_single(net), widths[0], random_state=seed)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, net) <= bound_of(found) <= 1e-3
    assert "single precision" in found.detail


def test_a_unit_that_is_never_off_is_not_claimed():
    net = draw_single(2, (14, 7, 5, 1))  # the second unit of the second layer
    found = planted.identify(ask_in_single(net), 14, random_state=2)
    assert found.outcome is Outcome.NOT_IDENTIFIABLE, found.detail


def test_scaled_inputs_have_a_bound_in_their_own_units():
    net = draw_single(5, (12, 6, 5, 2))
    (W, b), *others = net.layers
    small = DeepNetwork([(W * 64, b), *others])  # inputs of size 1/64
    found = planted.identify(ask_in_single(small), 12, scale=1 / 64, random_state=1)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, small) <= bound_of(found)


def test_a_module_of_pytorch_is_asked_as_it_is():
    torch = pytest.importorskip("torch")
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Linear(12, 7), torch.nn.ReLU(), torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)
    )
    found = planted.identify(model, random_state=1)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, planted.import_network(model)) <= bound_of(found)


def test_a_layer_that_widens_is_refused_with_its_hyperplanes():
    net = draw_single(3, (4, 7, 5, 2))
    found = planted.identify(ask_in_single(net), 4, random_state=0)
    assert found.outcome is Outcome.ASSUMPTION_FAILED and "widens" in found.detail
    planes = found.stats["first_hyperplanes"]
    truth, rows = (np.column_stack(pair) for pair in (net.layers[0], (planes["W"], planes["b"])))
    truth, rows = (each / np.linalg.norm(each[:, :-1], axis=1)[:, None] for each in (truth, rows))
    apart = [np.abs(truth[:, None] - sign * rows).max(axis=2).min(axis=0) for sign in (1, -1)]
    assert np.minimum(*apart).max() < 1e-2


def test_other_arithmetic_is_not_claimed():
    """Answers that are rounded to single precision, but are off by more than its arithmetic explains."""
    net = draw_single(3, (10, 5, 4, 2))

    def answer(X, error=1e-5):
        return (net(X) * (1 + error * np.sin(1e4 * X.sum(axis=1, keepdims=True)))).astype(np.float32)

    found = planted.identify(answer, 10, random_state=1)
    assert found.outcome is not Outcome.RECOVERED
    right = planted.identify(lambda X: answer(X, 0.0), 10, random_state=1)
    assert right.outcome is Outcome.RECOVERED


def test_a_parameter_without_effect_has_no_bound():
    net = draw_single(4, (5, 4, 3, 1))
    X = np.random.default_rng(0).normal(size=(400, 5))
    ones = np.ones(400)
    assert np.isfinite(_largest_deviation(net, X, ones))
    layers = [net.layers[0], net.layers[1], (net.layers[2][0] * [0, 1, 1], net.layers[2][1])]
    assert _largest_deviation(DeepNetwork(layers), X, ones) == np.inf
