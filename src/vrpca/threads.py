"""How many threads work: ours, and those of the BLAS that does the small things in between."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def n_threads(asked: int | None) -> int:
    """The number of threads: as asked, or all cores that this process may use."""
    if asked is not None:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Blas:
    """The limits on BLAS that are in force: they are the process's, whichever of its threads asks for them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks = 0
        self.first: Any = None  # it knows what was there before all of them

    @contextmanager
    def limited(self, count: int) -> Iterator[None]:
        with self.lock:
            limit = _controller().limit(limits=count)
            self.first = limit if self.blocks == 0 else self.first
            self.blocks += 1
        try:
            yield
        finally:
            with self.lock:
                self.blocks -= 1
                (limit if self.blocks else self.first).restore_original_limits()


_blas = _Blas()


def blas_threads(count: int) -> AbstractContextManager[None]:
    """Limit BLAS to so many threads within a block; whoever leaves last restores what the first one found.

    Between the products there are only small matrices: a second BLAS thread gains nothing there, and goes on spinning
    on the core that the next product wants.
    """
    return _blas.limited(count)


def in_parallel(n_threads: int, work: Callable[..., T], *arguments: Sequence[Any]) -> Iterator[T]:
    """``map(work, *arguments)`` on so many threads, results in order.

    The threads stay for the next time: starting one can take a millisecond. A forked child starts its own.
    """
    return _pool(n_threads, os.getpid()).map(work, *arguments)


@functools.cache
def _pool(n_threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="vrpca")


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
