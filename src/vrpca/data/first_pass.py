"""What is to be decomposed, and the first pass over it: moments, and whatever a solver wants summed up along with them.

`MomentSum` accumulates mean and variance of every column: weighted, shifted, and safe from overflow. Its subclasses sum
up more of the same rows: `FirstProductSum` the product of A with the first block, `gram.GramSum` the matrix A,
`stream.StreamSum` a basis. A solver asks for one of them (`Solver.wants`) and receives its finding in the `FirstPass`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.open import as_source
from vrpca.data.row_map import make_rows
from vrpca.data.source import Reduction, Source, check_finite, pieces
from vrpca.errors import DataError
from vrpca.linalg import LEAST_PIVOT, aligned_copy, aligned_zeros
from vrpca.typing import Array, Rng

SAFE = 1e60  # entries up to here can be squared and summed as they are: 1e120 times 1e180 rows is below 1e308
HEAD_ENTRIES = 65536  # entries of the first block that tell how large numbers are
# How much larger numbers may be than what centring leaves, for dense rows to be centred after products. Their rounding
# is as much larger then, but the rows need not be copied.
LATE = 4.0
CANCELS = 1e6  # mean squared over variance: beyond it, subtracting the mean late costs more than 6 of 16 digits
# The same for dense rows, whose certificates do not allow for it: squares about a provisional mean over the variance.
# Beyond it, rounding could be as large as all that they allow for.
FAR = 10.0
MEAN_ROUNDING = 1e-12  # relative rounding of means: sums in double precision, with room for many rows
CONSTANT = 64 * float(np.finfo(float).eps)  # a deviation below this part of the mean is the rounding of the mean's sum
FLIPPED = ("column", "row")  # what rows and columns of a block are to the user where it is one of the transpose


@dataclass(frozen=True)
class Moments:
    """Column moments of a source, of `factor` times the data. Moments about zero have a mean of zeros."""

    total: float  # sum of the weights
    mean: Array
    variance: Array  # mean squared deviation
    factor: float
    passes: int = 1  # passes that it took to find them

    @property
    def data_mean(self) -> Array:
        """The mean of the data themselves."""
        return self.mean if self.factor == 1 else self.mean / self.factor

    @property
    def second(self) -> Array:
        """Mean square about zero, of `factor` times the data."""
        return self.variance + self.mean**2

    @property
    def safe(self) -> bool:
        """Whether no square has overflowed, nor have all of them vanished."""
        with np.errstate(over="ignore", invalid="ignore"):
            trace = self.second.sum()
        return bool(np.isfinite(trace) and trace >= SAFE**-2)


@dataclass(frozen=True)
class Problem:
    """What is to be decomposed: the data, and how their rows become rows of Z."""

    source: Source
    weights: Array | None  # one for every row
    center: bool  # whether to subtract the column means
    scale: bool  # whether to divide by the columns' deviations
    n_threads: int  # of the kernels
    means: bool = False  # whether the column means are wanted even where nothing is centred

    @property
    def about_zero(self) -> bool:
        """Whether nobody asks for the means: squares alone take less time."""
        return not (self.center or self.scale or self.means)

    @property
    def rows_that_count(self) -> int:
        """Rows that have a weight."""
        return self.source.shape[0] if self.weights is None else int(np.count_nonzero(self.weights))

    @property
    def weight(self) -> float:
        """Mean weight of a row."""
        return 1.0 if self.weights is None else float(self.weights.mean())

    def first_pass(self, accumulator: MomentSum | None = None) -> FirstPass:
        """Read the data once; raise if an entry is not finite, or if the blocks are not the rows of the source.

        Entries beyond 1e60 or below 1e-60 are scaled by a power of two so that their squares neither overflow nor
        vanish. That takes two more passes, and what was summed up besides the moments is dropped.
        """
        if self.source.by_columns:
            return self._first_pass_by_columns()
        source, accumulator = self.source, accumulator or MomentSum(self)
        accumulator = source.reduce(accumulator, accumulator.rng)
        if accumulator.rows_seen != source.shape[0]:
            raise DataError(f"The source has {source.shape[0]} rows, but its blocks have {accumulator.rows_seen}.")
        first = accumulator.result()
        if first.moments.safe:
            return first
        factor = _power_of_two(source.reduce(LargestEntry(self.weights)).result())
        again = source.reduce(MomentSum(self, factor)).result().moments
        return FirstPass(replace(again, passes=3), rows_sampled=first.rows_sampled)

    def _first_pass_by_columns(self) -> FirstPass:
        """The same by walks over the transposed matrix, whose rows are the features."""
        columns = self.source.transposed()
        moments = columns.reduce(ColumnMoments(self)).result()
        if not moments.safe:
            factor = _power_of_two(columns.reduce(LargestEntry(self.weights, by_columns=True)).result())
            moments = replace(columns.reduce(ColumnMoments(self, factor)).result(), passes=3)
        return FirstPass(moments)

    def square(self, moments: Moments) -> Array:
        """Mean square of each column of Z before scaling, times the moments' factor squared."""
        return moments.variance if self.center else moments.second

    def sample(self, rows: int, rng: Rng) -> tuple[Problem, int]:
        """The problem of some of the rows, drawn at random; and how many rows were read for it."""
        index, X, fetched = self.source.sample(rows, rng)
        weights = None if self.weights is None else self.weights[index]
        return replace(self, source=as_source(X), weights=weights), fetched

    def check_variation(self, moments: Moments) -> None:
        """Raise where nothing varies: one row, constant rows, or zeros only."""
        if self.center and self.rows_that_count < 2:
            what = f"PCA of n_samples = {self.rows_that_count} sample is not defined"
            raise DataError(f"{what}: centring one row leaves nothing. Pass more rows.")
        if not (self.square(moments) > (CONSTANT * np.abs(moments.mean)) ** 2).any():
            if not self.center:
                raise DataError("X is zero everywhere: there is nothing to decompose.")
            raise DataError("X has no variance: all rows are equal. Remove constant columns, or check how X was made.")


class Finding:
    """What the first pass found besides the moments, in the terms of a view: `Pair`, `gram.Matrix`, `stream.Basis`."""

    random: ClassVar[bool] = True  # whether chance plays a part: an independent start needs another one then


@dataclass(frozen=True)
class FirstPass:
    """What the first pass found."""

    moments: Moments
    found: Finding | None = None  # for the solver that wanted it; `View.receive` makes it of the sums
    rows_sampled: int = 0  # rows that were read before the pass, to prepare it
    sums: MomentSum | None = None  # the accumulator, until a view receives its finding

    def without_start(self) -> FirstPass:
        """The same for another, independent start: what was found at random belongs to the first one."""
        return replace(self, found=None) if self.found is not None and self.found.random else self


class MomentSum(Reduction):
    """Accumulates column moments by Chan, Golub and LeVeque's update.

    The data are multiplied by `factor`; None lets the first block decide.
    """

    per_row = ("weights",)
    least_rows: int | None = None  # subclasses: the fewest rows that they like to see at a time
    rng: Rng | None = None  # subclasses: the order in which they like to see rows
    rows_sampled = 0
    late = False  # subclasses: whether they have centred products instead of rows

    def __init__(self, problem: Problem, factor: float | None = None):
        self.weights, self.center, self.n_threads = problem.weights, problem.center, problem.n_threads
        self.about_zero = problem.about_zero
        self.factor = factor
        d = problem.source.shape[1]
        self.total, self.mean, self.M2 = 0.0, np.zeros(d), np.zeros(d)
        self.rows_seen = 0

    def add(self, start: int, X: Any) -> None:
        """Take in a block; with `least_rows`, in pieces, which stay in the cache unless rows are long."""
        if X.shape[1] != len(self.mean):
            raise DataError(f"The source has {len(self.mean)} features, but one of its blocks has {X.shape[1]}.")
        self.rows_seen += X.shape[0]
        for lo, piece in [(0, X)] if self.least_rows is None else pieces(X, self.rng, self.least_rows):
            weight = None if self.weights is None else self.weights[start + lo : start + lo + piece.shape[0]]
            with np.errstate(over="ignore", invalid="ignore"):
                self._add_piece(piece, weight)

    def _add_piece(self, X: Any, weight: Array | None) -> None:
        """The moments of a piece, and what a subclass sums up besides."""
        if self._add_moments(X, weight):
            self._add_more(X, None if weight is None else np.sqrt(weight))

    def _add_moments(self, X: Any, weight: Array | None) -> bool:
        """Whether any of the rows count."""
        if self.factor is None:
            self.factor = _first_factor(X)
        rows, mean = make_rows(X), np.zeros(len(self.mean))
        if self.about_zero:
            w, M2 = kernels.squares(rows, weight, self.factor, self.n_threads)
        else:
            w, mean, M2 = kernels.moments(rows, weight, self.factor, self.n_threads)
        self._merge_moments(w, mean, M2)
        return w > 0

    def _merge_moments(self, w: float, mean: Array, M2: Array) -> None:
        if w > 0:
            delta = mean - self.mean
            self.mean += delta * (w / (self.total + w))
            self.M2 += M2 + delta**2 * (self.total * (w / (self.total + w)))
            self.total += w
        elif not np.isfinite(M2).all():  # rows without weight must be finite as well
            self.M2 += M2

    def _add_more(self, X: Any, root: Array | None) -> None:
        """What a subclass sums up besides, of rows with these roots of weights."""

    @property
    def running_mean(self) -> Array:
        """The mean of all rows so far, in the units of the data."""
        return self.mean / (1.0 if self.factor is None else self.factor)

    def merge(self, other: MomentSum) -> None:
        """Take in what another accumulator has seen."""
        self.rows_seen += other.rows_seen
        if other.factor is None:
            return
        self.factor = other.factor if self.factor is None else self.factor
        ratio = self.factor / other.factor
        with np.errstate(over="ignore", invalid="ignore"):
            self._merge_more(other)
            self._merge_moments(other.total, other.mean * ratio, other.M2 * ratio * ratio)  # its square may overflow

    def _merge_more(self, other: Any) -> None:
        """Merge what a subclass sums up; the moments of the two are still apart."""

    def result(self) -> FirstPass:
        """The moments, and the accumulator for what it has summed up besides."""
        with np.errstate(over="ignore", invalid="ignore"):
            variance = self.M2 / self.total
        moments = Moments(self.total, self.mean, variance, 1.0 if self.factor is None else self.factor)
        return FirstPass(moments, rows_sampled=self.rows_sampled, sums=self)

    def finding(self, moments: Moments, col_scale: Array | None, trace: float, support: Array | None) -> Finding | None:
        """What a subclass has summed up besides, in the terms of a view; None where rounding has spoilt it.

        `col_scale` is the view's column scale, `trace` is ``tr A`` in the units of the moments, `support` says which
        columns of Z are not zero.
        """
        return None


def column_moments(source: Source, weights: Array | None, n_threads: int, *, about_zero: bool = False) -> Moments:
    """The moments alone."""
    return Problem(source, weights, not about_zero, False, n_threads).first_pass().moments


class LargestEntry(Reduction):
    """Accumulates the largest absolute entry of rows that count; raises with its place where one is not finite.

    Rows without weight must be finite as well, but may be of any size.
    """

    per_row = ("weights",)

    def __init__(self, weights: Array | None = None, by_columns: bool = False) -> None:
        self.weights, self.by_columns, self.largest = weights, by_columns, 0.0

    def add(self, start: int, X: Any) -> None:
        """Take in a block: rows or, with `by_columns`, columns of the data."""
        check_finite(self.first_row + start, X, FLIPPED if self.by_columns else ("row", "column"))
        if self.by_columns and self.weights is not None:
            X = X[:, self.weights > 0]
        values = X.data if sp.issparse(X) else X
        if self.weights is not None and not self.by_columns:
            counts = self.weights[start : start + X.shape[0]] > 0
            values = values[np.repeat(counts, np.diff(X.indptr)) if sp.issparse(X) else counts]
        self.largest = max(self.largest, float(np.max(np.abs(values), initial=0.0)))

    def merge(self, other: LargestEntry) -> None:
        """Take in what another accumulator has seen."""
        self.largest = max(self.largest, other.largest)

    def result(self) -> float:
        """The largest absolute entry."""
        return self.largest


class ColumnMoments:
    """Accumulates column moments where a block has columns of the data as its rows: each column is seen at once.

    The data are multiplied by `factor`; None lets the first block decide.
    """

    def __init__(self, problem: Problem, factor: float | None = None):
        n, d = problem.source.shape
        self.counts = None if problem.weights is None else problem.weights > 0
        self.weights = np.ones(n) if problem.weights is None else problem.weights[self.counts]
        self.n, self.about_zero, self.factor = n, problem.about_zero, factor
        self.mean, self.variance = np.zeros(d), np.zeros(d)
        self.columns_seen = 0

    def add(self, start: int, X: Any) -> None:
        """Take in some columns."""
        if X.shape[1] != self.n:
            raise DataError(f"The source has {self.n} rows, but one of its columns has {X.shape[1]}.")
        self.columns_seen += X.shape[0]
        if self.counts is not None and not self.counts.all():
            check_finite(start, X, FLIPPED)  # rows without weight must be finite as well
            X = X[:, self.counts]
        factor = self.factor = _first_factor(X) if self.factor is None else self.factor
        with np.errstate(over="ignore", invalid="ignore"):
            for lo, piece in pieces(X, None, least=1):
                where = slice(start + lo, start + lo + piece.shape[0])
                moments = self._of_sparse(piece, factor) if sp.issparse(piece) else self._of_dense(piece, factor)
                self.mean[where], self.variance[where] = moments

    def _of_dense(self, X: Array, factor: float) -> tuple[Array, Array]:
        total, Y, mean = self.weights.sum(), X.astype(np.float64) * factor, np.zeros(len(X))
        if not self.about_zero:
            mean = Y @ self.weights / total
            Y -= mean[:, None]
        return mean, np.square(Y, out=Y) @ self.weights / total

    def _of_sparse(self, X: Any, factor: float) -> tuple[Array, Array]:
        total, values = self.weights.sum(), X.data.astype(np.float64) * factor

        def summed(entries: Array) -> Array:
            return sp.csr_array((entries, X.indices, X.indptr), shape=X.shape) @ self.weights

        if self.about_zero:
            return np.zeros(X.shape[0]), summed(values**2) / total
        mean = summed(values) / total
        zeros = total - summed(np.ones(len(values)))  # the weight of entries that are not stored
        return mean, (summed((values - np.repeat(mean, np.diff(X.indptr))) ** 2) + zeros * mean**2) / total

    def merge(self, other: ColumnMoments) -> None:
        """Take in what another accumulator has seen: columns that one of them has not seen are zero there."""
        self.columns_seen += other.columns_seen
        if other.factor is None:
            return
        self.factor = other.factor if self.factor is None else self.factor
        ratio = self.factor / other.factor
        self.mean += other.mean * ratio
        self.variance += other.variance * ratio * ratio

    def result(self) -> Moments:
        """The moments of all columns."""
        if self.columns_seen != len(self.mean):
            raise DataError(f"The source has {len(self.mean)} columns, but its blocks have {self.columns_seen}.")
        return Moments(float(self.weights.sum()), self.mean, self.variance, self.factor or 1.0)


def cancellation_of(moments: Moments, inverse: Array | None = None) -> float:
    """How much larger the numbers of the data are than what centring leaves; `inverse` are the column scales."""
    variance, second = moments.variance, moments.second
    if inverse is not None:
        weight = (inverse / inverse.max()) ** 2
        variance, second = variance * weight, second * weight
    total = float(variance.sum())
    return math.sqrt(float(second.sum()) / total) if total > 0 else 1.0


def first_unit(X: Any, root: Array | None = None) -> float:
    """A power of two that brings the first entries of a block to about 1; rows without weight do not count."""
    if root is not None and not root.all():
        X = X[_head_rows(X, root)]
    values = X.data if sp.issparse(X) else X
    head = np.asarray(values).reshape(-1)[:HEAD_ENTRIES]
    return _power_of_two(float(max(head.max(), -head.min())) if head.size else 0.0)


def _head_rows(X: Any, root: Array) -> Array:
    """The first rows that count, as many as have HEAD_ENTRIES entries."""
    counting = np.flatnonzero(root)
    if not sp.issparse(X):
        return counting[: HEAD_ENTRIES // max(1, X.shape[1]) + 1]
    entries = np.cumsum(np.diff(X.indptr)[counting])
    return counting[: int(np.searchsorted(entries, HEAD_ENTRIES)) + 1]


def _first_factor(X: Any) -> float:
    unit = first_unit(X)
    return 1.0 if 1 / SAFE < unit < SAFE else unit


def _power_of_two(largest: float) -> float:
    if largest == 0 or not math.isfinite(largest):
        return 1.0
    return math.ldexp(1.0, min(max(-round(math.log2(largest)), -1000), 1000))


@dataclass(frozen=True)
class Pair(Finding):
    """An orthonormal block W and its image U = A W; a guest, a random vector of length 1, and its image."""

    W: Array
    U: Array
    guest: Array
    image: Array


class FirstProductSum(MomentSum):
    """Accumulates ``sum w_i (x_i - c) (x_i - c)^T W`` for the first block W (d x l) along with the moments.

    The origin c is a guess of the mean; None if nothing is to be centred. With ``late=True`` products are centred
    instead of rows. `rows_sampled` rows were read to find W. A guest is one more vector that is multiplied along with
    W.
    """

    inputs = ("W", "origin")
    sums = ("sum",)

    def __init__(
        self, problem: Problem, W: Array, origin: Array | None, rows_sampled: int, guest: Array, late: bool = False
    ):
        super().__init__(problem)
        self.late = late
        self.W, self.origin, self.rows_sampled = aligned_copy(np.column_stack([W, guest])), origin, rows_sampled
        self.sum = np.zeros(self.W.shape)  # times the square of the unit
        self.unit: float | None = None

    def _add_piece(self, X: Any, weight: Array | None) -> None:
        """The moments and the product, in one reading where rows are dense."""
        if weight is not None and not weight.any():  # nothing is known of the unit, but entries have to be finite
            self._add_moments(X, weight)
            return
        self.factor = _first_factor(X) if self.factor is None else self.factor
        root = None if weight is None else np.sqrt(weight)
        U = aligned_zeros(self.W.shape, self.W.dtype)
        self.unit = first_unit(X, root) if self.unit is None else self.unit
        shift = self.origin if self.origin is not None and self.origin.any() else None
        rows = make_rows(X, None, shift, root, None, self.unit, self.late)
        moments = weight, self.factor, self.about_zero
        self._merge_moments(*kernels.product_with_moments(rows, self.W, U, *moments, self.n_threads))
        self.sum += U

    def _merge_more(self, other: FirstProductSum) -> None:
        if other.unit is not None:
            self.unit = other.unit if self.unit is None else self.unit
            ratio = self.unit / other.unit
            self.sum += other.sum * ratio * ratio

    def finding(self, moments: Moments, col_scale: Array | None, trace: float, support: Array | None) -> Pair | None:
        """The block made orthonormal, without columns that hold nothing, the guest, and their products with A.

        None where numbers overflow, where the origin was so far from the mean that the difference does not cancel, or
        where the block's vectors are dependent.
        """
        if self.unit is None:
            return None
        ratio = self.unit / moments.factor  # the square of one of the two may overflow
        W, U = self.W.astype(np.float64), self.sum / ratio / ratio / moments.total
        if self.origin is not None:
            delta = moments.mean - self.origin * moments.factor
            rounding = (MEAN_ROUNDING * moments.mean) ** 2
            if (delta**2).sum() > (FAR - 1) * moments.variance.sum() + rounding.sum():
                return None
            U -= np.outer(delta, delta @ W)
        if support is not None:
            W[~support] = U[~support] = 0
        length = np.linalg.norm(W[:, -1])
        guest, image = W[:, -1] / length, U[:, -1] / (length * trace)
        W, U = W[:, :-1], U[:, :-1]
        try:
            factor = np.linalg.cholesky(W.T @ W)
        except np.linalg.LinAlgError:
            return None
        if factor.diagonal().min() < LEAST_PIVOT:
            return None
        turn = np.linalg.inv(factor).T
        parts = (W @ turn, U @ (turn / trace), guest, image)
        return Pair(*(part.astype(self.W.dtype) for part in parts)) if np.isfinite(U).all() else None
