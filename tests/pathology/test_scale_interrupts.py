"""`planted recover` ended by SIGINT, SIGTERM and SIGKILL at five drawn moments, then resumed: the same bytes.

The checkpoint lies in a folder with files of the user, which nothing touches.
"""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import planted
from pathology.tries import tried

COMMAND = Path(sys.executable).parent / "planted"
DATA = planted.simulate.dataset(
    150_000, n_features=6, n_hidden=3, n_outputs=4, law="exponential", activity=(0.3, 0.7), random_state=1
)
TARGETS = ["6", "7", "8", "9"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("interrupts")
    np.save(where / "rows.npy", np.hstack([DATA.X, DATA.Y]))
    return where


def begin(folder, out, *extra):
    arguments = [
        "recover", "rows.npy", "--targets", *TARGETS, "--hidden", "3", "--method", "complementarity", "--stream",
        "--out", out, *extra,
    ]  # fmt: skip
    return subprocess.Popen(
        [COMMAND, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


USER_FILES = {
    "manifest.json": b"{}",
    "pass-00001.npz": b"mine",
    "open-pass.npz": b"",
    "notes.txt": b"keep",
    ".pass-00001.0123456789abcdef.part.npz": b"not planted's",
}
SIGNALS = (signal.SIGINT, signal.SIGKILL, signal.SIGTERM)


def test_five_interruptions_cost_time_and_no_byte(folder):
    for name, contents in USER_FILES.items():
        (folder / "mine" / name).parent.mkdir(exist_ok=True)
        (folder / "mine" / name).write_bytes(contents)
    began = time.monotonic()
    whole = begin(folder, "whole.safetensors", "--seed", "5")
    whole.communicate()
    took = time.monotonic() - began
    codes = []
    moments = np.random.default_rng(8)
    for number in range(5):
        extra = ["--resume"] if number else []
        run = begin(folder, "parts.safetensors", "--checkpoint", "mine", "--seed", "5", *extra)
        with suppress(subprocess.TimeoutExpired):
            run.wait(took * moments.uniform(0.3, 0.8))
        run.send_signal(SIGNALS[number % 3])
        tried()
        run.communicate()
        codes.append(run.returncode)
    # The checkpoint knows the seed; a run that ended before its interruption has left none.
    seed = [] if list((folder / "mine").glob("planted-*")) else ["--seed", "5"]
    last = begin(folder, "parts.safetensors", "--checkpoint", "mine", "--resume", *seed)
    text = "".join(last.communicate())
    assert last.returncode == whole.returncode, text
    assert (folder / "parts.safetensors").read_bytes() == (folder / "whole.safetensors").read_bytes()
    # A run that came to its end leaves nothing of its own, and everything of the user's.
    left = {path.name: path.read_bytes() for path in (folder / "mine").iterdir()}
    assert left == USER_FILES
    assert not [path for path in folder.iterdir() if ".part" in path.name or "checkpoint" in path.name]
    assert {-signal.SIGKILL, -signal.SIGTERM, 130} & set(codes), codes


def test_the_first_interrupt_leaves_a_checkpoint_and_exits_130(folder):
    run = begin(folder, "never.safetensors", "--checkpoint", "kept", "--seed", "5")
    for _ in range(3000):  # until the first pass is complete
        if list((folder / "kept").glob("planted-pass-*.npz")) or run.poll() is not None:
            break
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate()
    assert run.returncode == 130, errors
    assert (folder / "kept" / "planted-manifest.json").exists()
    other = begin(folder, "never.safetensors", "--checkpoint", "kept", "--resume", "--seed", "6")
    assert "of other parameters (seed was 5 and is 6)" in other.communicate()[1].replace("\n", " ")
    assert other.returncode == 2
