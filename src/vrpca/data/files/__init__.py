"""Data in files. Pickles are never read.

A new format is a module here with a function `open_matrix(path)`, and a line in `FORMATS`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from vrpca.data.files.origin import GZIP, LocalFile, is_remote
from vrpca.data.files.paths import PICKLED, as_path, damage_reported, open_file
from vrpca.data.files.shards import files_of, is_pattern, open_shards
from vrpca.errors import DataError

PICKLE = b"\x80"  # the first byte of a pickle
SIGNATURE = 16  # bytes that tell the format: the longest signature has 14


@dataclass(frozen=True)
class Format:
    """A format of files. A module that takes addresses of files elsewhere says so in `remote`."""

    module: str  # the module here that opens it, imported when it is needed
    endings: tuple[str, ...]  # of file names
    signature: bytes | None = None  # the first bytes of all such files, if there are any: they count, not the name
    remote: bool = False  # whether it reads files elsewhere, through fsspec


FORMATS = (
    Format("npy", (".npy",), b"\x93NUMPY"),
    Format("npz", (".npz",), b"PK"),
    Format("delimited", (".csv", ".tsv", ".csv.gz", ".tsv.gz"), remote=True),
    Format("matrix_market", (".mtx", ".mtx.gz"), b"%%MatrixMarket", remote=True),
    Format("svmlight", (".svmlight", ".libsvm", ".svm"), remote=True),
)


def open_data(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Any:
    """Open a matrix that is in a file, or in several.

    Parameters
    ----------
    path : str or path, or a list of them
        A file, a folder of files, a pattern such as ``"data/part-*.npy"``, or a list of files. Several files are one
        matrix, one below the other; those of folders and patterns in natural order. What a file is shows in its first
        bytes, else in the ending of its name: ``.npy`` (`numpy.save`), ``.npz`` (`numpy.savez`, the array named
        ``"X"`` or the only one with two dimensions; `scipy.sparse.save_npz`), ``.csv``, ``.tsv``, ``.mtx``
        (MatrixMarket), ``.svmlight``, ``.libsvm``. Text may also be an address such as ``"s3://bucket/file.csv"``.

    Returns
    -------
    numpy.memmap, numpy.ndarray, scipy sparse matrix or Source
        The data, not changed and not checked for NaN. Text is converted once, and kept (see `docs/files.md`).

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/data.npy", np.eye(3))
    ...     open_data(folder + "/data.npy").shape
    (3, 3)
    """
    if isinstance(path, str | os.PathLike):
        return _open_path(path)
    return open_shards([as_path(each) for each in path], open_one)


def _open_path(path: str | os.PathLike[str]) -> Any:
    if isinstance(path, str) and is_remote(path):
        return _checked(path, _open_remote(path))
    path = as_path(path)
    try:
        several = (path.is_dir() and _by_ending(path.name) is None) or is_pattern(path)
    except OSError as error:  # a name that is too long, say
        raise DataError(f"{path} cannot be read ({error.strerror}): name a data file that can.") from error
    return open_shards(files_of(path), open_one) if several else _checked(path, open_one(path))


def open_one(path: Path) -> Any:
    """Open one file; the matrix may have no rows."""
    form = _format_of(path)
    with damage_reported(path, "is truncated or damaged", "Write or copy it again"):
        return import_module(f"vrpca.data.files.{form.module}").open_matrix(path)


def _open_remote(address: str) -> Any:
    form = _by_ending(address)
    if form is None or not form.remote:
        endings = ", ".join(ending for form in FORMATS if form.remote for ending in form.endings)
        raise DataError(f"{address} cannot be read from where it is, only {endings} can: copy it to this machine.")
    remedy = "Check the address and the rights to it, install what is missing, or copy the file"
    with damage_reported(address, "cannot be read", remedy):  # every protocol has errors of its own
        return import_module(f"vrpca.data.files.{form.module}").open_matrix(address)


def _checked(path: Path | str, X: Any) -> Any:
    """The matrix; an error that names the file where there is nothing in it."""
    if len(X.shape) == 2 and 0 in X.shape:
        count, what = (X.shape[0], "sample") if X.shape[0] == 0 else (X.shape[1], "feature")
        raise DataError(f"{path} has {count} {what}s (shape {X.shape}): there is nothing to decompose.")
    return X


def _format_of(path: Path) -> Format:
    """The format of a file: by its first bytes, else by its ending."""
    named = _by_ending(path.name)
    if path.is_dir() and named is not None:
        return named
    with open_file(path, "data") as file:
        start = file.read(SIGNATURE)
    packed = start.startswith(GZIP)
    if packed:
        start = LocalFile(path).start(SIGNATURE)
    form = next((form for form in FORMATS if form.signature and start.startswith(form.signature)), None)
    if form is None and named is not None and named.signature is None:
        form = named
    if start and form is not None and not start.startswith(PICKLE):
        if packed and not any(ending.endswith(".gz") for ending in form.endings):
            raise DataError(f"{path} is compressed with gzip: unpack it first (gunzip).")
        return form
    raise _unknown(path, start, named)


def _by_ending(name: str) -> Format | None:
    return next((form for form in FORMATS if name.lower().endswith(form.endings)), None)


def _unknown(path: Path, start: bytes, named: Format | None) -> DataError:
    """What to say of a file that cannot be read."""
    if not start:
        return DataError(f"{path} is empty: write the data again.")
    if start.startswith(PICKLE):
        return DataError(f"{path} cannot be used. {PICKLED}, with numpy.save or scipy.sparse.save_npz.")
    if named is not None:
        return DataError(f"{path} is not a {named.endings[0]} file: it begins with {start[:8]!r}. Write it again.")
    endings = ", ".join(ending for form in FORMATS for ending in form.endings)
    return DataError(
        f"{path} is in no known format, by its first bytes and its name. Files are {endings}: write the data with "
        "numpy.save, numpy.savez or scipy.sparse.save_npz, or give text the right ending."
    )
