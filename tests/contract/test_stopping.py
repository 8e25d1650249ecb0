"""Stopping: whatever the budget, every door returns an outcome, and Ctrl-C keeps its meaning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planted
from planted._clock import StopRequested, check_time, time_budget
from planted.moments import summarise_rows
from planted.outcomes import RecoveryError, RecoveryWarning
from planted.recovery import find_method

SMALL = planted.simulate.dataset(
    300, n_features=4, n_hidden=3, n_outputs=5, law="gaussian", noise=0.05, random_state=3
)
# Large enough that no method ends within a hundredth of a second.
LARGE = planted.simulate.dataset(
    6000, n_features=12, n_hidden=8, n_outputs=9, law="gaussian", noise=0.1, random_state=4
)
SCALAR = planted.simulate.dataset(6000, n_features=12, n_hidden=8, law="gaussian", noise=0.1, random_state=5)
BUDGETS = (0.0, 0.01)


def with_holes(data: Any) -> Any:
    Y = data.Y.copy()
    Y[np.random.default_rng(0).random(Y.shape) < 0.02] = np.nan
    return Y


DOORS: dict[str, Callable[..., planted.Recovery]] = {
    "arrays": lambda data, **options: planted.recover(data.X, data.Y, **options),
    "blocks": lambda data, **options: planted.recover(
        planted.RowBlocks.from_arrays(data.X, data.Y, block_rows=512), **options
    ),
    "masked": lambda data, **options: planted.recover(
        data.X, with_holes(data), missing_labels="mask", **options
    ),
    "sums": lambda data, **options: planted.recover_from_sums(
        summarise_rows(planted.RowBlocks.from_arrays(data.X, data.Y), 2000), **options
    ),
}


def is_whole(answer: planted.Recovery, seconds: float) -> bool:
    """Return whether an answer that ran out of time says so, and every field can be shown and written."""
    if answer.outcome is planted.Outcome.STOPPED_EARLY:
        assert "out of time" in answer.detail or answer.network is not None or seconds > 0
    assert str(answer) and planted.Recovery.from_dict(answer.to_dict()).outcome is answer.outcome
    return True


@pytest.mark.parametrize("seconds", BUDGETS)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("method", ["auto", *planted.methods()])
def test_every_door_returns_an_outcome(method: str, door: str, seconds: float) -> None:
    data = SCALAR if method in ("landscape",) else LARGE
    answer = DOORS[door](data, method=method, random_state=0, budget_seconds=seconds)
    assert is_whole(answer, seconds)
    if seconds == 0.0:
        assert answer.outcome is planted.Outcome.STOPPED_EARLY
        assert answer.provenance.algorithm == method


@pytest.mark.parametrize("door", DOORS)
def test_a_second_is_enough_for_an_honest_answer(door: str) -> None:
    answer = DOORS[door](LARGE, random_state=0, budget_seconds=1.0)
    assert is_whole(answer, 1.0)


@pytest.mark.parametrize("seconds", BUDGETS)
def test_the_estimator_raises_with_the_outcome_or_warns(seconds: float) -> None:
    model = planted.TwoLayerRegressor(budget_seconds=seconds, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RecoveryWarning)
        try:
            model.fit(LARGE.X, LARGE.Y)
        except RecoveryError as error:
            assert error.outcome is planted.Outcome.STOPPED_EARLY
        else:
            assert model.recovery_.outcome is planted.Outcome.STOPPED_EARLY
            assert [item.category for item in caught] == [RecoveryWarning]


@pytest.mark.parametrize("method", planted.methods())
def test_a_progress_callback_may_ask_to_stop(method: str) -> None:
    told: list[str] = []

    def stop(what: str, fraction: float) -> None:
        told.append(what)
        raise StopRequested("the user closed the window")

    data = SCALAR if method == "landscape" else LARGE
    answer = planted.recover(data.X, data.Y, method=method, random_state=0, progress=stop, budget_seconds=20)
    if told:
        assert answer.outcome is planted.Outcome.STOPPED_EARLY
        assert "the user closed the window" in answer.detail
    assert is_whole(answer, 20)


@pytest.mark.parametrize("method", planted.methods())
def test_an_interrupt_is_passed_on_or_ends_in_the_best_so_far(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No method swallows Ctrl-C: it is raised again, or the record says STOPPED_EARLY."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    find_method(method)
    monkeypatch.setattr("planted.rows._sources.check_time", interrupt)
    try:
        answer = planted.recover(SMALL.X, SMALL.Y[:, :1], method=method, random_state=0)
    except KeyboardInterrupt:
        return
    assert answer.outcome is planted.Outcome.STOPPED_EARLY


def test_the_budget_of_an_entry_ends_with_it() -> None:
    planted.recover(SMALL.X, SMALL.Y, random_state=0, budget_seconds=0.0)
    check_time()
    with time_budget(None):
        check_time()
