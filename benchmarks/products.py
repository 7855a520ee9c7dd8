"""Products of blocks against what the machine can do: seconds, and their ratio to the roofline.

    python benchmarks/products.py [--data FOLDER] [--threads N]

The roofline of a dense product is the time to read X once, or to multiply it twice by the block at the rate of BLAS'
matrix products, whichever is longer. That of a sparse product is the time to read X once. The best of some runs counts.
FOLDER has rcv1.npz; without it, a generated matrix of the same size takes its place.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.row_map import make_rows
from vrpca.experiments.bench.roofline import measure
from vrpca.linalg import aligned_zeros
from vrpca.threads import n_threads

COLUMNS = (1, 4, 8, 12, 13, 16, 24, 32, 48, 64)
RUNS = 7


def matrices(folder: Path | None) -> Iterator[tuple[str, Any]]:
    """Matrices of the size of MNIST and of RCV1, in both types."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((70000, 784), dtype=np.float32)
    if folder is None:
        S = sp.csr_array(sp.random_array((27613, 47236), density=0.0016, format="csr", rng=rng, dtype=np.float32))
    else:
        S = sp.csr_array(sp.load_npz(folder / "rcv1.npz"))
    for dtype in (np.float32, np.float64):
        yield f"dense {np.dtype(dtype)}", X.astype(dtype)
    for dtype in (np.float32, np.float64):
        yield f"sparse {np.dtype(dtype)}", S.astype(dtype)


def seconds(X: Any, columns: int, shift: np.ndarray | None, threads: int) -> float:
    """The best time of a product with so many columns; with a shift, rows are centred after their product."""
    rows = make_rows(X, None, shift, late=shift is not None and not sp.issparse(X))
    W, U = (aligned_zeros((X.shape[1], columns), X.dtype) for _ in range(2))
    W[...] = np.random.default_rng(0).standard_normal(W.shape)
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        kernels.product(rows, W, U, None, threads)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    threads = n_threads(options.threads)
    rates = measure(threads)
    print(f"{threads} threads; {rates}\n")
    print("| data | columns | ms | over the roofline | centred, ms |\n| --- | --- | --- | --- | --- |")
    for name, X in matrices(options.data):
        dense, mean = not sp.issparse(X), np.full(X.shape[1], 0.1)
        size = X.nbytes if dense else X.data.nbytes + X.indices.nbytes
        rate = rates.flops * 4 / X.dtype.itemsize
        for columns in COLUMNS:
            arithmetic = 4 * X.size * columns / rate if dense else 0.0
            plain, centred = (seconds(X, columns, shift, threads) for shift in (None, mean))
            over = plain / max(size / rates.bandwidth, arithmetic)
            print(f"| {name} | {columns} | {plain * 1e3:.1f} | {over:.2f} | {centred * 1e3:.1f} |", flush=True)


if __name__ == "__main__":
    main()
