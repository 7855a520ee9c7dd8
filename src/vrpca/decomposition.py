"""`svd` and `pca`: from X to a `Decomposition`, for people who do not want an estimator.

A fit has three parts: prepare (options, plan, first pass, view), run, and assemble.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Unpack, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vrpca import small
from vrpca.certificate import Certificate
from vrpca.checkpoint import Checkpoint, data_identity
from vrpca.data.first_pass import FirstPass
from vrpca.data.open import as_source
from vrpca.data.source import Source, errors_named, naming_columns
from vrpca.data.view import Problem, View, column_scale
from vrpca.errors import DataError, Interrupted, OptionError, warn
from vrpca.history import Record, Status, counted
from vrpca.linalg import column_norms, triplets
from vrpca.markup import Html, table, tag
from vrpca.memory import Demand
from vrpca.minka import most_likely_dimension
from vrpca.options import (
    MLE,
    Options,
    SolveOptions,
    as_generator,
    check_k,
    check_options,
    check_start,
    check_weights,
    is_integer,
    names,
    shown,
)
from vrpca.outcome import Outcome
from vrpca.plan import ASKED_FOR, Plan, block_width, for_source, make_plan, small_side
from vrpca.run import Budget, Job, objective, projections_of, record_of, run
from vrpca.scores import score_variance
from vrpca.solvers.base import Answer
from vrpca.threads import blas_threads, n_threads
from vrpca.typing import Rng

# Options that may change when a fit is resumed: they say when to stop and what to show, not what to compute.
MAY_CHANGE = ("max_passes", "max_seconds", "callback", "verbose", "checkpoint")
# Options that only a run knows about, unless they have their defaults.
LEFT_TO_THE_RUN = (
    *("angle_tol", "max_seconds", "step", "deflate", "restarts"),
    *("memory_limit", "checkpoint", "callback", "verbose"),
)
HEADER = ("component", "singular value", "explained", "cumulative")  # of the table that `str` shows
SHOWN = 10  # lines of that table, at most: with the rest it stays within a terminal of 24 lines
VECTORS = 5  # arrays of d times the width that an epoch of `vr` holds at its peak


@dataclass(frozen=True)
class Decomposition:
    """A truncated singular value decomposition ``Z ~ U diag(s) Vt`` of the (centred, scaled, weighted) data.

    Attributes
    ----------
    U : numpy.ndarray or None
        Left singular vectors, n x k, orthonormal columns; None if they were not asked for, or if the pass that finds
        them was interrupted.
    s : numpy.ndarray
        Singular values, largest first.
    Vt : numpy.ndarray
        Right singular vectors (the principal axes), k x d, orthonormal rows.
    mean : numpy.ndarray or None
        The column means that were subtracted.
    scale : numpy.ndarray or None
        The column deviations that were divided by.
    norm : float
        ``|Z|_F``: the root of the sum of all squared singular values.
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
    score_mean : numpy.ndarray or None
        Means of the scores ``X @ Vt.T`` of data that are not centred; None where nobody asked for them.
    score_variance : numpy.ndarray or None
        Variances of those scores about their means.
    column_variance : float or None
        Sum of the variances of the columns of those data.

    Examples
    --------
    The singular triplets alone:

    >>> import numpy as np, vrpca
    >>> X = np.random.default_rng(0).standard_normal((100, 30))
    >>> U, s, Vt = vrpca.svd(X, 3)
    >>> U.shape, s.shape, Vt.shape
    ((100, 3), (3,), (3, 30))
    """

    U: np.ndarray | None = field(repr=False)
    s: np.ndarray
    Vt: np.ndarray = field(repr=False)
    mean: np.ndarray | None = field(repr=False)
    scale: np.ndarray | None = field(repr=False)
    norm: float
    n_samples: float
    rank_limit: int
    status: Status
    n_passes: float
    solver: str
    reason: str
    certificate: Certificate
    history: list[Record] = field(repr=False)
    score_mean: np.ndarray | None = field(default=None, repr=False)
    score_variance: np.ndarray | None = field(default=None, repr=False)
    column_variance: float | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[np.ndarray]:
        """U, s and Vt, so that ``U, s, Vt = vrpca.svd(X, k)``; U is None with ``compute_u=False``."""
        return iter((cast(np.ndarray, self.U), self.s, self.Vt))

    @property
    def converged(self) -> bool:
        """Whether the certificate is below `tol`, and its angles are below `angle_tol`, where that is given."""
        return self.status is Status.CONVERGED

    @property
    def explained_variance_ratio(self) -> np.ndarray:
        """The part of the total that each component explains."""
        return np.minimum((self.s / self.norm) ** 2, 1.0)

    @property
    def total_variance(self) -> float:
        """``|Z|_F^2``: the sum of all squared singular values; infinite or zero where no float can hold it."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.square(self.norm))

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(HEADER, *self._rows(), strict=True)]
        lines = (
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in [HEADER, *self._rows()]
        )
        return "\n".join([f"Decomposition: {self._summary()}", *lines, self._outcome(), str(self.certificate)])

    def _repr_html_(self) -> str:
        """The decomposition for notebooks."""
        title = tag("p", tag("strong", "Decomposition: "), self._summary())
        return tag(
            "div", title, table(HEADER, self._rows()), tag("p", self._outcome()), Html(self.certificate._repr_html_())
        )

    def _summary(self) -> str:
        k, d = self.Vt.shape
        part = min(1.0, float(self.explained_variance_ratio.sum()))
        return f"{k} component{'s' * (k > 1)} of {self.n_samples:g} x {d} data, {part:.1%} of the total"

    def _outcome(self) -> str:
        return (
            f"{self.solver} ({self.reason}): {'converged' if self.converged else 'NOT CONVERGED'} after "
            f"{counted(self.n_passes)}. {self.status.value}"
        )

    def _rows(self) -> list[list[str]]:
        """The first components as lines of a table."""
        ratios = self.explained_variance_ratio.astype(np.float64)
        rows = [
            [str(j), f"{value:.6g}", f"{ratio:.2%}", f"{min(total, 1.0):.2%}"]
            for j, (value, ratio, total) in enumerate(zip(self.s, ratios, np.cumsum(ratios), strict=True), 1)
        ]
        return rows if len(rows) <= SHOWN else [*rows[: SHOWN - 1], ["...", "", "", ""]]


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
    X : array-like, sparse matrix, data frame, path, list of paths or Source of shape (n, d)
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
        raise OptionError(f"k={shown(k)} must be an integer.")
    return decompose(Request(X, int(k), center, scale, sample_weight, start, compute_u), options)


def pca(
    X: Any,
    k: int | float | Literal["mle"] | None = None,
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
    k : int, float, "mle" or None
        Number of components; a fraction in (0, 1) for as many as explain that part of the variance; ``"mle"`` for the
        number that Minka's formula finds, for at least as many rows as columns; None for all, min(n, d).

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
    return decompose(Request(X, k, center, scale, sample_weight, start, compute_u), options)


@dataclass(frozen=True)
class Request:
    """What is asked for, apart from the options of the solver."""

    X: Any
    k: int | float | str | None
    center: bool
    scale: bool
    sample_weight: Any = None
    start: np.ndarray | None = None
    compute_u: bool = True
    variances: bool = False  # whether those of the scores are wanted where nothing is centred
    k_name: str = "k"  # what the caller's option is called

    @property
    def all_of_them(self) -> bool:
        """Whether all components are to be found, at first: the small ones are to be accurate, too."""
        return self.k is None or self.k == MLE


def decompose(request: Request, given: SolveOptions) -> Decomposition:
    """The decomposition of a small array at once, of other data by a run."""
    began, options = time.perf_counter(), Options.given(given)
    check_options(center=request.center, scale=request.scale, compute_u=request.compute_u)
    source = as_source(request.X, options.memory_limit is not None)
    is_fraction = check_k(request.k, source.shape, request.k_name)
    found = _at_once(request, options, source, began)
    return _usual(request, options, source, is_fraction, began) if found is None else found


def _at_once(request: Request, options: Options, source: Source, began: float) -> Decomposition | None:
    """The decomposition of a small array; None where the usual way has to be taken."""
    if not (small.suits(source) and is_integer(request.k) and _plain(request, options)):
        return None
    k, left = int(request.k), bool(request.compute_u)
    problem = Problem(source, None, request.center, False, n_threads(options.n_threads))
    (n, d), auto = source.shape, options.solver == "auto"
    solved = small.solve(problem, k, min(block_width(options, "gram", k, False), d), options.tol)
    if solved is None:
        return None
    moments, view, answer, certificate = solved
    seconds, reason = time.perf_counter() - began, small_side(d) if auto else ASKED_FOR
    record = record_of(answer, k, certificate, f"auto: gram, {reason}" if auto else "", 0, (1.0, n, seconds))
    P = projections_of(view, answer) if left else None
    U, s, Vt = _triplets(view, answer, P, k, False, left)
    return Decomposition(
        U,
        s,
        Vt,
        mean=moments.mean if request.center else None,
        scale=None,
        norm=float(view.frobenius),
        n_samples=float(n),
        rank_limit=d,
        status=Status.CONVERGED,
        n_passes=1.0 + left,
        solver="gram",
        reason=reason,
        certificate=certificate,
        history=[record],
    )


def _plain(request: Request, options: Options) -> bool:
    """Whether nothing is asked for but an answer to a tolerance."""
    if request.scale or request.variances or request.sample_weight is not None or request.start is not None:
        return False
    asked = vars(options)
    seed = options.random_state  # a RandomState would be drawn from
    return (
        (seed is None or isinstance(seed, int | np.random.Generator))
        and options.solver in ("auto", "gram")
        and options.max_passes >= 2
        and all(asked[name] is getattr(Options, name) for name in LEFT_TO_THE_RUN)
    )


def _usual(request: Request, options: Options, source: Source, is_fraction: bool, began: float) -> Decomposition:
    """Prepare, run, and assemble."""
    with blas_threads(1):
        job, W0, columns = _prepare(request, options, source, is_fraction, began)
        job, outcome = run(job, W0)
        if request.k == MLE:
            job, outcome = _most_likely(job, outcome)
        job.checkpoint.close(job.view, outcome.status)
        _warn(job, outcome)
        decomposition = _assemble(request, job, outcome, columns)
        if request.variances:
            decomposition = _with_variances(decomposition, job, columns)
        if outcome.status is Status.INTERRUPTED:
            raise Interrupted(decomposition)
        return decomposition


def _most_likely(job: Job, outcome: Outcome) -> tuple[Job, Outcome]:
    """As many of all components as Minka's formula finds, with their own certificate.

    All components together are found whatever rounding does, some of them are not: these may have to be found again.
    """
    theta = outcome.state.theta if outcome.P is None else column_norms(outcome.P) ** 2
    n_samples = job.problem.weight * job.problem.source.shape[0]
    job = replace(job, k=most_likely_dimension(np.sort(theta)[::-1], n_samples, job.view.rounding))
    outcome = replace(outcome, certificate=job.certificate(outcome.state))
    if outcome.status is not Status.CONVERGED or job.good_enough(outcome.certificate):
        return job, outcome
    return run(job.with_components(job.k), None)


def _prepare(
    request: Request, options: Options, source: Source, is_fraction: bool, began: float
) -> tuple[Job, np.ndarray | None, _Columns]:
    """Check the rest, make the plan and the first pass, and set up the view and the start."""
    options = for_source(options, source)
    asked = min(source.shape) if request.all_of_them else cast(float, request.k)
    fraction = float(asked) if is_fraction else None
    k = int(asked) if fraction is None else 1
    start = check_start(request.start, source.shape[1], source.dtype)
    weights = check_weights(request.sample_weight, source.shape[0])
    source, columns = _without_empty_columns(source, options, k)
    plan = make_plan(options, source, asked, fraction is not None, demand(request, options))
    source = source if options.memory_limit is None else source.within(plan.block_bytes)
    threads = n_threads(options.n_threads)
    problem = Problem(source, weights, request.center, request.scale, threads, request.variances)
    rng = as_generator(options.random_state)
    checkpoint = _checkpoint(request, options, problem, rng, began)
    start = start if start is None or columns.kept is None else start[:, columns.kept]
    with naming_columns(columns.names, columns.kept):
        first_pass = checkpoint.first_pass or _first_pass(problem, plan, rng, start, fraction is None)
    view = View.of(problem, first_pass.moments, plan.transpose)
    _check_range(view, problem.weight)
    W0 = checkpoint.W0 if checkpoint.resumed else _oriented(start, problem, first_pass, view)
    first_pass = view.receive(first_pass)
    checkpoint.begin(first_pass, W0, view)
    passes_before = source.passes_to_open + first_pass.moments.passes + (W0 is not None and plan.transpose)
    rows_before = passes_before * view.n + first_pass.rows_sampled
    budget = Budget(view, rows_before, checkpoint.fit_began, options.max_passes, options.max_seconds)
    projections = request.compute_u or plan.transpose or request.all_of_them
    job = Job(problem, options, plan, view, first_pass, rng, budget, checkpoint, projections, plan.solver, k, fraction)
    return job, W0, columns


def _checkpoint(request: Request, options: Options, problem: Problem, rng: Rng, began: float) -> Checkpoint:
    """The checkpoint that is asked for. It belongs to these data, and to all options that the result depends on."""
    if options.checkpoint is None:
        return Checkpoint(None, {}, rng, began)
    identity = data_identity(problem) | {"n_components": request.k, "compute_u": request.compute_u}
    identity |= {"center": problem.center, "scale": problem.scale, "means": problem.means}
    identity |= {name: getattr(options, name) for name in names() if name not in MAY_CHANGE}
    identity |= {"theory": None if options.theory is None else asdict(options.theory), "n_threads": problem.n_threads}
    if not is_integer(options.random_state):  # what it gave is in the checkpoint
        identity["random_state"] = f"{type(options.random_state).__name__} ({type(rng.bit_generator).__name__})"
    return Checkpoint(options.checkpoint, identity, rng, began)


def _first_pass(problem: Problem, plan: Plan, rng: Rng, start: np.ndarray | None, width_known: bool) -> FirstPass:
    """The first pass over the data, which sums up what the solver wants for its start."""
    wanted = None
    with errors_named(problem.source):
        if not plan.transpose and (width_known or plan.name == "gram"):
            wanted = plan.solver.wants(problem, rng, None if start is None else start.T)
        first_pass = problem.first_pass(wanted)
        problem.check_variation(first_pass.moments)
    return first_pass


def demand(request: Request, options: Options) -> Demand:
    """What decides how much memory a fit takes, besides the data and the solver."""
    return Demand(
        weighted=request.sample_weight is not None,
        center=request.center,
        norms=options.needs_norms,
        left=request.compute_u or request.all_of_them,
        proof=options.certificate == "probabilistic",
        guessed=request.start is not None,
        checkpoint=options.checkpoint is not None,
        n_threads=n_threads(options.n_threads),
    )


def _assemble(request: Request, job: Job, outcome: Outcome, columns: _Columns) -> Decomposition:
    """The singular triplets and everything that is said about them, in the terms of X."""
    problem, moments, view = job.problem, job.first_pass.moments, job.view
    U, s, Vt = _triplets(view, outcome.state, outcome.P, job.k, job.plan.transpose, request.compute_u)
    return Decomposition(
        U,
        s * s.dtype.type(np.sqrt(problem.weight)),
        columns.put_back(Vt, 0.0),
        mean=columns.put_back(moments.data_mean, 0.0) if problem.center else None,
        scale=columns.put_back(column_scale(moments), 1.0) if problem.scale else None,
        norm=float(np.sqrt(problem.weight) * view.frobenius),
        n_samples=problem.weight * problem.source.shape[0],
        rank_limit=min(problem.rows_that_count, columns.d),
        status=outcome.status,
        n_passes=job.budget.passes,
        solver=job.plan.name,
        reason=job.plan.reason,
        certificate=outcome.certificate,
        history=outcome.history,
    )


def _triplets(
    view: View, state: Answer, P: np.ndarray | None, k: int, transpose: bool, compute_u: bool
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """U, s and Vt in the units of the data, of rows that count once."""
    norms = np.sqrt(view.n * np.maximum(state.theta, 0.0)) if P is None else column_norms(P)
    U, norms, Vt = triplets(state.vectors(), P, norms, k, transpose, compute_u)
    return U, (norms * (view.frobenius / np.sqrt(view.n))).astype(view.dtype), Vt


def _with_variances(found: Decomposition, job: Job, columns: _Columns) -> Decomposition:
    """The decomposition with the variances of the scores about their means.

    They are the mean squares less the squared means. Where so little is left that rounding shows, one more pass finds
    them about the means.
    """
    problem, moments = job.problem, job.first_pass.moments
    mean = columns.put_back(moments.data_mean, 0.0)
    score_mean, square = found.Vt @ mean, (found.s.astype(np.float64) / np.sqrt(found.n_samples)) ** 2
    variance, passes = np.maximum(square - score_mean**2, 0.0), found.n_passes
    visible = np.finfo(found.s.dtype).eps ** 0.25  # three quarters of the digits are left above this part
    if (variance < visible * square).any() and found.status is not Status.INTERRUPTED:
        kept = found.Vt if columns.kept is None else found.Vt[:, columns.kept]
        variance = score_variance(problem.source, kept, moments.data_mean, problem.weights)
        passes += 1
    total = float(moments.variance.sum()) / moments.factor / moments.factor
    return replace(found, score_mean=score_mean, score_variance=variance, column_variance=total, n_passes=passes)


def _check_range(view: View, weight: float) -> None:
    """Raise where singular values would overflow, or vanish, in the type of the data."""
    norm, limits = float(np.sqrt(weight) * view.frobenius), np.finfo(view.dtype)
    if not float(limits.tiny) < norm < float(limits.max):
        raise DataError(
            f"The singular values of X, up to {norm:.1e}, are out of the range of {view.dtype}: "
            f"{'pass X as float64' if view.dtype == np.float32 else 'divide X by its largest entry'}, or rescale it."
        )


@dataclass(frozen=True)
class _Columns:
    """Which of the d columns of X are decomposed."""

    d: int
    kept: np.ndarray | None  # their numbers, where empty columns are left out
    names: Sequence[str] | None  # of all columns

    def put_back(self, part: np.ndarray, fill: float) -> np.ndarray:
        """A vector, or rows of vectors, with a number for the columns that are left out."""
        if self.kept is None:
            return part
        full = np.full((*part.shape[:-1], self.d), fill, part.dtype)
        full[..., self.kept] = part
        return full


def _without_empty_columns(source: Source, options: Options, k: int) -> tuple[Source, _Columns]:
    """The source without the columns that hold no entry, where that saves memory and leaves at least k (Appendix A)."""
    width = block_width(options, "accelerated" if options.solver == "auto" else options.solver, k, source.sparse)
    smaller, kept = source.without_empty_columns(VECTORS * width * source.dtype.itemsize)
    enough = kept is not None and len(kept) >= k
    columns = _Columns(source.shape[1], kept if enough else None, source.column_names)
    return (smaller if enough else source), columns


def _oriented(start: np.ndarray | None, problem: Problem, first_pass: FirstPass, view: View) -> np.ndarray | None:
    """A guess of right singular vectors as columns for the view: as they are, or multiplied by Z on the other side.

    They are zero where the data are: a search space that has more there would seem to span all of the data too soon.
    """
    if start is None:
        return None
    if view.source is problem.source:
        return start.T if view.support is None else np.where(view.support[:, None], start.T, 0)
    return View.of(problem, first_pass.moments).projections(np.ascontiguousarray(start.T))


EXPLAINED_BY_ANGLES = (Status.STALLED, Status.EPOCHS, Status.PASSES)  # their advice is about tol


def _angles_missed(angles: np.ndarray, angle_tol: float) -> tuple[str, str]:
    """Which components miss the tolerance for their angles, which of them cannot have one, and what to do."""
    without = np.flatnonzero(angles >= 1) + 1
    if len(without):
        names = ", ".join(map(str, without))
        goal = f"but nothing bounds the angles of component(s) {names}: their variances are too close to others'"
        return goal, "Ask for more or fewer components, so that close variances are taken or left out together."
    goal = f"with angles up to {angles.max():.1e} (sine), not angle_tol={angle_tol:.1e}"
    return goal, "Loosen angle_tol, allow more passes, or pass float64 data."


def _warn(job: Job, outcome: Outcome) -> None:
    if outcome.status in (Status.CONVERGED, Status.INTERRUPTED):
        return
    found, fraction, tol = objective(outcome.state, job.k), job.fraction, job.options.tol
    missed = fraction is not None and found < fraction
    goal = f"they explain {found:.3g} of the variance, not {fraction:.3g}" if missed else f"not tol={tol:.1e}"
    advice = outcome.status.value
    angles, angle_tol = outcome.certificate.angles, job.options.angle_tol
    if outcome.certificate.suboptimality <= tol and angle_tol is not None and angles.max() > angle_tol:
        goal, more = _angles_missed(angles, angle_tol)
        advice = more if outcome.status in EXPLAINED_BY_ANGLES else f"{more} {advice}"
    warn(
        f"{job.k} component(s) were found with a suboptimality of at most {outcome.certificate.suboptimality:.1e} "
        f"({outcome.certificate.kind}), {goal}. {advice}",
        ConvergenceWarning,
    )
