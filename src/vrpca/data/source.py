"""The data protocol: a source hands out the rows of a matrix, block by block.

A new source is a subclass of `Source` with `blocks` and `transposed`. Everything else has a default.
"""

from __future__ import annotations

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse as sp

from vrpca.errors import DataError, NotFiniteError
from vrpca.linalg import aligned_zeros
from vrpca.typing import Array, Rng

INDEX_BYTES = 4  # of a column number beside a stored entry, in most data
PIECE_BYTES = 1 << 20  # size of a piece: it stays in a second-level cache, which has 512 kB to 2 MB today


class Accumulator(Protocol):
    """What reads data: a plain value that takes in rows, in any order, and can be pickled.

    A source in memory feeds one accumulator with all blocks. Where rows lie apart, each place feeds a copy of the empty
    accumulator, and `merge` puts the copies together. `Reduction` says how copies travel.
    """

    def add(self, start: int, X: Any) -> None:
        """Take in the block X, whose first row is row number `start` of the source."""
        ...

    def merge(self, other: Any) -> None:
        """Take in what another accumulator of the same kind has seen."""
        ...

    def result(self) -> Any:
        """What was asked for, once all rows have been seen."""
        ...


A = TypeVar("A", bound=Accumulator)


@dataclass(frozen=True)
class Zeros:
    """An array of zeros, before it is made."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def made(self, rows: int | None = None) -> Array:
        """The array; with another number of rows, if given."""
        return aligned_zeros(self.shape if rows is None else (rows, *self.shape[1:]), self.dtype)


class Reduction:
    """The base of accumulators: how an empty one is sent to where rows lie, and what it has summed up comes back.

    `shared` is the same for all places. `of_rows` is what one place has to know of its own rows. `opened` makes an
    empty accumulator of the two, there. `closed` leaves nothing but sums, and `merge` takes those in.
    """

    inputs: ClassVar[tuple[str, ...]] = ()  # attributes that `add` needs, and `merge` does not
    per_row: ClassVar[tuple[str, ...]] = ()  # the same with an entry for every row; they may be None
    sums: ClassVar[tuple[str, ...]] = ()  # large arrays that are zero in an empty accumulator; they may be None
    row_sums: ClassVar[tuple[str, ...]] = ()  # the same with an entry, or a row, for every row
    n_threads: int = 1
    placed = False  # whether it is for some of the rows alone, which it counts from zero
    first_row = 0  # the number of the first one of them

    def __sizeof__(self) -> int:
        """Bytes with the arrays: schedulers decide by that where to merge."""
        parts = vars(self).values()
        return object.__sizeof__(self) + sum(x.nbytes if isinstance(x, np.ndarray) else sys.getsizeof(x) for x in parts)

    def shared(self) -> Self:
        """A copy to send: without what belongs to single rows, and without zeros."""
        other = copy.copy(self)
        for name in self.per_row:
            setattr(other, name, None)
        for name in (*self.sums, *self.row_sums):
            array = getattr(self, name)
            setattr(other, name, None if array is None else Zeros(array.shape, array.dtype))
        return other

    def of_rows(self, rows: slice) -> Any:
        """What it has to know of some rows."""
        return [None if (array := getattr(self, name)) is None else array[rows] for name in self.per_row]

    def opened(self, rows: slice, known: Any, n_threads: int) -> Self:
        """An empty accumulator for these rows alone, made of what is shared and what is known of the rows."""
        inputs = [getattr(self, name) for name in self.inputs]
        other = copy.deepcopy(self, {id(value): value for value in inputs})  # inputs are not copied
        for name, array in zip(self.per_row, known, strict=True):
            setattr(other, name, array)
        for name in (*self.sums, *self.row_sums):
            zeros = getattr(self, name)
            count = rows.stop - rows.start if name in self.row_sums else None
            setattr(other, name, None if zeros is None else zeros.made(count))
        other.placed, other.first_row, other.n_threads = True, rows.start, n_threads
        return other

    def reseed(self, rng: Rng) -> None:
        """Draw from this generator, where anything is drawn."""

    def closed(self) -> Self:
        """The accumulator without its inputs, once all rows have been seen."""
        for name in (*self.inputs, *self.per_row):
            setattr(self, name, None)
        return self

    def join(self, name: str, other: Any) -> None:
        """Merge an array with an entry for every row: the next rows follow. Where none are apart, the unseen are zero.

        Accumulators for some of the rows alone are merged in the order of their rows.
        """
        mine, others = getattr(self, name), getattr(other, name)
        if mine is not None and others is not None:
            setattr(self, name, np.concatenate([mine, others]) if self.placed else _added(mine, others))


def _added(one: Array, other: Array) -> Array:
    one += other
    return one


class ArraySum(Reduction):
    """The base of accumulators whose result is one array: a sum, or a place for each row, zero until it is seen."""

    sums: ClassVar[tuple[str, ...]] = ("out",)
    out: Array

    def merge(self, other: Any) -> None:
        """Take in what another accumulator has seen."""
        if "out" in self.row_sums:
            self.join("out", other)
        else:
            self.out += other.out

    def result(self) -> Any:
        """The array."""
        return self.out


class Source(ABC):
    """A matrix whose rows can be walked, block by block.

    Data of your own become a source by a subclass with a shape, a dtype, `blocks` and `transposed`. Its promises are
    checked: attributes at once, every block when it is handed out, the rows at the end of every pass, and a weighted
    sum of entries against the first pass: of all rows, or of every sixteenth where there are many. A pass that gives
    other rows is refused. Changes that this sum does not show, or shows as rounding, are not noticed. A source with a
    `reduce` of its own checks its blocks itself. The guide "Coming from scikit-learn" has an example of a source.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of features.
    dtype : numpy.dtype
        float32 or float64: the type of the blocks.
    sparse : bool
        Whether blocks are CSR matrices.
    block : array, CSR matrix or None
        All rows as one block, where they lie in memory as they are handed out.
    columnwise : bool or None
        Whether the entries of a column lie together, so that the transposed matrix is cheaper to walk. None if neither
        side is cheaper.
    wide_at : float
        How many features per row make the transposed matrix the better one to draw rows from.
    slow_to_read : bool
        Whether reading costs more than arithmetic.
    sample_bytes : float
        The most bytes of a sample that is worth its way here.
    elsewhere : bool
        Whether rows lie in other processes: what is kept for each row has a long way.
    trusted : bool
        Whether the source is one of this package, whose blocks need no check.
    passes_to_open : int
        Passes over the data that were made before the first one, to find out what they are.
    gather_rows : int
        How many rows to gather at a time; 0 where rows cannot be gathered from anywhere.
    neighbours : int
        How many consecutive rows cost about as much to gather as one.
    held_bytes : int
        Memory that the source takes for good, apart from data that the user holds already.
    reads_files : bool
        Whether blocks are read from files into buffers.
    unlimited : str or None
        Why a memory limit cannot be kept, and what to do, where it cannot.
    row_names, column_names : sequence of str or None
        Names of samples and features, where the data have them.
    name : str
        The file that the data come from, for messages; empty for data in memory.
    genotypes_scaled : bool or None
        Whether genotypes are divided by their deviations; None for data that are no genotypes.
    alleles : sequence of str or None
        The two alleles of each variant, as ``"A/G"``, where genotypes have them: the first one is counted.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool = False
    block: Any = None
    columnwise: bool | None = None
    wide_at: float = 1.0
    slow_to_read: bool = False
    sample_bytes: float = float("inf")
    elsewhere: bool = False
    trusted: bool = False
    passes_to_open: int = 0
    gather_rows: int = 0
    neighbours: int = 1
    held_bytes: int = 0
    reads_files: bool = False
    unlimited: str | None = None
    row_names: Sequence[str] | None = None
    column_names: Sequence[str] | None = None
    name: str = ""
    genotypes_scaled: bool | None = None
    alleles: Sequence[str] | None = None

    @abstractmethod
    def blocks(self, rng: Rng | None = None) -> Iterator[tuple[int, Any]]:
        """Yield (number of the first row, block) over all rows, in order, or in random order with `rng`.

        A block is a C-ordered array or a CSR matrix of this source's dtype. A source that can hand out everything at
        once without a copy yields one block.
        """

    @abstractmethod
    def transposed(self) -> Source:
        """Return the transposed matrix as a source."""

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return self.shape[0] * self.shape[1]

    @property
    def most_sampled(self) -> int:
        """The most rows that a sample should have."""
        return int(min(self.shape[0], self.sample_bytes / max(1.0, self.bytes_per_row)))

    @property
    def bytes_per_row(self) -> float:
        """Bytes of a row as it is handed out, on average: with column numbers where it is sparse."""
        return self.entries * (self.dtype.itemsize + (INDEX_BYTES if self.sparse else 0)) / self.shape[0]

    def block_memory(self, block_bytes: int, transpose: bool = False) -> int:
        """Bytes that blocks take beside the data, if they may have this size each; none where they are the data.

        With `transpose`, the first pass is over the rows, and the others are over the transposed matrix.
        """
        return 0

    def rows_of_blocks(self, block_bytes: int) -> int:
        """Rows of a block, if blocks may have this size."""
        return (
            self.shape[0]
            if self.block is not None
            else max(1, min(self.shape[0], int(block_bytes / max(1, self.bytes_per_row))))
        )

    def within(self, block_bytes: int) -> Source:
        """The source with blocks of no more than this number of bytes, as far as that is possible."""
        return self

    def outline(self, block_bytes: int) -> Source:
        """The same for a plan: what has to be loaded is not loaded for it."""
        return self.within(block_bytes)

    @property
    def by_columns(self) -> bool:
        """Whether a pass over rows would take many readings of the data: the transposed matrix is walked instead."""
        return False

    @property
    def by_rows(self) -> bool:
        """Whether a pass over the transposed matrix would take many readings of the data."""
        return False

    def place(self, row: int) -> str:
        """The file that a row lies in, and where; empty for data in memory."""
        return self.name

    def file_names(self) -> Sequence[str]:
        """The names by which messages know the data."""
        return [self.name]

    def reduce(self, accumulator: A, rng: Rng | None = None) -> A:
        """Feed all rows to an accumulator: one pass. Return the accumulator."""
        for start, X in self.blocks(rng) if self.block is None else [(0, self.block)]:
            accumulator.add(start, X)
        return accumulator

    def head(self, rows: int) -> Any:
        """The first rows: so many, if the first block has them."""
        return next(iter(self.blocks()))[1][:rows]

    def gather(self, numbers: Array) -> Any:
        """The rows with these sorted numbers as a block. Only where `gather_rows` is not 0."""
        raise TypeError(f"{type(self).__name__} cannot gather rows: gather_rows is {self.gather_rows}.")

    def sample(self, rows: int, rng: Rng) -> tuple[Array, Any, int]:
        """Some rows at random, without replacement: their numbers, themselves, and how many were read for that.

        Where rows come in blocks that have to be fetched, they are the rows of a few blocks.
        """
        n = self.shape[0]
        if self.gather_rows:
            index = np.sort(rng.choice(n, rows, replace=False))
            return index, self.gather(index), rows
        numbers, parts, fetched = [], [], 0
        for start, X in self.blocks(rng) if self.block is None else [(0, self.block)]:
            if X.shape[0] == n:
                index = np.sort(rng.choice(n, rows, replace=False))
                return index, X[index], rows if self.block is not None else n
            numbers.append(np.arange(start, start + X.shape[0]))
            parts.append(X)
            fetched += X.shape[0]
            if fetched >= rows:
                break
        together = sp.vstack(parts) if sp.issparse(parts[0]) else np.vstack(parts)
        return np.concatenate(numbers), together, fetched

    def allele_frequencies(self) -> Array | None:
        """The frequencies of the alleles that genotypes count; None for other data."""
        return None

    def with_allele_frequencies(self, frequencies: Array, scaled: bool) -> Source:
        """Genotypes that are filled, and scaled if asked for, by these frequencies; other data as they are."""
        return self

    def without_empty_columns(self, least_saving: float) -> tuple[Source, Array | None]:
        """The source without its empty columns, and the numbers of the columns that are left.

        Parameters
        ----------
        least_saving : float
            Bytes that a run saves for each column that is left out. The source compares them with the bytes that a
            narrower copy takes, and returns itself and None where it does not pay.
        """
        return self, None


def check_matrix(X: Any) -> np.dtype:
    """The type in which to work with X; raise unless X is a matrix of numbers, and not empty."""
    check_shape(X.shape)
    return working_dtype(X.dtype)


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
        remedy = "X.reshape(-1, 1) if it has a single feature, X.reshape(1, -1) if it is a single sample"
        if len(shape) > 2:
            remedy = "X.reshape(len(X), -1) makes a row of each sample"
        raise DataError(f"Expected a 2D array, got an array of shape {shape}. Reshape your data: {remedy}.")
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count < 1:
            raise DataError(f"Found array with {count} {what}(s) (shape={shape}) while a minimum of 1 is required.")


def check_finite(where: int | Array, X: Any, axes: tuple[str, str] = ("row", "column")) -> None:
    """Raise, with the place, if an entry of a block is not finite.

    `where` is the number of the block's first row, or has the numbers of all of its rows. `axes` says what the rows and
    columns of the block are to the user.
    """
    values = X.data if sp.issparse(X) else X
    if np.isfinite(values).all():
        return
    bad = tuple(np.argwhere(~np.isfinite(values))[0])
    row, column = bad if not sp.issparse(X) else (np.searchsorted(X.indptr, bad[0], side="right") - 1, X.indices[bad])
    number = int(where[row] if isinstance(where, np.ndarray) else where + row)
    what = "NaN" if np.isnan(values[bad]) else "infinity"
    raise NotFiniteError(what, {axes[0]: number, axes[1]: int(column)})


@contextmanager
def naming_columns(names: Sequence[str] | None, kept: Array | None = None) -> Iterator[None]:
    """Let the error about an entry that is not finite name its column, where columns have names.

    `kept` has the numbers of the columns that are read, where some are left out.
    """
    try:
        yield
    except NotFiniteError as error:
        column = error.places["column"]
        if not isinstance(column, int):
            raise
        column = column if kept is None else int(kept[column])
        raise error.in_column(column if names is None else names[column]) from None


@contextmanager
def errors_named(source: Source) -> Iterator[None]:
    """Let errors about data from a file name the file; one that names it already stays as it is."""
    try:
        yield
    except NotFiniteError as error:
        place = "" if error.file else source.place(int(error.places["row"]))
        if not place:
            raise
        raise error.in_file(place) from None
    except DataError as error:
        if not source.name or any(name in str(error) for name in source.file_names()):
            raise
        raise DataError(f"{source.name}: {error}") from error


def walk(n: int, rows: int, rng: Rng | None) -> Iterator[slice]:
    """Yield slices of at most `rows` rows that cover 0..n, in order or, with `rng`, in random order."""
    starts = np.arange(0, n, max(rows, 1))
    if rng is not None:
        rng.shuffle(starts)
    for start in starts.tolist():
        yield slice(start, min(start + rows, n))


def pieces(X: Any, rng: Rng | None, least: int = 64) -> Iterator[tuple[int, Any]]:
    """Cut a block into pieces that stay in the cache: (first row, piece), in order or, with `rng`, in random order.

    A piece has at least `least` rows, even where they do not fit in the cache.
    """
    n = X.shape[0]
    size = (X.nnz * 2 if sp.issparse(X) else X.size) * X.dtype.itemsize
    for rows in walk(n, max(least, n * PIECE_BYTES // max(size, 1)), rng):
        yield rows.start, X if rows == slice(0, n) else X[rows]
