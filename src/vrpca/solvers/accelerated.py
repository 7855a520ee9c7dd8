"""The solver that wins: a start that costs little, then Rayleigh-Ritz over everything that was multiplied by A.

Two extremes of one policy. Where arithmetic is the cost, the start is a cascade of samples and blocks are narrow. Where
reading is the cost, the start is a wide basis streamed from all rows, and wide blocks of residuals are multiplied at
each reading.
"""

from __future__ import annotations

import numpy as np

from vrpca.data.stream import Stream
from vrpca.data.view import View
from vrpca.solvers.iterate import Iterate, random_start
from vrpca.solvers.krylov import Krylov
from vrpca.solvers.options import Options
from vrpca.solvers.space import Space

CASCADE = ((0.02, 5), (0.1, 3))  # parts of the rows, and products with each, that a cheap start is made of
FEWEST = 4  # rows per column that make a sample worth solving
NARROW_BLOCKS, NARROW_COLUMNS = 6, 48  # what is kept before a restart at least, arithmetic being the cost
STREAMED, RESIDUALS, KEPT = 11, 3, 14  # widths in units of l, reading being the cost


class Accelerated(Krylov):
    """Block Krylov iteration from a start that samples, or a stream of all rows, have prepared."""

    name = "accelerated"

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        self.wide = options.cost == "passes"
        if self.wide:
            self.width = min(max(RESIDUALS * options.columns, self.width), view.d)

    @staticmethod
    def streamed_columns(options: Options) -> int:
        """Width of the streamed basis to start from, if passes are what is to be saved."""
        return STREAMED * options.columns if options.cost == "passes" else 0

    def passes_to_start(self, view: View) -> float:
        """Rows of the samples or of the stream, and a snapshot."""
        return 2.0 if self.wide else 1.0 + sum(part for part, _ in CASCADE)

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """The exact product of what samples or stream gave (or of `W0`), and of a random column: nothing stays hidden."""
        l = self.options.columns
        self.space = Space(view, l, KEPT * l if self.wide else max(NARROW_BLOCKS * self.width, NARROW_COLUMNS))
        if self.wide:
            W = self._streamed(view, rng) if W0 is None else W0
            W = random_start(view, min(W.shape[1], KEPT * l, view.d - 1) + 1, rng, W[:, : KEPT * l])
        else:
            W = random_start(view, self.width, rng, self._sampled(view, rng) if W0 is None else W0)
        self.space.expand(W)
        self.space.looks += 1  # samples and stream have been looked at as well
        return self._look()

    def _streamed(self, view: View, rng: np.random.Generator) -> np.ndarray:
        """A wide basis from one reading of all rows."""
        stream = Stream(min(self.streamed_columns(self.options), view.d))
        view.show(stream, rng)
        basis = stream.basis()
        return np.zeros((view.d, 0), view.dtype) if basis is None else basis

    def _sampled(self, view: View, rng: np.random.Generator) -> np.ndarray:
        """Leading vectors of growing samples."""
        W = random_start(view, self.width, rng)
        for part, products in CASCADE:
            rows = int(part * view.n)
            if rows >= FEWEST * self.width:
                W = self._leading(view, rows, products, W, rng)
        return W[:, :-1]

    def _leading(self, view: View, rows: int, products: int, W: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A few steps of block Krylov iteration on a sample, from W."""
        sample = view.sample(rows, rng)
        space = Space(sample, self.options.columns, products * self.width)
        space.expand(W)
        for _ in range(products - 1):
            Z = space.fresh(space.iterate(self.width)[1], rng)
            if not Z.shape[1]:
                break
            space.expand(Z)
        return np.ascontiguousarray(space.pairs(self.width)[0])
