"""Sign systems against trying every choice: exact, with errors, with fewer equations than columns, and noisy."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planted.linalg import signs
from planted.linalg.signs import (
    LARGEST_BLOCK,
    enumerate_flips,
    find_flips,
    nearest_sign_sums,
    round_shares,
    search_corners,
)


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


@pytest.mark.parametrize("size", [1e-170, 1e-300])
def test_a_column_whose_square_is_no_number(size):
    """Squares below 1e-323 are zero, and the share of the column was zero over zero."""
    columns = np.diag([size, 1.0])
    found = find_flips(columns, columns @ [1.0, 1.0], preferred=np.zeros(2, dtype=bool), tol=1e-10)
    assert found is not None and found[1]
    assert signs._solve_block(columns[:, :1], columns[:, 0], preferred=found[:1], tol=1e-10, limit=1)[0] == [
        True
    ]
    assert signs._solve_block(columns[:, :1], columns[:, 1], preferred=found[:1], tol=1e-10, limit=1) == [
        False
    ]


def test_shares_of_independent_columns_are_rounded_within_their_error():
    rng = np.random.default_rng(3)
    columns = rng.standard_normal((12, 5)) * [1.0, 10.0, 0.1, 1.0, 5.0]
    truth = np.array([1.0, 0.0, 1.0, 0.3, 0.0])  # two units on one hyperplane share it, 0.3 and 0.7
    noise = rng.standard_normal(12)
    noise *= 1e-8 / np.linalg.norm(noise)
    shares = round_shares(columns, columns @ truth + noise, error=1e-8)
    assert shares is not None and shares[[0, 1, 2, 4]].tolist() == [1.0, 0.0, 1.0, 0.0]
    # The error of a share is at most that of the target times the norm of its row of the pseudo-inverse.
    assert abs(shares[3] - 0.3) <= 1e-8 * np.linalg.norm(np.linalg.pinv(columns)[3])


def test_only_zero_and_one_are_rounded_to():
    shares = round_shares(np.diag([2.0, 4.0]), np.array([6.0 + 2e-8, 4.0 + 4e-8]), error=1e-7)
    assert shares[1] == 1.0 and shares[0] == pytest.approx(3.0 + 1e-8, rel=1e-14) and shares[0] != 3.0


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (np.ones((1, 2)), 1e-12),  # fewer equations than columns
        (np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]), 1e-12),  # dependent
        (np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), 1e-12),  # a column without effect
        (
            np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
            0.2,
        ),  # an error that hides the difference of 0 and 1
    ],
)
def test_shares_that_are_not_determined_are_not_invented(columns, error):
    assert round_shares(columns, np.array([0.5, 0.5, 0.0])[: len(columns)], error=error) is None


@pytest.mark.parametrize(("rows", "count"), [(1, 3), (2, 6), (3, 9), (5, 12)])
def test_corners_with_fewer_equations_than_columns(rows, count):
    rng = np.random.default_rng(count)
    columns = rng.standard_normal((rows, count))
    truth = (rng.random(count) < 0.5).astype(float)
    corner, log10_chance = search_corners(columns, columns @ truth, error=1e-12)
    assert corner.tolist() == truth.tolist()  # generic numbers: no other corner fits
    lengths = np.linalg.svd(columns, compute_uv=False)
    by_hand = count * np.log10(2) + np.log10(np.sqrt(count) * 1e-12 / lengths).sum()
    assert log10_chance == pytest.approx(by_hand, rel=1e-10)  # rows of an orthogonal basis have these lengths


def test_no_corner_is_no_answer():
    columns = np.array([[1.0, 2.0, 4.0]])
    assert search_corners(columns, np.array([7.5]), error=1e-9) is None
    assert search_corners(columns, np.array([8.0]), error=1e-9) is None
    wide = np.ones((1, signs.MOST_COLUMNS_SEARCHED + 1))
    assert search_corners(wide, np.array([3.0]), error=1e-9) is None


def test_a_corner_that_fits_by_chance_is_known_as_such():
    """Integers up to eight in one equation have hundreds of solutions; the chance must not promise one."""
    rng = np.random.default_rng(4)
    columns = rng.integers(1, 9, (1, 20)).astype(float)
    corner, log10_chance = search_corners(columns, np.array([columns.sum() // 2]), error=0.05)
    assert columns @ corner == columns.sum() // 2 and log10_chance > 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 9))
def test_the_nearest_sum_of_signs_agrees_with_trying_every_choice(seed, rows, count):
    rng = np.random.default_rng(seed)
    columns, target = rng.standard_normal((rows, count)), 2 * rng.standard_normal(rows)
    found = nearest_sign_sums(columns, target, count=5)
    distances = [np.linalg.norm(columns @ np.where(flips, -1.0, 1.0) - target) for flips in found]
    best = min(
        np.linalg.norm(columns @ np.array(choice) - target)
        for choice in itertools.product([1.0, -1.0], repeat=count)
    )
    assert len(found) == min(5, 2 ** (count // 2))
    assert distances[0] == pytest.approx(best, rel=1e-12)
    assert np.diff(distances).min(initial=0.0) >= -1e-12  # the nearest first, up to the rounding of the sums


def test_both_forms_of_the_system_have_the_same_solution():
    """Signs in the columns q are choices of the columns -2 q with the target less their sum."""
    rng = np.random.default_rng(5)
    columns = rng.standard_normal((3, 8))
    flips = rng.random(8) < 0.5
    target = columns @ np.where(flips, -1.0, 1.0)
    nearest = nearest_sign_sums(columns, target, count=1)[0]
    rest = target - columns.sum(axis=1)
    (exact,) = enumerate_flips(-2 * columns, rest, preferred=np.zeros(8, dtype=bool), tol=1e-12, limit=4)
    assert nearest.tolist() == exact.tolist() == flips.tolist()
