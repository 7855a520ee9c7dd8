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
from vrpca.data.files.raw import map_on_disk
from vrpca.data.frames import FrameSource, is_frame
from vrpca.data.memory import (
    ArraySource,
    SparseSource,
    as_array,
    fits_in_memory,
    on_disk,
    sparse_source,
)
from vrpca.data.source import Source
from vrpca.data.unloaded import UnloadedFile
from vrpca.errors import DataError, DataTypeError
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
    source.row_names, source.column_names, source.name = X.row_names, X.column_names, X.name
    return source if on_disk(X.X) else X


def span(X: Array) -> int:
    """Bytes from the first entry of an array to the last, gaps included."""
    return X.itemsize + sum(abs(stride) * (count - 1) for stride, count in zip(X.strides, X.shape, strict=True))


def from_path(path: Any, limited: bool = False, scaling: str | None = None) -> Source:
    """The source of a file or of several, with a name for messages; `scaling` is that of `vrpca.open_data`."""
    if limited:
        parts = in_parts(path) if scaling is None else None
        return whole_file(path, scaling) if parts is None else named(parts, path)
    return source_of(path, open_data(path, scaling=scaling))


def whole_file(path: Any, scaling: str | None = None) -> Source:
    """The source of a file of which no more than headers have been read."""
    found = contents(path) if scaling is None else None
    if found is None:
        return source_of(path, open_limited(path, scaling), limited=True)
    return named(UnloadedFile(found, lambda: source_of(path, open_data(path))), path)


def source_of(path: Any, X: Any, limited: bool = False) -> Source:
    """What a path has opened as a source; errors name the path."""
    try:
        return named(as_source(X, limited), path)
    except DataError as error:
        raise type(error)(f"{path}: {error}") from error


def named(source: Source, path: Any) -> Source:
    """The source with a name for messages, unless it has one."""
    source.name = source.name or (str(path) if isinstance(path, str | os.PathLike) else f"{path[0]} and others")
    return source


def held(source: SparseSource, X: Any) -> Source:
    """The source with the memory that it takes where X had to be converted: its arrays that are not those of X."""
    own = [id(part) for part in _parts(X)]
    source.held_bytes = sum(int(part.nbytes) for part in _parts(source.X) if id(part) not in own)
    return source


def _parts(X: Any) -> list[Array]:
    """The arrays that make up a sparse matrix; none for formats that become another one."""
    return [X.data, X.indices, X.indptr] if X.format in ("csr", "csc") else []


# What arrays that lie elsewhere have, in chunks: dask, PyTables, netCDF4, tensorstore.
CHUNKED = ("chunks", "chunkshape", "chunking", "chunk_layout")


def lies_elsewhere(X: Any) -> bool:
    """Whether X would have to be loaded: an array or a frame on disk or on a cluster, by its looks alone."""
    if hasattr(X, "__dask_graph__"):
        return X.__dask_graph__() is not None  # xarray has one for arrays of dask only
    return hasattr(X, "shape") and any(hasattr(X, name) for name in CHUNKED) and not hasattr(X, "values")


# Kinds of objects that are read where they lie: package, class, the module here, and its function or class.
OPEN = (
    ("h5py", "Dataset", "files.hdf5", "element"),
    ("zarr", "Array", "files.zarr_store", "array_source"),
    ("anndata", "AnnData", "files.hdf5", "annotated_matrix"),
    ("polars", "LazyFrame", "files.lazy_frame", "LazyFrameSource"),
    ("pyarrow", "Table", "files.arrow", "TableSource"),
    ("pyarrow.dataset", "Dataset", "files.arrow", "DatasetSource"),
)
# The same for what dask holds. It depends on a memory limit whether it is kept in memory.
HELD_BY_DASK = (
    ("dask.array", "Array", "cluster.opening", "array_source"),
    ("dask.dataframe", "DataFrame", "cluster.opening", "frame_source"),
)
DELAYED = ("cluster.opening", "blocks_source")  # for lists of delayed blocks


def _opener(X: Any) -> tuple[str, str] | None:
    """The module here and its function that make a source of X, if X is of one of the kinds above."""
    for package, kind, module, function in OPEN:
        found = sys.modules.get(package)
        if found is not None and isinstance(X, vars(found)[kind]):
            return module, function
    return None


def _dask_opener(X: Any) -> tuple[str, str] | None:
    """The module here and its function that make a source of X, if dask holds it."""
    for package, kind, module, function in HELD_BY_DASK:
        found = sys.modules.get(package)
        if found is not None and kind in vars(found) and isinstance(X, vars(found)[kind]):
            return module, function
    delayed = sys.modules.get("dask.delayed")
    if delayed is None or not isinstance(X, list | tuple) or not X:
        return None
    return DELAYED if all(isinstance(each, vars(delayed)["Delayed"]) for each in X) else None


def is_open(X: Any) -> bool:
    """Whether X is read where it lies. No package is imported to find out."""
    return _opener(X) is not None or held_by_dask(X)


def held_by_dask(X: Any) -> bool:
    """Whether X is an array or a data frame of dask, or a list of delayed blocks."""
    return _dask_opener(X) is not None


def opened(X: Any, limited: bool) -> Any:
    """X as a source, or what is to be made a source of."""
    of_dask = _dask_opener(X)
    opener = of_dask or _opener(X)
    assert opener is not None
    module, function = opener
    make = vars(import_module(f"vrpca.data.{module}"))[function]
    return make(X, limited) if of_dask else make(X)


def as_source(X: Any, limited: bool = False) -> Source:
    """Return X as a source, without copying it.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or array, pandas or polars frame, path or list of paths, dask object, or Source
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
        return X if X.trusted else CheckedSource(X)
    if type(X) is np.ndarray and X.dtype.kind != "O":
        return array_source(X, limited)
    if hasattr(X, "blocks") and hasattr(X, "transposed"):
        kind = type(X).__name__
        raise DataTypeError(f"X is a {kind}, which looks like a source but is none: derive {kind} from vrpca.Source.")
    if is_open(X):
        return as_source(opened(X, limited), limited)
    if lies_elsewhere(X):
        kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
        raise DataTypeError(
            f"X is a {kind}, which is not loaded behind your back. Pass numpy.asarray(X) if it fits in memory; else a "
            "subclass of vrpca.Source that hands out blocks of its rows."
        )
    if is_path(X):
        return from_path(X, limited)
    if sp.issparse(X):
        return held(sparse_source(X), X)
    if is_frame(X):
        return FrameSource(X)
    array = as_array(X)
    source = array_source(array, limited)
    if not isinstance(X, np.ndarray) and array.flags.owndata:
        source.held_bytes = array.nbytes  # lists, say, had to be copied
    return source
