"""Runs of one solver on one view, within one budget: restarts, fractions of the variance, proofs, changes of mind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from vrpca.certificate import Certificate
from vrpca.data.view import View
from vrpca.errors import OptionError
from vrpca.progress import progress_callback
from vrpca.run import Limits, Outcome, Record, Run, Status
from vrpca.settings import FIRST_GUESS, SolveOptions, extra_columns, solver_options
from vrpca.solvers import SOLVERS, Solver, make_solver
from vrpca.solvers.complement import Search
from vrpca.solvers.iterate import Iterate, projected

ENDS_EVERYTHING = (Status.INTERRUPTED, Status.STOPPED, Status.SECONDS)
SEARCHES = 4  # for what an answer has missed, at most


class Solve:
    """Runs of one solver on one view, within one budget: restarts, and k that grows until a fraction is explained.

    `hopeless` looks at every record and says when a run need not be carried on with.
    """

    def __init__(
        self,
        view: View,
        name: str,
        options: SolveOptions,
        rng: np.random.Generator,
        rows_before: int,
        projections: bool,
    ):
        self.view, self.name, self.options, self.rng = view, name, options, rng
        self.rows_before, self.projections = rows_before, projections
        self.hopeless: Callable[[Record], bool] | None = None
        self.began = time.perf_counter()

    def __call__(self, k: int, W0: np.ndarray | None = None) -> Outcome:
        """The best of `restarts` independent runs: the one with the largest objective. They share the budget evenly."""
        best: Outcome | None = None
        for left in range(self.options["restarts"], 0, -1):
            solver, limits = self._solver(k), self._limits(share=1 / left)
            if best is not None and not self._affordable(solver, limits):
                break
            outcome = self._run(solver, k, limits, W0)
            if best is None or outcome.iterate.objective(k) > best.iterate.objective(k):
                best = outcome
            if outcome.status in ENDS_EVERYTHING:
                break
        assert best is not None
        wanted = self.options["certificate"] == "probabilistic" and best.certificate.kind == "estimated"
        if wanted and best.status not in ENDS_EVERYTHING:
            try:
                best = self._proven(best, k)
            except KeyboardInterrupt:
                best = replace(best, status=Status.INTERRUPTED)
        return replace(best, rows_read=self._rows_read())

    def finished(self, outcome: Outcome) -> Outcome:
        """The outcome that is going to be returned, with projections where they are wanted: they may take a pass."""
        if not self.projections:
            return outcome
        return replace(outcome, iterate=projected(self.view, outcome.iterate), rows_read=self._rows_read())

    def _proven(self, outcome: Outcome, k: int, tries: int = SEARCHES - 1) -> Outcome:
        """The outcome with a probabilistic certificate; what was missed, if anything, is looked for and taken in."""
        it = outcome.iterate
        failure = self.options["failure_probability"] / SEARCHES  # any of them may fail
        search = Search(self.view, np.ascontiguousarray(it.W), failure, self.rng)
        certificate = self._searched(search, it, k)
        if certificate.kind != "estimated" and certificate.suboptimality <= self.options["tol"]:
            return replace(outcome, certificate=certificate)
        solver, limits = self._solver(k), self._limits(share=1)
        if tries and search.above(it.theta[k - 1]) and self._affordable(solver, limits):
            again = self._run(solver, k, limits, np.hstack([search.leader(), it.W[:, :k]]))
            return self._proven(replace(again, history=outcome.history + again.history), k, tries - 1)
        status = Status.UNPROVEN if outcome.status is Status.CONVERGED else outcome.status
        return replace(outcome, certificate=certificate, status=status)

    def _searched(self, search: Search, it: Iterate, k: int) -> Certificate:
        """Search outside the iterate until its certificate is below tol, or the passes or seconds are spent."""
        last = 1 if self.projections and it.P is None else 0
        while not search.exhausted and self._affords(1 + last):
            search.step()
            it.mu, it.kind = search.ceiling(), "probabilistic"
            if it.certificate(k, self.view.rounding).suboptimality <= self.options["tol"]:
                break
        return it.certificate(k, self.view.rounding)

    def _affords(self, passes: float) -> bool:
        """Whether so many passes are left, and time."""
        limits = self._limits(share=1)
        in_time = limits.max_seconds is None or limits.max_seconds > 0
        return in_time and self._rows_read() / self.view.n + passes <= limits.max_passes

    def fraction(self, fraction: float, W0: np.ndarray | None = None) -> tuple[Outcome, int]:
        """Let k grow until the answer's Ritz values, which are lower bounds, explain the fraction."""
        side = min(self.view.n, self.view.d)
        guess = FIRST_GUESS if W0 is None else max(FIRST_GUESS, W0.shape[1])
        k = side if SOLVERS[self.name].forms_gram else min(guess, side)
        while True:
            self.hopeless = None if k == side else lambda record: _falls_short(record, fraction)
            outcome = self(k, W0)
            explained = np.cumsum(outcome.iterate.theta[:k])
            larger = min(2 * k, side)
            enough = explained[-1] >= fraction or k == side
            gave_up = outcome.status is Status.STOPPED and _falls_short(outcome.history[-1], fraction)
            ended = outcome.status in ENDS_EVERYTHING and not gave_up
            if enough or ended or not self._affordable(self._solver(larger), self._limits(share=1)):
                needed = min(int(np.searchsorted(explained, fraction)) + 1, k)
                certificate = outcome.iterate.certificate(needed, self.view.rounding)
                status = outcome.status if enough or ended else Status.PASSES
                if enough and certificate.suboptimality <= self.options["tol"]:
                    status = Status.CONVERGED  # those that are needed are, whatever the others
                return replace(outcome, certificate=certificate, status=status), needed
            k, W0 = larger, outcome.iterate.W

    def _solver(self, k: int) -> Solver:
        o = self.options
        columns = min(k + extra_columns(o, k, self.name), self.view.d)
        return make_solver(self.name, self.view, solver_options(o, columns), o["deflate"])

    def _limits(self, share: float) -> Limits:
        """The tolerance, and a share of the passes and seconds that are left."""
        o, used = self.options, self._rows_read() / self.view.n
        seconds = o["max_seconds"]
        if seconds is not None:
            seconds = share * max(0.0, seconds - (time.perf_counter() - self.began))
        return Limits(o["tol"], used + share * (o["max_passes"] - used), seconds)

    def _affordable(self, solver: Solver, limits: Limits) -> bool:
        """Whether the passes that are left are enough to start."""
        return self._passes_needed(solver) <= limits.max_passes

    def _passes_needed(self, solver: Solver) -> float:
        """Passes so far, those of the start, and the one that makes left vectors where they are wanted."""
        last = 1 if self.projections and not solver.projects else 0
        return self._rows_read() / self.view.n + solver.passes_to_start(self.view) + last

    def _run(self, solver: Solver, k: int, limits: Limits, W0: np.ndarray | None) -> Outcome:
        if not self._affordable(solver, limits):
            need = self._passes_needed(solver)
            raise OptionError(
                f"max_passes={self.options['max_passes']} is too few: a first look at the data and the start of "
                f"{self.name!r} take {need:g} passes per run."
            )
        verbose, user_callback = self.options["verbose"], self.options["callback"]
        if self.hopeless is not None:
            user_callback = either(user_callback, self.hopeless)
        with progress_callback(verbose, limits, user_callback) as callback:
            run = Run(
                solver,
                self.view,
                k,
                limits,
                self.rng,
                callback=callback,
                rows_before=self.rows_before,
                projections=self.projections,
            )
            return run.solve(W0)

    def _rows_read(self) -> int:
        return self.rows_before + self.view.rows_read


def _falls_short(record: Record, fraction: float) -> bool:
    """Whether so many components cannot explain the fraction, by the bound of this look."""
    return record.bound < 1 and record.objective / (1 - record.bound) < fraction


def either(first: Callable[[Record], Any] | None, second: Callable[[Record], bool]) -> Callable[[Record], bool]:
    """A callback that stops when one of them wants to; the second one is not asked where the first one does."""

    def call(record: Record) -> bool:
        return (first is not None and bool(first(record))) or second(record)

    return call
