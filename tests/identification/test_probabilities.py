"""Probabilities as answers: log-odds, the box that is chosen, and classifiers of scikit-learn."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.datasets import load_wine
from sklearn.linear_model import RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from planted import TwoLayerNetwork, identify, parameter_error
from planted.identification._oracles import as_oracle
from planted.identification._session import OracleError
from planted.networks import parse_activation
from planted.outcomes import BadInputError, Outcome


def drawn(seed: int, d: int, k: int, m: int, size: float = 1.0) -> TwoLayerNetwork:
    rng = np.random.default_rng([41, seed])
    return TwoLayerNetwork(
        rng.standard_normal((k, d)),
        rng.uniform(-0.5, 0.5, k),
        size * rng.standard_normal((m, k)),
        rng.standard_normal(m),
    )


def softmax(Z: np.ndarray) -> np.ndarray:
    scores = np.exp(Z - Z.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("d", "k", "m", "size"), [(5, 3, 2, 1.0), (8, 4, 3, 30.0), (3, 3, 4, 0.01)])
def test_a_network_behind_a_softmax(d: int, k: int, m: int, size: float) -> None:
    truth = drawn(d, d, k, m, size)
    found = identify(
        lambda X: softmax(np.column_stack([truth(X), np.zeros(len(X))])),
        d,
        outputs="probabilities",
        random_state=0,
    )
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert parameter_error(found.network, truth) <= 1e-8 * max(size, 1.0)
    assert found.stats["outputs"] == "log-odds" and "digits" in found.detail


@pytest.mark.parametrize("size", [0.3, 20.0])
def test_a_network_behind_a_sigmoid(size: float) -> None:
    truth = drawn(2, 6, 4, 1, size)
    found = identify(lambda X: 1 / (1 + np.exp(-truth(X)))[:, 0], 6, outputs="probabilities", random_state=1)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert parameter_error(found.network, truth) <= 1e-6 * max(size, 1.0)


def test_a_classifier_of_scikit_learn_is_asked_for_probabilities() -> None:
    X, y = load_wine(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPClassifier((8,), max_iter=200, random_state=0).fit(StandardScaler().fit_transform(X), y)
    (W, A), (b, c) = model.coefs_, model.intercepts_
    truth = TwoLayerNetwork(W.T, b, (A[:, :-1] - A[:, -1:]).T, c[:-1] - c[-1])
    found = identify(model, random_state=0)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert parameter_error(found.network, truth) <= 1e-6
    assert found.stats["queries"] <= 25 * truth.n_parameters


def test_a_decision_function_is_asked_where_there_are_no_probabilities() -> None:
    rng = np.random.default_rng(43)
    X = rng.standard_normal((50, 3))
    model = RidgeClassifier().fit(X, X[:, 0] > 0)
    oracle = as_oracle(model)
    assert np.allclose(np.ravel(oracle.call(X)), model.decision_function(X)) and not oracle.is_log_odds


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softplus"])
def test_curved_units_behind_probabilities_are_read(activation: str) -> None:
    """Far out such units are constant or straight: the box stays where they bend, however flat the probabilities are."""
    for seed in range(2):
        truth = replace(drawn(20 + seed, 4, 3, 2), activation=parse_activation(activation))

        def classifier(X: np.ndarray, truth: TwoLayerNetwork = truth) -> np.ndarray:
            return softmax(np.column_stack([truth(X), np.zeros(len(X))]))

        found = identify(classifier, 4, outputs="probabilities", activation=activation, random_state=seed)
        assert found.outcome is Outcome.RECOVERED and parameter_error(found.network, truth) <= 1e-8


@pytest.mark.parametrize("is_flat", [False, True])
def test_log_odds_may_be_infinite(is_flat: bool) -> None:
    for seed in range(3):
        truth = drawn(30 + seed, 4, 3, 1, 4.0)

        def answers(X: np.ndarray, truth: TwoLayerNetwork = truth) -> np.ndarray:
            with np.errstate(divide="ignore"):
                odds = logit(expit(truth(X)))
            return odds[:, 0] if is_flat else odds

        found = identify(answers, 4, outputs="log-odds", random_state=seed)
        assert found.outcome is Outcome.RECOVERED and parameter_error(found.network, truth) <= 1e-10
        with pytest.raises(OracleError, match='outputs="log-odds"'):
            identify(answers, 4, random_state=seed)


def test_certainty_in_a_box_is_an_error_that_says_what_to_do() -> None:
    truth = drawn(3, 2, 3, 1, 1e4)
    with pytest.raises(OracleError, match="smaller box"), np.errstate(over="ignore"):
        identify(
            lambda X: 1 / (1 + np.exp(-truth(X))), 2, outputs="probabilities", box=(-5, 5), random_state=0
        )


def test_numbers_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(BadInputError, match="no probabilities"):
        identify(lambda X: 2 + X, 2, outputs="probabilities", random_state=0)
    with pytest.raises(BadInputError, match="auto, probabilities"):
        identify(lambda X: X, 2, outputs="probability")


def test_a_classifier_of_labels_is_refused() -> None:
    truth = drawn(4, 4, 3, 1)
    found = identify(lambda X: (truth(X) > 0).astype(float), 4, random_state=0)
    assert found.outcome is not Outcome.RECOVERED and found.network is None


@pytest.mark.parametrize("seed", range(3))
def test_many_inputs_in_a_box(seed: int) -> None:
    """A line in a random direction soon leaves a box of 40 inputs; one past the centre meets most hyperplanes."""
    truth = drawn(10 + seed, 40, 10, 3)
    found = identify(lambda X: truth(X), 40, box=(-1, 1), random_state=seed)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert parameter_error(found.network, truth) <= 1e-10
    assert found.stats["queries"] <= 25 * truth.n_parameters
