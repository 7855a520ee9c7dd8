"""Text that was converted once, kept as binary files.

An entry is a folder with arrays (`.npy`) and `entry.json`. It belongs to one version of one file: its name is made of
the file's absolute name, size and time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from vrpca.data.files.archive import Header
from vrpca.data.files.base import FileSource, Stamp
from vrpca.data.files.npy import map_array, open_matrix
from vrpca.data.files.origin import Origin
from vrpca.data.files.raw import RawCsr, RawNumbers
from vrpca.data.memory import ArraySource, fits_in_memory
from vrpca.data.source import Source
from vrpca.errors import DataError
from vrpca.typing import Array

VERSION = 1  # of the entries: to be raised when what is in them changes
ABOUT = "entry.json"
SYMBOLS = 20  # hexadecimal digits of a hash in a name: 80 bits do not collide by chance
log = logging.getLogger("vrpca")
log.addHandler(logging.NullHandler())
_TEMPORARY: set[str] = set()  # folders of texts that will not last: what is made of them stays there

Facts = dict[str, Any]  # what a converter says of the matrix, as JSON


def cache_folder() -> Path:
    """``$VRPCA_CACHE``, else the folder ``vrpca`` of the user's cache (``$XDG_CACHE_HOME`` or ``~/.cache``)."""
    if chosen := os.environ.get("VRPCA_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "vrpca"


@contextmanager
def kept_beside(folder: Path) -> Iterator[None]:
    """Keep what is made of texts in this folder there, and not in the cache: it goes with the folder."""
    name = os.path.realpath(folder)
    _TEMPORARY.add(name)
    try:
        yield
    finally:
        _TEMPORARY.discard(name)


def _temporary_folder(origin: Origin) -> Path | None:
    """The folder of a text that will not last; None for all others."""
    folders = (Path(os.path.realpath(path)).parent for path in origin.paths)
    return next((folder for folder in folders if str(folder) in _TEMPORARY), None)


def converted(origin: Origin, convert: Callable[[Path], Facts]) -> tuple[Path, Facts]:
    """The folder of the converted text, and what is known of it.

    Where there is none yet, ``convert(folder)`` writes the arrays into a new folder, which gets its name when it is
    complete.
    """
    where, *what = origin.key()
    prefix = _hash([where])
    beside = _temporary_folder(origin)
    entry = (beside or cache_folder()) / f"{prefix}-{_hash([str(VERSION), *what])}"
    facts = _facts(entry)
    if facts is None:
        _convert(origin, entry, convert)
        facts = _facts(entry)
        if facts is None:
            raise DataError(f"{entry} was changed or removed while it was written. Set VRPCA_CACHE to another folder.")
        for old in entry.parent.glob(f"{prefix}-*"):
            if old != entry:
                shutil.rmtree(old, ignore_errors=True)  # of an older version of the file; others may be removing it
        if beside is None:
            log.info("%s was converted; later fits read %s", origin.name, entry)
    return entry, facts


def _hash(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:SYMBOLS]


def _facts(entry: Path) -> Facts | None:
    """What is known of an entry; None if there is none, or if it is damaged."""
    try:
        about = json.loads((entry / ABOUT).read_text(encoding="utf-8"))
        sound = all((entry / name).stat().st_size == size for name, size in about["sizes"].items())
        return about["facts"] if sound else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # what damaged JSON leads to
        return None


def _convert(origin: Origin, entry: Path, convert: Callable[[Path], Facts]) -> None:
    stamp = Stamp(origin.paths)
    try:
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".part-", dir=entry.parent))
        try:
            facts = convert(folder)
            stamp.check()
            sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
            about = json.dumps({"of": origin.name, "sizes": sizes, "facts": facts})
            (folder / ABOUT).write_text(about, encoding="utf-8")
            _put(folder, entry)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        variable = "VRPCA_CACHE" if _temporary_folder(origin) is None else "TMPDIR"
        raise DataError(
            f"{origin.name} cannot be converted in the folder {entry.parent} ({error.strerror or error}). Make room "
            f"there, or set {variable} to a folder that can be written."
        ) from error


def _put(folder: Path, entry: Path) -> None:
    """Give a folder its name, unless another process was faster."""
    for _ in range(2):
        try:
            folder.rename(entry)
            return
        except OSError:
            if not entry.exists():
                raise
        if _facts(entry) is not None:
            return
        shutil.rmtree(entry, ignore_errors=True)  # it is damaged
    folder.rename(entry)


class GrowingArray:
    """A `.npy` file that rows, or numbers, are appended to. How many there are is written at the end.

    `columns` is None for an array of one dimension. `order` "F" says that what is appended are columns.
    """

    def __init__(self, path: Path, dtype: Any, columns: int | None = None, order: str = "C"):
        self.file, self.dtype = path.open("wb"), np.dtype(dtype)
        self.columns, self.order, self.count = columns, order, 0
        self._write_header()
        self.begin = self.file.tell()

    def _write_header(self) -> None:
        shape = (self.count,) if self.columns is None else (self.count, self.columns)
        fields = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": self.order == "F"}
        np.lib.format.write_array_header_1_0(self.file, fields | {"shape": shape[:: 1 if self.order == "C" else -1]})

    def append(self, numbers: Array) -> None:
        """Append rows, or numbers."""
        np.ascontiguousarray(numbers, self.dtype).tofile(self.file)
        self.count += len(numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        with self.file:
            if kind is None:
                self.file.seek(0)
                self._write_header()
                assert self.file.tell() == self.begin  # NumPy leaves room for the digits of a growing axis
                self.file.flush()
                os.fsync(self.file.fileno())


class CsrWriter:
    """A CSR matrix in a folder that rows are appended to."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.indices = GrowingArray(folder / "indices.npy", np.int32)
        self.values = GrowingArray(folder / "data.npy", np.float64)
        self.indptr = GrowingArray(folder / "indptr.npy", np.int64)
        self.indptr.append(np.zeros(1))

    def append(self, X: Any) -> None:
        """Append the rows of a CSR matrix."""
        self.indptr.append(X.indptr[1:].astype(np.int64) + self.indices.count)
        self.indices.append(X.indices)
        self.values.append(X.data)

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self.indptr.count - 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        for part in (self.indices, self.values, self.indptr):
            part.__exit__(kind, error, trace)


def open_dense(folder: Path, origin: Origin, rows: Any = None, columns: Any = None) -> Any:
    """The matrix of an entry, with the names of its rows and columns."""
    X = open_matrix(folder / "X.npy")
    if 0 in X.shape:
        shutil.rmtree(folder, ignore_errors=True)  # nothing is worth keeping; another process may be removing it
        return np.empty(X.shape)
    if rows is None and columns is None and not isinstance(X, Source):
        return X
    source = X.watching(origin.paths) if isinstance(X, FileSource) else ArraySource(X)
    source.row_names, source.column_names = rows, columns
    return source


def open_sparse(folder: Path, origin: Origin, shape: tuple[int, int], limited: bool = False) -> Any:
    """The CSR matrix of an entry: loaded, or as a source where it does not fit in memory, or memory is limited."""
    if 0 in shape:
        shutil.rmtree(folder, ignore_errors=True)  # as above
        return sp.csr_array(shape)
    indptr, indices, values = (map_array(folder / f"{name}.npy") for name in ("indptr", "indices", "data"))
    if not limited and fits_in_memory(indices.nbytes + values.nbytes):
        return sp.csr_array((np.array(values), np.array(indices), np.array(indptr)), shape=shape)
    file = RawCsr(shape, np.array(indptr), _numbers(folder, "indices"), _numbers(folder, "data"))
    return file.watching(origin.paths)


def _numbers(folder: Path, name: str) -> RawNumbers:
    path = folder / f"{name}.npy"
    with path.open("rb") as file:
        header = Header.read(file)
    return RawNumbers(path, header.offset, header.dtype)


class StoredNames(Sequence[str]):
    """Names that stay on disk until they are asked for."""

    def __init__(self, folder: Path, kind: str):
        self.letters, self.ends = folder / f"{kind}_letters.npy", folder / f"{kind}_ends.npy"
        self.length = len(map_array(self.ends))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.length))]
        if not -self.length <= index < self.length:
            raise IndexError(index)
        index %= self.length
        ends = map_array(self.ends)
        start = int(ends[index - 1]) if index else 0
        return map_array(self.letters)[start : int(ends[index])].tobytes().decode()
