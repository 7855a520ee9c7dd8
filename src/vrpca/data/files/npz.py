"""``.npz`` files: a sparse matrix (`scipy.sparse.save_npz`) or a dense one (`numpy.savez`).

They are loaded, unless that would take more than half of the memory. What is stored without compression is read block
by block then.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.files.archive import Archive
from vrpca.data.files.buckets import Buckets
from vrpca.data.files.cache import Facts, converted, open_sparse
from vrpca.data.files.origin import LocalFile
from vrpca.data.files.raw import RawCsr, RawFile, RawNumbers
from vrpca.data.memory import fits_in_memory
from vrpca.data.source import Source, check_shape
from vrpca.data.unloaded import Contents
from vrpca.errors import DataError

PARTS = ("indptr", "indices", "data")  # of a compressed sparse matrix
MOST_COLUMNS = 2**31 - 1  # column numbers of converted matrices have 32 bits
CHUNK = 1 << 20  # entries that are converted at a time


def open_matrix(path: Path) -> Any:
    """The matrix in an archive."""
    with path.open("rb") as file:
        archive = Archive(file)
        if not {"format", "shape"} <= archive.members.keys():
            return _dense(path, archive, _matrix_name(path, archive))
        for name in archive.members:
            archive.check(name)
        if not fits_in_memory(sum(member.file_size for member in archive.members.values())):
            return _large_sparse(path, archive)
        file.seek(0)
        X = sp.load_npz(file)
    if X.format in ("csr", "csc", "bsr"):
        X.check_format(full_check=True)  # compiled code follows these indices blindly
    if X.format in ("csr", "csc"):
        X.sum_duplicates()  # in place: a matrix of the user's would have to be copied for that
    return X


def in_parts(path: Path) -> Source | None:
    """The matrix as a source that is read block by block; None where it is not stored so that it can be."""
    with path.open("rb") as file:
        archive = Archive(file)
        sparse = {"format", "shape"} <= archive.members.keys()
        names = PARTS if sparse else (_matrix_name(path, archive),)
        if any(archive.members[name].compress_type != zipfile.ZIP_STORED for name in names if name in archive.members):
            return None
        for name in archive.members if sparse else names:
            archive.check(name)
        if not sparse:
            return None if len(archive.header(names[0]).shape) != 2 else _dense_in_parts(path, archive, names[0])
        return _large_sparse(path, archive) if _kind(archive) == "csr" else None


def contents(path: Path) -> Contents:
    """What the headers say of the matrix. Of a sparse one, its format and shape are read, which are small arrays."""
    with path.open("rb") as file:
        archive = Archive(file)
        if not {"format", "shape"} <= archive.members.keys():
            name = _matrix_name(path, archive)
            archive.check(name)
            header = archive.header(name)
            check_shape(header.shape)
            (n, d), size = header.shape, archive.members[name].file_size
            return Contents((n, d), header.dtype, n * d, False, header.order == "F", size)
        for name in archive.members:
            archive.check(name)
        n, d = (int(count) for count in archive.read("shape"))
        kind, data = _kind(archive), archive.header("data")
        size = sum(member.file_size for member in archive.members.values())
    compressed = kind in ("csr", "csc")  # others become CSR: there are two matrices for a while
    return Contents((n, d), data.dtype, math.prod(data.shape), True, kind == "csc", size if compressed else 3 * size)


def _kind(archive: Archive) -> str:
    """The format of a sparse matrix."""
    kind = archive.read("format").item()
    return kind.decode() if isinstance(kind, bytes) else kind


def _dense(path: Path, archive: Archive, name: str) -> Any:
    if fits_in_memory(archive.members[name].file_size):
        return archive.read(name)
    archive.check(name)
    return _dense_in_parts(path, archive, name)


def _dense_in_parts(path: Path, archive: Archive, name: str) -> Source:
    """A dense matrix that is read block by block."""
    header, offset = archive.header(name), archive.offset(name)
    if offset is None:
        raise _too_large(path, "numpy.savez, or numpy.save")
    shape = header.shape if header.order == "C" else header.shape[::-1]
    file = RawFile(path, offset, shape, header.dtype)  # type: ignore[arg-type]  # its base checks the shape
    return file if header.order == "C" else file.transposed()


def _large_sparse(path: Path, archive: Archive) -> Source:
    """A CSR matrix that is read block by block."""
    remedy = "scipy.sparse.save_npz(path, X.tocsr(), compressed=False)"
    kind = _kind(archive)
    members = [archive.members[name] for name in PARTS if name in archive.members]
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if kind not in ("csr", "csc") or not stored:
        raise _too_large(path, remedy)
    rows, columns = (int(count) for count in archive.read("shape"))
    indices, values = (_numbers(path, archive, name) for name in ("indices", "data"))
    indptr = archive.read("indptr")
    stored_entries = min(archive.header(name).shape[0] for name in ("indices", "data"))
    if indptr.ndim != 1 or not len(indptr) or indptr[-1] > stored_entries:
        raise ValueError("its rows do not end where its entries do")
    if kind == "csr":
        return RawCsr((rows, columns), indptr, indices, values)
    if columns > MOST_COLUMNS or len(indptr) != columns + 1:
        raise ValueError(f"a matrix of {rows} x {columns} cannot have {len(indptr) - 1} columns")
    return _transposed(path, (rows, columns), indptr, indices, values)


def _transposed(path: Path, shape: tuple[int, int], indptr: np.ndarray, rows: RawNumbers, values: RawNumbers) -> Source:
    """A CSC matrix, converted to CSR once: rows could not be read from it otherwise."""
    origin = LocalFile(path)

    def convert(folder: Path) -> Facts:
        buckets, entries = Buckets(folder, shape, int(indptr[-1])), int(indptr[-1])
        for start in range(0, entries, CHUNK):
            stop = min(start + CHUNK, entries)
            columns = np.searchsorted(indptr, np.arange(start, stop), side="right") - 1
            numbers = rows.read(start, stop).astype(np.int64)
            if numbers.min() < 0 or numbers.max() >= shape[0]:
                raise DataError(f"{path} is damaged: the number of a row is out of range. Write it again.")
            buckets.add(numbers, columns, values.read(start, stop))
        buckets.write()
        return {}

    return open_sparse(converted(origin, convert)[0], origin, shape)


def _numbers(path: Path, archive: Archive, name: str) -> RawNumbers:
    header, offset = archive.header(name), archive.offset(name)
    if offset is None or len(header.shape) != 1 or (name == "indices" and header.dtype.kind not in "iu"):
        raise ValueError(f"{name} is not a plain array of numbers")
    return RawNumbers(path, offset, np.dtype(header.dtype))


def _too_large(path: Path, remedy: str) -> DataError:
    return DataError(
        f"{path} would take more than half of the memory, and is not stored so that it can be read in parts. "
        f"Write it without compression: {remedy}."
    )


def _matrix_name(path: Path, archive: Archive) -> str:
    """Which array of the archive is the data."""
    names = archive.members.keys()
    if "metadata" in names and "components_" in names:
        raise DataError(f"{path} is a vrpca model, not data: name the file with the data.")
    if "X" in names:
        return "X"
    matrices = [name for name in names if len(archive.header(name).shape) == 2]
    if len(matrices) != 1:
        raise DataError(
            f"{path} holds the arrays {', '.join(names) or '(none)'}, of which {len(matrices)} have two dimensions: "
            "name the data X, or leave one matrix only."
        )
    return matrices[0]
