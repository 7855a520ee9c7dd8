"""The parts of scipy's sparse matrices: checked before compiled code, scipy's too, follows them blindly."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.source import check_shape, working_dtype
from vrpca.errors import DataError
from vrpca.typing import Array

DIMENSIONS = {"csr": 1, "csc": 1, "coo": 1, "dia": 2, "bsr": 3}  # of the array of values
DIAGONAL = 2**31  # scipy converts offsets of diagonals to 32 bits


def compressed(X: Any) -> Any:
    """A sparse matrix as CSR or CSC with sound parts; X itself where it is that already."""
    check_shape(X.shape)
    check_parts(X)
    dtype = working_dtype(X.dtype)
    if X.format in DIMENSIONS and (
        X.dtype == np.float16 or not X.dtype.isnative
    ):  # scipy's compiled code knows neither
        X = copy.copy(X)
        X.data = X.data.astype(dtype)
    if X.format in ("csr", "csc"):
        return X
    try:
        X = _from_lists(X) if X.format == "lil" else X.tocsr()
    except (TypeError, ValueError, OverflowError) as error:
        raise _damaged(X, f"its entries cannot be read ({error})") from error
    check_parts(X)  # lists and dictionaries of entries are not checked before
    return X


def canonical(X: Any) -> Any:
    """A sound CSR or CSC matrix in the form that kernels take: X itself where it has that form.

    Its arrays are contiguous and without room behind the last entry. Indices have 32 or 64 bits. Entries are sorted,
    and there is one for each place.
    """
    parts = (X.data[: X.nnz], X.indices[: X.nnz], X.indptr)
    plain = len(X.data) == len(X.indices) == X.nnz and all(part.flags.c_contiguous for part in parts)
    if not plain or X.indptr.dtype != X.indices.dtype or X.indptr.dtype not in (np.int32, np.int64):
        X = type(X)(tuple(np.ascontiguousarray(part) for part in parts), shape=X.shape)  # scipy chooses the indices
    if not X.has_canonical_format:  # duplicate or unsorted entries: the one case that needs a copy
        X = X.copy()
        X.sum_duplicates()
    return X


def check_parts(X: Any) -> None:
    """Raise unless the arrays that make up a sparse matrix fit together and fit its shape.

    Formats without arrays pass.
    """
    if X.format not in DIMENSIONS:
        return
    if not isinstance(X.data, np.ndarray) or X.data.ndim != DIMENSIONS[X.format]:
        raise _damaged(X, "its values are no array, or have a wrong number of dimensions")
    if X.format == "coo":
        _check_triplets(X)
    elif X.format == "dia":
        _check_diagonals(X)
    else:
        _check_compressed(X)


def _check_triplets(X: Any) -> None:
    for name, indices, size in zip(("row", "col"), X.coords, X.shape, strict=True):
        _check_range(X, _whole_numbers(X, name, indices), size)
    if not len(X.row) == len(X.col) == len(X.data):
        raise _damaged(X, f"there are {len(X.row)} rows, {len(X.col)} columns and {len(X.data)} values of entries")


def _check_diagonals(X: Any) -> None:
    offsets = _whole_numbers(X, "offsets", X.offsets)
    if len(offsets) != len(X.data) or len(np.unique(offsets)) != len(offsets):
        raise _damaged(X, f"there are {len(np.unique(offsets))} different offsets for {len(X.data)} diagonals")
    if ((offsets < -DIAGONAL) | (offsets >= DIAGONAL)).any():
        raise _damaged(X, "an offset has more than 32 bits")


def _check_compressed(X: Any) -> None:
    """Check indptr and indices of CSR, CSC and BSR."""
    rows, columns = X.shape
    if X.format == "bsr":
        height, width = X.data.shape[1:]
        if not height or not width or rows % height or columns % width:
            raise _damaged(X, f"it does not divide into blocks of shape {(height, width)}")
        rows, columns = rows // height, columns // width
    along, across = (columns, rows) if X.format == "csc" else (rows, columns)
    indptr, indices = _whole_numbers(X, "indptr", X.indptr), _whole_numbers(X, "indices", X.indices)
    if len(indptr) != along + 1:
        raise _damaged(X, f"indptr has {len(indptr)} entries, not {along + 1}")
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise _damaged(X, "indptr does not start at 0, or falls")
    if indptr[-1] > min(len(indices), len(X.data)):
        stored = f"{len(indices)} indices and {len(X.data)} values"
        raise _damaged(X, f"indptr ends at {indptr[-1]}, but there are {stored}")
    _check_range(X, indices[: indptr[-1]], across)


def _check_range(X: Any, indices: Array, size: int) -> None:
    """Raise unless the indices lie in 0..size-1."""
    if indices.size and indices.view(f"u{indices.itemsize}").max() >= size:  # a negative index is a large unsigned one
        wrong = indices[(indices < 0) | (indices >= size)][0]
        raise _damaged(X, f"an index is {wrong}, but it must lie in 0..{size - 1}")


def _whole_numbers(X: Any, name: str, part: Any) -> Array:
    if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype.kind not in "iu" or not part.dtype.isnative:
        raise _damaged(X, f"{name} is not a plain array of whole numbers")
    return part


def _from_lists(X: Any) -> Any:
    """A LIL matrix as CSR. scipy reads beyond the end of lists of unequal length."""
    if not len(X.rows) == len(X.data) == X.shape[0]:
        raise ValueError(f"{len(X.rows)} lists of columns and {len(X.data)} lists of values")
    counts = np.array([len(columns) for columns in X.rows])
    if (counts != [len(values) for values in X.data]).any():
        raise ValueError("a row has more or fewer values than columns")
    indices = np.array([*chain.from_iterable(X.rows)], dtype=None if counts.any() else np.int64)
    if indices.dtype.kind not in "iu":
        raise ValueError("a column is no whole number")
    values = np.array([*chain.from_iterable(X.data)], dtype=working_dtype(X.dtype))
    return sp.csr_array((values, indices, np.append(0, np.cumsum(counts))), shape=X.shape)


def _damaged(X: Any, what: str) -> DataError:
    found = f"X is a damaged {X.format} matrix of shape {X.shape}: {what}"
    return DataError(f"{found}. Build it again, from COO triplets say.")
