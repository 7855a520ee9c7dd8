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
from vrpca.data.view import View
from vrpca.linalg import aligned_copy, aligned_zeros, cross, residual_gram, ritz, rotate
from vrpca.memory import Size
from vrpca.solvers.base import Answer, Rng, Solver, random_start
from vrpca.solvers.outside import Probe
from vrpca.solvers.steps import NO_STEP, Step

EPOCH_BLOCKS = 5  # arrays of d times the width that an epoch of `vr` holds at its peak
PROBE = 10  # vectors of a probe: its pairs, and the image of its column


@dataclass(frozen=True, kw_only=True)
class LightSnapshot(Answer):
    """A snapshot without its images U and P. Steps that diverged leave one whose numbers are not finite."""

    probe: Probe
    tol: float = 0.0  # how exactly `deflation` finds each vector
    projected: bool = True  # whether the snapshot had P

    def outside(self, k: int) -> float:
        """What the probe says, but no less than the last Ritz value: a young probe has not seen much of the complement.

        Without spare pairs, the last one is the k-th, and says nothing of what comes after it.
        """
        return max(self.mu, float(self.theta[-1])) if len(self.theta) > k else self.mu

    def light(self) -> LightSnapshot:
        """The snapshot without U and P."""
        kept = {field.name: getattr(self, field.name) for field in fields(LightSnapshot)}
        return LightSnapshot(**kept | {"P": None})


@dataclass(frozen=True, kw_only=True)
class BareSnapshot(LightSnapshot):
    """``U = A W`` exactly, ``W^T U = diag(theta)``."""

    U: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Snapshot(BareSnapshot):
    """The same with ``P = Z W``."""

    P: np.ndarray


def snapshot(
    view: View,
    W: np.ndarray,
    probe: Probe,
    step: Step = NO_STEP,
    steps_left: int | None = None,
    tol: float = 0.0,
    projected: bool = True,
) -> LightSnapshot:
    """One pass: U = A W, rotated to Ritz vectors, the probe's column multiplied along with it.

    P keeps the room of the probe's column at the end of its rows. A block that is not finite has no images.
    """
    also: dict[str, Any] = {"step": step, "steps_left": steps_left, "tol": tol, "projected": projected}
    d, l = W.shape
    if not np.isfinite(W).all():
        G = np.full((l, l), np.nan)
        return LightSnapshot(d=d, W=W, theta=G[0], G=G, mu=np.nan, probe=probe, **also)
    both = aligned_zeros((d, l + 1), view.dtype)
    both[:, :l] = W
    both[:, l] = probe.column
    del W  # at the peak, the product, there is one copy of it
    P = aligned_zeros((view.n, l + 1), view.dtype) if projected else None
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
        if P is not None:
            rotate(P, block_diag(Y, [[1.0]]))
    probe = probe.updated(probe_image, W, U, theta)
    known: dict[str, Any] = {
        "d": d,
        "W": W,
        "U": U,
        "theta": theta,
        "G": residual_gram(W, U, theta),
        "probe": probe,
        **also,
    }
    known["mu"] = probe.bound(theta)
    return BareSnapshot(**known) if P is None else Snapshot(P=P[:, :l], **known)


def retake(view: View, best: LightSnapshot, failed: LightSnapshot) -> LightSnapshot:
    """The best snapshot again, by another pass: with the probe of the step that failed, and half its step size."""
    W, step = aligned_copy(best.W), failed.step.halved()
    return snapshot(view, W, failed.probe, step, failed.steps_left, failed.tol, failed.projected)


class SnapshotSolver(Solver[Any]):
    """A solver that goes from snapshot to snapshot."""

    def start(self, view: View, first_pass: FirstPass, rng: Rng, W0: np.ndarray | None = None) -> LightSnapshot:
        """A random block (or `W0`) and its snapshot."""
        return self.begin(view, random_start(view, self.first_width(W0), rng, W0), rng)

    def first_width(self, W0: np.ndarray | None) -> int:
        """Number of columns of the first block."""
        return self.width

    def begin(self, view: View, W: np.ndarray, rng: Rng) -> LightSnapshot:
        """The first snapshot, with a new probe."""
        return snapshot(view, W, Probe.random(view.d, view.dtype, rng), projected=self.projects)

    def memory(self, size: Size) -> dict[str, float]:
        """W, U and P, the best W so far and the probe; what a product or an epoch needs besides."""
        columns, v = self.width + 1, size.vector
        busy = max(2 * columns * v + size.product(columns), EPOCH_BLOCKS * columns * v)
        return {self._stage(size): (columns + PROBE) * v + busy + self._rows(size)}

    def _stage(self, size: Size) -> str:
        vectors = f"blocks of {self.width + 1} vectors of length {size.d}"
        return f"{vectors}, and Z W, {size.n} x {self.width + 1}" if self.keeps_projections else vectors

    @property
    def keeps_projections(self) -> bool:
        """Whether snapshots have P."""
        return self.projects

    def _rows(self, size: Size) -> float:
        """Bytes of P."""
        return size.n * size.itemsize * (self.width + 1) * self.keeps_projections
