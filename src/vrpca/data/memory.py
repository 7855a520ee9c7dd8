"""Sources for data in memory: arrays of any order and number type, read-only memory maps, CSR and CSC matrices."""

from __future__ import annotations

import mmap
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.source import Source, check_matrix, walk, working_dtype
from vrpca.data.sparse_parts import canonical, compressed
from vrpca.errors import DataError, DataTypeError
from vrpca.linalg import CACHE_LINE
from vrpca.machine import memory_of_container, memory_of_machine
from vrpca.typing import Array, Rng, Where

BLOCK_BYTES = 4 << 20  # rows that must be converted are converted in blocks of this size: they fit a third-level cache
CSC_BLOCKS = 8  # blocks of a CSC matrix: gathering a row costs a search in every column, so blocks are long
SPARSE_WIDE_AT = 4.0  # rows of the transposed matrix have to be gathered: that pays only far from square
# Looking for empty columns reads all column numbers. That is worth it only if leaving out every column would save this
# many times what the narrower copy takes.
LOOK_FOR_EMPTY = 3.0
CONVERTED_COPIES = 3  # a block that is worked on, and the next one, with what it is converted from


def as_array(X: Any) -> Array:
    """Return X as a plain array of numbers, a view where it is an array already."""
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


class ConvertedSource(Source):
    """A source whose blocks are converted when they are asked for: `convert` says how.

    `block_rows` is the number of rows of a block; `neighbours` is 0 where rows cannot be gathered.
    """

    trusted = True

    def __init__(self, shape: tuple[int, int], dtype: np.dtype, block_rows: int, neighbours: int = 1):
        self.shape, self.dtype, self.block_rows = shape, dtype, block_rows
        self.block = self.convert(slice(0, shape[0])) if block_rows >= shape[0] else None
        self.neighbours = max(neighbours, 1)
        self.gather_rows = block_rows if neighbours and self.block is None else 0

    @abstractmethod
    def convert(self, rows: Where) -> Any:
        """Make a block of a range of rows, or of the rows with these numbers."""

    def block_memory(self, block_bytes: int, transpose: bool = False) -> int:
        """Bytes of a block that is converted, and of what it is made from."""
        return 0 if self.block is not None else int(CONVERTED_COPIES * self.block_rows * self.bytes_per_row)

    def rows_of_blocks(self, block_bytes: int) -> int:
        """Rows of a block."""
        return min(self.block_rows, self.shape[0])

    def blocks(self, rng: Rng | None = None) -> Iterator[tuple[int, Any]]:
        """Yield (first row, converted block)."""
        if self.block is not None:
            yield 0, self.block
            return
        for rows in walk(self.shape[0], self.block_rows, rng):
            yield rows.start, self.convert(rows)

    def gather(self, numbers: Array) -> Any:
        """The rows with these numbers."""
        return self.convert(numbers)


def rows_that_fit(d: int, dtype: np.dtype) -> int:
    """How many rows of d numbers make a block."""
    return max(1, BLOCK_BYTES // (d * dtype.itemsize))


def columnwise_neighbours(dtype: np.dtype) -> int:
    """How many neighbours in a column share a cache line."""
    return max(1, CACHE_LINE // dtype.itemsize)


def physical_memory() -> float:
    """Bytes of memory that this machine, or the container, has; infinite where it does not say."""
    return min(memory_of_machine(), memory_of_container())


def fits_in_memory(size: float) -> bool:
    """Whether data of so many bytes are worked with in memory: they take half of it at most."""
    return size <= physical_memory() / 2


def mapping(X: Array) -> mmap.mmap | None:
    """The mapped file that an array lies in, if any."""
    owner: Any = X
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner if isinstance(owner, mmap.mmap) else None


def on_disk(X: Array) -> bool:
    """Whether an array lies in a mapped file."""
    return mapping(X) is not None


def let_go_of_pages(X: Array) -> None:
    """Take the pages of a shared map out of this process' memory. Nothing is lost: they stay in the system's cache."""
    mapped = mapping(X)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):  # Windows has none
        mapped.madvise(mmap.MADV_DONTNEED)


class ArraySource(ConvertedSource):
    """A NumPy array: one block where it is C-ordered float32 or float64, else blocks converted one by one."""

    def __init__(self, X: Array):
        dtype, (n, d), mapped = check_matrix(X), X.shape, on_disk(X)
        self.X = X
        self.whole = X.dtype == dtype and X.dtype.isnative and X.flags.c_contiguous and X.flags.aligned
        self.columnwise = abs(X.strides[1]) > abs(X.strides[0])
        # Large maps are read as files, but for maps with gaps between entries and those that differ from their files.
        self.slow_to_read = mapped and not fits_in_memory(X.nbytes)
        neighbours = columnwise_neighbours(X.dtype) if self.columnwise else 1
        super().__init__((n, d), dtype, n if self.whole else rows_that_fit(d, dtype), 0 if mapped else neighbours)

    def convert(self, rows: Where) -> Array:
        """The rows, in C order; X itself where it is one block."""
        return self.X if self.whole else np.ascontiguousarray(self.X[rows], dtype=self.dtype)

    def transposed(self) -> Source:
        """The transposed view of the array."""
        return ArraySource(self.X.T)


def sparse_source(X: Any) -> SparseSource:
    """Return a scipy sparse matrix or array as a source; formats other than CSR and CSC become CSR."""
    X = canonical(compressed(X))
    return CsrSource(X) if X.format == "csr" else CscSource(X)


class SparseSource(ConvertedSource):
    """What CSR and CSC matrices have in common."""

    sparse = True
    wide_at = SPARSE_WIDE_AT

    def __init__(self, X: Any, block_rows: int):
        self.X = X
        super().__init__(X.shape, working_dtype(X.dtype), block_rows)

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return int(self.X.nnz)


class CsrSource(SparseSource):
    """A CSR matrix: one block where it is float32 or float64, else the values are converted block by block."""

    columnwise = False

    def __init__(self, X: Any):
        n, dtype = X.shape[0], working_dtype(X.dtype)
        self.whole = X.dtype == dtype and X.dtype.isnative
        super().__init__(X, n if self.whole else rows_that_fit(max(1, X.nnz // n), dtype))

    def convert(self, rows: Where) -> Any:
        """The rows, with their values in the working type; X itself where it is one block."""
        X = self.X
        if self.whole:
            return X
        if not isinstance(rows, slice):
            return X[rows].astype(self.dtype)
        lo, hi = X.indptr[rows.start], X.indptr[rows.stop]
        parts = (X.data[lo:hi].astype(self.dtype), X.indices[lo:hi], X.indptr[rows.start : rows.stop + 1] - lo)
        return sp.csr_array(parts, shape=(rows.stop - rows.start, X.shape[1]))

    def without_empty_columns(self, least_saving: float) -> tuple[Source, Array | None]:
        """The matrix without its empty columns: the columns of all entries are numbered anew."""
        X, d = self.X, self.shape[1]
        if d * least_saving <= LOOK_FOR_EMPTY * X.indices.nbytes:
            return self, None
        used = np.zeros(d, bool)
        kernels.occurring(X.indices, used)
        kept = np.flatnonzero(used)
        if (d - len(kept)) * least_saving <= X.indices.nbytes:
            return self, None
        number, indices = np.cumsum(used, dtype=X.indices.dtype), np.empty_like(X.indices)
        number -= 1
        kernels.renumbered(X.indices, number, indices)
        narrower = CsrSource(sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(kept))))
        narrower.held_bytes, narrower.name = self.held_bytes + X.indices.nbytes, self.name
        return narrower, kept

    def transposed(self) -> Source:
        """The transposed matrix, which is CSC."""
        return CscSource(self.X.T)


class CscSource(SparseSource):
    """A CSC matrix: rows are gathered into CSR blocks."""

    columnwise = True

    def __init__(self, X: Any, block_rows: int | None = None):
        super().__init__(X, -(-X.shape[0] // CSC_BLOCKS) if block_rows is None else block_rows)

    def _rows(self, block_bytes: int) -> int:
        return max(1, min(-(-self.shape[0] // CSC_BLOCKS), int(block_bytes / max(1.0, self.bytes_per_row))))

    def block_memory(self, block_bytes: int, transpose: bool = False) -> int:
        """Bytes of blocks, and of what they are made from."""
        return int(CONVERTED_COPIES * self._rows(block_bytes) * self.bytes_per_row)

    def rows_of_blocks(self, block_bytes: int) -> int:
        """Rows of a block."""
        return self._rows(block_bytes)

    def within(self, block_bytes: int) -> CscSource:
        """The same matrix in shorter blocks."""
        other = CscSource(self.X, self._rows(block_bytes))
        other.held_bytes, other.name = self.held_bytes, self.name
        return other

    def convert(self, rows: Where) -> Any:
        """The rows as a CSR matrix."""
        return self.X[rows].tocsr().astype(self.dtype, copy=False)

    def without_empty_columns(self, least_saving: float) -> tuple[Source, Array | None]:
        """The matrix without its empty columns: the entries stay, the list of columns gets shorter."""
        X = self.X
        kept = np.flatnonzero(np.diff(X.indptr))
        if (self.shape[1] - len(kept)) * least_saving <= X.indptr.nbytes:
            return self, None
        indptr = np.append(X.indptr[kept], X.indptr[-1])
        narrower = CscSource(sp.csc_array((X.data, X.indices, indptr), shape=(X.shape[0], len(kept))))
        narrower.name = self.name
        return narrower, kept

    def transposed(self) -> Source:
        """The transposed matrix, which is CSR."""
        return CsrSource(self.X.T)
