"""Sums of the absolute-value form: against plain products, differences and repeated rows."""

from __future__ import annotations

import numpy as np
import pytest

from planted import TwoLayerNetwork
from planted.fitting._refine import refine
from planted.moments import accumulate_kinks, accumulate_linear, accumulate_normal, augment
from planted.moments._kink_normal import masked_products
from planted.rows import RowBlocks


@pytest.fixture
def rows():
    """Thirty rows, three inputs, two outputs, four hyperplanes and coefficients."""
    rng = np.random.default_rng(0)
    inputs = augment(rng.standard_normal((30, 3)))
    return inputs, rng.standard_normal((30, 2)), rng.standard_normal((4, 4)), rng.standard_normal((2, 8))


def plain_parts(inputs, Y, V, coefficients):
    """Z, G and R as full arrays."""
    t = inputs @ V.T
    Z = np.hstack([np.sign(t[:, [j]]) * inputs for j in range(len(V))])
    G = np.hstack([np.abs(t), inputs])
    return Z, G, Y - G @ coefficients.T


@pytest.mark.parametrize("block_bytes", [1, 16_000_000])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_sums_equal_products_of_full_arrays(rows, is_weighted, block_bytes, monkeypatch):
    monkeypatch.setattr(
        "planted.moments._paired._BUFFER_BYTES", block_bytes
    )  # one slice, or as many as can be
    inputs, Y, V, coefficients = rows
    inputs, Y = np.tile(inputs, (5, 1)), np.tile(Y, (5, 1))
    w = np.linspace(0.5, 2.0, len(Y)) if is_weighted else None
    sums = accumulate_kinks(inputs, Y, V, coefficients=coefficients, weights=w)
    Z, G, R = plain_parts(inputs, Y, V, coefficients)
    root = np.ones((len(Y), 1)) if w is None else np.sqrt(w)[:, None]
    Z, G, R = Z * root, G * root, R * root
    for name, expected in {"ZZ": Z.T @ Z, "GZ": G.T @ Z, "GG": G.T @ G, "ZR": Z.T @ R, "GR": G.T @ R}.items():
        # Sums of 150 products of order one.
        np.testing.assert_allclose(getattr(sums, name), expected, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(sums.RR, R.T @ R, rtol=1e-12)
    assert sums.count == pytest.approx((root**2).sum())
    linear = accumulate_linear(inputs, Y, V, coefficients=coefficients, weights=w)
    np.testing.assert_allclose(linear.GG, G.T @ G, rtol=1e-12)
    np.testing.assert_allclose(linear.GR, G.T @ R, rtol=1e-12, atol=1e-11)
    assert pytest.approx((R**2).sum()) == linear.RR


def test_the_gradient_is_the_derivative_of_the_cost(rows):
    inputs, Y, V, coefficients = rows
    sums = accumulate_kinks(inputs, Y, V, coefficients=coefficients)
    gradient = -2 * np.einsum("jpl,lj->jp", sums.ZR.reshape(4, 4, 2), coefficients[:, :4])
    step = 1e-6
    for j in range(4):
        for a in range(4):
            moved = [V.copy(), V.copy()]
            moved[0][j, a] += step
            moved[1][j, a] -= step
            up, down = (accumulate_linear(inputs, Y, v, coefficients=coefficients).RR for v in moved)
            assert (up - down) / (2 * step) == pytest.approx(gradient[j, a], rel=1e-6, abs=1e-6)


def test_masked_products_of_any_mask():
    rng = np.random.default_rng(1)
    S, inputs = rng.random((20, 3)), rng.standard_normal((20, 2))
    Z = np.hstack([S[:, [j]] * inputs for j in range(3)])
    np.testing.assert_allclose(masked_products(S, inputs), Z.T @ Z, rtol=1e-12, atol=1e-14)


def test_whole_weights_are_repeated_rows():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((40, 3)), rng.standard_normal((40, 1))
    repeats = rng.integers(1, 4, 40)
    net = TwoLayerNetwork(rng.standard_normal((2, 3)), rng.standard_normal(2), rng.standard_normal((1, 2)))
    often = RowBlocks.from_arrays(np.repeat(X, repeats, axis=0), np.repeat(Y, repeats, axis=0), block_rows=7)
    once = RowBlocks.from_arrays(X, Y, block_rows=7)

    def weights(start, inputs, outputs):
        return repeats[start : start + len(inputs)].astype(float)

    expected, found = accumulate_normal(often, net), accumulate_normal(once, net, weights=weights)
    assert found.count == expected.count
    for name in ("ZZ", "GZ", "GG", "ZR", "GR", "RR"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-11, atol=1e-12)
    a, b = refine(often, net).network, refine(once, net, weights=weights).network
    np.testing.assert_allclose(a.W, b.W, rtol=1e-6, atol=1e-8)
