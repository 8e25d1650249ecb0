"""The contenders of the demonstration: planted's answer and scikit-learn's, judged alike."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

from planted._typing import Array, Progress
from planted.networks import TwoLayerNetwork, match_units, parameter_error, relative_mse
from planted.reporting import Contender
from planted.simulate import Dataset

__all__ = ["Judge", "fit_rivals"]

N_SEEDS = 4
# Settings under which both solvers run until they stop improving on these data (smaller tolerances, more
# iterations and no penalty than the defaults, all in the rival's favour).
RIVALS: dict[str, dict[str, Any]] = {
    "lbfgs": {"max_iter": 4000, "max_fun": 8000, "tol": 1e-9},
    "adam": {"max_iter": 1500, "tol": 1e-7, "n_iter_no_change": 50, "learning_rate_init": 3e-3},
}


@dataclass(frozen=True, slots=True)
class Judge:
    """The truth and fresh samples, by which every answer is judged.

    Parameters
    ----------
    truth : TwoLayerNetwork
        The planted network.
    X : ndarray of shape (n, d)
        Fresh inputs that nobody was shown.
    """

    truth: TwoLayerNetwork
    X: Array

    def mark(self, network: TwoLayerNetwork, *, name: str, seconds: float, claim: str) -> Contender:
        """Return how far a network is from the truth."""
        true: tuple[float, ...] = ()
        found: tuple[float, ...] = ()
        error = parameter_error(network, self.truth)
        if error < float("inf"):  # infinite: another number of units, nothing to set side by side
            matching = match_units(network, self.truth)
            true = tuple(matching.truth.W.ravel().tolist())
            found = tuple(matching.network.W[matching.permutation].ravel().tolist())
        test = float(relative_mse(network, self.truth, self.X))
        return Contender(name, error, test, seconds, claim, true, found)


def fit_rivals(world: Dataset, judge: Judge, *, progress: Progress) -> tuple[Contender, ...]:
    """Fit scikit-learn's MLPRegressor with both solvers; the seed best on the fresh samples counts."""
    best = []
    n_runs = N_SEEDS * len(RIVALS)
    for i, solver in enumerate(RIVALS):
        attempts = []
        for seed in range(N_SEEDS):
            progress(f"scikit-learn MLPRegressor, {solver}, seed {seed}", (i * N_SEEDS + seed) / n_runs)
            attempts.append(_fit_rival(world, judge, solver=solver, seed=seed))
        spent = sum(item.seconds for item in attempts)
        winner = min(attempts, key=lambda item: item.test_error)
        name = f"MLPRegressor, {solver}"
        claim = f"a fit (best of {N_SEEDS} seeds, told k)"
        best.append(
            Contender(
                name,
                winner.parameter_error,
                winner.test_error,
                spent,
                claim,
                winner.true_weights,
                winner.found_weights,
            )
        )
    return tuple(best)


def _fit_rival(world: Dataset, judge: Judge, *, solver: str, seed: int) -> Contender:
    """Fit one MLPRegressor, told the number of hidden units, and read its network."""
    from sklearn.neural_network import MLPRegressor

    model = MLPRegressor(
        hidden_layer_sizes=(world.network.n_hidden,),
        activation="relu",
        solver=solver,
        alpha=0.0,
        random_state=seed,
        **RIVALS[solver],
    )
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when the iterations run out; the table shows the result
        model.fit(world.X, world.Y)
    seconds = time.perf_counter() - started
    (hidden, outputs), (biases, offset) = model.coefs_, model.intercepts_
    network = TwoLayerNetwork(W=hidden.T, b=biases, A=outputs.T, c=offset)
    return judge.mark(network, name=solver, seconds=seconds, claim="a fit")
