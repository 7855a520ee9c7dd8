"""Curves: the suboptimality of a method over its effective passes, which are counted as the paper counts them."""

from __future__ import annotations

import itertools
import math
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data import view as data_view
from vrpca.data.first_pass import FirstPass, column_moments
from vrpca.data.open import as_source
from vrpca.data.view import View
from vrpca.experiments.shared.log import Log, Result, Say
from vrpca.experiments.shared.optimum import Optimum, row_blocks
from vrpca.options import Options
from vrpca.plan import make_solver
from vrpca.run import finite
from vrpca.solvers import SOLVERS, Solver
from vrpca.solvers.base import State
from vrpca.threads import blas_threads

TARGET = 1e-10  # the suboptimality at which methods are compared: the smallest target of `vrpca bench`
BOTTOM = 1e-13  # a curve ends below this suboptimality, where rounding begins to show
PATIENCE = 6  # points below the target without progress that end a curve: rounding keeps it from the bottom
POWERS = (0, 1, 2, 4, 7, 12, 20)  # power iterations of the randomized SVD, as in `vrpca bench`
TELL = 20.0  # seconds between two lines about a curve that takes long
SAME = ("data", "k", "seed", "threads", "method")  # two stored curves are the same if these entries agree

# The states of these solvers come with a snapshot, which is a pass. The paper counts only those passes that the method
# needs. Oja's algorithm needs no snapshot at all. The last snapshot of the others belongs to their next step.
NO_SNAPSHOT_COUNTS = ("oja",)
LAST_SNAPSHOT_DOES_NOT_COUNT = ("vr", "hybrid", "power")

Points = list[list[float]]  # per point: effective passes, suboptimality, seconds


@dataclass(frozen=True)
class Method:
    """A solver with its options, under a label."""

    label: str  # the name in figures and tables
    solver: str  # the name in the registry
    # fields of `vrpca.options.Options`, and `copies`: how often every row of the data counts (VR-PCA only)
    options: dict[str, Any] = field(default_factory=dict)
    step_by_gap: float | None = None  # Oja's constant c in units of 1 / (eigengap of A)
    shared_start: bool = True  # whether it begins at the start of all methods; if not, the solver makes its own
    roomy: bool = False  # whether its blocks have the width that the solver likes; if not, they have k columns


@dataclass(frozen=True)
class Problem:
    """A matrix, taken as it is, and the optimum for k of its components."""

    X: Any
    k: int
    optimum: Optimum

    @cached_property
    def advantage(self) -> float:
        """``sqrt(n) lambda_{k+1} / (2 tr A)``: the gain of VR-PCA per pass over that of power iterations, about.

        For a small gap g, an epoch of VR-PCA multiplies the error by ``exp(-2 sqrt(n) g / tr A)`` and takes two
        passes, a power iteration by ``exp(-2 g / lambda_{k+1})``.
        """
        return math.sqrt(self.X.shape[0]) * self.optimum.following / (2 * self.trace)

    @cached_property
    def trace(self) -> float:
        """Tr A: the mean squared norm of a row."""
        squares = (
            self.X.multiply(self.X).sum()
            if sp.issparse(self.X)
            else sum(float(np.vdot(b, b)) for b in row_blocks(self.X))
        )
        return float(squares) / self.X.shape[0]

    def read(self, threads: int) -> tuple[View, FirstPass]:
        """The matrix as solvers see it, and its first pass, which the view does not count."""
        source = as_source(self.X)
        moments = column_moments(source, None, threads)
        as_it_is = data_view.Problem(source, None, center=False, scale=False, n_threads=threads)
        return View.of(as_it_is, moments), FirstPass(moments)


@dataclass(frozen=True)
class Extent:
    """How far a curve goes, in effective passes; and the passes between two points, for Oja's algorithm."""

    passes: float
    stride: int = 1


@dataclass(frozen=True)
class Curve:
    """What a method reached: effective passes, suboptimality and seconds at each point; and `Problem.advantage`."""

    label: str
    solver: str
    passes: np.ndarray
    errors: np.ndarray
    seconds: np.ndarray
    advantage: float = math.nan
    copies: int = 1

    @classmethod
    def of(cls, result: Result) -> Curve:
        """The curve in a stored result."""
        points = np.array(result["points"], dtype=float)
        method = result["method"]
        columns = (points[:, 0], points[:, 1], points[:, 2])
        copies = method.get("options", {}).get("copies", 1)
        return cls(method["label"], method["solver"], *columns, result.get("advantage", math.nan), copies)

    def passes_to(self, target: float) -> float:
        """Passes until the first point below a target; infinite if there is none."""
        reached = np.flatnonzero(self.errors <= target)
        return float(self.passes[reached[0]]) if len(reached) else math.inf


def start_of(problem: Problem, seed: int) -> np.ndarray:
    """The random start that the methods share: a Gaussian vector, or k of them."""
    return np.random.default_rng([seed, problem.k]).standard_normal((problem.X.shape[1], problem.k))


def states(
    problem: Problem,
    view: View,
    first_pass: FirstPass,
    method: Method,
    seed: int,
    stride: int = 1,
    start: np.ndarray | None = None,
) -> Iterator[State]:
    """The states of a solver, for as long as it has steps to take; no step is halved or taken back."""
    solver = _solver(problem, view, method, stride)
    rng = np.random.default_rng([seed, zlib.crc32(method.label.encode())])
    start = start_of(problem, seed) if start is None and method.shared_start else start
    state = solver.start(view, first_pass, rng, None if start is None else start.astype(view.dtype))
    yield state
    while finite(state) and state.steps_left != 0:
        state = solver.step(view, state, rng)
        yield state


def _solver(problem: Problem, view: View, method: Method, stride: int) -> Solver:
    options = _options(problem, method, view.n, stride)
    source = view.source
    width = SOLVERS[method.solver].width_for(problem.k, options.cost, source.sparse) if method.roomy else problem.k
    return make_solver(method.solver, options, min(width, view.d), source.entries, view.d, source.sparse)


def _options(problem: Problem, method: Method, n: int, stride: int) -> Options:
    given = dict(method.options)
    copies = given.pop("copies", 1)
    if copies > 1:  # A stays the same; an epoch has `copies` times more steps, and shorter ones
        given |= {"step": 1 / (problem.trace * math.sqrt(copies * n)), "epoch_length": copies * n}
    if method.step_by_gap is not None:
        given["step"] = method.step_by_gap / problem.optimum.gap
    if method.solver in NO_SNAPSHOT_COUNTS:
        given["epoch_length"] = stride * n
    return Options(**{**given, "solver": method.solver})


def effective_passes(method: Method, view: View, snapshots: int) -> float:
    """Passes as the paper counts them: 2 for an epoch of VR-PCA, 1 for an iteration or n of Oja's steps."""
    uncounted = 0
    if method.solver in NO_SNAPSHOT_COUNTS:
        uncounted = snapshots
    elif method.solver in LAST_SNAPSHOT_DOES_NOT_COUNT:
        uncounted = 1
    copies = method.options.get("copies", 1)
    passes = view.rows_read / view.n - uncounted
    return passes * 2 / (1 + copies)  # an epoch reads n rows for its snapshot and copies * n rows for its steps


def follow(problem: Problem, method: Method, extent: Extent, seed: int, threads: int, tell: Say) -> Points:
    """The points of a curve, until its extent, the bottom, or the end of progress. Only the solver is timed."""
    points: Points = []
    view, first_pass = problem.read(threads)
    began, spent, told = time.perf_counter(), 0.0, time.perf_counter()
    for state in states(problem, view, first_pass, method, seed, extent.stride):
        spent += time.perf_counter() - began
        if not finite(state):
            break
        passes = effective_passes(method, view, len(points) + 1)
        points.append([passes, problem.optimum.suboptimality(state.vectors()), spent])
        if passes >= extent.passes or _finished(points):
            break
        if time.perf_counter() - told > TELL:
            told = time.perf_counter()
            tell(f"  {method.label}: {passes:.4g} of at most {extent.passes:.4g} passes, {points[-1][1]:.1e}")
        began = time.perf_counter()
    return points


def _finished(points: Points) -> bool:
    """Whether the bottom is reached, or rounding keeps the curve above it."""
    errors = [error for _, error, _ in points]
    if errors[-1] <= BOTTOM:
        return True
    recent, before = errors[-PATIENCE:], errors[:-PATIENCE]
    return bool(before) and max(recent) < TARGET and min(recent) >= min(before)


# ------------------------------------------------------------------------------------- methods of other packages


def arpack_points(problem: Problem, longest: float, seed: int) -> Points:
    """ARPACK (scipy's eigsh) on A, from the shared start, with several numbers of vectors and tolerances.

    A product with A is one pass. ARPACK makes at least as many products as it keeps vectors, by default 20 or more: so
    fewer vectors are tried as well.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    X, points = problem.X, []
    sizes = [size for size in (2 * problem.k + 2, 2 * problem.k + 8, 20 + problem.k) if size < X.shape[1]]
    for size, tol in itertools.product(sizes, (1e-1, 1e-2, 1e-4, 0.0)):
        products = 0

        def product(v: np.ndarray) -> np.ndarray:
            nonlocal products
            products += 1
            return X.T @ (X @ v.ravel())

        A = LinearOperator((X.shape[1], X.shape[1]), matvec=product, dtype=np.float64)
        began = time.perf_counter()
        W = eigsh(A, problem.k, v0=start_of(problem, seed)[:, 0], ncv=size, tol=tol)[1]
        points.append(_judged(problem, float(products), W, began))
    return _only_the_best(points)


def _only_the_best(points: Points) -> Points:
    """The points that no other point beats in both passes and suboptimality, in the order of passes."""
    best: Points = []
    for point in sorted(points):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best


def randomized_points(problem: Problem, longest: float, seed: int) -> Points:
    """Randomized SVD (scikit-learn) with more and more power iterations; products with X and X^T are one pass."""
    from sklearn.utils.extmath import randomized_svd

    points: Points = []
    for q in POWERS:
        began = time.perf_counter()
        Vt = randomized_svd(problem.X, problem.k, n_iter=q, power_iteration_normalizer="QR", random_state=seed)[2]
        points.append(_judged(problem, q + 1.0, Vt.T, began))
        if points[-1][1] <= BOTTOM or q + 1 >= longest:
            break
    return points


def _judged(problem: Problem, passes: float, W: np.ndarray, began: float) -> list[float]:
    seconds = time.perf_counter() - began
    return [passes, problem.optimum.suboptimality(W), seconds]


LADDERS: dict[str, Callable[[Problem, float, int], Points]] = {
    "arpack": arpack_points,
    "randomized": randomized_points,
}


# --------------------------------------------------------------------------------------------------------- stages


class Stage:
    """A data set that is prepared when a curve first asks for it, and what its curves have in common.

    Parameters
    ----------
    title : str
        The data set in words.
    data : dict
        What identifies it.
    k : int
        Number of components.
    prepare : callable
        Makes the `Problem`.
    copies : int
        How many times as many rows the paper's data have.
    """

    def __init__(self, title: str, data: dict[str, Any], k: int, prepare: Callable[[], Problem], copies: int = 1):
        self.title, self.data, self.k, self.copies = title, data, k, copies
        self._prepare = prepare
        self._problem: Problem | None = None

    @property
    def problem(self) -> Problem:
        """The problem, prepared once."""
        if self._problem is None:
            self._problem = self._prepare()
        return self._problem

    def forget(self) -> None:
        """Free the data."""
        self._problem = None


@dataclass(frozen=True)
class Recorder:
    """Makes curves under fixed conditions, or takes them from the log."""

    log: Log
    seed: int
    threads: int
    say: Say

    def curve(self, stage: Stage, method: Method, extent: Extent) -> Curve:
        """The curve of one method: from the log if that curve went as far or ended by itself, else made now."""
        asked = {
            "data": stage.data,
            "k": stage.k,
            "seed": self.seed,
            "threads": self.threads,
            "method": asdict(method),
        }
        known = self.log.find(asked)
        if known is not None and (known["ended"] or known["extent"] >= extent.passes):
            return Curve.of(known)
        with blas_threads(self.threads):
            if method.solver in LADDERS:
                points = LADDERS[method.solver](stage.problem, extent.passes, self.seed)
            else:
                points = follow(stage.problem, method, extent, self.seed, self.threads, self.say)
        ended = not points[-1][0] >= extent.passes
        result = asked | {"status": "ok", "extent": extent.passes, "ended": ended, "points": points}
        if method.solver == "vr":
            result["advantage"] = stage.problem.advantage
        self.log.add(result)
        curve = Curve.of(result)
        self.say(
            f"{stage.title}, {method.label}: {curve.passes[-1]:.4g} passes, suboptimality {curve.errors[-1]:.1e}, "
            f"{curve.seconds[-1]:.3g} s"
        )
        return curve
