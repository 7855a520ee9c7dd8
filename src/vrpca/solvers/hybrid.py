"""The paper's hybrid: n of Oja's steps, whose decaying size suits the beginning, then VR-PCA."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vrpca.data.first_pass import FirstPass
from vrpca.data.view import View
from vrpca.linalg import aligned_copy
from vrpca.options import Options
from vrpca.solvers.base import Passes, Rng, State
from vrpca.solvers.oja import oja_steps
from vrpca.solvers.snapshot import LightSnapshot, Snapshot
from vrpca.solvers.steps import oja_step
from vrpca.solvers.stochastic import Stochastic
from vrpca.solvers.vr_block import vr_variant

HALVINGS = 60  # of the step: after so many, Oja's steps change nothing


class Hybrid(Stochastic):
    """VR-PCA, for one vector or for a block, from where Oja's algorithm gets in one pass."""

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        self.vr = vr_variant(options, width)(options, width)

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """To start: Oja's steps besides what `vr` needs."""
        passes = self.vr.passes(view, first_pass)
        return replace(passes, start=passes.start + view.passes_of_samples(view.n))

    @property
    def keeps_projections(self) -> bool:
        """As `vr` does."""
        return True

    def begin(self, view: View, W: np.ndarray, rng: Rng) -> LightSnapshot:
        """Oja's n steps, and the snapshot."""
        before, c = aligned_copy(W), oja_step(view, "auto")
        oja_steps(view, W, c, view.n, self.options.sampling, rng)
        for _ in range(HALVINGS):  # a few heavy rows can overflow the first, long steps
            if np.isfinite(W).all():
                break
            W[...], c = before, c.halved()
            oja_steps(view, W, c, view.n, self.options.sampling, rng)
        else:
            W[...] = before
        return self.vr.begin(view, W, rng)

    def step(self, view: View, state: Snapshot, rng: Rng) -> State:
        """An epoch of VR-PCA."""
        handed_over = [state]
        del state  # so that `vr` holds the only reference, and can free U and P
        return self.vr.step(view, handed_over.pop(), rng)
