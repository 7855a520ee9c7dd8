"""Certificates: never below the truth where they are exact, right at every stop where they are estimated."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import vrpca
from helpers import eps
from solvers.problems import lapack, orthonormal, suboptimality, with_eigenvalues
from vrpca.certificate import QUOTIENT, certify

SPECTRA = {
    "geometric": lambda d, rng: rng.uniform(0.3, 0.95) ** np.arange(d),
    "flat": lambda d, rng: 1 + 0.02 * rng.random(d),
    "clustered": lambda d, rng: np.concatenate([1 + 1e-3 * rng.random(4), 0.2 * rng.random(d - 4)]),
    "cluster in the middle": lambda d, rng: np.concatenate(
        [[3.0, 2.0], 1 + 1e-4 * rng.random(6), 0.1 * rng.random(d - 8)]
    ),
    "repeated": lambda d, rng: np.repeat(rng.random(-(-d // 3)) + 0.1, 3)[:d],
    "rank deficient": lambda d, rng: np.concatenate([rng.random(3) + 0.1, np.zeros(d - 3)]),
    "power law": lambda d, rng: np.arange(1, d + 1.0) ** -rng.uniform(0.5, 2),
    "spike in a flat bulk": lambda d, rng: np.concatenate([[5.0], 1 + 0.01 * rng.random(d - 1)]),
    "hidden": lambda d, rng: np.concatenate([[1.3], np.linspace(1.0, 0.5, d - 1)]),
}


def problem(kind: str, seed: int, n: int = 150, d: int = 24) -> np.ndarray:
    """Data with this kind of spectrum; `hidden` puts the largest value on one coordinate that few rows show."""
    rng = np.random.default_rng(seed)
    values = np.sort(SPECTRA[kind](d, rng))[::-1]
    if kind != "hidden":
        return with_eigenvalues(n, d, values, seed)
    X = np.zeros((n, d))
    X[1:, 1:] = orthonormal(n - 1, d - 1, rng) * np.sqrt(n * values[1:]) @ orthonormal(d - 1, d - 1, rng).T
    X[0, 0] = np.sqrt(n * values[0])
    return X


def random_ritz(A, width, rng, closeness):
    """Ritz pairs of A on a random space near its leading one, and the largest eigenvalue outside that space."""
    V = np.linalg.eigh(A)[1][:, ::-1][:, :width]
    W = np.linalg.qr(V + closeness * rng.standard_normal(V.shape))[0]
    theta, Y = np.linalg.eigh(W.T @ A @ W)
    W, theta = (W @ Y)[:, ::-1], theta[::-1]
    R = A @ W - W * theta
    complement = np.linalg.svd(W)[0][:, width:]
    mu = np.linalg.eigvalsh(complement.T @ A @ complement)[-1] if width < len(A) else 0.0
    return W, theta, R, float(mu)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    kind=st.sampled_from(sorted(SPECTRA)),
    seed=st.integers(0, 10**6),
    k=st.integers(1, 6),
    extra=st.integers(0, 6),
    closeness=st.sampled_from([0.0, 1e-8, 1e-4, 1e-2, 0.1, 1.0, 100.0]),
)
def test_with_the_true_mu_the_bound_holds(kind, seed, k, extra, closeness):
    """Wherever W lies: the true suboptimality is below the certificate, eigenvector angles below their bounds."""
    X = problem(kind, seed)
    A = X.T @ X / len(X)
    A /= np.trace(A)
    rng = np.random.default_rng(seed)
    W, theta, R, mu = random_ritz(A, k + extra, rng, closeness)
    certificate = certify(theta, R.T @ R, k, len(A), mu, "exact", 0.0, unit=0.0)
    eigenvalues, V = np.linalg.eigh(A)
    eigenvalues, V = eigenvalues[::-1], V[:, ::-1]
    true = 1 - theta[:k].sum() / eigenvalues[:k].sum()
    assert true <= certificate.suboptimality + 1e-13
    np.testing.assert_allclose(certificate.residuals, np.linalg.norm(R[:, :k], axis=0) / theta[0], atol=1e-8)
    for j, angle in enumerate(certificate.angles):
        assert 0 <= angle <= 1
        if angle < 1 - 1e-9:
            near = np.abs(eigenvalues - eigenvalues[j]) < 1e-9  # an eigenspace where values repeat
            sine = np.sqrt(max(0.0, 1 - ((V[:, near].T @ W[:, j]) ** 2).sum()))
            assert sine <= angle + 1e-6


@pytest.mark.parametrize("kind", SPECTRA)
@pytest.mark.parametrize("k", [1, 3])
def test_the_bound_is_the_formula_by_brute_force(kind, k):
    """Sum of the k largest eigenvalues of Theta + R^T R / delta, or Ky Fan's inequality, whichever is smaller."""
    X = problem(kind, 1)
    A = X.T @ X / len(X)
    A /= np.trace(A)
    W, theta, R, mu = random_ritz(A, 5, np.random.default_rng(0), 0.05)
    candidates = [theta[:k].sum() + k * max(0, mu - theta[k - 1]) + np.linalg.svd(R, compute_uv=False)[:k].sum()]
    delta = theta[k - 1] - mu
    if delta > 0:
        candidates.append(np.sort(np.linalg.eigvalsh(np.diag(theta) + R.T @ R / delta))[-k:].sum())
    expected = 1 - theta[:k].sum() / min(candidates)
    found = certify(theta, R.T @ R, k, len(A), mu, "exact", 0.0, unit=0.0)
    assert found.suboptimality == pytest.approx(max(expected, 0), rel=1e-9, abs=1e-15)
    complement = np.linalg.svd(W[:, :k])[0][:, k:]
    largest = np.linalg.eigvalsh(complement.T @ A @ complement)[-1]
    coupling = np.linalg.norm(R[:, k:], 2)
    assert largest * (1 - 1e-12) <= found.mu * theta[0] <= max(theta[k], mu) + coupling + 1e-12


def test_the_bound_is_sharp_in_two_dimensions():
    """A 2 x 2 example by hand: A = diag(2, 1) / 3, w at angle t; the bound with mu = lambda_max(C) is exact there."""
    t = 0.1
    A = np.diag([2.0, 1.0]) / 3
    w = np.array([[np.cos(t)], [np.sin(t)]])
    theta = np.array([(w.T @ A @ w).item()])
    R = A @ w - w * theta
    mu = np.trace(A) - theta[0]
    found = certify(theta, R.T @ R, 1, 2, mu, "exact", 0.0, unit=0.0).suboptimality
    true = 1 - theta[0] / (2 / 3)
    assert true <= found <= 1.05 * true


def test_a_space_that_is_everything_misses_nothing():
    X = np.random.default_rng(0).standard_normal((30, 4))
    found = vrpca.svd(X, 4, solver="vr", random_state=0)
    # The unit more is what storing the components turns, whose square counts.
    assert found.certificate.kind == "exact" and found.certificate.suboptimality <= (QUOTIENT + 1) * eps(float)
    np.testing.assert_allclose(found.s, np.linalg.svd(X, compute_uv=False), rtol=1e-12)


def test_fewer_vectors_than_components_bound_nothing():
    certificate = certify(np.array([0.5]), np.zeros((1, 1)), 2, 5, 0.1, "estimated", 1e-16, unit=0.0)
    assert certificate.suboptimality == 1.0


@pytest.mark.parametrize("kind", SPECTRA)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 3, 6])
def test_gram_is_exact(kind, dtype, k, recwarn):
    for seed in range(3):
        X = problem(kind, seed).astype(dtype)
        found = vrpca.svd(X, k, solver="gram", random_state=0, compute_u=False)
        assert found.certificate.kind == "exact"
        assert suboptimality(X.astype(float), found.Vt) <= found.certificate.suboptimality + 1e-14
        if dtype == np.float64:
            assert found.converged


@pytest.mark.parametrize("solver", ["gram", "vr"])
@pytest.mark.parametrize("gap", [1e-5, 1e-6, 1e-7])
def test_float32_says_only_what_float32_can_know(solver, gap, recwarn):
    """Products in float32 cannot tell eigenvalues apart that differ by 1e-6: then 1e-8 must not be claimed."""
    for seed in range(10):
        X = with_eigenvalues(300, 20, [1.0, 1 - gap, *np.linspace(0.3, 0.1, 18)], seed).astype(np.float32)
        found = vrpca.svd(X, 1, solver=solver, oversample=3, tol=1e-8, random_state=seed, max_passes=50)
        true = suboptimality(X.astype(float), found.Vt)
        assert true <= found.certificate.suboptimality + 1e-9, seed
        assert not (found.converged and true > 1.1e-8), seed


CASES = [
    (kind, solver, k, seed)
    for kind in SPECTRA
    for solver in ("vr", "power", "hybrid")
    for k in (1, 2, 5)
    for seed in range(4)
]


@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_converged_means_converged(tol, recwarn):
    """An estimated certificate can be wrong in principle; over all these fixed cases it is not once."""
    wrong, converged = [], 0
    for kind, solver, k, seed in CASES:
        X = problem(kind, seed)
        found = vrpca.svd(X, k, solver=solver, tol=tol, max_passes=60, random_state=seed, compute_u=False)
        true = suboptimality(X, found.Vt)
        converged += found.converged
        if found.converged and true > tol + 1e-13:
            wrong.append((kind, solver, k, seed, true, found.certificate.suboptimality, found.n_passes))
    assert converged > len(CASES) / 4, "the test must see enough converged runs to mean something"
    assert not wrong, wrong


@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_converged_krylov_methods_miss_only_what_is_nearly_equal(tol, recwarn):
    """A block of 4 vectors may miss the leading ones of more eigenvalues that are nearly equal: one case in 100."""
    cases = [(*case[:1], solver, *case[2:]) for case in CASES[::3] for solver in ("krylov", "accelerated")]
    wrong = []
    for kind, solver, k, seed in cases:
        X = problem(kind, seed)
        found = vrpca.svd(X, k, solver=solver, tol=tol, max_passes=60, random_state=seed, compute_u=False)
        assert found.converged or kind == "rank deficient"
        if found.converged and suboptimality(X, found.Vt) > tol + 1e-13:
            wrong.append(kind)
            assert suboptimality(X, found.Vt) < 1e-4, "what is missed is as good, or nearly so"
    assert set(wrong) <= {"cluster in the middle"} and len(wrong) <= len(cases) / 100


@pytest.mark.parametrize("tol", [1e-3, 1e-8])
@pytest.mark.parametrize("solver", ["vr", "krylov", "accelerated"])
def test_a_hidden_direction_is_not_missed(solver, tol, recwarn):
    """One row alone holds the largest value: 100 starts, none stops at the second largest."""
    wrong = []
    for seed in range(100):
        X = problem("hidden", seed, n=400, d=40)
        found = vrpca.svd(X, 1, solver=solver, tol=tol, max_passes=200, random_state=seed, compute_u=False)
        if found.converged and suboptimality(X, found.Vt) > tol + 1e-13:
            wrong.append((seed, suboptimality(X, found.Vt), found.certificate.suboptimality, found.n_passes))
    assert not wrong, wrong


def test_the_bound_holds_along_the_way(recwarn):
    """Every record's bound is above the true suboptimality of its snapshot; an estimate may miss 1 record in 500."""
    violations, records = [], 0
    for kind, solver, k, seed in CASES[::3]:
        X = problem(kind, seed)
        s = np.linalg.svd(X, compute_uv=False)
        best = (s[:k] ** 2).sum() / (s**2).sum()
        for record in vrpca.svd(
            X, k, solver=solver, tol=1e-10, max_passes=40, random_state=seed, compute_u=False
        ).history:
            records += 1
            true = 1 - record.objective / best
            if true > record.bound + 1e-13:
                violations.append((kind, solver, k, seed, record.epoch, true, record.bound))
    assert records > 800
    assert len(violations) <= records / 500, (len(violations), records, violations[:10])


@pytest.mark.parametrize("solver", ["vr", "power", "hybrid", "gram", "krylov", "accelerated"])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_repeated_eigenvalue_at_k_ends_honestly(solver, k, dtype):
    """delta <= 0: any vector of the eigenspace is optimal. The run ends, and what it says is true."""
    X = with_eigenvalues(300, 20, [1.0, 1.0, 1.0, *np.linspace(0.5, 0.1, 17)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = vrpca.svd(X.astype(dtype), k, solver=solver, tol=1e-6, oversample=0, max_passes=300, random_state=0)
    assert found.converged or dtype == np.float32
    assert suboptimality(X, found.Vt) <= 1e-6
    assert not found.converged or found.certificate.suboptimality <= 1e-6
    s, _ = lapack(X)
    np.testing.assert_allclose(found.s, s[:k], rtol=1e-5)


def test_identity_covariance_ends():
    """All eigenvalues equal: everything is optimal, nothing can be certified by a gap."""
    X = with_eigenvalues(200, 10, np.ones(10))
    for solver in ("vr", "power", "gram", "krylov", "accelerated"):
        found = vrpca.svd(X, 3, solver=solver, random_state=0)
        assert found.converged
        assert found.certificate.suboptimality <= 1e-8
        assert (found.certificate.angles == 1).all(), "no direction is determined, so no angle can be bounded"


def test_the_kind_is_always_named():
    X = problem("geometric", 0)
    assert vrpca.svd(X, 2, solver="gram").certificate.kind == "exact"
    assert vrpca.svd(X, 2, solver="vr", random_state=0).certificate.kind == "estimated"


@pytest.mark.parametrize("solver", ["accelerated", "krylov", "vr"])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("mean", [1e2, 1e3])
def test_a_large_mean_of_sparse_data_is_allowed_for(mean, kind, solver):
    """Sparse rows are centred after they were multiplied: in float32 a large mean leaves its rounding."""
    X = (with_eigenvalues(2000, 60, 0.8 ** np.arange(60)) + mean).astype(np.float32)
    exact = X.astype(float) - X.astype(float).mean(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = vrpca.svd(kind(X), 2, center=True, solver=solver, tol=1e-6, random_state=0, compute_u=False)
    assert suboptimality(exact, found.Vt) <= found.certificate.suboptimality
    assert found.converged or mean > 1e2


@pytest.mark.parametrize("seed", range(20))
def test_rounding_that_shows_counts_where_w_spans_everything(seed):
    """Residuals can be nothing but rounding there: products that err by more than usual are not taken for exact."""
    rng, unit = np.random.default_rng(seed), eps(np.float32)
    eigenvalues = np.array([1.0, 4e-6, 7e-7, 0.0, 0.0])
    V = orthonormal(5, 5, rng)
    A = V * eigenvalues @ V.T
    W = orthonormal(5, 5, rng)
    U = A @ W + 10 * unit * rng.standard_normal((5, 5))
    theta, Y = np.linalg.eigh((W.T @ U + U.T @ W) / 2)
    theta, W, U = theta[::-1], W @ Y[:, ::-1], U @ Y[:, ::-1]
    R = U - W * theta
    certificate = certify(theta, R.T @ R, 2, 5, 0.0, "estimated", unit, basis=1, unit=unit)
    true = 1 - np.trace(W[:, :2].T @ A @ W[:, :2]) / eigenvalues[:2].sum()
    assert certificate.kind == "exact"
    assert true <= certificate.suboptimality
