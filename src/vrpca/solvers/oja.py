"""Oja's algorithm with step c/t, the paper's competitor; the block form for k > 1."""

from __future__ import annotations

import numpy as np

from vrpca import kernels
from vrpca.data.view import Block, View
from vrpca.linalg import aligned_copy, orthonormalise
from vrpca.solvers.outside import Probe
from vrpca.solvers.snapshot import Snapshot, Stochastic, snapshot
from vrpca.solvers.steps import Step, oja_step
from vrpca.solvers.vr_block import walk


class Oja(Stochastic):
    """m steps ``W <- W + (c/t) z z^T W`` between two snapshots; `carry` is the number of steps taken so far."""

    def begin(self, view: View, W: np.ndarray, rng: np.random.Generator) -> Snapshot:
        """The first snapshot, before any step."""
        view.importance(self.options.sampling)
        probe = Probe.random(view.d, view.dtype, rng)
        return snapshot(view, W, probe, step=oja_step(view, self.options.step), carry=0)

    def step(self, view: View, state: Snapshot, rng: np.random.Generator) -> Snapshot:
        """Take m steps, then a snapshot."""
        W, probe, step, taken = aligned_copy(state.W), state.probe, state.step, state.carry
        del state  # frees U and P, which Oja's steps do not need
        m = self.epoch_length(view)
        oja_steps(view, W, step, m, taken, self.options.sampling, rng)
        return snapshot(view, W, probe, step=step, carry=taken + m)


def oja_steps(view: View, W: np.ndarray, c: Step, m: int, taken: int, sampling: str, rng: np.random.Generator) -> None:
    """Oja's steps number taken+1, ..., taken+m, on W in place."""
    rho = view.importance(sampling)

    def advance(block: Block, order: np.ndarray, done: int) -> None:
        eta = c.size / (taken + done + 1 + np.arange(len(order)))
        kernels.oja_block(block.rows, W, order, eta, block.cut(rho))

    walk(view.samples(m, rng, sampling), W, advance)
    orthonormalise(W)
