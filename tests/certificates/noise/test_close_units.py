"""Two close units in place of one: the likelihood against regression and simulation, and pairs that are never claimed."""

from collections import Counter

import numpy as np
import pytest

from planted import Outcome, RowBlocks, TwoLayerNetwork, simulate
from planted.certificates._noisy import certify_noisy
from planted.certificates.noise import _close_units
from planted.certificates.noise._beside import Beside
from planted.certificates.noise._close_units import ClosePairs
from planted.certificates.noise._fitted_rows import FittedRows
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem


def fit_of(X, Y, network, *, offset=False):
    """Refine from a network, and return the problem, the fit and its standard deviation."""
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(network), offset=offset)
    noise = np.sqrt(fit.cost / (Y.size - degrees_of_freedom(fit.network, offset=offset)))
    return problem, fit, float(noise)


def jacobian(network, X, *, offset):
    """Columns of all outputs, one below the other: hidden weights and biases, output weights, offsets."""
    rows, outputs = np.column_stack([X, np.ones(len(X))]), np.eye(network.n_outputs)
    on = (network.preactivations(X) > 0).astype(float)
    hidden = [
        np.kron(a, on[:, j, None] * rows).reshape(-1, rows.shape[1])
        for j, a in enumerate(network.A.T[:, :, None])
    ]
    last = [np.kron(outputs, np.maximum(network.preactivations(X), 0))]
    return np.hstack([*hidden, *last, *([np.kron(outputs, rows[:, -1:])] if offset else [])])


@pytest.mark.parametrize(("n_outputs", "offset"), [(1, False), (3, True)])
def test_what_the_jacobian_leaves_of_a_pair_is_that_of_a_regression(n_outputs, offset):
    rng = np.random.default_rng([n_outputs, 3])
    net = simulate.teacher(3, 2, n_outputs, activity=(0.4, 0.6), random_state=4)
    X = rng.standard_normal((300, 3))
    problem, fit, noise = fit_of(X, net(X) + 0.1 * rng.standard_normal((300, n_outputs)), net, offset=offset)
    at = FittedRows(problem, fit.network)
    beside = Beside.of(at, np.empty((0, 300)), offset=offset)
    planes = np.column_stack([fit.network.W, fit.network.b])[[0, 1, 1]]
    ends = tuple(planes + 0.2 * rng.standard_normal(planes.shape) for _ in range(2))
    found = _close_units._departures(beside, at, np.array([0, 1, 1]), ends, noise)
    J, R = jacobian(fit.network, problem.X, offset=offset), at.residual.ravel()
    rows = np.vstack([at.X, np.ones(300)])
    for unit, first, second, square, ratio in zip([0, 1, 1], *ends, *found, strict=True):
        wedge = (np.maximum(first @ rows, 0) + np.maximum(second @ rows, 0)) / 2 - at.H[unit]
        D = np.outer(fit.network.A[:, unit], wedge).ravel()
        left = D - J @ np.linalg.lstsq(J, D, rcond=1e-10)[0]
        assert square == pytest.approx(left @ left / noise**2, rel=1e-3)
        assert ratio == pytest.approx((left @ R - left @ left / 2) / noise**2, rel=1e-3, abs=1e-3)


def test_likelihoods_are_those_of_noise_where_no_pair_is():
    """ℓ of a pair that is not there is normal with mean -δ²/2 and variance δ²: sixty draws of the noise."""
    net = simulate.teacher(3, 2, 2, activity=(0.4, 0.6), random_state=4)
    X = np.random.default_rng(1).standard_normal((400, 3))
    scores = []
    for seed in range(60):
        Y = net(X) + 0.2 * np.random.default_rng([seed, 2]).standard_normal((400, 2))
        problem, fit, noise = fit_of(X, Y, net)
        pairs = ClosePairs.of(problem, fit, FittedRows(problem, fit.network), noise=noise, offset=False)
        seen = pairs.squares > 1
        scores.append((pairs.ratios + pairs.squares / 2)[seen] / np.sqrt(pairs.squares[seen]))
    means = np.array([score.mean() for score in scores])
    assert abs(means.mean()) < 4 * means.std() / np.sqrt(60)
    assert np.mean([(score**2).mean() for score in scores]) == pytest.approx(1, abs=0.2)


def close_pair(seed):
    """A network with two units 10 to 35 degrees apart and like output weights, and the same with one unit for the two."""
    rng = np.random.default_rng([seed, 21])
    d, k = int(rng.integers(3, 7)), int(rng.integers(1, 4))
    m = int(rng.choice([1, k + 1]))
    base = simulate.teacher(d, k, m, activity=(0.3, 0.7), random_state=rng)
    v, u = np.append(base.W[0], base.b[0]), rng.standard_normal(d + 1)
    u -= v * (u @ v) / (v @ v)
    angle = np.deg2rad(rng.uniform(10.0, 35.0))
    v = np.cos(angle) * v + np.sin(angle) * np.linalg.norm(v) / np.linalg.norm(u) * u
    share = float(rng.uniform(0.4, 1.5))
    pair = TwoLayerNetwork(
        np.vstack([base.W, v[:d]]),
        np.append(base.b, v[d]),
        np.column_stack([base.A, share * base.A[:, 0]]),
    )
    middle = np.append(base.W[0], base.b[0]) + share * v
    W, b, A = base.W.copy(), base.b.copy(), base.A.copy()
    W[0], b[0] = middle[:d] / np.linalg.norm(middle[:d]), middle[d] / np.linalg.norm(middle[:d])
    A[:, 0] *= np.linalg.norm(middle[:d])
    X = rng.standard_normal((int(rng.choice([500, 1500])), d))
    F = pair(X)
    Y = F + float(rng.uniform(0.03, 0.4)) * F.std() * rng.standard_normal(F.shape)
    return X, Y, TwoLayerNetwork(W, b, A)


def test_two_close_units_are_never_claimed_as_one():
    """Nothing but this line refuses some of them: without it they would be claimed."""
    refused_by = Counter()
    for seed in range(40):
        X, Y, one_for_two = close_pair(seed)
        problem, fit, _ = fit_of(X, Y, one_for_two)
        verdict = certify_noisy(problem, fit, offset=False)
        assert verdict.outcome is not Outcome.RECOVERED, seed
        refused_by[tuple(line.key for line in verdict.evidence if not line.passed)] += 1
    assert refused_by[Check.CLOSE_UNITS,] >= 3


def test_a_refusal_names_the_angle_and_how_many_samples_tell_such_units_apart():
    net = simulate.teacher(4, 2, 2, activity=(0.4, 0.6), random_state=5)
    rng, angles = np.random.default_rng(6), []
    for n, outcome in ((600, Outcome.FITTED), (20_000, Outcome.RECOVERED)):
        X = rng.standard_normal((n, 4))
        problem, fit, _ = fit_of(X, net(X) + 0.3 * rng.standard_normal((n, 2)), net)
        verdict = certify_noisy(problem, fit, offset=False)
        assert verdict.outcome is outcome, verdict.detail
        (angle,) = (line.measured for line in verdict.evidence if line.key is Check.HIDDEN_ANGLE)
        assert f"within {angle:.2g} radians may look like one" in verdict.detail
        angles.append(angle)
        if outcome is Outcome.FITTED:
            needed = float(verdict.detail.partition("About ")[2].partition(" samples are needed")[0])
            assert 600 < needed < 20_000
    assert angles[1] < angles[0] / 1.5
