"""Test whether wrong labels are independent of x and of each other.

Problem     A network reproduces most labels of an output exactly and misses the others. The missed labels may be
            called gross errors only if their places have nothing to do with x: a wrong output weight, or a unit that
            few outputs see, also leaves most labels right and is wrong exactly where that unit is on.
Idea        The indicator of a wrong label is regressed on functions of x: the inputs, their squares and products
            while these are few, the patterns of the network's own units, and half-spaces drawn at random. If the
            places are random, the explained part follows an F distribution; the smallest p-value over outputs, times
            their number, must not be tiny.

            A unit that is on in only a few samples leaves too little for that test, but it makes most outputs of
            these samples wrong at once. If errors fall independently, the number of wrong labels in a sample is
            binomial. For every c the number of samples with at least c wrong labels is compared with that law.
Guarantee   Heuristic. Errors that do depend on x are refused as well, because counting cannot tell which labels to
            believe.
Cost        One regression with some hundred features on the rows in memory.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, stats

from planted._typing import Array, BoolArray, as_array
from planted.checks import Check
from planted.linalg import svec_outer, unit_rows
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.results import Evidence

__all__ = ["errors_ignore_each_other", "errors_ignore_inputs"]

LEVEL = 1e-3
MAX_PRODUCTS = 150
N_HALF_SPACES = 40
ROWS_PER_FEATURE = 5
NAME = "p-value of the test that the places of wrong labels ignore x"
CROWDING = "p-value of the test that wrong labels do not crowd in the same samples"


def errors_ignore_inputs(X: Array, is_wrong: BoolArray, network: TwoLayerNetwork) -> Evidence:
    """Test whether the places of wrong labels depend on x.

    The evidence measures the smallest p-value over outputs times their number. Shapes: X (n, d), is_wrong (n, m).
    """
    counts = is_wrong.sum(axis=0)
    tested = is_wrong[:, (counts > 0) & (counts < len(X))].astype(np.float64)
    if not tested.shape[1]:
        return Evidence(NAME, 1.0, LEVEL, ">=", "no label is wrong", key=Check.WRONG_LABELS_IGNORE_INPUTS)
    Q = _features(X, network)
    freedom = len(X) - Q.shape[1]
    centred = tested - tested.mean(axis=0)
    explained = ((Q[:, 1:].T @ centred) ** 2).sum(axis=0)
    rest = (centred**2).sum(axis=0) - explained
    ratio = explained / (Q.shape[1] - 1) / np.maximum(rest / max(freedom, 1), np.finfo(float).tiny)
    p_values = stats.f.sf(ratio, Q.shape[1] - 1, max(freedom, 1))
    return Evidence(
        NAME,
        float(min(p_values.min() * len(p_values), 1.0)),
        LEVEL,
        ">=",
        "F test",
        key=Check.WRONG_LABELS_IGNORE_INPUTS,
    )


def errors_ignore_each_other(is_wrong: BoolArray) -> Evidence:
    """Test whether wrong labels crowd in the same samples.

    The evidence measures the smallest p-value over the numbers of wrong labels in a sample, times how many numbers
    were tried. Shapes: is_wrong (n, m).
    """
    n, m = is_wrong.shape
    in_sample = is_wrong.sum(axis=1)
    sizes = np.arange(2, m + 1)
    crowded = (in_sample[:, None] >= sizes).sum(axis=0)
    chances = stats.binom.sf(sizes - 1, m, is_wrong.mean())
    p_values = np.where(crowded > 0, stats.binom.sf(crowded - 1, n, chances), 1.0)
    smallest = float(p_values.min(initial=1.0))
    return Evidence(
        CROWDING,
        min(smallest * max(len(sizes), 1), 1.0),
        LEVEL,
        ">=",
        "binomial law",
        key=Check.WRONG_LABELS_APART,
    )


def _features(X: Array, network: TwoLayerNetwork) -> Array:
    """Orthonormal functions of x, the constant first; at most one for every `ROWS_PER_FEATURE` rows."""
    n, d = X.shape
    # The features of the test are fixed, so that the verdict on given labels does not depend on a seed.
    rng = np.random.default_rng(0)
    W = rng.standard_normal((N_HALF_SPACES, d))
    half_spaces = rng.uniform(-1, 1, N_HALF_SPACES) < X @ unit_rows(W)[0].T
    products = svec_outer(X) if d * (d + 1) // 2 <= MAX_PRODUCTS else X**2
    patterns = network.preactivations(X) > 0
    columns = np.hstack([augment(X)[:, ::-1], patterns, half_spaces, products])
    columns = columns[:, : max(n // ROWS_PER_FEATURE, d + 1)]
    Q, R = linalg.qr(columns, mode="economic", check_finite=False)[:2]
    return as_array(Q[:, np.abs(np.diag(R)) > 1e-8 * np.abs(R[0, 0])])
