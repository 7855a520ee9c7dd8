"""Remark 1's second option: one vector at a time, each in the complement of those before it."""

from __future__ import annotations

import numpy as np

from vrpca import kernels
from vrpca.data.view import View
from vrpca.linalg import aligned_copy
from vrpca.memory import Size
from vrpca.solvers.base import Rng
from vrpca.solvers.outside import Probe
from vrpca.solvers.snapshot import LightSnapshot, Snapshot, snapshot
from vrpca.solvers.steps import vr_step
from vrpca.solvers.stochastic import Stochastic, orthonormal

LEEWAY = 100  # each vector is found to tol / LEEWAY at first, since its gap is not known; refined if too coarse
TIGHTER = 10  # the tolerance is divided by this when all vectors meet it and the certificate asks for more


class Deflation(Stochastic):
    """Algorithm 1 on the leading vector until it is found, then on the next one with all rows projected.

    The paper subtracts ``sum_l s_l v_l v_l^T``; projecting onto the complement has the same leading eigenvectors and
    does not depend on how exact the s_l are. W has all columns from the start: those of vectors that are not begun yet
    are random.
    """

    @property
    def keeps_projections(self) -> bool:
        """Always: they are the control variate."""
        return True

    def _rows(self, size: Size) -> float:
        """Bytes of P, and of its columns for the vectors that have been found."""
        return 2 * super()._rows(size)

    def begin(self, view: View, W: np.ndarray, rng: Rng) -> LightSnapshot:
        """The first snapshot, with the step size and the tolerance per vector."""
        probe, step = Probe.random(view.d, view.dtype, rng), vr_step(view, self.options.step)
        return snapshot(view, W, probe, step, tol=self.options.tol / LEEWAY)

    def step(self, view: View, state: Snapshot, rng: Rng) -> LightSnapshot:
        """One epoch on the first vector that has not been found yet."""
        current, tol = self._current(state)
        W = aligned_copy(state.W)
        W[:, current] = self._epoch(view, state, current, rng)
        probe, step = state.probe, state.step
        del state  # frees U and P before the next ones are made
        return snapshot(view, orthonormal(W), probe, step, tol=tol)

    def _epoch(self, view: View, state: Snapshot, current: int, rng: Rng) -> np.ndarray:
        """Algorithm 1's inner loop on one column of the snapshot, in the complement of the columns before it."""
        w0, u, p = (M[:, current].copy() for M in (state.W, state.U, state.P))
        V = np.ascontiguousarray(state.W[:, :current]) if current else None
        Q = np.ascontiguousarray(state.P[:, :current]) if current else None
        if V is not None:
            u -= V @ (V.T @ u)
        w, eta, rho = w0.copy(), state.step.size, view.importance(self.options.sampling)
        for block, order in view.samples(self.epoch_length(view), rng, self.options.sampling):
            kernels.vr_vector(block.rows, w, w0, u, block.cut(p), V, block.cut(Q), order, eta, block.cut(rho))
        return w

    def _current(self, state: Snapshot) -> tuple[int, float]:
        """The first vector whose residual is still too large, and the tolerance; if none is, ask for more of all."""
        tol = state.tol
        errors = np.diag(state.G) / state.theta[0] ** 2
        floor = (10 * np.finfo(state.W.dtype).eps) ** 2
        while True:
            unfinished = np.flatnonzero(errors > max(tol, floor))
            if len(unfinished):
                return int(unfinished[0]), tol
            if tol <= floor:  # all are as good as rounding allows
                return int(np.argmax(errors)), tol
            tol /= TIGHTER
