"""The rows that a solver sees: centred, scaled and weighted without touching the data, on the cheaper side of X.

A view stands for the matrix Z with rows ``z_i = a_i (x_i * s - b_i m)`` and for ``A = Z^T Z / n``. It is normalised so
that ``tr A = 1``: solvers work in pure numbers, whatever the scale of the data.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vrpca import kernels
from vrpca.data.first_pass import CANCELS, LATE, FirstPass, Moments, Problem, cancellation_of
from vrpca.data.gram import SquareSum
from vrpca.data.open import as_source
from vrpca.data.row_map import MappedRows, OfMappedRows, RowMap
from vrpca.data.sampling import draws, passes_of_draws
from vrpca.data.source import ArraySum, Source, pieces
from vrpca.data.stream import MappedStream
from vrpca.errors import DataError
from vrpca.linalg import aligned_zeros
from vrpca.memory import PADDED, padded_to
from vrpca.typing import Array, Rng, Where
from vrpca.values import changed

# A deviation below this part of the mean is rounding. The 10 is that of scikit-learn's StandardScaler.
ROUNDED_TO_CONSTANT = 10 * float(np.finfo(float).eps)

MOST_CANCELLED = 1e-3  # part of what centring leaves that rounding may be: three digits of the singular values are left


class KernelRows:
    """Rows of Z in the form that the kernels take.

    The rows of `block`, the only block of a source, are made once and kept.
    """

    def __init__(self, row_map: RowMap, block: Any = None):
        self.map, self.block = row_map, block
        self.kept: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"map": self.map, "block": None, "kept": None}  # the data stay where they are

    def of_block(self, where: Where, X: Any) -> Any:
        """The mapped rows of a block that has the rows `where` of the source."""
        if self.block is None or X is not self.block:
            return self.map.rows(where, X)
        if self.kept is None:
            self.kept = self.map.rows(where, X)
        return self.kept


@dataclass(frozen=True)
class Block:
    """Rows of a view, in the form that the kernels take: a slice of them, or those with the numbers `where`."""

    where: Where
    rows: Any

    def cut(self, per_row: Array | None) -> Any:
        """The part of a per-row array that belongs to this block: a view of it for a slice, else a copy."""
        return None if per_row is None else per_row[self.where]


@dataclass(eq=False)
class View:
    """Z, walked block by block; counts every row it reads."""

    source: Source  # where the rows come from
    map: RowMap  # centring, scaling, weights, and the unit that makes ``tr A = 1``
    frobenius: float  # ``|Z|_F`` before normalisation
    n_threads: int  # threads of the products
    support: Array | None = None  # which columns of Z are not zero, where known
    diagonal: Array | None = None  # of A, where known: the mean squares of Z's columns
    cancellation: float = 1.0  # how much larger numbers are than what centring leaves, where it comes after products
    transposed: bool = False  # whether the rows are columns of X
    rows_read: int = field(default=0, init=False)
    norms: Array | None = field(default=None, init=False)  # of all rows, squared, once they have been read

    def __post_init__(self) -> None:
        self.n, self.d = self.source.shape
        self.dtype = self.source.dtype
        self.kernel_rows = KernelRows(self.map, self.source.block)
        self.rounding = float(np.finfo(self.dtype).eps) * self.cancellation  # relative, of products with A

    @functools.cached_property
    def constant(self) -> Array:
        """Columns that centring leaves nothing of but rounding, where it comes after products."""
        if self.support is None or self.map.shift is None:
            return np.zeros(0, int)
        return np.flatnonzero(~self.support)

    @classmethod
    def of(cls, problem: Problem, moments: Moments, transpose: bool = False) -> View:
        """The view of the data; of their transpose with ``transpose=True``.

        Data that are stored by columns have a `ColumnView`, unless they are transposed.
        """
        if problem.source.by_columns and not transpose:
            return ColumnView.over(cls.of(problem, moments, transpose=True), problem.square(moments) > 0)
        source, n = problem.source, problem.source.shape[0]
        weight = None if problem.weights is None else np.sqrt(problem.weights * (n / problem.weights.sum()))
        mean = moments.data_mean if problem.center else None
        square = problem.square(moments)
        inverse = None
        frobenius = math.sqrt(n * float(square.sum())) / moments.factor
        if problem.scale:
            inverse = 1 / column_scale(moments)
            frobenius = math.sqrt(n * float((square * (inverse / moments.factor) ** 2).sum()))
        if not math.isfinite(frobenius):
            raise DataError("X is so large that its norm overflows: divide it by a power of ten.")
        support = diagonal = None
        if transpose:
            source, shift = source.transposed(), None
            if mean is not None:
                shift = np.ones(n) if weight is None else weight
            row_map = RowMap(source.dtype, weight, shift, inverse, mean)
        else:
            support = square > 0
            diagonal = square if inverse is None else square * (inverse / moments.factor) ** 2
            diagonal = diagonal / diagonal.sum()
            shift = mean if mean is None or inverse is None else mean * inverse
            row_map = RowMap(source.dtype, inverse, shift, weight)
        row_map = row_map.normalised(np.sqrt(source.shape[0]) / frobenius, source.shape[1])
        cancellation = cancellation_of(moments, inverse) if problem.center else 1.0
        if not source.sparse:
            late = cancellation <= LATE and row_map.moderate
            row_map, cancellation = changed(row_map, late=late), cancellation if late else 1.0
        return cls(source, row_map, frobenius, problem.n_threads, support, diagonal, cancellation, transpose)

    @property
    def trace(self) -> float:
        """``tr A`` in the units of the data."""
        return self.frobenius * (self.frobenius / self.n)

    def receive(self, first_pass: FirstPass) -> FirstPass:
        """The first pass with what it found in the terms of this view."""
        moments, sums = first_pass.moments, first_pass.sums
        if sums is None or (sums.late and not self.map.late):
            return changed(first_pass, sums=None)
        size = self.frobenius * moments.factor
        with np.errstate(over="ignore", invalid="ignore"):
            trace = size * (size / self.n)  # infinite where a power of a Python float would raise
            found = sums.finding(moments, self.map.col_scale, trace, self.support)
        return changed(first_pass, found=found, sums=None)

    def product(self, W: Array, P: Array | None = None, out: Array | None = None) -> Array:
        """Return ``A W`` by one pass, in `out` if given; `P` (n x l, zeros), if given, receives ``Z W``.

        Numbers are multiplied in the type of W: that of the data, or double.
        """
        self._check_cancellation(W.dtype)
        U, projections = self._read(ProductSum(self.kernel_rows, W, self.n_threads, P, out))
        if P is not None and projections is not P:  # a source that lies in several places merges copies
            P[...] = projections
        if out is not None and U is not out:
            out[...] = U
            U = out
        U /= self.n
        U[self.constant] = 0
        return _finite(U)

    @property
    def passes_of_product(self) -> float:
        """Passes that a product takes."""
        return 1.0

    def room_for(self, vectors: int) -> Array:
        """Zeros for so many vectors, as columns, in the layout that products take the least time with.

        Products of dense rows like each vector to be contiguous. Those of sparse rows take as long with 8 columns as
        with 5, so there may be more columns than vectors.
        """
        if not self.source.sparse:
            return aligned_zeros((vectors, self.d), self.dtype).T
        columns = padded_to(vectors, PADDED) if vectors > PADDED // 2 else vectors
        return aligned_zeros((self.d, columns), self.dtype)

    def projections(self, W: Array) -> Array:
        """``Z W``, by one pass."""
        P = np.zeros((self.n, W.shape[1]), self.dtype)
        self.product(W, P)
        return P

    def exact_product(self, W: Array) -> Array:
        """``A W`` in double precision, by one pass. W is in double precision.

        The kernels have the column scale in the type of the data: what rounding has left of it is applied here.
        """
        rest = self.map.rest_of_scale
        return self.product(W) if rest is None else rest[:, None] * self.product(rest[:, None] * W)

    def cancels(self, dtype: np.dtype) -> bool:
        """Whether centring sparse rows after products in this type would leave little but rounding."""
        return bool(np.finfo(dtype).eps * self.cancellation > MOST_CANCELLED)

    def _check_cancellation(self, dtype: np.dtype) -> None:
        """Raise if products in this type would be little but rounding."""
        if self.cancels(dtype):
            single = self.dtype == np.float32
            remedy = "pass X as float64" if single else "pass X as a dense array, whose rows are centred first"
            raise DataError(
                f"The means of X's columns are {self.cancellation:.0e} times as large as their deviations: with sparse "
                f"{self.dtype} rows, centring would leave little but rounding. Subtract a constant from such columns, "
                f"or {remedy}."
            )

    def _read(self, accumulator: Any, rng: Rng | None = None) -> Any:
        """One pass: the accumulator's result."""
        if self.source.block is None:
            accumulator = self.source.reduce(accumulator, rng)
        else:  # most passes are of this kind: the source has no part in them
            accumulator.add(0, self.source.block)
        self.rows_read += self.n
        return accumulator.result()

    def rounding_of_matrix(self, in_double: bool) -> float:
        """Relative rounding of A itself: summed up in double precision, or in the precision of the data."""
        late = min(self.cancellation**2, CANCELS)  # beyond it, rows are centred before they are multiplied
        least = late * float(np.finfo(float).eps)
        return least if in_double else max(float(np.finfo(self.dtype).eps), least)

    def matrix(self) -> Array:
        """Return A itself (d x d), in double precision, by one pass."""
        implicit = self.cancellation**2 <= CANCELS
        return _finite(self._read(SquareSum(self.map, self.d, implicit, self.n_threads)) / self.n)

    def stream(self, width: int, rng: Rng) -> Array | None:
        """The leading right singular vectors, approximately, by one pass in random block order; or None."""
        return self._read(MappedStream(self.map, width, rng, self.n_threads), rng)

    @property
    def norms_known(self) -> bool:
        """Whether the row norms have been read."""
        return self.norms is not None

    def row_norms(self) -> Array:
        """Return every ``|z_i|^2`` (their mean is 1); read once, then kept."""
        if self.norms is None:
            self.norms = _finite(self._read(RowNorms(self.kernel_rows, self.n)))
        return self.norms

    def importance(self, sampling: str) -> Array | None:
        """Return the weight of each row's step, ``mean |z|^2 / |z_i|^2``, or None where all weights are 1."""
        if sampling == "uniform":
            return None
        norms = self.row_norms()
        return np.divide(norms.mean(), norms, out=np.zeros_like(norms), where=norms > 0)

    def samples(self, m: int, rng: Rng, sampling: str) -> Iterator[tuple[Block, Array]]:
        """Draw m rows, with replacement: yield (block, row numbers within it).

        Rows are drawn uniformly or, for ``sampling="norm"``, by their squared norms.
        """
        norms = self.row_norms() if sampling == "norm" else None
        for draw in draws(self.source, m, rng, norms):
            self.rows_read += draw.rows_read
            for order in draw.orders:
                yield Block(draw.where, self.kernel_rows.of_block(draw.where, draw.X)), order

    def passes_of_samples(self, m: int) -> float:
        """Passes that m draws take."""
        return passes_of_draws(self.source, m)

    def sample(self, rows: int, rng: Rng) -> View:
        """A view of some rows, drawn at random without replacement and gathered: reading it is not reading the data.

        It has the unit of this view. Where rows come in blocks that have to be fetched, they are rows of a few blocks.
        """
        index, X, fetched = self.source.sample(rows, rng)
        self.rows_read += fetched
        return replace(self, source=as_source(X), map=self.map.cut(index), diagonal=None)


class ColumnView(View):
    """Z of data that are stored by columns: a product takes two passes over the transposed matrix.

    Solvers work on the transposed matrix instead. This view is for what has to be known of A itself, to check a model.
    """

    flipped: View  # of the transposed matrix; there the sum of all squares is d, here it is n

    @classmethod
    def over(cls, flipped: View, support: Array) -> ColumnView:
        """The view of the data, given that of their transpose."""
        source = flipped.source.transposed()
        view = cls(source, flipped.map, flipped.frobenius, flipped.n_threads, support, None, flipped.cancellation)
        view.flipped = flipped
        return view

    @property
    def passes_of_product(self) -> float:
        """Passes that a product takes."""
        return 2.0

    def product(self, W: Array, P: Array | None = None, out: Array | None = None) -> Array:
        """Return ``A W`` by two passes."""
        projections = self._combined(W)
        if P is not None:
            P[...] = projections * np.sqrt(self.n / self.d)
        U = self._walked(RowProducts(self.flipped.map, self.d, projections)) / self.d
        U[self.constant] = 0
        U = _finite(U.astype(W.dtype))
        if out is None:
            return U
        out[...] = U
        return out

    def projections(self, W: Array) -> Array:
        """``Z W``, by one pass."""
        return (self._combined(W) * np.sqrt(self.n / self.d)).astype(self.dtype)

    def _combined(self, W: Array) -> Array:
        return self._walked(CombinedRows(self.flipped.map, self.n, W))

    def _walked(self, accumulator: CombinedRows | RowProducts) -> Array:
        self.rows_read += self.n
        return self.flipped.source.reduce(accumulator).result()


class CombinedRows(ArraySum):
    """Accumulates ``Z^T W`` for W with a row for every row of Z; sums are in double precision."""

    def __init__(self, row_map: RowMap, columns: int, W: Array):
        self.map, self.W = row_map, W
        self.out = np.zeros((columns, W.shape[1]))

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        for lo, piece in pieces(X, None, least=1):
            where = slice(start + lo, start + lo + piece.shape[0])
            self.out += MappedRows(piece, self.map, where).combined(self.W[where]).T


class RowProducts(ArraySum):
    """Accumulates ``Z P`` for a given P, one row for every row of Z."""

    def __init__(self, row_map: RowMap, rows: int, P: Array):
        self.map, self.P = row_map, P
        self.out = np.zeros((rows, P.shape[1]))

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        for lo, piece in pieces(X, None, least=1):
            where = slice(start + lo, start + lo + piece.shape[0])
            self.out[where] = MappedRows(piece, self.map, where).times(self.P.T)


class OfKernelRows(OfMappedRows):
    """The same for accumulators whose rows go to the kernels."""

    rows: KernelRows

    @property
    def row_map(self) -> RowMap:
        """The map of the rows."""
        return self.rows.map

    @row_map.setter
    def row_map(self, row_map: RowMap) -> None:
        self.rows = KernelRows(row_map)


class ProductSum(OfKernelRows, ArraySum):
    """Accumulates ``U = Z^T (Z W)`` for a block W (d x l), in `out` if given.

    P, if given, is a matrix of zeros with a row for every row of the source: it receives ``Z W``.
    """

    inputs = ("W", "rows")
    row_sums = ("P",)

    def __init__(self, rows: KernelRows, W: Array, n_threads: int, P: Array | None = None, out: Array | None = None):
        self.rows, self.W, self.n_threads, self.P = rows, W, n_threads, P
        self.out = aligned_zeros(W.shape, W.dtype) if out is None else out
        self.out[...] = 0

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        where = slice(start, start + X.shape[0])
        P = None if self.P is None else self.P[where]
        kernels.product(self.rows.of_block(where, X), self.W, self.out, P, self.n_threads)

    def merge(self, other: ProductSum) -> None:
        """Take in what another accumulator has seen."""
        super().merge(other)
        self.join("P", other)

    def result(self) -> tuple[Array, Array | None]:
        """``Z^T Z W``, and ``Z W`` if it was asked for."""
        return self.out, self.P


class RowNorms(OfKernelRows, ArraySum):
    """Accumulates ``|z_i|^2`` of every row."""

    inputs = ("rows",)
    sums = ()
    row_sums = ("out",)

    def __init__(self, rows: KernelRows, n: int):
        self.rows, self.out = rows, np.zeros(n)

    def add(self, start: int, X: Any) -> None:
        """Take in a block."""
        where = slice(start, start + X.shape[0])
        kernels.row_norms(self.rows.of_block(where, X), self.out[where])


def _finite(found: Array) -> Array:
    """What a pass found; raise if that is not finite. The first pass has seen that the data were."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = found.sum()
    if not np.isfinite(total):
        raise DataError(
            "X was finite in the first pass, but a product with it is not: X was changed during the fit, or its "
            "numbers are too large. Leave X alone until the fit has ended, scale it, or pass it as float64."
        )
    return found


def column_scale(moments: Moments) -> Array:
    """Standard deviation (divisor n) of each column; 1 for columns that are constant up to rounding."""
    deviation = np.sqrt(moments.variance)
    constant = deviation <= ROUNDED_TO_CONSTANT * np.abs(moments.mean)
    return np.where(constant, 1.0, deviation / moments.factor)
