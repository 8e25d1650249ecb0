"""Row-space pursuit: every unit it returns is real, and on easy data it returns all."""

import numpy as np
import pytest
from scipy import linalg

from planted.fitting.units._null_units import complementarity_null_space, units_from_null_space
from planted.fitting.units._pursuit import _build_space, _start_patterns, pursue_units
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.simulate import dataset


def world(n=60, d=6, k=4, m=4, law="gaussian", seed=0):
    return dataset(n, n_features=d, n_hidden=k, n_outputs=m, law=law, activity=(0.3, 0.7), random_state=seed)


def space_of(Y):
    left, values, _ = linalg.svd(Y, full_matrices=False)
    return left[:, values > 1e-10 * values[0]]


def unit_distance(V, network):
    """For every planted unit the distance of its direction (w, b) to the nearest row of V."""
    truth = np.hstack([network.W, network.b[:, None]])
    one = V / np.linalg.norm(V, axis=1, keepdims=True)
    other = truth / np.linalg.norm(truth, axis=1, keepdims=True)
    return np.linalg.norm(other[:, None] - one[None], axis=2).min(axis=1)


@pytest.mark.parametrize("law", ["gaussian", "exponential", "uniform", "student-t"])
@pytest.mark.parametrize("seed", [0, 1])
def test_all_units_are_found_and_nothing_else(law, seed):
    data = world(law=law, seed=seed)
    found = pursue_units(data.X, space_of(data.Y), 5, rng=np.random.default_rng(50 + seed), max_starts=512)
    assert len(found.V) == 4, "a fifth unit does not exist"
    assert unit_distance(found.V, data.network).max() < 1e-11
    assert found.starts == 512


def test_it_stops_when_all_are_found():
    data = world()
    found = pursue_units(data.X, space_of(data.Y), 4, rng=np.random.default_rng(1))
    assert len(found.V) == 4
    assert 0 < found.starts < 4000


@pytest.mark.parametrize("seed", range(3))
def test_units_through_a_point_need_only_d_samples(seed):
    """One unit is on for d samples, too few for its d + 1 unknowns unless the point it passes through is known."""
    rng = np.random.default_rng(seed)
    d, k, n = 6, 3, 24
    origin = rng.standard_normal(d)
    X = origin + rng.standard_normal((n, d))
    W = rng.standard_normal((2000, d))
    counts = ((X - origin) @ W.T > 0).sum(axis=0)
    W = W[np.concatenate([np.flatnonzero(counts == d)[:1], np.flatnonzero(counts >= 10)[: k - 1]])]
    network = TwoLayerNetwork(W, -W @ origin, rng.standard_normal((k, k)))
    Q = space_of(network(X))
    found = pursue_units(X, Q, k, rng=np.random.default_rng(9), origin=origin)
    assert len(found.V) == k
    assert unit_distance(found.V, network).max() < 1e-10
    anywhere = pursue_units(X, Q, k, rng=np.random.default_rng(9), max_starts=512)
    assert unit_distance(anywhere.V, network).max() > 1e-3


def test_known_units_beside_a_point_keep_their_hyperplanes():
    """A search for units through a point must not move those found elsewhere."""
    data = world(n=80)
    W, b = data.network.W, np.append(data.network.b[:3], 0.0)
    network = TwoLayerNetwork(W, b, data.network.A)
    known = np.hstack([W[:3], b[:3, None]])
    Q = space_of(network(data.X))
    found = pursue_units(data.X, Q, 4, rng=np.random.default_rng(9), known=known, origin=np.zeros(6))
    assert np.array_equal(found.V[:3], known)
    assert unit_distance(found.V, network).max() < 1e-11


def test_starts_aimed_at_one_missing_unit_leave_room_for_others():
    data = world()
    space = _build_space(data.X, space_of(data.Y), None)
    H = np.maximum(data.network.preactivations(data.X), 0.0)
    for missing, fewest in ((1, 0.8), (3, 0.5)):
        patterns = _start_patterns(space, H[:, missing:], missing, np.random.default_rng(0))
        assert len(np.unique(patterns, axis=0)) >= fewest * len(patterns)


def test_an_unknown_offset_is_a_column_of_ones():
    data = world(m=5)
    Q = space_of(np.hstack([np.ones((60, 1)), data.Y + 3.0]))
    found = pursue_units(data.X, Q, 4, rng=np.random.default_rng(1))
    assert unit_distance(found.V, data.network).max() < 1e-11


def test_known_units_come_back_first_and_are_not_found_again():
    data = world()
    known = np.hstack([data.network.W, data.network.b[:, None]])[:2] * 3.0
    found = pursue_units(data.X, space_of(data.Y), 4, rng=np.random.default_rng(1), known=known)
    assert len(found.V) == 4
    assert (
        unit_distance(found.V[:2], TwoLayerNetwork(known[:, :-1], known[:, -1], np.ones((1, 2)))).max()
        < 1e-12
    )
    assert unit_distance(found.V, data.network).max() < 1e-11


def test_a_random_column_space_holds_no_unit_and_the_search_gives_up():
    rng = np.random.default_rng(2)
    X, Q = rng.standard_normal((60, 6)), linalg.orth(rng.standard_normal((60, 4)))
    found = pursue_units(X, Q, 4, rng=np.random.default_rng(3), hopeless_after=128)
    assert found.V.shape == (0, 7)
    assert found.starts == 128


def test_every_unit_returned_lies_in_the_column_space_even_at_the_limit():
    """With few rows there are false units; each must still be an exact ReLU column of the space."""
    data = world(n=14, seed=3)
    Q = space_of(data.Y)
    found = pursue_units(data.X, Q, 6, rng=np.random.default_rng(0), max_starts=512)
    assert len(found.V) >= 1
    H = np.maximum(augment(data.X) @ found.V.T, 0.0)
    sines = np.linalg.norm(H - Q @ (Q.T @ H), axis=0) / np.linalg.norm(H, axis=0)
    assert sines.max() < 1e-8


def test_dependent_inputs_leave_no_infinity():
    data = world(d=5)
    X = np.hstack([data.X, data.X[:, :1] + data.X[:, 1:2]])
    found = pursue_units(X, space_of(data.Y), 4, rng=np.random.default_rng(0))
    assert len(found.V) == 4
    assert np.isfinite(found.V).all()
    H = np.maximum(augment(X) @ found.V.T, 0.0)
    truth = np.maximum(data.network.preactivations(data.X), 0.0)
    angles = (H / np.linalg.norm(H, axis=0)).T @ (truth / np.linalg.norm(truth, axis=0))
    np.testing.assert_allclose(angles.max(axis=0), 1.0, rtol=0, atol=1e-12)


def test_the_same_stream_gives_the_same_bits():
    data = world()
    one, two = (pursue_units(data.X, space_of(data.Y), 4, rng=np.random.default_rng(8)) for _ in range(2))
    np.testing.assert_array_equal(one.V, two.V)
    assert one.starts == two.starts


def test_progress_is_told_what_was_found():
    data, told = world(), []
    pursue_units(
        data.X,
        space_of(data.Y),
        4,
        rng=np.random.default_rng(1),
        progress=lambda what, fraction: told.append((what, fraction)),
    )
    assert told[-1][1] == 1.0
    assert "4 of 4 units" in told[-1][0]


@pytest.mark.parametrize("offset", [False, True])
def test_pursuit_and_null_space_agree(offset):
    """Two routes to the same units: neither knows of the other."""
    data = world(n=300)
    centred = data.Y - data.Y.mean(axis=0) if offset else data.Y
    y = space_of(centred) * np.sqrt(300)
    space = complementarity_null_space(data.X, y, offset=offset)
    assert space.dimension == 4
    V = units_from_null_space(data.X, y, space, offset=offset, rng=np.random.default_rng(0))
    assert unit_distance(V, data.network).max() < 1e-10
    Q = space_of(np.hstack([np.ones((300, 1)), data.Y])) if offset else space_of(data.Y)
    found = pursue_units(data.X, Q, 4, rng=np.random.default_rng(0))
    assert unit_distance(found.V, data.network).max() < 1e-11
