"""The solver that wins: one of three ways through the same Krylov spaces, by what the work is going to cost.

- Reading the data is the cost (disk, cluster): a wide basis streamed from all rows, then wide blocks of residuals.
- Arithmetic with the rows is the cost (many rows in memory): a start from samples, then blocks as wide as the answer.
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

CASCADE = ((0.02, 5), (0.05, 3))  # parts of the rows, and products with each, that a start from samples is made of
FEWEST = 4  # rows per vector that make a sample worth solving
BLOCKS, VECTORS = 6, 48  # blocks and vectors that are kept before a restart, arithmetic being the cost
STREAMED, RESIDUALS, KEPT = 12, 2, 14  # widths in units of l, reading being the cost: no restart after the first step
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
        """Rows of the samples, and the first product."""
        return 1.0 + sum(part for part, _ in CASCADE)

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """The product of what the samples gave (or of `W0`), and of a random vector for what they missed."""
        self.space = Space(view, self.options.columns, max(BLOCKS * self.width, VECTORS))
        W = self._sample(view, rng) if W0 is None else W0
        self.space.expand(random_start(view, self.width, rng, W).T)
        if W0 is None and W is not None:
            self.space.looks += 1  # the samples were a look as well
        return self._look()

    def _sample(self, view: View, rng: np.random.Generator) -> np.ndarray | None:
        """What the samples give; None where rows are too few for any."""
        samples = [(int(part * view.n), products) for part, products in CASCADE]
        samples = [(rows, products) for rows, products in samples if rows >= FEWEST * self.width]
        if not samples:
            return None
        W = random_start(view, self.width, rng)
        for rows, products in samples:
            W = self._leading(view.sample(rows, rng), products, W, rng)
        return W[:, :-1]

    def _leading(self, sample: View, products: int, W: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A few steps of block Krylov iteration on a sample, from W."""
        space = Space(sample, self.options.columns, products * self.width)
        space.expand(W.T)
        for _ in range(products - 1):
            Z = space.fresh(space.iterate(self.width)[1], rng)
            if not len(Z):
                break
            space.expand(Z)
        return space.vectors(self.width).T
