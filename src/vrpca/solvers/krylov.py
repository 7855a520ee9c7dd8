"""Block Krylov iteration: Rayleigh-Ritz over all residuals so far, with thick restart."""

from __future__ import annotations

import numpy as np

from vrpca.data.view import View
from vrpca.solvers.base import Solver, whole_registers
from vrpca.solvers.iterate import Iterate, random_start
from vrpca.solvers.options import Options
from vrpca.solvers.space import Space

BLOCKS = 10  # blocks of vectors that are kept before a restart


class Krylov(Solver):
    """Each reading multiplies the residuals by A and searches everything that has been multiplied so far."""

    name = "krylov"
    projects = False
    space: Space
    residuals: np.ndarray

    @staticmethod
    def extra_columns(k: int, cost: str) -> int:
        """As many as fill the panels of dense products, also for one vector."""
        return whole_registers(k, 8)

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        self.width = min(options.columns + 1, view.d)  # one more: the pair that tells what is left outside

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """The exact product of a random block (or of `W0` and random columns)."""
        self.space = Space(view, self.options.columns, BLOCKS * self.width)
        self.space.expand(random_start(view, self.width, rng, W0).T)
        return self._look()

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """One reading."""
        self.space.make_room(self.width)
        Z = self.space.fresh(self.residuals, rng)
        if len(Z):
            self.space.expand(Z)
        return self._look()

    @property
    def exhausted(self) -> bool:
        """Whether the space is all there is."""
        return self.space.full

    def _look(self) -> Iterate:
        it, self.residuals = self.space.iterate(self.width)
        return it
