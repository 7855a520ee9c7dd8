"""Broken files of all formats, and what the command line says of each: exit code and message, as a Markdown table.

    python benchmarks/broken_files.py [--only parquet]

Every kind must give exit code 2 and one line that names the file, the place and the remedy, and must leave nothing
behind: no model, no temporary file, no entry in the cache. tests/data/test_broken_files.py asserts that.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.util
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp

from vrpca.cli.app import run
from vrpca.data.files.base import FileSource

X = np.random.default_rng(0).standard_normal((60, 6))
SMALL_BLOCKS = ("--memory", "40MB", "--solver", "krylov")  # a limit that makes blocks of 1 MB
AGAIN = "Write or copy it again"


@dataclass(frozen=True)
class Kind:
    """One way to be broken.

    Attributes
    ----------
    make : callable
        Writes the data into a folder and returns what is passed as DATA.
    file : str
        The name of the file that the message must name.
    place, remedy : str
        What the message must say of where it is broken, and of what to do.
    options : tuple of str
        Further options of the command.
    meanwhile : callable or None
        What happens to the folder after the first block has been read.
    needs : str
        The optional library that reads the format.
    """

    make: Callable[[Path], Any]
    file: str
    place: str
    remedy: str
    options: tuple[str, ...] = ()
    meanwhile: Callable[[Path], Any] | None = None
    needs: str = "numpy"


@dataclass
class Result:
    """What came of a kind."""

    code: int
    message: str
    printed: str  # on stdout
    left: list[str] = field(default_factory=list)  # files that were not there before


# ------------------------------------------------------------------------------------------------------ tools


def text(name: str, content: str | bytes) -> Callable[[Path], str]:
    """Write a file."""

    def make(folder: Path) -> str:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return str(folder / name)

    return make


def cut(make: Callable[[Path], str], part: float) -> Callable[[Path], str]:
    """Keep only the first part of a file."""

    def shorter(folder: Path) -> str:
        path = Path(make(folder))
        path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
        return str(path)

    return shorter


def changed(make: Callable[[Path], str], place: float, width: int = 64) -> Callable[[Path], str]:
    """Overwrite some bytes at a relative place."""

    def other(folder: Path) -> str:
        path = Path(make(folder))
        data = bytearray(path.read_bytes())
        start = int(place * len(data))
        data[start : start + width] = bytes(255 - byte for byte in data[start : start + width])
        path.write_bytes(bytes(data))
        return str(path)

    return other


def npy(name: str, array: Any) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        np.save(folder / name, array)
        return str(folder / name)

    return make


def npz(name: str, compressed: bool = True, **arrays: Any) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        (np.savez_compressed if compressed else np.savez)(folder / name, **arrays)
        return str(folder / name)

    return make


def with_bad(array: np.ndarray, row: int, column: int, value: float = np.nan) -> np.ndarray:
    other = array.copy()
    other[row, column] = value
    return other


def shards(*arrays: Any) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        (folder / "parts").mkdir()
        for number, array in enumerate(arrays):
            np.save(folder / "parts" / f"part-{number}.npy", array)
        return str(folder / "parts")

    return make


def large(bad_row: int | None = None) -> np.ndarray:
    """8 MB: eight blocks of 1 MB, of 256 rows each."""
    array = np.random.default_rng(1).standard_normal((2048, 512))
    if bad_row is not None:
        array[bad_row, 3] = np.nan
    return array


def table(name: str, columns: dict[str, Any], **options: Any) -> Callable[[Path], str]:
    """A Parquet or Feather file; columns are arrays or lists."""

    def make(folder: Path) -> str:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow import feather

        path = folder / name
        write = pq.write_table if name.endswith("parquet") else feather.write_feather
        write(pa.table(columns), path, **options)
        return str(path)

    return make


NUMBERS = {f"c{j}": X[:, j] for j in range(6)}


def hdf5(name: str, fill: Callable[[Any], Any], matrix: str = "") -> Callable[[Path], str]:
    """An HDF5 file that a function fills; `matrix` is named in DATA."""

    def make(folder: Path) -> str:
        import h5py

        with h5py.File(folder / name, "w") as file:
            fill(file)
        return str(folder / name) + (f"::{matrix}" if matrix else "")

    return make


def dataset(array: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda file: file.create_dataset("X", data=array, **options)


def annotated(file: Any) -> None:
    """An .h5ad file without X."""
    file.attrs["encoding-type"] = "anndata"
    for name in ("obs", "var"):
        file.create_group(name)


def csr_group(**changes: Any) -> Callable[[Any], None]:
    """An .h5ad file with a CSR matrix, some of whose parts are changed."""

    def fill(file: Any) -> None:
        annotated(file)
        matrix = sp.csr_array(X)
        parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr} | changes
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
        for part, array in parts.items():
            if array is not None:
                group.create_dataset(part, data=array)

    return fill


def altered(part: np.ndarray, place: int, value: Any) -> np.ndarray:
    other = part.copy()
    other[place] = value
    return other


CSR = sp.csr_array(X)


def zarr_store(damage: Callable[[Path], Any], array: np.ndarray = X, fill_value: float = 0.0) -> Callable[[Path], str]:
    """A zarr store that is damaged after it was written."""

    def make(folder: Path) -> str:
        import zarr

        zarr.create_array(str(folder / "x.zarr"), data=array, chunks=(20, 6)[: array.ndim], fill_value=fill_value)
        damage(folder / "x.zarr")
        return str(folder / "x.zarr")

    return make


def a_chunk(store: Path) -> Path:
    """The file of the second chunk of rows."""
    return next(path for path in sorted(store.rglob("*")) if path.is_file() and path.parts[-2:] == ("1", "0"))


def plink(**changes: bytes | None) -> Callable[[Path], str]:
    """A .bed file of 8 samples and 3 variants with its companions; None leaves one out."""
    files: dict[str, bytes | None] = {
        "bed": b"\x6c\x1b\x01" + bytes([0b11100010, 0b00101110] * 3),
        "fam": b"".join(b"f s%d 0 0 0 -9\n" % i for i in range(8)),
        "bim": b"".join(b"1 v%d 0 %d A G\n" % (i, i) for i in range(3)),
    }

    def make(folder: Path) -> str:
        for ending, content in (files | changes).items():
            if content is not None:
                (folder / f"g.{ending}").write_bytes(content)
        return str(folder / "g.bed")

    return make


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def grow(name: str) -> Callable[[Path], None]:
    """Append a row."""

    def act(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.write(X[:1].tobytes())

    return act


def touch(name: str) -> Callable[[Path], None]:
    """Give a file another time, as writing to it does."""
    return lambda folder: os.utime(folder / name, (0, 0))


def shorten(name: str) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def csr_parts(**changes: Any) -> dict[str, Any]:
    """The arrays that `scipy.sparse.save_npz` writes, some of them changed."""
    parts = {"data": CSR.data, "indices": CSR.indices, "indptr": CSR.indptr, "shape": CSR.shape, "format": b"csr"}
    return parts | changes


CSV = "a,b,c\n" + "".join(f"{x[0]:.3f},{x[1]:.3f},{x[2]:.3f}\n" for x in X)
SVM = "".join(f"1 1:{x[0]:.3f} 3:{x[1]:.3f}\n" for x in X)
MTX = "%%MatrixMarket matrix coordinate real general\n4 3 4\n1 1 1.5\n2 2 2\n3 3 1\n4 1 7\n"

# ------------------------------------------------------------------------------------------------------ kinds

KINDS: dict[str, Kind] = {
    # no data at all
    "no such file": Kind(lambda folder: folder / "x.npy", "x.npy", "no data file", "check the name"),
    "an empty file": Kind(text("x.npy", ""), "x.npy", "is empty", "write the data again"),
    "a folder without data": Kind(
        lambda folder: (folder / "parts").mkdir() or folder / "parts", "parts", "no data files", "Name a file"
    ),
    "a pattern that matches nothing": Kind(
        lambda folder: folder / "part-*.npy", "part-*.npy", "No file matches", "check the pattern"
    ),
    "a text of another kind": Kind(text("x.docx", "hello"), "x.docx", "no known format", "write the data"),
    "a pickle": Kind(text("x.npy", b"\x80\x04\x95aaaa"), "x.npy", "pickled", "save plain numbers"),
    # .npy
    "npy: wrong magic": Kind(text("x.npy", b"\x92NUMPY\x01\x00"), "x.npy", "begins with", "Write it again"),
    "npy: cut in the header": Kind(cut(npy("x.npy", X), 0.03), "x.npy", "header of an array", AGAIN),
    "npy: cut in the numbers": Kind(cut(npy("x.npy", X), 0.5), "x.npy", "bytes", "Write or copy it again"),
    "npy: no rows": Kind(npy("x.npy", X[:0]), "x.npy", "0 samples", "Write it again"),
    "npy: three dimensions": Kind(npy("x.npy", X[None]), "x.npy", "(1, 60, 6)", "Reshape"),
    "npy: complex numbers": Kind(npy("x.npy", X + 1j), "x.npy", "Complex", "split X"),
    "npy: text": Kind(npy("x.npy", X.astype(str)), "x.npy", "<U", "Convert or drop"),
    "npy: objects": Kind(npy("x.npy", X.astype(object)), "x.npy", "pickled", "save plain numbers"),
    "npy: NaN": Kind(npy("x.npy", with_bad(X, 41, 2)), "x.npy", "row 41, column 2", "Impute or drop"),
    "npy: infinity": Kind(npy("x.npy", with_bad(X, 41, 2, np.inf)), "x.npy", "row 41, column 2", "drop such rows"),
    "npy: NaN in block 7": Kind(
        npy("x.npy", large(1600)), "x.npy", "row 1600, column 3", "Impute or drop", SMALL_BLOCKS
    ),
    "npy: one row": Kind(npy("x.npy", X[:1]), "x.npy", "n_samples = 1", "Pass more rows", ("-k", "1")),
    "npy: all rows are equal": Kind(npy("x.npy", np.ones((9, 4))), "x.npy", "no variance", "constant columns"),
    "npy: removed during the fit": Kind(
        npy("x.npy", large()), "x.npy", "removed while", "Leave it alone", SMALL_BLOCKS, remove("x.npy")
    ),
    "npy: cut during the fit": Kind(
        npy("x.npy", large()), "x.npy", "changed while", "Leave it alone", SMALL_BLOCKS, shorten("x.npy")
    ),
    # .npz
    "npz: cut": Kind(cut(npz("x.npz", X=X), 0.6), "x.npz", "truncated or damaged", AGAIN),
    "npz: damaged numbers": Kind(changed(npz("x.npz", X=X), 0.5), "x.npz", "is truncated or damaged", AGAIN),
    "npz: two matrices, none of them X": Kind(npz("x.npz", a=X, b=X), "x.npz", "a, b", "X"),
    "npz: sparse, a column number out of range": Kind(
        npz("x.npz", **csr_parts(indices=altered(CSR.indices, 7, 99))),
        "x.npz",
        "indices must be < 6",
        AGAIN,
    ),
    # several files
    "shards: ragged": Kind(shards(X, X[:, :5]), "part-1.npy", "has 5 columns", "Leave it out"),
    "shards: no rows in any": Kind(shards(X[:0], X[:0]), "part-0.npy", "no rows", "Write them again"),
    "shards: NaN in one": Kind(shards(X, with_bad(X, 11, 5)), "part-1.npy", "row 11", "Impute or drop"),
    "shards: one is cut": Kind(
        lambda folder: (shards(X, X)(folder), shorten("parts/part-1.npy")(folder))[0],
        "part-1.npy",
        "needs 3008 bytes",
        AGAIN,
    ),
    "shards: one vanishes during the fit": Kind(
        shards(X, X), "part-1.npy", "removed while", "Leave it alone", (), remove("parts/part-1.npy")
    ),
    "shards: one grows during the fit": Kind(
        shards(X, X), "part-1.npy", "changed while", "Leave it alone", (), grow("parts/part-1.npy")
    ),
    "shards: dense and sparse": Kind(
        lambda folder: (shards(X)(folder), sp.save_npz(folder / "parts" / "part-1.npz", CSR))[0],
        "part-1.npz",
        "is sparse",
        "alike",
    ),
    # CSV
    "csv: text in a column of numbers": Kind(
        text("x.csv", CSV + "1,oops,3\n"), "x.csv", "line 62, column 'b'", "drop or encode", needs="pyarrow"
    ),
    "csv: a missing value": Kind(
        text("x.csv", CSV + "1,,3\n"), "x.csv", "line 62), column 'b'", "impute or drop", needs="pyarrow"
    ),
    "csv: a line with too many fields": Kind(
        text("x.csv", CSV + "1,2,3,4\n"), "x.csv", "line 62 has 4 fields", "Write it again", needs="pyarrow"
    ),
    "csv: a header and no rows": Kind(
        text("x.csv", "a,b,c\n"), "x.csv", "0 samples", "Write it again", needs="pyarrow"
    ),
    "csv: not UTF-8": Kind(
        text("x.csv", CSV.encode() + b"\xff\xfe,1,2\n"), "x.csv", "line 62", "UTF-8", needs="pyarrow"
    ),
    "csv.gz: cut": Kind(
        cut(text("x.csv.gz", gzip.compress(CSV.encode())), 0.7),
        "x.csv.gz",
        "is truncated or damaged",
        AGAIN,
        needs="pyarrow",
    ),
    "csv.gz: damaged": Kind(
        changed(text("x.csv.gz", gzip.compress(CSV.encode())), 0.5, 8),
        "x.csv.gz",
        "is truncated or damaged",
        AGAIN,
        needs="pyarrow",
    ),
    "npy.gz: compressed as a whole": Kind(text("x.npy.gz", gzip.compress(b"\x93NUMPY")), "x.npy.gz", "gzip", "unpack"),
    # svmlight, MatrixMarket
    "svmlight: a column that is no number": Kind(text("x.svm", SVM + "1 a:3\n"), "x.svm", "line 61", "again"),
    "svmlight: a column below 0": Kind(text("x.svm", SVM + "1 -4:3\n"), "x.svm", "line 61", "again"),
    "svmlight: no rows": Kind(text("x.svm", "# nothing\n"), "x.svm", "0 samples", "Write it again"),
    "svmlight: a value that is no number": Kind(text("x.svm", SVM + "1 2:x\n"), "x.svm", "line 61", "again"),
    "mtx: an entry outside": Kind(
        text("x.mtx", MTX.replace("4 1 7", "9 1 7")), "x.mtx", "entry 4 is in row 9", "again"
    ),
    "mtx: fewer entries than it says": Kind(text("x.mtx", MTX.replace("4 1 7\n", "")), "x.mtx", "has only 3", "again"),
    "mtx: no rows": Kind(text("x.mtx", MTX[:46] + "0 3 0\n"), "x.mtx", "0 samples", "Write it again"),
    "mtx: NaN": Kind(
        text("x.mtx", MTX.replace("2 2 2", "2 2 nan")), "x.mtx", "row 1, column 1, counted from 0", "Impute or drop"
    ),
    "mtx: cut": Kind(cut(text("x.mtx", MTX), 0.9), "x.mtx", "line 5 is '3 3'", "again"),
    "mtx: complex": Kind(text("x.mtx", MTX.replace("real", "complex")), "x.mtx", "complex", "real"),
    # Parquet, Arrow
    "parquet: cut": Kind(
        cut(table("x.parquet", NUMBERS), 0.8), "x.parquet", "is truncated or damaged", AGAIN, needs="pyarrow"
    ),
    "parquet: a damaged page": Kind(
        changed(table("x.parquet", NUMBERS, write_page_checksum=True), 0.02, 200),
        "x.parquet",
        "from row 0",
        AGAIN,
        needs="pyarrow",
    ),
    "parquet: a column of text": Kind(
        table("x.parquet", NUMBERS | {"name": ["a"] * 60}), "x.parquet", "column 'name'", "encode it", needs="pyarrow"
    ),
    "parquet: a nested column": Kind(
        table("x.parquet", NUMBERS | {"pair": [{"a": 1.0, "b": 2.0}] * 60}),
        "x.parquet",
        "column 'pair'",
        "Drop it",
        needs="pyarrow",
    ),
    "parquet: a missing value": Kind(
        table("x.parquet", NUMBERS | {"c5": [*X[:44, 5], None, *X[45:, 5]]}, row_group_size=16),
        "x.parquet",
        "column 'c5' has no value in row 44",
        "Impute or drop",
        needs="pyarrow",
    ),
    "parquet: no rows": Kind(
        table("x.parquet", {"a": np.empty(0), "b": np.empty(0)}),
        "x.parquet",
        "0 samples",
        "Write it again",
        needs="pyarrow",
    ),
    "parquet: replaced during the fit": Kind(
        table("x.parquet", NUMBERS),
        "x.parquet",
        "changed while",
        "Leave it alone",
        (),
        table("x.parquet", {"a": X[:, 0]}),
        needs="pyarrow",
    ),
    "feather: cut": Kind(
        cut(table("x.feather", NUMBERS), 0.7), "x.feather", "is truncated or damaged", AGAIN, needs="pyarrow"
    ),
    "feather: NaN": Kind(
        table("x.feather", NUMBERS | {"c4": with_bad(X, 9, 4)[:, 4]}),
        "x.feather",
        "row 9, column 'c4'",
        "Impute or drop",
        needs="pyarrow",
    ),
    "feather: a damaged batch": Kind(
        changed(table("x.feather", NUMBERS, compression="zstd"), 0.4, 300), "x.feather", "row 0", AGAIN, needs="pyarrow"
    ),
    # HDF5, .h5ad
    "h5: cut": Kind(cut(hdf5("x.h5", dataset(X)), 0.6), "x.h5", "truncated or damaged", AGAIN, needs="h5py"),
    "h5: two matrices": Kind(
        hdf5("x.h5", lambda file: (dataset(X)(file), file.create_dataset("Y", data=X))),
        "x.h5",
        "found X, Y",
        "Name it as",
        needs="h5py",
    ),
    "h5: no matrix of that name": Kind(
        hdf5("x.h5", dataset(X), "Z"), "x.h5", "holds no 'Z': there is X", "Name a matrix", needs="h5py"
    ),
    "h5: no matrix": Kind(
        hdf5("x.h5", lambda file: file.create_group("a")), "x.h5", "no matrix of numbers", "write one", needs="h5py"
    ),
    "h5: changed during the fit": Kind(
        hdf5("x.h5", dataset(X)), "x.h5", "changed while", "Leave it alone", (), touch("x.h5"), needs="h5py"
    ),
    "h5: a damaged chunk": Kind(
        changed(hdf5("x.h5", dataset(np.tile(X, (100, 1)), chunks=(500, 6), compression="gzip")), 0.7, 400),
        "x.h5",
        "from row",
        AGAIN,
        needs="h5py",
    ),
    "h5: text": Kind(hdf5("x.h5", dataset(X.astype("S5")), "X"), "x.h5", "type |S5", "Convert or drop", needs="h5py"),
    "h5: NaN": Kind(
        hdf5("x.h5", dataset(with_bad(X, 30, 1))), "x.h5", "row 30, column 1", "Impute or drop", needs="h5py"
    ),
    "h5ad: no X": Kind(hdf5("x.h5ad", annotated), "x.h5ad", "holds no 'X'", "Name a matrix", needs="h5py"),
    "h5ad: CSR without indices": Kind(
        hdf5("x.h5ad", csr_group(indices=None)), "x.h5ad", "indices", AGAIN, needs="h5py"
    ),
    "h5ad: CSR, a column number out of range": Kind(
        hdf5("x.h5ad", csr_group(indices=altered(CSR.indices, 90, 77))), "x.h5ad", "index is 77", "again", needs="h5py"
    ),
    "h5ad: CSR, rows that do not ascend": Kind(
        hdf5("x.h5ad", csr_group(indptr=altered(CSR.indptr, 7, 0))), "x.h5ad", "ascend", "again", needs="h5py"
    ),
    "h5ad: CSR, fewer values than column numbers": Kind(
        hdf5("x.h5ad", csr_group(data=CSR.data[:-3])), "x.h5ad", "360 indices and 357 values", AGAIN, needs="h5py"
    ),
    "h5ad: CSR, NaN": Kind(
        hdf5("x.h5ad", csr_group(data=altered(CSR.data, 90, np.nan))), "x.h5ad", "row 15", "Impute", needs="h5py"
    ),
    "h5ad: an unknown matrix": Kind(
        hdf5("x.h5ad", lambda file: (annotated(file), file.create_group("X"))),
        "x.h5ad",
        "group",
        "Name a",
        needs="h5py",
    ),
    # zarr
    "zarr: a missing chunk": Kind(
        zarr_store(lambda store: a_chunk(store).unlink(), fill_value=np.nan),
        "x.zarr",
        "1 of 3 chunks",
        AGAIN,
        needs="zarr",
    ),
    "zarr: a damaged chunk": Kind(
        zarr_store(lambda store: a_chunk(store).write_bytes(b"not compressed at all")),
        "x.zarr",
        "row 0",
        AGAIN,
        needs="zarr",
    ),
    "zarr: damaged metadata": Kind(
        zarr_store(lambda store: (store / "zarr.json").write_text("{")),
        "x.zarr",
        "is truncated or damaged",
        AGAIN,
        needs="zarr",
    ),
    "zarr: one dimension": Kind(
        zarr_store(lambda store: None, X[:, 0]), "x.zarr", "1 dimension", "write a matrix", needs="zarr"
    ),
    "zarr: a group without arrays": Kind(
        lambda folder: empty_group(folder / "x.zarr"), "x.zarr", "no matrix of numbers", "write one", needs="zarr"
    ),
    "zarr: a chunk vanishes during the fit": Kind(
        zarr_store(lambda store: None),
        "x.zarr",
        "removed while",
        "Leave it alone",
        (),
        lambda folder: a_chunk(folder / "x.zarr").unlink(),
        needs="zarr",
    ),
    # PLINK
    "bed: no .bim": Kind(plink(bim=None), "g.bed", "g.bim", "Copy it"),
    "bed: no .fam": Kind(plink(fam=None), "g.bed", "g.fam", "Copy it"),
    "bed: cut": Kind(cut(plink(), 0.7), "g.bed", "8 samples (.fam) and 3 variants", "Write it again"),
    "bed: samples in rows": Kind(plink(bed=b"\x6c\x1b\x00" + bytes(6)), "g.bed", "samples in rows", "--make-bed"),
    "bed: wrong magic": Kind(plink(bed=b"\x6c\x1c\x01" + bytes(6)), "g.bed", "begins with", "Write it again"),
    "bed: a .bim without lines": Kind(plink(bim=b""), "g.bed", "0 variants", "Write it again"),
}


def empty_group(path: Path) -> str:
    import zarr

    zarr.open_group(str(path), mode="w")
    return str(path)


# ------------------------------------------------------------------------------------------------------ judging


@contextlib.contextmanager
def during_the_fit(act: Callable[[], Any] | None) -> Iterator[None]:
    """Call a function once, after the first block of the first pass has been handed out."""
    blocks, done = FileSource.blocks, []

    def watched(self: FileSource, rng: Any = None) -> Iterator[Any]:
        for found in blocks(self, rng):
            if act is not None and not done:
                done.append(act())
            yield found

    with mock.patch.object(FileSource, "blocks", watched):
        yield


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def examine(kind: Kind) -> Result:
    """Fit a broken file by the command line, in this process."""
    home = Path(tempfile.mkdtemp(prefix="broken-"))
    folder, cache = home / "data", home / "cache"
    folder.mkdir()
    try:
        data = str(kind.make(folder))
        before = files_in(home)
        out, err = io.StringIO(), io.StringIO()
        act = None if kind.meanwhile is None else lambda: kind.meanwhile and kind.meanwhile(folder)
        command = ["fit", data, "-k", "2", "-q", "--out", str(folder / "model.npz"), *kind.options]
        environment = mock.patch.dict(os.environ, {"VRPCA_CACHE": str(cache), "TMPDIR": str(home)})
        with environment, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), during_the_fit(act):
            code = run(command)
        message = err.getvalue().replace(f"{folder}/", "")
        return Result(code, message, out.getvalue(), sorted(files_in(home) - before))
    finally:
        shutil.rmtree(home)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kinds whose names contain this")
    wanted = parser.parse_args().only
    print("| kind | exit | message |\n| --- | --- | --- |")
    for name, kind in KINDS.items():
        if wanted in name and importlib.util.find_spec(kind.needs) is not None:
            result = examine(kind)
            left = f" LEFT BEHIND: {', '.join(result.left)}" if result.left else ""
            message = result.message.strip().replace("|", "\\|")
            print(f"| {name} | {result.code} | {message}{left} |", flush=True)


if __name__ == "__main__":
    main()
