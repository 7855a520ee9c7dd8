"""Steps that are too long: never NaN, always the best snapshot, and the truth about what happened."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import assert_orthonormal, suboptimality, transformed, with_eigenvalues
from vrpca import Status

EIGENVALUES = 0.7 ** np.arange(15)
X = with_eigenvalues(600, 15, EIGENVALUES)


def heavy(rows=3, factor=100.0, seed=0):
    """A few rows of norm 100 times the others'."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((2000, 25)) * np.geomspace(1, 0.1, 25)
    Y[rng.choice(2000, rows, replace=False)] *= factor
    return Y


def tell_the_truth(found, Z):
    """Finite, orthonormal, no better in the certificate than in truth, and the best of the history."""
    assert np.isfinite(found.Vt).all() and np.isfinite(found.s).all() and np.isfinite(found.U).all()
    assert_orthonormal(found.Vt, 1e-12)
    s = np.linalg.svd(Z, compute_uv=False)
    assert suboptimality(Z, found.Vt, s) <= found.certificate.suboptimality + 1e-13
    objectives = [r.objective for r in found.history if np.isfinite(r.objective)]
    np.testing.assert_allclose((found.s**2).sum() / (Z**2).sum(), max(objectives), rtol=1e-10)


@pytest.mark.parametrize("step", [1e6, 1e100, 1e300])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("options", [{}, {"sampling": "norm"}, {"control": "difference"}, {"deflate": True}], ids=str)
def test_an_absurd_step_ends_finite_with_a_warning(step, sparse, k, options):
    data = sp.csr_array(X) if sparse else X
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = vrpca.svd(data, k, solver="vr", step=step, max_passes=20, random_state=0, **options)
    tell_the_truth(found, X)
    if found.converged:  # a huge step is a power iteration on a few rows: it may even arrive
        assert suboptimality(X, found.Vt) <= 1e-8
        return
    assert found.status in (Status.DIVERGED, Status.PASSES, Status.STALLED)
    assert [w.category for w in caught] == [ConvergenceWarning]
    assert found.status.value in str(caught[0].message)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_step_beyond_all_floats_is_reported_as_divergence(k, sparse):
    with pytest.warns(ConvergenceWarning, match="pass a smaller step"):
        found = vrpca.svd(sp.csr_array(X) if sparse else X, k, solver="vr", step=1e300, max_passes=20, random_state=0)
    assert found.status is Status.DIVERGED
    assert found.history[-1].event


@pytest.mark.parametrize("step", [1e6, 1e200])
@pytest.mark.parametrize("k", [1, 3])
def test_an_absurd_oja_step_ends_finite(step, k):
    with pytest.warns(ConvergenceWarning):
        found = vrpca.svd(X, k, solver="oja", step=step, max_passes=12, random_state=0)
    tell_the_truth(found, X)


def test_float32_and_an_absurd_step():
    with pytest.warns(ConvergenceWarning):
        found = vrpca.svd(X.astype(np.float32), 3, solver="vr", step=1e30, max_passes=20, random_state=0)
    assert np.isfinite(found.Vt).all() and np.isfinite(found.s).all()
    assert_orthonormal(found.Vt, 1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 10])
def test_a_few_heavy_rows_do_not_break_the_default_rule(rows, center, k, seed):
    Y = heavy(rows, seed=seed)
    Z = transformed(Y, center)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = vrpca.svd(Y, k, center=center, solver="vr", max_passes=200, random_state=seed)
    tell_the_truth(found, Z)
    assert found.converged or [w.category for w in caught] == [ConvergenceWarning]
    if found.converged:
        assert suboptimality(Z, found.Vt) <= 1e-8


def diverging(n=2000, d=30, heavy=5, share=0.15):
    """Five rows, each alone in its direction, hold 15 % of the trace each; the leading direction has 20 %.

    A heavy row that is drawn several times in an epoch outgrows the leading direction.
    """
    rng = np.random.default_rng(4)
    Y = 0.3 * rng.standard_normal((n, d)) / np.sqrt(d)
    Y[:, 0] = rng.choice([-1, 1], n) * np.sqrt(0.2 / (0.8 - heavy * share) * 0.09)
    mean_square = (Y**2).sum() / n / (1 - heavy * share)
    for j in range(heavy):
        Y[10 * j] = np.sqrt(share * mean_square * n) * np.eye(d)[1 + j]
    return Y


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_rule_that_proves_too_long_is_halved(seed, sparse):
    """The heuristic is outside Theorem 1: with rows like these it lowers the objective, and the run says so."""
    Y = diverging()
    found = vrpca.svd(sp.csr_array(Y) if sparse else Y, 1, solver="vr", max_passes=400, random_state=seed)
    events = [r.event for r in found.history if r.event]
    assert events and all("half the step" in event for event in events)
    assert found.converged
    tell_the_truth(found, Y)


@pytest.mark.parametrize("seed", range(3))
def test_sampling_by_norm_handles_heavy_rows_better(seed):
    Y = diverging()
    by_norm = vrpca.svd(Y, 1, solver="vr", sampling="norm", max_passes=400, random_state=seed)
    uniform = vrpca.svd(Y, 1, solver="vr", max_passes=400, random_state=seed)
    assert by_norm.converged
    assert not any(r.event for r in by_norm.history)
    assert by_norm.n_passes < 0.7 * uniform.n_passes
    tell_the_truth(by_norm, Y)


def test_a_step_that_is_fixed_is_not_halved():
    Y = diverging()
    step = 3 / ((Y**2).sum(axis=1).mean() * np.sqrt(len(Y)))
    with pytest.warns(ConvergenceWarning):
        found = vrpca.svd(Y, 1, solver="vr", step=step, max_passes=60, random_state=0)
    events = [r.event for r in found.history if r.event]
    assert "the objective fell" in events
    assert not any("half the step" in event for event in events)
    tell_the_truth(found, Y)


def test_the_hybrid_survives_first_steps_that_would_overflow():
    """One direction holds nearly all of a large float32 matrix: Oja's first steps multiply it by 20 and more each."""
    X = (1 + 0.01 * np.random.default_rng(0).standard_normal((100_000, 20))).astype(np.float32)
    found = vrpca.svd(X, 1, solver="hybrid", random_state=0)
    top = np.linalg.svd(X.astype(float), compute_uv=False)[0]
    assert found.converged and abs(found.s[0] / top - 1) < 1e-5
