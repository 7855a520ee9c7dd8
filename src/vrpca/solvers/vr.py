"""VR-PCA: Algorithm 1 of the paper, and its block form (Remark 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from vrpca import kernels
from vrpca.data.view import Block, View
from vrpca.linalg import aligned_copy, orthonormalise
from vrpca.solvers.base import Stochastic
from vrpca.solvers.iterate import Iterate, snapshot
from vrpca.solvers.options import Options
from vrpca.solvers.steps import Step, Theory, trace, vr_step

GROWTH = 1e3  # the block's columns may grow this much, and lose that much of their independence, between clean-ups


class VR(Stochastic):
    """Each epoch reads everything once for U = A W, then takes m stochastic steps whose variance U removes."""

    name = "vr"

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        if options.step == "theory":
            self.step_rule, self.m, self.max_epochs = _from_theory(view, options.theory)
        else:
            self.step_rule = vr_step(view, options.step)
        self.walk = Walk()
        self.control = options.control or ("difference" if options.columns == 1 else "projection")

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """One epoch: m stochastic steps from the snapshot, then the next snapshot."""
        return snapshot(view, self._epoch(view, it, rng), it.probe)

    def _epoch(self, view: View, it: Iterate, rng: np.random.Generator) -> np.ndarray:
        if self.control == "projection":
            W = self._projection_epoch(view, it, rng)
        else:
            W = aligned_copy(it.W)
            if W.shape[1] == 1:
                vector_epoch(view, it, W[:, 0], self.step_rule.size, self.m, self.options.sampling, rng)
            else:
                self._difference_epoch(view, it, W, rng)
        it.release()
        if np.isfinite(W).all():
            orthonormalise(W)
        return W

    def _projection_epoch(self, view: View, it: Iterate, rng: np.random.Generator) -> np.ndarray:
        assert it.U is not None
        rho, W0, theta = view.importance(self.options.sampling), it.W, it.theta
        draws = view.samples(self.m, rng, self.options.sampling)
        first = next(draws)
        panel = kernels.vr_panel(first[0].rows, it.U)
        it.U = None  # the panel has it
        W = aligned_copy(W0)

        def advance(block: Block, order: np.ndarray, taken: int) -> None:
            p = block.cut(it.P)
            kernels.vr_block(block.rows, W, W0, panel, p, theta, order, self.step_rule.size, block.cut(rho))

        self.walk(chain([first], draws), W, advance)
        return W

    def _difference_epoch(self, view: View, it: Iterate, W: np.ndarray, rng: np.random.Generator) -> None:
        rho = view.importance(self.options.sampling)
        for block, order in view.samples(self.m, rng, self.options.sampling):
            kernels.vr_gram_schmidt(block.rows, W, it.U, block.cut(it.P), order, self.step_rule.size, block.cut(rho))


def vector_epoch(
    view: View,
    it: Iterate,
    w: np.ndarray,
    eta: float,
    m: int,
    sampling: str,
    rng: np.random.Generator,
    locked: int = 0,
) -> None:
    """Algorithm 1's inner loop on w in place, in the complement of the first `locked` columns of the snapshot."""
    assert it.U is not None and it.P is not None
    w0, u = it.W[:, locked].copy(), it.U[:, locked].copy()
    V = np.ascontiguousarray(it.W[:, :locked]) if locked else None
    Q = np.ascontiguousarray(it.P[:, :locked]) if locked else None
    if V is not None:
        u -= V @ (V.T @ u)
    p, rho = it.P[:, locked].copy(), view.importance(sampling)
    current = w.copy()
    for block, order in view.samples(m, rng, sampling):
        kernels.vr_vector(block.rows, current, w0, u, block.cut(p), V, block.cut(Q), order, eta, block.cut(rho))
    w[...] = current


class Walk:
    """Steps that are linear from the left, with W orthonormalised in between.

    When W is orthonormalised cannot change its span; it only has to happen before its columns grow too far or too much
    alike. The number of steps in between follows from the growth that was seen, also from one epoch to the next.
    """

    def __init__(self) -> None:
        self.length = 4  # at first: nothing is known of the growth yet

    def __call__(
        self,
        draws: Iterator[tuple[Block, np.ndarray]],
        W: np.ndarray,
        advance: Callable[[Block, np.ndarray, int], None],
    ) -> None:
        """Take a step for each draw: ``advance(block, order, number of steps before)`` changes W in place."""
        taken = since = 0
        for block, order in draws:
            done = 0
            while done < len(order):
                if since >= self.length:
                    growth = orthonormalise(W, rounds=1)
                    if not np.isfinite(growth):
                        return
                    self._adapt(growth)
                    since = 0
                piece = order[done : done + self.length - since]
                advance(block, piece, taken)
                done += len(piece)
                taken += len(piece)
                since += len(piece)

    def _adapt(self, growth: float) -> None:
        ratio = np.log(GROWTH) / max(abs(np.log(growth)), 1e-3)
        self.length = max(1, int(self.length * min(max(ratio, 0.1), 4.0)))


def _from_theory(view: View, theory: Theory | None) -> tuple[Step, int, int]:
    """Step, epoch length and number of epochs from Theorem 1."""
    assert theory is not None  # the options were checked
    r = theory.r if theory.r is not None else float(view.row_norms().max()) * trace(view)
    eta, m, epochs = theory.plan(r)
    return Step(eta * trace(view), adaptive=False), m, epochs
