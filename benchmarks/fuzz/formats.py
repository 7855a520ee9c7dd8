"""Files of other formats, to be damaged: how each is written, and what its own library reads of the damaged file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp


@dataclass(frozen=True)
class Written:
    """A format. `read` gives the matrix as its library has it; None where any answer will do.

    Text and genotypes carry no mark of damage: a digit that has changed is another number.
    """

    name: str  # of the file
    write: Callable[[Path, np.ndarray], Any]
    read: Callable[[Path], np.ndarray] | None = None
    suffix: str = ""  # what names the matrix in the file


def _parquet(path: Path, X: np.ndarray, **options: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])})
    pq.write_table(table, path, row_group_size=10, write_page_checksum=True, **options)


def _read_parquet(path: Path) -> np.ndarray:
    import pyarrow.parquet as pq

    return np.column_stack([column.to_numpy() for column in pq.read_table(path).columns])


def _feather(path: Path, X: np.ndarray) -> None:
    import pyarrow as pa
    from pyarrow import feather

    feather.write_feather(pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])}), path, compression="uncompressed")


def _read_feather(path: Path) -> np.ndarray:
    from pyarrow import feather

    return np.column_stack([column.to_numpy() for column in feather.read_table(path, memory_map=False).columns])


def _hdf5(path: Path, X: np.ndarray, **options: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, **options)


def _read_hdf5(path: Path) -> np.ndarray:
    import h5py

    with h5py.File(path) as file:
        return file["X"][:]


def _h5ad(path: Path, X: np.ndarray) -> None:
    import h5py

    matrix = sp.csr_array(X)
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        # anndata writes a text of any length. HDF5 2.0.0 itself may read one forever where its heap is damaged.
        group.attrs["encoding-type"], group.attrs["shape"] = np.bytes_("csr_matrix"), X.shape
        for name, part in (("data", matrix.data), ("indices", matrix.indices), ("indptr", matrix.indptr)):
            group.create_dataset(name, data=part)


def _read_h5ad(path: Path) -> np.ndarray:
    import h5py

    with h5py.File(path) as file:
        group = file["X"]
        shape = tuple(int(count) for count in group.attrs["shape"])
        parts = (group["data"][:], group["indices"][:], group["indptr"][:])
    starts = parts[2]
    inside = parts[1].size == 0 or 0 <= parts[1].min() <= parts[1].max() < shape[1]
    if not inside or starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] != len(parts[0]):
        raise ValueError("no matrix")  # scipy would follow any index, wherever it leads
    return sp.csr_array(parts, shape=shape).toarray()


def _bed(path: Path, X: np.ndarray) -> None:
    n, d = X.shape
    path.write_bytes(b"\x6c\x1b\x01" + np.random.default_rng(0).integers(0, 256, d * -(-n // 4), np.uint8).tobytes())
    path.with_suffix(".fam").write_text("".join(f"f s{i} 0 0 0 -9\n" for i in range(n)))
    path.with_suffix(".bim").write_text("".join(f"1 v{i} 0 {i} A G\n" for i in range(d)))


def _svmlight(path: Path, X: np.ndarray) -> None:
    rows = (" ".join(f"{j + 1}:{value:g}" for j, value in enumerate(row) if value) for row in X)
    path.write_text("".join(f"1 {row}\n" for row in rows))


WRITTEN = {
    "parquet": Written("X.parquet", _parquet, _read_parquet),
    "parquet, plain": Written(
        "X.parquet", lambda path, X: _parquet(path, X, compression="none", use_dictionary=False), _read_parquet
    ),
    "feather": Written("X.feather", _feather, _read_feather),
    "hdf5": Written("X.h5", _hdf5, _read_hdf5),
    "hdf5, gzip": Written("X.h5", lambda path, X: _hdf5(path, X, chunks=(10, 3), compression="gzip"), _read_hdf5),
    "h5ad": Written("X.h5ad", _h5ad, _read_h5ad, "::X"),
    "bed": Written("X.bed", _bed),
    "csv": Written("X.csv", lambda path, X: np.savetxt(path, X, delimiter=",", header="a,b,c,d,e,f", comments="")),
    "mtx": Written("X.mtx", lambda path, X: scipy.io.mmwrite(path, sp.coo_array(X))),
    "svmlight": Written("X.svm", _svmlight),
}
