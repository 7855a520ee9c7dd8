"""Plain numbers in a file, one row after the other: what `.npy` files and uncompressed archives hold."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from vrpca.data.files.base import DenseFile, SparseFile
from vrpca.data.memory import fits_in_memory
from vrpca.data.source import Source
from vrpca.errors import DataError
from vrpca.typing import Array

DIRECT_BYTES = 1 << 30  # files of this size or more are read past the page cache
SECTOR = 4096  # direct reads begin and end at multiples of this, in the file and in memory
ROOM_BYTES = 4 << 20  # of one direct read: they are still in the processor's cache when they are copied
GAP = 1 << 15  # parts of rows with fewer bytes between them are read together: a call costs as much as copying these


class CachedBytes:
    """A file that is read through the page cache."""

    def __init__(self, path: Path):
        self.path = path
        self.file: IO[bytes] = path.open("rb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def fill(self, offset: int, out: Array) -> None:
        """Fill an array of bytes with those that begin at an offset."""
        done = 0
        while done < len(out):
            count = self._read(offset + done, out[done:])
            if not count:
                raise DataError(f"{self.path} ends {len(out) - done} bytes too early. Write or copy it again.")
            done += count

    def _read(self, offset: int, out: Array) -> int:
        """Read some of the bytes; return how many."""
        self.file.seek(offset)
        return self.file.readinto(out)  # type: ignore[attr-defined]  # unbuffered files have it


class DirectBytes(CachedBytes):
    """A file that is read past the page cache, in whole sectors; OSError where the system does not do that.

    The cache would copy all bytes once more, and take memory from others.
    """

    def __init__(self, path: Path):
        self.path = path
        self.file = open(path, "rb", buffering=0, opener=_open_directly)  # noqa: SIM115  # closed by `__exit__`
        self.room = np.zeros(0, np.uint8)
        self.refused = False

    def _read(self, offset: int, out: Array) -> int:
        if self.refused:
            return super()._read(offset, out)
        try:
            return self._read_sectors(offset, out)
        except OSError:  # some systems refuse to read, not to open; an error of the disk will show again
            self.refused = True
            self.file.close()
            self.file = self.path.open("rb", buffering=0)
            return super()._read(offset, out)

    def _read_sectors(self, offset: int, out: Array) -> int:
        before = offset % SECTOR
        wanted = min(-(-(before + len(out)) // SECTOR) * SECTOR, ROOM_BYTES)
        if len(self.room) < wanted:
            room = np.empty(wanted + SECTOR, np.uint8)
            self.room = room[-room.ctypes.data % SECTOR :][:wanted]
        count = super()._read(offset - before, self.room[:wanted]) - before
        count = max(0, min(count, len(out)))
        out[:count] = self.room[before : before + count]
        return count


def _open_directly(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_DIRECT)


def opened(path: Path, scattered: bool = False) -> CachedBytes:
    """A file to be read: past the page cache if it is large, and where the system can do that.

    Small parts that lie scattered come through the cache, which reads ahead.
    """
    if hasattr(os, "O_DIRECT") and not scattered and path.stat().st_size >= DIRECT_BYTES:
        with suppress(OSError):
            return DirectBytes(path)
    return CachedBytes(path)


def _slow(size: int) -> bool:
    """Whether each pass over a file of this size reads from the disk."""
    return size >= DIRECT_BYTES or not fits_in_memory(size)


@dataclass(frozen=True)
class RawNumbers:
    """Numbers of one type that begin at an offset in a file."""

    path: Path
    offset: int
    dtype: np.dtype[Any]

    def read(self, start: int, stop: int) -> Array:
        """The numbers from `start` to `stop`, in the machine's own order of bytes."""
        found = np.empty(stop - start, self.dtype)
        with opened(self.path) as file:
            file.fill(self.offset + start * self.dtype.itemsize, found.view(np.uint8))
        return found.astype(self.dtype.newbyteorder("="), copy=False)


class RawFile(DenseFile):
    """A matrix of any number type that begins at an offset in a file.

    Rows are C-ordered. From the beginning of a row to that of the next one it is `pitch` bytes, as many as a row has
    unless something else is told.
    """

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, int], dtype: np.dtype[Any], pitch: int | None = None
    ) -> None:
        super().__init__([path], shape, dtype)
        self.path, self.offset, self.stored = path, offset, dtype
        self.pitch = shape[1] * dtype.itemsize if pitch is None else pitch
        self.slow_to_read = _slow(shape[0] * self.pitch)

    def part_memory(self, rows: int, columns: int) -> int:
        """Bytes of rows as they are stored, where numbers have to be converted or picked out."""
        width = columns * self.stored.itemsize
        if width == self.pitch and self.stored == self.dtype:
            return 0
        return min(rows * self.pitch, max(self.block_bytes, self.pitch)) if self.pitch - width < GAP else width

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Read whole rows at once, and parts of rows one by one if much lies between them."""
        width = out.shape[1] * self.stored.itemsize
        first, apart = self.offset + columns.start * self.stored.itemsize, self.pitch - width >= GAP
        with opened(self.path, scattered=apart) as file:
            if apart:
                self._read_apart(file, first, rows, out)
            elif width == self.pitch and self.stored == self.dtype:
                file.fill(first + rows.start * self.pitch, out.reshape(-1).view(np.uint8))
            else:
                self._read_together(file, first, rows, out)

    def _read_together(self, file: CachedBytes, first: int, rows: slice, out: Array) -> None:
        """Read what lies between the parts, too, and leave it out."""
        width, step = out.shape[1] * self.stored.itemsize, max(1, self.block_bytes // self.pitch)
        for start in range(rows.start, rows.stop, step):
            part = out[start - rows.start : start - rows.start + step]
            room = np.empty((len(part) - 1) * self.pitch + width, np.uint8)
            file.fill(first + start * self.pitch, room)
            part[...] = np.ndarray(part.shape, self.stored, room, 0, (self.pitch, self.stored.itemsize))

    def _read_apart(self, file: CachedBytes, first: int, rows: slice, out: Array) -> None:
        room = np.empty(out.shape[1], self.stored)
        for row, part in zip(range(rows.start, rows.stop), out, strict=True):
            file.fill(first + row * self.pitch, room.view(np.uint8))
            part[...] = room


class RawCsr(SparseFile):
    """A CSR matrix whose column numbers and values lie in files."""

    def __init__(self, shape: tuple[int, int], indptr: Array, indices: RawNumbers, values: RawNumbers) -> None:
        super().__init__([indices.path, values.path], shape, values.dtype, indptr)
        self.indices, self.values = indices, values
        self.slow_to_read = _slow(self.entries * (indices.dtype.itemsize + values.dtype.itemsize))

    def read_entries(self, start: int, stop: int) -> tuple[Array, Array]:
        """Read column numbers and values."""
        return self.indices.read(start, stop), self.values.read(start, stop)


def map_on_disk(X: Array) -> Source | None:
    """The file behind a memory map, or behind a part of one, as a source that is read; None where that cannot be.

    Maps that were changed in memory only (mode "c") cannot, nor can parts with gaps in their rows and columns.
    """
    owner: Any = X
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if not isinstance(owner, np.memmap) or owner.filename is None or owner.mode == "c":
        return None
    offset = owner.offset + X.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    path, size = Path(os.fspath(owner.filename)), X.dtype.itemsize
    if X.flags.c_contiguous or (X.strides[1] == size and X.strides[0] >= X.shape[1] * size):
        pitch = None if X.flags.c_contiguous else X.strides[0]
        return RawFile(path, offset, X.shape, X.dtype, pitch)
    if X.flags.f_contiguous or (X.strides[0] == size and X.strides[1] >= X.shape[0] * size):
        pitch = None if X.flags.f_contiguous else X.strides[1]
        return RawFile(path, offset, X.shape[::-1], X.dtype, pitch).transposed()
    return None
