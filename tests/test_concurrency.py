"""Several threads at once: fits and kernels give what they give alone. ThreadSanitizer runs these tests, too."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from vrpca import kernels
from vrpca.linalg import aligned_copy, aligned_zeros

SOLVERS = ["accelerated", "krylov", "vr", "oja", "power", "hybrid", "gram"]
FITS = 4  # more than most small machines have cores, so that fits are interrupted at any place


def data(kind, rng):
    X = rng.standard_normal((900, 60)) * 0.8 ** np.arange(60)
    if kind == "dense":
        return X
    X[rng.random(X.shape) < 0.7] = 0
    return sp.csr_array(X.astype(np.float32))


def at_once(work, arguments):
    """``[work(a) for a in arguments]``, each on a thread of its own."""
    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(work, arguments))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_of_the_same_data_do_not_disturb_each_other(solver, kind, rng):
    X = data(kind, rng)

    def fit(seed):
        return vrpca.pca(X, 3, solver=solver, n_threads=2, tol=1e-3, max_passes=8, random_state=seed)

    for alone, beside in zip(map(fit, range(FITS)), at_once(fit, range(FITS)), strict=True):
        np.testing.assert_array_equal(beside.s, alone.s)
        np.testing.assert_array_equal(beside.Vt, alone.Vt)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("width", [1, 5])
def test_products_share_rows_and_threads(kind, width, rng):
    """The rows lend their memory to one product at a time, and the threads of the kernels serve all callers."""
    X = data(kind, rng)
    no_map = (None, None, None, None, 1.0)
    if kind == "dense":
        rows = kernels.dense_rows(X, *no_map)
    else:
        rows = kernels.csr_rows(X.indptr, X.indices, X.data, X.shape[1], *no_map)
    blocks = [aligned_copy(rng.standard_normal((60, width)).astype(X.dtype)) for _ in range(FITS)]

    def products(W):
        found = []
        for threads in (2, 3, 1, 3) * 5:
            U, P = aligned_zeros(W.shape, X.dtype), np.zeros((900, width), X.dtype)
            kernels.product(rows, W, U, P, threads)  # how it sums depends on the alignment of W and U
            found.append((U, P))
        return found

    for alone, beside in zip(map(products, blocks), at_once(products, blocks), strict=True):
        for (U, P), (U1, P1) in zip(alone, beside, strict=True):
            np.testing.assert_array_equal(U1, U)
            np.testing.assert_array_equal(P1, P)
