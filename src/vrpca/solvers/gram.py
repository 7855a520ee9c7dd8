"""The eigenvectors of A itself, where A (d x d) fits: one reading, exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from vrpca.certificate import Probe
from vrpca.data.view import View
from vrpca.linalg import aligned_zeros
from vrpca.solvers.base import Solver
from vrpca.solvers.iterate import Iterate, snapshot
from vrpca.threads import blas_threads


class Gram(Solver):
    """A by one reading, LAPACK's eigenvectors, and one more reading that shows how exact they are."""

    name = "gram"
    max_epochs = 0  # nothing is left to do after the start

    def passes_to_start(self, view: View) -> float:
        """A, and a look at how exact its eigenvectors are."""
        return 2.0

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """All of it."""
        l = self.options.columns
        with blas_threads(view.n_threads):
            values, V = scipy.linalg.eigh(view.gram(), driver="evr")
        W = aligned_zeros((view.d, l), view.dtype)
        W[...] = V[:, ::-1][:, :l]
        it = snapshot(view, W, Probe(view.d, view.dtype, rng))
        return replace(it, outside=float(values[::-1][l]) if l < view.d else 0.0)
