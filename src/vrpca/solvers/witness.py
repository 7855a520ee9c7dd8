"""An independent witness: a random vector that travels along with the products and never enters the search.

A search is blind to what its start cannot see. A number of random vectors see no more directions of a repeated
eigenvalue than there are vectors, and a sample sees no rare rows. The witness is a Lanczos iteration of its own, on one
more column of the same products. What it sees outside W does not depend on how W was found. A Rayleigh quotient outside
W that is larger than mu, the solver's own estimate, proves that mu is wrong, and names a direction that was missed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from vrpca.data.view import View
from vrpca.linalg import sweep
from vrpca.solvers.base import Rng, State
from vrpca.solvers.outside import TRUSTED, lanczos_error
from vrpca.solvers.search_space import Operator

FAILURE = 0.01  # probability for which a witness says what no eigenvalue exceeds
MOST = 40  # products of a witness: what no eigenvalue exceeds is then within 3% of what it sees (d = 1e6, 1% failure)
ROUNDING = 256  # times the rounding of products: errors reached 20 of them on RCV1, news20 and MNIST in float32
COLUMNS = 4096  # columns that are looked at at a time: copies of W for them take little room
CUTS = 10.0 ** -np.arange(0, 12, 2)  # squared lengths outside W, of unit vectors, below which they are left out


@dataclass(frozen=True)
class Sight:
    """What a witness sees outside W: a Rayleigh quotient, less what rounding may have added, and its vector.

    The value is zero, and so is the vector, where it sees nothing for sure. The vector still has a part inside W, which
    the quotient leaves out.
    """

    value: float
    vector: np.ndarray

    def outside(self, W: np.ndarray) -> np.ndarray:
        """The vector without its part in the span of W's rows."""
        vector = self.vector
        for _ in range(2):
            vector = vector - (W @ vector) @ W
        return vector


@dataclass(frozen=True)
class Witness:
    """Lanczos iteration (Lanczos 1950) from one random vector.

    The invariant: ``A k_j = beta_(j-1) k_(j-1) + alpha_j k_j + beta_j k_(j+1)``, where the k_j are the vectors. They
    are orthogonal to their neighbours; nothing more is used, so that they need not be made orthogonal to each other.
    """

    vectors: tuple[np.ndarray, ...]  # the last one is to be multiplied next
    alpha: tuple[float, ...] = ()
    beta: tuple[float, ...] = ()
    most: int = MOST  # products that it takes part in
    needed: int = 0  # products that it has to see before anything is believed

    @classmethod
    def random(cls, operator: Operator, rng: Rng, *, most: int = MOST, needed: int = 0) -> Witness:
        """A witness that starts from a random vector, zero where A is."""
        v = rng.standard_normal(operator.d, dtype=operator.dtype)
        if operator.support is not None:
            v[~operator.support] = 0
        return cls((v / v.dtype.type(np.linalg.norm(v)),), most=most, needed=min(needed, most))

    @classmethod
    def successor(cls, operator: Operator, rng: Rng, products: int, most: int) -> Witness:
        """A witness for a search that has proved to be blind after this number of products.

        The search then takes in new directions. Its own pairs, which have converged, say nothing of them. So the new
        directions are followed for half as many products as the pairs were, before anything is believed. The pairs
        could be told from each other after fewer products than that: the others have only made them more accurate.
        """
        return cls.random(operator, rng, most=most, needed=max(TRUSTED, products // 2))

    @property
    def column(self) -> np.ndarray | None:
        """What is to be multiplied by A next; None where the witness has seen enough."""
        return self.vectors[-1] if self.products < self.most else None

    @property
    def products(self) -> int:
        """The number of products so far."""
        return len(self.alpha)

    def after(self, image: np.ndarray | None) -> Witness:
        """The witness after ``image = A column``; None stands for no product."""
        if image is None:
            return self
        v, type_ = self.vectors[-1], image.dtype.type
        alpha = float(v @ image)
        rest = image - type_(alpha) * v
        if self.beta:
            rest -= type_(self.beta[-1]) * self.vectors[-2]
        rest -= (v @ rest) * v
        beta = float(np.linalg.norm(rest))
        following = rest / type_(beta) if beta > 0 else np.zeros_like(rest)
        return replace(self, vectors=(*self.vectors, following), alpha=(*self.alpha, alpha), beta=(*self.beta, beta))

    def outside(self, W: np.ndarray, U: np.ndarray, theta: np.ndarray, rounding: float, n_threads: int = 1) -> Sight:
        """What it sees outside W, given as rows, with ``U = W A`` and ``W A W^T = diag(theta)``.

        `rounding` is that of products, relative to A. The vectors' parts outside W are ``K - C W``. Their Gram matrix
        and A's projection on them follow from small matrices, without another product.
        """
        q, K, l = self.products, np.vstack(self.vectors), len(W)
        both = sweep(np.ascontiguousarray(W), K, n_threads=n_threads)  # sums in double precision
        C, G = both[:q, :l], both[:q, l:]
        D = sweep(np.ascontiguousarray(U), K, n_threads=n_threads)[:q, :l]
        M = G[:, :q] - C @ C.T
        H = G @ self._tridiagonal() - C @ D.T - D @ C.T + (C * theta) @ C.T
        error = ROUNDING * rounding * float(theta[0])
        value, y = _largest_quotient((M + M.T) / 2, (H + H.T) / 2, error)
        return Sight(value, y.astype(W.dtype) @ K[:q])

    def _tridiagonal(self) -> np.ndarray:
        """Coefficients of the products in the vectors: ``A K_q^T = K_(q+1)^T T``."""
        q = self.products
        T = np.zeros((q + 1, q))
        j = np.arange(q)
        T[j, j], T[j + 1, j] = self.alpha, self.beta
        T[j[:-1], j[1:]] = self.beta[:-1]
        return T

    def ceiling(self, value: float, dimension: int, failure: float) -> float | None:
        """What no eigenvalue outside exceeds, but for a failure probability, if the witness sees `value` there.

        None where it has seen too few products to say anything.
        """
        error = lanczos_error(dimension, self.products, failure)
        return value / (1 - error) if error < 1 else None


def _largest_quotient(M: np.ndarray, H: np.ndarray, error: float) -> tuple[float, np.ndarray]:
    """The largest ``y H y / y M y``, less what errors of H of this size add to it; and y, with ``y M y = 1``.

    Directions of which little is left in M see more, and magnify errors. So several cuts are tried.
    """
    weight, Q = np.linalg.eigh(M)
    best, vector = 0.0, np.zeros(len(M))
    for cut in CUTS:
        there = weight > cut
        if not there.any():
            continue
        Y = Q[:, there] / np.sqrt(weight[there])
        values, T = np.linalg.eigh(Y.T @ H @ Y)
        y = Y @ T[:, -1]
        sure = float(values[-1]) - error * float(y @ y)
        if sure > best:
            best, vector = sure, y
    return best, vector


def column_outside(
    W: np.ndarray, U: np.ndarray, theta: np.ndarray, diagonal: np.ndarray, rounding: float, least: float = 0.0
) -> Sight:
    """The largest Rayleigh quotient outside W of a column's own direction, e_j. W and U have rows, as above.

    The part of e_j outside W is ``e_j - W^T w_j``, with w_j the j-th column of W. Its Rayleigh quotient is
    ``(A_jj - 2 u_j . w_j + w_j . (theta w_j)) / (1 - |w_j|^2)``: no product is needed. Only columns that could be above
    `least` are looked at. The others have ``A_jj < x / 4``, where x is the smaller of `least` and W's last Ritz value.
    As ``theta_l |w_j|^2 <= A_jj`` for eigenvectors, their quotients are below ``(x / 4) / (1 - 1 / 4)``, so x / 3.
    """
    seen = np.flatnonzero(diagonal >= min(least, float(theta[-1])) / 4)
    vector = np.zeros(len(diagonal), W.dtype)
    if not len(seen):
        return Sight(0.0, vector)
    error = ROUNDING * rounding * float(theta[0])
    quotient = np.concatenate(
        [
            _column_quotients(W[:, part], U[:, part], theta, diagonal[part] - error)
            for part in np.array_split(seen, -(-len(seen) // COLUMNS))
        ]
    )
    j = int(np.argmax(quotient))
    vector[seen[j]] = 1
    return Sight(float(quotient[j]), vector)


def _column_quotients(W: np.ndarray, U: np.ndarray, theta: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    W, U = W.astype(np.float64), U.astype(np.float64)
    left = 1 - np.einsum("ij,ij->j", W, W)
    taken = np.einsum("ij,ij->j", W, 2 * U - W * theta[:, None])
    return (diagonal - taken) / np.maximum(left, CUTS[-1])


@dataclass(frozen=True, kw_only=True)
class WitnessedState(State):
    """The state of a search that a witness travels along with."""

    witness: Witness

    @property
    def waits(self) -> bool:
        """Whether the witness needs more products."""
        return self.witness.products < self.witness.needed

    @abstractmethod
    def images(self) -> np.ndarray:
        """``U = W A``; the vectors are rows."""

    def blind(self, k: int) -> bool:
        """Whether the search cannot tell that it has seen all that is as large as its k leading pairs."""
        return False

    def confirmed(self, view: View, k: int) -> Self:
        """The state after the witness has been heard, and the columns of the data.

        Something outside W that is larger than mu is what the search has missed. Then the search has proved to be
        blind. What else is outside is not known until the next witness has seen as many products as it needs.
        """
        if self.kind == "exact":
            return self
        if self.waits:
            return replace(self, mu=max(self.mu, self.left))
        W, U = self.vectors().T, self.images()
        sight = self.witness.outside(W, U, self.theta, view.rounding, view.n_threads)
        ceiling = self.witness.ceiling(sight.value, view.d - len(W), FAILURE)
        if view.diagonal is not None:
            column = column_outside(W, U, self.theta, view.diagonal, view.rounding, self.mu)
            sight = max(sight, column, key=lambda seen: seen.value)
        known = replace(self, ceiling=ceiling, failure=FAILURE)
        if sight.value <= self.mu and not self.blind(k):
            return known
        return replace(known, mu=max(self.mu, self.left), missed=sight.outside(W))
