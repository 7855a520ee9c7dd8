"""Products ``A W``, summed up row by row.

`ProductSum` is a pass of its own. `SampleProductSum` multiplies a block that is known beforehand, a sample's leading
vectors, during the first pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vrpca import kernels
from vrpca.data.first_pass import Finding, Moments, MomentSum, first_unit
from vrpca.data.gram import CANCELS
from vrpca.data.row_map import RowMap
from vrpca.linalg import aligned_zeros

MEAN_ROUNDING = 1e-12  # relative rounding of means: sums in double precision, with room for many rows
PIECE_ENTRIES = 2**21  # entries of the rows that are multiplied at a time: 8 MB stay in the cache, and are worth a call


class ProductSum:
    """Accumulates ``U = Z^T (Z W)``.

    Parameters
    ----------
    row_map : RowMap
        How rows become rows of Z.
    W : numpy.ndarray
        The block, d x l.
    n_threads : int
        Threads of the products.
    P : numpy.ndarray or None
        If given, a matrix of zeros with a row for every row of the source: it receives ``Z W``.
    out : numpy.ndarray or None
        Room for U.
    """

    def __init__(
        self,
        row_map: RowMap,
        W: np.ndarray,
        n_threads: int,
        P: np.ndarray | None = None,
        out: np.ndarray | None = None,
    ):
        self.row_map, self.W, self.n_threads, self.P = row_map, W, n_threads, P
        self.U = aligned_zeros(W.shape, W.dtype) if out is None else out
        self.U[...] = 0

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        P = None if self.P is None else self.P[start : start + X.shape[0]]
        kernels.product(self.row_map.rows_of_block(start, X), self.W, self.U, P, self.n_threads)

    def merge(self, other: ProductSum) -> None:
        """Take in what another accumulator has seen."""
        self.U += other.U
        if self.P is not None and other.P is not None:
            self.P += other.P  # rows that one of them has not seen are zero there

    def result(self) -> np.ndarray:
        """``Z^T Z W``."""
        return self.U


@dataclass(frozen=True)
class Pair(Finding):
    """An orthonormal block W, and its image U = A W."""

    W: np.ndarray
    U: np.ndarray


@dataclass(frozen=True)
class SampleProduct(Finding):
    """``sum w_i (x_i - c) (x_i - c)^T W``, times ``unit^2``, for a provisional centre c."""

    W: np.ndarray
    sum: np.ndarray
    unit: float
    centre: np.ndarray | None

    def of_view(
        self, moments: Moments, col_scale: np.ndarray | None, trace: float, support: np.ndarray | None
    ) -> Pair | None:
        """The block made orthonormal, without columns that hold nothing, and its product with A of trace 1.

        None where numbers overflow, where the centre was so far from the mean that the difference does not cancel, or
        where the block's vectors are dependent.
        """
        ratio = self.unit / moments.factor  # the square of one of the two may overflow
        W, U = self.W.astype(np.float64), self.sum / ratio / ratio / moments.total
        if self.centre is not None:
            delta = moments.mean - self.centre * moments.factor
            if (delta**2 > CANCELS * moments.variance + (MEAN_ROUNDING * moments.mean) ** 2).any():
                return None
            U -= np.outer(delta, delta @ W)
        if support is not None:
            W[~support] = 0
        try:
            factor = np.linalg.cholesky(W.T @ W)
        except np.linalg.LinAlgError:
            return None
        turn = np.linalg.inv(factor).T
        W, U = W @ turn, U @ (turn / trace)
        return Pair(W.astype(self.W.dtype), U.astype(self.W.dtype)) if np.isfinite(U).all() else None


class SampleProductSum(MomentSum):
    """Accumulates the product of A with a block along with the moments.

    Parameters
    ----------
    W : numpy.ndarray
        The block, d x l.
    weights, about_zero, n_threads
        As for `MomentSum`.
    centre : numpy.ndarray or None
        A guess of the mean; None if nothing is to be centred.
    rows_sampled : int
        Rows that were read to find the block.
    """

    def __init__(
        self,
        W: np.ndarray,
        weights: np.ndarray | None,
        about_zero: bool,
        n_threads: int,
        centre: np.ndarray | None,
        rows_sampled: int,
    ):
        super().__init__(len(W), weights, about_zero, n_threads)
        self.W, self.centre, self.rows_sampled = np.ascontiguousarray(W), centre, rows_sampled
        self.least_rows = max(64, PIECE_ENTRIES // len(W))
        self.sum = np.zeros(W.shape)
        self.unit: float | None = None

    def _add_more(self, X: Any, weight: np.ndarray | None) -> None:
        self.unit = first_unit(X) if self.unit is None else self.unit
        root = None if weight is None else np.sqrt(weight)
        U = np.zeros_like(self.W)
        rows = kernels.make_rows(X, None, self.centre, root, None, self.unit)
        kernels.product(rows, self.W, U, None, self.n_threads)
        self.sum += U

    def _merge_more(self, other: SampleProductSum) -> None:
        if other.unit is not None:
            self.unit = other.unit if self.unit is None else self.unit
            ratio = self.unit / other.unit
            self.sum += other.sum * ratio * ratio

    def _found(self) -> SampleProduct | None:
        return None if self.unit is None else SampleProduct(self.W, self.sum, self.unit, self.centre)
