"""Which solver to take when the user does not say, and why: a model of bytes and flops.

Only ratios of the rates matter. They were measured once, on two cores with AVX2 (float32).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vrpca.solvers.base import whole_registers

SMALL = 256  # A of this size costs next to nothing
WIDEST = 6000  # the largest A that is worth its memory
KEPT = 14  # vectors in units of the block that `accelerated` may keep: A is smaller than that up to this size

BYTES = 8e9  # read per second
PRODUCT = 1.1e11  # flops per second of products of dense rows with a block
SQUARE = 1.1e11  # of the symmetric updates of A
SPARSE = 1.5e10  # of products of sparse rows
SPARSE_SQUARE = 2e8  # of a product of sparse matrices
REDUCTION = 1e10  # of LAPACK's reduction to tridiagonal form
VECTORS = 3e10  # of arithmetic with long vectors
BLOCK = 8  # vectors that `accelerated` multiplies at a time where rows are sparse


@dataclass(frozen=True)
class Task:
    """What is to be solved: n rows of length d with so many stored entries, k components to a tolerance."""

    n: int
    d: int
    k: int
    entries: int
    tol: float = 1e-8
    cost: str = "time"

    @property
    def sparse(self) -> bool:
        """Whether zeros are not stored."""
        return self.entries < self.n * self.d


def gram_seconds(task: Task) -> float:
    """What forming A and its leading eigenvectors is going to take."""
    n, d = float(task.n), float(task.d)
    square = min(task.entries**2 / n / SPARSE_SQUARE, n * d * d / SQUARE) if task.sparse else n * d * d / SQUARE
    return max(square, 4 * task.entries / BYTES) + 4 / 3 * d**3 / REDUCTION


def pass_seconds(task: Task) -> float:
    """What one pass of `accelerated` is going to take."""
    if not task.sparse:
        width = task.k + 1 + whole_registers(task.k, 8)
        return max(4 * task.entries / BYTES, 4 * task.entries * width / PRODUCT)
    return 4 * task.entries * BLOCK / SPARSE + 8 * task.d * BLOCK * (2.0 * task.k + 40) / VECTORS


def accelerated_seconds(task: Task) -> float:
    """What the passes of `accelerated` are going to take, with the number of passes that spectra of real data need."""
    digits = min(max(-math.log10(max(task.tol, 1e-16)), 1.0), 16.0)
    passes = 3 + 0.8 * digits + task.k / 2.5 if task.sparse else 1.6 + 0.6 * digits + min(3.0, task.k / 15)
    return passes * pass_seconds(task)


def looks_worth_gram(task: Task) -> float:
    """Passes of `accelerated` that take as long as forming A."""
    return gram_seconds(task) / pass_seconds(task)


def choose(task: Task) -> tuple[str, str]:
    """Return the name of a solver, and the reason."""
    d = task.d
    if d <= SMALL:
        return "gram", f"the smaller side has only {d} entries"
    if task.cost == "passes":
        if d <= KEPT * task.k:
            return "gram", f"one pass gives A, {d} x {d}, which is no larger than the blocks of {task.k} components"
        return "accelerated", "passes are to be saved"
    if d > WIDEST:
        return "accelerated", f"A would be {d} x {d}"
    gram, other = gram_seconds(task), accelerated_seconds(task)
    if gram <= other or 4 * task.k > d:
        return "gram", f"forming A, {d} x {d}, should take {gram:.2g} s, other solvers {other:.2g} s"
    return "accelerated", f"it should take {other:.2g} s, forming A, {d} x {d}, {gram:.2g} s"
