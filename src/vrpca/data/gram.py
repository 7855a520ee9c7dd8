"""X^T X, centred, by symmetric updates block after block: in one reading, shared with that of the moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.moments import Moments, first_unit

SPARSE = 0.1  # density below which a product of sparse matrices is cheaper than one of dense blocks


class GramSum:
    """``sum w_i (x_i - c) (x_i - c)^T`` for a provisional centre c, corrected in the end.

    The centre is the mean of the first rows, so that a large mean cancels before anything is squared: a difference from
    it is as exact as the number type allows, and every block's sum is added up in double precision.
    """

    rng = None

    def __init__(self, d: int, center: bool):
        self.center = center
        self.sum = np.zeros((d, d))
        self.first = np.zeros(d)  # sum w_i (x_i - c)
        self.shift: np.ndarray | None = None
        self.unit = 1.0

    def see(self, X: Any, weight: np.ndarray | None, mean: np.ndarray) -> None:
        """Take in rows of X."""
        dtype = X.dtype
        if self.shift is None:
            self.unit = first_unit(X)
            self.shift = (mean * self.unit if self.center and not sp.issparse(X) else np.zeros(len(mean))).astype(dtype)
        root = None if weight is None else np.sqrt(weight).astype(dtype)
        if sp.issparse(X) and X.nnz < SPARSE * X.shape[0] * X.shape[1]:
            self._add_sparse(X.astype(np.float64) * self.unit, root)
            return
        Y = X.toarray() if sp.issparse(X) else X
        Y = Y * dtype.type(self.unit) - self.shift
        if root is not None:
            self.first += (root * root) @ Y
            Y *= root[:, None]
        else:
            self.first += Y.sum(0, dtype=np.float64)
        self.sum += Y.T @ Y  # BLAS knows a matrix times itself: half the work

    def _add_sparse(self, X: Any, root: np.ndarray | None) -> None:
        if root is not None:
            X = sp.diags_array(root.astype(np.float64)) @ X
            self.first += X.T @ root.astype(np.float64)
        else:
            self.first += np.asarray(X.sum(0)).reshape(-1)
        self.sum += (X.T @ X).toarray()

    def matrix(
        self, moments: Moments, col_scale: np.ndarray | None, kept: np.ndarray | None = None
    ) -> np.ndarray | None:
        """``A`` of the columns that are kept, scaled and with trace 1, as a view has it.

        None if squares of numbers so different in size overflow.
        """
        A = self.sum / moments.total
        if self.center:
            delta = self.first / moments.total
            A -= np.outer(delta, delta)
        if kept is not None:
            A = A[np.ix_(kept, kept)]
        if col_scale is not None:
            A *= np.outer(col_scale / col_scale.max(), col_scale / col_scale.max())
        trace = np.trace(A)
        return A / trace if np.isfinite(A).all() and trace > 0 and moments.readings == 1 else None
