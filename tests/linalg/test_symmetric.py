"""Solves and roots of symmetric matrices, against the formulas they stand for and those they replaced."""

import numpy as np
import pytest
from scipy import linalg

from planted.linalg import smat, svec, svec_outer, unit_rows
from planted.linalg.symmetric import (
    DEPENDENT,
    column_spectrum,
    rises_of_columns,
    solve_symmetric,
    spectrum_of,
)

EPS = np.finfo(float).eps


def gram(n: int, p: int, seed: int, *, units: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return columns, in units that differ by powers of ten, and their products."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((n, p)) * 10.0 ** (units * rng.uniform(-1, 1, p))
    return F, F.T @ F


# ------------------------------------------------------------------- hand numbers


def test_a_singular_matrix_gives_the_shortest_solution_in_units_of_the_columns():
    """Columns (1, 1) and (2, 2): coefficients share the load so that both scaled parts are equal."""
    M = np.array([[2.0, 4.0], [4.0, 8.0]])
    np.testing.assert_allclose(solve_symmetric(M, np.array([[4.0], [8.0]])), [[1.0], [0.5]], rtol=1e-14)


def test_columns_of_zeros_get_nothing():
    M = np.diag([4.0, 0.0])
    np.testing.assert_array_equal(solve_symmetric(M, np.array([[2.0], [0.0]])), [[0.5], [0.0]])
    np.testing.assert_array_equal(rises_of_columns(column_spectrum(M), np.ones((2, 1))), [4.0, 0.0])
    np.testing.assert_array_equal(rises_of_columns(column_spectrum(0 * M), np.ones((2, 1))), [0.0, 0.0])


def test_roots_by_hand():
    M = np.array([[5.0, 4.0], [4.0, 5.0]])  # eigenvalues 1 and 9
    np.testing.assert_allclose(spectrum_of(M).root(), [[2.0, 1.0], [1.0, 2.0]], rtol=1e-14)
    np.testing.assert_allclose(
        spectrum_of(M).inverse_root(), np.array([[2.0, -1.0], [-1.0, 2.0]]) / 3, rtol=1e-14
    )
    np.testing.assert_allclose(spectrum_of(M).mapped(np.array([0.0, 2.0])), np.ones((2, 2)), rtol=1e-14)


# -------------------------------------------------------------------------- roots


@pytest.mark.parametrize("rank", [3, 6])
def test_whitening_makes_the_kept_directions_orthonormal(rank):
    rng = np.random.default_rng(rank)
    F = rng.standard_normal((50, rank)) @ rng.standard_normal((rank, 6)) * 10.0 ** np.arange(-6, 6, 2)
    spectrum = column_spectrum(F.T @ F).regular(1e-11)
    R = spectrum.whitening()
    assert R.shape == (6, rank)
    condition = spectrum.values[-1] / spectrum.values[0]
    np.testing.assert_allclose(R.T @ (F.T @ F) @ R, np.eye(rank), atol=100 * EPS * condition)


def test_cut_offs_leave_out_or_raise():
    spectrum = spectrum_of(np.diag([1e-13, 1.0, 4.0]))
    np.testing.assert_array_equal(spectrum.regular(1e-12).values, [1.0, 4.0])
    np.testing.assert_array_equal(spectrum.regular().values, [1e-13, 1.0, 4.0])
    np.testing.assert_array_equal(spectrum.above(1.0).values, [4.0])
    np.testing.assert_array_equal(spectrum.lifted(1e-3).values, [1e-3, 1.0, 4.0])


# ------------------------------------------------- the same bits as what was replaced


def old_solve(M, right, tol=None):
    """`fitting._damping.solve_symmetric`, and `moments._pair_moments._solve_gram` with a tolerance of 1e-11."""
    scale = np.sqrt(np.maximum(np.diag(M), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = linalg.eigh(M / np.outer(scale, scale), check_finite=False)
    keep = values > (len(M) * EPS if tol is None else tol) * max(values[-1], 0.0)
    solution = vectors[:, keep] @ ((vectors[:, keep].T @ (right / scale[:, None])) / values[keep, None])
    return solution / scale[:, None]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tol", [None, 1e-11])
def test_solves_are_the_former_ones_to_the_bit(seed, tol):
    F, M = gram(30, 7, seed, units=3.0)
    right = F.T @ np.random.default_rng(seed + 100).standard_normal((30, 2))
    np.testing.assert_array_equal(solve_symmetric(M, right, tol=tol), old_solve(M, right, tol))
    doubled = np.hstack([F, F[:, :2]])
    M, right = doubled.T @ doubled, doubled.T @ F[:, :3]
    np.testing.assert_array_equal(solve_symmetric(M, right, tol=tol), old_solve(M, right, tol))


@pytest.mark.parametrize("rank", [2, 4])
def test_roots_are_the_former_ones_to_the_bit(rank):
    """Those of symmetric inputs (both roots), of the residual tests (scaled), and of whitened outputs."""
    F = np.random.default_rng(rank).standard_normal((9, rank)) @ np.random.default_rng(1).standard_normal(
        (rank, 4)
    )
    C = F.T @ F
    values, vectors = linalg.eigh(C, check_finite=False)
    keep = values > 1e-10 * values[-1]
    values, vectors = np.sqrt(values[keep]), vectors[:, keep]
    spectrum = spectrum_of(C).regular(1e-10)
    np.testing.assert_array_equal(spectrum.root(), vectors * values @ vectors.T)
    np.testing.assert_array_equal(spectrum.inverse_root(), vectors / values @ vectors.T)
    np.testing.assert_array_equal(spectrum.mapped(2.0 / values), (vectors * (2.0 / values)) @ vectors.T)
    scale = np.array([1.0, 2.0, 3.0, 4.0])
    values, vectors = linalg.eigh(C / np.outer(scale, scale), check_finite=False)
    keep = values > 1e-11
    expected = vectors[:, keep] / np.sqrt(values[keep]) / scale[:, None]
    np.testing.assert_array_equal(spectrum_of(C, scale).above(1e-11).whitening(), expected)


# ------------------------------------------------------- columns that are left out


def rises_by_projection(F, Y):
    """Refit without each column in turn."""

    def left_over(columns):
        return float(((Y - columns @ linalg.lstsq(columns, Y)[0]) ** 2).sum())

    return np.array([left_over(np.delete(F, r, axis=1)) for r in range(F.shape[1])]) - left_over(F)


def former_rises(M, coefficients):
    """The three formulas that were one: signs of directions, pruned units, bends of units."""
    lengths = np.sqrt(np.diag(M))
    values, vectors = linalg.eigh(M / np.outer(lengths, lengths))
    signs = (coefficients**2).sum(axis=1) / (((vectors / values) * vectors).sum(axis=1) / lengths**2)
    inverse = (vectors / np.maximum(values, len(M) * EPS * values[-1])) @ vectors.T
    pruned = ((coefficients * lengths[:, None]) ** 2).sum(axis=1) / np.diag(inverse)
    spread = np.diag(linalg.pinvh(M / np.outer(lengths, lengths), rtol=1e-10)) / lengths**2
    bends = (coefficients**2).sum(axis=1) / spread
    return signs, pruned, bends


@pytest.mark.parametrize("seed", range(5))
def test_rises_are_those_of_refits_and_of_the_three_former_formulas(seed):
    F, M = gram(60, 6, seed, units=2.0)
    Y = np.random.default_rng(seed + 50).standard_normal((60, 3))
    columns = column_spectrum(M)
    coefficients = columns.regular().solve(F.T @ Y)
    rises = rises_of_columns(columns, coefficients)
    # The inverse of a matrix with unit diagonal is known to rounding times its condition number.
    rtol = 100 * EPS * columns.values[-1] / columns.values[0]
    for former in former_rises(M, coefficients):
        np.testing.assert_allclose(rises, former, rtol=rtol)
    # A refit forms each sum of squares to rounding of |Y|², of which the rise is the difference.
    np.testing.assert_allclose(rises, rises_by_projection(F, Y), rtol=rtol, atol=1e3 * EPS * (Y**2).sum())


@pytest.mark.parametrize("p", [4, 20, 100])
def test_a_column_among_the_others_rises_nothing_and_leaves_the_rest_alone(p):
    rng = np.random.default_rng(p)
    F = rng.standard_normal((5 * p, p))
    Y = rng.standard_normal((5 * p, 2))
    doubled = np.hstack([F, F[:, :1]])
    columns = column_spectrum(doubled.T @ doubled)
    rises = rises_of_columns(columns, columns.regular().solve(doubled.T @ Y))
    assert rises[0] == rises[-1] == 0.0
    np.testing.assert_allclose(rises[1:-1], rises_by_projection(F, Y)[1:], rtol=1e-9)


@pytest.mark.parametrize(("factor", "is_seen"), [(10.0, True), (0.1, False)])
def test_the_cut_off_is_a_squared_sine(factor, is_seen):
    angle = np.sqrt(factor * DEPENDENT)
    F = np.array([[1.0, np.cos(angle)], [0.0, np.sin(angle)]])
    rises = rises_of_columns(column_spectrum(F.T @ F), np.ones((2, 1)))
    assert (rises > 0).tolist() == [is_seen, is_seen]
    if is_seen:  # the products are known to a few roundings, of which the squared sine is the difference
        np.testing.assert_allclose(rises, angle**2, rtol=20 * EPS / angle**2)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 40])
def test_inner_products_are_kept_and_smat_inverts(k):
    rng = np.random.default_rng(k)
    S, T = (M + M.transpose(0, 2, 1) for M in rng.standard_normal((2, 4, k, k)))
    assert svec(S).shape == (4, k * (k + 1) // 2)
    np.testing.assert_allclose(
        (svec(S) * svec(T)).sum(axis=-1), (S * T).sum(axis=(1, 2)), rtol=0, atol=1e-13 * k**2
    )
    np.testing.assert_allclose(smat(svec(S)), S, rtol=1e-15)


def test_quadratic_features_evaluate_quadratic_forms():
    rng = np.random.default_rng(0)
    Y, S = rng.standard_normal((6, 4)), rng.standard_normal((4, 4))
    S = S + S.T
    np.testing.assert_allclose(svec_outer(Y) @ svec(S), np.einsum("ni,ij,nj->n", Y, S, Y), rtol=0, atol=1e-13)
    np.testing.assert_allclose(svec_outer(Y), svec(Y[:, :, None] * Y[:, None, :]), rtol=1e-15)


def test_hand_numbers():
    root = np.sqrt(2.0)
    np.testing.assert_allclose(svec(np.array([[1.0, 2.0], [2.0, 3.0]])), [1.0, 2 * root, 3.0], rtol=1e-15)
    np.testing.assert_allclose(svec_outer(np.array([[2.0, -1.0]])), [[4.0, -2 * root, 1.0]], rtol=1e-15)
    np.testing.assert_allclose(smat(np.array([1.0, root, 3.0])), [[1.0, 1.0], [1.0, 3.0]], rtol=1e-15)


def test_unit_rows_are_the_quotients_to_the_bit_and_zero_rows_stay_zero():
    rows = np.random.default_rng(0).standard_normal((40, 7)) * 10.0 ** np.arange(-20, 20)[:, None]
    unit, lengths = unit_rows(rows)
    np.testing.assert_array_equal(unit, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    np.testing.assert_array_equal(lengths, np.linalg.norm(rows, axis=1))
    # Columns are rows of the transpose, in whichever order they lie in memory.
    np.testing.assert_array_equal(unit_rows(rows.T)[0].T, rows / np.linalg.norm(rows, axis=0))
    rows[3] = 0.0
    unit, lengths = unit_rows(rows)
    assert not unit[3].any() and lengths[3] == 1.0
    np.testing.assert_allclose(unit * lengths[:, None], rows, rtol=1e-15)


def test_unit_rows_of_no_rows():
    unit, lengths = unit_rows(np.zeros((0, 3)))
    assert unit.shape == (0, 3) and lengths.shape == (0,)
