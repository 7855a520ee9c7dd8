"""A search space whose product with A is known: Rayleigh-Ritz over all of it, thick restart, expansion."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from vrpca.certificate import estimate_outside
from vrpca.linalg import aligned_zeros, ritz
from vrpca.solvers.iterate import Iterate

PIECE = 4096  # rows of a tall matrix that are recombined at a time


class Operator(Protocol):
    """A symmetric matrix that is known by its products: a view, or a part of its rows."""

    d: int
    dtype: np.dtype
    support: np.ndarray | None

    def product(self, W: np.ndarray) -> np.ndarray:
        """Return ``A W``."""
        ...


class Space:
    """Orthonormal S with A S, and the Ritz pairs of A on its span.

    Parameters
    ----------
    operator : Operator
        A.
    columns : int
        The width l of the iterates. One more Ritz pair is followed: it tells what is left outside them.
    capacity : int
        The most columns of S; a thick restart makes room.
    """

    def __init__(self, operator: Operator, columns: int, capacity: int):
        d = operator.d
        self.operator = operator
        self.columns = columns
        capacity = min(max(capacity, 3 * (columns + 1)), d)
        self.S = aligned_zeros((d, capacity), operator.dtype)
        self.AS = aligned_zeros((d, capacity), operator.dtype)
        self.H = np.zeros((capacity, capacity))
        self.size = 0
        self.looks = 0
        self.theta, self.Y = np.zeros(0), np.zeros((0, 0))
        self.last: np.ndarray | None = None  # the iterate before, as coefficients

    @property
    def full(self) -> bool:
        """Whether S spans everything: A is known then."""
        return self.size == self.S.shape[0]

    def expand(self, Z: np.ndarray) -> None:
        """Take in the columns of Z, orthonormal and orthogonal to S; reads the data once."""
        self.include(Z, self.operator.product(Z))

    def include(self, Z: np.ndarray, AZ: np.ndarray) -> None:
        """Take in Z, whose image is known."""
        old, new = self.size, self.size + Z.shape[1]
        self.S[:, old:new] = Z
        self.AS[:, old:new] = AZ
        H = (self.S[:, :new].T @ AZ).astype(np.float64)
        self.H[:new, old:new] = H
        self.H[old:new, :old] = H[:old].T
        self.last = None if self.last is None else np.vstack([self.last, np.zeros((new - old, self.last.shape[1]))])
        self.size = new
        self.looks += 1
        self.theta, self.Y = ritz(self.H[:new, :new])

    def pairs(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """The leading Ritz vectors and their images."""
        Y = self.Y[:, :width].astype(self.S.dtype)
        return self.S[:, : self.size] @ Y, self.AS[:, : self.size] @ Y

    def make_room(self, wanted: int) -> None:
        """Keep the leading Ritz vectors and the iterate before the last one, if there is no room for so many more."""
        if self.size + wanted > self.S.shape[1]:
            width = self.columns + 1
            keep = max(min(self.S.shape[1] - wanted - width, self.size - wanted), min(width, self.size))
            T = self.Y[:, :keep]
            if self.last is not None and keep + width + wanted <= self.S.shape[1]:
                T = np.hstack([T, _orthonormal(self.last - T @ (T.T @ self.last))])
            self._recombine(T)
        self.last = self.Y[:, : self.columns + 1].copy()

    def _recombine(self, T: np.ndarray) -> None:
        size, new, small = self.size, T.shape[1], T.astype(self.S.dtype)
        for M in (self.S, self.AS):
            for at in range(0, M.shape[0], PIECE):
                M[at : at + PIECE, :new] = M[at : at + PIECE, :size] @ small
        self.H[:new, :new] = T.T @ self.H[:size, :size] @ T
        self.size = new
        self.theta, self.Y = ritz(self.H[:new, :new])

    def fresh(self, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Z made orthonormal and orthogonal to S; columns with nothing new become random ones, as far as there is room."""
        room = min(Z.shape[1], self.S.shape[1] - self.size)
        Z = self._against(Z)[:, :room]
        if Z.shape[1] < room:
            fill = rng.standard_normal((self.S.shape[0], room - Z.shape[1]), dtype=self.S.dtype)
            if self.operator.support is not None:
                fill[~self.operator.support] = 0
            Z = self._against(np.hstack([Z, fill]))
        return np.ascontiguousarray(Z)

    def _against(self, Z: np.ndarray) -> np.ndarray:
        S, eps = self.S[:, : self.size], float(np.finfo(Z.dtype).eps)
        for _ in range(2):
            norms = np.linalg.norm(Z, axis=0)
            there = norms > np.finfo(Z.dtype).tiny / eps
            Z = Z[:, there] / norms[there]
            Z -= S @ (S.T @ Z)
            w, Y = np.linalg.eigh((Z.T @ Z).astype(np.float64))
            good = w > 1e4 * eps * max(1.0, w.max(initial=0.0))
            Z = Z @ (Y[:, good] / np.sqrt(w[good])).astype(Z.dtype)
        return Z

    def iterate(self, width: int) -> tuple[Iterate, np.ndarray]:
        """The leading Ritz pairs with what certifies them, and the residuals of `width` pairs, more than the iterate's."""
        l = min(self.columns, self.size)
        W, U = self.pairs(width)
        theta = self.theta[: W.shape[1]]
        R = U - W * theta.astype(W.dtype)
        G = (R[:, : l + 1].T @ R[:, : l + 1]).astype(np.float64)
        mu, kind = self._outside(l, G)
        it = Iterate(W[:, :l].copy(), U[:, :l].copy(), None, theta[:l].copy(), G[:l, :l].copy(), mu, kind)
        return it, R

    def _outside(self, l: int, G: np.ndarray) -> tuple[float, str]:
        if self.full:
            return float(self.theta[l]) if l < self.size else 0.0, "exact"
        if l == self.size:
            return max(0.0, 1.0 - float(self.theta.sum())), "estimated"
        residual = float(np.sqrt(max(G[l, l], 0.0)))
        return estimate_outside(float(self.theta[l]), residual, self.looks, self.theta[:l]), "estimated"


def _orthonormal(C: np.ndarray) -> np.ndarray:
    """A basis of the columns of a small matrix, without those that vanish."""
    Q, s, _ = np.linalg.svd(C, full_matrices=False)
    return Q[:, s > 1e-8]
