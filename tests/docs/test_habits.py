"""What is promised to contributors is what runs: workflows, hooks and forms agree with Makefile, metadata and guide."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(
    path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"
)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Put together here, so that this file does not contain what it forbids.
FOREIGN = ["/" + "work/", "/" + "root/", "py" + "pi.org", "python" + "hosted", "index" + "-url"]


def read(path: Path) -> Any:
    """Return the contents of a YAML file; the word ``on`` stays a word."""
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    if isinstance(loaded, dict) and True in loaded:
        loaded["on"] = loaded.pop(True)
    return loaded


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every job of every workflow with its name."""
    for path in WORKFLOWS:
        yield from read(path)["jobs"].items()


def commands() -> list[str]:
    """Return what the steps of all workflows run."""
    return [step["run"] for _, job in jobs() for step in job["steps"] if "run" in step]


def make_targets(text: str) -> set[str]:
    """Return the targets of ``make`` that a text calls."""
    return set(re.findall(r"(?:^|[`&;|\s])make ([a-z][\w-]*)", text))


def defined_targets() -> set[str]:
    """Return the targets that the Makefile declares and defines."""
    declared = set(re.findall(r"^\.PHONY: (.+)$", MAKEFILE, flags=re.MULTILINE)[0].split())
    return declared & set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, flags=re.MULTILINE))


def recipe(target: str) -> list[str]:
    """Return the lines of a target's recipe."""
    return re.findall(rf"^{target}:.*\n((?:\t.*\n)*)", MAKEFILE, flags=re.MULTILINE)[0].splitlines()


def promised_pythons() -> list[str]:
    """Return the versions of Python that the classifiers name."""
    return re.findall(r"Python :: (\d+\.\d+)", "\n".join(PROJECT["classifiers"]))


def test_the_matrix_is_what_the_classifiers_promise() -> None:
    matrices = [job["strategy"]["matrix"] for _, job in jobs() if "strategy" in job]
    assert [matrix["python-version"] for matrix in matrices] == [promised_pythons()]
    assert PROJECT["requires-python"] == f">={promised_pythons()[0]}"


def test_one_python_of_the_matrix_has_a_browser_that_may_not_be_missing() -> None:
    (job,) = [job for _, job in jobs() if "strategy" in job]
    extra = job["strategy"]["matrix"]["include"]
    assert [entry["browser"] for entry in extra] == ["1"]
    assert {entry["python-version"] for entry in extra} <= set(promised_pythons())
    settings = [step.get("env", {}) for step in job["steps"]]
    assert {"PLANTED_REQUIRE_BROWSER": "${{ matrix.browser }}", "WORKERS": "4"} in settings
    # The place in which the tests of the report look for it.
    assert any("/usr/bin/chromium" in step.get("run", "") for step in job["steps"])


def test_the_workflows_run_what_a_contributor_runs() -> None:
    called = set().union(*(make_targets(text) for text in commands()))
    assert called >= {"test", "test-oldest", "docs", "house", "release-check"}
    assert called <= defined_targets()


def test_targets_of_make_are_found_in_a_text() -> None:
    assert make_targets("make test\nrun `make docs` && make test-oldest; a cmake x") == {
        "test",
        "docs",
        "test-oldest",
    }


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/release.md"])
def test_a_page_names_only_targets_that_exist(name: str) -> None:
    quoted = re.findall(
        r"`(make [^`\n]+)`|^\$ (make .+)$", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    named = set().union(*(make_targets("\n".join(parts)) for parts in quoted))
    assert named and named <= defined_targets()


def test_every_target_is_explained_by_make_help() -> None:
    explained = make_targets("\n".join(re.findall(r"^#   (.+)$", MAKEFILE, flags=re.MULTILINE)))
    assert explained >= {"demo", "test", "lint", "docs", "bench", "coverage", "house", "release-check"}
    assert explained <= defined_targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_careful(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert {"push", "pull_request"} <= set(workflow["on"])
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        actions = [step["uses"] for step in job["steps"] if "uses" in step]
        assert actions[0].startswith("actions/checkout@")
        assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in actions)


def test_the_hooks_are_the_tools_of_make_lint() -> None:
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"  # nothing is fetched from elsewhere
    entries = [hook["entry"].split() for hook in repository["hooks"]]
    assert all(hook["language"] == "system" for hook in repository["hooks"])
    venv = re.findall(r"^VENV := (.+)$", MAKEFILE, flags=re.MULTILINE)[0]
    assert {str(Path(entry[0]).parent) for entry in entries} == {f"{venv}/bin"}
    tools = [
        " ".join([Path(entry[0]).name, *[word for word in entry[1:] if word[0] != "-"]]) for entry in entries
    ]
    linted = [line.strip().removeprefix("$(BIN)/") for line in recipe("lint")]
    assert tools == [re.sub(r" (--\S+|\.)", "", line) for line in linted]
    absent = [name for name in tools if not (Path(sys.executable).parent / name.split()[0]).exists()]
    assert absent == []


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_is_well_formed(path: Path) -> None:
    form = read(path)
    assert form["name"] and form["description"] and form["labels"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    identifiers = [field["id"] for field in fields]
    assert len(identifiers) == len(set(identifiers))
    assert all(field["attributes"]["label"] for field in fields)
    assert {field["type"] for field in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert any(field.get("validations", {}).get("required") for field in fields)


@pytest.mark.parametrize("stem", ["bug", "false_recovered"])
def test_a_report_of_a_fault_asks_for_what_is_needed_to_repeat_it(stem: str) -> None:
    form = read(ROOT / ".github" / "ISSUE_TEMPLATE" / f"{stem}.yml")
    required = {field.get("id") for field in form["body"] if field.get("validations", {}).get("required")}
    assert required >= {"call", "recovery", "shapes", "doctor"}


def test_the_pull_request_form_holds_the_checklist_of_the_guide() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    form = (ROOT / ".github" / "pull_request_template.md").read_text(encoding="utf-8")
    checklist = [line for line in guide.splitlines() if line.startswith("- [ ] ")]
    assert len(checklist) >= 5
    assert [line for line in form.splitlines() if line.startswith("- [ ] ")] == checklist


def test_habits_name_no_machine_and_no_registry() -> None:
    files = [path for path in (ROOT / ".github").rglob("*") if path.is_file()]
    files += [ROOT / ".pre-commit-config.yaml", ROOT / ".coveragerc"]
    assert len(files) >= 8
    sins = {
        path.name: [word for word in FOREIGN if word in path.read_text(encoding="utf-8")] for path in files
    }
    assert {name: words for name, words in sins.items() if words} == {}
