"""(Block) power iteration."""

from __future__ import annotations

import numpy as np

from vrpca.certificate import Probe
from vrpca.data.view import View
from vrpca.linalg import orthonormalise
from vrpca.solvers.iterate import Iterate, random_start, snapshot
from vrpca.solvers.options import Options


class Power:
    """W <- orthonormalise(A W), one reading each."""

    name = "power"
    monotone = True
    max_epochs = None
    step_rule = None

    def __init__(self, view: View, options: Options):
        self.options = options

    def passes_to_start(self, view: View) -> float:
        """Readings of the data before the first look: the snapshot."""
        return 1.0

    def passes_per_step(self, view: View) -> float:
        """Readings of the data by one iteration."""
        return 1.0

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """A random start and its snapshot."""
        W = random_start(view, self.options.columns, rng, W0)
        return snapshot(view, W, Probe(view.d, view.dtype, rng))

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """The snapshot's image becomes the next iterate."""
        assert it.U is not None
        W = it.U
        it.release()
        orthonormalise(W)
        return snapshot(view, W, it.probe)
