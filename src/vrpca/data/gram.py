"""The matrix A itself, by symmetric updates block after block.

`GramSum` sums it up during the first pass, in the precision of the data. `SquareSum` does so in double precision, in a
pass of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.first_pass import CANCELS, Finding, Moments, MomentSum, first_unit
from vrpca.data.row_map import MappedRows, RowMap, make_rows
from vrpca.threads import in_parallel

NARROW = 200  # columns up to which our kernel was ahead of BLAS, on two cores with AVX2
HEAD_ROWS = 1024  # rows that tell how large a mean is
SPARSE = 0.1  # density below which a product of sparse matrices was cheaper than one of dense blocks
LEAST_ROWS = 8192  # rows at a time: adding a block's sum costs d^2, whatever the number of its rows
CHUNK_ROWS = 1024  # rows that are squared at a time in double precision
MODERATE = 1e6  # units between its inverse and this are taken as 1: squares cannot overflow


@dataclass(frozen=True)
class Matrix(Finding):
    """A itself, with trace 1."""

    random: ClassVar[bool] = False
    A: np.ndarray


@dataclass(frozen=True)
class ProvisionalSums(Finding):
    """``sum w_i (y_i - c) (y_i - c)^T`` and ``sum w_i (y_i - c)`` for a provisional centre c, with ``y = unit x``."""

    random: ClassVar[bool] = False
    second: np.ndarray
    first: np.ndarray
    center: bool
    unit: float
    dtype: np.dtype

    def of_view(
        self, moments: Moments, col_scale: np.ndarray | None, trace: float, support: np.ndarray | None
    ) -> Matrix | None:
        """``A``, centred, scaled and with trace 1.

        None if squares of numbers so different in size overflow or vanish, or if the mean is so large that it does not
        cancel.
        """
        if self._vanishes(moments, col_scale is not None):
            return None
        A = self.second / moments.total
        if self.center:
            delta = self.first / moments.total
            A -= np.outer(delta, delta)
            if (delta**2 > CANCELS * np.abs(A.diagonal())).any():
                return None
        if col_scale is not None:
            A *= np.outer(col_scale / col_scale.max(), col_scale / col_scale.max())
        total = np.trace(A)
        return Matrix(A / total) if np.isfinite(A).all() and total > 0 else None

    def _vanishes(self, moments: Moments, scaled: bool) -> bool:
        """Whether squares of a column that matters are near the smallest numbers of the data's type."""
        square = moments.variance if self.center else moments.second
        matters = square > (0.0 if scaled else 1e-14 * square.sum())
        ratio = self.unit / moments.factor
        summed = square * ratio * ratio
        return bool((summed[matters] < np.finfo(self.dtype).tiny / np.finfo(self.dtype).eps ** 2).any())


class GramSum(MomentSum):
    """Accumulates A along with the moments.

    The provisional centre is the mean of the first rows, so that a large mean cancels before anything is squared: a
    difference from it is as exact as the number type allows, and every block's sum is added up in double precision. A
    mean that is not larger than the deviation is left alone: zero is as good a centre.
    """

    def __init__(self, d: int, weights: np.ndarray | None, center: bool, about_zero: bool, n_threads: int):
        super().__init__(d, weights, about_zero, n_threads)
        self.center = center
        self.least_rows = max(LEAST_ROWS, d)
        self.second = np.zeros((d, d))
        self.first = np.zeros(d)
        self.shift: np.ndarray | None = None
        self.dtype = np.dtype(np.float64)
        self.sparse = False
        self.unit = 1.0

    def _add_more(self, X: Any, weight: np.ndarray | None) -> None:
        if self.shift is None:
            self._begin(X)
        if self.sparse:
            self._add_sparse(X, weight)
        elif X.shape[1] <= NARROW:
            self._add_narrow(X.toarray() if sp.issparse(X) else X, weight)
        else:
            self._add_wide(X, None if weight is None else np.sqrt(weight).astype(X.dtype))

    def _begin(self, X: Any) -> None:
        """What the first rows say: how large numbers are, where their centre is, whether they are sparse."""
        self.unit = first_unit(X)
        if 1 / MODERATE < self.unit < MODERATE:
            self.unit = 1.0
        self.sparse = few_entries(X)
        centre = self.running_mean * self.unit
        shifted = self.center and not self.sparse and _far_from_zero(centre, X[:HEAD_ROWS] * self.unit)
        self.shift, self.dtype = centre if shifted else np.zeros(len(centre)), X.dtype

    def _add_narrow(self, X: np.ndarray, weight: np.ndarray | None) -> None:
        assert self.shift is not None
        shift = self.shift / self.unit if self.shift.any() else None
        root = None if weight is None else np.sqrt(weight)
        rows = make_rows(X, None, shift, root, None, self.unit)
        kernels.gram(rows, self.second, self.first, self.n_threads)

    def _add_wide(self, X: Any, root: np.ndarray | None) -> None:
        cuts = [X.shape[0] * p // self.n_threads for p in range(self.n_threads + 1)]
        parts = [slice(lo, hi) for lo, hi in itertools.pairwise(cuts)]
        roots = [None if root is None else root[part] for part in parts]
        for first, square in in_parallel(self.n_threads, self._sums, [X[part] for part in parts], roots):
            self.first += first
            self.second += square

    def _sums(self, X: Any, root: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        Y = self._centred(X.toarray() if sp.issparse(X) else X)
        if root is not None:
            Y = Y * root[:, None]
        with np.errstate(over="ignore", invalid="ignore"):  # `ProvisionalSums.of_view` notices
            ones = np.ones(len(Y), Y.dtype) if root is None else root
            first = ones @ Y if self.center else np.zeros(Y.shape[1])
            return first, Y.T @ Y  # BLAS knows a matrix times itself: half the work

    def _centred(self, X: np.ndarray) -> np.ndarray:
        """The rows about the provisional centre: X itself where there is nothing to do."""
        Y = X if self.unit == 1.0 else X * X.dtype.type(self.unit)
        assert self.shift is not None
        with np.errstate(over="ignore", invalid="ignore"):
            return Y - self.shift.astype(Y.dtype) if self.shift.any() else Y

    def _add_sparse(self, X: Any, weight: np.ndarray | None) -> None:
        root = None if weight is None else np.sqrt(weight)
        rows = MappedRows(X.astype(np.float64), RowMap(np.dtype(np.float64), row_scale=root, unit=self.unit))
        self.first += rows.X.T @ (np.ones(X.shape[0]) if root is None else root)
        self.second += rows.square()

    def _merge_more(self, other: GramSum) -> None:
        """Move the other sums to this centre and unit, and add them."""
        if other.shift is None:
            return
        if self.shift is None:
            self.shift, self.unit, self.dtype, self.sparse = other.shift, other.unit, other.dtype, other.sparse
        ratio = self.unit / other.unit
        delta, first = other.shift * ratio - self.shift, other.first * ratio
        along = np.outer(delta, first)
        self.second += other.second * ratio * ratio + along + along.T + other.total * np.outer(delta, delta)
        self.first += first + other.total * delta

    def _found(self) -> ProvisionalSums | None:
        return (
            None if self.shift is None else ProvisionalSums(self.second, self.first, self.center, self.unit, self.dtype)
        )


class SquareSum:
    """Accumulates ``Z^T Z`` in double precision.

    Parameters
    ----------
    row_map : RowMap
        How rows become rows of Z.
    d : int
        Number of columns.
    implicit : bool
        Whether sparse rows may be centred late, after their product.
    n_threads : int
        Threads that square.
    """

    def __init__(self, row_map: RowMap, d: int, implicit: bool, n_threads: int):
        self.row_map, self.implicit, self.n_threads = row_map, implicit, n_threads
        self.sum = np.zeros((d, d))

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        for part in self._squares(start, X):
            self.sum += part

    def _squares(self, start: int, X: Any) -> Iterator[np.ndarray]:
        """The squares of parts of a block, or of all of it where zeros are worth leaving out."""

        def square(lo: int, hi: int) -> np.ndarray:
            rows = (X[lo:hi].toarray() if densely and sp.issparse(X) else X[lo:hi]).astype(np.float64)
            return MappedRows(rows, self.row_map, slice(start + lo, start + hi)).square()

        n = X.shape[0]
        densely = not (self.implicit and few_entries(X))
        step = CHUNK_ROWS if densely else n
        for first in range(0, n, step * self.n_threads):  # no more results than threads at a time
            lows = range(first, min(first + step * self.n_threads, n), step)
            yield from in_parallel(self.n_threads, square, lows, [min(lo + step, n) for lo in lows])

    def merge(self, other: SquareSum) -> None:
        """Take in what another accumulator has seen."""
        self.sum += other.sum

    def result(self) -> np.ndarray:
        """``Z^T Z``."""
        return self.sum


def few_entries(X: Any) -> bool:
    """Whether a block is so sparse that zeros are worth leaving out of products of its columns."""
    return bool(sp.issparse(X)) and X.nnz < SPARSE * X.shape[0] * X.shape[1]


def _far_from_zero(mean: np.ndarray, X: Any) -> bool:
    """Whether the mean of some column is larger than its deviation."""
    squares = np.square((X.toarray() if sp.issparse(X) else X).astype(np.float64))
    return not (mean**2 <= squares.mean(axis=0) / 2).all()
