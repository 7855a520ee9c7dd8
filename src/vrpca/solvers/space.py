"""A search space whose product with A is known: Rayleigh-Ritz over all of it, thick restart, expansion.

Vectors are rows here: slices of the space are contiguous, and BLAS takes them as they are.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from vrpca.certificate import estimate_outside
from vrpca.linalg import aligned_zeros, ritz, transpose_into
from vrpca.solvers.iterate import Iterate

PIECE = 8192  # entries of the vectors that are recombined at a time


class Operator(Protocol):
    """A symmetric matrix that is known by its products: a view, or a part of its rows."""

    d: int
    dtype: np.dtype
    support: np.ndarray | None

    def product(self, W: np.ndarray, P: None = None, out: np.ndarray | None = None) -> np.ndarray:
        """Return ``A W``, in `out` if given."""
        ...


class Images:
    """Products with rows of vectors, in room that is kept from one to the next."""

    def __init__(self) -> None:
        self.W = self.U = np.zeros((0, 0))

    def __call__(self, operator: Operator, Z: np.ndarray, out: np.ndarray) -> np.ndarray:
        """``out = Z A``."""
        if self.W.shape != Z.shape[::-1]:
            self.W, self.U = (aligned_zeros(Z.shape[::-1], Z.dtype) for _ in range(2))
        operator.product(transpose_into(self.W, Z), out=self.U)
        return transpose_into(out, self.U)


class Space:
    """Orthonormal S with A S, and the Ritz pairs of A on its span.

    Parameters
    ----------
    operator : Operator
        A.
    columns : int
        The width l of the iterates. One more Ritz pair is followed: it tells what is left outside them.
    capacity : int
        The most vectors in S; a thick restart makes room.
    """

    def __init__(self, operator: Operator, columns: int, capacity: int):
        d = operator.d
        self.operator = operator
        self.images = Images()
        self.columns = columns
        self.support, self.order = support_of(operator, columns)
        capacity = min(max(capacity, 3 * (columns + 1)), d)
        self.S = np.empty((capacity, d), operator.dtype)
        self.AS = np.empty((capacity, d), operator.dtype)
        self.H = np.zeros((capacity, capacity))
        self.size = 0
        self.looks = 0
        self.theta, self.Y = np.zeros(0), np.zeros((0, 0))
        self.last: np.ndarray | None = None  # the iterate before, as coefficients

    @property
    def full(self) -> bool:
        """Whether S spans all that A does not send to zero: A is known then."""
        return self.size >= self.order

    def expand(self, Z: np.ndarray, images: np.ndarray | None = None) -> None:
        """Take in the rows of Z, orthonormal and orthogonal to S; reads the data once, unless `images` are known."""
        old, new = self.size, self.size + len(Z)
        self.S[old:new] = Z
        if images is None:
            self.images(self.operator, Z, self.AS[old:new])
        else:
            self.AS[old:new] = images
        H = (self.S[:new] @ self.AS[old:new].T).astype(np.float64)
        self.H[:new, old:new] = H
        self.H[old:new, :old] = H[:old].T
        self.last = None if self.last is None else np.vstack([self.last, np.zeros((new - old, self.last.shape[1]))])
        self.size = new
        self.looks += 1
        self.theta, self.Y = ritz(self.H[:new, :new])

    def vectors(self, width: int) -> np.ndarray:
        """The leading Ritz vectors."""
        return self._coefficients(width) @ self.S[: self.size]

    def _coefficients(self, width: int) -> np.ndarray:
        return np.ascontiguousarray(self.Y[:, :width].T, dtype=self.S.dtype)

    def make_room(self, wanted: int) -> None:
        """Keep the leading Ritz vectors and the iterate before the last one, if there is no room for so many more."""
        capacity, width = len(self.S), self.columns + 1
        wanted = min(wanted, self.order - self.size)
        if self.size + wanted > capacity:
            keep = max(min(capacity - wanted - width, self.size - wanted), min(width, self.size))
            T = self.Y[:, :keep]
            if self.last is not None and keep + width + wanted <= capacity:
                rest = self.last
                for _ in range(2):
                    rest = _orthonormal(rest - T @ (T.T @ rest))
                T = np.hstack([T, rest])
            self._recombine(T)
        self.last = self.Y[:, :width].copy()

    def _recombine(self, T: np.ndarray) -> None:
        size, new = self.size, T.shape[1]
        recombine(self.S, size, T)
        recombine(self.AS, size, T)
        self.H[:new, :new] = T.T @ self.H[:size, :size] @ T
        self.size = new
        self.theta, self.Y = ritz(self.H[:new, :new])

    def fresh(self, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Z made orthonormal and orthogonal to S; rows with nothing new become random ones, as far as there is room."""
        room = min(len(Z), len(self.S) - self.size, self.order - self.size)
        Z = self._against(Z)[:room]
        if len(Z) < room:
            fill = rng.standard_normal((room - len(Z), self.S.shape[1]), dtype=self.S.dtype)
            if self.support is not None:
                fill[:, ~self.support] = 0
            Z = self._against(np.vstack([Z, fill]))
        return Z

    def _against(self, Z: np.ndarray) -> np.ndarray:
        """Gram-Schmidt against S and orthonormalisation, twice, and again where much has cancelled."""
        S, eps = self.S[: self.size], float(np.finfo(Z.dtype).eps)
        Z, _ = _unit_rows(Z, np.finfo(Z.dtype).tiny / eps)
        for turn in range(3):
            Z, left = _unit_rows(Z - (Z @ S.T) @ S, 64 * eps)  # less was rounding
            w, Y = np.linalg.eigh((Z @ Z.T).astype(np.float64))
            good = w > 1e4 * eps
            Z = np.ascontiguousarray((Y[:, good] / np.sqrt(w[good])).T[::-1], dtype=Z.dtype) @ Z
            if turn and good.all() and min(w.min(initial=1.0), left) > 0.01:  # nothing that matters was cancelled
                break
        return Z

    def iterate(self, width: int) -> tuple[Iterate, np.ndarray]:
        """The leading Ritz pairs and what certifies them; and the residuals of `width` pairs, at least one more."""
        l = min(self.columns, self.size)
        Y = self._coefficients(width)
        theta = self.theta[: len(Y)]
        W, R = Y @ self.S[: self.size], Y @ self.AS[: self.size]
        U = R[:l].copy()
        R -= W * theta[:, None].astype(W.dtype)
        G = (R[:l] @ R[:l].T).astype(np.float64)
        mu, kind = self._outside(l, np.linalg.norm(R[l:], axis=1).astype(np.float64))
        return Iterate(W[:l].T, U.T, None, theta[:l].copy(), G, mu, kind), R

    def _outside(self, l: int, residuals: np.ndarray) -> tuple[float, str]:
        """What is known of the largest eigenvalue outside: of the pairs beyond l, the one that may grow highest counts.

        The next pair alone could be an eigenvector that a stream has found, and say nothing of what was missed.
        """
        if self.full:
            return float(self.theta[l]) if l < self.size else 0.0, "exact"
        if l == self.size:
            return max(0.0, 1.0 - float(self.theta.sum())), "estimated"
        values = self.theta[l : l + len(residuals)]
        found = [estimate_outside(v, r, self.looks, self.theta[:l]) for v, r in zip(values, residuals, strict=True)]
        return max(found), "estimated"


def support_of(operator: Operator, columns: int) -> tuple[np.ndarray | None, int]:
    """Where random vectors may differ from zero, and how many of them are independent there.

    Everywhere, if more vectors are wanted than there are columns with anything in them.
    """
    order = operator.d if operator.support is None else int(operator.support.sum())
    return (operator.support, order) if order > columns else (None, operator.d)


def recombine(M: np.ndarray, size: int, T: np.ndarray) -> None:
    """The first rows of M become ``T^T`` times the first `size` rows, in place."""
    small = np.ascontiguousarray(T.T, dtype=M.dtype)
    for at in range(0, M.shape[1], PIECE):
        M[: T.shape[1], at : at + PIECE] = small @ M[:size, at : at + PIECE]


def _unit_rows(Z: np.ndarray, shortest: float) -> tuple[np.ndarray, float]:
    """The rows that are longer than that, with length 1, and how short the shortest of them was."""
    norms = np.linalg.norm(Z, axis=1)
    there = norms > shortest
    Z = Z if there.all() else Z[there]
    return Z * (1 / norms[there, None]).astype(Z.dtype), float(norms[there].min(initial=1.0))


def _orthonormal(C: np.ndarray) -> np.ndarray:
    """A basis of the columns of a small matrix, without those that vanish."""
    Q, s, _ = np.linalg.svd(C, full_matrices=False)
    return Q[:, s > 1e-8]
