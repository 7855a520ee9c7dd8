"""A progress bar for `verbose=True`: passes spent and the bound falling towards tol."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vrpca.history import Record


@contextmanager
def progress_bar(tol: float) -> Iterator[Callable[[Record], None]]:
    """Show a bar on stderr; yield the function that draws a record."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("vrpca", total=1.0, state="")

        def draw(record: Record) -> None:
            state = f"{record.passes:.1f} passes, bound {record.bound:.1e}"
            if record.event:
                bar.console.print(f"pass {record.passes:.1f}: {record.event}")
            bar.update(task, completed=_done(record.bound, tol), state=state)

        yield draw


def _done(bound: float, tol: float) -> float:
    """The part of the way, in decades, from 1 to tol."""
    if bound <= tol:
        return 1.0
    if tol <= 0 or not bound < 1:
        return 0.0
    return min(1.0, math.log(bound) / math.log(tol))
