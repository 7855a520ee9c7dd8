""".npz archives: one sparse matrix (`scipy.sparse.save_npz`) or one dense one (`numpy.savez`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.files.damage import DAMAGE, damaged
from vrpca.errors import DataError


def open_npz(path: Path) -> Any:
    """The matrix in the archive."""
    try:
        # NumPy leaves a file that it opened itself open when it turns out to be damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if "format" in archive.files and "shape" in archive.files:
                return _sparse(path)
            return archive[_matrix_name(path, archive)]
    except DataError:
        raise
    except DAMAGE as error:
        raise damaged(path, error) from error


def _sparse(path: Path) -> Any:
    with path.open("rb") as file:
        X = sp.load_npz(file)
    if X.format in ("csr", "csc", "bsr"):
        X.check_format(full_check=True)  # compiled code follows these indices blindly
    return X


def _matrix_name(path: Path, archive: Any) -> str:
    """Which array of the archive is the data."""
    names = archive.files
    if "metadata" in names and "components_" in names:
        raise DataError(f"{path} is a vrpca model, not data: name the file with the data.")
    if "X" in names:
        return "X"
    matrices = [name for name in names if len(_shape(archive, name)) == 2]
    if len(matrices) != 1:
        raise DataError(
            f"{path} holds the arrays {', '.join(names) or '(none)'}, of which {len(matrices)} have two dimensions: "
            "name the data X, or leave one matrix only."
        )
    return matrices[0]


def _shape(archive: Any, name: str) -> tuple[int, ...]:
    """The shape of an array in an archive, from its header where NumPy lets us read that alone."""
    with archive.zip.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version in readers:
            return readers[version](file)[0]
    return archive[name].shape
