"""(Block) power iteration."""

from __future__ import annotations

from vrpca.data.view import View
from vrpca.linalg import orthonormalise
from vrpca.solvers.base import Rng
from vrpca.solvers.snapshot import BareSnapshot, LightSnapshot, SnapshotSolver, snapshot


class Power(SnapshotSolver):
    """``W <- orthonormalise(A W)``, one pass each."""

    def step(self, view: View, state: BareSnapshot, rng: Rng) -> LightSnapshot:
        """The snapshot's image becomes the next block."""
        W, probe = state.U, state.probe
        del state  # frees P before the next one is made
        orthonormalise(W)
        return snapshot(view, W, probe, projected=self.projects)
