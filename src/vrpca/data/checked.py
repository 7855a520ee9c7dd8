"""Sources that users write: their promises are checked, in the one place where blocks are handed out."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.source import A, Source, check_finite, check_shape
from vrpca.data.sparse_parts import canonical, check_parts
from vrpca.errors import DataError
from vrpca.typing import Array, Rng

PAIRS = "It must yield pairs: the number of the first row, and a block of rows"
# Fingerprints of two passes may differ by this multiple of the rounding unit. Rows that are computed anew for every
# pass, with sums in another order, differ by some tens of units. One other row among n differs by about 1/n.
CHANGED = 1000
# Fingerprints of all entries took 10 to 50% of a pass over blocks that lie in memory. So rows and columns are sampled:
# every sixteenth at most, and no fewer than this.
SAMPLED, SPARSEST = 4096, 16
GOLDEN, SILVER = (5**0.5 - 1) / 2, 2**0.5 - 1  # multiples of irrational numbers, modulo 1, look like random numbers


class Fingerprint:
    """``sum_ij g_i x_ij h_j``: the same in every pass, and for the transposed matrix with g and h exchanged.

    The weights g and h depend on the numbers of rows and columns alone. They lie between 0.5 and 1.5 for those that are
    sampled, and are 0 for the others.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype, transposed: bool):
        self.turn, column_turn = (SILVER, GOLDEN) if transposed else (GOLDEN, SILVER)
        self.axes = ("column", "row") if transposed else ("row", "column")
        self.step, column_step = _step(shape[0]), _step(shape[1])
        self.columns = np.zeros(shape[1], dtype)
        self.columns[::column_step] = _weights(0, shape[1], column_step, column_turn)
        self.value, self.size = 0.0, 0.0

    def add(self, start: int, X: Any) -> None:
        """Take in a block; raise if an entry of its sampled rows is not finite."""
        first = -start % self.step
        with np.errstate(over="ignore", invalid="ignore"):
            along = (X[first :: self.step] @ self.columns).astype(np.float64)
            weights = _weights(start + first, start + X.shape[0], self.step, self.turn)
            self.value += weights @ along
            self.size += weights @ np.abs(along)
        if not np.isfinite(self.size):  # or numbers are so large that their sum overflows
            check_finite(start, X, self.axes)

    def agrees(self, other: Fingerprint) -> bool:
        """Whether two passes have seen the same rows, as far as can be told."""
        rounding = CHANGED * float(np.finfo(self.columns.dtype).eps)
        return not abs(self.value - other.value) > rounding * max(self.size, other.size)


def _step(count: int) -> int:
    """The distance between two rows, or columns, that are sampled."""
    return max(1, min(count // SAMPLED, SPARSEST))


def _weights(start: int, stop: int, step: int, turn: float) -> Array:
    turned = np.arange(start, stop, step) * turn
    return turned - np.floor(turned) + 0.5


class CheckedSource(Source):
    """A source that hands out the blocks of another one, each of them checked.

    Every row must come once in every pass, as a block of the promised form, and be the same as in the first pass.
    """

    trusted = True

    def __init__(self, source: Source, original: CheckedSource | None = None):
        self.source, self.name = source, type(source).__name__
        self.shape, self.dtype = self._checked_shape(), self._checked_dtype()
        for name in (
            "sparse",
            "columnwise",
            "wide_at",
            "slow_to_read",
            "gather_rows",
            "neighbours",
            "held_bytes",
            "unlimited",
        ):
            setattr(self, name, getattr(source, name))
        self.row_names = self._checked_names("row_names", source.row_names, self.shape[0])
        self.column_names = self._checked_names("column_names", source.column_names, self.shape[1])
        self.original = self if original is None else original  # this source, or the one that it is the transpose of
        self.known: Fingerprint | None = None  # of the first pass over the original
        self.block = None if source.block is None else self._checked(source.block, self.shape[0])

    def _checked_shape(self) -> tuple[int, int]:
        try:
            n, d = (operator.index(count) for count in self.source.shape)
        except (AttributeError, TypeError, ValueError):
            raise DataError(f"{self.name}.shape must be two whole numbers: of rows and of features.") from None
        check_shape((n, d))
        return n, d

    def _checked_names(self, what: str, names: Any, count: int) -> Any:
        if names is not None and (len(names) != count or not isinstance(names[0], str)):
            raise DataError(f"{self.name}.{what} must be {count} names (str), or None.")
        return names

    def _checked_dtype(self) -> np.dtype:
        try:
            dtype = np.dtype(self.source.dtype)
            sound = self.source.dtype is not None and dtype in (np.float32, np.float64) and dtype.isnative
        except (AttributeError, TypeError):
            sound = False
        if not sound:
            raise DataError(f"{self.name}.dtype must be numpy.dtype('float32') or numpy.dtype('float64').")
        return dtype

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return self.source.entries

    @property
    def by_columns(self) -> bool:
        """As the source says."""
        return self.source.by_columns

    @property
    def by_rows(self) -> bool:
        """As the source says."""
        return self.source.by_rows

    def blocks(self, rng: Rng | None = None) -> Iterator[tuple[int, Any]]:
        """Yield (first row, checked block)."""
        seen: dict[int, int] = {}  # where blocks end, by their first rows
        found = Fingerprint(self.shape, self.dtype, self.original is not self)
        for pair in self._pairs(rng):
            start, X = self._checked_pair(pair)
            if X.shape[0] == 0:
                continue
            if start in seen:
                raise DataError(f"{self.name}.blocks yielded row {start} twice in one pass. Every row must come once.")
            seen[start] = start + X.shape[0]
            found.add(start, X)
            yield start, X
        self._check_rows(seen)
        self._compare(found)

    def _check_rows(self, seen: dict[int, int]) -> None:
        """Raise unless the blocks of a pass have every row once."""
        n, rows, row = self.shape[0], sum(stop - start for start, stop in seen.items()), 0
        while row in seen:
            row = seen.pop(row)
        if rows != n:
            raise DataError(f"The source has {n} rows, but its blocks have {rows}: {self.name}.blocks must yield all.")
        if row != n:
            raise DataError(f"{self.name}.blocks yielded some rows twice, and left out row {row}. Each must come once.")

    def _pairs(self, rng: Rng | None) -> Iterator[Any]:
        pairs = self.source.blocks(rng)
        if not hasattr(pairs, "__iter__"):
            raise DataError(f"{self.name}.blocks returned {_kind(pairs)}. {PAIRS}.")
        return iter(pairs)

    def _checked_pair(self, pair: Any) -> tuple[int, Any]:
        try:
            start, X = pair
            start = operator.index(start)
        except (TypeError, ValueError):
            raise DataError(f"{self.name}.blocks yielded {_kind(pair)}. {PAIRS}.") from None
        X = self._checked(X)
        if start < 0 or start + X.shape[0] > self.shape[0]:
            where = f"rows {start} to {start + X.shape[0] - 1}"
            raise DataError(f"The source has {self.shape[0]} rows, but {self.name}.blocks yielded {where}.")
        return start, X

    def _checked(self, X: Any, rows: int | None = None) -> Any:
        """A block, of so many rows if given; raise unless it has the promised form."""
        promised = f"a CSR matrix of {self.dtype}" if self.sparse else f"a C-ordered array of {self.dtype}"
        kind = sp.issparse(X) and X.format == "csr" if self.sparse else type(X) in (np.ndarray, np.memmap)
        if not kind:
            remedy = "Convert it, or set `sparse` to what blocks are"
            raise DataError(f"A block of {self.name} is {_kind(X)}, not {promised}. {remedy}.")
        if self.sparse:
            check_parts(X)
            X = canonical(X)
        if X.ndim != 2 or X.shape[1] != self.shape[1]:
            raise DataError(f"The source has {self.shape[1]} features, but a block of {self.name} has shape {X.shape}.")
        if rows not in (None, X.shape[0]):
            raise DataError(f"{self.name} was asked for {rows} rows, but gave {X.shape[0]}: it must give all of them.")
        if X.dtype != self.dtype or not (self.sparse or (X.flags.c_contiguous and X.flags.aligned)):
            remedy = f"Yield {'X.astype(dtype)' if self.sparse else 'numpy.ascontiguousarray(X, dtype)'}"
            raise DataError(f"A block of {self.name} has type {X.dtype} or another order, not {promised}. {remedy}.")
        return X

    def _compare(self, found: Fingerprint) -> None:
        """Raise if a pass has seen other rows than the first one."""
        known = self.original.known
        if known is None:
            self.original.known = found
        elif not found.agrees(known):
            side = "" if self.original is self else f" The matrix of {self.original.name}.transposed counts, too."
            raise DataError(
                f"{self.original.name} gave other rows than in the first pass: every pass must give the same numbers."
                f"{side}"
            )

    def reduce(self, accumulator: A, rng: Rng | None = None) -> A:
        """One pass; a source with a way of its own goes that way, and what it does is not checked."""
        if type(self.source).reduce is not Source.reduce:
            return self.source.reduce(accumulator, rng)
        return super().reduce(accumulator, rng)

    def gather(self, numbers: Array) -> Any:
        """The rows with these numbers, checked."""
        X = self._checked(self.source.gather(numbers), len(numbers))
        check_finite(numbers, X)
        return X

    def sample(self, rows: int, rng: Rng) -> tuple[Array, Any, int]:
        """Some rows at random; a source with a way of its own goes that way."""
        if type(self.source).sample is Source.sample:
            return super().sample(rows, rng)
        numbers, X, fetched = self.source.sample(rows, rng)
        return numbers, self._checked(X, len(numbers)), fetched

    def without_empty_columns(self, least_saving: float) -> tuple[Source, Array | None]:
        """As the source does it."""
        smaller, kept = self.source.without_empty_columns(least_saving)
        return (self, None) if kept is None else (CheckedSource(smaller), kept)

    def transposed(self) -> Source:
        """The transposed matrix as a source, which is checked as well."""
        other = self.source.transposed()
        if not isinstance(other, Source):
            raise DataError(f"{self.name}.transposed returned {_kind(other)}. It must return a vrpca.Source.")
        flipped = CheckedSource(other, self if self.original is self else None)
        if flipped.shape != self.shape[::-1] or flipped.dtype != self.dtype:
            found = f"of shape {flipped.shape} and {flipped.dtype}"
            wanted = f"shape {self.shape[::-1]} and {self.dtype}"
            raise DataError(f"{self.name}.transposed returned a source {found}. It must have {wanted}.")
        return flipped


def _kind(X: Any) -> str:
    """What something is, for messages."""
    return f"a {X.format} matrix" if sp.issparse(X) else "None" if X is None else f"a {type(X).__name__}"
