"""Tables that come in batches of columns: what Parquet, Arrow, datasets and lazy frames have in common.

A subclass opens a stream of batches at one of a few rows (`groups`). Consecutive reads go on with the same stream.
"""

from __future__ import annotations

import itertools
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, overload

import numpy as np

from vrpca import kernels
from vrpca.data.files.base import DenseFile
from vrpca.data.files.paths import damage_reported
from vrpca.errors import DataError
from vrpca.typing import Array, Rng

WIDEST = 8  # bytes of a number in a table

Columns = Sequence[Array] | Array  # the columns of some rows, or these rows as a matrix


class LazyNames(Sequence[str]):
    """Names that are read when they are first asked for."""

    def __init__(self, count: int, read: Callable[[], Sequence[str]]):
        self.length, self.read = count, read
        self.found: Sequence[str] | None = None

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: Any) -> Any:
        if self.found is None:
            self.found = self.read()
        return self.found[index]


@dataclass
class Stream:
    """Batches of some columns, from a row onwards."""

    columns: slice
    row: int  # the next row
    batches: Iterator[Columns]
    batch: Columns = ()  # the last one
    used: int = 0  # rows of it that have been used

    def take(self, most: int) -> tuple[Columns, slice]:
        """The batch with the next rows, and which of its rows they are: no more than asked for, none at the end."""
        while self.used == row_count(self.batch):
            following = next(self.batches, None)
            if following is None:
                break
            self.batch, self.used = following, 0
        where = slice(self.used, min(self.used + most, row_count(self.batch)))
        self.used = where.stop
        self.row += where.stop - where.start
        return self.batch, where


def row_count(columns: Columns) -> int:
    """Number of rows that some columns have."""
    if isinstance(columns, np.ndarray):
        return len(columns)
    return len(columns[0]) if len(columns) else 0


class _Own(threading.local):
    """What a thread has for itself: every pass is read by a thread of its own, and several may go on at once."""

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.stage: Array = np.zeros(0)  # columns that are going to be rows


class ColumnarFile(DenseFile):
    """A table whose rows come in batches of columns.

    Attributes
    ----------
    groups : numpy.ndarray
        Numbers of rows, in ascending order from 0, at which a stream can be opened.
    name : str
        What the table is called in messages.
    """

    row_major = False

    def __init__(self, name: str, paths: Sequence[Path], shape: tuple[int, int], dtype: np.dtype, groups: Array):
        super().__init__(paths, shape, dtype)
        self.name, self.groups = name, groups
        self.largest_group = int(np.diff(np.append(groups, shape[0])).max())
        self.unit_rows = self._unit_rows()
        self.own = _Own()

    def _unit_rows(self) -> int:
        return min(self.largest_group, max(1, self.block_bytes // (self.shape[1] * self.dtype.itemsize)))

    def within(self, block_bytes: int) -> Self:
        """The same with smaller blocks, in shorter units."""
        other = super().within(block_bytes)
        other.unit_rows = other._unit_rows()
        return other

    def part_memory(self, rows: int, columns: int) -> int:
        """Bytes of a batch, of the room where it is transposed, and of what the library holds."""
        return rows * columns * (WIDEST + self.dtype.itemsize) + self.group_memory()

    def group_memory(self) -> int:
        """Bytes that the library holds of a group while its batches are made."""
        return 0

    @abstractmethod
    def batches(self, group: int, columns: slice, rows: int) -> Iterator[Columns]:
        """Yield columns from the start of a group to the end of the table, about `rows` rows at a time."""

    def _read_runs(self, runs: Sequence[slice], rows: int) -> Array:
        """Runs of rows. What the stream holds is freed: unlike the threads that read ahead, this one goes on."""
        try:
            return super()._read_runs(runs, rows)
        finally:
            self.own.stream = None

    def block_starts(self) -> Array:
        """Blocks of equal size that begin anew where a group does, unless several groups fit in one block."""
        n, d = self.shape
        rows = max(1, self.block_bytes // (d * self.dtype.itemsize))
        starts = [0]
        for lo, hi in itertools.pairwise([*self.groups.tolist(), n]):
            if hi - starts[-1] > rows and lo > starts[-1]:
                starts.append(lo)
            starts.extend(range(starts[-1] + rows, hi, rows))
        return np.array([*starts, n])

    def block_order(self, starts: Array, rng: Rng | None) -> Array:
        """Groups in any order; blocks of one group follow each other, since they come from one stream."""
        opened = np.isin(starts[:-1], self.groups)
        runs = np.split(np.arange(len(starts) - 1), np.flatnonzero(opened)[1:])
        if rng is not None:
            runs = [runs[i] for i in rng.permutation(len(runs))]
        return np.concatenate(runs)

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Take the rows from the open stream, or from a new one."""
        with damage_reported(self.name, f"cannot be read from row {rows.start} on", "Write or copy it again"):
            stream = self._stream_at(rows, columns)
            while stream.row < rows.stop:
                before = stream.row
                batch, where = stream.take((rows.start if before < rows.start else rows.stop) - before)
                if stream.row == before:
                    raise DataError(f"{self.name} ends before row {rows.stop}. Write or copy it again.")
                if before >= rows.start:
                    self._fill(out[before - rows.start : stream.row - rows.start], batch, where)

    def _stream_at(self, rows: slice, columns: slice) -> Stream:
        """A stream that is at the first row, or before it in the same group."""
        group = int(np.searchsorted(self.groups, rows.start, side="right")) - 1
        opened, stream = int(self.groups[group]), self.own.stream
        if stream is None or stream.columns != columns or not opened <= stream.row <= rows.start:
            self.own.stream = stream = None  # what it holds is freed before the next one reads
            self.own.stream = stream = Stream(columns, opened, self.batches(group, columns, rows.stop - rows.start))
        return stream

    def _fill(self, out: Array, columns: Columns, where: slice) -> None:
        """Turn a part of the columns into rows."""
        if isinstance(columns, np.ndarray):
            out[...] = columns[where]
            return
        size = out.size
        if len(self.own.stage) < size:
            self.own.stage = np.zeros(size, self.dtype)
        stage = self.own.stage[:size].reshape(out.shape[::-1])
        for row, column in zip(stage, columns, strict=True):
            row[...] = column[where]
        kernels.transpose(stage, out, 1)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        del state["own"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.own = _Own()
