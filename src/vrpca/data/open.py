"""How X of any supported kind becomes a source."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.checked import CheckedSource
from vrpca.data.files import open_data
from vrpca.data.files.base import FileSource
from vrpca.data.files.raw import map_on_disk
from vrpca.data.frames import FrameSource, is_frame
from vrpca.data.memory import ArraySource, ConvertedSource, as_array, fits_in_memory, sparse_source
from vrpca.data.source import Source
from vrpca.errors import DataTypeError
from vrpca.typing import Array


def is_path(X: Any) -> bool:
    """Whether X names a file, or is a list of names of files."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(each, str | os.PathLike) for each in X)
    return isinstance(X, str | os.PathLike)


def array_source(X: Array) -> Source:
    """An array as a source. Maps of files that do not fit in memory are read block by block."""
    large = X.ndim == 2 and X.size > 0 and not fits_in_memory(X.nbytes)
    file = map_on_disk(X) if large else None
    return ArraySource(X) if file is None else file


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


def as_source(X: Any) -> Source:
    """Return X as a source, without copying it.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or array, pandas or polars frame, path or list of paths, or Source
        The data, samples in rows. `vrpca.open_data` says what files can be. Also what is open already and stays where
        it is: datasets of h5py, arrays of zarr, AnnData objects, lazy frames of polars, tables and datasets of pyarrow.

    Returns
    -------
    Source
    """
    if isinstance(X, Source):
        return X if isinstance(X, ConvertedSource | CheckedSource | FileSource) else CheckedSource(X)
    if type(X) is np.ndarray and X.dtype.kind != "O":
        return array_source(X)
    if hasattr(X, "blocks") and hasattr(X, "transposed"):
        kind = type(X).__name__
        raise DataTypeError(f"X is a {kind}, which looks like a source but is none: derive {kind} from vrpca.Source.")
    if is_open(X):
        return as_source(opened(X))
    if lies_elsewhere(X):
        kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
        raise DataTypeError(
            f"X is a {kind}, which is not loaded behind your back. Pass numpy.asarray(X) if it fits in memory; else a "
            "subclass of vrpca.Source that hands out blocks of its rows."
        )
    if is_path(X):
        X = open_data(X)
        if isinstance(X, Source):
            return X
    if sp.issparse(X):
        return sparse_source(X)
    if is_frame(X):
        return FrameSource(X)
    return array_source(as_array(X))
