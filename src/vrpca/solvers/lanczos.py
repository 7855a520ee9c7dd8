"""Block Lanczos iteration with full reorthogonalisation and thick restart (Wu and Simon 2000): narrow blocks.

Kept throughout, vectors being rows: ``A S^T = S^T H + Z^T B``, where Z is the next block, orthonormal and orthogonal to
S. Products with A are made of narrow blocks only, and residuals of Ritz vectors come from B without touching a vector.
"""

from __future__ import annotations

import numpy as np

from vrpca.certificate import estimate_outside
from vrpca.data.view import View
from vrpca.linalg import ritz
from vrpca.solvers.base import Solver
from vrpca.solvers.iterate import Iterate, Pending
from vrpca.solvers.options import Options
from vrpca.solvers.space import Images, recombine, support_of

BLOCKS = 8  # blocks, besides the vectors that are kept, before a restart
NOISE = 0.01  # a direction of length 1 of which less is left after Gram-Schmidt was rounding


class Lanczos(Solver):
    """Each reading multiplies the next block of the Krylov space."""

    name = "lanczos"
    projects = False

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        self.block = min(4 if options.columns < 8 else 8, view.d)
        self.keep = options.columns + self.block
        self.capacity = min(max(2 * self.keep, self.keep + BLOCKS * self.block), view.d)
        self.support, self.order = support_of(view, options.columns)
        self.images = Images()
        self.dropped = 0.0  # length of residuals that were taken for rounding
        self.last: Pending | None = None

    def passes_to_start(self, view: View) -> float:
        """As many blocks as it takes to hold the wanted vectors."""
        return float(self.options.columns // self.block + 1)

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """Expand a random block until there are enough vectors."""
        self.S = np.empty((self.capacity, view.d), view.dtype)
        self.size = self.looks = 0
        self.H, self.B = np.zeros((0, 0)), np.zeros((self.block, 0))
        self.Z = self._first(view, rng, W0)
        while self.size <= self.options.columns and len(self.Z):
            self._expand(view, rng)
        self.looks = 1  # however many blocks that took: none has been followed far
        return self._look(view)

    def _first(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> np.ndarray:
        """A random block; or the span of `W0` and at least one random vector."""
        V = np.zeros((0, view.d), view.dtype)
        if W0 is not None:
            V = np.ascontiguousarray(W0[:, : self.options.columns].T, dtype=view.dtype)
            norms = np.linalg.norm(V, axis=1)
            V = V[norms > 0] / norms[norms > 0, None]
            for _ in range(2):
                V = _orthonormal(V, NOISE)[1]
        return self._filled(view, V, rng, max(self.block, len(V) + 1))

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """One reading."""
        if len(self.Z) and self.size + len(self.Z) > self.capacity:
            self._restart()
        if len(self.Z):
            self._expand(view, rng)
        return self._look(view)

    @property
    def exhausted(self) -> bool:
        """Whether the space is all there is."""
        return not len(self.Z)

    def _expand(self, view: View, rng: np.random.Generator) -> None:
        """Take Z into S; what its product adds to their span is the next Z."""
        old, new = self.size, self.size + len(self.Z)
        self.S[old:new] = self.Z
        V = self.images(view, self.Z, np.empty_like(self.Z))
        S = self.S[:new]
        C = V @ S.T
        V -= C @ S
        rounding = 8 * float(np.finfo(V.dtype).eps * np.linalg.norm(C))
        factor, V = _orthonormal(V, rounding)
        self.dropped = rounding if len(V) < len(self.Z) else 0.0
        again = V @ S.T
        V -= again @ S
        second, V = _orthonormal(V, NOISE)
        C = (C + factor @ again).astype(np.float64)
        H = np.zeros((new, new))
        H[:old, :old] = self.H
        H[old:], H[:, old:] = C, C.T
        self.H = H
        self.B = np.zeros((len(V), new))
        self.B[:, old:] = (factor @ second).T
        self.size = new
        self.looks += 1
        self.Z = self._filled(view, V, rng, self.block)
        self.B = np.vstack([self.B, np.zeros((max(len(self.Z) - len(self.B), 0), new))])[: max(len(self.Z), 1)]

    def _filled(self, view: View, V: np.ndarray, rng: np.random.Generator, wanted: int) -> np.ndarray:
        """V, with random rows for those that are missing, as long as there are any left."""
        missing = min(wanted, self.order - self.size) - len(V)
        if missing <= 0:
            return V[: self.order - self.size]
        fill = rng.random((missing, view.d), dtype=view.dtype) - view.dtype.type(0.5)
        if self.support is not None:
            fill[:, ~self.support] = 0
        known = np.vstack([self.S[: self.size], V])
        for _ in range(2):
            fill -= (fill @ known.T) @ known
            fill = _orthonormal(fill, NOISE)[1]
        return np.vstack([V, fill])

    def _restart(self) -> None:
        """Keep the leading Ritz vectors."""
        if self.last is not None:
            self.last.settle()
        theta, Y = ritz(self.H)
        T = Y[:, : self.keep]
        recombine(self.S, self.size, T)
        self.size, self.H, self.B = self.keep, np.diag(theta[: self.keep]), self.B @ T

    def _look(self, view: View) -> Iterate:
        theta, Y = ritz(self.H)
        l, size = min(self.options.columns, self.size), self.size
        K = self.B @ Y[:, : l + 1]
        G = K.T @ K + self.dropped**2 * np.eye(K.shape[1])
        coefficients = np.ascontiguousarray(Y[:, :l].T, dtype=self.S.dtype)
        if size >= self.order or l == size:
            mu, kind = (float(theta[l]) if l < size else 0.0), "exact"
        else:
            mu = estimate_outside(float(theta[l]), float(np.sqrt(G[l, l])), self.looks, theta[:l])
            kind = "estimated"
        self.last = Pending(
            lambda: (coefficients @ self.S[:size]).T,
            (view.d, view.dtype),
            theta[:l].copy(),
            G[:l, :l].copy(),
            mu,
            kind,
        )
        return self.last


def _orthonormal(V: np.ndarray, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """``V = F Q`` with orthonormal rows of Q, directions shorter than `rounding` left out; F."""
    w, Y = np.linalg.eigh((V @ V.T).astype(np.float64))
    good = w > rounding**2
    root = np.sqrt(w[good])
    Q = np.ascontiguousarray((Y[:, good] / root).T, dtype=V.dtype) @ V
    return (Y[:, good] * root).astype(V.dtype), Q
