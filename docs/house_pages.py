"""Write the page of the architecture: the rooms of the source, who imports whom, and what four real runs go through.

The layers are those of the import contract in ``pyproject.toml``, the sentences are the first lines of the docstrings, the
imports come from the import graph, and the paths are traced while small problems are solved. Nothing is drawn by hand.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import textwrap
import tomllib
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import grimp

import planted

__all__ = [
    "PATHS",
    "Crossings",
    "DataPath",
    "architecture_page",
    "count_imports",
    "crossings_of",
    "layers",
    "load_house",
    "matrix_picture",
    "path_section",
    "rooms_picture",
    "sentence_of",
    "visits_of",
]

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(planted.__file__ or "").parent
Imports = Counter[tuple[str, str]]

INTRO = """\
The source of planted is divided into rooms. A room imports only rooms below it; rooms of one layer do not import each
other, and neither do the methods. ``lint-imports`` holds this contract, ``make house`` measures the other rules of
the tree, and this page is made from the contract, the import graph and four traced runs.

"""
MATRIX = """\
Each row is a room, each column a room that it imports; the number counts the imports of one module by another.
Everything lies to the right of the diagonal: no room imports one above it. A framed number to the left of it is a
door that is opened only when it is used, and each is listed as an exception in the contract.

"""
TRACED = """\
Each path was traced while this page was built: a small problem was solved, and the first function entered in each
module was written down, in order. What lies in one room one after the other is on one line. A call goes *up* if a
function calls one of a higher room. The contract leaves one way for that: the higher room handed down a function, or
an object with methods, and is called back.

"""
WORLD = """
import numpy as np
from planted import simulate

world = simulate.dataset({sizes}, random_state=1)
np.savez("world.npz", X=world.X, Y=world.Y, W=world.network.W, b=world.network.b, A=world.network.A, c=world.network.c)
"""


@dataclass(frozen=True)
class DataPath:
    """A run to be traced: its title, what it shows, what is made before it, and the run itself."""

    title: str
    text: str
    setup: str
    script: str


@dataclass(frozen=True)
class Crossings:
    """The calls of a run between rooms: how many go down, and those that go up, by import or called back."""

    down: int
    # Caller to callees. Imported: against the contract, but for its exceptions.
    imported: dict[str, set[str]]
    called_back: dict[str, set[str]]


@cache
def load_house() -> ModuleType:
    """Return ``benchmarks/house.py``, which traces runs, as a module."""
    spec = importlib.util.spec_from_file_location("planted_house_of_pages", ROOT / "benchmarks" / "house.py")
    if spec is None or spec.loader is None:
        raise ImportError("benchmarks/house.py cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


PATHS = (
    DataPath(
        "A table is recovered",
        "``planted recover x.csv --targets y1 y2 y3`` on 200 rows without noise.",
        load_house().CSV_TABLE,
        load_house().CSV_RECOVERY,
    ),
    DataPath(
        "A paper's algorithm as printed",
        '``planted.recover(X, Y, 3, method="symmetric-inputs", variant="paper", noise="none")``, the moment method of '
        "[GKLW19]_, on 4,000 rows.",
        WORLD.format(sizes='4000, n_features=4, n_hidden=3, n_outputs=3, law="gaussian", bias=None'),
        """
import numpy as np
import planted

world = np.load("world.npz")
options = {"variant": "paper", "noise": "none"}
answer = planted.recover(world["X"], world["Y"], 3, method="symmetric-inputs", random_state=0, **options)
assert answer.network is not None, answer
""",
    ),
    DataPath(
        "A black box is asked",
        "``planted.identify(oracle, 4)``, where the oracle is a function with one output.",
        WORLD.format(sizes="10, n_features=4, n_hidden=3, n_outputs=1"),
        """
import numpy as np
import planted

world = np.load("world.npz")


def oracle(X):
    return np.maximum(X @ world["W"].T + world["b"], 0.0) @ world["A"].T + world["c"]


answer = planted.identify(oracle, 4, random_state=0)
assert answer.network is not None, answer
""",
    ),
    DataPath(
        "Labels are memorised",
        "``planted.memorize(X, y)`` on 40 rows of 10 inputs.",
        "import numpy as np\nrng = np.random.default_rng(0)\n"
        "np.savez('world.npz', X=rng.normal(size=(40, 10)), y=rng.normal(size=40))\n",
        """
import numpy as np
import planted

world = np.load("world.npz")
planted.memorize(world["X"], world["y"], random_state=0)
""",
    ),
)


def architecture_page() -> str:
    """Return the page: the rooms, the matrix of imports, and the four paths."""
    graph = grimp.build_graph("planted")
    imports = count_imports(graph)
    sections = [
        _heading("Architecture", "="),
        INTRO,
        _heading("The rooms", "-"),
        _raw(rooms_picture(layers())),
        _heading("Which room imports which", "-"),
        MATRIX,
        _raw(matrix_picture(layers(), imports)),
        _heading("Four paths through the rooms", "-"),
        TRACED,
    ]
    for path in PATHS:
        run = load_house().trace(path.script, setup=path.setup)
        if run.exit_code != 0:
            raise RuntimeError(f"{path.title}: the run ended with exit code {run.exit_code}: {run.output}")
        sections += [
            _heading(path.title, "^"),
            f"{path.text}\n\n",
            path_section(visits_of(run), crossings_of(run, graph)),
        ]
    return "".join(sections)


@cache
def layers() -> tuple[tuple[str, ...], ...]:
    """Return the layers of the import contract from top to bottom, each with its rooms."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (contract,) = [entry for entry in contracts if entry["type"] == "layers"]
    return tuple(tuple(name.strip() for name in layer.split("|")) for layer in contract["layers"])


def sentence_of(room: str, source: Path = SOURCE) -> tuple[str, int]:
    """Return the first line of a room's docstring, and how many modules the room has."""
    folder = source / room
    file = folder / "__init__.py" if folder.is_dir() else source / f"{room}.py"
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n")[0].rstrip(".").replace("`", ""), len(list(folder.rglob("*.py"))) or 1


def count_imports(graph: Any) -> Imports:
    """Return how many imports there are from room to room."""
    counts: Imports = Counter()
    for module in graph.modules:
        for target in graph.find_modules_directly_imported_by(module):
            pair = room_of(module), room_of(target)
            if pair[0] != pair[1] and "" not in pair:
                counts[pair] += 1
    return counts


def room_of(module: str) -> str:
    """Return the room of a module; empty for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def rooms_picture(storeys: tuple[tuple[str, ...], ...], source: Path = SOURCE) -> str:
    """Return a drawing of the layers from top to bottom: each room with its number of modules and its sentence."""
    width, line, left, text_left = 760, 17, 34, 210
    y, shapes = 6, []
    for rooms in storeys:
        entries = [(room, *sentence_of(room, source)) for room in rooms]
        wrapped = [(room, textwrap.wrap(sentence, 88), count) for room, sentence, count in entries]
        height = 8 + sum(line * max(len(lines), 1) for _, lines, _ in wrapped)
        shapes.append(
            f'<rect x="{left}" y="{y}" width="{width - left - 4}" height="{height}" rx="5" class="storey"/>'
        )
        row = y + 16
        for room, lines, count in wrapped:
            shapes.append(f'<text x="{left + 10}" y="{row}" class="room">{escape(room)}</text>')
            shapes.append(
                f'<text x="{text_left - 12}" y="{row}" text-anchor="end" class="count">{count}</text>'
            )
            for text in lines or [""]:
                shapes.append(f'<text x="{text_left}" y="{row}">{escape(text)}</text>')
                row += line
        y += height + 5
    arrow = f'<path d="M16 8 V{y - 14} m-5 -8 l5 8 l5 -8" class="arrow"/>'
    label = f'<text x="11" y="{y / 2:.0f}" transform="rotate(-90 11 {y / 2:.0f})" text-anchor="middle">imports</text>'
    style = (
        "text{fill:currentColor;font:11px sans-serif}.room{font:600 12px monospace}.count{opacity:.65}"
        ".storey{fill:#3b7dd8;fill-opacity:.10;stroke:#3b7dd8;stroke-opacity:.55}"
        ".arrow{fill:none;stroke:currentColor;stroke-width:1.5}"
    )
    words = "The rooms of planted, layer by layer from top to bottom, with their numbers of modules"
    return _svg("rooms", words, width, y, style, [*shapes, arrow, label])


def matrix_picture(storeys: tuple[tuple[str, ...], ...], imports: Imports) -> str:
    """Return the matrix of imports: rows import columns, in the order of the layers."""
    rooms = [room for layer in storeys for room in layer]
    storey = {room: number for number, layer in enumerate(storeys) for room in layer}
    cell, left, top = 22, 120, 112
    width = left + cell * len(rooms) + 70
    height = top + cell * len(rooms) + 6
    shapes = []
    for number, room in enumerate(rooms):
        place = cell * number
        shapes.append(
            f'<text x="{left - 8}" y="{top + place + 15}" text-anchor="end" class="room">{escape(room)}</text>'
        )
        x = left + place + 14
        shapes.append(
            f'<text x="{x}" y="{top - 7}" transform="rotate(-50 {x} {top - 7})" class="room">{escape(room)}</text>'
        )
        shapes.append(
            f'<rect x="{left + place}" y="{top + place}" width="{cell}" height="{cell}" class="self"/>'
        )
        for other, imported in enumerate(rooms):
            count = imports[room, imported]
            if count:
                kind = "down" if storey[imported] > storey[room] else "up"
                corner = f'x="{left + cell * other + 1}" y="{top + place + 1}"'
                shade = min(0.15 + count / 60, 0.7)
                size = f'width="{cell - 2}" height="{cell - 2}" rx="3"'
                shapes.append(
                    f'<rect {corner} {size} class="{kind}" fill-opacity="{shade:.2f}">'
                    f"<title>{escape(room)} imports {escape(imported)}: {count}</title></rect>"
                )
                middle = left + cell * other + cell // 2
                shapes.append(
                    f'<text x="{middle}" y="{top + place + 15}" text-anchor="middle">{count}</text>'
                )
    style = (
        "text{fill:currentColor;font:10px sans-serif}.room{font:11px monospace}.self{fill:currentColor;fill-opacity:.12}"
        ".down{fill:#3b7dd8}.up{fill:#d8483b;stroke:#d8483b;stroke-width:1.5}"
    )
    words = (
        "Matrix of imports between rooms; all lie above the diagonal but for the doors listed in the contract"
    )
    return _svg("imports", words, width, height, style, shapes)


def visits_of(run: Any) -> list[tuple[str, list[str]]]:
    """Return the rooms that a run went through, each with the modules entered there for the first time, in order."""
    places = [
        (room_of(module), _short(module, function)) for module, function in run.entered if room_of(module)
    ]
    return [
        (room, [text for _, text in group]) for room, group in groupby(places, key=lambda place: place[0])
    ]


def crossings_of(run: Any, graph: Any) -> Crossings:
    """Sort the calls between rooms into those that go down, those that go up by an import, and those that call back."""
    storey = {room: number for number, layer in enumerate(layers()) for room in layer}
    found = Crossings(0, {}, {})
    down = 0
    for caller, calling, callee, called, count in run.calls:
        above, below = room_of(caller), room_of(callee)
        if above == below or above not in storey or below not in storey:
            continue
        if storey[below] > storey[above]:
            down += count
            continue
        imported_rooms = {room_of(target) for target in graph.find_modules_directly_imported_by(caller)}
        calls = found.imported if below in imported_rooms else found.called_back
        calls.setdefault(_long(caller, calling), set()).add(_long(callee, called))
    return replace(found, down=down)


def path_section(visits: list[tuple[str, list[str]]], crossings: Crossings) -> str:
    """Return the list of rooms that a run went through, and what is to be said of the calls between them."""
    lines = [f"#. **{room}**: {' → '.join(f'``{text}``' for text in texts)}\n" for room, texts in visits]
    n_up = sum(map(len, crossings.imported.values()))
    up = f"{n_up} go" if n_up else "none goes"
    lines.append(f"\nCalls from room to room: {crossings.down:,} go down; {up} up by an import.\n\n")
    for calls in (crossings.imported, crossings.called_back):
        for caller, callees in sorted(calls.items()):
            names = ", ".join(f"``{name}``" for name in sorted(callees))
            verb = "calls up to" if calls is crossings.imported else "calls back"
            lines.append(f"- ``{caller}`` {verb} {names}\n")
    return "".join([*lines, "\n"])


def _short(module: str, function: str) -> str:
    """Return module and function as they are named inside a room."""
    inner = "/".join(module.split(".")[2:])
    return f"{inner}:{function}" if inner else function


def _long(module: str, function: str) -> str:
    """Return module and function with the room."""
    return f"{'/'.join(module.split('.')[1:])}:{function}"


def _svg(name: str, words: str, width: int, height: int, style: str, shapes: list[str]) -> str:
    """Return a drawing whose style reaches nothing else on the page."""
    rules = style.replace("}", "}\n").strip().split("\n")
    scoped = "".join(f".planted-{name} {rule}" for rule in rules)
    head = f'<svg class="planted-{name}" viewBox="0 0 {width} {height}" width="100%" role="img" aria-label="{escape(words)}"'
    lines = [f'{head} xmlns="http://www.w3.org/2000/svg">', f"<style>{scoped}</style>", *shapes, "</svg>"]
    return "\n".join(lines)


def _raw(html: str) -> str:
    return f".. raw:: html\n\n{textwrap.indent(html, '   ')}\n\n"


def _heading(title: str, underline: str) -> str:
    return f"{title}\n{underline * len(title)}\n\n"
