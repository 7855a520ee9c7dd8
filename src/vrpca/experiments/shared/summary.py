"""Results as tables for the terminal, as a Markdown page and as files of numbers."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vrpca.data.files.paths import written_whole
from vrpca.experiments.shared.log import Result

PACKAGES = (
    "vrpca",
    "numpy",
    "scipy",
    "scikit-learn",
    "primme",
    "fbpca",
    "dask",
    "scikit-learn-intelex",
    "faiss-cpu",
)  # whose versions a page names
DESCRIPTION = ("data", "k", "contender", "setting", "status", "threads", "repeats", "message")
FLAT = (*DESCRIPTION, "load", "seconds", "passes", "memory", "truth", "certificate", "converged")


@dataclass(frozen=True)
class Table:
    """A title, a header, rows of text, and notes below them."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [f"## {self.title}", "", *(_line(row) for row in (self.header, ["---"] * len(self.header), *self.rows))]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes), ""])

    def show(self) -> None:
        """The table on standard output, with rich."""
        import sys

        from rich import box
        from rich.console import Console
        from rich.table import Table as Drawn

        console = Console(width=None if sys.stdout.isatty() else 180)
        console.print(self.title, style="italic", highlight=False, markup=False)  # the table would wrap it
        table = Drawn(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1))
        for number, name in enumerate(self.header):
            table.add_column(name, justify="right" if number else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", highlight=False, markup=False)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


# ---------------------------------------------------------------------------------------------------------- files


def machine(threads: int) -> str:
    """The date, the machine and the versions of the packages, in one line."""
    versions = ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name)))
    today = datetime.date.today().isoformat()
    python = platform.python_version()
    return f"{today}; {_processor()}, {os.cpu_count()} cores, {threads} threads; Python {python}, {versions}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def page(title: str, about: str, where: str, tables: Sequence[Table], picture: str | None) -> str:
    """A Markdown page."""
    parts = [f"# {title}", "", about, "", f"{where}.", ""]
    if picture:
        parts += [f"![{title}]({picture})", ""]
    return "\n".join([*parts, *(table.markdown() for table in tables)])


def write_text(path: Path, text: str) -> None:
    """Write a file, or replace it in one go."""
    with written_whole(path) as temporary:
        temporary.write_text(text)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, or replace it in one go."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_csv(path: Path, results: Sequence[Result], columns: Sequence[str] = FLAT) -> None:
    """One line per result; settings as JSON."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for result in results:
        writer.writerow([_plain(result.get(column)) for column in columns])
    write_text(path, text.getvalue())


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
