"""Could the tree be released? Run the checks of docs/release.md; nothing is tagged, uploaded or changed.

    python .ci/release_check.py            dry: what only matters on the day of a release is a warning
    python .ci/release_check.py --strict   on that day: every warning counts

Exit codes: 0 nothing is in the way; 1 something is, and it is printed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Finding",
    "changelog_sections",
    "check_changelog",
    "check_sdist",
    "check_tag",
    "check_tree",
    "check_versions",
    "check_wheel_and_sdist",
    "is_releasable",
    "version_of",
]

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^## \[(.+?)\](?: - (\d{4}-\d{2}-\d{2}))?$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """What was looked at, what was found, and whether it stands in the way of a release."""

    name: str
    passed: bool
    text: str
    only_on_the_day: bool = False  # a warning before it

    def is_error(self, *, strict: bool) -> bool:
        """Return whether it stands in the way."""
        return not self.passed and (strict or not self.only_on_the_day)


def main() -> None:
    """Print every finding as it is made."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--strict", action="store_true", help="the day of the release: warnings count")
    strict = parser.parse_args().strict
    findings = []
    for finding in every_finding():
        word = "ok  " if finding.passed else "RED " if finding.is_error(strict=strict) else "warn"
        sys.stdout.write(f"  {word}  {finding.name:<20} {finding.text}\n")
        sys.stdout.flush()
        findings.append(finding)
    raise SystemExit(0 if is_releasable(findings, strict=strict) else 1)


def every_finding() -> Iterator[Finding]:
    """Run the checks, the quick ones first."""
    yield check_versions(ROOT)
    yield from check_changelog(ROOT)
    yield check_tag(ROOT)
    yield check_tree(ROOT)
    with tempfile.TemporaryDirectory() as scratch:
        yield check_wheel_and_sdist(ROOT, Path(scratch))
        yield check_sdist(ROOT, Path(scratch))


def is_releasable(findings: list[Finding], *, strict: bool) -> bool:
    """Return whether nothing stands in the way."""
    return not any(finding.is_error(strict=strict) for finding in findings)


def version_of(root: Path) -> str:
    """Return the version, from its one place."""
    text = (root / "src" / "planted" / "_version.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', text, flags=re.MULTILINE)
    return str(version)


def changelog_sections(root: Path) -> list[tuple[str, str, str]]:
    """Return version, date and text of every section of the changelog, the newest first."""
    parts = SECTION.split((root / "CHANGELOG.md").read_text(encoding="utf-8"))[1:]
    return [
        (version, date or "", text.strip())
        for version, date, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def check_versions(root: Path) -> Finding:
    """Compare the version of the package with the citation file and the newest release of the changelog."""
    citation = re.findall(
        r"^version: (.+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    released = [version for version, _, _ in changelog_sections(root) if version != "Unreleased"]
    found = {
        "_version.py": version_of(root),
        "CITATION.cff": citation[0] if citation else "none",
        "CHANGELOG.md": released[0] if released else "none",
    }
    text = ", ".join(f"{version} in {name}" for name, version in found.items())
    return Finding("one version", len(set(found.values())) == 1, text)


def check_changelog(root: Path) -> Iterator[Finding]:
    """Look for an open section at the top, dates below it, and lines that no release has yet."""
    sections = changelog_sections(root)
    is_open = bool(sections) and sections[0][:2] == ("Unreleased", "")
    yield Finding(
        "changelog", is_open, "[Unreleased] comes first" if is_open else "[Unreleased] must come first"
    )
    undated = [version for version, date, _ in sections[1:] if not date]
    dates = [date for _, date, _ in sections[1:] if date]
    in_order = dates == sorted(dates, reverse=True)
    text = (
        f"no date in {', '.join(undated)}"
        if undated
        else "the newest release first"
        if in_order
        else "out of order"
    )
    yield Finding("dates", not undated and in_order, text)
    waiting = sum(line.startswith("- ") for line in sections[0][2].splitlines()) if is_open else 0
    text = f"{waiting} lines wait for the next version" if waiting else "every line belongs to a version"
    yield Finding("unreleased lines", not waiting, text, only_on_the_day=True)


def check_tag(root: Path) -> Finding:
    """Look whether the tag of this version would be new."""
    tag = f"v{version_of(root)}"
    tags = _git(root, "tag", "--list", tag)
    if tags is None:
        return Finding("tag", False, "this is no git repository", only_on_the_day=True)
    text = f"{tag} exists; the next release needs a new version" if tags else f"{tag} would be new"
    return Finding("tag", not tags, text, only_on_the_day=True)


def check_tree(root: Path) -> Finding:
    """Look for changes that are not committed."""
    changes = _git(root, "status", "--porcelain")
    if changes is None:
        return Finding("working tree", False, "this is no git repository", only_on_the_day=True)
    count = len(changes.splitlines())
    return Finding(
        "working tree",
        not count,
        f"{count} files differ from HEAD" if count else "clean",
        only_on_the_day=True,
    )


def check_wheel_and_sdist(root: Path, folder: Path) -> Finding:
    """Build both without the network, read their metadata, install the wheel and recover a network with it.

    The tests of what is released do all of it; they leave what they built in ``folder``.
    """
    tests = ["tests/docs/test_release.py", "-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'built'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests], cwd=root, capture_output=True, text=True, check=False
    )
    said = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["no output"]
    failed = [line.partition("::")[2].partition(" ")[0] for line in said if line.startswith("FAILED ")]
    text = ": ".join(["tests/docs/test_release.py", said[-1].strip("= "), *failed])
    return Finding("wheel and sdist", done.returncode == 0, text)


def check_sdist(root: Path, folder: Path) -> Finding:
    """Compare the sdist with the repository: who unpacks it can run every test and build every page."""
    archives = sorted(folder.rglob("planted-*.tar.gz"))
    if not archives:
        return Finding("contents of sdist", False, "there is none")
    tracked = _git(root, "ls-files")
    if tracked is None:
        return Finding("contents of sdist", False, "this is no git repository", only_on_the_day=True)
    with tarfile.open(archives[0]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    # A file that was deleted and not committed yet is the business of the check of the working tree.
    missing = sorted(name for name in tracked.splitlines() if name not in held and (root / name).exists())
    some = ", ".join(missing[:4]) + (", …" if len(missing) > 4 else "")
    text = (
        f"{len(missing)} files of the repository are not in it: {some}" if missing else f"{len(held)} files"
    )
    return Finding("contents of sdist", not missing, text)


def _git(root: Path, *command: str) -> str | None:
    """Return what git prints, or None where there is no repository."""
    try:
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    main()
