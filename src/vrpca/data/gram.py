"""X^T X, centred, by symmetric updates block after block: in one reading, shared with that of the moments."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.mapped import MappedRows
from vrpca.data.moments import Moments, first_unit
from vrpca.data.rowmap import RowMap
from vrpca.threads import in_parallel

if TYPE_CHECKING:
    from vrpca.data.view import View

NARROW = 200  # columns up to which a kernel of ours is ahead of BLAS
HEAD = 1024  # rows that tell how large a mean is
SPARSE = 0.1  # density below which a product of sparse matrices is cheaper than one of dense blocks
CANCELS = 1e6  # square of a mean, over the variance, that may be subtracted in double precision


class GramSum:
    """``sum w_i (x_i - c) (x_i - c)^T`` for a provisional centre c, corrected in the end.

    The centre is the mean of the first rows, so that a large mean cancels before anything is squared: a difference from
    it is as exact as the number type allows, and every block's sum is added up in double precision. A mean that is not
    larger than the deviation is left alone: zero is as good a centre.
    """

    def __init__(self, d: int, center: bool, n_threads: int):
        self.center, self.n_threads = center, n_threads
        self.rows_read = 0
        self.rng: np.random.Generator | None = None
        self.least = max(8192, d)  # adding to the sum costs d^2, whatever the number of rows
        self.sum = np.zeros((d, d))
        self.first = np.zeros(d)  # sum w_i (x_i - c)
        self.shift: np.ndarray | None = None
        self.dtype: np.dtype
        self.sparse = False
        self.unit = 1.0

    def see(self, X: Any, weight: np.ndarray | None, mean: np.ndarray) -> None:
        """Take in rows of X."""
        if self.shift is None:
            self._begin(X, mean)
        root = None if weight is None else np.sqrt(weight).astype(X.dtype)
        if self.sparse:
            self._add_sparse(X, weight)
        elif X.shape[1] <= NARROW:
            self._add_narrow(X.toarray() if sp.issparse(X) else X, weight)
        else:
            self._add_wide(X, root)

    def _add_narrow(self, X: np.ndarray, weight: np.ndarray | None) -> None:
        assert self.shift is not None
        shift = self.shift / self.unit if self.shift.any() else None
        root = None if weight is None else np.sqrt(weight)
        rows = kernels.make_rows(X, None, shift, root, None, self.unit)
        kernels.gram(rows, self.sum, self.first, self.n_threads)

    def _add_wide(self, X: Any, root: np.ndarray | None) -> None:
        cuts = [X.shape[0] * p // self.n_threads for p in range(self.n_threads + 1)]
        parts = [slice(lo, hi) for lo, hi in itertools.pairwise(cuts)]
        roots = [None if root is None else root[part] for part in parts]
        for first, square in in_parallel(self.n_threads, self._sums, [X[part] for part in parts], roots):
            self.first += first
            self.sum += square

    def _begin(self, X: Any, mean: np.ndarray) -> None:
        """What the first rows say: how large numbers are, where their centre is, whether they are sparse."""
        self.unit = first_unit(X)
        if 1e-6 < self.unit < 1e6:  # nothing can overflow
            self.unit = 1.0
        self.sparse = few_entries(X)
        centre = mean * self.unit
        shifted = self.center and not self.sparse and _far_from_zero(centre, X[:HEAD] * self.unit)
        self.shift, self.dtype = centre if shifted else np.zeros(len(mean)), X.dtype

    def _sums(self, X: Any, root: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        Y = self._centred(X.toarray() if sp.issparse(X) else X)
        if root is not None:
            Y = Y * root[:, None]
        with np.errstate(over="ignore", invalid="ignore"):  # noticed in the end
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
        rows = MappedRows(X.astype(np.float64), RowMap(row_scale=root), self.unit)
        self.first += rows.X.T @ (np.ones(X.shape[0]) if root is None else root)
        self.sum += rows.square()

    def tell(self, view: View, moments: Moments, kept: np.ndarray | None) -> None:
        """Let the view know A."""
        view.A = self.matrix(moments, view.map.col_scale, kept)

    def matrix(
        self, moments: Moments, col_scale: np.ndarray | None, kept: np.ndarray | None = None
    ) -> np.ndarray | None:
        """``A`` of the columns that are kept, scaled and with trace 1, as a view has it.

        None if squares of numbers so different in size overflow or vanish, or if the mean is so large that it does not
        cancel.
        """
        if self._vanishes(moments, col_scale is not None):
            return None
        A = self.sum / moments.total
        if self.center:
            delta = self.first / moments.total
            A -= np.outer(delta, delta)
            if (delta**2 > CANCELS * np.abs(A.diagonal())).any():
                return None
        if kept is not None:
            A = A[np.ix_(kept, kept)]
        if col_scale is not None:
            A *= np.outer(col_scale / col_scale.max(), col_scale / col_scale.max())
        trace = np.trace(A)
        return A / trace if np.isfinite(A).all() and trace > 0 and moments.readings == 1 else None

    def _vanishes(self, moments: Moments, scaled: bool) -> bool:
        """Whether squares of a column that matters are near the smallest numbers of the data's type."""
        square = moments.variance if self.center else moments.second
        matters = square > (0.0 if scaled else 1e-14 * square.sum())
        summed = square * (self.unit / moments.factor) ** 2
        return bool((summed[matters] < np.finfo(self.dtype).tiny / np.finfo(self.dtype).eps ** 2).any())


def few_entries(X: Any) -> bool:
    """Whether a block is so sparse that zeros are worth leaving out of products of its columns."""
    return bool(sp.issparse(X)) and X.nnz < SPARSE * X.shape[0] * X.shape[1]


def _far_from_zero(mean: np.ndarray, X: Any) -> bool:
    """Whether the mean of some column is larger than its deviation."""
    squares = np.square((X.toarray() if sp.issparse(X) else X).astype(np.float64))
    return not (mean**2 <= squares.mean(axis=0) / 2).all()
