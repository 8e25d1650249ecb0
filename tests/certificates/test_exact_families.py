"""The exact certificate on families aimed at its inequalities: scales, gaps, singular Jacobians, rounded labels."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import planted
from planted.certificates._exact import GAP_LEVEL, certify_noiseless, hidden_kinks
from planted.certificates._parts import DOUBLE, check_rounding, find_grids, reproduces_rows
from planted.certificates.noise._rounding import rounding_evidence
from planted.certificates.searches._one_input import read_kinks
from planted.checks import Check
from planted.fitting import _jacobian
from planted.fitting._jacobian import jacobian_conditioning, rounding_level, tangent_basis
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.rows import RowBlocks
from planted.rows._passes import Passes


def drawn_network(rng, *, d=None, k=None, m=None):
    d, k = d or int(rng.integers(2, 6)), k or int(rng.integers(2, 5))
    m = m or int(rng.integers(1, 5))
    W = rng.standard_normal((k, d))
    return TwoLayerNetwork(
        W / np.linalg.norm(W, axis=1)[:, None], 0.4 * rng.standard_normal(k), rng.standard_normal((m, k))
    )


def problem_of(X, Y):
    return prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)


def judged(X, Y, network, **options):
    """Refine a known network on its own problem and certify it, without any search."""
    problem = problem_of(X, Y)
    fit = refine(problem.blocks, problem.scaling.standardise(network), offset=False)
    return certify_noiseless(problem, fit, offset=False, rivals=0, **options)


def measured(verdict, key):
    return next(item for item in verdict.evidence if item.key is key)


# --- every entry on its own scale ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_small_output_of_another_kind_is_seen_on_its_own_scale(seed):
    rng = np.random.default_rng(seed)
    net = drawn_network(rng, m=3)
    X = rng.standard_normal((200, net.n_features))
    Y = net(X)
    assert judged(X, Y, net).outcome is Outcome.RECOVERED
    Y[:, 1] = 10.0 ** -rng.uniform(6, 14) * np.sin(3 * X[:, 0]) * X[:, 1]
    small = TwoLayerNetwork(net.W, net.b, net.A * np.array([[1.0], [0.0], [1.0]]))
    verdict = judged(X, Y, small)
    assert verdict.outcome is Outcome.FITTED
    assert "output 1 is missed" in verdict.detail


@pytest.mark.parametrize("seed", range(4))
def test_outputs_on_scales_of_many_decades_are_exact_together(seed):
    rng = np.random.default_rng(seed)
    net = drawn_network(rng, m=4)
    net = TwoLayerNetwork(net.W, net.b, net.A * 10.0 ** -rng.uniform(0, 12, (4, 1)))
    X = rng.standard_normal((200, net.n_features))
    assert judged(X, net(X), net).outcome is Outcome.RECOVERED


@pytest.mark.parametrize("seed", range(4))
def test_a_ripple_far_below_the_spread_of_the_outputs_is_seen(seed):
    rng = np.random.default_rng(seed)
    net = drawn_network(rng)
    net = TwoLayerNetwork(net.W, None, net.A)
    X = rng.standard_normal((300, net.n_features)) * 10.0 ** rng.uniform(-6, 0, (300, 1))
    Y = net(X)
    near = np.linalg.norm(X, axis=1) < 1e-3
    Y[near, 0] += 10.0 ** -rng.uniform(10, 11.5) * np.sin(1e5 * X[near, 0])
    verdict = judged(X, Y, net)
    assert verdict.outcome is Outcome.FITTED


def test_the_tolerance_of_an_entry_follows_its_terms():
    """Scaling an output scales its tolerance; shifting the inputs raises it by the shift."""
    rng = np.random.default_rng(0)
    net = drawn_network(rng, d=2, k=3, m=2)
    X = rng.standard_normal((50, 2))
    Y = net(X) + 1e-10 * rng.standard_normal((50, 2))
    excess = []
    for shift, scale in ((0.0, 1.0), (0.0, 1e-6), (1e4, 1.0)):
        moved = TwoLayerNetwork(net.W, net.b - net.W @ np.full(2, shift), net.A * scale)
        problem = problem_of(X + shift, Y * scale)
        excess.append(check_rounding(problem, problem.scaling.standardise(moved)).excess)
    np.testing.assert_allclose(excess[1], excess[0], rtol=1e-3)
    assert (excess[2] < 1e-3 * excess[0]).all()


def test_the_certificate_reads_the_rows_at_hand_and_no_journal():
    class Liar:
        def open_pass(self, number, summand, source):
            raise AssertionError("the sums of a certificate were asked of a checkpoint")

    rng = np.random.default_rng(0)
    net = drawn_network(rng)
    X = rng.standard_normal((50, net.n_features))
    problem = problem_of(X, net(X))
    remembered = replace(problem.blocks, passes=Passes(journal=Liar(), count=4))
    checks = check_rounding(problem, problem.scaling.standardise(net), blocks=remembered)
    assert checks.n_samples == 50 and checks.missed == 0
    assert remembered.passes.count == 5


# --- labels on a grid ----------------------------------------------------------------------------------------------

ROUNDINGS = {
    "single precision": lambda Y: Y.astype(np.float32).astype(float),
    "half precision": lambda Y: Y.astype(np.float16).astype(float),
    "4 decimals": lambda Y: np.round(Y, 4),
    "9 decimals": lambda Y: np.round(Y, 9),
    "6 significant digits": np.vectorize(lambda value: float(f"{value:.6g}")),
}


@pytest.mark.parametrize("name", ROUNDINGS)
def test_the_grid_of_labels_is_found_and_explains_the_residual(name):
    rng = np.random.default_rng(1)
    net = drawn_network(rng, d=3, k=3, m=3)
    X = rng.standard_normal((400, 3))
    problem = problem_of(X, ROUNDINGS[name](net(X)))
    assert name in [grid.name for grid in find_grids(problem)]
    truth = problem.scaling.standardise(net)
    rows, grid = reproduces_rows(problem, truth)
    assert (rows.missed, grid.name) == (0, name)
    wrong = TwoLayerNetwork(truth.W, truth.b, truth.A * 1.03, truth.c)
    assert reproduces_rows(problem, wrong)[0].missed


@pytest.mark.parametrize("seed", range(4))
def test_significant_digits_that_decimals_imply_are_no_grid_of_their_own(seed):
    """They would allow small labels the steps of large ones: a term of three steps passed for rounding."""
    rng = np.random.default_rng([seed, 4])
    net = drawn_network(rng, m=2)
    X = rng.standard_normal((300, net.n_features))
    decimals = int(rng.integers(4, 11))
    Y = np.round(net(X) + 3 * 10.0**-decimals * np.sin(3 * X[:, :1]), decimals)
    problem = problem_of(X, Y)
    assert [grid.name for grid in find_grids(problem)] == [f"{decimals} decimals"]
    assert reproduces_rows(problem, problem.scaling.standardise(net))[0].missed


def test_full_precision_and_noise_lie_on_no_grid():
    rng = np.random.default_rng(2)
    net = drawn_network(rng)
    X = rng.standard_normal((400, net.n_features))
    for Y in (net(X), net(X) + 1e-7 * rng.standard_normal((400, net.n_outputs))):
        problem = problem_of(X, Y)
        assert find_grids(problem) == []
    assert reproduces_rows(problem, problem.scaling.standardise(net))[1] is DOUBLE


@pytest.mark.parametrize("seed", range(6))
def test_a_term_of_a_few_steps_is_no_rounding_and_arithmetic_is(seed):
    """Labels of single precision, as stored and as computed: the size of the residual, and traces of x in it, tell."""
    rng = np.random.default_rng([seed, 5])
    net = drawn_network(rng, d=3, k=3, m=2)
    single = TwoLayerNetwork(*(getattr(net, name).astype(np.float32).astype(float) for name in "WbAc"))
    X = rng.standard_normal((240, 3)).astype(np.float32)
    W, b, A, c = (getattr(single, name).astype(np.float32) for name in "WbAc")
    computed = (np.maximum(X @ W.T + b, np.float32(0)) @ A.T + c).astype(float)
    X = X.astype(float)
    t = X @ rng.standard_normal(3)
    term = (np.sin(2 * t), X[:, 0] * X[:, 1], np.tanh(t))[seed % 3][:, None]
    step = float(np.median(np.spacing(np.abs(computed).astype(np.float32))))
    nearest = ROUNDINGS["single precision"](single(X))
    other = ROUNDINGS["single precision"](single(X) + rng.uniform(2, 4) * step * term)
    passed = []
    for Y in (nearest, computed, other):
        problem = problem_of(X, Y)
        fit = refine(problem.blocks, problem.scaling.standardise(single), offset=False)
        grid = next(grid for grid in find_grids(problem) if grid.format is np.float32)
        lines = rounding_evidence(problem, fit.network, grid, biases=True)
        passed.append(all(line.passed for line in lines))
    assert passed == [True, True, False]


@pytest.mark.parametrize("name", ROUNDINGS)
@pytest.mark.parametrize("seed", range(2))
def test_networks_are_recovered_from_rounded_labels(name, seed):
    data = planted.simulate.dataset(
        240, n_features=3, n_hidden=2, n_outputs=3, activity=(0.3, 0.7), random_state=seed
    )
    answer = planted.recover(data.X, ROUNDINGS[name](data.Y), random_state=seed)
    assert answer.outcome is Outcome.RECOVERED, answer.detail
    assert answer.guarantee is Guarantee.ASYMPTOTIC
    assert name in answer.detail
    errors = answer.uncertainty.standard_errors
    largest = max(float(np.max(value)) for value in errors.values())
    assert planted.parameter_error(answer.network, data.network) <= 8 * largest


@pytest.mark.parametrize("name", ["single precision", "9 decimals"])
def test_a_function_of_x_does_not_pass_for_rounding(name):
    """A smooth term below the tolerance of the grid: the network that is claimed without it is not claimed with it."""
    size = {"single precision": 1e-7, "9 decimals": 4e-10}[name]
    for seed in range(4):
        rng = np.random.default_rng([seed, 41])
        net = drawn_network(rng, d=2, k=2, m=2)
        X = rng.standard_normal((400, 2))
        term = (X[:, :1] * X[:, 1:], np.sin(3 * X[:, :1]))[seed % 2]
        outcomes = [judged(X, ROUNDINGS[name](net(X) + part * term), net).outcome for part in (0.0, size)]
        assert outcomes[0] is Outcome.RECOVERED
        assert outcomes[1] is Outcome.FITTED


# --- gaps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_several_kinks_in_a_gap_are_not_called_one(seed):
    rng = np.random.default_rng(seed)
    d, half = int(rng.integers(1, 4)), rng.uniform(0.8, 1.5)
    w = rng.standard_normal(d)
    w /= np.linalg.norm(w)
    X = rng.uniform(-3, 3, (int(rng.integers(120, 300)), d))
    X += np.outer(np.sign(X @ w) * half, w)
    a, places = rng.uniform(0.5, 2, 3), rng.uniform(-half, half, 3)
    truth = TwoLayerNetwork(np.tile(w, (3, 1)), -places, a[None])
    one = TwoLayerNetwork(w[None], [-(a @ places) / a.sum()], [[a.sum()]])
    verdict = judged(X, truth(X), one)
    assert verdict.outcome is Outcome.NOT_IDENTIFIABLE
    assert "ask for samples in the gap" in verdict.detail
    assert measured(verdict, Check.GAP).measured > 12
    filled = np.vstack([X, np.outer(rng.uniform(-half, half, 100), w)])
    assert judged(filled, truth(filled), one).outcome is Outcome.FITTED
    assert judged(filled, one(filled), one).outcome is Outcome.RECOVERED


def test_a_gap_is_named_in_the_users_units():
    x = np.concatenate([np.linspace(-20, -10, 40), np.linspace(30, 50, 40)])[:, None] + 1000
    net = TwoLayerNetwork([[1.0]], [-1007.0], [[2.0]])
    problem = problem_of(x, net(x))
    lines, text = hidden_kinks(problem, problem.scaling.standardise(net), np.arange(len(x)))
    assert "x in [990, 1030]" in text
    assert [line.key for line in lines] == [Check.GAP, Check.PIECE]


def test_spacings_of_random_samples_are_no_gaps():
    """Five hundred kinks among uniform samples: one in a hundred lies in a gap that is refused, whatever their number."""
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(500):
        x = rng.uniform(-1, 1, 60)[:, None]
        net = TwoLayerNetwork([[1.0]], [rng.uniform(-0.5, 0.5)], [[1.0]])
        problem = problem_of(x, net(x))
        lines, _ = hidden_kinks(problem, problem.scaling.standardise(net), np.arange(60))
        found += not lines[0].passed
    assert found <= stats.binom.isf(1e-3, 500, GAP_LEVEL)


@pytest.mark.parametrize("seed", range(6))
def test_a_gap_may_hide_kinks_where_others_are_parallel(seed):
    """A gap of eleven spacings: one lone kink among several inputs lies there by chance, one of two parallel ones not."""
    rng = np.random.default_rng(seed)
    d, h = int(rng.integers(2, 5)), rng.uniform(0.01, 0.1)
    W = np.linalg.qr(rng.standard_normal((d, d)))[0]
    along = h * np.arange(-60, 60.0)
    along[60:] += 10 * h  # eleven spacings
    X = np.column_stack([along, rng.uniform(-1, 1, (len(along), d - 1))]) @ W
    turned = TwoLayerNetwork(W[:2], [-5 * h, 0.0], [[1.0, -0.5]])
    parallel = TwoLayerNetwork([W[0], -W[0]], [-5 * h, -30.5 * h], [[1.0, -0.5]])
    for net, passes in ((turned, True), (parallel, False)):
        problem = problem_of(X, net(X))
        lines, _ = hidden_kinks(problem, problem.scaling.standardise(net), np.arange(len(X)))
        assert lines[0].passed is passes


@pytest.mark.parametrize("on_piece", [1, 2, 3])
def test_a_piece_of_one_input_needs_three_samples(on_piece):
    places = [np.linspace(-6, -1.5, 10), np.linspace(-0.5, 0.5, on_piece), np.linspace(1.5, 6, 10)]
    x = np.concatenate(places)[:, None]
    net = TwoLayerNetwork([[1.0], [1.0]], [1.0, -1.0], [[1.0, -2.0]])
    problem = problem_of(x, net(x))
    _, text = hidden_kinks(problem, problem.scaling.standardise(net), np.arange(len(x)))
    assert ("linear piece" in text) is (on_piece < 3)


# --- one input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_many_kinks_of_one_input_are_read_and_recovered(seed):
    rng = np.random.default_rng(seed)
    k, m = int(rng.integers(5, 20)), int(rng.integers(1, 3))
    edges = np.cumsum(rng.uniform(0.5, 1.5, k + 2))
    x = np.concatenate([rng.uniform(edges[i], edges[i + 1], int(rng.integers(4, 9))) for i in range(k + 1)])[
        :, None
    ]
    signs = rng.choice([-1.0, 1.0], k)
    net = TwoLayerNetwork(signs[:, None], -signs * edges[1:-1], rng.uniform(0.5, 2, (m, k)))
    kinks = read_kinks(x[:, 0], net(x), tol=1e-9)
    np.testing.assert_allclose(kinks, edges[1:-1], atol=1e-9)
    answer = planted.recover(x, net(x), random_state=seed)
    assert answer.outcome is Outcome.RECOVERED, answer.detail
    assert planted.parameter_error(answer.network, net) < 1e-9


def test_noise_shows_no_lines():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1, 1, 50))
    assert read_kinks(x, np.maximum(x, 0)[:, None] + 1e-3 * rng.standard_normal((50, 1)), tol=1e-9) is None


# --- the Jacobian ---------------------------------------------------------------------------------------------------


def dense_conditioning(X, net, offset):
    """The smallest singular value, output layer eliminated, from the Jacobian written out."""
    T = tangent_basis(net)
    rows = np.hstack([X, np.ones((len(X), 1))])
    on = (net.preactivations(X) > 0)[:, :, None]
    inner = np.einsum("lj,njp->lnjp", net.A, on * rows[:, None, :]).reshape(net.n_outputs * len(X), -1) @ T
    G = np.maximum(net.preactivations(X), 0.0)
    outer = np.kron(np.eye(net.n_outputs), np.hstack([G, np.ones((len(X), 1))]) if offset else G)
    lengths = np.linalg.norm(inner, axis=0)
    Q = np.linalg.qr(outer)[0]
    values = np.linalg.svd((inner - Q @ (Q.T @ inner)) / lengths, compute_uv=False)
    return min(values[-1], np.linalg.svd(outer / np.linalg.norm(outer, axis=0), compute_uv=False)[-1])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("offset", [False, True])
def test_the_smallest_singular_value_is_that_of_the_jacobian(seed, offset, monkeypatch):
    monkeypatch.setattr(_jacobian, "SLICE", 16)  # many slices
    rng = np.random.default_rng(seed)
    net = drawn_network(rng)
    X = rng.standard_normal((400, net.n_features))
    X[:, 1] = X[:, 0] + 10.0 ** -rng.uniform(0, 9) * X[:, 1]
    value = jacobian_conditioning(X, net, offset=offset).conditioning
    assert value == pytest.approx(dense_conditioning(X, net, offset), rel=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_an_exactly_singular_jacobian_is_singular_to_rounding(seed):
    """Where unit 0 is on, one direction of the inputs is constant, or an input depends on the others."""
    rng = np.random.default_rng(seed)
    net = drawn_network(rng, d=int(rng.integers(3, 6)))
    X = rng.standard_normal((300, net.n_features)) + (0.0 if seed % 2 else 10.0 ** rng.uniform(0, 5))
    if not seed % 3:
        X[:, -1] = X[:, :-1] @ rng.standard_normal(net.n_features - 1)
    net = TwoLayerNetwork(net.W, -np.median(X @ net.W.T, axis=0), net.A)
    if seed % 3:
        on = net.patterns(X)[:, 0]
        v = np.linalg.svd(net.W[:1])[2][-1]
        X[on] += np.outer(X.mean() - X[on] @ v, v)
    verdict = judged(X, net(X), net)
    problem = problem_of(X, net(X))
    line = measured(verdict, Check.JACOBIAN)
    assert line.measured <= rounding_level(net, problem.scaling)
    assert verdict.outcome is Outcome.NOT_IDENTIFIABLE
    assert "undetermined" in verdict.detail


@pytest.mark.parametrize("seed", range(8))
def test_a_unique_but_ill_conditioned_network_is_not_called_ambiguous(seed):
    rng = np.random.default_rng(seed)
    net = drawn_network(rng)
    X = rng.standard_normal((300, net.n_features))
    closeness = 10.0 ** -rng.uniform(2, 11)
    X[:, 1] = X[:, 0] + closeness * rng.standard_normal(300)
    net = TwoLayerNetwork(net.W, -np.median(X @ net.W.T, axis=0), net.A)
    verdict = judged(X, net(X), net)
    line = measured(verdict, Check.JACOBIAN)
    assert verdict.outcome is (Outcome.RECOVERED if line.passed else Outcome.ILL_CONDITIONED)
    assert line.passed or closeness < 1e-5


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # trial steps that overflow are rejected
@pytest.mark.parametrize("seed", range(3))
def test_collinear_inputs_never_give_a_wrong_claim(seed):
    rng = np.random.default_rng(seed)
    net = drawn_network(rng, d=3, k=2, m=1)
    X = rng.standard_normal((150, 3))
    X[:, 1] = X[:, 0] + 10.0 ** -rng.uniform(4, 8) * X[:, 1]
    net = TwoLayerNetwork(net.W, -np.median(X @ net.W.T, axis=0), net.A)
    answer = planted.recover(X, net(X), random_state=seed, budget_seconds=20)
    if answer.outcome is Outcome.RECOVERED:
        assert planted.parameter_error(answer.network, net) < 1e-6


# --- constants ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::planted.outcomes.DataWarning")
@pytest.mark.parametrize("method", ["auto", "restarts", "half-spaces", "ica", "hermite", "complementarity"])
def test_constant_outputs_are_refused_by_name(method):
    X = np.random.default_rng(0).standard_normal((60, 3))
    for Y in (np.zeros((60, 2)), np.tile([1.0, -2.5, 0.3], (60, 1))):
        answer = planted.recover(X, Y, method=method, random_state=0)
        assert answer.outcome is Outcome.ASSUMPTION_FAILED
        assert "constant" in answer.detail or "vary" in answer.detail


# --- rows that determine the network -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_an_unlucky_draw_of_few_rows_does_not_decide(seed):
    """One row of twelve keeps the unit from turning about a line: the nine tenths that are drawn may lack it."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(2)
    net = TwoLayerNetwork([w / np.linalg.norm(w)], [0.2], [[1.0]])
    along, across = net.W[0], np.array([-net.W[0, 1], net.W[0, 0]])
    line = np.outer([1.0, 1.5, 2.2], along + 0.3 * across) + 0.4 * across
    off = -np.outer(rng.uniform(0.5, 2.0, 8), along) + np.outer(rng.standard_normal(8), across)
    X = np.vstack([line, [along - across], off])
    fit = None
    for draw in range(25):
        problem = prepare_problem(RowBlocks.from_arrays(X, net(X)), random_state=draw)
        fit = fit or refine(problem.blocks, problem.scaling.standardise(net), offset=False)
        verdict = certify_noiseless(problem, fit, offset=False, rivals=0)
        assert measured(verdict, Check.JACOBIAN).passed, draw
    # Without that row, no draw helps.
    X = np.delete(X, 3, axis=0)
    assert not measured(judged(X, net(X), net), Check.JACOBIAN).passed
