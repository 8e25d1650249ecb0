"""Know a function again: a hash of what it computes with.

A checkpoint keeps sums of functions of the rows. A resumed run must sum the same functions, and it has only their values in
memory to tell. A dataclass is its class and its fields, an array its bytes. A Python function is its byte code, the values
it encloses or has as defaults, and the global values of its own module that it names; functions of other modules count by
their names, since versions are compared elsewhere. What cannot be known again (a generator of random numbers, an open file)
has a text that is never the same twice, so that the resumed run is refused and not answered wrongly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from planted.rows import kind_of

__all__ = ["digest_of"]


def digest_of(value: object) -> str:
    """Return a hash of what is summed: the kind of sums and every number they depend on."""
    digest = hashlib.sha256()
    _feed(value, digest.update, set())
    return digest.hexdigest()


def _feed(value: Any, update: Callable[[bytes], object], seen: set[int]) -> None:
    """Hash a value piece by piece; `seen`: functions on the way, which may call themselves."""

    def feed(*parts: Any) -> None:
        for part in parts:
            _feed(part, update, seen)

    kind: Any = type(value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        update(repr((value.dtype.str, value.shape)).encode() + np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        update(kind_of(kind).encode())
        feed(*(getattr(value, item.name) for item in fields(value)))
    elif isinstance(value, partial):
        feed(value.func, value.args, value.keywords)
    elif isinstance(value, MethodType):
        feed(value.__func__, value.__self__)
    elif isinstance(value, FunctionType):
        _feed_function(value, feed, update, seen)
    elif isinstance(value, CodeType):
        update(value.co_code + repr((value.co_names, value.co_varnames)).encode())
        feed(*value.co_consts)
    elif isinstance(value, list | tuple):
        feed(*value)
    elif isinstance(value, dict):
        feed(*sorted(value.items(), key=lambda item: repr(item[0])))
    elif isinstance(value, set | frozenset):
        feed(*sorted(value, key=repr))
    elif isinstance(value, type | ModuleType):
        update(f"{getattr(value, '__module__', '')}.{value.__name__}".encode())
    elif hasattr(value, "__array__") and not isinstance(value, np.generic | np.ndarray):
        feed(np.asarray(value))
    elif kind.__repr__ is object.__repr__ and getattr(value, "__dict__", None):
        feed(kind, vars(value))
    else:
        update(repr(value).encode())


def _feed_function(
    function: FunctionType, feed: Callable[..., None], update: Callable[[bytes], object], seen: set[int]
) -> None:
    update(f"{function.__module__}.{function.__qualname__}".encode())
    if id(function) in seen:
        return
    seen.add(id(function))
    feed(function.__code__, [cell.cell_contents for cell in function.__closure__ or ()])
    feed(function.__defaults__, function.__kwdefaults__)
    if function.__module__.partition(".")[0] == "planted":
        return
    for name in _names_in(function.__code__):
        found = function.__globals__.get(name)
        is_elsewhere = callable(found) and getattr(found, "__module__", None) != function.__module__
        feed(name, f"{found.__module__}.{name}" if is_elsewhere else found)


def _names_in(code: CodeType) -> list[str]:
    """Return the names of globals that a function and those within it may use."""
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names_in(part)]
    return sorted({*code.co_names, *inner})
