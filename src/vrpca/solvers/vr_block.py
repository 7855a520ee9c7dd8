"""VR-PCA for several vectors: Remark 1 of the paper, with one of two control variates.

With the snapshot W~, its image U = A W~, and ``P = Z W~``, a step draws a row z_i and takes

- ``control="difference"``, the paper's: ``W <- gram_schmidt(W + eta (z_i (z_i^T W - p_i^T) + U))``;
- ``control="projection"``: ``W <- W + eta (z_i (z_i^T W - p_i^T K) + U K)`` with ``K = W~^T W``. It is linear in W from the
  left, so that it does not matter for the span of W when it is orthonormalised (docs/mathematics.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from vrpca import kernels
from vrpca.data.view import Block, View
from vrpca.linalg import aligned_copy, orthonormalise
from vrpca.solvers.snapshot import Snapshot, orthonormal, snapshot
from vrpca.solvers.vr import VR

# The columns of W may grow by this factor, and lose as much of their independence, before they are orthonormalised. In
# float32 that leaves four digits.
GROWTH = 1e3
FIRST_WALK = 4  # steps before the first orthonormalisation: nothing is known of the growth yet


class BlockVR(VR):
    """Remark 1: each step is one epoch of a block, and the snapshot of what it reached."""

    def step(self, view: View, state: Snapshot, rng: np.random.Generator) -> Snapshot:
        """An epoch from the snapshot, then the next snapshot."""
        if self.options.control == "difference":
            return self._difference(view, state, rng)
        return self._projection(view, state, rng)

    def _projection(self, view: View, state: Snapshot, rng: np.random.Generator) -> Snapshot:
        probe, others, length = state.probe, self.handed_on(state), state.carry or FIRST_WALK
        W0, P, theta, eta = state.W, state.P, state.theta, state.step.size
        rho = view.importance(self.options.sampling)
        draws = view.samples(self.epoch_length(view), rng, self.options.sampling)
        first = next(draws)
        panel = kernels.vr_panel(first[0].rows, state.U)
        del state  # frees U: the panel has it
        W = aligned_copy(W0)

        def advance(block: Block, order: np.ndarray, taken: int) -> None:
            kernels.vr_block(block.rows, W, W0, panel, block.cut(P), theta, order, eta, block.cut(rho))

        others["carry"] = walk(chain([first], draws), W, advance, length)
        del P, panel
        return snapshot(view, orthonormal(W), probe, **others)

    def _difference(self, view: View, state: Snapshot, rng: np.random.Generator) -> Snapshot:
        probe, others, eta = state.probe, self.handed_on(state), state.step.size
        W, rho = aligned_copy(state.W), view.importance(self.options.sampling)
        for block, order in view.samples(self.epoch_length(view), rng, self.options.sampling):
            kernels.vr_gram_schmidt(block.rows, W, state.U, block.cut(state.P), order, eta, block.cut(rho))
        del state
        return snapshot(view, orthonormal(W), probe, **others)


def walk(
    draws: Iterator[tuple[Block, np.ndarray]],
    W: np.ndarray,
    advance: Callable[[Block, np.ndarray, int], None],
    length: int = FIRST_WALK,
) -> int:
    """Take steps that are linear from the left, and orthonormalise W in between, before its columns grow too far.

    ``advance(block, order, number of steps before)`` takes a step for each entry of `order` and changes W in place.
    `length` is the number of steps between orthonormalisations; it follows the growth that is seen. Return the last one.
    """
    taken = since = 0
    for block, order in draws:
        done = 0
        while done < len(order):
            if since >= length:
                growth = orthonormalise(W, rounds=1)
                if not np.isfinite(growth):
                    return length
                length = _adapted(length, growth)
                since = 0
            part = order[done : done + length - since]
            advance(block, part, taken)
            done += len(part)
            taken += len(part)
            since += len(part)
    return length


def _adapted(length: int, growth: float) -> int:
    ratio = np.log(GROWTH) / max(abs(np.log(growth)), 1e-3)
    return max(1, int(length * min(max(ratio, 0.1), 4.0)))
