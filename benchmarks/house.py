"""Does the source tree keep its rules? Each rule with its limit and the number that was measured.

    python benchmarks/house.py [--write]

Folders stay small enough to be read, a recovery runs through few files and loads little, methods do not know one another,
evidence is asked for by key, one object makes the record of a run, and docstrings do not outgrow the code. What breaks a
rule is listed by file and line. Exit code 1 if a rule is broken; the number of lines is for information.

The functions take the folder to be measured, so that tests can plant a fault and see it found.
"""

from __future__ import annotations

import ast
import gc
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "CSV_RECOVERY",
    "CSV_TABLE",
    "LIMITS",
    "Trace",
    "built_records",
    "csv_recovery",
    "docstring_share",
    "evidence_by_text_or_position",
    "files_of",
    "folder_sizes",
    "imports_between_methods",
    "loaded_modules",
    "trace",
]

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "planted"
LIMITS = {
    "largest folder": 15,
    "files executed": 40,
    "modules loaded": 20,
    "imports between methods": 0,
    "evidence by text or position": 0,
    "records built by hand": 0,
    "docstring lines per code line": 0.45,
    "lines": 38_000,
}
# The record of a run is made by the run object; its class and what reads it back from a file are beside it.
RECORD_MAKERS = ("fitting/_run.py", "results.py")
# A module without any of these words holds no expression that the rule of evidence is about.
EVIDENCE_WORDS = re.compile("evidence|Evidence|findings|stats")
LOADED_ROOMS = ("methods", "certificates", "fitting")
# A small planted table, and the command that recovers it.
CSV_TABLE = """
import numpy as np
from planted import simulate

world = simulate.dataset(200, n_features=4, n_hidden=3, n_outputs=3, law="exponential", random_state=1)
names = "x1,x2,x3,x4,y1,y2,y3"
np.savetxt("x.csv", np.hstack([world.X, world.Y]), delimiter=",", header=names, comments="")
"""
CSV_RECOVERY = """
import sys
from planted.cli import main

sys.argv = ["planted", "recover", "x.csv", "--targets", "y1", "y2", "y3"]
main()
"""


def main() -> None:
    from _table import parse_options, report

    options = parse_options(__doc__ or "")
    lines, faults = measure()
    report("house", lines, [{"rule": rule, "faults": found} for rule, found in faults.items()], options)
    for rule, found in faults.items():
        for fault in found:
            print(f"  {rule}: {fault}")
    # Whoever collects results in a folder reads the verdicts there; an exit code of 1 would say that nothing was measured.
    raise SystemExit(0 if options.out or all(line.passed for line in lines) else 1)


def measure() -> tuple[list[Any], dict[str, list[str]]]:
    """Return a line for each rule, and what breaks the rules."""
    from _table import Line

    sizes = folder_sizes(SOURCE)
    largest = max(sizes, key=lambda name: sizes[name])
    run = csv_recovery()
    executed, loaded = files_of(run), loaded_modules(run)
    share, n_lines = docstring_share(SOURCE)
    faults = {
        "imports between methods": imports_between_methods(),
        "evidence by text or position": evidence_by_text_or_position(SOURCE),
        "records built by hand": built_records(SOURCE),
    }
    rooms = Counter(name.split(".")[1] for name in loaded)
    numbers: dict[str, tuple[float, str]] = {
        "largest folder": (sizes[largest], f"{sizes[largest]} files in {largest}"),
        "files executed": (len(executed), f"{len(executed)} by `planted recover x.csv`"),
        "modules loaded": (
            len(loaded),
            f"{len(loaded)}: {', '.join(f'{rooms[room]} of {room}' for room in LOADED_ROOMS)}",
        ),
        **{rule: (len(found), str(len(found))) for rule, found in faults.items()},
        "docstring lines per code line": (share, f"{share:.1%}"),
    }
    lines = [
        Line(f"{rule}, at most {_limit(rule)}", text, number <= LIMITS[rule])
        for rule, (number, text) in numbers.items()
    ]
    lines.append(Line(f"lines, about {_limit('lines')} (for information)", f"{n_lines:,}", True))
    crowded = [f"{name}: {size} files" for name, size in sizes.items() if size > LIMITS["largest folder"]]
    return lines, {"largest folder": crowded, **faults}


def folder_sizes(source: Path) -> dict[str, int]:
    """Return how many Python files lie in each folder, those of its subfolders not counted."""
    parents = [path.parent.relative_to(source.parent).as_posix() for path in source.rglob("*.py")]
    return dict(sorted(Counter(parents).items()))


@dataclass(frozen=True)
class Trace:
    """What a run did: modules loaded, first function entered in each, calls between modules, exit code and output."""

    loaded: tuple[str, ...]
    entered: tuple[tuple[str, str], ...]
    # Caller and callee, each as module and function, and how often.
    calls: tuple[tuple[str, str, str, str, int], ...]
    exit_code: int
    output: str


def trace(script: str, *, setup: str = "") -> Trace:
    """Run a script in a process and a folder of its own and return what it did; ``setup`` runs before it, unheard."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "script.py").write_text(script, encoding="utf-8")
        record = folder / "record.json"
        if setup:
            _run([sys.executable, "-c", setup], folder).check_returncode()
        tracer = ROOT / "benchmarks" / "_trace.py"
        done = _run([sys.executable, str(tracer), str(record), "script.py"], folder)
        if not record.exists():
            raise RuntimeError(f"nothing was traced: {done.stderr}")
        found = json.loads(record.read_text(encoding="utf-8"))
    return Trace(
        tuple(found["loaded"]),
        tuple((module, function) for module, function in found["entered"]),
        tuple((a, b, c, d, n) for a, b, c, d, n in found["calls"]),
        done.returncode,
        done.stdout + done.stderr,
    )


@cache
def csv_recovery() -> Trace:
    """Return what ``planted recover x.csv`` does; it must recover the network, or the number means nothing."""
    run = trace(CSV_RECOVERY, setup=CSV_TABLE)
    if run.exit_code != 0:
        raise RuntimeError(f"`planted recover` ended with exit code {run.exit_code}: {run.output}")
    return run


def files_of(run: Trace) -> list[str]:
    """Return the modules in which a run entered a function."""
    return [module for module, _ in run.entered]


def loaded_modules(run: Trace) -> list[str]:
    """Return the modules of methods, certificates and fitting that a run loaded.

    Cards are data, and packages that hold nothing but their docstring are names: neither counts.
    """
    rooms = [name for name in run.loaded if name.partition(".")[2].split(".")[0] in LOADED_ROOMS]
    return [name for name in rooms if not name.startswith("planted.methods.cards") and not _is_bare(name)]


def _is_bare(name: str) -> bool:
    """Return whether a module is a package without any code."""
    path = SOURCE.parent.joinpath(*name.split("."), "__init__.py")
    return path.exists() and len(ast.parse(path.read_text(encoding="utf-8")).body) <= 1


def imports_between_methods(graph: Any = None) -> list[str]:
    """Return every import of one method by another, in an import graph of grimp or else in that of planted."""
    if graph is None:
        import grimp

        graph = grimp.build_graph("planted")
    methods = sorted(graph.find_children("planted.methods"))
    found = []
    for name in methods:
        for module in sorted({name} | graph.find_descendants(name)):
            for target in sorted(graph.find_modules_directly_imported_by(module)):
                home = ".".join(target.split(".")[:3])
                if home in methods and home != name:
                    found.append(f"{module} -> {target}")
    return found


def built_records(source: Path) -> list[str]:
    """Return every call of ``Recovery(...)`` outside the run object."""
    found = []
    for path, tree in _trees(source):
        name = path.relative_to(source).as_posix()
        if name not in RECORD_MAKERS and "Recovery" in path.read_text(encoding="utf-8"):
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            found += [f"{name}:{call.lineno}" for call in calls if _last_name(call.func) == "Recovery"]
    return found


def docstring_share(source: Path) -> tuple[float, int]:
    """Return docstring lines divided by code lines, and the number of all lines.

    Code lines are what is neither blank nor a comment nor a docstring; a text that stands alone, such as the explanation
    below a constant, is a docstring too.
    """
    n_docs = n_code = n_lines = 0
    for path, tree in _trees(source):
        lines = path.read_text(encoding="utf-8").splitlines()
        docs: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and _is_text(node.value):
                docs |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        n_docs += len(docs)
        n_lines += len(lines)
        n_code += sum(
            bool(line.strip()) and not line.strip().startswith("#")
            for number, line in enumerate(lines, start=1)
            if number not in docs
        )
    return n_docs / n_code, n_lines


def evidence_by_text_or_position(source: Path) -> list[str]:
    """Return every place where evidence is found again by its wording or its place, or a number by a key of ``stats``."""
    found = []
    for path, tree in _trees(source):
        if not EVIDENCE_WORDS.search(path.read_text(encoding="utf-8")):
            continue
        faults = {
            (node.lineno, ast.unparse(node)) for scope in _scopes(tree) for node in _faults_of_evidence(scope)
        }
        found += [f"{path.relative_to(source).as_posix()}:{line}: {text}" for line, text in sorted(faults)]
    return found


def _scopes(tree: ast.Module | ast.ClassDef) -> Iterator[ast.AST]:
    """Yield the functions of a module or class, and its other statements one by one: a name means one thing in each."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _scopes(node)
        else:
            yield node


def _faults_of_evidence(scope: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that compare a line's text, take a line by its place, or look into ``stats``."""
    nodes = list(ast.walk(scope))
    many, single = _evidence_names(nodes)

    def is_text(*nodes: ast.expr) -> bool:
        return any(_is_text_of_evidence(node, single) for node in nodes)

    for node in nodes:
        if isinstance(node, ast.Compare):
            in_stats = _last_name(node.comparators[0]) == "stats"  # whether a key is there
            is_fault = in_stats or is_text(node.left, *node.comparators)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            is_fault = is_text(*node.args) if _last_name(owner) == "re" else is_text(owner)
        elif isinstance(node, ast.Subscript):
            is_fault = is_text(node.slice) or (_is_evidence(node.value, many) and _is_place(node.slice))
        elif isinstance(node, ast.DictComp):
            is_fault = is_text(node.key)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List):
            if _is_evidence(node.value, many):
                yield node.value
            continue
        else:
            continue
        if is_fault:
            yield node


def _evidence_names(nodes: list[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names that stand for several lines of evidence and those that stand for one."""
    many, single = {"evidence"}, set()
    for node in nodes:
        if isinstance(node, ast.arg) and node.annotation is not None:
            annotation = ast.unparse(node.annotation)
            if annotation == "Evidence":
                single.add(node.arg)
            elif "[Evidence" in annotation:
                many.add(node.arg)
        elif isinstance(node, ast.Assign) and _is_evidence(node.value, many):
            many |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.For | ast.comprehension) and _is_evidence(node.iter, many):
            single |= {node.target.id} if isinstance(node.target, ast.Name) else set()
    return many, single


def _is_evidence(node: ast.expr, many: set[str]) -> bool:
    """Return whether an expression is a sequence of lines of evidence."""
    if isinstance(node, ast.Call):  # a method that returns lines
        return isinstance(node.func, ast.Attribute) and node.func.attr == "evidence"
    if isinstance(node, ast.Attribute):
        return node.attr in ("evidence", "findings")
    return isinstance(node, ast.Name) and node.id in many


def _is_text_of_evidence(node: ast.expr, single: set[str]) -> bool:
    """Return whether an expression is the wording of a line: its name or its equation."""
    if not isinstance(node, ast.Attribute) or node.attr not in ("name", "equation"):
        return False
    owner = node.value
    if isinstance(owner, ast.Subscript):
        return _is_evidence(owner.value, {"evidence"})
    return isinstance(owner, ast.Name) and owner.id in single


def _is_place(index: ast.expr) -> bool:
    """Return whether an index is a number, or a slice that leaves out the beginning; the first few may be shown."""
    if isinstance(index, ast.Slice):
        return index.lower is not None
    return isinstance(index, ast.UnaryOp) or (
        isinstance(index, ast.Constant) and isinstance(index.value, int)
    )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _last_name(node: ast.expr) -> str:
    """Return the last word of a dotted name; empty for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@cache
def _trees(source: Path) -> tuple[tuple[Path, ast.Module], ...]:
    """Return every module, parsed once for all rules."""
    was_enabled = gc.isenabled()
    gc.disable()  # a million nodes of which none is garbage: looking for it took most of the time
    try:
        return tuple(
            (path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(source.rglob("*.py"))
        )
    finally:
        if was_enabled:
            gc.enable()


def _limit(rule: str) -> str:
    limit = LIMITS[rule]
    return f"{limit:.0%}" if isinstance(limit, float) else f"{limit:,}"


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    main()
