"""The search space: its identities after every way it can change, in both precisions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from helpers import summed
from solvers.problems import assert_orthonormal, normalised, orthonormal, view_of, with_eigenvalues
from vrpca.options import Options
from vrpca.solvers.krylov import Krylov
from vrpca.solvers.search_space import SearchSpace
from vrpca.solvers.witness import Witness


class Held(SearchSpace):
    """A search space that holds on to its operator, for short tests."""

    def __init__(self, operator, width, capacity):
        super().__init__(operator, width, capacity)
        self.operator = operator

    def expand(self, Z):
        super().expand(Z, self.operator)


DTYPES = (np.float32, np.float64)


class Matrix:
    """A symmetric matrix as an operator; zero rows are its columns without support."""

    def __init__(self, A, dtype=np.float64):
        self.A = np.asarray(A, float)
        self.d, self.dtype = len(A), np.dtype(dtype)
        self.support = self.A.any(axis=1)
        self.products, self.n_threads = 0, 1

    def product(self, W, *, out):
        self.products += 1
        out[...] = self.A @ W.astype(float)
        return out

    def room_for(self, vectors):
        return np.zeros((self.d, vectors), self.dtype)


def psd(values, d, seed=0):
    """A of trace 1 with these eigenvalues, up to a factor."""
    values = np.asarray(values, float) / np.sum(values)
    Q = orthonormal(d, len(values), np.random.default_rng(seed))
    return (Q * values) @ Q.T


def check(space, A, tolerance=None):
    """The invariant: S orthonormal, AS = S A, H = S A S^T, theta its eigenvalues."""
    eps = float(np.finfo(space.S.dtype).eps)
    tolerance = 200 * eps if tolerance is None else tolerance
    m = space.size
    S = space.S[:m].astype(float)
    assert_orthonormal(space.S[:m], tolerance)
    np.testing.assert_allclose(space.AS[:m], S @ A, atol=tolerance)
    np.testing.assert_allclose(space.H[:m, :m], S @ A @ S.T, atol=tolerance)
    np.testing.assert_allclose(space.theta, np.linalg.eigvalsh(S @ A @ S.T)[::-1], atol=tolerance)


def started(A, columns, capacity, dtype, seed=1):
    rng = np.random.default_rng(seed)
    space = Held(Matrix(A, dtype), columns, capacity)
    space.expand(space.new_directions(rng.standard_normal((columns + 1, len(A)), dtype=dtype), rng))
    return space, rng


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("capacity", [0, 14, 60])
def test_identities_after_every_step(columns, capacity, dtype):
    """However often room has to be made."""
    A = psd(0.9 ** np.arange(60), 60)
    space, rng = started(A, columns, capacity, dtype)
    check(space, A)
    restarts, width = 0, columns + 1
    for _ in range(5):
        _, R = space.residuals(width)
        before = space.size
        space.shrink(width)
        restarts += space.size < before
        check(space, A)
        Z = space.new_directions(R, rng)
        joint = np.vstack([space.S[: space.size], Z])
        assert len(Z) and joint.shape[0] <= len(space.S)
        assert_orthonormal(joint, 200 * np.finfo(dtype).eps)
        space.expand(Z)
        check(space, A)
    assert restarts or capacity > width * 6


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("columns", "capacity"), [(1, 0), (3, 14), (3, 40), (6, 84)])
def test_identities_hold_in_long_runs(columns, capacity, dtype):
    A = psd(0.98 ** np.arange(300), 300)
    space, rng = started(A, columns, capacity, dtype)
    small = 100 * np.finfo(dtype).eps + summed(150 * len(space.S), dtype)  # restarts combine vectors, again and again
    for _ in range(150):
        _, R = space.residuals(columns + 1)
        space.shrink(columns + 1)
        space.expand(space.new_directions(R, rng))
        check(space, A, small)
    eigenvalues = np.linalg.eigvalsh(A)[::-1]
    assert (space.theta[:columns] <= eigenvalues[:columns] * (1 + 2 * small)).all()


@pytest.mark.parametrize("cost", ["time", "passes"])
def test_axes_are_orthonormal_to_rounding(cost):
    X = sp.random_array((3000, 300), density=0.05, rng=np.random.default_rng(0)).toarray()
    found = vrpca.svd(X, 5, solver="accelerated", cost=cost, random_state=0)
    assert found.converged
    assert_orthonormal(found.Vt, 100 * np.finfo(float).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("capacity", [0, 12])
def test_ritz_values_never_fall(capacity, dtype):
    """Neither by growing nor by a restart, which keeps the leading ones."""
    space, rng = started(psd(1 / np.arange(1, 41), 40), 3, capacity, dtype)
    slack = 50 * np.finfo(dtype).eps
    for _ in range(15):
        before = space.theta[:4].copy()
        _, R = space.residuals(4)
        space.shrink(4)
        assert (space.theta[:4] >= before - slack).all()
        space.expand(space.new_directions(R, rng))
        assert (space.theta[:4] >= before - slack).all()
        assert (space.theta[:4] <= np.linalg.eigvalsh(space.operator.A)[::-1][:4] + slack).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_restart_keeps_the_vectors_of_the_step_before(dtype):
    """As locally optimal conjugate gradients do: their span is still there after room was made."""
    space, rng = started(psd(0.8 ** np.arange(50), 50), 2, 18, dtype)
    before = None
    while True:
        _, R = space.residuals(3)
        size, now = space.size, space.vectors(3).astype(float)
        space.shrink(3)
        if space.size < size:
            break
        before = now
        space.expand(space.new_directions(R, rng))
    S = space.S[: space.size].astype(float)
    for vectors in (now, before):
        np.testing.assert_allclose((vectors @ S.T) @ S, vectors, atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_states_and_their_residuals(dtype):
    A = psd(0.7 ** np.arange(30), 30)
    space, rng = started(A, 3, 30, dtype)
    solver = Krylov(Options(), 3)
    solver.watched = 5
    eps = 200 * np.finfo(dtype).eps
    for products in range(1, 5):
        V, R = space.residuals(5)
        V = V.astype(float)
        assert len(V) == len(R) == min(5, space.size)
        np.testing.assert_allclose(R, V @ A - V * space.theta[: len(R), None], atol=eps)
        np.testing.assert_allclose(V, space.vectors(5), atol=eps)
        state = solver.state(space, products, Witness((np.ones(30),)))
        W = state.vectors().astype(float)
        assert W.shape == (30, 3) and state.theta.shape == (3,) and len(state.residuals) == 3
        np.testing.assert_allclose(W.T, V[:3], atol=eps)
        np.testing.assert_allclose(W.T @ A @ W, np.diag(state.theta), atol=eps)
        true = A @ W - W * state.theta
        np.testing.assert_allclose(state.residuals[:3].T, true, atol=eps)
        np.testing.assert_allclose(state.G, true.T @ true, atol=eps)
        outside = np.linalg.eigvalsh(A - W @ W.T @ A - A @ W @ W.T + W @ (W.T @ A @ W) @ W.T)[-1]
        assert state.kind == "estimated" and state.mu >= outside - eps
        space.expand(space.new_directions(R, rng))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_full_space_knows_everything(dtype):
    A = psd(0.9 ** np.arange(13), 13)
    space, rng = started(A, 3, 100, dtype)
    assert len(space.S) == 13  # no more than there is
    while not space.full:
        space.expand(space.new_directions(space.residuals(4)[1], rng))
        check(space, A)
    eigenvalues = np.linalg.eigvalsh(A)[::-1]
    np.testing.assert_allclose(space.theta, eigenvalues, atol=100 * np.finfo(dtype).eps)
    state = Krylov(Options(), 3).state(space, 4, Witness((np.ones(13),)))
    assert state.kind == "exact" and state.steps_left == 0
    assert state.mu == pytest.approx(eigenvalues[3], abs=100 * float(np.finfo(dtype).eps))
    assert len(space.new_directions(np.ones((4, 13), dtype), rng)) == 0  # nothing is left


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("old", [1, 3, 5])
def test_directions_that_are_there_already_become_random_ones(old, dtype):
    space, rng = started(psd(np.ones(25), 25), 3, 25, dtype)
    Z = rng.standard_normal((5, 25), dtype=dtype)
    Z[:old] = rng.standard_normal((old, space.size)).astype(dtype) @ space.S[: space.size]
    new = space.new_directions(Z, rng)
    assert len(new) == 5
    assert_orthonormal(np.vstack([space.S[: space.size], new]), 100 * np.finfo(dtype).eps)
    kept = np.vstack([space.S[: space.size], new]).astype(float)
    np.testing.assert_allclose((Z @ kept.T) @ kept, Z, atol=1e-4 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("what", ["zero", "equal", "nearly equal", "tiny", "huge"])
def test_directions_of_any_size(what, dtype):
    space, rng = started(psd(np.ones(25), 25), 3, 25, dtype)
    Z = rng.standard_normal((4, 25), dtype=dtype)
    if what == "zero":
        Z[1:3] = 0
    elif what == "equal":
        Z[1:] = Z[0]
    elif what == "nearly equal":
        Z[1:] = Z[0] + 100 * np.finfo(dtype).eps * Z[1:]
    else:
        Z *= dtype(1e-15 if what == "tiny" else 1e15)
    new = space.new_directions(Z, rng)
    assert len(new) == 4
    assert_orthonormal(np.vstack([space.S[: space.size], new]), 100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("capacity", [0, 40])
def test_zero_columns_stay_exactly_zero(capacity, dtype):
    """Through residuals, random directions and restarts."""
    A = np.zeros((40, 40))
    there = np.arange(0, 40, 2)
    A[np.ix_(there, there)] = psd(np.array([5, 1, 1, 1]), 20)
    space = Held(Matrix(A, dtype), 3, capacity)
    rng = np.random.default_rng(0)
    first = rng.standard_normal((4, 40), dtype=dtype)
    first[:, 1::2] = 0
    space.expand(space.new_directions(first, rng))
    for _ in range(8):
        _, R = space.residuals(4)
        space.shrink(4)
        Z = space.new_directions(R, rng)
        assert not Z[:, 1::2].any()
        if not len(Z):
            break
        space.expand(Z)
        assert not space.S[: space.size, 1::2].any() and not space.residuals(4)[0][:, 1::2].any()
        check(space, A)
    np.testing.assert_allclose(space.theta[:3], [0.625, 0.125, 0.125], rtol=1e-5)


def test_every_expansion_is_one_product():
    space, rng = started(psd(0.9 ** np.arange(30), 30), 2, 12, np.float64)
    for count in range(2, 9):
        _, R = space.residuals(3)
        space.shrink(3)
        space.expand(space.new_directions(R, rng))
        assert space.operator.products == count


@pytest.mark.reference
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("empty", [False, True], ids=["all columns", "empty columns"])
@pytest.mark.parametrize("capacity", [0, 40], ids=["restarts", "until it is full"])
def test_the_invariant_on_views(dtype, sparse, empty, capacity):
    """After every expansion and every restart, until the space is full where it may grow so far."""
    X = with_eigenvalues(300, 20, 0.7 ** np.arange(20)).astype(dtype)
    if empty:
        X = np.hstack([X, np.zeros((300, 15), dtype)])[:, np.random.default_rng(1).permutation(35)]
    view = view_of(sp.csr_array(X) if sparse else X)
    A = normalised(X)[1]
    assert view.support.sum() == 20
    space, rng = Held(view, 2, capacity), np.random.default_rng(0)
    space.expand(space.new_directions(rng.standard_normal((3, view.d), dtype=dtype) * view.support, rng))
    check(space, A)
    expansions, restarts = 1, 0
    while not space.full and expansions < 12:
        R, size = space.residuals(3)[1], space.size
        space.shrink(3)
        restarts += space.size < size
        check(space, A)
        space.expand(space.new_directions(R, rng))
        expansions += 1
        check(space, A)
        assert not space.S[: space.size, ~view.support].any()
    assert space.full == (capacity == 40) and (restarts > 3) == (capacity == 0)
    assert view.rows_read == expansions * 300
    if space.full:
        assert space.size == space.order == 20
        np.testing.assert_allclose(space.theta, np.linalg.eigvalsh(A)[::-1][:20], atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [60, 2000])
def test_the_last_direction_is_found(d, dtype):
    """A random vector has little left outside of all the others."""
    rng = np.random.default_rng(0)
    space = Held(view_of(rng.standard_normal((10, d)).astype(dtype)), 1, d)
    space.S[: d - 1] = np.linalg.qr(rng.standard_normal((d, d)))[0][: d - 1]
    space.size = d - 1
    (last,) = space.new_directions(np.zeros((1, d), dtype), rng)
    assert np.abs(space.S[: d - 1] @ last).max() < 10 * np.finfo(dtype).eps
    assert np.linalg.norm(last) == pytest.approx(1)


@pytest.mark.parametrize("d", [33, 40, 47, 48])
def test_no_restart_where_all_that_is_left_fits(d):
    flat = np.random.default_rng(0).standard_normal((3000, d))
    found = vrpca.svd(flat, 8, solver="krylov", oversample=0, tol=1e-10, random_state=0, compute_u=False)
    assert found.certificate.kind == "exact" and found.n_passes <= 2 + -(-d // 9)
