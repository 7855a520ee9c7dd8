"""Runs: the loop that leads a solver from step to step, restarts, fractions of the variance, and proofs.

The loop owns stopping, the history, recovery from bad steps, callbacks and interruption. `Budget` alone counts passes
and seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace

import numpy as np

from vrpca.certificate import PROVEN, STORED, Certificate, certify, outside_answer
from vrpca.checkpoint import RESUMABLE, Checkpoint
from vrpca.data.first_pass import FirstPass
from vrpca.data.view import Problem, View
from vrpca.errors import OptionError
from vrpca.history import Record, Status
from vrpca.linalg import aligned_copy, aligned_zeros
from vrpca.options import Options
from vrpca.outcome import ENDS_EVERYTHING, Outcome, Searched, Standing
from vrpca.plan import FIRST_GUESS, Plan, fitting, too_slow
from vrpca.progress import progress_bar
from vrpca.solvers import SOLVERS, Solver
from vrpca.solvers.base import Answer, State
from vrpca.solvers.outside import RandomSearch
from vrpca.solvers.snapshot import LightSnapshot, retake
from vrpca.solvers.steps import NO_STEP
from vrpca.values import changed

PATIENCE = 5  # records at the level of rounding without progress that end a run: a rule of thumb
LONG_PATIENCE = 20  # the same near that level, where the bound may still creep
AT_ROUNDING = 4  # a residual below this multiple of a product's rounding is at the level of rounding
NEAR_ROUNDING = 32  # and one below this multiple is near it; both are rules of thumb
MONOTONE = 100  # times the rounding of products by which the objective may fall: sums of n terms err by some tens of it
MOST_FALL = 1e-3  # and no more than this part, where large means leave few digits
# What certifies the best state, besides mu.
CERTIFIED_BY = ("d", "theta", "G", "kind", "ceiling", "failure", "basis", "steps_left", "shown", "measured")
# Rounding of fractions of the variance: sums of eigenvalues in double precision err by some eps.
LAST_DIGITS = 32 * float(np.finfo(float).eps)
SEARCHES = 4  # the most random searches of a proof: three times something may be found outside, and taken in


@dataclass(frozen=True)
class Budget:
    """Counts the passes and seconds of a fit, and says how many are left."""

    view: View  # it counts the rows that it reads
    rows_before: int  # rows that were read before there was a view
    began: float  # when the fit began, by `time.perf_counter`
    max_passes: float
    max_seconds: float | None

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
        """Whether this number of passes is left."""
        return self.passes + passes <= self.max_passes

    def share(self, part: float) -> Budget:
        """The same budget with a part of the passes and seconds that are left."""
        if part == 1:
            return self
        passes = self.passes + part * (self.max_passes - self.passes)
        seconds = self.max_seconds
        if seconds is not None:
            seconds = self.seconds + part * max(0.0, seconds - self.seconds)
        return replace(self, max_passes=passes, max_seconds=seconds)

    def on(self, view: View) -> Budget:
        """The same budget for another view, for instance of the transpose: passes so far become rows of that view."""
        return replace(self, view=view, rows_before=round(self.passes * view.n))


@dataclass(frozen=True)
class Job:
    """What is to be found, and what all runs of a fit share."""

    problem: Problem
    options: Options
    plan: Plan
    view: View
    first_pass: FirstPass  # what the first pass found, in the terms of the view
    rng: np.random.Generator
    budget: Budget
    checkpoint: Checkpoint
    projections: bool  # whether the answer needs ``P = Z W``
    solver: Solver
    k: int  # components that the solver is made for
    fraction: float | None = None  # the fraction of the variance that is wanted instead, if any

    def with_components(self, k: int) -> Job:
        """The same job for k components."""
        return replace(self, k=k, solver=fitting(self.plan, self.options, k))

    def has_room_for(self, k: int) -> bool:
        """Whether the memory limit allows for k components."""
        return self.options.memory_limit is None or self.plan.room_for(self.options, k)

    def certificate(self, state: State) -> Certificate:
        """Bound for the leading vectors of a state: for all of them, and for as many as explain the fraction."""
        counts = {self.k, self.needed(state)}
        return max((certificate_of(state, k, self.view) for k in counts), key=lambda found: found.suboptimality)

    def needed(self, state: State) -> int:
        """How many of the leading vectors explain the fraction; all of them if they do not, or if there is none."""
        if self.fraction is None:
            return self.k
        explained = np.cumsum(state.theta[: self.k])
        return min(int(np.searchsorted(explained, beyond(self.fraction))) + 1, self.k)

    def accurate(self, certificate: Certificate) -> bool:
        """Whether a certificate is below the tolerances."""
        turned = self.options.angle_tol is not None and certificate.angles.max() > self.options.angle_tol
        return certificate.suboptimality <= self.options.tol and not turned

    def good_enough(self, certificate: Certificate) -> bool:
        """Whether a certificate is below the tolerances, and of the kind that is asked for."""
        proven = self.options.certificate == "estimated" or certificate.kind != "estimated"
        return proven and self.accurate(certificate)

    @property
    def passes_to_start(self) -> float:
        """Passes of a start, and of the projections where they take one of their own."""
        passes = self.solver.passes(self.view, self.first_pass)
        return passes.start + (passes.projections if self.projections else 0.0)


def objective(state: State, k: int) -> float:
    """``tr(W_k^T A W_k)``, relative to tr A."""
    return float(state.theta[:k].sum())


def beyond(fraction: float) -> float:
    """What has to be explained for a fraction: if some vectors explain just that, rounding must not decide.

    They always take one more then.
    """
    return fraction + LAST_DIGITS


def record_of(
    state: State, k: int, certificate: Certificate, event: str, epoch: int, read: tuple[float, int, float]
) -> Record:
    """What is known of a state after so many passes, rows and seconds."""
    residual, angle = (max(each.tolist(), default=0.0) for each in (certificate.residuals, certificate.angles))
    return Record(epoch, *read, objective(state, k), residual, certificate.suboptimality, event, angle)


def gain(now: float, before: float) -> float:
    """The relative change of the objective. A start that sees nothing of the data has an objective of zero.

    >>> gain(3.0, 2.0), gain(1.0, 0.0), gain(0.0, 0.0)
    (0.5, inf, 0.0)
    """
    if before > 0:
        return now / before - 1
    return np.inf if now > 0 else 0.0


def finite(state: State) -> bool:
    """Whether all numbers that matter are finite."""
    return bool(np.isfinite(state.theta).all() and np.isfinite(state.G).all())


def certificate_of(state: State, k: int, view: View) -> Certificate:
    """Bound for the k leading vectors.

    Where the rows of the view are columns of X, components are products with the vectors, and have their rounding.
    """
    unit = float(np.finfo(view.dtype).eps)
    turned = STORED * unit + (PROVEN * view.rounding if view.transposed else 0.0)
    eps = view.rounding if state.basis else view.rounding_of_matrix(in_double=state.steps_left == 0)
    found = state.theta, state.G, k, state.d, state.outside(k), state.kind
    hidden = state.measured.suboptimality if state.measured is not None and state.measured.k == k else None
    certificate = certify(*found, eps, turned, state.basis, unit=unit, shown=state.shown, hidden=hidden)
    if certificate.kind == "exact" or state.measured is not None:
        return changed(certificate, ceiling=certificate.mu)
    if state.ceiling is None or not state.theta[0] > 0:  # a guess may see nothing of the data
        return certificate
    ceiling = outside_answer(state.theta, state.G, k, state.ceiling)
    return changed(certificate, ceiling=ceiling / float(state.theta[0]), failure=state.failure)


STANDING = tuple(field.name for field in fields(Standing))  # what a run keeps under the same names
GiveUp = Callable[[Sequence[Record]], bool]  # sees the history of a run and tells it whether to stop early


class Run:
    """A solver at work, from its start to one of the reasons to stop."""

    def __init__(self, job: Job, budget: Budget, give_up: GiveUp | None):
        self.job, self.budget, self.give_up = job, budget, give_up
        self.solver, self.view, self.options = job.solver, job.view, job.options
        self.history: list[Record] = []
        self.epoch = 0
        self.gave_up = False
        self.accurate = False  # whether the last certificate is below the tolerances
        self.certified: tuple[State, Certificate] | None = None  # the last state that was certified
        self.state: State | None = None  # where the next step starts; None where the best state has to be taken again
        self.best: State  # without what only a step needs
        self.at_best = True  # whether `best` is the state that the next step starts from
        self.failed: State | None = None  # the state that a bad step gave
        self.end: Status | None = None  # what the last step gives as a reason to stop
        self.between_steps = False

    def __call__(self, W0: np.ndarray | None) -> Outcome:
        """Run until there is a reason to stop; Ctrl-C is one of them once there is something to return."""
        standing = self.job.checkpoint.standing(self.view)
        if standing is None:
            self._start(W0)
        else:
            self._take_up(standing)
        self.passes = self.solver.passes(self.view, self.job.first_pass)
        bar = progress_bar(self.options.tol) if self.options.verbose else nullcontext()
        try:
            with bar as draw:
                status = self._report("", draw) if standing is None else self._why_stop()
                while status is None:
                    self.job.checkpoint.offer(self.view, self._standing())
                    event = self._judge(self.solver.step(self.view, self._handed_over(), self.job.rng))
                    status = self._report(event, draw)
        except KeyboardInterrupt:
            if not self.history:  # nothing can be said of the start yet
                raise
            status = Status.INTERRUPTED
        self._keep(status)
        return self._outcome(status)

    def _start(self, W0: np.ndarray | None) -> None:
        need = self.job.passes_to_start
        if not self.budget.affords(need):
            raise OptionError(
                f"max_passes={self.options.max_passes} is too few: a first pass over the data and the start of "
                f"{self.job.plan.name!r} take {self.budget.passes + need:g} passes per run."
            )
        self.state = self.solver.start(self.view, self.job.first_pass, self.job.rng, W0)
        self.best = self.state.light()
        if not finite(self.state):
            raise FloatingPointError("The start overflowed: rescale the data, or pass it as float64.")

    def _take_up(self, standing: Standing) -> None:
        """Go on from where a run stood that was cut short."""
        vars(self).update({name: getattr(standing, name) for name in STANDING}, between_steps=True)

    def _standing(self) -> Standing:
        return Standing(**{name: getattr(self, name) for name in STANDING})

    def _keep(self, status: Status) -> None:
        """Write a checkpoint if the run could go on from here, once it is allowed to."""
        if status in RESUMABLE and not self.gave_up:
            self.job.checkpoint.keep(self.view, self._standing() if self.between_steps else None)

    def _certificate(self, state: State) -> Certificate:
        """The certificate of a state, made once."""
        if self.certified is None or self.certified[0] is not state:
            self.certified = state, self.job.certificate(state)
        return self.certified[1]

    def _hear_witness(self, state: State) -> State:
        """The state that the next step starts from, after an independent witness has had the chance to object."""
        self.state = state.confirmed(self.view, self.job.k)
        if self.at_best:
            self.best = self.state.light()
        return self.state

    def _outcome(self, status: Status) -> Outcome:
        """The best state, or the one that has converged; with P where it is the last one."""
        if self.state is not None and (self.at_best or status is Status.CONVERGED):
            self.best, self.at_best = self.state.light(), True
            if status is not Status.CONVERGED:  # else the witness has been heard
                self._hear_witness(self.state)
        last = self.state if self.at_best else None
        P, best = None if last is None else last.P, self.best
        known = {name: getattr(best, name) for name in CERTIFIED_BY}
        answer = Answer(**known, mu=best.outside(self.job.needed(best)), W=best.vectors())
        certificate = self._certificate(best if last is None else last)  # the last one has been certified
        return Outcome(answer, P, certificate, status, self.history, self.gave_up)

    def _handed_over(self) -> State:
        """The state of the next step. The run lets go of it, so that the step can free what it has used."""
        self.between_steps = False
        self.certified = None
        state, self.state, self.at_best = self.state, None, False
        if state is None:
            assert isinstance(self.best, LightSnapshot) and isinstance(self.failed, LightSnapshot)
            state = retake(self.view, self.best, self.failed)
        return state

    def _judge(self, state: State) -> str:
        """Choose where to go on from. Say what happened; `end` says whether it ends the run.

        A step that proved too long is halved and taken back. A step size that the user fixed is not touched: the run
        goes on from what it gave, unless that is not finite, and the best state is returned in the end.
        """
        self.epoch += 1
        step, sound = state.step, finite(state)
        change = gain(objective(state, self.job.k), objective(self.best, self.job.k)) if sound else -np.inf
        rounding = min(MONOTONE * self.view.rounding, MOST_FALL)
        if change >= (0.0 if step.noisy else -rounding) or (step == NO_STEP and sound):
            self.state, self.best, self.at_best = state, state.light(), True
            return ""
        what = "the objective fell" if sound else "the steps diverged"
        if step.adaptive and not (step.noisy and sound):
            self.failed = state.light()
            return f"{what}: back to the last snapshot with half the step"
        if not sound:
            self.end = Status.DIVERGED
            return f"{what}, and the step size is fixed"
        self.state = state
        return what

    def _report(self, event: str, draw: Callable[[Record], None] | None) -> Status | None:
        """Note where the run stands, and tell those who want to know; return the reason to stop, if there is one."""
        record = self._record(event)
        self.history.append(record)
        self.between_steps = True
        if draw is not None:
            draw(record)
        if self.options.callback is not None and self.options.callback(record):
            return Status.STOPPED
        return self._why_stop()

    def _record(self, event: str) -> Record:
        """Certify where the run stands. Before a state is taken for accurate, its witness is heard."""
        state = self.best if self.state is None else self.state
        certificate = self._certificate(state)
        if self.state is not None and self.job.accurate(certificate):
            state = self._hear_witness(state)
            certificate = self._certificate(state)
            event = event if state.missed is None else "something larger was found outside: the search takes it in"
        self.accurate = self.job.accurate(certificate)
        read = self.budget.passes, self.budget.rows_read, self.budget.seconds
        return record_of(state, self.job.k, certificate, event, self.epoch, read)

    def _why_stop(self) -> Status | None:
        """The reason to stop, if there is one."""
        self.gave_up = self.give_up is not None and self.give_up(self.history)
        if self.gave_up:
            return Status.STOPPED
        if self.accurate:
            return Status.CONVERGED
        if self.end is not None:
            return self.end
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
        return self.passes.step + (1 if without_P or not self.at_best else 0)

    def _stalled(self) -> bool:
        """Whether the residual is as small as rounding allows, and it or the bound has stopped falling."""
        if self.state is not None and self.state.waits:
            return False
        rounding = self.view.rounding
        recent = [r.residual for r in self.history[-PATIENCE:]]
        settled = min(recent) >= 0.5 * max(recent)
        if len(self.history) > PATIENCE and max(recent) < AT_ROUNDING * rounding and settled:
            return True
        before, late = self.history[:-LONG_PATIENCE], self.history[-LONG_PATIENCE:]
        near = max(r.residual for r in late) < NEAR_ROUNDING * rounding
        return near and bool(before) and min(r.bound for r in late) > 0.9 * min(r.bound for r in before)


def one_run(job: Job, budget: Budget, give_up: GiveUp | None, W0: np.ndarray | None) -> Outcome:
    """The outcome of a run, or what a checkpoint has of it."""
    return job.checkpoint.part(job.view, lambda: Run(job, budget, give_up)(W0))


def _better(one: Outcome, other: Outcome, k: int) -> bool:
    return objective(one.state, k) > objective(other.state, k)


def best_of_restarts(job: Job, W0: np.ndarray | None = None, give_up: GiveUp | None = None) -> Outcome:
    """The best of `restarts` independent runs: the one with the largest objective. They share the budget evenly."""
    best: Outcome | None = None
    for left in range(job.options.restarts, 0, -1):
        budget = job.budget.share(1 / left)
        if best is not None and not budget.affords(job.passes_to_start):
            break
        try:
            outcome = one_run(job, budget, give_up, W0)
        except KeyboardInterrupt:  # during a start: the runs before it have found something
            if best is None:
                raise
            return replace(best, status=Status.INTERRUPTED)
        beaten, best = (outcome, best) if best is not None and not _better(outcome, best, job.k) else (best, outcome)
        job.checkpoint.forget(beaten)
        if outcome.status is Status.INTERRUPTED:  # whichever run was the best
            return replace(best, status=Status.INTERRUPTED)
        if outcome.status in ENDS_EVERYTHING:
            break
        job = replace(job, first_pass=job.first_pass.without_start())
    assert best is not None
    wanted = job.options.certificate == "probabilistic" and best.certificate.kind == "estimated"
    return proven(job, best) if wanted and best.status not in ENDS_EVERYTHING else best


def proven(job: Job, outcome: Outcome, tries: int = SEARCHES - 1) -> Outcome:
    """The outcome with a probabilistic certificate; what a search finds outside it, if anything, is taken in."""
    try:
        return _proven(job, outcome, tries)
    except KeyboardInterrupt:
        return replace(outcome, status=Status.INTERRUPTED)


def _proven(job: Job, outcome: Outcome, tries: int) -> Outcome:
    found = job.checkpoint.part(job.view, lambda: _searched(job, outcome))
    certificate = job.certificate(found.state)
    outcome = replace(outcome, state=found.state, certificate=certificate)
    if job.good_enough(certificate):
        return outcome
    if tries and found.larger is not None and job.budget.affords(job.passes_to_start):
        W0 = np.hstack([found.larger, np.ascontiguousarray(outcome.state.vectors())[:, : job.k]])
        again = one_run(job, job.budget, None, W0)
        again = replace(again, history=outcome.history + again.history)
        return again if again.status in ENDS_EVERYTHING else proven(job, again, tries - 1)
    return replace(outcome, status=Status.UNPROVEN) if outcome.status is Status.CONVERGED else outcome


def _searched(job: Job, outcome: Outcome) -> Searched:
    """Search outside the answer until its certificate is below tol, or the passes or seconds are spent."""
    state = outcome.state
    failure = job.options.failure_probability / SEARCHES  # any of the searches may fail
    W, products = np.ascontiguousarray(state.vectors()), job.plan.proof_products
    search = RandomSearch(job.view, W, state.left, failure, job.rng, products)
    later = 1 if job.projections and outcome.P is None else 0
    while not search.exhausted and job.budget.in_time and job.budget.affords(1 + later):
        search.step()
        mu, failure = search.ceiling(), job.options.failure_probability
        state = replace(state, mu=mu, kind="probabilistic", ceiling=mu, failure=failure)
        if job.accurate(job.certificate(state)):
            break
    last = state.theta[job.k - 1] if job.k <= len(state.theta) else 0.0
    return Searched(state, search.leader() if search.above(last) else None)


def grow_to_fraction(job: Job, fraction: float, W0: np.ndarray | None = None) -> tuple[Job, Outcome]:
    """Let k grow until the answer's Ritz values, which are lower bounds, explain the fraction.

    The job comes back with the number of components that are needed.
    """
    side = min(job.view.n, job.view.d)
    guess = FIRST_GUESS if W0 is None else max(FIRST_GUESS, W0.shape[1])
    job = job.with_components(side if job.plan.name == "gram" else min(guess, side))
    outcome: Outcome | None = None
    smaller = job
    while True:
        give_up = None if job.k == side else lambda history: _falls_short(history, fraction)
        parts = job.checkpoint.replayed
        try:
            outcome = best_of_restarts(job, W0, give_up)
            job.checkpoint.forget_before(parts)
        except KeyboardInterrupt:  # during a start: fewer components have been found before
            if outcome is None:
                raise
            outcome, job = replace(outcome, status=Status.INTERRUPTED, gave_up=False), smaller
        explained = np.cumsum(outcome.state.theta[: job.k])
        enough = explained[-1] >= beyond(fraction) or job.k == side
        ended = outcome.status in ENDS_EVERYTHING and not outcome.gave_up
        room = job.has_room_for(min(2 * job.k, side))
        larger = job.with_components(min(2 * job.k, side)) if room else job
        if enough or ended or not room or not job.budget.affords(larger.passes_to_start):
            break
        smaller, job, W0 = job, larger, outcome.state.vectors()
    job = replace(job, k=job.needed(outcome.state))
    certificate = certificate_of(outcome.state, job.k, job.view)
    status = outcome.status if enough or ended else Status.PASSES if room else Status.MEMORY
    if enough and job.good_enough(certificate) and status is not Status.INTERRUPTED:
        status = Status.CONVERGED  # the components that are needed are found, whatever the others
    return job, replace(outcome, certificate=certificate, status=status)


def _falls_short(history: Sequence[Record], fraction: float) -> bool:
    """Whether no answer with this number of components explains the fraction, by the bound of the last record."""
    record = history[-1]
    return record.bound < 1 and record.objective / (1 - record.bound) < beyond(fraction)


def run_or_switch(job: Job, W0: np.ndarray | None = None) -> tuple[Job, Outcome]:
    """The outcome of `accelerated`, or of `gram` where `auto` changes to it: where the model proves to be wrong."""
    plan, transpose = job.plan, SOLVERS["gram"].transposes(job.problem.source)
    projections = job.projections or transpose
    last_call = job.options.max_passes - 1 - projections
    outcome = best_of_restarts(job, W0, lambda history: too_slow(plan.task, history, last_call))
    if not outcome.gave_up:
        return job, outcome
    reason = f"{plan.reason}; it converged too slowly and was given up after {len(outcome.history)} records"
    view = View.of(job.problem, job.first_pass.moments, transpose)
    switched = replace(
        job,
        plan=replace(plan, name="gram", reason=reason, transpose=transpose),
        view=view,
        first_pass=FirstPass(job.first_pass.moments),
        budget=job.budget.on(view),
        projections=projections,
    ).with_components(job.k)
    try:
        found = best_of_restarts(switched)
    except KeyboardInterrupt:  # during its start: what was given up is still the best answer
        return job, replace(outcome, status=Status.INTERRUPTED)
    return switched, replace(found, history=outcome.history + found.history)


def run(job: Job, W0: np.ndarray | None) -> tuple[Job, Outcome]:
    """Carry out the plan. The job comes back with what was carried out: the solver, and the number of components."""
    if job.fraction is not None:
        job, outcome = grow_to_fraction(job, job.fraction, W0)
    elif job.plan.may_switch(job.options):
        job, outcome = run_or_switch(job, W0)
    else:
        outcome = best_of_restarts(job, W0)
    outcome = with_projections(job, outcome)
    if job.options.solver == "auto":
        event = f"auto: {job.plan.name}, {job.plan.reason}"
        outcome.history[0] = changed(outcome.history[0], event=event)
    return job, outcome


def with_projections(job: Job, outcome: Outcome) -> Outcome:
    """The outcome with P where it is wanted, which may take a pass. Ctrl-C leaves P out where it can be left out."""
    if not job.projections or outcome.P is not None:
        return outcome
    try:
        P = projections_of(job.view, outcome.state)
    except KeyboardInterrupt:
        outcome = replace(outcome, status=Status.INTERRUPTED)
        if not job.plan.transpose:
            return outcome
        P = projections_of(job.view, outcome.state)  # the right singular vectors: without them there is no answer
    return replace(outcome, P=P)


def projections_of(view: View, answer: Answer) -> np.ndarray:
    """``P = Z W``, by one pass."""
    W = aligned_copy(answer.vectors())
    P = aligned_zeros((view.n, W.shape[1]), view.dtype)
    view.product(W, P)
    return P
