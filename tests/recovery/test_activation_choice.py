"""`recover(activation="auto")`: the right activation without noise, no claim where two explain the samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import planted
from planted import Check, Outcome, simulate
from planted.recovery._activation_choice import _Try, equally_good


def draw(activation, seed, noise=0.0):
    truth = simulate.teacher(
        3, 2, 1, bias=(-1, 1), activation=activation, outputs="magnitudes", random_state=seed
    )
    rng = np.random.default_rng(800 + seed)
    X = rng.standard_normal((100, 3))
    Y = truth(X)
    return truth, X, Y + noise * Y.std() * rng.standard_normal(Y.shape)


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid", "softplus", "gelu", "silu", "power:2"])
def test_the_activation_is_found(name):
    truth, X, Y = draw(name, 2)
    answer = planted.recover(X, Y, activation="auto", random_state=1)
    assert answer.outcome is Outcome.RECOVERED, answer
    assert planted.parameter_error(answer.network, truth) < 1e-8
    assert len(answer.find(Check.HELD_OUT_ERROR)) >= 6


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_activations_that_noise_makes_alike_are_not_claimed(name):
    truth, X, Y = draw(name, 3, noise=0.1)
    answer = planted.recover(X, Y, 2, activation="auto", random_state=1)
    assert answer.outcome is not Outcome.RECOVERED or answer.network.activation == truth.activation
    both = {answer.network.activation.name, *answer.stats["activations_as_good"]}
    assert both >= {"gelu", "silu"} and "do not tell which" in answer.detail


@pytest.mark.parametrize("seed", [301, 304, 307])
def test_a_linear_part_that_is_fitted_only_in_passing_does_not_count(seed):
    _, X, Y = draw("softplus", seed, noise=0.1)
    answer = planted.recover(X, Y, 2, activation="auto", random_state=1)
    assert "softplus" in {answer.network.activation.name, *answer.stats["activations_as_good"]}


@pytest.mark.parametrize("activation", ["auto", "leaky-relu"])
def test_a_straight_line_has_an_answer_although_no_sample_shows_a_slope_below_kinks(activation):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 3))
    y = X @ rng.standard_normal(3) + 0.1 * rng.standard_normal(200)
    answer = planted.recover(X, y, activation=activation, random_state=1)
    assert answer.outcome is not Outcome.RECOVERED
    assert np.std(answer.network(X)[:, 0] - y) < 0.12


class Path(NamedTuple):
    """What the choice reads of a path of widths."""

    criterion: float
    n_hidden: int = 2
    is_exact: bool = False


@pytest.mark.parametrize(
    ("paths", "order"),
    [
        ({"tanh": Path(-50.0), "gelu": Path(-57.0), "silu": Path(-58.0)}, ["silu", "gelu", "tanh"]),
        ({"relu": Path(-50.0), "softplus": Path(-58.0)}, ["relu", "softplus"]),
        ({"relu": Path(-40.0), "softplus": Path(-58.0)}, ["softplus"]),
        ({"tanh": Path(-9.0, 2, True), "gelu": Path(-1.0, 1, True), "silu": Path(-99.0, 1)}, ["gelu"]),
    ],
)
def test_the_best_goes_first_and_kinks_before_curves(paths, order):
    tries = [_Try(name, path, path.criterion) for name, path in paths.items()]
    assert [each.name for each in equally_good(tries)] == order


def test_a_method_needs_to_know_the_activation():
    _, X, Y = draw("tanh", 0)
    with pytest.raises(planted.outcomes.BadInputError, match="needs to know the activation"):
        planted.recover(X, Y, method="restarts", activation="auto")


def test_a_method_that_does_not_take_an_activation_names_those_that_do():
    _, X, Y = draw("tanh", 0)
    with pytest.raises(planted.outcomes.BadInputError, match="Methods that take it: 'restarts'"):
        planted.recover(X, Y, method="hermite", activation="tanh")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "nope", "activation": "auto"}, "unknown method 'nope'"),
        ({"method": "landscape", "activation": "leaky-relu"}, "Methods that take it: 'restarts';"),
        ({"method": "ica", "activation": "leaky-relu:0.1"}, "Methods that take it: 'restarts', 'landscape';"),
        ({"activation": "rising", "likelihood": "logistic"}, "among relu, .*; got 'rising', .* numbers"),
    ],
)
def test_what_is_offered_instead_works(options, words):
    planted.register_activation("rising", np.expm1, np.exp, inverse=np.log1p)
    with pytest.raises(planted.outcomes.BadInputError, match=words):
        planted.recover(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1], **options)
