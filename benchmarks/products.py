"""Products of blocks against what the machine can do: seconds, and their ratio to the roofline.

    python benchmarks/products.py [--data FOLDER] [--threads N] > docs/results/products/products.md

What it prints is a Markdown page, which docs/benchmarks.md shows. The roofline of a product is the time to read X and W
and to read and write U once, or to multiply the stored entries of X twice by the block at the rate of BLAS' matrix
products, whichever is longer. Besides X, that matters where rows are sparse: W and U are as large as X with 20 columns
then. The best of all runs counts. FOLDER has rcv1.npz; without it, a generated matrix of the same size takes its place.

A product of sparse rows has another bound besides: the instructions that fetch a row of W and change a row of U for
every entry. "In cache" is the time of the same product of rows as long as these whose entries all lie in the first NEAR
columns. Then these rows of W and U stay in the first-level cache: what is left is instructions, wrong guesses of where
rows end, and reading X.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.row_map import make_rows
from vrpca.experiments.bench.roofline import Rates, measure
from vrpca.experiments.shared.summary import Table, machine, page
from vrpca.linalg import aligned_zeros
from vrpca.threads import n_threads

COLUMNS = (1, 4, 8, 12, 13, 16, 24, 32, 48, 64)
NEAR = 128  # columns: that many rows of W and of U, of 16 doubles each, fill a first-level cache of 32 kB
RUNS, ROUNDS = 5, 4  # runs at a time, and how often the whole is measured: other work on the machine comes and goes


def matrices(folder: Path | None) -> Iterator[tuple[str, Any]]:
    """Matrices of the size of MNIST and of RCV1, in both types, and one with rows of 12 kB.

    These rows, and the columns of W and U, begin at the same place modulo 4 kB.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((70000, 784), dtype=np.float32)
    if folder is None:
        S = sp.csr_array(sp.random_array((27613, 47236), density=0.0016, format="csr", rng=rng, dtype=np.float32))
    else:
        S = sp.csr_array(sp.load_npz(folder / "rcv1.npz"))
    for dtype in (np.float32, np.float64):
        yield f"dense {np.dtype(dtype)}", X.astype(dtype)
    yield "dense float32, 3072 per row", rng.standard_normal((18000, 3072), dtype=np.float32)
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
    threads, data = n_threads(options.threads), list(matrices(options.data))
    measured = [measure(threads) for _ in range(ROUNDS)]
    rounds = [[times(X, threads) for _, X in data] for _ in range(ROUNDS)]
    measured += [measure(threads) for _ in range(ROUNDS)]
    best = np.min(rounds, axis=0)  # matrices x columns x (plain, centred, in cache)
    read = [X.nbytes / found[0, 0] for (_, X), found in zip(data, best, strict=True) if not sp.issparse(X)]
    bandwidth = max(*(each.bandwidth for each in measured), *read)  # no product may seem to be faster than reading
    rates = replace(measured[0], bandwidth=bandwidth, flops=max(each.flops for each in measured))
    rows = [
        [name, str(columns), ms(plain), f"{plain / roofline(X, columns, rates):.2f}", ms(centred), ms(cached)]
        for (name, X), found in zip(data, best, strict=True)
        for columns, (plain, centred, cached) in zip(COLUMNS, found, strict=True)
    ]
    table = Table("Products", ("data", "columns", "ms", "over the roofline", "centred, ms", "in cache, ms"), rows)
    about = "`python benchmarks/products.py --data FOLDER`; the sparse matrix is "
    about += "generated" if options.data is None else "RCV1's"
    about += f". In cache: the same rows with all entries in the first {NEAR} columns. What they touch of W and U then "
    about += "stays in the first-level cache, so that mostly the time of the instructions is left"
    print(page("Products against the roofline", about, f"{machine(threads)}; {rates}", [table], None))


def times(X: Any, threads: int) -> list[list[float]]:
    """Seconds of products with blocks of several widths: as rows are, centred, and in cache (nan for dense rows)."""
    mean, close = np.full(X.shape[1], 0.1), near(X) if sp.issparse(X) else None
    return [
        [
            *(seconds(X, columns, shift, threads) for shift in (None, mean)),
            np.nan if close is None else seconds(close, columns, None, threads),
        ]
        for columns in COLUMNS
    ]


def near(X: Any) -> Any:
    """The rows of X with all entries in the first NEAR columns: an entry of column j is one of column j modulo NEAR."""
    return sp.csr_array((X.data, X.indices % NEAR, X.indptr), shape=X.shape)


def ms(seconds: float) -> str:
    """Milliseconds as text; nothing for what was not measured."""
    return "" if np.isnan(seconds) else f"{1e3 * seconds:.1f}"


def roofline(X: Any, columns: int, rates: Rates) -> float:
    """Seconds that the machine needs for a product, at least."""
    stored = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
    moved = stored + 3 * X.shape[1] * columns * X.dtype.itemsize
    rate = rates.flops * np.dtype(np.float32).itemsize / X.dtype.itemsize
    return max(moved / rates.bandwidth, 4 * X.size * columns / rate)


if __name__ == "__main__":
    main()
