"""Certificates: every refusal by name and number, no wrong network called recovered, and a calibrated F test."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

import planted
from planted.certificates._exact import certify_noiseless
from planted.certificates._noisy import certify_noisy
from planted.certificates._residual import lack_of_fit, residual_sums
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem
from planted.moments import check_rows_against
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Unavailable, Uncertainty
from planted.rows import RowBlocks
from planted.simulate import dataset

recover = partial(planted.recover, method="complementarity")


def world(n, d=10, k=5, m=5, seed=0, **options):
    return dataset(
        n,
        n_features=d,
        n_hidden=k,
        n_outputs=m,
        random_state=seed,
        **{"activity": (0.3, 0.7), **options},
    )


def standardised(network, scaling):
    return TwoLayerNetwork(
        network.W * scaling.x_scale,
        network.b + network.W @ scaling.x_mean,
        network.A / scaling.y_scale,
        (network.c - scaling.y_shift) / scaling.y_scale,
        network.activation,
    )


def judged(X, Y, network, *, noisy=False, **options):
    """Refine a known network on its own problem and certify it, without any search."""
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, standardised(network, problem.scaling), offset=False)
    judge = certify_noisy if noisy else certify_noiseless
    return judge(problem, fit, offset=False, **options)


def with_bias(network, unit, value):
    b = network.b.copy()
    b[unit] = value
    return TwoLayerNetwork(network.W, b, network.A)


def line(verdict, part):
    return next(item for item in verdict.evidence if part in item.name)


# --- counting ------------------------------------------------------------------------------------------------------


def test_unknowns_by_hand():
    net = TwoLayerNetwork(np.ones((3, 4)), None, np.ones((2, 3)))
    # 12 weights and 3 biases, 6 output weights, minus 3 scales; 2 offsets.
    assert degrees_of_freedom(net, offset=True) == 20
    assert degrees_of_freedom(net, offset=False) == 18
    assert degrees_of_freedom(net, offset=False, biases=False) == 15


def test_rows_are_counted_and_the_largest_miss_is_found():
    net = TwoLayerNetwork([[1.0], [-1.0]], [0.0, -2.0], [[1.0, 1.0]])
    X, Y = np.array([[-3.0], [-1.0], [0.0], [2.0]]), np.array([[1.0], [0.0], [0.0], [2.0]])
    Y[1] = -0.25
    checks = check_rows_against(RowBlocks.from_arrays(X, Y, block_rows=3), net, tol=0.125)
    assert checks.largest_residual == 0.25
    assert checks.active.tolist() == [1, 1]
    assert checks.n_samples == 4
    assert (checks.missed, checks.squares) == (1, 0.0625)


# --- noiseless: each condition broken in turn -------------------------------------------------------------------


def test_the_truth_passes_every_line():
    data = world(60)
    verdict = judged(data.X, data.Y, data.network, rivals=0)
    assert (verdict.outcome, verdict.guarantee) == (Outcome.RECOVERED, Guarantee.EXACT)
    assert all(item.passed for item in verdict.evidence)


def test_a_unit_that_is_rarely_on():
    data = world(200)
    top = np.sort(data.X @ data.network.W[2])[::-1]
    truth = with_bias(data.network, 2, -(top[10] + top[11]) / 2)
    verdict = judged(data.X, truth(data.X), truth, rivals=0)
    assert verdict.outcome is Outcome.NOT_IDENTIFIABLE
    assert verdict.detail == "Unit 3 was active in 11 of 200 samples; 12 are needed."
    assert line(verdict, "rarest unit").measured == 11


def test_a_unit_that_is_nearly_always_on():
    data = world(200)
    low = np.sort(data.X @ data.network.W[3])
    truth = with_bias(data.network, 3, -(low[4] + low[5]) / 2)
    verdict = judged(data.X, truth(data.X), truth, rivals=0)
    assert verdict.outcome is Outcome.NOT_IDENTIFIABLE
    assert verdict.detail.startswith("Unit 4 was inactive in 5 of 200 samples (6 are needed)")


@pytest.mark.parametrize("n", [8, 14, 15, 16, 17])
def test_zero_residual_below_the_limit_is_not_recovery(n):
    """75 unknowns, 5 outputs: nine tenths of the rows must give 76 equations, so 17 rows are the least."""
    data = world(n)
    verdict = judged(data.X, data.Y, data.network, rivals=0)
    assert line(verdict, "largest residual").measured < 0.1
    assert verdict.outcome is (Outcome.TOO_FEW_SAMPLES if n < 17 else Outcome.NOT_IDENTIFIABLE)
    if n < 17:
        assert f"{n} distinct samples cannot determine 75 unknowns" in verdict.detail
        assert "at least 17 are needed" in verdict.detail
    if n * 5 <= 75:
        assert isinstance(verdict.uncertainty, Unavailable)


def test_repeated_rows_are_no_evidence():
    """Twenty copies of 16 rows are 1,600 equations, of which 80 are different."""
    data = world(16)
    verdict = judged(np.tile(data.X, (20, 1)), np.tile(data.Y, (20, 1)), data.network, rivals=0)
    assert verdict.outcome is Outcome.TOO_FEW_SAMPLES
    assert "16 distinct samples" in verdict.detail
    assert line(verdict, "equations").measured == 75  # 15 of 16 distinct rows
    assert line(verdict, "rarest unit").measured <= 16


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("distinct", [16, 20, 25])
def test_no_wrong_network_is_recovered_from_repeated_rows(seed, distinct):
    data = world(distinct, seed=seed)
    recovery = recover(np.tile(data.X, (20, 1)), np.tile(data.Y, (20, 1)), random_state=1, max_starts=512)
    if recovery.outcome is Outcome.RECOVERED:
        assert planted.parameter_error(recovery.network, data.network) < 1e-10


@pytest.mark.parametrize("seed", range(4))
def test_corners_of_a_cube_are_recovered_right_or_not_at_all(seed):
    """32 distinct inputs of -1 and 1: some networks are determined, and a wrong one must not be called recovered."""
    data = world(400, d=5, k=3, m=3, seed=seed, law="rademacher", activity=None, bias=(-0.5, 0.5))
    recovery = recover(data.X, data.Y, random_state=0)
    if recovery.outcome is Outcome.RECOVERED:
        assert planted.parameter_error(recovery.network, data.network) < 1e-12
    else:
        assert recovery.outcome is Outcome.NOT_IDENTIFIABLE
        assert "of 32 samples" in recovery.detail or "undetermined" in recovery.detail


@pytest.mark.parametrize("seed", [19, 48, 88])
def test_a_kink_that_came_to_rest_on_a_sample_is_not_determined(seed):
    """A unit that can turn without changing any of 16 outputs turns until a corner lies on its kink, and no further."""
    data = world(100, d=4, k=5, m=5, seed=seed, law="rademacher", activity=None, bias=(-0.5, 0.5))
    recovery = recover(data.X, data.Y, random_state=0)
    assert planted.parameter_error(recovery.network, data.network) > 0.1
    assert recovery.outcome is Outcome.NOT_IDENTIFIABLE


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_dependent_inputs_leave_a_direction_undetermined(noise):
    data = world(400, d=9, noise=noise)
    for seed, extra in enumerate((data.X[:, :1], data.X[:, :1] + data.X[:, 1:2], data.X[:, 2:3])):
        recovery = recover(np.hstack([data.X, extra]), data.Y, 5, random_state=seed)
        assert recovery.outcome is Outcome.NOT_IDENTIFIABLE
        assert "direction of unit" in recovery.detail
        assert isinstance(recovery.uncertainty, Unavailable)


@pytest.mark.parametrize("size", [1e12, 1e14])
def test_huge_weights_that_cancel_do_not_allow_any_residual(size):
    """Rounding of terms of 1e14 is as large as the outputs: what they leave is called rounding up to a hundredth."""
    data = world(60, noise=0.1)
    net = data.network
    rows, weights = np.vstack([net.W, net.W[:1], net.W[:1]]), size * np.ones((len(net.A), 2)) * [1, -1]
    biases = np.append(net.b, net.b[[0, 0]])
    verdict = judged(data.X, data.Y, TwoLayerNetwork(rows, biases, np.hstack([net.A, weights])), rivals=0)
    assert not line(verdict, "largest residual").passed


def test_a_miss_of_one_sample_is_not_exact():
    data = world(60)
    Y = data.Y.copy()
    Y[7, 2] += 1e-6
    verdict = judged(data.X, Y, data.network, rivals=0)
    assert verdict.outcome is Outcome.FITTED
    assert verdict.guarantee is Guarantee.NONE


def test_a_rival_unit_found_by_the_search_forbids_the_claim():
    data = world(60)
    verdict = judged(data.X, data.Y, data.network, rivals=2)
    assert verdict.outcome is Outcome.NOT_IDENTIFIABLE
    assert "2 further unit(s)" in verdict.detail


# --- noisy: wrong networks ---------------------------------------------------------------------------------------


WRONG = {
    "leaky": lambda t: np.where(t > 0, t, 0.1 * t),
    "tanh": np.tanh,
    "quadratic": np.square,
    "softplus": lambda t: np.log1p(np.exp(3 * t)) / 3,
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize(("n", "noise"), [(150, 0.0), (1000, 0.1)])
def test_data_of_another_activation_are_never_recovered(name, n, noise):
    data = world(n, seed=1)
    rng = np.random.default_rng(100)
    Y = WRONG[name](data.network.preactivations(data.X)) @ data.network.A.T
    recovery = recover(data.X, Y + noise * rng.standard_normal(Y.shape), random_state=0, n_restarts=3)
    if name == "leaky" and not noise:  # ReLU units beside a linear part are the same function
        fresh = world(300, seed=2).X
        expected = WRONG[name](data.network.preactivations(fresh)) @ data.network.A.T
        assert recovery.network.B is not None
        np.testing.assert_allclose(recovery.network(fresh), expected, atol=1e-10)
        return
    assert recovery.outcome is not Outcome.RECOVERED


@pytest.mark.parametrize(("n", "noise"), [(150, 0.0), (1000, 0.1)])
def test_a_three_layer_teacher_is_never_recovered(n, noise):
    data = world(n, seed=2)
    rng = np.random.default_rng(101)
    hidden = np.maximum(data.network.preactivations(data.X), 0.0)
    Y = np.maximum(hidden @ rng.standard_normal((5, 5)), 0.0) @ data.network.A.T
    recovery = recover(data.X, Y + noise * rng.standard_normal(Y.shape), random_state=0, n_restarts=3)
    assert recovery.outcome is not Outcome.RECOVERED


@pytest.mark.parametrize("n", [150, 2000])
def test_a_missing_unit_shows_in_the_residual(n):
    data = world(n, noise=0.1, seed=3)
    recovery = recover(data.X, data.Y, 4, random_state=0, n_restarts=3)
    assert recovery.outcome is Outcome.FITTED
    p_value = line(recovery, "traces of x")
    assert p_value.measured < 1e-3
    assert "traces of x in the residual" in recovery.detail


def test_a_unit_too_many_does_not_stand_out():
    data = world(2000, m=8, noise=0.1)
    recovery = recover(data.X, data.Y, 6, random_state=0, n_restarts=3)
    assert recovery.outcome is not Outcome.RECOVERED
    right = recover(data.X, data.Y, random_state=0)
    assert right.outcome is Outcome.RECOVERED
    assert right.network.n_hidden == 5


@pytest.mark.parametrize("seed", range(5, 11))
def test_pure_noise_has_no_units(seed):
    """Units of noise explain too little, or are on or off in too few samples to be seen or to be determined."""
    data = world(500, d=4, k=3, m=3)
    Y = np.random.default_rng(seed).standard_normal((500, 3))
    recovery = recover(data.X, Y, random_state=0)
    assert recovery.outcome in (Outcome.FITTED, Outcome.NOT_IDENTIFIABLE)
    if recovery.outcome is Outcome.FITTED:
        assert line(recovery, "rise of the sum of squares without").passed is False
    else:
        assert {item.key for item in recovery.failed} & {Check.UNIT_ON, Check.UNIT_OFF, Check.JACOBIAN}


@pytest.mark.parametrize(("size", "is_enough"), [(0.02, False), (0.1, True)])
def test_a_unit_must_be_stronger_than_one_of_noise(size, is_enough):
    """The rise without a unit is its output weights squared times what its activation varies beside the other units."""
    data = world(2000)
    A = data.network.A.copy()
    A[:, 0] *= size / np.linalg.norm(A[:, 0])
    weak = TwoLayerNetwork(data.network.W, data.network.b, A)
    noise = 0.1 * np.random.default_rng(8).standard_normal(data.Y.shape)
    rise = line(
        judged(data.X, weak(data.X) + noise, weak, noisy=True), "rise of the sum of squares without unit 1"
    )
    assert rise.required == pytest.approx(67.6, abs=0.1)  # the 1e-4 tail of χ² with 30
    assert rise.passed is is_enough


def test_a_unit_of_noise_lowers_the_sum_of_squares_like_its_law():
    """A fourth unit fitted to noise: about a χ² with 2(d + m) = 30 degrees of freedom."""
    rises = []
    for seed in range(6):
        data = world(500, k=3, noise=0.5, seed=seed)
        recovery = recover(data.X, data.Y, 4, random_state=seed, n_restarts=3)
        assert recovery.outcome is Outcome.FITTED
        rises.append(line(recovery, "rise of the sum of squares without").measured)
    assert np.mean(rises) == pytest.approx(30, abs=4 * np.sqrt(60 / 6))


def test_noise_on_few_samples_is_too_few():
    data = world(25, noise=0.1)
    verdict = judged(data.X, data.Y, data.network, noisy=True)
    assert verdict.outcome is Outcome.TOO_FEW_SAMPLES
    assert line(verdict, "equations").required == 150  # twice 75


def test_the_truth_on_noisy_data_passes_every_line():
    data = world(400, noise=0.03)
    verdict = judged(data.X, data.Y, data.network, noisy=True)
    assert (verdict.outcome, verdict.guarantee) == (Outcome.RECOVERED, Guarantee.ASYMPTOTIC)
    assert all(item.passed for item in verdict.evidence)
    assert verdict.uncertainty.noise_std == pytest.approx(0.03, rel=4 / np.sqrt(2 * data.Y.size))


# --- the F test ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m", "repeats"), [(100, 2, 200), (400, 1, 200)])
def test_the_p_value_is_uniform_under_the_truth(n, m, repeats):
    """Kolmogorov-Smirnov at 1e-4: one false alarm in ten thousand choices of the fixed seeds."""
    p_values = []
    for seed in range(repeats):
        data = world(n, d=3, k=2, m=m, seed=seed, noise=0.1)
        problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=seed)
        fit = refine(problem.blocks, standardised(data.network, problem.scaling), offset=False)
        p_value, tested = lack_of_fit(residual_sums(problem, fit.network, offset=False))
        assert tested > 0
        p_values.append(p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4
    assert abs(np.mean(p_values) - 0.5) < 4 / np.sqrt(12 * repeats)


def test_the_sums_of_the_test_are_an_explicit_regression():
    """Equation (1) with all columns written out: the Jacobian of the whole network, then functions of x beside it."""
    data = world(80, d=3, k=2, m=2, noise=0.1)
    problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y, block_rows=11), random_state=0)
    net = refine(problem.blocks, standardised(data.network, problem.scaling), offset=False).network
    X, Y = problem.X, problem.Y
    state = problem.rng.bit_generator.state
    p_value, tested = lack_of_fit(residual_sums(problem, net, offset=False))
    problem.rng.bit_generator.state = state
    directions = problem.rng.standard_normal((40, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    random = np.maximum(X @ directions.T - problem.rng.standard_normal(40), 0.0)
    t = net.preactivations(X)
    budget = int((80 - (2 * 4 - 2 + 4) / 2) / 2)
    Phi = np.hstack([t, random, np.maximum(t, 0) ** 2, np.minimum(t, 0) ** 2])[:, :budget]
    residual = Y - net(X)
    levels, rotation = np.linalg.eigh(residual.T @ residual)
    whiten = rotation / np.sqrt(levels)
    rows = np.hstack([X, np.ones((80, 1))])
    inner = np.einsum("lj,nj,np->lnjp", whiten.T @ net.A, (t > 0) * 1.0, rows).reshape(160, -1)
    J = np.hstack([inner, np.kron(np.eye(2), np.maximum(t, 0.0))])
    r = (residual @ whiten).T.ravel()
    Phi = Phi[:, np.linalg.norm(Phi, axis=0) > 0]
    dimensions, squares = [], []
    for M in (J, np.hstack([J, np.kron(np.eye(2), Phi)])):
        left, values, _ = np.linalg.svd(M / np.linalg.norm(M, axis=0), full_matrices=False)
        left = left[:, values > 3e-6]
        dimensions.append(left.shape[1])
        squares.append(((left.T @ r) ** 2).sum())
    assert tested == dimensions[1] - dimensions[0]
    ratio = (squares[1] - squares[0]) / tested / ((r @ r - squares[1]) / (160 - dimensions[1]))
    assert p_value == pytest.approx(stats.f.sf(ratio, tested, 160 - dimensions[1]), rel=1e-6)


def test_nothing_left_to_test_is_said():
    data = world(8, d=3, k=2, m=1, noise=0.1)
    problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=0)
    p_value, tested = lack_of_fit(
        residual_sums(problem, standardised(data.network, problem.scaling), offset=True)
    )
    assert tested == 0
    assert np.isnan(p_value)


def test_outputs_that_repeat_each_other_do_not_dilute_the_test():
    """Three copies of one output have a residual of rank one; what is left is rounding and must not count as noise."""
    data = world(200, d=3, k=2, m=1, noise=0.1)
    for copies in (1, 3):
        Y = np.tile(np.tanh(data.network.preactivations(data.X)) @ data.network.A.T, (1, copies))
        problem = prepare_problem(RowBlocks.from_arrays(data.X, Y), random_state=0)
        wide = TwoLayerNetwork(data.network.W, data.network.b, np.tile(data.network.A, (copies, 1)))
        fit = refine(problem.blocks, standardised(wide, problem.scaling), offset=False)
        p_value, tested = lack_of_fit(residual_sums(problem, fit.network, offset=False))
        assert p_value < 1e-6
        assert tested <= 46 + 2  # at most the functions of x for one output, not for three


def _bound_of(answer: planted.Recovery) -> float | None:
    lines = [line.measured for line in answer.evidence if line.name.startswith("95 % upper bound")]
    return lines[0] if lines else None


def test_the_bound_on_a_noisy_networks_error_holds_where_it_is_said() -> None:
    """Thirty problems, a bound of 95 %: fewer than 85 % of them covered has a probability of about 1 %."""
    covered = []
    for seed in range(30):
        data = dataset(
            1_200, n_features=3, n_hidden=2, n_outputs=4, noise=0.03, bias=(-0.5, 0.5), random_state=seed
        )
        answer = planted.recover(data.X, data.Y, 2, random_state=900 + seed)
        bound = _bound_of(answer)
        if answer.outcome is not Outcome.RECOVERED:
            assert bound is None
            continue
        assert answer.network is not None and bound is not None
        error = ((answer.network(data.X) - data.network(data.X)) ** 2).mean() / data.Y.var(axis=0).mean()
        assert error > bound / 20  # a bound, not a guess that is always true
        covered.append(error <= bound)
    assert len(covered) >= 25 and sum(covered) >= 0.85 * len(covered)


def test_a_network_with_a_unit_missing_has_no_bound_on_its_error() -> None:
    data = dataset(2_000, n_features=3, n_hidden=3, n_outputs=3, noise=0.1, random_state=1)
    answer = planted.recover(data.X, data.Y, 2, random_state=901)
    assert answer.outcome is not Outcome.RECOVERED and answer.network is not None
    assert _bound_of(answer) is None


@pytest.mark.parametrize("solver_seed", range(12))
def test_a_unit_with_one_sample_to_spare_is_certified_whatever_rows_are_drawn(solver_seed):
    """d + 2 samples on which a unit is on: d + 1 of them must be among those that determine it."""
    data = world(60, d=6, k=3, m=4, seed=5)
    t = data.X @ data.network.W[0]
    threshold = np.sort(t)[::-1][7:9].mean()
    truth = TwoLayerNetwork(data.network.W, np.append(-threshold, data.network.b[1:]), data.network.A)
    assert truth.patterns(data.X)[:, 0].sum() == 8
    answer = recover(data.X, truth(data.X), random_state=700 + solver_seed)
    assert answer.outcome is Outcome.RECOVERED, answer.detail
    assert planted.parameter_error(answer.network, truth) < 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_an_offset_that_is_left_out_has_the_error_that_it_has_where_it_is_free(seed: int) -> None:
    rng = np.random.default_rng([seed, 3])
    data = dataset(
        500, n_features=3, n_hidden=2, n_outputs=2, noise=0.05, activity=(0.4, 0.6), random_state=seed
    )
    c = rng.uniform(-1, 1, 2) * 0.05 * data.Y.std(axis=0) / np.sqrt(500)
    found = planted.recover(data.X, data.Y + c, 2, random_state=50 + seed)
    assert isinstance(found.uncertainty, Uncertainty)
    assert found.network is not None and found.network.n_hidden == 2
    errors = found.uncertainty.standard_errors["c"]
    assert (errors > 0).all() and (np.abs(found.network.c - c) < 4 * errors).all()


def test_claims_say_what_they_take_for_granted() -> None:
    data = dataset(1500, n_features=3, n_hidden=1, n_outputs=2, affine=True, noise=0.02, random_state=4)
    bent = planted.recover(data.X, data.Y, 1, affine=True, random_state=1)
    assert bent.outcome is Outcome.RECOVERED and "Inputs are taken to be exact" in bent.detail
    plain = dataset(900, n_features=3, n_hidden=2, n_outputs=3, noise=0.05, random_state=5)
    Y = np.where(np.random.default_rng(0).random(plain.Y.shape) < 0.1, np.nan, plain.Y)
    masked = planted.recover(plain.X, Y, 2, missing_labels="mask", random_state=1)
    assert masked.outcome is Outcome.RECOVERED and "missing whatever their noise is" in masked.detail
    whole = planted.recover(plain.X, plain.Y, 2, random_state=1)
    assert whole.outcome is Outcome.RECOVERED and "may look like one of these" in whole.detail
    assert "missing" not in whole.detail and "exact" not in whole.detail


@pytest.mark.parametrize("seed", range(6))
def test_one_output_tells_two_units_apart_by_more_samples_than_weights(seed):
    """Where two units differ on d + 1 samples only, others that differ on as many give the same labels."""
    rng = np.random.default_rng([seed, 313])
    X = rng.standard_normal((110, 3))
    while True:
        plane = rng.standard_normal(4)
        W = np.vstack([plane, plane + 0.08 * rng.standard_normal(4), rng.standard_normal(4)])
        net = TwoLayerNetwork(
            W[:, :3], 0.4 * W[:, 3], np.array([[-1.0, -1.4, 1.2]]) * rng.uniform(0.8, 1.2, 3)
        )
        on = net.patterns(X)
        if (on[:, 0] != on[:, 1]).sum() == 4 and 20 < on[:, 2].sum() < 90:
            break
    answer = planted.recover(X, net(X), 3, method="restarts", random_state=seed)
    assert answer.outcome is not planted.Outcome.RECOVERED
