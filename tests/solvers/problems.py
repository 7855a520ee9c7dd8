"""Matrices with a known spectrum, LAPACK's answer, a source that counts, and the identities every answer must keep."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

from helpers import summed
from vrpca.data.first_pass import FirstPass, Moments
from vrpca.data.open import as_source
from vrpca.data.source import Source, walk
from vrpca.data.view import Problem, View

NOTHING_FOUND = FirstPass(Moments(1.0, np.zeros(0), np.zeros(0), 1.0))  # no solver gets a head start from it


def orthonormal(n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def with_singular_values(n: int, d: int, s: Any, seed: int = 0) -> np.ndarray:
    """An n x d matrix with exactly these singular values (the rest are zero) in random directions."""
    rng = np.random.default_rng(seed)
    s = np.asarray(s, dtype=float)
    return (orthonormal(n, len(s), rng) * s) @ orthonormal(d, len(s), rng).T


def with_eigenvalues(n: int, d: int, values: Any, seed: int = 0) -> np.ndarray:
    """An n x d matrix whose A = X^T X / n has exactly these eigenvalues."""
    return with_singular_values(n, d, np.sqrt(n * np.asarray(values, dtype=float)), seed)


def transformed(X: Any, center: bool = False, scale: bool = False, weights: Any = None) -> np.ndarray:
    """Z in full and in double precision: the textbook version of what a view does implicitly."""
    Z = (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(np.float64)
    w = np.ones(len(Z)) if weights is None else np.asarray(weights, dtype=float)
    mean = w @ Z / w.sum()
    if scale:
        deviation = np.sqrt(w @ (Z - mean) ** 2 / w.sum())
        deviation[deviation == 0] = 1
        mean, Z = mean / deviation, Z / deviation
    if center:
        Z = Z - mean
    return Z * np.sqrt(w)[:, None]


def normalised(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Z and A of an uncentred view."""
    Z = X.astype(float) * np.sqrt(len(X)) / np.linalg.norm(X.astype(float))
    return Z, Z.T @ Z / len(X)


def lapack(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All singular values and right singular vectors (as rows)."""
    _, s, Vt = np.linalg.svd(Z, full_matrices=False)
    return s, Vt


def suboptimality(Z: np.ndarray, Vt: np.ndarray, s: np.ndarray | None = None) -> float:
    """The paper's measure, by LAPACK: 1 - |Z V|_F^2 over the sum of the k largest squared singular values."""
    s = np.linalg.svd(Z, compute_uv=False) if s is None else s
    k = len(Vt)
    Q = np.linalg.qr(Vt.astype(np.float64).T)[0]
    return 1 - np.linalg.norm(Z @ Q) ** 2 / (s[:k] ** 2).sum()


def sine(V: np.ndarray, W: np.ndarray) -> float:
    """Sine of the largest angle between two subspaces, given by orthonormal rows."""
    V, W = V.astype(np.float64), W.astype(np.float64)
    return float(np.linalg.norm(V - (V @ W.T) @ W, 2))


def assert_orthonormal(rows: np.ndarray, tolerance: float | None = None) -> None:
    tolerance = 50 * np.finfo(rows.dtype).eps if tolerance is None else tolerance
    gram = rows.astype(np.float64) @ rows.astype(np.float64).T  # sums of as many products as a row has entries
    np.testing.assert_allclose(gram, np.eye(len(rows)), atol=tolerance + summed(rows.shape[1]))


def assert_sign_rule(Vt: np.ndarray) -> None:
    """The entry of largest magnitude of each axis is positive."""
    assert (Vt[np.arange(len(Vt)), np.abs(Vt).argmax(axis=1)] > 0).all()


def assert_true_answer(found: Any, Z: np.ndarray, tol: float) -> float:
    """Everything that holds for any converged answer, whatever found it; returns its true suboptimality."""
    eps = np.finfo(found.Vt.dtype).eps
    k = len(found.s)
    s = np.linalg.svd(Z, compute_uv=False)
    rounding = 200 * eps
    assert_orthonormal(found.Vt, 100 * eps)
    assert_sign_rule(found.Vt)
    assert (np.diff(found.s) <= 0).all(), "singular values must come largest first"
    true = suboptimality(Z, found.Vt, s)
    assert true <= found.certificate.suboptimality + rounding
    assert true <= tol + rounding
    ritz, eigenvalues = found.s.astype(float) ** 2, s[:k] ** 2
    assert (ritz <= eigenvalues * (1 + rounding) + rounding * s[0] ** 2).all(), "a Ritz value above its eigenvalue"
    assert (ritz >= eigenvalues - (tol + rounding) * eigenvalues.sum()).all()
    np.testing.assert_allclose(found.total_variance, (Z**2).sum(), rtol=100 * eps)
    if found.U is not None:
        kept = found.s > 1e3 * eps * found.s[0]
        assert_orthonormal(np.ascontiguousarray(found.U.T[kept]), 1e3 * eps * found.s[0] / found.s[kept].min())
        # the side that was iterated on holds to rounding; the other one only as far as the answer has converged
        errors = [
            np.abs(found.U * found.s - Z @ found.Vt.T).max(),
            np.abs(found.U.T @ Z - found.s[:, None] * found.Vt).max(),
        ]
        assert min(errors) <= 100 * eps * s[0]
        assert max(errors) <= (np.sqrt(k * tol) + 100 * eps) * s[0]
    return true


def assert_turned_no_further(found: np.ndarray, expected: np.ndarray, certificate: Any) -> None:
    """Axes, in rows, agree up to what the certificate's angles allow (at most sqrt(2) times the sine)."""
    assert certificate.angles.max() < 1e-4
    assert (np.linalg.norm(found - expected, axis=1) <= 1.5 * certificate.angles + 1e-12).all()


class ChunkedSource(Source):
    """A source that hands out small blocks, as a file or a cluster would, and counts the rows it handed out."""

    def __init__(self, X: Any, rows: int = 64):
        self.X, self.rows = X, rows
        self.shape, self.dtype, self.sparse = X.shape, np.dtype(X.dtype), sp.issparse(X)
        self.handed_out = 0

    def blocks(self, rng: np.random.Generator | None = None) -> Iterator[tuple[int, Any]]:
        for piece in walk(self.shape[0], self.rows, rng):
            self.handed_out += piece.stop - piece.start
            block = self.X[piece]
            yield piece.start, block.tocsr() if sp.issparse(block) else np.ascontiguousarray(block)

    def transposed(self) -> ChunkedSource:
        other = ChunkedSource(self.X.T.tocsr() if sp.issparse(self.X) else self.X.T, self.rows)
        self.other = other
        return other


def small_counts(n: int = 240, d: int = 20, seed: int = 0) -> np.ndarray:
    """Small whole numbers, two thirds of them zero: every kind of source holds them exactly."""
    rng = np.random.default_rng(seed)
    low_rank = rng.standard_normal((n, 3)) * [6, 4, 3] @ rng.standard_normal((3, d))
    X = np.rint(low_rank + rng.standard_normal((n, d)) + 1)
    X[rng.random((n, d)) < 0.5] = 0
    return np.clip(X, -100, 100)


def memory_map(X: np.ndarray) -> np.ndarray:
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, dtype=X.dtype, mode="w+", shape=X.shape)
    mapped[...] = X
    mapped.flags.writeable = False
    return mapped


def strided(X: np.ndarray) -> np.ndarray:
    bigger = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan)
    bigger[::2, ::3] = X
    return bigger[::2, ::3]


def csr64(X: np.ndarray) -> sp.csr_array:
    S = sp.csr_array(X)
    S.indptr, S.indices = S.indptr.astype(np.int64), S.indices.astype(np.int64)
    return S


def unsorted_csr(X: np.ndarray) -> sp.csr_array:
    """CSR with the entries of each row backwards, and one entry split in two."""
    S = sp.csr_array(X)
    order = np.concatenate([np.arange(b, a, -1) - 1 for a, b in zip(S.indptr[:-1], S.indptr[1:], strict=True)])
    data, indices = S.data[order], S.indices[order]
    data = np.insert(data, 0, data[0] - 1)
    data[1] = 1
    indices = np.insert(indices, 0, indices[0])
    return sp.csr_array((data, indices, np.append(0, S.indptr[1:] + 1)), shape=S.shape)


KINDS = {
    "C order": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "F order": np.asfortranarray,
    "strided": strided,
    "big endian": lambda X: X.astype(">f8"),
    "memory map": memory_map,
    "int8": lambda X: X.astype(np.int8),
    "int64": lambda X: X.astype(np.int64),
    "float16": lambda X: X.astype(np.float16),
    "list": lambda X: X.tolist(),
    "CSR": sp.csr_array,
    "CSR matrix": sp.csr_matrix,
    "CSR int64": csr64,
    "CSR float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "CSR int16": lambda X: sp.csr_array(X.astype(np.int16)),
    "CSR unsorted": unsorted_csr,
    "CSC": sp.csc_array,
    "COO": sp.coo_array,
    "pandas": lambda X: pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]),
    "polars": lambda X: pl.DataFrame(X, schema=[f"c{j}" for j in range(X.shape[1])]),
    "chunks": ChunkedSource,
    "sparse chunks": lambda X: ChunkedSource(sp.csr_array(X)),
}


def view_of(
    X: Any,
    *,
    center: bool = False,
    scale: bool = False,
    weights: np.ndarray | None = None,
    transpose: bool = False,
) -> View:
    problem = Problem(as_source(X), weights, center, scale, n_threads=1)
    return View.of(problem, problem.first_pass().moments, transpose)
