"""What the run asks of a solver, and the parts that most solvers share."""

from __future__ import annotations

import numpy as np

from vrpca.certificate import Probe
from vrpca.data.view import View
from vrpca.solvers.iterate import Iterate, random_start, snapshot
from vrpca.solvers.options import Options
from vrpca.solvers.steps import Step


class Solver:
    """A way from one iterate to the next. It sees views and small matrices; it never times, prints or stops by itself.

    Attributes
    ----------
    name : str
        The name in the registry.
    monotone : bool
        Whether a step that lowers the objective means that the step size is too long.
    max_epochs : int or None
        Number of steps after which there is nothing left to do.
    step_rule : Step or None
        The step size, which the run may ask to be halved.
    projects : bool
        Whether its iterates come with ``P = Z W``; else another reading makes it in the end.
    forms_gram : bool
        Whether it works on A itself, summed up while the moments are read.
    draws_rows : bool
        Whether it takes steps with rows drawn at random, so that it matters what a row is.
    """

    name: str
    monotone: bool = True
    max_epochs: int | None = None
    step_rule: Step | None = None
    projects: bool = True
    forms_gram: bool = False
    draws_rows: bool = False

    def __init__(self, view: View, options: Options):
        self.options = options

    @staticmethod
    def extra_columns(k: int, cost: str) -> int:
        """Columns that a block has besides the k that are wanted, unless the user says how many.

        None for one vector, at least two for more: with another one, which watches what is outside, the width of a
        block is then a multiple of 4, which fills whole SIMD registers.
        """
        return 0 if k == 1 else whole_registers(k)

    @staticmethod
    def streamed_columns(options: Options) -> int:
        """Width of the streamed basis that this solver would like to start from; 0 for none."""
        return 0

    @staticmethod
    def sampled_rows(options: Options, n: int, d: int, entries: int) -> int:
        """Rows of a sample from which it would make a block that the first look at the data multiplies; 0 for none."""
        return 0

    @staticmethod
    def block_of_sample(sample: View, columns: int, rng: np.random.Generator) -> np.ndarray:
        """That block."""
        raise TypeError("This solver does not start from samples.")

    def passes_to_start(self, view: View) -> float:
        """Readings of the data before the first look: a snapshot."""
        return 1.0

    def passes_per_step(self, view: View) -> float:
        """Readings of the data that one step takes: a snapshot."""
        return 1.0

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing left that another step could add."""
        return False

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """The first iterate: a random start (or `W0`) and its snapshot."""
        W = random_start(view, self.options.columns, rng, W0)
        return snapshot(view, W, Probe(view.d, view.dtype, rng))

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """The next iterate."""
        raise TypeError(f"{type(self).__name__} has no step.")


def whole_registers(k: int, lanes: int = 4) -> int:
    """Extra columns, at least two, that make the width a multiple of `lanes` with one more."""
    return -(-(k + 3) // lanes) * lanes - 1 - k


class Stochastic(Solver):
    """A solver that takes m steps with rows drawn at random between two snapshots."""

    step_rule: Step
    draws_rows = True

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        self.m = options.epoch_length or view.n

    def passes_to_start(self, view: View) -> float:
        """A snapshot, and the norms of the rows if they are drawn by them."""
        return 2.0 if self.options.sampling == "norm" and not view.norms_known else 1.0

    def passes_per_step(self, view: View) -> float:
        """The draws, and a snapshot."""
        return 1 + view.passes_of_samples(self.m)

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """The norms if they are needed, then as any solver."""
        view.importance(self.options.sampling)
        return super().start(view, rng, W0)
