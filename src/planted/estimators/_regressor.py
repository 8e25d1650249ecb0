"""`TwoLayerRegressor`: `planted.recover` as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from planted._typing import Array
from planted._validation import CheckedData, check_weights
from planted.estimators._row_store import RowStore, in_own_order
from planted.estimators._shared import NetworkRegressor, is_collection, seed_of
from planted.moments import beside_simple_models
from planted.outcomes import BadInputError
from planted.recovery import KinkTable, half_width, kinks, prediction_noise, recover
from planted.results import Recovery

__all__ = ["TwoLayerRegressor"]


class TwoLayerRegressor(NetworkRegressor):
    """Regression by recovering a two-layer network.

    Parameters
    ----------
    n_hidden : int or "auto", default="auto"
        Number of hidden units.
    method : str, default="auto"
        One of `planted.methods`, or "auto".
    activation : str, default="relu"
        Activation of the hidden units.
    effort : {"quick", "normal", "thorough"}, default="normal"
        How much work to do, as in `planted.recover`.
    affine : bool or "auto", default="auto"
        Whether the network has a linear part beside its units, as in `planted.recover`.
    budget_seconds : float, optional
        Time limit; the best network so far is then used.
    on_insufficient_data : {"warn", "raise"}, default="warn"
        What to do when the network is not certified to be the planted one.
    options : dict, optional
        Further options of the method.
    random_state : int, RandomState or None, default=None
        Seed of the solver.

    Attributes
    ----------
    network_ : TwoLayerNetwork
        The network.
    recovery_ : Recovery
        The whole record, with evidence and uncertainty.
    kinks_ : KinkTable
        Where slopes change and by how much, in the words of the columns; see `planted.kinks`.
    n_features_in_ : int
        Number of inputs.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(80, n_features=6, n_hidden=3, n_outputs=4, law="exponential",
    ...                                 activity=(0.3, 0.7), random_state=0)
    >>> model = TwoLayerRegressor(random_state=0).fit(data.X, data.Y)
    >>> model.recovery_.outcome.name, model.network_.n_hidden
    ('RECOVERED', 3)
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
        options: dict[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.method = method
        self.activation = activation
        self.effort = effort
        self.affine = affine
        self.budget_seconds = budget_seconds
        self.on_insufficient_data = on_insufficient_data
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Recover the network.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs. Rows of Dask collections are summed where they are, in their own order, as `planted.recover` does; rows
            in memory are sorted first, so that their order does not matter.
        y : array_like of shape (n,) or (n, m), or Dask array, dataframe or series
            Outputs.
        sample_weight : array_like of shape (n,), or Dask array or series, optional
            Weights. Whole numbers count rows: 0 leaves a row out, 3 takes it three times. Others, and all weights of Dask
            collections, weigh the squared residuals, which the method must support; "auto" then stands for "restarts".

        Returns
        -------
        TwoLayerRegressor
            The fitted estimator.
        """
        self._check_policy()
        if is_collection(X):
            return self._accept(self._recover_collections(X, y, sample_weight))
        data = self._check(X, y)
        weights = check_weights(sample_weight, len(data.X))
        self._forget()
        self._vector_target = data.y_was_1d
        if weights is not None and (weights != np.round(weights)).any():
            return self._accept(self._recover_weighted(data, weights))
        rows, targets = data.X, data.Y
        if weights is not None and (weights != 1).any():
            counts = weights.astype(int)
            rows, targets = rows.repeat(counts, axis=0), targets.repeat(counts, axis=0)
        found = recover(in_own_order(rows, targets), None, self.n_hidden, **self._settings())
        return self._accept(_in_context(found, rows, targets))

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Add rows to those seen by earlier calls, and recover the network from all of them.

        The result is that of one `fit` to all rows, bit by bit, whatever the order of the calls and of the rows,
        because both sort the rows by a hash. For that all rows are kept until `fit` is called or the estimator is gone:
        in memory up to 64 MB, beyond that in a temporary file of 8 (d + m) bytes per row, with 16 bytes per row in
        memory. A copy or a pickle of the estimator contains the rows. Every call sums over all rows so far, so pass few
        large parts rather than many small ones. If a call raises because there are too few rows yet, they are kept for
        the next call.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Further inputs. Dask collections are computed, if they fit into memory.
        y : array_like of shape (n,) or (n, m), or Dask array, dataframe or series
            Further outputs.

        Returns
        -------
        TwoLayerRegressor
            The fitted estimator.

        Examples
        --------
        >>> import planted
        >>> data = planted.simulate.dataset(80, n_features=6, n_hidden=3, n_outputs=4, law="exponential",
        ...                                 activity=(0.3, 0.7), random_state=0)
        >>> model = TwoLayerRegressor(random_state=0).partial_fit(data.X[40:], data.Y[40:])
        >>> model.partial_fit(data.X[:40], data.Y[:40]).recovery_.outcome.name
        'RECOVERED'
        """
        store = getattr(self, "_rows", None)
        with self._budgeted():
            data = self._check(X, y, reset=store is None)
        if store is None:
            self._rows = store = RowStore()
        store.add(data.X, data.Y)
        self._vector_target = data.y_was_1d
        return self._accept(recover(store.blocks(), None, self.n_hidden, **self._settings()))

    @property
    def kinks_(self) -> KinkTable:
        """The table of kinks of the network; see `planted.kinks`."""
        check_is_fitted(self)
        return kinks(self.recovery_, features=getattr(self, "feature_names_in_", None))

    def predict(self, X: Any, interval: float | None = None) -> Any:
        """Evaluate the network.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs.
        interval : float, optional
            Probability, such as 0.95, with which a new output at these inputs lies in the interval; needs a fit that knows
            its noise. The noise is taken to be normal and of one variance, the error of the parameters that of an average
            sample.

        Returns
        -------
        ndarray of shape (n,) or (n, m), or Dask array
            Outputs, in the shape of the targets that were fitted; of a Dask collection a Dask array, not yet computed. With
            an interval a triple: outputs, lower ends and upper ends.
        """
        predicted = super().predict(X)
        if interval is None:
            return predicted
        half = half_width(prediction_noise(self.recovery_), interval)
        return predicted, predicted - half, predicted + half

    def _recover_collections(self, X: Any, y: Any, weights: Any) -> Recovery:
        """Recover from Dask collections without gathering their rows."""
        # The lazy door of Dask collections: only who passes one has Dask imported.
        from planted.distributed._collections import blocks_of_collections

        if y is None:
            raise BadInputError("recovery requires y to be passed, but the target y is None.")
        blocks = blocks_of_collections(X, y, weights=weights)
        validate_data(self, X._meta if hasattr(X, "columns") else X, skip_check_array=True)
        self._forget()
        self._vector_target = y.ndim == 1
        return recover(blocks, None, self.n_hidden, **self._settings())

    def _recover_weighted(self, data: CheckedData, weights: Array) -> Recovery:
        """Recover with weights that are not counts; rows of weight zero are left out."""
        seen = weights > 0
        method = "restarts" if self.method == "auto" else self.method
        settings = self._settings() | {"method": method, "sample_weight": weights[seen]}
        return recover(data.X[seen], data.Y[seen], self.n_hidden, **settings)

    def _forget(self) -> None:
        """Drop the rows that earlier calls of `partial_fit` have kept."""
        if hasattr(self, "_rows"):
            del self._rows

    def _settings(self) -> dict[str, Any]:
        """Return the options of `planted.recover`."""
        return {
            "method": self.method,
            "activation": self.activation,
            "effort": self.effort,
            "affine": self.affine,
            "random_state": seed_of(self.random_state),
            "budget_seconds": self.budget_seconds,
            **(self.options or {}),
        }


def _in_context(recovery: Recovery, X: Array, Y: Array) -> Recovery:
    """Put the network beside the mean and a straight line, in ``recovery_.stats["context"]``."""
    if recovery.network is None:
        return recovery
    context = beside_simple_models(recovery.network, X, Y, recovery.held_out_mse)
    return replace(recovery, stats={**recovery.stats, "context": context})
