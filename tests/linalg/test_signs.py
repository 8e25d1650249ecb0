"""The search for units to turn round, against trying every choice."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planted.linalg.signs import LARGEST_BLOCK, find_flips


def first_by_trial(columns, target, preferred):
    for departures in itertools.product([False, True], repeat=preferred.size):
        choice = preferred ^ np.array(departures)
        if np.array_equal(columns[:, choice].sum(axis=1), target):
            return choice
    return None


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 7))
def test_small_systems_agree_with_trying_every_choice(seed, rows, count):
    """Small integers make many dependences and many solutions; integer sums are exact."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(-2, 3, (rows, count)).astype(float)
    preferred = rng.random(count) < 0.5
    is_solvable = rng.random() < 0.7
    target = columns @ (rng.random(count) < 0.5) if is_solvable else rng.integers(-3, 4, rows).astype(float)
    expected = first_by_trial(columns, target, preferred)
    if not target.any() and np.linalg.matrix_rank(columns) == count:
        expected = np.zeros(count, dtype=bool)
    found = find_flips(columns, target, preferred=preferred, tol=1e-10)
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [LARGEST_BLOCK, LARGEST_BLOCK + 1])
def test_the_limit_of_the_search(count):
    """One more unit than the largest block is not searched: no answer, but no wrong one."""
    rng = np.random.default_rng(1)
    columns = rng.standard_normal((3, count))
    chosen = rng.random(count) < 0.5
    found = find_flips(columns, columns @ chosen, preferred=np.zeros(count, dtype=bool), tol=1e-10)
    if count <= LARGEST_BLOCK:
        np.testing.assert_array_equal(found, chosen)
    else:
        assert found is None
        unchanged = find_flips(columns, np.zeros(3), preferred=np.ones(count, dtype=bool), tol=1e-10)
        np.testing.assert_array_equal(unchanged, np.zeros(count, dtype=bool))


def test_independent_columns_of_very_different_size():
    rng = np.random.default_rng(2)
    columns = rng.standard_normal((20, 12)) * 10.0 ** np.linspace(-5, 5, 12)
    chosen = rng.random(12) < 0.5
    found = find_flips(columns, columns @ chosen, preferred=np.zeros(12, dtype=bool), tol=1e-10)
    np.testing.assert_array_equal(found, chosen)
