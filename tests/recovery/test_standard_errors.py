"""Sandwich, model and bootstrap standard errors against repeated fits."""

from typing import Any

import numpy as np
import pytest

import planted
from planted import simulate
from planted.fitting._refine import refine
from planted.outcomes import BadInputError

NET = simulate.teacher(3, 2, 2, activity=(0.4, 0.6), random_state=4).canonical()


def sample(seed: int, n: int = 600, *, spread: Any = 0.1) -> tuple[np.ndarray, np.ndarray]:
    X = simulate.inputs(n, 3, random_state=seed)
    noise = np.random.default_rng(50_000 + seed).standard_normal((n, 2))
    return X, NET(X) + spread * noise


def fitted(X: np.ndarray, Y: np.ndarray) -> planted.TwoLayerNetwork:
    answer = planted.recover(X, Y, 2, method="complementarity", noise="present", offset=False, random_state=0)
    assert answer.network is not None
    return answer.network


def test_all_kinds_agree_under_equal_noise() -> None:
    X, Y = sample(0)
    net = fitted(X, Y)
    kinds = {
        kind: planted.standard_errors(net, X, Y, kind=kind, n_boot=150, random_state=1)
        for kind in ("model", "sandwich", "bootstrap")
    }
    for name in "WbA":
        model = kinds["model"].standard_errors[name]
        # A standard error from 600 rows of two outputs is itself known to some 10 %, one from 150 refits to 6 %.
        assert np.allclose(kinds["sandwich"].standard_errors[name], model, rtol=0.4)
        assert np.allclose(kinds["bootstrap"].standard_errors[name], model, rtol=0.5)
    assert [value.kind for value in kinds.values()] == ["model", "sandwich", "bootstrap"]


def test_model_errors_are_those_of_the_recovery() -> None:
    X, Y = sample(1)
    answer = planted.recover(X, Y, 2, method="complementarity", noise="present", offset=False, random_state=0)
    again = planted.standard_errors(answer.network, X, Y, kind="model")
    for name in "WbA":
        assert np.allclose(again.standard_errors[name], answer.uncertainty.standard_errors[name], rtol=1e-3)


def test_sandwich_covers_under_unequal_noise_and_the_model_does_not() -> None:
    inside: dict[str, list[float]] = {"model": [], "sandwich": []}
    for seed in range(80):
        X, Y = sample(100 + seed, n=1200, spread=np.array([0.2, 0.01]))
        net = refine(planted.RowBlocks.from_arrays(X, Y), NET, offset=False).network
        for kind, hits in inside.items():
            errors = planted.standard_errors(net, X, Y, kind=kind).standard_errors
            hits.append(float((np.abs(net.A[0] - NET.A[0]) < 1.96 * errors["A"][0]).mean()))
    coverage = {kind: float(np.mean(hits)) for kind, hits in inside.items()}
    spread = float(np.std(inside["sandwich"])) / np.sqrt(80)
    assert abs(coverage["sandwich"] - 0.95) < 4 * spread
    # The model spreads the noise of both outputs evenly: its interval for the first is too short by a factor of 1.4.
    assert coverage["model"] < coverage["sandwich"] - 2 * spread


def test_unknown_kinds_are_refused() -> None:
    X, Y = sample(2)
    with pytest.raises(BadInputError, match="kind='magic'; expected one of 'model', 'sandwich', 'bootstrap'"):
        planted.standard_errors(NET, X, Y, kind="magic")


def test_a_line_without_units_has_the_errors_of_least_squares() -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(1, 5, (200, 2))
    y = X @ rng.standard_normal(2) + 0.3 * X[:, 0] * rng.standard_normal(200)
    line = planted.TwoLayerNetwork(np.zeros((0, 2)), A=np.zeros((1, 0)), B=np.zeros((1, 2)))
    found = planted.standard_errors(line, X, y).standard_errors
    columns = np.column_stack([np.ones(200), X])
    inverse = np.linalg.pinv(columns)
    rest = (y - columns @ (inverse @ y)) / (1 - np.einsum("ij,ji->i", columns, inverse))
    expected = np.linalg.norm(inverse * rest, axis=1)  # HC3
    np.testing.assert_allclose([found["c"][0], *found["B"][0]], expected, rtol=1e-9)
