"""Small dense linear algebra on tall matrices, in place and in row chunks: no temporary of their size is made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg

CHUNK = 4096


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


def chunks(rows: int) -> Iterator[slice]:
    """Slices of at most 4096 rows."""
    for start in range(0, rows, CHUNK):
        yield slice(start, min(start + CHUNK, rows))


def cross(W: np.ndarray, U: np.ndarray) -> np.ndarray:
    """``W^T U`` in double precision."""
    H = np.zeros((W.shape[1], U.shape[1]))
    for c in chunks(W.shape[0]):
        H += W[c].T.astype(np.float64) @ U[c].astype(np.float64)
    return H


def rotate(W: np.ndarray, Y: np.ndarray) -> None:
    """``W <- W Y`` in place, for a square Y."""
    for c in chunks(W.shape[0]):
        W[c] = W[c].astype(np.float64) @ Y


def residual_gram(W: np.ndarray, U: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """``R^T R`` for ``R = U - W diag(theta)``, in double precision."""
    G = np.zeros((W.shape[1], W.shape[1]))
    for c in chunks(W.shape[0]):
        R = U[c].astype(np.float64) - W[c].astype(np.float64) * theta
        G += R.T @ R
    return G


def orthonormalise(W: np.ndarray) -> None:
    """Make W's columns orthonormal in place, keeping the span of the leading ones.

    Cholesky-QR, twice; Householder QR where the columns are too dependent for it.
    """
    for _ in range(2):
        G = cross(W, W)
        scale = np.sqrt(np.diag(G))
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            break
        try:
            R = scipy.linalg.cholesky(G / np.outer(scale, scale), check_finite=False)
        except scipy.linalg.LinAlgError:
            break
        if R.diagonal().min() < 1e-5:
            break
        rotate(W, scipy.linalg.solve_triangular(R * scale, np.eye(len(G)), check_finite=False))
    else:
        return
    if np.isfinite(W).all():
        W[...] = np.linalg.qr(W.astype(np.float64))[0]


def ritz(H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, largest first, and eigenvectors of a symmetric matrix given up to rounding."""
    theta, Y = np.linalg.eigh((H + H.T) / 2)
    return theta[::-1].copy(), Y[:, ::-1].copy()
