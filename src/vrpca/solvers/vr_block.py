"""VR-PCA for several vectors: Remark 1 of the paper, with one of two control variates.

With the snapshot W~, its image U = A W~, and ``P = Z W~``, a step draws a row z_i and takes

- ``control="difference"``, the paper's: ``W <- gram_schmidt(W + eta (z_i (z_i^T W - p_i^T) + U))``;
- ``control="projection"``: ``W <- W + eta (z_i (z_i^T W - p_i^T K) + U K)`` with ``K = W~^T W``. It is linear in W from
  the left, so that it does not matter for the span of W when it is orthonormalised (docs/mathematics.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from vrpca import kernels
from vrpca.data.view import Block, View
from vrpca.linalg import aligned_copy, orthonormalise
from vrpca.options import Options
from vrpca.solvers.snapshot import Snapshot, orthonormal, snapshot
from vrpca.solvers.vr import VR

# The columns of W may grow by this factor, and lose as much of their independence, before they are orthonormalised. In
# float32 that leaves four digits.
GROWTH = 1e3
FIRST_WALK = 4  # steps before the first orthonormalisation: nothing is known of the growth yet


def variance_reduced(options: Options, width: int) -> VR:
    """Algorithm 1 for one vector, or the block form with the control variate that the user asks for."""
    if width == 1 and options.control != "projection":
        return VR(options, width)
    return LiteralBlockVR(options, width) if options.control == "difference" else BlockVR(options, width)


class BlockVR(VR):
    """Remark 1 with the projection as control variate. `carry` is the number of steps between orthonormalisations."""

    def step(self, view: View, state: Snapshot, rng: np.random.Generator) -> Snapshot:
        """An epoch from the snapshot, then the next snapshot."""
        probe, step, left, length = state.probe, state.step, self.left(state), state.carry or FIRST_WALK
        draws = view.samples(self.epoch_length(view), rng, self.options.sampling)
        first = next(draws)
        panel, rho = kernels.vr_panel(first[0].rows, state.U), view.importance(self.options.sampling)
        W0, P, theta = state.W, state.P, state.theta
        del state  # frees U: the panel has it
        epoch = Epoch(aligned_copy(W0), W0, panel, P, theta, step.size, rho)
        del W0, P, panel
        length = walk(chain([first], draws), epoch.W, epoch, length)
        return snapshot(view, orthonormal(epoch.handed_over()), probe, step=step, steps_left=left, carry=length)


@dataclass
class Epoch:
    """The steps of an epoch with the projection as control variate; `panel` holds U, `rho` the weights of the rows."""

    W: np.ndarray
    W0: np.ndarray
    panel: np.ndarray
    P: np.ndarray
    theta: np.ndarray
    eta: float
    rho: np.ndarray | None

    def __call__(self, block: Block, order: np.ndarray, taken: int) -> None:
        """``W <- W + eta (rho_i z_i (z_i^T W - p_i^T K) + U K)`` with ``K = W0^T W``, for i in order."""
        p, rho = block.cut(self.P), block.cut(self.rho)
        kernels.vr_block(block.rows, self.W, self.W0, self.panel, p, self.theta, order, self.eta, rho)

    def handed_over(self) -> np.ndarray:
        """W. Everything else is let go, and so is W itself: the next snapshot frees it when it has a copy."""
        W = self.W
        self.__dict__.clear()
        return W


class LiteralBlockVR(VR):
    """Remark 1 to the letter: the difference as control variate, Gram-Schmidt at every step."""

    def step(self, view: View, state: Snapshot, rng: np.random.Generator) -> Snapshot:
        """An epoch from the snapshot, then the next snapshot."""
        probe, step, left = state.probe, state.step, self.left(state)
        block_of = [self.epoch(view, state, rng)]
        del state  # frees U and P before the next ones are made
        return snapshot(view, orthonormal(block_of.pop()), probe, step=step, steps_left=left)

    def epoch(self, view: View, state: Snapshot, rng: np.random.Generator) -> np.ndarray:
        """M steps ``W <- gram_schmidt(W + eta (rho_i z_i (z_i^T W - p_i^T) + U))``."""
        W, eta, rho = aligned_copy(state.W), state.step.size, view.importance(self.options.sampling)
        for block, order in view.samples(self.epoch_length(view), rng, self.options.sampling):
            kernels.vr_gram_schmidt(block.rows, W, state.U, block.cut(state.P), order, eta, block.cut(rho))
        return W


def walk(
    draws: Iterator[tuple[Block, np.ndarray]],
    W: np.ndarray,
    advance: Callable[[Block, np.ndarray, int], None],
    length: int = FIRST_WALK,
) -> int:
    """Take steps that are linear from the left, and orthonormalise W in between, before its columns grow too far.

    ``advance(block, order, number of steps before)`` takes a step for each entry of `order` and changes W in place.
    `length` is the number of steps between orthonormalisations; it follows the growth that is seen, and is returned.
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
