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
    """``out = W^T``, in pieces that keep both sides in the cache."""
    step = 512
    for at in range(0, max(W.shape), step):
        part = slice(at, at + step)
        if W.shape[0] < W.shape[1]:
            out[part] = W[:, part].T
        else:
            out[:, part] = W[part].T
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
