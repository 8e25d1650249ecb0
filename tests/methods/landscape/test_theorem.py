"""Landscape design [GLM18]: population, rate, symmetry, refusal, rival, parity, and Theorems 2.3 and C.4 in numbers."""

from __future__ import annotations

import numpy as np
import pytest

import planted
from planted import TwoLayerNetwork, simulate
from planted.checks import Check
from planted.diagnostics import classify_point
from planted.methods.landscape._descent import descend, random_rows
from planted.methods.landscape._read import invert_rows, read_outputs
from planted.methods.landscape.objectives import population_objective, sample_objective
from planted.methods.landscape.printed import algorithm_1
from planted.outcomes import Outcome
from planted.reproduce._landscape_theorem import theorem_study
from planted.reproduce._study import StudyOptions
from planted.rows import RowBlocks

DESCENDED = 1e-6  # error of rows at a gradient of 1e-8 and curvatures above 1e-2
EXACT = 1e-12
POSITIVE = {"outputs": "magnitudes", "signs": "same", "low": 1.0, "high": 4.0}  # κ = 4


def recovered(data: simulate.Dataset, k: int | str, **options: object) -> planted.Recovery:
    return planted.recover(data.X, data.Y, k, method="landscape", random_state=77, **options)


@pytest.mark.parametrize("name", ["f'", "G", "F"])
def test_population_minima_show_the_truth(name: str) -> None:
    """Exact tensors in, the network out: rows, signs and output weights after Appendix D."""
    for seed in range(3):
        hidden = "random" if name == "F" else "orthonormal"
        truth = simulate.teacher(6, 6, hidden=hidden, random_state=seed, **POSITIVE)
        W, a = truth.W, truth.A[0]
        objective = population_objective(name, W, a)
        end = descend(
            objective,
            random_rows(6, 6, np.random.default_rng([1, seed])),
            np.full(6, a.mean()),
            max_iter=5000,
        )
        rows = invert_rows(end.W) if name == "F" else end.W / np.linalg.norm(end.W, axis=1, keepdims=True)
        slope = a @ W / 2
        if name == "G":
            found = algorithm_1(rows, slope, 0.5)
        else:
            found = read_outputs(rows, slope, 0.5, a=end.a if name == "f'" else None)
        network = TwoLayerNetwork(found[0], A=found[1][None])
        assert planted.parameter_error(network, truth) < DESCENDED


def test_general_design_with_fewer_units_than_inputs() -> None:
    truth = simulate.teacher(7, 4, random_state=3, **POSITIVE)
    objective = population_objective("F", truth.W, truth.A[0], delta=1e-5)
    end = descend(objective, random_rows(4, 7, np.random.default_rng(4)), truth.A[0], max_iter=5000)
    W, a = read_outputs(invert_rows(end.W), truth.A[0] @ truth.W / 2, 0.5)
    assert planted.parameter_error(TwoLayerNetwork(W, A=a[None]), truth) < 1e-3  # O(δ): Theorem C.5


def test_negative_weights_move_the_minimum_of_g() -> None:
    """Without positivity the theorem fails, and so does the objective: the truth is no minimum."""
    W, a = np.eye(4), np.array([1.0, -1.0, 1.0, 1.0])
    objective = population_objective("G", W, a, mu=0.1, lam=2.0)
    end = descend(objective, random_rows(4, 4, np.random.default_rng(2)), a)
    assert end.value < 10 * objective(W, a)[0] < 0


def test_error_of_the_unrefined_minimum_falls_like_the_root_of_n() -> None:
    sizes, errors = (2000, 8000, 32_000), []
    for n in sizes:
        gaps = []
        for seed in range(4):
            X = simulate.inputs(n, 4, random_state=seed)
            y = np.maximum(X, 0.0).sum(axis=1, keepdims=True)
            end = descend(sample_objective("f'", RowBlocks.from_arrays(X, y)), np.eye(4), np.ones(4))
            gaps.append(np.abs(np.abs(end.W) - np.eye(4)).max())
        errors.append(np.sqrt(np.mean(np.square(gaps))))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # log of a root mean square of four maxima scatters by about 0.2: 4 x 0.2 / (2 log 4) = 0.3
    assert abs(slope + 0.5) < 0.3


@pytest.mark.parametrize("objective", ["f'", "G", "F"])
def test_samples_give_the_network_exactly_after_refinement(objective: str) -> None:
    data = simulate.dataset(
        20_000, n_features=6, n_hidden=6, hidden="orthonormal", random_state=5, **POSITIVE
    )
    answer = recovered(data, 6, objective=objective)
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, data.network) < EXACT


def test_trust_region_and_width_from_the_data() -> None:
    data = simulate.dataset(8000, n_features=5, n_hidden=3, hidden="orthonormal", random_state=6, **POSITIVE)
    answer = recovered(data, "auto", optimiser="newton")
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, data.network) < EXACT


@pytest.mark.parametrize("activation", ["absolute", "leaky-relu:0.3"])
def test_other_activations(activation: str) -> None:
    data = simulate.dataset(
        20_000,
        n_features=5,
        n_hidden=4,
        hidden="orthonormal",
        activation=activation,
        random_state=7,
        **POSITIVE,
    )
    answer = recovered(data, 4, activation=activation)
    assert answer.outcome is Outcome.RECOVERED
    assert answer.network.is_equivalent(data.network, tol=1e-9)


def test_mixed_signs_and_noise_with_f_prime() -> None:
    data = simulate.dataset(
        10_000,
        n_features=4,
        n_hidden=3,
        hidden="orthonormal",
        outputs="magnitudes",
        signs="mixed",
        noise=0.1,
        random_state=8,
    )
    assert (data.network.A < 0).any() and (data.network.A > 0).any()
    answer = recovered(data, 3)
    assert answer.outcome is Outcome.RECOVERED
    errors = answer.uncertainty.standard_errors["A"]
    assert planted.parameter_error(answer.network, data.network) < 6 * max(errors.max(), 0.002)


def test_turned_inputs_and_scaled_outputs() -> None:
    data = simulate.dataset(
        20_000, n_features=5, n_hidden=5, hidden="orthonormal", random_state=9, **POSITIVE
    )
    Q = np.linalg.qr(np.random.default_rng(10).standard_normal((5, 5)))[0]
    stretch = np.diag([1.0, 2.0, 3.0, 0.5, 1.0])
    X = data.X @ stretch @ Q
    answer = planted.recover(X, 100 * data.Y, 5, method="landscape", random_state=11)
    truth = TwoLayerNetwork(data.network.W @ np.linalg.inv(stretch @ Q).T, A=100 * data.network.A)
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, truth) < 1e-9  # outputs of size 500


def test_agrees_with_restarts() -> None:
    data = simulate.dataset(8000, n_features=4, n_hidden=4, random_state=12, **POSITIVE)
    rival = planted.recover(data.X, data.Y, 4, method="restarts", random_state=13)
    answer = recovered(data, 4)
    assert answer.outcome is rival.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, rival.network) < EXACT


def test_blocks_and_arrays_agree() -> None:
    data = simulate.dataset(6000, n_features=4, n_hidden=3, hidden="orthonormal", random_state=14, **POSITIVE)
    whole = recovered(data, 3)
    blocks = planted.RowBlocks.from_arrays(data.X, data.Y, block_rows=500)
    chunked = planted.recover(blocks, n_hidden=3, method="landscape", random_state=77)
    np.testing.assert_allclose(chunked.network.W, whole.network.W, atol=1e-10)


def test_same_seed_same_bits() -> None:
    data = simulate.dataset(6000, n_features=4, n_hidden=3, hidden="orthonormal", random_state=15, **POSITIVE)
    first, second = recovered(data, 3), recovered(data, 3)
    assert (first.network.W == second.network.W).all() and (first.network.A == second.network.A).all()


@pytest.mark.parametrize("objective", ["G", "F"])
def test_negative_weights_are_refused_with_the_reason(objective: str) -> None:
    data = simulate.dataset(20_000, TwoLayerNetwork(np.eye(4), A=[[1.0, -1.0, 1.0, 1.5]]), random_state=16)
    answer = recovered(data, 4, objective=objective)
    assert answer.outcome is Outcome.ASSUMPTION_FAILED and answer.network is None
    assert "output weight is negative" in answer.detail


def test_broken_assumptions_are_named() -> None:
    net = TwoLayerNetwork(np.eye(3), A=[[1.0, 2.0, 3.0]])
    two = TwoLayerNetwork(np.eye(3), A=np.ones((2, 3)))
    shifted = simulate.inputs(5000, 3, random_state=17) + 0.5
    cases = [
        (simulate.dataset(5000, two, random_state=17), 3, "one; recover from each output"),
        (simulate.dataset(5000, net, random_state=17), 5, "needs k <= d"),
        (simulate.dataset(30, net, random_state=17), 3, "samples of 3 inputs show nothing"),
        (
            simulate.Dataset(shifted, net(shifted), net(shifted), net, None, None),
            3,
            "mean of the inputs is not zero",
        ),
    ]
    for data, k, words in cases:
        answer = recovered(data, k)
        assert answer.network is None and words in answer.detail
    flat = simulate.inputs(5000, 3, random_state=18)
    flat[:, 2] = flat[:, 1]
    answer = planted.recover(flat, net(flat), 3, method="landscape", random_state=19)
    assert "do not vary in all directions" in answer.detail


def test_biases_and_other_laws_are_not_claimed() -> None:
    """Outside the theorem the answer is refused, a fit, or right: never a wrong claim."""
    biased = simulate.dataset(8000, n_features=4, n_hidden=3, bias=(0.3, 0.9), random_state=20, **POSITIVE)
    uniform = simulate.dataset(8000, n_features=4, n_hidden=3, law="uniform", random_state=21, **POSITIVE)
    for data in (biased, uniform):
        answer = recovered(data, 3, n_restarts=2)
        right = answer.network is not None and planted.parameter_error(answer.network, data.network) < 1e-9
        assert right or answer.outcome is not Outcome.RECOVERED


def test_theorem_2_3_in_numbers() -> None:
    """Minima are signed permutations, saddles curve down by at least τ₀, approximate minima are near minima."""
    rows = theorem_study(StudyOptions(quick=True, seed=1)).rows
    parts = {
        name: [row for row in rows if row["part"] == name] for name in ("minimum", "saddle", "approximate")
    }
    assert all(row["distance"] < 1e-6 for row in parts["minimum"])
    assert len(parts["saddle"]) > 20 and all(row["ratio"] >= 1.0 for row in parts["saddle"])
    assert all(row["ratio"] <= 1.0 for row in parts["approximate"])


@pytest.mark.parametrize(
    ("excess", "kind"), [(0.5, "spurious minimum"), (0.01, "spurious minimum"), (-0.2, "saddle")]
)
def test_example_of_appendix_f(excess: float, kind: str) -> None:
    """P′ has a bad minimum of value 1 once the other output weights exceed twice the first."""
    a = np.array([1.0, 2 + excess, 2 + excess, 2 + excess])
    rows = np.array([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2**-0.5, 2**-0.5]])
    objective = population_objective("P'", np.eye(4), a)
    point = classify_point((rows, a), objective, truth=(np.eye(4), a))
    assert point.value == pytest.approx(1.0, rel=1e-12) and point.gradient_norm < 1e-12
    assert point.kind == kind


def test_plain_risk_has_a_certified_bad_minimum_where_f_prime_has_none() -> None:
    """The same start on two landscapes: two rows end at one unit of the truth, or every row at its own."""
    d = 20
    start = random_rows(d, d, np.random.default_rng([7, 0]))
    risk, designed = (population_objective(name, np.eye(d), np.ones(d)) for name in ("l2", "f'"))
    end = descend(risk, start, np.ones(d), max_iter=5000)
    point = classify_point((end.W, end.a), risk, truth=(np.eye(d), np.ones(d)))
    assert point.kind == "spurious minimum" and point.value > 0.01
    assert planted.networks.glm_error(descend(designed, start, np.ones(d)).W, np.eye(d)) < 1e-9


@pytest.mark.parametrize("objective", ["f'", "G"])
def test_the_objective_leads_to_the_units_and_random_rows_do_not(objective: str) -> None:
    """Without refinement nothing but the objective can have found them; the control descends nothing."""
    for seed, optimisers in ((0, ("lbfgs", "sgd", "none")), (1, ("lbfgs", "newton", "none"))):
        rng = np.random.default_rng([seed, 90])
        truth = TwoLayerNetwork(np.linalg.qr(rng.standard_normal((6, 6)))[0], None, np.ones((1, 6)))
        data = simulate.dataset(16_000, truth, random_state=300 + seed)
        angles = []
        for optimiser in optimisers:
            options = {"objective": objective, "optimiser": optimiser, "refined": False}
            answer = recovered(data, 6, **options)
            assert answer.network is not None
            rows = answer.network.W / np.linalg.norm(answer.network.W, axis=1, keepdims=True)
            cosines = np.abs(truth.W @ rows.T).max(axis=1)
            angles.append(np.degrees(np.arccos(np.clip(cosines, 0, 1))).max())
        assert max(angles[:2]) < 12 < 30 < angles[2]


def test_with_noise_refinement_from_random_rows_fails_where_the_objective_succeeds() -> None:
    """Same signs, noise of half an output weight, one start each: f' ends at the truth every time, random rows do not."""
    found = {"lbfgs": 0, "none": 0}
    for seed in range(2):
        rng = np.random.default_rng([seed, 91])
        truth = TwoLayerNetwork(np.linalg.qr(rng.standard_normal((10, 10)))[0], None, np.ones((1, 10)))
        data = simulate.dataset(5000, truth, noise=0.5, random_state=310 + seed)
        for optimiser in found:
            answer = recovered(data, 10, optimiser=optimiser, n_restarts=1)
            found[optimiser] += planted.parameter_error(answer.network, truth) < 0.2
    assert found["lbfgs"] == 2 > found["none"]


def test_what_refinement_moved_is_told() -> None:
    """From the minimum of f' refinement only polishes; from random rows it turns units far."""
    truth = TwoLayerNetwork(np.eye(6), None, np.ones((1, 6)))
    data = simulate.dataset(20_000, truth, random_state=400)
    moved = {}
    for optimiser in ("lbfgs", "none"):
        answer = planted.recover(data.X, data.Y, 6, method="landscape", optimiser=optimiser, random_state=1)
        assert answer.outcome is Outcome.RECOVERED
        (line,) = answer.find(Check.REFINED_ANGLE)
        moved[optimiser] = line.measured
    assert moved["lbfgs"] < 10 < 30 < moved["none"]
