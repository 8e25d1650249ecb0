"""What the commands print and where: answers on stdout, everything else on stderr."""

from __future__ import annotations

import math
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
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


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """Give a callback whose reports appear as a bar once the work has lasted two seconds.

    Nothing is drawn when stderr is not a terminal.
    """
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = err_console()
    times = (TimeElapsedColumn(), TextColumn("passed, left"), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), *times)
    bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(escape(shown(title)), total=None)
    lock = threading.Lock()
    is_over = False

    def start() -> None:
        with lock:
            if not is_over:
                bar.start()

    def report(what: str, fraction: float) -> None:
        is_known = not math.isnan(fraction)
        bar.update(
            task,
            description=escape(shown(what)),
            total=1.0 if is_known else None,
            completed=fraction if is_known else 0,
        )

    timer = threading.Timer(PATIENCE_SECONDS, start)
    timer.daemon = True
    timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        with lock:
            is_over = True
            bar.stop()


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
