"""The theorem of complementarity as tests: exactness, uniqueness, symmetry, refusal, rivals, rate and efficiency.

Seeds of data and solver are separate streams by construction (`planted._streams`). Errors are of matched parameters.
"""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy import linalg

import planted
from planted.fitting._jacobian import information
from planted.fitting.units._null_units import complementarity_null_space, units_from_null_space
from planted.moments import accumulate_normal
from planted.networks import TwoLayerNetwork, match_units
from planted.outcomes import DataWarning, Guarantee, Outcome
from planted.rows import RowBlocks
from planted.simulate import dataset

recover = partial(planted.recover, method="complementarity")
LAWS = ["exponential", "uniform", "laplace", "student-t", "mixture", "correlated"]
EXACT = 1e-12  # rounding of some hundred operations on numbers of order one, times a condition number of about a hundred


def world(n, d=10, k=5, m=5, law="gaussian", seed=0, **options):
    return dataset(
        n,
        n_features=d,
        n_hidden=k,
        n_outputs=m,
        law=law,
        random_state=seed,
        **{"activity": (0.3, 0.7), **options},
    )


def null_lines(recovery):
    return [item for item in recovery.evidence if "null" in item.name]


# --- a. exact without any assumption on the law -----------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", [0, 1])
def test_any_law_at_four_times_the_information_limit(law, seed):
    n = 4 * int(planted.simulate.information_limit(10, 5, 5))
    data = world(n, law=law, seed=seed)
    recovery = recover(data.X, data.Y, random_state=seed)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.guarantee is Guarantee.EXACT
    assert planted.parameter_error(recovery.network, data.network) < EXACT


@pytest.mark.parametrize("law", ["exponential", "gaussian"])
def test_the_null_space_certifies_globally_from_one_and_a_half_q(law):
    q = 5 * 6 // 2 + 5 * 11
    data = world(int(np.ceil(1.5 * q)), law=law, seed=3)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.guarantee is Guarantee.EXACT
    dimension, gap = null_lines(recovery)
    assert (dimension.measured, dimension.required, dimension.passed) == (5, 5, True)
    assert gap.passed
    assert gap.measured > 1e-6
    assert "no other network of this width" in recovery.detail
    assert recovery.stats["starts"] == 0, "the null space alone must give the units"
    assert planted.parameter_error(recovery.network, data.network) < EXACT


def test_far_below_q_nothing_global_is_claimed():
    data = world(60)
    recovery = recover(data.X, data.Y, random_state=0)
    assert null_lines(recovery) == []
    assert "locally unique" in recovery.detail


@pytest.mark.parametrize(
    ("d", "k", "m", "n"), [(4, 8, 8, 200), (10, 5, 9, 60), (3, 6, 8, 150), (1, 1, 1, 30)]
)
def test_more_units_than_inputs_and_more_outputs_than_units(d, k, m, n):
    data = world(n, d=d, k=k, m=m)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.network.n_hidden == k
    assert planted.parameter_error(recovery.network, data.network) < EXACT


@pytest.mark.parametrize("m", [5, 8])
@pytest.mark.parametrize("n", [60, 150])
def test_an_unknown_offset(m, n):
    data = world(n, m=m)
    c = np.arange(m) - 1.5
    truth = TwoLayerNetwork(data.network.W, data.network.b, data.network.A, c)
    recovery = recover(data.X, truth(data.X), random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, truth) < EXACT


# --- units -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x_scale", "y_scale"), [(1e150, 1.0), (1e-150, 1.0), (1.0, 1e150), (1.0, 1e-150), (1e150, 1e150)]
)
def test_extreme_units_change_only_the_units(x_scale, y_scale):
    data = world(60)
    plain = recover(data.X, data.Y, random_state=0)
    scaled = recover(data.X * x_scale, data.Y * y_scale, random_state=0)
    assert scaled.outcome is Outcome.RECOVERED
    net = scaled.network
    back = TwoLayerNetwork(net.W, net.b / x_scale, net.A * x_scale / y_scale, net.c / y_scale)
    assert planted.parameter_error(back, plain.network) < EXACT
    assert planted.parameter_error(back, data.network) < EXACT


def test_inputs_at_an_offset_of_1e8():
    """Inputs on a grid that float64 holds exactly there; b = -W mean + ... is then known to 1e-8 absolutely."""
    data = world(60)
    X = np.round(data.X * 2**20) / 2**20
    Y = data.network(X)
    recovery = recover(X + 1e8, Y, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    net = recovery.network
    matched = planted.parameter_error(
        TwoLayerNetwork(net.W, net.b + net.W @ np.full(10, 1e8), net.A, net.c), data.network
    )
    # W is known to 1e-14 or so; times ten inputs of 1e8 it moves b by up to 1e-5, and b itself is rounded at 1e-7.
    assert matched < 1e-5
    assert (
        planted.parameter_error(
            TwoLayerNetwork(net.W, np.zeros(5), net.A, net.c),
            TwoLayerNetwork(data.network.W, np.zeros(5), data.network.A),
        )
        < 1e-11
    )


def test_outputs_at_an_offset_of_1e8_are_read_to_their_rounding():
    """Outputs are rounded at 1e-8, so they are no longer noiseless: the answer is as good as that rounding."""
    data = world(400)
    recovery = recover(data.X, data.Y + 1e8, random_state=0)
    net = recovery.network
    moved = TwoLayerNetwork(net.W, net.b, net.A, net.c - 1e8)
    assert planted.parameter_error(moved, data.network) < 1e-6


# --- b. symmetry -------------------------------------------------------------------------------------------------


def test_equivariance_under_rotation_permutation_and_output_maps():
    data = world(60)
    rng = np.random.default_rng(4)
    rotation = linalg.qr(rng.standard_normal((10, 10)))[0]
    rows, outputs = rng.permutation(60), rng.permutation(5)
    mixing = rng.standard_normal((5, 5))
    truth = data.network
    cases = [
        (data.X @ rotation.T, data.Y, TwoLayerNetwork(truth.W @ rotation.T, truth.b, truth.A)),
        (data.X[rows], data.Y[rows], truth),
        (data.X, data.Y[:, outputs], TwoLayerNetwork(truth.W, truth.b, truth.A[outputs])),
        (data.X, -3.0 * data.Y, TwoLayerNetwork(truth.W, truth.b, -3.0 * truth.A)),
        (data.X, data.Y @ mixing.T, TwoLayerNetwork(truth.W, truth.b, mixing @ truth.A)),
    ]
    for X, Y, expected in cases:
        recovery = recover(X, Y, random_state=0)
        assert recovery.outcome is Outcome.RECOVERED
        assert (
            planted.parameter_error(recovery.network, expected) < EXACT * 10
        )  # mixing has condition about ten


def test_the_same_seed_gives_the_same_bits_and_other_seeds_the_same_network():
    for noise in (0.0, 0.05):
        data = world(300, noise=noise)
        first = recover(data.X, data.Y, random_state=7)
        again = recover(data.X, data.Y, random_state=7)
        for name in "WbAc":
            np.testing.assert_array_equal(getattr(first.network, name), getattr(again.network, name))
        assert [e.measured for e in first.evidence] == [e.measured for e in again.evidence]
        if not noise:
            other = recover(data.X, data.Y, random_state=8)
            assert planted.parameter_error(first.network, other.network) < EXACT


def test_a_result_is_made_again_from_its_recorded_seed():
    data = world(60)
    first = recover(data.X, data.Y)
    again = recover(data.X, data.Y, random_state=first.provenance.seed)
    for name in "WbAc":
        np.testing.assert_array_equal(getattr(first.network, name), getattr(again.network, name))


# --- c. refusal --------------------------------------------------------------------------------------------------


def with_bias(network, unit, value):
    b = network.b.copy()
    b[unit] = value
    return TwoLayerNetwork(network.W, b, network.A)


def test_a_unit_that_is_always_on_is_refused_by_name():
    data = world(60)
    recovery = recover(data.X, with_bias(data.network, 2, 50.0)(data.X), random_state=0)
    assert recovery.outcome is Outcome.NOT_IDENTIFIABLE
    assert "was inactive in 0 of 60 samples" in recovery.detail


def test_a_unit_that_is_never_on_is_invisible_and_the_rest_is_recovered():
    data = world(60)
    truth = with_bias(data.network, 2, -50.0)
    kept = [0, 1, 3, 4]
    visible = TwoLayerNetwork(truth.W[kept], truth.b[kept], truth.A[:, kept])
    recovery = recover(data.X, truth(data.X), random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, visible) < EXACT
    asked = recover(data.X, truth(data.X), 5, random_state=0)
    assert asked.outcome is Outcome.NOT_IDENTIFIABLE
    assert "4 units reproduce all samples; 5 were asked for" in asked.detail


def test_linear_data_are_not_called_a_network():
    data = world(60)
    recovery = recover(data.X, data.X @ data.network.W[:3].T, random_state=0)
    assert recovery.outcome is Outcome.NOT_IDENTIFIABLE
    assert "cannot be told from a linear part" in recovery.detail


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_outputs_are_refused(value):
    data = world(60)
    with pytest.warns(DataWarning, match="constant column"):
        recovery = recover(data.X, np.full((60, 3), value), random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert "outputs that vary: 0; the method needs >= 1" in recovery.detail


@pytest.mark.parametrize("n", [1, 2, 7, 10])
def test_fewer_samples_than_inputs_are_too_few(n):
    data = world(n)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.TOO_FEW_SAMPLES
    assert f"{n} " in recovery.detail


@pytest.mark.parametrize("m", [5, 8])
def test_a_width_below_the_rank_is_refused_with_both_numbers(m):
    data = world(60, m=m)
    recovery = recover(data.X, data.Y, 3, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert recovery.network is None
    assert "rank of the outputs: 5; the method needs <= 3" in recovery.detail


def test_a_width_above_what_is_seen_is_refused_with_both_numbers():
    data = world(60, m=8)
    recovery = recover(data.X, data.Y, 6, random_state=0)
    assert recovery.outcome is Outcome.NOT_IDENTIFIABLE
    assert "5 units reproduce all samples; 6 were asked for" in recovery.detail


def test_more_units_than_outputs_are_refused():
    data = world(60)
    recovery = recover(data.X, data.Y, 6, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert "outputs: 5; the method needs >= 6 (m >= k)" in recovery.detail


def test_below_the_limit_no_wrong_network_is_called_recovered():
    """Random problems with 0.8 to 1.6 times the information limit: whatever is called recovered must be right."""
    rng = np.random.default_rng(12)
    outcomes = []
    for seed in range(24):
        d, k = int(rng.integers(3, 7)), int(rng.integers(2, 5))
        n = int(np.ceil(planted.simulate.information_limit(d, k, k) * rng.uniform(0.8, 1.6)))
        data = world(n, d=d, k=k, m=k, seed=100 + seed, activity=(0.2, 0.8))
        recovery = recover(data.X, data.Y, random_state=seed, max_starts=512)
        outcomes.append(recovery.outcome)
        if recovery.outcome is Outcome.RECOVERED:
            assert planted.parameter_error(recovery.network, data.network) < 1e-9, (seed, recovery.detail)
    assert outcomes.count(Outcome.RECOVERED) < 12, "most of these problems cannot be solved"


# --- d. rival: brute force over all activation patterns ---------------------------------------------------------


def brute_force_units(X, Y):
    """All ReLU columns in the column space of Y for d = 1, k = 2: every pattern of sorted inputs is an interval."""
    n = len(X)
    rows = np.hstack([X, np.ones((n, 1))])
    Q = linalg.orth(Y)
    order = np.argsort(X[:, 0])
    units = []
    for cut, side in itertools.product(range(2, n - 1), (1, -1)):
        pattern = np.zeros(n, dtype=bool)
        pattern[order[cut:] if side > 0 else order[:cut]] = True
        masked = linalg.orth(rows * pattern[:, None])
        sines = linalg.svd(masked - Q @ (Q.T @ masked), full_matrices=False)
        if sines[1][-1] > 1e-9:
            continue
        h = masked @ sines[2][-1]
        h = h if h.sum() > 0 else -h
        if h[pattern].min() > -1e-9:
            v = linalg.lstsq(rows[pattern], h[pattern])[0]
            units.append(v / abs(v[0]))
    return np.array(units)


@pytest.mark.parametrize("seed", range(4))
def test_brute_force_over_all_patterns_finds_the_units_of_the_null_space(seed):
    """Two units that face each other (neither is on only where the other is): dim N = 2 and nothing else exists."""
    rng = np.random.default_rng(seed)
    X = rng.standard_exponential((25, 1)) - 1.0
    low, high = np.quantile(X, [0.35, 0.65])
    truth = TwoLayerNetwork([[1.0], [-1.0]], [-low, high], rng.standard_normal((2, 2)))
    Y = truth(X)
    y = linalg.orth(Y) * 5.0
    space = complementarity_null_space(X, y)
    assert space.dimension == 2
    V = units_from_null_space(X, y, space, rng=np.random.default_rng(seed + 50))
    found = V / np.abs(V[:, :1])
    brute = brute_force_units(X, Y)
    assert brute.shape == (2, 2), "exhaustive search finds exactly the two units"
    key = np.argsort(found[:, 0]), np.argsort(brute[:, 0])
    np.testing.assert_allclose(found[key[0]], brute[key[1]], rtol=0, atol=1e-10)
    np.testing.assert_allclose(brute[key[1]], [[-1.0, high], [1.0, -low]], rtol=0, atol=1e-10)


def test_nested_units_enlarge_the_null_space_and_nothing_global_is_claimed():
    """Unit 1 is on wherever unit 0 is: h_0 (h_1 - t_1) = 0 is a third null vector."""
    X = np.linspace(-2, 2, 40)[:, None]
    truth = TwoLayerNetwork([[1.0], [1.0]], [-0.5, 0.53], [[1.0, 0.3], [-0.4, 1.0]])
    y = linalg.orth(truth(X)) * np.sqrt(40)
    assert complementarity_null_space(X, y).dimension == 3
    recovery = recover(X, truth(X), random_state=0)
    assert "no other network of this width" not in recovery.detail
    if recovery.outcome is Outcome.RECOVERED:
        assert planted.parameter_error(recovery.network, truth) < EXACT


# --- e. noise: rate, standard errors, efficiency -----------------------------------------------------------------


def test_noisy_error_is_within_four_standard_errors():
    data = world(10_000, law="exponential", noise=0.1)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.guarantee is Guarantee.ASYMPTOTIC
    matching = match_units(recovery.network, data.network)
    errors = recovery.uncertainty.standard_errors
    order = matching.permutation
    moved, truth = matching.network, matching.truth
    own = [int(np.argmin(np.abs(recovery.network.W - row).sum(axis=1))) for row in moved.W[order]]
    z = [
        (moved.W[order] - truth.W) / errors["W"][own],
        (moved.b[order] - truth.b) / errors["b"][own],
        (moved.A[:, order] - truth.A) / errors["A"][:, own],
    ]
    # 80 parameters: the largest of 80 normal scores exceeds 4 once in 200 runs, and the seed is fixed.
    assert max(np.abs(part).max() for part in z) < 4.0
    assert recovery.uncertainty.noise_std == pytest.approx(0.1, rel=4 / np.sqrt(2 * data.Y.size))


def test_the_mean_squared_error_is_the_cramer_rao_bound():
    """Ten fits at n = 2,000: the ratio of summed squared errors to the bound is one within its own scatter."""
    ratios = []
    for seed in range(10):
        data = world(2_000, d=4, k=3, m=3, noise=0.03, seed=40 + seed)
        recovery = recover(data.X, data.Y, 3, offset=False, noise="present", random_state=seed)
        assert recovery.outcome is Outcome.RECOVERED
        truth = data.network
        sums = accumulate_normal(RowBlocks.from_arrays(data.X, data.Y_clean), truth)
        variances = information(sums, truth, offset=False).variances
        bound = 0.03**2 * sum(variances[name].sum() for name in "WbA")
        matching = match_units(recovery.network, truth)
        order = matching.permutation
        net, true = matching.network, matching.truth
        squared = ((net.W[order] - true.W) ** 2).sum() + ((net.b[order] - true.b) ** 2).sum()
        squared += ((net.A[:, order] - true.A) ** 2).sum()
        ratios.append(squared / bound)
    # Each ratio is a weighted chi-squared mean with about ten effective terms: standard deviation near 0.45.
    spread = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1) < 4 * max(spread, 0.05)
    assert np.mean(ratios) < 1.5


def test_the_error_falls_like_the_root_of_the_samples():
    """Slope of log error against log n, five seeds at three sizes: -1/2 within four standard errors."""
    sizes = np.array([500, 2_000, 8_000])
    slopes = []
    for seed in range(5):
        errors = []
        for n in sizes:
            data = world(int(n), d=4, k=3, m=3, noise=0.1, seed=60 + seed)
            net = recover(data.X, data.Y, 3, noise="present", random_state=seed).network
            matching = match_units(net, data.network)
            errors.append(np.sqrt((matching.unit_errors**2).mean()))
        slopes.append(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
    assert abs(np.mean(slopes) + 0.5) < 4 * np.std(slopes, ddof=1) / np.sqrt(5)
    assert -0.75 < np.mean(slopes) < -0.25


@pytest.mark.parametrize(("seed", "noise"), [(3, 0.1), (0, 1e-9), (1, 1e-9)])
def test_a_null_space_with_fewer_vectors_than_units_ends_the_noiseless_search(seed, noise):
    """k units leave k vectors: where there are fewer, no search over half-spaces can find them.

    Labels of nine decimals have one dimension more than there are units, and one vector for each unit.
    """
    data = dataset(600, n_features=6, n_hidden=3, n_outputs=4, activity=(0.3, 0.7), random_state=seed)
    Y = data.Y + noise * np.random.default_rng([seed, 1]).standard_normal(data.Y.shape)
    recovery = planted.recover(data.X, Y, method="complementarity", noise="none", random_state=0)
    assert (recovery.outcome, recovery.network) == (Outcome.STOPPED_EARLY, None)
    assert recovery.stats["starts"] == 0
