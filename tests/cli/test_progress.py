"""Progress tells the truth in the width there is: counts, speed, and time left only where it can be estimated."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from planted.cli._console import Course

SCRIPT = """
import time
from planted.cli import _console
_console.PATIENCE_SECONDS = 0.05
with _console.progress_bar("reading a table with a long name that a narrow terminal cannot show.parquet") as progress:
    for i in range(8):
        progress(f"fit {i + 1} of 8, held-out residual 1.2e-03, and words that say more than fits into a line", i / 8)
        time.sleep(0.1)
"""


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def course_after(*fractions: float, seconds: float) -> tuple[Course, Clock]:
    """Report some fractions, each so many seconds after the one before."""
    clock = Clock()
    course = Course("start", clock)
    for fraction in fractions:
        clock.now += seconds
        course.report("fitting", fraction)
    return course, clock


def test_time_left_is_that_of_an_even_pace() -> None:
    course, _ = course_after(0.0, 0.1, 0.2, 0.3, 0.4, seconds=5.0)
    assert course.seconds_left == pytest.approx(30.0)
    assert "40% · 25 s passed · 30 s left" in course.line(80)


@pytest.mark.parametrize(
    "fractions, seconds",
    [
        ((float("nan"),) * 5, 5.0),  # nothing is known
        ((0.5,), 60.0),  # one report is no pace
        ((0.0, 0.01, 0.02), 5.0),  # too little was done
        ((0.0, 0.3, 0.6), 0.1),  # too short
        ((0.2, 0.4, 0.6, 0.8, 0.1), 5.0),  # another step has begun
        ((0.5, 0.5, 0.5, 0.5), 60.0),  # it stands still
    ],
)
def test_no_time_left_without_ground(fractions: tuple[float, ...], seconds: float) -> None:
    course, _ = course_after(*fractions, seconds=seconds)
    assert course.seconds_left is None and "left" not in course.line(120)


def test_a_step_that_stands_still_is_not_four_seconds_from_its_end() -> None:
    course, clock = course_after(0.0, 0.25, 0.5, seconds=4.0)
    before = course.seconds_left
    clock.now += 120.0
    assert before is not None and course.seconds_left is not None
    assert course.seconds_left > 10 * before  # the longer it takes, the more is left


def test_rows_are_counted_by_pass() -> None:
    course, clock = course_after(float("nan"), seconds=1.0)
    for first in (0, 100_000, 200_000):
        clock.now += 0.5
        course.read(first, 100_000, 3_000_000)
    assert "pass 1: 300k of 3M rows, 300k/s" in course.line(100)
    course.read(0, 100_000, None)
    assert "pass 2: 100k rows" in course.line(100)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_a_line_fits(width: int) -> None:
    course, _ = course_after(0.0, 0.2, 0.4, 0.6, seconds=700.0)
    course.what = "fitting \x1b[31m" + "words " * 30
    course.read(0, 65_536, 3_000_000)
    line = course.line(width)
    assert len(line) <= width and "passed" in line and "\x1b" not in line
    assert width < 80 or ("left" in line and line.startswith("fitting") and "rows" in line)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_terminal_of_any_width_shows_one_line(width: int) -> None:
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {
        key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=side,
        stdout=side,
        stderr=side,
        env=environment | {"TERM": "xterm"},
    )
    os.close(side)
    seen = b""
    while True:
        try:
            piece = os.read(main, 65_536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    assert process.wait(60) == 0
    os.close(main)
    drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
    lines = [line.strip("\r") for line in re.split(r"[\r\n]+", drawn) if line.strip()]
    assert lines, "nothing was drawn"
    assert all(len(line) < width for line in lines) and any("passed" in line for line in lines)
    assert any(line.startswith("fit ") for line in lines)
