"""The instrumental-variable start: its two covariances, and that it points at the planted units."""

import numpy as np
import pytest
from scipy import linalg

from planted import simulate
from planted._clock import StopRequested, time_budget
from planted.fitting.units import _instruments
from planted.fitting.units._null_units import complementarity_features


@pytest.fixture
def planted_data():
    return simulate.dataset(
        6000, n_features=5, n_hidden=3, n_outputs=4, noise=0.05, activity=(0.35, 0.65), random_state=3
    )


def test_covariances_are_those_of_the_projected_features():
    rng = np.random.default_rng(5)
    X, y, fitted = rng.standard_normal((300, 3)), rng.standard_normal((300, 2)), rng.standard_normal((300, 2))
    basis = linalg.qr(np.hstack([np.ones((300, 1)), X]), mode="economic")[0]
    explained, total = _instruments._covariances(X, y, basis, fitted)
    q = complementarity_features(X, y)
    q = q - q.mean(axis=0)
    Q = linalg.orth(np.hstack([basis, complementarity_features(X, fitted)]))
    np.testing.assert_allclose(total, q.T @ q, atol=1e-9)
    np.testing.assert_allclose(explained, (Q.T @ q).T @ (Q.T @ q), atol=1e-7)


def test_constant_instruments_are_left_out():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((200, 3)), rng.standard_normal((200, 2))
    basis = np.hstack([np.full((200, 1), 200**-0.5), np.zeros((200, 1)), linalg.orth(X - X.mean(axis=0))])
    explained, _ = _instruments._covariances(X, y, basis, y)
    without, _ = _instruments._covariances(X, y, np.delete(basis, 1, axis=1), y)
    np.testing.assert_allclose(explained, without, atol=1e-9)


@pytest.mark.parametrize("wobble", [0.0, 1e-10, 1e-8, 1e-4])
def test_a_first_stage_that_is_almost_constant_breaks_nothing(wobble):
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((300, 4)), 5 + rng.standard_normal((300, 2))
    X[:, 3] = X[:, 0]
    basis = linalg.qr(np.hstack([np.ones((300, 1)), X[:, :3]]), mode="economic")[0]
    explained, total = _instruments._covariances(X, y, basis, 5 + wobble * y)
    share = linalg.eigvalsh(explained).max() / linalg.eigvalsh(total).max()
    # What instruments explain is a part of the whole, to the half of the digits that a Gram matrix keeps.
    assert 0 < share <= 1 + np.sqrt(np.finfo(float).eps)


def test_blocks_of_rows_do_not_change_the_start(planted_data, monkeypatch):
    X, Y = planted_data.X, planted_data.Y
    stage = _instruments.first_stage(X, Y, np.random.default_rng(0))
    starts = []
    for rows in (512, 100_000):
        monkeypatch.setattr(_instruments, "BLOCK_ROWS", rows)
        starts.append(_instruments.instrumental_start(X, Y, 3, stage=stage, rng=np.random.default_rng(1)))
    np.testing.assert_allclose(*starts, rtol=1e-6)


def test_start_points_at_the_units(planted_data):
    X, Y, network = planted_data.X, planted_data.Y, planted_data.network
    stage = _instruments.first_stage(X, Y, np.random.default_rng(0))
    assert _instruments.rank_of_signal(stage) == 3
    V = _instruments.instrumental_start(X, Y - network.c, 3, stage=stage, rng=np.random.default_rng(1))
    cosines = V[:, :-1] @ (network.W / np.linalg.norm(network.W, axis=1, keepdims=True)).T
    assert sorted(cosines.argmax(axis=0)) == [0, 1, 2]
    assert cosines.max(axis=0).min() > 0.97


def test_start_looks_at_the_clock(planted_data):
    X, Y = planted_data.X, planted_data.Y
    stage = _instruments.first_stage(X, Y, np.random.default_rng(0))
    with time_budget(0.0), pytest.raises(StopRequested):
        _instruments.instrumental_start(X, Y, 3, stage=stage, rng=np.random.default_rng(1))
