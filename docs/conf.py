"""Sphinx configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from pages import columns_to_rubrics, has_gallery, write_pages  # noqa: E402

from planted import _version  # noqa: E402

write_pages(HERE / "generated")

project = "planted"
author = "The planted developers"
copyright = "2026, The planted developers"
release = version = _version.__version__

# The build of the tests: no pages of sources, no index of words, and the tree of all pages beside the start page alone.
# Made anew for every page that tree takes half of the time.
IS_QUICK = os.environ.get("PLANTED_DOCS") == "quick"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    *([] if IS_QUICK else ["sphinx.ext.viewcode"]),
    "numpydoc",
    "myst_parser",
]
# The gallery runs examples/plot_*.py; the documentation builds without it as long as there are none.
if has_gallery():
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "../examples",
        "gallery_dirs": "gallery",
        "backreferences_dir": "gallery/backreferences",  # for the pictures on the start page
        "filename_pattern": r"plot_",
        "abort_on_example_error": True,
        "plot_gallery": os.environ.get("PLANTED_GALLERY", "run") == "run",
    }

exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "py:obj"
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc gives the types, with shapes
autodoc_member_order = "bysource"
# Made by scikit-learn, with references into its own documentation.
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_score_request, set_predict_request, set_partial_fit_request"
}
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"planted {release}"
html_static_path = ["_static"]
html_css_files = ["narrow.css"]


def setup(app: Any) -> None:
    """Show the two-column docstrings of modules as sections."""
    app.connect("autodoc-process-docstring", _rewrite_module_docstring)
    if IS_QUICK:
        app.connect("builder-inited", _leave_out_the_search)
        app.connect("html-page-context", _leave_out_the_tree, priority=100)  # before the theme asks for it


def _rewrite_module_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    if what == "module":
        lines[:] = columns_to_rubrics(lines)


def _leave_out_the_search(app: Any) -> None:
    app.builder.search = False


def _leave_out_the_tree(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if page != app.config.root_doc:
        context.pop("toctree", None)
