"""`TwoLayerClassifier`: `planted.recover` from class labels as a scikit-learn estimator."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from planted._typing import Array
from planted._validation import check_finite, check_weights
from planted.estimators._row_store import in_own_order
from planted.estimators._shared import NetworkEstimator, gathered, seed_of
from planted.fitting.likelihoods._families import find_likelihood
from planted.outcomes import BadInputError
from planted.recovery import encode_labels, recover
from planted.rows import RowBlocks

__all__ = ["TwoLayerClassifier"]


class TwoLayerClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """Classification by a two-layer network of log-odds, fitted by maximum likelihood.

    Parameters
    ----------
    n_hidden, method, activation : as in `TwoLayerRegressor`
        Hidden units, and a method that takes class labels.
    effort : {"quick", "normal", "thorough"}, default="normal"
        How much work to do. "quick" makes one attempt, and uses a fixed ridge where labels are few.
    affine, budget_seconds, on_insufficient_data, random_state : as in `TwoLayerRegressor`
        Linear part, time limit, what to do when the network is not certified, and seed.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    network_ : TwoLayerNetwork
        The network; its outputs are the log-odds of all classes but the first against the first.
    recovery_, n_features_in_ : as in `TwoLayerRegressor`
        The whole record, and the number of inputs.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> labels = np.where(np.abs(X[:, 0]) + X[:, 1] > 0.5, "above", "below")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # separated labels: the network is a fit, nothing is claimed
    ...     model = TwoLayerClassifier(effort="quick", random_state=0).fit(X, labels)
    >>> model.classes_.tolist(), model.recovery_.outcome.name, bool(model.score(X, labels) > 0.95)
    (['above', 'below'], 'FITTED', True)
    """

    def __init__(
        self,
        n_hidden: int | str = "auto",
        method: str = "auto",
        *,
        activation: str = "relu",
        effort: str = "normal",
        affine: bool | str = "auto",
        budget_seconds: float | None = None,
        on_insufficient_data: str = "warn",
        random_state: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.method = method
        self.activation = activation
        self.effort = effort
        self.affine = affine
        self.budget_seconds = budget_seconds
        self.on_insufficient_data = on_insufficient_data
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the network of log-odds.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs. Dask collections are computed, if they fit into memory.
        y : array_like of shape (n,), or Dask array or series
            Classes of any kind.
        sample_weight : array_like of shape (n,), optional
            Weights, as in `TwoLayerRegressor.fit`; those that are not whole numbers weigh the likelihood.

        Returns
        -------
        TwoLayerClassifier
            The fitted estimator.
        """
        self._check_policy()
        if y is None:
            raise BadInputError("TwoLayerClassifier requires y to be passed, but the target y is None.")
        with self._budgeted():
            labels = column_or_1d(gathered(y, "y"), warn=True)
            if labels.dtype.kind == "f":
                check_finite(labels[:, None], "y")
            check_classification_targets(labels)
            rows = self._check(X, np.zeros(len(labels))).X if len(np.unique(labels)) < 2 else None
            targets, classes = encode_labels(labels, "multinomial")
            rows = self._check(X, targets).X if rows is None else rows
            weights = check_weights(sample_weight, len(rows))
        assert classes is not None
        self.classes_ = classes
        return self._accept(self._recover(rows, targets, weights))

    def decision_function(self, X: Any) -> Any:
        """Return log-odds against the first class.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes), or Dask array
            Of two classes the log-odds of the second; else those of every class, zero for the first.
        """
        return self._outputs(X, _scores)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of every class.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs.

        Returns
        -------
        ndarray of shape (n, n_classes), or Dask array
            Probabilities, in the order of ``classes_``.
        """
        return self._outputs(X, find_likelihood("multinomial").probabilities)

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs.

        Returns
        -------
        ndarray of shape (n,), or Dask array
            Classes.
        """
        check_is_fitted(self)
        return self._outputs(X, partial(_most_probable, self.classes_))

    def _recover(self, X: Array, Y: Array, weights: Array | None) -> Any:
        """Recover from rows in an order of their own, so that the order in which they came does not matter."""
        if weights is not None and (weights != np.round(weights)).any():
            blocks = RowBlocks.from_arrays(X, Y, weights=weights)
        else:
            counts = np.ones(len(X), dtype=int) if weights is None else weights.astype(int)
            blocks = in_own_order(X.repeat(counts, axis=0), Y.repeat(counts, axis=0))
        return recover(
            blocks,
            None,
            self.n_hidden,
            method=self.method,
            activation=self.activation,
            effort=self.effort,
            affine=self.affine,
            likelihood="logistic" if Y.shape[1] == 1 else "multinomial",
            random_state=seed_of(self.random_state),
            budget_seconds=self.budget_seconds,
        )


def _scores(outputs: Array) -> Array:
    if outputs.shape[1] == 1:
        return np.asarray(outputs[:, 0])
    return np.hstack([np.zeros((len(outputs), 1)), outputs])


def _most_probable(classes: npt.NDArray[Any], outputs: Array) -> npt.NDArray[Any]:
    return np.asarray(classes[np.hstack([np.zeros((len(outputs), 1)), outputs]).argmax(axis=1)])
