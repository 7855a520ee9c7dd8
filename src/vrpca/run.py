"""Runs: the loop that leads a solver from step to step, restarts, fractions of the variance, and proofs.

The loop owns stopping, the history, recovery from bad steps, callbacks and interruption. `Budget` alone counts passes
and seconds.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from vrpca.certificate import Certificate, certify
from vrpca.data.first_pass import FirstPass
from vrpca.data.view import View
from vrpca.errors import OptionError
from vrpca.history import Record, Status
from vrpca.linalg import aligned_copy, aligned_zeros
from vrpca.options import Options
from vrpca.plan import FIRST_GUESS, solver_for
from vrpca.progress import progress_bar
from vrpca.solvers import Solver
from vrpca.solvers.base import Answer, State
from vrpca.solvers.outside import RandomSearch
from vrpca.solvers.snapshot import LightSnapshot, retake
from vrpca.solvers.steps import NO_STEP

PATIENCE = 5  # records without any progress, at the level of rounding, after which a run has stalled
LONG_PATIENCE = 20  # the same near that level, where the bound may still creep
AT_ROUNDING, NEAR_ROUNDING = (
    4,
    32,
)  # residuals up to so many times the rounding of a product are at, or near, that level
MONOTONE = 100  # the objective may fall by so many eps before a step counts as bad
SEARCHES = 4  # random searches for what an answer has missed, at most
ENDS_EVERYTHING = (Status.INTERRUPTED, Status.STOPPED, Status.SECONDS)


class Event(enum.Enum):
    """What a step came to; the value is what its record says."""

    ACCEPTED = ""
    FELL = "the objective fell"
    FELL_BACK = "the objective fell: back to the last snapshot with half the step"
    DIVERGED_BACK = "the steps diverged: back to the last snapshot with half the step"
    DIVERGED = "the steps diverged, and the step size is fixed"


class Budget:
    """Counts the passes and seconds of a fit, and says how many are left.

    Parameters
    ----------
    view : View
        It counts the rows that it reads.
    rows_before : int
        Rows that were read before there was a view.
    began : float
        When the fit began, by `time.perf_counter`.
    max_passes : float
        Passes that may be spent.
    max_seconds : float or None
        Seconds that may be spent.
    """

    def __init__(self, view: View, rows_before: int, began: float, max_passes: float, max_seconds: float | None):
        self.view, self.rows_before, self.began = view, rows_before, began
        self.max_passes, self.max_seconds = max_passes, max_seconds

    @property
    def rows_read(self) -> int:
        """Rows read so far."""
        return self.rows_before + self.view.rows_read

    @property
    def passes(self) -> float:
        """Passes so far, fractions included."""
        return self.rows_read / self.view.n

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self.began

    @property
    def in_time(self) -> bool:
        """Whether there are seconds left."""
        return self.max_seconds is None or self.seconds < self.max_seconds

    def affords(self, passes: float) -> bool:
        """Whether so many passes are left."""
        return self.passes + passes <= self.max_passes

    def share(self, part: float) -> Budget:
        """The same budget with a part of the passes and seconds that are left."""
        passes = self.passes + part * (self.max_passes - self.passes)
        seconds = self.max_seconds
        if seconds is not None:
            seconds = self.seconds + part * max(0.0, seconds - self.seconds)
        return Budget(self.view, self.rows_before, self.began, passes, seconds)


@dataclass(frozen=True)
class Outcome:
    """What a run found. `P` is ``Z W``, where it is known; `gave_up` says that the run was told to stop early."""

    state: Answer
    P: np.ndarray | None
    certificate: Certificate
    status: Status
    history: list[Record]
    gave_up: bool = False


@dataclass(frozen=True)
class Job:
    """What all runs of a fit share.

    Attributes
    ----------
    name : str
        The solver.
    projections : bool
        Whether the answer needs ``P = Z W``.
    """

    name: str
    view: View
    first_pass: FirstPass
    options: Options
    rng: np.random.Generator
    budget: Budget
    projections: bool

    def solver(self, k: int) -> Solver:
        """The solver for k components."""
        return solver_for(self.options, self.name, k, self.view.source.entries, self.view.d)

    def passes_to_start(self, solver: Solver) -> float:
        """Passes of a start, and of the projections where they take one of their own."""
        passes = solver.passes(self.view, self.first_pass)
        return passes.start + (passes.projections if self.projections else 0.0)


def objective(state: State, k: int) -> float:
    """``tr(W_k^T A W_k)``, relative to tr A."""
    return float(state.theta[:k].sum())


def finite(state: State) -> bool:
    """Whether all numbers that matter are finite."""
    return bool(np.isfinite(state.theta).all() and np.isfinite(state.G).all())


def certificate_of(state: State, k: int, view: View) -> Certificate:
    """Bound for the k leading vectors."""
    return certify(state.theta, state.G, k, state.d, state.mu, state.kind, view.rounding)


GiveUp = Callable[[Sequence[Record]], bool]  # looks at the history of a run and tells it to stop early


class Run:
    """A solver at work, from its start to one of the reasons to stop."""

    def __init__(self, job: Job, solver: Solver, k: int, budget: Budget, give_up: GiveUp | None):
        self.job, self.solver, self.k, self.budget, self.give_up = job, solver, k, budget, give_up
        self.view, self.options = job.view, job.options
        self.history: list[Record] = []
        self.epoch = 0
        self.gave_up = False
        self.state: State | None = None  # where the next step starts; None where the best state has to be taken again
        self.best: State  # without what only a step needs
        self.at_best = True  # whether `best` is the state that the next step starts from
        self.failed: State | None = None  # the state that a bad step gave

    def __call__(self, W0: np.ndarray | None) -> Outcome:
        """Run until there is a reason to stop; Ctrl-C is one of them once there is something to return."""
        need = self.job.passes_to_start(self.solver)
        if not self.budget.affords(need):
            raise OptionError(
                f"max_passes={self.options.max_passes} is too few: a first pass over the data and the start of "
                f"{self.job.name!r} take {self.budget.passes + need:g} passes per run."
            )
        self.state = self.solver.start(self.view, self.job.first_pass, self.job.rng, W0)
        self.best = self.state.light()
        if not finite(self.state):
            raise FloatingPointError("The start overflowed: rescale the data, or pass it as float64.")
        self.passes = self.solver.passes(self.view, self.job.first_pass)
        bar = progress_bar(self.options.tol) if self.options.verbose else nullcontext()
        try:
            with bar as draw:
                status = self._record(self.best, draw) or self._why_stop()
                while status is None:
                    event = self._judge(self.solver.step(self.view, self._handed_over(), self.job.rng))
                    status = self._record(self.best if self.state is None else self.state, draw, event)
                    status = status or self._why_stop(event)
        except KeyboardInterrupt:
            if not self.history:  # nothing can be said of the start yet
                raise
            status = Status.INTERRUPTED
        return self._outcome(status)

    def _outcome(self, status: Status) -> Outcome:
        """The best state; with P where it is the last one."""
        P = self.state.P if self.state is not None and self.at_best else None
        best, certificate = self.best, certificate_of(self.best, self.k, self.view)
        answer = Answer(d=best.d, theta=best.theta, G=best.G, mu=best.mu, kind=best.kind, W=best.vectors())
        return Outcome(answer, P, certificate, status, self.history, self.gave_up)

    def _handed_over(self) -> State:
        """The state of the next step. The run lets go of it, so that the step can free what it has used."""
        state, self.state, self.at_best = self.state, None, False
        if state is None:
            assert isinstance(self.best, LightSnapshot) and isinstance(self.failed, LightSnapshot)
            state = retake(self.view, self.best, self.failed)
        return state

    def _judge(self, state: State) -> Event:
        """Choose where to go on from, and say what happened: a step that proved too long is halved and taken back.

        A step size that the user fixed is not touched: the run goes on from what it gave, unless that is not finite,
        and the best state is returned in the end.
        """
        self.epoch += 1
        step = state.step
        change = objective(state, self.k) / objective(self.best, self.k) - 1 if finite(state) else -np.inf
        rounding = MONOTONE * np.finfo(self.view.dtype).eps
        if change >= (0.0 if step.noisy else -rounding) or (step == NO_STEP and finite(state)):
            self.state, self.best, self.at_best = state, state.light(), True
            return Event.ACCEPTED
        if step.adaptive and not (step.noisy and finite(state)):
            self.failed = state.light()
            return Event.FELL_BACK if finite(state) else Event.DIVERGED_BACK
        self.state = state if finite(state) else None
        return Event.FELL if finite(state) else Event.DIVERGED

    def _record(
        self, state: State, draw: Callable[[Record], None] | None, event: Event = Event.ACCEPTED
    ) -> Status | None:
        certificate = certificate_of(state, self.k, self.view)
        record = Record(
            self.epoch,
            self.budget.passes,
            self.budget.rows_read,
            self.budget.seconds,
            objective(state, self.k),
            float(certificate.residuals.max(initial=0.0)),
            certificate.suboptimality,
            event.value,
        )
        self.history.append(record)
        if draw is not None:
            draw(record)
        if self.options.callback is not None and self.options.callback(record):
            return Status.STOPPED
        self.gave_up = self.give_up is not None and self.give_up(self.history)
        return Status.STOPPED if self.gave_up else None

    def _why_stop(self, event: Event = Event.ACCEPTED) -> Status | None:
        last = self.history[-1]
        if last.bound <= self.options.tol:
            return Status.CONVERGED
        if event is Event.DIVERGED:
            return Status.DIVERGED
        if (self.best if self.state is None else self.state).steps_left == 0:
            return Status.EPOCHS
        if self._stalled():
            return Status.STALLED
        if not self.budget.affords(self._passes_of_next_step()):
            return Status.PASSES
        return None if self.budget.in_time else Status.SECONDS

    def _passes_of_next_step(self) -> float:
        """A step, and one pass more if the best state has to be read again: to go on from it, or for its P."""
        without_P = self.job.projections and (self.state is None or self.state.P is None)
        again = 1 if without_P or not self.at_best else 0
        return self.passes.step + again

    def _stalled(self) -> bool:
        """Whether the residual is as small as rounding allows, and it or the bound has stopped falling."""
        rounding = self.view.rounding
        recent = [r.residual for r in self.history[-PATIENCE:]]
        settled = min(recent) >= 0.5 * max(recent)
        if len(self.history) > PATIENCE and max(recent) < AT_ROUNDING * rounding and settled:
            return True
        before, late = self.history[:-LONG_PATIENCE], self.history[-LONG_PATIENCE:]
        near = max(r.residual for r in late) < NEAR_ROUNDING * rounding
        return near and bool(before) and min(r.bound for r in late) > 0.9 * min(r.bound for r in before)


def best_of_restarts(job: Job, k: int, W0: np.ndarray | None = None, give_up: GiveUp | None = None) -> Outcome:
    """The best of `restarts` independent runs: the one with the largest objective. They share the budget evenly."""
    best: Outcome | None = None
    solver = job.solver(k)
    for left in range(job.options.restarts, 0, -1):
        budget = job.budget.share(1 / left)
        if best is not None and not budget.affords(job.passes_to_start(solver)):
            break
        try:
            outcome = Run(job, solver, k, budget, give_up)(W0)
        except KeyboardInterrupt:  # during a start: the runs before it have found something
            if best is None:
                raise
            return replace(best, status=Status.INTERRUPTED)
        if best is None or objective(outcome.state, k) > objective(best.state, k):
            best = outcome
        if outcome.status is Status.INTERRUPTED:  # whichever run was the best
            return replace(best, status=Status.INTERRUPTED)
        if outcome.status in ENDS_EVERYTHING:
            break
        job = replace(job, first_pass=job.first_pass.without_start())
    assert best is not None
    wanted = job.options.certificate == "probabilistic" and best.certificate.kind == "estimated"
    return proven(job, best, k) if wanted and best.status not in ENDS_EVERYTHING else best


def proven(job: Job, outcome: Outcome, k: int, tries: int = SEARCHES - 1) -> Outcome:
    """The outcome with a probabilistic certificate; what a search finds outside it, if anything, is taken in."""
    try:
        return _proven(job, outcome, k, tries)
    except KeyboardInterrupt:
        return replace(outcome, status=Status.INTERRUPTED)


def _proven(job: Job, outcome: Outcome, k: int, tries: int) -> Outcome:
    state, tol = outcome.state, job.options.tol
    W = np.ascontiguousarray(state.vectors())
    search = RandomSearch(job.view, W, job.options.failure_probability / SEARCHES, job.rng)  # any of them may fail
    state = _searched(job, search, state, outcome, k)
    certificate = certificate_of(state, k, job.view)
    outcome = replace(outcome, state=state, certificate=certificate)
    if certificate.kind != "estimated" and certificate.suboptimality <= tol:
        return outcome
    solver = job.solver(k)
    if tries and search.above(state.theta[k - 1]) and job.budget.affords(job.passes_to_start(solver)):
        again = Run(job, solver, k, job.budget, None)(np.hstack([search.leader(), W[:, :k]]))
        again = replace(again, history=outcome.history + again.history)
        return again if again.status in ENDS_EVERYTHING else proven(job, again, k, tries - 1)
    return replace(outcome, status=Status.UNPROVEN) if outcome.status is Status.CONVERGED else outcome


def _searched(job: Job, search: RandomSearch, state: Answer, outcome: Outcome, k: int) -> Answer:
    """Search outside the state until its certificate is below tol, or the passes or seconds are spent."""
    last = 1 if job.projections and outcome.P is None else 0
    while not search.exhausted and job.budget.in_time and job.budget.affords(1 + last):
        search.step()
        state = replace(state, mu=search.ceiling(), kind="probabilistic")
        if certificate_of(state, k, job.view).suboptimality <= job.options.tol:
            break
    return state


def grow_to_fraction(job: Job, fraction: float, W0: np.ndarray | None = None) -> tuple[Outcome, int]:
    """Let k grow until the answer's Ritz values, which are lower bounds, explain the fraction."""
    side, tol = min(job.view.n, job.view.d), job.options.tol
    guess = FIRST_GUESS if W0 is None else max(FIRST_GUESS, W0.shape[1])
    k = side if job.name == "gram" else min(guess, side)
    outcome: Outcome | None = None
    smaller = k
    while True:
        give_up = None if k == side else lambda history: _falls_short(history, fraction)
        try:
            outcome = best_of_restarts(job, k, W0, give_up)
        except KeyboardInterrupt:  # during a start: fewer components have been found before
            if outcome is None:
                raise
            outcome, k = replace(outcome, status=Status.INTERRUPTED, gave_up=False), smaller
        explained = np.cumsum(outcome.state.theta[:k])
        larger = min(2 * k, side)
        enough = explained[-1] >= fraction or k == side
        ended = outcome.status in ENDS_EVERYTHING and not outcome.gave_up
        if enough or ended or not job.budget.affords(job.passes_to_start(job.solver(larger))):
            break
        smaller, k, W0 = k, larger, outcome.state.vectors()
    needed = min(int(np.searchsorted(explained, fraction)) + 1, k)
    certificate = certificate_of(outcome.state, needed, job.view)
    status = outcome.status if enough or ended else Status.PASSES
    if enough and certificate.suboptimality <= tol and status is not Status.INTERRUPTED:
        status = Status.CONVERGED  # the components that are needed are found, whatever the others
    return replace(outcome, certificate=certificate, status=status), needed


def _falls_short(history: Sequence[Record], fraction: float) -> bool:
    """Whether so many components cannot explain the fraction, by the bound of the last record."""
    record = history[-1]
    return record.bound < 1 and record.objective / (1 - record.bound) < fraction


def finished(job: Job, outcome: Outcome) -> Outcome:
    """The outcome that is going to be returned, with projections where they are wanted: they may take a pass."""
    if not job.projections or outcome.P is not None:
        return outcome
    W = aligned_copy(outcome.state.vectors())
    P = aligned_zeros((job.view.n, W.shape[1]), job.view.dtype)
    job.view.product(W, P)
    return replace(outcome, P=P)
