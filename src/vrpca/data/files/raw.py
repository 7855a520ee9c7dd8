"""Plain numbers in a file, one row after the other: what `.npy` files hold."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.base import BUFFERS, DenseFile
from vrpca.data.memory import too_large_to_map
from vrpca.data.source import Source
from vrpca.errors import DataError
from vrpca.typing import Array

MAPPED_BYTES = 16 << 20  # bytes of pages that reading columns touches before they are let go: as many as a block has


class RawFile(DenseFile):
    """A C-ordered matrix of any number type that begins at an offset in a file."""

    def __init__(self, path: Path, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]):
        super().__init__([path], shape, dtype)
        self.path, self.offset, self.stored = path, offset, dtype
        self.slow_to_read = too_large_to_map(shape[0] * shape[1] * dtype.itemsize)

    def buffers(self, block_bytes: int) -> int:
        """Bytes of the blocks, and of one as it is stored where its numbers have to be converted."""
        converted = 0 if self.stored == self.dtype else self.stored.itemsize / self.dtype.itemsize
        return super().buffers(block_bytes) + int(converted * super().buffers(block_bytes) / BUFFERS)

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Whole rows are read at once; parts of rows through a map of the file."""
        if columns != slice(0, self.shape[1]):
            self._read_columns(rows, columns, out)
        elif self.stored == self.dtype:
            self._fill(rows.start, out)
        else:
            raw = np.empty(out.shape, self.stored)
            self._fill(rows.start, raw)
            out[...] = raw

    def _read_columns(self, rows: slice, columns: slice, out: Array) -> None:
        """Parts of rows, through a map that is closed now and then: pages that were touched count as memory."""
        run = (columns.stop - columns.start) * self.stored.itemsize
        step = max(1, MAPPED_BYTES // (run + mmap.PAGESIZE))
        for start in range(rows.start, rows.stop, step):
            stop = min(start + step, rows.stop)
            mapped = np.memmap(self.path, self.stored, "r", self.offset, self.shape)
            out[start - rows.start : stop - rows.start] = mapped[start:stop, columns]

    def _fill(self, first: int, out: Array) -> None:
        room = out.reshape(-1).view(np.uint8).data
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.offset + first * self.shape[1] * self.stored.itemsize)
            done = 0
            while done < len(room):
                count = file.readinto(room[done:])
                if not count:
                    raise DataError(f"{self.path} ends before row {first + len(out)}. Write it again.")
                done += count


def map_on_disk(X: Array) -> Source | None:
    """The file behind a memory map, or behind a part of one, as a source that is read; None where that cannot be.

    Maps that were changed in memory only (mode "c") cannot, nor can parts with gaps.
    """
    owner: Any = X
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if not isinstance(owner, np.memmap) or owner.filename is None or owner.mode == "c":
        return None
    offset = owner.offset + X.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    path = Path(os.fspath(owner.filename))
    if X.flags.c_contiguous:
        return RawFile(path, offset, X.shape, X.dtype)
    if X.flags.f_contiguous:
        return RawFile(path, offset, X.shape[::-1], X.dtype).transposed()
    return None
