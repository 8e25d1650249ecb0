"""Networks with a linear part: recovered exactly, with noise, and never where the data do not determine them."""

from __future__ import annotations

import numpy as np
import pytest

import planted
from planted import Outcome, TwoLayerNetwork
from planted.checks import Check
from planted.fitting.multistart._orient_units import leak_of
from planted.outcomes import BadInputError


def one_input(k: int, m: int, seed: int) -> tuple[np.ndarray, TwoLayerNetwork]:
    """A network of one input with a slope, and samples that are dense at its kinks."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-3, 3, 20 * (k + 1)) + rng.uniform(-0.01, 0.01, 20 * (k + 1))
    kinks = np.array([(x[20 * i - 1] + x[20 * i]) / 2 for i in range(1, k + 1)])
    W = rng.choice([-1.0, 1.0], (k, 1))
    A = rng.choice([-1.0, 1.0], (m, k)) * rng.uniform(0.5, 1.5, (m, k))
    return x[:, None], TwoLayerNetwork(
        W, -W[:, 0] * kinks, A, rng.standard_normal(m), B=rng.standard_normal((m, 1))
    )


def test_two_x_plus_three_times_a_kink_at_four() -> None:
    x = np.linspace(0, 10, 60)[:, None]
    answer = planted.recover(x, 2 * x + 3 * np.maximum(x - 4, 0), random_state=0)
    assert answer.outcome is Outcome.RECOVERED
    truth = TwoLayerNetwork(W=[[1.0]], b=[-4.0], A=[[3.0]], B=[[2.0]])
    assert planted.parameter_error(answer.network, truth) < 1e-12
    np.testing.assert_allclose(answer.network.B, [[2.0]], rtol=1e-12)
    again = planted.Recovery.from_dict(answer.to_dict())
    np.testing.assert_array_equal(again.network.B, answer.network.B)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("k", [1, 3, 6])
def test_slopes_and_kinks_of_one_input_are_exact(k: int, m: int) -> None:
    X, truth = one_input(k, m, seed=k)
    answer = planted.recover(X, truth(X), random_state=1)
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, truth) < 1e-10


@pytest.mark.parametrize(("d", "k", "m", "n"), [(4, 2, 1, 240), (4, 2, 3, 150), (6, 8, 1, 900)])
def test_several_inputs_are_exact(d: int, k: int, m: int, n: int) -> None:
    data = planted.simulate.dataset(
        n, n_features=d, n_hidden=k, n_outputs=m, activity=(0.3, 0.7), affine=True, random_state=d
    )
    answer = planted.recover(data.X, data.Y, method="restarts", random_state=1)
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, data.network) < 1e-10
    assert answer.network.B is not None


@pytest.mark.parametrize("seed", range(3))
def test_a_network_without_a_linear_part_gets_none(seed: int) -> None:
    data = planted.simulate.dataset(
        800, n_features=4, n_hidden=2, activity=(0.3, 0.7), noise=0.05 * (seed > 0), random_state=seed
    )
    answer = planted.recover(data.X, data.Y, method="restarts", random_state=1)
    plain = planted.recover(data.X, data.Y, method="restarts", affine=False, random_state=1)
    assert answer.network.B is None
    for name in "WbAc":
        np.testing.assert_array_equal(getattr(answer.network, name), getattr(plain.network, name))
    assert answer.outcome is plain.outcome


@pytest.mark.parametrize("slope", [0.1, -1])
def test_leaky_units_are_named(slope: float) -> None:
    activation = "absolute" if slope == -1 else f"leaky-relu:{slope}"
    truth = planted.simulate.teacher(6, 3, 1, activity=(0.3, 0.7), activation=activation, random_state=2)
    X = np.random.default_rng(0).standard_normal((300, 6))
    answer = planted.recover(X, truth(X), method="restarts", random_state=1)
    assert answer.outcome is Outcome.RECOVERED
    (line,) = answer.find(Check.LEAK)
    assert line.measured == pytest.approx(slope, abs=1e-10)
    drawn = planted.simulate.dataset(
        300, n_features=6, n_hidden=3, activity=(0.3, 0.7), affine=True, random_state=2
    )
    assert not planted.recover(drawn.X, drawn.Y, method="restarts", random_state=1).find(Check.LEAK)


@pytest.mark.parametrize(("d", "k", "m"), [(3, 5, 1), (2, 4, 2), (2, 2, 1)])
def test_dependent_leaky_units_are_named_too(d: int, k: int, m: int) -> None:
    rng = np.random.default_rng([d, k])
    slope = float(rng.uniform(0.01, 0.5))
    truth = planted.simulate.teacher(d, k, m, activation=f"leaky-relu:{slope}", random_state=d)
    # f(t) = (1 - α) max(t, 0) + α t: the same function with a linear part, units turned at random.
    signs = rng.choice([-1.0, 1.0], k)
    A = (1 - slope) * truth.A
    B = slope * truth.A @ truth.W + (A * (signs < 0)) @ truth.W
    c = truth.c + slope * truth.A @ truth.b + (A * (signs < 0)) @ truth.b
    same = TwoLayerNetwork(truth.W * signs[:, None], truth.b * signs, A, c, B=B)
    X = rng.standard_normal((50, d))
    np.testing.assert_allclose(same(X), truth(X), atol=1e-12)
    assert leak_of(same) == pytest.approx(slope, abs=1e-10)
    other = TwoLayerNetwork(same.W, same.b, A, c, B=B + 0.01 * rng.standard_normal(B.shape))
    assert leak_of(other) is None


@pytest.mark.parametrize("seed", range(3))
def test_noise_keeps_the_linear_part_and_its_standard_errors(seed: int) -> None:
    data = planted.simulate.dataset(
        1500, n_features=3, n_hidden=2, activity=(0.3, 0.7), affine=True, noise=0.02, random_state=seed
    )
    answer = planted.recover(data.X, data.Y, method="restarts", affine=True, random_state=1)
    assert answer.outcome is Outcome.RECOVERED
    errors = answer.uncertainty.standard_errors
    form = planted.match_units(answer.network, data.network)
    assert np.abs(form.network.B - form.truth.B).max() < 5 * errors["B"].max()
    assert errors["B"].shape == (1, 3)


def test_in_noise_a_linear_part_is_claimed_only_where_one_is_known() -> None:
    data = planted.simulate.dataset(
        1500, n_features=3, n_hidden=2, activity=(0.3, 0.7), affine=True, noise=0.02, random_state=0
    )
    answer = planted.recover(data.X, data.Y, random_state=1)
    assert answer.outcome is Outcome.FITTED and "affine=True" in answer.detail
    assert answer.fails_only(Check.KNOWN_LINEAR_PART)
    assert planted.parameter_error(answer.network, data.network) < 0.02


def test_a_unit_that_is_always_on_is_no_linear_part_of_a_network_that_was_counted() -> None:
    rng = np.random.default_rng(3)
    truth = planted.simulate.teacher(4, 3, 1, activity=(0.3, 0.7), random_state=3)
    b = truth.b.copy()
    b[0] = 50.0
    truth = TwoLayerNetwork(truth.W, b, truth.A)
    X = rng.standard_normal((300, 4))
    told = planted.recover(X, truth(X), 3, method="restarts", random_state=1)
    assert told.outcome is Outcome.NOT_IDENTIFIABLE
    found = planted.recover(X, truth(X), method="restarts", random_state=1)
    assert found.network.n_hidden == 2
    np.testing.assert_allclose(found.network(X), truth(X), atol=1e-9)


def test_affine_is_checked() -> None:
    X = np.random.default_rng(0).standard_normal((50, 2))
    with pytest.raises(BadInputError, match="affine"):
        planted.recover(X, X[:, :1], affine="maybe")
    with pytest.raises(BadInputError, match="affine"):
        planted.recover(X, X[:, :1], method="hermite", affine=True)


@pytest.mark.parametrize(("m", "noise"), [(1, 0.0), (4, 0.0), (1, 0.02)])
def test_blocks_of_rows_give_the_answer_of_one_array(m: int, noise: float) -> None:
    data = planted.simulate.dataset(
        700,
        n_features=3,
        n_hidden=2,
        n_outputs=m,
        activity=(0.3, 0.7),
        affine=True,
        noise=noise,
        random_state=4,
    )
    whole = planted.recover(data.X, data.Y, affine=True, random_state=1)
    parts = planted.recover(
        planted.RowBlocks.from_arrays(data.X, data.Y, block_rows=64), affine=True, random_state=1
    )
    assert parts.outcome is whole.outcome
    assert noise or whole.outcome is Outcome.RECOVERED
    for name in "WbABc":
        np.testing.assert_allclose(
            getattr(parts.network, name), getattr(whole.network, name), rtol=1e-9, atol=1e-10
        )


@pytest.mark.parametrize("loss", ["cauchy", "auto"])
def test_outliers_do_not_move_the_linear_part(loss: str) -> None:
    data = planted.simulate.dataset(
        900, n_features=3, n_hidden=2, activity=(0.3, 0.7), affine=True, noise=0.02, random_state=2
    )
    Y = data.Y.copy()
    Y[::25] += 30.0 * np.random.default_rng(5).standard_normal((len(Y[::25]), 1))
    robust = planted.recover(data.X, Y, 2, method="restarts", loss=loss, affine=True, random_state=1)
    squared = planted.recover(data.X, Y, 2, method="restarts", affine=True, random_state=1)
    error, plain = (planted.parameter_error(item.network, data.network) for item in (robust, squared))
    assert robust.network.B is not None
    assert error < 0.05 < plain


@pytest.mark.parametrize("seed", [5, 6, 77])
def test_units_that_stand_for_one_another_are_one(seed: int) -> None:
    """One kink beside a slope; at the last seed the path of widths ends at three units, two of them superfluous."""
    rng = np.random.default_rng([seed, 1])
    d, n = int(rng.integers(2, 4)), int(rng.integers(200, 500))
    X = rng.uniform(0, 10, (n, d)) * np.where(np.arange(d) == 0, 8.0, 1.0)
    slope, change, place = rng.uniform(-0.1, 0.1, d), rng.choice([-1.5, 1.5]), rng.uniform(3, 7)
    found = planted.recover(X, X @ slope + change * np.maximum(X[:, 1] - place, 0), random_state=seed % 5)
    truth = planted.TwoLayerNetwork([np.eye(d)[1]], [-place], [[change]], B=[slope])
    assert found.outcome is planted.Outcome.RECOVERED and found.network.n_hidden == 1
    assert planted.parameter_error(found.network, truth) < 1e-9
