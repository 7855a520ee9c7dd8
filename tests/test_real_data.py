"""The paper's data: MNIST and RCV1, at the accuracies that the design page reports. Skipped where the data are not."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import assert_orthonormal

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def need(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not there: its licence does not let us ship it")
    return path


@pytest.fixture(scope="module")
def mnist() -> tuple[np.ndarray, np.ndarray]:
    """Standardised as in the paper: pixels centred, divided by their deviation times sqrt(784); and A's eigenvalues."""
    X = np.load(need("mnist.npz"))["X"].astype(np.float64)
    X -= X.mean(axis=0)
    deviation = X.std(axis=0)
    deviation[deviation == 0] = 1
    X /= deviation * np.sqrt(784)
    return X, scipy.linalg.eigvalsh(X.T @ X)[::-1]


@pytest.fixture(scope="module")
def rcv1() -> sp.csr_array:
    return sp.csr_array(sp.load_npz(need("rcv1.npz")))


@contextmanager
def as_far_as_it_goes() -> Iterator[None]:
    """tol=0 asks for all that the passes give: not converging is no news then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def true_error(X, found, squares) -> float:
    """1 - |X V|_F^2 over LAPACK's (or ARPACK's) sum of the k largest squared singular values."""
    k = len(found.Vt)
    return 1 - np.linalg.norm(X @ found.Vt.T.astype(np.float64)) ** 2 / squares[:k].sum()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("epochs", "error"), [(5, 1e-9), (8, 1e-12)])
def test_vr_on_mnist_by_epochs(mnist, epochs, error, seed):
    """First pass and first snapshot are 2 passes, an epoch is 2 more: random start, default step."""
    X, squares = mnist
    with as_far_as_it_goes():
        found = vrpca.svd(X, 1, solver="vr", tol=0, max_passes=2 + 2 * epochs, random_state=seed, compute_u=False)
    assert [record.epoch for record in found.history] == list(range(len(found.history)))
    assert found.history[-1].epoch <= epochs
    assert true_error(X, found, squares) <= error


def test_block_on_mnist(mnist):
    X, squares = mnist
    found = vrpca.svd(X, 6, solver="vr", tol=1e-9, random_state=0, compute_u=False)
    assert found.converged
    true = true_error(X, found, squares)
    assert true <= found.certificate.suboptimality + 1e-14 <= 1e-9
    np.testing.assert_allclose(found.s**2, squares[:6], rtol=1e-7)


def test_float32_on_mnist(mnist):
    X, squares = mnist
    found = vrpca.svd(X.astype(np.float32), 6, solver="vr", tol=1e-8, random_state=0, compute_u=False)
    assert found.converged and found.Vt.dtype == np.float32
    assert true_error(X, found, squares) <= 1e-7


def test_gram_on_raw_pixels_of_mnist():
    """uint8 pixels, centred implicitly; the ratios are those of the data's README."""
    X = np.load(need("mnist.npz"))["X"]
    model = vrpca.PCA(8, solver="gram").fit(X)
    expected = [0.09746, 0.07155, 0.06150, 0.05403, 0.04889, 0.04305, 0.03278, 0.02890]
    np.testing.assert_allclose(model.explained_variance_ratio_, expected, atol=2e-5)


@pytest.mark.parametrize("seed", range(3))
def test_vr_on_rcv1_by_epochs(rcv1, seed):
    X = rcv1.astype(np.float64)
    s = svds(X, 1, return_singular_vectors=False, rng=0)
    with as_far_as_it_goes():
        found = vrpca.svd(X, 1, solver="vr", tol=0, max_passes=14, random_state=seed, compute_u=False)
    assert found.history[-1].epoch <= 6
    assert true_error(X, found, s**2) <= 1e-9


def test_centred_sparse_rcv1_equals_arpack(rcv1):
    """Centred without becoming dense: ARPACK on a linear operator is the reference."""
    X = rcv1.astype(np.float64)
    n, d = X.shape
    mean = np.asarray(X.mean(axis=0)).ravel()
    centred = LinearOperator(
        (n, d),
        matvec=lambda v: X @ v.ravel() - mean @ v.ravel(),
        rmatvec=lambda u: X.T @ u.ravel() - mean * u.sum(),
        dtype=np.float64,
    )
    _, s, Vt = svds(centred, 3, rng=0)
    order = np.argsort(-s)
    with as_far_as_it_goes():
        found = vrpca.pca(X, 3, solver="vr", tol=0, max_passes=100, random_state=0, compute_u=False)
    np.testing.assert_allclose(found.s, s[order], rtol=1e-10)
    signs = np.sign((found.Vt * Vt[order]).sum(axis=1))
    np.testing.assert_allclose(found.Vt, signs[:, None] * Vt[order], atol=1e-8)
    np.testing.assert_allclose(found.mean, mean, atol=1e-15)
    assert_orthonormal(found.Vt, 1e-12)
