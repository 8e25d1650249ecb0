"""`recover_from_sums`: what the kept rows do not show must not contradict the moments of all rows."""

import numpy as np
import pytest

import planted
from planted.checks import Check
from planted.moments import summarise_rows
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.recovery._summaries import _moment_evidence
from planted.rows import RowBlocks


def summary_of(seed, *, strength=0.0, law="gaussian", rows=8000, kept=400):
    """Return a summary and the network; with a strength, a unit that is on in some of the rows that were not kept."""
    rng = np.random.default_rng(seed)
    net = planted.simulate.teacher(3, 2, 2, activity=(0.3, 0.7), law=law, random_state=seed)
    X = planted.simulate.inputs(rows, 3, law=law, random_state=seed)
    whole = net
    if strength:
        kept_rows = summarise_rows(RowBlocks.from_arrays(X, net(X)), kept).X
        w = rng.standard_normal(3)
        w /= np.linalg.norm(w)
        rare = TwoLayerNetwork(w[None], [-(kept_rows @ w).max()], strength * rng.standard_normal((2, 1)))
        whole = TwoLayerNetwork(
            np.vstack([net.W, rare.W]), np.append(net.b, rare.b), np.hstack([net.A, rare.A])
        )
    return summarise_rows(RowBlocks.from_arrays(X, whole(X)), kept), whole


@pytest.mark.parametrize("law", ["gaussian", "exponential", "uniform"])
@pytest.mark.parametrize("seed", range(2))
def test_a_uniform_sample_agrees_with_the_moments_of_all_rows(seed, law):
    summary, network = summary_of(seed, law=law)
    answer = planted.recover_from_sums(summary, random_state=seed)
    assert answer.outcome is Outcome.RECOVERED
    assert answer.guarantee is Guarantee.ASYMPTOTIC
    assert "400 of 8,000 rows" in answer.detail and "1.1 % of them may be missed" in answer.detail
    assert planted.parameter_error(answer.network, network) < 1e-9


def test_a_strong_unit_that_no_kept_row_turns_on_contradicts_the_claim():
    judged = 0
    for seed in range(40):
        summary, network = summary_of(seed, strength=1000.0)
        if network.patterns(summary.X)[:, 2].any() or not _is_seen(summary, network):
            continue
        judged += 1
        line = _moment_evidence(summary)
        assert not line.passed
        if judged == 1:
            answer = planted.recover_from_sums(summary, random_state=seed)
            assert answer.outcome is Outcome.FITTED
            assert "contradict" in answer.detail
            assert [found.passed for found in answer.find(Check.SUMMARY_MOMENTS)] == [False]
    assert judged >= 5


def _is_seen(summary, network):
    """Whether the spread of the outputs of all rows is twice that of the kept ones."""
    spread = np.sqrt(np.diag(summary.scatter)[3:] / summary.count)
    return bool((spread > 2 * summary.Y.std(axis=0)).any())


def test_the_comparison_of_moments_holds_its_level():
    """Sixty summaries at a level of one in ten thousand: none is contradicted."""
    assert all(_moment_evidence(summary_of(seed, rows=3000)[0]).passed for seed in range(60))
