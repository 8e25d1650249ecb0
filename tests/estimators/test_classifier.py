"""The classifier has scikit-learn's manners: all estimator checks, probabilities, classes of any kind."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import planted
from planted.outcomes import RecoveryError, RecoveryWarning

CHECKED = planted.TwoLayerClassifier(effort="quick", random_state=0)


@parametrize_with_checks([CHECKED])
def test_passes_an_estimator_check(
    estimator: planted.TwoLayerClassifier, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it the check of array inputs skips itself
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # most checks fit data that are not planted, and the estimator says so
        check(estimator)


def test_no_estimator_check_is_missing() -> None:
    names = [check.func.__name__ for _, check in estimator_checks_generator(CHECKED)]
    assert len(names) == 62 and "check_sample_weight_equivalence_on_dense_data" in names


def _data(classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((240, 2))
    noisy = X[:, 0] + 0.7 * rng.standard_normal(240)
    return X, np.array(["low", "middle", "up"])[np.digitize(noisy, [-0.5, 0.5][: classes - 1])]


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_scores_and_classes_agree(classes: int) -> None:
    X, y = _data(classes)
    with pytest.warns(RecoveryWarning, match="FITTED"):
        model = planted.TwoLayerClassifier(effort="quick", random_state=0).fit(X, y)
    chances, scores = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (model.predict(X) == model.classes_[chances.argmax(axis=1)]).all()
    commonest = np.unique(y, return_counts=True)[1].max() / len(y)
    assert model.score(X, y) > commonest + 0.1  # without noise it would be one; guessing gives the share
    if classes == 2:
        np.testing.assert_allclose(expit(scores), chances[:, 1])
    else:
        np.testing.assert_allclose(scores - scores[:, :1], np.log(chances / chances[:, :1]), atol=1e-9)


def test_fractions_of_weights_are_taken() -> None:
    X, y = _data(2)
    model = planted.TwoLayerClassifier(effort="quick", random_state=0)
    with pytest.warns(RecoveryWarning):
        model.fit(X, y, sample_weight=np.where(y == "low", 0.5, 2.5))
    heavier = model.predict_proba(X)[:, 1].mean()
    with pytest.warns(RecoveryWarning):
        model.fit(X, y)
    assert heavier > model.predict_proba(X)[:, 1].mean() + 0.05


def test_what_is_not_certified_can_be_refused() -> None:
    X, y = _data(2)
    with pytest.raises(RecoveryError, match="FITTED"):
        planted.TwoLayerClassifier(effort="quick", on_insufficient_data="raise", random_state=0).fit(X, y)
