"""Data in files. Pickles are never read.

A new format is a module here with a function `open_matrix(path)`, and a line in `FORMATS`.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from vrpca.data.files.paths import PICKLED, as_path, damage_reported, open_file
from vrpca.data.unloaded import Contents
from vrpca.errors import DataError

PICKLE = b"\x80"  # the first byte of a pickle


@dataclass(frozen=True)
class Format:
    """A format of files."""

    module: str  # the module here that opens it, imported when it is needed
    endings: tuple[str, ...]  # of file names
    signature: bytes | None = None  # the first bytes of all such files, if there are any: they count, not the name
    loaded: bool = False  # whether a file is loaded whole: its module has a function `contents(path)`, too


FORMATS = (
    Format("npy", (".npy",), b"\x93NUMPY"),
    Format("npz", (".npz",), b"PK", loaded=True),
)


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
    numpy.memmap, numpy.ndarray, scipy sparse matrix or Source
        The data, not changed and not checked for NaN.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/data.npy", np.eye(3))
    ...     open_data(folder + "/data.npy").shape
    (3, 3)
    """
    path = as_path(path)
    form = _format_of(path)
    with _damage(path):
        return import_module(f"vrpca.data.files.{form.module}").open_matrix(path)


def contents(path: str | os.PathLike[str]) -> Contents | None:
    """What the headers of a file say that would be loaded whole; None for files that are mapped, or read in blocks."""
    path = as_path(path)
    form = _format_of(path)
    if not form.loaded:
        return None
    with _damage(path):
        return import_module(f"vrpca.data.files.{form.module}").contents(path)


def _damage(path: Path) -> AbstractContextManager[None]:
    return damage_reported(path, "is truncated or damaged", "Write or copy it again")


def _format_of(path: Path) -> Format:
    """The format that a file has, by its first bytes."""
    with open_file(path, "data") as file:
        start = file.read(8)
    for form in FORMATS:
        if form.signature is not None and start.startswith(form.signature):
            return form
    if start.startswith(PICKLE):
        raise DataError(f"{path} cannot be used. {PICKLED}, with numpy.save or scipy.sparse.save_npz.")
    names = " or ".join(ending for form in FORMATS for ending in form.endings)
    what = f"is not a {names} file" if start else "is empty"
    raise DataError(f"{path} {what}: write the data with numpy.save, numpy.savez or scipy.sparse.save_npz.")
