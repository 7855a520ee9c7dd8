"""Data in files, and files that are written whole or not at all. Pickles are never read.

A new format is a function that opens a path, and a line in `FORMATS`.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import secrets
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp

from vrpca.errors import DataError
from vrpca.typing import Array

PICKLE = b"\x80"  # the first byte of a pickle
PICKLED = "It holds pickled Python objects, which are not read since they can run code: save plain numbers instead"
HEADER = 10_012  # bytes of the longest header: NumPy's limit of 10000 (numpy.lib.format), and 12 before it
# How many bytes a byte of a zip archive can stand for. Deflate needs two bits for a repetition of 258 bytes (RFC 1951).
INFLATION = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 4 * 258}


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
    path, names = as_path(path), " or ".join(FORMATS)
    with open_file(path, "data") as file:
        start = file.read(8)
        file.seek(0)
        for signature, open_format in FORMATS.values():
            if start.startswith(signature):
                with damage_reported(path, "is truncated or damaged", "Write or copy it again"):
                    return open_format(path, file)
    if start.startswith(PICKLE):
        raise DataError(f"{path} cannot be used. {PICKLED}, with numpy.save or scipy.sparse.save_npz.")
    what = f"is not a {names} file" if start else "is empty"
    raise DataError(f"{path} {what}: write the data with numpy.save, numpy.savez or scipy.sparse.save_npz.")


def as_path(path: str | os.PathLike[str]) -> Path:
    r"""The path, or an error if no file can have that name.

    >>> as_path("data.npy").name
    'data.npy'
    >>> as_path("data\0.npy")
    Traceback (most recent call last):
    vrpca.errors.DataError: 'data\x00.npy' cannot be the name of a file: it holds a null character. Name a file.
    """
    path = Path(path)
    try:
        problem = "it holds a null character" if b"\0" in os.fsencode(path) else ""
    except UnicodeEncodeError:
        problem = "it holds characters that the file system cannot encode"
    if problem:
        raise DataError(f"{str(path)!a} cannot be the name of a file: {problem}. Name a file.")
    return path


def open_file(path: Path, kind: str) -> IO[bytes]:
    """Open a file for reading, or raise an error that says why that is not possible."""
    try:
        if path.exists() and not path.is_file():  # to open a pipe could take forever
            raise DataError(f"{path} cannot be read: it is a folder, a device or a pipe. Name a {kind} file.")
        return path.open("rb")
    except FileNotFoundError:
        raise DataError(f"There is no {kind} file {path}: check the name and the folder.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): name a {kind} file that can.") from error


class _Pickled(ValueError):
    """An array holds Python objects."""


@contextmanager
def damage_reported(path: Path, what: str, remedy: str) -> Iterator[None]:
    """Turn what is raised for a file that cannot be read to its end into one error that names the file."""
    try:
        yield
    except DataError:
        raise
    except _Pickled as error:
        raise DataError(f"{path} cannot be used. {PICKLED}.") from error
    except MemoryError as error:
        remedy = "Free some, or write a dense matrix with numpy.save: such files are mapped"
        raise DataError(f"{path} does not fit in memory. {remedy}.") from error
    except Exception as error:  # Python, NumPy and scipy raise nearly everything for damaged bytes
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DataError(f"{path} {what}: {reason}. {remedy}.") from error


@dataclass(frozen=True)
class Header:
    """What the header of an array in a file says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    offset: int  # of the numbers, after the header

    @classmethod
    def read(cls, file: IO[bytes]) -> Header:
        """Read the header, and no more than NumPy's limit for it."""
        start = io.BytesIO(file.read(HEADER))
        version = np.lib.format.read_magic(start)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"its format has version {version[0]}.{version[1]}, which is not known")
        # Version 3 differs from 2 only in the encoding of the names of fields, which no matrix has.
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        try:
            shape, fortran_order, dtype = read(start)
        except Exception as error:  # it is a Python expression: its parser has many ways to fail
            raise ValueError("the header of an array cannot be read") from error
        if min(shape, default=0) < 0:
            raise ValueError(f"an array has the shape {shape}")
        return cls(shape, dtype, "F" if fortran_order else "C", start.tell())

    @property
    def end(self) -> int:
        """Where the numbers end, in bytes."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    def check(self, size: int) -> None:
        """Raise unless plain numbers follow, and end within a file of this size."""
        if self.dtype.hasobject:
            raise _Pickled
        if self.end > size:
            raise ValueError(f"an array of shape {self.shape} needs {self.end} bytes, but there are {size}")


class Archive:
    """The arrays of a .npz file, by name. To read one takes no more memory than the file can hold."""

    def __init__(self, file: IO[bytes], compressed: bool = True):
        self.zip = zipfile.ZipFile(file)
        self.inflation = INFLATION if compressed else {zipfile.ZIP_STORED: 1}
        members = [member for member in self.zip.infolist() if member.filename.endswith(".npy")]
        self.members = {member.filename.removesuffix(".npy"): member for member in members}

    def header(self, name: str) -> Header:
        """The header of an array."""
        with self.zip.open(self.members[name]) as file:
            return Header.read(file)

    def check(self, name: str) -> None:
        """Raise unless the member holds exactly the array that its header declares. Nothing of it is read."""
        member = self.members[name]
        inflation = self.inflation.get(member.compress_type)
        if inflation is None:
            raise ValueError(f"{name} is compressed in a way that is not used for such files")
        if member.file_size > inflation * member.compress_size:
            raise ValueError(f"{name} cannot have {member.file_size} bytes: only {member.compress_size} are stored")
        header = self.header(name)
        header.check(member.file_size)
        if header.end != member.file_size:
            raise ValueError(f"{name} has {member.file_size} bytes, but its header says {header.end}")

    def read(self, name: str) -> Array:
        """The array; its checksum is checked as well."""
        self.check(name)
        with self.zip.open(self.members[name]) as file:
            return np.lib.format.read_array(file, allow_pickle=False)


def _open_npy(path: Path, file: IO[bytes]) -> Array:
    """The array, as a read-only memory map."""
    header = Header.read(file)
    header.check(os.fstat(file.fileno()).st_size)
    return np.memmap(path, header.dtype, "r", header.offset, header.shape, header.order)


def _open_npz(path: Path, file: IO[bytes]) -> Any:
    """The matrix in an archive: a sparse one (`scipy.sparse.save_npz`) or a dense one (`numpy.savez`)."""
    archive = Archive(file)
    if not {"format", "shape"} <= archive.members.keys():
        return archive.read(_matrix_name(path, archive))
    for name in archive.members:
        archive.check(name)
    file.seek(0)
    X = sp.load_npz(file)
    if X.format in ("csr", "csc", "bsr"):
        X.check_format(full_check=True)  # compiled code follows these indices blindly
    return X


def _matrix_name(path: Path, archive: Archive) -> str:
    """Which array of the archive is the data."""
    names = archive.members.keys()
    if "metadata" in names and "components_" in names:
        raise DataError(f"{path} is a vrpca model, not data: name the file with the data.")
    if "X" in names:
        return "X"
    matrices = [name for name in names if len(archive.header(name).shape) == 2]
    if len(matrices) != 1:
        raise DataError(
            f"{path} holds the arrays {', '.join(names) or '(none)'}, of which {len(matrices)} have two dimensions: "
            "name the data X, or leave one matrix only."
        )
    return matrices[0]


# The name of a format: the first bytes of its files, and what opens them.
FORMATS = {".npy": (b"\x93NUMPY", _open_npy), ".npz": (b"PK", _open_npz)}


def check_target(path: Path) -> None:
    """Raise unless a file can be made at `path`: before long work, not after it."""
    path = as_path(path)
    folder = path.parent
    if not os.path.isdir(folder):
        raise DataError(f"{path} cannot be written: there is no folder {folder}. Create it first.")
    try:
        if path.is_dir():
            raise DataError(f"{path} cannot be written: it is a folder. Name a file.")
        if path.exists() and not path.is_file():
            raise DataError(f"{path} cannot be written: it is a device or a pipe, not a file. Name a file.")
    except OSError as error:  # a name that is too long, say
        raise _unwritten(path, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be written: the folder {folder} is read-only. Name another one.")


def _unwritten(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be written: {error.strerror or error}. Make room, or name another file.")


def _part_of(path: Path) -> str:
    """How the names of all temporary files for a path begin: short, however long its own name is."""
    return f".vrpca.{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}."


def remove_parts(path: Path) -> None:
    """Remove the temporary files that processes left beside `path` when they were killed while they wrote it."""
    path = Path(os.path.realpath(path))
    for part in path.parent.glob(f"{_part_of(path)}*.part"):
        part.unlink(missing_ok=True)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; it becomes `path` at the end, or vanishes if anything goes wrong."""
    path = Path(os.path.realpath(as_path(path)))  # a link stays, and the file that it names is replaced
    check_target(path)
    temporary = path.with_name(f"{_part_of(path)}{secrets.token_hex(8)}.part")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # some file systems notice only now that there is no space
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritten(path, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def new_array(path: Path, shape: tuple[int, ...], dtype: Any) -> np.memmap[Any, Any]:
    """A new .npy file of zeros, mapped into memory for writing.

    All of its space is reserved first. On a full disk that raises an OSError. Without it the process would be killed
    (SIGBUS) when it writes to the map.
    """
    fields = np.lib.format.header_data_from_array_1_0(np.empty(0, dtype))
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, fields | {"shape": shape})
        offset = file.tell()
        _reserve(file, math.prod(shape) * np.dtype(dtype).itemsize)
    return np.memmap(path, dtype, "r+", offset, shape)


def _reserve(file: IO[bytes], size: int) -> None:
    """Append that many zeros."""
    file.flush()
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), file.tell(), size)
        return
    zeros = bytes(1 << 20)
    for start in range(0, size, len(zeros)):
        file.write(zeros[: size - start])
