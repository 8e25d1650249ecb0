"""What the small network does promise: its prediction error, the same answer at every seed, and no claim."""

from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pytest

import planted
from planted.checks import Check
from planted.fitting._refine import refine
from planted.methods import small_network
from planted.methods.small_network import LINEAR_RIDGE, _add_units, _linear_network
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.rows import RowBlocks

recover = partial(planted.recover, method="small-network")


def table(n=400, seed=0, noise=0.3):
    """Return inputs and outputs of a function that is no network."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + noise * rng.standard_normal(n)


def test_no_claim_and_every_number_in_the_evidence():
    X, y = table()
    answer = recover(X, y, random_state=0)
    assert answer.outcome is Outcome.FITTED and answer.guarantee is Guarantee.NONE
    assert answer.uncertainty.reason
    (error,) = answer.find(Check.HELD_OUT_ERROR)
    assert error.measured == pytest.approx(answer.held_out_mse / y.var(), rel=1e-9)
    assert len(answer.find(Check.WIDTH)) == len(answer.find(Check.RIDGE)) == 1


def test_the_cross_validated_error_is_that_on_fresh_rows():
    X, y = table(2000)
    answer = recover(X, y, random_state=0)
    fresh, labels = table(20_000, seed=1)
    squares = (labels - answer.network(fresh)[:, 0]) ** 2
    # Four standard errors of a mean of 2,000 squares; folds train on a fifth less, which only makes them pessimistic.
    four = 4 * squares.std() / np.sqrt(len(X))
    assert abs(answer.held_out_mse - squares.mean()) < four
    assert squares.mean() < 0.3**2 * 1.15  # near the noise: the function was learnt


def test_a_choice_is_the_best_of_its_trace():
    answer = recover(*table(200), random_state=0)
    best = min(answer.trace, key=lambda line: (line["score"], line["k"]))
    assert answer.find(Check.WIDTH)[0].measured == best["k"]
    assert {line["k"] for line in answer.trace} >= {0, 1, 2}


def test_a_ridge_that_predicts_better_is_kept_along_the_path():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    answer = recover(X, np.tanh(X @ rng.standard_normal((3, 3))), random_state=0)  # no noise: little ridge
    path = [
        (line["k"], line["ridge"], line["score"]) for line in answer.trace[:-2]
    ]  # then a line and the mean
    by_width = [list(lines) for _, lines in groupby(path, key=itemgetter(0))]
    for narrow, wide in pairwise(by_width):
        assert wide[0][1] == min(narrow, key=itemgetter(2))[1]
    assert path[0][1] == 0.1 and path[-1][1] < 0.1
    assert answer.find(Check.RIDGE)[0].measured < 0.1


def test_what_was_cross_validated_is_what_is_done(monkeypatch):
    ways, grown = {}, small_network._grown

    def recorded(X, Y, network, added, ridge, steps, seed):
        ways.setdefault(seed[0], []).append((seed[1], ridge))
        return grown(X, Y, network, added, ridge, steps, seed)

    monkeypatch.setattr(small_network, "_grown", recorded)
    answer = recover(*table(200, noise=0.05), random_state=0)
    last, seen = ways.pop(5), ways[0]
    assert last[-1] == (answer.find(Check.WIDTH)[0].measured, answer.find(Check.RIDGE)[0].measured)
    assert len(ways) == 5 and all(way == seen for way in ways.values())
    assert {width for width, _ in last} == {width for width, _ in seen if width <= last[-1][0]}
    steps = iter(seen)
    assert all(step in steps for step in last)  # the same steps, without those that were not kept


def test_the_seed_changes_nothing():
    X, y = table(200)
    one, two = (recover(X, y, random_state=seed).network for seed in (0, 1))
    np.testing.assert_array_equal(one.W, two.W)
    np.testing.assert_array_equal(one.A, two.A)


def test_the_number_of_units_can_be_given():
    X, y = table(200)
    answer = recover(X, y, 2, random_state=0)
    assert answer.find(Check.WIDTH)[0].measured == 2
    assert {line["k"] for line in answer.trace} == {2}


def test_hardly_any_rows_still_have_an_answer():
    X, y = table(6)
    answer = recover(X, y, random_state=0)
    assert answer.outcome is Outcome.FITTED and answer.find(Check.WIDTH)[0].measured == 0


def test_the_linear_part_is_a_regression_in_pairs_of_units():
    X = np.random.default_rng(0).standard_normal((500, 4))
    X = np.sqrt(len(X)) * np.linalg.qr(X - X.mean(axis=0))[0]  # as if standardised: X'X = n I
    slope = np.array([[1.0, -2.0, 0.0, 3.0]])
    network = _linear_network(X, X @ slope.T + 7.0, affine=False)
    assert network.n_hidden == 2
    np.testing.assert_allclose(network(X), X @ slope.T / (1 + LINEAR_RIDGE) + 7.0, rtol=1e-10)


def test_the_unit_that_explains_most_is_added_first():
    X = np.random.default_rng(0).standard_normal((500, 2))
    Y = np.maximum(X[:, :1] - 0.3, 0.0)
    start = TwoLayerNetwork(np.ones((1, 2)), None, np.zeros((1, 1)))
    wider = _add_units(start, X, Y, 1, np.random.default_rng(0))
    assert wider.n_hidden == 2 and wider.A[0, 1] == 0.0
    direction = wider.W[1] / np.linalg.norm(wider.W[1])
    assert abs(direction[0]) > 0.95  # the closest of two hundred random directions in the plane


def test_a_linear_part_that_is_asked_for_is_no_pair_of_units():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(200)
    slopes = np.linalg.lstsq(np.column_stack([X, np.ones(200)]), y, rcond=None)[0]
    straight = refine(
        RowBlocks.from_arrays(X, y[:, None]), _linear_network(X, y[:, None], affine=True)
    ).network
    assert straight.n_hidden == 0
    np.testing.assert_allclose([*straight.B[0], *straight.c], slopes, rtol=1e-9)
    bent = recover(X, y + 2 * np.maximum(X[:, 0], 0), affine=True, effort="quick", random_state=0)
    assert bent.network.B is not None and bent.network.n_hidden > 0
    assert bent.held_out_mse < 2 * 0.1**2


def test_a_linear_part_of_its_own_is_kept_where_it_predicts_better_than_pairs_of_units() -> None:
    rng = np.random.default_rng(4)
    X, slope, w = rng.standard_normal((300, 4)), rng.standard_normal(4), rng.standard_normal(4)
    bends = 2 * np.maximum(X @ w - 0.3, 0)
    bent = recover(X, X @ slope + bends + 0.3 * rng.standard_normal(300), random_state=0).network
    assert bent.n_hidden == 1 and bent.B is not None
    jump = bent.A[0, 0] * bent.W[0]
    side = np.zeros(4) if jump @ w > 0 else jump  # a unit turned round changes B by its jump
    np.testing.assert_allclose(bent.B[0] + side, slope, atol=0.15)
    plain = recover(X, bends + 0.1 * rng.standard_normal(300), affine=False, random_state=0).network
    assert plain.B is None


def test_a_straight_line_is_a_linear_part() -> None:
    rng = np.random.default_rng(5)
    X, slope = rng.standard_normal((200, 3)), rng.standard_normal(3)
    line = recover(X, X @ slope + 0.5 * rng.standard_normal(200), random_state=0).network
    assert line.n_hidden == 0 and line.B is not None
    np.testing.assert_allclose(line(np.eye(3)) - line(np.zeros((1, 3))), slope[:, None], atol=0.2)
