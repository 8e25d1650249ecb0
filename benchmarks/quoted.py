"""Write the numbers that pages quote into these pages, from the stored results.

Nothing is measured here. Run it after ``speed.py --only no --write`` or ``limits.py --closer --write``; the tests compare
the pages with the stored results.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from _table import RESULTS

DOCS = Path(__file__).parents[1] / "docs"
EFFORT = re.compile(
    r'(`"quick"`\s+took\s+)between \S+ and \S+( of\s+its\s+processor\s+time\s+and\s+`"normal"`\s+)'
    r"between \S+ and \S+(;\s+the\s+search\s+took\s+)\d+ to \d+( s)"
)
FEW = re.compile(r"(## Few samples\n.*?\| samples \| exact \|\n\|---\|---\|\n)((?:\| [^\n]*\n)*)", re.DOTALL)


def stored_rows(name: str) -> list[dict[str, Any]]:
    return list(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"])


def effort_sentence(page: str) -> str:
    """Put what each effort costs beside a search of scikit-learn into the page."""
    (part,) = (part for part in stored_rows("speed") if part["section"] == "no")
    peers = [row["peer"] for row in part["rows"]]
    quick, normal = (
        f"between {min(shares):.2f} and {max(shares):.2f}"
        for shares in ([row[effort] / row["peer"] for row in part["rows"]] for effort in ("quick", "normal"))
    )
    text = rf"\g<1>{quick}\g<2>{normal}\g<3>{min(peers):.0f} to {max(peers):.0f}\g<4>"
    return replaced_once(EFFORT, text, page)


def few_samples_table(page: str) -> str:
    """Put the cases close to the limit into the page."""
    lines = [few_samples_line(row) for row in stored_rows("limits_closer")]
    return replaced_once(FEW, r"\g<1>" + "\n".join(lines) + "\n", page)


def few_samples_line(row: dict[str, Any]) -> str:
    """Return the line of a case; as drawn, the networks that can be identified are counted apart."""
    apart = (
        f", {row['determined_hits']} of the {row['determined']} identifiable" if "determined" in row else ""
    )
    return f"| {row['case']} | {row['hits']} of {row['seeds']}{apart} |"


def replaced_once(pattern: re.Pattern[str], text: str, page: str) -> str:
    new, count = pattern.subn(text, page)
    if count != 1:
        raise SystemExit(f"the page quotes {pattern.pattern!r} {count} times, not once")
    return new


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for name, write in (("front-door.md", effort_sentence), ("theory/complementarity.md", few_samples_table)):
        path = DOCS / name
        path.write_text(write(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"written: {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
