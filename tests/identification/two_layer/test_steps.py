"""The steps of identification on functions worked out by hand, and what happens when an oracle misbehaves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from planted import Outcome, TwoLayerNetwork, identify, parameter_error, simulate
from planted.identification import OracleError, as_oracle
from planted.identification._rounding import Rounding, calibrate_rounding
from planted.identification.two_layer._breakpoints import find_breakpoints
from planted.identification.two_layer._gradient_jumps import (
    _gradients_beside_line,
    _gradients_with_long_steps,
    _longest_steps,
)
from planted.identification.two_layer._jumps import Jumps
from planted.identification.two_layer._orientation import orient_units
from planted.outcomes import BadInputError, FileFormatError

NET = simulate.teacher(5, 3, 2, bias=(-0.5, 0.5), random_state=6)


def fine(t: np.ndarray) -> np.ndarray:
    return np.full((len(t), 1), 4e-15)


def test_breakpoints_of_opposite_bends_whose_lines_meet_outside_them() -> None:
    # The outer lines meet at t = 0.5, beyond both breaks: the value there lies on both and proves nothing.
    kinks = np.array([0.1, 0.2])
    scan = find_breakpoints(
        lambda t: (np.maximum(t - kinks[0], 0) - 0.75 * np.maximum(t - kinks[1], 0))[:, None],
        np.linspace(-1, 1, 5),
        noise=fine,
    )
    np.testing.assert_allclose(scan.breakpoints, kinks, rtol=1e-12)
    assert scan.is_complete and not scan.jumps


def test_breakpoints_very_close_to_each_other() -> None:
    kinks = np.array([0.3, 0.3 + 1e-7, 0.31])
    scan = find_breakpoints(
        lambda t: np.maximum(t[:, None] - kinks, 0) @ np.array([[1.0], [2.0], [-1.0]]),
        np.linspace(-1, 1, 5),
        noise=fine,
    )
    np.testing.assert_allclose(scan.breakpoints, kinks, atol=1e-12)


def test_a_jump_is_found_as_such() -> None:
    scan = find_breakpoints(lambda t: (t > 0.3).astype(float)[:, None], np.linspace(-1, 1, 9), noise=fine)
    assert len(scan.jumps) == 1 and abs(scan.jumps[0] - 0.3) < 1e-3


def test_a_curve_has_no_end() -> None:
    scan = find_breakpoints(lambda t: np.sin(t)[:, None], np.linspace(-1, 1, 9), noise=fine, max_points=500)
    assert not scan.is_complete and scan.n_points <= 500


def test_rounding_tells_double_from_single_and_curves() -> None:
    rng = np.random.default_rng(0)
    centres, far = rng.standard_normal((3, 5)), 1e6 * rng.standard_normal((2, 5))
    double = calibrate_rounding(NET, centres, far=far, rng=rng)
    single = calibrate_rounding(
        lambda X: NET(X.astype(np.float32)).astype(np.float32), centres, far=far, rng=rng
    )
    curved = calibrate_rounding(lambda X: np.tanh(NET(X)), centres, far=far, rng=rng)
    assert double.relative < 1e-14 and 1e-9 < single.relative < 1e-5
    assert not double.is_curved and not single.is_curved and curved.is_curved


def test_a_breakpoint_in_a_far_segment_is_no_rounding() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        centres, far = rng.standard_normal((3, 5)), 1e6 * rng.standard_normal((2, 5))
        w = rng.standard_normal(5)
        b = -(far[1] @ w) * (
            1 + 1e-6 * rng.uniform(0.5, 1.0)
        )  # a breakpoint cuts the second far segment alone

        def bent(X: np.ndarray, w: np.ndarray = w, b: float = b) -> np.ndarray:
            return np.abs(X @ w + b)[:, None] + X[:, :1]

        found = calibrate_rounding(bent, centres, far=far, rng=rng)
        assert found.relative < 1e-13 and not found.is_curved


def hand_jumps(strengths: list[float]) -> Jumps:
    eye = np.eye(3)[:, :2].copy()
    eye[2] = [0.6, 0.8]
    k = len(strengths)
    return Jumps(
        eye[:k], np.zeros(k), np.array([strengths]), np.full(k, 1e-14), np.zeros((k, 2)), np.zeros((k, 2))
    )


def test_orientation_by_least_squares_with_a_two_sided_unit() -> None:
    # z = (1, 0.25): the second hyperplane carries a quarter of its strength ahead and three quarters behind.
    answer = orient_units(hand_jumps([2.0, 4.0]), np.array([[2.0, 1.0]]), error=1e-14)
    assert answer.shares is not None and answer.is_unique
    np.testing.assert_allclose(answer.shares, [1.0, 0.25], atol=1e-12)
    assert answer.doubled.tolist() == [False, True]


def test_orientation_with_more_units_than_equations() -> None:
    # 1 (1,0) + 0 (0,2) + 1 (0.6,0.8) = (1.6, 0.8), and no other corner of the cube gives it.
    answer = orient_units(hand_jumps([1.0, 2.0, 1.0]), np.array([[1.6, 0.8]]), error=1e-14)
    assert answer.shares is not None and answer.shares.tolist() == [1.0, 0.0, 1.0]


def test_orientation_reports_a_linear_part_no_unit_explains() -> None:
    answer = orient_units(hand_jumps([2.0]), np.array([[2.0, 1.0]]), error=1e-14)
    assert answer.residual > 0.1


class Counted:
    """A network that counts its questions."""

    def __init__(self, network: Callable[[np.ndarray], np.ndarray]) -> None:
        self.network, self.asked = network, 0

    def __call__(self, X: np.ndarray) -> np.ndarray:
        self.asked += len(X)
        return self.network(X)


def in_one_region(seed: int, d: int) -> tuple[TwoLayerNetwork, np.ndarray, np.ndarray]:
    """A network, places at which none of its units switches nearby, and its gradients there."""
    net = simulate.teacher(d, 4, 2, bias=(-0.5, 0.5), random_state=seed)
    places = np.random.default_rng([seed, 1]).standard_normal((200, d))
    places = places[np.abs(net.preactivations(places)).min(axis=1) > 0.1][:3]
    gradients = np.einsum("mk,pk,kd->pmd", net.A, net.preactivations(places) > 0, net.W)
    return net, places, gradients


@pytest.mark.parametrize("seed", range(4))
def test_gradients_beside_a_line_take_one_question_for_each_coordinate(seed: int) -> None:
    d = 6
    net, places, gradients = in_one_region(seed, d)
    direction = np.full(d, d**-0.5)
    rounding = Rounding(np.full(2, 4e-15), 1.0, is_curved=False, relative=1e-15)
    ask = Counted(net)
    found, errors = _gradients_beside_line(
        ask, places, np.full(len(places), 1e-2), direction, gradients @ direction, rounding=rounding
    )
    assert ask.asked == len(places) * (d + 1)
    assert (np.abs(found - gradients) <= 4 * errors).all() and errors.max() < 1e-8


def test_a_constant_output_costs_no_question() -> None:
    net = simulate.teacher(20, 8, 1, bias=(-0.5, 0.5), random_state=3)
    both = identify(lambda X: np.column_stack([net(X), np.full(len(X), 2.5)]), 20, random_state=5)
    one = identify(net, random_state=5)
    assert both.outcome is one.outcome is Outcome.RECOVERED
    assert both.stats["queries"] <= one.stats["queries"] + 30


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [4e-15, 1e-7])
def test_a_break_that_a_step_crosses_shortens_it(seed: int, level: float) -> None:
    # One hyperplane stands 2e-6 away along the first coordinate: nearer than the first steps of exact answers are long.
    d, coarse = 5, level > 1e-10
    rng = np.random.default_rng(seed)
    w, gap = rng.standard_normal(d), 0.02 if coarse else 2e-6
    base = rng.standard_normal((1, d))
    slope = rng.standard_normal((1, d))

    def bent(X: np.ndarray) -> np.ndarray:
        return X @ slope.T + np.maximum(X[:, :1] - base[0, 0] - gap, 0) * 3

    direction = w / np.linalg.norm(w)
    rounding = Rounding(np.array([level]), 1.0, is_curved=False, relative=level)
    found, errors = _gradients_beside_line(
        bent, base, np.array([0.1]), direction, (slope @ direction)[None], rounding=rounding
    )
    assert (np.abs(found[0] - slope) <= 4 * errors[0]).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_centre_of_a_simplex_shows_a_break_within_it(seed: int) -> None:
    d = 5
    net, places, gradients = in_one_region(seed, d)
    rounding = Rounding(np.full(2, 4e-15), 1.0, is_curved=False, relative=1e-15)
    hyperplanes = Jumps(net.W, net.b, net.A, np.full(4, 1e-15), np.zeros((4, d)), np.zeros((4, d)))
    steps = np.stack([_longest_steps(hyperplanes, place, np.zeros(4), np.inf) for place in places])
    steps = np.clip(steps, -3.0, 3.0)
    for part, is_free in ((0.9, True), (1.2, False)):
        _, _, found, errors, agree = _gradients_with_long_steps(
            net, places, part * steps, rounding=rounding, snap=lambda X: X
        )
        crossed = [
            np.ptp(np.sign(net.preactivations(place + np.diag(part * step))), axis=0).any()
            for place, step in zip(places, steps, strict=True)
        ]
        assert agree.tolist() == [not any_crossed for any_crossed in crossed]
        if is_free:
            assert agree.all() and (np.abs(found - gradients) <= 4 * errors).all()
        else:
            assert any(crossed)


@pytest.mark.parametrize(("shape", "most"), [((10, 5, 1), 10.3), ((20, 10, 2), 7.0), ((40, 20, 4), 4.5)])
def test_two_layers_take_few_questions(shape: tuple[int, int, int], most: float) -> None:
    asked = []
    for seed in range(5):
        net = simulate.teacher(*shape, bias=(-0.5, 0.5), random_state=seed)
        found = identify(net, random_state=100 + seed)
        assert found.outcome is Outcome.RECOVERED and found.network is not None
        assert parameter_error(found.network, net) < 1e-11
        asked.append(found.stats["queries"] / net.canonical().n_parameters)
    assert np.median(asked) <= most


def test_log_is_kept_and_reused(tmp_path: Path) -> None:
    log = tmp_path / "queries.log"
    calls = 0

    def failing(X: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls > 6:
            raise ConnectionError("the line is dead")
        return NET(X)

    with pytest.raises(
        OracleError, match=r"raised ConnectionError after \d+ answers: the line is dead.*queries.log"
    ):
        identify(failing, 5, log=log, random_state=0)
    kept = log.read_bytes()
    resumed = identify(NET, 5, log=log, random_state=0)
    whole = identify(NET, 5, random_state=0)
    assert resumed.stats["reused"] > 0
    assert resumed.stats["queries"] < whole.stats["queries"]
    assert resumed.network is not None and whole.network is not None
    assert resumed.network.W.tobytes() == whole.network.W.tobytes()
    assert log.read_bytes().startswith(kept)


def test_a_torn_log_is_cut_and_a_foreign_one_refused(tmp_path: Path) -> None:
    log = tmp_path / "queries.log"
    identify(NET, 5, log=log, random_state=0)
    whole = log.read_bytes()
    log.write_bytes(whole[:-11])
    again = identify(NET, 5, log=log, random_state=0)
    assert again.outcome is Outcome.RECOVERED and again.stats["reused"] > 0
    with pytest.raises(BadInputError, match="5 inputs, not 4"):
        identify(lambda X: X, 4, log=log)
    log.write_bytes(b"hello\nworld")
    with pytest.raises(FileFormatError, match="not a log of queries"):
        identify(NET, 5, log=log)


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (lambda X: np.full((len(X), 1), np.nan), "answered question 0 with nan in output 0"),
        (lambda X: np.ones((len(X) + 1, 1)), r"expected \(8, m\)"),
        (lambda X: np.ones((len(X), 1, 1)), "shape"),
        (lambda X: 3.0, "shape"),
        (lambda X: ["a"] * len(X), "no numbers"),
        (lambda X: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_answers_that_are_none(oracle: object, message: str) -> None:
    with pytest.raises(OracleError, match=message):
        identify(oracle, 5, random_state=0)


def test_changed_answers_are_noticed_at_the_start_and_at_the_end() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(OracleError, match="changes its answers"):
        identify(lambda X: NET(X) + rng.standard_normal((len(X), 2)), 5, random_state=0)
    asked = 0

    def drifting(X: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += len(X)
        return NET(X) * (1.0 if asked < total else 1.5)

    total = int(identify(NET, 5, random_state=0).stats["queries"]) - 4
    with pytest.raises(OracleError, match="changes its answers"):
        identify(drifting, 5, random_state=0)


def test_budget_and_batches_are_kept() -> None:
    sizes: list[int] = []

    def oracle(X: np.ndarray) -> np.ndarray:
        sizes.append(len(X))
        return NET(X)

    stopped = identify(oracle, 5, budget=150, random_state=0)
    assert stopped.outcome is Outcome.STOPPED_EARLY and stopped.network is None
    assert stopped.stats["queries"] == sum(sizes) <= 150
    sizes.clear()
    small = identify(oracle, 5, batch_rows=7, random_state=0)
    assert max(sizes) <= 7
    whole = identify(NET, 5, random_state=0)
    assert small.network is not None and whole.network is not None
    # Batches of another size are summed in another order by the linear algebra library.
    assert parameter_error(small.network, whole.network) < 1e-12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 4}, "takes 5 inputs"),
        ({"budget": 0}, "budget=0"),
        ({"repeats": 0}, "repeats=0"),
        ({"box": (1.0, -1.0)}, "lower bound"),
        ({"scale": -1.0}, "scale=-1.0"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        identify(NET, **options)  # type: ignore[arg-type]


def test_n_features_must_come_from_somewhere() -> None:
    with pytest.raises(BadInputError, match="n_features is missing"):
        identify(lambda X: X)


def test_a_command_is_an_oracle(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(
        "import sys\nprint('y')\nfor line in sys.stdin:\n"
        "    a, b = map(float, line.split(','))\n    print(repr(max(a - 2 * b + 0.5, 0.0) - 3 * max(b, 0.0)))\n"
    )
    found = identify([sys.executable, str(script)], 2, random_state=0)
    assert found.outcome is Outcome.RECOVERED and found.network is not None and found.network.n_hidden == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [("import sys; sys.exit('no model')", "no model"), ("print('x'); print('y')", "rows of numbers")],
)
def test_a_command_that_fails(body: str, message: str) -> None:
    with pytest.raises(OracleError, match=message):
        identify([sys.executable, "-c", body], 2, random_state=0)


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(TypeError, match="type int cannot be asked"):
        as_oracle(3)
    with pytest.raises(BadInputError, match=r"is not an \.onnx file"):
        as_oracle("model.pt")
