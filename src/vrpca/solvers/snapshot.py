"""Snapshots: an orthonormal block W with its exact image U = A W, by one pass.

Power iteration and the stochastic solvers go from snapshot to snapshot. A probe travels along: one more column of the
same product, which estimates what is left outside W.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from vrpca.data.first_pass import FirstPass
from vrpca.data.source import Source
from vrpca.data.view import View
from vrpca.linalg import aligned_copy, aligned_zeros, cross, orthonormalise, residual_gram, rotate
from vrpca.solvers.base import Passes, Solver, State, random_start
from vrpca.solvers.outside import Probe
from vrpca.solvers.search_space import ritz


@dataclass(frozen=True, kw_only=True)
class Landmark(State):
    """What is left of a snapshot without U and P, its largest parts: W can be read again.

    `carry` is what a solver hands from one step to the next besides.
    """

    W: np.ndarray
    probe: Probe
    carry: Any = None

    def vectors(self) -> np.ndarray:
        """W."""
        return self.W


@dataclass(frozen=True, kw_only=True)
class Snapshot(Landmark):
    """``U = A W`` exactly, ``W^T U = diag(theta)``, ``P = Z W``."""

    U: np.ndarray
    P: np.ndarray

    def light(self) -> Landmark:
        """The snapshot without U and P."""
        kept = {field.name: getattr(self, field.name) for field in fields(Landmark)}
        return Landmark(**kept | {"P": None})


def snapshot(view: View, W: np.ndarray, probe: Probe, **others: Any) -> Snapshot:
    """One pass: U = A W, rotated to Ritz vectors, the probe's column multiplied along with it.

    P keeps the room of the probe's column at the end of its rows. `others` are fields of the snapshot.
    """
    l = W.shape[1]
    if not np.isfinite(W).all():
        nothing = np.full(l, np.nan)
        G = np.outer(nothing, nothing)
        return Snapshot(d=view.d, W=W, U=W, P=W[:0], theta=nothing, G=G, mu=np.nan, probe=probe, **others)
    both = aligned_zeros((view.d, l + 1), view.dtype)
    both[:, :l] = W
    both[:, l] = probe.column
    del W  # at the peak, the product, there is one copy of it
    P = aligned_zeros((view.n, l + 1), view.dtype)
    image = view.product(both, P)
    W = aligned_copy(both[:, :l])
    del both
    U = aligned_copy(image[:, :l])
    probe_image = image[:, l].copy()
    del image
    theta, Y = ritz(cross(W, U))
    if l > 1:
        rotate(W, Y)
        rotate(U, Y)
        rotate(P, block_diag(Y, [[1.0]]))
    probe = probe.updated(probe_image, W, U, theta)
    G, mu = residual_gram(W, U, theta), probe.bound(theta)
    return Snapshot(d=view.d, W=W, U=U, P=P[:, :l], theta=theta, G=G, mu=mu, probe=probe, **others)


def taken_again(view: View, best: Landmark, failed: Landmark) -> Snapshot:
    """The best snapshot again, by another pass: with the probe of the step that failed, and half its step."""
    others = {"step": failed.step.halved(), "steps_left": failed.steps_left, "carry": failed.carry}
    return snapshot(view, aligned_copy(best.W), failed.probe, **others)


class SnapshotSolver(Solver[Snapshot]):
    """A solver that goes from snapshot to snapshot."""

    def start(
        self, view: View, first_pass: FirstPass, rng: np.random.Generator, W0: np.ndarray | None = None
    ) -> Snapshot:
        """A random start (or `W0`) and its snapshot."""
        return self.begin(view, random_start(view, self.width, rng, W0), rng)

    def begin(self, view: View, W: np.ndarray, rng: np.random.Generator) -> Snapshot:
        """The snapshot of W, with a new probe."""
        return snapshot(view, W, Probe.random(view.d, view.dtype, rng))


class Stochastic(SnapshotSolver):
    """A solver that takes m steps with rows drawn at random between two snapshots: an epoch."""

    @staticmethod
    def transposes(source: Source) -> bool:
        """Whether the transposed matrix is the better one to draw rows from: the one with more rows."""
        return source.shape[1] > source.wide_at * source.shape[0]

    def epoch_length(self, view: View) -> int:
        """The number m of steps in an epoch."""
        return self.options.epoch_length or view.n

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """To start: a snapshot, and the norms of the rows if they are needed. A step: the draws, and a snapshot."""
        if self.options.needs_norms and not view.norms_known:
            return Passes(2.0)
        return Passes(1.0, 1.0 + view.passes_of_samples(self.epoch_length(view)))


def orthonormal(W: np.ndarray) -> np.ndarray:
    """W made orthonormal in place, or left alone where the steps have diverged."""
    if np.isfinite(W).all():
        orthonormalise(W)
    return W
