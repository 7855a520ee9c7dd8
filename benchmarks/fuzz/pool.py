"""Numbered cases in worker processes with limits on time and memory: a crash or a hang costs one case, not the run."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

PATIENCE = 0.2  # seconds between two looks at the clock, short against any time limit


@dataclass(frozen=True)
class Lost:
    """What became of a case that gave no answer."""

    number: int
    why: str


@dataclass(frozen=True)
class Broken:
    """An exception that the harness itself raised."""

    text: str


@dataclass(frozen=True)
class Limits:
    """Limits of one case: seconds, and bytes of memory beyond those that the worker starts with."""

    seconds: float
    memory: int


def arguments(description: str | None, families: Iterable[str]) -> argparse.ArgumentParser:
    """The options that both harnesses have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="which cases")
    parser.add_argument("--cases", type=int, help="number of cases; 1000 unless --seconds is given")
    parser.add_argument("--seconds", type=float, help="begin no case after this time")
    parser.add_argument("--only", choices=sorted(families), metavar="FAMILY", help="cases of this family only")
    parser.add_argument("--case", type=int, metavar="N", help="run case N again, in this process, and show all of it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    return parser


def until(groups: Iterable[list[int]], cases: int | None, seconds: float | None) -> Iterator[list[int]]:
    """The groups of case numbers until there are enough cases, or until the time is up."""
    end = time.monotonic() + (float("inf") if seconds is None else seconds)
    left: float = (1000 if seconds is None else float("inf")) if cases is None else cases
    for group in groups:
        if left <= 0 or time.monotonic() > end:
            return
        yield group if left >= len(group) else group[: int(left)]
        left -= len(group)


def run(work: Callable[[int], Any], groups: Iterator[list[int]], jobs: int, limits: Limits) -> Iterator[Any]:
    """Yield ``work(number)`` for all numbers, or `Lost`; the numbers of a group go to one worker, in order."""
    workers = [Worker(work, limits) for _ in range(jobs)]
    try:
        while True:
            for worker in workers:
                if not worker.numbers:
                    worker.take(next(groups, []))
            busy = [worker for worker in workers if worker.numbers]
            if not busy:
                return
            wait([worker.pipe for worker in busy], PATIENCE)
            for worker in busy:
                yield from worker.answers()
    finally:
        for worker in workers:
            worker.end()


class Worker:
    """A forked process that works on one group of cases after the other."""

    def __init__(self, work: Callable[[int], Any], limits: Limits):
        self.work, self.limits = work, limits
        self.numbers: deque[int] = deque()
        self._begin()

    def _begin(self) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, self.work, self.limits.memory), daemon=True)
        self.process.start()
        other.close()
        self.deadline = time.monotonic() + self.limits.seconds

    def take(self, numbers: list[int]) -> None:
        """Begin a group."""
        self.numbers.extend(numbers)
        self.deadline = time.monotonic() + self.limits.seconds
        if numbers:
            self.pipe.send(numbers)

    def answers(self) -> Iterator[Any]:
        """The answers that have come in; where the process died or takes too long, `Lost`, and a new process."""
        try:
            while self.numbers and self.pipe.poll():
                answer = self.pipe.recv()
                if isinstance(answer, Broken):
                    raise RuntimeError(f"The harness is broken: {answer.text}")
                self.numbers.popleft()
                self.deadline = time.monotonic() + self.limits.seconds
                yield answer
        except (EOFError, OSError):
            self.process.join()
            yield self._lost(f"crashed: {_ending(self.process.exitcode)}")
            return
        if self.numbers and time.monotonic() > self.deadline:
            yield self._lost(f"no answer after {self.limits.seconds:g} s")

    def _lost(self, why: str) -> Lost:
        self.end()
        number = self.numbers.popleft()
        self._begin()
        if self.numbers:
            self.pipe.send(list(self.numbers))
        return Lost(number, why)

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, work: Callable[[int], Any], memory: int) -> None:
    """The life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, and the parent ends its workers
    limit_memory(memory)
    while True:
        try:
            numbers = pipe.recv()
        except EOFError:
            return
        for number in numbers:
            try:
                pipe.send(work(number))
            except Exception:  # a fault of the harness itself, which the parent raises
                pipe.send(Broken(f"case {number}\n{traceback.format_exc()}"))


def limit_memory(more: int) -> None:
    """Let this process take so many bytes of address space more than it has now; beyond that, MemoryError is raised."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in (header, *rows)]
    return "\n".join([lines[0], "|" + " --- |" * len(header), *lines[1:]])
