"""Fits of large files under a memory limit, against plain block-by-block readings of the same files, and the peers.

    python benchmarks/out_of_core.py FOLDER [--gigabytes G] [--limit L] [--only npy parquet ... csr peers]

Writes a float32 matrix of 1000 columns with a decaying spectrum to FOLDER in every format, unless it is there already;
`csr` is a sparse matrix as .h5ad files have it, with 5e8 stored entries for 8 gigabytes. A plain reading is one by the
format's own library, block by block. All files are read cold: their pages are dropped from the page cache before each
run (posix_fadvise). The best of the repeats counts. `peers` fits the .npy file with IncrementalPCA, scikit-learn's PCA
on a memory map and dask's svd_compressed (2 power iterations), each in a process of its own; their loss is the part of
the captured variance that is missing, against an eigendecomposition of the covariance in double precision. Linux only.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import vrpca

COLUMNS = 1000
DECAY = 0.98  # of the columns' deviations: ten components are told apart by a few percent each
BLOCK = 16 << 20  # bytes of a block of a plain reading, as those of a fit
ROWS = BLOCK // (4 * COLUMNS)  # of such a block
PART = 20_000  # rows that are made at a time, and rows of a row group
SPARSE_COLUMNS, PER_ROW = 20_000, 500  # of the sparse matrix
ENTRIES = 62.5e6  # per gigabyte of the dense matrix: 5e8 for 8
SPARSE_K = 20
GROUPS = 50  # kinds of rows of the sparse matrix, as there are kinds of cells


@dataclass(frozen=True)
class Format:
    """How a format is written from parts of the matrix, and read by its own library."""

    ending: str
    write: Callable[[Path, int], None]
    read: Callable[[Path], Iterator[Any]]
    suffix: str = ""  # what names the matrix in the file


def main() -> None:
    options = arguments()
    print(f"command: python {' '.join(sys.argv)}\nmachine: {machine()}\n", flush=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = options.only or [*FORMATS, "csr", "peers"]
    print("| data | plain reading | fit | passes | fit / (passes x reading) | certificate | peak |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, form in FORMATS.items():
        if name in wanted:
            print(row(name, form, dense_file(form, options), options, options.k), flush=True)
    if "csr" in wanted:
        path = options.folder / f"out-of-core-{options.gigabytes:g}.h5ad"
        if not path.exists():
            write_csr(path, int(options.gigabytes * ENTRIES) // PER_ROW)
        print(row("h5ad csr", Format(".h5ad", write_csr, read_csr, "::X"), path, options, SPARSE_K), flush=True)
    if "peers" in wanted:
        compare_peers(dense_file(FORMATS["npy"], options), options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=8.0, help="size of the dense matrix")
    parser.add_argument("--limit", default="1GB", help="memory_limit")
    parser.add_argument("-k", type=int, default=10, help="components of the dense matrix")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--cost", default="reading", help="cost of the fit; `auto` has the same for large files")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="formats, csr, peers")
    return parser.parse_args()


def machine() -> str:
    """The processor, its cores, the memory, and the versions of what takes part."""
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    versions = []
    for name in ("vrpca", "numpy", "scikit-learn", "dask", "pyarrow", "h5py", "zarr"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    load = f"load {os.getloadavg()[0]:.1f} before"
    system = f"{model}, {os.cpu_count()} cores, {memory:.0f} GB, {load}, Linux {platform.release()}"
    return f"{system}; {', '.join(versions)}"


# ------------------------------------------------------------------------------------------------------ the data


def parts(rows: int) -> Iterator[np.ndarray]:
    """A matrix in directions that are no columns: a random rotation of independent columns."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0].astype(np.float32)
    turn *= (DECAY ** np.arange(COLUMNS, dtype=np.float32))[:, None]
    for start in range(0, rows, PART):
        count = min(PART, rows - start)
        yield rng.standard_normal((count, COLUMNS), dtype=np.float32) @ turn + np.float32(0.1)


def dense_file(form: Format, options: argparse.Namespace) -> Path:
    path = options.folder / f"out-of-core-{options.gigabytes:g}{form.ending}"
    if not path.exists():
        form.write(path, int(options.gigabytes * 1e9) // (4 * COLUMNS))
    return path


def write_npy(path: Path, rows: int) -> None:
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, COLUMNS)}
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts(rows):
            part.tofile(file)


def read_npy(path: Path) -> Iterator[Any]:
    buffer = bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            yield count


def _record_batches(rows: int) -> Iterator[Any]:
    import pyarrow as pa

    names = [f"c{j}" for j in range(COLUMNS)]
    for part in parts(rows):
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in np.ascontiguousarray(part.T)], names)


def write_parquet(path: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for batch in _record_batches(rows):
        writer = writer or pq.ParquetWriter(path, batch.schema, use_dictionary=False, compression="snappy")
        writer.write_table(pa.Table.from_batches([batch]), row_group_size=PART)
    assert writer is not None
    writer.close()


def read_parquet(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    yield from pq.ParquetFile(path).iter_batches(batch_size=ROWS)


def write_feather(path: Path, rows: int) -> None:
    import pyarrow as pa

    batches = _record_batches(rows)
    first = next(batches)
    with pa.ipc.new_file(str(path), first.schema) as writer:
        for batch in (first, *batches):
            writer.write_batch(batch)


def read_feather(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    reader = pa.ipc.open_file(pa.OSFile(str(path)))
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def write_hdf5(path: Path, rows: int, chunks: tuple[int, int] | None = None) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        X, start = file.create_dataset("X", (rows, COLUMNS), np.float32, chunks=chunks), 0
        for part in parts(rows):
            X[start : start + len(part)] = part
            start += len(part)


def read_hdf5(path: Path) -> Iterator[Any]:
    import h5py

    with h5py.File(path) as file:
        X = file["X"]
        for start in range(0, len(X), ROWS):
            yield X[start : start + ROWS]


def write_zarr(path: Path, rows: int) -> None:
    import zarr

    X, start = zarr.create_array(str(path), shape=(rows, COLUMNS), dtype=np.float32, chunks=(4000, COLUMNS)), 0
    for part in parts(rows):
        X[start : start + len(part)] = part
        start += len(part)


def read_zarr(path: Path) -> Iterator[Any]:
    import zarr

    X = zarr.open(str(path), mode="r")
    for start in range(0, X.shape[0], 4000):
        yield X[start : start + 4000]


def write_csr(path: Path, rows: int) -> None:
    """Counts in kinds of rows, with a few columns that are common to all, as anndata stores them."""
    import h5py

    rng, total = np.random.default_rng(0), rows * PER_ROW
    liked = rng.integers(0, SPARSE_COLUMNS, (GROUPS, 2000))  # the columns of a kind
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", (rows, SPARSE_COLUMNS)
        values = group.create_dataset("data", (total,), np.float32, chunks=(1 << 18,))
        indices = group.create_dataset("indices", (total,), np.int32, chunks=(1 << 18,))
        group.create_dataset("indptr", data=np.arange(rows + 1, dtype=np.int64) * PER_ROW)
        for start in range(0, rows, PART):
            count = min(PART, rows - start)
            kinds = liked[rng.integers(0, GROUPS, count)]
            picked = (2000 * rng.random((count, PER_ROW)) ** 2).astype(np.intp)
            columns = np.take_along_axis(kinds, picked, axis=1)
            common = rng.random(columns.shape) < 0.5
            columns[common] = (SPARSE_COLUMNS * rng.random(int(common.sum())) ** 3).astype(np.int64)
            where = slice(start * PER_ROW, (start + count) * PER_ROW)
            indices[where] = np.sort(columns, axis=1).ravel()
            values[where] = rng.geometric(0.4, count * PER_ROW)


def read_csr(path: Path) -> Iterator[Any]:
    import h5py

    with h5py.File(path) as file:
        data, indices = file["X/data"], file["X/indices"]
        for start in range(0, len(data), BLOCK // 8):
            yield data[start : start + BLOCK // 8], indices[start : start + BLOCK // 8]


FORMATS = {
    "npy": Format(".npy", write_npy, read_npy),
    "parquet": Format(".parquet", write_parquet, read_parquet),
    "feather": Format(".feather", write_feather, read_feather),
    "zarr": Format(".zarr", write_zarr, read_zarr),
    "hdf5": Format(".h5", write_hdf5, read_hdf5),
    "hdf5 chunks": Format(".chunks.h5", lambda path, rows: write_hdf5(path, rows, (1000, 250)), read_hdf5),
}

# ------------------------------------------------------------------------------------------------------ readings, fits


def drop_pages(path: Path) -> None:
    for each in [path, *path.rglob("*")] if path.is_dir() else [path]:
        if each.is_file():
            with each.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_reading(form: Format, path: Path) -> float:
    drop_pages(path)
    began = time.perf_counter()
    for _ in form.read(path):
        pass
    return time.perf_counter() - began


def fitted(path: Path, suffix: str, k: int, options: argparse.Namespace) -> tuple[float, vrpca.PCA]:
    drop_pages(path)
    began = time.perf_counter()
    model = vrpca.PCA(
        k, tol=options.tol, memory_limit=options.limit, cost=options.cost, random_state=0, solver="accelerated"
    ).fit(f"{path}{suffix}")
    return time.perf_counter() - began, model


def row(name: str, form: Format, path: Path, options: argparse.Namespace, k: int) -> str:
    """A line of the table: readings and fits in turn, the best of each."""
    readings, fits, most = [], [], 0
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    for _ in range(options.repeats):
        fits.append(fitted(path, form.suffix, k, options))
        most = peak() if not readings else most  # of the first fit: libraries keep what a plain reading has taken
        readings.append(plain_reading(form, path))
    reading, (seconds, model) = min(readings), min(fits, key=lambda pair: pair[0])
    ratio = seconds / (model.n_passes_ * reading)
    proof = f"{model.certificate_.suboptimality:.1e} ({model.status_.name.lower()})"
    return (
        f"| {name}, k={k} | {reading:.2f} s | {seconds:.2f} s | {model.n_passes_:.4g} | {ratio:.2f} | {proof} "
        f"| {most / 1e6:.0f} MB |"
    )


def peak() -> int:
    """Bytes that were resident at the peak (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


# ------------------------------------------------------------------------------------------------------ peers


def by_vrpca(path: Path, options: argparse.Namespace) -> np.ndarray:
    return fitted(path, "", options.k, options)[1].components_


def by_incremental(path: Path, options: argparse.Namespace) -> np.ndarray:
    from sklearn.decomposition import IncrementalPCA

    return IncrementalPCA(options.k, batch_size=ROWS).fit(np.load(path, mmap_mode="r")).components_


def by_sklearn(path: Path, options: argparse.Namespace) -> np.ndarray:
    from sklearn.decomposition import PCA

    return PCA(options.k, random_state=0).fit(np.load(path, mmap_mode="r")).components_


def by_dask(path: Path, options: argparse.Namespace) -> np.ndarray:
    import dask.array as da

    X = da.from_array(np.load(path, mmap_mode="r"), chunks=(ROWS, COLUMNS))
    centred = X - X.mean(axis=0).compute()
    return da.linalg.svd_compressed(centred, options.k, n_power_iter=2, seed=0, compute=False)[2].compute()


PEERS = {
    "vrpca": by_vrpca,
    "IncrementalPCA": by_incremental,
    "scikit-learn PCA, memory map": by_sklearn,
    "dask svd_compressed": by_dask,
}


def _run_peer(name: str, path: Path, options: argparse.Namespace, found: Any) -> None:
    try:
        began = time.perf_counter()
        components = PEERS[name](path, options)
        found.put((time.perf_counter() - began, components, peak()))
    except (ImportError, MemoryError) as error:
        found.put(str(error) or type(error).__name__)


def measured(name: str, path: Path, options: argparse.Namespace) -> Any:
    """Seconds, components and peak memory of a contender, in a process of its own; a text if it failed."""
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    drop_pages(path)
    process = context.Process(target=_run_peer, args=(name, path, options, found))
    process.start()
    result = found.get()
    process.join()
    return result


def covariance(path: Path) -> np.ndarray:
    """In double precision."""
    X = np.load(path, mmap_mode="r")
    total, square = np.zeros(COLUMNS), np.zeros((COLUMNS, COLUMNS))
    for start in range(0, len(X), ROWS):
        part = X[start : start + ROWS].astype(np.float64)
        total += part.sum(axis=0)
        square += part.T @ part
    mean = total / len(X)
    return square / len(X) - np.outer(mean, mean)


def compare_peers(path: Path, options: argparse.Namespace) -> None:
    C = covariance(path)
    most = np.linalg.eigvalsh(C)[-options.k :].sum()
    print("\n| contender | seconds | times vrpca | loss of captured variance | peak |\n| --- | --- | --- | --- | --- |")
    ours = None
    for name in PEERS:
        results = [measured(name, path, options) for _ in range(options.repeats)]
        if isinstance(results[0], str):
            print(f"| {name} | did not run: {results[0]} | | | |")
            continue
        seconds, V, memory = min(results, key=lambda result: result[0])
        ours = ours or seconds
        loss = 1 - np.trace(V @ C @ V.T) / most
        print(f"| {name} | {seconds:.2f} | {seconds / ours:.1f} | {loss:.1e} | {memory / 1e6:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
