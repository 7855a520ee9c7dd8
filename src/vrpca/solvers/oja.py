"""Oja's algorithm with step c/t, the paper's competitor; the block form for k > 1."""

from __future__ import annotations

import numpy as np

from vrpca import kernels
from vrpca.data.view import Block, View
from vrpca.linalg import aligned_copy, orthonormalise
from vrpca.solvers.base import Stochastic
from vrpca.solvers.iterate import Iterate, snapshot
from vrpca.solvers.options import Options
from vrpca.solvers.steps import Step, oja_step
from vrpca.solvers.vr import Walk


class Oja(Stochastic):
    """n steps ``W <- W + (c/t) z z^T W`` between two looks at the objective."""

    name = "oja"
    monotone = False  # its noise does not vanish: a lower objective is not a sign of a bad step

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        self.step_rule = oja_step(view, options.step)
        self.taken = 0

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """Take m steps, then an exact look."""
        W = aligned_copy(it.W)
        it.release()
        oja_steps(view, W, self.step_rule, self.m, self.taken, self.options.sampling, rng)
        self.taken += self.m
        return snapshot(view, W, it.probe)


def oja_steps(view: View, W: np.ndarray, c: Step, m: int, taken: int, sampling: str, rng: np.random.Generator) -> None:
    """Oja's steps number taken+1, ..., taken+m, on W in place."""
    rho = view.importance(sampling)

    def advance(block: Block, order: np.ndarray, done: int) -> None:
        eta = c.size / (taken + done + 1 + np.arange(len(order)))
        kernels.oja_block(block.rows, W, order, eta, block.cut(rho))

    Walk()(view.samples(m, rng, sampling), W, advance)
    orthonormalise(W)
