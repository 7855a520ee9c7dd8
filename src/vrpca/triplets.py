"""Singular triplets from a block W and its projections P = Z W."""

from __future__ import annotations

import numpy as np

from vrpca.data.view import View
from vrpca.linalg import cross, orthonormalise
from vrpca.solvers.base import State


def triplets(
    state: State, P: np.ndarray | None, view: View, transposed: bool, k: int, compute_u: bool
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """U, s, Vt: W holds one side's vectors, P = Z W the other's times the singular values."""
    W = state.vectors()
    norms = np.sqrt(view.n * np.clip(state.theta, 0, None)) if P is None else column_norms(P)
    order = np.argsort(-norms, kind="stable")[:k]
    norms = norms[order]
    s = norms * (view.frobenius / np.sqrt(view.n))
    other = None
    if P is not None and (compute_u or transposed):
        other = _normalised(np.ascontiguousarray(P[:, order]), norms)
    left, right = (other, W[:, order]) if other is None or not transposed else (W[:, order], other)
    signs = _signs(right)
    Vt = np.ascontiguousarray((right * signs).T)
    U = np.ascontiguousarray(left * signs) if compute_u and left is not None else None
    return U, s.astype(view.dtype), Vt


def numerical_rank(P: np.ndarray) -> int:
    """How many singular values are more than rounding."""
    return int(_present(column_norms(P), P).sum())


def column_norms(P: np.ndarray) -> np.ndarray:
    """Lengths of the columns."""
    return np.sqrt(np.diag(cross(np.ascontiguousarray(P), np.ascontiguousarray(P))))


def _present(norms: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Which singular values are there at all, and not rounding."""
    return norms > max(P.shape) * np.finfo(P.dtype).eps * norms.max()


def _normalised(P: np.ndarray, norms: np.ndarray) -> np.ndarray:
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


def _signs(V: np.ndarray) -> np.ndarray:
    """The sign rule: the entry of largest magnitude of each right singular vector is positive."""
    largest = V[np.argmax(np.abs(V), axis=0), np.arange(V.shape[1])]
    return np.where(largest < 0, -1, 1).astype(V.dtype)
