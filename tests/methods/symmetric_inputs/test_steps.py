"""Paired sums, population moments, the symmetric CP and the steps of symmetric inputs, against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planted
from gaussian_moments import GaussianMoments, relu_slopes_with_inputs
from planted import TwoLayerNetwork, diagnostics, simulate
from planted.fitting._jacobian import information
from planted.fitting._refine import refine
from planted.linalg import decompose_symmetric, diagonalise_by_congruence, svec, svec_outer
from planted.methods.symmetric_inputs._few_rows import bootstrap_exactly, kernel_slope
from planted.methods.symmetric_inputs._moments import null_matrices
from planted.methods.symmetric_inputs._slope import controlled_slope, learn_single_unit, slope_of
from planted.methods.symmetric_inputs._theory import rank_evidence
from planted.methods.symmetric_inputs._variants import recover_from_moments
from planted.moments import PairMaps, SampleMoments, accumulate_normal, accumulate_pairs, distinguishing_sums
from planted.moments.population import relu_products
from planted.outcomes import BadInputError
from planted.rows import RowBlocks

MAPS_SEED, ROWS_SEED = 1, 2


def _maps(d: int, m: int, k: int, r: int) -> PairMaps:
    rng = np.random.default_rng(MAPS_SEED)
    return PairMaps(rng.standard_normal((d, r)), rng.standard_normal((k, m)), rng.standard_normal((k, d)))


def _rows(n: int, d: int, m: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(ROWS_SEED)
    return rng.standard_normal((n, d)), rng.standard_normal((n, m))


def test_paired_sums_are_the_sums_of_the_features() -> None:
    X, Y = _rows(200, 4, 5)
    maps = _maps(4, 5, 3, 2)
    g = svec_outer(X @ maps.V)
    y, q = Y @ maps.P.T, X @ maps.Q.T
    h = np.array([svec(np.outer(a, b) + np.outer(b, a) - np.outer(a, a)) for a, b in zip(y, q, strict=True)])
    sums = accumulate_pairs(RowBlocks.from_arrays(X, Y, block_rows=37), maps)
    for found, expected in ((sums.g, g.sum(0)), (sums.h, h.sum(0)), (sums.gg, g.T @ g), (sums.gh, g.T @ h)):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(sums.covariance, np.cov(g.T, h.T, bias=True)[:3, 3:], atol=1e-12)
    np.testing.assert_allclose(sums.spread, np.cov(g.T, bias=True), atol=1e-12)


def test_paired_sums_merge_and_can_leave_out_the_spread() -> None:
    X, Y = _rows(90, 4, 5)
    maps = _maps(4, 5, 3, 4)
    whole = accumulate_pairs(RowBlocks.from_arrays(X, Y), maps)
    parts = [accumulate_pairs(RowBlocks.from_arrays(X[i], Y[i]), maps) for i in (slice(0, 31), slice(31, 90))]
    merged = parts[0].merge(parts[1])
    np.testing.assert_allclose(merged.gh, whole.gh, rtol=1e-10, atol=1e-12)
    assert merged.count == 90
    short = accumulate_pairs(RowBlocks.from_arrays(X, Y), maps, spread=False)
    assert short.gg.shape == (0, 0)
    np.testing.assert_allclose(short.gh, whole.gh, rtol=1e-12)


def test_single_precision_features_have_double_sums() -> None:
    """A float32 total of 2^25 ones stays at 2^24; float64 sums of float32 slices do not."""
    X, Y = _rows(5000, 4, 5)
    maps = _maps(4, 5, 3, 4)
    double = accumulate_pairs(RowBlocks.from_arrays(X, Y), maps)
    single = accumulate_pairs(RowBlocks.from_arrays(X, Y), maps, precision="single")
    assert single.gh.dtype == np.float64
    relative = np.abs(single.gg - double.gg).max() / np.abs(double.gg).max()
    assert 0 < relative < 1e-5


def test_the_detector_vanishes_on_pure_neurons_only() -> None:
    """<svec(z z'), h> is zero on every noiseless sample when Q is half of A W, equation (1)."""
    net = simulate.teacher(5, 3, 3, random_state=3)
    X = simulate.inputs(50, 5, random_state=4)
    Z = np.linalg.inv(net.A)
    q = X @ (net.A @ net.W).T / 2
    h = svec_outer(q) - svec_outer(q - net(X))
    for z in Z:
        assert np.abs(h @ svec(np.outer(z, z))).max() < 1e-10 * np.abs(h).max() * (z @ z)
    mixed = Z[0] + Z[1]
    assert np.abs(h @ svec(np.outer(mixed, mixed))).max() > 1e-2


def test_halves_are_the_first_and_the_second_rows() -> None:
    X, Y = _rows(101, 3, 2)
    first, second = SampleMoments(RowBlocks.from_arrays(X, Y, block_rows=13)).halves()
    assert (first.joint().count, second.joint().count) == (50, 51)
    np.testing.assert_allclose(first.joint().mean, np.hstack([X, Y])[:50].mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(second.joint().mean, np.hstack([X, Y])[50:].mean(axis=0), atol=1e-14)


def test_controlled_slopes_are_least_squares() -> None:
    X, Y = _rows(300, 4, 2)
    moments = SampleMoments(RowBlocks.from_arrays(X, Y, block_rows=71))
    V = np.linalg.qr(np.random.default_rng(MAPS_SEED).standard_normal((4, 2)))[0]
    W = np.random.default_rng(5).standard_normal((3, 4))
    for found, controls in (
        (moments.slope(V), svec_outer(X @ V)),
        (moments.slope_beside(W), np.abs(X @ W.T)),
    ):
        design = np.hstack([X, np.ones((300, 1)), controls])
        fitted, squares, *_ = np.linalg.lstsq(design, Y)
        np.testing.assert_allclose(found.B, 2 * fitted[:4].T, atol=1e-10)
        assert found.residual_variance == pytest.approx(squares.sum() / (300 - design.shape[1]) / 2, rel=1e-9)


def test_distinguishing_columns_by_hand() -> None:
    """x = (1, -1) and (2, 1) with units e_1, e_2: only the first has t_1 t_2 <= 0, so N = -(1, -√2, 1) / 2."""
    N, second = distinguishing_sums(
        RowBlocks.from_arrays(np.array([[1.0, -1.0], [2.0, 1.0]]), np.zeros((2, 1))), np.eye(2), np.eye(2)
    )
    np.testing.assert_allclose(N[:, 0], np.array([-1.0, np.sqrt(2), -1.0]) / 2)
    np.testing.assert_allclose(second, [2.5, np.sqrt(2) / 2, 1.0])


# population moments ------------------------------------------------------------------------------------------------


def test_population_moments_are_the_limit_of_sums() -> None:
    """Within 5 standard errors, estimated from the samples, in every entry of every moment."""
    net = simulate.teacher(3, 2, 3, random_state=6)
    root = np.random.default_rng(7).standard_normal((3, 3))
    covariance = root @ root.T + 0.2 * np.eye(3)
    rng = np.random.default_rng(8)
    batches = 40
    maps = _maps(3, 3, 2, 3)
    population = GaussianMoments(net, covariance, 0.09 * np.eye(3))
    draws = []
    W, A = rng.standard_normal((2, 3)), rng.standard_normal((3, 2))
    for _ in range(batches):
        X = rng.standard_normal((3000, 3)) @ np.linalg.cholesky(covariance).T
        Y = net(X) + 0.3 * rng.standard_normal((3000, 3))
        sample = SampleMoments(RowBlocks.from_arrays(X, Y))
        sums = sample.pairs(maps)
        parts = [sums.g, sums.h, sums.gg.ravel(), sums.gh.ravel()]
        gradient = sample.hidden_gradient(W, A).ravel()
        joint = sample.joint()
        draws.append(
            np.concatenate([*(p / sums.count for p in parts), gradient, joint.mean, joint.covariance.ravel()])
        )
    exact = population.pairs(maps)
    joint = population.joint()
    expected = np.concatenate(
        [exact.g, exact.h, exact.gg.ravel(), exact.gh.ravel(), population.hidden_gradient(W, A).ravel(), joint.mean,
         joint.covariance.ravel()]
    )  # fmt: skip
    mean, error = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1) / np.sqrt(batches)
    assert (np.abs(mean - expected) <= 5 * error + 1e-3 * np.abs(expected)).all()


def test_arc_cosine_kernel_at_known_angles() -> None:
    """Equal rows give 1/2, opposite ones 0, orthogonal ones 1/(2π)."""
    kernel = relu_products(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), np.eye(2))
    np.testing.assert_allclose(kernel, [[0.5, 0.0, 1 / (2 * np.pi)]], atol=1e-15)


def test_slopes_are_the_gradient_of_the_kernel() -> None:
    rng = np.random.default_rng(9)
    W, U, step = rng.standard_normal((1, 3)), rng.standard_normal((1, 3)), 1e-6
    numerical = [
        (relu_products(W + step * e, U, np.eye(3)) - relu_products(W - step * e, U, np.eye(3)))[0, 0]
        / (2 * step)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(relu_slopes_with_inputs(W, U, np.eye(3))[0, 0], numerical, rtol=1e-7)


@pytest.mark.parametrize("law", ["gaussian", "mixture"])
def test_closed_form_and_sampled_distinguishing_matrices_agree(law: str) -> None:
    W = simulate.teacher(4, 3, 3, random_state=10).W
    chosen = simulate.Gaussian(4) if law == "gaussian" else simulate.Mixture(4)
    first = diagnostics.augmented_matrix(W, chosen, n_samples=200_000, random_state=11)
    rows = chosen.sample(200_000, np.random.default_rng(12))
    second = diagnostics.augmented_matrix(W, rows)
    # Standard error of products of four inputs: about √(100 / 200,000) = 0.02, with kurtosis up to 0.1.
    assert np.abs(first - second).max() < (0.1 if law == "gaussian" else 0.5)
    assert diagnostics.distinguishing_matrix(W, chosen, n_samples=10).shape == (10, 3)


def test_diagnostics_refuse_mismatched_shapes() -> None:
    with pytest.raises(BadInputError, match="n_features=5"):
        diagnostics.augmented_matrix(np.eye(3), simulate.Gaussian(5))
    with pytest.raises(BadInputError, match="inputs have 5"):
        diagnostics.augmented_matrix(np.eye(3), np.ones((7, 5)))
    with pytest.raises(BadInputError, match="NaN"):
        diagnostics.symmetry_test(np.full((3, 2), np.nan))


# steps -------------------------------------------------------------------------------------------------------------


def test_one_unit_is_twice_the_slope() -> None:
    """Algorithm 1 by hand: on x = ±1, ±2 with w = 3 the mean of y x is 3.75 and of x² 2.5, and 2 · 3.75 / 2.5 = 3."""
    x = np.array([1.0, -1.0, 2.0, -2.0])
    y = np.maximum(3 * x, 0)
    assert (y * x).mean() == 3.75
    np.testing.assert_allclose(learn_single_unit(np.array([[2.5]]), np.array([3.75])), [3.0])


def test_slope_finds_rank_and_bases() -> None:
    rng = np.random.default_rng(13)
    B = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4))
    slope = slope_of(B, np.diag([1.0, 2.0, 3.0, 4.0]), residual_variance=0.0, count=10)
    assert slope.rank == 2
    np.testing.assert_allclose(slope.truncated(2), B, atol=1e-12)
    V, P = slope.input_directions(2), slope.output_map(2)
    np.testing.assert_allclose(B @ V @ V.T, B, atol=1e-12)
    np.testing.assert_allclose(P @ B @ np.diag([1.0, 2.0, 3.0, 4.0]) @ B.T @ P.T, np.eye(2), atol=1e-12)
    assert slope_of(B, np.eye(4), residual_variance=1e6, count=10).rank == 0


def test_controls_shrink_the_error_of_the_slope() -> None:
    data = simulate.dataset(4000, n_features=8, n_hidden=5, n_outputs=6, random_state=14)
    moments = SampleMoments(RowBlocks.from_arrays(data.X, data.Y))
    B = data.network.A @ data.network.W
    joint = moments.joint()
    C = joint.covariance[:8, :8] + np.outer(joint.mean[:8], joint.mean[:8])
    R = joint.covariance[8:, :8] + np.outer(joint.mean[8:], joint.mean[:8])
    plain, controlled = learn_single_unit(C, R), controlled_slope(moments, 5).B
    assert np.linalg.norm(controlled - B) < 0.5 * np.linalg.norm(plain - B)
    rows = data.X[:400], data.Y[:400]
    few = kernel_slope(*rows).B
    ordinary = 2 * np.linalg.lstsq(*rows)[0].T
    assert np.linalg.norm(few - B) < 0.5 * np.linalg.norm(ordinary - B)


def test_null_matrices_span_what_was_put_in() -> None:
    rng = np.random.default_rng(15)
    pure = np.stack([np.outer(z, z) for z in rng.standard_normal((2, 2))])
    outside = np.linalg.svd(svec(pure))[2][2:]
    matrices, values = null_matrices(rng.standard_normal((7, 1)) @ outside, 2)
    assert values[0] > 1e-3 > 1e-12 > values[1]
    span = np.linalg.qr(svec(matrices).T)[0]
    np.testing.assert_allclose(span @ (span.T @ svec(pure).T), svec(pure).T, atol=1e-12)


def test_symmetric_cp_finds_the_factor() -> None:
    rng = np.random.default_rng(16)
    Z = rng.standard_normal((4, 4))
    stack = np.stack([Z @ np.diag(d) @ Z.T for d in rng.standard_normal((40, 4))])
    found = decompose_symmetric(stack, 4, rng=np.random.default_rng(17))
    cosines = np.abs(found.Z.T @ (Z / np.linalg.norm(Z, axis=0)))
    assert found.residual < 1e-15
    np.testing.assert_allclose(np.sort(cosines.max(axis=0)), np.ones(4), atol=1e-6)
    assert len(set(cosines.argmax(axis=0))) == 4


def test_no_sweeps_leave_the_eigenvectors_of_one_pair() -> None:
    rng = np.random.default_rng(18)
    Z = rng.standard_normal((3, 3))
    stack = np.stack([Z @ np.diag(d) @ Z.T for d in rng.standard_normal((3, 3))])
    stack += 1e-4 * np.stack([s + s.T for s in rng.standard_normal((3, 3, 3))])
    alone = diagonalise_by_congruence(stack, np.random.default_rng(19), n_restarts=1, max_sweeps=0)
    swept = diagonalise_by_congruence(stack, np.random.default_rng(19), n_restarts=1)
    assert alone.sweeps == 0
    assert swept.residual < alone.residual


def test_bootstrap_makes_an_approximate_network_exact() -> None:
    """Corollary 5 of [BJW18]: output weights off by 10 % lead to units exact to rounding."""
    data = simulate.dataset(120, n_features=8, n_hidden=5, n_outputs=6, random_state=20)
    rng = np.random.default_rng(21)
    rough = TwoLayerNetwork(data.network.W + 0.1 * rng.standard_normal((5, 8)), None, data.network.A)
    exact = bootstrap_exactly(data.X, data.Y, rough, rng=rng, max_starts=500)
    assert exact is not None
    assert planted.parameter_error(exact, data.network) < 1e-12
    noisy = data.Y + 0.1 * rng.standard_normal(data.Y.shape)
    assert bootstrap_exactly(data.X, noisy, rough, rng=rng, max_starts=200) is None


def test_known_biases_do_not_move_and_count_as_known() -> None:
    data = simulate.dataset(2000, n_features=5, n_hidden=3, n_outputs=4, noise=0.1, random_state=22)
    blocks = RowBlocks.from_arrays(data.X, data.Y)
    pinned = refine(blocks, data.network, offset=False, biases=False)
    free = refine(blocks, data.network, offset=False)
    assert not pinned.network.b.any()
    assert free.network.b.any()
    assert free.cost < pinned.cost
    sums = accumulate_normal(blocks, pinned.network)
    known = information(sums, pinned.network, offset=False, biases=False).variances
    unknown = information(sums, pinned.network, offset=False).variances
    assert known is not None and unknown is not None
    assert not known["b"].any()
    assert (known["W"].sum(), known["A"].sum()) < (unknown["W"].sum(), unknown["A"].sum())


def test_a_unit_of_one_input_without_bias_is_only_a_sign() -> None:
    X = np.linspace(-1, 1, 21)[:, None]
    net = TwoLayerNetwork([[1.0]], None, [[2.0]])
    info = information(
        accumulate_normal(RowBlocks.from_arrays(X, net(X)), net), net, offset=False, biases=False
    )
    assert info.variances is not None
    assert info.variances["W"].item() == 0.0
    assert info.variances["A"].item() == pytest.approx(1 / (np.maximum(X, 0) ** 2).sum())


def test_superfluous_units_do_not_rise_above_noise() -> None:
    data = simulate.dataset(4000, n_features=6, n_hidden=3, n_outputs=5, noise=0.2, random_state=23)
    moments = SampleMoments(RowBlocks.from_arrays(data.X, data.Y))
    extra = np.vstack([data.network.W, np.random.default_rng(24).standard_normal((1, 6))])
    wide = TwoLayerNetwork(extra / np.linalg.norm(extra, axis=1, keepdims=True), None, np.ones((5, 4)))
    assert rank_evidence(moments, wide)[0].measured == 3


def test_symmetrised_data_and_their_refusals() -> None:
    with pytest.raises(BadInputError, match=r"shape \(3,\)"):
        simulate.symmetrise(np.ones(3), lambda rows: rows)
    with pytest.raises(BadInputError, match="for 4 inputs"):
        simulate.symmetrise(np.ones((2, 2)), lambda rows: rows[:1])
    X, Y = simulate.symmetrise(np.ones((2, 2)), lambda rows: rows[:, 0])
    assert Y.shape == (4, 1) and not X.sum()


def test_unknown_choices_are_refused() -> None:
    data = simulate.dataset(50, n_features=3, n_hidden=2, n_outputs=2, random_state=25)
    for option in ({"variant": "best"}, {"noise": "some"}, {"precision": "half"}):
        with pytest.raises(BadInputError, match=next(iter(option))):
            planted.recover(data.X, data.Y, method="symmetric-inputs", **option)
    moments = SampleMoments(RowBlocks.from_arrays(data.X, data.Y))
    with pytest.raises(BadInputError, match="unknown variant"):
        recover_from_moments(moments, 2, variant="best", rng=np.random.default_rng(0))
