"""Appendix D of GLM18: output weights and signs from the exact correlation E[yx], by hand and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from planted.methods.landscape._read import fit_second, read_outputs
from planted.methods.landscape.printed import algorithm_1, algorithm_2, signed_outputs

ORTHONORMAL = np.array([[0.6, 0.8], [0.8, -0.6]])
OBLIQUE = np.array([[1.0, 0.0], [0.6, 0.8]])


def slope_of(B: np.ndarray, a: np.ndarray, first: float = 0.5) -> np.ndarray:
    """E[yx] = σ̂_1 Σ a_i b_i (Claim D.1)."""
    return first * a @ B


@pytest.mark.parametrize("first", [0.5, 0.8])
@pytest.mark.parametrize("signs", [(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0)])
def test_algorithm_1_turns_orthonormal_rows_and_weighs_them(signs: tuple[float, float], first: float) -> None:
    a = np.array([2.0, 3.0])
    found, weights = algorithm_1(
        ORTHONORMAL * np.array(signs)[:, None], slope_of(ORTHONORMAL, a, first), first
    )
    np.testing.assert_allclose(found, ORTHONORMAL, atol=1e-15)
    np.testing.assert_allclose(weights, a, rtol=1e-14)


@pytest.mark.parametrize("first", [0.5, 0.8])
@pytest.mark.parametrize("signs", [(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0)])
def test_algorithm_2_does_so_for_oblique_rows(signs: tuple[float, float], first: float) -> None:
    a = np.array([2.0, 3.0])
    found, weights = algorithm_2(OBLIQUE * np.array(signs)[:, None], slope_of(OBLIQUE, a, first), first)
    np.testing.assert_allclose(found, OBLIQUE, atol=1e-15)
    np.testing.assert_allclose(weights, a, rtol=1e-14)


def test_algorithm_1_is_not_for_oblique_rows() -> None:
    """u = BB'a = (2 + 0.6 · 3, 0.6 · 2 + 3): the two boxes differ where the rows are not orthogonal."""
    np.testing.assert_allclose(
        algorithm_1(OBLIQUE, slope_of(OBLIQUE, np.array([2.0, 3.0])), 0.5)[1], [3.8, 4.2], rtol=1e-14
    )


def test_a_row_without_correlation_keeps_its_sign() -> None:
    B, a = algorithm_1(np.eye(2), np.array([0.0, 1.0]), 0.5)
    np.testing.assert_array_equal(B, np.eye(2))
    np.testing.assert_array_equal(a, [0.0, 2.0])


def test_the_correlation_is_that_of_claim_d_1() -> None:
    """E[y ⟨x, v⟩] = 1/2 Σ a_i ⟨b_i, v⟩ for the ReLU, within four standard errors of 400,000 samples."""
    X = np.random.default_rng(0).standard_normal((400_000, 2))
    terms = (np.maximum(X @ OBLIQUE.T, 0.0) @ [2.0, 3.0])[:, None] * X
    error = terms.std(axis=0) / np.sqrt(len(X))
    assert (np.abs(terms.mean(axis=0) - slope_of(OBLIQUE, np.array([2.0, 3.0]))) < 4 * error).all()


def test_lemma_2_5_is_false_as_printed() -> None:
    """Five unit rows at distance 1/2 = 1/(2κ) from e_i, tilted against the others: Algorithm 1 turns all of them.

    a'_i = cos θ - 2 sin θ with 2 sin(θ/2) = 1/2, which is -0.09; the lemma promises a'_i > 0.
    """
    theta = 2 * np.arcsin(0.25)
    others = (np.ones((5, 5)) - np.eye(5)) / 2
    B = np.cos(theta) * np.eye(5) - np.sin(theta) * others
    np.testing.assert_allclose(np.linalg.norm(B, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(B - np.eye(5), axis=1), 0.5, rtol=1e-14)
    turned, a = algorithm_1(B, slope_of(np.eye(5), np.ones(5)), 0.5)
    np.testing.assert_allclose(turned, -B, atol=1e-15)
    np.testing.assert_allclose(a, 2 * np.sin(theta) - np.cos(theta), rtol=1e-12)


def test_trained_weights_keep_their_signs_and_turn_the_rows() -> None:
    a = np.array([2.0, -3.0])
    slope = slope_of(OBLIQUE, a)
    np.testing.assert_allclose(signed_outputs(OBLIQUE, slope, 0.5), a, rtol=1e-14)
    for signs in ((1.0, 1.0), (-1.0, -1.0)):
        W, trained = read_outputs(OBLIQUE * np.array(signs)[:, None], slope, 0.5, a=np.array([1.9, -3.1]))
        np.testing.assert_allclose(W, OBLIQUE, atol=1e-15)
        np.testing.assert_array_equal(trained, [1.9, -3.1])
    np.testing.assert_allclose(read_outputs(OBLIQUE, slope, 0.5)[1], [2.0, 3.0], rtol=1e-14)


def test_weights_of_an_even_activation_come_from_the_second_order() -> None:
    a = np.array([2.0, -3.0])
    np.testing.assert_allclose(fit_second(-OBLIQUE, (OBLIQUE.T * a) @ OBLIQUE), a, rtol=1e-13)
