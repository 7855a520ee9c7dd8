"""Reading and fitting per file format: seconds of a plain reading by the library against seconds per pass of a fit.

    python benchmarks/formats.py --megabytes 300 --folder /tmp/formats [--only parquet]

A generated matrix (float32) is written in every format. It is then read once block by block with the library itself,
and fitted (k=10, tol=1e-6). All files are in the page cache, so the ratio shows what this package adds to reading.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import vrpca
from vrpca.data.open import as_source

K, TOL = 10, 1e-6
BLOCK = 16 << 20  # bytes that a plain reading reads at a time, as the package does
COLUMNS = 1000


@dataclass(frozen=True)
class Case:
    """A format: how it is written, how its library reads it, how this package opens it."""

    write: Callable[[Path, Any], None]
    read: Callable[[Path], Iterator[Any]]
    ending: str
    data: str = "dense"
    open: Callable[[Path], Any] = str


def dense(megabytes: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((megabytes * 1000 // 4, COLUMNS), dtype=np.float32)
    X /= np.sqrt(np.arange(1, COLUMNS + 1, dtype=np.float32))
    return X


def sparse(megabytes: int) -> sp.csr_array:
    rng, per_row, d = np.random.default_rng(0), 200, 5000
    n = megabytes * 1_000_000 // 8 // per_row
    columns = (d * rng.random((n, per_row)) ** 3).astype(np.int32)
    X = sp.csr_array(
        (np.ones(n * per_row, np.float32), columns.ravel(), np.arange(n + 1, dtype=np.int32) * per_row), shape=(n, d)
    )
    X.sum_duplicates()
    return X


def genotypes(megabytes: int) -> np.ndarray:
    """Genotypes that take so many megabytes as float32; samples in rows."""
    rng, n = np.random.default_rng(0), 2000
    d = megabytes * 1_000_000 // 4 // n
    p = np.clip(rng.uniform(0.05, 0.5, (3, d)), 0, 1)
    return rng.binomial(2, p[np.arange(n) % 3]).astype(np.int8)


def rows_of(X: Any) -> Iterator[Any]:
    rows = BLOCK // (X.shape[1] * X.dtype.itemsize)
    for start in range(0, X.shape[0], rows):
        yield X[start : start + rows]


def write_parquet(path: Path, X: np.ndarray) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])})
    pq.write_table(table, path, row_group_size=20_000, use_dictionary=False, compression="snappy")


def read_parquet(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    yield from pq.ParquetFile(path).iter_batches(batch_size=BLOCK // (4 * COLUMNS))


def write_feather(path: Path, X: np.ndarray, compression: str = "uncompressed") -> None:
    import pyarrow as pa
    from pyarrow import feather

    table = pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])})
    feather.write_feather(table, path, compression=compression, chunksize=20_000)


def read_feather(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        yield [column.to_numpy().sum() for column in batch.columns]  # a map is not read before it is used


def write_hdf5(path: Path, X: np.ndarray, **options: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, **options)


def read_hdf5(path: Path) -> Iterator[Any]:
    import h5py

    with h5py.File(path) as file:
        yield from rows_of(file["X"])


def write_h5ad(path: Path, X: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = f"{X.format}_matrix", X.shape
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(X, name), chunks=(min(100_000, len(getattr(X, name))),))


def read_h5ad(path: Path) -> Iterator[Any]:
    import h5py

    with h5py.File(path) as file:
        data, indices = file["X/data"], file["X/indices"]
        for start in range(0, len(data), BLOCK // 8):
            yield data[start : start + BLOCK // 8], indices[start : start + BLOCK // 8]


def write_zarr(path: Path, X: np.ndarray) -> None:
    import zarr

    zarr.create_array(str(path), data=X, chunks=(4000, COLUMNS), overwrite=True)


def read_zarr(path: Path) -> Iterator[Any]:
    import zarr

    yield from rows_of(zarr.open(str(path), mode="r"))


def write_bed(path: Path, G: np.ndarray) -> None:
    import bed_reader

    bed_reader.to_bed(path, G)


def read_bed(path: Path) -> Iterator[Any]:
    import bed_reader

    with bed_reader.open_bed(path) as bed:
        variants = BLOCK // (4 * bed.iid_count)
        for start in range(0, bed.sid_count, variants):
            yield bed.read(np.s_[:, start : start + variants], dtype="float32", order="F")


def read_lazy(path: Path) -> Iterator[Any]:
    import polars as pl

    yield from pl.scan_parquet(path).collect_batches(chunk_size=BLOCK // (4 * COLUMNS))


def lazy(path: Path) -> Any:
    import polars as pl

    return pl.scan_parquet(path)


CASES = {
    "npy": Case(
        lambda path, X: np.save(path, X),
        lambda path: (part.copy() for part in rows_of(np.load(path, mmap_mode="r"))),
        ".npy",
    ),
    "parquet": Case(write_parquet, read_parquet, ".parquet"),
    "feather": Case(write_feather, read_feather, ".feather"),
    "feather lz4": Case(lambda path, X: write_feather(path, X, "lz4"), read_feather, ".lz4.feather"),
    "polars": Case(write_parquet, read_lazy, ".lazy.parquet", open=lazy),
    "hdf5": Case(write_hdf5, read_hdf5, ".h5"),
    "hdf5 chunks": Case(lambda path, X: write_hdf5(path, X, chunks=(1000, 250)), read_hdf5, ".chunks.h5"),
    "hdf5 lzf": Case(lambda path, X: write_hdf5(path, X, chunks=(1000, 250), compression="lzf"), read_hdf5, ".lzf.h5"),
    "zarr": Case(write_zarr, read_zarr, ".zarr"),
    "h5ad csr": Case(write_h5ad, read_h5ad, ".csr.h5ad", "csr", lambda path: f"{path}::X"),
    "h5ad csc": Case(write_h5ad, read_h5ad, ".csc.h5ad", "csc", lambda path: f"{path}::X"),
    "bed": Case(write_bed, read_bed, ".bed", "genotypes"),
}


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def consume(parts: Iterator[Any]) -> None:
    for _ in parts:
        pass


def measure(case: Case, path: Path, cost: str) -> tuple[float, float, Any]:
    """Seconds of a plain reading (the better of two), of a pass that does nothing, and the fit with its seconds."""
    plain = min(timed(lambda: consume(case.read(path))) for _ in range(2))
    source = as_source(case.open(path))
    walked = source.transposed() if source.by_columns else source
    blocks = min(timed(lambda: consume(walked.blocks())) for _ in range(2))
    began = time.perf_counter()
    found = vrpca.pca(case.open(path), K, tol=TOL, random_state=0, compute_u=False, cost=cost, solver="accelerated")
    return plain, blocks, (found, time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300, help="size of the matrix in float32")
    parser.add_argument("--folder", type=Path, required=True, help="where files are written, and left")
    parser.add_argument("--only", default="", help="formats whose names contain this")
    parser.add_argument("--cost", default="time", choices=("time", "passes"), help="what the fit saves")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    makers = {"dense": dense, "csr": sparse, "csc": lambda size: sparse(size).tocsc(), "genotypes": genotypes}
    print(f"{'format':12} {'plain s':>8} {'blocks s':>8} {'ratio':>6} {'s/pass':>8} {'ratio':>6} {'passes':>7}  solver")
    for name, case in CASES.items():
        if arguments.only not in name:
            continue
        path = arguments.folder / f"data{arguments.megabytes}{case.ending}"
        if not path.exists():
            case.write(path, makers[case.data](arguments.megabytes))
        plain, blocks, (found, seconds) = measure(case, path, arguments.cost)
        each = seconds / found.n_passes
        print(
            f"{name:12} {plain:8.3f} {blocks:8.3f} {blocks / plain:6.2f} {each:8.3f} {each / plain:6.2f} "
            f"{found.n_passes:7.2f}  {found.solver}",
            flush=True,
        )


if __name__ == "__main__":
    main()
