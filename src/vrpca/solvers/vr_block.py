"""VR-PCA for several vectors: Remark 1 of the paper, with one of two control variates.

With the snapshot W~, its image U = A W~, and ``P = Z W~``, a step draws a row z_i and takes

- ``control="difference"``, the paper's: ``W <- gram_schmidt(W + eta (z_i (z_i^T W - p_i^T) + U))``;
- ``control="projection"``: ``W <- W + eta (z_i (z_i^T W - p_i^T K) + U K)`` with ``K = W~^T W``. It is linear in W from
  the left, so that it does not matter for the span of W when it is orthonormalised (docs/mathematics.md).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np

from vrpca import kernels
from vrpca.data.view import Block, View
from vrpca.linalg import aligned_copy
from vrpca.options import Options
from vrpca.solvers.base import Rng
from vrpca.solvers.deflation import Deflation
from vrpca.solvers.snapshot import LightSnapshot, Snapshot, snapshot
from vrpca.solvers.stochastic import Stochastic, VarianceReduced, epochs_left, orthonormal, take_steps
from vrpca.solvers.vr import VR


class BlockVR(VarianceReduced):
    """Remark 1 with the projection as control variate."""

    def step(self, view: View, state: Snapshot, rng: Rng) -> LightSnapshot:
        """An epoch from the snapshot, then the next snapshot."""
        probe, step, left = state.probe, state.step, epochs_left(state)
        handed_over = [state]
        del state  # so that the epoch holds the only reference, and can free U
        *reached, stretch = self._epoch(view, handed_over, rng)  # a list, so that the snapshot can free W
        return snapshot(view, orthonormal(reached.pop()), probe, replace(step, stretch=stretch), left)

    def _epoch(self, view: View, handed_over: list[Snapshot], rng: Rng) -> tuple[np.ndarray, int]:
        """M steps ``W <- W + eta (rho_i z_i (z_i^T W - p_i^T K) + U K)`` with ``K = W~^T W``, and the last stretch."""
        state = handed_over.pop()
        draws = view.samples(self.epoch_length(view), rng, self.options.sampling)
        first = next(draws)
        panel, rho = kernels.vr_panel(first[0].rows, state.U), view.importance(self.options.sampling)
        W0, P, theta, step = state.W, state.P, state.theta, state.step
        del state  # frees U: the panel has it
        W = aligned_copy(W0)

        def advance(block: Block, order: np.ndarray, taken: int) -> None:
            kernels.vr_block(block.rows, W, W0, panel, block.cut(P), theta, order, step.size, block.cut(rho))

        return W, take_steps(chain([first], draws), W, advance, step.stretch)


class LiteralBlockVR(VR):
    """Remark 1 to the letter: the difference as control variate, Gram-Schmidt at every step."""

    def epoch(self, view: View, state: Snapshot, rng: Rng) -> np.ndarray:
        """M steps ``W <- gram_schmidt(W + eta (rho_i z_i (z_i^T W - p_i^T) + U))``."""
        W, eta, rho = aligned_copy(state.W), state.step.size, view.importance(self.options.sampling)
        for block, order in view.samples(self.epoch_length(view), rng, self.options.sampling):
            kernels.vr_gram_schmidt(block.rows, W, state.U, block.cut(state.P), order, eta, block.cut(rho))
        return W


def vr_variant(options: Options, width: int, entries: int = 0, d: int = 0, sparse: bool = False) -> type[Stochastic]:
    """Deflation, Algorithm 1 for one vector, or the block form with the control variate that the user asks for.

    The size of the data does not matter here.
    """
    if options.deflate:
        return Deflation
    if width == 1 and options.control != "projection":
        return VR
    return LiteralBlockVR if options.control == "difference" else BlockVR
