"""Block Lanczos: its identity at every step, residuals without vectors, invariant subspaces, restarts."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from solvers.problems import (
    NOTHING_FOUND,
    assert_orthonormal,
    assert_true_answer,
    normalised,
    orthonormal,
    view_of,
    with_eigenvalues,
    with_singular_values,
)
from vrpca.linalg import ritz, sweep
from vrpca.options import Options
from vrpca.solvers.accelerated import Narrow
from vrpca.solvers.lanczos import Lanczos

DTYPES = (np.float32, np.float64)


def narrow(X, width, capacity=None, seed=0):
    """A solver, its view, A, the first state and the generator; `capacity` makes restarts come sooner."""
    view, rng = view_of(X), np.random.default_rng(seed)
    solver = Narrow(Options(), width)
    state = solver.start(view, NOTHING_FOUND, rng)
    if capacity is not None:
        assert capacity >= state.space.keep + state.space.block
        state.space.capacity = min(capacity, view.d)
    return solver, view, normalised(X)[1], state, rng


def check_factorisation(space, A):
    """The invariant: ``S A = H S + B^T Z``, S and Z orthonormal, and orthogonal to each other."""
    tolerance = 300 * float(np.finfo(space.S.dtype).eps)
    S, Z = space.S[: space.size].astype(float), space.Z.astype(float)
    assert space.H.shape == (len(S), len(S)) and space.B.shape == (len(Z), len(S))
    assert_orthonormal(np.vstack([space.S[: space.size], space.Z]), tolerance)
    np.testing.assert_allclose(S @ A, space.H @ S + space.B.T @ Z, atol=tolerance)
    np.testing.assert_allclose(space.H, S @ A @ S.T, atol=tolerance)


def check(state, A):
    """The invariant, and what the state says of itself."""
    check_factorisation(state.space, A)
    tolerance = 300 * float(np.finfo(state.space.S.dtype).eps)
    W = state.vectors().astype(float)
    R = A @ W - W * state.theta
    assert_orthonormal(np.ascontiguousarray(state.vectors().T), tolerance)
    np.testing.assert_allclose(W.T @ A @ W, np.diag(state.theta), atol=tolerance)
    np.testing.assert_allclose(state.G, R.T @ R, atol=tolerance)
    lengths = np.sqrt(np.clip(np.diag(state.G), 0, None))
    np.testing.assert_allclose(lengths, np.linalg.norm(R, axis=0), atol=tolerance)


@pytest.mark.reference
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_factorisation_that_is_completed_has_the_projection_of_a(dtype, steps):
    X = with_eigenvalues(150, 36, 0.9 ** np.arange(36)).astype(dtype)
    view, A, rng = view_of(X), normalised(X)[1], np.random.default_rng(0)
    space = Lanczos(view, width=5, block=4, keep=9, capacity=40, rng=rng)
    for _ in range(steps):
        space.expand(view, rng)
    space.complete(view)
    S, tolerance = space.S[: space.size].astype(float), 300 * float(np.finfo(dtype).eps)
    assert space.size == 4 * (steps + 1) and space.pending == 0
    assert_orthonormal(space.S[: space.size], tolerance)
    np.testing.assert_allclose(space.H, S @ A @ S.T, atol=tolerance)


@pytest.mark.reference
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("empty", [False, True], ids=["all columns", "empty columns"])
@pytest.mark.parametrize("start", ["random", "guess", "long guess"])
@pytest.mark.parametrize("capacity", [16, 40], ids=["restarts", "until it is full"])
def test_the_invariant_on_views(dtype, sparse, empty, start, capacity):
    """At first, after every `expand` and every `shrink`, until the space is full where it may grow so far."""
    X = with_eigenvalues(150, 36, 0.9 ** np.arange(36)).astype(dtype)
    if empty:
        X = np.hstack([X, np.zeros((150, 14), dtype)])[:, np.random.default_rng(1).permutation(50)]
    view, A, rng = view_of(sp.csr_array(X) if sparse else X), normalised(X)[1], np.random.default_rng(0)
    rows = {"random": 0, "guess": 2, "long guess": 9}[start]
    W0 = (7 * orthonormal(view.d, rows, rng) * view.support[:, None]).astype(dtype) if rows else None
    space = Lanczos(view, width=5, block=4, keep=9, capacity=capacity, rng=rng, W0=W0)
    check_factorisation(space, A)
    assert space.size == 0 and space.pending == (4 if rows < 4 else 6)
    products, restarts, sizes = 0, 0, []
    while space.pending and products < 20:
        sizes.append(space.size)
        if space.crowded:
            kept, known = space.combined(ritz(space.H)[1][:, :9]), int(rng.integers(0, 7))
            space.shrink(kept[:known])
            np.testing.assert_allclose(space.S[: space.size], kept, atol=10 * np.finfo(dtype).eps)
            restarts += 1
        check_factorisation(space, A)
        space.expand(view, rng)
        products += 1
        check_factorisation(space, A)
        assert space.size + space.pending <= len(space.S) and not space.S[: space.size, ~view.support].any()
    assert view.rows_read == products * 150
    if capacity == 16:
        assert restarts > 5 and space.size < space.order and max(sizes) <= 16
    else:
        assert restarts == 0 and space.size == space.order == 36 and sizes == sorted(sizes)
        np.testing.assert_allclose(
            space.pairs(1)[0], np.linalg.eigvalsh(A)[::-1][:36], atol=300 * float(np.finfo(dtype).eps)
        )


@pytest.mark.reference
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 3, 9, 20])
@pytest.mark.parametrize("tight", [False, True], ids=["room", "restarts"])
def test_identity_at_every_step(columns, dtype, tight):
    X = with_eigenvalues(200, 120, 0.93 ** np.arange(120)).astype(dtype)
    block = 4 if columns < 16 else 8
    solver, view, A, state, rng = narrow(X, columns, columns + 2 * block if tight else None)
    check(state, A)
    assert state.space.block == block and state.products == 1
    assert view.rows_read == solver.passes(view, NOTHING_FOUND).start * 200
    restarts = 0
    for step in range(2, 16):
        read, size = view.rows_read, state.space.size
        state = solver.step(view, state, rng)
        restarts += state.space.size <= size
        assert view.rows_read == read + 200 and state.products == step
        check(state, A)
    assert restarts > 3 if tight else restarts <= 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_of_what_is_in_the_space_already_does_not_become_a_direction(dtype):
    """Rows that are multiples of one vector in S, but for their last bits: whatever is kept of them is orthonormal.

    Products are like that where centring leaves little but rounding.
    """
    d, base, count, eps = 22, 20, 4, float(np.finfo(dtype).eps)
    for seed in range(300):
        rng = np.random.default_rng(seed)
        space = Lanczos(view_of(rng.standard_normal((50, d)).astype(dtype)), 6, count, 10, d, rng)
        space.S = np.empty((base + 2 * count, d), dtype)
        space.S[:base] = orthonormal(d, base, rng).T
        V = space.S[base : base + count]
        V[...] = 1e-10 * np.outer(2.0 ** -np.arange(count), rng.standard_normal(base) @ space.S[:base].astype(float))
        V[0] = np.where(rng.random(d) < 0.1, np.nextafter(V[0], dtype(1)), V[0])
        kept = space._orthonormal_levels(base, sweep(space.S[:base], V, n_threads=1), 1e-27)[2]
        S = space.S[: base + kept].astype(float)
        np.testing.assert_allclose(S[base:] @ S.T, np.eye(len(S))[base:], atol=16 * eps * np.sqrt(d), err_msg=str(seed))


@pytest.mark.parametrize("dtype", DTYPES)
def test_ritz_values_never_fall_through_restarts(dtype):
    X = with_eigenvalues(300, 100, 1 / np.arange(1, 101)).astype(dtype)
    solver, view, A, state, rng = narrow(X, 3, 11)
    for _ in range(40):
        before = state.theta
        state = solver.step(view, state, rng)
        assert (state.theta >= before - 100 * np.finfo(dtype).eps).all()
    np.testing.assert_allclose(state.theta, np.linalg.eigvalsh(A)[::-1][:3], rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_that_are_asked_for_late(dtype):
    """The state of the step before is still right after a restart has changed what it is made of."""
    X = with_eigenvalues(200, 60, 0.9 ** np.arange(60)).astype(dtype)
    solver, view, A, state, rng = narrow(X, 3, 11)
    restarts = 0
    for _ in range(12):
        last, early, size = state, copy.deepcopy(state).vectors(), state.space.size
        state = solver.step(view, state, rng)
        restarts += state.space.size <= size
        W = last.vectors().astype(float)
        np.testing.assert_allclose(W, early, atol=100 * np.finfo(dtype).eps)
        np.testing.assert_allclose(np.diag(W.T @ A @ W), last.theta, atol=300 * np.finfo(dtype).eps)
        R = A @ W - W * last.theta
        np.testing.assert_allclose(last.G, R.T @ R, atol=300 * np.finfo(dtype).eps)
        assert last.d == 60
    assert restarts > 3


@pytest.mark.reference
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 2, 4, 5, 8, 11])
@pytest.mark.parametrize("columns", [1, 3, 9])
def test_invariant_subspaces(rank, columns, dtype):
    """Rank-deficient data: random directions take over, and nothing is lost or made up."""
    X = with_singular_values(100, 50, 0.7 ** np.arange(rank)).astype(dtype)
    solver, view, A, state, rng = narrow(X, columns)
    for _ in range(6):
        state = solver.step(view, state, rng)
        check(state, A)
    values = np.linalg.eigvalsh(A)[::-1]
    np.testing.assert_allclose(state.theta, values[: len(state.theta)], atol=300 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("copies", [5, 9, 20])
def test_repeated_eigenvalues_of_any_multiplicity(copies, dtype):
    """A block of 4 sees a repeated eigenvalue 4 times only: the other copies come from random directions."""
    X = with_singular_values(200, 60, np.append(np.full(copies, 1.0), np.full(60 - copies, 0.5))).astype(dtype)
    solver, view, A, state, rng = narrow(X, 7)
    while state.steps_left != 0 and state.products < 60:
        state = solver.step(view, state, rng)
        check(state, A)
    values = np.linalg.eigvalsh(A)[::-1]
    np.testing.assert_allclose(state.theta, values[:7], atol=300 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(30, 30), (64, 32)], ids=str)
def test_the_identity(shape, dtype):
    """Every vector is an eigenvector: each block is invariant."""
    X = orthonormal(*shape, np.random.default_rng(0)).astype(dtype)
    solver, view, A, state, rng = narrow(X, 3)
    for _ in range(12):
        state = solver.step(view, state, rng)
        check(state, A)
    assert state.steps_left == 0 and state.kind == "exact"
    np.testing.assert_allclose(state.theta, 1 / shape[1], rtol=300 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("d", "columns"), [(1, 1), (2, 1), (3, 2), (3, 3), (5, 5), (9, 8), (8, 7), (13, 2)])
def test_fewer_columns_than_a_block(d, columns, dtype):
    X = with_eigenvalues(40, d, 0.8 ** np.arange(d)).astype(dtype)
    solver, view, A, state, rng = narrow(X, columns)
    check(state, A)
    for _ in range(6):
        read = view.rows_read
        done = state.steps_left == 0
        state = solver.step(view, state, rng)
        check(state, A)
        assert not done or view.rows_read == read  # there is nothing left to read for
    assert state.steps_left == 0 and state.space.size == d and state.kind == "exact"
    values = np.linalg.eigvalsh(A)[::-1]
    np.testing.assert_allclose(state.theta, values[:columns], atol=100 * np.finfo(dtype).eps)
    assert state.mu == pytest.approx(values[columns] if columns < d else 0.0, abs=100 * float(np.finfo(dtype).eps))


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
    solver, view, A, state, rng = narrow(X, 3)
    for _ in range(4):
        state = solver.step(view, state, rng)
        check(state, A)
        assert not state.vectors()[1::2].any()


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


@pytest.mark.reference
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(4))
def test_directions_of_unlike_lengths(seed, dtype):
    """A block whose products differ in length by thousands keeps the invariant: the short ones lose no digits."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((rows, 3)))[0] for rows in (4, 55))
    X = ((U * [1.0, 0.95, 0.02]) @ V.T).astype(dtype)
    _, _, A, state, _ = narrow(X, 3)
    space = state.space
    S, Z = (rows.astype(float) for rows in (space.S[: space.size], space.Z))
    error = np.linalg.norm(S @ A - space.H @ S - space.B.T @ Z, axis=1).max()
    assert error <= 8 * np.finfo(dtype).eps


@pytest.mark.reference
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(6))
def test_the_last_block_of_a_small_space_is_as_exact_as_the_others(seed, dtype):
    """Nothing is left of its products outside S. What they see of S counts: two rows here are nearly equal."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((3, 7)).astype(dtype)
    X[2] = X[0] + 0.1 * rng.standard_normal(7)
    solver, view, A, state, rng = narrow(X, 7)
    while state.space.pending:
        state = solver.step(view, state, rng)
    S = state.space.S[: state.space.size].astype(float)
    assert len(S) == 7
    assert np.abs(S @ A @ S.T - state.space.H).max() <= 4 * np.finfo(dtype).eps
