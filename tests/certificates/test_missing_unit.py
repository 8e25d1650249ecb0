"""A unit left out shows as a fall of the sum of squares; a right network leaves no room for one."""

from dataclasses import replace

import numpy as np
import pytest

from planted import RowBlocks, TwoLayerNetwork, simulate
from planted.certificates._missing_unit import (
    DRAWN_WEIGHTS,
    SOME_ROWS,
    STRENGTH,
    _hidden_part,
    _least_outside,
    _Score,
    _Screen,
    missing_unit_evidence,
)
from planted.certificates.noise._fitted_rows import FittedRows
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
    line, _ = missing_unit_evidence(problem, fit, offset=False, noise=noise)
    assert line.passed == (missing == 0)


@pytest.mark.parametrize("missing", range(3))
def test_a_unit_that_noise_hides_is_not_claimed_away(missing: int) -> None:
    """A weak unit near another one, with outputs near its own: no test of the residual sees that it is missing."""
    rng = np.random.default_rng([4, missing])
    n, d, m, noise = 300, 5, 4, 0.8
    W, A = rng.standard_normal((3, d)), rng.standard_normal((m, 3))
    other = (missing + 1) % 3
    W[missing] = W[other] + 0.3 * np.linalg.norm(W[other]) / np.sqrt(d) * rng.standard_normal(d)
    beside = 0.2 * np.linalg.norm(A[:, other]) / np.sqrt(m) * rng.standard_normal(m)
    A[:, missing] = 0.3 * (A[:, other] + beside)
    net = TwoLayerNetwork(W / np.linalg.norm(W, axis=1)[:, None], None, A)
    X = rng.standard_normal((n, d))
    rows = RowBlocks.from_arrays(X, net(X) + noise * rng.standard_normal((n, m)))
    problem = prepare_problem(rows, random_state=1)
    parts = ((net.W, 0), (net.b, 0), (net.A, 1))
    less = TwoLayerNetwork(*(np.delete(part, missing, axis) for part, axis in parts))
    fit = refine(problem.blocks, problem.scaling.standardise(less), offset=False)
    level = (fit.cost / (n * m)) ** 0.5
    seen, hidden = missing_unit_evidence(problem, fit, offset=False, noise=level)
    assert seen.passed and not hidden.passed
    assert missing_unit_evidence(problem, fit, offset=False, noise=level / 100)[1].passed


@pytest.mark.parametrize("is_bent", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_small_bias_and_bent_labels_do_not_hide_each_other(seed: int, is_bent: bool) -> None:
    """Taken for a network without biases, such data leave no room for a further unit without a bias."""
    rng = np.random.default_rng([9, seed])
    n, m = 800, 2
    net = TwoLayerNetwork([[1.0]], [-rng.uniform(0.1, 0.2) * is_bent], rng.standard_normal((m, 1)))
    X = rng.uniform(-1.7, 1.7, (n, 1))
    F = net(X)
    largest = rng.uniform(1.0, 1.5) * np.abs(F).max(axis=0)
    F = largest * np.tanh(F / largest) if is_bent else F
    problem = prepare_problem(
        RowBlocks.from_arrays(X, F + 0.1 * F.std(axis=0) * rng.standard_normal((n, m))),
        form="uncentred",
        random_state=1,
    )
    start = problem.scaling.standardise(TwoLayerNetwork(net.W, None, net.A))
    fit = refine(problem.blocks, start, offset=False, biases=False)
    noise = (fit.cost / (n * m)) ** 0.5
    line, *_ = missing_unit_evidence(problem, fit, offset=False, noise=noise, biases=False)
    assert line.passed == (not is_bent)


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
    score = _Score(FittedRows(problem, net, weights), offset)
    falls = score.falls(W, cuts)
    # The search counts nearly the same, from single precision: rounding of 1e-6 beside the part that it adds.
    u, S, squares = score.terms(W, cuts)
    added = S + _least_outside(squares)[:, None, None] * np.eye(m)
    nearly = [row @ np.linalg.solve(matrix, row) for row, matrix in zip(u, added, strict=True)]
    np.testing.assert_allclose(_Screen.of(score).falls(W, cuts), nearly, rtol=1e-3)

    root = np.sqrt(np.exp(X[:, 0])) if is_weighted else np.ones(n)
    slopes = (X @ net.W.T + net.b > 0).astype(float)
    inputs = np.hstack([X, np.ones((n, 1))])
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


def test_some_rows_are_enough_for_the_search() -> None:
    """Half-spaces are ordered as all rows order them: u is that of all rows, S that of some to a few per cent."""
    data = simulate.dataset(4000, n_features=4, n_hidden=3, n_outputs=2, noise=0.1, random_state=5)
    problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=1)
    fit = refine(problem.blocks, problem.scaling.standardise(data.network), offset=False)
    rng = np.random.default_rng(6)
    W, cuts = rng.standard_normal((60, 4)), rng.standard_normal(60)
    score = _Score(FittedRows(problem, fit.network), False)
    exact = score.falls(W, cuts)
    screen = _Screen.of(score)
    assert len(screen.some.at.problem.X) == SOME_ROWS < 4000
    ratios = screen.falls(W, cuts) / exact
    assert np.median(np.abs(ratios - 1)) < 4 / np.sqrt(SOME_ROWS)


def test_half_spaces_without_a_row_promise_nothing() -> None:
    data = simulate.dataset(300, n_features=3, n_hidden=2, n_outputs=2, noise=0.1, random_state=5)
    problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=1)
    fit = refine(problem.blocks, problem.scaling.standardise(data.network), offset=False)
    score = _Score(FittedRows(problem, fit.network), False)
    W, cuts = np.eye(3), np.array([-100.0, 0.5, -100.0])
    falls = score.falls(W, cuts)
    assert falls[1] > 0 and (falls[[0, 2]] == 0).all()
    # In single precision next to nothing, in variances of the noise.
    assert (_Screen.of(score).falls(W, cuts)[[0, 2]] < 1e-2 * fit.cost / problem.Y.size).all()


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.3", "absolute", "power:2"])
def test_the_search_takes_the_scores_of_every_activation(activation: str) -> None:
    rng = np.random.default_rng(len(activation))
    n, d, k, m = 700, 3, 2, 2
    net = TwoLayerNetwork(
        rng.standard_normal((k, d)), None, rng.standard_normal((m, k)), activation=activation
    )
    X = rng.standard_normal((n, d))
    Y = net(X) + rng.standard_normal((n, m))
    problem = replace(prepare_problem(RowBlocks.from_arrays(X, Y), random_state=1), X=X, Y=Y)
    W, cuts = rng.standard_normal((5, d)), rng.standard_normal(5)
    score = _Score(FittedRows(problem, net), True)
    u = score.terms(W, cuts)[0]
    np.testing.assert_allclose(_Screen.of(score)._scores(W, cuts), u, atol=1e-4 * np.abs(u).max())


def test_eigenvalues_are_left_out_only_where_they_decide_nothing() -> None:
    rng = np.random.default_rng(2)
    data = simulate.dataset(300, n_features=3, n_hidden=2, n_outputs=3, noise=0.1, random_state=5)
    rows, limit = RowBlocks.from_arrays(data.X, data.Y), 30.0
    problem, again = (prepare_problem(rows, random_state=1) for _ in range(2))
    root = rng.standard_normal((80, 3, 3)) * np.exp(rng.uniform(-1, 3, 80))[:, None, None]
    S = root @ root.transpose(0, 2, 1) + 30 * np.exp(rng.uniform(-3, 3, 80))[:, None, None] * np.eye(3)
    net = problem.scaling.standardise(data.network)
    directions = again.rng.standard_normal((DRAWN_WEIGHTS, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    size = float(((net.A**2).sum(axis=0) * (net.W**2).sum(axis=1)).mean())
    raised = STRENGTH**2 * size * directions**2 @ np.linalg.eigvalsh(S).T
    expected = (raised < limit - 6).mean()
    assert 0.05 < expected < 0.95
    assert _hidden_part(problem, net, S, limit) == pytest.approx(expected, abs=1e-12)
