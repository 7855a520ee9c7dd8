"""The eigenvectors of A by LAPACK, whatever its faster methods do among equal eigenvalues."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import vrpca
from helpers import matrix_with_spectrum
from solvers.problems import suboptimality, transformed, view_of
from vrpca.data import gram
from vrpca.data.view import View
from vrpca.options import Options
from vrpca.solvers import gram as solver
from vrpca.solvers.gram import CHECKS, PRODUCTS, Checked, Gram, chi_squared, leading_pairs, squared_residuals

pytestmark = pytest.mark.reference


@pytest.fixture(params=["our kernel", "BLAS"], autouse=True)
def who_sums_up(request, monkeypatch):
    """A is summed up by our kernel or, if there are more columns than that is for, by BLAS."""
    if request.param == "BLAS":
        monkeypatch.setattr(gram, "NARROW", 0)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(("dtype", "rounding"), [(np.float64, 1e-13), (np.float32, 1e-5)])
@pytest.mark.parametrize("seed", [*range(12), 22, 24, 29, 83, 165, 250, 254, 269])
def test_equal_eigenvalues_and_one_that_connects_them(seed, dtype, rounding, size):
    """For some of these, bisection with inverse iteration fails or returns fewer pairs than asked for."""
    rng = np.random.default_rng(seed)
    d, equal = size * int(rng.integers(30, 70)), size * int(rng.integers(2, 20))
    A = np.diag(rng.permutation(np.append(np.ones(equal), np.full(d - equal, rng.choice([0, 0.1])))))
    A -= np.outer(A.mean(axis=0), A.mean(axis=0))
    for count in (1, 6, 12, d):
        V = leading_pairs(A, count, np.dtype(dtype)).V
        values = (V * (A @ V)).sum(axis=0)
        assert V.shape == (d, count)
        np.testing.assert_allclose(V.T @ V, np.eye(count), atol=1e-13)
        np.testing.assert_allclose(A @ V, V * values, atol=rounding)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[::-1][:count], atol=rounding)


@pytest.mark.parametrize("spread", [0.0, 1e-6, 1e-5, 3e-5, 1e-4, 1e-3])
@pytest.mark.parametrize(("d", "width"), [(30, 3), (60, 11), (90, 19), (150, 19), (400, 19)])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_outside_is_larger_than_is_told(d, width, spread, seed):
    """Among close eigenvalues, LAPACK in single precision may find others than the largest ones."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    A = (Q * (1 + spread * rng.random(d))) @ Q.T
    A /= np.trace(A)
    X = matrix_with_spectrum(d, d, np.ones(d), rng).astype(np.float32)
    solver, checks = Gram(Options(), width), np.zeros((d, 0))
    state = solver._solve(view_of(X), (A + A.T) / 2, Checked(0.0, checks, checks))
    W = scipy.linalg.null_space(state.vectors().astype(float).T)
    assert np.linalg.eigvalsh(W.T @ A @ W)[-1] <= state.mu
    assert state.mu <= (1 + 1e-5) * np.linalg.eigvalsh(A)[-1]


@pytest.mark.parametrize(("failure", "tol", "most"), [(1e-6, 1e-8, 6), (1e-12, 1e-8, 12), (1e-6, 1e-9, 12)])
def test_few_products_prove_loose_tolerances(failure, tol, most, rng, monkeypatch):
    """If the failure probability is small, they would prove little."""
    monkeypatch.setattr(gram, "NARROW", 0)  # sums of BLAS are rounded one way here, whatever our kernels are
    seen, exact_product = [], View.exact_product
    monkeypatch.setattr(View, "exact_product", lambda view, W: (seen.append(W.shape[1]), exact_product(view, W))[1])
    X = np.where(rng.random((5000, 260)) < 0.42, np.float32(6.7), np.float32(0))
    options = {"tol": tol, "failure_probability": failure, "solver": "gram"}
    found = vrpca.pca(X, 18, compute_u=False, random_state=0, **options)
    assert found.converged and seen == [most + CHECKS]
    assert suboptimality(transformed(X, True), found.Vt) <= found.certificate.suboptimality


@pytest.mark.parametrize("d", [40, 260])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mean", [0.0, 30.0])
def test_small_tolerances_of_float32_take_one_pass(mean, weighted, d, rng):
    """Its entries are multiplied in double precision at once, about an origin where the mean is large."""
    values = np.sqrt(np.r_[1, 0.95, 0.9, 0.5 * 0.98 ** np.arange(d - 3)])
    X = (matrix_with_spectrum(900, d, values, rng) * 20 + mean).astype(np.float32)
    weights = rng.uniform(0.5, 2, 900) if weighted else np.ones(900)
    Y = X.astype(np.float64)
    Z = np.sqrt(weights)[:, None] * (Y - np.average(Y, axis=0, weights=weights))
    largest = np.linalg.svd(Z, compute_uv=False)[:2]
    for options in ({"tol": 1e-11}, {"tol": 1e-6, "angle_tol": 1e-5}):
        found = vrpca.svd(X, 2, solver="gram", center=True, sample_weight=weights, compute_u=False, **options)
        assert found.converged and found.n_passes == 1 and found.certificate.kind == "exact"
        true = 1 - np.linalg.norm(Z @ np.linalg.qr(found.Vt.T.astype(float))[0]) ** 2 / (largest**2).sum()
        assert true <= found.certificate.suboptimality < 1e-11


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(("k", "proof"), [(6, "exact"), (20, "probabilistic")])
@pytest.mark.parametrize(
    "options", [{}, {"scale": True}, {"sample_weight": np.arange(1, 4001)}, {"restarts": 2}], ids=str
)
def test_rounding_of_single_precision_is_measured(k, proof, kind, options, rng):
    """Rows with columns in common are rounded one way: a model of rounding proves little, products do."""
    values = np.sqrt(np.r_[1.01 ** -np.arange(k), 0.99 * 1.01 ** -(k + np.arange(260.0 - k))])
    X = (matrix_with_spectrum(4000, 260, values, rng) * 20 + np.arange(260) % 3).astype(np.float32)
    Z = transformed(X.astype(float), True, options.get("scale", False), options.get("sample_weight"))
    data = X if kind == "dense" else sp.csr_array(X)
    found = vrpca.pca(data, k, solver="gram", tol=1e-10, compute_u=False, random_state=0, **options)
    assert found.converged and found.n_passes == 1 + options.get("restarts", 1)
    assert (found.certificate.kind, found.certificate.failure) == (proof, 0.0)
    assert found.certificate.ceiling == found.certificate.mu
    assert suboptimality(Z, found.Vt) <= found.certificate.suboptimality


@pytest.mark.parametrize(
    ("part", "bounds", "proof"), [(1.1, 2, "probabilistic"), (0.7, 3, "probabilistic"), (0.2, 3, "exact")]
)
def test_rounding_is_measured_again_with_more_products_where_that_may_be_enough(part, bounds, proof, rng, monkeypatch):
    """Of few products, squares may be 20 times as large as they look, of more 4 times. If not, A is summed up again."""
    for constant in ("SINGLE", "UNMEASURED"):  # single precision first, whatever the tolerance
        monkeypatch.setattr(solver, constant, 0.0)
    k, options = 20, {"solver": "gram", "compute_u": False, "random_state": 0}
    values = np.sqrt(np.r_[1.01 ** -np.arange(k), 0.99 * 1.01 ** -(k + np.arange(260.0 - k))])
    X = (matrix_with_spectrum(4000, 260, values, rng) * 20 + np.arange(260) % 3).astype(np.float32)
    first = vrpca.pca(X, k, tol=1e-10, **options).certificate.suboptimality
    found = vrpca.pca(X, k, tol=part * first, **options)
    assert found.converged and found.certificate.kind == proof
    assert len(found.history) == bounds and found.n_passes == bounds
    assert suboptimality(transformed(X.astype(float), True), found.Vt) <= found.certificate.suboptimality


@pytest.mark.parametrize(
    ("k", "options", "passes"),
    [
        (6, {"tol": 1e-10, "max_passes": 3}, 1),
        (6, {"tol": 1e-10, "cost": "reading"}, 1),
        (6, {"tol": 1e-6, "angle_tol": 2e-4}, 2),
        (0.2, {"tol": 1e-10}, 1),
        ("mle", {"tol": 1e-10}, 2),
    ],
)
def test_rounding_is_not_measured_where_double_precision_says_more(k, options, passes, rng):
    """For the left vectors, which Minka's formula needs, there is one more pass."""
    X = matrix_with_spectrum(4000, 260, np.sqrt(1.01 ** -np.arange(260.0)), rng).astype(np.float32) * 20
    found = vrpca.pca(X, k, solver="gram", compute_u=False, **options)
    assert found.converged and found.n_passes == passes
    assert found.certificate.kind == "exact" and found.certificate.suboptimality <= options["tol"]


@pytest.mark.parametrize(("d", "k"), [(150, 6), (260, 18)])
@pytest.mark.parametrize("tol", [1e-6, 1e-9])
@pytest.mark.parametrize("seed", range(4))
def test_equal_products_are_rounded_one_way(d, k, tol, seed):
    """Sums of thousands of them are off by more than sums of random numbers: the diagonal of A tells by how much."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((5000, d)) < 0.42, np.float32(rng.uniform(4, 8)), np.float32(0))
    found = vrpca.pca(X, k, solver="gram", tol=tol, n_threads=1, compute_u=False, random_state=0)
    assert found.converged
    assert suboptimality(transformed(X, True), found.Vt) <= found.certificate.suboptimality


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("k", [2, 16])
def test_measured_squares_bound_the_truth(k, seed):
    """Of an A that was summed up with large errors, by second-order perturbation of its eigenvalues."""
    rng = np.random.default_rng(seed)
    X = matrix_with_spectrum(300, 40, 0.8 ** np.arange(40), rng)
    view = view_of(X)
    A = view.matrix()
    E = rng.standard_normal((40, 40)) * 1e-6
    V = leading_pairs(A + E + E.T, k + 4, A.dtype).V
    values = (V * ((A + E + E.T) @ V)).sum(axis=0)
    true = np.linalg.eigvalsh(A)[::-1][:k].sum() - np.trace(V[:, :k].T @ A @ V[:, :k])
    gaps = values[:k] - values[k + 3], values[k - 1] - values[k : k + 3]
    V = V[:, : k + 3]
    found = []
    for mix in (np.eye(k), rng.standard_normal((k, PRODUCTS))):
        U = view.exact_product(V[:, :k] @ (mix / np.sqrt(gaps[0])[:, None]))
        found.append(squared_residuals(V, U, values[: k + 3], *gaps, mix))
    exact, mixed = found
    assert true <= 1.01 * exact <= 4 * true
    assert 0.1 < mixed / PRODUCTS / exact < 10


def test_rounding_that_the_diagonal_does_not_show_is_noticed():
    """Equal products that are rounded one way, of numbers whose squares are not: two eigenvalues change places."""
    many = np.repeat(np.float32([1.7796386, 1.3043426, 1.686473, 1.2873331, 1.1732962]), 25)
    few = np.repeat(np.float32([1.6432049, 1.4943948, 1.496252, 1.5450591]), 25)
    squares = [(part.astype(float) ** 2).sum() for part in (many, few)]
    X = np.zeros((16384, 229), np.float32)
    X[:8192, :125], X[8192:, 125:-4] = many, few
    X[8192:, -4:] = np.sqrt((squares[0] / (1 - 2.4e-6) - squares[1]) / 4)
    for seed in range(20):
        found = vrpca.svd(X, 1, solver="gram", tol=1e-8, n_threads=1, compute_u=False, random_state=seed)
        assert suboptimality(X.astype(float), found.Vt) <= found.certificate.suboptimality <= 1e-8


def test_some_of_all_components_are_as_accurate_as_was_asked(rng):
    """All of them are found whatever rounding does. Those that Minka's formula takes are found again if need be."""
    X = (rng.standard_normal((3000, 60)) * np.r_[np.full(30, 1.003) ** -np.arange(30), np.full(30, 0.99)]).astype(
        np.float32
    )
    found = vrpca.pca(X, "mle", solver="gram", tol=1e-9, compute_u=False, random_state=0)
    assert len(found.s) < 60 and found.converged
    assert suboptimality(transformed(X, True), found.Vt) <= found.certificate.suboptimality <= 1e-9


def test_random_combinations_seldom_see_less(rng):
    """The squares of combinations of one vector are below the quantile as often as the failure probability says."""
    seen = np.square(rng.standard_normal((20000, PRODUCTS))).sum(axis=1)
    assert 0.007 < np.mean(seen < chi_squared(PRODUCTS, 0.01)) < 0.013


def test_sparse_rows_are_never_summed_up_twice(rng):
    """Their products are in double precision anyway."""
    X = sp.random_array((3000, 60), density=0.05, rng=rng, format="csr", dtype=np.float32)
    found = vrpca.svd(X, 3, solver="gram", tol=1e-11, compute_u=False)
    assert found.n_passes == 1
