"""Theorem 11 of BJW18 as tests: fewer outputs than units, lone samples, parallel columns refused."""

from functools import partial

import numpy as np
import pytest

import planted
from planted.methods.lone_units import predict_lone_samples
from planted.methods.lone_units.printed import parallel_groups
from planted.networks import TwoLayerNetwork
from planted.outcomes import Outcome
from planted.simulate import dataset

recover = partial(planted.recover, method="lone-units")
EXACT = 1e-12


def world(n, k, m=2, d=10, seed=0, hidden="orthonormal", **options):
    return dataset(n, n_features=d, n_hidden=k, n_outputs=m, random_state=seed, hidden=hidden, **options)


# --- a. exact with fewer outputs than units ---------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize(
    ("k", "n", "hidden"),
    [
        (3, 400, "orthonormal"),
        (4, 800, "orthonormal"),
        (5, 1600, "orthonormal"),
        (3, 800, "random"),
        (4, 3200, "random"),
        (5, 12800, "random"),
    ],
)
def test_sample_needs_are_within_twice_the_expected_ones(k, n, hidden, m):
    """Twice 200, 400, 800 for orthonormal and 400, 1600, 6400 for random rows."""
    recovered = 0
    for seed in range(4):
        data = world(n, k, m, seed=seed, hidden=hidden)
        recovery = recover(data.X, data.Y, k, random_state=seed)
        if recovery.outcome is Outcome.RECOVERED:
            recovered += 1
            assert planted.parameter_error(recovery.network, data.network) < EXACT
            expected = planted.Guarantee.EXACT if m >= k else planted.Guarantee.HEURISTIC
            assert recovery.guarantee is expected, "no other explanation is looked for when m < k"
        else:
            assert recovery.outcome is Outcome.TOO_FEW_SAMPLES
    assert recovered >= (4 if hidden == "orthonormal" else 3)


@pytest.mark.parametrize("name", ["power:2", "power:3"])
def test_rectified_powers(name):
    data = world(600, 3, activation=name)
    recovery = recover(data.X, data.Y, activation=name, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, data.network) < EXACT


def test_the_number_of_units_is_the_number_of_groups():
    data = world(800, 4)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.network.n_hidden == 4


def test_with_enough_outputs_uniqueness_is_searched_too():
    data = world(400, 3, m=4)
    recovery = recover(data.X, data.Y, random_state=0)
    assert any("further units" in item.name for item in recovery.evidence)
    assert recovery.guarantee is planted.Guarantee.EXACT


def test_repeated_and_proportional_inputs_form_no_units():
    """Rows x and 2x have parallel outputs without being lone; a rank below d keeps them from counting."""
    data = world(400, 3)
    X = np.vstack([data.X, np.tile(data.X[:1], (40, 1)) * np.linspace(0.5, 2.0, 40)[:, None]])
    recovery = recover(X, data.network(X), 3, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, data.network) < EXACT


# --- b. steps -----------------------------------------------------------------------------------------------------


def test_groups_are_positive_multiples_and_zero_rows_are_left_out():
    Y = np.array([[1.0, 1.0], [2.0, 2.0], [-1.0, -1.0], [0.0, 0.0], [0.0, 3.0], [0.0, 1e-3], [1.0, 1.1]])
    groups = [tuple(map(int, group)) for group in parallel_groups(Y, np.random.default_rng(0))]
    assert groups == [(0, 1), (4, 5)]


def test_the_prediction_counts_how_often_the_rarest_unit_is_alone():
    need, condition = predict_lone_samples(np.eye(10)[:4], np.random.default_rng(0))
    # Alone with probability 1/16: 12 * 16 = 192, and 20,000 draws know the rarest of four to about 6 %.
    assert condition == pytest.approx(1.0)
    assert need == pytest.approx(192, rel=0.12)


def test_evidence_tells_the_condition_number_and_the_prediction():
    data = world(3000, 3, hidden="conditioned", condition=5.0)
    recovery = recover(data.X, data.Y, 3, random_state=0)
    lines = {item.name: item.measured for item in recovery.evidence}
    rows = data.network.W / np.linalg.norm(data.network.W, axis=1, keepdims=True)
    assert lines["condition number of W"] == pytest.approx(np.linalg.cond(rows), rel=1e-6)
    assert lines["samples on which the rarest unit is alone"] > 10
    assert lines["samples predicted to be needed for normal inputs"] > 12 * 8


# --- c. refusal ---------------------------------------------------------------------------------------------------


def test_one_output_is_refused():
    data = world(800, 3, m=1)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert "with one output all samples are parallel" in recovery.detail


def test_the_diagnosis_says_so_too():
    data = world(300, 3, m=1)
    check = next(item for item in planted.diagnose(data.X, data.Y).methods if item.method == "lone-units")
    assert not check.applies
    assert "needs at least two outputs" in check.reason


@pytest.mark.parametrize("factor", [2.0, -1.0])
def test_parallel_columns_of_either_sign_are_refused(factor):
    data = world(2000, 3)
    A = data.network.A.copy()
    A[:, 2] = factor * A[:, 0]
    Y = TwoLayerNetwork(data.network.W, None, A)(data.X)
    recovery = recover(data.X, Y, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert "columns of A are parallel" in recovery.detail


def test_too_few_lone_samples_are_refused_with_a_prediction_that_helps():
    data = world(110, 4)
    recovery = recover(data.X, data.Y, 4, random_state=0)
    assert recovery.outcome is Outcome.TOO_FEW_SAMPLES
    need = next(item for item in recovery.evidence if item.name == "samples predicted to be needed")
    assert need.measured > 110
    again = world(3 * int(need.measured), 4)
    assert recover(again.X, again.Y, 4, random_state=0).outcome is Outcome.RECOVERED


@pytest.mark.parametrize("what", ["noise", "biases"])
def test_data_of_another_kind_are_never_called_recovered(what):
    data = world(800, 3)
    if what == "noise":
        Y = data.Y + 1e-6 * np.random.default_rng(0).standard_normal(data.Y.shape)
    else:
        Y = TwoLayerNetwork(data.network.W, [0.3, -0.2, 0.4], data.network.A)(data.X)
    assert recover(data.X, Y, 3, random_state=0).outcome is not Outcome.RECOVERED


def test_noise_is_named_when_there_are_samples_enough():
    data = world(800, 3, noise=0.01)
    recovery = recover(data.X, data.Y, 3, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert "No two of 800 samples have parallel outputs" in recovery.detail


def test_more_groups_than_units_asked_for_are_refused():
    data = world(800, 3)
    recovery = recover(data.X, data.Y, 2, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert "3 units were seen alone; 2 were asked for" in recovery.detail
