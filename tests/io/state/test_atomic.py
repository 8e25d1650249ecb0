"""Files of any name are written whole, and what a killed process left of them is found again."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from planted.io import atomic_write

KILLED = """
import os, signal, sys
from planted.io import atomic_write
def write(partial):
    partial.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
atomic_write(sys.argv[1], write)
"""


def drawn_name(seed):
    """A name of 100 to 255 bytes: plain, of several bytes for a letter, or no UTF-8."""
    draw = np.random.default_rng([3, seed])
    letter = ["x", "é", "中", "\udcff"][seed % 4]
    suffix = [".csv", ".safetensors", ""][seed % 3]
    room = int(draw.integers(100, 256) if seed > 3 else 255) - len(suffix)
    return letter * (room // len(os.fsencode(letter))) + suffix


@pytest.mark.parametrize("seed", range(12))
def test_long_names_are_written_like_short_ones(tmp_path, seed):
    target = tmp_path / drawn_name(seed)
    for content in (b"old", b"new"):
        atomic_write(target, lambda partial, content=content: partial.write_bytes(content))
        assert target.read_bytes() == content and os.listdir(tmp_path) == [target.name]


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path):
    for seed in (0, 5):
        target = tmp_path / drawn_name(seed)
        run = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
        assert run.returncode == -signal.SIGKILL and len(os.listdir(tmp_path)) == 1
        atomic_write(target, lambda partial: partial.write_bytes(b"whole"))
        assert os.listdir(tmp_path) == [target.name]
        target.unlink()
