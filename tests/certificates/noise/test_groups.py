"""Rows that share inputs and a part of their noise: refused where groups share all inputs, or one."""

import numpy as np
import pytest

from planted import Outcome, RowBlocks, simulate
from planted.certificates._noisy import certify_noisy
from planted.certificates.noise._groups import LEVEL, grouped_rows_evidence
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem


def grouped(seed, share, *, shared_inputs=3):
    """A drawn network of three inputs, some of which belong to the group, as does a share of the noise's variance."""
    rng = np.random.default_rng([seed, 17])
    net = simulate.teacher(3, 2, 2, activity=(0.3, 0.7), random_state=seed)
    groups = np.repeat(np.arange(120), int(rng.integers(4, 9)))
    X = rng.standard_normal((len(groups), 3))
    X[:, :shared_inputs] = rng.standard_normal((120, shared_inputs))[groups]
    F = net(X)
    own, effects = rng.standard_normal(F.shape), rng.standard_normal((120, 2))[groups]
    return net, X, F + 0.1 * F.std() * (np.sqrt(1 - share) * own + np.sqrt(share) * effects)


@pytest.mark.parametrize("shared_inputs", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_noise_that_groups_share_is_refused(seed, shared_inputs):
    for share, is_claimed in ((0.3, False), (0.0, True)):
        net, X, Y = grouped(seed, share, shared_inputs=shared_inputs)
        problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
        fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
        verdict = certify_noisy(problem, fit, offset=True)
        (line,) = (item for item in verdict.evidence if item.key is Check.GROUPED_ROWS)
        assert line.passed is is_claimed, line
        assert is_claimed or verdict.outcome is not Outcome.RECOVERED


def test_the_level_holds_for_noise_of_unequal_variance_and_heavy_tails():
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(300):
        X = np.repeat(rng.standard_normal((40, 2)), 8, axis=0)
        noise = np.exp(0.7 * X[:, :1]) * rng.standard_t(4, (320, 2))
        refused += not grouped_rows_evidence(X, noise)[0].passed
    assert refused <= 300 * LEVEL + 4 * np.sqrt(300 * LEVEL)


def test_different_rows_have_no_groups():
    rng = np.random.default_rng(0)
    assert grouped_rows_evidence(rng.standard_normal((200, 2)), rng.standard_normal((200, 1))) == ()
