"""Labels that follow another law than the one named: other links, flipped labels, counts that vary too much."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from planted import RowBlocks, TwoLayerNetwork
from planted.certificates._likelihood import certify_labels
from planted.checks import Check
from planted.fitting._run import prepare_problem
from planted.fitting.likelihoods._families import find_likelihood
from planted.fitting.likelihoods._fit import LabelRows
from planted.fitting.likelihoods._path import fit_from
from planted.outcomes import Outcome

N = 20_000


def drawn(seed: int) -> tuple[np.random.Generator, TwoLayerNetwork, np.ndarray]:
    rng = np.random.default_rng([seed, 17])
    W = rng.standard_normal((3, 5))
    W *= rng.uniform(1.0, 2.0, (3, 1)) / np.linalg.norm(W, axis=1, keepdims=True)
    A = rng.choice([-1.0, 1.0], 3) * rng.uniform(1.5, 3.0, 3)
    net = TwoLayerNetwork(W, rng.normal(0.0, 0.4, 3), [A], [0.0], activation="tanh")
    return rng, net, rng.standard_normal((N, 5))


def failures(net: TwoLayerNetwork, X: np.ndarray, y: np.ndarray, law: str) -> tuple[Outcome, set[Check]]:
    """Fit from the truth and certify: which lines fail?"""
    blocks = RowBlocks.from_arrays(X, y.astype(float)[:, None])
    rows = LabelRows(blocks, len(X), find_likelihood(law))
    scaling = prepare_problem(blocks, random_state=0).scaling
    verdict = certify_labels(
        rows, fit_from(rows, net), scaling=scaling, rng=np.random.default_rng(5), further=()
    )
    return verdict.outcome, {line.key for line in verdict.evidence if not line.passed}


@pytest.mark.parametrize("seed", range(2))
def test_labels_of_the_law_are_claimed(seed: int) -> None:
    rng, net, X = drawn(seed)
    y = rng.random(N) < special.expit(net(X)[:, 0])
    assert failures(net, X, y, "logistic") == (Outcome.RECOVERED, set())


@pytest.mark.parametrize("seed", range(2))
def test_flipped_labels_are_of_another_law(seed: int) -> None:
    rng, net, X = drawn(seed)
    flipped = rng.random(N) < rng.uniform(0.05, 0.1)
    y = (rng.random(N) < special.expit(net(X)[:, 0])) ^ flipped
    outcome, failed = failures(net, X, y, "logistic")
    assert outcome is Outcome.FITTED
    assert Check.LINK in failed


@pytest.mark.parametrize("seed", range(2))
def test_labels_with_a_limit_in_one_direction_are_of_another_law(seed: int) -> None:
    rng, net, X = drawn(seed)
    y = rng.random(N) < -np.expm1(-np.exp(np.minimum(net(X)[:, 0], 3.0)))
    outcome, failed = failures(net, X, y, "logistic")
    assert outcome is Outcome.FITTED
    assert Check.LINK in failed


@pytest.mark.parametrize("seed", range(2))
def test_counts_are_claimed_unless_they_vary_too_much(seed: int) -> None:
    rng, net, X = drawn(seed)
    net = TwoLayerNetwork(net.W, net.b, 0.35 * net.A, net.c, activation="tanh")
    means = np.exp(net(X)[:, 0])
    assert failures(net, X, rng.poisson(means), "poisson") == (Outcome.RECOVERED, set())
    shape = rng.uniform(3.0, 8.0)
    outcome, failed = failures(net, X, rng.poisson(means * rng.gamma(shape, 1 / shape, N)), "poisson")
    assert outcome is Outcome.FITTED
    assert Check.NOISE_VARIANCE in failed
