"""The contract of a solver, and the state that it hands from step to step."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np

from vrpca.data.first_pass import FirstPass, MomentSum
from vrpca.data.source import Source
from vrpca.data.view import Problem, View
from vrpca.linalg import aligned_zeros, orthonormalise
from vrpca.memory import Size
from vrpca.options import Options
from vrpca.solvers.steps import NO_STEP, Step

Rng = np.random.Generator
ELSEWHERE = 1e-6  # of a column's squares, beyond rounding: QR has replaced what depends on others by anything else
SPANNED = 1e-7  # if less is left of a unit vector after Householder QR in double precision, the others span it


@dataclass(frozen=True)
class Measured:
    """What rounding hides of the suboptimality of the k leading vectors, found by products in double precision."""

    k: int
    suboptimality: float


@dataclass(frozen=True, kw_only=True)
class State(ABC):
    """Where a solver stands: Ritz pairs of A, and what certifies them. ``R = A W - W diag(theta)`` are the residuals.

    A solver's own state has what its next step needs besides.
    """

    d: int  # length of the vectors
    theta: np.ndarray  # Ritz values, largest first
    G: np.ndarray  # R^T R
    mu: float  # the largest eigenvalue of A on W's complement, as far as it is known
    kind: str = "estimated"  # how well it is known: the kind of the certificate
    ceiling: float | None = None  # what no eigenvalue outside W exceeds, where that is known ...
    failure: float = 0.0  # ... but for this probability
    basis: int = 1  # vectors that W and A W are combined from; 0 where A is known
    steps_left: int | None = None  # steps that the solver still has to take; None for any number
    step: Step = NO_STEP  # the step size, where there is one
    P: np.ndarray | None = None  # Z W, where the solver has it
    missed: np.ndarray | None = None  # a direction outside W that the search has proved to be blind for
    shown: float = 0.0  # the error of A that rounding shows by itself
    measured: Measured | None = None  # what rounding hides, where that is not left to a model of it

    @property
    def left(self) -> float:
        """The trace of A on W's complement, which no eigenvalue there exceeds: tr A = 1."""
        return max(0.0, 1.0 - float(self.theta.sum()))

    @property
    def waits(self) -> bool:
        """Whether nothing is believed until an independent witness has seen more products."""
        return False

    def outside(self, k: int) -> float:
        """`mu` for a certificate of the k leading pairs."""
        return self.mu

    @abstractmethod
    def vectors(self) -> np.ndarray:
        """W: the Ritz vectors as columns."""

    def confirmed(self, view: View, k: int) -> State:
        """The state, before k vectors of it are taken for good: after an independent witness has been heard, if any."""
        return self

    def light(self) -> State:
        """The state without the large arrays that only the next step needs: what a run keeps of its best state."""
        return self


@dataclass(frozen=True, kw_only=True)
class Answer(State):
    """Ritz pairs whose vectors are there: what is kept of a run."""

    W: np.ndarray

    def vectors(self) -> np.ndarray:
        """W."""
        return self.W


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Passes:
    """How often a solver reads the data: to start, for a step, and to make ``P = Z W`` in the end."""

    start: float = 1.0
    step: float = 1.0
    projections: float = 0.0


class Solver(ABC, Generic[S]):
    """A way from one state to the next.

    A solver sees views and small matrices. It has settings but no state of its own; it never times, prints or stops by
    itself. A new solver is a subclass with `start`, `step` and `memory`, and a line in `SOLVERS`; the others have
    defaults.
    """

    projects = True  # whether snapshots keep ``P = Z W``, for those who want it in the end
    components: int | None = None  # how many of the columns of W are asked for, where that is known beforehand

    def __init__(self, options: Options, width: int):
        self.options, self.width = options, width  # what the user asked for; the number of columns of W

    @staticmethod
    def width_for(k: int, cost: str, sparse: bool) -> int:
        """Number of columns for k components, unless the user says how many; `sparse` tells what the rows are.

        One for one component. Otherwise there are at least two extra columns, and with one more, which watches W's
        complement, they fill whole SIMD registers.
        """
        return 1 if k == 1 else whole_registers(k)

    @staticmethod
    def transposes(source: Source) -> bool:
        """Whether to work on the transposed matrix: as the data are stored, unless vectors have more entries than X."""
        n, d = source.shape
        if source.by_columns or source.by_rows:
            return source.by_columns
        if source.columnwise is None:
            return d > source.wide_at * n
        return source.columnwise if source.entries >= (n if source.columnwise else d) else d > n

    def wants(self, problem: Problem, rng: Rng, W0: np.ndarray | None = None) -> MomentSum | None:
        """What the first pass should sum up for the start of this solver, besides the moments.

        `W0` is a guess of the vectors that the start will have, too. A solver may read a sample of the rows to find
        out. The accumulator counts the rows that were read for it.
        """
        return None

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """How often it reads the data."""
        return Passes()

    @abstractmethod
    def memory(self, size: Size) -> dict[str, float]:
        """Bytes of its arrays at the peak of each stage, by what they are for. `vrpca.memory` has the rest."""

    def smaller(self) -> Self | None:
        """The same solver with fewer vectors that are kept, for a memory limit; None if it cannot do with fewer."""
        other = copy.copy(self)
        other._shrink()
        return other if vars(other) != vars(self) else None

    def _shrink(self) -> None:
        """Keep a little less; nothing where that is not possible."""

    @abstractmethod
    def start(self, view: View, first_pass: FirstPass, rng: Rng, W0: np.ndarray | None = None) -> State:
        """The first state: from what the first pass found, from a guess W0 of the vectors, or from chance."""

    @abstractmethod
    def step(self, view: View, state: S, rng: Rng) -> State:
        """The next state. The old one is used up: nobody may take another step from it."""


def less(count: int, least: int) -> int:
    """Four fifths of a number, but no less than `least` unless it is less already.

    >>> less(100, 10), less(11, 10), less(5, 10)
    (80, 10, 5)
    """
    return max(4 * count // 5, min(count, least))


def whole_registers(k: int, lanes: int = 4) -> int:
    """The smallest width of at least k + 2 that, with one more column, is a multiple of `lanes`."""
    return -(-(k + 3) // lanes) * lanes - 1


def random_start(view: View, l: int, rng: Rng, W0: np.ndarray | None = None) -> np.ndarray:
    """Return l orthonormal columns: those of `W0`, then random ones; zero where the columns of the data are zero."""
    W = aligned_zeros((view.d, l), view.dtype)
    rng.standard_normal(out=W, dtype=view.dtype)
    if W0 is not None:
        W[:, : min(l, W0.shape[1])] = W0[:, :l]
    if view.support is None:
        orthonormalise(W)
        return W
    W[~view.support] = 0
    orthonormalise(W)
    empty = (W[~view.support] ** 2).sum(axis=0) > ELSEWHERE
    if empty.any() and l <= view.support.sum():  # columns of `W0` that vanished where the data do, or depend on others
        W[:, empty] = rng.standard_normal((view.d, int(empty.sum())), dtype=view.dtype)
        W[~view.support] = 0
        orthonormalise(W)
    return W


def together(W0: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span those of W0 and W: a guess may stand beside a start, not in its place."""
    norms = np.linalg.norm(W0, axis=0)
    both = np.hstack([W0[:, norms > 0] / norms[norms > 0], W])
    Q, R = np.linalg.qr(both.astype(np.float64))
    return np.ascontiguousarray(Q[:, np.abs(np.diag(R)) > SPANNED], dtype=W.dtype)
