"""Data in files, and files that are written whole or not at all. Pickles are never read.

A new format is a function that opens a path, and a line in `FORMATS`.
"""

from __future__ import annotations

import os
import secrets
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.errors import DataError
from vrpca.typing import Array

# What NumPy, scipy and zipfile raise for damaged files.
DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError, TypeError, IndexError)
PICKLE = b"\x80"  # the first byte of a pickle
PICKLED = "It holds pickled Python objects, which are not read since they can run code: save plain numbers instead"


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
    start, names = _first_bytes(path), " or ".join(FORMATS)
    for signature, open_format in FORMATS.values():
        if start.startswith(signature):
            with _damage_reported(path):
                return open_format(path)
    if start.startswith(PICKLE):
        raise DataError(f"{path} cannot be used. {PICKLED}, with numpy.save or scipy.sparse.save_npz.")
    what = f"is not a {names} file" if start else "is empty"
    raise DataError(f"{path} {what}: write the data with numpy.save, numpy.savez or scipy.sparse.save_npz.")


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(8)
    except FileNotFoundError:
        raise DataError(f"There is no data file {path}: check the name and the folder.") from None
    except OSError as error:
        names = " or ".join(FORMATS)
        raise DataError(f"{path} cannot be read ({error.strerror}): name a {names} file that can.") from error


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """Turn what is raised for a file that cannot be read to its end into one error that names the file."""
    try:
        yield
    except DataError:
        raise
    except DAMAGE as error:
        if "object" in str(error).lower():  # NumPy's refusal to unpickle has no type of its own
            raise DataError(f"{path} cannot be used. {PICKLED}.") from error
        raise DataError(f"{path} is truncated or damaged ({error}): write or copy it again.") from error


def _open_npy(path: Path) -> Array:
    """The array, as a read-only memory map."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _open_npz(path: Path) -> Any:
    """The matrix in an archive: a sparse one (`scipy.sparse.save_npz`) or a dense one (`numpy.savez`)."""
    # NumPy leaves a file that it opened itself open when it turns out to be damaged.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        if "format" not in archive.files or "shape" not in archive.files:
            return archive[_matrix_name(path, archive)]
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


# The name of a format: the first bytes of its files, and what opens them.
FORMATS = {".npy": (b"\x93NUMPY", _open_npy), ".npz": (b"PK", _open_npz)}


def check_target(path: Path) -> None:
    """Raise unless a file can be made at `path`: before long work, not after it."""
    folder = path.parent
    if not folder.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {folder}. Create it first.")
    if path.is_dir():
        raise DataError(f"{path} cannot be written: it is a folder. Name a file.")
    if path.exists() and not path.is_file():
        raise DataError(f"{path} cannot be written: it is a device or a pipe, not a file. Name a file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be written: the folder {folder} is read-only. Name another one.")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; it becomes `path` at the end, or vanishes if anything goes wrong."""
    path = Path(os.path.realpath(path))  # a link stays, and the file that it names is replaced
    check_target(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
