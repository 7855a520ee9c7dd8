"""The streamed basis: exact where the rank allows it, close to optimal elsewhere, at any magnitude."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from solvers.problems import assert_orthonormal, assert_true_answer, suboptimality, transformed, with_singular_values
from vrpca.data.open import as_source
from vrpca.data.row_map import RowMap
from vrpca.data.stream import Stream, StreamSum
from vrpca.data.view import Problem, View

DTYPES = (np.float32, np.float64)


def missed(basis, Z, k):
    """Part of the best k-dimensional variance that the whole basis does not hold."""
    s, Q = np.linalg.svd(Z, compute_uv=False), np.linalg.qr(basis.astype(float))[0]
    return 1 - (np.linalg.svd(Z @ Q, compute_uv=False)[:k] ** 2).sum() / (s[:k] ** 2).sum()


def streamed(X, width, center, weights=None, seed=0):
    """The basis as the first pass finds it."""
    problem = Problem(as_source(X), weights, center, False, 1)
    first_pass = problem.first_pass(StreamSum(problem, width, np.random.default_rng(seed)))
    return View.of(problem, first_pass.moments).receive(first_pass).found.vectors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("n", [5, 16, 17, 300])
def test_exact_where_the_rank_is_no_larger(n, rank, dtype):
    rank = min(n, rank)
    X = with_singular_values(n, 40, 0.7 ** np.arange(rank)).astype(dtype)
    stream = Stream(8, np.random.default_rng(0))
    stream.add(X, RowMap(X.dtype))
    basis = stream.basis()
    eps = np.finfo(dtype).eps
    assert basis.dtype == dtype and basis.flags.c_contiguous and rank <= basis.shape[1] <= 8
    Q = basis[:, :rank].astype(float)
    assert_orthonormal(np.ascontiguousarray(basis[:, :rank].T), 3000 * eps)
    np.testing.assert_allclose((X @ Q) @ Q.T, X, atol=1e3 * eps)
    np.testing.assert_allclose(np.linalg.norm(X @ Q, axis=0), 0.7 ** np.arange(rank), rtol=1e-3)
    # A length is the root of an eigenvalue, which errs by some eps of the largest one.
    np.testing.assert_allclose(np.linalg.norm(basis, axis=0), 1, rtol=10 * eps / 0.7 ** (2 * rank))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spectrum", ["geometric", "slow"])
def test_close_to_optimal_otherwise(spectrum, dtype):
    s = 0.9 ** np.arange(100) if spectrum == "geometric" else 1 / np.sqrt(np.arange(1, 101))
    X = with_singular_values(2000, 100, s).astype(dtype)
    stream = Stream(33, np.random.default_rng(0))
    stream.add(X, RowMap(X.dtype))
    assert missed(stream.basis(), X.astype(float), 3) < (1e-3 if spectrum == "geometric" else 0.02)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("parts", [(), ("m",), ("a",), ("s", "m", "a"), ("s", "m", "a", "b")], ids="".join)
def test_dense_and_sparse_rows_are_the_same(parts, dtype, rng):
    X = (rng.standard_normal((150, 30)) * (rng.random((150, 30)) < 0.2)).astype(dtype)
    s, m, a, b = rng.uniform(0.5, 2, 30), rng.standard_normal(30), rng.uniform(0.2, 2, 150), rng.uniform(-1, 1, 150)
    used = (part if name in parts else None for name, part in zip("smab", (s, m, a, b), strict=True))
    row_map = RowMap(X.dtype, *used, unit=2.0)
    Z = X.astype(float)
    Z = Z * s if "s" in parts else Z
    if "m" in parts:
        Z = Z - (np.outer(b, m) if "b" in parts else m)
    Z = 2 * Z * (a[:, None] if "a" in parts else 1)
    results = []
    for rows in (X, sp.csr_array(X)):
        stream = Stream(30, np.random.default_rng(0))  # all of it: V diag(theta) V^T = Z^T Z
        stream.add(rows, row_map)
        V = stream.V.astype(float)
        results.append((V * stream.theta) @ V.T)
    for found in results:
        np.testing.assert_allclose(found, Z.T @ Z, atol=100 * np.finfo(dtype).eps * np.linalg.norm(Z) ** 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
def test_along_with_the_moments(sparse, weighted, dtype, rng):
    X = (rng.standard_normal((4000, 6)) * [5, 4, 3, 2, 2, 2] @ rng.standard_normal((6, 60))).astype(dtype)
    X += rng.standard_normal(X.shape).astype(dtype)
    X[rng.random(X.shape) < 0.5] = 0
    weights = rng.uniform(0, 3, 4000) if weighted else None
    basis = streamed(sp.csr_array(X) if sparse else X, 33, True, weights)
    assert basis.shape == (60, 33) and basis.dtype == dtype
    assert missed(basis, transformed(X, True, weights=weights), 3) < 0.01


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_large_mean_and_rows_in_order_of_class(dtype, rng):
    classes = np.repeat(rng.standard_normal((5, 80)) * 3, 4000, axis=0)
    X = (1000 + classes + rng.standard_normal((20000, 80))).astype(dtype)
    basis = streamed(X, 33, True)
    assert missed(basis, transformed(X, True), 3) < 0.02


@pytest.mark.parametrize(
    ("dtype", "size"), [(np.float32, 1e-30), (np.float32, 1e30), (np.float64, 1e-150), (np.float64, 1e150)]
)
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_numbers_of_any_size(sparse, center, dtype, size, rng):
    X = with_singular_values(3000, 100, 0.9 ** np.arange(100)) + 0.001 * rng.standard_normal(100)
    if sparse:
        X[rng.random(X.shape) < 0.5] = 0
    Z = transformed(X, center)
    X = (X * size).astype(dtype)
    X = sp.csr_array(X) if sparse else X
    if center is False or not sparse:
        assert missed(streamed(X, 33, center), Z, 3) < 0.01
    found = vrpca.svd(X, 3, center=center, solver="accelerated", cost="passes", tol=1e-6, random_state=0)
    assert found.converged
    assert suboptimality(Z, found.Vt) < 1e-6
    np.testing.assert_allclose(found.s.astype(float) / size, np.linalg.svd(Z, compute_uv=False)[:3], rtol=1e-4)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_numbers_too_large_to_be_squared(sparse, rng):
    """Small rows first: what comes then overflows, and the stream says that it has nothing."""
    X = with_singular_values(600, 300, 0.8 ** np.arange(300)).astype(np.float32)
    stream = Stream(20, np.random.default_rng(0))
    stream.add(X[:100], RowMap(X.dtype))
    assert stream.basis() is not None
    with np.errstate(over="ignore", invalid="ignore"):
        stream.add((sp.csr_array(X) if sparse else X)[100:] * np.float32(1e25), RowMap(X.dtype))
    assert stream.broken and stream.basis() is None
    stream.add(X[:100], RowMap(X.dtype))
    assert stream.basis() is None  # once broken, for good


def test_no_rows_give_no_basis():
    assert Stream(3, np.random.default_rng(0)).basis() is None
    stream = Stream(3, np.random.default_rng(0))
    stream.add(np.zeros((10, 5)), RowMap(np.dtype(float)))
    assert stream.basis().shape == (5, 0)


@pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_an_overflown_stream_does_not_matter(sparse):
    X = with_singular_values(3000, 300, 0.8 ** np.arange(300)).astype(np.float32)
    size = np.where(np.arange(3000) % 2, 1e-3, 1e24)[:, None].astype(np.float32)  # a first row of any piece is small
    X = X * size * np.float32(1e-3)
    Z = X.astype(float)
    found = vrpca.svd(
        sp.csr_array(X) if sparse else X, 3, solver="accelerated", cost="passes", tol=1e-6, random_state=0
    )
    assert found.converged
    assert_true_answer(found, Z, 1e-6)
