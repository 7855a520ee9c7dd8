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
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
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
INT32_MAX = int(np.iinfo(np.int32).max)


class Stamp:
    """What files look like from outside: a file that is written to during a fit has another stamp."""

    def __init__(self, paths: Sequence[Path]):
        self.paths = tuple(paths)
        self.marks = [_mark(path) for path in self.paths]

    def check(self) -> None:
        """Raise if one of the files has changed."""
        for path, mark in zip(self.paths, self.marks, strict=True):
            found = _mark(path)
            if found != mark:
                what = "removed" if found is None else "changed"
                raise DataError(f"{path} was {what} while it was read. Leave it alone until the fit ends; fit again.")


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


class Slots:
    """Numbers of buffers. A pass takes some that no other pass has: passes may run side by side."""

    def __init__(self) -> None:
        self.free: list[range] = []
        self.made, self.lock = 0, Lock()

    def __reduce__(self) -> Any:
        return Slots, ()  # buffers stay where they are

    @contextmanager
    def taken(self) -> Iterator[range]:
        """The numbers of one pass."""
        with self.lock:
            if not self.free:
                self.free.append(range(self.made, self.made + BUFFERS))
                self.made += BUFFERS
            slots = self.free.pop()
        try:
            yield slots
        finally:
            self.free.append(slots)


def read_ahead(
    read: Callable[[Any, int], Any], parts: Iterator[Any], slots: Sequence[int]
) -> Generator[tuple[Any, Any]]:
    """Yield (part, what was read of it); a thread reads the next part meanwhile.

    ``read(part, slot)`` may fill the buffer number `slot`, one of two: it is free again when the next part is asked
    for.
    """
    with ThreadPoolExecutor(1, "vrpca-read") as thread:
        ahead: tuple[Any, Future[Any]] | None = None
        for number, part in enumerate(parts):
            following = (part, thread.submit(read, part, slots[number % len(slots)]))
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
    """

    trusted = True
    slow_to_read = True
    reads_files = True
    columnwise = False
    wide_at = float("inf")
    unit_rows = 1

    def __init__(self, paths: Sequence[Path], shape: tuple[int, int], dtype: np.dtype):
        check_shape(shape)
        self.shape, self.dtype = shape, working_dtype(dtype)
        self.paths, self.stamp = tuple(paths), Stamp(paths)
        self.block_bytes, self.slots = BLOCK_BYTES, Slots()

    @abstractmethod
    def block_starts(self) -> Array:
        """The numbers of the blocks' first rows, and the number of rows."""

    @abstractmethod
    def read_block(self, rows: slice, slot: int) -> Any:
        """Read consecutive rows; dense ones into the buffer number `slot`."""

    def block_order(self, starts: Array, rng: Rng | None) -> Array:
        """The numbers of the blocks in the order in which they are read: any order, if there is an `rng`."""
        order = np.arange(len(starts) - 1)
        if rng is not None:
            rng.shuffle(order)
        return order

    def within(self, block_bytes: int) -> Self:
        """The same files with blocks of no more than this number of bytes, as far as the format can."""
        other = copy.copy(self)
        other.block_bytes, other.slots = min(block_bytes, self.block_bytes), Slots()
        return other

    def block_memory(self, block_bytes: int, transpose: bool = False) -> int:
        """Bytes that reading takes on the sides that are walked. Both keep their buffers."""
        file = self.within(block_bytes)
        own = 0 if file.by_columns else file.reading_memory()
        flipped = file.transposed() if transpose or file.by_columns else None
        return own + (flipped.reading_memory() if isinstance(flipped, FileSource) else 0)

    def reading_memory(self) -> int:
        """Bytes of the blocks of a pass, one that is worked on and one that is read, and of their making."""
        return BUFFERS * int(self.rows_of_blocks(self.block_bytes) * self.bytes_per_row)

    def file_names(self) -> Sequence[str]:
        """The name of the data, and the names of all files."""
        return [*filter(None, [self.name]), *map(str, self.paths)]

    def watching(self, paths: Sequence[Path]) -> Self:
        """Watch further files, too; messages name them first."""
        self.paths = (*(path for path in paths if path not in self.paths), *self.paths)
        self.stamp = Stamp(self.paths)
        return self

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise if the files change meanwhile; that explains all other errors, and errors of reading name the file."""
        self.stamp.check()
        try:
            yield
        except DataError:
            self.stamp.check()
            raise
        except (OSError, EOFError) as error:
            self.stamp.check()
            name = self.name or ", ".join(map(str, self.paths)) or "The data"
            reason = " ".join(str(error).split())
            raise DataError(f"{name} cannot be read ({reason}). Check the disk or the network; fit again.") from error
        self.stamp.check()

    def blocks(self, rng: Rng | None = None) -> Generator[tuple[int, Any]]:
        """Yield (first row, block). A block is valid until the next one is asked for."""
        starts = self.block_starts()
        order = self.block_order(starts, rng)
        parts = (slice(int(starts[i]), int(starts[i + 1])) for i in order)
        with self.watched(), self.slots.taken() as slots, closing(read_ahead(self.read_block, parts, slots)) as found:
            for rows, X in found:
                yield rows.start, X

    def reduce(self, accumulator: A, rng: Rng | None = None) -> A:
        """Feed all rows to an accumulator: one pass."""
        with closing(self.blocks(rng)) as blocks:  # so that the thread ends now, whatever the accumulator raises
            for start, X in blocks:
                accumulator.add(start, X)
        return accumulator

    def sample(self, rows: int, rng: Rng) -> tuple[Array, Any, int]:
        """Rows of runs that are spread over the file: their numbers, themselves, and how many were read.

        The file is divided into as many equal parts as there are runs, and one run is drawn from each of them: rows
        that are sorted are sampled evenly.
        """
        n = self.shape[0]
        row_bytes = max(1, self.entries * self.dtype.itemsize // n)
        run = max(self.unit_rows, min(-(-rows // SAMPLE_RUNS), -(-RUN_BYTES // row_bytes)))
        there = -(-n // run)
        count = min(-(-rows // run), there)
        edges = np.arange(count + 1) * there // count
        starts = rng.integers(edges[:-1], edges[1:]) * run
        runs = [slice(start, min(start + run, n)) for start in starts.tolist()]
        numbers = np.concatenate([np.arange(part.start, part.stop) for part in runs])
        with self.watched():
            return numbers, self._read_runs(runs, len(numbers)), len(numbers)

    def _read_runs(self, runs: Sequence[slice], rows: int) -> Any:
        """Runs of rows, this number in all, as one block."""
        with self.slots.taken() as slots:
            return sp.vstack([self.read_block(part, slots[0]).copy() for part in runs], format="csr")


class DenseFile(FileSource):
    """A dense matrix in files."""

    unit_columns = 1  # columns that the format reads at once
    row_major = True  # whether a part of a column costs as much to read as its rows do

    def __init__(self, paths: Sequence[Path], shape: tuple[int, int], dtype: np.dtype):
        super().__init__(paths, shape, dtype)
        self.buffers: dict[int, Array] = {}

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
        return min(self.shape[0], self._rows(min(block_bytes, self.block_bytes)))

    def reading_memory(self) -> int:
        """Bytes of the buffers, and what it takes to fill one."""
        return super().reading_memory() + self.part_memory(self.rows_of_blocks(self.block_bytes), self.shape[1])

    def part_memory(self, rows: int, columns: int) -> int:
        """Bytes that `read` takes besides `out`, for a part of this size."""
        return 0

    def read_block(self, rows: slice, slot: int) -> Array:
        """Read consecutive rows into a buffer that is kept."""
        count, d = rows.stop - rows.start, self.shape[1]
        buffer = self.buffers.get(slot)
        if buffer is None or len(buffer) < count:
            buffer = self.buffers[slot] = aligned_zeros((count, d), self.dtype)
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

    @property
    def by_rows(self) -> bool:
        """Whether the transposed matrix has several blocks, and each of them takes a reading of everything."""
        return self.row_major and self.entries * self.dtype.itemsize > self.block_bytes

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"buffers": {}}

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
        self.genotypes_scaled, self.alleles = file.genotypes_scaled, file.alleles

    def within(self, block_bytes: int) -> Self:
        """The same with smaller blocks, on both sides."""
        other = super().within(block_bytes)
        other.file = self.file.within(block_bytes)
        return other

    def allele_frequencies(self) -> Array | None:
        """Those of the file."""
        return self.file.allele_frequencies()

    def with_allele_frequencies(self, frequencies: Array, scaled: bool) -> Source:
        """The file with these frequencies, transposed; it keeps its name."""
        other = self.file.with_allele_frequencies(frequencies, scaled).transposed()
        other.name = self.name
        return other

    def part_memory(self, rows: int, columns: int) -> int:
        """Bytes of a piece of the file before it is transposed."""
        step = min(self._step(rows), columns)
        return step * rows * self.dtype.itemsize + self.file.part_memory(step, rows)

    @property
    def by_columns(self) -> bool:
        """Whether the file is stored by rows."""
        return self.file.by_rows

    @property
    def by_rows(self) -> bool:
        """Whether the file is stored by columns."""
        return self.file.by_columns

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Read the columns of the file, a few of its rows at a time."""
        step = self._step(out.shape[0])
        for start in range(columns.start, columns.stop, step):
            part = slice(start, min(start + step, columns.stop))
            piece = np.empty((part.stop - part.start, out.shape[0]), self.dtype)
            self.file.read(part, rows, piece)
            out[:, part.start - columns.start : part.stop - columns.start] = piece.T

    def _step(self, rows: int) -> int:
        """Rows of the file that are read at a time, for this number of its columns."""
        step = max(1, self.block_bytes // max(1, rows * self.dtype.itemsize * 4))
        return max(self.unit_columns, step // self.unit_columns * self.unit_columns)

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

    @property
    def by_rows(self) -> bool:
        """Whether the transposed matrix has several blocks: each of them takes a reading of everything."""
        return self.entries * (self.dtype.itemsize + INDEX_BYTES) > self.block_bytes

    def block_starts(self) -> Array:
        """Blocks with as many entries as fit, and at least one row."""
        n = self.shape[0]
        room = max(1, self.block_bytes // (self.dtype.itemsize + INDEX_BYTES))
        starts = [0]
        while starts[-1] < n:
            stop = int(np.searchsorted(self.indptr, self.indptr[starts[-1]] + room, side="right")) - 1
            starts.append(min(max(stop, starts[-1] + 1), n))
        return np.array(starts)

    def reading_memory(self) -> int:
        """Bytes of the blocks, and of their making; a block has at least the longest row."""
        longest = int(np.diff(self.indptr).max()) * (self.dtype.itemsize + INDEX_BYTES)
        block = min(max(self.block_bytes, longest), int(self.shape[0] * self.bytes_per_row) + 1)
        return SPARSE_COPIES * BUFFERS * block + self.entry_memory()

    def entry_memory(self) -> int:
        """Bytes that `read_entries` takes besides what it returns."""
        return 0

    def read_block(self, rows: slice, slot: int) -> Any:
        """Read consecutive rows as a CSR matrix whose parts are checked."""
        lo, hi = int(self.indptr[rows.start]), int(self.indptr[rows.stop])
        indices, values = self.read_entries(lo, hi)
        short = hi - lo <= INT32_MAX and indices.dtype.itemsize <= 4 and indices.dtype != np.uint32
        kind = np.int32 if short else np.int64
        X = sp.csr_array((rows.stop - rows.start, self.shape[1]), dtype=self.dtype)
        X.data, X.indices = values.astype(self.dtype, copy=False), indices.astype(kind, copy=False)
        X.indptr = (self.indptr[rows.start : rows.stop + 1] - lo).astype(kind)
        try:
            check_parts(X)
        except DataError as error:
            name = self.paths[0] if self.paths else "The file"
            raise DataError(f"{name} is damaged in rows {rows.start} to {rows.stop - 1}: {error}") from error
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

    def reading_memory(self) -> int:
        """Bytes of the blocks and of their making, from blocks of the file."""
        return self.file.reading_memory() + SPARSE_COPIES * super().reading_memory()

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return self.file.entries

    @property
    def by_columns(self) -> bool:
        """Whether the file is stored by rows."""
        return self.file.by_rows

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
