"""Units beside a linear part read from one null space: exact, unique, and refused where the samples do not say."""

from __future__ import annotations

import numpy as np
import pytest

import planted
from planted import Outcome, TwoLayerNetwork
from planted.checks import Check
from planted.fitting.units._null_units import scaled_null_space
from planted.methods.complementarity.linear_part import _products, bent_units


def columns(d: int, k: int) -> int:
    return k * (k + 1) // 2 + k * (d + 1) + (d + 1) * (d + 2) // 2


def world(d: int, k: int, m: int, seed: int, *, times: float = 1.5, **options):
    n = int(np.ceil(times * columns(d, k)))
    return planted.simulate.dataset(
        n, n_features=d, n_hidden=k, n_outputs=m, activity=(0.3, 0.7), random_state=seed, **options
    )


@pytest.mark.parametrize("law", ["gaussian", "exponential", "uniform"])
@pytest.mark.parametrize(("d", "k", "m", "times"), [(10, 6, 7, 1.5), (5, 4, 4, 2.5), (3, 2, 9, 3)])
def test_exact_and_unique_from_few_samples(d: int, k: int, m: int, times: float, law: str) -> None:
    data = world(d, k, m, seed=d + k, times=times, law=law, affine=True)
    answer = planted.recover(data.X, data.Y, method="complementarity", random_state=0)
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, data.network) < 1e-10
    assert all(line.passed for key in (Check.NULL_SPACE, Check.NULL_SPACE_GAP) for line in answer.find(key))
    assert "no other network of this width" in answer.detail


def test_the_reading_is_that_of_the_equations() -> None:
    data = world(4, 3, 3, seed=0, times=3, affine=True)
    rows = np.column_stack([data.X, np.ones(len(data.X))])
    y = data.Y - rows @ np.linalg.lstsq(rows, data.Y, rcond=None)[0]
    space = scaled_null_space(_products(rows, y))
    assert space.dimension == 3
    V = bent_units(space, 5, np.random.default_rng(1))
    V /= np.linalg.norm(V[:, :-1], axis=1)[:, None]
    truth = np.column_stack([data.network.W, data.network.b])
    truth /= np.linalg.norm(truth[:, :-1], axis=1)[:, None]
    apart = [min(np.abs(V - s * unit).max(axis=1).min() for s in (-1, 1)) for unit in truth]
    assert max(apart) < 1e-9


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("m", [3, 4])
def test_a_network_without_a_linear_part_keeps_its_answer(m: int, noise: float) -> None:
    data = world(5, 3, m, seed=m, times=4, noise=noise)
    answer = planted.recover(data.X, data.Y, method="complementarity", random_state=1)
    plain = planted.recover(data.X, data.Y, method="complementarity", affine=False, random_state=1)
    assert answer.outcome is plain.outcome is Outcome.RECOVERED
    assert answer.network.B is None
    for name in "WbAc":
        np.testing.assert_array_equal(getattr(answer.network, name), getattr(plain.network, name))


def test_units_that_are_always_on_are_not_claimed_to_be_a_linear_part() -> None:
    rng = np.random.default_rng(3)
    drawn = planted.simulate.teacher(5, 4, 6, activity=(0.3, 0.7), random_state=3)
    b = drawn.b.copy()
    b[:2] = 60.0
    truth = TwoLayerNetwork(drawn.W, b, drawn.A, drawn.c)
    X = rng.standard_normal((300, 5))
    answer = planted.recover(X, truth(X), method="complementarity", random_state=0)
    assert answer.outcome is not Outcome.RECOVERED
    known = planted.recover(X, truth(X), method="complementarity", affine=True, random_state=0)
    assert known.outcome is Outcome.RECOVERED and known.network.n_hidden == 2
    np.testing.assert_allclose(known.network(X), truth(X), atol=1e-9)


@pytest.mark.parametrize(("affine", "seed"), [("auto", 5), (True, 5), (True, 6)])
def test_units_are_pursued_where_there_are_fewer_samples_than_products(affine: bool | str, seed: int) -> None:
    data = world(10, 6, 7, seed, times=0.5, affine=True)
    answer = planted.recover(data.X, data.Y, method="complementarity", affine=affine, random_state=0)
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, data.network) < 1e-10
    assert not answer.find(Check.NULL_SPACE)


def test_noisy_samples_of_a_known_linear_part_show_the_number_of_units() -> None:
    data = world(4, 2, 3, seed=1, times=8, affine=True, noise=0.01)
    answer = planted.recover(data.X, data.Y, method="complementarity", affine=True, random_state=0)
    (rank,) = answer.find(Check.SIGNAL_RANK)
    assert rank.measured == answer.network.n_hidden == 2
    assert answer.outcome is Outcome.RECOVERED
    noise = 0.01 / np.sqrt(len(data.X))
    assert planted.parameter_error(answer.network, data.network) < 40 * noise


def test_no_noise_is_promised_and_there_is_some() -> None:
    noisy = world(4, 2, 3, seed=1, times=4, affine=True, noise=0.01)
    few = world(4, 2, 3, seed=1, times=0.3, affine=True)
    for data in (noisy, few):
        answer = planted.recover(
            data.X, data.Y, method="complementarity", affine=True, noise="none", random_state=0
        )
        assert answer.network is None and "restarts" in answer.detail
