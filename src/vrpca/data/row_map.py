"""How rows of the data become rows of Z: centring, scaling and weights as one map.

``z_i = a_i (x_i * s - b_i m)``, with the column scale s, the shift m, the row scale a (times one unit) and the row
shift b. The kernels apply the map on the fly (`RowMap.rows`); `MappedRows` is its arithmetic in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.source import Reduction
from vrpca.errors import DataError
from vrpca.typing import Array, Where
from vrpca.values import changed

# Beyond this, squares of raw entries could overflow or vanish in float32: the unit goes into the column scale then.
EXTREME_UNIT = 1e12


def make_rows(
    X: Any,
    col_scale: Any = None,
    shift: Any = None,
    row_scale: Any = None,
    row_shift: Any = None,
    unit: float = 1.0,
    late: bool = False,
) -> Any:
    """Rows ``z_i = a_i (x_i * s - b_i m)`` of a C-ordered array or a CSR matrix, as the kernels take them."""
    if sp.issparse(X):
        return kernels.csr_rows(X.indptr, X.indices, X.data, X.shape[1], col_scale, shift, row_scale, row_shift, unit)
    return kernels.dense_rows(X, col_scale, shift, row_scale, row_shift, unit, late=late)


@dataclass(eq=False)
class RowMap:
    """The parts of the map, in double precision; None stands for ones (for the shift: no shift)."""

    dtype: np.dtype  # the type of the data: the kernels take the column scale in it
    col_scale: Array | None = None  # s
    shift: Array | None = None  # m
    row_scale: Array | None = None  # a
    row_shift: Array | None = None  # b
    unit: float = 1.0  # a factor of all rows
    late: bool = False  # whether products apply the column scale and the shift to W and ``A W``, not to dense rows

    def __post_init__(self) -> None:
        for scale in (self.col_scale, self.row_scale):
            if scale is not None and scale.max(initial=0.0) > np.finfo(self.dtype).max:
                raise DataError(
                    f"X, or one of its columns, is too small for {self.dtype}: multiply it by a power of ten."
                )
        self._rounded = _rounded(self.dtype, self.col_scale, self.shift)

    def per_row(self, where: Where) -> tuple[Array | None, Array | None]:
        """The row scale and the row shift of some of the rows."""
        a, b = self.row_scale, self.row_shift
        return None if a is None else a[where], None if b is None else b[where]

    def rows(self, where: Where, X: Any) -> Any:
        """The mapped rows of a block, as the kernels take them."""
        return make_rows(X, *self._rounded, *self.per_row(where), self.unit, self.late)

    def cut(self, where: Where) -> RowMap:
        """The map of some of the rows."""
        a, b = self.per_row(where)
        return replace(self, row_scale=a, row_shift=b)

    def with_rows(self, row_scale: Array | None, row_shift: Array | None) -> RowMap:
        """The same map with other row scales and shifts."""
        return replace(self, row_scale=row_scale, row_shift=row_shift)

    @property
    def moderate(self) -> bool:
        """Whether W can be multiplied by the column scale instead of X, without numbers that vanish or overflow."""
        if self.col_scale is None:
            return True
        return bool((self.col_scale > 1 / EXTREME_UNIT).all() and (self.col_scale < EXTREME_UNIT).all())

    @property
    def rest_of_scale(self) -> Array | None:
        """The column scale over what the kernels have of it; None where they have all of it."""
        scale = self._rounded[0]
        if self.col_scale is None or scale is None or scale.dtype == np.float64:
            return None
        return np.divide(self.col_scale, scale, out=np.ones_like(self.col_scale), where=scale != 0)

    def normalised(self, unit: float, d: int) -> RowMap:
        """The map with a unit; an extreme one goes into the column scale, and into the shift or the row shift."""
        if 1 / EXTREME_UNIT < unit < EXTREME_UNIT:
            return changed(self, unit=unit)
        scale = np.full(d, unit) if self.col_scale is None else self.col_scale * unit
        if self.shift is None:
            return replace(self, col_scale=scale, unit=1.0)
        if self.row_shift is None:
            return replace(self, col_scale=scale, shift=self.shift * unit, unit=1.0)
        size = float(np.abs(self.shift).max()) or 1.0  # kernels sum up squares of the shift
        shift, row_shift = self.shift / size, self.row_shift * (size * unit)
        return replace(self, col_scale=scale, shift=shift, row_shift=row_shift, unit=1.0)


def _rounded(dtype: np.dtype, exact: Array | None, shift: Array | None) -> tuple[Array | None, Array | None]:
    """The column scale in the data's type, and the shift that goes with its rounded numbers: means must cancel."""
    if exact is None:
        return None, shift
    scale = exact.astype(dtype)
    if shift is None:
        return scale, None
    return scale, shift * np.divide(scale, exact, out=np.ones_like(exact), where=exact != 0)


class OfMappedRows(Reduction):
    """The base of accumulators that map rows; the parts of the map that belong to single rows stay with their rows."""

    row_map: RowMap

    def shared(self) -> Self:
        """A copy to send."""
        other = super().shared()
        other.row_map = self.row_map.with_rows(None, None)
        return other

    def of_rows(self, rows: slice) -> Any:
        """The row scale and the row shift of some rows."""
        return self.row_map.per_row(rows)

    def opened(self, rows: slice, known: Any, n_threads: int) -> Self:
        """An empty accumulator for these rows alone."""
        other = super().opened(rows, (), n_threads)
        other.row_map = self.row_map.with_rows(*known)
        return other


class MappedRows:
    """A few mapped rows Z in NumPy: formed where X is dense, implicit where it is sparse.

    The arithmetic is done in the type of X.
    """

    def __init__(self, X: Any, row_map: RowMap, where: slice = slice(None)):
        dtype = X.dtype
        parts = (row_map.col_scale, row_map.shift, *row_map.per_row(where))
        s, m, a, b = (None if part is None else part.astype(dtype) for part in parts)
        self.sparse = sp.issparse(X)
        self.shift = m
        a = np.full(X.shape[0], row_map.unit, dtype) if a is None else a * dtype.type(row_map.unit)
        self.weight = a if b is None else a * b
        if self.sparse:
            X = sp.diags_array(a) @ X
            self.X = sp.csr_array(X if s is None else X @ sp.diags_array(s))
            return
        Z = X if s is None else X * s
        if m is not None:
            Z = Z - (m if b is None else np.outer(b, m))
            self.shift = None
        self.X = Z * a[:, None]

    def times(self, B: Array) -> Array:
        """``Z B^T``."""
        out = np.asarray(self.X @ B.T)
        return out if self.shift is None else out - np.outer(self.weight, B @ self.shift)

    def inner_products(self) -> Array:
        """``Z Z^T``."""
        if not self.sparse:
            return self.X @ self.X.T
        out = (self.X @ self.X.T).toarray()
        if self.shift is not None:
            along = np.outer(self.X @ self.shift, self.weight)
            out = out - along - along.T + np.outer(self.weight, self.weight) * (self.shift @ self.shift)
        return out

    def combined(self, Y: Array) -> Array:
        """``Y^T Z``."""
        if not self.sparse:
            return Y.T @ self.X
        out = np.ascontiguousarray((self.X.T @ Y).T)
        return out if self.shift is None else out - np.outer(Y.T @ self.weight, self.shift)

    def square(self) -> Array:
        """``Z^T Z``."""
        if not self.sparse:
            return self.X.T @ self.X
        out = (self.X.T @ self.X).toarray()
        if self.shift is not None:
            along = np.outer(self.X.T @ self.weight, self.shift)
            out += (self.weight @ self.weight) * np.outer(self.shift, self.shift) - along - along.T
        return out
