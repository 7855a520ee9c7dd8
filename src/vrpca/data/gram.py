"""The matrix A itself, by symmetric updates block after block.

`GramSum` sums it up during the first pass, in the precision of the data or in double precision. `SquareSum` does so in
double precision, in a pass of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.first_pass import CANCELS, FAR, Finding, Moments, MomentSum, Problem, first_unit
from vrpca.data.row_map import MappedRows, OfMappedRows, RowMap, make_rows
from vrpca.data.source import ArraySum
from vrpca.linalg import SMALL_ORDER
from vrpca.threads import in_parallel
from vrpca.typing import Array

# Columns up to which our kernel sums up A, and BLAS beyond. On two cores with 32 MB of last-level cache, it takes 0.7
# of the time of BLAS at 300 columns, 0.8 at 784, 0.95 at 1200, and 1.2 at 2000, where the sums of both threads do not
# fit the cache.
NARROW = 1000
# Multiplications for A that take next to no time: 0.3 ms in double precision, on two cores.
SMALL_WORK = 1 << 24
SPARSE = 0.1  # density below which a product of sparse matrices was cheaper than one of dense blocks
LEAST_ROWS = 8192  # rows at a time: adding a block's sum costs d^2, whatever the number of its rows
PIECE_ENTRIES = 2**21  # stored entries that are multiplied at a time: enough to be worth a call, 8 MB if dense
MOST_SUMMED = 65536  # rows at a time of our kernel: their sums are added up apart, since long chains are rounded more
HEAD_ROWS = 1024  # first rows, which tell how large numbers are and where their mean is: few enough to cost nothing
TINY = float(np.finfo(float).tiny)  # takes the place of a total of zero, by which nothing but zeros is divided
CHUNK_ROWS = 1024  # rows that are squared at a time in double precision
MATTERS = 1e-14  # a column with a smaller part of all squares drowns in the rounding of A, of 1e-16 per number
# Times the errors of the diagonal that other entries may have: their products are rounded otherwise. With 4, none of
# 150 data sets with two values was certified wrongly.
ALIKE = 4
MODERATE = 1e6  # units between its inverse and this are taken as 1: squares cannot overflow


@dataclass(frozen=True)
class Matrix(Finding):
    """A itself, with trace 1."""

    random: ClassVar[bool] = False
    A: Array
    in_double: bool  # whether all of its sums were made in double precision
    error: float = 0.0  # of A's largest eigenvalues, as far as rounding shows in its diagonal


class GramSum(MomentSum):
    """Accumulates ``sum w_i (y_i - c) (y_i - c)^T`` and ``sum w_i (y_i - c)``, with ``y = unit x``, and the moments.

    The origin c is the mean of the first rows, so that a large mean cancels before anything is squared: a difference
    from it is as exact as the number type allows, and every block's sum is added up in double precision. A mean that is
    not larger than the deviation is left alone: zero is as good an origin.
    """

    sums = ("second",)

    def __init__(self, problem: Problem, in_double: bool = False):
        super().__init__(problem)
        self.small = is_small(*problem.source.shape)
        self.in_double = in_double  # whether entries are multiplied in double precision, whatever their type
        d = len(self.mean)
        self.least_rows = rows_at_a_time(d, problem.source.sparse)
        self.second, self.first = np.zeros((d, d)), np.zeros(d)
        self.moved = np.zeros(d)  # what the diagonal gained when sums were moved here from other origins
        self.origin: Array | None = None  # this and the next three are set by the first rows that count
        self.unit, self.dtype, self.sparse = 1.0, np.dtype(np.float64), False

    def _add_piece(self, X: Any, weight: Array | None) -> None:
        """Our kernel reads the rows once for A and for the moments, if numbers are neither huge nor tiny."""
        if self.origin is None and self._narrow(X) and not self.small:
            # The first rows tell how large numbers are, and where their mean is.
            super()._add_piece(X[:HEAD_ROWS], None if weight is None else weight[:HEAD_ROWS])
            X, weight = X[HEAD_ROWS:], None if weight is None else weight[HEAD_ROWS:]
        if X.shape[0] and self._narrow(X) and self.origin is not None and self.factor == self.unit == 1.0:
            self._add_at_once(X, weight)
        elif X.shape[0]:
            super()._add_piece(X, weight)

    def _add_at_once(self, X: Array, weight: Array | None) -> None:
        """A and the moments of a piece, in one reading. The moments come from sums about the origin."""
        assert self.origin is not None
        first, squares = self._add_narrow(X, None if weight is None else np.sqrt(weight))
        total = float(X.shape[0] if weight is None else weight.sum())
        mean = np.zeros(len(first)) if self.about_zero else first / max(total, TINY)
        before = self.total, self.mean.copy(), self.M2.copy()
        self._merge_moments(total, mean if self.about_zero else self.origin + mean, squares - first * mean)
        if (squares > FAR * self.M2).any():  # rows are far from the origin: the difference has lost digits
            self.total, self.mean, self.M2 = before
            self._add_moments(X, weight)

    def _narrow(self, X: Any) -> bool:
        """Whether A is summed up by our kernel, as the rows are."""
        return not sp.issparse(X) and X.shape[1] <= NARROW

    def _add_more(self, X: Any, root: Array | None) -> None:
        if self.origin is None:
            self._begin(X, root)
        if self.sparse:
            self._add_sparse(X, root)
        elif X.shape[1] <= NARROW:
            self._add_narrow(X.toarray() if sp.issparse(X) else X, root)
        else:
            self._add_wide(X, None if root is None else root.astype(self.dtype))

    def _begin(self, X: Any, root: Array | None) -> None:
        """What the first rows say: how large numbers are, where their mean is, whether they are sparse."""
        self.unit = first_unit(X, root)
        if 1 / MODERATE < self.unit < MODERATE:
            self.unit = 1.0
        self.sparse = few_entries(X)
        mean = self.running_mean * self.unit
        shifted = self.center and not self.sparse and is_shifted(self.mean, self.M2 / self.total)
        self.in_double = self.in_double or self.sparse or X.dtype == np.float64
        self.dtype = np.dtype(np.float64) if self.in_double else X.dtype
        # What is subtracted, to the last bit: `merge` and `finding` rely on it.
        self.origin = mean.astype(self.dtype).astype(np.float64) if shifted else np.zeros(len(mean))

    def _add_narrow(self, X: Array, root: Array | None) -> tuple[Array, Array]:
        """Return the sums of the rows about the origin, and of their squares, in double precision."""
        assert self.origin is not None
        shift = self.origin / self.unit if self.origin.any() else None
        rows = make_rows(X, None, shift, root, None, self.unit)
        first, squares = np.zeros(len(self.first)), np.zeros(len(self.first))
        kernels.gram(rows, self.second, first, squares, self.n_threads, self.in_double)
        self.first += first
        return first, squares

    def _add_wide(self, X: Any, root: Array | None) -> None:
        cuts = [X.shape[0] * p // self.n_threads for p in range(self.n_threads + 1)]
        parts = [slice(lo, hi) for lo, hi in itertools.pairwise(cuts)]
        roots = [None if root is None else root[part] for part in parts]
        for first, square in in_parallel(self.n_threads, self._sums, [X[part] for part in parts], roots):
            self.first += first
            self.second += square

    def _sums(self, X: Any, root: Array | None) -> tuple[Array, Array]:
        Y = self._centred((X.toarray() if sp.issparse(X) else X).astype(self.dtype, copy=False))
        with np.errstate(over="ignore", invalid="ignore"):  # `finding` notices
            if root is not None:
                Y = Y * root[:, None]
            ones = np.ones(len(Y), Y.dtype) if root is None else root
            first = ones @ Y if self.center else np.zeros(Y.shape[1])
            return first, Y.T @ Y  # BLAS knows a matrix times itself: half the work

    def _centred(self, X: Array) -> Array:
        """The rows about the origin: X itself where there is nothing to do."""
        Y = X if self.unit == 1.0 else X * X.dtype.type(self.unit)
        assert self.origin is not None
        with np.errstate(over="ignore", invalid="ignore"):
            return Y - self.origin.astype(Y.dtype) if self.origin.any() else Y

    def _add_sparse(self, X: Any, root: Array | None) -> None:
        rows = MappedRows(X.astype(np.float64), RowMap(np.dtype(np.float64), row_scale=root, unit=self.unit))
        self.first += rows.X.T @ (np.ones(X.shape[0]) if root is None else root)
        self.second += rows.square()

    def _merge_more(self, other: GramSum) -> None:
        """Move the other sums to this origin and unit, and add them."""
        if other.origin is None:
            return
        if self.origin is None:
            self.origin, self.unit, self.dtype, self.sparse = other.origin, other.unit, other.dtype, other.sparse
            self.in_double = other.in_double
        if self.in_double and not other.in_double:  # one of several blocks may be denser than the others
            self.in_double, self.dtype = False, other.dtype
        self.sparse = self.sparse and other.sparse
        ratio = self.unit / other.unit
        delta, first = other.origin * ratio - self.origin, other.first * ratio
        along = np.outer(delta, first)
        move = along + along.T + other.total * np.outer(delta, delta)
        self.first += first + other.total * delta
        self.second += other.second * ratio * ratio + move
        self.moved += other.moved * ratio * ratio + move.diagonal()

    def finding(self, moments: Moments, col_scale: Array | None, trace: float, support: Array | None) -> Matrix | None:
        """``A``, centred, scaled and with trace 1.

        None if squares of numbers so different in size overflow or vanish, or if rows lie so far from their origins
        that the difference does not cancel.
        """
        if self.origin is None or self._vanishes(moments, col_scale is not None):
            return None
        A = about_mean(self.second, self.first if self.center else None, moments.total)
        squares = (self.second.diagonal() - self.moved) / moments.total  # about the origins of the sums
        errors = np.zeros(len(A)) if self.in_double else self._errors_of_diagonal(moments)
        if col_scale is not None:
            scale = col_scale / col_scale.max()
            A *= np.outer(scale, scale)
            squares *= scale**2
            errors *= scale**2
        total = np.trace(A)
        if squares.sum() > (CANCELS if self.sparse else FAR) * total:
            return None
        if not (math.isfinite(A.sum()) and total > 0):
            return None
        A /= total
        return Matrix(A, self.in_double, ALIKE * float(errors.sum() / total))

    def _errors_of_diagonal(self, moments: Moments) -> Array:
        """The errors of the diagonal, which the moments give in double precision.

        Equal rows are rounded one way: sums of a thousand of them in single precision may lose three digits more than
        sums of random numbers do. If the errors of all entries are as large, relative to the product of their columns'
        lengths, the largest eigenvalue of the error is the sum of those of the diagonal.
        """
        assert self.origin is not None
        ratio = self.unit / moments.factor
        exact = moments.variance * ratio * ratio + (moments.mean * ratio - self.origin) ** 2
        return np.abs(self.second.diagonal() / moments.total - exact)

    def _vanishes(self, moments: Moments, scaled: bool) -> bool:
        """Whether squares of a column that matters are near the smallest numbers of the type that entries have."""
        square = moments.variance if self.center else moments.second
        matters = square > (0.0 if scaled else MATTERS * square.sum())
        ratio = self.unit / moments.factor
        summed = square * ratio * ratio
        return bool((summed[matters] < np.finfo(self.dtype).tiny / np.finfo(self.dtype).eps ** 2).any())


def is_shifted(mean: Array, variance: Array) -> bool:
    """Whether a mean is larger than its column's deviation: it is subtracted before rows are multiplied."""
    return bool((mean**2 > variance).any())


def about_mean(second: Array, first: Array | None, total: float) -> Array:
    """The mean of ``z z^T`` about the mean of z, given the sums about any origin; about the origin without `first`."""
    A = second / total
    if first is not None:
        delta = first / total
        A -= delta[:, None] * delta
    return A


class SquareSum(OfMappedRows, ArraySum):
    """Accumulates ``Z^T Z`` in double precision.

    With `implicit`, sparse rows may be centred late, after their product.
    """

    inputs = ("row_map",)

    def __init__(self, row_map: RowMap, d: int, implicit: bool, n_threads: int):
        self.row_map, self.implicit, self.n_threads = row_map, implicit, n_threads
        self.out = np.zeros((d, d))

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        for part in self._squares(start, X):
            self.out += part

    def _squares(self, start: int, X: Any) -> Iterator[Array]:
        """The squares of parts of a block, or of all of it where zeros are worth leaving out."""

        def square(lo: int, hi: int) -> Array:
            rows = (X[lo:hi].toarray() if densely and sp.issparse(X) else X[lo:hi]).astype(np.float64)
            return MappedRows(rows, self.row_map, slice(start + lo, start + hi)).square()

        n = X.shape[0]
        densely = not (self.implicit and few_entries(X))
        step = CHUNK_ROWS if densely else n
        for first in range(0, n, step * self.n_threads):  # no more results than threads at a time
            lows = range(first, min(first + step * self.n_threads, n), step)
            yield from in_parallel(self.n_threads, square, lows, [min(lo + step, n) for lo in lows])


def is_small(n: int, d: int) -> bool:
    """Whether all of A takes so little time that it is summed up in double precision, all rows at once."""
    return d <= SMALL_ORDER and n * d * d <= SMALL_WORK and n * d <= PIECE_ENTRIES


def rows_at_a_time(d: int, sparse: bool) -> int:
    """The fewest rows that are multiplied at a time. Our kernel takes dense rows as they are, others are copied."""
    least = LEAST_ROWS if sparse or d > NARROW else MOST_SUMMED
    return max(least, d, PIECE_ENTRIES // max(d, 1))


def few_entries(X: Any) -> bool:
    """Whether a block is so sparse that zeros are worth leaving out of products of its columns."""
    return bool(sp.issparse(X)) and X.nnz < SPARSE * X.shape[0] * X.shape[1]
