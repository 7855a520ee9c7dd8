"""``.h5``, ``.hdf5`` and ``.h5ad`` files, read by h5py.

h5py has one lock for everything: nothing is gained by reading on several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.base import FileSource
from vrpca.data.files.chunked import ChunkedFile, is_dense, is_sparse, no_such_matrix, only_matrix, sparse_matrix
from vrpca.data.files.columnar import LazyNames
from vrpca.data.files.extras import needs
from vrpca.data.source import Source
from vrpca.errors import DataError, DataTypeError
from vrpca.typing import Array


def open_matrix(path: Path, name: str | None = None) -> Source:
    """The matrix of this name in a file: by default X of an .h5ad file, or the only matrix."""
    h5py = needs("h5py", "hdf5", str(path))
    file = h5py.File(path, "r")
    annotated = is_annotated(file)
    if name is None:
        name = "X" if annotated else only_matrix(str(path), _matrices(h5py, file))
    if name not in file:
        raise no_such_matrix(path, name, _matrices(h5py, file))
    source = element(file[name])
    return with_names(source, file) if annotated else source


def is_annotated(file: Any) -> bool:
    """Whether a file has the form that anndata writes."""
    return file.attrs.get("encoding-type") == "anndata" or {"X", "obs", "var"} <= file.keys()


def element(X: Any) -> Source:
    """An open dataset, or a group that holds a sparse matrix."""
    path, h5py = Path(X.file.filename), needs("h5py", "hdf5", X.file.filename)
    name = f"{path}::{X.name.strip('/')}"
    if isinstance(X, h5py.Dataset):
        return H5Array(name, [path], X)
    return sparse_matrix(name, [path], X)


class H5Array(ChunkedFile):
    """A dataset in an HDF5 file."""

    def fetch(self, rows: slice, columns: slice, out: Array) -> None:
        """Numbers of the right type go straight into the buffer."""
        if self.X.dtype == self.dtype:
            self.X.read_direct(out, np.s_[rows, columns])
        else:
            out[...] = self.X[rows, columns]


def with_names(source: Source, file: Any) -> Source:
    """The matrix with the names of observations and variables, where there are as many."""
    assert isinstance(source, FileSource)
    for axis, (count, table) in enumerate(zip(source.shape, ("obs", "var"), strict=True)):
        names = _names(file, table)
        if names is not None and len(names) == count:
            setattr(source, ("row_names", "column_names")[axis], names)
    return source


def _names(file: Any, table: str) -> LazyNames | None:
    """The index of a table of annotations; None in files that are older than anndata 0.7."""
    found = file.get(table)
    index = None if found is None else found.attrs.get("_index")
    if index is None or index not in found:
        return None
    column = found[index]
    return LazyNames(len(column), lambda: column.asstr()[:].tolist())


def _matrices(h5py: Any, file: Any) -> Sequence[str]:
    """The names of all matrices of numbers, dense and sparse."""
    found = []

    def visit(name: str, X: Any) -> None:
        if is_dense(X) if isinstance(X, h5py.Dataset) else is_sparse(X):
            found.append(name)

    file.visititems(visit)
    return found


def annotated_matrix(adata: Any) -> Any:
    """X of an AnnData object: in memory, or as a source if it lies in a file."""
    if not adata.isbacked:
        if adata.X is None:
            raise DataError(
                "The AnnData object has no X: pass one of its layers, such as adata.layers['counts'], or call "
                "vrpca.anndata.pca(adata, layer='counts')."
            )
        return adata.X
    if adata.is_view:
        raise DataTypeError(
            "X is a part of an AnnData object in a file. Pass a copy in memory: adata.to_memory(), or call "
            "vrpca.anndata.pca(adata, mask_var=...) for some of its genes."
        )
    X = adata.X
    source = element(X.group if hasattr(X, "group") else X)  # sparse matrices come in a wrapper
    assert isinstance(source, FileSource)
    source.row_names, source.column_names = adata.obs_names, adata.var_names
    return source
