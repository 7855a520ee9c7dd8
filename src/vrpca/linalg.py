"""Small dense linear algebra on tall matrices, in place: no temporary of their size is made."""

from __future__ import annotations

import numpy as np

from vrpca import kernels


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros that start on a cache line, so that a row of 8 floats never straddles two."""
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    return raw[offset : offset + size].view(dtype).reshape(shape)


def aligned_copy(W: np.ndarray) -> np.ndarray:
    """A C-ordered copy of W that starts on a cache line."""
    copy = aligned_zeros(W.shape, W.dtype)
    copy[...] = W
    return copy


def transpose_into(out: np.ndarray, W: np.ndarray) -> np.ndarray:
    """``out = W^T``."""
    if W.flags.c_contiguous:
        kernels.transpose(W, out)
    else:
        out[...] = W.T
    return out


def cross(W: np.ndarray, U: np.ndarray) -> np.ndarray:
    """``W^T U`` in double precision."""
    H = np.empty((W.shape[1], U.shape[1]))
    kernels.cross(W, U, H)
    return H


def rotate(W: np.ndarray, Y: np.ndarray) -> None:
    """``W <- W Y`` in place, for a square Y."""
    if Y.shape == (1, 1):
        W *= W.dtype.type(Y[0, 0])
        return
    kernels.combine(0.0, W, W, np.ascontiguousarray(Y))


def residual_gram(W: np.ndarray, U: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """``R^T R`` for ``R = U - W diag(theta)``, in double precision."""
    G = np.empty((W.shape[1], W.shape[1]))
    kernels.residual_gram(W, U, theta, G)
    return G


def orthonormalise(W: np.ndarray, rounds: int = 2) -> float:
    """Make W's columns orthonormal in place, keeping the span of the leading ones; return the longest one's length.

    Cholesky-QR: one round leaves an error that grows with the square of W's condition, the second one removes it.
    Householder QR steps in where the columns are too dependent for that.
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
        if L.diagonal().min() < 1e-5:
            break
        rotate(W, np.linalg.inv(L * scale[:, None]).T)
    else:
        return float(longest)
    if np.isfinite(W).all():
        Q, R = np.linalg.qr(W.astype(np.float64))
        W[...] = Q * np.where(np.diag(R) < 0, -1.0, 1.0)
    return float(longest)


def ritz(H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, largest first, and eigenvectors of a symmetric matrix given up to rounding."""
    theta, Y = np.linalg.eigh((H + H.T) / 2)
    return theta[::-1].copy(), Y[:, ::-1].copy()


def sweep(S: np.ndarray, V: np.ndarray, K: np.ndarray | None = None, *, n_threads: int) -> np.ndarray:
    """``V <- K [S; V]`` in place, unless K is None, and ``V [S; V]^T`` of what it became; vectors are rows.

    K may have fewer rows than V, whose others are lost then.
    """
    q = len(V) if K is None else len(K)
    D = np.empty((q, len(S) + q))
    kernels.sweep(S, None if K is None else np.ascontiguousarray(K), V, D, n_threads)
    return D


def straightened(
    S: np.ndarray, V: np.ndarray, D: np.ndarray, shortest: float, n_threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    if np.abs(left).max(initial=0.0) <= 16 * eps:  # orthogonal already: S need not be read
        return C, F, np.hstack([left, sweep(S[:0], V, T, n_threads=n_threads)])
    return C, F, sweep(S, V, np.hstack([-left, T]), n_threads=n_threads)
