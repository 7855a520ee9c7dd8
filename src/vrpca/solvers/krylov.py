"""Block Krylov iteration: Rayleigh-Ritz over all residuals so far, with thick restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vrpca.data.first_pass import FirstPass
from vrpca.data.view import View
from vrpca.memory import PADDED, Size, padded_to, small_matrices
from vrpca.options import Options
from vrpca.solvers.base import Answer, Passes, Rng, Solver, less, random_start, together, whole_registers
from vrpca.solvers.outside import known_outside
from vrpca.solvers.search_space import SearchSpace
from vrpca.solvers.witness import MOST, Witness, WitnessedState

# Blocks of vectors that are kept before a restart. On Gaussian rows (4000 x 1500, flat, geometric and power-law
# spectra, k = 1 and 6, tol=1e-8), 3 blocks take up to 3 passes more than 10; 15, 20 and 30 blocks save none.
BLOCKS = 10
LEAST_HEARD = 8  # products of a witness where memory is limited: at d = 1e6 its ceiling is within a factor of 2 then
STATES = 5  # blocks of pairs at once: vectors and residuals of the last state and of the new one, and a temporary one
# Part of the tolerance that locked vectors may leave, all together. With 0.25 they cost no pass on MNIST (k = 1 and 6),
# 10000 x 3072 and generated spectra, to 1e-2 to 1e-8 (8 seeds each). With 0.5 one fit in eight takes a pass more.
LOCKED = 0.25
# Times the tolerance: below this, the next pass is likely to be the last one. On the same sets, 2 to 33% fewer columns
# are multiplied, for no pass more. With 100, up to two fits in eight take a pass more.
FINISHING = 30
LEAST_EXTRA = 2  # columns beyond the wanted ones, as in `whole_registers`: eigenvalues equal to the last one show there


@dataclass(frozen=True, kw_only=True)
class KrylovState(WitnessedState, Answer):
    """The leading Ritz pairs of a search space, and the residuals that expand it next."""

    space: SearchSpace
    residuals: np.ndarray
    products: int  # how many products the pairs rest on; a streamed or sampled start counts as one

    def images(self) -> np.ndarray:
        """The residuals, and ``theta W``."""
        W = self.W.T
        return self.residuals[: len(W)] + W * self.theta[:, None].astype(W.dtype)


class Krylov(Solver[KrylovState]):
    """Each pass multiplies the residuals by A and searches everything that has been multiplied so far."""

    narrows: ClassVar[bool] = False  # whether only wanted vectors are multiplied in what may be the last pass

    def __init__(self, options: Options, width: int):
        super().__init__(options, width)
        few = options.oversample is not None and options.oversample < LEAST_EXTRA
        self.block = width + (LEAST_EXTRA if few else 0)  # residuals that are multiplied along with the witness
        self.watched = max(self.block, width + 1)  # pairs with residuals: the last of them tell what is left outside
        self.capacity = BLOCKS * (width + 1)  # vectors that are kept
        self.heard = MOST  # products of a witness, at most

    @staticmethod
    def width_for(k: int, cost: str, sparse: bool) -> int:
        """As many columns as fill the registers of sparse products, also for one vector: more need fewer passes."""
        return whole_registers(k, 8)

    def memory(self, size: Size) -> dict[str, float]:
        """The search space, the pairs of the last state and the new one, and what a product or a witness needs."""
        v, capacity = size.vector, min(max(self.capacity, 3 * (self.width + 1)), size.d)
        block, watched = min(self.block + 1, size.d), min(self.watched, size.d)
        guessed = self.width if size.guessed else 0
        columns, first = padded_to(block + 1, PADDED), min(max(self.first_columns, block) + guessed, capacity)
        kept = self.found_vectors + 2 * capacity + STATES * watched + 2 * columns + self.heard
        busy = max(columns * v + size.product(columns), (self.heard + STATES * self.width) * v, STATES * block * v)
        wide = padded_to(first + 1, PADDED)
        begun = (self.found_vectors + 3 * first + guessed) * v + max(
            3 * wide * v + size.product(wide), size.joined(first)
        )
        return {
            f"a search space of {capacity} vectors of length {size.d}": kept * v + busy + small_matrices(capacity),
            f"the product of a first block of {first} vectors of length {size.d}": begun + small_matrices(first),
        }

    @property
    def first_columns(self) -> int:
        """Columns of the first product."""
        return self.block

    @property
    def found_vectors(self) -> int:
        """Vectors that the first pass leaves."""
        return 0

    def _shrink(self) -> None:
        """Fewer vectors before a restart, and fewer of the witness."""
        self.capacity = less(self.capacity, max(3 * (self.width + 1), self.block + 1 + 2 * (self.width + 1)))
        self.heard = less(self.heard, LEAST_HEARD)

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """One to start, one per step, and one for ``P = Z W``."""
        return Passes(projections=1.0)

    def start(self, view: View, first_pass: FirstPass, rng: Rng, W0: np.ndarray | None = None) -> KrylovState:
        """The exact product of a random block, and of `W0`: a guess of little worth takes no random column's place."""
        witness = Witness.random(view, rng, most=self.heard)
        W = random_start(view, min(self.block, view.d), rng)
        if W0 is not None:
            known = W0[:, : self.width]
            W = together(known if view.support is None else known * view.support[:, None], W)
        return self._first(view, W, 1, witness)

    def begin(self, view: View, W0: np.ndarray | None, columns: int, products: int, rng: Rng) -> KrylovState:
        """The exact product of this number of columns, or of a whole block: those of `W0`, then random ones."""
        witness = Witness.random(view, rng, most=self.heard)
        columns = min(max(columns, self.block), self.capacity, view.d)
        return self._first(view, random_start(view, columns, rng, W0), products, witness)

    def _first(self, view: View, W: np.ndarray, products: int, witness: Witness) -> KrylovState:
        """The exact product of these columns."""
        space = SearchSpace(view, self.width, self.capacity)
        image = space.expand(W.T, view, guest=witness.column)
        return self.state(space, products, witness.after(image))

    def step(self, view: View, state: KrylovState, rng: Rng) -> KrylovState:
        """Expand the space by the residuals, and by what they have missed: one pass."""
        narrow = self.narrows and self.finishing(state)
        Z, witness = self.unlocked(state, narrow), state.witness
        if state.missed is not None:
            Z = np.vstack([state.missed, Z])
            witness = Witness.successor(view, rng, state.products, self.heard)
        image = state.space.grow(Z, view, rng, witness.column)
        # A pass that leaves out the other columns tells nothing new of the complement: mu must not fall.
        return self.state(state.space, state.products + 1, witness.after(image), state.mu if narrow else 0.0)

    def allowed(self, state: KrylovState) -> float:
        """What the squared residuals of the wanted vectors may add up to. Not positive where mu is too large.

        A residual r adds ``|r|^2 / (theta_k - mu)`` to the bound of the variance at most. Where it is unknown how many
        vectors are wanted, or where their angles matter, no residual is small enough.
        """
        k, theta = self.components, state.theta
        if k is None or k > len(theta) or self.options.angle_tol is not None:
            return 0.0
        return float(self.options.tol * theta[:k].sum() * (theta[k - 1] - state.mu))

    def finishing(self, state: KrylovState) -> bool:
        """Whether the next pass is likely to be the last one, and only has to make the wanted vectors more accurate.

        Columns beyond the wanted ones make later passes more effective. They are needed as long as one of them may
        become a wanted one, and where the residuals of the wanted ones are not what keeps the bound up.
        """
        allowed, k = self.allowed(state), self.components
        if k is None or allowed <= 0 or state.waits:
            return False
        squares, theta = state.G.diagonal(), state.theta
        resolved = bool((theta[k:] + np.sqrt(squares[k:]) < theta[k - 1]).all())
        return resolved and allowed < squares[:k].sum() <= FINISHING * allowed

    def unlocked(self, state: KrylovState, narrow: bool) -> np.ndarray:
        """The residuals that are worth a product. Those of vectors that are accurate enough are not (locking).

        If mu rises, less is allowed, and a vector that was locked may be multiplied again. With `narrow`, residuals
        beyond the wanted ones are left out, too.
        """
        allowed, k, Z = self.allowed(state), self.components, state.residuals
        if k is None or allowed <= 0:
            return Z
        squares = state.G.diagonal()[:k]
        order = np.argsort(squares)
        locked = order[np.cumsum(squares[order]) <= LOCKED * allowed]
        if len(locked) == k:  # mu keeps the bound up, or rounding: only more products can help
            return Z
        rest = np.delete(Z, locked, axis=0)
        return rest[: k - len(locked)] if narrow else rest

    def state(self, space: SearchSpace, products: int, witness: Witness, least_mu: float = 0.0) -> KrylovState:
        """The leading Ritz pairs."""
        l = min(self.width, space.size)
        W, R = space.residuals(self.watched)
        lengths = None if space.full else np.linalg.norm(R[l:], axis=1).astype(np.float64)
        mu, kind = known_outside(space.theta, l, lengths, products)
        return KrylovState(
            d=space.S.shape[1],
            W=W[:l].T,
            theta=space.theta[:l].copy(),
            G=(R[:l] @ R[:l].T).astype(np.float64),
            mu=mu if kind == "exact" else max(mu, least_mu),
            kind=kind,
            basis=space.size,
            steps_left=0 if space.full else None,
            space=space,
            residuals=R[: self.block],
            products=products,
            witness=witness,
        )
