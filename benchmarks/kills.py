"""Runs that are killed, crowded or starved: files whole, bytes equal after a resume, exit codes honest.

`recover --stream`, `memorize` and `reproduce` each get 30 signals, SIGINT, SIGTERM and SIGKILL in drawn order, at
drawn moments of the time the run usually takes. After each signal every file in the folder must be whole and the exit
code must say what happened; after every third the run is taken to its end, and must then leave the bytes of a run
that nobody disturbed and no temporary file.

`crowds` starts two runs at once, on the same data and on data of the same name in two folders. Each must end with the
network of its own data, or refuse.

`starved` limits the size of files (what a full disk does to a write), makes folders read-only, and closes the
standard output or lets nobody read it. An output is written whole, with exit code 0, or left as it was, with another
code; what happens to the standard output changes neither.

With --quick there are three signals for each command.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _table import Line, Rows, at_least, gather, run_sections

import planted
from planted.outcomes import PlantedError

COMMAND = Path(sys.executable).parent / "planted"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
INTERRUPTED = {
    signal.SIGINT: {130, -signal.SIGINT},
    signal.SIGTERM: {-signal.SIGTERM},
    signal.SIGKILL: {-signal.SIGKILL},
}
N_ROWS = 60_000


@dataclass(frozen=True)
class Job:
    """A command that writes files."""

    name: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]  # what it writes, with the same bytes every time
    resume: tuple[str, ...] = ()  # added after an interruption


RECOVER = Job(
    "recover --stream",
    ("recover", "rows.npy", "--targets", "6", "7", "8", "9", "--hidden", "3", "--method", "complementarity", "--stream",
     "--seed", "5", "--out", "net.safetensors"),
    ("net.safetensors",),
    ("--resume",),
)  # fmt: skip
MEMORIZE = Job(
    "memorize",
    ("memorize", "digits", "--rows", "200", "--seed", "0", "--out", "memory.safetensors"),
    ("memory.safetensors",),
)
REPRODUCE = Job(
    "reproduce",
    ("reproduce", "general-relu", "--figure", "variance", "--quick", "--seed", "3", "--out", "figures"),
    tuple(f"figures/general-relu-variance.{suffix}" for suffix in ("svg", "csv", "md")),
)
JOBS = (RECOVER, MEMORIZE, REPRODUCE)


def write_rows(path: Path, seed: int, n: int = N_ROWS) -> None:
    """Write rows of a drawn network."""
    data = planted.simulate.dataset(
        n, n_features=6, n_hidden=3, n_outputs=4, law="exponential", activity=(0.3, 0.7), random_state=seed
    )
    path.parent.mkdir(exist_ok=True)
    np.save(path, np.hstack([data.X, data.Y]))


def begin(job: Job, folder: Path, *extra: str, **options: Any) -> subprocess.Popen[str]:
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([COMMAND, *job.arguments, *extra], cwd=folder, env=environment, **given)


def finish(job: Job, folder: Path, *extra: str, **options: Any) -> tuple[int, str]:
    """Run a job to its end; return its exit code and what it said on standard error."""
    run = begin(job, folder, *extra, **options)
    errors = run.communicate()[1]
    return run.returncode, said(errors, folder)


def said(errors: str | None, folder: Path) -> str:
    """Return a message in one line, without the name of the temporary folder."""
    return " ".join((errors or "").split()).replace(f"{folder.parent}/", "")


def contents(job: Job, folder: Path) -> dict[str, bytes | None]:
    """Return the bytes of the outputs, None where there is none."""
    paths = {name: folder / name for name in job.outputs}
    return {name: path.read_bytes() if path.exists() else None for name, path in paths.items()}


def is_whole(path: Path) -> bool:
    """Tell whether a file that planted wrote is complete; the lock of a folder may be empty."""
    raw = path.read_bytes()
    if path.name == "planted-lock.json":
        return True
    if path.name.startswith("planted-") and path.suffix == ".npz":
        head, _, rest = raw.partition(b"\n")
        return head == b"planted checkpoint 3 sha256 " + hashlib.sha256(rest).hexdigest().encode()
    if path.suffix == ".safetensors":
        try:
            planted.load_network(path)
        except PlantedError:
            return False
    if path.suffix == ".json":
        try:
            json.loads(raw)
        except ValueError:
            return False
    if path.suffix in (".svg", ".md"):
        body, _, seal = raw.rpartition(b"<!-- ")
        return hashlib.sha256(body).hexdigest().encode() in seal
    return raw.endswith(b"\n") if path.suffix == ".csv" else True


def files_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def strays_in(folder: Path) -> list[str]:
    return [path.name for path in files_in(folder) if ".part" in path.name]


@contextmanager
def alone(job: Job, seed: int) -> Iterator[tuple[Path, dict[str, bytes | None], float]]:
    """Run a job once undisturbed; give a folder for disturbed ones, the outputs to expect, and the usual seconds."""
    with tempfile.TemporaryDirectory() as name:
        whole, folder = Path(name) / "whole", Path(name) / "disturbed"
        for where in (whole, folder):
            where.mkdir()
            if job is RECOVER:
                write_rows(where / "rows.npy", seed)
        began = time.monotonic()
        code, errors = finish(job, whole)
        if code != 0:
            raise SystemExit(f"planted {' '.join(job.arguments)} ended with {code}: {errors}")
        yield folder, contents(job, whole), time.monotonic() - began


def kill_often(job: Job, seeds: range, count: int) -> Rows:
    """Send signals at drawn moments; after every third let the run come to its end."""
    rows: Rows = []
    rng = np.random.default_rng([seeds[0], JOBS.index(job)])
    with alone(job, seeds[0]) as (folder, expected, took):
        drawn: list[signal.Signals] = []
        is_resumed = False
        for number in range(count):
            drawn = drawn or [SIGNALS[place] for place in rng.permutation(3)]
            sent, share = drawn.pop(), float(rng.uniform(0.2, 1.0))
            run = begin(job, folder, *(job.resume if is_resumed else ()))
            with suppress(subprocess.TimeoutExpired):
                run.wait(took * share)
            was_running = run.poll() is None
            run.send_signal(sent)
            run.communicate()
            code = run.returncode
            is_resumed = True
            broken = [
                path.name for path in files_in(folder) if ".part" not in path.name and not is_whole(path)
            ]
            ended = code == 0 and contents(job, folder) == expected
            row = {
                "job": job.name,
                "signal": sent.name,
                "share": round(share, 3),
                "was_running": was_running,
                "code": code,
                "broken": broken,
                "is_honest": code in INTERRUPTED[sent] or ended,
            }
            if number % 3 == 2 or number == count - 1:
                code, errors = finish(job, folder, *job.resume)
                row |= {
                    "end_code": code,
                    "is_equal": contents(job, folder) == expected,
                    "strays": strays_in(folder),
                    "errors": errors if code else "",
                }
                for name in job.outputs:
                    if job is not MEMORIZE:  # its output stays, to see that a kill leaves the old file
                        (folder / name).unlink(missing_ok=True)
                is_resumed = False
            rows.append(row)
    return rows


def kills(job: Job) -> Callable[[Callable[[int], range]], tuple[list[Line], Rows]]:
    def measure(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
        count = len(seeds(30))
        rows = kill_often(job, seeds(30), count)
        ends = [row for row in rows if "end_code" in row]
        hit = sum(row["was_running"] for row in rows)
        what = f"{count} signals to `{job.name}`"
        return [
            at_least(
                f"{what}: files whole",
                sum(not row["broken"] for row in rows),
                count,
                1.0,
                f", {hit} while running",
            ),
            at_least(f"{what}: exit codes honest", sum(row["is_honest"] for row in rows), count, 1.0),
            at_least(
                f"{what}: bytes equal after they ended, nothing left behind",
                sum(row["end_code"] == 0 and row["is_equal"] and not row["strays"] for row in ends),
                len(ends),
                1.0,
            ),
        ], rows

    return measure


def crowd(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    """Two runs at once."""
    rows: Rows = []
    for seed in seeds(10):
        with alone(RECOVER, seed) as (folder, expected, took):
            delay = float(np.random.default_rng([seed, 9]).uniform(0.0, 0.5)) * took
            first = begin(RECOVER, folder)
            time.sleep(delay)
            second = begin(RECOVER, folder, "--out", "second.safetensors")
            ends = [run.communicate()[1] for run in (first, second)]
            made = [folder / "net.safetensors", folder / "second.safetensors"]
            right = [
                path.read_bytes() == expected["net.safetensors"]
                if run.returncode == 0
                else run.returncode == 2
                for run, path in zip((first, second), made, strict=True)
            ]
            rows.append({
                "case": "the same data", "seed": seed, "codes": [first.returncode, second.returncode],
                "said": [said(text, folder)[-200:] for text in ends], "strays": strays_in(folder),
                "is_right": all(right) and first.returncode == 0,
            })  # fmt: skip
            here = [folder / name for name in ("a", "b")]
            truths = []
            for place, where in enumerate(here):
                write_rows(where / "rows.npy", seed + 100 + place, N_ROWS // 4)
                truths.append(np.load(where / "rows.npy"))
            named = [_on(RECOVER, f"{where.name}/rows.npy", f"{where.name}.safetensors") for where in here]
            runs = [begin(job, folder) for job in named]
            codes = [run.wait() for run in runs if run.communicate() is not None]
            errors = [
                float(
                    np.abs(planted.load_network(folder / job.outputs[0])(rows_[:, :6]) - rows_[:, 6:]).max()
                )
                if (folder / job.outputs[0]).exists()
                else np.inf
                for job, rows_ in zip(named, truths, strict=True)
            ]
            rows.append({
                "case": "data of the same name", "seed": seed, "codes": codes, "largest_residuals": errors,
                "strays": strays_in(folder), "is_right": codes == [0, 0] and max(errors) < 1e-8,
            })  # fmt: skip
    lines = []
    for case in ("the same data", "data of the same name"):
        found = [row for row in rows if row["case"] == case]
        lines.append(
            at_least(
                f"two runs at once on {case}: each its own network",
                sum(row["is_right"] for row in found),
                len(found),
                1.0,
            )
        )
    return lines, rows


def _on(job: Job, data: str, out: str) -> Job:
    """Return the same job on other data."""
    places = {"rows.npy": data, "net.safetensors": out}
    return Job(job.name, tuple(places.get(word, word) for word in job.arguments), (out,), job.resume)


def full_disk(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    """Limit the size of files, below and above that of the outputs."""
    rows: Rows = []
    for job in JOBS:
        with alone(job, seeds(1)[0]) as (folder, expected, _):
            sizes = [len(raw or b"") for raw in expected.values()]
            rng = np.random.default_rng([seeds(1)[0], 7])
            limits = [int(rng.uniform(0, min(sizes))) for _ in seeds(30)[:3]] + [max(sizes) + 1_000_000]
            for limit in limits:
                # Python ignores SIGXFSZ, so that a write beyond the limit fails like one on a full disk.
                def limited(limit: int = limit) -> None:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

                code, errors = finish(job, folder, preexec_fn=limited)
                made = contents(job, folder)
                fits = limit > max(sizes)
                is_written = code == 0 and made == expected
                is_refused = code == 2 and not any(made.values()) and bool(errors)
                right = is_written if fits else is_refused
                rows.append({
                    "case": "full disk", "job": job.name, "limit": limit, "code": code, "is_right": right,
                    "strays": strays_in(folder), "said": errors[-200:],
                })  # fmt: skip
    right = sum(row["is_right"] and not row["strays"] for row in rows)
    return [at_least("full disk: whole with code 0, or untouched with code 2", right, len(rows), 1.0)], rows


def _without_override() -> None:
    """Take from root the right to write where permissions say no; others do not have it."""
    CAP_DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def read_only(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    """Run in a folder that may not be written to, with the output there and elsewhere."""
    rows: Rows = []
    for job in JOBS:
        with alone(job, seeds(1)[0]) as (folder, expected, _):
            before = [path.name for path in files_in(folder)]
            (folder.parent / "elsewhere").mkdir()
            (folder.parent / "elsewhere" / "figures").mkdir()
            folder.chmod(0o555)
            code, errors = finish(job, folder, preexec_fn=_without_override)
            right = code == 2 and bool(errors) and [path.name for path in files_in(folder)] == before
            rows.append({"case": "output in a read-only folder", "job": job.name, "code": code, "is_right": right,
                         "said": errors[-200:]})  # fmt: skip
            elsewhere = folder.parent / "elsewhere"
            target = elsewhere / job.arguments[-1]
            code, errors = finish(job, folder, "--out", str(target), preexec_fn=_without_override)
            right = code == 0 and contents(job, elsewhere) == expected
            rows.append({"case": "read-only folder, output elsewhere", "job": job.name, "code": code, "is_right": right,
                         "said": errors[-200:]})  # fmt: skip
            folder.chmod(0o755)
    return [
        at_least(
            "read-only folders: refused, or written elsewhere",
            sum(row["is_right"] for row in rows),
            len(rows),
            1.0,
        )
    ], rows


def closed_output(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    """Close the standard output, or let nobody read it."""
    rows: Rows = []
    for job in JOBS:
        with alone(job, seeds(1)[0]) as (folder, expected, _):
            for case in ("closed", "nobody reads"):
                for name in job.outputs:
                    (folder / name).unlink(missing_ok=True)
                if case == "closed":
                    code, errors = finish(job, folder, stdout=None, preexec_fn=lambda: os.close(1))
                else:
                    reader, writer = os.pipe()
                    os.close(reader)
                    code, errors = finish(job, folder, stdout=writer)
                    os.close(writer)
                right = code == 0 and contents(job, folder) == expected
                rows.append({"case": f"standard output {case}", "job": job.name, "code": code, "is_right": right,
                             "said": errors[-200:]})  # fmt: skip
    return [
        at_least(
            "standard output closed or unread: same files, code 0",
            sum(row["is_right"] for row in rows),
            len(rows),
            1.0,
        )
    ], rows


if __name__ == "__main__":
    run_sections(
        "kills",
        __doc__ or "",
        {
            **{job.name.split()[0]: gather(kills(job)) for job in JOBS},
            "crowds": gather(crowd),
            "starved": gather(full_disk, read_only, closed_output),
        },
    )
