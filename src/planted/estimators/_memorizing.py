"""`MemorizingRegressor` and `MemorizingClassifier`: `planted.memorize` as scikit-learn estimators."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from planted._typing import Array
from planted._validation import CheckedData, check_finite
from planted.estimators._shared import NetworkEstimator, NetworkRegressor, gathered, seed_of, warn_of_outcome
from planted.memorization._memorize import memorize
from planted.memorization._result import MemoryOutcome
from planted.outcomes import BadInputError, DataWarning

__all__ = ["MemorizingClassifier", "MemorizingRegressor"]

_SATISFIED = (MemoryOutcome.MEMORISED, MemoryOutcome.FITTED)


class _Memorizing(NetworkEstimator):
    """The parameters of both estimators, and the call of `planted.memorize`."""

    def __init__(
        self,
        layers: int = 2,
        solver: str = "auto",
        *,
        bias: bool = True,
        tol: float = 1e-12,
        budget_seconds: float | None = None,
        options: dict[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.layers = layers
        self.solver = solver
        self.bias = bias
        self.tol = tol
        self.budget_seconds = budget_seconds
        self.options = options
        self.random_state = random_state

    def _memorize(self, data: CheckedData, targets: Array) -> Self:
        """Memorise, warn if the labels were not reproduced, and keep the record."""
        options = dict(self.options or {})
        if self.budget_seconds is not None:
            options["budget_seconds"] = self.budget_seconds
        with warnings.catch_warnings():
            # Constant columns were reported when the samples were checked; the second check need not say it again.
            warnings.simplefilter("ignore", DataWarning)
            memory = memorize(
                data.X,
                targets,
                layers=self.layers,
                solver=self.solver,
                bias=self.bias,
                tol=self.tol,
                random_state=seed_of(self.random_state),
                **options,
            )
        if memory.outcome not in _SATISFIED:
            warn_of_outcome(memory.outcome, memory.detail)
        self.network_ = memory.network
        self.memory_ = memory
        return self


class MemorizingRegressor(NetworkRegressor, _Memorizing):
    """Regression by a small quadratic network that reproduces every label.

    Parameters
    ----------
    layers : {2, 3}, default=2
        Two layers memorise up to (d+1)(d+2)/2 labels; three layers more, on random features.
    solver : str, default="auto"
        As in `planted.memorize`; ``"low-rank"`` and ``"ridge"`` generalise instead of memorising.
    bias : bool, default=True
        Whether units may have biases and the output an offset.
    tol : float, default=1e-12
        Relative loss at which labels count as memorised.
    budget_seconds : float, optional
        Time limit; the best network so far is then used, with a warning.
    options : dict, optional
        Options of the solver and of the random features.
    random_state : int, RandomState or None, default=None
        Seed of random features and solver.

    Attributes
    ----------
    network_ : TwoLayerNetwork or ThreeLayerNetwork
        The network.
    memory_ : Memory
        The whole record.
    n_features_in_ : int
        Number of inputs.

    Examples
    --------
    >>> import planted
    >>> X = planted.simulate.inputs(30, n_features=8, random_state=0)
    >>> model = MemorizingRegressor().fit(X, X[:, 0] * X[:, 1])
    >>> model.memory_.outcome.name, round(model.score(X, X[:, 0] * X[:, 1]), 6)
    ('MEMORISED', 1.0)
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Memorise the labels.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs. To memorise needs all rows at once: Dask collections are computed, if they fit into memory.
        y : array_like of shape (n,) or (n, m), or Dask array, dataframe or series
            Labels.

        Returns
        -------
        MemorizingRegressor
            The fitted estimator.
        """
        with self._budgeted():
            data = self._check(X, y)
            self._vector_target = data.y_was_1d
            return self._memorize(data, data.Y)


class MemorizingClassifier(ClassifierMixin, _Memorizing):  # type: ignore[misc]
    """Classification by a small quadratic network that reproduces every class.

    Parameters
    ----------
    layers : {2, 3}, default=2
        Two layers memorise up to (d+1)(d+2)/2 labels; three layers more, on random features.
    solver : str, default="auto"
        As in `planted.memorize`.
    targets : {"auto", "one-hot", "sign"}, default="auto"
        One output per class, 1 for the class and 0 for others, or ±1 for two classes ("auto": ±1 where there are two).
    bias : bool, default=True
        Whether units may have biases and the output an offset.
    tol : float, default=1e-12
        Relative loss at which labels count as memorised.
    budget_seconds : float, optional
        Time limit; the best network so far is then used, with a warning.
    options : dict, optional
        Options of the solver and of the random features.
    random_state : int, RandomState or None, default=None
        Seed of random features and solver.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    network_ : TwoLayerNetwork or ThreeLayerNetwork
        The network.
    memory_ : Memory
        The whole record.
    n_features_in_ : int
        Number of inputs.

    Examples
    --------
    >>> import planted
    >>> X = planted.simulate.inputs(30, n_features=8, random_state=0)
    >>> classes = np.where(X[:, 0] > 0, "left", "right")
    >>> MemorizingClassifier().fit(X, classes).score(X, classes)
    1.0
    """

    def __init__(
        self,
        layers: int = 2,
        solver: str = "auto",
        *,
        targets: str = "auto",
        bias: bool = True,
        tol: float = 1e-12,
        budget_seconds: float | None = None,
        options: dict[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            layers,
            solver,
            bias=bias,
            tol=tol,
            budget_seconds=budget_seconds,
            options=options,
            random_state=random_state,
        )
        self.targets = targets

    def fit(self, X: Any, y: Any) -> Self:
        """Memorise the classes.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs. To memorise needs all rows at once: Dask collections are computed, if they fit into memory.
        y : array_like of shape (n,), or Dask array or series
            Classes of any kind.

        Returns
        -------
        MemorizingClassifier
            The fitted estimator.
        """
        if y is None:
            raise BadInputError("MemorizingClassifier requires y to be passed, but the target y is None.")
        with self._budgeted():
            labels = column_or_1d(gathered(y, "y"), warn=True)
            if labels.dtype.kind == "f":
                check_finite(labels[:, None], "y")
            check_classification_targets(labels)
            self.classes_, codes = np.unique(labels, return_inverse=True)
            return self._memorize(self._check(X, codes), self._encode(codes))

    def decision_function(self, X: Any) -> Any:
        """Return the outputs by which classes are chosen.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes), or Dask array
            Positive for the second of two classes; else the largest belongs to the class. Of a Dask collection a Dask
            array, not yet computed.
        """
        return self._outputs(X, _scores)

    def predict(self, X: Any) -> Any:
        """Return the class of each row.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs.

        Returns
        -------
        ndarray of shape (n,), or Dask array
            Classes; of a Dask collection a Dask array, not yet computed.
        """
        check_is_fitted(self)
        return self._outputs(X, partial(_chosen, self.classes_))

    def _encode(self, codes: Any) -> Array:
        """Return ±1 or one-hot targets."""
        n_classes = len(self.classes_)
        if self.targets not in ("auto", "one-hot", "sign"):
            raise BadInputError(f"targets={self.targets!r}; expected 'auto', 'one-hot' or 'sign'")
        if self.targets == "sign" and n_classes != 2:
            raise BadInputError(f"targets='sign' needs 2 classes; y has {n_classes}. Use targets='one-hot'.")
        if n_classes < 2:
            raise BadInputError(f"y has {n_classes} class only; a classifier needs at least 2 classes.")
        if n_classes == 2 and self.targets != "one-hot":
            return np.where(codes == 1, 1.0, -1.0)[:, None]
        return np.asarray(np.eye(n_classes)[codes])


def _scores(outputs: Array) -> Array:
    """Return one score for two classes, else the outputs, one for each class."""
    if outputs.shape[1] > 2:
        return outputs
    return np.asarray(outputs[:, 0] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0])


def _chosen(classes: npt.NDArray[Any], outputs: Array) -> npt.NDArray[Any]:
    """Return the class of each row of outputs."""
    scores = _scores(outputs)
    return np.asarray(classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)])
