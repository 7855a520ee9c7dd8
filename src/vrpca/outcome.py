"""What runs leave: where one stands between two steps, what it found, and what a search outside that found."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vrpca.certificate import Certificate
from vrpca.history import Record, Status
from vrpca.solvers.base import Answer, State

ENDS_EVERYTHING = (Status.INTERRUPTED, Status.STOPPED, Status.SECONDS)  # not only one of several runs


@dataclass(frozen=True)
class Standing:
    """Where a run stands between two steps: all that the next one depends on, but for the data and random numbers."""

    state: State | None  # where the next step starts; None where the best state has to be taken again
    best: State  # without what only a step needs
    at_best: bool  # whether `best` is the state that the next step starts from
    failed: State | None  # the state that a bad step gave
    epoch: int
    accurate: bool  # whether the last certificate is below the tolerances
    end: Status | None  # what the last step gives as a reason to stop
    history: list[Record]


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    state: Answer
    P: np.ndarray | None  # ``Z W``, where it is known
    certificate: Certificate
    status: Status
    history: list[Record]
    gave_up: bool = False  # whether the run was told to stop early

    @property
    def cut_short(self) -> bool:
        """Whether the run could have gone on, but somebody or the clock ended the whole fit."""
        return self.status in ENDS_EVERYTHING and not self.gave_up

    def without_vectors(self) -> Outcome:
        """The outcome of a run that another one has beaten: what is said of it, without its vectors."""
        none = np.zeros((self.state.d, 0), self.state.W.dtype)
        return replace(self, state=replace(self.state, W=none), P=None)


@dataclass(frozen=True)
class Searched:
    """What a random search outside an answer found."""

    state: Answer  # the answer, with what the search says of its complement
    larger: np.ndarray | None  # a vector outside it, as a column, that belongs inside
