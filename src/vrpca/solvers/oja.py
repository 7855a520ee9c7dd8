"""Oja's algorithm with step c/t, the paper's competitor; the block form for k > 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vrpca import kernels
from vrpca.data.view import Block, View
from vrpca.linalg import aligned_copy, orthonormalise
from vrpca.solvers.base import Rng
from vrpca.solvers.outside import Probe
from vrpca.solvers.snapshot import BareSnapshot, LightSnapshot, snapshot
from vrpca.solvers.steps import FIRST_STRETCH, Step, oja_step
from vrpca.solvers.stochastic import Stochastic, take_steps


class Oja(Stochastic):
    """m steps ``W <- W + (c/t) z z^T W`` between two snapshots."""

    def begin(self, view: View, W: np.ndarray, rng: Rng) -> LightSnapshot:
        """The first snapshot, before any step."""
        probe, step = Probe.random(view.d, view.dtype, rng), oja_step(view, self.options.step)
        return snapshot(view, W, probe, step, projected=self.projects)

    def step(self, view: View, state: BareSnapshot, rng: Rng) -> LightSnapshot:
        """Take m steps, then a snapshot."""
        W, probe, step = aligned_copy(state.W), state.probe, state.step
        del state  # frees U and P, which Oja's steps do not need
        step = oja_steps(view, W, step, self.epoch_length(view), self.options.sampling, rng)
        return snapshot(view, W, probe, step, projected=self.projects)


def oja_steps(view: View, W: np.ndarray, step: Step, m: int, sampling: str, rng: Rng) -> Step:
    """Take m of Oja's steps on W, in place; return the step size that comes after them."""
    rho = view.importance(sampling)

    def advance(block: Block, order: np.ndarray, done: int) -> None:
        eta = step.size / (step.taken + done + 1 + np.arange(len(order)))
        kernels.oja_block(block.rows, W, order, eta, block.cut(rho))

    take_steps(view.samples(m, rng, sampling), W, advance, FIRST_STRETCH)
    orthonormalise(W)
    return replace(step, taken=step.taken + m)
