"""Matrices that are read from files, block by block: a thread reads the next block while the last one is worked on.

A format is a subclass of `DenseFile` or `SparseFile` that says how to read a part of the matrix. The order of blocks,
buffers, reading ahead, samples and the transposed matrix are the same for all formats.
"""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from vrpca.data.source import INDEX_BYTES, A, Source, check_shape, working_dtype
from vrpca.data.sparse_parts import canonical, check_parts
from vrpca.errors import DataError
from vrpca.linalg import aligned_zeros
from vrpca.typing import Array, Rng

BLOCK_BYTES = 16 << 20  # a block: large enough to be worth a hand-over between threads, a few milliseconds of reading
BUFFERS = 2  # one that is worked on, one that is read
SAMPLE_RUNS = 64  # a sample consists of so many runs of consecutive rows, at least: sorted files are sampled everywhere
RUN_BYTES = 1 << 18  # bytes of a run, at least: a seek costs as much as reading them
# Bytes at the peak of reading a sparse block, per byte of the block: as it is read, and as CSR with its parts in the
# types that kernels take. Column numbers may have 8 bytes.
SPARSE_COPIES = 3


class Stamp:
    """What files look like from outside: a file that is written to during a fit has another stamp."""

    def __init__(self, paths: Sequence[Path]):
        self.paths = tuple(paths)
        self.marks = [_mark(path) for path in self.paths]

    def check(self) -> None:
        """Raise if one of the files has changed."""
        for path, mark in zip(self.paths, self.marks, strict=True):
            if _mark(path) != mark:
                raise DataError(f"{path} was changed or removed during the fit. Leave it alone until its end.")


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def read_ahead(read: Callable[[Any, int], Any], parts: Iterator[Any]) -> Generator[tuple[Any, Any]]:
    """Yield (part, what was read of it); a thread reads the next part meanwhile.

    ``read(part, slot)`` may fill the buffer number `slot`, 0 or 1: it is free again when the next part is asked for.
    """
    with ThreadPoolExecutor(1, "vrpca-read") as thread:
        ahead: tuple[Any, Future[Any]] | None = None
        for number, part in enumerate(parts):
            following = (part, thread.submit(read, part, number % BUFFERS))
            if ahead is not None:
                yield ahead[0], ahead[1].result()
            ahead = following
        if ahead is not None:
            yield ahead[0], ahead[1].result()


class FileSource(Source):
    """A matrix that is read from files.

    Attributes
    ----------
    paths : tuple of Path
        The files; empty if there are none that can be watched.
    unit_rows : int
        Rows that the format reads at once, however few are asked for: those of a chunk or a row group.
    row_names, column_names : sequence of str or None
        Names of samples and features, where the format has them.
    """

    slow_to_read = True
    reads_files = True
    columnwise = False
    wide_at = float("inf")
    unit_rows = 1
    row_names: Sequence[str] | None = None
    column_names: Sequence[str] | None = None

    def __init__(self, paths: Sequence[Path], shape: tuple[int, int], dtype: np.dtype):
        check_shape(shape)
        self.shape, self.dtype = shape, working_dtype(dtype)
        self.paths, self.stamp = tuple(paths), Stamp(paths)
        self.block_bytes = BLOCK_BYTES

    @abstractmethod
    def block_starts(self) -> Array:
        """The numbers of the blocks' first rows, and the number of rows."""

    @abstractmethod
    def read_block(self, rows: slice, slot: int) -> Any:
        """Read consecutive rows; dense ones into the buffer number `slot`."""

    def within(self, block_bytes: int) -> Self:
        """The same files with blocks of no more than this number of bytes, as far as the format can."""
        other = copy.copy(self)
        other.block_bytes = block_bytes
        return other

    def buffers(self, block_bytes: int) -> int:
        """Bytes of the blocks: one that is worked on, one that is read."""
        return BUFFERS * int(self.rows_of_blocks(block_bytes) * self.row_bytes)

    def blocks(self, rng: Rng | None = None) -> Generator[tuple[int, Any]]:
        """Yield (first row, block). A block is valid until the next one is asked for."""
        starts = self.block_starts()
        order = np.arange(len(starts) - 1)
        if rng is not None:
            rng.shuffle(order)
        parts = (slice(int(starts[i]), int(starts[i + 1])) for i in order)
        self.stamp.check()
        with closing(read_ahead(self.read_block, parts)) as found:
            for rows, X in found:
                yield rows.start, X
        self.stamp.check()

    def reduce(self, accumulator: A, rng: Rng | None = None) -> A:
        """Feed all rows to an accumulator: one pass."""
        with closing(self.blocks(rng)) as blocks:  # so that the thread ends now, whatever the accumulator raises
            for start, X in blocks:
                accumulator.add(start, X)
        return accumulator

    def sample(self, rows: int, rng: Rng) -> tuple[Array, Any, int]:
        """Rows of runs that are spread over the file at random: their numbers, themselves, and how many were read."""
        n = self.shape[0]
        row_bytes = max(1, self.entries * self.dtype.itemsize // n)
        run = max(self.unit_rows, min(-(-rows // SAMPLE_RUNS), -(-RUN_BYTES // row_bytes)))
        starts = rng.permutation(np.arange(0, n, run))[: -(-rows // run)]
        runs = [slice(start, min(start + run, n)) for start in np.sort(starts).tolist()]
        numbers = np.concatenate([np.arange(part.start, part.stop) for part in runs])
        return numbers, self._read_runs(runs, len(numbers)), len(numbers)

    def _read_runs(self, runs: Sequence[slice], rows: int) -> Any:
        """Runs of rows, this number in all, as one block."""
        return sp.vstack([self.read_block(part, 0).copy() for part in runs], format="csr")


class DenseFile(FileSource):
    """A dense matrix in files."""

    unit_columns = 1  # columns that the format reads at once

    def __init__(self, paths: Sequence[Path], shape: tuple[int, int], dtype: np.dtype):
        super().__init__(paths, shape, dtype)
        self.room: list[Array | None] = [None] * BUFFERS

    @abstractmethod
    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Read a part of the matrix into `out`, which is C-ordered and of this source's dtype."""

    def block_starts(self) -> Array:
        """Blocks of equal size, in whole units."""
        return np.append(np.arange(0, self.shape[0], self._rows(self.block_bytes)), self.shape[0])

    def _rows(self, block_bytes: int) -> int:
        rows = max(1, block_bytes // (self.shape[1] * self.dtype.itemsize))
        return max(self.unit_rows, rows // self.unit_rows * self.unit_rows)

    def rows_of_blocks(self, block_bytes: int) -> int:
        """Rows of a block."""
        return min(self.shape[0], self._rows(block_bytes))

    def read_block(self, rows: slice, slot: int) -> Array:
        """Read consecutive rows into a buffer that is kept."""
        count, d = rows.stop - rows.start, self.shape[1]
        buffer = self.room[slot]
        if buffer is None or len(buffer) < count:
            buffer = self.room[slot] = aligned_zeros((count, d), self.dtype)
        self.read(rows, slice(0, d), buffer[:count])
        return buffer[:count]

    def _read_runs(self, runs: Sequence[slice], rows: int) -> Array:
        """Runs of rows, one behind the other."""
        together, done = np.empty((rows, self.shape[1]), self.dtype), 0
        for part in runs:
            count = part.stop - part.start
            self.read(part, slice(0, self.shape[1]), together[done : done + count])
            done += count
        return together

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"room": [None] * BUFFERS}

    def transposed(self) -> Source:
        """The columns as rows."""
        return TransposedFile(self)


class TransposedFile(DenseFile):
    """The transpose of a dense matrix in files: a block has some of its columns."""

    columnwise = True
    wide_at = 0.0

    def __init__(self, file: DenseFile):
        super().__init__(file.paths, file.shape[::-1], file.dtype)
        self.file, self.stamp, self.block_bytes = file, file.stamp, file.block_bytes
        self.unit_rows, self.unit_columns = file.unit_columns, file.unit_rows
        self.slow_to_read, self.held_bytes = file.slow_to_read, file.held_bytes
        self.row_names, self.column_names = file.column_names, file.row_names

    def within(self, block_bytes: int) -> Self:
        """The same with smaller blocks, on both sides."""
        other = super().within(block_bytes)
        other.file = self.file.within(block_bytes)
        return other

    def buffers(self, block_bytes: int) -> int:
        """Bytes of the blocks, and of a piece of the file before it is transposed."""
        return super().buffers(block_bytes) + max(block_bytes, self.file.buffers(block_bytes) // BUFFERS)

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Read the columns of the file, a few of its rows at a time."""
        step = max(1, self.block_bytes // max(1, out.shape[0] * self.dtype.itemsize * 4))
        step = max(self.unit_columns, step // self.unit_columns * self.unit_columns)
        for start in range(columns.start, columns.stop, step):
            part = slice(start, min(start + step, columns.stop))
            piece = np.empty((part.stop - part.start, out.shape[0]), self.dtype)
            self.file.read(part, rows, piece)
            out[:, part.start - columns.start : part.stop - columns.start] = piece.T

    def transposed(self) -> Source:
        """The matrix in the files."""
        return self.file


class SparseFile(FileSource):
    """A CSR matrix in files. Where its rows begin, `indptr`, is kept in memory; entries are read."""

    sparse = True

    def __init__(self, paths: Sequence[Path], shape: tuple[int, int], dtype: np.dtype, indptr: Array):
        super().__init__(paths, shape, dtype)
        self.indptr = np.asarray(indptr, np.int64)
        self.held_bytes = self.indptr.nbytes
        if len(indptr) != shape[0] + 1 or self.indptr[0] != 0 or (np.diff(self.indptr) < 0).any():
            name = paths[0] if paths else "The matrix"
            raise DataError(f"{name} is damaged: the places where its rows begin do not ascend. Write it again.")

    @abstractmethod
    def read_entries(self, start: int, stop: int) -> tuple[Array, Array]:
        """Read the column numbers and the values of entries number `start` to `stop`, as arrays of any number type."""

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return int(self.indptr[-1])

    def block_starts(self) -> Array:
        """Blocks with as many entries as fit, and at least one row."""
        n = self.shape[0]
        room = max(1, self.block_bytes // (self.dtype.itemsize + INDEX_BYTES))
        starts = [0]
        while starts[-1] < n:
            stop = int(np.searchsorted(self.indptr, self.indptr[starts[-1]] + room, side="right")) - 1
            starts.append(min(max(stop, starts[-1] + 1), n))
        return np.array(starts)

    def buffers(self, block_bytes: int) -> int:
        """Bytes of the blocks, and of their making; a block has at least the longest row."""
        longest = int(np.diff(self.indptr).max()) * (self.dtype.itemsize + INDEX_BYTES)
        return SPARSE_COPIES * BUFFERS * min(max(block_bytes, longest), int(self.shape[0] * self.row_bytes) + 1)

    def read_block(self, rows: slice, slot: int) -> Any:
        """Read consecutive rows as a CSR matrix whose parts are checked."""
        lo, hi = int(self.indptr[rows.start]), int(self.indptr[rows.stop])
        indices, values = self.read_entries(lo, hi)
        indptr = (self.indptr[rows.start : rows.stop + 1] - lo).astype(indices.dtype)
        parts = (values.astype(self.dtype, copy=False), indices, indptr)
        X = sp.csr_array((rows.stop - rows.start, self.shape[1]), dtype=self.dtype)
        X.data, X.indices, X.indptr = parts
        check_parts(X)
        return canonical(X)

    def transposed(self) -> Source:
        """The columns as rows."""
        return TransposedSparseFile(self)


class TransposedSparseFile(FileSource):
    """The transpose of a CSR matrix in files. Every block takes a reading of all entries: solvers avoid that."""

    sparse = True
    columnwise = True
    wide_at = 0.0

    def __init__(self, file: SparseFile):
        super().__init__(file.paths, file.shape[::-1], file.dtype)
        self.file, self.stamp, self.block_bytes = file, file.stamp, file.block_bytes
        self.held_bytes = file.held_bytes
        self.row_names, self.column_names = file.column_names, file.row_names

    def within(self, block_bytes: int) -> Self:
        """The same with smaller blocks, on both sides."""
        other = super().within(block_bytes)
        other.file = self.file.within(block_bytes)
        return other

    def buffers(self, block_bytes: int) -> int:
        """Bytes of the blocks and of their making, from blocks of the file."""
        return self.file.buffers(block_bytes) + SPARSE_COPIES * super().buffers(block_bytes)

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return self.file.entries

    def block_starts(self) -> Array:
        """Blocks with about as many entries as fit."""
        n = self.shape[0]
        count = -(-self.entries * (self.dtype.itemsize + INDEX_BYTES) // self.block_bytes)
        return np.append(np.arange(0, n, max(1, n // max(1, count))), n)

    def read_block(self, rows: slice, slot: int) -> Any:
        """Read all entries, and keep those of some columns."""
        parts = [X[:, rows].T.tocsc() for _, X in self.file.blocks()]
        return canonical(sp.hstack(parts, format="csr"))

    def transposed(self) -> Source:
        """The matrix in the files."""
        return self.file
