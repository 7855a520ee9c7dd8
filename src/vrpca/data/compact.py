"""Columns that hold no entry are left out of sparse data before a run and put back as zeros after it (Appendix A)."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from vrpca.data.moments import Moments
from vrpca.data.source import Source

VECTORS = 5  # arrays of d times the width that an epoch holds at its peak


@runtime_checkable
class Compactable(Protocol):
    """A source that can leave out its empty columns, for a copy of so many bytes."""

    @property
    def compacted_bytes(self) -> int:
        """Size of what is copied."""
        ...

    def compacted(self) -> tuple[Source, np.ndarray]:
        """The source without empty columns, and the numbers of those that are left."""
        ...


def compacted(source: Source, moments: Moments, k: int, width: int) -> tuple[Source, Moments, np.ndarray | None]:
    """Return the source and its moments without empty columns, and the numbers of the columns that are left.

    As they were, and None, where that would save less memory than it takes for blocks of `width` columns, or would
    leave fewer than k columns.
    """
    empty = int(np.count_nonzero((moments.variance == 0) & (moments.mean == 0)))
    saved = VECTORS * width * empty * source.dtype.itemsize
    if not isinstance(source, Compactable) or saved <= source.compacted_bytes or source.shape[1] - empty < k:
        return source, moments, None
    smaller, kept = source.compacted()
    return smaller, replace(moments, mean=moments.mean[kept], variance=moments.variance[kept]), kept


def put_back(Vt: np.ndarray, kept: np.ndarray | None, d: int) -> np.ndarray:
    """Return Vt with zeros for the columns that were left out."""
    if kept is None:
        return Vt
    full = np.zeros((len(Vt), d), Vt.dtype)
    full[:, kept] = Vt
    return full
