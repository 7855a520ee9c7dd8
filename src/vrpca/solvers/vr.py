"""VR-PCA: Algorithm 1 of the paper, for one vector. Its block form (Remark 1) is in `vr_block.py`.

    parameters: step size eta, epoch length m
    input: rows z_1, ..., z_n, and a unit vector w~_0

    for s = 1, 2, ...
        u~ = (1/n) sum_i z_i (z_i^T w~_(s-1))                                    the snapshot: one pass
        w_0 = w~_(s-1)
        for t = 1, ..., m                                                        the epoch
            draw i from 1, ..., n
            w'_t = w_(t-1) + eta (z_i (z_i^T w_(t-1) - z_i^T w~_(s-1)) + u~)
            w_t = w'_t / |w'_t|
        w~_s = w_m

``z_i^T w~`` is the control variate: near w~ it cancels the noise of the step, so that eta need not decay.
"""

from __future__ import annotations

import numpy as np

from vrpca import kernels
from vrpca.data.view import View
from vrpca.linalg import aligned_copy
from vrpca.solvers.base import Rng
from vrpca.solvers.snapshot import LightSnapshot, Snapshot, snapshot
from vrpca.solvers.stochastic import VarianceReduced, epochs_left, orthonormal


class VR(VarianceReduced):
    """Algorithm 1: each step of the solver is one epoch, and the snapshot of what it reached."""

    def step(self, view: View, state: Snapshot, rng: Rng) -> LightSnapshot:
        """An epoch from the snapshot w~ = W, u~ = U, then the next snapshot."""
        reached = [self.epoch(view, state, rng)]
        probe, step, left = state.probe, state.step, epochs_left(state)
        del state  # frees U and P before the next ones are made
        return snapshot(view, orthonormal(reached.pop()), probe, step, left)

    def epoch(self, view: View, state: Snapshot, rng: Rng) -> np.ndarray:
        """M steps ``w <- normalise(w + eta (rho_i z_i (z_i^T w - p_i) + u))``, with ``p_i = z_i^T w~``.

        Rows are drawn uniformly (rho_i = 1), or by their norms with the weights rho_i.
        """
        w0, u, p = state.W[:, 0].copy(), state.U[:, 0].copy(), state.P[:, 0].copy()
        w, eta, rho = w0.copy(), state.step.size, view.importance(self.options.sampling)
        for block, order in view.samples(self.epoch_length(view), rng, self.options.sampling):
            kernels.vr_vector(block.rows, w, w0, u, block.cut(p), None, None, order, eta, block.cut(rho))
        return aligned_copy(w[:, None])
