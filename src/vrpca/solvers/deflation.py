"""Remark 1's second option: one vector at a time, each in the complement of those before it."""

from __future__ import annotations

import numpy as np

from vrpca import kernels
from vrpca.data.first_pass import FirstPass
from vrpca.data.view import View
from vrpca.linalg import aligned_zeros
from vrpca.solvers.base import random_start
from vrpca.solvers.outside import Probe
from vrpca.solvers.snapshot import Snapshot, Stochastic, orthonormal, snapshot
from vrpca.solvers.steps import vr_step

LEEWAY = 100  # each vector is found to tol / LEEWAY at first, since its gap is not known; refined if too coarse


class Deflation(Stochastic):
    """Algorithm 1 on the leading vector until it is found, then on the next one with all rows projected.

    The paper subtracts ``sum_l s_l v_l v_l^T``; projecting onto the complement has the same leading eigenvectors and
    does not depend on how exact the s_l are. W has as many columns as there are vectors found or begun. `carry` is the
    tolerance per vector.
    """

    def start(
        self, view: View, first_pass: FirstPass, rng: np.random.Generator, W0: np.ndarray | None = None
    ) -> Snapshot:
        """The first vector, random, or all that a warm start gives."""
        view.importance(self.options.sampling)
        columns = 1 if W0 is None else min(self.width, W0.shape[1])
        W = random_start(view, columns, rng, W0)
        step, tol = vr_step(view, self.options.step), self.options.tol / LEEWAY
        return snapshot(view, W, Probe.random(view.d, view.dtype, rng), step=step, carry=tol)

    def step(self, view: View, state: Snapshot, rng: np.random.Generator) -> Snapshot:
        """One epoch on the current vector; a new one is begun when the last one stands."""
        current, tol = self._current(state)
        found = state.W.shape[1]
        W = aligned_zeros((view.d, max(current + 1, found)), view.dtype)
        W[:, :found] = state.W
        W[:, current] = rng.standard_normal(view.d) if current == found else self._epoch(view, state, current, rng)
        probe, step = state.probe, state.step
        del state  # frees U and P before the next ones are made
        return snapshot(view, orthonormal(W), probe, step=step, carry=tol)

    def _epoch(self, view: View, state: Snapshot, current: int, rng: np.random.Generator) -> np.ndarray:
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
        tol = state.carry
        errors = np.diag(state.G) / state.theta[0] ** 2
        floor = (10 * np.finfo(state.W.dtype).eps) ** 2
        while True:
            unfinished = np.flatnonzero(errors > max(tol, floor))
            current = int(unfinished[0]) if len(unfinished) else state.W.shape[1]
            if current < self.width:
                return current, tol
            if tol <= floor:  # all are as good as rounding allows
                return int(np.argmax(errors)), tol
            tol /= 10
