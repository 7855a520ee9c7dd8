"""Plain numbers in a file, one row after the other: what `.npy` files hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.base import DenseFile
from vrpca.data.source import Source
from vrpca.errors import DataError
from vrpca.typing import Array


class RawFile(DenseFile):
    """A C-ordered matrix of any number type that begins at an offset in a file."""

    def __init__(self, path: Path, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]):
        super().__init__([path], shape, dtype)
        self.path, self.offset, self.stored = path, offset, dtype

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Whole rows are read at once; parts of rows through a map of the file."""
        if columns != slice(0, self.shape[1]):
            out[...] = np.memmap(self.path, self.stored, "r", self.offset, self.shape)[rows, columns]
        elif self.stored == self.dtype:
            self._fill(rows.start, out)
        else:
            raw = np.empty(out.shape, self.stored)
            self._fill(rows.start, raw)
            out[...] = raw

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
