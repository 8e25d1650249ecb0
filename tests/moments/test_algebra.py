"""The algebra of moments, entry by entry: tensors, designs, regressions, closed forms under the normal law."""

import numpy as np
import pytest
from scipy.special import gamma

from gaussian_moments import GaussianMoments, relu_slopes_with_inputs
from planted import simulate
from planted.linalg import smat, svec
from planted.linalg.symmetric import solve_symmetric, svec_outer, symmetric_pairs, triangle_weights
from planted.moments import Draws, HermiteTensors, SampleHermite, accumulate_grams, fit_polynomial
from planted.moments import population as closed
from planted.moments._hermite_fit import _slots, _sum_design, hermite_design, hermite_exponents
from planted.moments._hermite_tensors import add_slot, contract_slot
from planted.moments._pair_moments import _RANK_TOL, SampleMoments, second_moments
from planted.moments._paired import (
    _BUFFER_BYTES,
    _MIN_SLICE,
    fill_products,
    row_slices,
    slice_rows,
)
from planted.moments._summary import row_keys
from planted.rows import RowBlocks

ROOT = np.sqrt(2.0)


def tensors(seed, m=2, d=3):
    rng = np.random.default_rng(seed)
    size = d * (d + 1) // 2
    return HermiteTensors(
        *(rng.standard_normal((m, *shape)) for shape in ((), (d,), (d, d), (size, d), (size, size)))
    )


# --- Hermite tensors and designs


def test_tensors_add_and_subtract_order_by_order():
    one, other = tensors(0), tensors(1)
    for name in ("zeroth", "first", "second", "third", "fourth"):
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(getattr(one.plus(other), name), a + b)
        np.testing.assert_array_equal(getattr(one.minus(other), name), a - b)


def test_contractions_fill_one_slot_or_a_pair():
    made = tensors(2)
    theta = np.array([1.0, -2.0, 0.5])
    third = made.contract_third(theta)
    np.testing.assert_allclose(third, smat(np.einsum("mpd,d->mp", made.third, theta)), rtol=1e-14)
    Theta = np.array([[1.0, 2.0, 0.0], [2.0, -1.0, 3.0], [0.0, 3.0, 0.5]])
    fourth = made.contract_fourth(Theta)
    np.testing.assert_allclose(fourth, smat(np.einsum("mpq,q->mp", made.fourth, svec(Theta))), rtol=1e-14)


def test_pairs_and_squares_by_hand():
    i, j = symmetric_pairs(3)
    assert i.tolist() == [0, 0, 0, 1, 1, 2] and j.tolist() == [0, 1, 2, 1, 2, 2]
    np.testing.assert_allclose(triangle_weights(3), [1, ROOT, ROOT, 1, ROOT, 1], rtol=1e-15)
    np.testing.assert_allclose(svec_outer(np.array([[2.0, 3.0]])), [[4.0, 6 * ROOT, 9.0]], rtol=1e-15)


def test_slots_name_the_entries_of_flattened_tensors():
    assert _slots(2, 0)[0] == [] and _slots(2, 0)[1].tolist() == [1.0]
    (first,), weights = _slots(3, 1)
    assert first.tolist() == [0, 1, 2] and weights.tolist() == [1, 1, 1]
    (a, b), weights = _slots(2, 2)
    assert (a.tolist(), b.tolist(), weights.tolist()) == ([0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 1])
    (a, b, c), weights = _slots(2, 3)
    assert (a.tolist(), b.tolist(), c.tolist()) == (
        [0, 0, 0, 0, 1, 1],
        [0, 0, 1, 1, 1, 1],
        [0, 1, 0, 1, 0, 1],
    )
    np.testing.assert_allclose(weights, [1, 1, ROOT, ROOT, 1, 1], rtol=1e-15)
    (a, b, c, e), weights = _slots(2, 4)
    assert a.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1] and b.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert c.tolist() == [0, 0, 1] * 3 and e.tolist() == [0, 1, 1] * 3
    np.testing.assert_allclose(weights, np.outer([1, ROOT, 1], [1, ROOT, 1]).ravel(), rtol=1e-15)


def test_sums_of_a_design_are_products_of_its_columns(monkeypatch):
    from planted.moments import _hermite_fit

    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((300, 2)), rng.standard_normal((300, 3))
    G = hermite_design(X, 3)
    for numbers in (_hermite_fit._SLICE_NUMBERS, 700):  # one slice, and slices of 70 rows
        monkeypatch.setattr(_hermite_fit, "_SLICE_NUMBERS", numbers)
        sums = _sum_design(3, 0, X, Y)
        assert sums.count == 300
        np.testing.assert_allclose(sums.GG, G @ G.T, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(sums.GY, G @ Y, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(np.diag(sums.YY), (Y**2).sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(sums.YY, Y.T @ Y, rtol=1e-11, atol=1e-9)


def test_columns_of_a_design_by_hand():
    """He_2(t) = t^2 - 1 over the root of 2!, products over mixed exponents."""
    x = np.array([[2.0, -1.0]])
    exponents = hermite_exponents(2, 2)
    expected = []
    for powers in exponents:
        value = 1.0
        for t, power in zip(x[0], powers, strict=True):
            value *= (1.0, t, (t * t - 1) / ROOT)[power]
        expected.append(value)
    np.testing.assert_allclose(hermite_design(x, 2)[:, 0], expected, rtol=1e-14)
    assert sorted(map(tuple, exponents.tolist())) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]


def test_a_fit_leaves_the_variance_that_is_not_polynomial():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((4000, 2))
    noise = 0.3 * rng.standard_normal((4000, 1))
    fit = fit_polynomial(RowBlocks.from_arrays(X, 1 + X[:, :1] * X[:, 1:] + noise), 2)
    left = X[:, :1] * 0 + 1 + X[:, :1] * X[:, 1:] + noise - fit(X)
    assert fit.residual_variance[0] == pytest.approx(float((left**2).sum()) / (4000 - 6), rel=0.01)
    assert (fit.count, fit.degree, fit.n_features) == (4000, 2, 2)
    made = fit.tensors()
    np.testing.assert_allclose(made.second[0], [[0, 1], [1, 0]], atol=0.05)  # E[f He_2] of x y
    assert not made.third.any() and not made.fourth.any()


@pytest.mark.parametrize("order", [1, 2])
def test_regressing_a_polynomial_out_changes_no_contraction_of_it(order):
    """Y is itself a polynomial of degree 4: the residual is zero and all comes from the fit."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((3000, 2))
    Y = np.column_stack([X[:, 0] ** 2 * X[:, 1] - X[:, 1] ** 4, X[:, 0] * X[:, 1] + X[:, 0] ** 3])
    blocks = RowBlocks.from_arrays(X, Y)
    fit = fit_polynomial(blocks, 4)
    draws = Draws.random(3, 2, 2, rng=np.random.default_rng(6))
    found = SampleHermite(blocks, (2, 2), fit).contract(order, draws)
    known = fit.tensors()
    for draw, mix in enumerate(draws.outputs):
        expected = np.tensordot(mix, known.second if order == 1 else known.fourth, axes=1)
        np.testing.assert_allclose(found.base[draw], expected, atol=1e-9)


def test_slots_are_added_and_filled():
    v, w = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    np.testing.assert_array_equal(add_slot(v, w), [[6.0, 5.0], [5.0, -4.0]])
    np.testing.assert_array_equal(contract_slot(add_slot(v, w), np.array([1.0, 0.0]), 2), [6.0, 5.0])
    # Order 4 against the full tensor: v put into each of four slots of the symmetric w ⊗ w ⊗ w.
    third = np.outer(svec_outer(w[None])[0], w)
    full = sum(
        np.einsum(f"{a},{rest[0]},{rest[1]},{rest[2]}->ijkl", v, w, w, w)
        for a, rest in (("i", "jkl"), ("j", "ikl"), ("k", "ijl"), ("l", "ijk"))
    )
    flat = svec(svec(full).transpose(2, 0, 1)).T
    np.testing.assert_allclose(add_slot(v, third), flat, rtol=1e-14)
    theta = np.array([0.5, -1.5])
    expected = svec((full @ theta).transpose(2, 0, 1)).T
    np.testing.assert_allclose(contract_slot(flat, theta, 4), expected, rtol=1e-13)


def test_halves_are_every_other_row_of_the_data_not_of_the_block():
    rng = np.random.default_rng(11)
    X, Y = rng.standard_normal((21, 2)), rng.standard_normal((21, 1))
    whole = accumulate_grams(RowBlocks.from_arrays(X, Y, block_rows=21), lambda x, y: y, quadratic=True)
    cut = accumulate_grams(RowBlocks.from_arrays(X, Y, block_rows=5), lambda x, y: y, quadratic=True)
    for half in (0, 1):
        rows = slice(half, None, 2)
        alone = accumulate_grams(RowBlocks.from_arrays(X[rows], Y[rows]), lambda x, y: y, quadratic=True)
        for order in range(5):
            np.testing.assert_allclose(cut.moment(0, order, half), whole.moment(0, order, half), atol=1e-12)
            np.testing.assert_allclose(whole.moment(0, order, half), alone.moment(0, order), atol=1e-12)


# --- regressions


def test_normal_equations_of_columns_of_any_size():
    rng = np.random.default_rng(7)
    G = rng.standard_normal((50, 3)) * [1e-9, 1.0, 1e9]
    B = np.array([[1e9], [2.0], [-1e-9]])
    np.testing.assert_allclose(solve_symmetric(G.T @ G, G.T @ (G @ B), tol=_RANK_TOL), B, rtol=1e-9)
    doubled = np.column_stack([G[:, 1], G[:, 1], np.zeros(50)])
    np.testing.assert_allclose(
        solve_symmetric(doubled.T @ doubled, doubled.T @ G[:, 1:2], tol=_RANK_TOL).ravel(),
        [0.5, 0.5, 0.0],
        atol=1e-12,
    )


def test_second_moments_are_about_zero_and_in_blocks():
    rng = np.random.default_rng(8)
    X, Y = rng.standard_normal((40, 2)) + 3, rng.standard_normal((40, 1)) - 2
    C, R = second_moments(SampleMoments(RowBlocks.from_arrays(X, Y)).joint(), 2)
    np.testing.assert_allclose(C, X.T @ X / 40, rtol=1e-12)
    np.testing.assert_allclose(R, Y.T @ X / 40, rtol=1e-12)


def test_products_of_features_by_hand():
    columns, minus = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [0.0], [1.0]])
    out = np.full((6, 1), np.nan)
    fill_products(columns, out)
    assert out[:, 0].tolist() == [1, 2, 3, 4, 6, 9]
    fill_products(columns, out, minus=minus, work=np.empty((3, 1)))
    assert out[:, 0].tolist() == [0, 2, 2, 4, 6, 8]
    fill_products(columns, out, work=np.empty((3, 1)))
    assert out[:, 0].tolist() == [1, 2, 3, 4, 6, 9]
    assert (
        slice_rows(10, np.float64) >= slice_rows(20, np.float64)
        and slice_rows(10**9, np.float64) == _MIN_SLICE
    )
    assert slice_rows(1000, np.float64) == _BUFFER_BYTES // 8000


def test_slices_of_rows_cover_all_of_them():
    X, Y = np.arange(10.0)[:, None], -np.arange(10.0)[:, None]
    parts = list(row_slices(X, Y, 4))
    assert [len(part) for part, _ in parts] == [4, 4, 2]
    np.testing.assert_array_equal(np.vstack([part for part, _ in parts]), X)
    np.testing.assert_array_equal(np.vstack([part for _, part in parts]), Y)


def test_keys_of_rows_are_the_same_numbers_everywhere():
    """Sums of several machines are merged by these keys: they may not change from version to version."""
    X, Y = np.array([[0.0, 1.0], [1.0, 0.0], [-1.5, 1e-300]]), np.array([[2.0], [2.0], [0.5]])
    assert row_keys(X, Y).tolist() == [13058920758252194904, 2792582047699804304, 11103006263484582020]


# --- closed forms under the normal law


def test_one_slope_is_the_product_of_the_layers():
    net = simulate.teacher(4, 3, 2, random_state=1)
    root = np.random.default_rng(2).standard_normal((4, 4))
    exact = GaussianMoments(net, root @ root.T + np.eye(4), 0.5 * np.eye(2))
    found = exact.slope(np.eye(4)[:, :2])
    np.testing.assert_allclose(found.B, net.A @ net.W, rtol=1e-10)
    assert found.residual_variance == 0.0 and exact.n_features == 4 and exact.halves() == (exact, exact)


def expectation(function, covariance, degree):
    """Average a homogeneous function of two normal numbers: over angles on a fine grid, over the radius in closed form."""
    angles = 2 * np.pi * np.arange(200_000) / 200_000
    x = np.linalg.cholesky(covariance) @ np.stack([np.cos(angles), np.sin(angles)])
    return function(x).mean() * 2 ** (degree / 2) * gamma(degree / 2 + 1)


def test_closed_forms_are_the_integrals():
    S = np.array([[1.5, 0.4], [0.4, 0.8]])
    w, u = np.array([1.0, -0.5]), np.array([0.3, 1.2])
    tol = {"rtol": 1e-7, "atol": 1e-8}  # the grid's, at a kink

    def relu(t):
        return np.maximum(t, 0.0)

    product = expectation(lambda x: relu(w @ x) * relu(u @ x), S, 2)
    np.testing.assert_allclose(closed.relu_products(w[None], u[None], S)[0, 0], product, **tol)
    slopes = [expectation(lambda x, a=a: (w @ x > 0) * relu(u @ x) * x[a], S, 2) for a in (0, 1)]
    found = relu_slopes_with_inputs(w[None], u[None], S)[0, 0]
    np.testing.assert_allclose(found, slopes, rtol=1e-4)  # half-spaces jump between points of the grid
    both = closed.relu_products_with_inputs(np.array([w, u]), S)
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        rows = (w, u)[i], (w, u)[j]
        entries = [
            [
                expectation(lambda x, a=a, b=b, r=rows: relu(r[0] @ x) * relu(r[1] @ x) * x[a] * x[b], S, 4)
                for b in (0, 1)
            ]
            for a in (0, 1)
        ]
        np.testing.assert_allclose(both[i, j], entries, **tol)
    # Isserlis: E[(w'x)(u'x) x x'] = (w'Su) S + Sw u'S + Su w'S.
    fourth = closed.fourth_moments(w[None], u[None], S)[0, 0]
    expected = (w @ S @ u) * S + np.outer(S @ w, S @ u) + np.outer(S @ u, S @ w)
    np.testing.assert_allclose(fourth, expected, rtol=1e-12)


def test_units_that_are_equal_or_opposite_have_their_limits():
    S = np.diag([4.0, 1.0])
    w = np.array([[1.0, 0.0]])
    np.testing.assert_allclose(closed.relu_products(w, w, S), [[2.0]], rtol=1e-14)  # half of the variance
    np.testing.assert_allclose(closed.relu_products(w, -w, S), [[0.0]], atol=1e-12)
    np.testing.assert_allclose(closed.relu_products(3 * w, w, S), [[6.0]], rtol=1e-14)
    np.testing.assert_allclose(closed.relu_products(w, 0 * w, S), [[0.0]], atol=1e-15)


def test_halves_of_halves_share_out_every_row():
    """Cut once more, a half is cut by its own rows, also where rows come in several blocks."""
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((101, 3)), rng.standard_normal((101, 2))
    whole = SampleMoments(RowBlocks.from_arrays(X, Y, block_rows=13))
    first, second = whole.halves()
    parts = [*first.halves(), *second.halves()]
    assert [part.joint().count for part in (first, second)] == [50, 51]
    assert [part.joint().count for part in parts] == [25, 25, 25, 26]
    total = sum(part.joint().count * part.joint().mean for part in parts)
    np.testing.assert_allclose(total / 101, np.hstack([X, Y]).mean(axis=0), rtol=1e-12, atol=1e-14)
