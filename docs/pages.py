"""Write the pages of the documentation that are made from the package itself.

The API page comes from ``planted.__all__``, the outcomes page from the enums, the page on choosing from the methods' cards,
the pages of methods and modules from docstrings, the benchmarks from their stored results, bad input from the table of its
tests and the references from ``references.bib``: none of them can disagree with its source. ``conf.py`` calls `write_pages`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import planted
from planted.outcomes import Guarantee, Outcome

__all__ = [
    "api_names",
    "api_page",
    "bad_input_page",
    "benchmarks_page",
    "choosing_page",
    "columns_to_rubrics",
    "examples_page",
    "explaining_modules",
    "has_gallery",
    "method_pages",
    "outcomes_page",
    "references_page",
    "write_pages",
]

ROOT = Path(__file__).resolve().parent.parent
THEORY = ROOT / "docs" / "theory"
# The rooms whose modules explain themselves: one page for each module that does. Their names may begin with an underscore:
# that says what may be imported, not what is worth reading.
EXPLAINED = {
    "linalg": "Linear algebra and programs",
    "moments": "Sums over the rows",
    "fitting": "Fitting",
    "certificates": "Certificates",
    "identification": "Asking a black box",
    "memorization": "Memorising labels",
}
EXPLAINS = 4  # lines of a docstring that explains something, rather than saying what lies here

# A word that opens a part of a module docstring (Problem, Idea, Guarantee, ...), with its text in a column beside it.
LABEL = re.compile(r"^([A-Z][a-z]{2,})(\s{2,})(\S.*)")


def write_pages(folder: Path) -> None:
    """Write every generated page into ``folder``; pages that did not change keep their time stamp."""
    pages = {
        "api.rst": api_page(),
        "architecture.rst": load_file(ROOT / "docs" / "house_pages.py").architecture_page(),
        "examples.rst": examples_page(),
        "bad-input.rst": bad_input_page(),
        "benchmarks.rst": benchmarks_page(),
        "choosing.rst": choosing_page(),
        "outcomes.rst": outcomes_page(),
        "references.rst": references_page((ROOT / "references.bib").read_text(encoding="utf-8")),
    } | method_pages()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.rst"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def api_names() -> list[str]:
    """Return the names of the API page, relative to ``planted``, in order."""
    return re.findall(r"^   ~planted\.([\w.]+)$", api_page(), flags=re.MULTILINE)


def api_page() -> str:
    """Return the API page: every public name, grouped by kind; a public module with its own names."""
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors and warnings": []}
    modules: list[str] = []
    for name in sorted(planted.__all__):
        value = getattr(planted, name)
        if isinstance(value, ModuleType):
            modules.append(name)
        elif name != "__version__":
            groups[_kind(value)].append(name)
    sections = [_heading("API reference", "="), _paragraph("Everything here can be imported from `planted`.")]
    for title, names in groups.items():
        if names:
            sections += [_heading(title, "-"), _autosummary(names)]
    for name in modules:
        module = getattr(planted, name)
        summary = inspect.getdoc(module) or ""
        sections += [_heading(f"planted.{name}", "-"), _paragraph(summary.partition("\n\n")[0])]
        sections.append(_autosummary([f"{name}.{inner}" for inner in sorted(module.__all__)]))
    return "".join(sections)


def outcomes_page() -> str:
    """Return the page of outcomes and guarantees, worded by the enums alone."""
    sections = [
        _heading("Outcomes", "="),
        _paragraph(
            "Every recovery ends in exactly one of these. Only ``RECOVERED`` claims that the network is the "
            "planted one. The texts are those that reports, exceptions and the command line print."
        ),
    ]
    for outcome in Outcome:
        sections += [_heading(outcome.name, "-"), _paragraph(_inline(outcome.meaning))]
        sections.append(_paragraph(f"*What to do:* {_inline(outcome.advice)}"))
    sections += [
        _heading("Guarantees", "="),
        _paragraph("What was proved for the conditions that the data met."),
    ]
    rows = "".join(f"``{guarantee.name}``\n    {_inline(guarantee.value)}\n\n" for guarantee in Guarantee)
    return "".join([*sections, rows])


TARGETS = {
    "gaussian": "numbers",
    "logistic": "two classes",
    "multinomial": "classes",
    "poisson": "counts",
}


def choosing_page() -> str:
    """Return the page "which method for which data", from the methods' own cards alone."""
    sections = [
        _heading("Which method for which data", "="),
        _paragraph(
            "``planted.recover`` chooses by itself; name a method to insist on it. The table is made from the cards "
            'that ``planted.methods()`` returns, in the order in which ``method="auto"`` considers them.'
        ),
        ".. list-table::\n   :header-rows: 1\n   :widths: 13 25 8 9 8 15 12 10\n\n",
    ]
    header = ("method", "what it does", "inputs", "outputs", "noise", "samples", "activations", "targets")
    rows = [header] + [
        (
            f"``{card.method}``",
            card.summary,
            card.input_law,
            card.n_outputs,
            card.noise,
            card.samples,
            ", ".join(card.activations),
            ", ".join(TARGETS[name] for name in card.likelihoods),
        )
        for card in planted.methods().values()
    ]
    for row in rows:
        sections.append("   * - " + "\n     - ".join(_inline(cell) for cell in row) + "\n")
    sections.append("\n")
    for card in planted.methods().values():
        kinds = ", ".join(card.activations)
        biases = "biases allowed" if card.biases else "no biases"
        source = "ours" if card.reference == "planted" else f"[{card.reference}]_"
        sections += [
            _heading(card.method, "-"),
            _paragraph(f"{_inline(card.summary[:1].upper() + card.summary[1:])}."),
            _paragraph(f"Activations: {kinds}; {biases}. Source: {source}."),
            _paragraph(f"Best guarantee: {_inline(card.guarantee.value)}."),
            _paragraph(_where_to_read(card.method)),
        ]
    return "".join(sections)


def _where_to_read(method: str) -> str:
    """Return a sentence with links to a method's page of theory, where there is one, and to its options."""
    links = [f":doc:`the theory </theory/{method}>`"] if (THEORY / f"{method}.md").exists() else []
    links.append(f":doc:`the algorithm and its options </generated/{_package_of(method)}>`")
    return f"Read on: {', '.join(links)}."


def benchmarks_page() -> str:
    """Return the page of targets and measurements, from the stored results of full runs alone."""
    targets = load_file(ROOT / "benchmarks" / "targets.py")
    results = targets.load_results()
    sections = [
        _heading("Benchmarks", "="),
        _paragraph(
            "What planted set out to reach, and what was measured. Every number comes from a full run stored in "
            "``benchmarks/results``; ``planted bench`` measures it again, ``make bench`` a short version, and both "
            "say what became better or worse. Peers were run on the same data."
        ),
        _table(
            ("", "target", "measured", "peer", "verdict"),
            [(row.name, row.what, row.measured, row.peer, row.verdict) for row in targets.collect(results)],
            widths="6 34 34 18 8",
        ),
        _heading("What is not met, and why", "-"),
    ]
    for row in targets.collect(results):
        if row.explanation:
            sections.append(_paragraph(f"**{row.name}** ({row.verdict}). {_escaped(row.explanation)}"))
    for name, text, reason in targets.red_lines(results):
        sections.append(_paragraph(f"``{name}``: {_escaped(text)}. *{_escaped(reason)}*"))
    sections.append(_heading("Every line", "-"))
    for name, record in results.items():
        versions = ", ".join(f"{library} {version}" for library, version in record["versions"].items())
        machine = ", ".join(f"{word} {value}" for word, value in record["machine"].items())
        sections += [
            _heading(name, "^"),
            _paragraph(
                f"``python benchmarks/{name}.py``, first seed {record['seed']}, {record['made'][:10]}; "
                f"{versions}; {machine}."
            ),
            _table(
                ("target", "measured", ""),
                [
                    (line["target"], line["measured"], "met" if line["passed"] else "RED")
                    for line in record["targets"]
                ],
                widths="45 45 10",
            ),
        ]
        if name == "mutation":
            sections.append(_survivors(record["rows"]))
    return "".join(sections)


def _survivors(packages: list[dict[str, Any]]) -> str:
    """Return the mutants that no test of their room noticed: what was changed, and why that is none to worry about."""
    rows = [
        (
            survivor["mutant"].replace("planted.", "", 1).rpartition("__mutmut_")[0],
            " → ".join(f"`{line[1:].strip()}`" for line in survivor["change"]),
            survivor["reason"] or "not explained",
        )
        for package in packages
        for survivor in package["survivors"]
    ]
    lead = _paragraph(
        "The mutants that survived, under the names of the day of the run, each with its change and why no test of its "
        "room kills it:"
    )
    return lead + _table(("function", "change", "reason"), rows, widths="22 50 28")


def bad_input_page() -> str:
    """Return the page of what every public entry does with bad input, from the table that the tests run."""
    matrix = load_file(ROOT / "tests" / "pathology" / "matrix.py")
    behaviours = [
        (case.name, *((matrix.cell(entry, case) or ("–",))[0] for entry in matrix.ENTRIES))
        for case in matrix.CASES
    ]
    files = [(name, suffix, "exit code 2, the file is named") for name, (suffix, _) in matrix.FILES.items()]
    faults = [(fault, behaviour, f"`{test}`") for fault, behaviour, test in matrix.FAULTS]
    return "".join(
        [
            _heading("Bad input, entry by entry", "="),
            _paragraph(
                "What every public entry does with every kind of bad input. The table is the one that "
                "``tests/pathology/test_bad_input_matrix.py`` runs, cell by cell; every error names the place or the kind. "
                "*Same answer* means: as for the same numbers in a plain array, and the input is unchanged."
            ),
            _table(("", *matrix.ENTRIES), behaviours, widths=" ".join(["16"] + ["9"] * len(matrix.ENTRIES))),
            _heading("Damaged files", "-"),
            _paragraph(
                "For each of the commands ``recover``, ``diagnose``, ``memorize``, ``predict`` and ``sums``:"
            ),
            _table(("file", "format", "behaviour"), files, widths="50 15 35"),
            _heading("Faults", "-"),
            _table(("fault", "behaviour", "test"), faults, widths="25 30 45"),
        ]
    )


def load_file(path: Path) -> ModuleType:
    """Import a Python file that is not part of the package."""
    name = f"planted_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def has_gallery() -> bool:
    """Return whether there are examples for the gallery to run."""
    return any((ROOT / "examples").glob("plot_*.py"))


def examples_page() -> str:
    """Return the page that leads to the gallery, if there is one."""
    intro = _heading("Examples", "=") + _paragraph(
        "Each answers one question and runs in under half a minute."
    )
    return intro + (".. toctree::\n   :maxdepth: 1\n\n   ../gallery/index\n" if has_gallery() else "")


def method_pages() -> dict[str, str]:
    """Return a page for each method and for each module that explains itself, and the page that lists them."""
    index = [
        _heading("Methods, module by module", "="),
        _paragraph("What each algorithm does, what it promises, and what the others are built from."),
        _heading("Methods", "-"),
        _toctree([_package_of(method) for method in planted.methods()]),
    ]
    pages: dict[str, str] = {}
    for method in planted.methods():
        pages |= _pages_of_method(method)
    for room, title in EXPLAINED.items():
        modules = explaining_modules(f"planted.{room}")
        pages |= {f"{module}.rst": _module_page(module) for module in modules}
        index += [_heading(title, "-"), _links(modules)]
    return pages | {"methods.rst": "".join(index)}


def _pages_of_method(method: str) -> dict[str, str]:
    """Return the page of a method, with its options and its inner modules, and a page for each of those."""
    package = _package_of(method)
    inner = [module for module in explaining_modules(package) if module != package]
    theory = f"Derivation and measurements: :doc:`/theory/{method}`."
    page = [
        _heading(method, "="),
        _paragraph(theory) if (THEORY / f"{method}.md").exists() else "",
        f".. automodule:: {package}\n   :no-members:\n\n",
        _heading("Options", "-"),
        _paragraph(
            f'``planted.recover(X, Y, n_hidden, method="{method}", **options)`` runs it on the rows X, Y.'
        ),
        f".. autofunction:: {package}.recover\n\n",
    ]
    if inner:
        page += [_heading("Its parts", "-"), _links(inner)]
    return {f"{package}.rst": "".join(page)} | {f"{module}.rst": _module_page(module) for module in inner}


def _package_of(method: str) -> str:
    return f"planted.methods.{method.replace('-', '_')}"


def _module_page(module: str) -> str:
    """Return the page of a module. It is reached by links: some two hundred of them would fill the sidebar of every page."""
    return ":orphan:\n\n" + _heading(module, "=") + f".. automodule:: {module}\n   :no-members:\n"


def explaining_modules(package: str) -> list[str]:
    """Return the dotted names of a package's modules, at any depth, whose docstrings explain something."""
    (folder,) = importlib.import_module(package).__path__
    names = [package, *(entry.name for entry in pkgutil.walk_packages([folder], f"{package}."))]
    return sorted(name for name in names if _explains(name))


def _explains(module: str) -> bool:
    docstring = inspect.getdoc(importlib.import_module(module)) or ""
    return len(docstring.splitlines()) >= EXPLAINS


def references_page(bibliography: str) -> str:
    """Return the bibliography as citations that docstrings can point to by key."""
    entries = re.findall(r"@\w+\{(\w+),\n(.*?)\n\}", bibliography, flags=re.DOTALL)
    lines = [_heading("References", "=")]
    lines.append(_paragraph("Cited by key: " + ", ".join(f"[{key}]_" for key, _ in entries) + "."))
    for key, body in entries:
        fields = {
            name: _plain(value) for name, value in re.findall(r"(\w+)\s*=\s*\{(.*)\},?$", body, re.MULTILINE)
        }
        authors = ", ".join(
            " ".join(reversed(author.split(", "))) for author in fields["author"].split(" and ")
        )
        venue = fields.get("booktitle") or fields.get("journal") or fields.get("howpublished", "")
        volume = f" {fields['volume']}" if "volume" in fields else ""
        pages = f", {fields['pages']}" if "pages" in fields else ""
        lines.append(
            f".. [{key}] {authors}. {fields['title']}. {venue}{volume}{pages}, {fields['year']}.\n\n"
        )
    return "".join(lines)


def columns_to_rubrics(lines: list[str]) -> list[str]:
    """Turn the two-column form of a module docstring (label, text beside it) into rubrics with paragraphs."""
    converted: list[str] = []
    column = 0
    for line, is_table in zip(lines, _in_tables(lines), strict=True):
        label = None if is_table else LABEL.match(line)
        if label:
            column = label.start(3)
            converted += ["", f".. rubric:: {label[1]}", "", label[3]]
        elif column and line.strip() and len(line) - len(line.lstrip()) < column:
            column = 0  # plain text again
            converted += ["", line]
        else:
            converted.append(line[column:])
    return _separate_lists(_escape_bars(converted))


def _in_tables(lines: list[str]) -> list[bool]:
    """Tell for each line whether it lies between the first and the last rule of a table at the margin."""
    rules = [i for i, line in enumerate(lines) if re.fullmatch(r"=+( +=+)+", line.rstrip())]
    tables = [
        (rules[i], rules[i + 2]) for i in range(0, len(rules) - 2, 3)
    ]  # above and below the header, at the end
    return [any(first <= i <= last for first, last in tables) for i in range(len(lines))]


def _escape_bars(lines: list[str]) -> list[str]:
    """Escape the bars of absolute values, which markup would take for substitutions, outside literals and formulas."""
    escaped: list[str] = []
    depth: int | None = None  # of the directive that is open
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() and depth is not None and indent <= depth:
            depth = None
        if line.lstrip().startswith(".. "):
            depth = indent
        if depth is None:
            parts = re.split(r"(``.*?``|:math:`.*?`)", line)
            line = "".join(part if i % 2 else part.replace("|", r"\|") for i, part in enumerate(parts))
        escaped.append(line)
    return escaped


def _separate_lists(lines: list[str]) -> list[str]:
    """Put the blank lines around numbered lists that markup asks for and prose does not."""
    separated: list[str] = []
    in_list = False
    for line in lines:
        is_item = bool(re.match(r"\d+\. ", line))
        ends = in_list and line.strip() != "" and not line.startswith("   ") and not is_item
        begins = is_item and not in_list
        if (ends or begins) and separated and separated[-1].strip():
            separated.append("")
        in_list = is_item or (in_list and not ends)
        separated.append(line)
    return separated


def _kind(value: object) -> str:
    """Return the group of the API page to which a public object belongs."""
    if inspect.isclass(value):
        return "Errors and warnings" if issubclass(value, BaseException) else "Classes"
    return "Functions"


def _toctree(pages: list[str]) -> str:
    return "".join([".. toctree::\n   :maxdepth: 1\n\n", *(f"   {page}\n" for page in pages), "\n"])


def _links(pages: list[str]) -> str:
    return "".join(f"- :doc:`{page}`\n" for page in pages) + "\n"


def _autosummary(names: list[str]) -> str:
    lines = "".join(f"   ~planted.{name}\n" for name in names)
    return f".. autosummary::\n   :toctree: reference\n\n{lines}\n"


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]], *, widths: str) -> str:
    """Return a table of plain texts."""
    lines = [f".. list-table::\n   :header-rows: 1\n   :widths: {widths}\n\n"]
    for row in [header, *rows]:
        lines.append("   * - " + "\n     - ".join(_escaped(cell) for cell in row) + "\n")
    return "".join([*lines, "\n"])


def _escaped(text: str) -> str:
    """Return a text in which nothing is markup but the literals in backticks."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"`{part}`" if i % 2 else re.sub(r"([\\*`|_])", r"\\\1", part) for i, part in enumerate(parts)
    ).replace("\n", " ")


def _heading(title: str, underline: str) -> str:
    return f"{title}\n{underline * len(title)}\n\n"


def _paragraph(text: str) -> str:
    return f"{text}\n\n"


def _inline(text: str) -> str:
    """Turn the single backticks of messages into literals."""
    return re.sub(r"`([^`]+)`", r"``\1``", text)


def _plain(value: str) -> str:
    """Return a BibTeX value as plain text."""
    return value.replace(r"{\'y}", "ý").replace("{", "").replace("}", "").replace("--", "–")
