r"""Are the inputs symmetric, and do they tell every pair of units apart? ([GKLW19]_)

The distinguishing matrix N has a column :math:`E[t_i t_j\, x \otimes x\, 1\{t_i t_j \le 0\}]` for each pair of units,
:math:`t_i = w_i^\top x`; the augmented matrix M adds the column :math:`E[x \otimes x]`. The network is identifiable
from moments of order four if N (noiseless) or M (noisy) has full column rank, and the number of samples needed grows
as its smallest singular value shrinks. For normal inputs of mean zero both are known in closed form; for other laws
they are averages over samples. Rows are those of svec, d(d+1)/2 instead of d², with the same singular values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planted._streams import data_streams
from planted._threads import one_thread_inside
from planted._typing import Array, Seed
from planted.linalg.symmetric import svec
from planted.methods.symmetric_inputs._theory import SymmetryTest
from planted.methods.symmetric_inputs._theory import symmetry_test as test_blocks
from planted.moments import distinguishing_sums
from planted.moments.population import gaussian_distinguishing_matrix
from planted.outcomes import BadInputError
from planted.rows import RowBlocks
from planted.simulate import Gaussian, InputLaw

__all__ = ["SymmetryTest", "augmented_matrix", "distinguishing_matrix", "symmetry_test"]

MONTE_CARLO_ROWS = 200_000


@one_thread_inside
def symmetry_test(X: Any) -> SymmetryTest:
    """Test whether x and -x are equally likely.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs.

    Returns
    -------
    SymmetryTest
        Statistic (about 1 for symmetric inputs) and p-value.

    Examples
    --------
    >>> from planted import simulate
    >>> symmetric, skewed = (simulate.inputs(2000, 4, law=law, random_state=0) for law in ("laplace", "exponential"))
    >>> symmetry_test(symmetric).p_value > 1e-3, symmetry_test(skewed).p_value < 1e-9
    (True, True)
    """
    rows = _rows_of(X)
    distinct = len(np.unique(rows, axis=0)) / len(rows)
    return test_blocks(RowBlocks.from_arrays(rows, np.zeros((len(rows), 1))), distinct=distinct)


@one_thread_inside
def distinguishing_matrix(
    W: Any, inputs: InputLaw | Any, *, n_samples: int = MONTE_CARLO_ROWS, random_state: Seed = None
) -> Array:
    """Return the distinguishing matrix N of [GKLW19]_, Definition 1.

    Parameters
    ----------
    W : array_like of shape (k, d)
        Hidden weights.
    inputs : InputLaw or array_like of shape (n, d)
        The law of the inputs, or samples of it.
    n_samples : int
        Samples drawn from a law that has no closed form here.
    random_state : int, Generator, SeedSequence or None
        Seed of these samples.

    Returns
    -------
    ndarray of shape (d(d+1)/2, k(k-1)/2)
        Columns svec(N_ij), i < j.

    Examples
    --------
    >>> from planted.simulate import Gaussian
    >>> N = distinguishing_matrix([[1.0, 0.0], [0.0, 1.0]], Gaussian(2))
    >>> bool(abs(N[0, 0] + 2 / np.pi) < 1e-12)
    True
    """
    return augmented_matrix(W, inputs, n_samples=n_samples, random_state=random_state)[:, :-1]


@one_thread_inside
def augmented_matrix(
    W: Any, inputs: InputLaw | Any, *, n_samples: int = MONTE_CARLO_ROWS, random_state: Seed = None
) -> Array:
    """Return the augmented distinguishing matrix M of [GKLW19]_: N and the column E[x ⊗ x].

    Parameters
    ----------
    W : array_like of shape (k, d)
        Hidden weights.
    inputs : InputLaw or array_like of shape (n, d)
        The law of the inputs, or samples of it.
    n_samples : int
        Samples drawn from a law that has no closed form here.
    random_state : int, Generator, SeedSequence or None
        Seed of these samples.

    Returns
    -------
    ndarray of shape (d(d+1)/2, k(k-1)/2 + 1)
        The matrix.
    """
    weights = _rows_of(W)
    d = weights.shape[1]
    if isinstance(inputs, InputLaw) and inputs.n_features != d:
        raise BadInputError(f"W has {d} columns, but the law has n_features={inputs.n_features}")
    if isinstance(inputs, Gaussian) and not np.any(inputs.mean):
        covariance = np.eye(d) if inputs.covariance is None else np.asarray(inputs.covariance)
        return np.column_stack([gaussian_distinguishing_matrix(weights, covariance), svec(covariance)])
    is_law = isinstance(inputs, InputLaw)
    rows = inputs.sample(n_samples, data_streams(random_state, 1)[0]) if is_law else _rows_of(inputs)
    if rows.shape[1] != d:
        raise BadInputError(f"W has {d} columns, but the inputs have {rows.shape[1]}")
    blocks = RowBlocks.from_arrays(rows, np.zeros((len(rows), 1)))
    return np.column_stack(distinguishing_sums(blocks, weights, np.eye(d)))


def _rows_of(values: Any) -> Array:
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise BadInputError(f"expected a matrix with rows and columns; got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise BadInputError("the matrix contains NaN or infinity; expected finite numbers")
    return rows
