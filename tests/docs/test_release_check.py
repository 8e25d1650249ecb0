"""The dry run of a release: what it accepts, what it warns of and what it refuses."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ("CITATION.cff", "CHANGELOG.md", "src/planted/_version.py")
SMALL_CHANGELOG = (
    "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-02-01\n\n- b\n\n## [0.1.0] - 2026-11-16\n\n- a\n"
)


@pytest.fixture(scope="module")
def check() -> ModuleType:
    """Return the program that checks a release, as a module."""
    spec = importlib.util.spec_from_file_location("planted_release_check", ROOT / ".ci" / "release_check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a committed repository that is ready to be released as 0.2.0."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(SMALL_CHANGELOG, encoding="utf-8")
    (tmp_path / "src/planted/_version.py").write_text('"""V."""\n\n__version__ = "0.2.0"\n', encoding="utf-8")
    citation = (tmp_path / "CITATION.cff").read_text(encoding="utf-8")
    citation = re.sub(r"(?m)^version: .+$", "version: 0.2.0", citation)
    (tmp_path / "CITATION.cff").write_text(citation, encoding="utf-8")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *command: str) -> None:
    name = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *name, *command], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "a state")


def quick_findings(check: ModuleType, tree: Path) -> dict[str, object]:
    """Return every finding but those of the distributions, by name."""
    every = [
        check.check_versions(tree),
        *check.check_changelog(tree),
        check.check_tag(tree),
        check.check_tree(tree),
    ]
    return {finding.name: finding for finding in every}


def test_this_tree_passes_the_dry_run(check: ModuleType) -> None:
    findings = list(quick_findings(check, ROOT).values())
    assert check.is_releasable(findings, strict=False), findings


def test_a_tree_that_is_ready_passes_strictly(check: ModuleType, tree: Path) -> None:
    findings = quick_findings(check, tree)
    assert set(findings) == {"one version", "changelog", "dates", "unreleased lines", "tag", "working tree"}
    assert check.is_releasable(list(findings.values()), strict=True)


@pytest.mark.parametrize("name", FILES)
def test_versions_that_differ_are_an_error(check: ModuleType, tree: Path, name: str) -> None:
    text = (tree / name).read_text(encoding="utf-8")
    (tree / name).write_text(text.replace("0.2.0", "0.3.0"), encoding="utf-8")
    finding = check.check_versions(tree)
    assert finding.is_error(strict=False) and f"0.3.0 in {Path(name).name}" in finding.text


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("## [Unreleased]\n\n", "", "changelog"),
        ("## [0.2.0] - 2027-02-01", "## [0.2.0]", "dates"),
        ("2027-02-01", "2026-01-01", "dates"),
    ],
)
def test_a_changelog_out_of_form_is_an_error(
    check: ModuleType, tree: Path, old: str, new: str, name: str
) -> None:
    (tree / "CHANGELOG.md").write_text(SMALL_CHANGELOG.replace(old, new), encoding="utf-8")
    findings = {finding.name: finding for finding in check.check_changelog(tree)}
    assert findings[name].is_error(strict=False)


def test_what_only_matters_on_the_day_is_a_warning_before_it(check: ModuleType, tree: Path) -> None:
    waiting = SMALL_CHANGELOG.replace("## [Unreleased]\n", "## [Unreleased]\n\n- c\n")
    (tree / "CHANGELOG.md").write_text(waiting, encoding="utf-8")  # not committed
    git(tree, "tag", "v0.2.0")
    findings = quick_findings(check, tree)
    failed = {name for name, finding in findings.items() if finding.is_error(strict=True)}  # type: ignore[attr-defined]
    assert failed == {"unreleased lines", "tag", "working tree"}
    assert check.is_releasable(list(findings.values()), strict=False)


def test_an_sdist_that_leaves_a_file_out_is_an_error(check: ModuleType, tree: Path, tmp_path: Path) -> None:
    built = tmp_path / "built"
    built.mkdir()
    assert check.check_sdist(tree, built).is_error(strict=False)  # there is none
    with tarfile.open(built / "planted-0.2.0.tar.gz", "w:gz") as archive:
        for name in FILES[1:]:
            archive.add(tree / name, f"planted-0.2.0/{name}")
    finding = check.check_sdist(tree, built)
    assert finding.is_error(strict=False) and "CITATION.cff" in finding.text
    with tarfile.open(built / "planted-0.2.0.tar.gz", "w:gz") as archive:
        for name in FILES:
            archive.add(tree / name, f"planted-0.2.0/{name}")
    assert check.check_sdist(tree, built).passed


def test_a_folder_that_is_no_repository_is_a_warning(check: ModuleType, tree: Path) -> None:
    shutil.rmtree(tree / ".git")
    for finding in (check.check_tag(tree), check.check_tree(tree)):
        assert finding.is_error(strict=True) and not finding.is_error(strict=False)
        assert finding.text == "this is no git repository"


def test_the_procedure_lists_every_check(check: ModuleType, tree: Path) -> None:
    text = (ROOT / "docs" / "release.md").read_text(encoding="utf-8")
    names = [*quick_findings(check, tree), "wheel and sdist", check.check_sdist(tree, tree).name]
    table = text.partition("## 4. ")[2].partition("## 5. ")[0]
    assert re.findall(r"^\| ([\w ]+) \|", table, flags=re.MULTILINE) == ["check", *names]
