"""Networks of labels: of several maxima all rows choose, also where units are nearly parallel."""

import numpy as np
import pytest
from scipy.special import expit

import planted
from planted.fitting.likelihoods._families import find_likelihood
from planted.fitting.likelihoods._fit import LabelRows, sum_labels
from planted.fitting.likelihoods._path import fit_from
from planted.rows import RowBlocks


@pytest.mark.parametrize("seed", [52017])
def test_the_answer_is_as_likely_as_the_maximum_beside_the_truth(seed: int) -> None:
    """Two units 27 degrees apart: beside a free linear part the best maximum of half of the rows is another one."""
    truth = planted.simulate.teacher(5, 3, 1, activity=(0.3, 0.7), outputs="magnitudes", random_state=seed)
    rng = np.random.default_rng([seed, 5, 3, 9])
    X = rng.standard_normal((20_000, 5))
    A = 2 * truth.A
    truth = planted.TwoLayerNetwork(truth.W, truth.b, A, 2 * truth.c - np.median(2 * truth(X), axis=0))
    eta = truth(X)
    Y = (rng.random(eta.shape) < expit(eta)).astype(float)
    labels = np.where(Y[:, 0] > 0, "yes", "no")
    answer = planted.recover(X, labels, 3, likelihood="logistic", random_state=10_000 + seed)
    rows = LabelRows(RowBlocks.from_arrays(X, Y), len(X), find_likelihood("logistic"))
    beside = fit_from(rows, truth)
    # Half a nat of it is what averaging over errors costs, and what small maxima of kinks differ by.
    assert sum_labels(rows, answer.network).loss < beside.sums.loss + 1.0
