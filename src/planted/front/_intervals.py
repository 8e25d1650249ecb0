"""`planted.standard_errors`: how far to trust each weight, under the assumption you are willing to make."""

from __future__ import annotations

from typing import Any

import numpy as np

from planted._typing import Progress, Seed
from planted.algorithms._problem import prepare_problem
from planted.algorithms.certificate import degrees_of_freedom
from planted.algorithms.refine import refine
from planted.algorithms.sandwich import bootstrap_errors, sandwich_errors
from planted.algorithms.uncertainty import information
from planted.front._blocks import blocks_of
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError
from planted.results import Unavailable, Uncertainty

__all__ = ["standard_errors"]

KINDS = ("model", "sandwich", "bootstrap")


def standard_errors(
    network: TwoLayerNetwork,
    X: Any,
    Y: Any = None,
    *,
    kind: str = "sandwich",
    n_boot: int = 200,
    random_state: Seed = None,
    progress: Progress | None = None,
) -> Uncertainty | Unavailable:
    """Return standard errors of a least-squares network's parameters.

    Parameters
    ----------
    network : TwoLayerNetwork
        A network fitted to these samples by least squares, as `recover` returns it.
    X : array_like of shape (n, d), DataFrame or RowBlocks
        Inputs, or a source that carries outputs too.
    Y : array_like of shape (n, m) or (n,), optional
        Outputs.
    kind : {"sandwich", "model", "bootstrap"}
        Noise of any shape; noise of one variance; refits on rows drawn with replacement.
    n_boot : int
        Number of refits of the bootstrap.
    random_state : int, Generator, SeedSequence or None
        Seed of the bootstrap.
    progress : callable, optional
        Told about refits.

    Returns
    -------
    Uncertainty or Unavailable
        Standard errors with keys ``W, b, A, c``, units in the order of ``network``, rows of W of unit norm.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(500, n_features=3, n_hidden=2, n_outputs=2, noise=0.1, random_state=0)
    >>> errors = planted.standard_errors(data.network, data.X, data.Y).standard_errors
    >>> errors["W"].shape
    (2, 3)
    """
    if kind not in KINDS:
        raise BadInputError(f"kind={kind!r}; expected one of {', '.join(KINDS)}")
    problem = prepare_problem(blocks_of(X, Y), random_state=random_state, progress=progress)
    offset = bool(np.any(network.c))
    fit = refine(problem.blocks, problem.scaling.standardise(network), offset=offset, max_iter=5)
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
