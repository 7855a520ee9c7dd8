"""The paper's hybrid: n of Oja's steps, whose decaying size suits the beginning, then VR-PCA."""

from __future__ import annotations

import numpy as np

from vrpca.certificate import Probe
from vrpca.data.view import View
from vrpca.linalg import aligned_copy
from vrpca.solvers.iterate import Iterate, random_start, snapshot
from vrpca.solvers.oja import oja_steps
from vrpca.solvers.steps import oja_step
from vrpca.solvers.vr import VR


class Hybrid(VR):
    """VR-PCA from where Oja's algorithm got in one pass."""

    name = "hybrid"

    def passes_to_start(self, view: View) -> float:
        """Readings of the data before the first look: Oja's steps besides what `vr` needs."""
        return super().passes_to_start(view) + view.passes_of_samples(view.n)

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """Oja's n steps from a random start, and the snapshot."""
        view.importance(self.options.sampling)
        W = random_start(view, self.options.columns, rng, W0)
        begun, c = aligned_copy(W), oja_step(view, "auto")
        oja_steps(view, W, c, view.n, 0, self.options.sampling, rng)
        while not np.isfinite(W).all() and c.halve():  # a few heavy rows can overflow the first, long steps
            W[...] = begun
            oja_steps(view, W, c, view.n, 0, self.options.sampling, rng)
        return snapshot(view, W, Probe(view.d, view.dtype, rng))
