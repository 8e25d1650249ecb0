"""Outputs that do not depend on the inputs: the mean predicts best, and a network without units goes everywhere."""

import numpy as np
import pytest

import planted
from planted.reporting import summarise


@pytest.mark.parametrize("seed", range(4))
def test_white_noise_is_predicted_by_its_mean(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((300, 6)), rng.standard_normal((300, 2)) + rng.uniform(-5, 5, 2)
    found = planted.recover(X, Y, method="small-network", random_state=0)
    assert found.outcome is planted.Outcome.FITTED
    fresh, level = rng.standard_normal((500, 6)), Y.var(axis=0)
    assert (np.abs(found.network(fresh) - Y.mean(axis=0)) <= 0.5 * np.sqrt(level)).all()
    if not found.network.n_hidden:
        np.testing.assert_allclose(found.network(fresh[:1])[0], Y.mean(axis=0), rtol=1e-12)


def test_a_network_without_units_is_reported_saved_and_exported(tmp_path):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((200, 3)), rng.standard_normal(200)
    found = planted.recover(X, y, method="small-network", random_state=0)
    assert found.network.n_hidden == 0
    assert "constant" in str(summarise(found, data=(X, y)).sections)
    found.network.save(tmp_path / "n.safetensors")
    loaded = planted.load_network(tmp_path / "n.safetensors")
    np.testing.assert_array_equal(loaded(X), found.network(X))
    planted.export_network(found.network, tmp_path / "n.onnx", to="onnx")
    again = planted.import_network(tmp_path / "n.onnx")
    np.testing.assert_allclose(again(X), found.network(X), rtol=1e-6)
