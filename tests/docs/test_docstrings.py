"""What users call is documented in numpydoc form; the checks are listed once, in pyproject.toml."""

from __future__ import annotations

import enum
import inspect
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from numpydoc.validate import validate

import planted
from planted.recovery import find_method

ROOT = Path(__file__).resolve().parents[2]
CHECKS = set(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["numpydoc_validation"][
        "checks"
    ]
)
PARAMETER_CHECKS = {"PR01", "PR02", "PR03"}


def public_objects() -> dict[str, object]:
    """Return what users call, by the name under which it is defined: the names of the API page, and every method's entry."""
    found: dict[str, object] = {}
    modules = [planted, *(getattr(planted, name) for name in planted.__all__ if is_module(name))]
    for module in modules:
        for name in module.__all__:
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            path = f"{value.__module__}.{value.__qualname__}"
            found[path] = value
            if inspect.isclass(value):
                found |= {f"{path}.{member}": entry for member, entry in own_members(value)}
    entries = [find_method(name).recover for name in planted.methods()]
    return found | {f"{entry.__module__}.{entry.__qualname__}": entry for entry in entries}


def is_module(name: str) -> bool:
    """Return whether a public name is a module."""
    return inspect.ismodule(getattr(planted, name))


def own_members(owner: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties that a class defines itself."""
    for name, value in vars(owner).items():
        is_documentable = inspect.isfunction(value) or isinstance(
            value, property | classmethod | staticmethod
        )
        if is_documentable and not name.startswith("_"):
            yield name, value


def is_explained_above(value: object) -> bool:
    """Return whether a method only keeps the promise of a base class or of a protocol of its module."""
    if not inspect.isfunction(value) or "." not in value.__qualname__:
        return False
    owner_name, name = value.__qualname__.rsplit(".", 1)
    module = sys.modules[value.__module__]
    owner = getattr(module, owner_name)
    protocols = [entry for entry in vars(module).values() if is_protocol(entry)]
    promises = [vars(above)[name] for above in [*owner.__mro__[1:], *protocols] if name in vars(above)]
    return any(
        promise is not value
        and list(inspect.signature(promise).parameters) == list(inspect.signature(value).parameters)
        for promise in promises
    )


def is_protocol(value: object) -> bool:
    """Return whether a class only describes what others must have."""
    return inspect.isclass(value) and getattr(value, "_is_protocol", False)


def complaints(path: str, value: object) -> list[str]:
    """Return what numpydoc has against a docstring, limited to our checks."""
    checks = CHECKS
    if is_protocol(value) or (inspect.isclass(value) and issubclass(value, enum.Enum | tuple)):
        # These signatures are Python's own; the members are documented one by one.
        checks = CHECKS - PARAMETER_CHECKS
    if is_explained_above(value):
        checks = {code for code in CHECKS if code.startswith(("GL", "SS"))}
    if isinstance(value, property):
        checks = CHECKS - {"SS05"}  # a property is a noun
    return [f"{code}: {text}" for code, text in validate(path)["errors"] if code in checks]


PUBLIC = public_objects()


def test_there_is_something_to_validate() -> None:
    assert "planted.networks._network.TwoLayerNetwork.canonical" in PUBLIC
    assert "planted.results.Recovery.to_dict" in PUBLIC


@pytest.mark.parametrize("path", sorted(PUBLIC))
def test_docstring_follows_numpydoc(path: str) -> None:
    assert complaints(path, PUBLIC[path]) == []


@pytest.mark.parametrize("name", sorted(getattr(planted, "__all__", [])))
def test_public_function_has_an_example(name: str) -> None:
    value = getattr(planted, name)
    if inspect.isfunction(value):
        assert ">>> " in (value.__doc__ or ""), f"planted.{name} has no example"


def test_a_bad_docstring_is_caught() -> None:
    # numpydoc finds an object by its dotted name: use one of Python's own with a docstring in another style.
    assert complaints("textwrap.dedent", None) != []
