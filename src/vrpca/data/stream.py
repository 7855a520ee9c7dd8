"""A streamed basis: a rank-m factor of all rows seen so far, a batch of rows at a time, in one pass.

History PCA (Yang, Hsieh and Wang 2018) with Nystrom's formula: each batch, together with the factor of the rows before
it, is multiplied once by the vectors so far. There is no step size. Rows are centred, scaled and weighted on the way,
and never densified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from vrpca import kernels
from vrpca.data.first_pass import Finding, Moments, MomentSum, Problem, first_unit
from vrpca.data.row_map import OfMappedRows, RowMap
from vrpca.data.source import Reduction, pieces
from vrpca.linalg import aligned_copy, aligned_zeros, cross, orthonormalise, ritz
from vrpca.threads import blas_threads
from vrpca.typing import Array, Rng

# Rows of a batch per vector that is kept. On MNIST (k = 6, m = 120), 4 to 32 of them leave the same error after the
# next pass, within a factor of 3. Fewer cost more arithmetic with the vectors; on RCV1, 32 leave twice the error of 16.
ROWS_PER_VECTOR = 16
FIRST_TURNS = 3  # multiplications by the first batch: the vectors are random before


@dataclass(frozen=True)
class Basis(Finding):
    """The vectors of a stream, as columns."""

    vectors: Array


class Stream:
    """The m leading right singular vectors of a stream of rows, approximately.

    What is known of the rows so far is ``S = sum z z^T ~ V diag(theta) V^T``.
    """

    def __init__(self, width: int, rng: Rng, n_threads: int = 1):
        self.width, self.rng, self.n_threads = width, rng, n_threads  # the width is m
        self.V: Array | None = None  # orthonormal columns, leading ones first
        self.theta = np.zeros(0)
        self.broken = False  # by numbers that overflow

    def __sizeof__(self) -> int:
        """Bytes with the vectors."""
        return object.__sizeof__(self) + (0 if self.V is None else self.V.nbytes)

    def add(self, X: Any, row_map: RowMap, start: int = 0) -> None:
        """Take in the rows of X; the map of the first one is the map's row number `start`."""
        step = ROWS_PER_VECTOR * self.width
        for lo in range(0, X.shape[0], step):
            hi = min(lo + step, X.shape[0])
            with blas_threads(self.n_threads):
                self._absorb(row_map.rows(slice(start + lo, start + hi), X[lo:hi]), X.shape[1], X.dtype)

    def merge(self, other: Stream, ratio: float = 1.0) -> None:
        """Take in another stream's vectors, times a ratio, as rows."""
        self.broken = self.broken or other.broken
        if other.V is not None and self.V is None:
            self.V, self.theta = other.V, other.theta * ratio * ratio
        elif other.V is not None:
            B = np.ascontiguousarray((other.V * np.sqrt(other.theta)).T, dtype=other.V.dtype)
            self.add(B, RowMap(B.dtype, unit=ratio))

    def _absorb(self, rows: Any, d: int, dtype: np.dtype) -> None:
        """Multiply the vectors by S with these rows in it, and keep what Nystrom's formula makes of the product."""
        if self.broken:
            return
        W, turns = self.V, 0
        if W is None or W.shape[1] < min(self.width, d):
            W, turns = self._filled(d, dtype), FIRST_TURNS
        for _ in range(turns):
            W = self._times(rows, W)
            if not np.isfinite(W).all():
                break
            orthonormalise(W)
        U = self._times(rows, W)
        self.broken = not np.isfinite(U).all()
        if not self.broken:
            self._keep(W, U)

    def _filled(self, d: int, dtype: np.dtype) -> Array:
        """The vectors so far, and random ones up to m of them."""
        W = aligned_zeros((d, min(self.width, d)), dtype)
        self.rng.standard_normal(out=W, dtype=dtype)
        if self.V is not None:
            W[:, : self.V.shape[1]] = self.V
        orthonormalise(W)
        return W

    def _times(self, rows: Any, W: Array) -> Array:
        """``S W``, with these rows in S."""
        U = aligned_zeros(W.shape, W.dtype)
        kernels.product(rows, W, U, None, self.n_threads)
        if self.V is not None:
            U += (self.V * self.theta.astype(W.dtype)) @ (self.V.T @ W)
        return U

    def _keep(self, W: Array, U: Array) -> None:
        """Nystrom: ``S ~ U (W^T U)^+ U^T`` for ``U = S W``, which is as good as one more multiplication by S."""
        small = np.finfo(W.dtype).eps * W.shape[1]
        values, Q = ritz(cross(W, U))
        there = values > small * max(values[0], 0.0)
        B = np.ascontiguousarray(U @ (Q[:, there] / np.sqrt(values[there])).astype(W.dtype))  # S ~ B B^T
        values, Q = ritz(cross(B, B))
        there = values > small * values.max(initial=0.0)
        self.theta = values[there]
        self.V = aligned_copy(B @ (Q[:, there] / np.sqrt(self.theta)).astype(W.dtype))

    def basis(self) -> Array | None:
        """The vectors as columns of length 1, leading ones first; fewer than m if the rows have a smaller rank.

        None where there is nothing to build on: no rows, or numbers too large to be squared.
        """
        return None if self.broken or self.V is None else self.V


class Streaming(Reduction):
    """What accumulators of a stream share: the stream works with the threads, and draws, where the rows lie."""

    stream: Stream
    rng: Rng | None

    def opened(self, rows: slice, known: Any, n_threads: int) -> Self:
        """An empty accumulator for these rows alone."""
        other = super().opened(rows, known, n_threads)
        other.stream.n_threads = n_threads
        return other

    def reseed(self, rng: Rng) -> None:
        """Draw from this generator."""
        self.rng = self.stream.rng = rng


class MappedStream(Streaming, OfMappedRows):
    """Accumulates a stream of mapped rows, a piece at a time in random order."""

    inputs = ("row_map",)

    def __init__(self, row_map: RowMap, width: int, rng: Rng, n_threads: int):
        self.row_map, self.rng = row_map, rng
        self.stream = Stream(width, rng, n_threads)

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        for lo, piece in pieces(X, self.rng, ROWS_PER_VECTOR * self.stream.width):
            self.stream.add(piece, self.row_map, start + lo)

    def merge(self, other: MappedStream) -> None:
        """Take in what another accumulator has seen."""
        self.stream.merge(other.stream)

    def result(self) -> Array | None:
        """The vectors as columns, or None."""
        return self.stream.basis()


class StreamSum(Streaming, MomentSum):
    """Accumulates a stream along with the moments, centred by the mean so far, in random order."""

    def __init__(self, problem: Problem, width: int, rng: Rng):
        super().__init__(problem)
        self.stream, self.rng = Stream(width, rng, problem.n_threads), rng
        self.least_rows = ROWS_PER_VECTOR * width
        self.unit: float | None = None

    def _add_more(self, X: Any, root: Array | None) -> None:
        self.unit = first_unit(X, root) if self.unit is None else self.unit
        mean = self.running_mean if self.center else None
        self.stream.add(X, RowMap(X.dtype, None, mean, root, None, self.unit))

    def _merge_more(self, other: StreamSum) -> None:
        """Take in the other vectors; and the difference of the two means, since each was centred by its own."""
        if other.unit is None:
            return
        self.unit = other.unit if self.unit is None else self.unit
        self.stream.merge(other.stream, self.unit / other.unit)
        if self.center and self.total > 0 and self.stream.V is not None:
            weight = self.total * (other.total / (self.total + other.total))
            apart = np.sqrt(weight) * (other.running_mean - self.running_mean)
            row = apart[None].astype(self.stream.V.dtype)
            self.stream.add(row, RowMap(row.dtype, unit=self.unit))

    def finding(self, moments: Moments, col_scale: Array | None, trace: float, support: Array | None) -> Basis | None:
        """The basis; its vectors are the same in all units."""
        basis = self.stream.basis()
        return None if basis is None else Basis(basis)
