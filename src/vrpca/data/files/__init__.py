"""Data in files, one module per format; pickles never.

A new format is a module with a function that opens a path, and a line in `FORMATS`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vrpca.data.files.damage import PICKLED
from vrpca.data.files.npy import open_npy
from vrpca.data.files.npz import open_npz
from vrpca.data.files.output import check_target, written_whole
from vrpca.errors import DataError

__all__ = ["check_target", "open_data", "written_whole"]

FORMATS = {b"\x93NUMPY": open_npy, b"PK": open_npz}  # by the first bytes of the file
PICKLE = b"\x80"


def open_data(path: str | os.PathLike[str]) -> Any:
    """Open a matrix that is in a file.

    Parameters
    ----------
    path : str or path
        A ``.npy`` file (`numpy.save`), which is mapped, not read; or a ``.npz`` file with a sparse matrix
        (`scipy.sparse.save_npz`) or a dense one: the array named ``"X"``, else the only array with two dimensions. What
        the file is shows in its first bytes, not in its name.

    Returns
    -------
    numpy.memmap, numpy.ndarray or scipy sparse matrix
        The data, not changed and not checked for NaN.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/data.npy", np.eye(3))
    ...     open_data(folder + "/data.npy").shape
    (3, 3)
    """
    path = Path(path)
    start = _first_bytes(path)
    for signature, open_format in FORMATS.items():
        if start.startswith(signature):
            return open_format(path)
    if start.startswith(PICKLE):
        raise DataError(f"{path} cannot be used. {PICKLED}, with numpy.save or scipy.sparse.save_npz.")
    what = "is not a .npy or .npz file" if start else "is empty"
    raise DataError(f"{path} {what}: write the data with numpy.save, numpy.savez or scipy.sparse.save_npz.")


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(8)
    except FileNotFoundError:
        raise DataError(f"There is no data file {path}: check the name and the folder.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): name a .npy or .npz file that can.") from error
