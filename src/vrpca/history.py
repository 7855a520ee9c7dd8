"""What a run reports: one record per step, and how it ended."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any


class Status(enum.Enum):
    """How a run ended; the value is advice to the user."""

    CONVERGED = "The certificate is below tol."
    PASSES = "max_passes was reached first: allow more passes, loosen tol, or try another solver."
    SECONDS = "max_seconds was reached first: allow more time, loosen tol, or try another solver."
    MEMORY = "memory_limit leaves no room for as many components as the fraction needs: raise it, or ask for less."
    EPOCHS = (
        "The solver took all the steps that it had planned. If the bound is at the rounding level of float32, pass "
        "float64 data; else loosen tol or try another solver."
    )
    STALLED = (
        "The residual no longer falls: it is at the rounding level of the data's type, or the step is too long. Pass "
        "float64 data for a smaller tol, or change step."
    )
    UNPROVEN = (
        "The estimated certificate is below tol, the probabilistic one is not: allow more passes, a larger "
        "failure_probability or a looser tol, or be content with certificate='estimated'."
    )
    DIVERGED = "The steps diverged and the step size was fixed: pass a smaller step, or step='paper'."
    INTERRUPTED = "Interrupted: this is the best answer so far."
    STOPPED = "The callback asked to stop: this is the best answer so far."


def counted(passes: float) -> str:
    """A number of passes in words.

    >>> counted(1.0), counted(2.5)
    ('1 pass', '2.5 passes')
    """
    text = f"{passes:.4g}"
    return "1 pass" if text == "1" else f"{text} passes"


@dataclass(frozen=True)
class Record:
    """One line of the history: what was known after a step.

    Attributes
    ----------
    epoch : int
        Number of steps of the solver before this record.
    passes : float
        Passes so far. Fractions and the first pass, which finds the means, count.
    rows_read : int
        The same in rows.
    seconds : float
        Time since the fit began to read the data.
    objective : float
        ``tr(W^T A W) / tr A``: the fraction of the total explained.
    residual : float
        Largest residual among the components, relative to the largest Ritz value.
    bound : float
        The certificate's bound on the suboptimality.
    event : str
        Anything out of the ordinary, such as a halved step; usually empty.
    angle : float
        Largest of the certificate's angles: the sine of the angle that a component may be off by; 1 for any.
    """

    epoch: int
    passes: float
    rows_read: int
    seconds: float
    objective: float
    residual: float
    bound: float
    event: str = ""
    angle: float = 1.0

    def asdict(self) -> dict[str, Any]:
        """The record as a dictionary."""
        return asdict(self)
