"""Algorithm 1 of [GWZ20] as it is printed: each of its lines, and the theorem where it can be run to its end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planted
from planted._streams import data_streams
from planted.memorization.printed import DescentInput, algorithm_1, descent_constants, draw_from_ball

GIVEN = DescentInput(ell=2.0, rho=1.0, epsilon=0.5, c=1.0, delta=0.1, gap=1.0)


def ignore(t: int, x: Any) -> None:
    pass


def bowl(x: Any) -> tuple[float, Any]:
    return float(np.sum(x * x)) / 2, x


def saddle(x: Any) -> tuple[float, Any]:
    """Return (u⁴ - 2u²)/4 + v²/2: a saddle at zero, minima of -1/4 at u = ±1."""
    u, v = x[0]
    return float((u**4 - 2 * u**2) / 4 + v**2 / 2), np.array([[u**3 - u, v]])


def test_line_1_by_hand() -> None:
    constants = descent_constants(3, GIVEN)
    chi = 3 * max(np.log(3 * 2.0 * 1.0 / (1.0 * 0.25 * 0.1)), 4.0)
    assert constants.step == 0.5
    assert constants.radius == pytest.approx(0.25 / chi**2, rel=1e-12)
    assert constants.gradient_threshold == pytest.approx(0.5 / chi**2, rel=1e-12)
    assert constants.decrease_threshold == pytest.approx(np.sqrt(0.125) / chi**3, rel=1e-12)
    assert constants.wait == pytest.approx(chi * 2.0 / np.sqrt(0.5), rel=1e-12)
    other = descent_constants(3, DescentInput(ell=2.0, rho=3.0, epsilon=0.5, c=0.2, delta=0.1, gap=1.0))
    chi = 3 * max(np.log(3 * 2.0 * 1.0 / (0.2 * 0.25 * 0.1)), 4.0)
    assert other.step == 0.1
    assert other.radius == pytest.approx(np.sqrt(0.2) / chi**2 * 0.25, rel=1e-12)
    assert other.gradient_threshold == pytest.approx(np.sqrt(0.2) / chi**2 * 0.5, rel=1e-12)
    assert other.decrease_threshold == pytest.approx(0.2 / chi**3 * np.sqrt(0.125 / 3.0), rel=1e-12)
    assert other.wait == pytest.approx(chi / 0.04 * 2.0 / np.sqrt(1.5), rel=1e-12)


def test_a_minimum_is_returned_as_it_was_before_the_perturbation() -> None:
    start, noise_times, steps = np.zeros((1, 2)), list[int](), list[int]()
    found = algorithm_1(
        bowl,
        start,
        GIVEN,
        rng=data_streams(1, 1)[0],
        max_iter=10_000,
        watch=lambda t, x: steps.append(t),
        noise_times=noise_times,
    )
    # Lines 4 to 6 apply at once; lines 8 and 9 end it t_thres steps later, at the point of line 5.
    assert noise_times == [0] and len(steps) == int(descent_constants(2, GIVEN).wait)
    assert found is start


def test_a_saddle_is_left() -> None:
    noise_times: list[int] = []
    found = algorithm_1(
        saddle,
        np.zeros((1, 2)),
        DescentInput(ell=2.0, rho=6.0, epsilon=0.1, c=1.0, delta=0.1, gap=1.0),
        rng=data_streams(2, 1)[0],
        max_iter=10_000,
        watch=ignore,
        noise_times=noise_times,
    )
    assert noise_times[0] == 0 and len(noise_times) == 2  # once at the saddle, once at the minimum
    np.testing.assert_allclose(np.abs(found), [[1.0, 0.0]], atol=1e-3)  # g_thres is 1.1e-4


def test_without_a_perturbation_the_steps_are_those_of_gradient_descent() -> None:
    far = np.full((1, 2), 8.0)
    points: list[Any] = []
    last = algorithm_1(
        bowl,
        far,
        GIVEN,
        rng=data_streams(3, 1)[0],
        max_iter=3,
        watch=lambda t, x: points.append(x),
        noise_times=[],
    )
    np.testing.assert_array_equal(np.vstack(points), [[4.0, 4.0], [2.0, 2.0], [1.0, 1.0]])  # η = 1/2
    assert last is points[-1]


def test_the_watcher_may_end_the_run() -> None:
    def stop(t: int, x: Any) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        algorithm_1(
            bowl,
            np.ones((1, 2)),
            GIVEN,
            rng=data_streams(4, 1)[0],
            max_iter=9,
            watch=stop,
            noise_times=[],
        )


def test_draws_are_uniform_in_the_ball() -> None:
    (rng,) = data_streams(5, 1)
    lengths = np.array([np.linalg.norm(draw_from_ball((2, 2), 3.0, rng)) for _ in range(4000)])
    assert lengths.max() <= 3.0
    # (|ξ|/r)⁴ is uniform on [0, 1] in four dimensions: mean 1/2 with standard error 1/√(12 · 4000).
    assert abs(np.mean((lengths / 3.0) ** 4) - 0.5) < 4 / np.sqrt(12 * 4000)


def test_theorem_4_holds_where_its_constants_can_be_run() -> None:
    """One sample of one input: line 9 is reached in some thousands of steps, and the loss is below ε."""
    epsilon = 0.1
    options: dict[str, Any] = {"constants": "theorem", "epsilon": epsilon, "max_iter": 200_000, "tol": 1e-12}
    memory = planted.memorize([[1.0]], [1.0], solver="pgd", random_state=0, **options)
    assert 0 < memory.stats["iterations"] < 200_000  # it ended by itself
    assert memory.stats["perturbations"] >= 2  # at the saddle W = 0, and where it ended
    assert memory.loss <= epsilon


def test_the_next_perturbation_waits_for_more_than_t_thres_steps() -> None:
    """t_thres is six here, and the value falls at every call: after a perturbation at t the next is at t + 7 (line 4)."""
    given = DescentInput(ell=1.0, rho=4.0, epsilon=1.0, c=1.0, delta=0.5, gap=1.0)
    assert descent_constants(2, given).wait == 6.0
    calls: list[int] = []

    def falling(x: Any) -> tuple[float, Any]:
        calls.append(1)
        return -float(len(calls)), np.zeros_like(x)

    noise_times: list[int] = []
    options: dict[str, Any] = {"rng": data_streams(6, 1)[0], "max_iter": 20, "watch": ignore}
    algorithm_1(falling, np.zeros((1, 2)), given, noise_times=noise_times, **options)
    assert noise_times == [0, 7, 14]
