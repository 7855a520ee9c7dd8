"""What runs where a chunk is: it is made, checked and fed to an accumulator; sums are merged in a fixed order."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.files.base import FileSource
from vrpca.data.frames import is_frame
from vrpca.data.open import as_source
from vrpca.data.source import Source, working_dtype
from vrpca.errors import DataError
from vrpca.threads import blas_threads
from vrpca.typing import Array


@dataclass(frozen=True)
class Recipe:
    """How a chunk is made: the part of a graph that is for this chunk alone. dask does not look into it."""

    graph: dict[Any, Any]
    key: Any

    def made(self) -> Any:
        """The chunk."""
        import dask

        return dask.get(self.graph, self.key)


@dataclass(frozen=True)
class FilePart:
    """Rows of a file that every worker can read, as a chunk."""

    file: FileSource
    rows: slice

    def made(self) -> Any:
        """The rows. Buffers belong to one chunk at a time, so they are read through a copy of the file."""
        return pickle.loads(pickle.dumps(self.file)).read_block(self.rows, 0)


def made(chunk: Any) -> Any:
    """A chunk that may still have to be made: an array, a sparse matrix or a data frame."""
    X = chunk.made() if isinstance(chunk, Recipe | FilePart) else chunk
    if not (isinstance(X, np.ndarray) or sp.issparse(X) or is_frame(X)):
        raise TypeError(f"it is a {type(X).__name__}, not an array, a sparse matrix or a data frame")
    return X


@dataclass(frozen=True)
class Facts:
    """What is known of a chunk."""

    rows: int
    features: int
    dtype: np.dtype  # in which to work with it
    sparse: bool
    entries: int  # that are stored
    nbytes: int  # of the chunk as it is

    @property
    def empty(self) -> bool:
        """Whether it has no rows: so have some partitions of data frames."""
        return self.rows == 0


def facts(chunk: Any) -> Facts:
    """Make a chunk and look at it."""
    X = made(chunk)
    if X.ndim == 2 and X.shape[0] == 0:
        return Facts(0, X.shape[1], np.dtype(np.float32), False, 0, 0)
    source = as_source(X)
    return Facts(*source.shape, source.dtype, source.sparse, source.entries, _nbytes(X, source))


def _nbytes(X: Any, source: Source) -> int:
    if is_frame(X) and hasattr(X, "memory_usage"):  # pandas
        return int(X.memory_usage(index=True, deep=False).sum())
    return int(X.nbytes) if isinstance(X, np.ndarray) else int(source.shape[0] * source.bytes_per_row)


@dataclass(frozen=True)
class Part:
    """Which rows of the data a chunk has, and what they must look like. dask does not look into it."""

    number: int
    start: int
    stop: int
    features: int
    dtype: np.dtype
    sparse: bool

    @property
    def rows(self) -> slice:
        """The numbers of its rows."""
        return slice(self.start, self.stop)

    def __str__(self) -> str:
        return f"chunk {self.number} (rows {self.start} to {self.stop - 1})"

    def blocks(self, chunk: Any) -> Iterator[tuple[int, Any]]:
        """Yield (first row within the chunk, block of the promised form)."""
        try:
            source = as_source(made(chunk))
        except DataError as error:
            raise DataError(f"{self} cannot be used: {error}") from error
        if source.shape != (self.stop - self.start, self.features):
            promised = (self.stop - self.start, self.features)
            raise DataError(f"{self} has shape {source.shape}, not {promised}: every pass must give the same rows.")
        for start, X in source.blocks() if source.block is None else [(0, source.block)]:
            yield start, self._promised(X)

    def _promised(self, X: Any) -> Any:
        """A block in the form that all chunks have: some may be dense or of another type."""
        if sp.issparse(X) and not self.sparse:
            X = X.toarray()
        elif self.sparse and not sp.issparse(X):
            X = sp.csr_array(X)
        return X.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class Work:
    """What a pass does with one chunk, besides what it does with all of them."""

    part: Part
    known: Any  # what the accumulator has to know of these rows
    n_threads: int
    seed: int | None  # of the random numbers of this pass, where it draws any

    def fed(self, chunk: Any, shared: Any) -> Any:
        """What an accumulator has summed up of a chunk."""
        accumulator = shared.opened(self.part.rows, self.known, self.n_threads)
        if self.seed is not None:
            accumulator.reseed(np.random.default_rng([self.seed, self.part.number]))
        with blas_threads(self.n_threads):
            for start, X in self.part.blocks(chunk):
                accumulator.add(start, X)
        return accumulator.closed()


def fed(work: Work, chunk: Any, shared: Any) -> Any:
    """One chunk of a pass."""
    return work.fed(chunk, shared)


def unpacked(value: Any) -> Any:
    """What all chunks of a pass share, after its way in a graph (`Engine.packed`)."""
    return pickle.loads(value) if isinstance(value, bytes) else value


def together(*results: Any) -> list[Any]:
    """Several results as one."""
    return list(results)


def merged(*sums: Any) -> Any:
    """Merge what was summed up of consecutive chunks. The first one is copied: a task may run twice."""
    first = copy.deepcopy(sums[0])
    with blas_threads(1):
        for other in sums[1:]:
            first.merge(other)
    return first


def kept(chunk: Any) -> Any:
    """A chunk that is to stay in memory."""
    return made(chunk)


def some_rows(chunk: Any, part: Part, numbers: Array) -> Any:
    """The rows of a chunk with these sorted numbers, as one block."""
    found = []
    for start, X in part.blocks(chunk):
        inside = numbers[(numbers >= start) & (numbers < start + X.shape[0])]
        found.append(X[inside - start])
    return sp.vstack(found, format="csr") if part.sparse else np.vstack(found)


def block(chunk: Any, part: Part) -> Any:
    """A chunk as one block."""
    found = [X for _, X in part.blocks(chunk)]
    if len(found) == 1:
        return found[0]
    return sp.vstack(found, format="csr") if part.sparse else np.vstack(found)


def rows_of(chunk: Any) -> int:
    """The number of rows of a chunk, to find out whether it can be made."""
    X = made(chunk)
    return int(X.shape[0])


def meta_dtype(dtype: Any) -> np.dtype:
    """The working type of entries of this type."""
    return working_dtype(np.dtype(dtype))
