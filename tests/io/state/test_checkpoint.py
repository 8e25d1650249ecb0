"""A checkpoint gives back the bits of the uninterrupted run, and refuses what it was not made for."""

import json
import subprocess
import sys

import numpy as np
import pytest

import planted
from planted import RowBlocks, checkpointed
from planted.io import Checkpoint, write_sums
from planted.io.state._sums import read_sums_with_names
from planted.moments import RowMoments, joint_moments, summarise_rows
from planted.outcomes import BadInputError, DataWarning, FileFormatError
from planted.rows import PART_BLOCKS, accumulate

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30 * PART_BLOCKS, 3)) + 100.0, RNG.standard_normal((30 * PART_BLOCKS, 2))


def source(rows=X):
    return RowBlocks.from_arrays(rows, Y, block_rows=1)


class Counting:
    """Sums rows, counts how many blocks it has seen, and is interrupted at one of them."""

    def __init__(self, interrupt_at=None):
        self.interrupt_at, self.seen = interrupt_at, 0

    def __call__(self, first_row, X, Y):
        self.seen += 1
        if first_row == self.interrupt_at:
            raise KeyboardInterrupt
        return RowMoments.of(np.hstack([X, Y]))

    def __repr__(self):  # what the checkpoint compares: the sums, not when they were interrupted
        return "Counting"


@pytest.mark.parametrize("interrupt_at", [0, 1, 5 * PART_BLOCKS - 1, 5 * PART_BLOCKS, 29 * PART_BLOCKS + 3])
def test_an_interrupted_pass_goes_on_where_it_stopped(tmp_path, interrupt_at):
    expected = accumulate(source(), Counting())
    with pytest.raises(KeyboardInterrupt):
        accumulate(checkpointed(source(), tmp_path / "ck"), Counting(interrupt_at))
    rest = Counting()
    found = accumulate(checkpointed(source(), tmp_path / "ck", resume=True), rest)
    for name in ("mean", "scatter"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert rest.seen == len(X) - interrupt_at // PART_BLOCKS * PART_BLOCKS
    again = Counting()
    accumulate(checkpointed(source(), tmp_path / "ck", resume=True), again)
    assert again.seen == 0  # a complete pass is read, not summed


def test_without_resume_the_old_checkpoint_is_replaced(tmp_path):
    accumulate(checkpointed(source(), tmp_path), Counting())
    anew = Counting()
    accumulate(checkpointed(source(), tmp_path), anew)
    assert anew.seen == len(X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": X + 1.0}, "of other data"),
        (
            {"parameters": {"method": "ica"}},
            "of other parameters .method was 'complementarity' and is 'ica'.",
        ),
        ({"version": "0.0.1"}, "of other version"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(tmp_path, change, message):
    parameters = {"method": "complementarity"}
    accumulate(checkpointed(source(), tmp_path, parameters=parameters), Counting())
    if "version" in change:
        manifest = json.loads((tmp_path / "planted-manifest.json").read_text())
        manifest["versions"]["planted"] = change["version"]
        (tmp_path / "planted-manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadInputError, match=message):
        kept = checkpointed(
            source(change.get("rows", X)),
            tmp_path,
            resume=True,
            parameters=change.get("parameters", parameters),
        )
        accumulate(kept, Counting())


def test_a_pass_that_sums_something_else_is_refused(tmp_path):
    accumulate(checkpointed(source(), tmp_path), Counting())
    with pytest.raises(BadInputError, match="its pass 1 summed something else"):
        joint_moments(checkpointed(source(), tmp_path, resume=True))


def test_another_seed_is_refused(tmp_path):
    data = planted.simulate.dataset(
        200, n_features=3, n_hidden=2, n_outputs=2, law="exponential", activity=(0.3, 0.7), random_state=0
    )
    blocks = RowBlocks.from_arrays(data.X, data.Y)
    options = {"n_hidden": 2, "method": "complementarity"}
    first = planted.recover(checkpointed(blocks, tmp_path), random_state=0, **options)
    again = planted.recover(checkpointed(blocks, tmp_path, resume=True), random_state=0, **options)
    assert first.outcome is planted.Outcome.RECOVERED
    for name in "WbAc":
        np.testing.assert_array_equal(getattr(again.network, name), getattr(first.network, name))
    with pytest.raises(BadInputError, match="the same seed"):
        planted.recover(checkpointed(blocks, tmp_path, resume=True), random_state=1, **options)


def test_a_damaged_checkpoint_is_named(tmp_path):
    accumulate(checkpointed(source(), tmp_path), Counting())
    file = tmp_path / "planted-pass-00001.npz"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(FileFormatError, match=r"planted-pass-00001\.npz is damaged"):
        accumulate(checkpointed(source(), tmp_path, resume=True), Counting())
    (tmp_path / "planted-manifest.json").write_text("{}")
    with pytest.raises(FileFormatError, match="not the manifest of a checkpoint"):
        checkpointed(source(), tmp_path, resume=True)


def test_removing_a_checkpoint_leaves_other_files_alone(tmp_path):
    accumulate(checkpointed(source(), tmp_path / "ck"), Counting())
    (tmp_path / "ck" / "mine.txt").write_text("keep")
    Checkpoint(tmp_path / "ck").remove()
    assert [file.name for file in (tmp_path / "ck").iterdir()] == ["mine.txt"]


FULL_DISK = """
import resource, sys, warnings
import numpy as np
from planted import RowBlocks, TwoLayerNetwork, checkpointed
from planted.moments import joint_moments, summarise_rows
folder = sys.argv[1]
rows = np.random.default_rng(1).standard_normal((500, 60))
blocks = checkpointed(RowBlocks.from_arrays(rows, rows[:, :2]), folder + "/ck", resume=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # from here on the kernel refuses to write more
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    joint_moments(blocks.map(lambda X, Y: (X, Y)))
    print(joint_moments(blocks).count, [str(item.message) for item in caught])
try:
    TwoLayerNetwork(np.ones((20, 60)), np.zeros(20), np.ones((2, 20))).save(folder + "/net.safetensors")
except OSError as error:
    print("refused", error.errno)
"""


def test_a_full_disk_leaves_old_files_and_does_not_stop_the_run(tmp_path):
    planted.TwoLayerNetwork([[1.0]], [0.0], [[1.0]]).save(tmp_path / "net.safetensors")
    before = (tmp_path / "net.safetensors").read_bytes()
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "500 ['the checkpoint in" in run.stdout and "the run goes on" in run.stdout
    assert "refused 27" in run.stdout  # EFBIG, what the kernel says when a file may not grow
    assert (tmp_path / "net.safetensors").read_bytes() == before
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == [
        "net.safetensors",
        "planted-manifest.json",
    ]


def test_a_disk_that_fills_up_is_warned_of_once(tmp_path, monkeypatch):
    blocks = checkpointed(source(), tmp_path)
    accumulate(blocks, Counting())
    kept = (tmp_path / "planted-pass-00001.npz").read_bytes()

    def no_space(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("planted.io.state._atomic._flush_to_disk", no_space)
    with pytest.warns(DataWarning, match="No space left on device") as caught:
        accumulate(blocks, Counting())
        accumulate(blocks, Counting())
    assert len(caught) == 1
    assert (tmp_path / "planted-pass-00001.npz").read_bytes() == kept
    assert not list(tmp_path.glob(".*"))


def test_files_of_sums_merge_in_any_order(tmp_path):
    for name, part in (("a", slice(0, 100)), ("b", slice(100, None))):
        write_sums(tmp_path / f"{name}.sums", summarise_rows(RowBlocks.from_arrays(X[part], Y[part]), 50))
    there, back = (
        read_sums_with_names([tmp_path / f"{name}.sums" for name in order])[0] for order in ("ab", "ba")
    )
    np.testing.assert_array_equal(there.X, back.X)
    assert there.count == len(X)
    (tmp_path / "a.sums").write_bytes(b"no archive")
    with pytest.raises(FileFormatError, match="not a file of sums"):
        read_sums_with_names([tmp_path / "a.sums"])
    with pytest.raises(BadInputError, match="there is no file"):
        read_sums_with_names([tmp_path / "c.sums"])
