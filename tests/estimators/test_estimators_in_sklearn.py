"""The three estimators inside scikit-learn: tools, frames, weights, routing, representations, and their twins."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import planted
from planted.estimators import _memorizing
from planted.outcomes import BadInputError, RecoveryError, RecoveryWarning

DATA = planted.simulate.dataset(
    80, n_features=3, n_hidden=2, n_outputs=2, law="exponential", activity=(0.3, 0.7), random_state=5
)
CLASSES = np.where(DATA.Y[:, 0] > np.median(DATA.Y[:, 0]), "high", "low")
REGRESSOR = planted.TwoLayerRegressor(2, "complementarity", random_state=0)
# Enough inputs for every label: (d+1)(d+2)/2 = 66 of 60 rows.
WIDE = planted.simulate.inputs(60, 10, random_state=6)
LABELS = np.where(WIDE[:, 0] * WIDE[:, 1] > 0, "same", "other")
ESTIMATORS: dict[str, tuple[Any, Any, Any]] = {
    "TwoLayerRegressor": (REGRESSOR, DATA.X, DATA.Y),
    "MemorizingRegressor": (planted.MemorizingRegressor(random_state=0), WIDE, WIDE[:, 0] * WIDE[:, 1]),
    "MemorizingClassifier": (planted.MemorizingClassifier(random_state=0), WIDE, LABELS),
}
EVERY = pytest.mark.parametrize("name", ESTIMATORS)


@EVERY
def test_clone_pipeline_and_score(name: str) -> None:
    model, X, y = ESTIMATORS[name]
    assert clone(model).get_params() == model.get_params()
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
    assert pipeline.score(X, y) > 1 - 1e-9  # both reproduce what they saw to rounding


@EVERY
def test_cross_validation_and_grids(name: str) -> None:
    model, X, y = ESTIMATORS[name]
    assert cross_val_score(clone(model), X, y, cv=3, error_score="raise").shape == (3,)
    grid = GridSearchCV(clone(model), {"random_state": [0, 1]}, cv=2, error_score="raise").fit(X, y)
    assert grid.best_estimator_.network_.n_features == X.shape[1]


def test_cross_validation_of_a_planted_network_is_perfect() -> None:
    assert cross_val_score(REGRESSOR, DATA.X, DATA.Y, cv=4).min() > 1 - 1e-10


@EVERY
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_in(name: str, library: str) -> None:
    model, X, y = ESTIMATORS[name]
    names = [f"column {j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names) if library == "pandas" else pl.DataFrame(X, schema=names)
    fitted = clone(model).fit(frame, y)
    assert list(fitted.feature_names_in_) == names
    plain, framed = clone(model).fit(X, y), fitted
    if name == "MemorizingClassifier":
        np.testing.assert_array_equal(framed.predict(frame), plain.predict(X))
    else:  # a frame keeps columns together, so that sums are taken in another order
        np.testing.assert_allclose(framed.predict(frame), plain.predict(X), rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="order"):
        fitted.predict(frame[names[::-1]])


def test_targets_may_be_frames_and_series() -> None:
    for targets in (pd.DataFrame(DATA.Y, columns=["u", "v"]), pl.DataFrame(DATA.Y, schema=["u", "v"])):
        np.testing.assert_allclose(clone(REGRESSOR).fit(DATA.X, targets).predict(DATA.X), DATA.Y, atol=1e-12)
    series = pd.Series(WIDE[:, 0] * WIDE[:, 1], name="label")
    assert planted.MemorizingRegressor(random_state=0).fit(WIDE, series).predict(WIDE).shape == (60,)


@pytest.mark.parametrize("container", ["default", "pandas", "polars"])
def test_frames_come_out_of_the_steps_before(container: str) -> None:
    pipeline = make_pipeline(StandardScaler(), clone(REGRESSOR)).set_output(transform=container)
    frame = pd.DataFrame(DATA.X, columns=list("abc"))
    pipeline.fit(frame, DATA.Y)
    assert pipeline.score(frame, DATA.Y) > 1 - 1e-12
    seen = getattr(pipeline[-1], "feature_names_in_", None)
    assert (seen is None) == (container == "default")


def test_targets_may_be_transformed() -> None:
    model = TransformedTargetRegressor(clone(REGRESSOR), transformer=StandardScaler()).fit(DATA.X, DATA.Y)
    assert model.score(DATA.X, DATA.Y) > 1 - 1e-12


def test_whole_weights_are_counts() -> None:
    counts = np.random.default_rng(1).integers(0, 3, 80)
    weighted = clone(REGRESSOR).fit(DATA.X, DATA.Y, sample_weight=counts)
    repeated = clone(REGRESSOR).fit(DATA.X.repeat(counts, 0), DATA.Y.repeat(counts, 0))
    np.testing.assert_array_equal(weighted.predict(DATA.X), repeated.predict(DATA.X))
    assert weighted.recovery_.provenance.shape[0] == counts.sum()


def test_weights_leave_spoiled_rows_out() -> None:
    spoiled = DATA.Y.copy()
    spoiled[:5] += 10.0
    weights = np.ones(80)
    weights[:5] = 0.0
    model = clone(REGRESSOR).fit(DATA.X, spoiled, sample_weight=weights)
    assert planted.parameter_error(model.network_, DATA.network) < 1e-12


def test_other_weights_reach_the_method_or_are_refused() -> None:
    weights = np.linspace(0.5, 1.5, 80)
    with pytest.raises(BadInputError, match="sample_weight"):
        clone(REGRESSOR).fit(DATA.X, DATA.Y, sample_weight=weights)
    model = planted.TwoLayerRegressor(2, random_state=0).fit(DATA.X, DATA.Y, sample_weight=weights)
    assert model.recovery_.provenance.algorithm == "restarts"
    assert planted.parameter_error(model.network_, DATA.network) < 1e-12
    for bad in (weights[:-1], -weights, np.zeros(80), np.full(80, np.nan)):
        with pytest.raises(BadInputError, match="sample_weight"):
            clone(REGRESSOR).fit(DATA.X, DATA.Y, sample_weight=bad)


def test_weights_are_routed() -> None:
    weights = np.ones(80)
    weights[:20] = 0.0
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(REGRESSOR).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipeline.fit(DATA.X, DATA.Y, sample_weight=weights)
    assert pipeline[-1].recovery_.provenance.shape[0] == 60


@EVERY
def test_representations(name: str) -> None:
    model, X, y = ESTIMATORS[name]
    fitted = clone(model).fit(X, y)
    assert repr(fitted).startswith(f"{name}(")
    assert name in fitted._repr_html_() and "Traceback" not in fitted._repr_html_()


def test_insufficient_data_warn_or_raise() -> None:
    few = slice(0, 7)
    with pytest.warns(RecoveryWarning):
        model = planted.TwoLayerRegressor(2, "small-network", random_state=0).fit(DATA.X[few], DATA.Y[few])
    assert model.recovery_.outcome is not planted.Outcome.RECOVERED
    strict = planted.TwoLayerRegressor(2, "small-network", on_insufficient_data="raise", random_state=0)
    with pytest.raises(RecoveryError):
        strict.fit(DATA.X[few], DATA.Y[few])


def test_linear_targets_are_fitted_not_refused() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.warns(RecoveryWarning, match="FITTED"):
        model = planted.TwoLayerRegressor(random_state=0).fit(X, X[:, 0])
    assert model.score(X, X[:, 0]) > 0.5


@pytest.mark.parametrize("name", ["MemorizingRegressor", "MemorizingClassifier"])
def test_every_argument_reaches_memorize(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    received: dict[str, Any] = {}
    real = planted.memorize

    def spy(X: Any, y: Any, **options: Any) -> Any:
        received.update(options)
        return real(X, y, bias=True, random_state=0)

    monkeypatch.setattr(_memorizing, "memorize", spy)
    settings = {"layers": 3, "solver": "ridge", "bias": False, "tol": 1e-5, "random_state": 9}
    _, X, y = ESTIMATORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        getattr(planted, name)(**settings, options={"penalty": 0.5}).fit(X, y)
    assert received == settings | {"penalty": 0.5}
    # What the function takes can be said to the estimator, or is not meant for it.
    own = set(inspect.signature(getattr(planted, name)).parameters)
    asked = set(inspect.signature(real).parameters) - {"X", "y", "progress", "options"}
    assert asked <= own
