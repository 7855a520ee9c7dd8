"""What is done when a pass fails: it is made again, unless a chunk or the cluster is to blame; the error names it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from vrpca.data.cluster import tasks
from vrpca.data.cluster.engine import Engine, Graph, Tasks, WorkersLost, new_name
from vrpca.errors import DataError

log = logging.getLogger("vrpca")
T = TypeVar("T")

ATTEMPTS = 4  # the scheduler itself gives a task up when 4 workers have died with it


class Attempts:
    """Work with chunks that is done again if it fails: workers may be lost, and errors of reading may pass."""

    def __init__(self, engine: Engine, base: Tasks, refs: Sequence[Any], names: Sequence[Any]):
        self.engine, self.base, self.refs, self.names = engine, base, refs, names  # names of the chunks, for messages

    def __call__(self, work: Callable[[], T]) -> T:
        """The result of the work. What fails is a task of the user or the cluster, so it may raise anything."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return work()
            except DataError:
                raise
            except Exception as error:
                self.engine.check(error)
                if not isinstance(error, WorkersLost) and not self.engine.lost(self.base.values()):
                    self._blame(error)
                if not left:
                    raise DataError(
                        f"A pass failed {ATTEMPTS} times ({_said(error)}), though every chunk can be made. Look at "
                        "the logs of the workers: their memory may be too small."
                    ) from error
                log.warning("A pass failed (%s). It is made again.", _said(error))
        raise AssertionError("the loop returns or raises")

    def _blame(self, error: Exception) -> None:
        """Raise an error that names the chunk to blame, if there is one."""
        fatal = _fatal_chunk(error)
        if fatal is not None:
            raise self._deadly([fatal]) from error
        graph, name = Graph(self.base), new_name("probe")
        keys = [graph.leaf(f"{name}-{number}", tasks.rows_of, ref) for number, ref in enumerate(self.refs)]
        try:
            failed = self.engine.failures(graph, keys)
        except Exception as again:  # the cluster, not a chunk
            self.engine.check(again)
            return
        deadly = [keys.index(key) for key, reason in failed.items() if _kills(reason)]
        for number, key in enumerate(keys):
            if key in failed and number not in deadly:
                raise DataError(
                    f"{self.names[number]} of X cannot be made ({_said(failed[key])}). Mend what it is made from, or "
                    "leave it out."
                ) from failed[key]
        if deadly:
            raise self._deadly(sorted(deadly)) from error

    def _deadly(self, numbers: Sequence[int]) -> DataError:
        """The error for chunks that workers had when they died: one of them is to blame."""
        names = ", ".join(str(self.names[number]) for number in numbers)
        return DataError(
            f"Again and again, workers died at work on {names}, or on another chunk that they had at the time. If "
            "memory was short, make chunks smaller (X.rechunk), or give workers fewer threads."
        )


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _kills(error: BaseException) -> bool:
    """Whether the scheduler has given a task up, since workers died with it."""
    return type(error).__name__ == "KilledWorker"


def _fatal_chunk(error: Exception) -> int | None:
    """The number of the chunk with which so many workers have died that the scheduler gave it up."""
    if not _kills(error):
        return None
    task = str(vars(error).get("task", ""))
    number = task.rpartition("-")[2]
    return int(number) if number.isdigit() and "-merge-" not in task else None
