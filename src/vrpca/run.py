"""The only loop: it owns the budget, the history, stopping, recovery from bad steps, callbacks and interruption."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vrpca.certificate import Certificate
from vrpca.data.view import View
from vrpca.solvers import Solver
from vrpca.solvers.iterate import Iterate, renewed

DIVERGED = "the steps diverged, and the step size is fixed"
PATIENCE = 5  # looks without any progress, at the level of rounding, after which a run has stalled,
LONG_PATIENCE = 20  # and near that level


class Status(enum.Enum):
    """How a run ended; the value is advice to the user."""

    CONVERGED = "The certificate is below tol."
    PASSES = "max_passes was reached first: allow more passes, loosen tol, or try another solver."
    SECONDS = "max_seconds was reached first: allow more time, loosen tol, or try another solver."
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


@dataclass(frozen=True)
class Record:
    """One line of the history: what was known after so many readings of the data.

    Attributes
    ----------
    epoch : int
        Number of steps of the solver before this look.
    passes : float
        Readings of the data so far, fractions and the first look at means included.
    rows_read : int
        The same in rows.
    seconds : float
        Time since the start of the run.
    objective : float
        ``tr(W^T A W) / tr A``: the fraction of the total explained.
    residual : float
        Largest residual among the components, relative to the largest Ritz value.
    bound : float
        The certificate's bound on the suboptimality.
    event : str
        What happened besides: a halved step, say; empty most of the time.
    """

    epoch: int
    passes: float
    rows_read: int
    seconds: float
    objective: float
    residual: float
    bound: float
    event: str = ""

    def asdict(self) -> dict[str, Any]:
        """The record as a dictionary."""
        return asdict(self)


@dataclass(frozen=True)
class Limits:
    """When to stop.

    Attributes
    ----------
    tol : float
        Wanted suboptimality.
    max_passes : float
        Readings of the data that may be spent.
    max_seconds : float or None
        Time that may be spent.
    """

    tol: float
    max_passes: float
    max_seconds: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    iterate: Iterate
    certificate: Certificate
    status: Status
    history: list[Record]
    rows_read: int


class Run:
    """A solver at work on a view, from its start to one of the reasons to stop.

    With `projections`, the best iterate is returned with ``P = Z W``, by another reading if it is not the last one.
    """

    def __init__(
        self,
        solver: Solver,
        view: View,
        k: int,
        limits: Limits,
        rng: np.random.Generator,
        *,
        callback: Callable[[Record], Any] | None = None,
        rows_before: int = 0,
        projections: bool = True,
    ):
        self.solver, self.view, self.k, self.limits, self.rng = solver, view, k, limits, rng
        self.callback = callback
        self.rows_before = rows_before
        self.projections = projections
        self.began = time.perf_counter()
        self.history: list[Record] = []
        self.best: Iterate | None = None
        self.epoch = 0

    def solve(self, W0: np.ndarray | None = None) -> Outcome:
        """Run until a reason to stop; Ctrl-C is one of them once there is something to return."""
        current = self.best = self.solver.start(self.view, self.rng, W0)
        if not current.finite:
            raise FloatingPointError("The start overflowed: rescale the data, or pass it as float64.")
        try:
            status = self._record(current) or self._why_stop()
            while status is None:
                it = self.solver.step(self.view, renewed(self.view, current), self.rng)
                self.epoch += 1
                current, event = self._judge(it)
                status = self._record(current, event) or self._why_stop(event)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        certificate = self.best.certificate(self.k, self.view.rounding)
        return Outcome(self.best, certificate, status, self.history, self._rows_read())

    def _rows_read(self) -> int:
        return self.rows_before + self.view.rows_read

    def _judge(self, it: Iterate) -> tuple[Iterate, str]:
        """Where to go on from, and what happened: a step that proved too long is halved and taken back.

        A step size that the user fixed is not touched: the run goes on from what it gave, unless that is not finite,
        and the best iterate is returned in the end.
        """
        assert self.best is not None
        change = it.objective(self.k) / self.best.objective(self.k) - 1 if it.finite else -np.inf
        rounding = 100 * np.finfo(self.view.dtype).eps
        if change >= (-rounding if self.solver.monotone else 0.0):
            self.best = it
            return it, ""
        what = "the objective fell" if it.finite else "the steps diverged"
        rule = self.solver.step_rule
        too_long = self.solver.monotone or not it.finite
        if too_long and rule is not None and rule.halve():
            return self.best, f"{what}: back to the last snapshot with half the step"
        return (it, what) if it.finite else (self.best, DIVERGED)

    def _record(self, it: Iterate, event: str = "") -> Status | None:
        certificate = it.certificate(self.k, self.view.rounding)
        record = Record(
            self.epoch,
            self._rows_read() / self.view.n,
            self._rows_read(),
            time.perf_counter() - self.began,
            it.objective(self.k),
            float(certificate.residuals.max(initial=0.0)),
            certificate.suboptimality,
            event,
        )
        self.history.append(record)
        if self.callback is not None and self.callback(record):
            return Status.STOPPED
        return None

    def _why_stop(self, event: str = "") -> Status | None:
        last, limits = self.history[-1], self.limits
        if last.bound <= limits.tol:
            return Status.CONVERGED
        if event == DIVERGED:
            return Status.DIVERGED
        planned = self.solver.max_epochs
        if self.solver.exhausted or (planned is not None and self.epoch >= planned):
            return Status.EPOCHS
        if self._stalled():
            return Status.STALLED
        again = 1 if self._must_go_back() else 0
        if last.passes + again + self.solver.passes_per_step(self.view) > limits.max_passes:
            return Status.PASSES
        if limits.max_seconds is not None and last.seconds >= limits.max_seconds:
            return Status.SECONDS
        return None

    def _must_go_back(self) -> bool:
        """Whether the best iterate has to be read again before it can be returned or gone on from."""
        assert self.best is not None
        return self.best.released or (self.projections and self.best.P is None)

    def _stalled(self) -> bool:
        """Whether the residual is as small as rounding allows, and it or the bound has stopped falling."""
        recent = [r.residual for r in self.history[-PATIENCE:]]
        if len(self.history) > PATIENCE and max(recent) < 4 * self.view.rounding and min(recent) >= 0.5 * max(recent):
            return True
        before, late = self.history[:-LONG_PATIENCE], self.history[-LONG_PATIENCE:]
        near = max(r.residual for r in late) < 32 * self.view.rounding
        return near and bool(before) and min(r.bound for r in late) > 0.9 * min(r.bound for r in before)
