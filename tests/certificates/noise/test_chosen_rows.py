"""Rows chosen by their labels: the score against one written out, its level under several laws of noise, its power."""

import numpy as np
import pytest
from scipy import special, stats

from planted import Outcome, RowBlocks, TwoLayerNetwork, simulate
from planted.certificates._near_models import near_model_evidence
from planted.certificates._noisy import certify_noisy
from planted.certificates.noise._chosen_rows import _chosen_p_value
from planted.certificates.noise._law import noise_law, standard_errors_under
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem


def drawn(seed: int, n: int = 700):
    """A network whose offset is fitted, with inputs."""
    rng = np.random.default_rng([seed, 21])
    m = int(rng.integers(1, 4))
    net = simulate.teacher(3, 2, m, activity=(0.3, 0.7), random_state=seed)
    return rng, net, rng.standard_normal((n, 3))


def lines_on(X, Y, net):
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
    verdict = certify_noisy(problem, fit, offset=True)
    return verdict, [line for line in verdict.evidence if line.key is Check.CHOSEN_ROWS]


def p_value_of(X, Y, net):
    """The p-value, from a fit alone: other lines of the certificate may spare this one."""
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
    law = noise_law(problem, fit.network)
    doubt = standard_errors_under(law, problem, fit, offset=True)
    lines = near_model_evidence(problem, fit, law, doubt, offset=True)
    return next(line.measured for line in lines if line.key is Check.CHOSEN_ROWS)


def test_the_score_is_that_of_powers_of_the_label() -> None:
    """One unit on one input, everything written out: powers of the label, less all that is a function of e alone."""
    rng = np.random.default_rng(3)
    net = TwoLayerNetwork([[1.0]], [0.2], [[1.5]], [0.3])
    X = rng.uniform(-2, 2, (900, 1))
    Y = net(X) + 0.4 * rng.standard_normal((900, 1))
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    found = refine(problem.blocks, problem.scaling.standardise(net), offset=True).network
    t = found.preactivations(problem.X)
    f, r = (np.maximum(t, 0) @ found.A.T)[:, 0], (problem.Y - found(problem.X))[:, 0]
    size = np.sqrt(np.mean(f**2))
    a, e = f / size, r / size
    J = np.column_stack([np.maximum(t, 0), t > 0, np.ones(900)])
    T, terms = [], []
    for q in (3, 4):
        total = np.zeros(900)
        for power in range(1, q):  # of e, times that of a; powers of one of them alone say nothing
            both = special.comb(q, power) * a ** (q - power)
            if power == 1:
                both = both - J @ np.linalg.lstsq(J, both, rcond=None)[0]
                total += both * e
            else:
                own = e**power - np.mean(e**power)
                own -= (own @ e) / (e @ e) * e
                total += (both - both.mean()) * own
        T.append(total.sum())
        terms.append(total)
    # The two parts of every term are uncorrelated: their variances add up, that of the first by the noise's variance.
    slopes = [q * a ** (q - 1) for q in (3, 4)]
    linear = np.array([slope - J @ np.linalg.lstsq(J, slope, rcond=None)[0] for slope in slopes])
    rest = np.array(terms) - linear * e
    V = linear @ linear.T * (e @ e) / (900 - 3) + rest @ rest.T
    expected = stats.chi2.sf(np.array(T) @ np.linalg.solve(V, np.array(T)), 2)
    assert np.isclose(p_value_of(X, Y, net), expected, rtol=1e-6)


@pytest.mark.parametrize("law", ["normal", "laplace", "skewed", "t5"])
def test_right_networks_pass_whatever_the_law_of_the_noise(law: str) -> None:
    failed, tries = 0, 50
    for seed in range(tries):
        rng, net, X = drawn(seed)
        F = net(X)
        noise = {
            "normal": rng.standard_normal(F.shape),
            "laplace": rng.laplace(size=F.shape),
            "skewed": rng.exponential(size=F.shape) - 1,
            "t5": rng.standard_t(5, F.shape),
        }[law]
        failed += p_value_of(X, F + 0.2 * F.std(axis=0) * noise, net) < 0.05
    # One in twenty, or fewer as outputs are taken apart: at most what has a chance of one in a thousand.
    assert failed <= stats.binom.ppf(0.999, tries, 0.05)


def test_rows_chosen_by_their_labels_are_not_claimed() -> None:
    """A logistic chance to be kept, steep or not: where a weight moves by six standard errors, the test speaks."""
    wrong, seen = 0, 0
    for seed in range(24):
        rng, net, X = drawn(seed, 1600)
        Y = net(X) + 0.4 * net(X).std(axis=0) * rng.standard_normal((1600, net.n_outputs))
        beyond = (Y[:, 0] - np.quantile(Y[:, 0], rng.uniform(0.6, 0.9))) / Y[:, 0].std()
        kept = rng.random(1600) > special.expit(rng.uniform(1.5, 5.0) * beyond)
        X, Y = X[kept], Y[kept]
        verdict, _ = lines_on(X, Y, net)
        errors = verdict.uncertainty.standard_errors
        problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
        fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
        found = problem.scaling.restore(fit.network)
        off = max(np.abs((getattr(found, name) - getattr(net, name)) / errors[name]).max() for name in "Ac")
        wrong += off > 6
        seen += off > 6 and p_value_of(X, Y, net) < 0.01
        assert off < 6 or verdict.outcome is not Outcome.RECOVERED, (seed, off)
    assert wrong >= 8 and seen >= 0.8 * wrong


def test_outputs_without_signal_or_noise_say_nothing() -> None:
    flat, rng = np.zeros(50), np.random.default_rng(0)
    noise = rng.standard_normal(50)
    for added, residual in ((flat, noise), (noise, flat)):
        assert _chosen_p_value(added, residual, np.zeros(2), np.eye(2)) == 1.0
