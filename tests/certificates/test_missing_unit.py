"""A unit left out shows as a fall of the sum of squares; a right network leaves no room for one."""

from dataclasses import replace

import numpy as np
import pytest

from planted import RowBlocks, TwoLayerNetwork, simulate
from planted.certificates._missing_unit import _Score, missing_unit_evidence
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem


@pytest.mark.parametrize("missing", [0, 1])
def test_room_for_a_unit_is_seen_where_there_is_some(missing: int) -> None:
    data = simulate.dataset(
        800, n_features=4, n_hidden=3, noise=0.1, activity=(0.4, 0.6), outputs="magnitudes", random_state=21
    )
    keep = slice(missing, None)
    net = TwoLayerNetwork(data.network.W[keep], data.network.b[keep], data.network.A[:, keep])
    problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=1)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=False)
    noise = (fit.cost / 800) ** 0.5
    line, _ = missing_unit_evidence(problem, fit.network, offset=False, noise=noise)
    assert line.passed == (missing == 0)


@pytest.mark.parametrize("missing", range(3))
def test_a_unit_that_noise_hides_is_not_claimed_away(missing: int) -> None:
    """Two units near a third, with outputs near its own: no test of the residual sees that one is missing."""
    rng = np.random.default_rng([4, missing])
    n, d, m, noise = 300, 5, 4, 0.8
    W, A = rng.standard_normal((3, d)), rng.standard_normal((m, 3))
    other = (missing + 1) % 3
    W[missing] = W[other] + 0.3 * np.linalg.norm(W[other]) / np.sqrt(d) * rng.standard_normal(d)
    A[:, missing] = 0.3 * (
        A[:, other] + 0.2 * np.linalg.norm(A[:, other]) / np.sqrt(m) * rng.standard_normal(m)
    )
    net = TwoLayerNetwork(W / np.linalg.norm(W, axis=1)[:, None], None, A)
    X = rng.standard_normal((n, d))
    problem = prepare_problem(
        RowBlocks.from_arrays(X, net(X) + noise * rng.standard_normal((n, m))), random_state=1
    )
    less = TwoLayerNetwork(
        *(np.delete(part, missing, axis) for part, axis in ((net.W, 0), (net.b, 0), (net.A, 1)))
    )
    fit = refine(problem.blocks, problem.scaling.standardise(less), offset=False)
    level = (fit.cost / (n * m)) ** 0.5
    seen, hidden = missing_unit_evidence(problem, fit.network, offset=False, noise=level)
    assert seen.passed and not hidden.passed
    quiet = missing_unit_evidence(problem, fit.network, offset=False, noise=level / 100)[1]
    assert quiet.passed


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("is_affine", [False, True])
def test_the_score_is_the_fall_of_the_linearised_problem(offset, biases, is_weighted, is_affine) -> None:
    """Beside a dense Jacobian of all outputs and least squares with and without the further unit's columns."""
    rng = np.random.default_rng(8 * offset + 4 * biases + 2 * is_weighted + is_affine)
    n, d, k, m = 120, 3, 2, 2
    b = rng.standard_normal(k) * biases
    B = rng.standard_normal((m, d)) if is_affine else None
    net = TwoLayerNetwork(
        rng.standard_normal((k, d)), b, rng.standard_normal((m, k)), rng.standard_normal(m) * offset, B=B
    )
    X = rng.standard_normal((n, d))
    Y = net(X) + rng.standard_normal((n, m))
    weights = (lambda first, x, y: np.exp(x[:, 0])) if is_weighted else None
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=1)
    problem = replace(problem, X=X, Y=Y)
    W, cuts = rng.standard_normal((5, d)), rng.standard_normal(5) * biases
    score = _Score(problem, net, offset, biases, weights)
    falls = score.falls(W, cuts, exactly=True)
    # Rounding of 1e-6 beside the least part of an activation that counts in single precision, 1e-4.
    np.testing.assert_allclose(score.falls(W, cuts), falls, rtol=1e-2)

    root = np.sqrt(np.exp(X[:, 0])) if is_weighted else np.ones(n)
    slopes = (X @ net.W.T + net.b > 0).astype(float)
    inputs = np.hstack([X, np.ones((n, 1))]) if biases else X
    Z = np.hstack([slopes[:, [i]] * inputs for i in range(k)])
    G = np.hstack(
        [
            np.maximum(X @ net.W.T + net.b, 0),
            *([X] if is_affine else []),
            *([np.ones((n, 1))] if offset else []),
        ]
    )
    hidden = [Z * np.repeat(net.A[output], inputs.shape[1]) for output in range(m)]
    J = np.vstack([np.hstack([hidden[output], np.kron(np.eye(m)[output], G)]) for output in range(m)])
    right = ((Y - net(X)) * root[:, None]).T.ravel()

    def squares(columns):
        scaled = columns * np.tile(root, m)[:, None]
        return ((right - scaled @ np.linalg.lstsq(scaled, right, rcond=1e-10)[0]) ** 2).sum()

    for fall, w, cut in zip(falls, W, cuts, strict=True):
        further = np.kron(np.eye(m), np.maximum(X @ w + cut, 0)[:, None])
        assert fall == pytest.approx(squares(J) - squares(np.hstack([J, further])), rel=1e-6)
