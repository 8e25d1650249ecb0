"""MemorizingRegressor and MemorizingClassifier keep scikit-learn's contract."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import planted
from planted._streams import data_streams
from planted.outcomes import BadInputError, DataWarning, RecoveryWarning

# A wrong tag can shrink the suite to almost nothing: so many checks run with scikit-learn 1.9, one of them skipped.
CHECKS = {"MemorizingRegressor": 53, "MemorizingClassifier": 55}


@pytest.mark.parametrize("name", CHECKS)
def test_passes_every_estimator_check(name: str) -> None:
    with warnings.catch_warnings():
        # Most checks fit more samples than a quadratic form has dimensions, and the estimator says so.
        warnings.simplefilter("ignore", RecoveryWarning)
        warnings.simplefilter("ignore", DataWarning)
        results = check_estimator(getattr(planted, name)(), on_skip=None, on_fail=None)
    failed = [f"{row['check_name']}: {row['exception']}" for row in results if row["status"] == "failed"]
    skipped = {row["check_name"] for row in results if row["status"] == "skipped"}
    assert failed == [] and skipped <= {"check_array_api_input"}
    assert len(results) == CHECKS[name]


def labelled_rows(n: int = 40, d: int = 10) -> tuple[Any, Any]:
    rows, labels = data_streams(3, 2)
    return rows.standard_normal((n, d)), labels.integers(0, 3, n)


def test_regressor_is_the_twin_of_the_function() -> None:
    X, y = labelled_rows()
    for settings in ({"layers": 3, "bias": False}, {"solver": "low-rank"}, {"solver": "lbfgs", "tol": 1e-8}):
        model = planted.MemorizingRegressor(random_state=1, **settings).fit(X, y)
        memory = planted.memorize(X, y, random_state=1, **({"bias": True} | settings))
        assert model.memory_.provenance.algorithm == memory.provenance.algorithm
        np.testing.assert_array_equal(model.predict(X), memory.network(X)[:, 0])


def test_options_reach_the_solver() -> None:
    X, y = labelled_rows()
    model = planted.MemorizingRegressor(solver="ridge", options={"penalty": 0.5}, random_state=0).fit(X, y)
    assert model.memory_.stats["penalty"] == 0.5
    with pytest.raises(BadInputError, match="no option"):
        clone(model).set_params(options={"nonsense": 1}).fit(X, y)


def test_targets_keep_their_shape() -> None:
    X, y = labelled_rows()
    assert planted.MemorizingRegressor().fit(X, y).predict(X).shape == (40,)
    assert planted.MemorizingRegressor().fit(X, y[:, None]).predict(X).shape == (40, 1)
    assert planted.MemorizingRegressor().fit(X, np.column_stack([y, -y])).predict(X).shape == (40, 2)


def test_warns_when_the_labels_cannot_be_reproduced() -> None:
    X, y = labelled_rows(60, 3)  # (d+1)(d+2)/2 = 10
    with pytest.warns(RecoveryWarning, match="TOO_MANY_SAMPLES"):
        model = planted.MemorizingRegressor().fit(X, y)
    assert model.memory_.outcome.name == "TOO_MANY_SAMPLES"


@pytest.mark.parametrize("targets", ["auto", "one-hot", "sign"])
def test_classifier_reproduces_two_classes(targets: str) -> None:
    X, y = labelled_rows()
    names = np.where(y > 0, "cat", "dog")
    model = planted.MemorizingClassifier(targets=targets).fit(X, names)
    assert model.memory_.outcome.name == "MEMORISED"
    assert (model.predict(X) == names).all()
    assert model.network_.n_outputs == (2 if targets == "one-hot" else 1)
    assert ((model.decision_function(X) > 0) == (names == "dog")).all()


def test_classifier_reproduces_random_labels_of_three_classes() -> None:
    X, y = labelled_rows()
    model = planted.MemorizingClassifier().fit(X, y)
    assert model.network_.n_outputs == 3 and model.score(X, y) == 1.0
    with pytest.raises(BadInputError, match="needs 2 classes"):
        planted.MemorizingClassifier(targets="sign").fit(X, y)
    with pytest.raises(BadInputError, match="expected 'auto'"):
        planted.MemorizingClassifier(targets="both").fit(X, y)


@pytest.mark.parametrize("name", CHECKS)
def test_a_time_budget_ends_in_a_fitted_estimator_and_a_warning(name: str) -> None:
    X, y = labelled_rows()
    with pytest.warns(RecoveryWarning, match="STOPPED_EARLY: .*all weights are zero"):
        model = getattr(planted, name)(budget_seconds=0).fit(X, y)
    assert model.memory_.provenance.parameters["budget_seconds"] == 0
    assert model.predict(X).shape == (40,)


def test_a_random_state_of_scikit_learn_is_a_seed() -> None:
    X, y = labelled_rows()
    predictions = [
        planted.MemorizingRegressor(layers=3, random_state=state).fit(X, y).predict(X[:, ::-1])
        for state in (np.random.RandomState(4), np.random.RandomState(4), np.random.RandomState(5))
    ]
    np.testing.assert_array_equal(predictions[0], predictions[1])
    assert (predictions[0] != predictions[2]).any()


@pytest.mark.parametrize("name", CHECKS)
def test_warnings_point_at_the_call_of_fit(name: str) -> None:
    X, y = labelled_rows()
    with pytest.warns(RecoveryWarning) as caught:
        getattr(planted, name)(budget_seconds=0).fit(X, y)
    assert [item.filename for item in caught] == [__file__]
