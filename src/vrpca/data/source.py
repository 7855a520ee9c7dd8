"""The data protocol, and how X of any supported kind becomes a source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from vrpca.errors import DataError

PIECE_BYTES = 1 << 20


@runtime_checkable
class Source(Protocol):
    """A matrix whose rows can be walked, block by block.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    dtype : numpy.dtype
        float32 or float64: the type of the blocks.
    columnwise : bool, optional
        Whether entries of a column, not of a row, lie together: the transposed matrix is then the cheaper one to walk.
    wide_at : float, optional
        How many columns per row make the transposed matrix the better one to draw rows of; 1 if absent.
    entries : int, optional
        Number of stored entries of sparse data.
    slow_to_read : bool, optional
        Whether reading is what costs most; not, if absent.
    gather : callable, optional
        ``gather(numbers)`` gives the rows with these (sorted) numbers as a block, at a price not far from that of as
        many consecutive rows. Absent or None where only consecutive rows are cheap: on disk, say.
    rows : int, with gather
        How many rows to gather at a time.
    run : int, with gather
        How many consecutive rows cost about as much as one: 1 if there is nothing to gain.
    compacted : callable, optional
        ``compacted()`` gives the source without the columns that hold no entry, and the numbers of the others.
    compacted_bytes : int, with compacted
        The memory that this takes.
    """

    shape: tuple[int, int]
    dtype: np.dtype

    def blocks(self, rng: np.random.Generator | None = None) -> Iterator[tuple[int, Any]]:
        """Yield (number of the first row, block) over all rows, in order, or in random order with `rng`.

        A block is a C-ordered array or a CSR matrix of this source's dtype. A source that can hand out everything at
        once without a copy yields one block.
        """
        ...

    def transposed(self) -> Source:
        """Return the transposed matrix as a source."""
        ...


def working_dtype(dtype: np.dtype) -> np.dtype:
    """float32 and float64 stay; types that float32 holds exactly become float32, the others float64."""
    if dtype.kind == "c":
        raise DataError("Complex data not supported: split X into its real and imaginary parts.")
    if dtype.kind not in "fiub":
        raise DataError(
            f"X has entries of type {dtype}: only numbers can be decomposed. Convert or drop text, dates and objects."
        )
    if dtype.kind == "f" and dtype.itemsize > 8:
        raise DataError(f"X has entries of type {dtype}, which is not supported: convert X to float64.")
    single = dtype.itemsize <= 2 or dtype.newbyteorder("=") == np.float32
    return np.dtype(np.float32 if single else np.float64)


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise unless `shape` is that of a non-empty matrix."""
    if len(shape) != 2:
        raise DataError(
            f"Expected a 2D array, got an array of shape {shape}. Reshape your data: X.reshape(-1, 1) if it has a "
            "single feature, X.reshape(1, -1) if it is a single sample."
        )
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise DataError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def stored_entries(source: Source) -> int:
    """Number of entries that are stored: all of them, unless the source says otherwise."""
    return int(getattr(source, "entries", source.shape[0] * source.shape[1]))


def leaves_out_zeros(source: Source) -> bool:
    """Whether only entries are stored: the sources that say how many."""
    return hasattr(source, "entries")


def pieces(X: Any, rng: np.random.Generator | None, least: int = 64) -> Iterator[tuple[int, Any]]:
    """Cut a block into pieces that stay in the cache: (first row, piece), in order or, with `rng`, in random order.

    `least` is the fewest rows that are worth a piece, in or out of the cache.
    """
    n = X.shape[0]
    size = (X.nnz * 2 if sp.issparse(X) else X.size) * X.dtype.itemsize
    rows = max(least, n * PIECE_BYTES // max(size, 1))
    starts = np.arange(0, n, rows)
    if rng is not None:
        rng.shuffle(starts)
    for start in starts.tolist():
        yield start, X[start : start + rows]


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
    from vrpca.data import arrays

    if isinstance(X, Source):
        return X
    if is_path(X):
        from vrpca.data.files import open_data

        X = open_data(X)
    if sp.issparse(X):
        return arrays.sparse_source(X)
    if arrays.is_frame(X):
        return arrays.FrameSource(X)
    return arrays.ArraySource(arrays.as_array(X))
