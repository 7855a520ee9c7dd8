"""What is going to be done, before the data are read: which solver, how wide its blocks, on which side of X."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vrpca.data.source import Source, stored_entries
from vrpca.run import Record
from vrpca.settings import FIRST_GUESS, SolveOptions, extra_columns
from vrpca.solvers import SOLVERS, Solver
from vrpca.solvers.auto import WIDEST, Task, choose, looks_worth_gram

SMALL_SIDE = 2000  # an A of this size is decomposed whole when a fraction of the variance is asked for


@dataclass(frozen=True)
class Plan:
    """The solver, why it is this one, for how many components at least, the width of its block, the side of X."""

    solver: type[Solver]
    name: str
    reason: str
    k: int
    columns: int
    transpose: bool
    task: Task


def make_plan(options: SolveOptions, source: Source, k: int | float, fraction: bool) -> Plan:
    """The plan for k components, or for a fraction of the variance."""
    task = _task(options, source, k, fraction)
    name, reason = _chosen(options, task)
    solver, least = SOLVERS[name], 1 if fraction else int(k)
    columns = min(least + extra_columns(options, least, name), source.shape[1])
    return Plan(solver, name, reason, least, columns, transposed(solver, source), task)


def transposed(solver: type[Solver], source: Source) -> bool:
    """Whether to work on the transpose: as the data are stored, unless the shape matters more.

    It does for `gram`, whose matrix is that of the shorter side; for solvers that draw rows, which want many; and for
    vectors with more entries than the data.
    """
    n, d = source.shape
    columnwise = getattr(source, "columnwise", None)
    if solver.forms_gram:
        return d > n
    if columnwise is None or solver.draws_rows:
        return d > getattr(source, "wide_at", 1.0) * n
    return columnwise if stored_entries(source) >= (n if columnwise else d) else d > n


def _chosen(options: SolveOptions, task: Task) -> tuple[str, str]:
    """The solver's name, and why it is this one."""
    if options["solver"] != "auto":
        return options["solver"], "asked for"
    if options["deflate"] or options["step"] == "theory":
        return "vr", "deflation and Theorem 1 go with it"
    return choose(task)


def _task(options: SolveOptions, source: Source, k: int | float, fraction: bool) -> Task:
    side = min(source.shape)
    if fraction:  # many components may be needed: all of them, if A is small
        k = side if side <= SMALL_SIDE else FIRST_GUESS
    entries = stored_entries(source)
    return Task(max(source.shape), side, min(int(k), side), entries, options["tol"], options["cost"])


class Switch:
    """Says when a run that was expected to be the faster one is better given up for forming A.

    It counts looks, not seconds, so that a seed gives the same answer on a busy machine.
    """

    def __init__(self, task: Task, last_call: float):
        self.worth, self.tol = looks_worth_gram(task), task.tol
        self.last_call = last_call  # passes after which `gram` would be too late
        self.last: Record | None = None
        self.wanted = False

    @staticmethod
    def possible(options: SolveOptions, plan: Plan) -> bool:
        """Whether `auto` may change its mind at all."""
        choice = options["solver"] == "auto" and plan.name == "accelerated"
        return choice and plan.task.cost == "time" and plan.task.d <= WIDEST

    def __call__(self, record: Record) -> bool:
        """Whether what is left to do, at the rate of the last step, takes longer than all of `gram`."""
        before, self.last = self.last, record
        if before is None or record.epoch < self.worth or record.bound <= self.tol or self.tol <= 0:
            return False
        if record.passes > self.last_call:
            return False
        gained = np.log(before.bound / record.bound)
        left = np.log(record.bound / self.tol) / gained if gained > 0 else np.inf
        self.wanted = bool(left > self.worth)
        return self.wanted
