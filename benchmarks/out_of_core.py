"""A fit of a large file under a memory limit, against plain block-by-block readings of the same file.

    python benchmarks/out_of_core.py FOLDER [--gigabytes G] [--limit L] [-k K] [--tol T] [--repeats N]

Writes a float32 matrix of 1000 columns with a decaying spectrum to FOLDER, unless it is there already. Both read the
file cold: its pages are dropped from the page cache before each run (posix_fadvise). The best of the repeats counts.
Prints seconds, passes, the ratio of the fit to as many plain readings, and the peak of the resident memory. Linux only.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

import vrpca

COLUMNS = 1000
DECAY = 0.98  # of the columns' deviations: ten components are told apart by a few percent each
BLOCK = 16 << 20  # bytes of a block of a plain reading, as those of a fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=8.0)
    parser.add_argument("--limit", default="1GB", help="memory_limit")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--cost", default="passes", help="cost of the fit")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    path = options.folder / f"out-of-core-{options.gigabytes:g}.npy"
    if not path.exists():
        write(path, int(options.gigabytes * 1e9) // (4 * COLUMNS))
    readings, fits = [], []
    for _ in range(options.repeats):
        readings.append(plain_reading(path))
        fits.append(fitted(path, options))
    reading, (seconds, model) = min(readings), min(fits, key=lambda pair: pair[0])
    print(f"plain reading {reading:.2f} s; fit {seconds:.2f} s, {model.n_passes_:g} passes, {model.status_.name}")
    print(f"fit over passes x reading: {seconds / (model.n_passes_ * reading):.2f}; {model.certificate_!r}")
    print(f"peak resident memory of this process: {peak() / 1e6:.0f} MB, limit {options.limit}")


def write(path: Path, rows: int) -> None:
    """A matrix in directions that are no columns: a random rotation of independent columns."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0].astype(np.float32)
    turn *= (DECAY ** np.arange(COLUMNS, dtype=np.float32))[:, None]
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, COLUMNS)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, rows, 10_000):
            count = min(10_000, rows - start)
            (rng.standard_normal((count, COLUMNS), dtype=np.float32) @ turn + np.float32(0.1)).tofile(file)


def drop_pages(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_reading(path: Path) -> float:
    drop_pages(path)
    buffer, began = bytearray(BLOCK), time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - began


def fitted(path: Path, options: argparse.Namespace) -> tuple[float, vrpca.PCA]:
    drop_pages(path)
    began = time.perf_counter()
    model = vrpca.PCA(
        options.k, tol=options.tol, memory_limit=options.limit, cost=options.cost, random_state=0, solver="accelerated"
    ).fit(path)
    return time.perf_counter() - began, model


def peak() -> int:
    """Bytes that were resident at the peak (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


if __name__ == "__main__":
    main()
