"""A search space whose product with A is known: Rayleigh-Ritz over all of it, expansion, thick restart.

The invariant, vectors being rows: ``S S^T = I``, ``AS = S A`` and ``H = S A S^T``. So the Ritz pairs of A on the span
of S are those of the small matrix H, and their residuals need no product. Slices of rows are contiguous in memory.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from vrpca import kernels
from vrpca.linalg import recombine, ritz
from vrpca.solvers.base import Rng

ROUNDING = 64  # times eps: if less is left of a unit vector after Gram-Schmidt, it is rounding (sqrt(d) at d = 4096)
CANCELLED = 0.01  # if less is left, Gram-Schmidt is repeated: two digits of orthogonality are lost at most
INDEPENDENT = 1e4  # times eps: smaller eigenvalues of a Gram matrix leave errors above 1e-4 to the next turn
VANISHED = 1e-8  # singular values of small orthonormal matrices below this: the square root of float64's eps


class Operator(Protocol):
    """A symmetric matrix that is known by its products: A itself (a view), or A outside of an answer."""

    d: int
    dtype: np.dtype
    support: np.ndarray | None
    n_threads: int

    def product(self, W: np.ndarray, /, *, out: np.ndarray) -> np.ndarray:
        """``out = A W``."""
        ...

    def room_for(self, vectors: int) -> np.ndarray:
        """Zeros for so many vectors, as columns; there may be more columns than vectors."""
        ...


class Images:
    """Products with rows of vectors, in room that is kept from one to the next."""

    def __init__(self) -> None:
        self.W = self.U = np.zeros((0, 0))
        self.held = 0, 0  # vectors and guests that there is room for: the first columns, in this order

    def __call__(
        self, operator: Operator, Z: np.ndarray, out: np.ndarray, guest: np.ndarray | None = None
    ) -> np.ndarray | None:
        """``out = Z A``, by one pass; return ``guest A`` for a guest, one more vector, where there is one."""
        held = count, guests = len(Z), 0 if guest is None else 1
        if self.held != held:  # a space belongs to one operator
            self.W = self.U = np.zeros((0, 0))  # lets go of the memory before it takes new
            self.W, self.U = (operator.room_for(count + guests) for _ in range(2))
            self.held = held
        transpose_into(self.W[:, :count], Z, operator.n_threads)
        if guest is not None:
            self.W[:, count] = guest
        operator.product(self.W, out=self.U)
        transpose_into(out, self.U[:, :count], operator.n_threads)
        return None if guest is None else self.U[:, count].copy()


def transpose_into(out: np.ndarray, W: np.ndarray, n_threads: int) -> None:
    """``out = W^T``. Where one of them is stored by columns, that is a copy of contiguous vectors."""
    if W.strides[1] == out.strides[1] == W.itemsize:
        kernels.transpose(W, out, n_threads)
    else:
        out[...] = W.T


class SearchSpace:
    """Orthonormal S with A S, and the Ritz pairs of A on its span.

    The space does not keep the operator A, so that it can be stored without the data.
    """

    def __init__(self, operator: Operator, width: int, capacity: int):
        d = operator.d
        self.images = Images()
        self.n_threads = operator.n_threads
        self.width = width  # Ritz pairs that are wanted; one more is followed, for what it tells of their complement
        self.support, self.order = support_of(operator, width)
        capacity = min(max(capacity, 3 * (width + 1)), d)  # room for the last two blocks and the next one
        self.S = np.empty((capacity, d), operator.dtype)
        self.AS = np.empty((capacity, d), operator.dtype)
        self.H = np.zeros((capacity, capacity))
        self.size = 0
        self.full = False  # whether S spans all that A does not send to zero: A is known then
        self.theta, self.Y = np.zeros(0), np.zeros((0, 0))
        self.last: np.ndarray | None = None  # the Ritz vectors before the last expansion, as coefficients

    def __getstate__(self) -> dict[str, Any]:
        """What the space holds, without room that is empty."""
        kept = {name: value for name, value in vars(self).items() if name != "images"}
        return kept | {"S": self.S[: self.size], "AS": self.AS[: self.size]}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept, images=Images())
        capacity = len(self.H)
        self.S, self.AS = (with_room(rows, capacity) for rows in (self.S, self.AS))

    def expand(
        self, Z: np.ndarray, operator: Operator, images: np.ndarray | None = None, guest: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Take in the rows of Z, orthonormal and orthogonal to S: one pass, unless their `images` are known.

        Return the image of a guest, which is multiplied along with them and not taken in.
        """
        old, new = self.size, self.size + len(Z)
        self.S[old:new] = Z
        image = None
        if images is None:
            image = self.images(operator, Z, self.AS[old:new], guest)
        else:
            self.AS[old:new] = images
        H = (self.S[:new] @ self.AS[old:new].T).astype(np.float64)
        self.H[:new, old:new] = H
        self.H[old:new, :old] = H[:old].T
        self.last = None if self.last is None else np.vstack([self.last, np.zeros((new - old, self.last.shape[1]))])
        self.size, self.full = new, new >= self.order
        self.theta, self.Y = ritz(self.H[:new, :new])
        return image

    def grow(self, Z: np.ndarray, operator: Operator, rng: Rng, guest: np.ndarray | None = None) -> np.ndarray | None:
        """Expand by what is new in the rows of Z, after making room for it. Return the image of the guest."""
        self.shrink(len(Z))
        Z = self.new_directions(Z, rng)
        return self.expand(Z, operator, guest=guest) if len(Z) else None

    def shrink(self, wanted: int) -> None:
        """Make room for the `wanted` vectors: keep the leading Ritz vectors, and those of the step before."""
        capacity, width = len(self.S), self.width + 1
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
        recombine(self.S, size, T, self.n_threads)
        recombine(self.AS, size, T, self.n_threads)
        self.H[:new, :new] = T.T @ self.H[:size, :size] @ T
        self.size = new
        self.theta, self.Y = ritz(self.H[:new, :new])

    def new_directions(self, Z: np.ndarray, rng: Rng) -> np.ndarray:
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
            Z, left = _unit_rows(Z - (Z @ S.T) @ S, ROUNDING * eps)
            w, Y = np.linalg.eigh((Z @ Z.T).astype(np.float64))
            good = w > INDEPENDENT * eps
            Z = np.ascontiguousarray((Y[:, good] / np.sqrt(w[good])).T[::-1], dtype=Z.dtype) @ Z
            if turn and good.all() and min(w.min(initial=1.0), left) > CANCELLED:
                break
        return Z

    def vectors(self, count: int) -> np.ndarray:
        """The leading Ritz vectors, as rows."""
        return self._coefficients(count) @ self.S[: self.size]

    def residuals(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The leading Ritz vectors W and their residuals ``W A - theta W``, as rows."""
        Y = self._coefficients(count)
        W, R = Y @ self.S[: self.size], Y @ self.AS[: self.size]
        R -= W * self.theta[: len(Y), None].astype(W.dtype)
        return W, R

    def _coefficients(self, count: int) -> np.ndarray:
        return np.ascontiguousarray(self.Y[:, :count].T, dtype=self.S.dtype)


def with_room(rows: np.ndarray, capacity: int) -> np.ndarray:
    """A copy of the rows with room for more of them."""
    M = np.empty((capacity, rows.shape[1]), rows.dtype)
    M[: len(rows)] = rows
    return M


def support_of(operator: Operator, width: int) -> tuple[np.ndarray | None, int]:
    """Where random vectors may differ from zero, and how many of them are independent there.

    Everywhere, if more vectors are wanted than there are columns with anything in them.
    """
    order = operator.d if operator.support is None else int(operator.support.sum())
    return (operator.support, order) if order > width else (None, operator.d)


def _unit_rows(Z: np.ndarray, shortest: float) -> tuple[np.ndarray, float]:
    """The rows that are longer than `shortest`, with length 1, and how short the shortest of them was."""
    norms = np.linalg.norm(Z, axis=1)
    there = norms > shortest
    Z = Z if there.all() else Z[there]
    return Z * (1 / norms[there, None]).astype(Z.dtype), float(norms[there].min(initial=1.0))


def _orthonormal(C: np.ndarray) -> np.ndarray:
    """A basis of the columns of a small matrix, without those that vanish."""
    Q, s, _ = np.linalg.svd(C, full_matrices=False)
    return Q[:, s > VANISHED]
