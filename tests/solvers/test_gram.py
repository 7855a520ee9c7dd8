"""The eigenvectors of A by LAPACK, whatever its faster methods do among equal eigenvalues."""

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from helpers import matrix_with_spectrum
from solvers.problems import suboptimality, transformed, view_of
from vrpca.solvers.gram import PRODUCTS, chi_squared, leading_pairs, squared_residuals

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("seed", [*range(12), 22, 24, 29, 83, 165, 250, 254, 269])
def test_equal_eigenvalues_and_one_that_connects_them(seed):
    """For some of these, bisection with inverse iteration fails or returns fewer pairs than asked for."""
    rng = np.random.default_rng(seed)
    d, equal = int(rng.integers(30, 70)), int(rng.integers(2, 20))
    A = np.diag(rng.permutation(np.append(np.ones(equal), np.full(d - equal, rng.choice([0, 0.1])))))
    A -= np.outer(A.mean(axis=0), A.mean(axis=0))
    for count in (1, 6, 12, d):
        values, V = leading_pairs(A, count)
        assert V.shape == (d, count)
        np.testing.assert_allclose(V.T @ V, np.eye(count), atol=1e-13)
        np.testing.assert_allclose(A @ V, V * values, atol=1e-13)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[::-1][:count], atol=1e-13)


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
    values, V = leading_pairs(A + E + E.T, k + 4)
    true = np.linalg.eigvalsh(A)[::-1][:k].sum() - np.trace(V[:, :k].T @ A @ V[:, :k])
    gaps = values[:k] - values[k + 3], values[k - 1] - values[k : k + 3]
    V = V[:, : k + 3]
    exact = squared_residuals(view, V, values[: k + 3], *gaps, np.eye(k))
    assert true <= 1.01 * exact <= 4 * true
    mixed = squared_residuals(view, V, values[: k + 3], *gaps, rng.standard_normal((k, PRODUCTS)))
    assert 0.1 < mixed / PRODUCTS / exact < 10


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
