"""The steps of the decompositions, one by one, with numbers that can be followed by hand."""

import numpy as np
import pytest

from planted.linalg import symmetric as jd
from planted.linalg import symmetric_cp as cp
from planted.linalg.symmetric import diagonalise_by_congruence


def stack_of(Z, D):
    return np.einsum("ar,tr,br->tab", Z, D, Z)


# --- joint diagonalisation


def test_the_off_diagonal_energy_is_a_share():
    matrices = np.array([[[2.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    assert jd._off_diagonal_energy(matrices, np.eye(2)) == pytest.approx(2 / 7)
    assert jd._off_diagonal_energy(matrices, 5 * np.eye(2)) == pytest.approx(2 / 7)
    assert jd._off_diagonal_energy(1e-6 * matrices, np.eye(2)) == pytest.approx(2 / 7)
    assert jd._off_diagonal_energy(0 * matrices, np.eye(2)) == 0.0


def test_the_mixing_solves_its_small_problems():
    """P_t = (I + E) D_t (I + E)' to first order in E: the step is I + E."""
    rng = np.random.default_rng(0)
    E = 1e-6 * rng.standard_normal((3, 3))
    np.fill_diagonal(E, 0.0)
    P = stack_of(np.eye(3) + E, rng.standard_normal((6, 3)))
    np.testing.assert_allclose(jd._mixing_of_residual(P) - np.eye(3), E, atol=1e-10)  # the square of E


def test_the_mixing_by_hand_for_two_matrices():
    """beta = D'D, c_ij = sum_t P_tij D_tj, E_12 = (c_12 beta_22 ... ) / det, written out."""
    P = np.array([[[1.0, 0.5], [0.5, 2.0]], [[3.0, -1.0], [-1.0, 1.0]]])
    # D = [[1, 2], [3, 1]]: beta = [[10, 5], [5, 5]], determinant 25
    # c_12 = 0.5 * 2 - 1 * 1 = 0, c_21 = 0.5 * 1 - 1 * 3 = -2.5
    expected = np.array([[1.0, (0.0 * 10 - 5 * -2.5) / 25], [(-2.5 * 5 - 5 * 0.0) / 25, 1.0]])
    np.testing.assert_allclose(jd._mixing_of_residual(P), expected, rtol=1e-15)


def test_pairs_that_cannot_be_separated_are_left_alone():
    P = np.array([[[1.0, 0.3], [0.3, 1.0]], [[2.0, 0.1], [0.1, 2.0]]])  # equal columns of D
    np.testing.assert_array_equal(jd._mixing_of_residual(P), np.eye(2))
    large = 1e9 * P
    large[0, 1, 1] *= 2.0
    assert jd._mixing_of_residual(large)[0, 1] != 0.0  # the size of the matrices does not decide


def test_sweeps_are_counted_and_stop_when_nothing_moves():
    Z = np.array([[1.0, 0.4, 0.0], [0.0, 1.0, 0.3], [0.2, 0.0, 1.0]])
    matrices = stack_of(Z, np.random.default_rng(2).standard_normal((5, 3)))
    exact = np.linalg.inv(Z)
    V, sweeps = jd._uwedge(matrices, exact, 50)
    assert sweeps <= 4 and jd._off_diagonal_energy(matrices, V) < 1e-25
    np.testing.assert_allclose(np.linalg.norm(V, axis=1), 1.0, rtol=1e-14)
    start = exact + 0.05 * np.random.default_rng(3).standard_normal((3, 3))
    untouched, none = jd._uwedge(matrices, start, 0)
    assert none == 0
    np.testing.assert_allclose(untouched, start / np.linalg.norm(start, axis=1, keepdims=True), rtol=1e-15)
    _, one = jd._uwedge(matrices, start, 1)
    V, many = jd._uwedge(matrices, start, 50)
    assert one == 1 and 3 < many < 50 and jd._off_diagonal_energy(matrices, V) < 1e-25


def test_the_start_is_the_inverse_of_the_eigenvectors_of_a_pair():
    Z = np.array([[1.0, 0.4], [0.1, 1.0]])
    matrices = stack_of(Z, np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]))
    V = jd._jennrich_start(matrices, np.random.default_rng(0))
    product = V @ Z  # a permutation of the rows, scaled
    assert np.sort(np.abs(product), axis=1)[:, 0].max() < 1e-12 and np.abs(product).max(axis=1).min() > 0.1


def test_complex_pairs_of_eigenvectors_become_their_real_and_imaginary_parts():
    matrices = np.array([[[1.0, 2.0], [2.0, -1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    seed = next(
        seed for seed in range(100) if np.iscomplexobj(eigenvectors(matrices, np.random.default_rng(seed))[0])
    )
    values, vectors = eigenvectors(matrices, np.random.default_rng(seed))
    expected = np.column_stack(
        [vectors[:, i].imag if values[i].imag < 0 else vectors[:, i].real for i in range(2)]
    )
    found = jd._jennrich_start(matrices, np.random.default_rng(seed))
    # The same two columns, in the order and with the signs of the decomposition.
    np.testing.assert_allclose(np.sort(np.abs(found @ expected), axis=1), [[0, 1], [0, 1]], atol=1e-12)


def eigenvectors(matrices, rng):
    P, Q = np.tensordot(rng.standard_normal((2, len(matrices))), matrices, axes=1)
    return np.linalg.eig(P @ np.linalg.inv(Q))


def test_restarts_stop_at_the_first_exact_pair_and_keep_the_best():
    rng = np.random.default_rng(4)
    exact = stack_of(rng.standard_normal((3, 3)), rng.standard_normal((4, 3)))
    assert diagonalise_by_congruence(exact, np.random.default_rng(0)).restarts == 1
    noisy = exact + 0.3 * np.random.default_rng(5).standard_normal(exact.shape)
    noisy = noisy + noisy.transpose(0, 2, 1)
    alone = [
        diagonalise_by_congruence(noisy, np.random.default_rng(6), n_restarts=n, max_sweeps=0)
        for n in range(1, 6)
    ]
    assert [found.restarts for found in alone] == [1, 2, 3, 4, 5]
    residuals = [found.residual for found in alone]
    assert residuals == sorted(residuals, reverse=True) and residuals[-1] < residuals[0]
    best = alone[-1]
    np.testing.assert_allclose(np.linalg.norm(best.Z, axis=0), 1.0, rtol=1e-12)
    assert best.residual == pytest.approx(jd._off_diagonal_energy(noisy, np.linalg.inv(best.Z)), rel=0.5)
    default = diagonalise_by_congruence(noisy, np.random.default_rng(6), max_sweeps=0)
    assert default.restarts == 5 and default.residual == best.residual
    loose = diagonalise_by_congruence(noisy, np.random.default_rng(6), tol=1.0, max_sweeps=0)
    assert loose.restarts == 1 and loose.sweeps == 0


# --- alternating least squares


def factors(seed=0, count=3, size=4, rank=2):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((length, rank)) for length in (count, size, size))


def test_residual_energy_and_extrapolation_by_hand():
    D, U, V = np.array([[2.0]]), np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
    core = np.array([[[1.0, 2.0], [0.0, 3.0]]])
    assert cp._residual_energy(core, (D, U, V)) == 1 + 9
    old, new = ((np.array([[1.0]]),) * 3, (np.array([[3.0]]),) * 3)
    assert [float(part[0, 0]) for part in cp._extrapolated(old, new, 0.5)] == [4.0, 4.0, 4.0]


def test_a_mode_is_solved_by_least_squares():
    D, U, V = factors()
    core = np.einsum("tr,ar,br->tab", D, U, V) + 0.1 * np.random.default_rng(1).standard_normal((3, 4, 4))
    found = cp._solve_mode(((core @ V) * U[None]).sum(axis=1), U, V)
    columns = np.einsum("ar,br->abr", U, V).reshape(16, 2)
    expected = np.linalg.lstsq(columns, core.reshape(3, 16).T, rcond=None)[0].T
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_sweep_never_raises_the_residual_and_keeps_unit_columns():
    D, U, V = factors(2)
    core = np.random.default_rng(3).standard_normal((3, 4, 4))
    swept = cp._sweep(core, (D, U, V))
    for part in swept[1:]:
        np.testing.assert_allclose(np.linalg.norm(part, axis=0), 1.0, rtol=1e-14)
    energies = [cp._residual_energy(core, swept)]
    for _ in range(5):
        swept = cp._sweep(core, swept)
        energies.append(cp._residual_energy(core, swept))
    assert (np.diff(energies) <= 1e-12).all() and energies[-1] < (core**2).sum()
    # Each factor is optimal given the others at the end of the sweep: D at least.
    columns = np.einsum("ar,br->abr", *swept[1:]).reshape(16, 2)
    best = np.linalg.lstsq(columns, core.reshape(3, 16).T, rcond=None)[0].T
    np.testing.assert_allclose(swept[0], best, rtol=1e-8)


def test_the_core_keeps_inner_products_and_drops_what_repeats():
    rng = np.random.default_rng(4)
    two = rng.standard_normal((2, 3, 3))
    stack = np.einsum("st,tab->sab", rng.standard_normal((6, 2)), two)
    core = cp._principal_matrices(stack)
    assert core.shape == (2, 3, 3)
    flat, kept = stack.reshape(6, 9), core.reshape(2, 9)
    np.testing.assert_allclose(kept.T @ kept, flat.T @ flat, atol=1e-12)


def test_random_factors_have_the_shapes_of_the_core():
    D, U, V = cp._random_factors(np.zeros((5, 3, 3)), 2, np.random.default_rng(0))
    assert D.shape == (5, 2) and not D.any() and U.shape == V.shape == (3, 2)
    np.testing.assert_allclose(U.T @ V, np.eye(2), atol=1e-14)
    wide = cp._random_factors(np.zeros((5, 3, 3)), 4, np.random.default_rng(0))[1]
    np.testing.assert_allclose(wide @ wide.T, np.eye(3), atol=1e-14)


def test_the_common_factor_is_the_mean_up_to_signs():
    U = np.array([[1.0, 0.0], [0.0, 1.0]])
    V = np.array([[-1.0, 0.6], [0.0, 0.8]])
    found = cp._common_factor(U, V)
    mean = np.array([0.6, 1.8]) / np.hypot(0.6, 1.8)
    np.testing.assert_allclose(found, np.column_stack([[1.0, 0.0], mean]), atol=1e-15)
    opposite = cp._common_factor(np.array([[1.0], [0.0]]), np.array([[-0.6], [-0.8]]))
    np.testing.assert_allclose(opposite[:, 0], np.array([1.6, 0.8]) / np.hypot(1.6, 0.8), rtol=1e-14)
    columns = np.array([[3.0, 0.0, 0.3], [4.0, 0.0, 0.4]])
    np.testing.assert_allclose(cp._unit_columns(columns), [[0.6, 0.0, 0.6], [0.8, 0.0, 0.8]], rtol=1e-15)


def test_alternation_stops_at_the_tolerance_at_a_stall_or_at_the_limit():
    rng = np.random.default_rng(6)
    Z = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    core = stack_of(Z, np.array([[3.0, 2.0, 1.0], [1.0, -2.0, 0.5]]))
    near = (np.zeros((2, 3)), Z + 0.01, Z - 0.01)
    _, residual, sweeps = cp._alternate(core, near, 500, 1e-10)
    assert residual <= 1e-10 and sweeps < 100
    _, residual, first = cp._alternate(core, near, 500, 0.5)
    assert first == 1 and 1e-10 < residual < 0.5
    _, residual, limit = cp._alternate(core, near, 2, 0.0)
    assert limit == 2 and residual > 1e-20
    noise = rng.standard_normal((2, 3, 3))
    noise = noise + noise.transpose(0, 2, 1)
    found, left, stalled = cp._alternate(noise, near, 5000, 0.0)
    assert 1 < stalled < 5000 and left == pytest.approx(cp._residual_energy(noise, found) / (noise**2).sum())


def test_every_run_has_all_sweeps_and_the_best_is_kept(monkeypatch):
    noise = np.random.default_rng(7).standard_normal((6, 5, 5))
    noise = noise + noise.transpose(0, 2, 1)
    found = cp.decompose_symmetric(
        noise, 4, rng=np.random.default_rng(8), n_restarts=1, max_sweeps=50, tol=0.0
    )
    assert found.sweeps == 50 and found.restarts == 1
    residuals = []
    alternate = cp._alternate

    def spy(*given):
        residuals.append(alternate(*given)[1])
        return alternate(*given)

    monkeypatch.setattr(cp, "_alternate", spy)
    many = cp.decompose_symmetric(noise, 4, rng=np.random.default_rng(8), max_sweeps=50, tol=0.0)
    assert many.restarts == len(residuals) == 10 and many.sweeps == 50
    assert many.residual == min(residuals) < max(residuals)
    loose = cp.decompose_symmetric(noise, 4, rng=np.random.default_rng(8), max_sweeps=50, tol=1.0)
    assert (loose.restarts, loose.sweeps) == (1, 1)
