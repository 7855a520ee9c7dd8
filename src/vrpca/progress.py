"""Progress for `verbose=True`, on stderr: passes, rows per second, the bound on its way to tol, and the time left.

A terminal shows a bar. Elsewhere, every record is a line of text.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vrpca.history import Record, counted

ENOUGH = 0.1  # part of the way that has to be behind before it tells of the rest: the first steps are of another pace
SECONDS = 1.0  # that have to have passed: in less, whatever is told is gone before it is read
Draw = Callable[[Record], None]


@contextmanager
def progress_bar(tol: float) -> Iterator[Draw]:
    """Show progress; yield the function that draws a record."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda record: _print_line(screen, record, tol)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    with Progress(*columns, console=screen) as bar:
        task = bar.add_task("vrpca", total=1.0, state="")

        def draw(record: Record) -> None:
            if record.event:
                bar.console.print(f"pass {record.passes:.1f}: {record.event}")
            bar.update(task, completed=part_done(record.bound, tol), state=describe_progress(record, tol))

        yield draw


def console(stderr: bool = False) -> Any:
    """Where to print. With NO_COLOR, there are no colours, and no bold or dim letters either."""
    from rich.console import Console

    return Console(stderr=stderr, color_system=None if os.environ.get("NO_COLOR") else "auto")


def _print_line(console: Any, record: Record, tol: float) -> None:
    event = f"; {record.event}" if record.event else ""
    console.file.write(f"vrpca: {describe_progress(record, tol)}{event}\n")
    console.file.flush()


def describe_progress(record: Record, tol: float) -> str:
    """Passes, speed, the bound, and the time left at the pace so far, where that can be told.

    >>> describe_progress(Record(2, 3.0, 3000, 2.0, 0.5, 1e-3, 1e-4), 1e-8)
    '3 passes, 1.5e+03 rows/s, bound 1.0e-04, about 2 s left'
    """
    words = [counted(record.passes)]
    if record.seconds > 0:
        words.append(f"{record.rows_read / record.seconds:.2g} rows/s")
    words.append(f"bound {record.bound:.1e}")
    done = part_done(record.bound, tol)
    if ENOUGH <= done < 1 and record.seconds >= SECONDS:
        words.append(f"about {record.seconds * (1 - done) / done:.0f} s left")
    return ", ".join(words)


def part_done(bound: float, tol: float) -> float:
    """The part of the way, in decades, from 1 to tol."""
    if bound <= tol:
        return 1.0
    if tol <= 0 or not bound < 1:
        return 0.0
    return min(1.0, math.log(bound) / math.log(tol))
