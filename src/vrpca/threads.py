"""How many threads work: those of our kernels, and those of BLAS."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from vrpca.options import ALL_CORES

T = TypeVar("T")


def n_threads(asked: int | None) -> int:
    """The number of threads: as asked, or all cores that this process may use (None or -1)."""
    if asked is not None and asked != ALL_CORES:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, eq=False)
class _Block:
    """A ``with`` block that limits BLAS."""

    thread: int  # who is in it
    count: int  # threads that BLAS may have


class _Blas:
    """The limits on BLAS that are in force. They hold for the whole process, whichever thread asks for them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a forgotten block may end in the middle of another one's beginning
        self.open: list[_Block] = []
        self.original: list[tuple[Any, int]] = []  # BLAS libraries, and their numbers of threads before all blocks
        if hasattr(os, "register_at_fork"):  # Windows has no forks
            hold, release = (lambda: self.lock.acquire()), (lambda: self.lock.release())
            os.register_at_fork(before=hold, after_in_parent=release, after_in_child=self._forked)

    @contextmanager
    def limited(self, count: int) -> Iterator[None]:
        """Limit BLAS to a number of threads within a ``with`` block; the last one to leave restores the original limit.

        Between our products there are only small matrices. A second BLAS thread gains nothing there, and keeps a core
        busy that the next product needs.
        """
        block = _Block(threading.get_ident(), count)
        try:
            self._enter(block)
            yield
        finally:
            _to_the_end(self._leave, block)

    def _enter(self, block: _Block) -> None:
        with self.lock:
            if not self.open:
                self.original = [(library, library.num_threads) for library in _libraries()]
            self.open.append(block)
            self._set()

    def _leave(self, block: _Block) -> None:
        """End a block, if it has not ended yet. What Ctrl-C interrupts here can be done again."""
        with self.lock:
            if block in self.open:
                self.open.remove(block)
            self._set()

    def _set(self) -> None:
        """Set what the last block that is open asks for; the original numbers if there is none."""
        for library, original in self.original:
            _let_go(library)
            library.set_num_threads(self.open[-1].count if self.open else original)
            _let_go(library)

    def _forked(self) -> None:
        """Forget the blocks of threads that a forked child does not have."""
        self.lock = threading.RLock()
        mine = [block for block in self.open if block.thread == threading.get_ident()]
        if mine != self.open:
            self.open = mine
            self._set()


blas_threads = _Blas().limited


def _let_go(library: Any) -> None:
    """Let any thread set the number of threads: threadpoolctl 3.8 ignores all threads but the first that does."""
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


def _to_the_end(work: Callable[..., None], *arguments: Any) -> None:
    """Do something that must not be left undone. A Ctrl-C that comes meanwhile is raised afterwards."""
    try:
        work(*arguments)
    except KeyboardInterrupt:
        _to_the_end(work, *arguments)
        raise


def in_parallel(n_threads: int, work: Callable[..., T], *arguments: Sequence[Any]) -> Iterator[T]:
    """``map(work, *arguments)`` on a number of threads, results in order.

    The threads are kept, because starting one can take a millisecond. A forked child starts its own.
    """
    return _pool(n_threads, os.getpid()).map(work, *arguments)


@functools.cache
def _pool(n_threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="vrpca")


@functools.cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers
