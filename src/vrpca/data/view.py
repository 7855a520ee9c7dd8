"""The rows that a solver sees: centred, scaled and weighted without touching the data, on the cheaper side of X.

A view stands for the matrix Z with rows ``z_i = a_i (x_i * s - b_i m)`` and for ``A = Z^T Z / n``. It is normalised so
that ``tr A = 1``: solvers work in pure numbers, whatever the scale of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vrpca import kernels
from vrpca.data.first_pass import CANCELS, FirstPass, Moments, MomentSum, read_first
from vrpca.data.gram import SquareSum
from vrpca.data.open import as_source
from vrpca.data.row_map import RowMap
from vrpca.data.sampling import draws, passes_of_draws, sample_rows
from vrpca.data.source import Source
from vrpca.data.stream import MappedStream
from vrpca.errors import DataError
from vrpca.linalg import aligned_zeros

CONSTANT = 64 * float(np.finfo(float).eps)  # a deviation below this part of the mean is the rounding of the mean's sum


@dataclass(frozen=True)
class Problem:
    """What is to be decomposed: the data, and how its rows become rows of Z."""

    source: Source
    weights: np.ndarray | None
    center: bool
    scale: bool
    n_threads: int

    @property
    def rows_that_count(self) -> int:
        """Rows that count."""
        return self.source.shape[0] if self.weights is None else int(np.count_nonzero(self.weights))

    @property
    def weight(self) -> float:
        """Mean weight of a row."""
        return 1.0 if self.weights is None else float(self.weights.mean())

    @property
    def about_zero(self) -> bool:
        """Whether nothing asks for the means."""
        return not (self.center or self.scale)

    def first_pass(self, accumulator: MomentSum | None = None) -> FirstPass:
        """Read the data once: for the moments, and for what the accumulator sums up besides."""
        d = self.source.shape[1]
        return read_first(self.source, accumulator or MomentSum(d, self.weights, self.about_zero, self.n_threads))

    def square(self, moments: Moments) -> np.ndarray:
        """Mean square of each column of Z before scaling, times the moments' factor squared."""
        return moments.variance if self.center else moments.second

    def sample(self, rows: int, rng: np.random.Generator) -> tuple[Problem, int]:
        """The problem of some of the rows, drawn at random; and how many rows were read for it."""
        index, X, fetched = sample_rows(self.source, rows, rng)
        weights = None if self.weights is None else self.weights[index]
        return replace(self, source=as_source(X), weights=weights), fetched

    def check_variation(self, moments: Moments) -> None:
        """Raise where nothing varies: one row, constant rows, or zeros only."""
        if self.center and self.rows_that_count < 2:
            raise DataError(
                f"PCA of n_samples = {self.rows_that_count} sample is not defined: centring one row leaves nothing."
            )
        if not (self.square(moments) > (CONSTANT * np.abs(moments.mean)) ** 2).any():
            raise DataError(
                "X has no variance: all rows are equal. Remove constant columns, or check how X was made."
                if self.center
                else "X is zero everywhere: there is nothing to decompose."
            )

    def view(self, moments: Moments, transpose: bool = False) -> View:
        """The view of the data; of their transpose with ``transpose=True``."""
        source, n = self.source, self.source.shape[0]
        weight = None if self.weights is None else np.sqrt(self.weights * (n / self.weights.sum()))
        mean = moments.center if self.center else None
        square = self.square(moments)
        inverse = None
        frobenius = np.sqrt(n * square.sum()) / moments.factor
        if self.scale:
            inverse = 1 / column_scale(moments)
            frobenius = np.sqrt(n * (square * (inverse / moments.factor) ** 2).sum())
        support = None
        if transpose:
            source, shift = source.transposed(), None
            if mean is not None:
                shift = np.ones(n) if weight is None else weight
            row_map = RowMap(source.dtype, weight, shift, inverse, mean)
        else:
            support = square > 0
            shift = mean if mean is None or inverse is None else mean * inverse
            row_map = RowMap(source.dtype, inverse, shift, weight)
        row_map = row_map.normalised(np.sqrt(source.shape[0]) / frobenius, source.shape[1])
        cancellation = _cancellation(moments, inverse) if self.center and source.sparse else 1.0
        return View(source, row_map, frobenius, self.n_threads, support, cancellation)


class KernelRows:
    """Rows of Z in the form that the kernels take.

    The rows of `block`, the only block of a source, are made once and kept.
    """

    def __init__(self, row_map: RowMap, block: Any = None):
        self.map, self.block = row_map, block
        self.kept: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"map": self.map, "block": None, "kept": None}  # the data stay where they are

    def of_block(self, start: int, X: Any) -> Any:
        """The mapped rows of a block, whose first row is row number `start`."""
        if self.block is None or X is not self.block:
            return self.map.rows(slice(start, start + X.shape[0]), X)
        if self.kept is None:
            self.kept = self.map.rows(slice(0, X.shape[0]), X)
        return self.kept


@dataclass(frozen=True)
class Block:
    """Rows of a view, in the form that the kernels take: a slice of them, or those with the numbers `where`."""

    where: slice | np.ndarray
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
        Centring, scaling, weights, and the unit that makes ``tr A = 1``.
    frobenius : float
        ``|Z|_F`` before normalisation.
    n_threads : int
        Threads of the products.
    support : numpy.ndarray or None
        Which columns of Z are not zero, where known.
    cancellation : float
        How much larger the numbers are than what centring leaves of them; more than 1 only where it comes late.
    """

    def __init__(
        self,
        source: Source,
        row_map: RowMap,
        frobenius: float,
        n_threads: int,
        support: np.ndarray | None = None,
        cancellation: float = 1.0,
    ):
        self.source, self.frobenius, self.n_threads = source, frobenius, n_threads
        self.support, self.cancellation = support, cancellation
        self.n, self.d = source.shape
        self.dtype = source.dtype
        self.map, self.kernel_rows = row_map, KernelRows(row_map, source.block)
        self.rounding = float(np.finfo(self.dtype).eps) * cancellation  # relative, of products with A
        self.rows_read = 0
        self._norms: np.ndarray | None = None

    @property
    def trace(self) -> float:
        """``tr A`` in the units of the data."""
        return self.frobenius**2 / self.n

    def receive(self, first_pass: FirstPass) -> FirstPass:
        """The first pass with what it found in the terms of this view."""
        found, moments = first_pass.found, first_pass.moments
        if found is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                trace = (self.frobenius * moments.factor) ** 2 / self.n
                found = found.of_view(moments, self.map.col_scale, trace, self.support)
        return replace(first_pass, found=found)

    def product(self, W: np.ndarray, P: np.ndarray | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """Return ``A W`` by one pass, in `out` if given; `P` (n x l, zeros), if given, receives ``Z W``."""
        U, projections = self._read(ProductSum(self.kernel_rows, W, self.n_threads, P, out))
        if P is not None and projections is not P:  # a source that lies in several places merges copies
            P[...] = projections
        if out is not None and U is not out:
            out[...] = U
            U = out
        U /= self.n
        return U

    def _read(self, accumulator: Any, rng: np.random.Generator | None = None) -> Any:
        """One pass: the accumulator's result."""
        if self.source.block is None:
            accumulator = self.source.reduce(accumulator, rng)
        else:
            accumulator.add(0, self.source.block)
        self.rows_read += self.n
        return accumulator.result()

    def matrix(self) -> np.ndarray:
        """Return A itself (d x d), in double precision, by one pass."""
        implicit = self.cancellation**2 <= CANCELS
        return self._read(SquareSum(self.map, self.d, implicit, self.n_threads)) / self.n

    def stream(self, width: int, rng: np.random.Generator) -> np.ndarray | None:
        """The leading right singular vectors, approximately, by one pass in random block order; or None."""
        return self._read(MappedStream(self.map, width, rng), rng)

    @property
    def norms_known(self) -> bool:
        """Whether the row norms have been read."""
        return self._norms is not None

    def row_norms(self) -> np.ndarray:
        """Return every ``|z_i|^2`` (their mean is 1); read once, then kept."""
        if self._norms is None:
            self._norms = self._read(RowNorms(self.kernel_rows, self.n))
        return self._norms

    def importance(self, sampling: str) -> np.ndarray | None:
        """Return the weight of each row's step, ``mean |z|^2 / |z_i|^2``, or None where all weights are 1."""
        if sampling == "uniform":
            return None
        norms = self.row_norms()
        return np.divide(norms.mean(), norms, out=np.zeros_like(norms), where=norms > 0)

    def samples(self, m: int, rng: np.random.Generator, sampling: str) -> Iterator[tuple[Block, np.ndarray]]:
        """Draw m rows, with replacement: yield (block, row numbers within it).

        Rows are drawn uniformly or, for ``sampling="norm"``, by their squared norms.
        """
        norms = self.row_norms() if sampling == "norm" else None
        for draw in draws(self.source, m, rng, norms):
            self.rows_read += draw.rows_read
            if len(draw.order):
                yield self._block(draw.where, draw.X), draw.order

    def _block(self, where: slice | np.ndarray, X: Any) -> Block:
        if isinstance(where, slice):
            return Block(where, self.kernel_rows.of_block(where.start, X))
        return Block(where, self.map.rows(where, X))

    def passes_of_samples(self, m: int) -> float:
        """Passes that m draws take."""
        return passes_of_draws(self.source, m)

    def sample(self, rows: int, rng: np.random.Generator) -> View:
        """A view of so many rows, drawn at random without replacement and gathered: reading it is not reading the data.

        It has the unit of this view. Where rows come in blocks that have to be fetched, they are rows of a few blocks.
        """
        index, X, fetched = sample_rows(self.source, rows, rng)
        self.rows_read += fetched
        row_map = self.map.cut(index)
        return View(as_source(X), row_map, self.frobenius, self.n_threads, self.support, self.cancellation)


class ProductSum:
    """Accumulates ``U = Z^T (Z W)``.

    Parameters
    ----------
    rows : KernelRows
        How rows become rows of Z.
    W : numpy.ndarray
        The block, d x l.
    n_threads : int
        Threads of the products.
    P : numpy.ndarray or None
        If given, a matrix of zeros with a row for every row of the source: it receives ``Z W``.
    out : numpy.ndarray or None
        Room for U.
    """

    def __init__(
        self,
        rows: KernelRows,
        W: np.ndarray,
        n_threads: int,
        P: np.ndarray | None = None,
        out: np.ndarray | None = None,
    ):
        self.rows, self.W, self.n_threads, self.P = rows, W, n_threads, P
        self.U = aligned_zeros(W.shape, W.dtype) if out is None else out
        self.U[...] = 0

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        P = None if self.P is None else self.P[start : start + X.shape[0]]
        kernels.product(self.rows.of_block(start, X), self.W, self.U, P, self.n_threads)

    def merge(self, other: ProductSum) -> None:
        """Take in what another accumulator has seen."""
        self.U += other.U
        if self.P is not None and other.P is not None:
            self.P += other.P  # rows that one of them has not seen are zero there

    def result(self) -> tuple[np.ndarray, np.ndarray | None]:
        """``Z^T Z W``, and ``Z W`` if it was asked for."""
        return self.U, self.P


class RowNorms:
    """Accumulates ``|z_i|^2`` of every row."""

    def __init__(self, rows: KernelRows, n: int):
        self.rows, self.norms = rows, np.zeros(n)

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        kernels.row_norms(self.rows.of_block(start, X), self.norms[start : start + X.shape[0]])

    def merge(self, other: RowNorms) -> None:
        """Take in what another accumulator has seen."""
        self.norms += other.norms  # rows that one of them has not seen are zero there

    def result(self) -> np.ndarray:
        """The squared norms."""
        return self.norms


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
