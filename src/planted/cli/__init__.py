"""The command line: commands parse, call and print; numbers are made elsewhere."""

from __future__ import annotations

from planted.cli._main import app, main

__all__ = ["app", "main"]
