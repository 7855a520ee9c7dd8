"""The limit on BLAS threads: the process's, whatever order the blocks of several threads end in."""

from __future__ import annotations

import os
import threading

import pytest
from threadpoolctl import ThreadpoolController

from helpers import run_python
from vrpca import threads
from vrpca.threads import blas_threads


def counts():
    """How many threads each BLAS has; OpenMP's belong to the thread that asks, and say nothing about the others."""
    libraries = [library.info() for library in ThreadpoolController().select(user_api="blas").lib_controllers]
    return [library["num_threads"] for library in libraries if library.get("threading_layer") != "openmp"]


@pytest.fixture
def two_threads():
    if not counts():
        pytest.skip("no BLAS whose threads can be counted")
    threads._libraries.cache_clear()  # another test may have loaded a library with a BLAS of its own since
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two_threads")
def test_nested_blocks():
    with blas_threads(1):
        assert set(counts()) == {1}
        with blas_threads(2):
            assert set(counts()) == {2}
        assert set(counts()) == {1}
    assert set(counts()) == {2}


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("first", [0, 1])
def test_blocks_that_overlap(first):
    """The limit stays until both have ended."""
    entered = threading.Barrier(3)
    leave = [threading.Event(), threading.Event()]

    def work(number):
        with blas_threads(1):
            entered.wait()
            leave[number].wait()

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(2)]
    for worker in workers:
        worker.start()
    entered.wait()
    for number in (first, 1 - first):
        assert set(counts()) == {1}
        leave[number].set()
        workers[number].join()
    assert set(counts()) == {2}


class Interrupting:
    """A library that counts its calls, and is interrupted in one of them."""

    def __init__(self, call):
        self.threads, self.call, self.calls = 4, call, 0

    @property
    def num_threads(self):
        self.counted()
        return self.threads

    def set_num_threads(self, count):
        self.counted()
        self.threads = count
        self.counted()

    def counted(self):
        self.calls += 1
        if self.calls == self.call:
            raise KeyboardInterrupt


@pytest.mark.parametrize("call", range(1, 11))
def test_ctrl_c_leaves_no_limit_behind(call, monkeypatch):
    """Wherever it comes: while a block begins, in it, while it ends; also if the block is in another one."""
    libraries = [Interrupting(call), Interrupting(0)]
    monkeypatch.setattr(threads, "_libraries", lambda: libraries)
    blas = threads._Blas()
    with pytest.raises(KeyboardInterrupt), blas.limited(1), blas.limited(2):
        libraries[0].counted()
    assert [library.threads for library in libraries] == [4, 4]
    assert blas.open == []


FORKS = """
import os, threading, time, warnings
from threadpoolctl import ThreadpoolController
from vrpca.threads import blas_threads
import numpy as np, vrpca

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks of processes with threads

def counts():
    return {library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers}

before, stop = counts(), threading.Event()

def limit():
    while not stop.is_set():
        with blas_threads(1):
            pass

def fork(work):
    child = os.fork()
    if child == 0:
        os._exit(0 if work() else 1)
    for _ in range(500):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hung"

def fits():
    return vrpca.svd(np.random.default_rng(0).standard_normal((300, 50)), 2, n_threads=2).converged

others = [threading.Thread(target=limit) for _ in range(3)]
for thread in others:
    thread.start()
print({fork(lambda: counts() == before and fits() and counts() == before) for _ in range(40)})
with blas_threads(1):
    print(fork(lambda: counts() == {1}))
stop.set()
for thread in others:
    thread.join()
print(counts() == before)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_a_child_forked_while_other_threads_work_neither_hangs_nor_keeps_their_limit():
    done = run_python(FORKS, OPENBLAS_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["{0}", "0", "True"]
