"""Matrices in several files, one below the other: the files of a folder, those of a pattern, or a list."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from vrpca.data.files.base import BUFFERS, INDEX_BYTES, SPARSE_COPIES, DenseFile, FileSource, SparseFile
from vrpca.data.files.bed import differing_alleles, known_alleles
from vrpca.data.files.raw import map_on_disk
from vrpca.data.memory import ArraySource, fits_in_memory
from vrpca.data.source import Source, working_dtype
from vrpca.data.sparse_parts import canonical, compressed
from vrpca.errors import DataError
from vrpca.typing import Array

Open = Callable[[Path], Any]  # opens one file
HIDDEN = (".", "_")  # how names begin of files that are no data: hidden ones, and marks such as _SUCCESS
KEPT = 4  # files that had to be loaded stay in memory until they take this part of what may be loaded


def natural_order(path: Path) -> list[Any]:
    """A key to sort paths by: numbers within names count as numbers.

    >>> sorted([Path("part-10.npy"), Path("part-2.npy")], key=natural_order)[0].name
    'part-2.npy'
    """
    pieces = re.split(r"(\d+)", str(path))
    return [(int(piece), piece) if piece.isdigit() else (0, piece) for piece in pieces]


def files_of(path: Path) -> list[Path]:
    """The files of a folder, or of a pattern such as ``data/part-*.npy``, in natural order."""
    if not path.is_dir():
        found = [Path(name) for name in glob.glob(str(path), recursive=True)]
        if not found:
            raise DataError(f"No file matches {path}: check the pattern and the folder.")
        return sorted(found, key=natural_order)
    try:
        inside = sorted((Path(entry) for entry in os.scandir(path)), key=natural_order)
    except OSError as error:
        raise DataError(f"The folder {path} cannot be read ({error.strerror}): name one that can.") from error
    inside = [file for file in inside if not file.name.startswith(HIDDEN)]
    for file in inside:
        if file.is_dir():
            raise DataError(
                f"The folder {path} has a folder {file.name} in it. Folders within folders are not searched: name the "
                f"files by a pattern, such as '{path}/*/*.npy'."
            )
    if not inside:
        raise DataError(f"The folder {path} has no data files. Name a file or a folder with some.")
    return inside


def is_pattern(path: Path) -> bool:
    """Whether a name stands for several files."""
    return glob.has_magic(str(path)) and not path.exists()


def open_shards(paths: Sequence[Path], open_one: Open) -> Source:
    """The rows of all files, in this order. Files without rows are skipped."""
    if not paths:
        raise DataError("X is an empty list of files: name at least one.")
    held, parts = 0, []
    for path in paths:
        X = open_one(path)
        if len(X.shape) == 2 and X.shape[0] == 0:
            continue
        part = _named_part(path, X, open_one)
        if isinstance(part, HeldArray | HeldMatrix):
            held += part.size
            if not fits_in_memory(KEPT * held):
                part.let_go()
        parts.append(part)
    if not parts:
        raise DataError(f"{paths[0]} and the other files have no rows: nothing can be decomposed. Write them again.")
    _check_alike(parts)
    sparse = [part for part in parts if isinstance(part, SparseFile)]
    return SparseShards(sparse) if sparse else DenseShards([part for part in parts if isinstance(part, DenseFile)])


def _named_part(path: Path, X: Any, open_one: Open) -> FileSource:
    """One file as a source; errors name the file."""
    try:
        return _part(path, X, open_one)
    except DataError as error:
        if str(path) in str(error):
            raise
        raise DataError(f"{path}: {error}") from error


def _part(path: Path, X: Any, open_one: Open) -> FileSource:
    """One file as a source that is read; memory maps are dropped, since a process can have only so many."""
    names = (X.row_names, X.column_names) if isinstance(X, Source) else (None, None)
    plain = X.X if isinstance(X, ArraySource) else X
    part = map_on_disk(plain) if isinstance(plain, np.ndarray) and plain.ndim == 2 else None
    if isinstance(plain, FileSource):
        part = plain
    elif part is None:
        part = HeldMatrix(path, plain, open_one) if sp.issparse(plain) else HeldArray(path, plain, open_one)
    if part.by_columns or not isinstance(part, DenseFile | SparseFile):
        raise DataError(f"{path} cannot be one of several files: it is stored by columns. Write it by rows.")
    part.row_names, part.column_names = names
    return part.watching([path])


def _check_alike(parts: Sequence[FileSource]) -> None:
    """Raise unless all parts have the same columns, and all or none are sparse."""
    first = parts[0]
    for part in parts[1:]:
        path, d = part.paths[0], first.shape[1]
        if part.shape[1] != d:
            raise DataError(
                f"{path} has {part.shape[1]} columns, but {first.paths[0]} has {d}: all files must have the same "
                "columns. Leave it out, or write it again."
            )
        if part.sparse != first.sparse:
            kinds = ["sparse" if each.sparse else "dense" for each in (part, first)]
            raise DataError(f"{path} is {kinds[0]}, but {first.paths[0]} is {kinds[1]}. Write all files alike.")
        names, others = part.column_names, first.column_names
        if names is not None and others is not None and list(names) != list(others):
            j = next(j for j in range(d) if names[j] != others[j])
            raise DataError(
                f"{path} has a column {names[j]!r} where {first.paths[0]} has {others[j]!r}: all files must have the "
                "same columns in the same order. Write it again."
            )


class HeldArray(DenseFile):
    """A dense matrix that can only be loaded whole. It is loaded for every block if it is not kept."""

    def __init__(self, path: Path, X: Array, open_one: Open):
        super().__init__([path], X.shape, X.dtype)
        self.path, self.open_one, self.size = path, open_one, X.nbytes
        self.X: Array | None = X
        self.slow_to_read, self.held_bytes = False, self.size

    def let_go(self) -> None:
        """Do not keep the matrix; read it as a whole."""
        self.X, self.unit_rows, self.slow_to_read = None, self.shape[0], True
        self.held_bytes -= self.size

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """A part of the matrix."""
        X = self.open_one(self.path) if self.X is None else self.X
        out[...] = X[rows, columns]

    def part_memory(self, rows: int, columns: int) -> int:
        """Bytes of the matrix, if it is loaded for every block."""
        return self.size if self.X is None else 0


class HeldMatrix(SparseFile):
    """A sparse matrix that can only be loaded whole. It is loaded for every block if it is not kept."""

    def __init__(self, path: Path, X: Any, open_one: Open):
        X = _csr(X)
        super().__init__([path], X.shape, working_dtype(X.dtype), X.indptr)
        self.path, self.open_one, self.size = path, open_one, X.data.nbytes + X.indices.nbytes
        self.X: Any = X
        self.slow_to_read, self.held_bytes = False, self.held_bytes + self.size

    def let_go(self) -> None:
        """Do not keep the matrix; read it as a whole."""
        self.X, self.unit_rows, self.slow_to_read = None, self.shape[0], True
        self.held_bytes -= self.size

    def block_starts(self) -> Array:
        """One block if the matrix is not kept."""
        return super().block_starts() if self.X is not None else np.array([0, self.shape[0]])

    def read_entries(self, start: int, stop: int) -> tuple[Array, Array]:
        """A part of the entries."""
        X = _csr(self.open_one(self.path)) if self.X is None else self.X
        return X.indices[start:stop], X.data[start:stop]

    def entry_memory(self) -> int:
        """Bytes of the matrix, if it is loaded for every block."""
        return 2 * self.size if self.X is None else 0


def _csr(X: Any) -> Any:
    return canonical(canonical(compressed(X)).tocsr())


class _Joined(FileSource):
    """What dense and sparse shards have in common."""

    parts: Sequence[FileSource]

    def _join(self, parts: Sequence[FileSource]) -> None:
        self.parts, self.slow_to_read = parts, any(part.slow_to_read for part in parts)
        self.unit_rows = max(part.unit_rows for part in parts)
        self.held_bytes += sum(part.held_bytes for part in parts)
        rows = [len(part.row_names) for part in parts if part.row_names is not None]
        if len(rows) == len(parts):
            self.row_names = [name for part in parts for name in part.row_names or ()]
        named = [part.column_names for part in parts if part.column_names is not None]
        self.column_names = named[0] if named else None
        self.first_rows = np.cumsum([0, *(part.shape[0] for part in parts)])
        genotypes = [part for part in parts if part.genotypes_scaled is not None]
        self.genotypes_scaled = genotypes[0].genotypes_scaled if genotypes else None
        self.alleles = _common_alleles(genotypes)

    def within(self, block_bytes: int) -> Self:
        """The same with blocks of no more than this number of bytes, as far as the formats can.

        Numbers of parts with a narrower type become wider here, so that their own blocks have to be smaller.
        """
        other, size = super().within(block_bytes), self.dtype.itemsize
        other.parts = [part.within(max(1, block_bytes * part.dtype.itemsize // size)) for part in self.parts]
        other.unit_rows = max(part.unit_rows for part in other.parts)
        return other

    def place(self, row: int) -> str:
        """The file, and the number of the row in it."""
        number = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        return f"{self.parts[number].paths[0]}, row {row - self.first_rows[number]}"

    def _merged_starts(self, bytes_before: Callable[[Array], Array]) -> Array:
        """Where the blocks of the parts begin; small neighbours are put together."""
        starts = [first + part.block_starts()[:-1] for first, part in zip(self.first_rows, self.parts, strict=False)]
        cuts = np.append(np.concatenate(starts), self.shape[0])
        before = bytes_before(cuts)
        kept = [0]
        for cut in range(1, len(cuts) - 1):
            if before[cut + 1] - before[kept[-1]] > self.block_bytes:
                kept.append(cut)
        return cuts[[*kept, len(cuts) - 1]]


def _common_alleles(genotypes: Sequence[FileSource]) -> Sequence[str] | None:
    """What files of genotypes know of the alleles together; raise if they count different ones."""
    known: Sequence[str] | None = None
    for part in genotypes:
        if known is None or part.alleles is None:
            known = part.alleles if known is None else known
            continue
        if differing_alleles(known, part.alleles):
            raise DataError(
                f"{part.paths[0]} and the files before it have different alleles, or count the other one. Write them "
                "again with the same alleles: plink --a1-allele first.bim 5 2 --make-bed."
            )
        known = known_alleles(known, part.alleles)
    return known


def _all_paths(parts: Sequence[FileSource]) -> list[Path]:
    return [path for part in parts for path in part.paths]


class DenseShards(_Joined, DenseFile):
    """Dense matrices, one below the other."""

    def __init__(self, parts: Sequence[DenseFile]):
        shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])
        super().__init__(_all_paths(parts), shape, np.result_type(*(part.dtype for part in parts)))
        self._join(parts)
        self.slow_to_read = self.slow_to_read or not fits_in_memory(self.entries * self.dtype.itemsize)

    def with_allele_frequencies(self, frequencies: Array, scaled: bool) -> Source:
        """All parts with these frequencies."""
        parts = [part.with_allele_frequencies(frequencies, scaled) for part in self.parts]
        other = DenseShards([part for part in parts if isinstance(part, DenseFile)])
        other.name = self.name
        return other

    def block_starts(self) -> Array:
        """Blocks of the parts, put together."""
        return self._merged_starts(lambda rows: rows * (self.shape[1] * self.dtype.itemsize))

    def part_memory(self, rows: int, columns: int) -> int:
        """Bytes that the part takes which takes most, and of its rows where they have to be converted."""
        return max(self._memory_of(part, min(rows, part.shape[0]), columns) for part in self.parts)

    def _memory_of(self, part: FileSource, rows: int, columns: int) -> int:
        assert isinstance(part, DenseFile)
        converted = 0 if part.dtype == self.dtype else rows * columns * part.dtype.itemsize
        return part.part_memory(rows, columns) + converted

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Read from each part what it has of these rows."""
        last = np.searchsorted(self.first_rows, rows.stop, side="left")
        for number in range(int(np.searchsorted(self.first_rows, rows.start, side="right")) - 1, int(last)):
            part, first = self.parts[number], int(self.first_rows[number])
            lo, hi = max(rows.start, first), min(rows.stop, first + part.shape[0])
            room = out[lo - rows.start : hi - rows.start]
            assert isinstance(part, DenseFile)
            if part.dtype == self.dtype:
                part.read(slice(lo - first, hi - first), columns, room)
            else:
                found = np.empty(room.shape, part.dtype)
                part.read(slice(lo - first, hi - first), columns, found)
                room[...] = found


class SparseShards(_Joined, SparseFile):
    """Sparse matrices, one below the other."""

    def __init__(self, parts: Sequence[SparseFile]):
        shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])
        self.first_entries = np.cumsum([0, *(part.entries for part in parts)])
        indptr = [part.indptr[1:] + first for part, first in zip(parts, self.first_entries[:-1], strict=True)]
        dtype = np.result_type(*(part.dtype for part in parts))
        super().__init__(_all_paths(parts), shape, dtype, np.concatenate([[0], *indptr]))
        self._join(parts)
        self.slow_to_read = self.slow_to_read or not fits_in_memory(self.entries * (dtype.itemsize + INDEX_BYTES))

    def block_starts(self) -> Array:
        """Blocks of the parts, put together."""
        return self._merged_starts(lambda rows: self.indptr[rows] * (self.dtype.itemsize + INDEX_BYTES))

    def entry_memory(self) -> int:
        """Bytes that the part takes which takes most, and of the largest one where it comes as a whole."""
        whole = [part.entries * (part.dtype.itemsize + INDEX_BYTES) for part in self.parts if part.unit_rows > 1]
        most = max(part.entry_memory() for part in self.parts if isinstance(part, SparseFile))
        return most + SPARSE_COPIES * BUFFERS * max(whole, default=0)

    def read_entries(self, start: int, stop: int) -> tuple[Array, Array]:
        """Read from each part what it has of these entries."""
        indices, values = [np.empty(0, np.int32)], [np.empty(0, self.dtype)]
        for part, first in zip(self.parts, self.first_entries[:-1].tolist(), strict=True):
            assert isinstance(part, SparseFile)
            lo, hi = max(start, first), min(stop, first + part.entries)
            if lo < hi:
                found = part.read_entries(lo - first, hi - first)
                indices.append(found[0])
                values.append(found[1])
        return np.concatenate(indices), np.concatenate(values)
