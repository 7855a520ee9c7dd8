"""`svd` and `pca`: from X to a `Decomposition`, for people who do not want an estimator."""

from __future__ import annotations

import numbers
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypedDict, Unpack

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from vrpca.certificate import Certificate
from vrpca.data.compact import compacted, put_back
from vrpca.data.gram import GramSum
from vrpca.data.moments import Moments, column_moments
from vrpca.data.source import Source, as_source
from vrpca.data.stream import Stream, StreamWitness
from vrpca.data.view import View, column_scale, make_view
from vrpca.errors import DataError, OptionError
from vrpca.linalg import cross, orthonormalise
from vrpca.progress import progress_callback
from vrpca.run import Limits, Outcome, Record, Run, Status
from vrpca.solvers import SOLVERS, Solver, make_solver
from vrpca.solvers.auto import WIDEST, Task, choose, gram_seconds
from vrpca.solvers.complement import Search
from vrpca.solvers.options import Options
from vrpca.solvers.steps import Theory
from vrpca.threads import blas_threads, n_threads

ENDS_EVERYTHING = (Status.INTERRUPTED, Status.STOPPED, Status.SECONDS)
SMALL_SIDE = 2000  # an A of this size is decomposed whole when a fraction of the variance is asked for
FIRST_GUESS = 8  # components tried first when a fraction of the variance is asked for


class SolveOptions(TypedDict, total=False):
    """The options that `svd`, `pca`, `PCA` and `TruncatedSVD` share; `PCA` describes them."""

    solver: str
    tol: float
    max_passes: float
    max_seconds: float | None
    oversample: int | None
    step: float | str
    theory: Theory | None
    epoch_length: int | None
    sampling: str
    control: str | None
    deflate: bool
    restarts: int
    cost: str
    certificate: str
    failure_probability: float
    n_threads: int | None
    random_state: int | np.random.RandomState | np.random.Generator | None
    callback: Callable[[Record], Any] | None
    verbose: bool


DEFAULTS: SolveOptions = {
    "solver": "auto",
    "tol": 1e-8,
    "max_passes": 100,
    "max_seconds": None,
    "oversample": None,
    "step": "auto",
    "theory": None,
    "epoch_length": None,
    "sampling": "uniform",
    "control": None,
    "deflate": False,
    "restarts": 1,
    "cost": "auto",
    "certificate": "estimated",
    "failure_probability": 1e-6,
    "n_threads": None,
    "random_state": None,
    "callback": None,
    "verbose": False,
}


@dataclass(frozen=True)
class Decomposition:
    """A truncated singular value decomposition ``Z ~ U diag(s) Vt`` of the (centred, scaled, weighted) data.

    Attributes
    ----------
    U : numpy.ndarray or None
        Left singular vectors, n x k, orthonormal columns; None if they were not asked for.
    s : numpy.ndarray
        Singular values, largest first.
    Vt : numpy.ndarray
        Right singular vectors (the principal axes), k x d, orthonormal rows.
    mean : numpy.ndarray or None
        The column means that were subtracted.
    scale : numpy.ndarray or None
        The column deviations that were divided by.
    total_variance : float
        ``|Z|_F^2``: the sum of all squared singular values.
    n_samples : float
        Number of rows, or the sum of their weights.
    rank_limit : int
        The most singular values that the data can have: rows that count, or columns.
    status : Status
        How the run ended, with advice.
    n_passes : float
        Readings of the data, the first look at means and norms included.
    solver : str
        The solver that did it.
    reason : str
        Why that solver was chosen.
    certificate : Certificate
        Bound on the suboptimality, and what it rests on.
    history : list of Record
        One record per look.
    """

    U: np.ndarray | None = field(repr=False)
    s: np.ndarray
    Vt: np.ndarray = field(repr=False)
    mean: np.ndarray | None = field(repr=False)
    scale: np.ndarray | None = field(repr=False)
    total_variance: float
    n_samples: float
    rank_limit: int
    status: Status
    n_passes: float
    solver: str
    reason: str
    certificate: Certificate
    history: list[Record] = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether the certificate is below the tolerance."""
        return self.status is Status.CONVERGED

    @property
    def explained_variance_ratio(self) -> np.ndarray:
        """The part of the total that each component explains."""
        return (self.s / np.sqrt(self.total_variance)) ** 2


def svd(
    X: Any,
    k: int,
    *,
    center: bool = False,
    scale: bool = False,
    sample_weight: Any = None,
    start: np.ndarray | None = None,
    compute_u: bool = True,
    **options: Unpack[SolveOptions],
) -> Decomposition:
    """Truncated singular value decomposition, to the accuracy that `tol` asks for.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame or Source of shape (n, d)
        The data. It is not copied, changed or densified.
    k : int
        Number of singular triplets.
    center : bool
        Subtract the column means, implicitly.
    scale : bool
        Divide by the columns' standard deviations (divisor n), implicitly.
    sample_weight : array-like of shape (n,), optional
        Weight of each row: ``sum w_i z_i z_i^T`` is decomposed; a row of weight 2 counts as two rows. Weights that sum
        to less than 2 are taken as proportions.
    start : array of shape (j, d), optional
        Rows that span a guess of the right singular vectors.
    compute_u : bool
        Whether to return the left singular vectors.
    **options
        As for `vrpca.PCA`: `solver`, `tol`, `max_passes`, `random_state`, ...

    Returns
    -------
    Decomposition

    Examples
    --------
    >>> import numpy as np, vrpca
    >>> X = np.random.default_rng(0).standard_normal((1000, 400)) / np.arange(1, 401)
    >>> found = vrpca.svd(X, 3, solver="vr", random_state=0)
    >>> found.converged, found.certificate.suboptimality <= 1e-8
    (True, True)
    >>> bool(np.allclose(found.s, np.linalg.svd(X, compute_uv=False)[:3]))
    True
    """
    if isinstance(k, bool) or not isinstance(k, numbers.Integral):
        raise OptionError(f"k={k!r} must be an integer.")
    return _decompose(X, int(k), center, scale, sample_weight, start, compute_u, options)


def pca(
    X: Any,
    k: int | float | None = None,
    *,
    center: bool = True,
    scale: bool = False,
    sample_weight: Any = None,
    start: np.ndarray | None = None,
    compute_u: bool = True,
    **options: Unpack[SolveOptions],
) -> Decomposition:
    """Principal component analysis: the truncated SVD of the centred data.

    Parameters
    ----------
    X, center, scale, sample_weight, start, compute_u, **options
        As for `svd`; centring is the default here.
    k : int, float or None
        Number of components; a fraction in (0, 1) for as many as explain that part of the variance; None for all
        that are there, the numerical rank.

    Returns
    -------
    Decomposition

    Examples
    --------
    >>> import numpy as np, vrpca
    >>> X = np.random.default_rng(0).standard_normal((500, 40)) * np.geomspace(1, 1e-3, 40)
    >>> vrpca.pca(X, 0.9, random_state=0).s.shape
    (7,)
    """
    return _decompose(X, k, center, scale, sample_weight, start, compute_u, options)


def _decompose(
    X: Any,
    k: int | float | None,
    center: bool,
    scale: bool,
    sample_weight: Any,
    start: np.ndarray | None,
    compute_u: bool,
    given: SolveOptions,
) -> Decomposition:
    options = _checked(given)
    source = as_source(X)
    weights = check_weights(sample_weight, source.shape[0])
    fraction = _check_k(k, source.shape)
    everything, asked = k is None, k
    k = min(source.shape) if k is None else k
    threads = n_threads(options["n_threads"])
    if options["cost"] == "auto":
        options["cost"] = "passes" if getattr(source, "on_disk", False) else "time"
    start = _checked_start(start, source)
    rng = as_generator(options["random_state"])

    first = _plan(options, source, k, fraction)
    witness = _witness(first, options, source, center, scale, start is not None or fraction, rng)
    with blas_threads(1):
        moments = column_moments(source, weights, threads, witness)
    _check_variation(moments, center, weights, source.shape)

    smaller, its_moments, kept = compacted(source, moments, first.k, first.columns)
    plan = _plan(options, smaller, k, fraction)
    name, reason, transpose = plan.name, plan.reason, plan.transpose
    make = partial(make_view, smaller, its_moments, center=center, scale=scale, weights=weights, n_threads=threads)
    view = make(transpose=transpose)
    upright = make(transpose=False) if transpose and start is not None else view
    W0 = _oriented(start if start is None or kept is None else start[:, kept], view, upright)
    if (name, transpose) == (first.name, first.transpose):
        W0 = _use(witness, view, moments, kept, W0)
    projections = compute_u or transpose or everything
    solve = _Solve(view, name, options, rng, moments.readings * view.n, projections)
    if fraction:
        outcome, k = solve.fraction(float(k), W0)
    else:
        outcome, name, reason = _solve_or_switch(solve, int(k), W0, plan, _task(options, smaller, k, fraction))
    _warn(outcome, options["tol"], k, asked)
    weight = 1.0 if weights is None else float(weights.mean())
    if everything and outcome.iterate.P is not None:
        k = _numerical_rank(outcome.iterate.P)
        outcome = replace(outcome, certificate=outcome.iterate.certificate(k))
    U, s, Vt = _triplets(outcome, view, transpose, int(k), compute_u)
    return Decomposition(
        U,
        s * s.dtype.type(np.sqrt(weight)),
        put_back(Vt, kept, source.shape[1]),
        mean=moments.center if center else None,
        scale=column_scale(moments) if scale else None,
        total_variance=weight * view.frobenius**2,
        n_samples=weight * source.shape[0],
        rank_limit=min(source.shape) if weights is None else min(int(np.count_nonzero(weights)), source.shape[1]),
        status=outcome.status,
        n_passes=outcome.rows_read / view.n,
        solver=name,
        reason=reason,
        certificate=outcome.certificate,
        history=outcome.history,
    )


@dataclass(frozen=True)
class _Plan:
    """What is going to be done: which solver, why, with which width of the block, on which side of X."""

    name: str
    reason: str
    k: int
    columns: int
    transpose: bool


def _plan(options: SolveOptions, source: Source, k: int | float, fraction: bool) -> _Plan:
    name, reason = _chosen_solver(options, source, k, fraction)
    least = 1 if fraction else int(k)
    columns = min(least + oversample_for(options, least, name), source.shape[1])
    return _Plan(name, reason, least, columns, prefer_transpose(source, name))


def _chosen_solver(options: SolveOptions, source: Source, k: int | float, fraction: bool) -> tuple[str, str]:
    """The solver's name, and why it is this one."""
    if options["solver"] != "auto":
        return options["solver"], "asked for"
    if options["deflate"] or options["step"] == "theory":
        return "vr", "deflation and Theorem 1 go with it"
    return choose(_task(options, source, k, fraction))


def _task(options: SolveOptions, source: Source, k: int | float, fraction: bool) -> Task:
    side = min(source.shape)
    if fraction:  # many components may be needed: all of them, if A is small
        k = side if side <= SMALL_SIDE else FIRST_GUESS
    entries = int(getattr(source, "entries", source.shape[0] * source.shape[1]))
    return Task(max(source.shape), side, min(int(k), side), entries, options["tol"], options["cost"])


def _witness(
    plan: _Plan,
    options: SolveOptions,
    source: Source,
    center: bool,
    scale: bool,
    started: bool,
    rng: np.random.Generator,
) -> GramSum | StreamWitness | None:
    """What watches the first look at the data, so that a solver need not read them again."""
    if plan.transpose:
        return None
    if plan.name == "gram":
        return GramSum(source.shape[1], center, n_threads(options["n_threads"]))
    streamed = SOLVERS[plan.name].streamed_columns(_solver_options(options, plan.columns))
    if not streamed or started or scale:
        return None
    return StreamWitness(Stream(min(streamed, source.shape[1])), center, rng)


def _use(
    witness: GramSum | StreamWitness | None,
    view: View,
    moments: Moments,
    kept: np.ndarray | None,
    W0: np.ndarray | None,
) -> np.ndarray | None:
    """Hand what the witness saw to the view, or to the solver as a start."""
    if isinstance(witness, GramSum):
        view.A = witness.matrix(moments, view.map.col_scale, kept)
    elif witness is not None:
        basis = witness.stream.basis()
        return basis if basis is None or kept is None else basis[kept]
    return W0


class _Switch:
    """Says when a run that was expected to be the faster one is better given up for forming A."""

    def __init__(self, seconds: float, tol: float):
        self.seconds, self.tol = seconds, tol
        self.last: Record | None = None
        self.wanted = False

    def __call__(self, record: Record) -> bool:
        """Whether what is left to do, at the rate of the last step, takes longer than all of `gram`."""
        before, self.last = self.last, record
        if before is None or record.seconds < self.seconds or record.bound <= self.tol or self.tol <= 0:
            return False
        gained = np.log(before.bound / record.bound) / max(record.seconds - before.seconds, 1e-9)
        left = np.log(record.bound / self.tol) / gained if gained > 0 else np.inf
        self.wanted = bool(left > self.seconds)
        return self.wanted


def _solve_or_switch(solve: _Solve, k: int, W0: np.ndarray | None, plan: _Plan, task: Task) -> tuple[Outcome, str, str]:
    """The outcome, the solver and the reason; `auto` changes to `gram` when the observation contradicts its model."""
    choice = solve.options["solver"] == "auto" and plan.name == "accelerated"
    if not choice or solve.view.d > WIDEST or task.cost == "passes":
        return solve(k, W0), plan.name, plan.reason
    switch = solve.hopeless = _Switch(gram_seconds(task), task.tol)
    outcome = solve(k, W0)
    solve.hopeless = None
    if not (switch.wanted and outcome.status is Status.STOPPED):
        return outcome, plan.name, plan.reason
    other = _Solve(solve.view, "gram", solve.options, solve.rng, solve.rows_before, solve.projections)
    exact = other(k)
    reason = f"{plan.reason}; it converged too slowly and was given up after {len(outcome.history)} looks"
    return replace(exact, history=outcome.history + exact.history), "gram", reason


class _Solve:
    """Runs of one solver on one view, within one budget: restarts, and k that grows until a fraction is explained."""

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
        self.hopeless: Callable[[Record], bool] | None = None  # says when a run need not be carried on with
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
        if self.options["certificate"] == "probabilistic" and best.certificate.kind == "estimated":
            best = self._proven(best, k)
        return replace(best, rows_read=self._rows_read())

    def _proven(self, outcome: Outcome, k: int, tries: int = 3) -> Outcome:
        """The outcome with a probabilistic certificate; what was missed, if anything, is looked for and taken in."""
        it, limits = outcome.iterate, self._limits(share=1)
        search = Search(self.view, np.ascontiguousarray(it.W), self.options["failure_probability"], self.rng)
        certificate = outcome.certificate
        with blas_threads(1):
            while not search.exhausted and self._rows_read() / self.view.n + 1 <= limits.max_passes:
                search.step()
                it.mu, it.kind = search.ceiling(), "probabilistic"
                certificate = it.certificate(k)
                if certificate.suboptimality <= limits.tol:
                    break
        missed = search.steps > 0 and float(search.space.theta[0]) > it.theta[k - 1] * (1 + 1e-6)
        if missed and tries and certificate.suboptimality > limits.tol:
            solver, start = self._solver(k), np.hstack([search.leader(), it.W[:, :k]])
            if self._affordable(solver, self._limits(share=1)):
                again = self._run(solver, k, self._limits(share=1), start)
                return self._proven(replace(again, history=outcome.history + again.history), k, tries - 1)
        good = certificate.suboptimality <= limits.tol
        status = outcome.status if good or outcome.status is not Status.CONVERGED else Status.UNPROVEN
        return replace(outcome, certificate=certificate, status=status)

    def fraction(self, fraction: float, W0: np.ndarray | None = None) -> tuple[Outcome, int]:
        """Let k grow until the answer's Ritz values, which are lower bounds, explain the fraction."""
        side = min(self.view.n, self.view.d)
        guess = FIRST_GUESS if W0 is None else max(FIRST_GUESS, W0.shape[1])
        k = side if self.name == "gram" else min(guess, side)
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
                certificate = outcome.iterate.certificate(needed)
                status = outcome.status if enough or ended else Status.PASSES
                if enough and certificate.suboptimality <= self.options["tol"]:
                    status = Status.CONVERGED  # those that are needed are, whatever the others
                return replace(outcome, certificate=certificate, status=status), needed
            k, W0 = larger, outcome.iterate.W

    def _solver(self, k: int) -> Solver:
        o = self.options
        columns = min(k + oversample_for(o, k, self.name), self.view.d)
        return make_solver(self.name, self.view, _solver_options(o, columns), o["deflate"])

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
        with blas_threads(1), progress_callback(verbose, limits, user_callback) as callback:
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
    """A callback that calls both and stops when one of them wants to."""

    def call(record: Record) -> bool:
        stop = bool(first(record)) if first is not None else False
        return second(record) or stop

    return call


def oversample_for(options: SolveOptions, k: int, name: str) -> int:
    """Extra columns: what the user says; else none for one vector and at least two for blocks.

    With one column more, which watches what is outside, a block's width is then a multiple of 4: whole SIMD registers.
    Where passes are the cost, wider blocks pay.
    """
    asked = options["oversample"]
    if asked is not None:
        return asked
    if name == "accelerated" and options["cost"] == "passes":
        return max(4, k // 2)
    if name in ("krylov", "accelerated") and k == 1:
        return 2
    return 0 if k == 1 and name != "gram" else -(-(k + 3) // 4) * 4 - 1 - k


def prefer_transpose(source: Source, solver: str) -> bool:
    """Whether the other side of X is the cheaper one: its rows are features, its vectors have length n."""
    n, d = source.shape
    return d > (1.0 if solver == "gram" else getattr(source, "wide_at", 1.0)) * n


def _triplets(
    outcome: Outcome, view: View, transposed: bool, k: int, compute_u: bool
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """U, s, Vt from the last snapshot: W holds one side's vectors, P = Z W the other's times the singular values."""
    W, P = outcome.iterate.W, outcome.iterate.P
    norms = np.sqrt(view.n * np.clip(outcome.iterate.theta, 0, None)) if P is None else _column_norms(P)
    order = np.argsort(-norms, kind="stable")[:k]
    norms = norms[order]
    s = norms * (view.frobenius / np.sqrt(view.n))
    other = None
    if P is not None and (compute_u or transposed):
        other = _normalised(np.ascontiguousarray(P[:, order]), norms)
    left, right = (other, W[:, order]) if other is None or not transposed else (W[:, order], other)
    signs = _signs(right)
    Vt = np.ascontiguousarray((right * signs).T)
    U = np.ascontiguousarray(left * signs) if compute_u and left is not None else None
    return U, s.astype(view.dtype), Vt


def _column_norms(P: np.ndarray) -> np.ndarray:
    return np.sqrt(np.diag(cross(np.ascontiguousarray(P), np.ascontiguousarray(P))))


def _present(norms: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Which singular values are there at all, and not rounding."""
    return norms > max(P.shape) * np.finfo(P.dtype).eps * norms.max()


def _numerical_rank(P: np.ndarray) -> int:
    norms = _column_norms(P)
    return int(_present(norms, P).sum())


def _normalised(P: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """P's columns made orthonormal, the leading ones first: small singular values leave theirs less so.

    Columns that vanish up to rounding are replaced by any that complete the basis.
    """
    good = _present(norms, P)
    Q = np.zeros_like(P)
    np.divide(P, norms, out=Q, where=good, casting="same_kind")
    if not good.all():
        Q[:, ~good] = np.random.default_rng(0).standard_normal((len(P), int((~good).sum())))
    orthonormalise(Q)
    return Q


def _signs(V: np.ndarray) -> np.ndarray:
    """The sign rule: the entry of largest magnitude of each right singular vector is positive."""
    largest = V[np.argmax(np.abs(V), axis=0), np.arange(V.shape[1])]
    return np.where(largest < 0, -1, 1).astype(V.dtype)


def _checked_start(start: Any, source: Source) -> np.ndarray | None:
    """The guess of right singular vectors, as rows of the data's type, or an error."""
    if start is None:
        return None
    start, d = np.atleast_2d(np.asarray(start, dtype=source.dtype)), source.shape[1]
    if start.shape[1] != d or not np.isfinite(start).all():
        raise OptionError(f"start must hold finite rows of length {d}, got shape {start.shape}.")
    return start


def _oriented(start: np.ndarray | None, view: View, upright: View) -> np.ndarray | None:
    """A guess of right singular vectors as columns for the view: as they are, or multiplied by Z on the other side."""
    if start is None:
        return None
    if view is upright:
        return start.T
    P = np.zeros((upright.n, len(start)), view.dtype)
    upright.product(np.ascontiguousarray(start.T), P)
    view.rows_read += view.n
    return P


def _checked(given: SolveOptions) -> SolveOptions:
    """The options with defaults filled in, or an error that names the one that is wrong."""
    unknown = set(given) - set(DEFAULTS)
    if unknown:
        raise TypeError(f"Unknown option {sorted(unknown)[0]!r}; the options are {', '.join(DEFAULTS)}.")
    options: SolveOptions = {**DEFAULTS, **given}
    if options["solver"] not in ("auto", *SOLVERS):
        raise OptionError(f"solver={options['solver']!r} is not known: use one of {', '.join(['auto', *SOLVERS])}.")
    for name, least in (("tol", 0), ("max_passes", 1)):
        value = options[name]  # type: ignore[literal-required]
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not float(value) >= least:
            raise OptionError(f"{name}={value!r} must be a number, at least {least}.")
    for name, least in (("restarts", 1), ("oversample", 0), ("n_threads", 1)):
        value = options[name]  # type: ignore[literal-required]
        if value is None and name != "restarts":
            continue
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
            raise OptionError(f"{name}={value!r} must be an integer, at least {least}.")
    if options["cost"] not in ("auto", "time", "passes"):
        raise OptionError(f"cost={options['cost']!r} is not known: use 'auto', 'time' or 'passes'.")
    if options["certificate"] not in ("estimated", "probabilistic"):
        raise OptionError(f"certificate={options['certificate']!r} is not known: use 'estimated' or 'probabilistic'.")
    failure = options["failure_probability"]
    if isinstance(failure, bool) or not isinstance(failure, numbers.Real) or not 0 < failure < 1:
        raise OptionError(f"failure_probability={failure!r} must lie in (0, 1).")
    seconds, callback = options["max_seconds"], options["callback"]
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, numbers.Real) or not seconds > 0):
        raise OptionError(f"max_seconds={seconds!r} must be a positive number or None.")
    if callback is not None and not callable(callback):
        raise OptionError(f"callback={callback!r} must be a function that takes a Record, or None.")
    if options["deflate"] and options["solver"] not in ("auto", "vr"):
        raise OptionError(f"deflate=True goes with solver='vr', not with {options['solver']!r}.")
    if options["step"] == "theory" and (options["deflate"] or options["solver"] not in ("auto", "vr", "hybrid")):
        raise OptionError("step='theory' is about Algorithm 1: use solver='vr' or 'hybrid', without deflate.")
    _solver_options(options, columns=1)
    return options


def _solver_options(o: SolveOptions, columns: int) -> Options:
    """The part of the options that reaches a solver, checked."""
    return Options(columns, o["tol"], o["step"], o["theory"], o["epoch_length"], o["sampling"], o["control"], o["cost"])


def _check_k(k: int | float | None, shape: tuple[int, int]) -> bool:
    """Check the number of components; return whether it is a fraction of the variance."""
    largest = min(shape)
    if k is None:
        return False
    if isinstance(k, numbers.Integral) and not isinstance(k, bool):
        if not 1 <= k <= largest:
            raise OptionError(
                f"n_components={k} must be between 1 and min(n_samples, n_features)={largest}: X has shape {shape}."
            )
        return False
    if isinstance(k, numbers.Real) and not isinstance(k, bool) and 0 < k < 1:
        return True
    raise OptionError(f"n_components={k!r} must be an integer, a fraction in (0, 1), or None.")


def check_weights(weights: Any, n: int) -> np.ndarray | None:
    """Return the sample weights as an array of n non-negative finite numbers, or None."""
    if weights is None:
        return None
    weights = np.asarray(weights)
    if weights.dtype.kind not in "fiub":
        raise OptionError(f"sample_weight has entries of type {weights.dtype}: pass one real number per row.")
    weights = weights.astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise OptionError(f"sample_weight.shape == {weights.shape}, expected {(n,)}: one weight per row.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise OptionError("sample_weight must hold finite numbers that are not negative.")
    if not weights.any():
        raise OptionError("sample_weight is zero everywhere: at least one row must count.")
    if weights.sum() < 2:  # proportions, not numbers of rows
        weights *= np.count_nonzero(weights) / weights.sum()
    return weights


def _check_variation(moments: Moments, center: bool, weights: np.ndarray | None, shape: tuple[int, int]) -> None:
    """Raise where nothing varies: one row, constant rows, or zeros only."""
    rows = shape[0] if weights is None else int(np.count_nonzero(weights))
    if center and rows < 2:
        raise DataError(f"PCA of n_samples = {rows} sample is not defined: centring one row leaves nothing.")
    square = moments.variance if center else moments.second
    rounding = (64 * np.finfo(float).eps * np.abs(moments.mean)) ** 2
    if not (square > rounding).any():
        raise DataError(
            "X has no variance: all rows are equal. Remove constant columns, or check how X was made."
            if center
            else "X is zero everywhere: there is nothing to decompose."
        )


def _warn(outcome: Outcome, tol: float, k: int | float, asked: int | float | None) -> None:
    if outcome.status is Status.CONVERGED:
        return
    found = outcome.iterate.objective(int(k))
    missed = isinstance(asked, float) and found < asked
    goal = f"they explain {found:.3g} of the variance, not {asked:.3g}" if missed else f"not tol={tol:.1e}"
    warnings.warn(
        f"{k} component(s) were found with a suboptimality of at most {outcome.certificate.suboptimality:.1e} "
        f"({outcome.certificate.kind}), {goal}. {outcome.status.value}",
        ConvergenceWarning,
        stacklevel=4,
    )


def as_generator(random_state: Any) -> np.random.Generator:
    """A Generator from anything that scikit-learn takes as `random_state`, or from a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, numbers.Integral):
        return np.random.default_rng(int(random_state))
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
