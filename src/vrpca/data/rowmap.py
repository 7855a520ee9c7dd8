"""How rows of the data become rows of Z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RowMap:
    """The four optional arrays of ``z_i = a_i (x_i * s - b_i m)``."""

    col_scale: np.ndarray | None = None
    shift: np.ndarray | None = None
    row_scale: np.ndarray | None = None
    row_shift: np.ndarray | None = None

    def cut(self, rows: Any) -> RowMap:
        """The map of some of the rows, given by a slice or by their numbers."""
        a, b = (None if part is None else part[rows] for part in (self.row_scale, self.row_shift))
        return RowMap(self.col_scale, self.shift, a, b)
