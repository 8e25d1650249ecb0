"""scikit-learn estimators: validate, call one function, store its record."""

from planted.estimators._classifier import TwoLayerClassifier
from planted.estimators._memorizing import MemorizingClassifier, MemorizingRegressor
from planted.estimators._regressor import TwoLayerRegressor

__all__ = ["MemorizingClassifier", "MemorizingRegressor", "TwoLayerClassifier", "TwoLayerRegressor"]
