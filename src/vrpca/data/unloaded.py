"""A file that has to be loaded whole, before it is loaded: what its headers say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vrpca.data.source import A, Source, check_shape, working_dtype
from vrpca.typing import Array, Rng


@dataclass(frozen=True)
class Contents:
    """What the headers of a file say of the matrix in it."""

    shape: tuple[int, int]
    dtype: np.dtype
    entries: int  # that are stored
    sparse: bool
    columnwise: bool  # whether the entries of a column lie together
    loaded_bytes: int  # memory that the matrix takes, once it is loaded


class UnloadedFile(Source):
    """A matrix that is loaded when its rows are asked for, or when `within` says that it fits."""

    trusted = True

    def __init__(self, contents: Contents, load: Callable[[], Source]):
        check_shape(contents.shape)
        self.shape, self.dtype = contents.shape, working_dtype(contents.dtype)
        self.sparse, self.columnwise, self.held_bytes = contents.sparse, contents.columnwise, contents.loaded_bytes
        self.contents, self.load = contents, load

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return self.contents.entries

    @cached_property
    def loaded(self) -> Source:
        """The matrix in memory."""
        return self.load()

    def within(self, block_bytes: int) -> Source:
        """The matrix in memory, in blocks of this size."""
        return self.loaded.within(block_bytes)

    def outline(self, block_bytes: int) -> Source:
        """The file as it is."""
        return self

    def block_memory(self, block_bytes: int, transpose: bool = False) -> int:
        """Bytes of blocks that have to be converted."""
        return 2 * block_bytes if self.columnwise or self.contents.dtype != self.dtype else 0

    def blocks(self, rng: Rng | None = None) -> Iterator[tuple[int, Any]]:
        """The blocks of the matrix in memory."""
        return self.loaded.blocks(rng)

    def reduce(self, accumulator: A, rng: Rng | None = None) -> A:
        """A pass over the matrix in memory."""
        return self.loaded.reduce(accumulator, rng)

    def sample(self, rows: int, rng: Rng) -> tuple[Array, Any, int]:
        """Some rows of the matrix in memory."""
        return self.loaded.sample(rows, rng)

    def transposed(self) -> Source:
        """The transpose of the matrix in memory."""
        return self.loaded.transposed()
