"""Block Lanczos: its identity at every step, residuals without vectors, invariant subspaces, restarts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from solvers.problems import (
    assert_orthonormal,
    assert_true_answer,
    orthonormal,
    view_of,
    with_eigenvalues,
    with_singular_values,
)
from vrpca.solvers.lanczos import Lanczos
from vrpca.solvers.options import Options

DTYPES = (np.float32, np.float64)


def normalised(X):
    """Z and A of an uncentred view."""
    Z = X.astype(float) * np.sqrt(len(X)) / np.linalg.norm(X.astype(float))
    return Z, Z.T @ Z / len(X)


def lanczos(X, columns, capacity=None, seed=0):
    """A started solver, its view, A, the first iterate and the generator."""
    view = view_of(X)
    worker = Lanczos(view, Options(columns))
    if capacity is not None:
        assert capacity >= worker.keep + worker.block
        worker.capacity = min(capacity, view.d)
    rng = np.random.default_rng(seed)
    return worker, view, normalised(X)[1], worker.start(view, rng, None), rng


def check(worker, A, it):
    """``A S^T = S^T H + Z^T B``, S and Z orthonormal, and what the iterate says of itself."""
    tolerance = 300 * float(np.finfo(worker.S.dtype).eps)
    S, Z = worker.S[: worker.size].astype(float), worker.Z.astype(float)
    assert_orthonormal(np.vstack([worker.S[: worker.size], worker.Z]), tolerance)
    np.testing.assert_allclose(A @ S.T, S.T @ worker.H + Z.T @ worker.B, atol=tolerance)
    np.testing.assert_allclose(worker.H, S @ A @ S.T, atol=tolerance)
    W = it.W.astype(float)
    R = A @ W - W * it.theta
    assert_orthonormal(np.ascontiguousarray(it.W.T), tolerance)
    np.testing.assert_allclose(W.T @ A @ W, np.diag(it.theta), atol=tolerance)
    np.testing.assert_allclose(it.G, R.T @ R, atol=tolerance)
    np.testing.assert_allclose(np.sqrt(np.clip(np.diag(it.G), 0, None)), np.linalg.norm(R, axis=0), atol=tolerance)


@pytest.mark.reference
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 3, 9, 20])
@pytest.mark.parametrize("tight", [False, True], ids=["room", "restarts"])
def test_identity_at_every_step(columns, dtype, tight):
    X = with_eigenvalues(200, 120, 0.93 ** np.arange(120)).astype(dtype)
    block = 4 if columns < 16 else 8
    worker, view, A, it, rng = lanczos(X, columns, columns + 2 * block if tight else None)
    check(worker, A, it)
    assert worker.block == block and worker.looks == 1 and view.rows_read == worker.passes_to_start(view) * 200
    restarts = 0
    for _ in range(14):
        size, read = worker.size, view.rows_read
        it = worker.step(view, it, rng)
        restarts += worker.size <= size
        assert view.rows_read == read + 200
        check(worker, A, it)
    assert restarts > 3 if tight else restarts <= 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_ritz_values_never_fall_through_restarts(dtype):
    X = with_eigenvalues(300, 100, 1 / np.arange(1, 101)).astype(dtype)
    worker, view, A, it, rng = lanczos(X, 3, 11)
    for _ in range(40):
        before = it.theta
        it = worker.step(view, it, rng)
        assert (it.theta >= before - 100 * np.finfo(dtype).eps).all()
    np.testing.assert_allclose(it.theta, np.linalg.eigvalsh(A)[::-1][:3], rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("settled", [False, True], ids=["late", "at once"])
def test_vectors_that_are_asked_for_late(dtype, settled):
    """The iterate of the step before is still right after a restart has changed what it is made of."""
    X = with_eigenvalues(200, 60, 0.9 ** np.arange(60)).astype(dtype)
    worker, view, A, it, rng = lanczos(X, 3, 11)
    restarts = 0
    for _ in range(12):
        size, last = worker.size, it
        if settled:
            last.settle()
        it = worker.step(view, it, rng)
        restarts += worker.size <= size
        W = last.W.astype(float)
        np.testing.assert_allclose(np.diag(W.T @ A @ W), last.theta, atol=300 * np.finfo(dtype).eps)
        R = A @ W - W * last.theta
        np.testing.assert_allclose(last.G, R.T @ R, atol=300 * np.finfo(dtype).eps)
        assert last.W is last.W and last.length == 60
    assert restarts > 3


@pytest.mark.reference
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 2, 4, 5, 8, 11])
@pytest.mark.parametrize("columns", [1, 3, 9])
def test_invariant_subspaces(rank, columns, dtype):
    """Rank-deficient data: random directions take over, and nothing is lost or made up."""
    X = with_singular_values(100, 50, 0.7 ** np.arange(rank)).astype(dtype)
    worker, view, A, it, rng = lanczos(X, columns)
    for _ in range(6):
        it = worker.step(view, it, rng)
        check(worker, A, it)
    values = np.linalg.eigvalsh(A)[::-1]
    np.testing.assert_allclose(it.theta, values[: len(it.theta)], atol=300 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("copies", [5, 9, 20])
def test_repeated_eigenvalues_of_any_multiplicity(copies, dtype):
    """A block of 4 sees a repeated eigenvalue 4 times only: the other copies come from random directions."""
    X = with_singular_values(200, 60, np.append(np.full(copies, 1.0), np.full(60 - copies, 0.5))).astype(dtype)
    worker, view, A, it, rng = lanczos(X, 7)
    while not worker.exhausted and worker.looks < 60:
        it = worker.step(view, it, rng)
        check(worker, A, it)
    values = np.linalg.eigvalsh(A)[::-1]
    np.testing.assert_allclose(it.theta, values[:7], atol=300 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(30, 30), (64, 32)], ids=str)
def test_the_identity(shape, dtype):
    """Every vector is an eigenvector: each block is invariant."""
    X = orthonormal(*shape, np.random.default_rng(0)).astype(dtype)
    worker, view, A, it, rng = lanczos(X, 3)
    for _ in range(12):
        it = worker.step(view, it, rng)
        check(worker, A, it)
    assert worker.exhausted and it.kind == "exact"
    np.testing.assert_allclose(it.theta, 1 / shape[1], rtol=300 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("d", "columns"), [(1, 1), (2, 1), (3, 2), (3, 3), (5, 5), (9, 8), (8, 7), (13, 2)])
def test_fewer_columns_than_a_block(d, columns, dtype):
    X = with_eigenvalues(40, d, 0.8 ** np.arange(d)).astype(dtype)
    worker, view, A, it, rng = lanczos(X, columns)
    check(worker, A, it)
    for _ in range(6):
        read = view.rows_read
        done = worker.exhausted
        it = worker.step(view, it, rng)
        check(worker, A, it)
        assert not done or view.rows_read == read  # there is nothing left to read for
    assert worker.exhausted and worker.size == d and it.kind == "exact"
    values = np.linalg.eigvalsh(A)[::-1]
    np.testing.assert_allclose(it.theta, values[:columns], atol=100 * np.finfo(dtype).eps)
    assert it.mu == pytest.approx(values[columns] if columns < d else 0.0, abs=100 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 5, 12, 30])
@pytest.mark.parametrize("center", [False, True])
def test_sparse_rows_against_lapack(k, center, dtype):
    rng = np.random.default_rng(k)
    D = sp.random_array((400, 150), density=0.05, rng=rng) @ sp.diags_array(0.97 ** np.arange(150))
    S = sp.csr_array(D, dtype=dtype)
    Z = S.toarray().astype(float)
    Z = Z - Z.mean(0) if center else Z
    tol = 1e-6 if dtype == np.float32 else 1e-10
    found = vrpca.svd(S, k, center=center, solver="accelerated", tol=tol, random_state=0, max_passes=500)
    assert found.converged
    assert_true_answer(found, Z, tol)


def test_zero_columns_stay_exactly_zero():
    X = np.zeros((100, 40))
    X[:, ::2] = with_eigenvalues(100, 20, 0.8 ** np.arange(20))
    worker, view, A, it, rng = lanczos(X, 3)
    for _ in range(4):
        it = worker.step(view, it, rng)
        check(worker, A, it)
        assert not it.W[1::2].any()


@pytest.mark.parametrize("kind", ["long", "dependent", "oblique"])
def test_any_start_will_do(kind):
    rng = np.random.default_rng(0)
    X = with_singular_values(500, 100, 0.9 ** np.arange(100))
    one = rng.standard_normal((1, 100))
    start = {"long": 7 * one, "dependent": np.tile(one, (3, 1)), "oblique": 1 + 0.1 * rng.standard_normal((6, 100))}
    found = vrpca.svd(X, 3, solver="accelerated", start=start[kind], random_state=0)
    assert_true_answer(found, X, 1e-8)


def test_an_orthonormal_start_will_do():
    X = with_singular_values(500, 100, 0.9 ** np.arange(100))
    for rows in (1, 3, 6):
        start = orthonormal(100, rows, np.random.default_rng(0)).T
        found = vrpca.svd(X, 3, solver="accelerated", start=start, random_state=0)
        assert found.converged
        assert_true_answer(found, X, 1e-8)


@pytest.mark.parametrize(("sparse", "k"), [(False, 3), (False, 6), (True, 6)])
def test_fewer_varying_columns_than_wanted_vectors(sparse, k):
    rng = np.random.default_rng(0)
    X = np.tile(rng.standard_normal(300), (500, 1))
    X[:, :5] += rng.standard_normal((500, 5)) * [5, 4, 3, 2, 1]
    data = sp.csr_array(np.hstack([X[:, :5], np.zeros((500, 295))])) if sparse else X
    found = vrpca.svd(data, k, center=not sparse, solver="accelerated", random_state=0, n_threads=1)
    Z = data.toarray() if sparse else X - X.mean(0)
    expected = np.linalg.svd(Z, compute_uv=False)[:k]
    np.testing.assert_allclose(found.s, expected, atol=1e-6 * expected[0])
