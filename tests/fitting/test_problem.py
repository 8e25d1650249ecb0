"""Units in, units out: the standardised problem and the way back."""

import numpy as np
import pytest

import planted
from planted.fitting._run import MethodRun, Preparation, Scaling, prepare_problem
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError
from planted.results import Requirements, Verdict
from planted.rows import RowBlocks
from planted.simulate import dataset, teacher


def data_of(n=50, d=4, m=3, seed=0):
    return dataset(n, n_features=d, n_hidden=3, n_outputs=m, bias=(-0.5, 0.5), random_state=seed)


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.3", "power:2", "quadratic"])
def test_restored_network_is_the_same_function(activation):
    rng = np.random.default_rng(1)
    net = teacher(4, 3, 2, bias=(-0.5, 0.5), activation=activation, random_state=2)
    net = TwoLayerNetwork(net.W, net.b, net.A, [0.3, -0.7], activation)
    scaling = Scaling(
        np.array([3.0, -1.0, 0.0, 50.0]), np.array([0.1, 2.0, 1.0, 30.0]), np.array([5.0, 0.0]), 4.0
    )
    X = rng.standard_normal((20, 4)) * scaling.x_scale + scaling.x_mean
    user = scaling.restore(net)
    standard_X, standard_Y = scaling.apply(X, user(X))
    np.testing.assert_allclose(standard_Y, net(standard_X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(user.W, axis=1), 1.0, rtol=1e-14)


def test_hand_numbers():
    """x' = (x - 2)/4, y' = (y - 1)/3: a unit relu(x' - 1) with weight 5 is relu(x - 6) with weight 15/4, plus 1."""
    scaling = Scaling(np.array([2.0]), np.array([4.0]), np.array([1.0]), 3.0)
    user = scaling.restore(TwoLayerNetwork([[1.0]], [-1.0], [[5.0]]))
    assert (user.W[0, 0], user.b[0], user.A[0, 0], user.c[0]) == (1.0, -6.0, 3.75, 1.0)


@pytest.mark.parametrize("has_linear", [False, True])
@pytest.mark.parametrize(
    "activation", ["relu", "leaky-relu:0.3", "absolute", "quadratic", "power:2", "tanh", "gelu", "elu"]
)
def test_units_have_the_order_and_the_orientation_of_the_canonical_form(activation, has_linear):
    rng = np.random.default_rng([len(activation), has_linear])
    for _ in range(5):
        W, b, A, c, B = (rng.standard_normal(shape) for shape in ((4, 3), 4, (2, 4), 2, (2, 3)))
        net = TwoLayerNetwork(W, b, A, c, activation, B if has_linear else None)
        scaling = Scaling(
            rng.standard_normal(3), np.exp(2 * rng.standard_normal(3)), rng.standard_normal(2), 4.0
        )
        user, form = scaling.restore(scaling.in_order(net)), scaling.restore(net).canonical()
        for part in ("W", "b", "A", "c", *(["B"] if has_linear else [])):
            np.testing.assert_allclose(getattr(user, part), getattr(form, part), rtol=1e-9, atol=1e-9)


def test_a_unit_without_weights_survives_the_way_back():
    scaling = Scaling(np.zeros(2), np.ones(2), np.zeros(1), 2.0)
    user = scaling.restore(TwoLayerNetwork([[0.0, 0.0]], [1.0], [[3.0]]))
    np.testing.assert_array_equal(user([[1.0, 1.0]]), [[6.0]])


def test_the_standardised_rows_have_mean_zero_and_variance_one():
    data = data_of()
    problem = prepare_problem(RowBlocks.from_arrays(1e3 * data.X + 7, data.Y, block_rows=7), random_state=0)
    np.testing.assert_allclose(problem.X.mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(problem.X.std(axis=0), 1.0, rtol=1e-12)
    # One scale for all outputs: the mean of their variances is one, and ratios are kept.
    np.testing.assert_allclose((problem.Y.std(axis=0) ** 2).mean(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(problem.Y * problem.scaling.y_scale, data.Y, rtol=0, atol=1e-14)
    assert (problem.scaling.y_shift == 0).all()
    assert (problem.n_samples, problem.n_features, problem.n_outputs) == (50, 4, 3)
    assert problem.holds_all_rows


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_extreme_scales_give_the_same_standardised_problem(scale):
    data = data_of()
    plain = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=0)
    scaled = prepare_problem(RowBlocks.from_arrays(data.X * scale, data.Y / scale), random_state=0)
    np.testing.assert_allclose(scaled.X, plain.X, rtol=0, atol=1e-14)
    np.testing.assert_allclose(scaled.Y, plain.Y, rtol=0, atol=1e-14)


def test_an_offset_of_1e8_gives_the_same_standardised_problem():
    """Inputs on a grid of 2**-20, which float64 holds exactly at 1e8; the mean is then known to 1e-8 only."""
    data = data_of()
    X = np.round(data.X * 2**20) / 2**20
    plain = prepare_problem(RowBlocks.from_arrays(X, data.Y), random_state=0)
    moved = prepare_problem(RowBlocks.from_arrays(X + 1e8, data.Y + 1e8), random_state=0)
    difference = moved.X - plain.X
    # A shift of the mean by its rounding, 1.5e-8 of a standard deviation, the same for all rows to rounding.
    assert np.abs(difference).max() < 5e-8
    assert np.abs(difference - difference.mean(axis=0)).max() < 5e-8 * np.abs(plain.X).max()
    assert (moved.scaling.y_shift != 0).all()


def test_a_constant_column_becomes_zero_and_stays_finite():
    data = data_of()
    for constant in (0.0, 0.1, 1e8 / 3):
        X = np.hstack([data.X, np.full((50, 1), constant)])
        problem = prepare_problem(RowBlocks.from_arrays(X, data.Y, block_rows=7), random_state=0)
        assert problem.scaling.x_scale[4] == 1.0
        # Blocks merge means with a rounding each: the column is zero to rounding of the constant.
        assert np.abs(problem.X[:, 4]).max() <= 4e-16 * constant


def test_outputs_are_shifted_only_when_their_mean_dwarfs_their_spread():
    data = data_of()
    spread = np.sqrt((data.Y.std(axis=0) ** 2).mean())
    for factor, is_shifted in ((500.0, False), (2000.0, True)):
        Y = data.Y - data.Y.mean(axis=0) + [factor * spread, 0.0, 0.0]
        shift = prepare_problem(RowBlocks.from_arrays(data.X, Y), random_state=0).scaling.y_shift
        assert (shift != 0).tolist() == [is_shifted, False, False]


def test_without_centring_nothing_is_shifted():
    data = data_of()
    X = data.X + 10
    scaling = prepare_problem(RowBlocks.from_arrays(X, data.Y), random_state=0, form="uncentred").scaling
    assert (scaling.x_mean == 0).all()
    assert (scaling.y_shift == 0).all()
    np.testing.assert_allclose(scaling.x_scale, np.sqrt((X**2).mean(axis=0)), rtol=1e-13)
    np.testing.assert_allclose(scaling.y_scale, np.sqrt((data.Y**2).mean()), rtol=1e-13)


def test_the_sample_in_memory_is_bounded_and_says_so():
    data = data_of(n=90)
    problem = prepare_problem(
        RowBlocks.from_arrays(data.X, data.Y, block_rows=13), random_state=0, search_rows=40
    )
    assert problem.X.shape == (40, 4)
    assert problem.n_samples == 90
    assert not problem.holds_all_rows


def test_a_fresh_seed_is_recorded_and_makes_the_result_again():
    data = data_of(n=90)
    blocks = RowBlocks.from_arrays(data.X, data.Y)
    first = prepare_problem(blocks, search_rows=40)
    assert first.seed is not None
    again = prepare_problem(blocks, random_state=first.seed, search_rows=40)
    np.testing.assert_array_equal(again.X, first.X)
    assert again.rng.random() == first.rng.random()
    card = Requirements("name", "", "any", "", ("relu",), True, "none", "", planted.Guarantee.NONE, "key")
    data_again = Preparation(blocks, random_state=first.seed)
    run = MethodRun(card, data_again, 3, {"option": 1}, planted.recover)
    assert run.problem.seed == first.seed
    answer = run.finish(None, Verdict.refusal(planted.Outcome.ASSUMPTION_FAILED, "no reason"))
    record = answer.provenance
    assert record.parameters == {"n_hidden": 3, "option": 1}
    assert (record.algorithm, record.reference, record.seed) == ("name", "key", first.seed)
    assert record.shape == (90, 4, 3)


def test_no_rows_are_refused():
    with pytest.raises(BadInputError, match="0 sample"):
        prepare_problem(RowBlocks(lambda: iter([])), random_state=0)


def test_a_source_that_can_be_read_only_once_is_refused():
    """`open` must return a fresh iterable; one exhausted generator would otherwise look like no data later on."""
    data = data_of()
    spent = iter([(data.X, data.Y)])
    with pytest.raises(BadInputError, match="read"):
        prepare_problem(RowBlocks(lambda: spent), random_state=0)
