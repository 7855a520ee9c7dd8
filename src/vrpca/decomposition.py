"""`svd` and `pca`: from X to a `Decomposition`, for people who do not want an estimator."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vrpca.certificate import Certificate
from vrpca.data.compact import compacted, put_back
from vrpca.data.gram import GramSum
from vrpca.data.moments import Moments, Witness, column_moments
from vrpca.data.product import ProductWitness
from vrpca.data.source import Source, as_source, stored_entries
from vrpca.data.stream import Stream, StreamWitness
from vrpca.data.view import View, column_scale, draw, make_view
from vrpca.errors import DataError, OptionError
from vrpca.linalg import cross, orthonormalise
from vrpca.plan import Plan, Switch, make_plan, transposed
from vrpca.run import Outcome, Record, Status
from vrpca.settings import SolveOptions, as_generator, check_k, check_weights, checked_options, solver_options
from vrpca.solve import Solve
from vrpca.solvers import SOLVERS
from vrpca.threads import blas_threads, n_threads


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
    options = checked_options(given)
    source = as_source(X)
    if options["cost"] == "auto":
        options["cost"] = "passes" if getattr(source, "slow_to_read", False) else "time"
    asked, fraction = k, check_k(k, source.shape)
    k = min(source.shape) if k is None else k
    problem = _Problem(source, check_weights(sample_weight, source.shape[0]), center, scale)
    look = _first_look(problem, options, k, fraction, _checked_start(start, source))
    projections = compute_u or look.plan.transpose or asked is None
    solve = Solve(look.view, look.plan.name, options, look.rng, look.rows_read, projections)
    if fraction:
        outcome, k = solve.fraction(float(k), look.W0)
        outcome = solve.finished(outcome)
    elif Switch.possible(options, look.plan):
        outcome, look = _solve_or_switch(solve, int(k), problem, look)
    else:
        outcome = solve.finished(solve(int(k), look.W0))
    _warn(outcome, options["tol"], k, asked)
    if options["solver"] == "auto":
        first = replace(outcome.history[0], event=f"auto: {look.plan.name}, {look.plan.reason}")
        outcome = replace(outcome, history=[first, *outcome.history[1:]])
    if asked is None and outcome.iterate.P is not None:
        k = _numerical_rank(outcome.iterate.P)
        outcome = replace(outcome, certificate=outcome.iterate.certificate(k, look.view.rounding))
    return _decomposition(problem, look, outcome, int(k), compute_u)


@dataclass(frozen=True)
class _Problem:
    """What is to be decomposed."""

    source: Source
    weights: np.ndarray | None
    center: bool
    scale: bool

    @property
    def rows(self) -> int:
        """Rows that count."""
        return self.source.shape[0] if self.weights is None else int(np.count_nonzero(self.weights))

    @property
    def weight(self) -> float:
        """Mean weight of a row."""
        return 1.0 if self.weights is None else float(self.weights.mean())

    def view(self, source: Source, moments: Moments, transpose: bool, threads: int) -> View:
        """The view of the source, or of what is left of it without empty columns."""
        return make_view(
            source,
            moments,
            center=self.center,
            scale=self.scale,
            weights=self.weights,
            transpose=transpose,
            n_threads=threads,
        )


@dataclass(frozen=True)
class _FirstLook:
    """What the first reading leaves: moments, the plan, the view, a start, and which columns are not empty.

    `source` has only those columns, and `its_moments` are theirs.
    """

    moments: Moments
    source: Source
    its_moments: Moments
    plan: Plan
    view: View
    W0: np.ndarray | None
    kept: np.ndarray | None
    rows_read: int
    rng: np.random.Generator


def _first_look(
    problem: _Problem, options: SolveOptions, k: int | float, fraction: bool, start: np.ndarray | None
) -> _FirstLook:
    """Read the moments, with whatever the solver can make use of on the way; leave out empty columns."""
    source, threads = problem.source, n_threads(options["n_threads"])
    rng = as_generator(options["random_state"])
    first = make_plan(options, source, k, fraction)
    witness = _witness(first, options, problem, start is not None or fraction, rng)
    about_zero = not (problem.center or problem.scale)
    moments = column_moments(source, problem.weights, threads, witness, about_zero=about_zero)
    _check_variation(moments, problem)

    smaller, its_moments, kept = compacted(source, moments, first.k, first.columns)
    plan = make_plan(options, smaller, k, fraction)
    view = problem.view(smaller, its_moments, plan.transpose, threads)
    upright = problem.view(smaller, its_moments, False, threads) if plan.transpose and start is not None else view
    W0 = _oriented(start if start is None or kept is None else start[:, kept], view, upright)
    rows_read = moments.readings * view.n
    if witness is not None:
        rows_read += witness.rows_read
        if (plan.name, plan.transpose) == (first.name, first.transpose):
            found = witness.tell(view, moments, kept)
            W0 = W0 if found is None else found
    return _FirstLook(moments, smaller, its_moments, plan, view, W0, kept, rows_read, rng)


def _decomposition(problem: _Problem, look: _FirstLook, outcome: Outcome, k: int, compute_u: bool) -> Decomposition:
    n, d = problem.source.shape
    U, s, Vt = _triplets(outcome, look.view, look.plan.transpose, k, compute_u)
    return Decomposition(
        U,
        s * s.dtype.type(np.sqrt(problem.weight)),
        put_back(Vt, look.kept, d),
        mean=look.moments.center if problem.center else None,
        scale=column_scale(look.moments) if problem.scale else None,
        total_variance=problem.weight * look.view.frobenius**2,
        n_samples=problem.weight * n,
        rank_limit=min(problem.rows, d),
        status=outcome.status,
        n_passes=outcome.rows_read / look.view.n,
        solver=look.plan.name,
        reason=look.plan.reason,
        certificate=outcome.certificate,
        history=outcome.history,
    )


def _solve_or_switch(solve: Solve, k: int, problem: _Problem, look: _FirstLook) -> tuple[Outcome, _FirstLook]:
    """The outcome, and the look with the plan it came from: `auto` changes to `gram` when its model is contradicted."""
    plan, options = look.plan, solve.options
    transpose = transposed(SOLVERS["gram"], look.source)
    projections = solve.projections or transpose
    solve.hopeless = switch = Switch(plan.task, options["max_passes"] - 1 - projections)
    outcome = solve(k, look.W0)
    if not (switch.wanted and outcome.status is Status.STOPPED):
        return solve.finished(outcome), look
    view = problem.view(look.source, look.its_moments, transpose, look.view.n_threads)
    rows_before = round(outcome.rows_read / look.view.n * view.n)
    exact = Solve(view, "gram", options, solve.rng, rows_before, projections)
    found = exact.finished(exact(k))
    reason = f"{plan.reason}; it converged too slowly and was given up after {len(outcome.history)} looks"
    plan = replace(plan, name="gram", reason=reason, transpose=transpose)
    return replace(found, history=outcome.history + found.history), replace(look, plan=plan, view=view)


def _witness(
    plan: Plan, options: SolveOptions, problem: _Problem, started: bool, rng: np.random.Generator
) -> Witness | None:
    """What watches the first look at the data, so that a solver need not read them again."""
    d = problem.source.shape[1]
    if plan.transpose:
        return None
    if plan.solver.forms_gram:
        return GramSum(d, problem.center, n_threads(options["n_threads"]))
    if started or problem.scale:
        return None
    solver = solver_options(options, plan.columns)
    streamed = plan.solver.streamed_columns(solver)
    if streamed:
        return StreamWitness(Stream(min(streamed, d)), problem.center, rng)
    rows = plan.solver.sampled_rows(solver, problem.source.shape[0], d, stored_entries(problem.source))
    return _product_witness(plan, problem, rows, n_threads(options["n_threads"]), rng) if rows else None


def _product_witness(
    plan: Plan, problem: _Problem, rows: int, threads: int, rng: np.random.Generator
) -> ProductWitness | None:
    """A block from a sample of the rows, to be multiplied by A while the moments are read; None if it says nothing."""
    index, X, fetched = draw(problem.source, rows, rng)
    weights = None if problem.weights is None else problem.weights[index]
    sample = as_source(X)
    try:
        moments = column_moments(sample, weights, threads, about_zero=not problem.center)
    except DataError:  # the reading of all rows will say where it is
        return None
    square = moments.variance if problem.center else moments.second
    if not (moments.total > 0 and square.sum() > 0):
        return None
    view = make_view(
        sample, moments, center=problem.center, scale=False, weights=weights, transpose=False, n_threads=threads
    )
    W = plan.solver.block_of_sample(view, plan.columns, rng)
    return ProductWitness(W, moments.center if problem.center else None, threads, fetched)


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


def _check_variation(moments: Moments, problem: _Problem) -> None:
    """Raise where nothing varies: one row, constant rows, or zeros only."""
    center = problem.center
    if center and problem.rows < 2:
        raise DataError(f"PCA of n_samples = {problem.rows} sample is not defined: centring one row leaves nothing.")
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
