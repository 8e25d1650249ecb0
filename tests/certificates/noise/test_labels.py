"""Labels that were cut off or lost: seen in families with drawn networks, and not seen in honest noise."""

import numpy as np
import pytest

from planted import Outcome, RowBlocks, TwoLayerNetwork, simulate
from planted.certificates._noisy import certify_noisy
from planted.certificates._robust import certify_with_loss
from planted.certificates.noise._covariance import certify_whitened
from planted.certificates.noise._labels import copied_rows, label_fault_evidence, one_sided_evidence
from planted.checks import Check
from planted.fitting._losses import refine_with_loss
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem

SEEDS = range(8)


def rows(seed, spoil, *, rounded=False):
    """Labels of a drawn network with noise, spoilt, and the predictions of the network fitted to them."""
    rng = np.random.default_rng([seed, 31])
    net = simulate.teacher(3, 2, 2, activity=(0.3, 0.7), random_state=seed)
    X = rng.standard_normal((600, 3))
    F = net(X)
    Y = spoil(rng, F, F + 0.1 * F.std(axis=0) * rng.standard_normal(F.shape))
    Y = np.round(Y, 1) if rounded else Y
    return X, Y, refine(RowBlocks.from_arrays(X, Y), net, offset=True).network


def lines(seed, spoil, **options):
    X, Y, fit = rows(seed, spoil, **options)
    return label_fault_evidence(Y, fit(X))


def cut(rng, F, Y):
    return np.minimum(Y, np.quantile(Y, rng.uniform(0.85, 0.97), axis=0))


def replaced(rng, F, Y):
    return np.where(rng.random(Y.shape) < rng.uniform(0.03, 0.12), 0.0, Y)


def shrunk(rng, F, Y):
    share = rng.uniform(0.03, 0.12)
    return Y + 0.3 * F * ((rng.random(Y.shape) >= share) / (1 - share) - 1)


HONEST = {
    "normal": lambda rng, F, Y: Y,
    "proportional": lambda rng, F, Y: F * (1 + 0.2 * rng.standard_normal(F.shape)),
    "skewed": lambda rng, F, Y: F * np.exp(0.3 * rng.standard_normal(F.shape) - 0.045),
    "heavy": lambda rng, F, Y: F + 0.1 * rng.standard_t(3, F.shape),
    "bounded": lambda rng, F, Y: F + rng.uniform(-0.3, 0.3, F.shape),
}


def test_labels_cut_off_at_a_limit_are_counted():
    assert not any(lines(seed, cut)[0].passed for seed in SEEDS)


def test_placeholders_for_lost_labels_are_counted():
    assert not any(lines(seed, replaced)[0].passed for seed in SEEDS)


def test_lost_labels_point_against_the_prediction():
    found = [lines(seed, shrunk)[1] for seed in SEEDS]
    assert sum(not line.passed for line in found) >= 6


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("rounded", [False, True])
def test_honest_noise_has_neither_fault(name, rounded):
    for seed in SEEDS:
        cut, lost, left_out = lines(seed, HONEST[name], rounded=rounded)
        assert cut.passed and lost.passed, seed
        assert left_out.passed or name in ("proportional", "skewed"), (
            seed
        )  # smaller where the network is small


def test_an_output_without_noise_is_flat_where_all_units_are_off():
    X = np.linspace(-1, 1, 50)[:, None]
    Y = np.maximum(X, 0.0)
    assert label_fault_evidence(Y, Y + 1e-9)[0].passed


@pytest.mark.parametrize(("spoil", "key"), [(cut, Check.CUT_LABELS), (shrunk, Check.LOST_LABELS)])
def test_nothing_is_claimed_and_the_fault_is_named_also_when_outputs_are_whitened(spoil, key):
    X, Y, net = rows(1, spoil)
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
    verdict = certify_noisy(problem, fit, offset=True)
    for judged in (verdict, certify_whitened(problem, fit, verdict, offset=True)[1]):
        assert judged.outcome is Outcome.FITTED
        (line,) = (item for item in judged.evidence if item.key is key)
        assert not line.passed


def test_rows_that_are_copies_are_no_new_evidence():
    X, Y, net = rows(2, HONEST["normal"])
    twice = np.random.default_rng(0).permutation(np.repeat(np.arange(600), 2))
    problem = prepare_problem(RowBlocks.from_arrays(X[twice], Y[twice]), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
    verdict = certify_noisy(problem, fit, offset=True)
    assert verdict.outcome is Outcome.FITTED
    (line,) = (item for item in verdict.evidence if item.key is Check.COPIED_ROWS)
    assert line.measured == 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_inputs_and_labels_of_few_values_are_no_copies(seed):
    rng = np.random.default_rng([seed, 5])
    X = rng.integers(0, 3, (400, 2)).astype(float)
    F = X.sum(axis=1, keepdims=True)
    assert copied_rows(X, F + rng.standard_normal((400, 1))).passed
    assert copied_rows(X, np.round(F + rng.standard_normal((400, 1)), 1)).passed
    assert copied_rows(X, rng.integers(0, 2, (400, 1)).astype(float)).passed


@pytest.mark.parametrize("seed", SEEDS)
def test_labels_cut_off_where_the_network_is_flat_too(seed):
    """A network with flat pieces at the limit leaves nothing there; noise that vanishes with the network is no fault."""
    rng = np.random.default_rng([seed, 53])
    F = np.maximum(rng.standard_normal((500, 1)), 0.0)
    noise = rng.uniform(0.03, 0.1) * rng.uniform(-1.0, 1.0, (500, 1))
    limit = np.quantile(F, rng.uniform(0.75, 0.95))
    clear = np.abs(F - limit)[:, 0] > 0.1  # labels that the noise takes across the limit are seen anyway
    F, noise = F[clear], noise[clear]
    flat = np.minimum(F, limit) + 1e-3 * noise  # as fitted: nearly, not wholly, flat
    cut, *_ = label_fault_evidence(np.minimum(F + noise, limit), flat)
    assert not cut.passed and cut.key is Check.CUT_LABELS
    silent, *_ = label_fault_evidence(F * (1 + noise), np.maximum(F - 0.01, 0.0))
    assert silent.passed


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_left_out_for_their_labels_where_the_network_is_flat(seed):
    """The offset takes the mean of the noise that is left: 13 and 15 standard errors, in claims."""
    rng = np.random.default_rng([seed, 54])
    X = rng.standard_normal((1500, 3))
    w = rng.standard_normal(3)
    net = TwoLayerNetwork(w[None] / np.linalg.norm(w), [rng.uniform(-0.3, 0.3)], [[-1.0], [0.7]])
    Y = net(X) + 0.12 * rng.standard_normal((1500, 2))
    kept = Y[:, 0] < np.quantile(Y[:, 0], rng.uniform(0.8, 0.95))
    for chosen, is_right in ((kept, False), (slice(None), True)):
        problem = prepare_problem(RowBlocks.from_arrays(X[chosen], Y[chosen]), random_state=0)
        fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
        verdict = certify_noisy(problem, fit, offset=True)
        (line,) = (item for item in verdict.evidence if item.key is Check.LOST_ROWS)
        assert line.passed is is_right
        assert is_right or verdict.outcome is not Outcome.RECOVERED


@pytest.mark.parametrize("seed", SEEDS)
def test_labels_replaced_by_a_constant_are_named_under_a_robust_loss_too(seed):
    X, Y, net = rows(seed, replaced)
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    robust = refine_with_loss(problem, problem.scaling.standardise(net), True, loss="l1")
    verdict = certify_with_loss(problem, robust)
    assert verdict.outcome is Outcome.FITTED
    assert any(line.key is Check.CUT_LABELS and not line.passed for line in verdict.evidence)


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_of_one_side_are_no_noise(seed):
    """The certificate refuses them by name; errors of both sides, and heavy tails, pass the line."""
    rng = np.random.default_rng([seed, 47])
    net = simulate.teacher(3, 2, 2, activity=(0.3, 0.7), random_state=seed)
    X = rng.standard_normal((800, 3))
    noise, size = rng.standard_normal((800, 2)), rng.uniform(4.0, 10.0)
    is_wrong = rng.random(noise.shape) < rng.uniform(0.03, 0.06)
    level = 0.05 * net(X).std()
    sign = rng.choice([-1.0, 1.0])
    verdict = certified(X, net(X) + level * (noise + sign * size * is_wrong), net)
    assert verdict.outcome is not Outcome.RECOVERED
    assert not next(line for line in verdict.evidence if line.key is Check.ONE_SIDED).passed
    for fair in (
        noise + size * is_wrong * rng.choice([-1.0, 1.0], noise.shape),
        rng.standard_t(4, noise.shape),
    ):
        assert one_sided_evidence(level * fair).passed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_few_errors_of_one_side_in_each_of_several_outputs_are_seen_together(seed):
    rng = np.random.default_rng([seed, 43])
    m, n = int(rng.integers(4, 7)), 500
    noise = rng.standard_normal((n, m))
    signs = np.ones(m) if seed % 2 else rng.choice([-1.0, 1.0], m)
    errors = np.zeros((n, m))
    for output in range(m):
        errors[rng.choice(n, 8, replace=False), output] = signs[output] * rng.uniform(4.0, 9.0, 8)
    assert not one_sided_evidence(noise + errors).passed
    assert one_sided_evidence(noise + errors * rng.choice([-1.0, 1.0], (n, m))).passed


def certified(X, Y, net):
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
    return certify_whitened(problem, fit, certify_noisy(problem, fit, offset=True), offset=True)[1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_cut", [False, True])
def test_noise_cut_off_where_all_units_are_off_is_counted(seed, is_cut):
    """The offset follows the labels there to within half the noise; noise in proportion leaves them equal, and is none."""
    rng = np.random.default_rng([17, seed])
    F = np.maximum(rng.uniform(-1.0, 4.0, (500, 1)), 0.0)
    noise = 0.03 * rng.standard_normal(F.shape)
    Y = np.maximum(F + noise, rng.uniform(0.0, 0.02)) if is_cut else F * (1 + noise)
    offset = (Y - F)[F == 0].mean()
    assert label_fault_evidence(Y, F + offset)[0].passed == (not is_cut)
