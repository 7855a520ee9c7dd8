"""How X of any supported kind becomes a source."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.files import open_data
from vrpca.data.frames import FrameSource, is_frame
from vrpca.data.memory import ArraySource, as_array, sparse_source
from vrpca.data.source import Source
from vrpca.errors import DataTypeError


def is_path(X: Any) -> bool:
    """Whether X names a file."""
    return isinstance(X, str | os.PathLike)


def as_source(X: Any) -> Source:
    """Return X as a source, without copying it.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or array, pandas or polars frame, path of a .npy or .npz file, or Source
        The data, samples in rows.

    Returns
    -------
    Source
    """
    if isinstance(X, Source):
        return X
    if type(X) is np.ndarray and X.dtype.kind != "O":
        return ArraySource(X)
    if hasattr(X, "blocks") and hasattr(X, "transposed"):
        kind = type(X).__name__
        raise DataTypeError(f"X is a {kind}, which looks like a source but is none: derive {kind} from vrpca.Source.")
    if is_path(X):
        X = open_data(X)
    if sp.issparse(X):
        return sparse_source(X)
    if is_frame(X):
        return FrameSource(X)
    return ArraySource(as_array(X))
