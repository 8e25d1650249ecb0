"""A time budget, a callback that asks to stop, and Ctrl-C: memorising ends in a whole record that says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import planted
from planted._clock import StopRequested, time_budget
from planted._streams import data_streams
from planted.checks import Check
from planted.cli import app
from planted.memorization._memorize import SOLVERS
from planted.outcomes import BadInputError

ALL = ("auto", *SOLVERS)
TRAINING = ("pgd", "adam", "lbfgs")  # their start is random, not zero
FITTING = ("ridge", "low-rank")  # they may come to an end without memorising
CHEAP = {Check.LOSS, Check.RESIDUAL, Check.SAMPLES, Check.UNITS, Check.WIDTH, Check.FEATURES}


@pytest.fixture(params=ALL)
def solver(request: pytest.FixtureRequest) -> str:
    if request.param == "adam":
        pytest.importorskip("torch")
    return str(request.param)


def rows_and_labels(n: int = 120, d: int = 20, m: int = 2) -> tuple[Any, Any]:
    rows, labels = data_streams(41, 2)
    return rows.standard_normal((n, d)), labels.standard_normal((n, m))


def assert_whole(memory: planted.Memory, X: Any, Y: Any, *, reached: str = "STOPPED_EARLY") -> None:
    """The loss is that of the network returned, and the outcome is the one that this loss deserves."""
    error = memory.network(X) - Y
    assert memory.loss == pytest.approx(np.mean(np.sum(error**2, axis=1)) / 4, rel=1e-9, abs=1e-25)
    is_memorised = memory.conditions["relative_loss"] <= 1e-12
    assert memory.outcome.name == ("MEMORISED" if is_memorised else reached)
    (line,) = memory.find(Check.LOSS)
    assert line.passed == is_memorised
    assert memory.loss_curve.shape[1] == 2 and memory.stats["iterations"] == memory.loss_curve[-1, 0]
    assert str(memory).startswith(memory.outcome.name)


@pytest.mark.parametrize("budget", [0, 0.01])
@pytest.mark.parametrize("layers", [2, 3])
def test_a_time_budget_always_returns_a_record(solver: str, layers: int, budget: float) -> None:
    X, Y = rows_and_labels()
    memory = planted.memorize(X, Y, layers=layers, solver=solver, budget_seconds=budget, random_state=1)
    was_stopped = "interrupted_by" in memory.stats
    # Within a hundredth of a second some solvers come to their own end.
    assert_whole(memory, X, Y, reached="STOPPED_EARLY" if was_stopped or solver not in FITTING else "FITTED")
    assert memory.provenance.parameters["budget_seconds"] == budget
    if budget == 0:
        assert was_stopped and memory.outcome.name == "STOPPED_EARLY"
    if was_stopped:
        assert memory.stats["interrupted_by"] == "time budget" and "Stopped (time budget)" in memory.detail


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_a_network_of_zeros_is_said_to_be_one(solver: str, layers: int, bias: bool) -> None:
    X, Y = rows_and_labels()
    memory = planted.memorize(X, Y, layers=layers, solver=solver, bias=bias, budget_seconds=0, random_state=1)
    head = memory.network.head if layers == 3 else memory.network
    assert ("all weights are zero" in memory.detail) == (not head.W.any())
    if solver in TRAINING:
        assert "random start" in memory.detail
    else:
        constant = np.broadcast_to(Y.mean(axis=0) if bias else np.zeros(2), Y.shape)
        np.testing.assert_allclose(memory.network(X), constant, atol=1e-12)


def test_costly_conditions_are_left_out_once_the_time_is_used_up(solver: str) -> None:
    X, Y = rows_and_labels()
    memory = planted.memorize(X, Y, layers=3, solver=solver, budget_seconds=0, random_state=1)
    assert {item.key for item in memory.evidence} <= CHEAP
    assert np.isnan(memory.conditions["rank"]) and np.isnan(memory.conditions["sigma_min"])


def test_a_budget_that_suffices_changes_nothing(solver: str) -> None:
    X, Y = rows_and_labels()
    options = {"max_epochs": 3} if solver == "adam" else {"rank": 2} if solver == "low-rank" else {}
    free, limited = (
        planted.memorize(X, Y, solver=solver, budget_seconds=seconds, random_state=1, **options)
        for seconds in (None, 600.0)
    )
    assert free.network.W.tobytes() == limited.network.W.tobytes()
    assert free.evidence == limited.evidence and free.outcome is limited.outcome
    assert "interrupted_by" not in limited.stats


def test_a_deadline_around_the_call_counts_too(solver: str) -> None:
    X, Y = rows_and_labels()
    with time_budget(0.0):
        memory = planted.memorize(X, Y, solver=solver, budget_seconds=600.0, random_state=1)
    assert memory.stats["interrupted_by"] == "time budget" and memory.outcome.name == "STOPPED_EARLY"


def test_a_callback_may_ask_to_stop(solver: str) -> None:
    X, Y = rows_and_labels()
    calls = []

    def ask(what: str, fraction: float) -> None:
        calls.append(what)
        raise StopRequested("the window was closed")

    memory = planted.memorize(X, Y, solver=solver, progress=ask, random_state=1)
    if not calls:  # the ridge reports nothing
        assert memory.outcome.name == "FITTED"
        return
    assert memory.stats["interrupted_by"] == "the window was closed" and len(calls) == 1
    assert "Stopped (the window was closed)" in memory.detail
    assert_whole(memory, X, Y)


def test_ctrl_c_is_the_callers_where_a_solver_has_all_or_nothing() -> None:
    X, Y = rows_and_labels()

    def press_keys(what: str, fraction: float) -> None:
        raise KeyboardInterrupt

    for solver in ("auto", "direct"):
        with pytest.raises(KeyboardInterrupt):
            planted.memorize(X, Y, solver=solver, progress=press_keys)


def test_what_stands_in_the_way_is_named_beside_the_stop() -> None:
    X, Y = rows_and_labels(60, 5, 1)  # 15 dimensions

    def ask(what: str, fraction: float) -> None:
        raise StopRequested

    memory = planted.memorize(X, Y, solver="lbfgs", progress=ask, random_state=1)
    assert memory.outcome.name == "STOPPED_EARLY" and "60 samples, 15 dimensions" in memory.detail
    X[7] = X[3]
    memory = planted.memorize(X, Y, solver="lbfgs", progress=ask, random_state=1)
    assert memory.outcome.name == "STOPPED_EARLY" and "Rows 3 and 7" in memory.detail


def test_an_earlier_output_is_kept_when_the_search_for_the_next_rank_is_stopped() -> None:
    X, Y = rows_and_labels(200, 6, 2)
    Y[:, 0] = X[:, 0] ** 2 - X[:, 1] ** 2  # two units
    calls = []

    def ask(what: str, fraction: float) -> None:
        calls.append(what)
        if len(calls) == 2:  # the first output has both
            raise StopRequested

    options: dict[str, Any] = {"solver": "low-rank", "validation_fraction": 0.25, "random_state": 1}
    memory = planted.memorize(X, Y, progress=ask, **options)
    assert memory.stats["ranks"] == [2, 1] and memory.outcome.name == "STOPPED_EARLY"
    np.testing.assert_allclose(memory.network(X)[:, 0], Y[:, 0], atol=1e-6)
    np.testing.assert_array_equal(memory.network(X)[:, 1], 0.0)


def test_the_fit_to_a_part_of_the_rows_serves_where_all_rows_had_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from planted.memorization.solvers import _low_rank

    X, _ = rows_and_labels(200, 6, 1)
    y = X[:, 0] ** 2 - X[:, 1] ** 2
    whole = _low_rank._add_unit

    def stop_on_all_rows(Z: Any, labels: Any, units: Any, goal: float) -> Any:
        if len(Z) == len(X):
            raise StopRequested
        return whole(Z, labels, units, goal)

    monkeypatch.setattr(_low_rank, "_add_unit", stop_on_all_rows)
    memory = planted.memorize(X, y, solver="low-rank", validation_fraction=0.25, random_state=1)
    assert memory.stats["ranks"] == [2]
    np.testing.assert_allclose(memory.network(X)[:, 0], y, atol=1e-6)


def test_the_ridge_without_the_rows_held_out_serves_where_all_rows_had_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from planted.memorization.solvers import _kernel

    X, Y = rows_and_labels()

    def stop(K: Any, labels: Any, penalty: float) -> Any:
        raise StopRequested

    settings: dict[str, Any] = {"solver": "ridge", "random_state": 1}
    whole = planted.memorize(X, Y, **settings)
    monkeypatch.setattr(_kernel, "_ridge_coefficients", stop)
    part = planted.memorize(X, Y, **settings)
    assert part.outcome.name == "STOPPED_EARLY" and part.stats["penalty"] == whole.stats["penalty"]
    assert part.stats["validation_errors"] == whole.stats["validation_errors"]
    assert whole.loss < part.loss < np.mean(np.sum(Y**2, axis=1)) / 4  # 96 of 120 rows
    with_penalty = planted.memorize(X, Y, penalty=0.1, **settings)
    assert "all weights are zero" in with_penalty.detail


def test_bad_input_is_refused_at_any_budget() -> None:
    X, Y = rows_and_labels(20, 8)
    for options, text in (
        ({"solver": "direct", "rank": 2}, "no option rank"),
        ({"solver": "ridge", "penalty": -1.0}, "zero or more"),
        ({"solver": "pgd", "width": 3}, "even number"),
        ({"solver": "low-rank", "rank": 0}, "at least 1"),
        ({"solver": "cg", "precision": "half"}, "float32"),
        ({"solver": "lbfgs", "scale": 0.0}, "saddle"),
        ({"layers": 3, "power": 1}, "from 2 to 64"),
    ):
        with pytest.raises(BadInputError, match=text):
            planted.memorize(X, Y, budget_seconds=0, **options)
    with pytest.raises(BadInputError, match="cannot be split"):
        planted.memorize(X[:1], Y[:1], solver="ridge", budget_seconds=0)
    for budget in (-1.0, float("nan")):
        with pytest.raises(BadInputError, match="budget_seconds"):
            planted.memorize(X, Y, budget_seconds=budget)


@pytest.mark.parametrize("solver", ["auto", "cg", "pgd"])
def test_the_command_line_takes_a_budget(solver: str, tmp_path: Path) -> None:
    X, Y = rows_and_labels()
    np.savez(tmp_path / "rows.npz", X=X, Y=Y)
    arguments = ["memorize", str(tmp_path / "rows.npz"), "--solver", solver, "--seed", "1", "--budget"]
    result = CliRunner().invoke(app, [*arguments, "0", "--json", "--out", str(tmp_path / "net.safetensors")])
    record = json.loads(result.stdout)
    assert result.exit_code == 1 and record["outcome"] == "STOPPED_EARLY"
    assert record["stats"]["interrupted_by"] == "time budget" and "Stopped (time budget)" in record["detail"]
    assert {item["key"] for item in record["evidence"]} <= {key.value for key in CHEAP}
    assert planted.load_network(tmp_path / "net.safetensors").n_features == 20
    assert "STOPPED EARLY" in CliRunner().invoke(app, [*arguments, "0"]).stdout
    assert CliRunner().invoke(app, [*arguments, "-1"]).exit_code == 2
