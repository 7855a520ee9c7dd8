"""Paths of files: errors that name them, and files that are written whole or not at all."""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from vrpca.errors import DataError, OptionError

PICKLED = "It holds pickled Python objects, which are not read since they can run code: save plain numbers instead"


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


class Pickled(ValueError):
    """An array holds Python objects."""


@contextmanager
def damage_reported(path: object, what: str, remedy: str) -> Iterator[None]:
    """Turn what is raised for a file that cannot be read to its end into one error that names the file."""
    try:
        yield
    except (DataError, OptionError):
        raise
    except Pickled as error:
        raise DataError(f"{path} cannot be used. {PICKLED}.") from error
    except MemoryError as error:
        remedy = "Free some, or write a dense matrix with numpy.save: such files are mapped"
        raise DataError(f"{path} does not fit in memory. {remedy}.") from error
    except Exception as error:  # Python, NumPy and scipy raise nearly everything for damaged bytes
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DataError(f"{path} {what}: {reason}. {remedy}.") from error


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
        reserve(file, math.prod(shape) * np.dtype(dtype).itemsize)
    return np.memmap(path, dtype, "r+", offset, shape)


def reserve(file: IO[bytes], size: int) -> None:
    """Append that many zeros."""
    file.flush()
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), file.tell(), size)
        return
    zeros = bytes(1 << 20)
    for start in range(0, size, len(zeros)):
        file.write(zeros[: size - start])
