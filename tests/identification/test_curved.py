"""Networks of curved units read back by questions; what is no such network is refused."""

import numpy as np
import pytest

import planted
from planted import Check, Outcome
from planted.outcomes import BadInputError


@pytest.mark.parametrize(
    ("name", "d", "k"), [("tanh", 10, 5), ("sigmoid", 5, 3), ("softplus", 5, 4), ("silu", 6, 3)]
)
def test_the_parameters_are_read_back(name: str, d: int, k: int) -> None:
    secret = planted.simulate.teacher(d, k, 1, bias=(-1, 1), activation=name, random_state=4)
    answer = planted.identify(secret, d, activation=name, random_state=1)
    assert answer.outcome is Outcome.RECOVERED and answer.network.n_hidden == k
    assert planted.parameter_error(answer.network, secret) < 1e-8
    assert answer.find(Check.FRESH_ANSWERS)[0].measured == 0
    # the first sample, 96 fresh questions and 8 that are asked three times more
    assert answer.stats["queries"] == 12 * 5 * (d + 1) + 96 + 4 * 8 - 8


def test_questions_stay_in_the_box_and_within_the_budget() -> None:
    secret = planted.simulate.teacher(3, 2, 2, bias=(-1, 1), activation="tanh", random_state=5)
    seen = []

    def oracle(X: np.ndarray) -> np.ndarray:
        seen.append(X)
        return secret(X)

    answer = planted.identify(oracle, 3, activation="tanh", box=(-1.5, 2.0), random_state=0)
    assert answer.outcome is Outcome.RECOVERED and planted.parameter_error(answer.network, secret) < 1e-8
    rows = np.vstack(seen)
    assert rows.min() >= -1.5 and rows.max() <= 2.0 and len(rows) == answer.stats["queries"]
    stopped = planted.identify(secret, 3, activation="tanh", budget=50, random_state=0)
    assert stopped.outcome is Outcome.STOPPED_EARLY and stopped.network is None


def test_another_function_is_refused() -> None:
    def oracle(X: np.ndarray) -> np.ndarray:
        return np.sin(3 * X[:, 0])

    answer = planted.identify(oracle, 1, activation="tanh", random_state=0)
    assert answer.outcome is Outcome.ASSUMPTION_FAILED and answer.network is None
    assert "no two-layer tanh network" in answer.detail


def test_a_bend_that_only_far_questions_show_is_refused() -> None:
    """Beyond every input of the sample the box is another one; fresh questions go farther out."""
    secret = planted.simulate.teacher(2, 2, 1, bias=(-1, 1), activation="tanh", random_state=6)

    def oracle(X: np.ndarray) -> np.ndarray:
        far = np.abs(X).max(axis=1) > 7.0
        return secret(X)[:, 0] + far

    answer = planted.identify(oracle, 2, activation="tanh", random_state=0)
    assert answer.outcome is Outcome.ASSUMPTION_FAILED and answer.network is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"activation": "auto"}, "expected a name"),
        ({"activation": "power:2"}, "use planted.recover"),
        ({"activation": "rising"}, "use planted.recover"),
        ({"activation": "tanh", "repeats": 3}, "without noise"),
        ({"activation": "tanh", "depth": 2}, "two-layer networks only"),
        ({"activation": "wave"}, "unknown activation"),
    ],
)
def test_what_questions_do_not_read_is_refused(options: dict[str, object], words: str) -> None:
    planted.register_activation("rising", np.expm1, np.exp, inverse=np.log1p)
    with pytest.raises(BadInputError, match=words):
        planted.identify(lambda X: X[:, 0], 1, **options)


def test_class_labels_are_not_read() -> None:
    secret = planted.simulate.teacher(3, 2, 3, activation="tanh", random_state=0)
    answer = planted.identify(lambda X: secret(X).argmax(axis=1), 3, activation="tanh", random_state=0)
    assert answer.outcome is Outcome.ASSUMPTION_FAILED and answer.network is None
    assert "3 different answers" in answer.detail and "log-odds" in answer.detail
