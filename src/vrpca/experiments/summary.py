"""What was measured, as tables for the terminal, a Markdown page and files of numbers."""

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

from vrpca.data.files import written_whole
from vrpca.experiments.bench import Contest, honest
from vrpca.experiments.measure import Result

PACKAGES = ("vrpca", "numpy", "scipy", "scikit-learn", "primme", "fbpca", "dask")
COLUMNS = ("s", "ratio", "passes", "MB", "truth")
DESCRIPTION = ("data", "k", "contender", "setting", "status", "threads", "repeats", "message")
FLAT = (*DESCRIPTION, "load", "seconds", "passes", "memory", "truth", "certificate", "converged")


@dataclass(frozen=True)
class Table:
    """A title, a header, rows of text and what is to be said below them."""

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
        table = Drawn(title=self.title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1))
        for number, name in enumerate(self.header):
            table.add_column(name, justify="right" if number else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", highlight=False, markup=False)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def contest_table(contest: Contest) -> Table:
    """One row per contender; for each target its time, ratio to ours, passes, peak memory and what was reached."""
    header = [
        "contender",
        *(f"{column} at {t:.0e}" if column == "s" else column for t in contest.targets for column in COLUMNS),
    ]
    rows = [
        [rival.name, *(cell for target in contest.targets for cell in _cells(contest, rival.name, target))]
        for rival in contest.contenders
        if rival.name not in contest.absent
    ]
    return Table(f"{contest.data.title}, k = {contest.k}", header, rows, _notes(contest))


def _cells(contest: Contest, contender: str, target: float) -> list[str]:
    best = contest.best(contender, target)
    if best is None:
        return [_why_not(contest, contender), "", "", "", ""]
    ours = contest.best(contest.ours, target)
    ratio = f"{best['seconds'] / ours['seconds']:.2f}" if ours is not None else ""
    passes = "" if best["passes"] is None else f"{best['passes']:.3g}"
    return [f"{best['seconds']:.3g}", ratio, passes, f"{best['memory'] / 2**20:.0f}", f"{max(best['truth'], 0):.0e}"]


def _why_not(contest: Contest, contender: str) -> str:
    """Why a target was not reached: the last thing that happened."""
    last = [r["status"] for r in contest.results if r["contender"] == contender][-1]
    return "missed" if last == "ok" else str(last)


def _notes(contest: Contest) -> list[str]:
    notes = [f"{name}: {why}" for name, why in contest.absent.items()]
    if contest.not_asked:
        notes.append(f"not asked: {', '.join(contest.not_asked)}")
    for result in contest.results:
        if result["status"] != "ok":
            notes.append(f"{result['contender']} {result['setting']}: {result['status']}, {result['message']}")
    checked = [honest(result) for result in contest.results if honest(result) is not None]
    if checked:
        notes.append(f"vrpca: truth within the certificate in {sum(map(bool, checked))} of {len(checked)} runs")
    load = max((r["load"] or 0.0 for r in contest.results), default=0.0)
    if any(r["load"] is not None and r["load"] > r["threads"] + 1 for r in contest.results):
        notes.append(f"the machine had other work to do (load average up to {load:.1f}): do not trust these times")
    lowest = min((r["truth"] for r in contest.results if r["status"] == "ok"), default=0.0)
    if lowest < -1e-11:
        notes.append(f"a contender beat the reference by {-lowest:.0e}: the reference is not the optimum")
    return notes


# ---------------------------------------------------------------------------------------------------------- files


def machine(threads: int) -> str:
    """Where and with what the figures were found, in one line."""
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
    """Replace a file, whole."""
    with written_whole(path) as temporary:
        temporary.write_text(text)


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file, whole."""
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
