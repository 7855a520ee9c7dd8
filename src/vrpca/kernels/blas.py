"""The product with a wide block, dense: BLAS on pieces that stay in the cache, one single-threaded BLAS per thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from vrpca import kernels
from vrpca.threads import blas_threads, in_parallel

COLUMNS = 3  # from this width on, BLAS is faster than the kernel for narrow blocks
PIECE_BYTES = 3 << 19


def product(
    X: np.ndarray,
    rows: Any,
    mapped: bool,
    factor: np.ndarray | float,
    W: np.ndarray,
    U: np.ndarray,
    P: np.ndarray | None,
    n_threads: int,
) -> None:
    """``U += Z^T (Z W)``, ``P = Z W``; the rows of Z are those of X, mapped by `rows` where they are, times `factor`.

    Sums over a piece are in the precision of the data, sums of pieces in double.
    """
    n, d = X.shape
    step = max(32, PIECE_BYTES // (d * X.itemsize))

    def part(lo: int, hi: int) -> np.ndarray:
        total = np.zeros(W.shape)
        room = np.empty((min(step, hi - lo), d), X.dtype) if mapped else None
        for first in range(lo, hi, step):
            piece = slice(first, min(first + step, hi))
            Z = X[piece]
            if room is not None:
                Z = room[: len(Z)]
                kernels.map_rows(rows, first, Z)
            a = factor if np.ndim(factor) == 0 else factor[piece, None]  # type: ignore[index]
            Q = Z @ W
            Q *= a
            if P is not None:
                P[piece] = Q
            Q *= a
            total += Z.T @ Q
        return total

    parts = max(1, min(n_threads, n // step))
    cuts = [n * p // parts for p in range(parts + 1)]
    with blas_threads(1):
        totals = [part(0, n)] if parts == 1 else in_parallel(parts, part, cuts[:-1], cuts[1:])
        for total in totals:
            U += total
