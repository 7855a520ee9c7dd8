"""``.npy`` files (`numpy.save`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.archive import Header
from vrpca.data.files.raw import map_on_disk
from vrpca.data.memory import fits_in_memory
from vrpca.typing import Array


def open_matrix(path: Path) -> Any:
    """The array, as a read-only memory map; as a source that is read block by block where it does not fit in memory."""
    X = map_array(path)
    if X.ndim != 2 or not X.size or fits_in_memory(X.nbytes):
        return X
    return map_on_disk(X)


def map_array(path: Path) -> Array:
    """The array as a read-only memory map."""
    with path.open("rb") as file:
        header = Header.read(file)
    header.check(path.stat().st_size)
    if 0 in header.shape:  # nothing cannot be mapped
        return np.zeros(header.shape, header.dtype)
    return np.memmap(path, header.dtype, "r", header.offset, header.shape, header.order)
