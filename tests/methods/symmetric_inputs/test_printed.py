"""The boxes of [GKLW19], one by one: hand numbers, the printed formulas written out, and exact moments.

Each test goes red when a line of its box is broken: a factor, a sign, the split of the samples, the projection.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planted
from gaussian_moments import GaussianMoments
from planted import TwoLayerNetwork, simulate
from planted.linalg import diagonalise_by_congruence, svec
from planted.methods.symmetric_inputs import printed
from planted.methods.symmetric_inputs._spectral import with_unit_rows
from planted.methods.symmetric_inputs.printed import Layers, Samples
from planted.moments import SampleMoments
from planted.moments.population import gaussian_distinguishing_matrix
from planted.networks import gklw_error
from planted.rows import RowBlocks

SOLVER = 77  # far from the data seeds below
EPS = np.finfo(float).eps


def _samples(X: Any, Y: Any) -> Samples:
    return Samples.of(SampleMoments(RowBlocks.from_arrays(np.asarray(X, float), np.asarray(Y, float))))


def _symmetric_rows(n: int, d: int, seed: int) -> Any:
    """Rows x and -x: their odd moments vanish exactly."""
    X = np.random.default_rng(seed).standard_normal((n, d))
    return np.vstack([X, -X])


def _vec(u: Any) -> Any:
    """The paper's vec* of u u': its upper triangle, without factors."""
    return np.outer(u, u)[np.triu_indices(len(u))]


def _error(found: Layers, truth: TwoLayerNetwork) -> float:
    return float(planted.parameter_error(with_unit_rows(found.V, found.A), truth))


def _teacher(d: int, k: int, m: int, seed: int = 1, outputs: str = "random") -> TwoLayerNetwork:
    return simulate.teacher(d, k, m, hidden="orthonormal", outputs=outputs, random_state=seed)


def _rng() -> np.random.Generator:
    return np.random.default_rng(SOLVER)


# Algorithm 1 ---------------------------------------------------------------------------------------------------------


def test_algorithm_1_by_hand() -> None:
    """x = ±1, ±2: E[x²] = 2.5; w = 3 has E[y x] = 3.75 and w = -1 has -1.25, and twice the ratios are 3 and -1."""
    x = np.array([[1.0], [-1.0], [2.0], [-2.0]])
    found = printed.algorithm_1(_samples(x, np.maximum(x @ [[3.0, -1.0]], 0)))
    np.testing.assert_allclose(found, [[3.0], [-1.0]], rtol=1e-14)


def test_algorithm_1_takes_correlated_inputs_apart() -> None:
    """C⁻¹ on one side alone: with C = L L' any power of C but -1 would leave a wrong direction."""
    X = _symmetric_rows(20, 3, 2) @ np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, -3.0, 0.5]])
    w = np.array([0.5, -2.0, 1.0])
    np.testing.assert_allclose(
        printed.algorithm_1(_samples(X, np.maximum(X @ w, 0)[:, None])), [w], rtol=1e-10
    )


# steps 2 to 5 of Algorithms 2 and 3 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("noisy", [False, True])
def test_detectors_are_the_printed_formula(noisy: bool) -> None:
    """f(u) of step 3, term by term as printed, on rows that obey no model at all."""
    rng = np.random.default_rng(3)
    X, Y, u = rng.standard_normal((40, 3)), rng.standard_normal((40, 2)), rng.standard_normal(2)
    y, C_inverse = Y @ u, np.linalg.inv(X.T @ X / 40)
    squares = svec(X[:, :, None] * X[:, None, :])  # x ⊗ x
    yx = y @ X / 40  # E[(u'y) x]
    f = 2 * (y * (X @ C_inverse @ yx)) @ squares / 40 - y**2 @ squares / 40
    if noisy:
        f += ((y**2).mean() - 2 * yx @ C_inverse @ yx) * squares.mean(axis=0)
    T = (printed.corrected_detector if noisy else printed.plain_detector)(_samples(X, Y))
    assert T.shape == (6, 3)
    np.testing.assert_allclose(T @ _vec(u), f, rtol=1e-10)


@pytest.mark.parametrize("noisy", [False, True])
def test_detectors_see_pairs_of_units_alone(noisy: bool) -> None:
    """Lemmas 3 and 9: f(u) = Σ_{i<j} c_i c_j (N_ij - m_ij E[x ⊗ x]) with c = A'u, and m_ij of Algorithm 3 only."""
    truth, covariance = _teacher(4, 3, 3), np.diag([1.0, 2.0, 0.5, 1.5])
    u = np.array([0.3, -1.0, 0.7])
    c, pairs = truth.A.T @ u, np.triu_indices(3, 1)
    N = gaussian_distinguishing_matrix(truth.W, covariance)
    if noisy:  # m_ij = E[t_i t_j 1{t_i t_j <= 0}] = E[t_i t_j] - 2 E[σ(t_i) σ(t_j)], by Lemma 7
        S = truth.W @ covariance @ truth.W.T
        sizes = np.sqrt(np.outer(np.diag(S), np.diag(S)))
        angle = np.arccos(np.clip(S / sizes, -1, 1))
        m = S - sizes * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
        N = N - np.outer(svec(covariance), m[pairs])
    noise = np.diag([0.1, 0.2, 0.3]) if noisy else np.zeros((3, 3))
    detector = printed.corrected_detector if noisy else printed.plain_detector
    T = detector(Samples.of(GaussianMoments(truth, covariance, noise)))
    np.testing.assert_allclose(T @ _vec(u), N @ (c[pairs[0]] * c[pairs[1]]), rtol=1e-10, atol=1e-14)


def test_step_5_by_hand() -> None:
    """T = (1, 0, -1) is zero on U with U_11 = U_22: the span of (1, 1)(1, 1)' and (1, -1)(1, -1)'."""
    matrices, values = printed.least_singular_matrices(
        np.array([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [0.0] * 3]), 2
    )
    np.testing.assert_allclose(values, [np.sqrt(2), 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(matrices[:, 0, 0], matrices[:, 1, 1], atol=1e-15)
    np.testing.assert_allclose(matrices, matrices.transpose(0, 2, 1))
    triangles = matrices[:, [0, 0, 1], [0, 1, 1]]  # vec* of each: orthonormal, as singular vectors are
    np.testing.assert_allclose(triangles @ triangles.T, np.eye(2), atol=1e-14)


# steps 7 and 8 --------------------------------------------------------------------------------------------------------


def test_eigenvectors_of_a_pair_are_the_rows() -> None:
    """Lemma 5: any two members of the span of z_i z_i' have the z_i as common eigenvectors."""
    rng = np.random.default_rng(4)
    Z = rng.standard_normal((4, 4))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    span = np.stack([Z.T @ np.diag(d) @ Z for d in rng.standard_normal((4, 4))])
    found = printed.eigenvectors_of_random_pair(span, _rng())
    cosines = np.abs(found @ Z.T)
    assert sorted(cosines.argmax(axis=1)) == [0, 1, 2, 3]
    np.testing.assert_allclose(cosines.max(axis=1), 1.0, rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_a_pair_alone_is_joint_diagonalisation_without_sweeps(seed: int) -> None:
    """The same random pair; that routine inverts Z twice, each inversion with relative error k κ(Z) ε, so k κ(Z)² ε."""
    rng = np.random.default_rng(seed)
    span = rng.standard_normal((5, 5, 5))
    span = span + span.transpose(0, 2, 1)  # no common eigenvectors: complex pairs appear
    Z = printed.eigenvectors_of_random_pair(span, _rng())
    rival = diagonalise_by_congruence(span, _rng(), n_restarts=1, max_sweeps=0)
    np.testing.assert_allclose(
        np.abs((Z * rival.Z.T).sum(axis=1)), 1.0, atol=5 * np.linalg.cond(Z) ** 2 * EPS
    )
    assert printed._energy_off_diagonal(span, Z) == pytest.approx(rival.residual, rel=1e-8)


def test_complex_pairs_give_their_plane() -> None:
    """X Y⁻¹ a rotation by 90 degrees has eigenvectors (1, ±i)/√2: the real and imaginary parts are the two axes."""

    class Fixed:
        def standard_normal(self, shape: tuple[int, int]) -> Any:
            return np.eye(2)

    span = np.stack([np.array([[0.0, 1.0], [1.0, 0.0]]), np.diag([1.0, -1.0])])
    Z = printed.eigenvectors_of_random_pair(span, Fixed())  # type: ignore[arg-type]
    np.testing.assert_allclose(np.sort(np.abs(Z), axis=0), [[0.0, 0.0], [1.0, 1.0]], atol=1e-14)


# Algorithms 2, 3 and 4 ------------------------------------------------------------------------------------------------


def test_algorithm_2_on_rows_that_are_exactly_symmetric() -> None:
    """Theorem 4: on rows x and -x all moments are those of a symmetric law; the scale is that of unit rows of Z."""
    truth, X = _teacher(4, 3, 3), _symmetric_rows(60, 4, 5)
    found = printed.algorithm_2(_samples(X, truth(X)), _rng())
    assert _error(found, truth) < 1e-10
    Z = np.linalg.inv(found.A)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0, rtol=1e-10)
    assert (Z @ truth(X).mean(axis=0) > 0).all()  # step 9
    assert found.residual < 1e-20 and found.detector_values[-3] < 1e-10 * found.detector_values[-4]


def test_algorithm_3_finds_the_outputs_in_the_first_half_and_the_units_in_the_second() -> None:
    """Halves with the same A and different W: A must come from the first, V from the second."""
    first, second = _teacher(4, 3, 3, seed=1), _teacher(4, 3, 3, seed=6)
    X = _symmetric_rows(60, 4, 5)
    other = TwoLayerNetwork(second.W, None, first.A)
    samples = _samples(np.vstack([X, X]), np.vstack([first(X), other(X)]))
    found = printed.algorithm_3(samples, _rng())
    assert _error(found, other) < 1e-10
    T = printed.corrected_detector(_samples(X, first(X)))
    np.testing.assert_allclose(found.detector_values, np.linalg.svd(T)[1], rtol=1e-8, atol=1e-12)


def test_algorithm_3_takes_signs_from_the_second_half() -> None:
    """Step 9 with E[z'y] of opposite signs in the halves: the negated outputs of the second half turn A round."""
    truth, X = _teacher(4, 3, 3), _symmetric_rows(60, 4, 5)
    samples = _samples(np.vstack([X, X]), np.vstack([truth(X), -truth(X)]))
    found = printed.algorithm_3(samples, _rng())
    assert _error(found, TwoLayerNetwork(truth.W, None, -truth.A)) < 1e-10


def test_noise_spoils_algorithm_2_and_not_algorithm_3() -> None:
    """Theorem 5, from exact moments with noise of unequal variances."""
    truth = _teacher(5, 3, 3)
    samples = Samples.of(GaussianMoments(truth, np.diag(np.linspace(0.5, 2, 5)), np.diag([0.1, 0.2, 0.4])))
    found = printed.algorithm_3(samples, _rng())
    assert _error(found, truth) < 1e-10
    assert 0 <= found.residual < 1e-10  # the rows diagonalise the whole span
    assert _error(printed.algorithm_2(samples, _rng()), truth) > 1e-3


def test_algorithm_4_projects_and_multiplies_back() -> None:
    """Theorem 6, from exact moments: m = 6 outputs of k = 3 units with noise, which fills all six dimensions."""
    truth = _teacher(5, 3, 6)
    samples = Samples.of(GaussianMoments(truth, np.eye(5), np.diag(np.linspace(0.1, 0.5, 6))))
    found = printed.algorithm_4(samples, 3, _rng())
    assert found.A.shape == (6, 3)
    assert _error(found, truth) < 1e-10


def test_algorithm_4_reads_each_part_of_the_rows_once() -> None:
    """P from the first half, T from the third quarter, V from the fourth: one network A, three hidden layers.

    Outside the span of A the first half has no outputs and the second has large ones, linear in x, which the projection
    from the first half removes and a projection from any other rows would keep.
    """
    nets = [_teacher(4, 2, 4, seed=seed) for seed in (1, 6, 7)]
    nets = [TwoLayerNetwork(net.W, None, nets[0].A) for net in nets]
    X = _symmetric_rows(60, 4, 5)
    outside = np.linalg.svd(nets[0].A)[0][:, 2:]
    nuisance = 10 * X[:, :2] @ outside.T
    rows = [nets[0](X), nets[0](X), nets[1](X) + nuisance, nets[2](X) + nuisance]
    found = printed.algorithm_4(_samples(np.vstack([X] * 4), np.vstack(rows)), 2, _rng())
    assert _error(found, nets[2]) < 1e-10


def test_the_output_basis_has_the_columns_of_a() -> None:
    truth, X = _teacher(4, 2, 5), _symmetric_rows(30, 4, 8)
    P = printed.output_basis(_samples(X, truth(X)), 2)
    np.testing.assert_allclose(P.T @ P, np.eye(2), atol=1e-14)
    np.testing.assert_allclose(P @ (P.T @ truth.A), truth.A, rtol=1e-10)


# Section 4 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noisy", [False, True])
def test_section_4_from_exact_moments(noisy: bool) -> None:
    """Orthonormal A, as in the paper's experiments: alternating least squares may stall where A is ill conditioned."""
    truth = _teacher(5, 3, 3, outputs="orthonormal")
    noise = np.diag([0.1, 0.2, 0.4]) if noisy else np.zeros((3, 3))
    samples = Samples.of(GaussianMoments(truth, np.eye(5), noise))
    detector = printed.corrected_detector if noisy else printed.plain_detector
    assert _error(printed.section_4(detector(samples), samples, _rng()), truth) < 1e-10


def test_section_4_learns_w_by_descent_with_a_fixed() -> None:
    """T from exact moments, so that A is exact; 200 noiseless rows. Algorithm 1 leaves W wrong, descent does not."""
    truth = _teacher(5, 3, 3, outputs="orthonormal")
    T = printed.plain_detector(Samples.of(GaussianMoments(truth, np.eye(5), np.zeros((3, 3)))))
    X = simulate.inputs(200, 5, random_state=9)
    samples = _samples(X, truth(X))
    found = printed.section_4(T, samples, _rng())
    started = printed.algorithm_1(samples.mapped(np.linalg.inv(found.A)))
    assert _error(Layers(started, found.A, found.detector_values, 0.0), truth) > 0.05
    assert _error(found, truth) < 1e-4


def test_section_4_descends_in_the_projected_outputs() -> None:
    """Samples mapped by P' with orthonormal rows: the gradient is that of |A σ(V x) - P'y|², by differences."""
    rng, truth, X = np.random.default_rng(10), _teacher(4, 2, 5), _symmetric_rows(30, 4, 8)
    P = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    V, A, move = rng.standard_normal((2, 4)), rng.standard_normal((2, 2)), rng.standard_normal((2, 4))
    samples = _samples(X, truth(X)).mapped(P.T)

    def cost(step: float) -> float:
        rest = np.maximum(X @ (V + step * move).T, 0) @ A.T - truth(X) @ P
        return float((rest**2).sum(axis=1).mean() / 2)

    slope = (cost(1e-6) - cost(-1e-6)) / 2e-6
    assert (samples.hidden_gradient(V, A) * move).sum() == pytest.approx(slope, rel=1e-6)


def test_section_4_decomposes_ten_matrices_for_each_unit_ten_times(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, seen = _teacher(5, 3, 3, outputs="orthonormal"), []
    samples = Samples.of(GaussianMoments(truth, np.eye(5), np.zeros((3, 3))))
    decompose = printed.decompose_symmetric

    def spy(matrices: Any, rank: int, *, rng: Any, n_restarts: int) -> Any:
        seen.append((matrices.shape, rank, n_restarts))
        return decompose(matrices, rank, rng=rng, n_restarts=n_restarts)

    monkeypatch.setattr(printed, "decompose_symmetric", spy)
    printed.section_4(printed.plain_detector(samples), samples, _rng())
    assert seen == [((30, 3, 3), 3, 10)]


@pytest.mark.parametrize("seed", [1])
def test_section_4_finds_a_dozen_units(seed: int) -> None:
    """Ten full runs at 12 units, n = 10,000: the root of the error of A is about a hundredth of the dimension."""
    options: dict[str, Any] = {"hidden": "orthonormal", "outputs": "orthonormal", "random_state": 500 + seed}
    data = simulate.dataset(10_000, n_features=12, n_hidden=12, n_outputs=12, **options)
    answer = planted.recover(
        data.X, data.Y, 12, method="symmetric-inputs", variant="practical", noise="none", random_state=seed
    )
    assert answer.network is not None
    assert np.sqrt(gklw_error(answer.network, data.network).A) / 12 < 0.02
