"""Projections onto components, block by block: what `transform` returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.source import Source
from vrpca.errors import DataError

ROWS = 1024  # dense rows centred at a time: their copy stays in the cache


def scores(source: Source, components: np.ndarray, mean: np.ndarray | None, scale: np.ndarray | None) -> np.ndarray:
    """``((X - mean) / scale) @ components.T`` without a centred or dense copy of X."""
    if source.shape[1] != components.shape[1]:
        raise DataError(f"X has {source.shape[1]} features, but the model was fitted on {components.shape[1]}.")
    axes = components.T if scale is None else (components / scale).T
    dtype = np.result_type(source.dtype, components.dtype)
    found = source.reduce(ScoreRows(axes, mean, source.shape[0], dtype))
    if found.rows_seen != source.shape[0]:
        raise DataError(f"The source has {source.shape[0]} rows, but its blocks have {found.rows_seen}.")
    out = found.result()
    if not np.isfinite(out).all():
        raise DataError("Input X contains NaN or infinity; it must hold finite numbers only. Impute or drop such rows.")
    return out


class ScoreRows:
    """Accumulates ``(x_i - mean) axes`` for every row."""

    def __init__(self, axes: np.ndarray, mean: np.ndarray | None, n: int, dtype: np.dtype):
        self.axes, self.mean = axes, mean
        self.out = np.zeros((n, axes.shape[1]), dtype)
        self.rows_seen = 0

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        self.rows_seen += X.shape[0]
        if sp.issparse(X):
            part = X @ self.axes
            self.out[start : start + len(part)] = part if self.mean is None else part - self.mean @ self.axes
            return
        for lo in range(0, len(X), ROWS):
            rows = X[lo : lo + ROWS]
            centred = rows if self.mean is None else rows - self.mean
            self.out[start + lo : start + lo + len(rows)] = centred @ self.axes

    def merge(self, other: ScoreRows) -> None:
        """Take in what another accumulator has seen."""
        self.rows_seen += other.rows_seen
        self.out += other.out  # rows that one of them has not seen are zero there

    def result(self) -> np.ndarray:
        """The scores."""
        return self.out
