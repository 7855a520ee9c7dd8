"""Rows as a map makes them, in NumPy: for what no kernel does, a few rows at a time."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.rowmap import RowMap


class MappedRows:
    """A few mapped rows ``a_i (x_i * s - b_i m)``: formed where X is dense, implicit where it is sparse."""

    def __init__(self, X: Any, row_map: RowMap, factor: float):
        dtype = X.dtype
        s, m, a, b = (None if part is None else part.astype(dtype) for part in astuple(row_map))
        self.sparse = sp.issparse(X)
        self.shift = m
        a = np.full(X.shape[0], factor, dtype) if a is None else a * dtype.type(factor)
        self.weight = a if b is None else a * b
        if self.sparse:
            X = sp.diags_array(a) @ X
            self.X = sp.csr_array(X if s is None else X @ sp.diags_array(s))
            return
        Z = X if s is None else X * s
        if m is not None:
            Z = Z - (m if b is None else np.outer(b, m))
            self.shift = None
        self.X = Z * a[:, None]

    def times(self, B: np.ndarray) -> np.ndarray:
        """``Z B^T``."""
        out = np.asarray(self.X @ B.T)
        return out if self.shift is None else out - np.outer(self.weight, B @ self.shift)

    def gram(self) -> np.ndarray:
        """``Z Z^T``."""
        if not self.sparse:
            return self.X @ self.X.T
        out = (self.X @ self.X.T).toarray()
        if self.shift is not None:
            along = np.outer(self.X @ self.shift, self.weight)
            out = out - along - along.T + np.outer(self.weight, self.weight) * (self.shift @ self.shift)
        return out

    def combined(self, Y: np.ndarray) -> np.ndarray:
        """``Y^T Z``."""
        if not self.sparse:
            return Y.T @ self.X
        out = np.ascontiguousarray((self.X.T @ Y).T)
        return out if self.shift is None else out - np.outer(Y.T @ self.weight, self.shift)

    def square(self) -> np.ndarray:
        """``Z^T Z``."""
        if not self.sparse:
            return self.X.T @ self.X
        out = (self.X.T @ self.X).toarray()
        if self.shift is not None:
            along = np.outer(self.X.T @ self.weight, self.shift)
            out += (self.weight @ self.weight) * np.outer(self.shift, self.shift) - along - along.T
        return out
