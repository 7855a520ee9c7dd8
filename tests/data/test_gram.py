"""X^T X in one reading, against NumPy in double precision; and the solver that is made of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import helpers
import vrpca
from solvers.problems import (
    ChunkedSource,
    assert_true_answer,
    suboptimality,
    transformed,
    with_eigenvalues,
)
from vrpca.data import gram
from vrpca.data.gram import GramSum
from vrpca.data.open import as_source
from vrpca.data.view import Problem, View

DTYPES = (np.float32, np.float64)


def summed(X, center, scale, weights, threads):
    """A as the first pass sums it up; None where the view has no use for it."""
    problem = Problem(as_source(X), weights, center, scale, threads)
    first_pass = problem.first_pass(GramSum(problem))
    found = View.of(problem, first_pass.moments).receive(first_pass).found
    return None if found is None else found.A


def merged(X, weights, cuts, **options):
    """A as several parts sum it up, each with blocks of its own; None where the view has no use for it."""
    problem = Problem(as_source(X), weights, True, False, 1)
    parts = []
    for blocks in cuts:
        parts.append(GramSum(problem, **options))
        for lo, hi in itertools.pairwise(blocks):
            parts[-1].add(lo, X[lo:hi])
    for other in parts[1:]:
        parts[0].merge(other)
    first_pass = parts[0].result()
    found = View.of(problem, first_pass.moments).receive(first_pass).found
    return None if found is None else found.A


def expected(X, center, scale, weights):
    Z = transformed(X, center, scale, weights)
    return Z.T @ Z / (Z**2).sum()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["dense", "F order", "sparse", "half sparse"])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("way", ["kernel", "BLAS"])
def test_against_numpy(kind, center, scale, weighted, threads, dtype, way, rng, monkeypatch):
    if way == "BLAS":
        monkeypatch.setattr(gram, "NARROW", 0)
    X = rng.standard_normal((9001, 30)) @ rng.standard_normal((30, 30)) + rng.standard_normal(30)
    if "sparse" in kind:
        X[rng.random(X.shape) < (0.95 if kind == "sparse" else 0.5)] = 0
    X = X.astype(dtype)
    weights = rng.uniform(0, 3, len(X)) if weighted else None
    given = np.asfortranarray(X) if kind == "F order" else sp.csr_array(X) if "sparse" in kind else X
    A = summed(given, center, scale, weights, threads)
    np.testing.assert_allclose(A, expected(X, center, scale, weights), atol=50 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mean", [1e3, 1e5])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("narrow", [0, gram.NARROW])
def test_a_large_mean(mean, scale, threads, dtype, narrow, rng, monkeypatch):
    """It cancels before anything is squared: entries lose nothing but what their type has lost."""
    monkeypatch.setattr(gram, "NARROW", narrow)
    X = (mean + rng.standard_normal((20000, 40)) * np.linspace(1, 2, 40)).astype(dtype)
    A = summed(X, True, scale, None, threads)
    np.testing.assert_allclose(A, expected(X, True, scale, None), atol=50 * np.finfo(dtype).eps)


@pytest.mark.parametrize("narrow", [0, gram.NARROW])
def test_a_large_mean_of_several_parts(narrow, rng, monkeypatch):
    """Each has an origin of its own. Sums move by the difference of what was taken off, to the last bit."""
    monkeypatch.setattr(gram, "NARROW", narrow)
    X = (1e4 + rng.standard_normal((9000, 40)) * np.linspace(1, 2, 40)).astype(np.float32)
    A = merged(X, None, [(0, 2000), (2000, 5000), (5000, 9000)])
    np.testing.assert_allclose(A, expected(X, True, False, None), atol=50 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("mean", [1e2, 1e9])
def test_a_large_mean_of_sparse_rows(mean, rng):
    """Sparse rows are not centred before: A is right, or not given at all."""
    X = np.zeros((2000, 60))
    X[:, :3] = mean + rng.standard_normal((2000, 3))
    X[:, 3:] = rng.standard_normal((2000, 57)) * (rng.random((2000, 57)) < 0.02)
    A = summed(sp.csr_array(X), True, False, None, 1)
    if mean < 1e4:
        np.testing.assert_allclose(A, expected(X, True, False, None), atol=1e-9)
    else:
        assert A is None
    found = vrpca.pca(sp.csr_array(X), 3, solver="gram")
    assert suboptimality(transformed(X, True), found.Vt) < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("center", [False, True])
def test_one_reading(center, dtype):
    X = with_eigenvalues(500, 20, 0.8 ** np.arange(20)).astype(dtype)
    source = ChunkedSource(X, 64)
    found = vrpca.svd(source, 3, center=center, solver="gram", compute_u=False)
    assert found.converged and found.n_passes == 1 and source.handed_out == 500
    found = vrpca.svd(source, 3, center=center, solver="gram")
    assert found.n_passes == 2 and found.U.shape == (500, 3)


@pytest.mark.parametrize("order", [1, -1])
def test_blocks_of_different_density_are_as_exact_as_the_least_exact_one(order):
    """Sparse blocks are squared in double precision, dense ones are not: the certificate must not think they are."""
    rng = np.random.default_rng(0)
    sparse = sp.random_array((400, 30), density=0.04, rng=rng, format="csr", dtype=np.float32)
    dense = sp.csr_array((rng.standard_normal((1200, 30)) * np.geomspace(1, 0.3, 30) + 3).astype(np.float32))
    blocks = [sparse, dense][::order]
    sums = [GramSum(Problem(as_source(block), None, True, False, 1)) for block in blocks]
    for each, block in zip(sums, blocks, strict=True):
        each.add(0, block)
    sums[0].merge(sums[1])
    assert not sums[0].in_double and sums[0].dtype == np.float32


def test_more_where_rounding_shows(monkeypatch):
    """One pass measures it, and one sums up A in double precision."""
    monkeypatch.setattr("vrpca.solvers.gram.SINGLE", 0.0)  # single precision at first, whatever the tolerance
    monkeypatch.setattr("vrpca.solvers.gram.UNMEASURED", 0.0)
    monkeypatch.setattr("vrpca.data.gram.SMALL_WORK", 0)
    X = with_eigenvalues(500, 20, 0.8 ** np.arange(20)).astype(np.float32)
    source = ChunkedSource(X, 64)
    with pytest.warns(ConvergenceWarning):
        found = vrpca.svd(source, 3, solver="gram", tol=1e-14, compute_u=False)
    assert found.n_passes == 3 and source.handed_out == 1500
    assert_true_answer(found, X.astype(float), 1e-12)
    exact = vrpca.svd(X.astype(float), 3, solver="gram", tol=1e-14, compute_u=False)
    assert exact.n_passes == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", ["tiny", "huge"])
@pytest.mark.parametrize("center", [False, True])
def test_numbers_of_any_size(center, size, dtype):
    factor = {"tiny": 1e-30, "huge": 1e30}[size] if dtype == np.float32 else {"tiny": 1e-150, "huge": 1e150}[size]
    X = with_eigenvalues(500, 20, 0.8 ** np.arange(20))
    found = vrpca.svd((X * factor).astype(dtype), 3, center=center, solver="gram", compute_u=False)
    assert found.converged and found.certificate.kind == "exact"
    assert suboptimality(transformed(X, center), found.Vt) < 1e-10
    np.testing.assert_allclose(
        found.s / dtype(factor), np.linalg.svd(transformed(X, center), compute_uv=False)[:3], rtol=1e-5
    )


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_overflow_takes_another_reading(sparse, center, rng):
    """The first rows say nothing of those that follow."""
    X = with_eigenvalues(20000, 32, 0.8 ** np.arange(32)).astype(np.float32)
    X[:9000] *= np.float32(1e-3)
    X[9000:] *= np.float32(1e25)
    Z = transformed(X, center)
    if not sparse:
        assert summed(X, center, False, None, 1) is None
    found = vrpca.svd(sp.csr_array(X) if sparse else X, 3, center=center, solver="gram", compute_u=False)
    assert found.n_passes == 2
    assert found.certificate.kind == "exact"
    assert_true_answer(found, Z, 1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("decay", [0.5, 0.99, 1.0])
def test_the_certificate_is_exact_and_true(k, decay, dtype):
    X = with_eigenvalues(3000, 24, decay ** np.arange(24)).astype(dtype)
    found = vrpca.svd(X, k, solver="gram", tol=1e-6, compute_u=False)
    assert found.certificate.kind == "exact"
    true = assert_true_answer(found, X.astype(float), 1e-6)
    assert true <= found.certificate.suboptimality + helpers.summed(len(X))  # LAPACK sums over rows, too


@pytest.mark.parametrize("in_double", [False, True])
@pytest.mark.parametrize("cuts", [[(0, 100, 5000)], [(0, 2500), (2500, 2600, 5000)]], ids=["one part", "two parts"])
def test_a_jump_after_the_first_rows(cuts, in_double, rng):
    """The provisional mean is far from the mean then: A would be less exact than its certificate says."""
    X = rng.standard_normal((5000, 8)).astype(np.float32)
    weights = np.ones(5000)
    first = slice(*cuts[-1][:2])
    X[first] += 100
    weights[first] = 1e-6
    assert merged(X, weights, cuts, in_double=in_double) is None
    found = vrpca.pca(X, 2, solver="gram", sample_weight=weights, compute_u=False)
    assert found.converged and found.certificate.kind == "exact"
    assert suboptimality(transformed(X, True, weights=weights), found.Vt) <= found.certificate.suboptimality + 1e-14


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ["units", "weights", "no weight first", "drift", "sorted far from zero"])
def test_parts_that_differ(case, dtype, rng):
    X = rng.standard_normal((6000, 20)) * np.linspace(2, 1, 20)
    weights = None
    if case == "units":
        X[:2000] *= 1e-10
    elif case == "drift":
        X += np.linspace(-1, 1, 6000)[:, None] * np.arange(20) / 5
    elif case == "sorted far from zero":
        X = X[np.argsort(X[:, 0])] + 1e4
    else:
        weights = rng.uniform(0.1, 3, 6000)
        weights[: 2000 if case == "no weight first" else 0] = 0
    X = X.astype(dtype)
    A = merged(X, weights, [(0, 1000, 2000), (2000, 5000), (5000, 6000)])
    np.testing.assert_allclose(A, expected(X, True, False, weights), atol=50 * np.finfo(dtype).eps)


def test_rows_of_next_to_no_weight_first(rng):
    """They set the provisional centre, far from all that counts: it must cancel, or be read again."""
    X = (rng.standard_normal((20000, 64)) * np.linspace(1, 0.5, 64)).astype(np.float32)
    weights = np.ones(20000)
    weights[:8192] = 1e-6
    X[:8192] += 1000
    found = vrpca.pca(X, 2, solver="gram", sample_weight=weights, compute_u=False)
    true = suboptimality(transformed(X, True, weights=weights), found.Vt)
    assert true <= found.certificate.suboptimality + 1e-10


@pytest.mark.parametrize("size", [1e-21, 1e-23, 1e-26])
def test_columns_of_very_different_size(size, rng):
    X = rng.standard_normal((2000, 6))
    X[:, 0] = 0.9 * X[:, 1] + 0.1 * X[:, 0]
    small = (X * [1, size, 1, 1, 1, size]).astype(np.float32)
    found = vrpca.pca(small, 2, solver="gram", scale=True, compute_u=False)
    assert suboptimality(transformed(X, True, True), found.Vt) <= max(found.certificate.suboptimality, 1e-10)


@pytest.mark.parametrize("size", [1e-21, 1e-22])
def test_first_rows_of_zeros(size, rng):
    X = (rng.standard_normal((30000, 8)) * size).astype(np.float32)
    X[:8192] = 0
    found = vrpca.svd(X, 2, solver="gram", compute_u=False)
    assert suboptimality(X.astype(float), found.Vt) <= max(found.certificate.suboptimality, 1e-10)
