"""The product of a block with A in the first pass, against A in full; the solver that starts from it."""

from __future__ import annotations

import numpy as np
import pytest
from data_cases import Blocks

import vrpca
from solvers.problems import ChunkedSource, assert_orthonormal, assert_true_answer, with_eigenvalues
from vrpca.data.first_pass import FirstProductSum
from vrpca.data.gram import GramSum
from vrpca.data.open import as_source
from vrpca.data.view import Problem, View
from vrpca.errors import DataError
from vrpca.solvers.search_space import SearchSpace


def seen(X, W, origin, weights, threads=2):
    """The view, and the block with its image as the first pass finds them; or None."""
    problem = Problem(as_source(X), weights, origin is not None, False, threads)
    guest = np.linspace(1, 2, len(W)).astype(W.dtype)
    first_pass = problem.first_pass(FirstProductSum(problem, W, origin, 0, guest))
    view = View.of(problem, first_pass.moments)
    return view, view.receive(first_pass).found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("factor", [1.0, 1e-15, 1e15])
@pytest.mark.parametrize("center", [False, True])
def test_against_the_whole_matrix(center, factor, weighted, threads, dtype, rng):
    X = ((rng.standard_normal((3000, 30)) * np.linspace(2, 1, 30) + rng.standard_normal(30)) * factor).astype(dtype)
    X[:, 7] = 0
    X[:, 9] = 3 * factor  # constant: no part of it is left by centring
    weights = rng.uniform(0, 2, 3000) if weighted else None
    origin = X[:200].astype(float).mean(axis=0) if center else None
    view, pair = seen(X, rng.standard_normal((30, 4)).astype(dtype), origin, weights, threads)
    W, U = pair.W, pair.U
    assert W.dtype == U.dtype == dtype and (W[7] == 0).all() and ((W[9] == 0).all() or not center)
    assert (U[7] == 0).all() and ((U[9] == 0).all() or not center)
    assert_orthonormal(np.ascontiguousarray(W.T))
    np.testing.assert_allclose(U, view.matrix() @ W, atol=10 * np.finfo(dtype).eps)
    assert pair.guest[7] == 0 and np.linalg.norm(pair.guest) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(pair.image, view.matrix() @ pair.guest, atol=10 * np.finfo(dtype).eps)


@pytest.mark.parametrize("mean", [1e3, 1e5])
def test_a_large_mean_cancels(mean, rng):
    X = (mean + rng.standard_normal((3000, 20)) * np.linspace(2, 1, 20)).astype(np.float32)
    view, pair = seen(X, rng.standard_normal((20, 4)).astype(np.float32), X[:200].astype(float).mean(axis=0), None)
    np.testing.assert_allclose(pair.U, view.matrix() @ pair.W, atol=20 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e-150, 1e150])
@pytest.mark.parametrize("center", [False, True])
def test_numbers_of_any_size(center, size, rng):
    """Also where the square of the unit, and that of the trace, leave double precision."""
    X = with_eigenvalues(6000, 300, 0.9 ** np.arange(300))
    found = vrpca.svd(X * size, 2, center=center, solver="accelerated", tol=1e-8, random_state=0, compute_u=False)
    plain = vrpca.svd(X, 2, center=center, solver="accelerated", tol=1e-8, random_state=0, compute_u=False)
    assert found.converged and found.n_passes == plain.n_passes and found.history[0].passes == pytest.approx(1.05)
    np.testing.assert_allclose(found.s / size, plain.s, rtol=1e-8)


@pytest.mark.parametrize("sizes", [(1.0, 1e-200, 1.0), (0.0, 1e-200, 1e-50), (1e200, 1.0, 1.0), (0.0, 1e200, 1.0)])
@pytest.mark.parametrize("kind", ["product", "gram"])
def test_first_rows_that_do_not_count(kind, sizes, rng):
    """They set the scale of the moments, the next ones the unit of products: a finding is true, or there is none."""
    blocks = [size * rng.standard_normal((100, 6)) for size in sizes]
    weights = np.r_[np.zeros(100), np.ones(200)]
    problem = Problem(Blocks(*blocks), weights, False, False, 1)
    guest = np.eye(6)[2]
    sums = GramSum(problem) if kind == "gram" else FirstProductSum(problem, np.eye(6)[:, :2].copy(), None, 0, guest)
    first_pass = problem.first_pass(sums)
    view = View.of(problem, first_pass.moments)
    found = view.receive(first_pass).found
    if found is not None:
        image = found.A[:, :2] if kind == "gram" else found.U
        np.testing.assert_allclose(image, view.matrix()[:, :2], atol=1e-14)


def test_an_origin_that_is_far_off_is_not_used(rng):
    X = (1e5 + rng.standard_normal((3000, 20))).astype(np.float32)
    assert seen(X, rng.standard_normal((20, 4)).astype(np.float32), np.zeros(20), None)[1] is None


@pytest.mark.parametrize("center", [False, True])
def test_it_saves_a_pass(center):
    """The first look at the data, 5% of the rows, and no product of its own for the start."""
    X = with_eigenvalues(6000, 300, 0.9 ** np.arange(300))
    source = ChunkedSource(X, 500)
    found = vrpca.svd(source, 2, center=center, solver="accelerated", tol=1e-8, random_state=0, compute_u=False)
    assert found.converged
    assert_true_answer(found, X - X.mean(axis=0) if center else X, 1e-8)
    assert found.history[0].passes == pytest.approx(1 + 500 / 6000), "a block of the source holds the sample"
    assert source.handed_out == round(6000 * found.n_passes)


def test_what_is_not_finite_is_reported_with_its_place():
    X = np.ones((6000, 300)) + np.random.default_rng(0).standard_normal((6000, 300))
    X[4321, 12] = np.nan
    for seed in range(40):  # some samples hold the row, others do not
        with pytest.raises(DataError, match="row 4321, column 12"):
            vrpca.svd(X, 2, solver="accelerated", random_state=seed)


def test_columns_that_the_sample_does_not_show():
    """One row has all there is in a column, and most of the variance."""
    X = with_eigenvalues(6000, 300, 0.9 ** np.arange(300))
    X[:, 5] = 0
    X[1234, 5] = 3 * np.linalg.norm(X)
    for seed in range(10):
        found = vrpca.svd(X, 2, solver="accelerated", tol=1e-8, random_state=seed, compute_u=False)
        assert found.converged
        assert_true_answer(found, X, 1e-8)


def test_restarts_are_independent(monkeypatch):
    """Only the first run begins with the product that was made on the way."""
    known = []
    expand = SearchSpace.expand

    def noted(space, Z, operator, images=None, guest=None):
        known.append(images)
        return expand(space, Z, operator, images, guest)

    monkeypatch.setattr(SearchSpace, "expand", noted)
    X = with_eigenvalues(6000, 300, 0.9 ** np.arange(300))
    assert vrpca.svd(X, 2, solver="accelerated", tol=1e-8, restarts=2, random_state=0, compute_u=False).converged
    assert sum(images is not None for images in known) == 1
