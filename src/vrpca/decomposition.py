"""`svd` and `pca`: from X to a `Decomposition`, for people who do not want an estimator.

A fit has three parts: prepare (options, plan, first pass, view), run, and assemble.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vrpca.certificate import Certificate
from vrpca.data.first_pass import FirstPass
from vrpca.data.open import as_source
from vrpca.data.source import Source
from vrpca.data.view import Problem, View, column_scale
from vrpca.errors import Interrupted, OptionError
from vrpca.history import Record, Status
from vrpca.linalg import column_norms, numerical_rank, triplets
from vrpca.options import Options, SolveOptions, as_generator, check_k, check_weights, is_integer
from vrpca.plan import Plan, block_width, make_plan, too_slow
from vrpca.run import (
    Budget,
    Job,
    Outcome,
    best_of_restarts,
    certificate_of,
    finished,
    grow_to_fraction,
    objective,
)
from vrpca.solvers import SOLVERS
from vrpca.threads import blas_threads, n_threads

VECTORS = 5  # arrays of d times the width that an epoch of `vr` holds at its peak


@dataclass(frozen=True)
class Decomposition:
    """A truncated singular value decomposition ``Z ~ U diag(s) Vt`` of the (centred, scaled, weighted) data.

    Attributes
    ----------
    U : numpy.ndarray or None
        Left singular vectors, n x k, orthonormal columns; None if they were not asked for, or if the reading that finds
        them was interrupted.
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
        Passes over the data, the first one, which finds the means, included.
    solver : str
        The solver that did it.
    reason : str
        Why that solver was chosen.
    certificate : Certificate
        Bound on the suboptimality, and what it rests on.
    history : list of Record
        One record per step.
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
    if not is_integer(k):
        raise OptionError(f"k={k!r} must be an integer.")
    with blas_threads(1):
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
    with blas_threads(1):
        return _decompose(X, k, center, scale, sample_weight, start, compute_u, options)


@dataclass(frozen=True)
class _Fit:
    """A fit that is ready to run: what is decomposed, how, and what the first pass found.

    `kept` are the numbers of the columns that are not empty, where others were left out; `asked` is the number of
    components that the user asked for.
    """

    problem: Problem
    options: Options
    plan: Plan
    first_pass: FirstPass
    view: View
    W0: np.ndarray | None
    kept: np.ndarray | None
    d: int
    asked: int | float | None
    k: int | float
    fraction: bool
    job: Job


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
    fit = _prepare(X, k, center, scale, sample_weight, start, compute_u, given)
    fit, outcome, found = _run(fit)
    _warn(outcome, fit.options.tol, found, k)
    decomposition = _assemble(fit, outcome, found, compute_u)
    if outcome.status is Status.INTERRUPTED:
        raise Interrupted(decomposition)
    return decomposition


def _prepare(
    X: Any,
    k: int | float | None,
    center: bool,
    scale: bool,
    sample_weight: Any,
    start: np.ndarray | None,
    compute_u: bool,
    given: SolveOptions,
) -> _Fit:
    """Check everything, make the plan and the first pass, and set up the view."""
    began, options, source = time.perf_counter(), Options.given(given), as_source(X)
    if options.cost == "auto":
        options = replace(options, cost="passes" if source.slow_to_read else "time")
    asked, d, fraction = k, source.shape[1], check_k(k, source.shape)
    k = min(source.shape) if k is None else k
    start = _checked_start(start, source)
    weights = check_weights(sample_weight, source.shape[0])
    source, kept = _without_empty_columns(source, options, 1 if fraction else int(k))
    problem = Problem(source, weights, center, scale, n_threads(options.n_threads))
    rng = as_generator(options.random_state)
    plan = make_plan(options, source, k, fraction)
    cold = start is None and not fraction  # the solver begins without a guess, with the width that is planned
    wanted = plan.solver.wants(problem, rng) if not plan.transpose and (cold or plan.name == "gram") else None
    first_pass = problem.first_pass(wanted)
    problem.check_variation(first_pass.moments)
    view = View.of(problem, first_pass.moments, plan.transpose)
    W0 = _oriented(start if start is None or kept is None else start[:, kept], problem, first_pass, view)
    first_pass = view.receive(first_pass)
    rows_before = first_pass.moments.passes * view.n + first_pass.rows_sampled
    budget = Budget(view, rows_before, began, options.max_passes, options.max_seconds)
    projections = compute_u or plan.transpose or asked is None
    job = Job(plan.name, view, first_pass, options, rng, budget, projections)
    return _Fit(problem, options, plan, first_pass, view, W0, kept, d, asked, k, fraction, job)


def _run(fit: _Fit) -> tuple[_Fit, Outcome, int]:
    """Run the solver: the fit with the plan that was carried out, the outcome, and the number of components."""
    k = fit.k
    if fit.fraction:
        outcome, k = grow_to_fraction(fit.job, float(k), fit.W0)
    elif fit.plan.may_switch(fit.options):
        fit, outcome = _run_or_switch(fit)
    else:
        outcome = best_of_restarts(fit.job, int(k), fit.W0)
    outcome = _finished(fit, outcome)
    if fit.options.solver == "auto":
        first = replace(outcome.history[0], event=f"auto: {fit.plan.name}, {fit.plan.reason}")
        outcome = replace(outcome, history=[first, *outcome.history[1:]])
    if fit.asked is None and outcome.P is not None:
        k = numerical_rank(outcome.P)
        outcome = replace(outcome, certificate=certificate_of(outcome.state, k, fit.view))
    return fit, outcome, int(k)


def _finished(fit: _Fit, outcome: Outcome) -> Outcome:
    """The outcome with projections where they are wanted; Ctrl-C leaves them out, unless nothing can be said then."""
    try:
        return finished(fit.job, outcome)
    except KeyboardInterrupt:
        if fit.plan.transpose:  # they are the right singular vectors: without them there is no answer
            outcome = finished(fit.job, outcome)
        return replace(outcome, status=Status.INTERRUPTED)


def _run_or_switch(fit: _Fit) -> tuple[_Fit, Outcome]:
    """The outcome of `accelerated`, or of `gram` where `auto` changes its mind: where the model proves to be wrong."""
    k, plan, job, source = int(fit.k), fit.plan, fit.job, fit.problem.source
    transpose = SOLVERS["gram"].transposes(source)
    projections = job.projections or transpose
    last_call = fit.options.max_passes - 1 - projections
    outcome = best_of_restarts(job, k, fit.W0, lambda history: too_slow(plan.task, history, last_call))
    if not outcome.gave_up:
        return fit, outcome
    view = View.of(fit.problem, fit.first_pass.moments, transpose)
    rows_before = round(job.budget.rows_read / fit.view.n * view.n)
    budget = Budget(view, rows_before, job.budget.began, job.budget.max_passes, job.budget.max_seconds)
    first_pass = FirstPass(fit.first_pass.moments)
    job = Job("gram", view, first_pass, fit.options, job.rng, budget, projections)
    try:
        found = best_of_restarts(job, k)
    except KeyboardInterrupt:  # during its start: what was given up is still the best answer
        return fit, replace(outcome, status=Status.INTERRUPTED)
    reason = f"{plan.reason}; it converged too slowly and was given up after {len(outcome.history)} records"
    plan = replace(plan, name="gram", reason=reason, transpose=transpose)
    return replace(fit, plan=plan, view=view, job=job), replace(found, history=outcome.history + found.history)


def _assemble(fit: _Fit, outcome: Outcome, k: int, compute_u: bool) -> Decomposition:
    """The singular triplets and everything that is said about them, in the terms of X."""
    problem, moments, view = fit.problem, fit.first_pass.moments, fit.view
    P, theta = outcome.P, outcome.state.theta
    norms = np.sqrt(view.n * np.clip(theta, 0, None)) if P is None else column_norms(P)
    U, norms, Vt = triplets(outcome.state.vectors(), P, norms, k, fit.plan.transpose, compute_u)
    s = (norms * (view.frobenius / np.sqrt(view.n))).astype(view.dtype)
    return Decomposition(
        U,
        s * s.dtype.type(np.sqrt(problem.weight)),
        _put_back(Vt, fit.kept, fit.d, 0.0),
        mean=_put_back(moments.data_mean, fit.kept, fit.d, 0.0) if problem.center else None,
        scale=_put_back(column_scale(moments), fit.kept, fit.d, 1.0) if problem.scale else None,
        total_variance=problem.weight * view.frobenius**2,
        n_samples=problem.weight * problem.source.shape[0],
        rank_limit=min(problem.rows_that_count, fit.d),
        status=outcome.status,
        n_passes=fit.job.budget.passes,
        solver=fit.plan.name,
        reason=fit.plan.reason,
        certificate=outcome.certificate,
        history=outcome.history,
    )


def _without_empty_columns(source: Source, options: Options, k: int) -> tuple[Source, np.ndarray | None]:
    """The source without the columns that hold no entry, where that saves memory and leaves at least k (Appendix A)."""
    width = block_width(options, "accelerated" if options.solver == "auto" else options.solver, k)
    smaller, kept = source.without_empty_columns(VECTORS * width * source.dtype.itemsize)
    return (source, None) if kept is None or len(kept) < k else (smaller, kept)


def _put_back(part: np.ndarray, kept: np.ndarray | None, d: int, fill: float) -> np.ndarray:
    """A vector or rows of vectors with a number for the columns that were left out."""
    if kept is None:
        return part
    full = np.full((*part.shape[:-1], d), fill, part.dtype)
    full[..., kept] = part
    return full


def _checked_start(start: Any, source: Source) -> np.ndarray | None:
    """The guess of right singular vectors, as rows of the data's type, or an error."""
    if start is None:
        return None
    start, d = np.atleast_2d(np.asarray(start, dtype=source.dtype)), source.shape[1]
    if start.shape[1] != d or not np.isfinite(start).all():
        raise OptionError(f"start must hold finite rows of length {d}, got shape {start.shape}.")
    return start


def _oriented(start: np.ndarray | None, problem: Problem, first_pass: FirstPass, view: View) -> np.ndarray | None:
    """A guess of right singular vectors as columns for the view: as they are, or multiplied by Z on the other side."""
    if start is None or view.source is problem.source:
        return None if start is None else start.T
    upright = View.of(problem, first_pass.moments)
    P = np.zeros((upright.n, len(start)), view.dtype)
    upright.product(np.ascontiguousarray(start.T), P)
    view.rows_read += view.n
    return P


def _warn(outcome: Outcome, tol: float, k: int, asked: int | float | None) -> None:
    if outcome.status in (Status.CONVERGED, Status.INTERRUPTED):
        return
    found = objective(outcome.state, k)
    missed = isinstance(asked, float) and found < asked
    goal = f"they explain {found:.3g} of the variance, not {asked:.3g}" if missed else f"not tol={tol:.1e}"
    warnings.warn(
        f"{k} component(s) were found with a suboptimality of at most {outcome.certificate.suboptimality:.1e} "
        f"({outcome.certificate.kind}), {goal}. {outcome.status.value}",
        ConvergenceWarning,
        stacklevel=4,
    )
