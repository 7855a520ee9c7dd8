"""Sources for pandas and polars data frames; neither package is imported here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from vrpca.data.memory import ConvertedSource, columnwise_neighbours, rows_that_fit
from vrpca.data.source import Source, check_shape, working_dtype
from vrpca.errors import DataError
from vrpca.typing import Array, Where


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars data frame."""
    modules = [sys.modules.get(package) for package in ("pandas", "polars")]
    return any(module is not None and isinstance(X, module.DataFrame) for module in modules)


class FrameSource(ConvertedSource):
    """A pandas or polars data frame, or its transpose, turned into arrays block by block."""

    def __init__(self, frame: Any, transpose: bool = False):
        check_shape(frame.shape)
        self.frame, self.transpose = frame, transpose
        kinds = enumerate(zip(frame.columns, frame.dtypes, strict=True))
        index = hasattr(frame, "set_index")  # pandas
        dtype = np.result_type(*(column_dtype(name, kind, index and j == 0) for j, (name, kind) in kinds))
        n, d = frame.shape[::-1] if transpose else frame.shape
        super().__init__((n, d), dtype, rows_that_fit(d, dtype), 1 if transpose else columnwise_neighbours(dtype))
        if not transpose:
            self.column_names = [str(name) for name in frame.columns]

    def convert(self, rows: Where) -> Array:
        """The rows; columns of the frame where it is transposed."""
        if self.transpose:
            return np.ascontiguousarray(self._array(slice(None), rows).T)
        return self._array(rows, slice(None))

    def _array(self, rows: Where, columns: Where) -> Array:
        """A part of the frame as a C-ordered array, missing values as NaN."""
        if hasattr(self.frame, "iloc"):  # pandas
            part = self.frame.iloc[rows, columns].to_numpy(dtype=self.dtype, na_value=np.nan)
        else:
            part = self.frame[rows, columns].to_numpy()
        return np.ascontiguousarray(part, dtype=self.dtype)

    def transposed(self) -> Source:
        """The columns of the frame as rows, and back."""
        return FrameSource(self.frame, not self.transpose)


def column_dtype(name: Any, kind: Any, may_be_index: bool = False) -> np.dtype:
    """The working type of a frame's column, or an error that names the column."""
    plain = getattr(kind, "numpy_dtype", None) or getattr(kind, "subtype", None) or kind  # pandas: nullable, sparse
    numpy_name = str(plain).lower()
    try:
        return working_dtype(np.dtype("bool" if numpy_name == "boolean" else numpy_name))
    except (TypeError, ValueError):
        remedy = f"If it names the rows, pass X.set_index({name!r}); else drop or encode it"
        remedy = remedy if may_be_index else "Drop or encode it"
        raise DataError(f"Column {name!r} is of type {kind}: only numbers can be decomposed. {remedy}.") from None
