"""The rows that a solver sees: centred, scaled and weighted without touching the data, on the cheaper side of X.

A view stands for the matrix Z with rows ``z_i = a_i (x_i * s - b_i m)`` and for ``A = Z^T Z / n``. It is normalised so
that ``tr A = 1``: solvers work in pure numbers, whatever the scale of the data.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.gram import CANCELS, few_entries
from vrpca.data.mapped import MappedRows
from vrpca.data.moments import Moments
from vrpca.data.rowmap import RowMap
from vrpca.data.source import Source, as_source, leaves_out_zeros, pieces, stored_entries
from vrpca.data.stream import Stream
from vrpca.errors import DataError
from vrpca.linalg import aligned_zeros
from vrpca.threads import in_parallel

PIECE = 32768  # row numbers drawn at a time
CHUNK = 1024  # rows that are squared at a time
LEAST = 1e-12  # a unit below this (or above its inverse) goes into the columns: squares of raw entries may overflow


@dataclass(frozen=True)
class Block:
    """Rows of a view, in the form that the kernels take: a slice of them, or those with the numbers `where`."""

    where: slice | np.ndarray
    length: int
    rows: Any

    def cut(self, per_row: np.ndarray | None) -> np.ndarray | None:
        """The part of a per-row array that belongs to this block: a view of it for a slice, else a copy."""
        return None if per_row is None else per_row[self.where]


class View:
    """Z, walked block by block; counts every row it reads.

    Parameters
    ----------
    source : Source
        Where the rows come from.
    row_map : RowMap
        Centring, scaling, weights.
    frobenius : float
        ``|Z|_F`` before normalisation.
    n_threads : int
        Threads of the products.
    support : numpy.ndarray or None
        Which columns of Z are not zero, where known.
    """

    def __init__(
        self,
        source: Source,
        row_map: RowMap,
        frobenius: float,
        n_threads: int,
        support: np.ndarray | None = None,
    ):
        self.source = source
        self.n, self.d = source.shape
        self.dtype = source.dtype
        self.map = row_map
        self.frobenius = frobenius
        self.unit = np.sqrt(self.n) / frobenius
        if not LEAST < self.unit < 1 / LEAST:
            self._absorb_unit()
        self._round_scale()
        self.n_threads = n_threads
        self.support = support
        self.cancellation = 1.0  # how much larger the numbers are than what centring leaves of them, if it comes late
        self.rows_read = 0
        self.A: np.ndarray | None = None  # where it is known already
        self.known: tuple[np.ndarray, np.ndarray] | None = None  # an orthonormal block and its product with A, likewise
        self._whole: Block | None = None
        self._norms: np.ndarray | None = None

    def _absorb_unit(self) -> None:
        """Multiply every entry by the unit before anything else is done with it."""
        old, d = self.map, self.d
        scale = np.full(d, self.unit) if old.col_scale is None else old.col_scale * self.unit
        shift = None if old.shift is None else old.shift * self.unit
        self.map = RowMap(scale, shift, old.row_scale, old.row_shift)
        self.unit = 1.0

    def _round_scale(self) -> None:
        """The column scale as the kernels take it, and the shift to go with its rounded numbers: means must cancel."""
        self.scale, self.shift = None, self.map.shift
        if self.map.col_scale is None:
            return
        exact = self.map.col_scale
        with np.errstate(over="ignore"):
            self.scale = exact.astype(self.dtype)
        if not np.isfinite(self.scale).all():
            raise DataError(f"X, or one of its columns, is too small for {self.dtype}: multiply it by a power of ten.")
        if self.shift is not None:
            self.shift = self.shift * np.divide(self.scale, exact, out=np.ones_like(exact), where=exact != 0)

    @property
    def rounding(self) -> float:
        """Relative rounding of products with A."""
        return float(np.finfo(self.dtype).eps) * self.cancellation

    @property
    def entries(self) -> int:
        """Number of stored entries of the data."""
        return stored_entries(self.source)

    @property
    def passes(self) -> float:
        """Readings of all the data so far, fractions included."""
        return self.rows_read / self.n

    def blocks(self, rng: np.random.Generator | None = None) -> Iterator[Block]:
        """Walk over all rows, in order or in random block order."""
        if self._whole is not None:
            yield self._whole
            return
        for start, X in self.source.blocks(rng):
            block = self._block(slice(start, start + X.shape[0]), X)
            if X.shape[0] == self.n:
                self._whole = block
            yield block

    def _block(self, where: slice | np.ndarray, X: Any) -> Block:
        m = self.map.cut(where)
        rows = kernels.make_rows(X, self.scale, self.shift, m.row_scale, m.row_shift, self.unit)
        return Block(where, X.shape[0], rows)

    def product(self, W: np.ndarray, P: np.ndarray | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """Return ``A W`` by one reading, in `out` if given; `P` (n x l), if given, receives ``Z W``."""
        U = aligned_zeros(W.shape, self.dtype) if out is None else out
        U[...] = 0
        for block in self.blocks():
            kernels.product(block.rows, W, U, block.cut(P), self.n_threads)
        self.rows_read += self.n
        U /= self.n
        return U

    @property
    def norms_known(self) -> bool:
        """Whether the row norms have been read."""
        return self._norms is not None

    def row_norms(self) -> np.ndarray:
        """Return every ``|z_i|^2`` (their mean is 1); read once, then kept."""
        if self._norms is None:
            self._norms = np.empty(self.n)
            for block in self.blocks():
                kernels.row_norms(block.rows, block.cut(self._norms))
            self.rows_read += self.n
        return self._norms

    def samples(self, m: int, rng: np.random.Generator, sampling: str) -> Iterator[tuple[Block, np.ndarray]]:
        """Draw m rows, with replacement: yield (block, row numbers within it).

        Rows are drawn uniformly or, for ``sampling="norm"``, by their squared norms. A source that is one block is
        sampled exactly as the paper does. One that can gather rows from anywhere comes close to that, whatever the
        order of its rows; others are sampled block after block, in random order.
        """
        norms = self.row_norms() if sampling == "norm" else None
        return self._gathered(m, rng, norms) if self._gathers else self._block_after_block(m, rng, norms)

    @property
    def _gathers(self) -> bool:
        return getattr(self.source, "gather", None) is not None

    def _gathered(
        self, m: int, rng: np.random.Generator, norms: np.ndarray | None
    ) -> Iterator[tuple[Block, np.ndarray]]:
        source: Any = self.source
        parts = _dealt(self.n, source.rows, source.run, m, rng) if norms is None else _drawn(norms, source.rows, m, rng)
        for numbers, order in parts:
            self.rows_read += len(order)
            yield self._block(numbers, source.gather(numbers)), order

    def _block_after_block(
        self, m: int, rng: np.random.Generator, norms: np.ndarray | None
    ) -> Iterator[tuple[Block, np.ndarray]]:
        """Give every block its share of the m draws: by rows, or by squared norms."""
        whole = self.n if norms is None else norms.sum()
        done, seen = 0, 0.0
        for block in self.blocks(rng):
            inside = block.cut(norms)
            seen += block.length if inside is None else inside.sum()
            share = round(m * min(seen / whole, 1.0)) - done
            done += share
            cumulative = None if inside is None else np.cumsum(inside)
            for piece in range(0, share, PIECE):
                yield block, _draw(block.length, cumulative, min(PIECE, share - piece), rng)
            # a block that had to be fetched was read whole, and once, however many of its rows were drawn
            self.rows_read += share if self._whole is not None else block.length

    def passes_of_samples(self, m: int) -> float:
        """Readings of the data that m draws take."""
        return m / self.n if self._whole is not None or self._gathers else 1.0

    def show(self, stream: Stream, rng: np.random.Generator) -> None:
        """Show every row to a stream, by one reading in random block order."""
        for start, X in self.source.blocks(rng):
            for lo, piece in pieces(X, rng):
                rows = slice(start + lo, start + lo + piece.shape[0])
                stream.see(piece, self.map.cut(rows), self.unit)
        self.rows_read += self.n

    def sample(self, rows: int, rng: np.random.Generator) -> View:
        """A view of so many rows, drawn at random without replacement and gathered: reading it is not reading the data.

        Where rows come in blocks that have to be fetched, they are the rows of a few blocks.
        """
        index, X, fetched = draw(self.source, rows, rng)
        self.rows_read += fetched
        part = copy.copy(self)
        part.source, part.n, part.rows_read = as_source(X), len(index), 0
        part.map = self.map.cut(index)
        part.A = part.known = part._whole = part._norms = None
        return part

    def importance(self, sampling: str) -> np.ndarray | None:
        """Return the weight of each row's step, ``mean |z|^2 / |z_i|^2``, or None where all weights are 1."""
        if sampling == "uniform":
            return None
        norms = self.row_norms()
        return np.divide(norms.mean(), norms, out=np.zeros_like(norms), where=norms > 0)

    def gram(self) -> np.ndarray:
        """Return A itself (d x d), in double precision, by one reading."""
        A = np.zeros((self.d, self.d))
        for start, X in self.source.blocks():
            for part in self._squares(start, X):
                A += part
        self.rows_read += self.n
        return A / self.n

    def _squares(self, start: int, X: Any) -> Iterator[np.ndarray]:
        """``Z^T Z`` of parts of a block: of all of it where zeros are worth leaving out, and a late mean cancels."""

        def square(lo: int, hi: int) -> np.ndarray:
            rows = (X[lo:hi].toarray() if densely and sp.issparse(X) else X[lo:hi]).astype(np.float64)
            return MappedRows(rows, self.map.cut(slice(start + lo, start + hi)), self.unit).square()

        n = X.shape[0]
        densely = not few_entries(X) or self.cancellation**2 > CANCELS
        step = CHUNK if densely else n
        for first in range(0, n, step * self.n_threads):  # no more results than threads at a time
            lows = range(first, min(first + step * self.n_threads, n), step)
            yield from in_parallel(self.n_threads, square, lows, [min(lo + step, n) for lo in lows])


def draw(source: Source, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, Any, int]:
    """Some rows at random, without replacement: their numbers, themselves, and how many were read for that.

    Where rows come in blocks that have to be fetched, they are the rows of a few blocks.
    """
    n, gather = source.shape[0], getattr(source, "gather", None)
    if gather is not None:
        index = np.sort(rng.choice(n, rows, replace=False))
        return index, gather(index), rows
    numbers, parts, fetched = [], [], 0
    for start, X in source.blocks(rng):
        if X.shape[0] == n:
            index = np.sort(rng.choice(n, rows, replace=False))
            return index, X[index], rows
        numbers.append(np.arange(start, start + X.shape[0]))
        parts.append(X)
        fetched += X.shape[0]
        if fetched >= rows:
            break
    together = sp.vstack(parts) if sp.issparse(parts[0]) else np.vstack(parts)
    return np.concatenate(numbers), together, fetched


def _dealt(n: int, rows: int, run: int, m: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (row numbers, draws from them), m draws in all: runs of rows are dealt out at random, `rows` at a time.

    Each row is fetched once per n draws: dealing comes close to drawing from all rows at a fraction of the price.
    """
    run = max(1, min(run, rows // 8))  # a hand of several runs at least
    while m > 0:
        starts = rng.permutation(np.arange(0, n, run))
        while m > 0 and len(starts):
            hand, starts = np.split(starts, [min(rows // run, -(-m // run))])
            numbers = (np.sort(hand)[:, None] + np.arange(run)).ravel()
            numbers = numbers[numbers < n]
            order = rng.integers(len(numbers), size=min(m, len(numbers)))
            yield numbers, order
            m -= len(order)


def _drawn(norms: np.ndarray, rows: int, m: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (row numbers, draws from them): rows drawn by their squared norms, `rows` at a time."""
    cumulative = np.cumsum(norms)
    for at in range(0, m, rows):
        yield np.unique(_draw(len(norms), cumulative, min(rows, m - at), rng), return_inverse=True)


def _draw(n: int, cumulative: np.ndarray | None, count: int, rng: np.random.Generator) -> np.ndarray:
    if cumulative is None:
        return rng.integers(n, size=count)
    drawn = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
    return np.minimum(drawn, n - 1)


def make_view(
    source: Source,
    moments: Moments,
    *,
    center: bool,
    scale: bool,
    weights: np.ndarray | None,
    transpose: bool,
    n_threads: int,
) -> View:
    """Return the view of a source that centres, scales and weights it; of its transpose with ``transpose=True``."""
    n = source.shape[0]
    row_weight = None if weights is None else np.sqrt(weights * (n / weights.sum()))
    mean = moments.center if center else None
    square = moments.variance if center else moments.second
    inverse = None
    frobenius = np.sqrt(n * square.sum()) / moments.factor
    if scale:
        inverse = 1 / column_scale(moments)
        frobenius = np.sqrt(n * (square * (inverse / moments.factor) ** 2).sum())
    if not transpose:
        shift = None if mean is None else mean if inverse is None else mean * inverse
        view = View(source, RowMap(inverse, shift, row_weight), frobenius, n_threads, square > 0)
    else:
        shift = None if mean is None else np.ones(n) if row_weight is None else row_weight
        view = View(source.transposed(), RowMap(row_weight, shift, inverse, mean), frobenius, n_threads)
    if center and leaves_out_zeros(source):
        view.cancellation = _cancellation(moments, inverse)
    return view


def _cancellation(moments: Moments, inverse: np.ndarray | None) -> float:
    """How much larger the numbers of sparse data are than what centring leaves: they are summed up before it."""
    weight = 1.0 if inverse is None else (inverse / inverse.max()) ** 2
    variance = float((moments.variance * weight).sum())
    return float(np.sqrt((moments.second * weight).sum() / variance)) if variance > 0 else 1.0


def column_scale(moments: Moments) -> np.ndarray:
    """Standard deviation (divisor n) of each column; 1 for columns that are constant up to rounding."""
    deviation = np.sqrt(moments.variance)
    constant = deviation <= 10 * np.finfo(float).eps * np.abs(moments.mean)
    return np.where(constant, 1.0, deviation / moments.factor)
