"""The theorems on symmetric inputs [GKLW19], as tests: population, rate, symmetry, refusal, rival, parity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planted
from gaussian_moments import GaussianMoments
from planted import Outcome, TwoLayerNetwork, diagnostics, simulate
from planted.checks import Check
from planted.fitting._jacobian import information
from planted.fitting._run import prepare_problem
from planted.methods.symmetric_inputs._theory import theorem_evidence
from planted.methods.symmetric_inputs._variants import VARIANTS, recover_from_moments
from planted.moments import SampleMoments, accumulate_normal
from planted.networks import match_units
from planted.results import Uncertainty
from planted.rows import RowBlocks

METHOD = "symmetric-inputs"
SOLVER = 77  # far from the data seeds below


def _world(n: int, shape: tuple[int, int, int], seed: int, **options: Any) -> simulate.Dataset:
    d, k, m = shape
    options = {"hidden": "orthonormal", "outputs": "orthonormal"} | options
    return simulate.dataset(n, n_features=d, n_hidden=k, n_outputs=m, random_state=seed, **options)


def _recover(data: simulate.Dataset, n_hidden: int | str = "auto", **options: Any) -> planted.Recovery:
    return planted.recover(data.X, data.Y, n_hidden, method=METHOD, random_state=SOLVER, **options)


def _squared_error(found: TwoLayerNetwork, truth: TwoLayerNetwork) -> float:
    matching = match_units(found, truth)
    net, true, order = matching.network, matching.truth, matching.permutation
    return float(((net.W[order] - true.W) ** 2).sum() + ((net.A[:, order] - true.A) ** 2).sum())


def _covariance(d: int, seed: int) -> np.ndarray[Any, Any]:
    root = np.random.default_rng(seed).standard_normal((d, d))
    return root @ root.T / d + 0.5 * np.eye(d)


# a. population -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("shape", [(6, 4, 4), (6, 4, 7), (5, 5, 5), (4, 1, 2)])
def test_exact_moments_give_the_exact_network(variant: str, noisy: bool, shape: tuple[int, int, int]) -> None:
    """Theorems 4, 5 and 6: 1e-10 leaves three digits above what alternating least squares, the least exact step, reaches."""
    d, k, m = shape
    truth = simulate.teacher(d, k, m, hidden="orthonormal", outputs="orthonormal", random_state=1)
    noise = np.diag(np.linspace(0.1, 0.3, m)) if noisy else np.zeros((m, m))
    moments = GaussianMoments(truth, _covariance(d, 2), noise)
    found = recover_from_moments(moments, k, variant=variant, noisy=noisy, rng=np.random.default_rng(SOLVER))
    assert planted.parameter_error(found.network, truth) < 1e-10


def test_noise_breaks_algorithm_two_and_not_three() -> None:
    """Without the correction of Algorithm 3 the noise's own square stays in the detector."""
    truth = simulate.teacher(6, 4, 4, hidden="orthonormal", outputs="orthonormal", random_state=1)
    moments = GaussianMoments(truth, np.eye(6), np.diag([0.1, 0.2, 0.3, 0.4]))
    rng = np.random.default_rng(SOLVER)
    corrected = recover_from_moments(moments, 4, variant="paper", noisy=True, rng=rng)
    plain = recover_from_moments(moments, 4, variant="paper", noisy=False, rng=rng)
    assert planted.parameter_error(corrected.network, truth) < 1e-10
    assert planted.parameter_error(plain.network, truth) > 1e-3


def test_pairs_from_an_oracle_make_the_spectral_answer_exact() -> None:
    """With x and -x the slope is exact, and the detector vanishes on every sample: 60 pairs at d = 10, no refinement."""
    truth = simulate.teacher(10, 10, 10, hidden="orthonormal", outputs="orthonormal", random_state=3)
    X, Y = simulate.symmetrise(simulate.inputs(60, 10, law="exponential", random_state=4), truth)
    found = recover_from_moments(
        SampleMoments(RowBlocks.from_arrays(X, Y)), 10, noisy=False, rng=np.random.default_rng(SOLVER)
    )
    assert planted.parameter_error(found.network, truth) < 1e-10


# b. rate and efficiency ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["paper", "efficient"])
def test_unrefined_error_falls_like_one_over_root_n(variant: str) -> None:
    """Slope -1/2 within three standard errors of a median, which must be small enough to tell it from -1/4 and -1.

    Medians, because a single random pair of Jennrich's step is sometimes nearly degenerate.
    """
    sizes, slopes = (4_000, 64_000), []
    for seed in range(12):
        errors = []
        for n in sizes:
            data = _world(n, (4, 2, 2), seed, noise=0.1)
            moments = SampleMoments(RowBlocks.from_arrays(data.X, data.Y))
            found = recover_from_moments(
                moments, 2, variant=variant, rng=np.random.default_rng(SOLVER + seed)
            )
            errors.append(np.sqrt(_squared_error(found.network, data.network)))
        slopes.append(np.log(errors[1] / errors[0]) / np.log(sizes[1] / sizes[0]))
    spread = 1.4826 * np.median(np.abs(slopes - np.median(slopes)))
    error = 1.2533 * spread / np.sqrt(len(slopes))
    assert error < 0.08
    assert abs(np.median(slopes) + 0.5) < 3 * error


@pytest.mark.parametrize("law", ["gaussian", "mixture"])
def test_refined_error_reaches_the_cramer_rao_bound(law: str) -> None:
    """The ratio has relative standard error √(2 / dof) / √seeds = 0.05; 1.1 + 2 × 0.05 = 1.2. Unrefined it is above 2."""
    errors, bounds, recovered = [], [], 0
    for seed in range(6):
        data = _world(4000, (8, 5, 7), seed, law=law, noise=0.1)
        answer = _recover(data)
        recovered += answer.outcome is Outcome.RECOVERED
        assert answer.network is not None
        errors.append(_squared_error(answer.network, data.network))
        truth = data.network
        sums = accumulate_normal(RowBlocks.from_arrays(data.X, data.Y), truth)
        variances = information(sums, truth, offset=False, biases=False).variances
        assert variances is not None
        bounds.append(0.01 * (variances["W"].sum() + variances["A"].sum()))
    assert np.sum(errors) / np.sum(bounds) < 1.2
    assert (
        recovered >= 4
    )  # a level of 2 % doubts one right network in fifty; three of six would be a chance of 2e-4


def test_standard_errors_cover_the_truth() -> None:
    """95 % intervals of 5 seeds × 75 parameters miss 5 % ± 4 standard errors of correlated counts."""
    missed: list[float] = []
    for seed in range(5):
        data = _world(3000, (8, 5, 7), 50 + seed, noise=0.2)
        answer = _recover(data)
        assert answer.network is not None and isinstance(answer.uncertainty, Uncertainty)
        true = data.network
        order = np.argmax(true.W @ answer.network.W.T, axis=1)  # rows are orthonormal and errors small
        errors = answer.uncertainty.standard_errors
        missed += list((np.abs(answer.network.W[order] - true.W) > 1.96 * errors["W"][order]).ravel())
        missed += list((np.abs(answer.network.A[:, order] - true.A) > 1.96 * errors["A"][:, order]).ravel())
    assert 0.01 < np.mean(missed) < 0.09


@pytest.mark.parametrize(("size", "n"), [(10, 60), (20, 200)])
def test_few_noiseless_samples_are_enough(size: int, n: int) -> None:
    data = [_world(n, (size, size, size), seed) for seed in range(2)]
    answers = [_recover(world) for world in data]
    assert all(answer.outcome is Outcome.RECOVERED for answer in answers)
    assert (
        max(planted.parameter_error(a.network, w.network) for a, w in zip(answers, data, strict=True)) < 1e-12
    )


@pytest.mark.parametrize("layer", ["hidden", "outputs"])
def test_badly_conditioned_weights(layer: str) -> None:
    data = _world(20_000, (10, 10, 10), 5, law="mixture", **{layer: simulate.Conditioned(50)})
    answer = _recover(data)
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, data.network) < 1e-10


# c. symmetry ---------------------------------------------------------------------------------------------------------


def test_rotated_inputs_rotate_the_answer() -> None:
    data = _world(3000, (6, 4, 5), 6, noise=0.1)
    turn = np.linalg.qr(np.random.default_rng(7).standard_normal((6, 6)))[0]
    plain = _recover(data).network
    turned = planted.recover(data.X @ turn.T, data.Y, method=METHOD, random_state=SOLVER).network
    assert plain is not None and turned is not None
    back = TwoLayerNetwork(turned.W @ turn, None, turned.A)
    # Both refinements stop within a hundredth of the noise's share of the cost: far below the error itself, 1e-2.
    assert planted.parameter_error(back, plain) < 1e-3


def test_scaled_outputs_scale_the_answer() -> None:
    data = _world(300, (6, 4, 5), 8)
    answer = planted.recover(data.X * 1e60, data.Y * 1e-90, method=METHOD, random_state=SOLVER)
    assert answer.outcome is Outcome.RECOVERED and answer.network is not None
    scaled = TwoLayerNetwork(answer.network.W, None, answer.network.A * 1e150)
    assert planted.parameter_error(scaled, data.network) < 1e-10


# d. refusal ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("law", ["exponential", simulate.Gaussian(8, mean=0.5)])
def test_asymmetric_inputs_are_refused(law: Any, noise: float) -> None:
    answer = _recover(_world(4000, (8, 4, 5), 9, law=law, noise=noise))
    assert answer.outcome is Outcome.ASSUMPTION_FAILED
    assert "symmetry" in answer.detail


@pytest.mark.parametrize(
    "law", ["gaussian", "mixture", "uniform", "sphere", "laplace", "student-t", "rademacher", "correlated"]
)
def test_symmetric_inputs_pass_the_symmetry_test(law: str) -> None:
    p_values = [
        diagnostics.symmetry_test(simulate.inputs(1500, 6, law=law, random_state=s)).p_value
        for s in range(20)
    ]
    assert min(p_values) > 1e-4  # of 160 tests in all, one in 60 runs would fall below by chance


@pytest.mark.parametrize(("shape", "k"), [((4, 6, 6), 6), ((8, 6, 4), 6)])
def test_more_units_than_inputs_or_outputs_are_refused(shape: tuple[int, int, int], k: int) -> None:
    answer = _recover(_world(2000, shape, 10, hidden="random", outputs="random"), k)
    assert answer.outcome is Outcome.ASSUMPTION_FAILED
    assert answer.network is None


@pytest.mark.parametrize("k", ["auto", 2])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one row", Outcome.TOO_FEW_SAMPLES),
        ("as many rows as inputs", Outcome.TOO_FEW_SAMPLES),
        ("few rows", Outcome.TOO_FEW_SAMPLES),
        ("no output", Outcome.ASSUMPTION_FAILED),
        ("constant input", Outcome.ASSUMPTION_FAILED),
        ("repeated input", Outcome.NOT_IDENTIFIABLE),
        ("repeated rows", Outcome.RECOVERED),
    ],
)
def test_degenerate_data_get_a_named_outcome(name: str, expected: Outcome, k: int | str) -> None:
    """Each case breaks the data in its own way; repeated rows alone do no harm, since 30 distinct ones are enough."""
    data = simulate.dataset(300, n_features=4, n_hidden=2, n_outputs=3, random_state=1)
    X, Y = data.X, data.Y
    rows = {"one row": 1, "as many rows as inputs": 4, "few rows": 7}.get(name, 300)
    X, Y = X[:rows], Y[:rows]
    if name == "no output":
        Y = 0 * Y
    elif name == "constant input":
        X = np.hstack([X, np.ones((rows, 1))])
    elif name == "repeated input":
        X = np.hstack([X, X[:, :1]])
    elif name == "repeated rows":
        X, Y = np.repeat(X[:30], 10, axis=0), np.repeat(Y[:30], 10, axis=0)
    blocks = RowBlocks.from_arrays(X, Y)  # past the warnings of the front door, which are tested there
    assert planted.recover(blocks, n_hidden=k, method=METHOD, random_state=SOLVER).outcome is expected


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize(
    ("name", "k", "expected"),
    [
        ("dependent", 5, {Outcome.ASSUMPTION_FAILED, Outcome.FITTED}),
        ("dependent", "auto", {Outcome.ASSUMPTION_FAILED, Outcome.FITTED}),
        ("plain", 6, {Outcome.NOT_IDENTIFIABLE, Outcome.FITTED}),
        ("plain", 4, {Outcome.FITTED, Outcome.ASSUMPTION_FAILED}),
        ("biased", "auto", {Outcome.FITTED, Outcome.ASSUMPTION_FAILED}),
    ],
)
def test_wrong_models_get_a_named_outcome(
    name: str, k: int | str, expected: set[Outcome], noise: float
) -> None:
    """A recovered network must be right; the outcomes for wrong models are the stated ones."""
    data = _world(2600, (8, 5, 7), 11, noise=noise, **({"bias": (0.2, 0.6)} if name == "biased" else {}))
    net, Y = data.network, data.Y
    if name == "dependent":
        A = net.A.copy()
        A[:, -1] = A[:, 0] + A[:, 1]
        net = TwoLayerNetwork(net.W, None, A)
        Y = net(data.X) + (data.Y - data.Y_clean)
    answer = planted.recover(data.X, Y, k, method=METHOD, random_state=SOLVER)
    if answer.outcome is Outcome.RECOVERED:
        assert planted.parameter_error(answer.network, net) < (1e-9 if noise == 0 else 0.05)
    else:
        assert answer.outcome in expected


def test_dependent_columns_leave_too_little_trace_in_noise() -> None:
    """Refinement may find such a network, but the theorems need A W of rank k, and that is what is said."""
    data = _world(2600, (8, 5, 7), 11, noise=0.1)
    A = data.network.A.copy()
    A[:, -1] = A[:, 0] + A[:, 1]
    net = TwoLayerNetwork(data.network.W, None, A)
    answer = planted.recover(
        data.X, net(data.X) + data.Y - data.Y_clean, 5, method=METHOD, random_state=SOLVER
    )
    assert answer.outcome is Outcome.FITTED
    assert "4 of 5 units" in answer.detail


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("angle", [5.0, 1.0])
def test_nearly_parallel_rows_are_never_falsely_recovered(angle: float, noise: float) -> None:
    """Noise hides what is below the resolution that the evidence states; above it a recovered network must be right."""
    for seed in range(3):
        data = _world(3000, (8, 4, 6), 12 + seed, hidden="near-parallel", angle=angle, noise=noise)
        answer = _recover(data)
        if answer.outcome is not Outcome.RECOVERED:
            continue
        error = planted.parameter_error(answer.network, data.network)
        if noise == 0:
            assert error < 1e-9
            continue
        resolution = next(item.measured for item in answer.evidence if "look like one" in item.name)
        if angle > resolution:
            assert isinstance(answer.uncertainty, Uncertainty)
            errors = answer.uncertainty.standard_errors
            assert error < 6 * max(errors["W"].max(), errors["A"].max())


# e. rival ------------------------------------------------------------------------------------------------------------


def test_complementarity_finds_the_same_network() -> None:
    data = _world(3000, (8, 4, 6), 20, noise=0.05)
    ours, theirs = (
        _recover(data),
        planted.recover(data.X, data.Y, method="complementarity", random_state=SOLVER),
    )
    assert isinstance(ours.uncertainty, Uncertainty)
    errors = ours.uncertainty.standard_errors
    # The rival also estimates biases: its answer differs by a share of the standard errors.
    assert planted.parameter_error(
        TwoLayerNetwork(theirs.network.W, None, theirs.network.A), ours.network
    ) < 4 * max(errors["W"].max(), errors["A"].max())


def test_lemma_14_bounds_the_gap() -> None:
    """The k(k-1)/2-th singular value of T is at least σ_min(M) σ_min(A)², and evidence carries both sides."""
    for seed in range(3):
        answer = _recover(_world(4000, (6, 4, 4), 30 + seed))
        (line,) = answer.find(Check.DETECTOR_BOUND)
        assert line.passed
        assert line.required > 0


# f. parity -----------------------------------------------------------------------------------------------------------


def test_blocks_and_arrays_agree() -> None:
    data = _world(3000, (8, 5, 7), 40, noise=0.1)
    whole = _recover(data)
    blocks = RowBlocks.from_arrays(data.X, data.Y, block_rows=777)
    chunked = planted.recover(blocks, method=METHOD, random_state=SOLVER)
    assert planted.parameter_error(chunked.network, whole.network) < 1e-9


def test_single_precision_features_find_the_same_network() -> None:
    """Float32 features change the start by 1e-6; the refinement, in float64, ends at the same minimum."""
    data = _world(5000, (8, 5, 7), 41, noise=0.1)
    double = _recover(data, refined=False)
    single = _recover(data, refined=False, precision="single")
    assert 0 < planted.parameter_error(single.network, double.network) < 1e-4


def test_the_same_seed_gives_the_same_bits() -> None:
    data = _world(400, (8, 5, 7), 42, noise=0.1)
    first, second = _recover(data), _recover(data)
    assert first.network is not None and second.network is not None
    assert first.network.W.tobytes() == second.network.W.tobytes()


def test_a_network_without_output_weights_has_no_detector() -> None:
    X = np.random.default_rng(0).standard_normal((40, 3))
    problem = prepare_problem(RowBlocks.from_arrays(X, X[:, :2]), random_state=0)
    lines = theorem_evidence(problem, TwoLayerNetwork(np.eye(3)[:2], None, np.zeros((2, 2))), gap=1.0)
    assert lines and all(line.key is not Check.DETECTOR_BOUND for line in lines)
