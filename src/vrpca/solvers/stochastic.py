"""Epochs: many steps, each with one row drawn at random, between two snapshots. What their solvers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from vrpca.data.first_pass import FirstPass
from vrpca.data.source import Source
from vrpca.data.view import Block, View
from vrpca.linalg import orthonormalise
from vrpca.solvers.base import Passes, Rng
from vrpca.solvers.outside import Probe
from vrpca.solvers.snapshot import LightSnapshot, Snapshot, SnapshotSolver, snapshot
from vrpca.solvers.steps import theory_plan, vr_step

# The columns of W may grow by this factor, and lose as much of their independence, before they are orthonormalised. In
# float32 that leaves four digits.
GROWTH = 1e3
FASTER, SLOWER = 4.0, 0.1  # limits of the change of a stretch at a time: the next rows may be heavier than the last


class Stochastic(SnapshotSolver):
    """A solver that takes m steps with rows drawn at random between two snapshots: an epoch."""

    @staticmethod
    def transposes(source: Source) -> bool:
        """Whether the transposed matrix is the better one to draw rows from: the one with more rows."""
        if source.by_columns or source.by_rows:
            return source.by_columns
        return source.shape[1] > source.wide_at * source.shape[0]

    def epoch_length(self, view: View) -> int:
        """The number m of steps in an epoch."""
        return self.options.epoch_length or view.n

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """To start: a snapshot, and the norms of the rows if they are needed. A step: the draws, and a snapshot."""
        if self.options.needs_norms and not view.norms_known:
            return Passes(2.0)
        return Passes(1.0, 1.0 + view.passes_of_samples(self.epoch_length(view)))

    def start(self, view: View, first_pass: FirstPass, rng: Rng, W0: np.ndarray | None = None) -> LightSnapshot:
        """A random block (or `W0`) and its snapshot, after a pass for the norms of the rows if they are needed."""
        if self.options.needs_norms:
            view.row_norms()  # the view keeps them
        return super().start(view, first_pass, rng, W0)


class VarianceReduced(Stochastic):
    """A solver whose steps have a control variate: its step size and epoch length are the paper's."""

    def begin(self, view: View, W: np.ndarray, rng: Rng) -> LightSnapshot:
        """The first snapshot, with the step size, and with the number of epochs if Theorem 1 says it."""
        step, epochs = vr_step(view, self.options.step), None
        if self.options.step == "theory":
            step, _, epochs = theory_plan(view, self.options.theory)
        return snapshot(view, W, Probe.random(view.d, view.dtype, rng), step, epochs)

    @property
    def keeps_projections(self) -> bool:
        """Always: they are the control variate."""
        return True

    def epoch_length(self, view: View) -> int:
        """The number m of steps in an epoch: by Theorem 1, as asked for, or n."""
        if self.options.step == "theory":
            return theory_plan(view, self.options.theory)[1]
        return super().epoch_length(view)


def epochs_left(state: Snapshot) -> int | None:
    """Epochs that are left after the next one; None for any number."""
    return None if state.steps_left is None else state.steps_left - 1


def orthonormal(W: np.ndarray) -> np.ndarray:
    """W made orthonormal in place, or left alone where the steps have diverged."""
    if np.isfinite(W).all():
        orthonormalise(W)
    return W


def take_steps(
    draws: Iterator[tuple[Block, np.ndarray]],
    W: np.ndarray,
    advance: Callable[[Block, np.ndarray, int], None],
    stretch: int,
) -> int:
    """Take steps that are linear from the left, and orthonormalise W in between, before its columns grow too far.

    ``advance(block, order, number of steps before)`` takes a step for each entry of `order` and changes W in place.
    `stretch` is the number of steps between orthonormalisations; it follows the growth that is seen, and is returned.
    """
    taken = since = 0
    for block, order in draws:
        done = 0
        while done < len(order):
            if since >= stretch:
                growth = orthonormalise(W, rounds=1)
                if not np.isfinite(growth):
                    return stretch
                stretch = _adapted(stretch, growth)
                since = 0
            part = order[done : done + stretch - since]
            advance(block, part, taken)
            done += len(part)
            taken += len(part)
            since += len(part)
    return stretch


def _adapted(stretch: int, growth: float) -> int:
    """The stretch over which columns grow by `GROWTH`, at the rate of this stretch."""
    ratio = np.log(GROWTH) / max(abs(np.log(growth)), 1e-3)  # a growth below 0.1% is no rate to go by
    return max(1, int(stretch * min(max(ratio, SLOWER), FASTER)))
