"""The limit on BLAS threads: the process's, whatever order the blocks of several threads end in."""

from __future__ import annotations

import threading

import pytest
from threadpoolctl import ThreadpoolController

from vrpca.threads import blas_threads


def counts():
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


@pytest.fixture
def two_threads():
    if not counts():
        pytest.skip("no BLAS whose threads can be counted")
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
    entered = threading.Barrier(3)
    leave = [threading.Event(), threading.Event()]

    def work(number):
        with blas_threads(1):
            entered.wait()
            leave[number].wait()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    entered.wait()
    for number in (first, 1 - first):
        leave[number].set()
        workers[number].join()
    assert set(counts()) == {2}
