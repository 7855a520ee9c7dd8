"""What is going to be done, before the data are read: which solver, and on which side of X.

Where the user does not say, a model of bytes and flops chooses the solver. Only ratios of its rates matter. They were
measured once, on two cores with AVX2 (float32).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from vrpca.data.memory import physical_memory
from vrpca.data.source import Source
from vrpca.errors import OptionError
from vrpca.history import Record
from vrpca.memory import BLOCK_SIZES, Demand, Need, in_words
from vrpca.options import Options, shown
from vrpca.solvers import SOLVERS, VARIANTS
from vrpca.solvers.accelerated import KEPT
from vrpca.solvers.base import Solver
from vrpca.solvers.gram import SINGLE, UNMEASURED, Gram
from vrpca.solvers.outside import MOST
from vrpca.values import changed

FIRST_GUESS = 8  # components tried first when a fraction of the variance is asked for
SMALL_SIDE = 2000  # an A of this size is decomposed whole when a fraction is asked for: LAPACK takes about a second
SMALL = 256  # A of this size costs next to nothing: milliseconds
WIDEST = 6000  # the largest A that is worth its memory: 288 MB
ASKED_FOR = "asked for"
NOT_GRAM = "as the data are stored, summing up A would read them many times"

# What `auto` takes where memory is limited, if its first choice does not fit.
INSTEAD = {"gram": ("accelerated", "krylov"), "accelerated": ("gram", "krylov")}
PROOF_PRODUCTS = (MOST, 20, 10, 5)  # products of a random search: fewer of them where memory is limited prove less

STREAMED_PASSES = 4.0  # of `accelerated` with cost="passes", to 1e-10: 3 to 7 (docs/solvers.md)

BYTES = 8e9  # read per second from memory
DISK = 1e9  # from a disk: solid-state ones read 0.5 to 5e9, those of the machines that this was written on 1.2e9
PRODUCT = 1.1e11  # flops per second of products of dense rows with a block
SQUARE = 1.4e11  # of the symmetric updates of A
SPARSE = 1.5e10  # of products of sparse rows
SPARSE_SQUARE = 2e8  # of a product of sparse matrices
REDUCTION = 2e10  # of LAPACK's reduction to tridiagonal form
VECTORS = 3e10  # of arithmetic with long vectors
BLOCK = 8  # vectors that `accelerated` multiplies at a time where rows are sparse


@dataclass(frozen=True)
class Task:
    """What is to be solved: n rows of length d, their stored entries, k components to a tolerance."""

    n: int
    d: int
    k: int
    entries: int
    tol: float = 1e-8
    cost: str = "time"
    gram: bool = True  # whether A can be summed up by passes, as the data are stored

    @property
    def sparse(self) -> bool:
        """Whether zeros are not stored."""
        return self.entries < self.n * self.d

    @property
    def reading(self) -> float:
        """Seconds of one reading of the data: four bytes per entry and, from a disk, four of its column number."""
        if self.cost == "time":
            return 4 * self.entries / BYTES
        return (8 if self.sparse else 4) * self.entries / DISK


@dataclass(frozen=True)
class Plan:
    """The solver by name, why it is this one, the side of X, and what the choice rests on."""

    name: str
    reason: str
    transpose: bool
    task: Task
    solver: Solver
    room: Room
    need: Need  # the memory of a fit by this plan; where nothing fits, of the smallest that this solver can do
    block_bytes: int  # of a block of a file
    proof_products: int  # the most of a random search

    def may_switch(self, options: Options) -> bool:
        """Whether `auto` may still change to `gram` while `accelerated` runs."""
        chosen = options.solver == "auto" and self.name == "accelerated"
        return chosen and self.task.gram and self.task.cost == "time" and self.task.d <= WIDEST and self.room.has_gram

    def room_for(self, options: Options, k: int) -> bool:
        """Whether the memory limit allows for k components."""
        return next(_fits(self, options, k), None) is not None


class Choice(NamedTuple):
    """A solver, and how it is to read and prove; with the memory that this takes."""

    solver: Solver
    block_bytes: int  # of a block of a file
    proof_products: int  # the most of a random search
    need: Need


@dataclass(frozen=True)
class Room:
    """What memory there is for a fit, and what it is for."""

    source: Source
    demand: Demand
    limit: float  # bytes
    has_gram: bool = True  # whether `gram` would fit
    reading: dict[tuple[int, bool], int] = field(default_factory=dict)  # by size of blocks and side: bytes, once known

    def choice(self, solver: Solver, transpose: bool, block_bytes: int, products: int) -> Choice:
        """A solver with blocks of this size, and with this number of products of a proof."""
        key = block_bytes, transpose
        if key not in self.reading:
            self.reading[key] = self.source.block_memory(*key)
        need = self.demand.need(solver, self.source, transpose, block_bytes, products, self.reading[key])
        return Choice(solver, block_bytes, products, need)

    def block_sizes(self, name: str, limited: bool) -> Sequence[int]:
        """Sizes of blocks with which a solver can walk the data. Without a limit, they stay as they are."""
        if not limited:
            return BLOCK_SIZES[:1]
        sizes = [size for size in BLOCK_SIZES if name != "gram" or Gram.suits(self.source.outline(size))]
        return sizes or BLOCK_SIZES[:1]

    def transposes(self, name: str, sizes: Sequence[int], limited: bool) -> bool:
        """Whether a solver works on the transposed matrix.

        A side that takes many readings with large blocks does so with small ones, so the smallest decide.
        """
        return SOLVERS[name].transposes(self.source.outline(sizes[-1]) if limited else self.source)

    def choices(self, solver: Solver, transpose: bool, sizes: Sequence[int]) -> Iterator[Choice]:
        """Solvers, sizes of blocks and products of a proof that fit: those that take most of the room first."""
        less: Solver | None = solver
        while less is not None:
            for block_bytes in sizes:
                for products in PROOF_PRODUCTS:
                    choice = self.choice(less, transpose, block_bytes, products)
                    if choice.need.bytes <= self.limit:
                        yield choice
            less = less.smaller()

    def smallest(self, solver: Solver, transpose: bool, sizes: Sequence[int]) -> Choice:
        """The choice that takes least: as few vectors as the solver can do with, and the smallest blocks."""
        while (less := solver.smaller()) is not None:
            solver = less
        return self.choice(solver, transpose, sizes[-1], PROOF_PRODUCTS[-1])


def make_plan(options: Options, source: Source, k: int | float, fraction: bool, demand: Demand | None = None) -> Plan:
    """The plan for k components, or for a fraction of the variance.

    It keeps to the memory limit, or raises an error that names the smallest limit that would do. Without a limit, it
    keeps to half of the machine's memory if it can.
    """
    limit = options.memory
    room = Room(source, demand or Demand(), physical_memory() / 2 if limit is None else limit)
    if limit is not None and source.unlimited is not None:
        raise OptionError(f"memory_limit cannot be kept: {source.unlimited}, or leave out memory_limit.")
    plan = _plan_within(options, room, k, fraction)
    if limit is not None and plan.need.bytes > limit:
        raise _too_small(options, plan)
    return plan


def for_source(options: Options, source: Source) -> Options:
    """The options with what is to be saved: passes on a cluster, reading from files, arithmetic in memory.

    Nothing is measured for that: what a seed gives must not depend on how busy a disk is.
    """
    if options.cost != "auto":
        return options
    if source.slow_to_read and source.elsewhere:
        return changed(options, cost="passes")
    return changed(options, cost="reading" if source.slow_to_read else "time")


def smallest_limit(options: Options, source: Source, k: int | float, fraction: bool, demand: Demand) -> int:
    """The smallest memory limit that `make_plan` would accept."""
    return _plan_within(options, Room(source, demand, 0), k, fraction).need.bytes


def _plan_within(options: Options, room: Room, k: int | float, fraction: bool) -> Plan:
    """The plan that suits best of those that fit; where none fits, the one that needs least."""
    task = _task(options, room.source, k, fraction)
    name, reason = _chosen(options, task)
    if name == "gram" and not task.gram:
        raise OptionError(
            f"solver='gram' cannot be used: {NOT_GRAM}. Use solver='auto', or store the data by "
            f"{'columns' if room.source.by_rows else 'rows'}."
        )
    plan = _planned(options, room, name, reason, task, k, fraction)
    if plan.need.bytes <= room.limit or options.solver != "auto":
        return plan
    instead = f"{name!r} would take at least {in_words(plan.need.bytes)} of memory"
    for other in INSTEAD.get(name, ()):
        if plan.need.bytes > room.limit and (other != "gram" or task.gram):
            plan = min(
                plan, _planned(options, room, other, instead, task, k, fraction), key=lambda each: each.need.bytes
            )
    return plan


def _planned(options: Options, room: Room, name: str, reason: str, task: Task, k: int | float, fraction: bool) -> Plan:
    """The plan with a solver, as large as fits; as small as possible where nothing fits."""
    source, most = room.source, min(room.source.shape)
    count = (most if name == "gram" else min(FIRST_GUESS, most)) if fraction else int(k)
    again = fraction or room.demand.proof  # a run may start from what another one has found
    room = changed(room, demand=changed(room.demand, k=count, guessed=room.demand.guessed or again))
    limited = options.memory_limit is not None
    sizes = room.block_sizes(name, limited)
    transpose = room.transposes(name, sizes, limited)
    solver = _solver(options, room, name, transpose, count)
    choice = next(room.choices(solver, transpose, sizes), None) or room.smallest(solver, transpose, sizes)
    if name == "accelerated":
        side = SOLVERS["gram"].transposes(source)
        gram = room.choice(_solver(options, room, "gram", side, count), side, choice.block_bytes, choice.proof_products)
        suits = not limited or choice.block_bytes in room.block_sizes("gram", limited)
        room = changed(room, has_gram=suits and gram.need.bytes <= room.limit)
    worker = choice.solver
    if fraction:  # how many components are needed is not known yet
        worker = _solver(options, room, name, transpose, 1)
        worker.components = None
    return Plan(name, reason, transpose, task, worker, room, choice.need, choice.block_bytes, choice.proof_products)


def _solver(options: Options, room: Room, name: str, transpose: bool, k: int) -> Solver:
    """The solver of this name, as it is where there is room enough."""
    source = room.source
    solver = solver_for(options, name, k, source.entries, source.shape[0 if transpose else 1], source.sparse)
    spare = options.memory_limit is None and not source.elsewhere
    solver.projects = spare or room.demand.left or transpose
    solver.components = k
    return solver


def fitting(plan: Plan, options: Options, k: int) -> Solver:
    """The solver of a plan for another number of components, as large as fits."""
    return next(_fits(plan, options, k), _solver(options, plan.room, plan.name, plan.transpose, k))


def _fits(plan: Plan, options: Options, k: int) -> Iterator[Solver]:
    """The solver of a plan for k components, and smaller ones, that fit with blocks of the planned size."""
    room = changed(plan.room, demand=changed(plan.room.demand, k=k))
    solver = _solver(options, room, plan.name, plan.transpose, k)
    return (choice.solver for choice in room.choices(solver, plan.transpose, [plan.block_bytes]))


def _too_small(options: Options, plan: Plan) -> OptionError:
    """The error for a limit with which no plan is possible."""
    need = plan.need
    return OptionError(
        f"memory_limit={shown(options.memory_limit)} is too small: {plan.name!r} takes at least "
        f"{in_words(need.bytes)}, most of it for {need.what}. Pass memory_limit={need.bytes} or more, or ask "
        "for fewer components."
    )


def block_width(options: Options, name: str, k: int, sparse: bool) -> int:
    """Columns of the block: as many as the user says, or as the solver likes."""
    return SOLVERS[name].width_for(k, options.cost, sparse) if options.oversample is None else k + options.oversample


def solver_for(options: Options, name: str, k: int, entries: int, d: int, sparse: bool) -> Solver:
    """The solver of this name for k components, and vectors of length d."""
    width = min(block_width(options, name, k, sparse), d)
    options.check_width(width)
    return make_solver(name, options, width, entries, d, sparse)


def make_solver(name: str, options: Options, width: int, entries: int, d: int, sparse: bool) -> Solver:
    """The solver of this name, for blocks of `width` columns and vectors of length d; X stores `entries`."""
    kind = VARIANTS[name](options, width, entries, d, sparse) if name in VARIANTS else SOLVERS[name]
    return kind(options, width)


def _chosen(options: Options, task: Task) -> tuple[str, str]:
    """The solver's name, and why it is this one."""
    if options.solver != "auto":
        return options.solver, ASKED_FOR
    if options.deflate or options.step == "theory":
        return "vr", "deflation and Theorem 1 go with it"
    return choose(task)


def _task(options: Options, source: Source, k: int | float, fraction: bool) -> Task:
    side = min(source.shape)
    if fraction:  # many components may be needed: all of them, if A is small
        k = side if side <= SMALL_SIDE else FIRST_GUESS
    gram = Gram.suits(source)
    return Task(max(source.shape), side, min(int(k), side), source.entries, options.tol, options.cost, gram)


def choose(task: Task) -> tuple[str, str]:
    """Return the name of a solver, and the reason."""
    d = task.d
    if not task.gram:
        return "accelerated", NOT_GRAM
    if d <= SMALL:
        return "gram", small_side(d)
    if task.cost == "passes":
        if d <= KEPT * task.k:
            return "gram", f"one pass gives A, {d} x {d}, which is no larger than the blocks of {task.k} components"
        return "accelerated", "passes are to be saved"
    if d > WIDEST:
        return "accelerated", f"A would be {d} x {d}"
    gram, other = gram_seconds(task), accelerated_seconds(task)  # from files, they overlap reading and arithmetic
    if gram <= other or 4 * task.k > d:
        return "gram", f"forming A, {d} x {d}, should take {gram:.2g} s, other solvers {other:.2g} s"
    return "accelerated", f"it should take {other:.2g} s, forming A, {d} x {d}, {gram:.2g} s"


def small_side(d: int) -> str:
    """The reason to take `gram` where A is small."""
    return f"the smaller side has only {d} entries"


def gram_seconds(task: Task) -> float:
    """What forming A and its leading eigenvectors is going to take."""
    n, d = float(task.n), float(task.d)
    square = n * d * d / SQUARE
    if task.sparse:
        square = min(task.entries**2 / n / SPARSE_SQUARE, square)
    elif task.tol < (SINGLE if task.cost == "time" else UNMEASURED):
        square *= 2  # double precision takes twice the time
    return max(square, task.reading) + 4 / 3 * d**3 / REDUCTION


def pass_seconds(task: Task) -> float:
    """What one pass of `accelerated` is going to take."""
    width = 1 + SOLVERS["accelerated"].width_for(task.k, task.cost, task.sparse)
    if not task.sparse:
        return max(task.reading, 4 * task.entries * width / PRODUCT)
    if task.cost == "reading":
        return max(task.reading, 4 * task.entries * width / SPARSE)
    return 4 * task.entries * BLOCK / SPARSE + 8 * task.d * BLOCK * (2.0 * task.k + 40) / VECTORS


def accelerated_seconds(task: Task) -> float:
    """What the passes of `accelerated` are going to take, with the number of passes that spectra of real data need."""
    return accelerated_passes(task) * pass_seconds(task)


def accelerated_passes(task: Task) -> float:
    """The passes that `accelerated` needs on spectra of real data."""
    digits = min(max(-math.log10(max(task.tol, 1e-16)), 1.0), 16.0)
    if task.cost == "reading":  # those with more than 100 entries per feature; docs/solvers.md has what was measured
        return 2 + 0.6 * digits + task.k / 20 if task.sparse else 1 + 0.3 * digits
    return 3 + 0.8 * digits + task.k / 2.5 if task.sparse else 1.6 + 0.6 * digits + min(3.0, task.k / 15)


def expected_passes(plan: Plan) -> float:
    """The passes that a fit by this plan is going to take, about; docs/solvers.md has what was measured."""
    if plan.name == "gram":
        return 2.0 if plan.transpose else 1.0
    if plan.task.cost == "passes" and plan.name == "accelerated":
        return STREAMED_PASSES
    return accelerated_passes(plan.task)


def too_slow(task: Task, history: Sequence[Record], last_call: float) -> bool:
    """Whether what is left to do, at the rate of the last step, takes longer than all of `gram`.

    It counts steps, not seconds, so that a seed gives the same answer on a busy machine. After `last_call` passes,
    `gram` would be too late.
    """
    worth = gram_seconds(task) / pass_seconds(task)  # passes of `accelerated` that take as long as forming A
    record = history[-1]
    if len(history) < 2 or record.epoch < worth or record.bound <= task.tol or task.tol <= 0:
        return False
    if record.passes > last_call:
        return False
    gained = np.log(history[-2].bound / record.bound)
    left = np.log(record.bound / task.tol) / gained if gained > 0 else np.inf
    return bool(left > worth)
