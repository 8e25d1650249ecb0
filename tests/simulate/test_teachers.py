"""Teachers: every design is exactly what it says, and each part has its own stream."""

from __future__ import annotations

import numpy as np
import pytest

from planted import simulate
from planted.outcomes import BadInputError, BadInputTypeError


def test_random_hidden_rows_have_length_one_and_any_direction():
    W = simulate.teacher(5, 4000, random_state=0).W
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1.0, rtol=1e-14)
    second_moments = (W[:, :, None] * W[:, None, :]).reshape(-1, 25)
    errors = second_moments.std(axis=0) / np.sqrt(len(W))
    assert np.all(np.abs(second_moments.mean(axis=0) - np.eye(5).ravel() / 5) <= 4 * errors)


@pytest.mark.parametrize("shape", [(7, 4), (6, 6), (8, 1)])
def test_orthonormal_hidden_rows(shape):
    d, k = shape
    W = simulate.teacher(d, k, hidden="orthonormal", random_state=0).W
    np.testing.assert_allclose(W @ W.T, np.eye(k), atol=1e-14)


def test_orthonormal_rows_have_no_preferred_sign():
    corner = np.array(
        [simulate.teacher(2, 2, hidden="orthonormal", random_state=seed).W for seed in range(400)]
    )
    # Every entry of a uniformly random rotation has mean 0 and variance 1/2.
    assert np.all(np.abs(corner.mean(axis=0)) <= 4 * np.sqrt(0.5 / 400))


@pytest.mark.parametrize(("m", "k"), [(6, 4), (4, 4), (3, 5), (1, 4)])
def test_orthonormal_outputs(m, k):
    A = simulate.teacher(6, k, m, outputs="orthonormal", random_state=0).A
    gram = A.T @ A if m >= k else A @ A.T
    np.testing.assert_allclose(gram, np.eye(min(m, k)), atol=1e-14)


@pytest.mark.parametrize(("d", "k"), [(8, 5), (5, 8), (6, 6)])
@pytest.mark.parametrize("condition", [1.0, 50.0, 1e5])
def test_conditioned_weights_are_geometric(d, k, condition):
    net = simulate.teacher(
        d, k, d, hidden="conditioned", outputs="conditioned", condition=condition, random_state=1
    )
    for matrix in (net.W, net.A):
        values = np.linalg.svd(matrix, compute_uv=False)
        # A relative error of 1e-10 in the smallest value needs condition * 1e-16 below 1e-10: it is 1e-11.
        np.testing.assert_allclose(values, np.geomspace(1.0, 1.0 / condition, min(d, k)), rtol=1e-10)


def test_designs_as_objects_have_their_own_options():
    net = simulate.teacher(
        5, 4, 4, hidden=simulate.Conditioned(7.0), outputs=simulate.Conditioned(3.0), random_state=1
    )
    assert np.linalg.cond(net.W) == pytest.approx(7.0, rel=1e-10)
    assert np.linalg.cond(net.A) == pytest.approx(3.0, rel=1e-10)


@pytest.mark.parametrize("k", [2, 5, 6])
@pytest.mark.parametrize("angle", [0.01, 5.0, 90.0, 179.0])
def test_near_parallel_pairs_enclose_the_angle(k, angle):
    W = simulate.teacher(6, k, hidden="near-parallel", angle=angle, random_state=2).W
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1.0, rtol=1e-14)
    for first in range(0, k - 1, 2):
        # The half-angle formula keeps all digits at small angles, where the arc cosine loses half of them.
        difference, total = W[first] - W[first + 1], W[first] + W[first + 1]
        measured = 2 * np.arctan2(np.linalg.norm(difference), np.linalg.norm(total))
        # The rows are rounded to 1e-16 each, so an angle of 2e-4 radians keeps 12 digits.
        assert np.rad2deg(measured) == pytest.approx(angle, rel=1e-11)


def test_gaussian_outputs():
    A = simulate.teacher(2, 20_000, outputs="random", random_state=3).A.ravel()
    assert abs(A.mean()) <= 4 / np.sqrt(A.size)
    assert abs((A**2).mean() - 1) <= 4 * np.sqrt(2 / A.size)
    assert abs((A**4).mean() - 3) <= 4 * np.sqrt(96 / A.size)


def test_magnitudes_and_signs():
    mixed = simulate.teacher(2, 20_000, outputs="magnitudes", random_state=4).A
    same = simulate.teacher(2, 20_000, outputs="magnitudes", signs="same", random_state=4).A
    np.testing.assert_array_equal(np.abs(mixed), same)
    assert same.min() >= 0.5
    assert same.max() <= 1.5
    assert abs(same.mean() - 1.0) <= 4 * np.sqrt(1 / 12 / same.size)
    assert abs(np.sign(mixed).mean()) <= 4 / np.sqrt(mixed.size)
    narrow = simulate.teacher(2, 100, outputs="magnitudes", low=2.0, high=3.0, random_state=4).A
    assert np.all((np.abs(narrow) >= 2) & (np.abs(narrow) <= 3))


def test_same_signs_make_every_output_weight_positive():
    assert (simulate.teacher(4, 30, 3, signs="same", random_state=0).A > 0).all()
    single = simulate.teacher(4, 3, 1, outputs="orthonormal", signs="same", random_state=0).A
    assert (single > 0).all()
    assert np.linalg.norm(single) == pytest.approx(1.0, rel=1e-14)


def test_biases():
    np.testing.assert_array_equal(simulate.teacher(4, 3, random_state=0).b, 0.0)
    b = simulate.teacher(2, 20_000, bias=(-0.5, 1.5), random_state=0).b
    assert b.min() >= -0.5
    assert b.max() <= 1.5
    assert abs(b.mean() - 0.5) <= 4 * np.sqrt(4 / 12 / b.size)


@pytest.mark.parametrize(
    "law", ["gaussian", "mixture", "exponential", "student-t", "rademacher", "correlated"]
)
def test_activity_is_in_range_on_fresh_inputs(law):
    low, high, n = 0.3, 0.6, 50_000
    net = simulate.teacher(12, 8, activity=(low, high), law=law, random_state=5)
    fixed = simulate.input_law(law, 12, random_state=5)
    active = net.patterns(simulate.inputs(n, 12, law=fixed, random_state=6)).mean(axis=0)
    # Both the fresh rows and the pool of 20,000 rows that placed the biases are samples.
    error = np.sqrt(active * (1 - active) * (1 / n + 1 / 20_000))
    assert np.all(active >= low - 4 * error)
    assert np.all(active <= high + 4 * error)
    assert np.ptp(active) > 4 * error.max()


def test_activity_hits_a_single_fraction():
    net = simulate.teacher(6, 10, activity=(0.1, 0.1), random_state=5)
    active = net.patterns(simulate.inputs(50_000, 6, random_state=6)).mean(axis=0)
    assert np.all(np.abs(active - 0.1) <= 4 * np.sqrt(0.09 * (1 / 50_000 + 1 / 20_000)))


def test_activity_refuses_what_a_law_with_atoms_cannot_do():
    with pytest.raises(
        BadInputError, match=r"unit 0 cannot be active on a fraction 0\.3.* the law has atoms"
    ):
        simulate.teacher(1, 1, activity=(0.3, 0.35), law="rademacher", random_state=0)


def test_same_seed_same_bits_and_separate_streams():
    base = simulate.teacher(5, 4, 3, bias=(-1.0, 1.0), random_state=7)
    again = simulate.teacher(5, 4, 3, bias=(-1.0, 1.0), random_state=7)
    for name in ("W", "b", "A"):
        np.testing.assert_array_equal(getattr(base, name), getattr(again, name))
    changed = simulate.teacher(5, 4, 3, outputs="orthonormal", activity=(0.4, 0.6), random_state=7)
    np.testing.assert_array_equal(base.W, changed.W)
    # Conditioned weights take more draws than random ones: a stream shared with another part would shift it.
    other_hidden = simulate.teacher(5, 4, 3, hidden="conditioned", bias=(-1.0, 1.0), random_state=7)
    np.testing.assert_array_equal(base.b, other_hidden.b)
    np.testing.assert_array_equal(base.A, other_hidden.A)
    assert not np.any(base.W == simulate.teacher(5, 4, 3, random_state=8).W)


def test_weights_and_inputs_of_one_seed_are_unrelated():
    # All of these are standard normal draws; a shared stream would repeat numbers, up to the scale of a row.
    X = simulate.inputs(4, 5, random_state=0)
    net = simulate.teacher(5, 4, 5, random_state=0)
    X_directions = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert np.abs(X_directions - net.W).max(axis=1).min() > 1e-3
    assert not np.intersect1d(X, net.A).size


def test_activation_is_passed_on():
    assert (
        simulate.teacher(3, 2, activation="leaky-relu:0.1", random_state=0).activation.name
        == "leaky-relu:0.1"
    )


def test_perturbation_has_the_scale_asked_for_and_touches_w_alone():
    net = simulate.teacher(100, 100, 2, bias=(0.0, 1.0), random_state=0)
    perturbed = simulate.perturb_teacher(net, 0.3, random_state=0)
    shift = (perturbed.W - net.W).ravel()
    assert abs(shift.mean()) <= 4 * 0.3 / np.sqrt(shift.size)
    assert abs((shift**2).mean() - 0.09) <= 4 * 0.09 * np.sqrt(2 / shift.size)
    # The same integer made the teacher: noise from its stream would be parallel to its rows.
    correlation = float(np.mean(shift / 0.3 * net.W.ravel() * 10))
    assert abs(correlation) <= 4 / np.sqrt(shift.size)
    for name in ("b", "A", "c"):
        np.testing.assert_array_equal(getattr(net, name), getattr(perturbed, name))
    np.testing.assert_array_equal(perturbed.W, simulate.perturb_teacher(net, 0.3, random_state=0).W)
    np.testing.assert_array_equal(simulate.perturb_teacher(net, 0.0, random_state=0).W, net.W)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": "orthogonal"}, r"unknown hidden 'orthogonal'; known are 'random', 'orthonormal'"),
        ({"outputs": "near-parallel"}, r"unknown outputs 'near-parallel'; known are .*'magnitudes'"),
        ({"signs": "positive"}, r"unknown signs 'positive'; known are 'mixed', 'same'"),
        (
            {"condition": 3.0},
            r"unknown option 'condition' of a teacher with hidden='random'.* take no options",
        ),
        ({"hidden": "conditioned", "angle": 3.0}, r"unknown option 'angle'.* take 'condition'"),
        (
            {"hidden": "conditioned", "condition": 0.1},
            r"condition=0.1; expected a finite number of at least 1",
        ),
        (
            {"hidden": "near-parallel", "angle": 0},
            r"angle=0; expected a finite number above 0 and at most 180",
        ),
        ({"bias": (0, 1), "activity": (0.2, 0.3)}, r"bias and activity both place the biases"),
        ({"activity": (0.0, 0.5)}, r"activity=\(0, 0.5\); expected fractions between 0 and 1"),
        ({"activity": (0.5, 0.4)}, r"activity\[1\]=0.4; expected a finite number of at least 0.5"),
        ({"bias": (0.0, np.inf)}, r"bias\[1\]=inf; expected a finite number"),
        ({"outputs": "orthonormal", "signs": "same"}, r"signs='same' cannot keep a 2 x 3 matrix orthonormal"),
        ({"law": "gauss"}, r"unknown law 'gauss'"),
        ({"activation": "wave"}, r"unknown activation 'wave'"),
        ({"outputs": "magnitudes", "low": 2.0}, r"high=1.5; expected a finite number of at least 2"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(BadInputError, match=message):
        simulate.teacher(4, 3, 2, random_state=0, **options)


def test_impossible_shapes_are_named():
    with pytest.raises(BadInputError, match=r"n_hidden=5 orthonormal rows do not fit in n_features=4"):
        simulate.teacher(4, 5, hidden="orthonormal")
    with pytest.raises(BadInputError, match=r"near-parallel units need two units"):
        simulate.teacher(4, 1, hidden="near-parallel")
    with pytest.raises(BadInputError, match=r"condition=10 of a 1 x 4 matrix"):
        simulate.teacher(4, 1, hidden="conditioned")
    with pytest.raises(BadInputError, match=r"n_hidden=0; expected at least 1"):
        simulate.teacher(4, 0)
    with pytest.raises(BadInputTypeError, match=r"n_outputs is of type NoneType"):
        simulate.teacher(4, 1, None)
    with pytest.raises(BadInputTypeError, match=r"bias=0.5; expected a pair \(low, high\)"):
        simulate.teacher(4, 1, bias=0.5)
    with pytest.raises(BadInputTypeError, match=r"hidden is of type int"):
        simulate.teacher(4, 1, hidden=3)
