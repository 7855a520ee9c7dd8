"""The eigenvectors of A itself, where A (d x d) fits: one pass, or two where rounding shows in the first; exact."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import numpy as np
import scipy.linalg

from vrpca.data.first_pass import FirstPass
from vrpca.data.gram import CHUNK_ROWS, GramSum, Matrix, rows_at_a_time
from vrpca.data.source import Source
from vrpca.data.view import Problem, View
from vrpca.linalg import ritz
from vrpca.memory import DOUBLE, Size
from vrpca.solvers.base import Answer, Passes, Rng, Solver, whole_registers
from vrpca.solvers.outside import known_outside
from vrpca.threads import blas_threads

LAPACK_SQUARES = 3  # matrices of A's size that LAPACK's divide and conquer needs: a copy of A, and room for two more
SPARSE_SQUARES = 3  # the square of sparse rows, as a sparse matrix with its column numbers and as a dense one
FINDING = 0.2  # of A's size: what says which of its entries are finite
# Tolerances below these are met in double precision at once. In front of a gap of 5%, single precision proves 3e-10 and
# an angle of 6e-5; in front of smaller ones, less.
SINGLE, SINGLE_ANGLE = 1e-9, 1e-4
# LAPACK has threads for an A that is larger. OpenBLAS keeps them, and a core, busy for 0.1 s after they are done. With
# two threads, LAPACK gains 0.02 s at d = 784, and 0.09 s at 1500.
LARGE_SIDE = 1000
FEW = 4  # times as many eigenvectors as are wanted: below d, finding only those is faster (d = 150 to 1500)
ALL_OF_THEM = 100  # up to this d, finding all of them takes no longer


class Gram(Solver[Answer]):
    """A, and its leading eigenvectors by LAPACK.

    The first A is the one that the first pass summed up, in the precision of the data unless the tolerance is very
    small. Another pass sums it up in double precision if rounding shows in the certificate, or if the first rows, whose
    mean is the provisional one, say little about the others.
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
        return GramSum(problem, self._in_double)

    @property
    def _in_double(self) -> bool:
        """Whether the tolerances ask for more than single precision can prove."""
        angle_tol = 1.0 if self.options.angle_tol is None else self.options.angle_tol
        return self.options.tol < SINGLE or angle_tol < SINGLE_ANGLE

    def passes(self, view: View, first_pass: FirstPass) -> Passes:
        """To start: a pass, if A is not known from the first one."""
        return Passes(start=0.0 if isinstance(first_pass.found, Matrix) else 1.0, projections=1.0)

    def memory(self, size: Size) -> dict[str, float]:
        """A, as the first pass left it and, for float32, in double precision; a copy of it with LAPACK's room.

        While it is summed up, every thread has a sum of its own; sparse rows have a sparse and a dense square.
        """
        found = 0 if size.transposed else 1
        again = 1 if size.itemsize < DOUBLE else 0
        threads = size.n_threads * size.itemsize / DOUBLE
        summed = found + again + max(SPARSE_SQUARES if size.sparse else 1 + threads, size.n_threads)
        solved = found + again + LAPACK_SQUARES
        converted = again if self._in_double else 0
        copies = 1 + (1 if size.weighted else 0) + converted  # shifted, weighted, and in double precision
        itemsize = DOUBLE if converted else size.itemsize
        rows = min(size.block_rows, rows_at_a_time(size.d)) * size.d * itemsize * copies
        chunks = 3 * size.n_threads * CHUNK_ROWS * size.d * DOUBLE
        squares = max(solved, summed + FINDING) * size.square
        return {f"A, {size.d} x {size.d}, in double precision, several times": squares + max(rows, chunks)}

    def start(self, view: View, first_pass: FirstPass, rng: Rng, W0: np.ndarray | None = None) -> Answer:
        """All of it; a step may follow where entries were multiplied in single precision."""
        if isinstance(first_pass.found, Matrix):
            return self._solve(view, first_pass.found.A, steps_left=0 if first_pass.found.in_double else 1)
        return self._solve(view, view.matrix(), steps_left=0)

    def step(self, view: View, state: Answer, rng: Rng) -> Answer:
        """The same with A in double precision."""
        return self._solve(view, view.matrix(), steps_left=0)

    def _solve(self, view: View, A: np.ndarray, steps_left: int) -> Answer:
        l, d = self.width, view.d
        with blas_threads(view.n_threads) if d > LARGE_SIDE else nullcontext():
            values, V = leading_pairs(A, min(l + 1, d))
        V = V[:, :l]
        U = A @ V
        theta, Y = ritz(V.T @ U)
        V, U = V @ Y, U @ Y
        R = U - V * theta
        mu, kind = known_outside(values, l, None)
        W = np.ascontiguousarray(V, dtype=view.dtype)
        return Answer(d=d, W=W, theta=theta, G=R.T @ R, mu=mu, kind=kind, basis=0, steps_left=steps_left)


def leading_pairs(A: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of A, which come first, and their eigenvectors.

    Where A is not small, bisection and inverse iteration find a few of them faster. Among equal eigenvalues they may
    fail, or find too few; so does LAPACK's method of relatively robust representations (evr). Divide and conquer does
    not; NumPy's call of it is quicker, SciPy's takes less memory.
    """
    d = len(A)
    if d > ALL_OF_THEM and FEW * count < d:
        with suppress(scipy.linalg.LinAlgError):
            few = [d - count, d - 1]
            values, V = scipy.linalg.eigh(A, subset_by_index=few, driver="evx", check_finite=False)
            if len(values) == count:  # inverse iteration may leave close pairs less than orthonormal
                return values[::-1], np.linalg.qr(V[:, ::-1])[0]
    whole = np.linalg.eigh(A) if d <= ALL_OF_THEM else scipy.linalg.eigh(A, driver="evd", check_finite=False)
    return whole[0][::-1][:count], whole[1][:, ::-1][:, :count]
