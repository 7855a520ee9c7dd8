"""Projections onto components, block by block: what `transform` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.memory import let_go_of_pages
from vrpca.data.open import as_source
from vrpca.data.source import Reduction, Source, check_finite, errors_named
from vrpca.errors import DataError

WRITTEN = 16 << 20  # bytes of scores between two times that pages of a mapped file are let go: as many as a block has
ROWS = 1024  # dense rows centred at a time: their copy stays in the cache
SPARSE_ROWS = 1 << 18  # sparse rows at a time. Slices are copies, so there should be few; scores need not fit in memory


def scores(
    source: Source,
    components: np.ndarray,
    mean: np.ndarray | None,
    scale: np.ndarray | None,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """``((X - mean) / scale) @ components.T`` without a centred or dense copy of X, in `out` if given."""
    n, features = source.shape
    if features != components.shape[1]:
        raise DataError(f"X has {features} features, but the model was fitted on {components.shape[1]}.")
    axes = components.T if scale is None else (components / scale).T
    if out is None:
        out = np.zeros((n, axes.shape[1]), np.result_type(source.dtype, components.dtype))
    with errors_named(source):
        if source.by_columns:
            return source.transposed().reduce(ScoreColumns(axes, mean, out)).result()
        found = source.reduce(ScoreRows(axes, mean, out))
    if found.rows_seen != n:
        raise DataError(f"The source has {n} rows, but its blocks have {found.rows_seen}.")
    return found.result()


@dataclass(frozen=True)
class ScoresOfChunk:
    """The scores of a chunk of rows, whitened if asked for."""

    components: np.ndarray
    mean: np.ndarray | None
    scale: np.ndarray | None
    whitening: np.ndarray | None
    dtype: np.dtype

    def __call__(self, chunk: Any) -> np.ndarray:
        """The scores; none of a chunk without rows."""
        if chunk.shape[0] == 0:
            return np.zeros((0, len(self.components)), self.dtype)
        found = scores(as_source(chunk), self.components, self.mean, self.scale)
        found = found if self.whitening is None else found * self.whitening
        return found.astype(self.dtype, copy=False)


class ScoreRows(Reduction):
    """Accumulates ``(x_i - mean) axes`` for every row."""

    inputs = ("axes", "mean")
    row_sums = ("out",)

    def __init__(self, axes: np.ndarray, mean: np.ndarray | None, out: np.ndarray):
        self.axes, self.mean = axes, mean
        self.out = out  # zeros
        self.rows_seen = self.written = 0

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        self.rows_seen += X.shape[0]
        rows = SPARSE_ROWS if sp.issparse(X) else ROWS
        for lo in range(0, X.shape[0], rows):
            block = X[lo : lo + rows] if X.shape[0] > rows else X
            part = self._projected(block)
            if not np.isfinite(part).all():
                check_finite(start + lo, block)
                raise DataError("X holds numbers so large that its scores overflow. Divide them by a constant.")
            self.out[start + lo : start + lo + len(part)] = part
            self.written += part.nbytes
            if self.written > WRITTEN:  # if the scores lie in a mapped file, its pages need not stay in memory
                let_go_of_pages(self.out)
                self.written = 0

    def _projected(self, X: Any) -> np.ndarray:
        if self.mean is None:
            return X @ self.axes
        return X @ self.axes - self.mean @ self.axes if sp.issparse(X) else (X - self.mean) @ self.axes

    def merge(self, other: ScoreRows) -> None:
        """Take in what another accumulator has seen."""
        self.rows_seen += other.rows_seen
        self.join("out", other)

    def result(self) -> np.ndarray:
        """The scores."""
        return self.out


class ScoreColumns:
    """Accumulates the same where a block has columns of the data as its rows: scores are sums over all columns."""

    def __init__(self, axes: np.ndarray, mean: np.ndarray | None, out: np.ndarray):
        self.axes, self.mean = axes, mean
        self.out = out  # zeros
        self.columns_seen = 0

    def add(self, start: int, X: Any) -> None:
        """Take in some columns, a part of their rows at a time."""
        check_finite(start, X, ("column", "row"))
        self.columns_seen += X.shape[0]
        where = slice(start, start + X.shape[0])
        axes, mean = self.axes[where], None if self.mean is None else self.mean[where]
        if sp.issparse(X):
            self.out += X.T @ axes if mean is None else X.T @ axes - mean @ axes
            return
        for lo in range(0, X.shape[1], ROWS):
            rows = X[:, lo : lo + ROWS]
            self.out[lo : lo + ROWS] += (rows if mean is None else rows - mean[:, None]).T @ axes

    def merge(self, other: ScoreColumns) -> None:
        """Take in what another accumulator has seen."""
        self.columns_seen += other.columns_seen
        self.out += other.out

    def result(self) -> np.ndarray:
        """The scores."""
        if self.columns_seen != len(self.axes):
            raise DataError(f"The source has {len(self.axes)} columns, but its blocks have {self.columns_seen}.")
        return self.out
