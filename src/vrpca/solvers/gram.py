"""The eigenvectors of A itself, where A (d x d) fits: by one pass, where rounding allows it.

Where rounding of A in single precision could hide more than the tolerance, a second pass measures what it hides, by a
few products in double precision. If that is too much, a third pass sums up A in double precision.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg import lapack
from scipy.special import gammaincinv

from vrpca.certificate import SUMMED, product_error
from vrpca.data.first_pass import FirstPass
from vrpca.data.gram import CHUNK_ROWS, NARROW, GramSum, Matrix, is_small, rows_at_a_time
from vrpca.data.source import Source
from vrpca.data.view import Problem, View
from vrpca.linalg import SMALL_ORDER, eigenpairs, ritz
from vrpca.memory import DOUBLE, Size
from vrpca.solvers.base import Answer, Measured, Passes, Rng, Solver, whole_registers
from vrpca.solvers.outside import known_outside
from vrpca.threads import blas_threads
from vrpca.values import changed

LAPACK_SQUARES = 3  # matrices of A's size that LAPACK's divide and conquer needs: a copy of A, and room for two more
SPARSE_SQUARES = 3  # the square of sparse rows, as a sparse matrix with its column numbers and as a dense one
FINDING = 0.2  # of A's size: what says which of its entries are finite
# Tolerances below these are met in double precision at once. On MNIST (k = 50), measuring rounding proves 4e-11. In
# front of a gap of 5%, single precision proves an angle of 6e-5.
SINGLE, SINGLE_ANGLE = 1e-10, 1e-4
# The same where rounding is not measured. It is not worth measuring where A has few columns per product: with 11
# products, 80000 x 100 takes 1.3 times as long as in double precision, and 80000 x 160 takes 0.9 of it.
UNMEASURED, COLUMNS_PER_PRODUCT = 1e-9, 15
# Passes that allow for measuring twice: with A in single and in double precision, and a pass for left vectors.
LEAST_PASSES = 5
# Products in double precision that measure rounding; fewer of them take less time. If they are of random combinations,
# squares may be 20 times as large as they look, for a failure probability of 1e-6; with 6 products, 170 times. On MNIST
# (k = 50), 12 of them prove 4e-11, and 6 prove 4e-10.
PRODUCTS, FEW_PRODUCTS = 12, 6
# More products, if those were not enough: squares are 4 times as large as they look at most. They take a tenth of the
# time that A takes in double precision, for 2000 columns. This part of the failure probability is left for them.
MORE_PRODUCTS, LEFT_FOR_MORE = 48, 0.1
LOOSE = 1e-8  # few products are enough for tolerances from here on ...
MOST_LOST = 200  # ... if squares are no more than this many times as large as they look
# Units of rounding, times the root of d and the largest eigenvalue. LAPACK's few eigenvectors are taken if no residual
# is longer than USUAL of them; residuals of ordinary data are up to 0.6 long. Among close eigenvalues, longer ones come
# with eigenvectors that are not those of the largest eigenvalues. Of 9700 matrices, 830 had eigenvalues left that were
# larger by more than LAPACK_ROUNDING than the residuals tell; none of those that are taken had (up to 1.6).
USUAL, LAPACK_ROUNDING = 1.0, 2.0
# Random vectors that tell whether rounding of A is as small as is assumed: the error of A is seen in their products, as
# large as all of its entries together. It was at most 0.05 of what is assumed, but for data made to deceive. An error
# of rank one that is as large as is assumed is overlooked once in 2000 times: chi-squared below 4 x 0.125^2.
CHECKS, UNEXPECTED = 4, 0.125
MOST_FAILURE = 0.5  # with more, residuals that all point the same way are no longer the worst case
# LAPACK has threads for an A that is larger. OpenBLAS keeps them, and a core, busy for 0.1 s after they are done. With
# two threads, LAPACK gains 0.02 s at d = 784, and 0.09 s at 1500.
LARGE_SIDE = 1000
FEW = 4  # times as many eigenvectors as are wanted: below d, finding only those is faster (d = 150 to 1500)
NEARLY = 0.5  # how far V^T V may be from the identity: Cholesky-QR loses no digits of V then
EVX_ROOM = 67  # vectors of length d that LAPACK's evx has room for: NB + 3, where its block size NB is 64 at most


class Gram(Solver[Answer]):
    """A, and its leading eigenvectors by LAPACK.

    The first A is the one that the first pass summed up, in the precision of the data unless the tolerance is very
    small. If rounding shows in the certificate, another pass measures it. Another one sums up A in double precision if
    that does not help, or if the first rows, whose mean is the provisional one, say little about the others.
    """

    @staticmethod
    def width_for(k: int, cost: str, sparse: bool) -> int:
        """A few extra columns: eigenvalues next to the wanted ones sharpen the certificate."""
        return whole_registers(k)

    @staticmethod
    def transposes(source: Source) -> bool:
        """A is the matrix of the shorter side."""
        return source.shape[1] > source.shape[0]

    @classmethod
    def suits(cls, source: Source) -> bool:
        """Whether A can be summed up by passes: it is made of rows of the longer side, which must be walked."""
        return not (source.by_rows if cls.transposes(source) else source.by_columns)

    def wants(self, problem: Problem, rng: Rng, W0: np.ndarray | None = None) -> GramSum:
        """A."""
        return GramSum(problem, self._in_double(*problem.source.shape))

    def _in_double(self, n: int, d: int) -> bool:
        """Whether the tolerances ask for more than single precision can prove, or would prove in less time.

        Single precision does not pay where there is little to do.
        """
        if is_small(n, d):
            return True
        angle_tol = 1.0 if self.options.angle_tol is None else self.options.angle_tol
        pays = self._measures(d) and d >= COLUMNS_PER_PRODUCT * min(self.components or d, PRODUCTS)
        return self.options.tol < (SINGLE if pays else UNMEASURED) or angle_tol < SINGLE_ANGLE

    def _measures(self, d: int) -> bool:
        """Whether rounding is measured, if it shows.

        Something must be left outside W. Angles are not measured. Where reading takes longest, or few passes are
        allowed, a pass in double precision says more.
        """
        known = self.components is not None and self.components <= self.width < d
        few = self.options.max_passes < LEAST_PASSES
        return known and not few and self.options.cost == "time" and self.options.angle_tol is None

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """To start: a pass, if A is not known from the first one."""
        return Passes(start=0.0 if isinstance(first_pass.found, Matrix) else 1.0, projections=1.0)

    def memory(self, size: Size) -> dict[str, float]:
        """A, as the first pass left it and, for float32, in double precision; a copy of it with LAPACK's room.

        While it is summed up, every thread has a sum of its own; sparse rows have a sparse and a dense square. Rows are
        copied for BLAS, not for our kernel.
        """
        found = 0 if size.transposed else 1
        again = 1 if size.itemsize < DOUBLE else 0
        threads = size.n_threads * size.itemsize / DOUBLE
        summed = found + again + max(SPARSE_SQUARES if size.sparse else 1 + threads, size.n_threads)
        solved = found + again + LAPACK_SQUARES
        converted = again if self._in_double(size.n, size.d) else 0
        copies = 1 + (1 if size.weighted else 0) + converted  # shifted, weighted, and in double precision
        itemsize = DOUBLE if converted else size.itemsize
        copied = min(size.block_rows, rows_at_a_time(size.d, size.sparse)) if size.sparse or size.d > NARROW else 0
        rows = copied * size.d * itemsize * copies
        chunks = 3 * size.n_threads * CHUNK_ROWS * size.d * DOUBLE
        squares = max(solved, summed + FINDING) * size.square
        return {f"A, {size.d} x {size.d}, in double precision, several times": squares + max(rows, chunks)}

    def start(self, view: View, first_pass: FirstPass, rng: Rng, W0: np.ndarray | None = None) -> Answer:
        """All of it; steps may follow where entries were multiplied in single precision."""
        found = first_pass.found
        if not isinstance(found, Matrix):
            return self._solve(view, view.matrix())
        if found.in_double:
            return self._solve(view, found.A)
        checks = rng.standard_normal((view.d, CHECKS))
        return self._solve(view, found.A, Checked(found.error, checks, found.A @ checks))

    def step(self, view: View, state: Answer, rng: Rng) -> Answer:
        """First measure what rounding of A hides, if that can be told. Otherwise, and then, A in double precision."""
        if isinstance(state, GramState):
            measured = self._measured(view, state, rng)
            if measured is not None:
                return measured
        del state  # frees V
        return self._solve(view, view.matrix())

    def _solve(self, view: View, A: np.ndarray, single: Checked | None = None) -> Answer:
        if single is None:
            return exact_answer(A, self.width, view.dtype, view.n_threads)
        answer, V = solved(A, self.width, view.dtype, view.dtype, view.n_threads)
        known = vars(answer) | {"steps_left": 3, "shown": single.error}
        return GramState(**known, V=V, checks=single.checks, images=single.images)

    def _measured(self, view: View, state: GramState, rng: Rng) -> Answer | None:
        """The state with what rounding of A hides of it, by one pass; None where gaps or rounding do not let it tell.

        A few vectors are multiplied in double precision. Of many, random combinations are. The squares that these see
        of the residuals are too small by a large factor with a small probability only.
        """
        k, theta = self.components, state.theta
        if k is None or not self._measures(view.d) or view.cancels(np.dtype(float)):
            return None
        usual = product_error(theta, view.rounding_of_matrix(in_double=False), SUMMED)[0]
        error = 2 * max(usual, state.shown)  # of both eigenvalues of a gap
        outside, spare = theta[:k] - state.mu - error, theta[k - 1] - theta[k:] - error
        if min(outside[-1], spare.min(initial=np.inf)) <= 0:
            return None
        if k <= PRODUCTS:
            mix, least = np.eye(k), 1.0
        else:
            count, least = self._products(state.measured)
            if not least:
                return None
            mix = rng.standard_normal((k, count))
        W = state.V[:, :k] @ (mix / np.sqrt(outside)[:, None])
        U = view.exact_product(np.hstack([W, state.checks]))
        seen = float(np.linalg.norm(U[:, -CHECKS:] - state.images)) / np.sqrt(CHECKS)
        if seen > UNEXPECTED * max(usual, state.shown):
            return None
        squares = squared_residuals(state.V, U[:, :-CHECKS], theta, outside, spare, mix) / least
        measured = Measured(k, squares / float(theta[:k].sum()))
        if k <= PRODUCTS or state.measured is not None:
            return changed(state.light(), measured=measured, steps_left=1)
        return changed(state, measured=measured, steps_left=2, kind="probabilistic")

    def _products(self, before: Measured | None) -> tuple[int, float]:
        """How many random combinations to multiply, and the least that they see of a square but for the probability.

        Once that has been done, more of them; none if these would most likely prove too little.
        """
        options = self.options
        failure = min(options.failure_probability, MOST_FAILURE) / options.restarts
        first = (1 - LEFT_FOR_MORE) * failure
        few = options.tol >= LOOSE and MOST_LOST * chi_squared(FEW_PRODUCTS, first) > FEW_PRODUCTS
        count = FEW_PRODUCTS if few else PRODUCTS
        least = chi_squared(count, first)
        if before is None:
            return count, least
        more = chi_squared(MORE_PRODUCTS, LEFT_FOR_MORE * failure)
        expected = before.suboptimality * (least / count) * (MORE_PRODUCTS / more)
        return MORE_PRODUCTS, more if 2 * expected < options.tol else 0.0


class Checked(NamedTuple):
    """What is known of the rounding of an A in single precision."""

    error: float  # as far as it shows in the diagonal
    checks: np.ndarray  # random vectors
    images: np.ndarray  # their products with A


ANSWER = {field.name for field in fields(Answer)}


@dataclass(frozen=True, kw_only=True)
class GramState(Answer):
    """Eigenvectors of an A that was summed up in single precision."""

    V: np.ndarray  # W, before it was rounded to the type of the data
    checks: np.ndarray  # random vectors ...
    images: np.ndarray  # ... and their products with this A

    def light(self) -> Answer:
        """The state without what measures rounding."""
        return Answer(**{name: value for name, value in vars(self).items() if name in ANSWER})


def solved(A: np.ndarray, l: int, dtype: np.dtype, precision: np.dtype, n_threads: int) -> tuple[Answer, np.ndarray]:
    """The l leading Ritz pairs of A, and their vectors before they were rounded to `dtype`.

    LAPACK works in `precision`, that of A.
    """
    d = len(A)
    with blas_threads(n_threads) if d > LARGE_SIDE else nullcontext():
        theta, V, R, lengths = leading_pairs(A, min(l + 1, d), precision)
    off = LAPACK_ROUNDING * unit_of_lapack(precision, theta, d)  # among close eigenvalues, LAPACK may find others
    mu, kind = known_outside(theta + lengths + off, l, None)
    V, theta, R = V[:, :l], theta[:l], R[:, :l]
    W = np.ascontiguousarray(V, dtype=dtype)
    return Answer(d=d, W=W, theta=theta, G=R.T @ R, mu=mu, kind=kind, basis=0), V


def exact_answer(A: np.ndarray, l: int, dtype: np.dtype, n_threads: int) -> Answer:
    """The l leading Ritz pairs of an A in double precision: nothing is left to do."""
    answer, _ = solved(A, l, dtype, np.dtype(float), n_threads)
    return changed(answer, steps_left=0)


def squared_residuals(
    V: np.ndarray, U: np.ndarray, theta: np.ndarray, outside: np.ndarray, spare: np.ndarray, mix: np.ndarray
) -> float:
    """The squares of the residuals of the leading vectors over their gaps, which is what they hide.

    To second order, ``r_j = A v_j - theta_j v_j`` hides ``(u . r_j)^2 / (theta_j - lambda)`` of the sum of the leading
    eigenvalues, for every eigenvector u that is not one of the leading ones, with its eigenvalue lambda. `outside` has
    the gaps between the leading eigenvalues and what is outside V, `spare` those between the last of them and the rest
    of V. The residuals are combined by the columns of `mix`: if these are those of the identity, all squares count. The
    vectors are combined alike, each divided by the root of its gap: `U` is the product of A with that.
    """
    k = len(outside)
    R = U - V[:, :k] @ (mix * (theta[:k] / np.sqrt(outside))[:, None])
    C = V.T @ R
    R -= V @ C
    return float((R**2).sum() + ((outside[-1] / spare)[:, None] * C[k:] ** 2).sum())


def chi_squared(count: int, probability: float) -> float:
    """The quantile of the chi-squared distribution with `count` degrees of freedom.

    >>> round(chi_squared(1, 0.5), 3)  # half of all standard normal numbers are between -0.674 and 0.674
    0.455
    """
    return 2 * float(gammaincinv(count / 2, probability))


class Pairs(NamedTuple):
    """Ritz pairs, largest first, and their residuals."""

    theta: np.ndarray
    V: np.ndarray
    R: np.ndarray  # ``A V - V theta``
    lengths: np.ndarray  # of the residuals


def leading_pairs(A: np.ndarray, count: int, dtype: np.dtype) -> Pairs:
    """The pairs of the largest eigenvalues of A.

    If A is not small, LAPACK's bisection and inverse iteration (evx) find a few of them faster, in this type. Single
    precision is enough for an A that has no more. Among equal eigenvalues they may fail, find too few, or find others;
    so does LAPACK's method of relatively robust representations (evr). Divide and conquer does not.
    """
    d = len(A)
    if d <= SMALL_ORDER:
        V = eigenpairs(A, count)[1]
        U = A @ V
        return with_residuals(np.einsum("ij,ij->j", V, U), V, U)
    if FEW * count < d:
        few = few_vectors(A, count, dtype)
        if few is not None:
            pairs = pairs_within(A, few)
            if pairs.lengths.max() <= USUAL * unit_of_lapack(dtype, pairs.theta, d):
                return pairs
    V = scipy.linalg.eigh(A, driver="evd", check_finite=False)[1]
    return pairs_within(A, V[:, ::-1][:, :count])


def few_vectors(A: np.ndarray, count: int, dtype: np.dtype) -> np.ndarray | None:
    """Orthonormal eigenvectors of the largest eigenvalues by LAPACK's evx; None where it fails."""
    d, solve = len(A), lapack.ssyevx if dtype == np.float32 else lapack.dsyevx
    columns = A.astype(dtype, copy=False).T  # A itself, since it is symmetric, in the order that LAPACK takes
    _, V, found, _, info = solve(columns, range="I", il=d - count + 1, iu=d, lwork=EVX_ROOM * d)
    return made_orthonormal(V[:, count - 1 :: -1].astype(float)) if info == 0 and found == count else None


def made_orthonormal(V: np.ndarray) -> np.ndarray | None:
    """Columns that are nearly orthonormal made so, by Cholesky-QR; None where they are not.

    Inverse iteration in single precision leaves close pairs less than orthonormal.
    """
    M = V.T @ V
    if not np.linalg.norm(M - np.eye(len(M))) <= NEARLY:
        return None
    return V @ np.linalg.inv(np.linalg.cholesky(M)).T


def pairs_within(A: np.ndarray, V: np.ndarray) -> Pairs:
    """The Ritz pairs of A on the span of V's orthonormal columns."""
    U = A @ V
    theta, Y = ritz(V.T @ U)
    return with_residuals(theta, V @ Y, U @ Y)


def with_residuals(theta: np.ndarray, V: np.ndarray, U: np.ndarray) -> Pairs:
    """Ritz pairs, given U = A V."""
    R = U - V * theta
    return Pairs(theta, V, R, np.sqrt(np.einsum("ij,ij->j", R, R)))


def unit_of_lapack(dtype: np.dtype, theta: np.ndarray, d: int) -> float:
    """What the rounding of LAPACK in this type is measured by, for an A of order d."""
    return float(np.finfo(dtype).eps) * float(theta[0]) * math.sqrt(d)
