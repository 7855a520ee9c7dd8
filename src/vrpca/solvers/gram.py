"""The eigenvectors of A itself, where A (d x d) fits: one reading, exact."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from vrpca.data.view import View
from vrpca.linalg import aligned_zeros, ritz
from vrpca.solvers.base import Solver, whole_registers
from vrpca.solvers.iterate import Iterate
from vrpca.solvers.options import Options
from vrpca.threads import blas_threads


class Gram(Solver):
    """A, and its leading eigenvectors by LAPACK.

    The first A is the one that was summed up while the moments were read, in the precision of the data; if rounding
    shows in the certificate, another reading sums it up in double precision.
    """

    name = "gram"
    projects = False
    forms_gram = True

    @staticmethod
    def extra_columns(k: int, cost: str) -> int:
        """A few: eigenvalues next to the wanted ones sharpen the certificate."""
        return whole_registers(k)

    def __init__(self, view: View, options: Options):
        super().__init__(view, options)
        self.max_epochs = 1 if view.A is not None and view.dtype == np.float32 else 0

    def passes_to_start(self, view: View) -> float:
        """A reading, if it was not shared with the first look."""
        return 1.0 if view.A is None else 0.0

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """All of it."""
        return self._solve(view, view.gram() if view.A is None else view.A)

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """The same with A in double precision."""
        return self._solve(view, view.gram())

    def _solve(self, view: View, A: np.ndarray) -> Iterate:
        l = self.options.columns
        values, V = _leading_eigenpairs(A, min(l + 1, view.d), view.n_threads)
        W = aligned_zeros((view.d, l), view.dtype)
        W[...] = V[:, :l]
        exact = W.astype(np.float64)  # what was rounded to W, not V, is to be certified
        U = A @ exact
        theta, Y = ritz(exact.T @ U)
        exact, U = exact @ Y, U @ Y
        R = U - exact * theta
        mu = float(values[l]) if l < view.d else 0.0
        return Iterate(exact.astype(view.dtype), U.astype(view.dtype), None, theta, R.T @ R, mu, "exact")


def _leading_eigenpairs(A: np.ndarray, count: int, n_threads: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues and their vectors, largest first."""
    d = len(A)
    with blas_threads(n_threads):
        values, V = scipy.linalg.eigh(A, subset_by_index=[d - count, d - 1], driver="evr", check_finite=False)
    return values[::-1], V[:, ::-1]
