"""What is known of A on W's complement: mu, the largest eigenvalue that the answer may have missed.

Every mu but that of a random search comes from `known_outside` or, where nothing is ever exact, from
`estimate_outside`. Whoever watches the complement brings the Ritz values and residuals that it has found there.

- A search space has Ritz pairs beyond the wanted ones.
- `Probe` follows one vector outside W, a column of the products that are made anyway.
- `RandomSearch` is a block Krylov search of its own, with a bound that fails with a known probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vrpca.data.view import View
from vrpca.solvers.base import Rng
from vrpca.solvers.search_space import SearchSpace

SEARCHED = 4  # vectors that a probe searches the span of
CHUNK = 4096  # entries of the probe's vectors that are replaced at a time: 8 rows of float32 take 128 kB of cache
TURNED = 1e-3  # of the squares of a column of W: where W has turned away from less, rounding would count a thousandfold
ROUNDING = 100  # times eps: squares of unit vectors below this may be rounding, about sqrt(d) eps at d = 1e4
DEPENDENT = 1e-6  # eigenvalues of a Gram matrix of unit vectors below this: a combination has lost 3 digits
DRIFTED = 2  # a Ritz value above this multiple of the trace outside W, which bounds it, is more than rounding
TRUSTED = 3  # products before an estimate is believed at all: the first ones from a random start say little
# Residuals that count besides one, for what a value may still grow by. The fuzz harness has seen 4.6 after TRUSTED
# products, and 2.1 after many of them, in flat spectra.
YOUNG, GROWING = 5, 2
UNSETTLED = 2  # where something this many times as large as W's first Ritz value is outside, nothing is known yet
WIDTH = 8  # random vectors of a random search: they fill the registers of sparse products
MOST = 40  # products of a random search: its bound is then within 2% of the Ritz value (d = 1e6, failure 1e-6)
FOUND = 1e-6  # a random search has found more than a value if it exceeds it by this part: float32 rounds to 1e-7


def known_outside(
    theta: np.ndarray, l: int, residuals: np.ndarray | None, products: int = 0, share: float = 1.0
) -> tuple[float, str]:
    """The largest eigenvalue outside the l leading Ritz pairs of a search space, and how well it is known.

    `theta` are all Ritz values of the space, `residuals` the lengths of the residuals of the pairs after the l-th.
    They are None where nothing is missing: no eigenvalue outside the l pairs exceeds the next value of `theta` then.
    """
    if residuals is None:
        return float(theta[l]) if l < len(theta) else 0.0, "exact"
    return estimate_outside(theta[:l], theta[l : l + len(residuals)], residuals, products, share), "estimated"


def estimate_outside(
    theta: np.ndarray, values: np.ndarray, residuals: np.ndarray, products: int, share: float = 1.0
) -> float:
    """Estimate of lambda_max outside W: Ritz value plus some residuals, never above the trace that W leaves (tr A = 1).

    `theta` are the Ritz values of W; `values` and `residuals` are those of vectors outside W. The one that may grow
    highest counts: the first could be an eigenvector that a stream has found, and say nothing of what was missed.
    A young residual counts several times, most at the first product that is believed. `share` is the part of the
    vectors that one product follows.
    """
    left = max(0.0, 1.0 - float(theta.sum()))
    age = products * share
    if products < TRUSTED or age < 1 or not len(values):
        return left
    times = 1 + max(GROWING, TRUSTED / age, YOUNG * (TRUSTED / products) ** 6)
    highest = float(np.max(values + times * residuals))
    return left if highest > UNSETTLED * theta[0] else min(highest, left)


@dataclass(frozen=True)
class Probe:
    """Estimates the largest eigenvalue of A on the complement of W, one extra column per pass.

    A locally optimal conjugate gradient iteration (Knyazev 2001) on one vector from a random start: the span S of the
    current vector, the last direction and the residual is searched, and only the residual needs a product with A.
    The last column of the W before is searched as well: its product is known. Where W turns, it is about to find
    something, and has not found all of it. A random start may see little of just that.
    W is taken out of them by way of small matrices, in the precision of the data: an estimate needs no more.
    """

    # Rows: vector, direction, residual, a column of the W before, and their images; zero until they are there.
    pairs: np.ndarray  # handed on from probe to probe
    value: float = 0.0  # the Ritz value
    residual: float = np.inf  # the length of its residual
    products: int = 0  # how many products it has seen

    @classmethod
    def random(cls, d: int, dtype: np.dtype, rng: Rng) -> Probe:
        """A probe that starts from a random vector."""
        probe = cls(np.zeros((2 * SEARCHED, d), dtype))
        rng.standard_normal(out=probe.column, dtype=dtype)
        probe.column[:] /= np.linalg.norm(probe.column)
        return probe

    @property
    def column(self) -> np.ndarray:
        """What is to be multiplied by A next."""
        return self.pairs[2]

    def updated(self, image: np.ndarray, W: np.ndarray, U: np.ndarray, theta: np.ndarray) -> Probe:
        """The probe after ``image = A column``, for the current W and U = A W; it has the next column."""
        products = self.products + 1
        self.pairs[SEARCHED + 2] = image
        S = self.pairs[:SEARCHED]
        G = np.array([[float(s @ b) for b in self.pairs] for s in S])
        C, D = (S @ W).astype(float), (S @ U).astype(float)  # S' = S - C W^T, A S' = A S - C U^T
        M = G[:, :SEARCHED] - C @ C.T
        H = G[:, SEARCHED:] - C @ D.T - D @ C.T + (C * theta) @ C.T
        if M[3, 3] < TURNED:
            M[3] = M[:, 3] = 0
        eps = float(np.finfo(W.dtype).eps)
        T, values = _leading_pairs(M, H, eps)
        if T is None:  # nothing is left outside W
            self._forget()
            return Probe(self.pairs, 0.0, 0.0, products)
        value = float(values[0])
        if value > DRIFTED * max(0.0, 1 - float(theta.sum())) + eps:  # tr A = 1: images of images have drifted
            self.column[:] = self.pairs[0]  # begin again with the vector's own product
            self._forget()
            return Probe(self.pairs)
        residual = self._combine(_kept(T[:, 0], M, eps), C, D, W, U, theta, value)
        self.pairs[3], self.pairs[SEARCHED + 3] = W[:, -1], U[:, -1]
        return Probe(self.pairs, value, residual, products)

    def _forget(self) -> None:
        """Leave nothing but the column that is to be multiplied next."""
        self.pairs[np.arange(2 * SEARCHED) != 2] = 0

    def _combine(
        self, Y: np.ndarray, C: np.ndarray, D: np.ndarray, W: np.ndarray, U: np.ndarray, theta: np.ndarray, value: float
    ) -> float:
        """New vectors ``Y S'`` and their images, and the residual of the first one: return its length.

        All rows are replaced chunk by chunk, within the cache.
        """
        y, c = Y[0], Y[0] @ C
        rows = np.array([0, 1, 2, SEARCHED, SEARCHED + 1])  # vector, direction, residual, images of the first two
        of_pairs, of_W, of_U = np.zeros((5, 2 * SEARCHED)), np.zeros((5, len(theta))), np.zeros((5, len(theta)))
        of_pairs[:2, :SEARCHED] = of_pairs[3:, SEARCHED:] = Y
        of_W[:2] = of_U[3:] = -Y @ C
        of_pairs[2] = np.append(-value * y, y)
        of_W[2] = value * c - (y @ D - c * theta)  # the image's part in W's span goes, too
        of_U[2] = -c
        of_pairs, of_W, of_U = (M.astype(W.dtype) for M in (of_pairs, of_W, of_U))
        for j in range(0, len(W), CHUNK):
            chunk = self.pairs[:, j : j + CHUNK]
            new = of_pairs @ chunk
            new += _times_tall(of_W, W[j : j + CHUNK])
            new += _times_tall(of_U, U[j : j + CHUNK])
            chunk[rows] = new
        residual = float(np.linalg.norm(self.column))
        if residual > 0:
            self.column[:] /= self.column.dtype.type(residual)
        return residual

    def bound(self, theta: np.ndarray) -> float:
        """Estimate of lambda_max outside W."""
        return estimate_outside(theta, np.array([self.value]), np.array([self.residual]), self.products)


def _leading_pairs(M: np.ndarray, H: np.ndarray, eps: float) -> tuple[np.ndarray | None, np.ndarray]:
    """Ritz vectors (as coefficients) and values, largest first, for Gram matrix M and projected operator H.

    The vectors had length 1 before W was taken out of them. Vectors that rounding could have left are dropped. So are
    vectors that the others span.
    """
    square = np.diag(M)
    keep = square > ROUNDING * eps
    if not keep.any():
        return None, np.zeros(0)
    inverse = np.where(keep, 1 / np.sqrt(np.where(keep, square, 1.0)), 0.0)
    w, Q = np.linalg.eigh(M * np.outer(inverse, inverse))
    good = w > max(DEPENDENT, ROUNDING * eps)
    T = inverse[:, None] * Q[:, good] / np.sqrt(w[good])
    values, Y = np.linalg.eigh(T.T @ (H + H.T) @ T / 2)
    return T @ Y[:, ::-1], values[::-1]


def _times_tall(L: np.ndarray, W: np.ndarray) -> np.ndarray:
    """``L W^T``; BLAS is slow at outer products of long vectors."""
    return np.outer(L, W) if W.shape[1] == 1 else L @ W.T


def _kept(y: np.ndarray, M: np.ndarray, eps: float) -> np.ndarray:
    """Coefficients of the new vector and, at length 1, of the direction it was reached by (all but the old vector).

    A direction that is nothing but rounding becomes zero.
    """
    step = np.append(0.0, y[1:])
    square = step @ M @ step
    there = square > ROUNDING * eps * (step**2 @ np.diag(M))
    return np.vstack([y, step / np.sqrt(square) if there else np.zeros_like(step)])


class Complement:
    """A on the complement of W's columns."""

    def __init__(self, view: View, W: np.ndarray):
        self.view, self.W = view, W
        self.d, self.dtype, self.support, self.n_threads = view.d, view.dtype, view.support, view.n_threads

    def outside(self, V: np.ndarray) -> np.ndarray:
        """V without its part in W's span."""
        for _ in range(2):
            V = V - self.W @ (self.W.T @ V)
        return V

    def product(self, V: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        """``out = (I - W W^T) A (I - W W^T) V``."""
        out[...] = self.outside(self.view.product(np.ascontiguousarray(self.outside(V)), out=out))
        return out

    def room_for(self, vectors: int) -> np.ndarray:
        """Zeros for so many vectors, as columns; there may be more columns than vectors."""
        return self.view.room_for(vectors)


def lanczos_error(dimension: int, products: int, failure: float, width: int = 1) -> float:
    """By which part Lanczos iteration may miss the largest eigenvalue, but for a failure probability; 1 for all of it.

    From a random vector, it finds the largest eigenvalue of a positive semidefinite matrix of order d to a relative
    error e within q products but for a probability of ``1.648 sqrt(d) exp(-sqrt(e) (2 q - 1))`` (Kuczynski and
    Wozniakowski 1992, theorem 4.2). A block of random vectors searches the spans of as many independent iterations, all
    of which would have to fail.
    """
    if products == 0:
        return 1.0
    exponent = math.log(1.648 * math.sqrt(max(1, dimension))) - math.log(failure) / width
    return min(1.0, (exponent / (2 * products - 1)) ** 2)


class RandomSearch:
    """A block Krylov search of W's complement from random vectors; every step is one pass."""

    def __init__(self, view: View, W: np.ndarray, left: float, failure: float, rng: Rng, most: int = MOST):
        self.operator = Complement(view, W)
        self.left = left  # the trace of A on the complement, which no eigenvalue exceeds
        self.dimension = max(1, view.d - W.shape[1])
        self.failure, self.most = failure, most
        self.width = min(WIDTH, self.dimension)
        self.space = SearchSpace(self.operator, self.width, most * self.width)
        V = rng.standard_normal((view.d, self.width)).astype(view.dtype)
        if view.support is not None:
            V[~view.support] = 0
        self.next = self.space.new_directions(np.ascontiguousarray(self.operator.outside(V).T), rng)
        self.rng = rng
        self.steps = 0

    @property
    def exhausted(self) -> bool:
        """Whether there is no room for another step."""
        return self.steps >= self.most or not len(self.next)

    def step(self) -> None:
        """Multiply the last block."""
        old = self.space.size
        self.space.expand(self.next, self.operator)
        self.steps += 1
        self.next = self.space.new_directions(self.space.AS[old : self.space.size].copy(), self.rng)

    def ceiling(self) -> float:
        """What lambda_max on the complement does not exceed, but for the failure probability of all steps together."""
        error = lanczos_error(self.dimension, self.steps, self.failure / self.most, self.width)
        return min(self.left, float(self.space.theta[0]) / (1 - error)) if error < 1 else self.left

    def above(self, value: float) -> bool:
        """Whether something larger has been found, and not only by rounding."""
        return self.steps > 0 and float(self.space.theta[0]) > value * (1 + FOUND)

    def leader(self) -> np.ndarray:
        """The vector of the largest Ritz value, as a column."""
        return self.space.vectors(1).T
