"""Remark 1's second option: one vector at a time, each in the complement of those before it."""

from __future__ import annotations

import numpy as np

from vrpca.certificate import Probe
from vrpca.data.view import View
from vrpca.linalg import aligned_zeros, orthonormalise
from vrpca.solvers.base import Stochastic
from vrpca.solvers.iterate import Iterate, random_start, snapshot
from vrpca.solvers.options import Options
from vrpca.solvers.steps import vr_step
from vrpca.solvers.vr import vector_epoch


class Deflation(Stochastic):
    """Algorithm 1 on the leading vector until it is found, then on the next one with all rows projected.

    The paper subtracts ``sum_l s_l v_l v_l^T``; projecting onto the complement has the same leading eigenvectors and
    does not depend on how exact the s_l are. W has as many columns as there are vectors found or begun.
    """

    name = "vr"

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        self.step_rule = vr_step(view, options.step)
        self.tol = options.tol / 100  # per vector, without its gap, which is not known: refined below if too coarse
        self.current = 0

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """The first vector, random, or all that a warm start gives."""
        view.importance(self.options.sampling)
        columns = 1 if W0 is None else min(self.options.columns, W0.shape[1])
        return snapshot(view, random_start(view, columns, rng, W0), Probe(view.d, view.dtype, rng))

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """One epoch on the current vector; a new one is begun when the last one stands."""
        self._choose(it)
        W = aligned_zeros((view.d, max(self.current + 1, it.W.shape[1])), view.dtype)
        W[:, : it.W.shape[1]] = it.W
        if self.current == it.W.shape[1]:
            W[:, self.current] = rng.standard_normal(view.d)
        else:
            w = W[:, self.current].copy()
            vector_epoch(view, it, w, self.step_rule.size, self.m, self.options.sampling, rng, locked=self.current)
            W[:, self.current] = w
        it.release()
        if np.isfinite(W).all():
            orthonormalise(W)
        return snapshot(view, W, it.probe)

    def _choose(self, it: Iterate) -> None:
        """The first vector whose residual is still too large; if none is, ask for more of all of them."""
        errors = np.diag(it.G) / it.theta[0] ** 2
        floor = (10 * np.finfo(it.W.dtype).eps) ** 2
        while True:
            unfinished = np.flatnonzero(errors > max(self.tol, floor))
            self.current = int(unfinished[0]) if len(unfinished) else it.W.shape[1]
            if self.current < self.options.columns:
                return
            if self.tol <= floor:  # all are as good as rounding allows
                self.current = int(np.argmax(errors))
                return
            self.tol /= 10
