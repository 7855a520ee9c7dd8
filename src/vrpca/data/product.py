"""The product of A with a block that is known before the data are read: in the reading of the moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from vrpca import kernels
from vrpca.data.gram import CANCELS
from vrpca.data.moments import Moments, first_unit
from vrpca.data.view import View

ROUNDING = 1e-12  # of means, relative
ENTRIES = 2**21  # of the rows that are multiplied at a time: they stay in the cache, and are worth a call


class ProductWitness:
    """``sum w_i (x_i - c) (x_i - c)^T W`` for a provisional centre c, corrected in the end.

    Parameters
    ----------
    W : numpy.ndarray
        The block, d x l.
    centre : numpy.ndarray or None
        About where the mean is going to be; None if nothing is to be centred.
    n_threads : int
        Threads of the products.
    rows_read : int
        Rows that were read to find the block.
    """

    def __init__(self, W: np.ndarray, centre: np.ndarray | None, n_threads: int, rows_read: int):
        self.W, self.centre, self.n_threads, self.rows_read = np.ascontiguousarray(W), centre, n_threads, rows_read
        self.rng: np.random.Generator | None = None
        self.least = max(64, ENTRIES // len(W))
        self.sum = np.zeros(W.shape)
        self.unit: float | None = None

    def see(self, X: Any, weight: np.ndarray | None, mean: np.ndarray) -> None:
        """Take in rows of X."""
        self.unit = first_unit(X) if self.unit is None else self.unit
        root = None if weight is None else np.sqrt(weight)
        U = np.zeros_like(self.W)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = kernels.make_rows(X, None, self.centre, root, None, self.unit)
            kernels.product(rows, self.W, U, None, self.n_threads)
            self.sum += U

    def tell(self, view: View, moments: Moments, kept: np.ndarray | None) -> None:
        """Let the view know the product, unless it is of other columns."""
        view.known = self.pair(view, moments) if kept is None else None

    def pair(self, view: View, moments: Moments) -> tuple[np.ndarray, np.ndarray] | None:
        """The block made orthonormal, without columns that hold nothing, and its product with the view's A.

        None where numbers overflow, where the centre was so far from the mean that the difference does not cancel, or
        where the block's vectors are dependent: the solver makes a start of its own then, which takes a pass more.
        """
        if self.unit is None or moments.readings > 1:
            return None
        W, trace = self.W.astype(np.float64), view.frobenius**2 / view.n
        U = self.sum / (self.unit**2 * moments.total)
        if self.centre is not None:
            delta = moments.center - self.centre
            rounding = (ROUNDING * moments.center) ** 2
            if (delta**2 > CANCELS * moments.variance / moments.factor**2 + rounding).any():
                return None
            U -= np.outer(delta, delta @ W)
        if view.support is not None:
            W[~view.support] = 0
        try:
            factor = np.linalg.cholesky(W.T @ W)
        except np.linalg.LinAlgError:
            return None
        turn = np.linalg.inv(factor).T
        W, U = W @ turn, U @ (turn / trace)
        return (W.astype(view.dtype), U.astype(view.dtype)) if np.isfinite(U).all() else None
