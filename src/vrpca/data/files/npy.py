""".npy files (`numpy.save`): mapped, not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vrpca.data.files.damage import DAMAGE, damaged


def open_npy(path: Path) -> np.ndarray:
    """The array, as a read-only memory map."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        raise damaged(path, error) from error
