"""Class labels and counts through `planted.recover`: what is found, what is claimed, what is refused."""

import json

import numpy as np
import pytest
from scipy.special import expit

import planted
from planted import Check, Outcome, TwoLayerNetwork
from planted.outcomes import BadInputError
from planted.recovery import encode_labels, prediction_noise

TRUTH = TwoLayerNetwork([[1.8, 0.9]], [0.3], [[3.0]], [-0.2], "tanh")


def _labels(n: int = 1500, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) * [1.0, 2.0] + [0.0, 5.0]
    chance = expit(TRUTH((X - [0.0, 5.0]) / [1.0, 2.0])[:, 0])
    return X, np.where(rng.random(n) < chance, "yes", "no")


def test_a_network_of_log_odds_is_recovered_with_its_errors() -> None:
    X, y = _labels()
    answer = planted.recover(X, y, 1, activation="tanh", likelihood="logistic", random_state=0)
    assert answer.outcome is Outcome.RECOVERED and answer.stats["classes"] == ["no", "yes"]
    W = TRUTH.W / [1.0, 2.0]
    truth = TwoLayerNetwork(W, TRUTH.b - W @ [0.0, 5.0], TRUTH.A, TRUTH.c, "tanh").canonical()
    errors = answer.uncertainty.standard_errors
    for part in ("W", "b", "A", "c"):  # within four standard errors, which are themselves of use
        gap = np.abs(getattr(answer.network, part) - getattr(truth, part))
        assert (gap <= 4 * errors[part]).all() and (errors[part] < 1.0).all()
    assert answer.find(Check.SEPARATION)[0].measured > 50
    assert answer.uncertainty.kind == "information"
    with pytest.raises(BadInputError, match="predictors of labels"):
        prediction_noise(answer)
    assert planted.Recovery.from_dict(answer.to_dict()).stats["classes"] == ["no", "yes"]
    json.dumps(answer.stats)


def test_counts_are_recovered() -> None:
    rng = np.random.default_rng(6)
    truth = TwoLayerNetwork([[1.5, -1.0]], [0.0], [[1.0]], [0.5], "tanh")
    X = rng.standard_normal((800, 2))
    counts = rng.poisson(np.exp(truth(X)[:, 0]))
    answer = planted.recover(
        X, counts, 1, activation="tanh", likelihood="poisson", effort="quick", random_state=0
    )
    errors = answer.uncertainty.standard_errors
    assert (np.abs(answer.network.A - truth.A) <= 4 * errors["A"]).all()
    assert (np.abs(answer.network.W - truth.W) <= 4 * errors["W"]).all()


def test_a_chosen_width_or_kinked_units_are_not_claimed() -> None:
    X, y = _labels(600)
    for options in ({"activation": "tanh"}, {"n_hidden": 1}):
        answer = planted.recover(X, y, likelihood="logistic", effort="quick", random_state=0, **options)
        assert answer.outcome is Outcome.FITTED
        assert {Check.WIDTH, Check.SHARP_KINKS} & {line.key for line in answer.failed}


def test_separated_labels_are_named_and_fitted_with_a_ridge() -> None:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 2))
    y = X[:, 0] > 0
    answer = planted.recover(X, y, likelihood="logistic", effort="quick", random_state=0)
    assert answer.outcome is Outcome.FITTED and "puts all 60 labels first" in answer.detail
    assert [line.measured for line in answer.find(Check.SEPARATION)] == [0]
    assert answer.find(Check.RIDGE) and not answer.uncertainty
    assert np.isfinite(answer.network(X)).all()


def test_labels_that_ignore_the_inputs_are_not_claimed() -> None:
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((400, 2)), rng.integers(0, 2, 400)
    answer = planted.recover(
        X, y, 1, activation="tanh", likelihood="logistic", effort="quick", random_state=0
    )
    assert answer.outcome is Outcome.FITTED


def test_blocks_of_encoded_labels_are_the_same_problem() -> None:
    X, y = _labels(300)
    Y, classes = encode_labels(y, "logistic")
    options = {"activation": "tanh", "likelihood": "logistic", "effort": "quick", "random_state": 3}
    told = planted.recover(X, y, 1, **options)
    blocks = planted.recover(planted.RowBlocks.from_arrays(X, Y, block_rows=64), None, 1, **options)
    assert classes.tolist() == ["no", "yes"]
    assert planted.parameter_error(told.network, blocks.network) < 1e-8  # sums in another order


@pytest.mark.parametrize(
    ("labels", "options", "words"),
    [
        (["a", "b", "c", "a"], {"likelihood": "logistic"}, "2 classes; there are 3. Use 'multinomial'"),
        (["a"] * 4, {"likelihood": "logistic"}, "1 class only"),
        (["a", None, "b", "a"], {"likelihood": "logistic"}, "labels are missing"),
        ([0.5, 1, 2, 3], {"likelihood": "poisson"}, "row 0 is not one"),
        ([-1, 1, 2, 3], {"likelihood": "poisson"}, "whole numbers"),
        ([0, 1, 0, 1], {"likelihood": "probit"}, "likelihood='probit'; expected one of"),
        (
            [0, 1, 0, 1],
            {"likelihood": "logistic", "method": "ica"},
            "'ica' takes numbers only; .* by 'restarts'",
        ),
        ([0, 1, 0, 1], {"likelihood": "logistic", "activation": "auto"}, "activation by name"),
        ([0, 1, 0, 1], {"likelihood": "logistic", "activation": "leaky-relu"}, "activation by name"),
        ([0, 1, 0, 1], {"likelihood": "logistic", "missing_labels": "mask"}, "cannot mask"),
        (np.eye(4), {"likelihood": "logistic"}, "expected one label for each sample"),
    ],
)
def test_what_labels_cannot_be_is_refused(labels: object, options: dict[str, str], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        planted.recover(np.arange(8.0).reshape(4, 2), labels, **options)


OPTIONS = {"n_restarts": 2, "extra": 3, "start": "landscape", "offset": False, "loss": "huber"}
UNUSED = [({"likelihood": "logistic"}, each) for each in OPTIONS] + [
    ({"activation": "tanh"}, each) for each in ("start", "loss")
]


@pytest.mark.parametrize(("what", "option"), UNUSED)
def test_an_option_that_is_not_used_is_refused(what: dict[str, str], option: str) -> None:
    X, y = _labels(60)
    with pytest.raises(BadInputError, match=rf"{option}={OPTIONS[option]!r} is not used with"):
        planted.recover(
            X,
            y if "likelihood" in what else X[:, 0],
            1,
            method="restarts",
            **what,
            **{option: OPTIONS[option]},
        )


def test_blocks_that_are_not_encoded_are_refused() -> None:
    blocks = planted.RowBlocks.from_arrays(np.ones((4, 1)), np.array([[0.0], [1.0], [2.0], [0.0]]))
    with pytest.raises(BadInputError, match=r"1 row\(s\) do not"):
        planted.recover(blocks, likelihood="logistic")


def test_few_samples_are_refused_by_name() -> None:
    X = np.arange(10.0).reshape(5, 2)
    answer = planted.recover(X, [0, 1, 0, 1, 0], likelihood="logistic")
    assert answer.outcome is Outcome.TOO_FEW_SAMPLES and answer.network is None
