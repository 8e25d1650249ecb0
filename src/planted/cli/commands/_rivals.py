"""The contenders of the demonstration: planted's answer and scikit-learn's, judged alike."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planted._typing import Array, Progress
from planted.networks import TwoLayerNetwork, match_units, parameter_error, relative_mse
from planted.reporting import Contender
from planted.simulate import Dataset

__all__ = ["N_RUNS", "Judge", "fit_rivals"]

N_RUNS = 5
# Settings under which both solvers run until they stop improving on these data (smaller tolerances, more
# iterations and no penalty than the defaults, all in the rival's favour).
RIVALS: dict[str, dict[str, Any]] = {
    "lbfgs": {"max_iter": 20_000, "max_fun": 40_000, "tol": 1e-12},
    "adam": {"max_iter": 1500, "tol": 1e-7, "n_iter_no_change": 50, "learning_rate_init": 3e-3},
}


@dataclass(frozen=True, slots=True)
class Judge:
    """The truth and fresh samples, by which every answer is judged."""

    truth: TwoLayerNetwork  # the planted network
    X: Array  # (n, d): fresh inputs that nobody was shown

    def mark(
        self, networks: Sequence[TwoLayerNetwork], *, name: str, seconds: float, claim: str
    ) -> Contender:
        """Return how far the networks of several runs are from the truth."""
        errors = tuple(parameter_error(network, self.truth) for network in networks)
        tests = tuple(relative_mse(network, self.truth, self.X) for network in networks)
        worst, best = int(np.argmax(errors)), int(np.argmin(errors))
        chosen = {"worst run": worst, "best run": best}
        # An infinite error means another number of units: there is nothing to set side by side.
        weights = {name: self._pair(networks[i]) for name, i in chosen.items() if errors[i] < float("inf")}
        return Contender(name, errors, tests, seconds, claim, weights)

    def _pair(self, network: TwoLayerNetwork) -> tuple[list[float], list[float]]:
        """True and found hidden weights of matched units."""
        matching = match_units(network, self.truth)
        found = matching.network.W[matching.permutation]
        return matching.truth.W.ravel().tolist(), found.ravel().tolist()


def fit_rivals(world: Dataset, judge: Judge, *, progress: Progress) -> tuple[Contender, ...]:
    """Fit scikit-learn's MLPRegressor, told the number of units, with both solvers and several seeds."""
    contenders = []
    for i, solver in enumerate(RIVALS):
        started = time.perf_counter()
        networks = []
        for seed in range(N_RUNS):
            done = (i * N_RUNS + seed) / (N_RUNS * len(RIVALS))
            progress(f"scikit-learn MLPRegressor, {solver}, seed {seed}", done)
            networks.append(_fit_rival(world, solver=solver, seed=seed))
        seconds = time.perf_counter() - started
        contenders.append(
            judge.mark(networks, name=f"MLPRegressor ({solver})", seconds=seconds, claim="a fit")
        )
    return tuple(contenders)


def _fit_rival(world: Dataset, *, solver: str, seed: int) -> TwoLayerNetwork:
    """Fit one MLPRegressor and read its network."""
    from sklearn.neural_network import MLPRegressor

    model = MLPRegressor(
        hidden_layer_sizes=(world.network.n_hidden,),
        activation="relu",
        solver=solver,
        alpha=0.0,
        random_state=seed,
        **RIVALS[solver],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when the iterations run out; the table shows the result
        model.fit(world.X, world.Y)
    (hidden, outputs), (biases, offset) = model.coefs_, model.intercepts_
    return TwoLayerNetwork(W=hidden.T, b=biases, A=outputs.T, c=offset)
