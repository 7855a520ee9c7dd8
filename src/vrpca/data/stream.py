"""A streamed basis: the best rank-m factor of all rows seen so far, a few rows at a time, in one pass.

Incremental SVD: ``B <- the m leading rows of [B; next rows]``, through the Gram matrix of the two. There is no step
size and nothing to tune; rows are centred, scaled and weighted on the way and never densified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vrpca.data.first_pass import Finding, Moments, MomentSum, Problem, first_unit
from vrpca.data.row_map import MappedRows, RowMap
from vrpca.data.source import pieces
from vrpca.typing import Array, Rng

ROWS_PER_VECTOR = 2  # rows that are taken in at a time, per vector that is kept: the eigenproblem has order 3 m then


@dataclass(frozen=True)
class Basis(Finding):
    """The vectors of a stream, as columns."""

    vectors: Array


class Stream:
    """The m leading right singular vectors of a stream of rows, approximately."""

    def __init__(self, width: int):
        self.width = width  # m
        self.B: Array | None = None
        self.broken = False  # by numbers that overflow

    def add(self, X: Any, row_map: RowMap, start: int = 0) -> None:
        """Take in the rows of X; the map of the first one is the map's row number `start`."""
        step = ROWS_PER_VECTOR * self.width
        for lo in range(0, X.shape[0], step):
            hi = min(lo + step, X.shape[0])
            self._absorb(MappedRows(X[lo:hi], row_map, slice(start + lo, start + hi)))

    def merge(self, other: Stream, ratio: float = 1.0) -> None:
        """Take in another stream's vectors, times a ratio, as rows."""
        self.broken = self.broken or other.broken
        if other.B is not None:
            self._absorb(MappedRows(other.B, RowMap(other.B.dtype, unit=ratio)))

    def _absorb(self, rows: MappedRows) -> None:
        B = np.zeros((0, rows.X.shape[1]), rows.X.dtype) if self.B is None else self.B
        cross = rows.times(B)
        gram = np.block([[B @ B.T, cross.T], [cross, rows.inner_products()]])
        self.broken = self.broken or not bool(np.isfinite(gram).all())
        if not self.broken:
            Y = _leading(gram, self.width)
            self.B = Y[: len(B)].T @ B
            self.B += rows.combined(Y[len(B) :])

    def basis(self) -> Array | None:
        """The vectors as columns of length 1, leading ones first; fewer than m if the rows have a smaller rank.

        None where there is nothing to build on: no rows, or numbers too large to be squared.
        """
        if self.B is None or self.broken:
            return None
        norms = np.linalg.norm(self.B, axis=1)
        there = norms > len(self.B) * np.finfo(self.B.dtype).eps * norms.max(initial=0.0)
        return np.ascontiguousarray((self.B[there] / norms[there, None]).T)


class MappedStream:
    """Accumulates a stream of mapped rows, a piece at a time in random order."""

    def __init__(self, row_map: RowMap, width: int, rng: Rng):
        self.row_map, self.rng = row_map, rng
        self.stream = Stream(width)

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        for lo, piece in pieces(X, self.rng):
            self.stream.add(piece, self.row_map, start + lo)

    def merge(self, other: MappedStream) -> None:
        """Take in what another accumulator has seen."""
        self.stream.merge(other.stream)

    def result(self) -> Array | None:
        """The vectors as columns, or None."""
        return self.stream.basis()


class StreamSum(MomentSum):
    """Accumulates a stream along with the moments, centred by the mean so far, in random order."""

    def __init__(self, problem: Problem, width: int, rng: Rng):
        super().__init__(problem)
        self.stream, self.rng = Stream(width), rng
        self.least_rows = ROWS_PER_VECTOR * width
        self.unit: float | None = None

    def _add_more(self, X: Any, root: Array | None) -> None:
        self.unit = first_unit(X) if self.unit is None else self.unit
        mean = self.running_mean if self.center else None
        self.stream.add(X, RowMap(X.dtype, None, mean, root, None, self.unit))

    def _merge_more(self, other: StreamSum) -> None:
        """Take in the other vectors; and the difference of the two means, since each was centred by its own."""
        if other.unit is None:
            return
        self.unit = other.unit if self.unit is None else self.unit
        self.stream.merge(other.stream, self.unit / other.unit)
        if self.center and self.total > 0 and self.stream.B is not None:
            weight = self.total * (other.total / (self.total + other.total))
            apart = np.sqrt(weight) * (other.running_mean - self.running_mean)
            row = apart[None].astype(self.stream.B.dtype)
            self.stream.add(row, RowMap(row.dtype, unit=self.unit))

    def finding(self, moments: Moments, col_scale: Array | None, trace: float, support: Array | None) -> Basis | None:
        """The basis; its vectors are the same in all units."""
        basis = self.stream.basis()
        return None if basis is None else Basis(basis)


def _leading(gram: Array, m: int) -> Array:
    """The m leading eigenvectors, as columns, largest first."""
    size = len(gram)
    scale = max(float(np.max(np.abs(gram.diagonal()))), np.finfo(gram.dtype).tiny)
    vectors = np.linalg.eigh(gram.astype(np.float64) / scale)[1]
    return np.ascontiguousarray(vectors[:, ::-1][:, : min(m, size)], dtype=gram.dtype)
