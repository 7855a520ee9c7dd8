"""How much memory a fit takes at its peak: a model of the arrays that are there at once.

A fit holds the source's own arrays and its blocks, some numbers for each row and column, and the arrays of the solver.
Solvers state theirs (`Solver.memory`), sources theirs (`Source.held_bytes`, `Source.block_memory`); `Demand.need` puts
them together. `benchmarks/memory.py` compares the model with what is measured. Beside the limit, 300 MB are allowed for
what is not modelled: the interpreter's own growth, what malloc keeps, BLAS' buffers, stacks of threads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

UNITS = {"": 1, "b": 1} | {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgtp", 1)
    for ending, base in (("", 1000), ("b", 1000), ("ib", 1024))
}
DOUBLE = 8  # bytes
# Bytes of a block of a file. The first is the default; smaller ones are slower.
BLOCK_SIZES = (16 << 20, 4 << 20, 1 << 20)
COLUMN_NUMBERS = 16  # doubles per column: means, variances, scales, the diagonal of A, and what they are made from
WEIGHT_NUMBERS = 4  # doubles per row with weights: the weights, their roots, and what these are made from
NORM_NUMBERS = 4  # doubles per row with sampling="norm": norms, their inverses, sums, and a temporary one
SHIFT_NUMBERS = 4  # doubles per row where the transposed matrix is centred: a vector of ones, scaled and rounded
SMALL_MATRICES = 6  # matrices of the order of a search space, in double precision: it, its eigenvectors, LAPACK's room
JOINED_BLOCKS = 5  # blocks in double precision in `solvers.base.together`: both, their factors, LAPACK's copy
PADDED = 8  # sparse products are padded to multiples of so many columns (kernels/native/sizes.hpp)
# Sparse products have sums in double for columns where one row in so many has an entry. These rows may be twice as long
# as others. Rows of W that are longer, and a W that is larger, are multiplied 16 columns at a time
# (kernels/native/bind_products.cpp).
RUN_ROWS, LONGER = 128, 2
WHOLE_ROW, WHOLE_BLOCK, STRIP = 96, 1 << 20, 16
INDEX, LONG_INDEX = 4, 8  # bytes of a column number
TILE_ROWS = 6  # rows that a dense product copies at a time, at most (kernels/native/products_dense.inl)
PART_ROWS = 64  # rows that a thread of a dense product has, at least (kernels/native/parts.hpp)
SEARCH_WIDTH = 8  # vectors of a block of a random search (WIDTH in solvers/outside.py)
SEARCH_BLOCKS = 8  # blocks that a step of it has besides the space
WRITTEN = 2 * (16 << 20)  # bytes while a checkpoint is written: NumPy writes 16 MB at a time; measured 17.6 MB at most
TRIPLETS = 3  # copies of the k wanted vectors while U, s and Vt are made of Z W


def as_bytes(value: Any) -> int | None:
    """A number of bytes from an integer, or from text such as "2GB", "500 MB" or "1GiB"; None if it is none of these.

    >>> as_bytes("2GB"), as_bytes("1.5 GiB"), as_bytes(10**6), as_bytes("lots")
    (2000000000, 1610612736, 1000000, None)
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", value.lower())
        if match is None or match[2] not in UNITS:
            return None
        number, unit = match[1], UNITS[match[2]]
        size = int(number) * unit if number.isdigit() else int(float(number) * unit)
        return size if size > 0 else None
    return int(value) if value > 0 else None


def in_words(size: float) -> str:
    """A number of bytes for people.

    >>> in_words(1234567), in_words(2e9), in_words(12)
    ('1.23 MB', '2 GB', '12 bytes')
    """
    if size == math.inf:
        return "more memory than can be named"
    for power, prefix in enumerate(("", "k", "M", "G", "T")):
        if size < 1000 ** (power + 1) or prefix == "T":
            return f"{size / 1000**power:.3g} {prefix}B" if power else f"{int(size)} bytes"
    raise AssertionError("the loop returns")


@dataclass(frozen=True)
class Size:
    """The sizes that the memory of a solver depends on: those of a view, and of its blocks."""

    n: int  # rows
    d: int  # features: the length of vectors
    itemsize: int  # bytes of a number
    row_bytes: float  # of a row, with its column numbers where it is sparse
    sparse: bool
    block_rows: int  # rows of a block; all of them where the data are one block
    n_threads: int
    weighted: bool = False
    transposed: bool = False  # whether the view is of the transposed matrix: the first pass gives it means only
    reads: bool = False  # whether rows are read from files: samples are copied once more where they are sparse
    most_sampled: float = math.inf  # rows that a sample has at most
    guessed: bool = False  # whether a run may start from a guess of the vectors, beside its own start

    @property
    def vector(self) -> int:
        """Bytes of a vector."""
        return self.d * self.itemsize

    @property
    def square(self) -> int:
        """Bytes of A, in double precision."""
        return DOUBLE * self.d**2

    @property
    def parts(self) -> int:
        """Threads that have a part of a block."""
        return max(1, min(self.n_threads, -(-self.block_rows // PART_ROWS)))

    def product(self, columns: int) -> int:
        """Bytes of scratch of a product with a block of this number of columns (kernels/native/bind_products.cpp)."""
        if self.sparse:
            return columns * self.vector * (1 + self.n_threads) + self._settled(columns)
        tiles = self.parts * TILE_ROWS * self.vector
        return columns * self.d * (self.itemsize * (1 + self.parts) + DOUBLE * self.parts) + tiles

    def _settled(self, columns: int) -> int:
        """Bytes of the sums in double of a sparse product, and of their places."""
        entries = self.block_rows * self.row_bytes / (self.itemsize + INDEX)
        vectors = min(self.n_threads * self.d, LONGER * entries / RUN_ROWS)
        whole = columns * self.itemsize <= WHOLE_ROW or columns * self.vector <= WHOLE_BLOCK
        together = columns if whole else min(columns, STRIP)
        return INDEX * self.n_threads * self.d + math.ceil((DOUBLE * together + LONG_INDEX) * vectors)

    def joined(self, columns: int) -> int:
        """Bytes while a guess and this number of columns are made orthonormal, in double precision."""
        return JOINED_BLOCKS * columns * DOUBLE * self.d if self.guessed else 0

    def sample(self, rows: int) -> float:
        """Bytes of a sample of this number of rows, and of its making.

        Files give whole runs: up to a block more.
        """
        rows = min(rows + self.block_rows, self.n) if self.reads else rows
        return rows * self.row_bytes * (2 if self.sparse and self.reads else 1)


def padded_to(count: int, multiple: int) -> int:
    """The next multiple.

    >>> padded_to(13, 8)
    16
    """
    return -(-count // multiple) * multiple


def small_matrices(order: int) -> int:
    """Bytes of what a search space of this order has besides vectors."""
    return SMALL_MATRICES * DOUBLE * order**2


@dataclass(frozen=True)
class Need:
    """The memory of a fit, and what takes most of it."""

    bytes: int
    what: str


class HasMemory(Protocol):
    """A solver, as far as this module is concerned."""

    width: int

    def memory(self, size: Size) -> Mapping[str, float]:
        """Bytes at the peak of each of its stages."""
        ...


def _search(size: Size, width: int, products: int) -> int:
    """Bytes of a random search outside W (`solvers.outside.RandomSearch`)."""
    vectors = 2 * products * SEARCH_WIDTH + SEARCH_BLOCKS * SEARCH_WIDTH + 2 * width
    return vectors * size.vector + size.product(SEARCH_WIDTH) + small_matrices(products * SEARCH_WIDTH)


@dataclass(frozen=True)
class Demand:
    """What a fit is to give, besides what solver and source need."""

    k: int = 1
    weighted: bool = False
    center: bool = False
    norms: bool = False  # whether the norms of all rows are kept
    left: bool = False  # whether ``P = Z W`` is made, for the left vectors or the rank
    proof: bool = False  # whether a random search is to prove the answer
    guessed: bool = False  # whether there is a guess of the vectors
    checkpoint: bool = False  # whether checkpoints are written
    n_threads: int = 1

    def need(
        self, solver: HasMemory, source: Any, transpose: bool, block_bytes: int, products: int, blocks: int
    ) -> Need:
        """The memory at the peak of a fit with blocks of this size, and with this number of products of a proof.

        Reading takes `blocks` bytes (`Source.block_memory`).
        """
        size = self.size(source, transpose, block_bytes)
        stages = dict(solver.memory(size))
        if self.proof:
            stages[f"a random search with {products} products"] = _search(size, solver.width, products)
        if self.left or transpose:
            stages[f"Z W, {size.n} x {solver.width}, and singular vectors made of it"] = self._triplets(
                size, solver.width
            )
        what, largest = max(stages.items(), key=lambda stage: stage[1])
        always = source.held_bytes + blocks + self._numbers(size) + (WRITTEN if self.checkpoint else 0)
        if always > largest:
            what = "the data that have to be loaded, their blocks, and numbers for each row and column"
        return Need(math.ceil(always + largest), what)

    def size(self, source: Any, transpose: bool, block_bytes: int) -> Size:
        """The sizes of the view of a source, or of its transpose."""
        n, d = source.shape[::-1] if transpose else source.shape
        rows = source.rows_of_blocks(block_bytes)
        per_row = source.bytes_per_row
        if transpose:
            rows, per_row = max(1, min(n, rows * source.shape[0] // max(1, d))), per_row * d / n
        kind = (source.sparse, rows, self.n_threads, self.weighted, transpose, source.reads_files)
        return Size(n, d, source.dtype.itemsize, per_row, *kind, source.most_sampled, self.guessed)

    def _numbers(self, size: Size) -> int:
        """Bytes of what is kept for each row and each column of the data."""
        rows, columns = (size.d, size.n) if size.transposed else (size.n, size.d)
        per_row = WEIGHT_NUMBERS * self.weighted + NORM_NUMBERS * self.norms
        per_row += SHIFT_NUMBERS * (self.center and size.transposed)
        return DOUBLE * (COLUMN_NUMBERS * columns + per_row * rows)

    def _triplets(self, size: Size, width: int) -> int:
        """Bytes while U, s and Vt are made of ``P = Z W``."""
        return size.itemsize * (size.n * (width + TRIPLETS * self.k) + size.d * (3 * width + TRIPLETS * self.k))
