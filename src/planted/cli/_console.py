"""What the commands print and where: answers on stdout, everything else on stderr."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from planted._typing import Progress
from planted.outcomes import shown

if TYPE_CHECKING:
    from planted.reporting._outline import Table as ContentTable

__all__ = [
    "LastingStream",
    "err_console",
    "out_console",
    "print_error",
    "print_note",
    "print_paragraph",
    "print_table",
    "progress_bar",
    "spoken_warnings",
]

PATIENCE_SECONDS = 2.0
PIPED_WIDTH = 110
NARROWEST = 40  # columns that a table needs
_MARK_STYLES = {"pass": "green", "fail": "red", "info": "dim"}


class LastingStream:
    """A stream whose reader may go away: what is written afterwards is dropped. A stream that is closed drops everything."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the process ends

    def write(self, text: str) -> int:
        """Write, unless nobody reads any more."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several pieces."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Pass on what was written, unless nobody reads any more."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        """Lead the stream to nowhere, so that not even the flush at the end of the process fails."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def out_console() -> Console:
    """Return a console on stdout: plain and, unless COLUMNS says otherwise, of fixed width when it is not a terminal."""
    columns = os.environ.get("COLUMNS", "")
    wanted = int(columns) if columns.isdecimal() and int(columns) >= NARROWEST else PIPED_WIDTH
    return Console(width=None if sys.stdout.isatty() else wanted, highlight=False, soft_wrap=False)


def err_console() -> Console:
    """Return a console on stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_error(message: str, *, hint: str = "") -> None:
    """Print one line that says what was wrong and what to do."""
    line = Text.assemble(("error: ", "bold red"), shown(message), *(((" " + hint, "dim"),) if hint else ()))
    err_console().print(line)


def print_note(message: str) -> None:
    """Print a remark that is not part of the answer."""
    err_console().print(Text(shown(message), style="dim"))


def print_paragraph(console: Console, paragraph: str) -> None:
    """Print a paragraph of a story, its first word as a heading, and a blank line after it."""
    first, _, rest = paragraph.partition(". ")
    console.print(Text.assemble((shown(f"{first}. "), "bold"), shown(rest)))
    console.print()


def print_table(console: Console, table: ContentTable) -> None:
    """Print a table of a report."""
    grid = Table(
        box=box.SIMPLE_HEAD,
        title=escape(shown(table.title)),
        title_justify="left",
        title_style="bold",
        header_style="dim",
        expand=False,
    )
    for i, column in enumerate(table.columns):
        grid.add_column(
            escape(shown(column)), justify="right" if table.is_numeric and i else "left", overflow="fold"
        )
    marks = table.marks or ("",) * len(table.rows)
    for mark, row in zip(marks, table.rows, strict=True):
        cells = [Text(shown(cell)) for cell in row]
        if mark:
            cells[-1].stylize(_MARK_STYLES[mark])
        grid.add_row(*cells)
    console.print(grid)
    if table.note:
        console.print(Text(shown(table.note), style="dim"))


class Course:
    """How far some work has come, and how it is shown in one line.

    Time left is shown if it can be estimated: the present step has told its fraction several times and for some seconds.
    It is the time of that step; what comes after it is not known. Rows that are read are counted by pass.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.clock = what, clock
        self.began = self.step_began = clock()
        self.fraction, self.first_fraction, self.n_reports = math.nan, 0.0, 0
        self.n_passes = self.n_rows = 0
        self.n_total: int | None = None
        self.pass_began = self.began

    def report(self, what: str, fraction: float) -> None:
        """Take what is being done and how much of it is done; less than before is another step."""
        self.what = what
        if math.isnan(fraction) or math.isnan(self.fraction) or fraction < self.fraction:
            self.step_began, self.first_fraction, self.n_reports = self.clock(), fraction, 0
        self.fraction = fraction
        self.n_reports += 1

    def read(self, first_row: int, n_rows: int, n_total: int | None) -> None:
        """Count rows that were read; the first row begins another pass."""
        if first_row == 0:
            self.n_passes += 1
            self.pass_began = self.clock()
        self.n_rows, self.n_total = first_row + n_rows, n_total

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end of the present step, if that can be estimated."""
        passed = self.clock() - self.step_began
        gained = self.fraction - self.first_fraction
        if math.isnan(gained) or self.n_reports < 3 or passed < PATIENCE_SECONDS or gained < 0.05:
            return None
        return passed * max(1.0 - self.fraction, 0.0) / gained

    def line(self, width: int) -> str:
        """Return one line of at most so many characters: what is done comes first, and is cut if need be."""
        now = self.clock()
        parts = []
        if not math.isnan(self.fraction):
            parts.append(f"{min(max(self.fraction, 0.0), 1.0):.0%}")
        if self.n_passes:
            speed = self.n_rows / max(now - self.pass_began, 1e-9)
            total = "" if self.n_total is None else f" of {_short(self.n_total)}"
            parts.append(f"pass {self.n_passes}: {_short(self.n_rows)}{total} rows, {_short(speed)}/s")
        parts.append(f"{_clock_time(now - self.began)} passed")
        left = self.seconds_left
        if left is not None:
            parts.append(f"{_clock_time(left)} left")
        end = " · ".join(parts)
        while len(end) > width - 12 and len(parts) > 1:  # a narrow terminal shows the time that passed
            parts.pop(0 if len(parts) > 2 else -1)
            end = " · ".join(parts)
        room = max(width - len(end) - 3, 0)
        what = shown(self.what)
        what = what if len(what) <= room else f"{what[: max(room - 1, 0)]}…"
        return f"{what} · {end}"[:width] if room else end[:width]


def _short(number: float) -> str:
    """Write a count in few characters.

    Examples
    --------
    >>> _short(950), _short(41_300), _short(3_000_000)
    ('950', '41k', '3M')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            value = number / size
            return f"{value:.1f}{unit}".replace(".0", "") if value < 10 else f"{value:.0f}{unit}"
    return f"{number:.0f}"


def _clock_time(seconds: float) -> str:
    """Write a time as people read it: 42 s, 3:07 min, 2:05 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """Give a callback whose reports appear in one line once the work has lasted two seconds.

    Nothing is drawn when stderr is not a terminal.
    """
    console = err_console()
    course = Course(title)
    if not console.is_terminal:
        yield course.report
        return
    from rich.live import Live

    from planted.io.tables._blocks import watched_rows

    def draw() -> Text:
        return Text(course.line(console.width - 1), no_wrap=True, overflow="crop")

    live = Live(get_renderable=draw, console=console, transient=True, refresh_per_second=4)
    lock = threading.Lock()
    is_over = False

    def start() -> None:
        with lock:
            if not is_over:
                live.start()

    timer = threading.Timer(PATIENCE_SECONDS, start)
    timer.daemon = True
    timer.start()
    try:
        with watched_rows(course.read):
            yield course.report
    finally:
        timer.cancel()
        with lock:
            is_over = True
            live.stop()


@contextmanager
def spoken_warnings() -> Iterator[None]:
    """Print planted's own warnings as lines on stderr; leave those of others alone."""
    from planted._validation import ConstantColumnsWarning
    from planted.outcomes import DataWarning, RecoveryWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for category in (DataWarning, RecoveryWarning):
            warnings.simplefilter("always", category)
        warnings.simplefilter("ignore", ConstantColumnsWarning)  # the command names them
        try:
            yield
        finally:
            for message in dict.fromkeys(str(item.message) for item in caught):
                err_console().print(Text.assemble(("warning: ", "bold yellow"), shown(message)))
