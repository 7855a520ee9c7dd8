"""Block Lanczos iteration with full reorthogonalisation and thick restart (Wu and Simon 2000): narrow blocks.

Kept throughout, vectors being rows: ``A S^T = S^T H + Z^T B``, where Z is the next block, orthonormal and orthogonal to
S. Products with A are made of narrow blocks only, and residuals of Ritz vectors come from B without touching a vector.
"""

from __future__ import annotations

import numpy as np

from vrpca.certificate import estimate_outside
from vrpca.data.view import View
from vrpca.linalg import ritz, straightened, sweep
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
        self.block = min(4 if options.columns < 16 else 8, view.d)
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
        first = self.block if W0 is None else max(self.block, min(W0.shape[1], self.options.columns) + 1)
        self.S = np.empty((self.capacity + first, view.d), view.dtype)  # Z has its place behind the others
        self.size = self.looks = 0
        self.pending = 0 if W0 is None else self._guessed(W0)
        self._fill(view, rng, max(self.block, self.pending + 1))
        self.H, self.B = np.zeros((0, 0)), np.zeros((self.pending, 0))
        while self.size <= self.options.columns and not self.exhausted:
            self._expand(view, rng)
        self.looks = 1  # however many blocks that took: none has been followed far
        return self._look(view)

    @property
    def Z(self) -> np.ndarray:
        """The next block."""
        return self.S[self.size : self.size + self.pending]

    @property
    def exhausted(self) -> bool:
        """Whether the space is all there is."""
        return self.pending == 0

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """One reading."""
        if self.size + self.pending > self.capacity:
            self._restart()
        if not self.exhausted:
            self._expand(view, rng)
        return self._look(view)

    def _guessed(self, W0: np.ndarray) -> int:
        """Begin with the span of `W0`; return its dimension."""
        norms = np.linalg.norm(W0, axis=0)
        V = (W0[:, norms > 0] / norms[norms > 0])[:, : self.options.columns].T
        self.S[: len(V)] = V
        return self._straighten(self.S[:0], self.S[: len(V)])

    def _expand(self, view: View, rng: np.random.Generator) -> None:
        """Take Z into S; what its product adds to their span is the next Z."""
        old, new, threads = self.size, self.size + self.pending, view.n_threads
        S, Z, V = self.S[:new], self.Z, self.S[new : new + self.pending]
        self.images(view, Z, V)
        C = np.hstack([self.B, sweep(Z, V, n_threads=threads)[:, : len(Z)]])  # B is what the others see of A Z
        D = sweep(S, V, np.hstack([-C, np.eye(len(V))]), n_threads=threads)
        rounding = 8 * float(np.finfo(V.dtype).eps * np.linalg.norm(C))
        left, factor, D = straightened(S, V, D, rounding, threads)
        self.dropped = rounding if len(D) < len(V) else 0.0
        again, second, D = straightened(S, V[: len(D)], D, NOISE, threads)
        C += left + factor @ again
        H = np.zeros((new, new))
        H[:old, :old] = self.H
        H[old:], H[:, old:] = C, C.T
        self.H = H
        self.size, self.pending = new, min(len(D), self.order - new)
        self.looks += 1
        B = np.zeros((self._fill(view, rng, self.block), new))
        kept = min(len(D), len(B))
        B[:kept, old:] = (factor @ second).T[:kept]
        self.B = B

    def _fill(self, view: View, rng: np.random.Generator, wanted: int) -> int:
        """Put random rows where Z lacks some, as long as there are any left; return how many it has."""
        missing = min(wanted, self.order - self.size) - self.pending
        if missing > 0:
            taken = self.size + self.pending
            fill = self.S[taken : taken + missing]
            rng.random(out=fill, dtype=fill.dtype.type)
            fill -= fill.dtype.type(0.5)
            if self.support is not None:
                fill *= self.support
            fill /= np.linalg.norm(fill, axis=1)[:, None]
            self.pending += self._straighten(self.S[:taken], fill)
        return self.pending

    def _straighten(self, S: np.ndarray, V: np.ndarray) -> int:
        """Make V orthonormal, and orthogonal to S; return how many rows are left."""
        D = sweep(S, V, n_threads=1)
        for _ in range(2):
            D = straightened(S, V[: len(D)], D, NOISE, 1)[2]
        return len(D)

    def _restart(self) -> None:
        """Keep the leading Ritz vectors."""
        if self.last is not None:
            self.last.settle()
        theta, Y = ritz(self.H)
        T = Y[:, : self.keep]
        Z = self.Z
        recombine(self.S, self.size, T)
        self.size, self.H, self.B = self.keep, np.diag(theta[: self.keep]), self.B @ T
        self.Z[...] = Z

    def _look(self, view: View) -> Iterate:
        theta, Y = ritz(self.H)
        l, size = min(self.options.columns, self.size), self.size
        K = self.B @ Y[:, : l + 1]
        G = K.T @ K + self.dropped**2 * np.eye(K.shape[1])
        coefficients = np.ascontiguousarray(Y[:, :l].T, dtype=self.S.dtype)
        if size >= self.order:
            mu, kind = (float(theta[l]) if l < size else 0.0), "exact"
        elif l == size:
            mu, kind = max(0.0, 1.0 - float(theta.sum())), "estimated"
        else:
            share = min(1.0, self.block / (l + 1))
            mu = estimate_outside(float(theta[l]), float(np.sqrt(G[l, l])), self.looks, theta[:l], share)
            kind = "estimated"
        self.last = Pending(
            lambda: (coefficients @ self.S[:size]).T,
            view.d,
            theta[:l].copy(),
            G[:l, :l].copy(),
            mu,
            kind,
        )
        return self.last
