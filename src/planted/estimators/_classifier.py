"""`TwoLayerClassifier`: `planted.recover` from class labels as a scikit-learn estimator."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from planted._typing import Array
from planted._validation import check_finite, check_weights
from planted.estimators._row_store import in_own_order
from planted.estimators._shared import NetworkEstimator, gathered, seed_of, warn_of_outcome
from planted.fitting.likelihoods._families import find_likelihood
from planted.outcomes import BadInputError, Outcome, RecoveryError
from planted.recovery import encode_labels, recover
from planted.rows import RowBlocks

__all__ = ["TwoLayerClassifier"]


class TwoLayerClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """Classification by a two-layer network of log-odds, fitted by maximum likelihood.

    Parameters
    ----------
    n_hidden : int or "auto", default="auto"
        Number of hidden units.
    method : str, default="auto"
        One of `planted.methods` that takes class labels, or "auto".
    activation : str, default="relu"
        Activation of the hidden units.
    effort : {"quick", "normal", "thorough"}, default="normal"
        How much work to do. "quick" makes one attempt, and uses a fixed ridge where labels are few.
    affine : bool or "auto", default="auto"
        Whether the network has a linear part beside its units, as in `planted.recover`.
    budget_seconds : float, optional
        Time limit; the best network so far is then used.
    on_insufficient_data : {"warn", "raise"}, default="warn"
        What to do when the network is not certified to be the planted one.
    random_state : int, RandomState or None, default=None
        Seed of the solver.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    network_ : TwoLayerNetwork
        The network; its outputs are the log-odds of all classes but the first against the first.
    recovery_ : Recovery
        The whole record, with evidence and uncertainty.
    n_features_in_ : int
        Number of inputs.

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
            Weights. Whole numbers count rows: 0 leaves a row out, 3 takes it three times. Others weigh the likelihood.

        Returns
        -------
        TwoLayerClassifier
            The fitted estimator.
        """
        policies = StrOptions({"warn", "raise"})
        if not policies.is_satisfied_by(self.on_insufficient_data):
            raise ValueError(f"on_insufficient_data={self.on_insufficient_data!r}; expected {policies}")
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

    def _accept(self, recovery: Any) -> Self:
        """Store a network, or say why there is none."""
        if recovery.network is None:
            raise RecoveryError(recovery.outcome, recovery.detail)
        if recovery.outcome is not Outcome.RECOVERED:
            if self.on_insufficient_data == "raise":
                raise RecoveryError(recovery.outcome, recovery.detail)
            warn_of_outcome(recovery.outcome, recovery.detail)
        self.network_ = recovery.network
        self.recovery_ = recovery
        return self


def _scores(outputs: Array) -> Array:
    if outputs.shape[1] == 1:
        return np.asarray(outputs[:, 0])
    return np.hstack([np.zeros((len(outputs), 1)), outputs])


def _most_probable(classes: npt.NDArray[Any], outputs: Array) -> npt.NDArray[Any]:
    return np.asarray(classes[np.hstack([np.zeros((len(outputs), 1)), outputs]).argmax(axis=1)])
