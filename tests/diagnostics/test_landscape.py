"""Slices, curvature, the kinds of stationary points, training on fresh samples and the figures' machinery."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import planted
from planted.diagnostics import classify_point, landscape_slice
from planted.methods.landscape._descent import descend, random_rows, smallest_curvature, tangent_gradient
from planted.methods.landscape._sgd import FreshSamples, Stage, Training, train_on_fresh_samples
from planted.methods.landscape.objectives import population_objective
from planted.networks import parse_activation
from planted.outcomes import BadInputError
from planted.reproduce import landscape as figures
from planted.reproduce._study import StudyOptions

pytest.importorskip("torch")
TRUTH = planted.TwoLayerNetwork(np.eye(3), A=[[1.0, 1.0, 1.0]])


def test_segment_runs_through_both_networks() -> None:
    other = planted.TwoLayerNetwork(random_rows(3, 3, np.random.default_rng(0)), A=[[2.0, 1.0, 0.5]])
    line = landscape_slice(TRUTH, "l2", [other], truth=TRUTH, span=(0.0, 1.0), steps=5)
    objective = population_objective("l2", TRUTH.W, TRUTH.A[0])
    assert line.values[0] == pytest.approx(0.0, abs=1e-12)
    assert line.values[-1] == pytest.approx(objective(other.W, other.A[0])[0], rel=1e-12)
    assert line.values.shape == (5,) and line.other_positions.size == 0


def test_plane_contains_its_segments() -> None:
    rng = np.random.default_rng(1)
    one, two = ((random_rows(3, 3, rng), np.ones(3)) for _ in range(2))
    objective = population_objective("G", TRUTH.W, TRUTH.A[0])
    plane = landscape_slice(TRUTH, objective, [one, two], span=(0.0, 1.0), steps=4)
    first, second = (landscape_slice(TRUTH, objective, [end], span=(0.0, 1.0), steps=4) for end in (one, two))
    np.testing.assert_allclose(plane.values[:, 0], first.values, rtol=1e-12)
    np.testing.assert_allclose(plane.values[0], second.values, rtol=1e-12)


def test_barrier_between_two_orders_of_the_same_network() -> None:
    turned = planted.TwoLayerNetwork(np.eye(3)[[1, 0, 2]], A=[[1.0, 1.0, 1.0]])
    line = landscape_slice(TRUTH, "l2", [turned], truth=TRUTH, steps=31)
    assert line.barrier > 0.01 and line.values[5] == pytest.approx(0.0, abs=1e-12)  # position 0


def test_bad_slices_are_refused() -> None:
    with pytest.raises(BadInputError, match="give the planted network as truth"):
        landscape_slice(TRUTH, "G", [TRUTH])
    with pytest.raises(BadInputError, match="one or two networks"):
        landscape_slice(TRUTH, "G", [], truth=TRUTH)
    with pytest.raises(BadInputError, match="same number of inputs and units"):
        landscape_slice(TRUTH, "G", [planted.TwoLayerNetwork(np.eye(2), A=[[1.0, 1.0]])], truth=TRUTH)
    biased = planted.TwoLayerNetwork(np.eye(3), [1.0, 0.0, 0.0], A=[[1.0, 1.0, 1.0]])
    with pytest.raises(BadInputError, match="without biases"):
        classify_point(biased, "G", truth=TRUTH)


def test_curvature_of_a_known_quadratic() -> None:
    """G with μ = 0 and one unit is λ(|w|² - 1)²: 8λ along w, 0 across."""
    objective = population_objective("G", np.eye(2)[:1], np.ones(1), mu=0.0, lam=3.0)
    curvature = smallest_curvature(objective, np.eye(2)[:1], np.ones(1))
    assert curvature.largest == pytest.approx(24.0, rel=1e-9)
    assert abs(curvature.smallest) < 1e-9
    np.testing.assert_allclose(np.abs(curvature.W), [[0.0, 1.0]], atol=1e-9)


def test_saddles_are_left_along_their_direction() -> None:
    """Two rows at the same unit are a saddle of P′; its direction of curvature lowers the value."""
    W = np.eye(3)[[0, 0, 1]]
    objective = population_objective("P'", TRUTH.W, TRUTH.A[0])
    point = classify_point((W, np.ones(3)), objective, truth=TRUTH)
    assert point.kind == "saddle" and point.smallest_eigenvalue < -0.5
    moved = W + 0.1 * point.direction[0]
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    assert objective(moved, np.ones(3))[0] < point.value


def test_kinds_of_points() -> None:
    rng = np.random.default_rng(2)
    objective = population_objective("f'", TRUTH.W, TRUTH.A[0])
    start = random_rows(3, 3, rng)
    assert classify_point((start, np.ones(3)), objective, truth=TRUTH).kind == "not stationary"
    end = descend(objective, start, np.ones(3))
    assert classify_point((end.W, end.a), objective, truth=TRUTH).kind == "global minimum"
    assert classify_point((end.W, end.a), objective).kind == "minimum"


def test_tangent_gradient_is_orthogonal_to_unit_rows() -> None:
    W = random_rows(3, 3, np.random.default_rng(3))
    dW = tangent_gradient(population_objective("f'", TRUTH.W, TRUTH.A[0]), W, np.ones(3))[1]
    np.testing.assert_allclose((dW * W).sum(axis=1), 0.0, atol=1e-14)


def test_both_optimisers_end_at_the_same_value() -> None:
    objective = population_objective("G", np.eye(4), np.ones(4))
    start = random_rows(4, 4, np.random.default_rng(4))
    values = [descend(objective, start, np.ones(4), optimiser=name).value for name in ("lbfgs", "newton")]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    with pytest.raises(BadInputError, match="optimiser='adam'"):
        descend(objective, start, np.ones(4), optimiser="adam")


def trained(objective: str, start: Training, degree: int, steps: int, **options: object) -> list[Training]:
    truth = FreshSamples(np.eye(4), np.ones(4), parse_activation("relu"), degree=degree)
    settings = {
        "schedule": (Stage(steps, 0.5, 0.05),),
        "batch_size": 2000,
        "record_every": 20,
        "seed": 6,
    } | options
    return list(train_on_fresh_samples(truth, objective, start, **settings))


@pytest.mark.parametrize(("objective", "degree"), [("f'", 1), ("G", 2)])
def test_fresh_samples_lead_to_the_truth(objective: str, degree: int) -> None:
    start = Training(0, random_rows(4, 4, np.random.default_rng(5)), np.ones(4))
    weights = {"weights": (0.12, 0.8)} if objective == "G" else {}
    rate = 1.5 if objective == "f'" else 0.3
    schedule = (Stage(100, rate, 0.1), Stage(60, rate / 10, 0.01))
    end = trained(objective, start, degree, 160, schedule=schedule, **weights)[-1]
    assert planted.networks.glm_error(end.W / np.linalg.norm(end.W, axis=1, keepdims=True), np.eye(4)) < 0.02


def test_training_can_be_taken_up_again() -> None:
    start = Training(0, random_rows(4, 4, np.random.default_rng(7)), np.ones(4))
    whole = trained("l2", start, 0, 60, precision="float64")
    rest = trained("l2", whole[0], 0, 60, precision="float64")
    assert (whole[-1].W == rest[-1].W).all() and [state.step for state in rest] == [40, 60]


def test_fresh_gradients_are_unbiased() -> None:
    """One step from the same place with many batches: the mean step is the exact gradient within four standard errors."""
    W = random_rows(3, 3, np.random.default_rng(8))
    truth = FreshSamples(np.eye(3), np.ones(3), parse_activation("relu"))
    for objective, weights in (("l2", (0.0, 0.0)), ("G", (0.1, 2.0))):
        exact = population_objective(
            objective, np.eye(3), np.ones(3), **({"mu": 0.1, "lam": 2.0} if objective == "G" else {})
        )(W, np.ones(3))[1]
        steps = []
        for seed in range(30):
            options = {
                "schedule": (Stage(1, 1.0, 0.0),),
                "batch_size": 4000,
                "record_every": 1,
                "precision": "float64",
            }
            run = train_on_fresh_samples(
                truth, objective, Training(0, W, np.ones(3)), seed=seed, weights=weights, **options
            )
            steps.append(W - next(run).W)
        error = np.std(steps, axis=0, ddof=1) / np.sqrt(len(steps))
        assert (np.abs(np.mean(steps, axis=0) - exact) < 4 * error).all()


def test_bad_training_options_are_refused() -> None:
    start = Training(0, np.eye(4), np.ones(4))
    with pytest.raises(BadInputError, match="on fresh samples expected 'l2'"):
        trained("F", start, 0, 10)
    with pytest.raises(BadInputError, match="precision='half'"):
        trained("l2", start, 0, 10, precision="half")
    truth = FreshSamples(np.eye(2), np.ones(2), parse_activation("leaky-relu:0.1"))
    settings = {"schedule": (Stage(1, 0.1, 0.1),), "batch_size": 10, "record_every": 1, "seed": 0}
    with pytest.raises(BadInputError, match="expected one of relu"):
        list(train_on_fresh_samples(truth, "l2", Training(0, np.eye(2), np.ones(2)), **settings))


def test_figures_go_on_where_they_stopped(tmp_path: Path) -> None:
    plan = figures._Plan("tiny", "l2", "relu", 0, 64, (Stage(40, 0.05, 0.05),), 10, 2, 3)
    options = StudyOptions(extra={"out": tmp_path})
    whole = figures._run_plans(options, "tiny", [plan], certify=True)
    path = tmp_path / "landscape-figure-tiny.runs.json"
    stored = json.loads(path.read_text())
    run = stored["runs"]["tiny 1"]
    del run["certificate"]
    run |= {"rows": [], "step": 0, "W": _start(1).tolist(), "a": [1.0] * 3}  # the second run is lost
    path.write_text(json.dumps(figures._signed(stored["settings"], stored["runs"])))
    again = figures._run_plans(options, "tiny", [plan], certify=True)
    assert again == whole
    assert {row["end_kind"] for row in whole} <= {"global minimum", "spurious minimum", "saddle"}
    assert whole[-1]["loss"] < whole[4]["loss"]


def _start(seed: int) -> np.ndarray:
    return random_rows(3, 3, np.random.default_rng(figures.START_SEED + seed))


def test_honest_error_sees_what_the_metric_of_the_paper_does_not() -> None:
    truth = FreshSamples(np.eye(3), np.ones(3), parse_activation("relu"))
    same = np.eye(3)[[0, 0, 0]]
    assert planted.networks.glm_error(same, np.eye(3)) == pytest.approx(0.0)
    assert figures._matched_error(same, np.ones(3), truth) == pytest.approx(1.0)
