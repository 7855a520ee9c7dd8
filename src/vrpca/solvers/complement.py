"""What is left outside an answer: a random Krylov search, with a bound that fails with a known probability.

Lanczos iteration from a random vector finds the largest eigenvalue of a positive semidefinite matrix of order d to a
relative error eps within q steps but for a probability of ``1.648 sqrt(d) exp(-sqrt(eps) (2 q - 1))`` (Kuczynski and
Wozniakowski 1992, theorem 4.2). A block of b random vectors searches the spans of b independent runs, all of which
would have to fail.
"""

from __future__ import annotations

import math

import numpy as np

from vrpca.data.view import View
from vrpca.solvers.space import Space

STARTS = 8  # random vectors
MOST = 40  # products of the search


class Complement:
    """A on the complement of W's columns."""

    def __init__(self, view: View, W: np.ndarray):
        self.view, self.W = view, W
        self.d, self.dtype, self.support = view.d, view.dtype, view.support

    def outside(self, V: np.ndarray) -> np.ndarray:
        """V without its part in W's span."""
        for _ in range(2):
            V = V - self.W @ (self.W.T @ V)
        return V

    def product(self, W: np.ndarray, P: None = None, out: np.ndarray | None = None) -> np.ndarray:
        """Return ``(I - W W^T) A (I - W W^T) V``, in `out` if given."""
        U = self.outside(self.view.product(np.ascontiguousarray(self.outside(W)), P, out))
        if out is None:
            return U
        out[...] = U
        return out


class Search:
    """A block Krylov search of the complement; every step is one reading."""

    def __init__(self, view: View, W: np.ndarray, failure: float, rng: np.random.Generator):
        self.operator = Complement(view, W)
        self.dimension = max(1, view.d - W.shape[1])
        self.failure = failure
        self.starts = min(STARTS, self.dimension)
        self.space = Space(self.operator, self.starts, MOST * self.starts)
        V = rng.standard_normal((view.d, self.starts)).astype(view.dtype)
        if view.support is not None:
            V[~view.support] = 0
        self.next = self.space.fresh(np.ascontiguousarray(self.operator.outside(V).T), rng)
        self.rng = rng
        self.steps = 0

    @property
    def exhausted(self) -> bool:
        """Whether there is no room for another step."""
        return self.steps >= MOST or not len(self.next)

    def step(self) -> None:
        """Multiply the last block."""
        old = self.space.size
        self.space.expand(self.next)
        self.steps += 1
        self.next = self.space.fresh(self.space.AS[old : self.space.size].copy(), self.rng)

    def ceiling(self) -> float:
        """What lambda_max on the complement does not exceed, but for the failure probability of all steps together."""
        sure = math.log(1.648 * math.sqrt(self.dimension)) - math.log(self.failure / MOST) / self.starts
        error = (sure / (2 * self.steps - 1)) ** 2 if self.steps else 1.0
        return float(self.space.theta[0]) / (1 - error) if error < 1 else math.inf

    def above(self, value: float) -> bool:
        """Whether something larger has been found, and not only by rounding."""
        return self.steps > 0 and float(self.space.theta[0]) > value * (1 + 1e-6)

    def leader(self) -> np.ndarray:
        """The vector of the largest Ritz value, as a column."""
        return self.space.vectors(1).T
