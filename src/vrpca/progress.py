"""Progress for `verbose=True`, on stderr: passes, rows per second, the bound on its way to tol, and the time left.

A terminal shows a bar. Elsewhere, every record is a line of text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vrpca.history import Record

Draw = Callable[[Record], None]


@contextmanager
def progress_bar(tol: float) -> Iterator[Draw]:
    """Show progress; yield the function that draws a record."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda record: _print_line(console, record, tol)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("vrpca", total=1.0, state="")

        def draw(record: Record) -> None:
            if record.event:
                bar.console.print(f"pass {record.passes:.1f}: {record.event}")
            bar.update(task, completed=part_done(record.bound, tol), state=describe_progress(record, tol))

        yield draw


def _print_line(console: Any, record: Record, tol: float) -> None:
    event = f"; {record.event}" if record.event else ""
    console.file.write(f"vrpca: {describe_progress(record, tol)}{event}\n")
    console.file.flush()


def describe_progress(record: Record, tol: float) -> str:
    """Passes, speed, the bound, and the time left at the pace so far, where that can be told.

    >>> describe_progress(Record(2, 3.0, 3000, 2.0, 0.5, 1e-3, 1e-4), 1e-8)
    '3.0 passes, 1.5e+03 rows/s, bound 1.0e-04, about 2 s left'
    """
    words = [f"{record.passes:.1f} passes"]
    if record.seconds > 0:
        words.append(f"{record.rows_read / record.seconds:.2g} rows/s")
    words.append(f"bound {record.bound:.1e}")
    done = part_done(record.bound, tol)
    if 0 < done < 1:
        words.append(f"about {record.seconds * (1 - done) / done:.0f} s left")
    return ", ".join(words)


def part_done(bound: float, tol: float) -> float:
    """The part of the way, in decades, from 1 to tol."""
    if bound <= tol:
        return 1.0
    if tol <= 0 or not bound < 1:
        return 0.0
    return min(1.0, math.log(bound) / math.log(tol))
