"""Every item of the five papers with its place in the source, its check and the verdict: the page docs/papers.md.

The items are in papers.csv. Algorithms and statements are checked by a test, figures and numbers by a study of `planted
reproduce`. The verdicts of studies are computed from their numbers and stored in papers.json. Without options the
page is written again from what is stored. --run makes the studies again, all of them or those named with --only (such as
landscape/4), small ones with --quick, and stores their claims.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _table import RESULTS, parse_options

from planted.reproduce import Agreement, StudyOptions, find_study, studies

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "papers.md"
STORED = Path(__file__).parent / "papers.json"
TABLE = Path(__file__).parent / "papers.csv"
# Figures of memorising, and their settings in the benchmark memorize_mnist.py.
MNIST = {
    "6": "two-layers-no-noise",
    "7": "two-layers",
    "8": "three-layers",
    "9": "two-layers-random",
    "10": "three-layers-random",
}
TITLES = {
    "GKLW19": "Ge, Kuditipudi, Li, Wang: symmetric inputs (`symmetric-inputs`)",
    "GLM18": "Ge, Lee, Ma: landscape design (`landscape`)",
    "ATV21": "Awasthi, Tang, Vijayaraghavan: general ReLU units (`general-relu`)",
    "GWZ20": "Memorising with mild overparametrisation (`memorize`)",
    "BJW18": "Bakshi, Jayaram, Woodruff: rectified networks (`rectified`)",
}
STUDIES = dict(
    zip(TITLES, ("symmetric-inputs", "landscape", "general-relu", "memorize", "rectified"), strict=True)
)


@dataclass(frozen=True)
class Item:
    """One algorithm, statement, figure or number of a paper."""

    paper: str  # key of the paper
    name: str  # as the paper calls it
    says: str  # in one line
    source: str  # file under src/planted
    check: str  # test, as path::name under tests, or the figure of a study
    verdict: str  # of a test; that of a study is computed


def main() -> None:
    options = parse_options(
        __doc__ or "",
        run={"action": "store_true", "help": "make the studies again"},
        only={"nargs": "+", "default": [], "metavar": "PAPER/FIGURE", "help": "these studies alone"},
    )
    if options.run:
        store_claims(options.only, quick=options.quick, seed=options.seed)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")


def items() -> list[Item]:
    """Return the items of papers.csv."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [Item(**row) for row in csv.DictReader(file)]


def store_claims(only: list[str], *, quick: bool, seed: int) -> None:
    """Make studies and store what they claim; others keep what is stored."""
    for paper, figures in studies().items():
        for figure in figures:
            name = f"{paper}/{figure}"
            if only and name not in only:
                continue
            study = find_study(paper, figure)(StudyOptions(quick=quick, seed=seed))
            lines = [[claim.paper, claim.ours, claim.verdict.value] for claim in study.claims]
            claims = stored() | {name: {"quick": quick, "title": study.title, "claims": lines}}
            STORED.write_text(json.dumps(claims, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(name, [verdict for _, _, verdict in lines])


def stored() -> dict[str, Any]:
    """Return the stored claims by paper and figure."""
    return dict(json.loads(STORED.read_text(encoding="utf-8"))) if STORED.exists() else {}


def on_mnist() -> dict[str, Any]:
    """Return what the benchmark memorize_mnist.py stored of the figures on all 60,000 images."""
    found = {}
    for figure, setting in MNIST.items():
        name = "memorize_mnist" if setting == "two-layers" else f"memorize_mnist_{setting}"
        (row,) = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        goal = 0.2 if setting == "two-layers-no-noise" else 1e-5
        says = f"the loss falls below {goal:g}"
        solved = Agreement.of(row["loss"] < goal).value
        lines = [[says, f"{setting}, linear solve: loss {row['loss']:.2g}", solved]]
        lines.append([says, *trained_on_mnist(setting, row, goal)])
        found[f"memorize/{figure}, all of MNIST"] = {"quick": False, "title": setting, "claims": lines}
    return found


def trained_on_mnist(setting: str, row: dict[str, Any], goal: float) -> tuple[str, str]:
    """Return what Adam reached in a setting, and the verdict; a run that was stopped decides only where it got there."""
    longer = RESULTS / f"memorize_mnist_adam_{setting}.json"
    if longer.exists():
        (row,) = json.loads(longer.read_text(encoding="utf-8"))["rows"]
    if "adam_loss" not in row:
        command = f"`python benchmarks/memorize_mnist.py --data DIR --setting {setting} --adam`"
        return f"{setting}, Adam: not run; {command} does", Agreement.UNFINISHED.value
    told = f"{setting}, Adam, {row['adam_steps']:,} steps: loss {row['adam_loss']:.2g}"
    is_reached = row["adam_loss"] < goal
    verdict = Agreement.of(is_reached) if is_reached or row.get("adam_ended", True) else Agreement.UNFINISHED
    return told, verdict.value


def verdict_of(item: Item, claims: dict[str, Any]) -> str:
    """Return the verdict on an item; a study's is that of its claims, each counted."""
    if "::" in item.check:
        return item.verdict
    name = f"{STUDIES[item.paper]}/{item.check}"
    records = [record for key, record in claims.items() if key == name or key.startswith(f"{name}, ")]
    found = [verdict for record in records for _, _, verdict in record["claims"]]
    text = ", ".join(f"{verdict} {found.count(verdict)}" for verdict in dict.fromkeys(found)) or "not run"
    return f"{text}{' (small version)' if records and all(record['quick'] for record in records) else ''}"


def page() -> str:
    """Return the page as Markdown."""
    claims = stored() | on_mnist()
    lines = [
        "# The papers, item by item",
        "",
        "Written by `python benchmarks/papers.py`. Statements and boxes are checked by a test, figures and numbers by a",
        "study of `planted reproduce`, whose verdicts are computed from its numbers: *agrees*, *disagrees*, *not run to the",
        "end*. *False as printed*: the test shows it, and the page of the method says what holds. *Not measured*,",
        "*missing*: the nearest test is named, and it does not cover the item. *Drawing*: a picture without numbers.",
    ]
    for paper, title in TITLES.items():
        lines += [
            "",
            f"## {paper} – {title}",
            "",
            "| item | says | source | check | verdict |",
            "|---|---|---|---|---|",
        ]
        for item in (item for item in items() if item.paper == paper):
            check = f"`planted reproduce {STUDIES[paper]} --figure {item.check}`"
            if "::" in item.check:
                check = f"`tests/{item.check}`"
            cells = (item.name, item.says, f"`{item.source}`", check, verdict_of(item, claims))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines += [
            "",
            "What was measured:",
            "",
            "| figure | the paper says | we measured | verdict |",
            "|---|---|---|---|",
        ]
        for name, record in claims.items():
            study, figure = name.split("/")
            if study == STUDIES[paper]:
                label = f"{figure}{' (small)' if record['quick'] else ''}"
                for line in record["claims"]:
                    lines.append(
                        "| " + " | ".join([label, *(cell.replace("|", "\\|") for cell in line)]) + " |"
                    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
