"""Independent components: exact for exactly independent samples, equal to scikit-learn's FastICA."""

import itertools

import numpy as np
import pytest
from sklearn.decomposition import FastICA

from planted.linalg import independent_components

MIXING = np.array([[1.0, 2.0, 0.5], [-1.0, 1.0, 0.0], [0.3, 0.2, 2.0]])


def is_permutation(matrix, atol):
    """Whether a matrix has one entry of absolute value one in each row and column, zeros elsewhere."""
    order = np.abs(matrix).argmax(axis=1)
    expected = np.eye(len(matrix))[order] * np.sign(matrix[np.arange(len(matrix)), order])[:, None]
    return sorted(order) == list(range(len(matrix))) and np.abs(matrix - expected).max() < atol


def test_exactly_independent_samples_are_separated_exactly():
    """All combinations of seven values of three sources, once each: every sample moment factorises."""
    values = np.maximum(np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]), 0.0)
    sources = np.array(list(itertools.product(values, repeat=3)))
    found = independent_components(sources @ MIXING.T, np.random.default_rng(1), tol=1e-15)
    gain = found.unmixing @ MIXING * sources.std(axis=0)
    # 1 - cosine below 1e-15 leaves an angle of 4e-8 at most.
    assert is_permutation(gain, 1e-7)
    assert (gain.max(axis=1) > 0.5).all(), "components of positive skewness keep their sign"


def test_it_agrees_with_fastica():
    rng = np.random.default_rng(4)
    sources = np.maximum(rng.standard_normal((4000, 3)), 0.0)
    Z = sources @ MIXING.T
    ours = independent_components(Z, np.random.default_rng(1), tol=1e-12)
    theirs = FastICA(random_state=0, whiten="unit-variance", tol=1e-12, max_iter=1000).fit(Z).components_
    # The same stationary points of the same sample function.
    assert ours.converged
    assert is_permutation(ours.unmixing @ np.linalg.inv(theirs), 1e-5)


def test_normal_sources_do_not_pretend_to_converge():
    Z = np.random.default_rng(0).standard_normal((300, 4))
    found = independent_components(Z, np.random.default_rng(1), max_iter=2)
    assert found.iterations == 2
    assert not found.converged


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    sources = np.maximum(np.random.default_rng(4).standard_normal((1000, 3)), 0.0)
    plain = independent_components(sources, np.random.default_rng(1), tol=1e-12)
    scaled = independent_components(sources * scale, np.random.default_rng(1), tol=1e-12)
    np.testing.assert_allclose(scaled.unmixing * scale, plain.unmixing, rtol=0, atol=1e-5)
