"""A streamed basis: the best rank-m factor of all rows seen so far, piece by piece, in one reading.

Incremental SVD: ``B <- the m leading rows of [B; next rows]``, through the Gram matrix of the two. There is no step
size and nothing to tune; rows are centred, scaled and weighted on the way and never densified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vrpca.data.mapped import MappedRows
from vrpca.data.moments import first_unit
from vrpca.data.rowmap import RowMap

if TYPE_CHECKING:
    from vrpca.data.moments import Moments
    from vrpca.data.view import View

ROWS_PER_VECTOR = 2  # rows that are taken in at a time, per vector that is kept


class Stream:
    """The m leading right singular vectors of a stream of rows, approximately.

    Parameters
    ----------
    columns : int
        Number of vectors that are kept, m.
    """

    def __init__(self, columns: int):
        self.columns = columns
        self.B: np.ndarray | None = None
        self.broken = False  # by numbers that overflow

    def see(self, X: Any, row_map: RowMap, factor: float = 1.0) -> None:
        """Take in the rows of X as mapped, times a factor."""
        step = ROWS_PER_VECTOR * self.columns
        for lo in range(0, X.shape[0], step):
            rows = slice(lo, min(lo + step, X.shape[0]))
            self._absorb(MappedRows(X[rows], row_map.cut(rows), factor))

    def _absorb(self, rows: MappedRows) -> None:
        B = np.zeros((0, rows.X.shape[1]), rows.X.dtype) if self.B is None else self.B
        cross = rows.times(B)
        gram = np.block([[B @ B.T, cross.T], [cross, rows.gram()]])
        self.broken = self.broken or not bool(np.isfinite(gram).all())
        if not self.broken:
            Y = _leading(gram, self.columns)
            self.B = Y[: len(B)].T @ B
            self.B += rows.combined(Y[len(B) :])

    def basis(self) -> np.ndarray | None:
        """The vectors as columns of length 1, leading ones first; fewer than m if the rows have a smaller rank.

        None where there is nothing to build on: no rows, or numbers too large to be squared.
        """
        if self.B is None or self.broken:
            return None
        norms = np.linalg.norm(self.B, axis=1)
        there = norms > len(self.B) * np.finfo(self.B.dtype).eps * norms.max(initial=0.0)
        return np.ascontiguousarray((self.B[there] / norms[there, None]).T)


class StreamWitness:
    """Shows a stream the rows while the moments are read, centred by the mean so far, in random order."""

    def __init__(self, stream: Stream, center: bool, rng: np.random.Generator):
        self.stream, self.center = stream, center
        self.rng: np.random.Generator | None = rng
        self.least = ROWS_PER_VECTOR * stream.columns
        self.rows_read = 0
        self.unit: float | None = None

    def see(self, X: Any, weight: np.ndarray | None, mean: np.ndarray) -> None:
        """Take in rows of X; the first ones say what numbers are to be expected."""
        self.unit = first_unit(X) if self.unit is None else self.unit
        root = None if weight is None else np.sqrt(weight)
        self.stream.see(X, RowMap(None, mean if self.center else None, root), self.unit)

    def tell(self, view: View, moments: Moments, kept: np.ndarray | None) -> np.ndarray | None:
        """The basis is a start."""
        basis = self.stream.basis()
        return basis if basis is None or kept is None else basis[kept]


def _leading(gram: np.ndarray, m: int) -> np.ndarray:
    """The m leading eigenvectors, as columns, largest first."""
    size = len(gram)
    scale = max(float(np.max(np.abs(gram.diagonal()))), np.finfo(gram.dtype).tiny)
    vectors = np.linalg.eigh(gram.astype(np.float64) / scale)[1]
    return np.ascontiguousarray(vectors[:, ::-1][:, : min(m, size)], dtype=gram.dtype)
