"""Projections onto components, block by block: what `transform` returns."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from vrpca.data.source import Source
from vrpca.errors import DataError

ROWS = 1024  # dense rows centred at a time


def scores(source: Source, components: np.ndarray, mean: np.ndarray | None, scale: np.ndarray | None) -> np.ndarray:
    """``((X - mean) / scale) @ components.T`` without a centred or dense copy of X."""
    if source.shape[1] != components.shape[1]:
        raise DataError(f"X has {source.shape[1]} features, but the model was fitted on {components.shape[1]}.")
    axes = components.T if scale is None else (components / scale).T
    dtype = np.result_type(source.dtype, components.dtype)
    out = np.empty((source.shape[0], components.shape[0]), dtype)
    for start, X in source.blocks():
        if sp.issparse(X):
            part = X @ axes
            out[start : start + len(part)] = part if mean is None else part - mean @ axes
            continue
        for lo in range(0, len(X), ROWS):
            rows = X[lo : lo + ROWS]
            out[start + lo : start + lo + len(rows)] = (rows if mean is None else rows - mean) @ axes
    if not np.isfinite(out).all():
        raise DataError("Input X contains NaN or infinity; it must hold finite numbers only. Impute or drop such rows.")
    return out
