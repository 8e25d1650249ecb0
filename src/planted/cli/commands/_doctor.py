"""`planted doctor`: is this installation whole, and what is missing for which purpose."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from planted._version import __version__
from planted.cli._console import out_console

__all__ = ["Check", "doctor", "examine"]

PYTHON = (3, 11)
TOLERANCE = 1e-12  # noiseless data of order one: rounding, with three decades to spare
EXTRAS = {
    "files": "parquet and feather files",
    "dask": "Dask clusters",
    "torch": "training by gradients, PyTorch modules",
    "onnx": "ONNX files",
    "report": "HTML reports and figures",
}
# Where the module is called otherwise than the distribution.
MODULES = {"scikit-learn": "sklearn"}
REQUIREMENT = re.compile(
    r"^([\w.-]+)(?:\[[^\]]*\])?\s*(?:>=\s*([\d.]+))?[^;]*(?:;.*extra == ['\"](\w+)['\"])?"
)
TONES = {"ok": "green", "missing": "yellow", "FAILED": "bold red"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str  # what was looked at
    status: str  # a missing extra is no failure
    detail: str  # what was found
    fix: str = ""  # what to do about it


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check the installation: versions, optional extras, folders, and a tiny recovery.

    Exit code 0: planted works here (extras may be missing). 1: it does not, and the reason is printed.
    """
    checks = list(examine())
    is_healthy = all(check.status != "FAILED" for check in checks)
    if as_json:
        found = [asdict(check) for check in checks]
        print(json.dumps({"planted": __version__, "healthy": is_healthy, "checks": found}))
    else:
        table = Table("checked", "", "found", "what to do", header_style="dim")
        for check in checks:
            table.add_row(
                Text(check.name), Text(check.status, TONES[check.status]), Text(check.detail), Text(check.fix)
            )
        console = out_console()
        console.print(table)
        word = (
            "planted works here."
            if is_healthy
            else "planted does not work here; see the lines marked FAILED."
        )
        console.print(Text(word, "bold green" if is_healthy else "bold red"))
    if not is_healthy:
        raise typer.Exit(1)


def examine() -> Iterator[Check]:
    """Look at everything, one thing after the other; nothing raises."""
    yield _check_python()
    yield from _check_requirements()
    yield _check_folder("temporary folder", Path(tempfile.gettempdir()), is_needed=True)
    yield _check_folder("this folder", Path.cwd(), is_needed=False)
    yield _check_machine()
    yield _check_recovery()
    yield _check_saving()


def _check_python() -> Check:
    """Python must be new enough."""
    found = platform.python_version()
    if sys.version_info < PYTHON:
        return Check("Python", "FAILED", found, "Use Python 3.11 or newer.")
    return Check("Python", "ok", found)


def _check_requirements() -> Iterator[Check]:
    """Every requirement must be there, new enough and importable; those of extras may be missing."""
    try:
        lines = metadata.requires("planted") or []
    except metadata.PackageNotFoundError:
        yield Check("planted", "missing", "run from its sources, not installed", "pip install -e .")
        return
    yield Check("planted", "ok", __version__)
    for line in lines:
        match = REQUIREMENT.match(line)
        if match is None or match[1] == "planted" or (match[3] or "files") not in EXTRAS:
            continue
        yield _check_distribution(match[1], match[2] or "0", match[3] or "")


def _check_distribution(name: str, least: str, extra: str) -> Check:
    """Compare the version that is installed with the least one, and import it."""
    title = f"{name} ({extra})" if extra else name
    fix = f"pip install 'planted[{extra}]'" if extra else "pip install planted"
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        purpose = f"not installed; needed for {EXTRAS[extra]}" if extra else "not installed"
        return Check(title, "missing" if extra else "FAILED", purpose, fix)
    if _numbers(found) < _numbers(least):
        return Check(title, "FAILED", f"{found} is older than {least}", f"pip install --upgrade {name}")
    try:
        import_module(MODULES.get(name, name.replace("-", "_")))
    except Exception as error:  # whatever a broken library raises is the finding
        return Check(title, "FAILED", f"{found}, but: {type(error).__name__}: {error}", f"Reinstall {name}.")
    return Check(title, "ok", found)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def _check_folder(name: str, folder: Path, *, is_needed: bool) -> Check:
    """A folder can be written to."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            return Check(name, "ok", f"{folder} can be written to")
    except OSError as error:
        detail = f"{folder} cannot be written to: {error.strerror or error}"
        fix = "Set TMPDIR to a folder of yours." if is_needed else "Give --out a path elsewhere."
        return Check(name, "FAILED" if is_needed else "missing", detail, fix)


def _check_machine() -> Check:
    """Say what there is to compute with."""
    from planted._conversion import available_memory

    free = available_memory()
    memory = "memory unknown" if free is None else f"{free / 1e9:.1f} GB of memory free"
    return Check("machine", "ok", f"{os.cpu_count()} cores, {memory}, {platform.machine()}")


def _check_recovery() -> Check:
    """Recover a network of three units."""
    try:
        import planted

        data = planted.simulate.dataset(
            80, n_features=4, n_hidden=3, n_outputs=3, law="exponential", activity=(0.3, 0.7), random_state=0
        )
        recovery = planted.recover(data.X, data.Y, random_state=1)
        error = (
            float("inf")
            if recovery.network is None
            else planted.parameter_error(recovery.network, data.network)
        )
    except Exception as error_found:  # whatever breaks is the finding
        return Check(
            "recovery", "FAILED", f"{type(error_found).__name__}: {error_found}", "Reinstall planted."
        )
    detail = f"{recovery.outcome.name}, largest error of a weight {error:.1e}"
    is_right = recovery.outcome is planted.Outcome.RECOVERED and error <= TOLERANCE
    fix = "" if is_right else "Check NumPy and its BLAS: reinstall numpy and scipy."
    return Check("recovery", "ok" if is_right else "FAILED", detail, fix)


def _check_saving() -> Check:
    """Write a network and read it back."""
    try:
        import planted

        network = planted.simulate.teacher(4, 3, 2, random_state=0)
        with tempfile.TemporaryDirectory() as folder:
            network.save(Path(folder) / "net.safetensors")
            again = planted.load_network(Path(folder) / "net.safetensors")
        is_same = all((getattr(again, name) == getattr(network, name)).all() for name in "WbAc")
    except Exception as error:  # whatever breaks is the finding
        return Check("saving", "FAILED", f"{type(error).__name__}: {error}", "Reinstall safetensors.")
    return Check("saving", "ok" if is_same else "FAILED", "written and read back to the last bit")
