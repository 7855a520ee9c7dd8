"""The kernels in NumPy: the specification of what the compiled ones compute, step by step and in double precision.

Every function has the name, the arguments and the in-place effects of its compiled twin, and is given the same random
row numbers. ``VRPCA_KERNELS=reference`` makes the whole package run on this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.typing import Array


class Rows:
    """Rows ``z_i = a_i (x_i * s - b_i m)`` of a dense or CSR matrix X, never stored.

    a is ``unit * row_scale``, s ``col_scale``, b ``row_shift``, m ``shift``; None stands for ones (for m: no shift).
    """

    def __init__(self, X: Any, col_scale: Any, shift: Any, row_scale: Any, row_shift: Any, unit: float):
        n, d = X.shape
        self.X = X
        self.s = np.ones(d) if col_scale is None else col_scale.astype(float)
        self.m = np.zeros(d) if shift is None else shift
        self.r = np.ones(n) if row_scale is None else row_scale
        self.a = unit * self.r
        self.b = np.ones(n) if row_shift is None else row_shift

    def x(self, i: int) -> Array:
        """Row i of X, in full."""
        return (self.X[[i]].toarray()[0] if sp.issparse(self.X) else self.X[i]).astype(float)

    def z(self, i: int) -> Array:
        """Row i, in full."""
        return self.a[i] * (self.x(i) * self.s - self.b[i] * self.m)


def dense_rows(X: Array, *row_map: Any, late: bool = False) -> Rows:
    """Rows of a C-ordered array; `row_map` are the other arguments of `Rows`.

    With ``late=True``, compiled products leave X as it is and apply the column scale and the shift to W and U. That is
    what `product` does here in any case.
    """
    return Rows(X, *row_map)


def csr_rows(indptr: Array, indices: Array, values: Array, columns: int, *row_map: Any) -> Rows:
    """Rows of a CSR matrix; `row_map` are the other arguments of `Rows`."""
    return Rows(sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, columns)), *row_map)


def product(rows: Rows, W: Array, U: Array, P: Array | None, threads: int) -> None:
    """``U += Z^T (Z W)``; P receives ``Z W``."""
    W = W.astype(float)
    Y = rows.a[:, None] * (_times(rows.X, rows.s[:, None] * W) - np.outer(rows.b, rows.m @ W))
    T = rows.a[:, None] * Y
    U += (rows.s[:, None] * _times(rows.X.T, T) - np.outer(rows.m, rows.b @ T)).astype(U.dtype)
    if P is not None:
        P[...] = Y


def _times(X: Any, Y: Array) -> Array:
    return X @ Y if sp.issparse(X) else X.astype(float) @ Y


def row_norms(rows: Rows, norms: Array) -> None:
    """``norms[i] = |z_i|^2``."""
    for i in range(rows.X.shape[0]):
        z = rows.z(i)
        norms[i] = z @ z


def moments(rows: Rows, weight: Array | None, factor: float, threads: int) -> tuple[float, Array, Array]:
    """Total weight, weighted mean and weighted sum of squared deviations of ``factor * x``, per column.

    Heavy rows come first: the mean of rows that hardly count could be far from that of all rows.
    """
    n, d = rows.X.shape
    w = np.ones(n) if weight is None else weight
    total, mean, M2 = 0.0, np.zeros(d), np.zeros(d)
    for i in np.argsort(-w, kind="stable"):
        x = factor * rows.x(i)
        if w[i] == 0:
            M2 += 0 * x  # nothing, unless it is not finite
            continue
        total += w[i]
        delta = x - mean
        mean += delta * (w[i] / total)
        M2 += w[i] * delta * (x - mean)
    return total, mean, M2


def squares(rows: Rows, weight: Array | None, factor: float, threads: int) -> tuple[float, Array]:
    """Total weight, and the weighted sum of squares of ``factor * x``, per column."""
    n, d = rows.X.shape
    w = np.ones(n) if weight is None else weight
    total = np.zeros(d)
    for i in range(n):
        x = factor * rows.x(i)
        total += w[i] * x * x  # a row without weight may be too large to be squared
    return float(w.sum()), total


def product_with_moments(
    rows: Rows, W: Array, U: Array, weight: Array | None, factor: float, about_zero: bool, threads: int
) -> tuple[float, Array, Array]:
    """``U += Z^T (Z W)``, and what `moments` returns; about zero, the means are zero."""
    product(rows, W, U, None, threads)
    if not about_zero:
        return moments(rows, weight, factor, threads)
    total, sums = squares(rows, weight, factor, threads)
    return total, np.zeros_like(sums), sums


def gram(rows: Rows, G: Array, first: Array, squares: Array, threads: int, in_double: bool = False) -> None:
    """``G += Z^T Z``, ``first += Z^T r`` with the row scales r, and the squares of Z's columns, for a dense X.

    All of it is in double precision here; compiled kernels may multiply for G in the precision of the data.
    """
    Z = rows.a[:, None] * (rows.X.astype(float) * rows.s - np.outer(rows.b, rows.m))
    G += Z.T @ Z
    first += rows.r @ Z
    squares += (Z**2).sum(axis=0)


def vr_vector(
    rows: Rows,
    w: Array,
    w0: Array,
    u: Array,
    p: Array,
    V: Array | None,
    Q: Array | None,
    order: Array,
    eta: float,
    rho: Array | None,
) -> None:
    """The inner loop of Algorithm 1; with V, every row is projected onto V's complement (Remark 1, deflation)."""
    v = w.astype(float)
    for i in order:
        z = rows.z(i)
        if V is not None:
            z = z - V @ (V.T @ z)
        v += eta * ((1.0 if rho is None else rho[i]) * z * (z @ v - p[i]) + u)
        v /= np.linalg.norm(v)
    w[...] = v


def vr_panel(rows: Rows, U: Array) -> Array:
    """U in the form that `vr_block` takes."""
    return U.copy()


def vr_block(
    rows: Rows, W: Array, W0: Array, panel: Array, P: Array, theta: Array, order: Array, eta: float, rho: Array | None
) -> None:
    """The block step with the projection control variate; linear from the left, so not orthonormalised."""
    V = W.astype(float)
    for i in order:
        z, K = rows.z(i), W0.T @ V
        V += eta * ((1.0 if rho is None else rho[i]) * np.outer(z, z @ V - P[i] @ K) + panel @ K)
    W[...] = V


def vr_gram_schmidt(rows: Rows, W: Array, U: Array, P: Array, order: Array, eta: float, rho: Array | None) -> None:
    """Remark 1 to the letter: the difference ``W - W0`` as control variate, Gram-Schmidt at every step."""
    V = W.astype(float)
    for i in order:
        z = rows.z(i)
        V += eta * ((1.0 if rho is None else rho[i]) * np.outer(z, z @ V - P[i]) + U)
        V = _gram_schmidt(V)
    W[...] = V


def _gram_schmidt(V: Array) -> Array:
    V = V.copy()
    for c in range(V.shape[1]):
        for s in range(c):
            V[:, c] -= (V[:, s] @ V[:, c]) * V[:, s]
        V[:, c] /= np.linalg.norm(V[:, c])
    return V


def oja_block(rows: Rows, W: Array, order: Array, eta: Array, rho: Array | None) -> None:
    """Oja's steps ``W <- W + eta_t z z^T W``; linear from the left, so not orthonormalised."""
    V = W.astype(float)
    for t, i in enumerate(order):
        z = rows.z(i)
        V += eta[t] * (1.0 if rho is None else rho[i]) * np.outer(z, z @ V)
    W[...] = V


def cross(W: Array, U: Array, H: Array) -> None:
    """``H = W^T U``, summed in double precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        H[...] = W.T.astype(float) @ U.astype(float)


def eigenpairs(A: Array, theta: Array, V: Array) -> bool:
    """The largest eigenvalues of a symmetric A, as many as theta has room for, and eigenvectors of the first as rows.

    There may be fewer rows than eigenvalues. Returns whether they were found: A may have entries that are not finite.
    """
    if not np.isfinite(A).all():
        return False
    values, vectors = np.linalg.eigh(A)
    theta[:] = values[::-1][: len(theta)]
    V[:] = vectors.T[::-1][: len(V)]
    return True


def residual_gram(W: Array, U: Array, theta: Array, G: Array) -> None:
    """``G = R^T R`` with ``R = U - W diag(theta)``."""
    R = U.astype(float) - W.astype(float) * theta
    G[...] = R.T @ R


def combine(alpha: float, S: Array, W: Array, C: Array) -> None:
    """``S = alpha S + W C``; S may be W itself when alpha is zero."""
    product = W.astype(float) @ C
    S[...] = product if alpha == 0 else alpha * S + product


def sweep(S: Array, K: Array | None, V: Array, D: Array, threads: int) -> None:
    """``V = K [S; V]`` unless K is None; then ``D = V [S; V]^T``, as many of its last columns as D has.

    Vectors are rows. Those whose coefficients in K are zero are not read. D has a column for every vector, for those of
    V alone, or none.
    """
    q, columns = D.shape
    if K is not None:
        used = K.any(axis=0)
        V[:q] = K[:, used] @ np.vstack([S, V])[used].astype(float)
    D[...] = V[:q].astype(float) @ np.vstack([S, V[:q]])[len(S) + q - columns :].astype(float).T


def occurring(indices: Array, used: Array) -> None:
    """``used_j = True`` for all j that occur among the indices."""
    used[indices] = True


def renumbered(indices: Array, numbers: Array, out: Array) -> None:
    """``out_k = numbers[indices_k]``."""
    np.take(numbers, indices, out=out)


def transpose(W: Array, out: Array, threads: int) -> None:
    """``out = W^T``."""
    out[...] = W.T


def instruction_set() -> str:
    """The name under which this implementation shows up in reports."""
    return "reference"
