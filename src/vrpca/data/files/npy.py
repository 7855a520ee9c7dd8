"""``.npy`` files (`numpy.save`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vrpca.data.files.archive import Header
from vrpca.typing import Array


def open_matrix(path: Path) -> Array:
    """The array, as a read-only memory map."""
    with path.open("rb") as file:
        header = Header.read(file)
    header.check(path.stat().st_size)
    return np.memmap(path, header.dtype, "r", header.offset, header.shape, header.order)
