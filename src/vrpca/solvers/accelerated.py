"""The fastest solver where A is too large to form: a Krylov search in five variants, by what the work costs most.

- `Wide`, where reading the data is all that counts (networks): a wide start from a sample, which the first pass
  multiplies, then wide blocks of residuals.
- `Streamed`, as `Wide`, for sparse rows with long vectors, of which a sample says little: a wide basis streamed from
  all rows, which the second pass multiplies.
- `Reading`, where a disk is read (files): as `Wide`, with blocks no wider than can be multiplied meanwhile.
- `Sampled`, where arithmetic with the rows is the cost (many rows in memory): a start from a sample, which the first
  pass multiplies, then blocks as wide as the answer.
- `Narrow`, where arithmetic with long vectors is the cost (sparse rows): narrow blocks from a random start.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from vrpca.data.first_pass import FirstPass, FirstProductSum, MomentSum, Pair
from vrpca.data.stream import ROWS_PER_VECTOR, Basis, StreamSum
from vrpca.data.view import Problem, View
from vrpca.errors import DataError
from vrpca.linalg import eigenpairs
from vrpca.memory import DOUBLE, PADDED, Size, padded_to, small_matrices
from vrpca.options import Options
from vrpca.solvers.base import Passes, Rng, Solver, less, random_start, together, whole_registers
from vrpca.solvers.krylov import LEAST_HEARD, STATES, Krylov, KrylovState
from vrpca.solvers.lanczos import Lanczos
from vrpca.solvers.outside import TRUSTED, known_outside
from vrpca.solvers.search_space import SearchSpace
from vrpca.solvers.witness import MOST, Witness, WitnessedState

# These widths and lengths were found by trying, on MNIST, RCV1, news20 and generated spectra (`vrpca bench passes`).
SAMPLE_FRACTION = 0.05  # fraction of the rows sampled for the start
SAMPLE_PRODUCTS = 5  # products with the sample: with 4, one fit in ten takes a pass more (MNIST, k = 1, 6 and 20)
LEAST_SAMPLED = 4  # rows per vector that make a sample worth solving
WIDE_PRODUCTS = 3  # products with the sample for a wide start: with 2 the bound is 6 times as large (MNIST, k = 6)
LEAST_FRACTION = 1e-4  # the smallest sample where memory is limited, before there is none
SUMMED_BLOCKS = 7  # blocks in double precision while a sampled block is multiplied: sums, and copies that are turned
STREAM_BLOCKS = 7  # blocks that a stream has while it takes in a batch: vectors before and after, products, copies
SAMPLED_BLOCKS, SAMPLED_VECTORS = 6, 48  # blocks, or vectors, that `Sampled` keeps before a restart
STREAMED, RESIDUALS = 12, 2  # widths of the streamed basis and of the residual blocks, in units of the width
WIDE, WIDE_EXTRA = 4, 24  # width of the start of `Wide`: in the same units, and columns besides, for few components
KEPT = 14  # vectors that `Streamed` and `Wide` keep, in the same units: no restart after the first step
WATCHED = 3  # pairs, in the same units, whose residuals tell what a stream may have missed
NARROW, MANY = 4, 16  # columns of a block of `Narrow`; twice as many where this number of vectors is wanted
UNRESOLVED = 4  # times the residual: Ritz values this close may be those of equal eigenvalues
NARROW_BLOCKS = 8  # blocks that `Narrow` keeps, besides the wanted vectors, before a restart
LEAST_BLOCKS = 2  # the same where memory is limited: the last block and the next one
# Columns that two cores multiply while a disk reads 1 GB/s, in whole registers with the witness: 1.1e11 (dense) and
# 1.5e10 (sparse) flops per second, four of them per entry and column, entries of 4 and 8 bytes: the rates of plan.py.
FREE, SPARSE_FREE = 111, 31
# The same as LONG for a disk that reads 1 GB/s. In-memory fits to 1e-6, processor seconds halved for two cores, against
# 8 ns per entry: with 45 entries per feature (RCV1, k = 6), `SparseReading` takes 5 passes of 7 times reading, `Narrow`
# 13 passes of reading alone; with 161 (PBMC, k = 10), 4 passes of 1.8 times reading against 10.
LONG_TO_READ = 100
LONG = 1000  # stored entries per feature below which arithmetic with the vectors costs more than that with the rows


def accelerated_variant(options: Options, width: int, entries: int, d: int, sparse: bool) -> type[Solver]:
    """The variant that suits data with this number of stored entries, and vectors of length d."""
    if options.cost == "passes":
        return Streamed if entries < LONG * d else Wide
    if options.cost == "reading" and entries >= LONG_TO_READ * d:
        return SparseReading if sparse else Reading
    return Narrow if entries < LONG * d else Sampled


class Accelerated:
    """What the variants share: the width of their blocks."""

    @staticmethod
    def width_for(k: int, cost: str, sparse: bool) -> int:
        """Wider blocks pay where passes are the cost; elsewhere, columns fill registers of 8, with the witness.

        Products of dense rows in memory like multiples of 4 as well. With these there are at least 4 extra columns.
        """
        if cost == "passes":
            return k + max(4, k // 2)
        if cost == "reading" or sparse:
            return whole_registers(k, 8)
        return min(whole_registers(k, 8), whole_registers(k + 2, 4))


class FewPasses(Accelerated, Krylov):
    """Wide blocks of residuals."""

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        self.least_block = self.block
        self.block = max(whole_registers(RESIDUALS * width - 2, 8), self.block)
        self.watched = WATCHED * width  # more than are multiplied, so that what a start has missed shows
        self.capacity = KEPT * width + WIDE_EXTRA

    def _shrink(self) -> None:
        """Narrower blocks, too."""
        super()._shrink()
        self.block, self.watched = less(self.block, self.least_block), less(self.watched, self.width + 1)


class Streamed(FewPasses):
    """From a wide basis that one pass over all rows has left."""

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        self.basis = STREAMED * width

    @property
    def first_columns(self) -> int:
        """The streamed basis."""
        return self.basis

    @property
    def found_vectors(self) -> int:
        """The streamed basis."""
        return self.basis

    def memory(self, size: Size) -> dict[str, float]:
        """As for all searches, and while the basis is streamed: the vectors, their products, and small matrices."""
        m = min(self.basis, size.d)
        rows = min(ROWS_PER_VECTOR * m, size.n) * size.row_bytes
        streamed = STREAM_BLOCKS * m * size.vector + size.product(m) + small_matrices(m) + 2 * rows
        return super().memory(size) | {f"a streamed basis of {m} vectors of length {size.d}": streamed}

    def _shrink(self) -> None:
        """A narrower basis, too."""
        super()._shrink()
        self.basis = less(self.basis, 2 * self.width)

    def wants(self, problem: Problem, rng: Rng, W0: np.ndarray | None = None) -> MomentSum | None:
        """A streamed basis; scaled data have to wait until the scales are known."""
        if problem.scale:
            return None
        return StreamSum(problem, min(self.basis, problem.source.shape[1]), rng)

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """To start: the stream, unless the first pass has made it, and the first product."""
        return Passes(start=1.0 if isinstance(first_pass.found, Basis) else 2.0, projections=1.0)

    def start(self, view: View, first_pass: FirstPass, rng: Rng, W0: np.ndarray | None = None) -> KrylovState:
        """The product of the streamed basis, of `W0`, and of random vectors for what they missed.

        Where the first pass has made no basis, a guess takes its place.
        """
        found = isinstance(first_pass.found, Basis)
        W = W0 if W0 is not None and not found else self._streamed(view, first_pass, rng)
        W = W[:, : self.basis - self.width]
        if W0 is not None and found:
            W = together(W0[:, : self.width], W)
        return self.begin(view, W, W.shape[1] + self.width, 2, rng)

    def _streamed(self, view: View, first_pass: FirstPass, rng: Rng) -> np.ndarray:
        """The streamed basis; no column at all where there is none."""
        found = first_pass.found
        W = found.vectors if isinstance(found, Basis) else view.stream(min(self.basis, view.d), rng)
        return np.zeros((view.d, 0), view.dtype) if W is None else W


class FromSample(Accelerated, Krylov):
    """A start from a sample of the rows, which the first pass multiplies."""

    start_width: int  # columns of the start
    products: int  # the most with the sample

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        self.fraction = SAMPLE_FRACTION

    @property
    def first_columns(self) -> int:
        """The start."""
        return self.start_width

    @property
    def found_vectors(self) -> int:
        """The sampled block and its product, each with a guest."""
        return 2 * (self.start_width + self.width + 1)

    def memory(self, size: Size) -> dict[str, float]:
        """As for all searches, and for the sample: its rows, the vectors that it is solved with, and their product."""
        rows, v = self._sample_size(size.n, size.d, size.most_sampled), size.vector
        columns = min(self.start_width + (self.width if size.guessed else 0), size.d) + 1
        if not rows:
            return super().memory(size)
        solved = (self.products + STATES + 3) * columns * v + size.product(columns)
        solved += small_matrices(self.products * columns) + size.joined(columns)
        summed = columns * (2 * v + SUMMED_BLOCKS * DOUBLE * size.d) + size.product(columns)
        return super().memory(size) | {
            f"a sample of {rows} rows": size.sample(rows) + solved,
            f"the product of a block of {columns} sampled vectors of length {size.d}": summed,
        }

    def _shrink(self) -> None:
        """A smaller sample, too; none in the end."""
        super()._shrink()
        self.fraction = 0.8 * self.fraction if self.fraction > LEAST_FRACTION else 0.0

    def _sample_size(self, n: int, d: int, most: float) -> int:
        """Rows of the sample; none if they would say nothing."""
        rows = int(min(self.fraction * n, most))
        return rows if rows >= LEAST_SAMPLED * min(self.start_width, d) else 0

    @abstractmethod
    def _from_sample(self, sample: View, rng: Rng) -> np.ndarray:
        """The block that a sample gives, and random columns or parts for what it has missed."""

    def wants(self, problem: Problem, rng: Rng, W0: np.ndarray | None = None) -> MomentSum | None:
        """The product of a block that a sample of the rows gives, and of `W0`; None if the sample says nothing.

        The sample is read here.
        """
        n, d = problem.source.shape
        rows = self._sample_size(n, d, problem.source.most_sampled)
        if not rows or problem.scale:
            return None
        sample, fetched = problem.sample(rows, rng)
        try:
            moments = sample.first_pass().moments
        except DataError:  # the pass over all rows will say where it is
            return None
        if not (moments.total > 0 and sample.square(moments).sum() > 0):
            return None
        view = View.of(sample, moments)
        W = self._from_sample(view, rng)
        W = W if W0 is None else together(W0[:, : self.width], W)
        guest = rng.standard_normal(d, dtype=W.dtype)
        origin = moments.data_mean if problem.center else None
        return FirstProductSum(problem, W, origin, fetched, guest, view.map.late)

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """To start: the sample and the first product, unless the first pass has made them."""
        return Passes(start=0.0 if isinstance(first_pass.found, Pair) else 1.0 + self.fraction, projections=1.0)

    def start(self, view: View, first_pass: FirstPass, rng: Rng, W0: np.ndarray | None = None) -> KrylovState:
        """The product of what a sample gave, and of `W0`: from the first pass, or by another one.

        In another pass, a guess takes the place of the sample.
        """
        found = first_pass.found
        if isinstance(found, Pair):
            space = SearchSpace(view, self.width, self.capacity)
            space.expand(found.W.T, view, found.U.T)
            return self.state(space, 2, Witness((found.guest,), most=self.heard).after(found.image))
        rows = self._sample_size(view.n, view.d, view.source.most_sampled)
        if W0 is not None or not rows:
            return self.begin(view, W0, self.block, 1, rng)
        return self.begin(view, self._from_sample(view.sample(rows, rng), rng), self.start_width, 2, rng)


class Sampled(FromSample):
    """Blocks as wide as the answer, from a start that a sample has prepared."""

    products = SAMPLE_PRODUCTS
    narrows = True

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        self.start_width = self.block
        self.capacity = max(SAMPLED_BLOCKS * self.block, SAMPLED_VECTORS)

    def _from_sample(self, sample: View, rng: Rng) -> np.ndarray:
        return leading_of_sample(sample, self.width, rng)


class Wide(FromSample, FewPasses):
    """Wide blocks of residuals, from a start that is wider still."""

    products = WIDE_PRODUCTS

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        self.start_width = whole_registers(WIDE * width + WIDE_EXTRA - 2, 8)  # with the witness, whole registers

    def _shrink(self) -> None:
        """A narrower start, too."""
        super()._shrink()
        self.start_width = less(self.start_width, self.block)

    def _from_sample(self, sample: View, rng: Rng) -> np.ndarray:
        """The leading vectors of the sample, and as many random ones as the answer has columns.

        Random parts of all vectors, as in `Sampled`, would cost a factor of 20 after the first pass: there are many.
        """
        columns = min(self.start_width, sample.d)
        known = max(columns - self.width, 0)
        W = leading_vectors(sample, known, WIDE_PRODUCTS, rng) if known else None
        return random_start(sample, columns, rng, W)


class Reading(Wide):
    """Blocks of the answer's width or more, but no wider than are multiplied while they are read."""

    free: ClassVar[int] = FREE
    products = SAMPLE_PRODUCTS  # if the start is narrow; a wide one takes fewer

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        self.block = max(min(self.block, self.free), self.least_block)
        self.start_width = max(min(self.start_width, self.free), self.least_block)

    def _from_sample(self, sample: View, rng: Rng) -> np.ndarray:
        """As `Wide`; as `Sampled` where the start is too narrow for random columns besides."""
        if self.start_width >= 2 * self.width:
            return super()._from_sample(sample, rng)
        return leading_of_sample(sample, self.start_width, rng)


class SparseReading(Reading):
    """The same for sparse rows, of which fewer columns are multiplied meanwhile."""

    free = SPARSE_FREE


def with_random_parts(W: np.ndarray, rows: int, rng: Rng) -> np.ndarray:
    """Orthonormal columns that a number of rows gave, each with a random part of its own.

    A sample may miss directions altogether: rare rows, rare features. The random parts see as many of them as there are
    columns. They are as large as the error of the sample is, ``sqrt(columns / rows)``, so that they cost no pass.
    """
    size = np.sqrt(W.shape[1] / rows / len(W))
    return W + W.dtype.type(size) * rng.standard_normal(W.shape, dtype=W.dtype)


def leading_of_sample(sample: View, width: int, rng: Rng) -> np.ndarray:
    """The leading vectors of a sample, and random parts for what it has missed."""
    return with_random_parts(leading_vectors(sample, min(width, sample.d), SAMPLE_PRODUCTS, rng), sample.n, rng)


def leading_vectors(sample: View, count: int, products: int, rng: Rng) -> np.ndarray:
    """The leading vectors of a sample, as columns: block Lanczos steps from a random block, one per product."""
    space = Lanczos(sample, count, count, count, products * count, rng)
    for _ in range(products - 1):
        if space.pending:
            space.expand(sample, rng)
    if space.pending:
        space.complete(sample)
    return np.ascontiguousarray(space.combined(eigenpairs(space.H, min(count, space.size))[1]).T)


@dataclass(frozen=True, kw_only=True)
class NarrowState(WitnessedState):
    """The leading Ritz pairs of a Lanczos factorisation. The vectors are combined when asked for: few states are."""

    space: Lanczos
    coefficients: np.ndarray  # of the vectors in the first rows of S
    products: int  # how many products the pairs rest on, those of the start counting as one

    @cached_property
    def W(self) -> np.ndarray:
        """The vectors; once combined, they stay."""
        return self.space.combined(self.coefficients).T

    def vectors(self) -> np.ndarray:
        """W."""
        return self.W

    def images(self) -> np.ndarray:
        """The residuals, and ``theta W``."""
        W = self.W.T
        return self.space.residuals(self.coefficients) + W * self.theta[:, None].astype(W.dtype)

    def blind(self, k: int) -> bool:
        """Whether as many Ritz values as the block has vectors are equal, as far as residuals can tell.

        A block sees no more directions of a repeated eigenvalue than it has vectors. Where some of k eigenvalues are
        merely close, their Ritz vectors are mixed, and have residuals as large as the differences are.
        """
        lengths, b = np.sqrt(np.diag(self.G)), self.space.block
        return any(
            self.theta[i] - self.theta[i + b - 1] <= UNRESOLVED * lengths[i : min(i + b, k)].max()
            for i in range(min(k, len(self.theta) - b + 1))
        )

    def confirmed(self, view: View, k: int) -> NarrowState:
        """The state after the witness has been heard. It keeps the vectors that were combined for that."""
        told = super().confirmed(view, k)
        vars(told)["W"] = self.W
        return told


class Narrow(Accelerated, Solver[NarrowState]):
    """Each pass multiplies the next narrow block of the Krylov space."""

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        self.blocks = NARROW_BLOCKS  # that are kept, besides the wanted vectors
        self.heard = MOST  # products of a witness after another one has objected

    def memory(self, size: Size) -> dict[str, float]:
        """The vectors of S and Z, once widened; W of two states; what a product or a witness needs."""
        v, block = size.vector, self._block(size.d)
        wider = self.width + 2 * block
        rows = self.width + max(self._capacity(size.d), min(2 * wider, size.d)) + 4 * block
        rows += 2 * (self.width + 1) if size.guessed else 0
        columns, first = padded_to(2 * block + 1, PADDED), block + 1
        kept = rows + 2 * self.width + 2 * columns + self.heard + 2 * first
        busy = max(columns * v + size.product(columns), (self.heard + STATES * self.width) * v)
        summed = first * (2 * v + SUMMED_BLOCKS * DOUBLE * size.d) + size.product(first)
        return {
            f"a Krylov space of {rows} vectors of length {size.d}": kept * v + busy + small_matrices(rows),
            f"the product of the first block of {first} vectors of length {size.d}": summed,
        }

    def _shrink(self) -> None:
        """Fewer blocks before a restart, and fewer vectors of the witness."""
        self.blocks, self.heard = less(self.blocks, LEAST_BLOCKS), less(self.heard, LEAST_HEARD)

    def _capacity(self, d: int) -> int:
        block = self._block(d)
        keep = self.width + block
        spare = max(keep, NARROW_BLOCKS * block) * self.blocks // NARROW_BLOCKS
        return min(keep + max(spare, LEAST_BLOCKS * block), d)

    def wants(self, problem: Problem, rng: Rng, W0: np.ndarray | None = None) -> MomentSum | None:
        """The product of a random block with sparse rows of files, unless there is a guess, or columns are scaled.

        In memory nothing would be saved: the moments and the product walk sparse rows one after the other.
        """
        if self.options.cost == "time" or problem.scale or W0 is not None or not problem.source.sparse:
            return None
        d, dtype = problem.source.shape[1], problem.source.dtype
        W, guest = (rng.standard_normal(shape, dtype=dtype) for shape in ((d, self._block(d)), d))
        return FirstProductSum(problem, W, np.zeros(d) if problem.center else None, 0, guest)

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """To start: as many blocks as it takes to hold the wanted vectors, but for one that is known."""
        known = isinstance(first_pass.found, Pair)
        return Passes(start=float(self.width // self._block(view.d) + (0 if known else 1)), projections=1.0)

    def _block(self, d: int) -> int:
        return min(NARROW if self.width < MANY else 2 * NARROW, d)

    def start(self, view: View, first_pass: FirstPass, rng: Rng, W0: np.ndarray | None = None) -> NarrowState:
        """Expand a random block until there are enough vectors. The first pass may know its product."""
        block, found = self._block(view.d), first_pass.found
        size = self.width, block, self.width + block, self._capacity(view.d)
        if isinstance(found, Pair):
            space = Lanczos(view, *size, rng, Z0=found.W.T)
            space.expand(view, rng, images=found.U.T)
            witness = Witness((found.guest,), most=TRUSTED).after(found.image)
        else:
            space = Lanczos(view, *size, rng, W0)
            witness = Witness.random(view, rng, most=TRUSTED)
        while space.size <= self.width and space.pending:
            witness = witness.after(space.expand(view, rng, witness.column))
        return self._state(space, 1, witness)  # however many blocks that took: none has been followed far

    def step(self, view: View, state: NarrowState, rng: Rng) -> NarrowState:
        """Multiply the next block: one pass."""
        space, witness = state.space, state.witness
        if state.missed is not None:
            space.widen(state.missed, rng)
            witness = Witness.successor(view, rng, state.products, self.heard)
        if space.crowded:
            space.shrink(state.vectors().T)
        if space.pending:
            witness = witness.after(space.expand(view, rng, witness.column))
        return self._state(space, state.products + 1, witness)

    def _state(self, space: Lanczos, products: int, witness: Witness) -> NarrowState:
        l = min(self.width, space.size)
        theta, Y, G = space.pairs(l + 1)
        lengths = None if space.size >= space.order else np.sqrt(np.diag(G)[l:])
        mu, kind = known_outside(theta, l, lengths, products, share=min(1.0, space.block / (l + 1)))
        return NarrowState(
            d=space.S.shape[1],
            theta=theta[:l].copy(),
            G=G[:l, :l].copy(),
            mu=mu,
            kind=kind,
            basis=space.size,
            steps_left=None if space.pending else 0,
            space=space,
            coefficients=Y[:, :l].copy(),
            products=products,
            witness=witness,
        )
