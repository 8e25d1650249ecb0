"""A checkpoint belongs to its rows, to one run at a time, and touches nothing that planted did not write.

Each promise is tried on drawn cases: which row changes, where a run is interrupted, which byte of a file is damaged.
"""

import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import planted
from pathology.tries import tried
from planted import RowBlocks, checkpointed, open_blocks
from planted._clock import StopRequested, time_budget
from planted.cli._data import default_folder
from planted.io import Checkpoint
from planted.io.state._atomic import _place, atomic_write
from planted.io.state._lock import LOCK
from planted.moments import joint_moments
from planted.outcomes import BadInputError, FileFormatError, PlantedError
from planted.rows import PART_BLOCKS, RowSource, accumulate

N_ROWS, STEP = 20 * PART_BLOCKS, 1
COMMAND = Path(sys.executable).parent / "planted"


def drawn_rows(seed, columns=4):
    return np.random.default_rng(seed).standard_normal((N_ROWS, columns))


def write_rows(path, rows):
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".npz":
        np.savez(path, X=rows[:, :-1], Y=rows[:, -1:])
    else:
        np.savetxt(path, rows, delimiter=",", header=",".join("abcd"), comments="", fmt="%.17g")


class Stop:
    """Sums rows until a row, then is interrupted."""

    def __init__(self, at=None):
        self.at = at

    def __call__(self, first_row, X, Y):
        if first_row == self.at:
            raise KeyboardInterrupt
        return planted.moments.RowMoments.of(np.hstack([X, Y]))

    def __repr__(self):
        return "Stop"


def interrupted(blocks, folder, at):
    """Leave the checkpoint of one complete pass and of one that stopped, or of one that stopped."""
    kept = checkpointed(blocks, folder, parameters={"seed": 1})
    if at >= N_ROWS:
        accumulate(kept, Stop())
        at -= N_ROWS
    with pytest.raises(KeyboardInterrupt):
        accumulate(kept, Stop(at))


def both_passes(blocks):
    return [accumulate(blocks, Stop()) for _ in range(2)]


def contents(folder):
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


# Which rows


@pytest.mark.parametrize("case", range(16))
def test_a_row_changed_anywhere_is_refused_and_equal_rows_are_taken(tmp_path, case):
    draw = np.random.default_rng([1, case])
    data = tmp_path / f"rows{('.npy', '.npz', '.csv')[case % 3]}"
    rows = drawn_rows(case)
    write_rows(data, rows)
    before = data.stat()
    at = int(draw.integers(2 * PART_BLOCKS, 2 * N_ROWS))
    interrupted(open_blocks(data, block_rows=STEP), tmp_path / "ck", at)

    # A row that was already summed: other digits of one number, the same size, the same time.
    place = int(draw.integers(0, min(at, N_ROWS) // PART_BLOCKS * PART_BLOCKS)), int(draw.integers(0, 4))
    changed = rows.copy()
    changed[place] = np.nextafter(changed[place], np.inf)
    write_rows(data, changed)
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(BadInputError, match="of other data: the rows are not those"):
        both_passes(
            checkpointed(
                open_blocks(data, block_rows=STEP), tmp_path / "ck", resume=True, parameters={"seed": 1}
            )
        )

    moved = tmp_path / f"moved{data.suffix}"  # the same rows elsewhere, at another time, are the same rows
    write_rows(moved, rows)
    again = checkpointed(
        open_blocks(moved, block_rows=STEP), tmp_path / "ck", resume=True, parameters={"seed": 1}
    )
    for found, expected in zip(
        both_passes(again), both_passes(open_blocks(moved, block_rows=STEP)), strict=True
    ):
        np.testing.assert_array_equal(found.scatter, expected.scatter)


@pytest.mark.parametrize("case", range(3))
def test_a_row_in_the_middle_of_a_large_file_counts(tmp_path, case):
    """Size, time and both ends of the file stay: only the middle differs."""
    draw, data = np.random.default_rng([6, case]), tmp_path / "rows.npy"
    rows = draw.standard_normal((150_000, 4))  # 4.8 MB
    np.save(data, rows)
    before = data.stat()
    joint_moments(checkpointed(open_blocks(data), tmp_path / "ck"))
    place = int(draw.integers(50_000, 100_000))
    with data.open("r+b") as file:
        file.seek(before.st_size - 8 * rows.size + 32 * place)
        file.write(np.float64(rows[place, 0] + 1.0).tobytes())
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(BadInputError, match="of other data"):
        joint_moments(checkpointed(open_blocks(data), tmp_path / "ck", resume=True))


@pytest.mark.parametrize("case", range(8))
def test_rows_of_streams_views_and_weights_are_compared_too(tmp_path, case):
    draw = np.random.default_rng([2, case])
    rows, place = drawn_rows(case), int(draw.integers(0, N_ROWS))
    changed = rows.copy()
    changed[place, int(draw.integers(0, 4))] += 1e-9
    weights = draw.uniform(0.5, 1.5, N_ROWS)

    def blocks(table, w=weights, shift=0.0):
        pairs = [(table[i : i + 8, :3], table[i : i + 8, 3:]) for i in range(0, N_ROWS, 8)]
        arrays = RowBlocks.from_arrays(table[:, :3], table[:, 3:], block_rows=8)
        stream = RowBlocks(lambda: iter(pairs))
        return [
            arrays, stream, arrays.map(lambda X, Y: (X + shift, Y)), stream.weighted(w), arrays.weighted(w),
        ]  # fmt: skip

    for number, given in enumerate(blocks(rows)):
        folder = tmp_path / str(number)
        expected = joint_moments(checkpointed(given, folder))
        same = joint_moments(checkpointed(blocks(rows)[number], folder, resume=True))
        np.testing.assert_array_equal(same.scatter, expected.scatter)
        with pytest.raises(BadInputError, match="of other data"):
            joint_moments(checkpointed(blocks(changed)[number], folder, resume=True))
    heavier = weights.copy()
    heavier[place] *= 2
    for number, others in (
        (2, blocks(rows, shift=1e-9)),
        (3, blocks(rows, heavier)),
        (4, blocks(rows, heavier)),
    ):
        with pytest.raises(BadInputError, match="of other data"):
            joint_moments(checkpointed(others[number], tmp_path / str(number), resume=True))


class Counted(RowSource):
    """Rows of arrays that count how often each was read."""

    def __init__(self, rows):
        self.inner = RowBlocks.from_arrays(rows[:, :3], rows[:, 3:], block_rows=STEP).source
        self.read = np.zeros(len(rows), dtype=int)

    @property
    def n_parts(self):
        return self.inner.n_parts

    def blocks(self, first, last):
        for block in self.inner.blocks(first, last):
            self.read[block.first_row] += 1
            yield block


@pytest.mark.parametrize("at", [3 * PART_BLOCKS, 9 * PART_BLOCKS + 5])
def test_rows_are_hashed_by_the_pass_that_reads_them(tmp_path, at):
    source = Counted(drawn_rows(0))
    kept = checkpointed(RowBlocks.from_source(source), tmp_path / "a")
    both_passes(kept)
    assert (source.read == 2).all()  # no reading for the hash alone

    source = Counted(drawn_rows(0))
    interrupted(RowBlocks.from_source(source), tmp_path / "b", at)
    source.read[:] = 0
    resumed = checkpointed(RowBlocks.from_source(source), tmp_path / "b", resume=True, parameters={"seed": 1})
    assert not source.read.any()  # not before something is summed, so that a time budget holds for it
    with pytest.raises(StopRequested), time_budget(0.0):
        accumulate(resumed, Stop())
    source.read[:] = 0
    accumulate(resumed.executed(), Stop())
    summed = at // PART_BLOCKS * PART_BLOCKS
    assert (source.read[:summed] == 1).all() and (source.read[summed:] == 2).all()


def test_a_file_that_changes_during_a_run_ends_it(tmp_path):
    data = tmp_path / "rows.npy"
    write_rows(data, drawn_rows(0))
    kept = checkpointed(open_blocks(data, block_rows=STEP), tmp_path / "ck")
    accumulate(kept, Stop())
    write_rows(tmp_path / "new.npy", drawn_rows(1))
    os.replace(tmp_path / "new.npy", data)
    with pytest.raises(BadInputError, match=r"rows\.npy changed while the run was reading it"):
        accumulate(kept, Stop())


def test_rows_with_a_name_are_the_callers_word(tmp_path):
    source = Counted(drawn_rows(0))
    joint_moments(checkpointed(RowBlocks.from_source(source), tmp_path, identity="table 7 of Monday"))
    joint_moments(
        checkpointed(RowBlocks.from_source(source), tmp_path, resume=True, identity="table 7 of Monday")
    )
    assert (source.read == 1).all()  # nothing was hashed, and the complete pass was not summed again
    for other in ("table 7 of Tuesday", None):
        with pytest.raises(BadInputError, match="of other data"):
            checkpointed(RowBlocks.from_source(source), tmp_path, resume=True, identity=other)


def test_same_named_files_have_their_own_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {default_folder(Path(folder) / "rows.npy") for folder in "abc"}
    assert len(names) == 3 and all(str(name).startswith("rows.npy.") for name in names)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a").mkdir()
    ways = ("a/rows.npy", "./a/../a/rows.npy", str(tmp_path / "a" / "rows.npy"), "link/rows.npy")
    assert len({default_folder(Path(way)) for way in ways}) == 1
    for place in ("a", "b"):
        (tmp_path / place).mkdir(exist_ok=True)
        write_rows(tmp_path / place / "rows.npy", drawn_rows(ord(place)))
    interrupted(
        open_blocks(tmp_path / "a" / "rows.npy", block_rows=STEP), tmp_path / "shared", 5 * PART_BLOCKS
    )
    with pytest.raises(BadInputError, match="of other data"):  # a folder given by hand, data of the same name
        both_passes(
            checkpointed(
                open_blocks(tmp_path / "b" / "rows.npy", block_rows=STEP),
                tmp_path / "shared",
                resume=True,
                parameters={"seed": 1},
            )
        )


@pytest.mark.parametrize("name", ["planted-manifest.json", "manifest.json", "planted-lock.json"])
def test_records_of_any_length_are_not_read(tmp_path, name):
    """Holes read as zero bytes: gigabytes of them, or a pipe that never ends."""
    for resume in (False, True):
        folder = tmp_path / f"long-{resume}"
        folder.mkdir()
        (folder / name).touch()
        os.truncate(folder / name, 4 * 10**9)
        tracemalloc.start()
        try:
            if name == "manifest.json":  # not planted's: nothing is looked for in it
                checkpointed(rows_of_nine(), folder, resume=resume)
            else:
                with pytest.raises(PlantedError, match=name):
                    checkpointed(rows_of_nine(), folder, resume=resume)
            assert tracemalloc.get_traced_memory()[1] < 10**7
        finally:
            tracemalloc.stop()
        assert (folder / name).stat().st_size == 4 * 10**9
    if name == "manifest.json":
        (tmp_path / "pipe").mkdir()
        os.mkfifo(tmp_path / "pipe" / name)
        checkpointed(rows_of_nine(), tmp_path / "pipe", resume=True)


def test_a_checkpoint_of_version_0_1_0_is_refused_and_left_alone(tmp_path):
    old = {
        "format": "planted.checkpoint",
        "schema": 2,
        "versions": {"planted": "0.1.0"},
        "data": "x",
        "parameters": {},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(old))
    head = {"number": 1, "digest": "0", "counts": [1], "kinds": ["planted.moments._gram.RowMoments"]}
    np.savez(tmp_path / "pass-00001.npz", head=np.array(json.dumps(head)))
    before = contents(tmp_path)
    blocks = RowBlocks.from_source(Counted(drawn_rows(0)))
    with pytest.raises(BadInputError, match=r"planted 0\.1\.0 wrote it"):
        checkpointed(blocks, tmp_path, resume=True)
    joint_moments(checkpointed(blocks, tmp_path))
    Checkpoint(tmp_path).remove()
    assert contents(tmp_path) == before


# One run at a time

HOLD = """
import sys, time
import numpy as np
from planted import RowBlocks, checkpointed
kept = checkpointed(RowBlocks.from_arrays(np.eye(9), np.ones((9, 1))), sys.argv[1])
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


def holder(folder, seconds):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def rows_of_nine():
    return RowBlocks.from_arrays(np.eye(9), np.ones((9, 1)))


def test_a_second_run_refuses_waits_or_takes_over_from_a_dead_one(tmp_path):
    tried(5)  # two runs, a removal, a dead holder, one that ends
    first = holder(tmp_path / "ck", 600)
    try:
        before = contents(tmp_path)
        for resume in (False, True):
            with pytest.raises(
                BadInputError, match=f"in use by process {first.pid} on {socket.gethostname()}"
            ):
                checkpointed(rows_of_nine(), tmp_path / "ck", resume=resume)
        with pytest.raises(BadInputError, match=f"in use by process {first.pid}"):
            Checkpoint(tmp_path / "ck").remove()
        assert contents(tmp_path) == before
    finally:
        first.kill()
        first.wait()
    assert (tmp_path / "ck" / LOCK).exists()  # of the killed process
    assert joint_moments(checkpointed(rows_of_nine(), tmp_path / "ck")).count == 9
    Checkpoint(tmp_path / "ck").remove()
    assert not (tmp_path / "ck").exists()

    second = holder(tmp_path / "ck", 1.0)
    began = time.monotonic()
    assert joint_moments(checkpointed(rows_of_nine(), tmp_path / "ck", wait_seconds=300)).count == 9
    assert second.wait(60) == 0 and time.monotonic() - began > 0.5


def test_two_commands_on_one_checkpoint(tmp_path):
    """The second run refuses by name, or waits as long as it was told to."""
    write_rows(tmp_path / "rows.npy", drawn_rows(0))
    words = [
        "recover",
        "rows.npy",
        "--targets",
        "3",
        "--stream",
        "--hidden",
        "1",
        "--seed",
        "1",
        "--budget",
        "0.2",
    ]
    first = holder(tmp_path / default_folder(tmp_path / "rows.npy"), 600)
    try:
        run = subprocess.run([COMMAND, *words], cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 2
        assert f"in use by process {first.pid}" in " ".join(run.stderr.split())
        waiting = subprocess.Popen(
            [COMMAND, *words, "--wait", "300"], cwd=tmp_path, stdout=subprocess.DEVNULL
        )
        time.sleep(0.5)
        assert waiting.poll() is None
    finally:
        first.kill()
        first.wait()
    assert waiting.wait(120) in (0, 1)


@pytest.mark.parametrize(
    "text", ["", json.dumps({"format": "planted.lock", "pid": 1, "host": "elsewhere"}), "mine"]
)
def test_a_lock_of_another_host_is_not_taken_and_an_empty_one_is(tmp_path, text):
    (tmp_path / LOCK).write_text(text)
    if not text:
        assert joint_moments(checkpointed(rows_of_nine(), tmp_path)).count == 9
        return
    message = "not a file of planted" if text == "mine" else "in use by process 1 on elsewhere.* delete"
    with pytest.raises(BadInputError, match=message):
        checkpointed(rows_of_nine(), tmp_path)
    assert (tmp_path / LOCK).read_text() == text


def test_within_a_process_the_newest_run_counts(tmp_path):
    older = checkpointed(rows_of_nine(), tmp_path)
    newer = checkpointed(rows_of_nine(), tmp_path)
    with pytest.raises(BadInputError, match="another run of this process"):
        joint_moments(older)
    assert joint_moments(newer).count == 9


# What is not planted's


@pytest.mark.parametrize("case", range(10))
def test_files_of_the_user_are_never_touched(tmp_path, case):
    draw = np.random.default_rng([3, case])
    folder, target = tmp_path / "mine", tmp_path / "precious"
    folder.mkdir()
    target.write_bytes(b"precious")
    names = [
        "manifest.json", "pass-00001.npz", "open-pass.npz", "planted.txt", "planted-notes.json", "planted-pass-1.npz",
        ".planted-pass-00001.part.npz", f".planted-pass-00001.{_place()}-{os.getpid()}-01234567.part.npz",
        ".hidden", "rows.npy", "lock", "planted-manifest.json.bak",
    ]  # fmt: skip
    for name in draw.choice(names, size=5, replace=False):
        (folder / name).write_bytes(draw.bytes(int(draw.integers(0, 200))))
    before = contents(tmp_path)
    interrupted(RowBlocks.from_source(Counted(drawn_rows(case))), folder, int(draw.integers(1, 2 * N_ROWS)))
    resumes = bool(draw.integers(0, 2))
    blocks = RowBlocks.from_source(Counted(drawn_rows(case)))
    both_passes(checkpointed(blocks, folder, resume=resumes, parameters={"seed": 1}))
    assert {name: found for name, found in contents(tmp_path).items() if name in before} == before
    Checkpoint(folder).remove()
    assert contents(tmp_path) == before

    # A name of planted's on a file that is not: refused, whatever is asked, and nothing changes.
    name = str(draw.choice(["planted-manifest.json", "planted-pass-00001.npz", "planted-open-pass.npz"]))
    if draw.integers(0, 2):
        (folder / name).write_bytes(b'{"mine": true}')
    else:
        (folder / name).symlink_to(target)
    before = contents(tmp_path)
    with pytest.raises(PlantedError, match="choose another folder"):
        checkpointed(blocks, folder, resume=resumes)
    found = contents(tmp_path)
    found.pop(f"mine/{LOCK}", None)
    assert found == before


def test_an_empty_folder_of_the_user_stays(tmp_path):
    joint_moments(checkpointed(rows_of_nine(), tmp_path / "made" / "here"))
    Checkpoint(tmp_path / "made" / "here").remove()
    assert not (tmp_path / "made" / "here").exists()
    (tmp_path / "empty").mkdir()
    joint_moments(checkpointed(rows_of_nine(), tmp_path / "empty"))
    Checkpoint(tmp_path / "empty").remove()
    assert (tmp_path / "empty").is_dir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadInputError, match="is a file; expected a folder"):
        checkpointed(rows_of_nine(), tmp_path / "file")


KILLED = """
import os, signal, sys
from pathlib import Path
from planted.io import atomic_write
def write(partial):
    partial.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
atomic_write(Path(sys.argv[1]), write)
"""


def test_parts_of_killed_processes_are_cleaned_and_those_of_living_ones_stay(tmp_path):
    for name in ("planted-pass-00007.npz", "result.json"):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / name)])
        assert killed.returncode == -signal.SIGKILL
    alive = tmp_path / f".result.{_place()}-{os.getppid()}-01234567.part.json"
    elsewhere = tmp_path / ".result.00000000-1-01234567.part.json"
    for path in (alive, elsewhere):
        path.write_text("under way")
    assert len(list(tmp_path.glob(".*.part.*"))) == 4
    tried(4)
    joint_moments(checkpointed(rows_of_nine(), tmp_path))
    assert len(list(tmp_path.glob(".*.part.*"))) == 3
    atomic_write(tmp_path / "result.json", lambda partial: partial.write_text("whole"))
    assert sorted(tmp_path.glob(".*.part.*")) == sorted([alive, elsewhere])


# Damage


@pytest.mark.parametrize(
    "forge",
    [
        lambda head: head | {"counts": [9]},
        lambda head: head | {"counts": "no"},
        lambda head: head | {"kinds": ["planted.no.Such"]},
        lambda head: head | {"kinds": [None]},
        lambda head: {"number": 1},
    ],
)
def test_a_forged_pass_is_a_typed_error(tmp_path, forge):
    """A file with a right hash and a wrong head."""
    from planted.io.state import _checkpoint

    joint_moments(checkpointed(rows_of_nine(), tmp_path))
    path = tmp_path / "planted-pass-00001.npz"
    with np.load(io.BytesIO(path.read_bytes()[_checkpoint._LINE_BYTES :])) as archive:
        arrays = dict(archive)
    head = json.loads(str(arrays.pop("head")))
    _checkpoint._save(forge(head), arrays, path)
    with pytest.raises(PlantedError, match="planted-pass-00001"):
        joint_moments(checkpointed(rows_of_nine(), tmp_path, resume=True))


def test_the_hash_covers_the_file(tmp_path):
    joint_moments(checkpointed(rows_of_nine(), tmp_path))
    line, _, rest = (tmp_path / "planted-pass-00001.npz").read_bytes().partition(b"\n")
    assert line.split()[-1].decode() == hashlib.sha256(rest).hexdigest()
    (tmp_path / "planted-pass-00001.npz").write_bytes(line + b"\n" + rest[:-1])
    with pytest.raises(FileFormatError, match=r"planted-pass-00001\.npz is damaged"):
        checkpointed(rows_of_nine(), tmp_path, resume=True)
