"""Data in files: .npy arrays as memory maps, .npz archives with one dense or scipy sparse matrix; pickles never."""

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

NPY, ZIP, PICKLE = b"\x93NUMPY", b"PK", b"\x80"  # how the files start
DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError, TypeError, IndexError)
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
    start = _first_bytes(path)
    if start.startswith(NPY):
        return _mapped(path)
    if start.startswith(ZIP):
        return _from_archive(path)
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


def _damaged(path: Path, error: BaseException) -> DataError:
    """The error for a file of the right kind that cannot be read to its end."""
    if "object" in str(error).lower():  # NumPy's refusal to unpickle has no type of its own
        return DataError(f"{path} cannot be used. {PICKLED}.")
    return DataError(f"{path} is truncated or damaged ({error}): write or copy it again.")


def _mapped(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        raise _damaged(path, error) from error


def _from_archive(path: Path) -> Any:
    try:
        # NumPy leaves a file that it opened itself open when it turns out to be damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if "format" in archive.files and "shape" in archive.files:
                return _sparse(path)
            return archive[_matrix_name(path, archive)]
    except DataError:
        raise
    except DAMAGE as error:
        raise _damaged(path, error) from error


def _sparse(path: Path) -> Any:
    with path.open("rb") as file:
        X = sp.load_npz(file)
    if X.format in ("csr", "csc", "bsr"):
        X.check_format(full_check=True)  # compiled code follows these indices without looking
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


def check_target(path: Path) -> None:
    """Raise unless a file can be made at `path`: before long work, not after it."""
    folder = path.parent
    if not folder.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {folder}. Create it first.")
    if path.is_dir():
        raise DataError(f"{path} cannot be written: it is a folder. Name a file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be written: the folder {folder} is read-only. Name another one.")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; it becomes `path` at the end, or vanishes if anything goes wrong."""
    check_target(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
