"""The options that reach a solver, as one immutable value, checked once."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from vrpca.errors import OptionError
from vrpca.solvers.steps import Theory

RULES = ("auto", "paper", "theory")


@dataclass(frozen=True)
class Options:
    """How a solver works; what it works on is the view.

    Attributes
    ----------
    columns : int
        Width of the block, l.
    tol : float
        Wanted suboptimality.
    step : float or str
        Step size in the units of the data, or the name of a rule: ``"auto"``, ``"paper"``, ``"theory"``.
    theory : Theory or None
        The quantities of Theorem 1, for ``step="theory"``.
    epoch_length : int or None
        Stochastic steps per epoch; None for n.
    sampling : str
        ``"uniform"`` or ``"norm"``.
    control : str or None
        ``"difference"`` (the paper's) or ``"projection"``; None picks the former for one vector, the latter for blocks.
    cost : str
        What to save: ``"time"`` (narrow blocks, little arithmetic) or ``"passes"`` (wide blocks, few readings).
    """

    columns: int
    tol: float = 1e-8
    step: float | str = "auto"
    theory: Theory | None = None
    epoch_length: int | None = None
    sampling: str = "uniform"
    control: str | None = None
    cost: str = "time"

    def __post_init__(self) -> None:
        if self.sampling not in ("uniform", "norm"):
            raise OptionError(f"sampling={self.sampling!r} is not known: use 'uniform' or 'norm'.")
        if self.control not in (None, "difference", "projection"):
            raise OptionError(f"control={self.control!r} is not known: use 'difference', 'projection' or None.")
        m = self.epoch_length
        if m is not None and (isinstance(m, bool) or not isinstance(m, numbers.Integral) or m < 1):
            raise OptionError(f"epoch_length={self.epoch_length!r} must be a positive integer or None.")
        self._check_step()
        if self.step == "theory" and self.theory is None:
            raise OptionError(
                "step='theory' needs the quantities of Theorem 1: pass theory=vrpca.Theory(gap=..., delta=...)."
            )
        if self.step == "theory" and self.columns != 1:
            raise OptionError(
                "step='theory' is Theorem 1, which is about one component: use n_components=1, without oversample."
            )

    def _check_step(self) -> None:
        rules = f"a positive number, or one of {', '.join(RULES)}"
        if isinstance(self.step, str):
            if self.step not in RULES:
                raise OptionError(f"step={self.step!r} is not known: give {rules}.")
        elif isinstance(self.step, bool) or not isinstance(self.step, numbers.Real) or not 0 < self.step < math.inf:
            raise OptionError(f"step={self.step!r} must be {rules}.")
