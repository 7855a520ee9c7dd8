"""How many threads work: those of our kernels, and those of BLAS."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def n_threads(asked: int | None) -> int:
    """The number of threads: as asked, or all cores that this process may use."""
    if asked is not None:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Blas:
    """The limits on BLAS that are in force. They hold for the whole process, whichever thread asks for them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks = 0  # ``with`` blocks that are open
        self.first: Any = None  # the limit that knows what was there before all of them

    @contextmanager
    def limited(self, count: int) -> Iterator[None]:
        """Limit BLAS to a number of threads within a ``with`` block; the last one to leave restores the original limit.

        Between our products there are only small matrices. A second BLAS thread gains nothing there, and keeps a core
        busy that the next product needs.
        """
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


blas_threads = _Blas().limited


def in_parallel(n_threads: int, work: Callable[..., T], *arguments: Sequence[Any]) -> Iterator[T]:
    """``map(work, *arguments)`` on a number of threads, results in order.

    The threads are kept, because starting one can take a millisecond. A forked child starts its own.
    """
    return _pool(n_threads, os.getpid()).map(work, *arguments)


@functools.cache
def _pool(n_threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="vrpca")


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
