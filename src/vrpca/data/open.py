"""How X of any supported kind becomes a source."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.checked import CheckedSource
from vrpca.data.files import contents, in_parts, open_data, open_limited
from vrpca.data.files.base import FileSource
from vrpca.data.files.raw import map_on_disk
from vrpca.data.frames import FrameSource, is_frame
from vrpca.data.memory import (
    ArraySource,
    ConvertedSource,
    SparseSource,
    as_array,
    fits_in_memory,
    on_disk,
    sparse_source,
)
from vrpca.data.selected import Selected
from vrpca.data.source import Source
from vrpca.data.unloaded import UnloadedFile
from vrpca.errors import DataTypeError
from vrpca.typing import Array


def is_path(X: Any) -> bool:
    """Whether X names a file, or is a list of names of files."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(each, str | os.PathLike) for each in X)
    return isinstance(X, str | os.PathLike)


def array_source(X: Array, limited: bool = False) -> Source:
    """An array as a source. A map is read block by block where memory is limited, or where it does not fit."""
    if X.ndim != 2 or not X.size or not on_disk(X) or not (limited or not fits_in_memory(X.nbytes)):
        return ArraySource(X)
    file, source = map_on_disk(X), ArraySource(X)
    if file is None:  # changed in memory only, or with gaps: its pages stay
        source.held_bytes = span(X)
    return source if file is None else file


def unmapped(X: ArraySource) -> Source:
    """The source; if it is a map, one that is read into buffers."""
    source = array_source(X.X, limited=True)
    source.row_names, source.column_names = X.row_names, X.column_names
    return source if on_disk(X.X) else X


def span(X: Array) -> int:
    """Bytes from the first entry of an array to the last, gaps included."""
    return X.itemsize + sum(abs(stride) * (count - 1) for stride, count in zip(X.strides, X.shape, strict=True))


def headers_of(path: Any) -> Source:
    """The source of a file where memory is limited. What has to be loaded waits until it is known that it fits."""
    parts = in_parts(path)
    return whole_file(path) if parts is None else parts


def whole_file(path: Any) -> Source:
    """The source of a file of which no more than headers have been read."""
    found = contents(path)
    if found is None:
        return as_source(open_limited(path), True)
    return UnloadedFile(found, lambda: as_source(open_data(path)))


def held(source: SparseSource, X: Any) -> Source:
    """The source with the memory that it takes where X had to be converted: its arrays that are not those of X."""
    own = [id(part) for part in _parts(X)]
    source.held_bytes = sum(int(part.nbytes) for part in _parts(source.X) if id(part) not in own)
    return source


def _parts(X: Any) -> list[Array]:
    """The arrays that make up a sparse matrix; none for formats that become another one."""
    return [X.data, X.indices, X.indptr] if X.format in ("csr", "csc") else []


# Sources of this package, and those that are checked already.
TRUSTED = (ConvertedSource, CheckedSource, FileSource, UnloadedFile, Selected)
# What arrays that lie elsewhere have, in chunks: dask, PyTables, netCDF4, tensorstore.
CHUNKED = ("chunks", "chunkshape", "chunking", "chunk_layout")


def lies_elsewhere(X: Any) -> bool:
    """Whether X would have to be loaded: an array or a frame on disk or on a cluster, by its looks alone."""
    if hasattr(X, "__dask_graph__"):
        return X.__dask_graph__() is not None  # xarray has one for arrays of dask only
    return hasattr(X, "shape") and any(hasattr(X, name) for name in CHUNKED) and not hasattr(X, "values")


# Kinds of objects that are read where they lie: package, class, the module here, and its function or class.
OPEN = (
    ("h5py", "Dataset", "hdf5", "element"),
    ("zarr", "Array", "zarr_store", "array_source"),
    ("anndata", "AnnData", "hdf5", "annotated_matrix"),
    ("polars", "LazyFrame", "lazy_frame", "LazyFrameSource"),
    ("pyarrow", "Table", "arrow", "TableSource"),
    ("pyarrow.dataset", "Dataset", "arrow", "DatasetSource"),
)


def _opener(X: Any) -> tuple[str, str] | None:
    """The module here and its function that make a source of X, if X is of one of the kinds above."""
    for package, kind, module, function in OPEN:
        found = sys.modules.get(package)
        if found is not None and isinstance(X, vars(found)[kind]):
            return module, function
    return None


def is_open(X: Any) -> bool:
    """Whether X is read where it lies. No package is imported to find out."""
    return _opener(X) is not None


def opened(X: Any) -> Any:
    """X as a source, or what is to be made a source of."""
    opener = _opener(X)
    assert opener is not None
    module, function = opener
    return vars(import_module(f"vrpca.data.files.{module}"))[function](X)


def as_source(X: Any, limited: bool = False) -> Source:
    """Return X as a source, without copying it.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or array, pandas or polars frame, path or list of paths, or Source
        The data, samples in rows. `vrpca.open_data` says what files can be. Also what is open already and stays where
        it is: datasets of h5py, arrays of zarr, AnnData objects, lazy frames of polars, tables and datasets of pyarrow.
    limited : bool
        Whether memory is limited: mapped files are read into buffers then, since pages of a map count as memory, and
        files that have to be loaded whole wait until it is known that they fit.

    Returns
    -------
    Source
    """
    if limited and isinstance(X, ArraySource):
        return unmapped(X)
    if isinstance(X, Source):
        return (
            X
            if isinstance(X, ConvertedSource | CheckedSource | FileSource | UnloadedFile | Selected)
            else CheckedSource(X)
        )
    if type(X) is np.ndarray and X.dtype.kind != "O":
        return array_source(X, limited)
    if hasattr(X, "blocks") and hasattr(X, "transposed"):
        kind = type(X).__name__
        raise DataTypeError(f"X is a {kind}, which looks like a source but is none: derive {kind} from vrpca.Source.")
    if is_open(X):
        return as_source(opened(X), limited)
    if lies_elsewhere(X):
        kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
        raise DataTypeError(
            f"X is a {kind}, which is not loaded behind your back. Pass numpy.asarray(X) if it fits in memory; else a "
            "subclass of vrpca.Source that hands out blocks of its rows."
        )
    if is_path(X):
        return headers_of(X) if limited else as_source(open_data(X))
    if sp.issparse(X):
        return held(sparse_source(X), X)
    if is_frame(X):
        return FrameSource(X)
    array = as_array(X)
    source = array_source(array, limited)
    if not isinstance(X, np.ndarray) and array.flags.owndata:
        source.held_bytes = array.nbytes  # lists, say, had to be copied
    return source
