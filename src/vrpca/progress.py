"""A progress bar for `verbose=True`: passes spent and the bound falling towards tol."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vrpca.run import Limits, Record


@contextmanager
def progress_callback(
    verbose: bool, limits: Limits, callback: Callable[[Record], Any] | None
) -> Iterator[Callable[[Record], Any] | None]:
    """Yield a callback that draws a bar on stderr and then calls the user's; without `verbose`, the user's itself."""
    if not verbose:
        yield callback
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("vrpca", total=1.0, state="")

        def draw(record: Record) -> Any:
            state = f"{record.passes:.1f} passes, bound {record.bound:.1e}"
            if record.event:
                bar.console.print(f"pass {record.passes:.1f}: {record.event}")
            bar.update(task, completed=_done(record.bound, limits.tol), state=state)
            return callback(record) if callback is not None else None

        yield draw


def _done(bound: float, tol: float) -> float:
    """The part of the way, in decades, from 1 to tol."""
    if bound <= tol:
        return 1.0
    if tol <= 0 or not bound < 1:
        return 0.0
    return min(1.0, math.log(bound) / math.log(tol))
