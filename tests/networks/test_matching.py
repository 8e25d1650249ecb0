"""Matching of units and the error metrics, on cases worked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planted.networks import (
    GklwError,
    TwoLayerNetwork,
    gklw_error,
    glm_error,
    match_units,
    parameter_error,
    relative_mse,
)
from planted.outcomes import BadInputError


def random_net(rng, d=4, k=5, m=2):
    return TwoLayerNetwork(
        W=rng.standard_normal((k, d)),
        b=rng.standard_normal(k),
        A=rng.standard_normal((m, k)),
        c=rng.standard_normal(m),
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_matching_undoes_a_permutation(seed):
    rng = np.random.default_rng(seed)
    truth = random_net(rng).canonical()
    order = rng.permutation(5)
    net = TwoLayerNetwork(W=3 * truth.W[order], b=3 * truth.b[order], A=truth.A[:, order] / 3, c=truth.c)
    matching = match_units(net, truth)
    np.testing.assert_allclose(matching.network.W[matching.permutation], matching.truth.W, rtol=0, atol=1e-12)
    assert sorted(matching.permutation) == list(range(5))
    assert matching.error <= 1e-12 * (1 + np.abs(truth.b).max())


@pytest.mark.parametrize("name", ["W", "b", "A", "c"])
def test_the_error_is_the_largest_difference(name):
    truth = TwoLayerNetwork(W=np.eye(3), b=[1.0, 2.0, 3.0], A=[[1.0, -2.0, 4.0]], c=[0.5])
    parts = {"W": truth.W.copy(), "b": truth.b.copy(), "A": truth.A.copy(), "c": truth.c.copy()}
    if name == "W":
        parts["W"][1] = [0.0, 0.8, 0.6]
    else:
        parts[name].flat[0] += 0.25
    net = TwoLayerNetwork(W=parts["W"][::-1], b=parts["b"][::-1], A=parts["A"][:, ::-1], c=parts["c"])
    expected = 0.6 if name == "W" else 0.25
    assert parameter_error(net, truth) == pytest.approx(expected, rel=1e-14)
    matching = match_units(net, truth)
    assert matching.error == pytest.approx(expected, rel=1e-14)
    assert sorted(matching.truth.b) == [1.0, 2.0, 3.0] and matching.network.n_hidden == 3
    assert (matching.offset_error > 0) == (name == "c")
    assert (matching.unit_errors > 1e-14).sum() == (name != "c")


def test_columns_of_very_different_size_do_not_decide_the_matching():
    """Two units with columns of 1e8, known to 1e-6 of their size: the directions tell them apart."""
    truth = TwoLayerNetwork(W=np.eye(2), A=[[1e8, 1e8 + 100.0]])
    net = TwoLayerNetwork(W=np.eye(2), A=[[1e8 + 100.0, 1e8]])
    assert match_units(net, truth).permutation.tolist() == [0, 1]
    assert parameter_error(net, truth) == 100.0


def test_an_estimate_near_one_of_several_equal_representatives():
    """W = (1, 1, -2), A = 1: turning all units round is the same function; an estimate is near one."""
    for sign in (1.0, -1.0):
        truth = TwoLayerNetwork(
            W=sign * np.array([[1.0], [1.0], [-2.0]]), b=[1.0, -1.0, 0.5], A=np.ones((1, 3))
        )
        near = TwoLayerNetwork(W=truth.W, b=truth.b, A=truth.A + np.array([[1e-3, 0.0, 0.0]]))
        assert parameter_error(near, truth) == pytest.approx(1e-3, rel=1e-9)


def test_what_cannot_be_matched_is_infinitely_wrong():
    rng = np.random.default_rng(0)
    truth = random_net(rng)
    for other in (random_net(rng, k=4), random_net(rng, d=3), random_net(rng, m=1)):
        assert parameter_error(other, truth) == np.inf
        with pytest.raises(BadInputError):
            match_units(other, truth)
    other = TwoLayerNetwork(truth.W, truth.b, truth.A, truth.c, activation="power:2")
    assert parameter_error(other, truth) == np.inf
    with pytest.raises(BadInputError, match="4 and 5 units"):
        match_units(random_net(rng, k=4), truth)


def test_gklw_error_by_hand():
    truth = TwoLayerNetwork(W=np.eye(2), A=np.eye(2))
    # Unit 0 turned by the angle with cosine 0.6: squared distance 2 - 2 * 0.6.
    net = TwoLayerNetwork(W=[[0.0, 5.0], [0.6, 0.8]], A=[[0.0, 7.0], [2.0, 0.0]])
    error = gklw_error(net, truth)
    np.testing.assert_allclose([error.W, error.A], [0.8, 0.0], rtol=1e-14)
    assert gklw_error(truth, truth) == GklwError(W=0.0, A=0.0)
    one = TwoLayerNetwork(W=[[1.0, 0.0]], A=[[1.0], [0.0]])
    assert gklw_error(one, truth) == GklwError(W=np.inf, A=np.inf)


def test_glm_error_by_hand_and_its_flaw():
    true = np.array([[1.0, 1.0], [0.0, 2.0]])
    assert glm_error(-3 * true[::-1], true) == pytest.approx(0, abs=1e-15)
    # Q = [[0.6, 0.8], [0, 1]]: rows give 1 - 0.8, columns 1 - 0.6.
    assert glm_error(np.array([[0.6, 0.8], [0.0, 1.0]]) @ true, true) == pytest.approx(0.2, rel=1e-14)
    # The flaw: every row equal to the first true row scores zero.
    assert glm_error([[1.0, 1.0], [1.0, 1.0]], true) == pytest.approx(0, abs=1e-15)
    assert glm_error([[0.0, 1.0, 0.0]], [[0.0, 2.0, 0.0]]) == 0
    with pytest.raises(BadInputError, match="rank 1"):
        glm_error(true, np.ones((2, 2)))
    with pytest.raises(BadInputError, match="shape"):
        glm_error(true, np.ones((3, 2)))


def test_relative_mse_by_hand():
    truth = TwoLayerNetwork(W=[[1.0]], A=[[1.0]])
    zero = TwoLayerNetwork(W=[[1.0]], A=[[0.0]], c=[1.0])
    X = [[-2.0], [2.0]]
    assert relative_mse(zero, truth, X) == 1.0  # the mean of the targets 0, 2
    assert relative_mse(zero, [[0.0], [2.0]], X) == 1.0
    assert relative_mse(truth, truth, X) == 0.0
    assert relative_mse(zero, [[1.0], [1.0]], X) == 0.0
    assert relative_mse(zero, [[3.0], [3.0]], X) == np.inf
    with pytest.raises(BadInputError, match="targets have shape"):
        relative_mse(zero, [[1.0]], X)
    with pytest.raises(BadInputError, match="0 rows"):
        relative_mse(zero, truth, np.zeros((0, 1)))
