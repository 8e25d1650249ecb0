"""Stopping: whatever ends a search early, the caller gets a record that says what is certain, or a comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from planted import Outcome, TwoLayerNetwork, compare, identify, parameter_error, simulate
from planted._clock import StopRequested, time_budget
from planted.checks import Check
from planted.identification import OracleError
from planted.outcomes import BadInputError, Guarantee
from planted.results import Recovery

NET = simulate.teacher(5, 3, 2, bias=(-0.5, 0.5), random_state=6)
BOXED = simulate.teacher(6, 5, 2, bias=(-2, 2), random_state=2)  # needs three lines in its box
EXACT = 1e-10  # the same bound as in test_identify.py

Ask = Callable[[np.ndarray], Any]


def stopping_after(calls: int, function: Ask = NET) -> Ask:
    """An oracle that asks for a stop at a certain call."""
    left = calls

    def oracle(X: np.ndarray) -> np.ndarray:
        nonlocal left
        left -= 1
        if left < 0:
            raise StopRequested("the operator left")
        return function(X)

    return oracle


def count_calls(function: Ask, d: int, *, random_state: int = 0, **options: Any) -> int:
    """How often a whole search calls the oracle."""
    calls = 0

    def oracle(X: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return function(X)

    identify(oracle, d, random_state=random_state, **options)
    return calls


def check_stopped(found: Recovery) -> None:
    assert found.outcome is Outcome.STOPPED_EARLY and found.guarantee is Guarantee.NONE
    assert f"{found.stats['queries']} questions were asked" in found.detail
    (asked,) = found.find(Check.QUESTIONS)
    assert asked.measured == found.stats["queries"] and asked.passed


@pytest.mark.parametrize("seconds", [0, 0.01, 1])
@pytest.mark.parametrize("options", [{}, {"box": (-2.0, 2.0)}, {"repeats": 3}, {"batch_rows": 1}])
def test_a_time_budget_ends_in_a_record(seconds: float, options: dict[str, Any]) -> None:
    calls: list[float] = []

    def slow(X: np.ndarray) -> np.ndarray:
        calls.append(monotonic())
        sleep(0.02 if seconds < 1 else 0.3)  # a handful of calls use the budget up
        return NET(X)

    begun = monotonic()
    found = identify(slow, 5, budget_seconds=seconds, random_state=0, **options)
    check_stopped(found)
    assert "out of time" in found.detail and found.network is None
    assert found.provenance.parameters["budget_seconds"] == seconds
    if seconds == 0:  # how far a hundredth of a second reaches is the machine's affair
        assert not calls
    # No batch begins after the deadline; a loaded machine may pause between the check and the call.
    assert all(call < begun + seconds + 0.2 for call in calls)


def test_a_sufficient_time_budget_changes_nothing() -> None:
    free, timed = (identify(NET, 5, budget_seconds=limit, random_state=0) for limit in (None, 600.0))
    assert timed.outcome is Outcome.RECOVERED and timed.stats["queries"] == free.stats["queries"]
    assert free.network is not None and timed.network is not None
    assert timed.network.W.tobytes() == free.network.W.tobytes()


def test_the_deadline_of_a_caller_counts_too() -> None:
    with time_budget(0.0):
        check_stopped(identify(NET, 5, random_state=0))


def test_a_stop_at_any_call_is_a_record_without_a_wrong_network() -> None:
    total = count_calls(NET, 5)
    for calls in range(total):
        found = identify(stopping_after(calls), 5, random_state=0)
        check_stopped(found)
        assert found.detail.startswith("Stopped: the operator left; ")
        if calls < total - 2:
            assert found.network is None and "No hyperplane is certain yet." in found.detail
    # Only the last two calls are missing, on fresh lines and of the first questions again: all fresh answers matched.
    assert found.network is not None and parameter_error(found.network, NET) <= EXACT
    assert all(item.passed for item in found.evidence)
    assert "That the oracle still answers as it did at the start was not checked." in found.detail


def test_what_is_certain_after_each_line_is_told() -> None:
    box = (-2.0, 3.0)
    told = []
    for calls in range(
        count_calls(BOXED, 6, box=box, random_state=1) - 2
    ):  # the last two only check what was found
        found = identify(stopping_after(calls, BOXED), 6, box=box, random_state=1)
        check_stopped(found)
        assert found.network is None
        if "lines" in found.stats:
            (fresh,), (known,) = found.find(Check.FRESH_ANSWERS), found.find(Check.UNITS)
            assert not fresh.passed and "fresh answers did not match the prediction" in found.detail
            assert f"found on a line and again elsewhere: {known.measured}." in found.detail
            assert not found.find(Check.COVERED_INPUTS)  # nothing is claimed about inputs that were not asked
            told.append((found.stats["lines"], known.measured))
    assert {lines for lines, _ in told} == {1, 2}  # the third line is the last
    assert told == sorted(told)  # a further line loses no hyperplane


def test_a_stop_after_a_refusal_gives_its_reason() -> None:
    def curved(X: np.ndarray) -> np.ndarray:
        return np.tanh(NET(X))

    found = identify(stopping_after(count_calls(curved, 5) - 1, curved), 5, random_state=0)
    check_stopped(found)
    assert found.network is None and "it bends between breakpoints" in found.detail


@pytest.mark.parametrize("budget", [1, 8, 100, 200, 300])
def test_a_budget_of_questions_ends_in_the_same_kind_of_record(budget: int) -> None:
    found = identify(NET, 5, budget=budget, random_state=0)
    check_stopped(found)
    assert found.find(Check.QUESTIONS)[0].required == budget and found.stats["queries"] <= budget


def test_progress_may_ask_for_a_stop() -> None:
    def progress(what: str, fraction: float) -> None:
        if what.startswith("measuring 3 units"):
            raise StopRequested

    check_stopped(identify(NET, 5, progress=progress, random_state=0))


def test_a_stop_of_the_sample_methods_is_a_record_too() -> None:
    """With noisy answers all questions come first; what is stopped then is the recovery from their averages."""
    noise = np.random.default_rng(1)

    def progress(what: str, fraction: float) -> None:
        raise StopRequested("the operator left")

    found = identify(
        lambda X: NET(X) + 0.01 * noise.standard_normal((len(X), 2)),
        5,
        repeats=2,
        budget=800,
        progress=progress,
        random_state=0,
    )
    assert found.outcome is Outcome.STOPPED_EARLY and found.stats["queries"] == 800
    assert "the operator left" in found.detail and "800 questions were asked" in found.detail


def test_ctrl_c_stays_an_interrupt() -> None:
    def oracle(X: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        identify(oracle, 5, budget_seconds=10.0, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        compare(oracle, NET, 5, budget_seconds=10.0, random_state=0)


def test_a_stopped_search_is_resumed_from_its_log(tmp_path: Path) -> None:
    log = tmp_path / "queries.log"
    stopped = identify(stopping_after(7), 5, log=log, random_state=0)
    check_stopped(stopped)
    assert f"answers so far are in {log}" in stopped.detail
    resumed, whole = identify(NET, 5, log=log, random_state=0), identify(NET, 5, random_state=0)
    assert resumed.network is not None and whole.network is not None
    assert resumed.network.W.tobytes() == whole.network.W.tobytes()
    # The eight questions of the first check are asked afresh each time, by intention.
    assert resumed.stats["queries"] == whole.stats["queries"] - stopped.stats["queries"] + 8


def test_an_error_of_the_oracle_stays_an_error() -> None:
    with pytest.raises(OracleError, match="raised TimeoutError"):
        identify(lambda X: (_ for _ in ()).throw(TimeoutError("no answer")), 5, budget_seconds=10.0)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_budget_that_is_none(seconds: float) -> None:
    with pytest.raises(BadInputError, match="budget_seconds"):
        identify(NET, 5, budget_seconds=seconds)
    with pytest.raises(BadInputError, match="budget_seconds"):
        compare(NET, NET, budget_seconds=seconds)


@pytest.mark.parametrize("seconds", [0, 0.01])
def test_compare_says_that_it_did_not_decide(seconds: float) -> None:
    def slow(X: np.ndarray) -> np.ndarray:
        sleep(0.02)
        return NET(X)

    answer = compare(slow, NET, 5, budget_seconds=seconds, random_state=0)
    assert not answer.is_equal and not answer.is_exact and answer.witness is None
    assert answer.detail.startswith("Not decided, stopped") and "out of time" in answer.detail
    assert (answer.fraction, answer.confidence, answer.difference) == (1.0, 0.0, 0.0)


def test_compare_uses_the_answers_that_it_has() -> None:
    same = compare(stopping_after(1), NET, 5, random_state=0)
    assert not same.is_equal and same.witness is None and same.detail.startswith("Not decided, stopped")
    # 99 % confidence with the 4096 answers of the first batch: log(100) / 4096.
    assert same.confidence == 0.99 and same.fraction == pytest.approx(np.log(100) / 4096)
    other = TwoLayerNetwork(NET.W, NET.b, 1.5 * NET.A, NET.c)
    different = compare(stopping_after(1), other, 5, random_state=0)
    assert not different.is_equal and different.witness is not None
    assert different.detail.startswith("They differ on ") and "4096" in different.detail


def test_compare_decides_on_parameters_without_time() -> None:
    assert compare(NET, NET.canonical(), budget_seconds=0.0).is_equal


def test_the_command_takes_a_time_limit(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from planted import export_network
    from planted.cli import app

    model = tmp_path / "net.onnx"
    export_network(NET, model)
    result = CliRunner().invoke(app, ["identify", str(model), "--budget-seconds", "0", "--seed", "0"])
    assert result.exit_code == 1 and "STOPPED EARLY" in result.stdout
    assert "out of time" in " ".join(result.stdout.split())
