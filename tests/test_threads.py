"""One BLAS thread inside every entry, whatever was set outside, and the old number afterwards."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
from threadpoolctl import threadpool_info, threadpool_limits

import planted
from planted._threads import one_thread, one_thread_inside, side_by_side

DATA = planted.simulate.dataset(400, n_features=6, n_hidden=3, n_outputs=4, noise=0.02, random_state=0)


def blas_threads() -> set[int]:
    return {item["num_threads"] for item in threadpool_info() if item["user_api"] == "blas"}


@contextmanager
def two_threads() -> Iterator[None]:
    """Set two threads without keeping the right to change them, as if the process had begun with two."""
    with threadpool_limits(limits=2, user_api="blas"):
        release = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", lambda: None)
        release()
        yield


def test_one_inside_and_the_old_number_after() -> None:
    with two_threads():
        before = blas_threads()
        with one_thread():
            assert blas_threads() == {1}
            with one_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_an_error_gives_the_threads_back() -> None:
    @one_thread_inside
    def fail() -> None:
        assert blas_threads() == {1}
        raise ValueError("on purpose")

    with two_threads():
        before = blas_threads()
        with pytest.raises(ValueError, match="on purpose"):
            fail()
        assert blas_threads() == before


def test_entries_in_several_threads_share_the_limit() -> None:
    """The entry that ends first does not take the limit from those that still run."""
    first_ended, seen = threading.Event(), []

    def short(barrier: threading.Barrier) -> None:
        with one_thread():
            barrier.wait(10)
        first_ended.set()

    def long(barrier: threading.Barrier) -> None:
        with one_thread():
            barrier.wait(10)
            assert first_ended.wait(10)
            seen.append(blas_threads())

    with two_threads():
        before = blas_threads()
        barrier = threading.Barrier(2)
        with ThreadPoolExecutor(2) as pool:
            for job in [pool.submit(short, barrier), pool.submit(long, barrier)]:
                job.result(20)
        assert seen == [{1}]
        assert blas_threads() == before


@pytest.mark.parametrize(
    "name",
    [
        "recover",
        "recover_from_sums",
        "diagnose",
        "identify",
        "compare",
        "standard_errors",
        "outliers",
        "kinks",
        "bounds",
        "slopes",
        "memorize",
        "match_units",
        "parameter_error",
        "verify",
    ],
)
def test_entries_keep_their_signatures(name: str) -> None:
    entry = getattr(planted, name)
    assert inspect.isfunction(entry)
    assert hasattr(entry, "__wrapped__"), f"planted.{name} does not limit its threads"
    assert inspect.signature(entry) == inspect.signature(entry.__wrapped__)


def test_the_same_bits_for_any_number_of_threads() -> None:
    answers = []
    for limit in (1, 2, None):
        with threadpool_limits(limits=limit, user_api="blas"):
            answers.append(planted.recover(DATA.X, DATA.Y, random_state=0))
    first, *others = (np.concatenate([a.network.W.ravel(), a.network.A.ravel()]) for a in answers)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_estimators_limit_their_threads() -> None:
    class Spy(planted.TwoLayerRegressor):
        """A model that looks at the threads while it is fitted."""

    seen = []

    def look(what: str, fraction: float) -> None:
        seen.append(blas_threads())

    with two_threads():
        planted.recover(DATA.X, DATA.Y, random_state=0, progress=look)
        planted.memorize(DATA.X, DATA.Y[:, 0], random_state=0)
        Spy(random_state=0).fit(DATA.X, DATA.Y)
        assert blas_threads() != {1}
    assert seen and all(item == {1} for item in seen)


def test_planted_worlds_have_the_same_bits_for_any_number_of_threads() -> None:
    """Large enough for BLAS to use its threads."""
    worlds = []
    for limit in (1, 2, None):
        with threadpool_limits(limits=limit, user_api="blas"):
            worlds.append(
                planted.simulate.dataset(
                    5300, n_features=20, n_hidden=20, activity=(0.3, 0.7), random_state=3
                )
            )
    for world in worlds[1:]:
        assert world.X.tobytes() == worlds[0].X.tobytes() and world.Y.tobytes() == worlds[0].Y.tobytes()


def test_every_door_has_the_same_bits_in_processes_with_other_threads() -> None:
    """Drawn problems; the environment says how many threads BLAS begins with."""
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, str(Path(__file__).with_name("doors.py")), "17"]
    answers = []
    # Without a number BLAS takes every core: where there are two, that is the second case once more.
    for number in ("1", "2", None) if (os.cpu_count() or 1) > 2 else ("1", None):
        limits = {} if number is None else {"OMP_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number}
        done = subprocess.run(command, env=plain | limits, capture_output=True, text=True, check=True)
        answers.append(json.loads(done.stdout))
    for other in answers[1:]:
        assert {door for door, bits in answers[0].items() if other[door] != bits} == set()


def test_parts_side_by_side_are_taken_in_order_and_use_the_threads_from_outside() -> None:
    meeting = threading.Barrier(2)

    def meet(part: int) -> int:
        meeting.wait(10)  # passes only if two parts are under way at once
        return part

    with two_threads(), one_thread():
        assert list(side_by_side(meet, range(6))) == list(range(6))
        with pytest.raises(ZeroDivisionError):
            list(side_by_side(lambda part: 1 // part, [1, 0, 1]))
    assert list(side_by_side(abs, [-1, 2])) == [1, 2]


def test_functions_that_use_planted_travel_to_other_processes() -> None:
    """As joblib and Dask send functions of a script: by value, with the modules that they name."""
    cloudpickle = pytest.importorskip("cloudpickle")
    script: dict[str, object] = {"__name__": "__main__"}
    exec("import planted\ndef count(X): return planted.TwoLayerNetwork(X, None, X.T)(X).shape", script)
    again = cloudpickle.loads(cloudpickle.dumps(script["count"]))
    assert again(np.eye(2)) == (2, 2) and again.__globals__["planted"] is planted
