"""Mutation testing of networks, linalg, moments and rows, on a random sample of mutants.

mutmut changes one operator, constant or argument at a time; a mutant is killed when a test of its room fails or hangs. There
are thousands of mutants, so --sample of each package are drawn with --seed. Every mutant runs in a fork of a process that
has imported everything, against those tests of these rooms alone that call the changed function, the fastest first, for
some seconds. What only a slow test or one of a method would notice counts as surviving, and so does a mutant that changes
nothing.

With --printed the papers' boxes are mutated instead, the modules `printed.py`, against the tests of the boxes alone: a row
for each box, a sample of --sample mutants each, stored apart. Breaking a line of a box must turn a test red: a box passes if
every change that no test notices is known to change nothing.

The score is killed / drawn, with its 95 % Wilson interval. Survivors are stored with their change; `REASONS` says of those
that were read why no test can or should kill them. They count as survivors all the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from _table import RESULTS, Line, parse_options, report, wilson

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("networks", "linalg", "moments", "rows")
SCORE = 0.85
FILES = ("README.md", "LICENSE")
KILLED = {"killed", "timeout", "segfault"}
# Seconds of tests for each mutant, the fastest first: what would need the slow ones to be noticed survives.
SECONDS = 10.0
# Function, what was put in, and why no test killed it.
UNCHECKED = "NaN cannot be there: inputs are checked once, at the door."
EQUALITY = "Differs only where two real numbers that were computed are equal to the last bit."
LETTERS = "The same letters in capitals: the same sum."
SINCE = "A test kills it since."
LEADING = "The same leading vectors: whether others are returned, or NaN is looked for, does not matter."
SIGNS = "Dividing by ±1 is multiplying by it."
REASONS: tuple[tuple[str, str, str], ...] = (
    (r".", r"check_finite=(None|True)", UNCHECKED),
    (r"svdvals|khatri_rao_values", r"linalg\.svdvals\(rows, \)", UNCHECKED),
    (r"x_null_space", r"full_matrices=True, \)", UNCHECKED),
    (r".", r"einsum\(\"[A-Z,]+->[A-Z]+\"", LETTERS),
    (r".", r"strict=False", "Both have the same length by construction."),
    (r".", r"kind=\"STABLE\"", "NumPy does not mind the case."),
    (
        r"_dependent_blocks",
        r"argsort\(labels, \)",
        "Short arrays are sorted by insertion, which is stable: only with more than 16 units can an order differ.",
    ),
    (
        r"_dependent_blocks",
        r"or True",
        "Without columns there is one empty block, which adds nothing to a choice.",
    ),
    (
        r"_meet_in_the_middle",
        r"half = \(count - 1\)",
        "Where the halves meet decides the cost, not the answer.",
    ),
    (r"x_smat", r"\+ 2\)", "The root is rounded down to the same whole number."),
    (r"_sum_gradient", r"\(t >= 0\)", EQUALITY),
    (r"alternating_projections", r"< threshold", EQUALITY),
    (r"decompose_symmetric", r"residual <= least", EQUALITY),
    (r"_alternate", r"residual - left < STALL", EQUALITY),
    (
        r"sample_rows",
        r"3\*\*32",
        "Any words make the seed of a stream for generators that cannot be entered anywhere.",
    ),
    (
        r"_near_pairs",
        r"keys\.max\(initial=2\.0\)",
        "A wider reach lets more pairs be looked at; each is measured afterwards.",
    ),
    (r"_subtract", r"constant_size=.* - ", SINCE),
    (r"NormalSummand", r"first_row - start", SINCE),
    (r"_infeasibility", r"max\(initial=None\)", SINCE),
    (r"fit_units_exactly", r"n_units: int = 3", SINCE),
    (r"_off_diagonal_energy", r"total > 1", SINCE),
    (r"_common_factor", r"-2\.0, 1\.0", SINCE),
    (r"printed", r"(lstsq|solve_triangular|cholesky)\(.*, \)", UNCHECKED),
    (r"output_basis|least_singular_matrices", r"linalg\.svd\(", LEADING),
    (r"flip_units|landscape\.printed", r"/ (_signs\(signed\)\[:, None\]|signs)", SIGNS),
    (r"hermite\.printed\.x_algorithm_4", r"v_sizes\]\), \)", EQUALITY),
    (r"ica\.printed", r"score < tau", EQUALITY),
    (r"hermite\.printed\.x_algorithm_3", r"x <= 0", EQUALITY),
    (
        r"joint_diagonalisation\.printed",
        r">= SAME_UNIT_COSINE|score < tau|sine <= EXACT|score < np\.quantile",
        EQUALITY,
    ),
    (r"memorization\.printed", r"value_noise >= -constants", EQUALITY),
    (r"x_appendix_9_1", r"full_matrices=False", "There are more rows than columns: the same vectors."),
    (r"hermite\.printed\.x_algorithm_2", r"unit \+ 2\]", "Only the first value is read."),
    (r"x_solve_in_ball", r"= slice\(n_bounded\)", "The same slice."),
    (r"hermite\.printed\.x_algorithm_6", r", 2\)\[1\]", "The order above is computed too, and not read."),
    (r"x_merge_duplicates", r"rows\[:1\]", "Without kept rows there are no rows."),
    (r"memorization\.printed", r"norm\(gradient\) < constants", EQUALITY),
    (r"hermite\.printed.x_flip_units", r"/ signs\[:, None\]", SIGNS),
    (
        r"memorization\.printed\.x_algorithm_1",
        r"wait - 2\.0",
        "Any time before -t_thres lets line 4 apply at once.",
    ),
    (
        r"sign_patterns\.printed\.x_algorithm_2",
        r"reshape\(len\(Q\), -2\)",
        "NumPy takes any negative size.",
    ),
)
PROJECT = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = [{paths}]
pytest_add_cli_args_test_selection = [{tests}]
pytest_add_cli_args = ["-p", "fastest_first", "--timeout", "60"]
also_copy = ["fastest_first.py", {files}]
timeout_constant = 2.0
timeout_multiplier = 3.0
use_git_change_detection = false
"""
# Read by pytest in every fork: mutmut has measured the tests before.
PLUGIN = """
import itertools
import json
import pathlib


def pytest_collection_modifyitems(config, items):
    stats = pathlib.Path("mutmut-stats.json")
    if config.option.collectonly:
        return
    seconds = json.loads(stats.read_text())["duration_by_test"] if stats.exists() else {{}}
    items.sort(key=lambda item: seconds.get(item.nodeid, 0.0))
    total = itertools.accumulate(seconds.get(item.nodeid, 0.0) for item in items)
    items[:] = [item for item, spent in zip(items, total) if spent <= {limit}] or items[:1]
"""


def main() -> None:
    options = parse_options(
        __doc__ or "",
        sample={"type": int, "default": 60, "help": "mutants of each package"},
        only={"nargs": "+", "choices": PACKAGES, "default": PACKAGES, "help": "these packages"},
        printed={"action": "store_true", "help": "mutate the papers' boxes, --sample of each box"},
        boxes={
            "metavar": "METHOD",
            "help": "with --printed, of this method alone; others keep what is stored",
        },
        explain={"action": "store_true", "help": "run nothing; give the stored survivors their reasons"},
        folder={"type": Path, "metavar": "DIR", "help": "work here and keep it: a second run is shorter"},
    )
    if options.explain:
        explain()
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        modules = printed_modules(options.boxes) if options.printed else {}
        paths = list(modules) or [f"src/planted/{name}/*" for name in PACKAGES]
        prepare(folder, paths, list(modules.values()) or test_folders())
        run(folder, ["no-such-mutant"])  # makes the mutants and learns which test calls what
        keys_made = list(statuses(folder))
        mutants = {name: [key for key in keys_made if f"planted.{name}." in key] for name in options.only}
        if options.printed:
            boxes = sorted({box_of(key) for key in keys_made} - {""})
            mutants = {box: [key for key in keys_made if box_of(key) == box] for box in boxes}
        rng = np.random.default_rng(options.seed)
        size = 5 if options.quick else options.sample
        chosen = {name: sorted(rng.permutation(keys)[:size].tolist()) for name, keys in mutants.items()}
        run(folder, [key for keys in chosen.values() for key in keys])
        ended = statuses(folder)
        rows = [judge(folder, name, keys, ended) for name, keys in chosen.items()]
        rows = [row | {"total": len(mutants[row["package"]])} for row in rows]
    name = "mutation_printed" if options.printed else "mutation"
    if options.boxes:
        stored = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        kept = [row for row in stored if not row["package"].startswith(f"{options.boxes}.")]
        rows = sorted(kept + rows, key=lambda row: str(row["package"]))
    report(name, [score_line(row, is_printed=options.printed) for row in rows], rows, options)


def printed_modules(method: str | None = None) -> dict[str, str]:
    """Return the modules of the papers' boxes, or that of one method, each with the file of its tests."""
    sources = sorted((ROOT / "src" / "planted").rglob(f"{method or '**'}/printed.py"))
    tests = [
        ROOT / "tests" / path.relative_to(ROOT / "src" / "planted").with_name("test_printed.py")
        for path in sources
    ]
    absent = [str(path) for path in tests if not path.is_file()]
    if absent:
        raise SystemExit(f"no tests: {', '.join(absent)}")
    return {
        str(source.relative_to(ROOT)): str(test.relative_to(ROOT))
        for source, test in zip(sources, tests, strict=True)
    }


def box_of(key: str) -> str:
    """Return method and function of a mutant of a public function in a module of boxes; empty for others."""
    found = re.fullmatch(r"planted\.(?:methods\.)?(\w+)\.printed\.x_([a-z]\w*?)__mutmut_\d+", key)
    return f"{found[1]}.{found[2]}" if found else ""


def prepare(folder: Path, paths: list[str], tests: list[str]) -> None:
    """Copy what is mutated and its tests; what did not change is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("src", "tests"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
        )
    for name in FILES:
        shutil.copy2(ROOT / name, folder)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").replace("--doctest-modules ", "")
    table = PROJECT.format(paths=quoted(paths), tests=quoted(tests), files=quoted(FILES))
    (folder / "pyproject.toml").write_text(project + table, encoding="utf-8")
    (folder / "fastest_first.py").write_text(PLUGIN.format(limit=SECONDS), encoding="utf-8")


def test_folders() -> list[str]:
    """Return the folders of the packages' tests: tests mirror the source."""
    folders = [f"tests/{name}" for name in PACKAGES]
    absent = [folder for folder in folders if not any((ROOT / folder).glob("test_*.py"))]
    if absent:
        raise SystemExit(f"no tests in {', '.join(absent)}")
    return folders


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def run(folder: Path, names: list[str]) -> None:
    """Let mutmut make all mutants, if there are none yet, and run those that are named."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "1", *names]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (folder / "log.txt").open("w") as log:
        subprocess.run(command, cwd=folder, env=environment, check=False, stdout=log, stderr=log)


def statuses(folder: Path) -> dict[str, str]:
    """Return how every mutant ended, in mutmut's words."""
    from mutmut.stats import status_by_exit_code

    found: dict[str, str] = {}
    for path in sorted((folder / "mutants").rglob("*.py.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        found |= {key: status_by_exit_code[code] for key, code in codes.items()}
    if not found:
        raise SystemExit(f"mutmut made no mutants; it said:\n{(folder / 'log.txt').read_text()[-2000:]}")
    return found


def judge(folder: Path, package: str, keys: list[str], ended: dict[str, str]) -> dict[str, Any]:
    """Return the survivors of a package with what was changed and, where someone read them, the reason."""
    unknown = [key for key in keys if ended[key] == "not checked"]
    if unknown:
        raise SystemExit(f"{len(unknown)} mutants were not run; see {folder / 'log.txt'} (use --folder)")
    survivors = []
    for key in keys:
        if ended[key] not in KILLED:
            change = difference(folder, key)
            survivors.append({"mutant": key, "change": change, "reason": reason(key, change)})
    return {"package": package, "drawn": keys, "killed": len(keys) - len(survivors), "survivors": survivors}


def difference(folder: Path, key: str) -> list[str]:
    """Return the lines that a mutant takes away and puts in."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    with contextlib.chdir(folder):
        text = get_diff_for_mutant(key)
    return [line for line in text.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def reason(key: str, change: list[str]) -> str:
    """Return why a survivor is none to worry about, if that was found out."""
    name = key.rpartition("__mutmut_")[0]
    added = " ".join(line[1:].strip() for line in change if line.startswith("+"))
    for function, pattern, words in REASONS:
        if re.search(function, name) and re.search(pattern, added):
            return words
    return ""


def explain() -> None:
    """Write the reasons of this file beside the stored survivors."""
    for path in sorted(RESULTS.glob("mutation*.json")):
        _explain(path)


def _explain(path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    for row in record["rows"]:
        for survivor in row["survivors"]:
            survivor["reason"] = reason(survivor["mutant"], survivor["change"])
            if not survivor["reason"]:
                print(survivor["mutant"], *survivor["change"], sep="\n    ")
    is_printed = path.stem.endswith("printed")
    record["targets"] = [asdict(score_line(row, is_printed=is_printed)) for row in record["rows"]]
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def score_line(row: dict[str, Any], *, is_printed: bool) -> Line:
    """Return the score of a package with its interval, or of a box, none of whose changes may pass unnoticed."""
    killed, drawn = row["killed"], len(row["drawn"])
    low, high = wilson(killed, drawn)
    explained = sum(bool(survivor["reason"]) for survivor in row["survivors"])
    text = f"{killed}/{drawn} killed ({killed / drawn:.0%}, 95 % interval {low:.0%} to {high:.0%}) of {row['total']}"
    if row["survivors"]:
        text += f"; {explained} of {len(row['survivors'])} survivors explained"
    if is_printed:
        return Line(f"{row['package']}: every broken line is noticed", text, killed + explained == drawn)
    return Line(f"{row['package']}: mutants killed >= {SCORE:.0%}", text, killed >= SCORE * drawn)


if __name__ == "__main__":
    main()
