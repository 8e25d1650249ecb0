"""Run a piece of Python and write down which functions of planted it entered; started by house.py in a fresh process.

    python benchmarks/_trace.py RECORD.json SCRIPT.py

The record holds the modules of planted that were loaded, the first function that was entered in each module, in order, and
every pair of caller and callee in different modules with the number of calls. The caller is the nearest function of planted
on the stack, so that a call through SciPy or typer counts as a call of whoever called these. What runs while a module is
imported (decorators, tables) is left out, and so are the functions that a class body or a comprehension is made of.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

# Found without importing it: what the script loads is part of what is measured.
_SPEC = importlib.util.find_spec("planted")
assert _SPEC is not None and _SPEC.origin is not None
FOLDER = Path(_SPEC.origin).parent
IS_FUNCTION = 0x01  # CO_OPTIMIZED: bodies of modules and classes do not have it
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Tracer:
    """Listens to every call of Python, and to nothing else that a function does; `record` returns what it heard."""

    def __init__(self) -> None:
        self.entered: dict[str, str] = {}
        self.calls: Counter[tuple[str, str, str, str]] = Counter()
        self.modules: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call, if it is one of a function of planted."""
        if event != "call":
            return
        module = self.module_of(frame.f_code)
        if module is None or is_importing(frame):
            return
        self.entered.setdefault(module, _function(frame.f_code))
        caller = self.caller_of(frame)
        if caller is not None:
            above = self.modules[caller]
            if above is not None and above != module:
                self.calls[above, _function(caller), module, _function(frame.f_code)] += 1

    def module_of(self, code: CodeType) -> str | None:
        """Return the module of a function of planted; None for other code."""
        if code not in self.modules:
            self.modules[code] = module_name(code.co_filename) if is_function(code) else None
        return self.modules[code]

    def caller_of(self, frame: FrameType) -> CodeType | None:
        """Return the code of the nearest function of planted that called this one."""
        above = frame.f_back
        while above is not None and self.module_of(above.f_code) is None:
            above = above.f_back
        return None if above is None else above.f_code

    def record(self) -> dict[str, Any]:
        """Return what was heard, as plain data."""
        return {
            "loaded": sorted(name for name in sys.modules if name.split(".")[0] == "planted"),
            "entered": list(self.entered.items()),
            "calls": [[*names, count] for names, count in self.calls.items()],
        }


@cache  # asked at every call, of the same few files
def module_name(filename: str) -> str | None:
    """Return the dotted name of a file of planted; None for others."""
    path = Path(filename)
    if not path.is_relative_to(FOLDER):
        return None
    parts = ["planted", *path.relative_to(FOLDER).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_function(code: CodeType) -> bool:
    """Return whether code is the body of a function, not of a module, a class or a comprehension outside functions."""
    return bool(code.co_flags & IS_FUNCTION) and not code.co_qualname.startswith(COMPREHENSIONS)


def is_importing(frame: FrameType) -> bool:
    """Return whether a call is part of an import: made by the import system, or by the body of a module of planted."""
    above = frame.f_back
    if above is not None and above.f_code.co_filename.startswith("<frozen importlib"):
        return True
    while above is not None:
        if above.f_code.co_name == "<module>":
            return module_name(above.f_code.co_filename) is not None
        above = above.f_back
    return False


def _function(code: CodeType) -> str:
    """Return the name of a function as a reader knows it, without what it is local to."""
    return code.co_qualname.split(".<locals>")[0]


def main() -> None:
    """Run the script; however it ends, the record is written."""
    target, script = Path(sys.argv[1]), Path(sys.argv[2])
    code = compile(script.read_text(encoding="utf-8"), str(script), "exec")
    tracer = Tracer()
    threading.settrace(tracer)
    sys.settrace(tracer)
    try:
        exec(code, {"__name__": "__main__"})
    finally:
        sys.settrace(None)
        threading.settrace(None)
        target.write_text(json.dumps(tracer.record()), encoding="utf-8")


if __name__ == "__main__":
    main()
