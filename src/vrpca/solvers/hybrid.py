"""The paper's hybrid: n of Oja's steps, whose decaying size suits the beginning, then VR-PCA."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vrpca.data.first_pass import FirstPass
from vrpca.data.view import View
from vrpca.linalg import aligned_copy
from vrpca.options import Options
from vrpca.solvers.base import Passes, random_start
from vrpca.solvers.oja import oja_steps
from vrpca.solvers.snapshot import Snapshot, Stochastic
from vrpca.solvers.steps import oja_step
from vrpca.solvers.vr import VR


class Hybrid(Stochastic):
    """VR-PCA from where Oja's algorithm gets in one pass.

    Parameters
    ----------
    vr : VR
        The solver that goes on, for one vector or for a block.
    """

    def __init__(self, options: Options, width: int, vr: VR):
        super().__init__(options, width)
        self.vr = vr

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """To start: Oja's steps besides what `vr` needs."""
        passes = self.vr.passes(view, first_pass)
        return replace(passes, start=passes.start + view.passes_of_samples(view.n))

    def start(
        self, view: View, first_pass: FirstPass, rng: np.random.Generator, W0: np.ndarray | None = None
    ) -> Snapshot:
        """Oja's n steps from a random start, and the snapshot."""
        view.importance(self.options.sampling)
        W = random_start(view, self.width, rng, W0)
        before, c = aligned_copy(W), oja_step(view, "auto")
        oja_steps(view, W, c, view.n, 0, self.options.sampling, rng)
        while not np.isfinite(W).all():  # a few heavy rows can overflow the first, long steps
            W[...], c = before, c.halved()
            oja_steps(view, W, c, view.n, 0, self.options.sampling, rng)
        return self.vr.begin(view, W, rng)

    def step(self, view: View, state: Snapshot, rng: np.random.Generator) -> Snapshot:
        """An epoch of VR-PCA."""
        handed_over = [state]
        del state  # so that `vr` holds the only reference, and can free U and P
        return self.vr.step(view, handed_over.pop(), rng)
