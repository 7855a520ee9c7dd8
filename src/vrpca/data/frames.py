"""Sources for pandas and polars data frames; neither package is imported here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from vrpca.data.memory import ConvertedSource, Numbers, columnwise_neighbours, rows_that_fit
from vrpca.data.source import Source, check_shape, working_dtype
from vrpca.errors import DataError


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars data frame."""
    for package in ("pandas", "polars"):
        module = sys.modules.get(package)
        if module is not None and isinstance(X, module.DataFrame):
            return True
    return False


class FrameSource(ConvertedSource):
    """A pandas or polars data frame, turned into arrays block by block."""

    def __init__(self, frame: Any):
        check_shape(frame.shape)
        self.frame = frame
        kinds = zip(frame.columns, frame.dtypes, strict=True)
        dtype = np.result_type(*(_column_dtype(name, kind) for name, kind in kinds))
        rows = rows_that_fit(frame.shape[1], dtype)
        super().__init__(frame.shape, dtype, rows, self._convert, columnwise_neighbours(dtype))

    def _convert(self, rows: Numbers) -> np.ndarray:
        return _frame_array(self.frame, rows, slice(None), self.dtype)

    def transposed(self) -> Source:
        """The transposed frame."""
        return TransposedFrame(self)


class TransposedFrame(ConvertedSource):
    """The columns of a frame as rows."""

    def __init__(self, source: FrameSource):
        self.source = source
        n, d = source.shape
        super().__init__((d, n), source.dtype, rows_that_fit(n, source.dtype), self._convert)

    def _convert(self, columns: Numbers) -> np.ndarray:
        return np.ascontiguousarray(_frame_array(self.source.frame, slice(None), columns, self.dtype).T)

    def transposed(self) -> Source:
        """The frame as it was."""
        return self.source


def _frame_array(frame: Any, rows: Numbers, columns: Numbers, dtype: np.dtype) -> np.ndarray:
    """A part of a frame as a C-ordered array, missing values as NaN."""
    if hasattr(frame, "iloc"):  # pandas
        return np.ascontiguousarray(frame.iloc[rows, columns].to_numpy(dtype=dtype, na_value=np.nan))
    return np.ascontiguousarray(frame[rows, columns].to_numpy(), dtype=dtype)


def _column_dtype(name: Any, kind: Any) -> np.dtype:
    """The working type of a frame's column, or an error that names the column."""
    plain = getattr(kind, "numpy_dtype", None) or getattr(kind, "subtype", None) or kind  # pandas: nullable, sparse
    numpy_name = str(plain).lower()
    numpy_name = {"boolean": "bool"}.get(numpy_name, numpy_name)
    try:
        return working_dtype(np.dtype(numpy_name))
    except (TypeError, ValueError):
        raise DataError(
            f"Column {name!r} is of type {kind}: only numbers can be decomposed. Drop or encode it."
        ) from None
