"""The configuration of the documentation site: ``make docs`` builds it, and warnings are errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from sphinx_gallery.sorting import FileNameSortKey

import vrpca

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "vrpca"
author = "The vrpca developers"
copyright = author
version = release = vrpca.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_ext", "tutorials", "gallery", "auto_*/*.ipynb", "auto_*/*.py"]
suppress_warnings = ["config.cache"]  # the sort key of the gallery is a class

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 3

numpydoc_show_class_members = False  # autodoc lists them
autodoc_typehints = "none"  # the docstrings have the types
autodoc_member_order = "bysource"

html_theme = "pydata_sphinx_theme"
html_title = "vrpca"
html_theme_options = {
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}

sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": ["tutorials", "gallery"],
    "gallery_dirs": ["auto_tutorials", "auto_gallery"],
    "filename_pattern": r"\.py$",  # all of them run
    "within_subsection_order": FileNameSortKey,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 5,
    "plot_gallery": True,
    "write_computation_times": False,
}

# Links of pages that are also read in the repository, where these files lie one folder up.
OUTSIDE = {"../CONTRIBUTING.md": "/contributing.md", "../CHANGELOG.md": "/changes.md", "../README.md": "/index.md"}


REFERENCE = re.compile(r":(?:ref|term|class|func|meth|mod):`~?([^`<]+?)(?:\s*<[^`]*>)?`")  # a role with its text
LISTS = ("index", "guide", "background")  # the pages that list pages


def redirect_links(app: Any, name: str, source: list[str]) -> None:
    """Let links to the files at the top of the repository lead to their pages here."""
    for there, here in OUTSIDE.items():
        source[0] = source[0].replace(f"]({there}", f"]({here}")


def list_other_pages(app: Any, name: str, source: list[str]) -> None:
    """Add the guides that no page names: a new page in this folder needs no line anywhere."""
    if name == "guide":
        pages = {path.stem: path.read_text(encoding="utf-8") for path in HERE.glob("*.md")}
        named = {"index"}.union(*(re.findall(r"^[\w-]+$", pages[page], re.MULTILINE) for page in LISTS))
        source[0] = source[0].replace("@other-pages@", "\n".join(sorted(set(pages) - named)))


def strip_foreign_references(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Take out cross references of docstrings that come from scikit-learn: they lead to pages of its own site."""
    if (getattr(obj, "__module__", None) or "").startswith("sklearn"):
        lines[:] = [REFERENCE.sub(r"\1", line) for line in lines]


def escape_underscores(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Let ``n_components_`` in the shape of an array be a name: reStructuredText takes it for a link."""
    lines[:] = [re.sub(r"(?<=[(, ])(\w+)_(?=[,)])", r"\1\_", line) for line in lines]


def setup(app: Any) -> None:
    """Make the page of the command line, and connect what is above."""
    import command_line  # from _ext

    command_line.write(HERE / "reference" / "command-line.md")
    app.connect("source-read", redirect_links)
    app.connect("source-read", list_other_pages)
    app.connect("autodoc-process-docstring", strip_foreign_references, priority=1)
    app.connect("autodoc-process-docstring", escape_underscores, priority=900)  # after numpydoc
