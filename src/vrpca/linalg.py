"""Dense linear algebra on tall matrices, in place: no temporary of their size is made. Singular triplets from them."""

from __future__ import annotations

import itertools

import numpy as np

from vrpca import kernels
from vrpca.typing import Array

CACHE_LINE = 64  # bytes, on x86-64 and on most ARM processors
# Orders up to which our kernel finds eigenpairs: 9 of 50 in 53 us instead of LAPACK's 163, 9 of 100 in 200 us instead
# of 580, all 8 of 8 in 3 us instead of 10 (one core with AVX-512). Beyond, LAPACK finds a few as fast.
SMALL_ORDER = 100
# The least pivot of Cholesky-QR is about the inverse of the condition number, 1e5 here: one round in double precision
# leaves an error of 1e5^2 eps = 2e-6, and the next round squares that.
LEAST_PIVOT = 1e-5
# In units of eps: what rounding the rows of V to their type leaves of products with unit vectors, eps / 2 each, with
# room for coefficients that are larger than 1. What is left stays, and grows from block to block.
ORTHOGONAL = 4
# Products need not be measured again if the parts that are taken out of unit vectors are smaller than SMALL_PART, and
# if no combination of the vectors is shorter than the longest one by more than EVEN times. What S lacks in
# orthogonality counts in proportion to the parts, and the rounding of their products in proportion to the ratio. With
# these numbers, S was as orthogonal as if everything were measured, over 144 spaces of sparse matrices with columns of
# size j^-1 to j^-8. With 0.1 and 30, its error was a sixth larger on average, and twice as large at worst (float32).
SMALL_PART, EVEN = 1e-3, 10.0

# In units of eps: columns of Z W shorter than this part of the longest are rounding. What they stand for is lost, which
# the bound allows for: `STORED` in certificate.py is the same number.
VANISHED = 8


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Zeros that start on a cache line, so that a row of 8 floats never straddles two."""
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + CACHE_LINE, np.uint8)
    offset = -raw.ctypes.data % CACHE_LINE
    return raw[offset : offset + size].view(dtype).reshape(shape)


def aligned_copy(W: Array) -> Array:
    """A C-ordered copy of W that starts on a cache line."""
    copy = aligned_zeros(W.shape, W.dtype)
    copy[...] = W
    return copy


def cross(W: Array, U: Array) -> Array:
    """``W^T U`` in double precision."""
    H = np.empty((W.shape[1], U.shape[1]))
    kernels.cross(W, U, H)
    return H


def eigenpairs(A: Array, count: int, vectors: int | None = None) -> tuple[Array, Array]:
    """The largest eigenvalues of a symmetric matrix, largest first, and eigenvectors as columns: of all, or of a few.

    Their errors are relative to the largest eigenvalue. LAPACK's are smaller where rows differ much in size.
    """
    theta, V = np.empty(count), np.empty((count if vectors is None else vectors, len(A)))
    if len(A) <= SMALL_ORDER and kernels.eigenpairs(np.ascontiguousarray(A), theta, V):
        return theta, V.T
    if not len(V):
        return np.linalg.eigvalsh(A)[::-1][:count], V.T
    values, found = np.linalg.eigh(A)
    return values[::-1][:count], found[:, ::-1][:, : len(V)]


def ritz(H: Array) -> tuple[Array, Array]:
    """Eigenvalues, largest first, and eigenvectors of a symmetric matrix given up to rounding."""
    theta, Y = np.linalg.eigh((H + H.T) / 2)
    return theta[::-1].copy(), Y[:, ::-1].copy()


def rotate(W: Array, Y: Array) -> None:
    """``W <- W Y`` in place, for a square Y."""
    if Y.shape == (1, 1):
        W *= W.dtype.type(Y[0, 0])
        return
    kernels.combine(0.0, W, W, np.ascontiguousarray(Y))


def residual_gram(W: Array, U: Array, theta: Array) -> Array:
    """``R^T R`` for ``R = U - W diag(theta)``, in double precision."""
    G = np.empty((W.shape[1], W.shape[1]))
    kernels.residual_gram(W, U, theta, G)
    return G


def orthonormalise(W: Array, rounds: int = 2) -> float:
    """Make W's columns orthonormal in place, keeping the span of the leading ones; return the longest one's length.

    Cholesky-QR: the error of one round grows with the square of W's condition number, and a second round removes it.
    Where the columns are too dependent for that, Householder QR is used instead.
    """
    if W.shape[1] == 1:
        rounds = 1
    longest = np.nan
    for _ in range(rounds):
        G = cross(W, W)
        scale = np.sqrt(np.diag(G))
        longest = scale.max() if np.isnan(longest) else longest
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            break
        try:
            L = np.linalg.cholesky(G / np.outer(scale, scale))
        except np.linalg.LinAlgError:
            break
        if L.diagonal().min() < LEAST_PIVOT:
            break
        rotate(W, np.linalg.inv(L * scale[:, None]).T)
    else:
        return float(longest)
    if np.isfinite(W).all():
        Q, R = np.linalg.qr(W.astype(np.float64))
        W[...] = Q * np.where(np.diag(R) < 0, -1.0, 1.0)
    return float(longest)


def sweep(S: Array, V: Array, K: Array | None = None, *, n_threads: int, alone: bool = False) -> Array:
    """``V <- K [S; V]`` in place, unless K is None, and ``V [S; V]^T`` of what it became; vectors are rows.

    K may have fewer rows than V; V's other rows are lost then. With `alone`, V is multiplied by itself alone: there are
    zeros instead of ``V S^T``.
    """
    q = len(V) if K is None else len(K)
    D = np.empty((q, q if alone else len(S) + q))
    kernels.sweep(S, None if K is None else np.ascontiguousarray(K), V, D, n_threads)
    return np.hstack([np.zeros((q, len(S))), D]) if alone else D


def combinations(K: Array, S: Array, n_threads: int) -> Array:
    """``K S``: combinations of the rows of S, which are vectors."""
    q = len(K)
    out = np.empty((q, S.shape[1]), S.dtype)
    kernels.sweep(S, np.hstack([K, np.zeros((q, q))]), out, np.empty((q, 0)), n_threads)
    return out


def recombine(M: Array, size: int, T: Array, n_threads: int) -> None:
    """The first rows of M become ``T^T`` times the first `size` rows, in place."""
    kernels.sweep(M[:0], np.ascontiguousarray(T.T), M[:size], np.empty((T.shape[1], 0)), n_threads)


def orthonormal_rows(S: Array, V: Array, D: Array, shortest: float, n_threads: int) -> tuple[Array, Array, Array]:
    """Make V's rows orthonormal, and orthogonal to those of S, given ``D = V [S; V]^T``: one round, in place.

    Directions shorter than `shortest` are left out. Returns C and F with ``V_before = C S + F V_after``, and the next
    D, which has as many rows as V has left.
    """
    m, eps = len(S), float(np.finfo(V.dtype).eps)
    C = D[:, :m].copy()
    values, Y = np.linalg.eigh(D[:, m:] - C @ C.T)
    there = values > shortest**2
    root = np.sqrt(values[there])
    F, T = Y[:, there] * root, (Y[:, there] / root).T
    left = T @ C
    largest = np.abs(left).max(initial=0.0)
    if largest <= ORTHOGONAL * eps:  # orthogonal already: S need not be read
        return C, F, np.hstack([left, sweep(S[:0], V, T, n_threads=n_threads)])
    nothing_lost = largest <= SMALL_PART and root.max() <= EVEN * root.min()
    return C, F, sweep(S, V, np.hstack([-left, T]), n_threads=n_threads, alone=nothing_lost)


def triplets(
    W: Array, P: Array | None, norms: Array, k: int, transposed: bool, compute_u: bool
) -> tuple[Array | None, Array, Array]:
    """U, s, Vt, k of each: W holds one side's vectors, P = Z W the other's times the singular values.

    `norms` are the lengths of the columns of P, or estimates where there is no P; they are the singular values. The k
    leading columns of W are those that count: rounding of `norms` must not exchange them for others.
    """
    leading = norms[:k].tolist()
    in_order = all(one >= other for one, other in itertools.pairwise(leading))
    order = slice(k) if in_order else np.argsort(-norms[:k], kind="stable")
    norms = norms[order]
    other = None
    if P is not None and (compute_u or transposed):
        other = _normalised(np.ascontiguousarray(P[:, order]), norms)
    left, right = (other, W[:, order]) if other is None or not transposed else (W[:, order], other)
    signs = _signs(right)
    Vt = np.ascontiguousarray((right * signs).T)
    U = np.ascontiguousarray(left * signs) if compute_u and left is not None else None
    return U, norms, Vt


def column_norms(P: Array) -> Array:
    """Lengths of the columns."""
    P = np.ascontiguousarray(P)
    return np.sqrt(np.diag(cross(P, P)))


def _present(norms: Array, P: Array) -> Array:
    """Which singular values are there at all, and not rounding."""
    return norms > VANISHED * np.finfo(P.dtype).eps * norms.max()


def _normalised(P: Array, norms: Array) -> Array:
    """P's columns made orthonormal, the leading ones first: small singular values leave theirs less so.

    Columns that vanish up to rounding are replaced by any that complete the basis.
    """
    good = _present(norms, P)
    Q = np.zeros_like(P)
    np.divide(P, norms, out=Q, where=good, casting="same_kind")
    if not good.all():
        Q[:, ~good] = np.random.default_rng(0).standard_normal((len(P), int((~good).sum())))
    orthonormalise(Q)
    return Q


def _signs(V: Array) -> Array:
    """The sign rule: the entry of largest magnitude of each right singular vector is positive."""
    largest = V[np.argmax(np.abs(V), axis=0), np.arange(V.shape[1])]
    return np.where(largest < 0, -1, 1).astype(V.dtype)
