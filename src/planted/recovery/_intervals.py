"""How far to trust each weight (`planted.standard_errors`), and how far a prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from planted._threads import one_thread_inside
from planted._typing import Progress, Seed
from planted._validation import check_choice
from planted.fitting._jacobian import degrees_of_freedom, information
from planted.fitting._losses import check_loss, choose_loss, fit_with_loss
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import Problem, prepare_problem
from planted.fitting._sandwich import bootstrap_errors, sandwich_errors
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError
from planted.recovery._diagnose import blocks_of
from planted.results import Recovery, Unavailable, Uncertainty
from planted.rows import RowBlocks

__all__ = ["half_width", "prediction_noise", "standard_errors"]

KINDS = ("model", "sandwich", "bootstrap")


@one_thread_inside
def standard_errors(
    network: TwoLayerNetwork,
    X: Any,
    Y: Any = None,
    *,
    kind: str = "sandwich",
    loss: str = "squared",
    n_boot: int = 200,
    random_state: Seed = None,
    progress: Progress | None = None,
) -> Uncertainty | Unavailable:
    """Return standard errors of a fitted network's parameters.

    Parameters
    ----------
    network : TwoLayerNetwork
        A network fitted to these samples, as `recover` returns it.
    X : array_like of shape (n, d), DataFrame or RowBlocks
        Inputs, or a source that carries outputs too.
    Y : array_like of shape (n, m) or (n,), optional
        Outputs.
    kind : {"sandwich", "model", "bootstrap"}
        Noise of any shape; noise of one variance; refits on rows drawn with replacement.
    loss : {"squared", "huber", "cauchy", "sharp-cauchy", "l1", "auto"}
        The loss under which it was fitted; not for the bootstrap.
    n_boot : int
        Number of refits of the bootstrap.
    random_state : int, Generator, SeedSequence or None
        Seed of the bootstrap.
    progress : callable, optional
        Told about refits.

    Returns
    -------
    Uncertainty or Unavailable
        Standard errors with keys ``W, b, A, c`` (and ``B``), units in the order of ``network``, rows of W of unit norm.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(500, n_features=3, n_hidden=2, n_outputs=2, noise=0.1, random_state=0)
    >>> errors = planted.standard_errors(data.network, data.X, data.Y).standard_errors
    >>> errors["W"].shape
    (2, 3)
    """
    check_choice("kind", kind, KINDS)
    problem, fit, offset = _fitted(network, blocks_of(X, Y), check_loss(loss), random_state, progress)
    if kind == "sandwich":
        return sandwich_errors(problem, fit, offset=offset)
    if kind == "bootstrap":
        return bootstrap_errors(problem, fit, offset=offset, n_boot=n_boot)
    info = information(fit.sums, fit.network, offset=offset, units=problem.scaling)
    freedom = problem.n_samples * problem.n_outputs - degrees_of_freedom(fit.network, offset=offset)
    if info.variances is None or freedom <= 0:
        return Unavailable("The samples do not determine the network even locally.")
    variance = fit.cost / freedom
    errors = {name: np.sqrt(variance * value) for name, value in info.variances.items()}
    return Uncertainty(errors, float(np.sqrt(variance)) * problem.scaling.y_scale)


def prediction_noise(recovery: Recovery) -> tuple[float, float]:
    """Return the standard deviation of a new output about its prediction, and its degrees of freedom.

    It is that of the noise and of the error that parameters cause on average: with P free parameters and n m equations the
    mean variance of a prediction at the samples is that of the noise times P / (n m). Where no noise was estimated but
    rows were held out, their error takes its place, which no parameter was fitted to.
    """
    if isinstance(recovery.uncertainty, Uncertainty) and recovery.uncertainty.kind == "information":
        raise BadInputError(
            "no prediction interval is known: the outputs are predictors of labels, not numbers"
        )
    n, _, m = recovery.provenance.shape
    unknowns = 0 if recovery.network is None else recovery.network.n_parameters
    freedom = n * m - unknowns
    if isinstance(recovery.uncertainty, Uncertainty) and freedom > 0:
        return recovery.uncertainty.noise_std * float(np.sqrt(1 + unknowns / (n * m))), float(freedom)
    if recovery.held_out_mse is not None:
        return float(np.sqrt(recovery.held_out_mse)), float(n * m)
    reason = getattr(recovery.uncertainty, "reason", "there are too few samples")
    raise BadInputError(f"no prediction interval is known: {reason}")


def half_width(noise: tuple[float, float], probability: float) -> float:
    """Return half the width of a prediction interval, for a standard deviation and its degrees of freedom."""
    if not 0 < probability < 1:
        raise BadInputError(f"interval={probability!r}; expected a probability between 0 and 1")
    spread, freedom = noise
    return float(stats.t.ppf((1 + probability) / 2, freedom)) * spread


def _fitted(
    network: TwoLayerNetwork, blocks: RowBlocks, loss: str, random_state: Seed, progress: Progress | None
) -> tuple[Problem, Refinement, bool]:
    """Return the problem on which the network is a least-squares fit, and that fit."""
    offset = network.B is not None or bool(np.any(network.c))
    if loss == "squared":
        problem = prepare_problem(blocks, random_state=random_state, progress=progress)
        start = problem.scaling.standardise(network)
        return problem, refine(problem.blocks, start, offset=offset, max_iter=5), offset
    plain = prepare_problem(blocks, random_state=random_state, progress=progress, form="clipped")
    start = plain.scaling.standardise(network)
    name = choose_loss(plain.Y - start(plain.X))[0] if loss == "auto" else loss
    fit, _, influenced = fit_with_loss(plain, start, offset=offset, loss=name)
    return influenced, fit, offset
