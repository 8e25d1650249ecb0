"""The quick version of benchmarks/kills.py: a run that is killed, starved of disk, or not listened to leaves whole files."""

import importlib.util
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import planted
from pathology.tries import tried
from planted.moments import joint_moments

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def kills():
    """The study, with the cheapest of its commands alone."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("planted_kills", BENCHMARKS / "kills.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    module.JOBS = (module.MEMORIZE,)
    module.alone = undisturbed_once(module)
    return module


def undisturbed_once(module):
    """Return ``alone`` without its run where an earlier test made it: the same command with the same seed."""
    plain, known = module.alone, []

    @contextmanager
    def alone(job, seed):
        if not known:
            with plain(job, seed) as (_, expected, took):
                known.append((expected, took))
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder), *known[0]

    return alone


def one_seed(count):
    return range(21, 22)


def test_signals_leave_whole_files_and_honest_codes(kills):
    rows = kills.kill_often(kills.MEMORIZE, range(20, 23), 3)
    tried(len(rows))
    assert {row["signal"] for row in rows} == {"SIGINT", "SIGTERM", "SIGKILL"}
    assert not any(row["broken"] for row in rows)
    assert all(row["is_honest"] for row in rows), rows
    assert rows[-1]["end_code"] == 0 and rows[-1]["is_equal"] and not rows[-1]["strays"], rows[-1]


@pytest.mark.parametrize("study", ["full_disk", "closed_output"])
def test_an_output_is_whole_or_untouched_and_the_code_says_which(kills, study):
    _, rows = getattr(kills, study)(one_seed)
    assert len(rows) == 2 and all(row["is_right"] for row in rows), rows


def test_the_study_sees_what_is_cut_off(kills, tmp_path):
    rng = np.random.default_rng(22)
    net = tmp_path / "net.safetensors"
    planted.simulate.teacher(3, 2, random_state=rng).save(net)
    blocks = planted.RowBlocks.from_arrays(rng.standard_normal((50, 2)), rng.standard_normal((50, 1)))
    joint_moments(planted.checkpointed(blocks, tmp_path / "kept"))
    files = [path for path in kills.files_in(tmp_path) if path.name != "planted-lock.json"]
    assert len(files) == 3 and all(kills.is_whole(path) for path in files)
    for path in files:
        raw = path.read_bytes()
        path.write_bytes(raw[: int(rng.integers(1, len(raw) - 1))])
        assert not kills.is_whole(path), path.name
