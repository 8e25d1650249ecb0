"""Independent components: exact for exactly independent samples, the stationary points of the cited iteration."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from planted.methods.ica._components import separate

MIXING = np.array([[1.0, 2.0, 0.5], [-1.0, 1.0, 0.0], [0.3, 0.2, 2.0]])


def is_permutation(matrix, atol):
    """Whether a matrix has one entry of absolute value one in each row and column, zeros elsewhere."""
    order = np.abs(matrix).argmax(axis=1)
    expected = np.eye(len(matrix))[order] * np.sign(matrix[np.arange(len(matrix)), order])[:, None]
    return sorted(order) == list(range(len(matrix))) and np.abs(matrix - expected).max() < atol


def fixed_point(Z, rng, steps=100):
    """The iteration of Hyvärinen (1999): w ← E[z tanh(w'z)] - E[1 - tanh²(w'z)] w, then W ← (WW')^(-1/2) W."""
    centred = Z - Z.mean(axis=0)
    _, values, right = np.linalg.svd(centred, full_matrices=False)
    whitening = right.T / values * np.sqrt(len(Z))
    white = centred @ whitening
    W = np.linalg.qr(rng.standard_normal((Z.shape[1], Z.shape[1])))[0]
    for _ in range(steps):
        slope = np.tanh(white @ W.T)
        left, _, turned = np.linalg.svd(
            slope.T @ white / len(Z) - (1 - slope**2).mean(axis=0)[:, None] * W, full_matrices=False
        )
        W = left @ turned
    return W @ whitening.T


def test_exactly_independent_samples_are_separated_exactly():
    """All combinations of seven values of three sources, once each: every sample moment factorises."""
    values = np.maximum(np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]), 0.0)
    sources = np.array(list(itertools.product(values, repeat=3)))
    found = separate(sources @ MIXING.T, np.random.default_rng(1), tol=1e-15)
    gain = found.unmixing @ MIXING * sources.std(axis=0)
    # 1 - cosine below 1e-15 leaves an angle of 4e-8 at most.
    assert is_permutation(gain, 1e-7)
    assert (gain.max(axis=1) > 0.5).all(), "components of positive skewness keep their sign"


def test_it_ends_at_a_stationary_point_of_the_cited_iteration():
    rng = np.random.default_rng(4)
    sources = np.maximum(rng.standard_normal((4000, 3)), 0.0)
    Z = sources @ MIXING.T
    found = separate(Z, np.random.default_rng(1), tol=1e-12)
    # The same stationary points of the same sample function.
    assert found.converged
    assert is_permutation(found.unmixing @ np.linalg.inv(fixed_point(Z, np.random.default_rng(2))), 1e-5)


def test_components_have_unit_variance_positive_skewness_and_are_uncorrelated():
    rng = np.random.default_rng(0)
    sources = rng.exponential(size=(4000, 3)) * [1.0, -2.0, 0.5]
    mixed = sources @ rng.standard_normal((3, 3)) + [5.0, -3.0, 100.0]
    found = separate(mixed, np.random.default_rng(1))
    parts = (mixed - mixed.mean(axis=0)) @ found.unmixing.T
    np.testing.assert_allclose(parts.T @ parts / 4000, np.eye(3), atol=1e-10)
    assert ((parts**3).mean(axis=0) > 1).all() and found.converged and 2 < found.iterations < 200
    correlations = np.abs(np.corrcoef(parts.T, sources.T)[:3, 3:])
    assert sorted(correlations.argmax(axis=1)) == [0, 1, 2] and correlations.max(axis=1).min() > 0.99


def test_normal_sources_do_not_pretend_to_converge():
    """Warnings are errors in the tests: that of scikit-learn must have become the flag."""
    Z = np.random.default_rng(0).standard_normal((300, 4))
    found = separate(Z, np.random.default_rng(1), max_iter=2)
    assert found.iterations == 2
    assert not found.converged


def test_the_iteration_ends_where_its_limits_say():
    Z = np.random.default_rng(2).exponential(size=(500, 2))
    stopped = separate(Z, np.random.default_rng(3), max_iter=1)
    assert stopped.iterations == 1 and not stopped.converged
    loose = separate(Z, np.random.default_rng(3), tol=2.0)
    assert loose.iterations == 1 and loose.converged
    tight = separate(Z, np.random.default_rng(3), tol=1e-12)
    plain = separate(Z, np.random.default_rng(3))
    assert loose.iterations < plain.iterations < tight.iterations


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    sources = np.maximum(np.random.default_rng(4).standard_normal((1000, 3)), 0.0)
    plain = separate(sources, np.random.default_rng(1), tol=1e-12)
    scaled = separate(sources * scale, np.random.default_rng(1), tol=1e-12)
    np.testing.assert_allclose(scaled.unmixing * scale, plain.unmixing, rtol=0, atol=1e-5)


def test_the_stream_decides_the_start():
    """The same stream gives the same bits; the stream moves on by one draw."""
    Z = np.random.default_rng(2).exponential(size=(500, 3))
    one, again = (separate(Z, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one.unmixing, again.unmixing)
    stream = np.random.default_rng(3)
    first, second = (separate(Z, stream, max_iter=1).unmixing for _ in range(2))
    assert not np.array_equal(first, second)


def test_scikit_learn_is_imported_at_the_first_call_only():
    script = "import sys, planted.methods.ica; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
