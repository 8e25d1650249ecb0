"""A network beside the mean and a straight line: the same numbers as refitting fold by fold."""

from __future__ import annotations

import numpy as np
import pytest

from planted import TwoLayerNetwork
from planted.moments import beside_simple_models


@pytest.mark.parametrize("seed", range(3))
def test_the_errors_are_those_of_cross_validation(seed: int) -> None:
    rng = np.random.default_rng([31, seed])
    n, d, m = int(rng.integers(40, 90)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-2, 3, d) + rng.normal(0, 50, d)
    network = TwoLayerNetwork(rng.standard_normal((2, d)), A=rng.standard_normal((m, 2)))
    Y = network(X) + rng.standard_normal((n, m))
    mean, line, net = beside_simple_models(network, X, Y)
    folds = np.random.default_rng(0).permutation(n) % 10
    errors = np.zeros(2)
    for fold in range(10):
        train, test = folds != fold, folds == fold
        design = np.column_stack([X, np.ones(n)])
        slopes = np.linalg.lstsq(design[train], Y[train], rcond=None)[0]
        errors += [
            ((Y[test] - Y[train].mean(axis=0)) ** 2).sum(),
            ((Y[test] - design[test] @ slopes) ** 2).sum(),
        ]
    np.testing.assert_allclose([mean["error"], line["error"]], np.sqrt(errors / (n * m)), rtol=1e-8)
    slopes = np.linalg.lstsq(design, Y, rcond=None)[0]
    total = ((Y - Y.mean(axis=0)) ** 2).sum()
    assert line["r2"] == pytest.approx(1 - ((Y - design @ slopes) ** 2).sum() / total, abs=1e-9)
    assert net["r2"] == pytest.approx(1 - ((Y - network(X)) ** 2).sum() / total, abs=1e-12)
    assert line["parameters"] == m * (d + 1) and net["parameters"] == network.n_parameters
    assert beside_simple_models(network, X, Y, held_out_mse=4.0)[2]["error"] == 2.0


def test_no_comparison_without_a_scale_or_rows() -> None:
    network = TwoLayerNetwork([[1.0]], A=[[1.0]])
    X = np.arange(30.0)[:, None]
    assert beside_simple_models(network, X, np.ones((30, 1))) == []
    assert beside_simple_models(network, X[:5], X[:5]) == []
