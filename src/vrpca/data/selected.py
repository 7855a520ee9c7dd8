"""Some columns of a source, or some of its rows, as a source of their own: nothing is copied but block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.source import Source
from vrpca.typing import Array, Rng


def _as_block(X: Any) -> Any:
    """Sparse rows as CSR, others in C order."""
    return X if sp.issparse(X) else np.ascontiguousarray(X)


class Selected(Source):
    """What both have in common: they are read as the whole is read."""

    trusted = True

    def __init__(self, source: Source, kept: Array):
        self.source, self.kept = source, kept
        self.dtype, self.sparse, self.columnwise = source.dtype, source.sparse, source.columnwise
        self.slow_to_read, self.held_bytes, self.unlimited = source.slow_to_read, source.held_bytes, source.unlimited
        self.name = source.name

    @property
    def entries(self) -> int:
        """Stored entries, about: as many per column as in the whole."""
        n, d = self.source.shape
        return self.source.entries * self.shape[0] // n * self.shape[1] // d

    @property
    def by_columns(self) -> bool:
        """As the whole is."""
        return self.source.by_columns

    @property
    def by_rows(self) -> bool:
        """As the whole is."""
        return self.source.by_rows

    def block_memory(self, block_bytes: int, transpose: bool = False) -> int:
        """Blocks of the whole, and what is selected of one."""
        return self.source.block_memory(block_bytes, transpose) + block_bytes


class SelectedColumns(Selected):
    """The columns with these sorted numbers."""

    def __init__(self, source: Source, kept: Array):
        super().__init__(source, kept)
        self.shape = (source.shape[0], len(kept))
        self.row_names = source.row_names
        if source.column_names is not None:
            self.column_names = [source.column_names[j] for j in kept.tolist()]

    def blocks(self, rng: Rng | None = None) -> Iterator[tuple[int, Any]]:
        """The blocks of the whole, less the other columns."""
        for start, X in self.source.blocks(rng):
            yield start, _as_block(X[:, self.kept])

    def within(self, block_bytes: int) -> Source:
        """The same with smaller blocks."""
        return SelectedColumns(self.source.within(block_bytes), self.kept)

    def transposed(self) -> Source:
        """The same rows of the transposed matrix."""
        return SelectedRows(self.source.transposed(), self.kept)


class SelectedRows(Selected):
    """The rows with these sorted numbers."""

    def __init__(self, source: Source, kept: Array):
        super().__init__(source, kept)
        self.shape = (len(kept), source.shape[1])

    def blocks(self, rng: Rng | None = None) -> Iterator[tuple[int, Any]]:
        """What the blocks of the whole have of these rows."""
        for start, X in self.source.blocks(rng):
            lo, hi = np.searchsorted(self.kept, (start, start + X.shape[0]))
            if hi > lo:
                yield int(lo), _as_block(X[self.kept[lo:hi] - start])

    def within(self, block_bytes: int) -> Source:
        """The same with smaller blocks."""
        return SelectedRows(self.source.within(block_bytes), self.kept)

    def transposed(self) -> Source:
        """The same columns of the transposed matrix."""
        return SelectedColumns(self.source.transposed(), self.kept)
