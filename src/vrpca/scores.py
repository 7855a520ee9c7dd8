"""Projections onto components, block by block: what `transform` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from vrpca.data.memory import let_go_of_pages
from vrpca.data.open import as_source
from vrpca.data.source import Accumulator, ArraySum, Reduction, Source, check_finite, errors_named, naming_columns
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
    beside: Any = None,
) -> np.ndarray:
    """``((X - mean) / scale) @ components.T`` without a centred or dense copy of X, in `out` if given.

    `beside` is another accumulator that sees the same rows, or columns where the source is walked by columns.
    """
    n, features = source.shape
    if features != components.shape[1]:
        raise DataError(f"X has {features} features, but the model was fitted on {components.shape[1]}.")
    axes = components.T if scale is None else (components / scale).T
    if out is None:
        out = np.zeros((n, axes.shape[1]), np.result_type(source.dtype, components.dtype))
    with errors_named(source), naming_columns(source.column_names):
        if source.by_columns:
            return _reduced(source.transposed(), ScoreColumns(axes, mean, out), beside).result()
        found = _reduced(source, ScoreRows(axes, mean, out), beside)
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


A = TypeVar("A", bound=Accumulator)


def _reduced(source: Source, accumulator: A, beside: Any = None) -> A:
    """One pass that feeds an accumulator, and another one beside it."""
    if beside is None:
        return source.reduce(accumulator)
    return source.reduce(Both(accumulator, beside)).first


class Both(Reduction):
    """Two accumulators that see the same blocks, and travel together."""

    def __init__(self, first: Any, second: Any):
        self.first, self.second = first, second

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        self.first.add(start, X)
        self.second.add(start, X)

    def merge(self, other: Both) -> None:
        """Take in what another pair has seen."""
        self.first.merge(other.first)
        self.second.merge(other.second)

    def result(self) -> tuple[Any, Any]:
        """The results of both."""
        return self.first.result(), self.second.result()

    def shared(self) -> Both:
        """Copies of both to send."""
        return Both(self.first.shared(), self.second.shared())

    def of_rows(self, rows: slice) -> Any:
        """What both have to know of some rows."""
        return self.first.of_rows(rows), self.second.of_rows(rows)

    def opened(self, rows: slice, known: Any, n_threads: int) -> Both:
        """Empty ones for these rows alone."""
        first, second = known
        other = Both(self.first.opened(rows, first, n_threads), self.second.opened(rows, second, n_threads))
        other.placed, other.first_row = True, rows.start
        return other

    def closed(self) -> Both:
        """Both without their inputs."""
        self.first.closed()
        self.second.closed()
        return self


def score_variance(source: Source, components: np.ndarray, mean: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """The (weighted) mean square of ``(X - mean) @ components.T`` along each component, by one pass."""
    if source.by_columns:
        projected = scores(source, components.astype(np.float64), mean, None)
        return np.average(projected**2, axis=0, weights=weights)
    return source.reduce(ScoreSquares(components.T, mean, weights)).result()


def projected(X: Any, axes: np.ndarray, mean: np.ndarray | None) -> np.ndarray:
    """``(X - mean) @ axes`` of some rows; sparse ones stay sparse."""
    if mean is None:
        return X @ axes
    return X @ axes - mean @ axes if sp.issparse(X) else (X - mean) @ axes


class ScoreSquares(ArraySum):
    """Accumulates the (weighted) sum of the squares of ``(x_i - mean) axes``."""

    inputs = ("axes", "mean")
    per_row = ("weights",)

    def __init__(self, axes: np.ndarray, mean: np.ndarray, weights: np.ndarray | None):
        self.axes, self.mean, self.weights = axes.astype(np.float64), mean, weights
        self.out, self.total = np.zeros(axes.shape[1]), 0.0

    def add(self, start: int, X: Any) -> None:
        """Take in a block, a few rows at a time."""
        rows = SPARSE_ROWS if sp.issparse(X) else ROWS
        for lo in range(0, X.shape[0], rows):
            part = projected(X[lo : lo + rows], self.axes, self.mean)
            weight = np.ones(len(part)) if self.weights is None else self.weights[start + lo : start + lo + len(part)]
            self.out += weight @ part**2
            self.total += weight.sum()

    def merge(self, other: ScoreSquares) -> None:
        """Take in what another accumulator has seen."""
        super().merge(other)
        self.total += other.total

    def result(self) -> np.ndarray:
        """The mean squares."""
        return self.out / self.total


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
            with np.errstate(over="ignore", invalid="ignore"):
                part = projected(block, self.axes, self.mean).astype(self.out.dtype, copy=False)
            if not np.isfinite(part).all():
                check_finite(start + lo, block)
                raise DataError(
                    f"The scores of X overflow {part.dtype}: pass X as float64, or divide X by a power of 10."
                )
            self.out[start + lo : start + lo + len(part)] = part
            self.written += part.nbytes
            if self.written > WRITTEN:  # if the scores lie in a mapped file, its pages need not stay in memory
                let_go_of_pages(self.out)
                self.written = 0

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
