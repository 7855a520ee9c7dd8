"""(Block) power iteration."""

from __future__ import annotations

import numpy as np

from vrpca.data.view import View
from vrpca.linalg import orthonormalise
from vrpca.solvers.base import Solver
from vrpca.solvers.iterate import Iterate, snapshot


class Power(Solver):
    """W <- orthonormalise(A W), one reading each."""

    name = "power"

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """The snapshot's image becomes the next iterate."""
        assert it.U is not None
        W = it.U
        it.release()
        orthonormalise(W)
        return snapshot(view, W, it.probe)
