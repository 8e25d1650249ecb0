"""Faults of the surroundings: a second Ctrl-C, no terminal, no home, nowhere to write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import planted

COMMAND = Path(sys.executable).parent / "planted"
# A method that answers the first interrupt with the best so far, and then hangs whatever it is sent.
STUBBORN = """
import time
from planted.cli._data import noticed_interrupts

with noticed_interrupts() as noticed:
    try:
        print("working", flush=True)
        time.sleep(100)
    except KeyboardInterrupt:
        assert noticed.seen
        while True:
            try:
                print("collecting", flush=True)
                time.sleep(100)
            except BaseException:
                pass
"""


def test_a_second_interrupt_ends_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "working\n"
        run.send_signal(signal.SIGINT)
        assert run.stdout.readline() == "collecting\n"
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=60) == -signal.SIGINT  # which a shell reports as 130


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write to")
def test_without_terminal_home_or_writable_folder(tmp_path: Path) -> None:
    """A session without a terminal, in /proc, with a home that does not exist: the network and the report are written."""
    world = planted.simulate.dataset(
        80, n_features=4, n_hidden=2, n_outputs=3, law="exponential", activity=(0.3, 0.7), random_state=2
    )
    table, out, page = tmp_path / "rows.csv", tmp_path / "net.safetensors", tmp_path / "page.html"
    names = ["a", "b", "c", "d", "u", "v", "w"]
    lines = [",".join(map(repr, (*x, *y))) for x, y in zip(world.X.tolist(), world.Y.tolist(), strict=True)]
    table.write_text("\n".join([",".join(names), *lines]) + "\n")
    arguments = ["recover", str(table), "--targets", "u,v,w", "--seed", "1", "--out", str(out)]
    environment = {"PATH": os.defpath, "HOME": "/proc/no-such-home", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [COMMAND, *arguments, "--report", str(page)],
        cwd="/proc",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "\x1b" not in done.stdout + done.stderr
    assert planted.parameter_error(planted.load_network(out), world.network) < 1e-10
    assert "RECOVERED" in page.read_text(encoding="utf-8")
