"""What the estimators have in common: the check of the samples, the seed, the warning, and the prediction."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from planted._typing import Array, Seed
from planted._validation import CheckedData, check_features, check_rows
from planted.outcomes import BadInputError, BadInputTypeError, RecoveryWarning

__all__ = ["NetworkEstimator", "NetworkRegressor", "seed_of", "warn_of_outcome"]


class NetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose `fit` finds a network, kept as ``network_``."""

    def _check(self, X: Any, y: Any, *, reset: bool = True) -> CheckedData:
        """Check samples and remember the number and the names of the inputs, or compare with those of before.

        Complex numbers raise a ValueError, which is what scikit-learn's estimators raise.
        """
        try:
            data = check_rows(X, y, y_name="y")
        except BadInputTypeError as error:
            if np.iscomplexobj(X) or np.iscomplexobj(y):
                raise BadInputError(str(error)) from error
            raise
        validate_data(self, X, reset=reset, skip_check_array=True)
        return data

    def _outputs(self, X: Any) -> Array:
        """Evaluate the network on checked inputs; the result has the shape (n, m)."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        owner = type(self).__name__
        rows = check_features(X, self.n_features_in_, None if names is None else tuple(names), owner=owner)
        return np.asarray(self.network_(rows))


class NetworkRegressor(MultiOutputMixin, RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """A regressor whose predictions are the outputs of its network."""

    def predict(self, X: Any) -> Array:
        """Evaluate the network.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Inputs.

        Returns
        -------
        ndarray of shape (n,) or (n, m)
            Outputs, in the shape of the targets that were fitted.
        """
        outputs = self._outputs(X)
        return np.asarray(outputs[:, 0] if self._vector_target else outputs)


def seed_of(random_state: Any) -> Seed:
    """Return a seed of planted for a ``random_state`` of scikit-learn, whose generators are drawn from once."""
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:
        return int(check_random_state(random_state).randint(2**31 - 1))
    seed: Seed = random_state
    return seed


def warn_of_outcome(outcome: Any, detail: str) -> None:
    """Warn that the fit did not end as one would wish; called by a step of `fit`."""
    warnings.warn(f"{outcome.name}: {detail} {outcome.advice}", RecoveryWarning, stacklevel=4)
