"""What tests share: matrices with a known spectrum, explicit row maps, distances between subspaces."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import scipy.sparse as sp


def eps(dtype) -> float:
    """Unit of rounding of a dtype: every tolerance is a multiple of it."""
    return float(np.finfo(dtype).eps)


def summed(n: int, dtype=np.float64) -> float:
    """Rounding of a sum of n products in any order, relative to the sum of their magnitudes: ``2 sqrt(n) eps``.

    Every BLAS kernel has an order of its own: in blocks, in lanes, or straight from first to last, as OpenBLAS sums
    narrow matrices with AVX-512. The worst case is ``n eps``, where all roundings have one sign. Those of random terms
    have random signs: a straight sum of n positive ones is off by 0.13 sqrt(n) eps (standard deviation). Twice sqrt(n)
    is 10 deviations of the difference of two such sums; what else is rounded has to be allowed for besides.
    """
    return 2 * float(np.sqrt(n)) * eps(dtype)


def random_orthonormal(n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """Random n x k matrix with orthonormal columns."""
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def matrix_with_spectrum(n: int, d: int, spectrum, rng: np.random.Generator) -> np.ndarray:
    """Random n x d matrix (float64) whose singular values are `spectrum`, padded with zeros.

    The eigenvalues of ``X^T X / n`` are therefore ``spectrum**2 / n``. The columns are not centred.
    """
    s = np.asarray(spectrum, dtype=float)
    if len(s) > min(n, d):
        raise ValueError(f"{len(s)} singular values do not fit a {n} x {d} matrix")
    return (random_orthonormal(n, len(s), rng) * s) @ random_orthonormal(d, len(s), rng).T


def sparse_matrix(n: int, d: int, density: float, rng: np.random.Generator, dtype=np.float64) -> np.ndarray:
    """Dense array with about `density` nonzeros, to be turned into any sparse format."""
    return (rng.standard_normal((n, d)) * (rng.random((n, d)) < density)).astype(dtype)


def densify(X) -> np.ndarray:
    """X as a float64 array, whatever its kind."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def gather(source) -> np.ndarray:
    """All blocks of a source put together, each at its place; rows that no block holds stay NaN."""
    out = np.full(source.shape, np.nan)
    for start, X in source.blocks():
        out[start : start + X.shape[0]] = densify(X)
    return out


def sine(V: np.ndarray, W: np.ndarray) -> float:
    """Sine of the largest angle between the spans of V's and W's columns, by projectors."""
    P, Q = (np.linalg.qr(M.astype(np.float64))[0] for M in (V, W))
    return float(np.linalg.norm(P - Q @ (Q.T @ P), 2))


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess:
    """Run code in a fresh interpreter with these environment variables set; warnings are errors there, too."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
    )
