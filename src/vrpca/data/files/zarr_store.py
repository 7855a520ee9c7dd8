"""zarr stores, versions 2 and 3 of the format: a folder or an address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.chunked import (
    CHUNKS_HELD,
    ChunkedFile,
    is_dense,
    is_sparse,
    no_such_matrix,
    only_matrix,
    sparse_matrix,
)
from vrpca.data.files.extras import needs
from vrpca.data.files.remote import Location
from vrpca.data.source import Source
from vrpca.errors import DataError, warn


def open_matrix(path: Path | Location, name: str | None = None) -> Source:
    """The array in a store: that of this name, the array itself, or the only matrix of a group."""
    zarr = needs("zarr", "zarr", str(path))
    found = zarr.open(str(path), mode="r")
    if isinstance(found, zarr.Group):
        name = _only(zarr, str(path), found) if name is None else name
        if name not in found:
            raise no_such_matrix(path, name, _matrices(zarr, found))
        found = found[name]
    elif name is not None:
        raise DataError(f"{path} is one array: leave out ::{name}.")
    full = f"{path}::{name}" if name else str(path)
    files = _files(path / name if name else path) if isinstance(path, Path) else []
    if not isinstance(found, zarr.Array):
        return sparse_matrix(full, files, found)
    if files:
        _check_chunks(full, found)
    return ZarrArray(full, files, found)


def _files(folder: Path) -> list[Path]:
    """All files of a store, so that none of them is changed or removed during a fit."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _check_chunks(name: str, X: Any) -> None:
    """A chunk that is not there may never have been written, or may have been lost: nobody can tell."""
    missing = X.nchunks - X.nchunks_initialized
    if not missing:
        return
    found = f"{name}: {missing} of {X.nchunks} chunks are not there"
    if X.fill_value is None or not np.isfinite(X.fill_value):
        raise DataError(f"{found}, and what stands for them is {X.fill_value}. Write or copy it again.")
    warn(f"{found}: they are read as {X.fill_value}. Copy the store again if they were lost.")


def _only(zarr: Any, path: str, group: Any) -> str:
    if group.attrs.get("encoding-type") == "anndata":
        return "X"
    return only_matrix(path, _matrices(zarr, group))


def _matrices(zarr: Any, group: Any) -> list[str]:
    """The names of all matrices of numbers, dense and sparse."""
    members = group.members(max_depth=None)
    return [name for name, each in members if (is_dense if isinstance(each, zarr.Array) else is_sparse)(each)]


class ZarrArray(ChunkedFile):
    """An array in a zarr store."""

    chunks_held = CHUNKS_HELD


def array_source(X: Any) -> ZarrArray:
    """An open array."""
    return ZarrArray(f"The zarr array {X.name or ''}".strip(), [], X)
