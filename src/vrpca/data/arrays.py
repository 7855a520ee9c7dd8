"""Sources for data in memory: arrays of any order and number type, read-only memory maps, CSR, CSC and data frames."""

from __future__ import annotations

import math
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.source import Source, check_shape, working_dtype
from vrpca.errors import DataError, DataTypeError

BLOCK_BYTES = 4 << 20  # rows that must be converted are converted in pieces of this size


def as_array(X: Any) -> np.ndarray:
    """Return X as a plain 2-D array of numbers, a view where it is an array already."""
    if np.ma.is_masked(X):
        raise DataError("X has masked entries: fill them in or drop their rows (numpy.ma.MaskedArray.filled).")
    try:
        X = np.asarray(X)
    except (TypeError, ValueError) as error:
        raise DataError(f"X could not be read as a matrix of numbers: {error}. Pass rows of equal length.") from error
    if X.dtype.kind == "O":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            kind = DataTypeError if isinstance(error, TypeError) else DataError
            raise kind(f"X has entries that are not numbers: {error}. Convert or drop such columns.") from error
    return X


def walk(n: int, rows: int, rng: np.random.Generator | None) -> Iterator[slice]:
    """Yield slices of at most `rows` rows that cover 0..n, in order or, with `rng`, in random order."""
    starts = np.arange(0, n, max(rows, 1))
    if rng is not None:
        rng.shuffle(starts)
    for start in starts.tolist():
        yield slice(start, min(start + rows, n))


Numbers = slice | np.ndarray  # which rows


class Pieces:
    """A source whose rows are converted piece by piece: `convert` makes a block of a slice or of row numbers.

    With `run`, and unless one piece is all, rows may be gathered from anywhere (see `Source`).
    """

    wide_at = 1.0

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: np.dtype,
        rows: int,
        convert: Callable[[Numbers], Any],
        run: int | None = 1,
    ):
        self.shape = shape
        self.dtype = dtype
        self.rows = rows
        self.convert = convert
        self.run = run
        self.gather = convert if run is not None and rows < shape[0] else None

    def blocks(self, rng: np.random.Generator | None = None) -> Iterator[tuple[int, Any]]:
        """Yield (first row, converted block)."""
        for piece in walk(self.shape[0], self.rows, rng):
            yield piece.start, self.convert(piece)


def rows_that_fit(d: int, dtype: np.dtype) -> int:
    """How many rows of d numbers make a piece."""
    return max(1, BLOCK_BYTES // (d * dtype.itemsize))


def columnwise_run(dtype: np.dtype) -> int:
    """How many neighbours in a column share a cache line."""
    return max(1, 64 // dtype.itemsize)


def physical_memory() -> float:
    """Bytes of memory that this machine has; infinite where it does not say."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names:
        return math.inf
    return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")


def on_disk(X: np.ndarray) -> bool:
    """Whether an array lies in a mapped file."""
    owner: Any = X
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, mmap.mmap)


class ArraySource(Pieces):
    """A NumPy array: one block where it is C-ordered float32 or float64, else pieces converted one by one."""

    def __init__(self, X: np.ndarray):
        check_shape(X.shape)
        dtype = working_dtype(X.dtype)
        self.X = X
        self.slow_to_read = on_disk(X) and X.nbytes > physical_memory() / 2
        self.whole = X.dtype == dtype and X.dtype.isnative and X.flags.c_contiguous and X.flags.aligned
        rows = X.shape[0] if self.whole else rows_that_fit(X.shape[1], dtype)
        self.columnwise = abs(X.strides[1]) > abs(X.strides[0])
        run = columnwise_run(X.dtype) if self.columnwise else 1
        super().__init__((X.shape[0], X.shape[1]), dtype, rows, self._piece, None if on_disk(X) else run)

    def _piece(self, piece: Numbers) -> np.ndarray:
        return self.X if self.whole else np.ascontiguousarray(self.X[piece], dtype=self.dtype)

    def transposed(self) -> Source:
        """The transposed view of the array."""
        return ArraySource(self.X.T)


def sparse_source(X: Any) -> Source:
    """Return a scipy sparse matrix or array as a source; formats other than CSR and CSC become CSR."""
    check_shape(X.shape)
    working_dtype(X.dtype)
    if X.format not in ("csr", "csc"):
        X = X.tocsr()
    if not all(part.flags.c_contiguous for part in (X.data, X.indices, X.indptr)):
        parts = tuple(np.ascontiguousarray(part) for part in (X.data, X.indices, X.indptr))
        X = type(X)(parts, shape=X.shape)
    if X.indptr.dtype != X.indices.dtype:
        X = type(X)((X.data, X.indices.astype(X.indptr.dtype), X.indptr), shape=X.shape)
    if not X.has_canonical_format:  # duplicate or unsorted entries: the one case that needs a copy
        X = X.copy()
        X.sum_duplicates()
    return CsrSource(X) if X.format == "csr" else CscSource(X)


class CsrSource(Pieces):
    """A CSR matrix: one block where it is float32 or float64, else the values are converted piece by piece."""

    columnwise = False
    wide_at = 4.0  # rows of the transpose have to be gathered: worth it only far from square

    def __init__(self, X: Any):
        dtype = working_dtype(X.dtype)
        self.X = X
        self.entries = X.nnz
        self.whole = X.dtype == dtype and X.dtype.isnative
        per_row = max(1, X.nnz // X.shape[0])
        rows = X.shape[0] if self.whole else rows_that_fit(per_row, dtype)
        super().__init__((X.shape[0], X.shape[1]), dtype, rows, self._piece)

    def _piece(self, piece: Numbers) -> Any:
        X = self.X
        if self.whole:
            return X
        if not isinstance(piece, slice):
            return X[piece].astype(self.dtype)
        lo, hi = X.indptr[piece.start], X.indptr[piece.stop]
        parts = (X.data[lo:hi].astype(self.dtype), X.indices[lo:hi], X.indptr[piece.start : piece.stop + 1] - lo)
        return sp.csr_array(parts, shape=(piece.stop - piece.start, X.shape[1]))

    @property
    def compacted_bytes(self) -> int:
        """The columns of all entries are numbered anew."""
        return self.X.indices.nbytes

    def compacted(self) -> tuple[Source, np.ndarray]:
        """The matrix without its empty columns, and the numbers of the others."""
        X = self.X
        used = np.zeros(X.shape[1], bool)
        used[X.indices] = True
        number = np.cumsum(used, dtype=X.indices.dtype)
        number -= 1
        kept = np.flatnonzero(used)
        return CsrSource(sp.csr_array((X.data, number[X.indices], X.indptr), shape=(X.shape[0], len(kept)))), kept

    def transposed(self) -> Source:
        """The transposed matrix, which is CSC."""
        return CscSource(self.X.T)


class CscSource(Pieces):
    """A CSC matrix: rows are gathered into CSR blocks, an eighth of the matrix at a time."""

    columnwise = True
    wide_at = 4.0

    def __init__(self, X: Any):
        self.X = X
        self.entries = X.nnz
        dtype = working_dtype(X.dtype)
        super().__init__((X.shape[0], X.shape[1]), dtype, -(-X.shape[0] // 8), self._piece)

    def _piece(self, piece: Numbers) -> Any:
        return self.X[piece].tocsr().astype(self.dtype, copy=False)

    @property
    def compacted_bytes(self) -> int:
        """The entries stay as they are; the list of columns gets shorter."""
        return self.X.indptr.nbytes

    def compacted(self) -> tuple[Source, np.ndarray]:
        """The matrix without its empty columns, and the numbers of the others."""
        X = self.X
        kept = np.flatnonzero(np.diff(X.indptr))
        indptr = np.append(X.indptr[kept], X.indptr[-1])
        return CscSource(sp.csc_array((X.data, X.indices, indptr), shape=(X.shape[0], len(kept)))), kept

    def transposed(self) -> Source:
        """The transposed matrix, which is CSR."""
        return CsrSource(self.X.T)


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars data frame; imports neither."""
    for package in ("pandas", "polars"):
        module = sys.modules.get(package)
        if module is not None and isinstance(X, module.DataFrame):
            return True
    return False


class FrameSource(Pieces):
    """A pandas or polars data frame, turned into arrays piece by piece."""

    def __init__(self, frame: Any):
        check_shape(frame.shape)
        self.frame = frame
        kinds = zip(frame.columns, frame.dtypes, strict=True)
        dtype = np.result_type(*(_column_dtype(name, kind) for name, kind in kinds))
        rows = rows_that_fit(frame.shape[1], dtype)
        super().__init__(frame.shape, dtype, rows, self._piece, columnwise_run(dtype))

    def _piece(self, piece: Numbers) -> np.ndarray:
        return _frame_array(self.frame, piece, slice(None), self.dtype)

    def transposed(self) -> Source:
        """The transposed frame: its columns become rows."""

        def columns(piece: Numbers) -> np.ndarray:
            return np.ascontiguousarray(_frame_array(self.frame, slice(None), piece, self.dtype).T)

        n, d = self.shape
        return TransposedFrame(self, (d, n), self.dtype, rows_that_fit(n, self.dtype), columns)


class TransposedFrame(Pieces):
    """The columns of a frame as rows."""

    def __init__(self, frame: FrameSource, *args: Any):
        super().__init__(*args)
        self.frame = frame

    def transposed(self) -> Source:
        """The frame as it was."""
        return self.frame


def _frame_array(frame: Any, rows: Numbers, columns: Numbers, dtype: np.dtype) -> np.ndarray:
    """A part of a frame as a C-ordered array, missing values as NaN."""
    if hasattr(frame, "iloc"):  # pandas
        return np.ascontiguousarray(frame.iloc[rows, columns].to_numpy(dtype=dtype, na_value=np.nan))
    return np.ascontiguousarray(frame[rows, columns].to_numpy(), dtype=dtype)


def _column_dtype(name: Any, kind: Any) -> np.dtype:
    """The working type of a frame's column, or an error that names the column."""
    plain = getattr(kind, "numpy_dtype", None) or getattr(kind, "subtype", None) or kind  # pandas: nullable, sparse
    numpy_name = str(plain).lower()
    numpy_name = {"boolean": "bool"}.get(numpy_name, numpy_name)
    try:
        return working_dtype(np.dtype(numpy_name))
    except (TypeError, ValueError):
        raise DataError(
            f"Column {name!r} is of type {kind}: only numbers can be decomposed. Drop or encode it."
        ) from None
