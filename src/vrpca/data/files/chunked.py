"""Arrays in chunks, as HDF5 and zarr have them: blocks consist of whole chunks."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.base import DenseFile, SparseFile
from vrpca.data.files.paths import damage_reported
from vrpca.data.source import Source, working_dtype
from vrpca.errors import DataError
from vrpca.typing import Array

TOO_LARGE = 8  # blocks of whole chunks that are this many times larger than asked for: the other side is walked
CHUNKS_HELD = 20  # zarr reads 10 chunks at once (its setting async.concurrency), each as it is stored and unpacked
NAMED = 20  # names of matrices in a message, at most
REMEDY = "Write or copy it again"


class ChunkedFile(DenseFile):
    """An open array. It reads chunks, each of them once in a pass."""

    row_major = False
    chunks_held = 3  # at once, by the library: a chunk as it is stored, unpacked, and in its cache

    def __init__(self, name: str, paths: Sequence[Path], X: Any):
        if len(X.shape) != 2:
            raise DataError(f"{name} has {len(X.shape)} dimensions, not 2: write a matrix, samples in rows.")
        n, d = (int(count) for count in X.shape)
        super().__init__(paths, (n, d), _number_type(name, X.dtype))
        self.name, self.X = name, X
        rows, columns = X.chunks or (1, d)  # without chunks, rows lie one after the other
        self.unit_rows, self.unit_columns = min(rows, n), min(columns, d)

    @property
    def by_rows(self) -> bool:
        """Whether chunks are so wide that blocks of whole columns would be too large."""
        tall, wide = self._sizes()
        return wide > TOO_LARGE * self.block_bytes and wide > tall

    @property
    def by_columns(self) -> bool:
        """Whether chunks are so tall that blocks of whole rows would be too large."""
        tall, wide = self._sizes()
        return tall > TOO_LARGE * self.block_bytes and tall > wide

    def _sizes(self) -> tuple[int, int]:
        """Bytes of the smallest blocks of whole rows, and of whole columns."""
        n, d = self.shape
        return self.unit_rows * d * self.dtype.itemsize, self.unit_columns * n * self.dtype.itemsize

    def part_memory(self, rows: int, columns: int) -> int:
        """Bytes of the part as it is stored, and of chunks."""
        chunk = self.unit_rows * self.unit_columns * self.X.dtype.itemsize
        return rows * columns * self.X.dtype.itemsize + self.chunks_held * chunk

    def read(self, rows: slice, columns: slice, out: Array) -> None:
        """Read a part of the array."""
        with damage_reported(self.name, f"cannot be read from row {rows.start} on", REMEDY):
            self.fetch(rows, columns, out)

    def fetch(self, rows: slice, columns: slice, out: Array) -> None:
        """Let the library read a part of the array."""
        out[...] = self.X[rows, columns]


class SparseGroup(SparseFile):
    """A CSR matrix whose parts `data`, `indices` and `indptr` are arrays in a group."""

    def __init__(self, name: str, paths: Sequence[Path], shape: tuple[int, int], group: Any):
        self.name = name
        self.values, self.indices = group["data"], group["indices"]
        count = self.values.shape[0]
        if count != self.indices.shape[0]:
            stored = f"{self.indices.shape[0]} indices and {count} values"
            raise DataError(f"{name} is damaged: it has {stored}. {REMEDY}.")
        super().__init__(paths, shape, _number_type(name, self.values.dtype), group["indptr"][:])
        if self.entries != count:
            ends = f"its rows end at entry {self.entries}, but it has {count}"
            raise DataError(f"{name} is damaged: {ends}. {REMEDY}.")

    def entry_memory(self) -> int:
        """Bytes of chunks of both arrays."""
        return sum(
            CHUNKS_HELD * int((part.chunks or (0,))[0]) * part.dtype.itemsize for part in (self.values, self.indices)
        )

    def read_entries(self, start: int, stop: int) -> tuple[Array, Array]:
        """The parts of some entries."""
        return self.indices[start:stop], self.values[start:stop]

    def read_block(self, rows: slice, slot: int) -> Any:
        """Read consecutive rows; errors say which."""
        with damage_reported(self.name, f"cannot be read from row {rows.start} on", REMEDY):
            return super().read_block(rows, slot)


def sparse_matrix(name: str, paths: Sequence[Path], group: Any) -> Source:
    """The sparse matrix in a group, as anndata writes it; CSC is stored as the CSR matrix of the transpose."""
    kind, shape = _encoding(group), _stored_shape(group)
    if not is_sparse(group):
        raise DataError(f"{name} is a group ({kind or 'of no known kind'}), not a matrix. Name a matrix in it.")
    n, d = (int(count) for count in shape)
    if kind.startswith("csr"):
        return SparseGroup(name, paths, (n, d), group)
    return SparseGroup(name, paths, (d, n), group).transposed()


def _encoding(group: Any) -> str:
    """What a group says that it holds, such as csr_matrix."""
    kind = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", ""))
    return kind.decode("utf-8", "replace") if isinstance(kind, bytes) else str(kind)  # bytes: a text of fixed length


def _stored_shape(group: Any) -> Any:
    return group.attrs.get("shape", group.attrs.get("h5sparse_shape"))


def is_sparse(group: Any) -> bool:
    """Whether a group holds a sparse matrix."""
    return _encoding(group).removesuffix("_matrix") in ("csr", "csc") and _stored_shape(group) is not None


def is_dense(X: Any) -> bool:
    """Whether an array is a matrix of numbers."""
    return X.shape is not None and len(X.shape) == 2 and np.dtype(X.dtype).kind in "fiub"


def no_such_matrix(path: Any, name: str, matrices: Sequence[str]) -> DataError:
    """What to say of a name that is not there: the names that are, and the one that was meant, probably, first."""
    places = ("X", "layers", "raw", "obsm")  # where AnnData keeps what is fitted
    listed = sorted(matrices, key=lambda each: (*(each.split("/")[0] != place for place in places), each))
    close = get_close_matches(name, listed, 1)
    there = ", ".join([*close, *(each for each in listed if each not in close)][:NAMED]) or "no matrix of numbers"
    more = ", ..." if len(listed) > NAMED else ""
    return DataError(
        f"{path} holds no {name!r}: there is {there}{more}. Name a matrix that it holds, as in {path}::NAME."
    )


def only_matrix(name: str, matrices: Sequence[str]) -> str:
    """The name of the only matrix among those that there are."""
    if not matrices:
        raise DataError(f"{name} holds no matrix of numbers: write one, samples in rows.")
    if len(matrices) > 1:
        found = ", ".join(sorted(matrices)[:NAMED])
        raise DataError(f"{name} must hold one matrix, or be told which: found {found}. Name it as in {name}::NAME.")
    return matrices[0]


def _number_type(name: str, dtype: Any) -> np.dtype:
    """The type of the numbers; an error that names the array if it has others."""
    try:
        return working_dtype(np.dtype(dtype))
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
