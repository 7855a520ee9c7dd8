"""Columns that hold no entry are left out of sparse data before a run and put back as zeros after it (Appendix A)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vrpca.data.moments import Moments
from vrpca.data.source import Source

VECTORS = 5  # arrays of d times the width that an epoch holds at its peak


def compacted(source: Source, moments: Moments, k: int, width: int) -> tuple[Source, Moments, np.ndarray | None]:
    """Return the source and its moments without empty columns, and the numbers of the columns that are left.

    As they were, and None, where that would save less memory than it takes for blocks of `width` columns, or would
    leave fewer than k columns.
    """
    compact = getattr(source, "compacted", None)
    empty = int(np.count_nonzero((moments.variance == 0) & (moments.mean == 0)))
    saved = VECTORS * width * empty * source.dtype.itemsize
    if compact is None or saved <= source.compacted_bytes or source.shape[1] - empty < k:  # type: ignore[attr-defined]
        return source, moments, None
    smaller, kept = compact()
    return smaller, replace(moments, mean=moments.mean[kept], variance=moments.variance[kept]), kept


def put_back(Vt: np.ndarray, kept: np.ndarray | None, d: int) -> np.ndarray:
    """Return Vt with zeros for the columns that were left out."""
    if kept is None:
        return Vt
    full = np.zeros((len(Vt), d), Vt.dtype)
    full[:, kept] = Vt
    return full
