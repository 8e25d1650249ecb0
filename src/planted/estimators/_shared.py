"""What the estimators have in common: the check of the samples, the seed, the warning, and the prediction.

Dask collections are taken wherever arrays are. `TwoLayerRegressor.fit` sums over them where they are. What needs all rows at
once (the memorising estimators, `partial_fit`) computes them here, in `NetworkEstimator._check`, if they fit into memory.
Predictions for a collection are a Dask array, which is computed when it is asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from planted._clock import StopRequested, time_budget
from planted._typing import Array, Seed
from planted._validation import CheckedData, check_features, check_rows
from planted.moments import say_beside_a_line
from planted.outcomes import BadInputError, BadInputTypeError, Outcome, RecoveryError, RecoveryWarning
from planted.results import Recovery

__all__ = ["NetworkEstimator", "NetworkRegressor", "gathered", "is_collection", "seed_of", "warn_of_outcome"]


class NetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose `fit` finds a network, kept as ``network_``."""

    def _check(self, X: Any, y: Any, *, reset: bool = True) -> CheckedData:
        """Check samples and remember the number and the names of the inputs, or compare with those of before.

        Complex numbers raise a ValueError, which is what scikit-learn's estimators raise.
        """
        X, y = gathered(X, "X"), gathered(y, "y")
        try:
            data = check_rows(X, y, y_name="y")
        except BadInputTypeError as error:
            if np.iscomplexobj(X) or np.iscomplexobj(y):
                raise BadInputError(str(error)) from error
            raise
        validate_data(self, X, reset=reset, skip_check_array=True)
        return data

    @contextmanager
    def _budgeted(self) -> Iterator[None]:
        """Limit the time of all of `fit`; if it ends while rows are still on their way, there is no network."""
        try:
            with time_budget(self.budget_seconds):
                yield
        except StopRequested as stop:
            raise RecoveryError(Outcome.STOPPED_EARLY, f"Stopped: {stop}.") from stop

    def _check_policy(self) -> None:
        """Refuse a policy on networks that are not certified that is none."""
        policies = StrOptions({"warn", "raise"})
        if not policies.is_satisfied_by(self.on_insufficient_data):
            raise ValueError(f"on_insufficient_data={self.on_insufficient_data!r}; expected {policies}")

    def _accept(self, recovery: Recovery) -> Self:
        """Store a network, or say why there is none."""
        if recovery.network is None:
            raise RecoveryError(recovery.outcome, recovery.detail)
        if recovery.outcome is not Outcome.RECOVERED:
            if self.on_insufficient_data == "raise":
                raise RecoveryError(recovery.outcome, recovery.detail)
            advice = say_beside_a_line(recovery.stats.get("context", ()))
            warn_of_outcome(
                recovery.outcome, recovery.detail, advice if recovery.outcome is Outcome.FITTED else ""
            )
        self.network_ = recovery.network
        self.recovery_ = recovery
        return self

    def _outputs(self, X: Any, read: Callable[[Array], npt.NDArray[Any]] = np.asarray) -> Any:
        """Evaluate the network on checked inputs and read the answer off its outputs (n, m).

        A Dask collection gives a Dask array, which is not computed here.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        evaluate = _Evaluation(
            self.network_,
            self.n_features_in_,
            None if names is None else tuple(names),
            type(self).__name__,
            read,
        )
        if not is_collection(X):
            return evaluate(X)
        if hasattr(X, "columns"):
            validate_data(self, X._meta, reset=False, skip_check_array=True)
        elif X.ndim != 2 or X.shape[1] != self.n_features_in_:
            evaluate(np.zeros((1, *X.shape[1:])))  # refuses them as it refuses arrays
        # The lazy door of Dask collections: only who passes one has Dask imported.
        from planted.distributed._collections import mapped_rows

        return mapped_rows(evaluate, X, empty=read(np.zeros((0, self.network_.n_outputs))))


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """The network of an estimator with its checks, without the rest of the estimator: what travels to a worker."""

    network: Any
    n_features: int
    feature_names: tuple[str, ...] | None
    owner: str
    read: Callable[[Array], npt.NDArray[Any]]  # from the outputs (n, m) to the answer

    def __call__(self, X: Any) -> npt.NDArray[Any]:
        rows = check_features(X, self.n_features, self.feature_names, owner=self.owner)
        return self.read(np.asarray(self.network(rows)))


class NetworkRegressor(MultiOutputMixin, RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """A regressor whose predictions are the outputs of its network."""

    def predict(self, X: Any) -> Any:
        """Evaluate the network.

        Parameters
        ----------
        X : array_like of shape (n, d), or Dask array or dataframe
            Inputs.

        Returns
        -------
        ndarray of shape (n,) or (n, m), or Dask array
            Outputs, in the shape of the targets that were fitted; of a Dask collection a Dask array, not yet computed.
        """
        return self._outputs(X, _first_output if getattr(self, "_vector_target", False) else np.asarray)


def _first_output(outputs: Array) -> Array:
    return np.asarray(outputs[:, 0])


def is_collection(data: Any) -> bool:
    """Return whether the data are a Dask collection."""
    return hasattr(data, "__dask_graph__")


def gathered(data: Any, label: str) -> Any:
    """Compute a Dask collection for work that needs all rows at once, if they fit into memory; return others as they are."""
    if not is_collection(data):
        return data
    from planted.distributed._collections import gathered as gather_collection

    return gather_collection(data, label)


def seed_of(random_state: Any) -> Seed:
    """Return a seed of planted for a ``random_state`` of scikit-learn, whose generators are drawn from once."""
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:
        return int(check_random_state(random_state).randint(2**31 - 1))
    seed: Seed = random_state
    return seed


def warn_of_outcome(outcome: Any, detail: str, advice: str = "") -> None:
    """Warn that the fit did not end as one would wish; called by a step of `fit`. `advice`: instead of the usual one."""
    warnings.warn(f"{outcome.name}: {detail} {advice or outcome.advice}", RecoveryWarning, stacklevel=4)
