"""How X of any supported kind becomes a source."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.checked import CheckedSource
from vrpca.data.files import contents, open_data
from vrpca.data.files.base import FileSource
from vrpca.data.files.raw import map_on_disk
from vrpca.data.frames import FrameSource, is_frame
from vrpca.data.memory import (
    ArraySource,
    ConvertedSource,
    SparseSource,
    as_array,
    on_disk,
    sparse_source,
    too_large_to_map,
)
from vrpca.data.source import Source
from vrpca.data.unloaded import UnloadedFile
from vrpca.errors import DataTypeError
from vrpca.typing import Array


def is_path(X: Any) -> bool:
    """Whether X names a file."""
    return isinstance(X, str | os.PathLike)


# What arrays that lie elsewhere have, in chunks: dask, h5py and zarr, PyTables, netCDF4, tensorstore.
CHUNKED = ("chunks", "chunkshape", "chunking", "chunk_layout")


def lies_elsewhere(X: Any) -> bool:
    """Whether X would have to be loaded: an array or a frame on disk or on a cluster, by its looks alone."""
    if hasattr(X, "__dask_graph__"):
        return X.__dask_graph__() is not None  # xarray has one for arrays of dask only
    return hasattr(X, "shape") and any(hasattr(X, name) for name in CHUNKED) and not hasattr(X, "values")


def as_source(X: Any, limited: bool = False) -> Source:
    """Return X as a source, without copying it.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or array, pandas or polars frame, path of a .npy or .npz file, or Source
        The data, samples in rows.
    limited : bool
        Whether memory is limited: mapped files are read into buffers then, since pages of a map count as memory, and
        files that have to be loaded whole wait until it is known that they fit.

    Returns
    -------
    Source
    """
    if isinstance(X, Source):
        return X if isinstance(X, ConvertedSource | CheckedSource | FileSource | UnloadedFile) else CheckedSource(X)
    if type(X) is np.ndarray and X.dtype.kind != "O":
        return array_source(X, limited)
    if hasattr(X, "blocks") and hasattr(X, "transposed"):
        kind = type(X).__name__
        raise DataTypeError(f"X is a {kind}, which looks like a source but is none: derive {kind} from vrpca.Source.")
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


def headers_of(path: Any) -> Source:
    """The source of a file of which headers have been read alone: where memory is limited, or for its description."""
    found = contents(path)
    if found is None:
        return as_source(open_data(path), True)
    return UnloadedFile(found, lambda: as_source(open_data(path)))


def array_source(X: Array, limited: bool) -> Source:
    """An array as a source. A map is read into buffers where memory is limited, or where it is too large for it."""
    if not on_disk(X) or not (limited or too_large_to_map(X.nbytes)):
        return ArraySource(X)
    file, source = map_on_disk(X), ArraySource(X)
    if file is None:  # changed in memory only, or with gaps: its pages stay
        source.held_bytes = span(X)
    return source if file is None else file


def span(X: Array) -> int:
    """Bytes from the first entry of an array to the last, gaps included."""
    return X.itemsize + sum(abs(stride) * (count - 1) for stride, count in zip(X.strides, X.shape, strict=True))


def held(source: SparseSource, X: Any) -> Source:
    """The source with the memory that it takes where X had to be converted: its arrays that are not those of X."""
    own = [id(part) for part in _parts(X)]
    source.held_bytes = sum(int(part.nbytes) for part in _parts(source.X) if id(part) not in own)
    return source


def _parts(X: Any) -> list[Array]:
    """The arrays that make up a sparse matrix; none for formats that become another one."""
    return [X.data, X.indices, X.indptr] if X.format in ("csr", "csc") else []
