"""``.npz`` files: a sparse matrix (`scipy.sparse.save_npz`) or a dense one (`numpy.savez`)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from vrpca.data.files.archive import Archive
from vrpca.data.source import check_shape
from vrpca.data.unloaded import Contents
from vrpca.errors import DataError


def open_matrix(path: Path) -> Any:
    """The matrix in an archive."""
    with path.open("rb") as file:
        archive = Archive(file)
        if not {"format", "shape"} <= archive.members.keys():
            return archive.read(_matrix_name(path, archive))
        for name in archive.members:
            archive.check(name)
        file.seek(0)
        X = sp.load_npz(file)
    if X.format in ("csr", "csc", "bsr"):
        X.check_format(full_check=True)  # compiled code follows these indices blindly
    if X.format in ("csr", "csc"):
        X.sum_duplicates()  # in place: a matrix of the user's would have to be copied for that
    return X


def contents(path: Path) -> Contents:
    """What the headers say of the matrix. Of a sparse one, its format and shape are read, which are small arrays."""
    with path.open("rb") as file:
        archive = Archive(file)
        if not {"format", "shape"} <= archive.members.keys():
            name = _matrix_name(path, archive)
            archive.check(name)
            header = archive.header(name)
            entries, size = math.prod(header.shape), archive.members[name].file_size
            check_shape(header.shape)
            n, d = header.shape
            return Contents((n, d), header.dtype, entries, False, header.order == "F", size)
        for name in archive.members:
            archive.check(name)
        n, d = (int(count) for count in archive.read("shape"))
        form, data = archive.read("format").item(), archive.header("data")
        size = sum(member.file_size for member in archive.members.values())
    form = form if isinstance(form, str) else form.decode()
    compressed = form in ("csr", "csc")  # others become CSR: there are two matrices for a while
    return Contents((n, d), data.dtype, math.prod(data.shape), True, form == "csc", size if compressed else 3 * size)


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
