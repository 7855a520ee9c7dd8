"""Entries of a sparse matrix in any order, sorted into a CSR matrix with little memory: first into files by rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.files.cache import CsrWriter
from vrpca.typing import Array

ENTRY = np.dtype([("row", np.int64), ("column", np.int32), ("value", np.float64)])
BUCKET_BYTES = 128 << 20  # of the entries that are sorted at a time; scipy takes about twice as much for that


class Buckets:
    """Entries by ranges of rows: each range has a file in a folder, or a list where there is only one range."""

    def __init__(self, folder: Path, shape: tuple[int, int], entries: int):
        self.folder, self.shape = folder, shape
        self.count = max(1, -(-entries * ENTRY.itemsize // BUCKET_BYTES))
        self.rows = max(1, -(-shape[0] // self.count))  # of a range
        self.held: list[Array] = []

    def add(self, rows: Array, columns: Array, values: Array) -> None:
        """Take in entries. Those for the same place are summed up in the end."""
        entries = np.empty(len(rows), ENTRY)
        entries["row"], entries["column"], entries["value"] = rows, columns, values
        if self.count == 1:
            self.held.append(entries)
            return
        numbers = entries["row"] // self.rows
        order = np.argsort(numbers, kind="stable")
        entries, numbers = entries[order], numbers[order]
        for part in np.split(entries, np.flatnonzero(np.diff(numbers)) + 1):
            if len(part):
                with self._file(int(part["row"][0] // self.rows)).open("ab") as file:
                    part.tofile(file)

    def _file(self, number: int) -> Path:
        return self.folder / f"bucket-{number}"

    def write(self) -> None:
        """Write the CSR matrix into the folder, and remove the files."""
        with CsrWriter(self.folder) as out:
            for X in self._sorted():
                out.append(X)

    def _sorted(self) -> Iterator[Any]:
        n, d = self.shape
        for number, start in enumerate(range(0, n, self.rows)):
            entries = self._taken(number)
            place = (entries["row"] - start, entries["column"])
            shape = (min(self.rows, n - start), d)
            yield sp.coo_array((entries["value"], place), shape=shape).tocsr()

    def _taken(self, number: int) -> Array:
        if self.count == 1:
            return np.concatenate([np.empty(0, ENTRY), *self.held])
        path = self._file(number)
        if not path.exists():
            return np.empty(0, ENTRY)
        found = np.fromfile(path, ENTRY)
        path.unlink()
        return found
