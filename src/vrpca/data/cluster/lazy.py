"""Functions of rows that wait until they are computed: what `transform` returns for data that dask holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrpca.data.cluster.opening import frame_names


@dataclass(frozen=True)
class Outline:
    """What is known of data without a look at them."""

    shape: tuple[int, int]  # the number of rows is 1 here, whatever it is
    column_names: Sequence[str] | None


def outline(X: Any) -> Outline | None:
    """The columns of an array or of a data frame; None for delayed blocks, of which nothing is known."""
    if isinstance(X, list | tuple):
        return None
    return Outline((1, int(X.shape[1])), frame_names(X) if hasattr(X, "columns") else None)


def map_rows(X: Any, function: Callable[[Any], np.ndarray], columns: int, dtype: np.dtype) -> Any:
    """A dask array of what a function makes of each chunk of rows: so many columns. It is sent once."""
    import dask
    import dask.array as da

    sent = dask.delayed(function, pure=False, traverse=False)
    if isinstance(X, da.Array):
        X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        meta = np.empty((0, columns), dtype)
        return X.map_blocks(_applied, sent, dtype=dtype, chunks=(X.chunks[0], (columns,)), meta=meta)
    parts = list(X) if isinstance(X, list | tuple) else X.to_delayed()
    found = [da.from_delayed(dask.delayed(_applied)(part, sent), (math.nan, columns), dtype=dtype) for part in parts]
    return da.concatenate(found, allow_unknown_chunksizes=True)


def _applied(chunk: Any, function: Callable[[Any], np.ndarray]) -> np.ndarray:
    return function(chunk)
