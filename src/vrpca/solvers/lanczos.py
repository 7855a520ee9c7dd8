"""Block Lanczos factorisation with full reorthogonalisation and thick restart (Wu and Simon 2000).

The invariant, vectors being rows: ``S A = H S + B^T Z``, where the rows of S and of the next block Z are orthonormal,
and orthogonal to each other. Only Z is multiplied by A, and residuals of Ritz vectors come from B without touching a
vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vrpca.data.view import View
from vrpca.linalg import combinations, orthonormal_rows, recombine, ritz, sweep
from vrpca.solvers.base import Rng
from vrpca.solvers.search_space import Images, support_of, with_room

NOISE = 0.01  # if less is left of a unit vector after Gram-Schmidt, it is dropped: two digits are lost at most
LEVEL = 1e-3  # directions shorter than this part of the longest wait: they would lose as many digits to its rounding
GRAM = 8  # units of rounding of inner products, relative to the squared lengths: differences below this are rounding
ROUNDING = 8  # times the rounding of products, and |A Z|: shorter residuals are rounding


class Lanczos:
    """The factorisation. It is empty at first; Z is random, or has the columns of `W0` and a random one.

    `Z0`, orthonormal rows, is taken for Z as it is. The view is not kept, so that all can be stored without the data.
    """

    def __init__(
        self,
        view: View,
        width: int,
        block: int,
        keep: int,
        capacity: int,
        rng: Rng,
        W0: np.ndarray | None = None,
        Z0: np.ndarray | None = None,
    ):
        self.width = width  # Ritz pairs that are wanted
        self.block = block  # rows of Z
        self.keep = keep  # vectors that `shrink` keeps
        self.capacity = capacity  # the most vectors in S
        self.n_threads = view.n_threads
        self.support, self.order = support_of(view, width)
        self.images = Images()
        self.dropped = 0.0  # length of residuals that were taken for rounding
        self.size = self.pending = 0  # vectors in S and in Z
        first = block if W0 is None else max(block, min(W0.shape[1], width) + 1)
        # Rows that `widen` may need: until they are written to, they take no memory.
        rows = max(capacity, 2 * (width + 2 * block)) + 4 * block + (0 if W0 is None else 2 * first)
        self.S = np.empty((rows, view.d), view.dtype)
        if Z0 is None:
            self.pending = 0 if W0 is None else self._guessed(W0)
            self._fill(rng, max(block, self.pending + 1))
        else:
            self.S[: len(Z0)], self.pending = Z0, len(Z0)
        self.H, self.B = np.zeros((0, 0)), np.zeros((self.pending, 0))

    def __getstate__(self) -> dict[str, Any]:
        """What the factorisation holds, without room that is empty."""
        kept = {name: value for name, value in vars(self).items() if name != "images"}
        return kept | {"S": self.S[: self.size + self.pending], "room": len(self.S)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        room = kept.pop("room")
        vars(self).update(kept, images=Images())
        self.S = with_room(self.S, room)

    @property
    def Z(self) -> np.ndarray:
        """The next block; it has its place behind the vectors of S."""
        return self.S[self.size : self.size + self.pending]

    def _guessed(self, W0: np.ndarray) -> int:
        """Begin with the span of `W0`; return its dimension."""
        norms = np.linalg.norm(W0, axis=0)
        V = (W0[:, norms > 0] / norms[norms > 0])[:, : self.width].T
        self.S[: len(V)] = V
        return self._orthonormalise(self.S[:0], self.S[: len(V)])

    def expand(
        self, view: View, rng: Rng, guest: np.ndarray | None = None, images: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Take Z into S, by one pass unless its `images` are known; what they add to their span is the next Z.

        Return the image of a guest, which is multiplied along with Z and not taken in.
        """
        V, C, image = self._multiplied(view, guest, images)
        old, new = self.size, self.size + self.pending
        D = sweep(self.S[:new], V, np.hstack([-C, np.eye(len(V))]), n_threads=self.n_threads)
        rounding = ROUNDING * view.rounding * float(np.linalg.norm(C))
        left, factor, kept, lost = self._orthonormal_levels(new, D, rounding)
        self.dropped = max(rounding, lost) if kept < len(V) else 0.0
        self._take_in(C + left)
        self.pending = min(kept, self.order - new)
        B = np.zeros((self._fill(rng, self.block), new))
        kept = min(kept, len(B))
        B[:kept, old:] = factor.T[:kept]
        self.B = B
        return image

    def complete(self, view: View) -> None:
        """Take Z into S, by one pass, and leave it at that: there is no next Z. Residuals are unknown: they are nan."""
        _, C, _ = self._multiplied(view)
        self._take_in(C)
        self.pending, self.B = 0, np.full((1, self.size), np.nan)

    def _multiplied(
        self, view: View, guest: np.ndarray | None = None, images: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """``Z A``, behind Z in memory; its coefficients in the vectors of S and Z; and the image of a guest."""
        new = self.size + self.pending
        if new + self.pending > len(self.S):  # a guess is wider than a block
            self.S = with_room(self.S[:new], new + self.pending)
        Z, V = self.Z, self.S[new : new + self.pending]
        image = None
        if images is None:
            image = self.images(view, Z, V, guest)
        else:
            V[...] = images
        within = sweep(Z, V, n_threads=self.n_threads)[:, : len(Z)]
        return V, np.hstack([self.B, within]), image  # B is what the vectors of S see of Z A

    def _take_in(self, C: np.ndarray) -> None:
        """Make Z part of S, given the coefficients of ``Z A`` in both."""
        old, new = self.size, self.size + self.pending
        H = np.zeros((new, new))
        H[:old, :old] = self.H
        H[old:], H[:, old:] = C, C.T
        self.H, self.size = H, new

    def _orthonormal_levels(
        self, base: int, D: np.ndarray, shortest: float
    ) -> tuple[np.ndarray, np.ndarray, int, float]:
        """Make the rows V behind the first `base` rows S orthonormal, and orthogonal to S: from the longest downwards.

        Directions that differ too much in length are taken one level after the other. A Gram matrix alone would lose
        the short ones in the rounding of the long ones. `D` is ``V [S; V]^T``. Directions shorter than `shortest` are
        left out, and those that the rounding of D could have made up where V has little outside S. Returns C and F with
        ``V_before = C S + F V_after``, how many rows V has left, and the length of the longest direction left out.
        """
        count, at, eps = len(D), base, float(np.finfo(self.S.dtype).eps)
        C, F, rest = np.zeros((count, base)), np.zeros((count, 0)), np.eye(count)  # V_before = C S + F V_after + rest V
        while True:
            V = self.S[at : at + len(D)]
            lengths, Y = np.linalg.eigh(D[:, at:] - D[:, :at] @ D[:, :at].T)
            lengths = np.sqrt(np.clip(lengths, 0, None))
            there = max(shortest, float(np.sqrt(GRAM * eps * D[:, at:].diagonal().max())))
            least = max(there, LEVEL * lengths[-1])
            long = lengths > least
            lower = Y[:, ~long].T @ V if lengths[-1] > there and not long.all() else None
            if not long.any():  # what the vectors see of S counts all the same
                inside = rest @ D[:, :at]
                return C + inside[:, :base], F + inside[:, base:], at - base, float(lengths[-1])
            left, factor, D = orthonormal_rows(self.S[:at], V, D, least, self.n_threads)
            again, second, D = orthonormal_rows(self.S[:at], V[: len(D)], D, NOISE, self.n_threads)
            inside = rest @ (left + factor @ again)
            C, F = C + inside[:, :base], np.hstack([F + inside[:, base:], rest @ factor @ second])
            at += len(D)
            if lower is None:
                return C, F, at - base, 0.0
            self.S[at : at + len(lower)], rest = lower, rest @ Y[:, ~long]
            D = sweep(self.S[:at], self.S[at : at + len(lower)], n_threads=self.n_threads)

    def widen(self, missed: np.ndarray, rng: Rng) -> None:
        """Put another block behind Z: a missed direction, unless it is zero, and random ones. Blocks stay so wide.

        The invariant holds: S A has no part in rows that are orthogonal to it and to Z. So their rows of B are zero.
        """
        old, pending = self.S, self.pending
        self.block = min(2 * self.block, len(missed))
        self.keep = min(self.width + self.block, len(missed))
        self.capacity = min(max(self.capacity, 2 * self.keep), len(missed))
        taken, rows = self.size + pending, self.capacity + pending + self.block
        if rows > len(old):
            self.S = np.empty((rows, len(missed)), old.dtype)
            self.S[:taken] = old[:taken]
        length = np.linalg.norm(missed)
        if length > 0:
            self.S[taken] = missed / length
            self.pending += self._orthonormalise(self.S[:taken], self.S[taken : taken + 1])
        self._fill(rng, self.block)
        self.B = np.vstack([self.B, np.zeros((self.pending - pending, self.size))])

    def _fill(self, rng: Rng, wanted: int) -> int:
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
            self.pending += self._orthonormalise(self.S[:taken], fill)
        return self.pending

    def _orthonormalise(self, S: np.ndarray, V: np.ndarray) -> int:
        """Make V orthonormal, and orthogonal to S; return how many rows are left."""
        D = sweep(S, V, n_threads=self.n_threads)
        for _ in range(2):
            D = orthonormal_rows(S, V[: len(D)], D, NOISE, self.n_threads)[2]
        return len(D)

    @property
    def crowded(self) -> bool:
        """Whether there is no room for Z."""
        return self.size + self.pending > self.capacity

    def shrink(self, leading: np.ndarray) -> None:
        """Make room for Z: keep the leading Ritz vectors alone. The first of them are known: `leading`, as rows.

        S is overwritten. Whoever needs vectors that are combined of its rows must have combined them before.
        """
        theta, Y = ritz(self.H)
        T, Z, known = Y[:, : self.keep], self.Z, len(leading)
        recombine(self.S, self.size, T[:, known:], self.n_threads)
        self.size = T.shape[1]  # after a wide guess, there may be fewer than it would keep
        self.S[known : self.size] = self.S[: self.size - known]
        self.S[:known] = leading
        self.H, self.B = np.diag(theta[: self.size]), self.B @ T
        self.Z[...] = Z

    def combined(self, Y: np.ndarray) -> np.ndarray:
        """The vectors with these coefficients, as rows."""
        return combinations(Y.T, self.S[: len(Y)], self.n_threads)

    def residuals(self, Y: np.ndarray) -> np.ndarray:
        """Residuals of Ritz vectors with these coefficients, as rows."""
        return combinations((self.B @ Y).T, self.Z, self.n_threads)

    def pairs(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All Ritz values; coefficients of the leading vectors in S, and ``R^T R`` of their residuals."""
        theta, Y = ritz(self.H)
        K = self.B @ Y[:, :count]
        return theta, Y[:, :count], K.T @ K + self.dropped**2 * np.eye(K.shape[1])
