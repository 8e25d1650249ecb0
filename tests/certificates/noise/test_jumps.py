"""Outputs that jump at some row: the level of the test, its power early and late in the rows, correlated rows."""

import numpy as np
import pytest

from planted import Outcome, RowBlocks, simulate
from planted.certificates._noisy import certify_noisy
from planted.certificates.noise._jumps import _jump_p_value, jump_evidence
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem


def following(rng, shape, correlation):
    noise = rng.standard_normal(shape)
    for row in range(1, len(noise)):
        noise[row] = correlation * noise[row - 1] + np.sqrt(1 - correlation**2) * noise[row]
    return noise


@pytest.mark.parametrize("m", [1, 4])
def test_the_tail_is_that_of_the_largest_partial_sum(m: int) -> None:
    """One in twenty draws of independent rows has a p-value below 0.05; of few rows fewer."""
    rng = np.random.default_rng([m, 1])
    p_values = np.array([_jump_p_value(rng.standard_normal((1000, m)), 0.0) for _ in range(600)])
    assert abs(np.mean(p_values < 0.05) - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 600)


def test_the_statistic_is_that_of_two_means() -> None:
    """One output, one large jump: the largest sum is at the jump, and is the square of the two-sample score there."""
    noise = np.random.default_rng(2).standard_normal(400)
    terms = noise + 1.0 * (np.arange(400) >= 100)
    rows = np.arange(20, 381)
    scores = []
    for row in rows:
        first, second = terms[:row].mean(), terms[row:].mean()
        scores.append((first - second) ** 2 * row * (400 - row) / 400 / terms.var())
    x = max(scores)
    assert rows[int(np.argmax(scores))] in range(95, 106)
    # One degree of freedom: the density of its root at the threshold, times what the process adds.
    density = np.sqrt(x / (2 * np.pi)) * np.exp(-x / 2)
    expected = density * ((1 - 1 / x) * 2 * np.log(380 / 20) + 2 / x)
    assert np.isclose(_jump_p_value(terms[:, None], 0.0), expected, rtol=1e-9)


def test_correlated_rows_do_not_jump() -> None:
    rng = np.random.default_rng(3)
    F = rng.standard_normal((500, 2))
    noises = [following(rng, (500, 2), 0.6) for _ in range(30)]
    told = [jump_evidence(F, noise, 0.6)[0].passed for noise in noises]
    not_told = [jump_evidence(F, noise)[0].passed for noise in noises]
    assert all(told) and sum(not_told) < 15


def test_few_rows_are_not_tested() -> None:
    assert jump_evidence(np.ones((30, 1)), np.ones((30, 1))) == ()
    assert jump_evidence(np.ones((80, 0)), np.ones((80, 0)))[0].passed


@pytest.mark.parametrize("kind", ["offset", "size"])
def test_a_jump_early_or_late_in_the_rows_is_held_against_a_claim(kind: str) -> None:
    """At a tenth of the rows from either end, twice the noise: the offset is then many standard errors off."""
    for seed in range(4):
        rng = np.random.default_rng([seed, 4])
        net = simulate.teacher(4, 2, 3, activity=(0.3, 0.7), random_state=seed)
        X = rng.standard_normal((600, 4))
        F, is_beyond = net(X), np.arange(600)[:, None] >= (60 if seed % 2 else 540)
        jump = (0.35 if kind == "offset" else 0.5 * F / F.std(axis=0)) * F.std(axis=0) * is_beyond
        Y = F + 0.2 * F.std(axis=0) * rng.standard_normal(F.shape)
        for labels, passes in ((Y, True), (Y + jump, False)):
            problem = prepare_problem(RowBlocks.from_arrays(X, labels), random_state=0)
            fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
            verdict = certify_noisy(problem, fit, offset=True)
            lines = [line for line in verdict.evidence if line.key is Check.JUMP]
            assert [line.passed for line in lines] == [passes], (kind, seed, lines)
            assert passes or verdict.outcome is not Outcome.RECOVERED
