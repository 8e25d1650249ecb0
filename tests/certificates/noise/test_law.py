"""Tests of the noise's law: their levels, what they see, and the standard errors that follow."""

import numpy as np
import pytest
from scipy import signal

from planted import Outcome, RowBlocks, TwoLayerNetwork, recover, simulate
from planted.certificates._noisy import _rounded_by_noise, certify_noisy
from planted.certificates.noise._law import (
    SPREAD_LEVEL,
    NoiseLaw,
    _pair_score,
    _pairs,
    _variance_tests,
    noise_law,
    spread_evidence,
    standard_errors_under,
)
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem
from planted.results import Evidence, Uncertainty

NET = simulate.teacher(3, 2, 2, activity=(0.4, 0.6), random_state=4)
ROWS = 600


def fitted(X, Y, *, search_rows=None):
    problem = prepare_problem(
        RowBlocks.from_arrays(X, Y, block_rows=250), random_state=0, search_rows=search_rows
    )
    return problem, refine(problem.blocks, problem.scaling.standardise(NET), offset=False)


def noisy_rows(seed, noise):
    rng = np.random.default_rng([seed, 3])
    X = rng.standard_normal((ROWS, 3))
    F = NET(X)
    return X, F + noise(rng, X, F)


def laws(noise, seeds=range(30), **options):
    found = []
    for seed in seeds:
        problem, fit = fitted(*noisy_rows(seed, noise), **options)
        found.append(noise_law(problem, fit.network))
    return found


def test_plain_noise_fails_no_test_more_often_than_its_level() -> None:
    for noise in (
        lambda rng, X, F: 0.2 * rng.standard_normal(F.shape),
        lambda rng, X, F: rng.laplace(0, 0.2, F.shape),
    ):
        found = laws(noise)
        assert sum(law.is_unequal for law in found) <= 3  # at the level of 1 %
        assert sum(law.is_ordered for law in found) <= 3
        assert max(law.gradient_score - law.gradient_limit for law in found) < 0


@pytest.mark.parametrize("search_rows", [None, 300])
def test_noise_that_remembers_the_last_row_is_seen_in_memory_and_in_a_pass(search_rows: int | None) -> None:
    found = laws(
        lambda rng, X, F: 0.2 * signal.lfilter([1.0], [1.0, -0.6], rng.standard_normal(F.shape), axis=0),
        range(6),
        search_rows=search_rows,
    )
    assert all(law.is_ordered for law in found)
    assert all(abs(law.correlation - 0.6) < 0.2 for law in found)


def test_noise_on_the_inputs_is_told_from_noise_that_depends_on_x() -> None:
    """Errors of inputs bias the estimate, so that nothing is claimed; noise of unequal size asks for other errors."""
    scores = {"inputs": [], "unequal": [], "proportional": []}
    for seed in range(12):
        rng = np.random.default_rng([seed, 9])
        X = rng.standard_normal((1500, 3))
        F, E = NET(X), rng.standard_normal((1500, 2))
        noises = {
            "inputs": (X + 0.3 * rng.standard_normal(X.shape), F + 0.05 * E),
            "unequal": (X, F + 0.2 * np.exp(0.7 * X[:, :1]) * E),
            "proportional": (X, F + 0.3 * F * E + 0.02 * rng.standard_normal(F.shape)),
        }
        for kind, (inputs, outputs) in noises.items():
            problem, fit = fitted(inputs, outputs)
            law = noise_law(problem, fit.network)
            scores[kind].append(law.gradient_score - law.gradient_limit)
            assert law.is_unequal
    seen = {kind: sum(score > 0 for score in values) for kind, values in scores.items()}
    assert seen["inputs"] >= 11 and seen["unequal"] == seen["proportional"] == 0


def test_a_network_fitted_to_noisy_inputs_is_not_claimed() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1500, 3))
    problem, fit = fitted(
        X + 0.25 * rng.standard_normal(X.shape), NET(X) + 0.05 * rng.standard_normal((1500, 2))
    )
    verdict = certify_noisy(problem, fit, offset=False)
    assert verdict.outcome is Outcome.FITTED
    assert any(item.key is Check.NOISY_INPUTS and not item.passed for item in verdict.evidence)


def test_products_of_residuals_see_noise_on_one_input_that_their_squares_miss() -> None:
    """Ten networks with drawn weights; noise of the labels leaves the products alone, whatever its variance."""
    scores = {"one input": [], "unequal": [], "proportional": [], "shared": []}
    squares = []
    for seed in range(10):
        rng = np.random.default_rng([seed, 21])
        net = simulate.teacher(3, 3, 4, activity=(0.3, 0.7), random_state=seed)
        X, E = rng.standard_normal((500, 3)), rng.standard_normal((500, 4))
        F, moved = net(X), X + np.array([0.3, 0.0, 0.0]) * rng.standard_normal((500, 1))
        noises = {
            "one input": (moved, F + 0.05 * E),
            "unequal": (X, F + 0.2 * np.exp(0.7 * X[:, :1]) * E),
            "proportional": (X, F + 0.3 * F * E),
            "shared": (X, F + 0.3 * rng.standard_normal((500, 1)) + 0.1 * E),
        }
        for kind, (inputs, outputs) in noises.items():
            fit = refine(RowBlocks.from_arrays(inputs, outputs), net, offset=True).network
            scores[kind].append(_pair_score(inputs, fit(inputs), outputs - fit(inputs), fit))
            if kind == "one input":
                squares.append(_variance_tests(inputs, fit(inputs), outputs - fit(inputs), fit)[1])
    limit = 3.35  # of five tests at a level of 0.002 together
    seen = {kind: sum(score > limit for score in values) for kind, values in scores.items()}
    assert seen == {"one input": 10, "unequal": 0, "proportional": 0, "shared": 0}
    assert sum(score > limit for score in squares) < 10


def test_the_sum_over_pairs_of_outputs_is_that_over_the_pairs_one_by_one() -> None:
    rng = np.random.default_rng(0)
    V, U = rng.standard_normal((7, 4)), rng.standard_normal((7, 4))
    products = [np.einsum("no,np->nop", M, M) for M in (V, U)]
    first, second = (values - values.mean(axis=0) for values in products)
    upper = np.triu_indices(4, 1)
    expected = (first * second)[:, upper[0], upper[1]].sum(axis=1)
    np.testing.assert_allclose(_pairs(V.T, U.T), expected, rtol=1e-12)


def test_outputs_without_a_residual_are_left_out_of_the_products() -> None:
    """Two outputs that are constant, and reproduced as such, change no score and divide by nothing."""
    rng = np.random.default_rng(7)
    net = TwoLayerNetwork(rng.standard_normal((2, 3)), None, rng.standard_normal((2, 2)))
    X, residual = rng.standard_normal((200, 3)), rng.standard_normal((200, 2))
    wider = TwoLayerNetwork(net.W, None, np.vstack([net.A, np.zeros((2, 2))]))
    still = np.hstack([residual, np.zeros((200, 2))])
    assert _pair_score(X, wider(X), still, wider) == pytest.approx(_pair_score(X, net(X), residual, net))


def test_one_output_has_the_lower_limit() -> None:
    X, Y = noisy_rows(0, lambda rng, X, F: 0.1 * rng.standard_normal(F.shape))
    net = TwoLayerNetwork(NET.W, NET.b, NET.A[:1])
    problem = prepare_problem(RowBlocks.from_arrays(X, Y[:, :1]), random_state=0)
    law = noise_law(problem, problem.scaling.standardise(net))
    assert law.gradient_limit == pytest.approx(2.33, abs=0.01)


@pytest.mark.parametrize("law", ["unequal", "ordered"])
def test_intervals_follow_the_law_of_the_noise(law: str) -> None:
    """Coverage over refits with fresh noise: the chosen errors cover, and under this noise the model's do not."""

    def noise(rng, X, F):
        if law == "unequal":
            return 0.2 * np.exp(0.8 * X[:, :1]) * rng.standard_normal(F.shape)
        return 0.3 * signal.lfilter([1.0], [1.0, -0.8], rng.standard_normal(F.shape), axis=0)

    plain = NoiseLaw(1.0, 0.0, 1.0, 0.0, 3.0)
    inside: dict[str, list[float]] = {"chosen": [], "model": []}
    target = NET.canonical()
    for seed in range(60):
        X, Y = noisy_rows(seed, noise)
        problem, fit = fitted(X, Y)
        found = noise_law(problem, fit.network)
        restored = problem.scaling.restore(fit.network)
        order = [int(np.argmin(np.linalg.norm(target.W - row, axis=1))) for row in restored.W]
        for name, chosen in {"chosen": found, "model": plain}.items():
            errors = standard_errors_under(chosen, problem, fit, offset=False)
            assert isinstance(errors, Uncertainty)
            gaps = [restored.b - target.b[order], (restored.A - target.A[:, order]).ravel()]
            sizes = [errors.standard_errors["b"], errors.standard_errors["A"].ravel()]
            inside[name].append(float(np.mean(np.abs(np.concatenate(gaps)) < 1.96 * np.concatenate(sizes))))
    coverage = {name: float(np.mean(values)) for name, values in inside.items()}
    spread = float(np.std(inside["chosen"])) / np.sqrt(60)
    assert abs(coverage["chosen"] - 0.95) < 4 * spread
    assert coverage["model"] < coverage["chosen"] - 2 * spread


def test_one_unit_without_residual_or_with_few_rows_is_not_tested() -> None:
    net = TwoLayerNetwork([[1.0]], None, [[1.0]])
    X = np.linspace(-1, 1, 30)[:, None]
    problem = prepare_problem(RowBlocks.from_arrays(X, net(X)), random_state=0)
    law = noise_law(problem, problem.scaling.standardise(net))
    assert not (law.is_unequal or law.is_ordered)
    assert law.gradient_score == 0.0


def test_the_spread_of_heavy_noise_has_its_level_and_is_seen():
    def p_value(seed, scale):
        rng = np.random.default_rng([seed, 8])
        X = rng.standard_t(3, (300, 3))
        residual = rng.standard_t(1.5, (300, 2)) * scale(X)
        return spread_evidence(X, NET(X), residual).measured

    calm = [p_value(seed, lambda X: 1.0) for seed in range(100)]
    wild = [p_value(seed, lambda X: 0.3 + np.abs(X[:, :1])) for seed in range(20)]
    assert np.mean(np.array(calm) < 0.05) < 0.13 and min(calm) > SPREAD_LEVEL / 10
    assert np.median(wild) < SPREAD_LEVEL


@pytest.mark.parametrize("seed", range(3))
def test_a_robust_loss_claims_nothing_where_the_spread_depends_on_x(seed):
    rng = np.random.default_rng([seed, 9])
    X = rng.standard_normal((900, 3))
    noise = 0.1 * rng.standard_t(2, (900, 2))
    claims = [
        recover(X, NET(X) + noise * scale, 2, method="half-spaces", loss="l1", random_state=0)
        for scale in (1.0, np.exp(1.5 * X[:, :1]))
    ]
    assert claims[1].outcome is not Outcome.RECOVERED
    (line,) = claims[1].find(Check.NOISE_SPREAD)
    assert not line.passed and claims[0].find(Check.NOISE_SPREAD)[0].passed


@pytest.mark.parametrize(
    ("score", "fall", "passed"), [(2.8, 0.0, True), (2.8, 6.0, False), (-3.0, 8.0, True)]
)
def test_rounded_kinks_and_a_variance_that_rises_are_judged_together(
    score: float, fall: float, passed: bool
) -> None:
    law = NoiseLaw(0.5, score, 0.5, 0.0, 3.4)
    rivals = [Evidence("fall", fall, 9.0, "<=", key=Check.ROUNDED_KINKS)]
    (line,) = _rounded_by_noise(law, rivals)
    assert line.passed is passed and line.key is Check.NOISY_INPUTS
    assert _rounded_by_noise(law, []) == ()


def on_one_input(seed: int, level: float, n: int = 1500):
    """Two units that share input 0 with opposite signs, so that noise on it shows where one of them is on."""
    rng = np.random.default_rng([seed, 61])
    W = np.column_stack([[0.5, 0.5], rng.standard_normal((2, 3))])
    net = TwoLayerNetwork(W, rng.uniform(-0.3, 0.3, 2), [[1.0, -rng.uniform(0.8, 1.2)]])
    X = rng.standard_normal((n, 4))
    Y = net(X) + 0.05 * net(X).std() * rng.standard_normal((n, 1))
    measured = X.copy()
    measured[:, 0] += level * rng.standard_normal(n)
    problem = prepare_problem(RowBlocks.from_arrays(measured, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
    law = noise_law(problem, fit.network)
    return law.gradient_score > law.gradient_limit


def test_noise_on_an_input_that_units_share_with_opposite_signs_is_noticed() -> None:
    assert sum(on_one_input(seed, 0.25) for seed in range(12)) >= 11


def test_one_output_without_noise_on_its_inputs_passes() -> None:
    """Two tests at one in a hundred each."""
    assert sum(on_one_input(seed, 0.0) for seed in range(60)) <= 4
