"""The solver that wins: one of three ways through the same Krylov spaces, by what the work is going to cost.

- Reading the data is the cost (disk, cluster): a wide basis streamed from all rows, then wide blocks of residuals.
- Arithmetic with the rows is the cost (many rows in memory): a start from samples, which the first look at the data
  multiplies, then blocks as wide as the answer.
- Arithmetic with long vectors is the cost (sparse rows): narrow blocks from a random start.
"""

from __future__ import annotations

import numpy as np

from vrpca.data.stream import Stream
from vrpca.data.view import View
from vrpca.solvers.base import Solver, whole_registers
from vrpca.solvers.iterate import Iterate, random_start
from vrpca.solvers.krylov import Krylov
from vrpca.solvers.lanczos import Lanczos
from vrpca.solvers.options import Options
from vrpca.solvers.space import Space

PART = 0.05  # of the rows, that a start from samples is made of
CASCADE = ((0.4, 5), (1.0, 3))  # parts of those, and products with each
FEWEST = 4  # rows per vector that make a sample worth solving
BLOCKS, VECTORS = 6, 48  # blocks and vectors that are kept before a restart, arithmetic being the cost
STREAMED, RESIDUALS, KEPT = 12, 2, 14  # widths in units of l, reading being the cost: no restart after the first step
WATCHED = 3  # pairs, in the same units, whose residuals tell what a stream may have missed
LONG = 1000  # entries per vector component below which the vectors cost more than the rows


class Accelerated(Solver):
    """Chooses the way and goes it."""

    name = "accelerated"
    projects = False

    @staticmethod
    def extra_columns(k: int, cost: str) -> int:
        """Wider blocks pay where passes are the cost."""
        return max(4, k // 2) if cost == "passes" else whole_registers(k, 8)

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        self.way: Solver
        if options.cost == "passes":
            self.way = Streamed(view, options)
        elif view.entries < LONG * view.d:
            self.way = Lanczos(view, options)
        else:
            self.way = Sampled(view, options)

    @staticmethod
    def streamed_columns(options: Options) -> int:
        """Width of the streamed basis to start from, if passes are what is to be saved."""
        return STREAMED * options.columns if options.cost == "passes" else 0

    @staticmethod
    def sampled_rows(options: Options, n: int, d: int, entries: int) -> int:
        """Some, if arithmetic with the rows is the cost."""
        if options.cost == "passes" or entries < LONG * d:
            return 0
        return _sample_size(n, min(options.columns + 1, d))

    @staticmethod
    def block_of_sample(sample: View, columns: int, rng: np.random.Generator) -> np.ndarray:
        """The leading vectors of the sample, and a random one for what it misses."""
        W = leading_of_sample(sample, columns, rng)
        W[:, -1] = rng.standard_normal(len(W), dtype=W.dtype) / W.dtype.type(np.sqrt(len(W)))
        return W

    def passes_to_start(self, view: View) -> float:
        """As the way has it."""
        return self.way.passes_to_start(view)

    @property
    def exhausted(self) -> bool:
        """As the way has it."""
        return self.way.exhausted

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """As the way has it."""
        return self.way.start(view, rng, W0)

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """One reading."""
        return self.way.step(view, it, rng)


class Streamed(Krylov):
    """Wide blocks of residuals, from a wide basis that one reading of all rows has left."""

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        self.width = min(max(RESIDUALS * options.columns, self.width), view.d)

    def passes_to_start(self, view: View) -> float:
        """The stream, and the first product."""
        return 2.0

    def _look(self) -> Iterate:
        it, residuals = self.space.iterate(max(WATCHED * self.options.columns, self.width))
        self.residuals = residuals[: self.width]
        return it

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """The product of the streamed basis (or of `W0`), and of a random vector for what it missed."""
        l = self.options.columns
        W = (self._stream(view, rng) if W0 is None else W0)[:, : STREAMED * l - 1]
        self.space = Space(view, l, KEPT * l)
        self.space.expand(random_start(view, min(W.shape[1] + 1, len(self.space.S)), rng, W).T)
        self.space.looks += 1  # the stream was a look as well
        return self._look()

    def _stream(self, view: View, rng: np.random.Generator) -> np.ndarray:
        stream = Stream(min(STREAMED * self.options.columns, view.d))
        view.show(stream, rng)
        basis = stream.basis()
        return np.zeros((view.d, 0), view.dtype) if basis is None else basis


class Sampled(Krylov):
    """Blocks as wide as the answer, from a start that samples of growing size have prepared."""

    def passes_to_start(self, view: View) -> float:
        """Rows of the sample, and the first product; neither, where the first look at the data has made it."""
        return 1.0 + PART if view.known is None else 0.0

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """The product of what a sample gave (or of `W0`), and of a random vector for what it missed."""
        self.space = Space(view, self.options.columns, max(BLOCKS * self.width, VECTORS))
        known, view.known = view.known, None  # another start is another one
        if W0 is None and known is not None:
            self.space.expand(known[0].T, known[1].T)
            self.space.looks += 1  # the sample was a look as well
            return self._look()
        W = self._sample(view, rng) if W0 is None else W0
        self.space.expand(random_start(view, self.width, rng, W).T)
        if W0 is None and W is not None:
            self.space.looks += 1
        return self._look()

    def _sample(self, view: View, rng: np.random.Generator) -> np.ndarray | None:
        """What a sample gives; None where rows are too few for one."""
        rows = _sample_size(view.n, self.width)
        return leading_of_sample(view.sample(rows, rng), self.options.columns, rng)[:, :-1] if rows else None


def _sample_size(n: int, width: int) -> int:
    rows = int(PART * n)
    return rows if rows >= FEWEST * width else 0


def leading_of_sample(sample: View, columns: int, rng: np.random.Generator) -> np.ndarray:
    """A few steps of block Krylov iteration on a part of a sample, then on all of it: one vector more than columns."""
    width = min(columns + 1, sample.d)
    W = random_start(sample, width, rng)
    for part, products in CASCADE:
        rows = int(part * sample.n)
        if rows >= FEWEST * width:
            W = _leading(sample if rows == sample.n else sample.sample(rows, rng), columns, products, W, rng)
    return W


def _leading(sample: View, columns: int, products: int, W: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    width = W.shape[1]
    space = Space(sample, columns, products * width)
    space.expand(W.T)
    for _ in range(products - 1):
        Z = space.fresh(space.iterate(width)[1], rng)
        if not len(Z):
            break
        space.expand(Z)
    return np.ascontiguousarray(space.vectors(width).T)
