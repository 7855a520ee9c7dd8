"""Block Krylov iteration: Rayleigh-Ritz over all residuals so far, with thick restart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vrpca.data.first_pass import FirstPass
from vrpca.data.view import View
from vrpca.options import Options
from vrpca.solvers.base import Passes, Solver, State, random_start, whole_registers
from vrpca.solvers.outside import estimate_outside
from vrpca.solvers.search_space import SearchSpace

BLOCKS = 10  # blocks of vectors that are kept before a restart


@dataclass(frozen=True, kw_only=True)
class KrylovState(State):
    """The leading Ritz pairs of a search space, and the residuals that expand it next."""

    W: np.ndarray
    space: SearchSpace
    residuals: np.ndarray

    def vectors(self) -> np.ndarray:
        """W."""
        return self.W


class Krylov(Solver[KrylovState]):
    """Each pass multiplies the residuals by A and searches everything that has been multiplied so far."""

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        self.block = width + 1  # one more: the pair that tells what is left outside

    @staticmethod
    def width_for(k: int, cost: str) -> int:
        """As many columns as fill the panels of dense products, also for one vector."""
        return whole_registers(k, 8)

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """One to start, one per step, and one for ``P = Z W``."""
        return Passes(projections=1.0)

    def start(
        self, view: View, first_pass: FirstPass, rng: np.random.Generator, W0: np.ndarray | None = None
    ) -> KrylovState:
        """The exact product of a random block (or of `W0` and random columns)."""
        block = min(self.block, view.d)
        space = SearchSpace(view, self.width, BLOCKS * block)
        space.expand(random_start(view, block, rng, W0).T, view)
        return self.state(view, space)

    def step(self, view: View, state: KrylovState, rng: np.random.Generator) -> KrylovState:
        """Expand the space by the residuals: one pass."""
        state.space.grow(state.residuals, view, rng)
        return self.state(view, state.space)

    def state(self, view: View, space: SearchSpace, watched: int = 0) -> KrylovState:
        """The leading Ritz pairs; the residuals of `watched` pairs, or of one block, tell what is outside them."""
        l, block = min(self.width, space.size), min(self.block, view.d)
        W, R = space.residuals(max(watched, block))
        G = (R[:l] @ R[:l].T).astype(np.float64)
        mu, kind = outside_of(space, l, np.linalg.norm(R[l:], axis=1).astype(np.float64))
        return KrylovState(
            d=view.d,
            W=W[:l].T,
            theta=space.theta[:l].copy(),
            G=G,
            mu=mu,
            kind=kind,
            steps_left=0 if space.full else None,
            space=space,
            residuals=R[:block],
        )


def outside_of(space: SearchSpace, l: int, residuals: np.ndarray) -> tuple[float, str]:
    """What is known of the largest eigenvalue outside the l leading pairs, and how well.

    `residuals` are the lengths of those of the next pairs. The pair that may grow highest counts: the first of them
    alone could be an eigenvector that a stream has found, and say nothing of what was missed.
    """
    if space.full:
        return float(space.theta[l]) if l < space.size else 0.0, "exact"
    if l == space.size:
        return max(0.0, 1.0 - float(space.theta.sum())), "estimated"
    values = space.theta[l : l + len(residuals)]
    found = [estimate_outside(v, r, space.products, space.theta[:l]) for v, r in zip(values, residuals, strict=True)]
    return max(found), "estimated"
