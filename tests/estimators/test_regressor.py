"""The regressor has scikit-learn's manners, and forwards every argument to the function it wraps."""

import inspect
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import planted
from planted.estimators import _regressor
from planted.outcomes import RecoveryError, RecoveryWarning

DATA = planted.simulate.dataset(
    90, n_features=5, n_hidden=3, n_outputs=3, law="exponential", activity=(0.3, 0.7), random_state=7
)


CHECKED = planted.TwoLayerRegressor(effort="quick", random_state=0)


@parametrize_with_checks([CHECKED])
def test_passes_an_estimator_check(
    estimator: planted.TwoLayerRegressor, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it the check of array inputs skips itself
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # most checks fit data that are not planted, and the estimator says so
        check(estimator)


def test_no_estimator_check_is_missing() -> None:
    names = [check.func.__name__ for _, check in estimator_checks_generator(CHECKED)]
    # A wrong tag can shrink the suite to one. check_array_api_input skips itself: there is no array API here.
    assert len(names) == 60 and "check_sample_weight_equivalence_on_dense_data" in names


def test_the_network_is_the_planted_one() -> None:
    model = planted.TwoLayerRegressor(random_state=1).fit(DATA.X, DATA.Y)
    assert planted.parameter_error(model.network_, DATA.network) < 1e-12
    assert model.score(DATA.X, DATA.Y) == pytest.approx(1.0, abs=1e-12)
    assert model.recovery_.outcome is planted.Outcome.RECOVERED


def test_every_argument_reaches_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    received = {}

    def spy(X: np.ndarray, Y: np.ndarray, n_hidden: int, **options: object) -> planted.Recovery:
        received.update(options, n_hidden=n_hidden)
        return planted.recover(X, Y, method="complementarity", random_state=0)

    monkeypatch.setattr(_regressor, "recover", spy)
    model = planted.TwoLayerRegressor(
        3,
        "complementarity",
        activation="relu",
        budget_seconds=60.0,
        options={"noise": "none"},
        random_state=5,
    )
    model.fit(DATA.X, DATA.Y)
    assert received == {
        "n_hidden": 3,
        "method": "complementarity",
        "activation": "relu",
        "affine": "auto",
        "effort": "normal",
        "budget_seconds": 60.0,
        "random_state": 5,
        "noise": "none",
    }
    # Everything recover takes is reachable from the estimator: by a parameter of its own, or not meant for it.
    own = set(inspect.signature(planted.TwoLayerRegressor).parameters)
    # scikit-learn's conventions refuse NaN in y, so labels cannot be missing here; class labels are TwoLayerClassifier's.
    function = set(inspect.signature(planted.recover).parameters)
    function -= {"X", "Y", "progress", "options", "missing_labels", "likelihood"}
    assert function <= own


def test_vectors_stay_vectors_and_columns_stay_columns() -> None:
    scalar = planted.simulate.dataset(
        300, n_features=3, n_hidden=2, n_outputs=1, bias=(-0.5, 0.5), random_state=3
    )
    model = planted.TwoLayerRegressor(2, "restarts", random_state=0)
    assert model.fit(scalar.X, scalar.Y[:, 0]).predict(scalar.X).shape == (300,)
    assert model.fit(scalar.X, scalar.Y).predict(scalar.X).shape == (300, 1)


def test_pipelines_grids_and_clones() -> None:
    model = planted.TwoLayerRegressor(3, "complementarity", random_state=0)
    assert clone(model).get_params() == model.get_params()
    pipeline = make_pipeline(StandardScaler(), model).fit(DATA.X, DATA.Y)
    assert pipeline.score(DATA.X, DATA.Y) > 1 - 1e-12
    assert cross_val_score(model, DATA.X, DATA.Y, cv=3).min() > 1 - 1e-10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        grid = GridSearchCV(model, {"n_hidden": [3, "auto"]}, cv=2).fit(DATA.X, DATA.Y)
    assert grid.best_score_ > 1 - 1e-10


def test_frames_are_checked_by_name() -> None:
    frame = pd.DataFrame(DATA.X, columns=list("abcde"))
    model = planted.TwoLayerRegressor(3, "complementarity", random_state=0).fit(frame, DATA.Y)
    assert list(model.feature_names_in_) == list("abcde")
    assert np.allclose(model.predict(frame), DATA.Y)
    with pytest.raises(ValueError, match="order"):
        model.predict(frame[list("edcba")])


def test_uncertified_fits_warn_or_raise() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    with pytest.warns(RecoveryWarning, match="FITTED"):
        planted.TwoLayerRegressor(method="small-network", random_state=0).fit(X, y)
    with pytest.raises(RecoveryError, match="FITTED"):
        planted.TwoLayerRegressor(method="small-network", random_state=0, on_insufficient_data="raise").fit(
            X, y
        )
    with pytest.raises(ValueError, match="on_insufficient_data"):
        planted.TwoLayerRegressor(on_insufficient_data="ignore").fit(X, y)


def test_a_fit_stands_beside_the_mean_and_a_line() -> None:
    rng = np.random.default_rng([32, 0])
    X = rng.standard_normal((80, 2))
    y = np.abs(X[:, 0]) + 0.1 * rng.standard_normal(80)
    with pytest.warns(RecoveryWarning, match="below that of a straight line"):
        model = planted.TwoLayerRegressor(effort="quick", random_state=0).fit(X, y)
    context = model.recovery_.stats["context"]
    assert [item["model"] for item in context] == ["mean", "line", "network"]
    assert context[2]["r2"] == pytest.approx(model.score(X, y))
