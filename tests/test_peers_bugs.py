"""Bugs that users reported of other packages: each one is a test here, named after the thing."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.base
import sklearn.decomposition
from sklearn.exceptions import ConvergenceWarning

import vrpca
from helpers import summed
from solvers.problems import (
    ChunkedSource,
    assert_orthonormal,
    assert_true_answer,
    lapack,
    sine,
    small_counts,
    suboptimality,
    transformed,
    with_eigenvalues,
)
from vrpca import PCA, TruncatedSVD


def test_flat_spectrum():
    """scikit-learn issue 20589: on 1e5 x 20 noise the randomized solver is silently inaccurate."""
    Y = np.random.default_rng(0).standard_normal((100_000, 20))
    model = PCA(2).fit(Y)
    values = np.linalg.eigvalsh(np.cov(Y.T))[::-1]
    np.testing.assert_allclose(model.explained_variance_, values[:2], rtol=1e-8)
    assert model.converged_ and model.certificate_.kind == "exact"


def test_flat_spectrum_with_vr_is_honest(recwarn):
    """The same with the stochastic solver: right, or says that it is not."""
    Y = np.random.default_rng(0).standard_normal((20_000, 20))
    model = PCA(2, solver="vr", random_state=0, max_passes=60).fit(Y)
    true = suboptimality(transformed(Y, True), model.components_)
    assert true <= model.certificate_.suboptimality
    assert model.converged_ == (len(recwarn) == 0)
    assert not model.converged_ or true <= 1e-8


@pytest.mark.parametrize("solver", ["gram", "vr", "power", "hybrid"])
@pytest.mark.parametrize(
    "values", [[1, 1, 1, 1, 0.3, 0.2], [1, 1 - 1e-9, 1 - 2e-9, 0.5, 0.1], [2, 1, 1, 1, 0.4, 0.1]], ids=str
)
def test_clustered_and_repeated_leading_values(solver, values):
    """irlba issue 19, KrylovKit issues 23 and 90: copies of a repeated singular value go missing."""
    Y = with_eigenvalues(400, 30, [*values, *np.linspace(0.1, 0.01, 30 - len(values))])
    k = 4 if values[3] == 1 else 3
    found = vrpca.svd(Y, k, solver=solver, random_state=0, max_passes=500)
    np.testing.assert_allclose(found.s, np.sqrt(400 * np.array(values[:k])), rtol=1e-7)
    assert_true_answer(found, Y, 1e-8)


def test_false_convergence_from_small_changes(recwarn):
    """PCAone issue 6: successive iterates that hardly differ are not convergence."""
    Y = with_eigenvalues(500, 50, np.concatenate([[1.0, 0.9999], np.linspace(0.999, 0.9, 48)]))
    with_tiny_steps = vrpca.svd(Y, 1, solver="vr", step=1e-9, random_state=0, max_passes=12)
    assert not with_tiny_steps.converged
    changes = np.abs(np.diff([r.objective for r in with_tiny_steps.history]))
    assert changes.max() < 1e-5, "the iterates do hardly differ"
    assert with_tiny_steps.certificate.suboptimality > 1e-3
    assert suboptimality(Y, with_tiny_steps.Vt) <= with_tiny_steps.certificate.suboptimality


@pytest.mark.parametrize("solver", ["gram", "vr", "power", "hybrid"])
def test_singular_values_are_ordered_and_right(solver):
    """scipy issues 14784, 15170, 12627: svds results in the wrong order, or wrong."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Y = rng.standard_normal((60, 25)) * rng.permutation(np.geomspace(1, 0.01, 25))
        found = vrpca.svd(Y, 6, solver=solver, tol=1e-10, max_passes=3000, random_state=seed)
        assert (np.diff(found.s) < 0).all()
        np.testing.assert_allclose(found.s, lapack(Y)[0][:6], rtol=1e-5)


def test_no_divergence(recwarn):
    """irlba issue 14: values of 1e102 on badly scaled columns."""
    Y = small_counts(100, 30) * np.geomspace(1, 1e-6, 30)
    for seed in range(10):
        found = vrpca.svd(Y, 5, solver="vr", random_state=seed, max_passes=50)
        assert (found.s <= lapack(Y)[0][:5] * (1 + 1e-12)).all()
        assert suboptimality(Y, found.Vt) < 0.01


@pytest.mark.parametrize("solver", ["gram", "vr"])
@pytest.mark.parametrize("offset", [100.0, 10_000.0])
def test_large_mean_in_float32(solver, offset):
    """faiss issue 773: covariance [[10001, 10000], [10000, 10001]] in float32."""
    rng = np.random.default_rng(0)
    Y = (offset + rng.standard_normal((5000, 2)) * [1.0, 2.0]).astype(np.float32)
    expected = np.linalg.eigvalsh(np.cov(Y.astype(float).T))[::-1]
    found = vrpca.pca(Y, 2, solver=solver, random_state=0)
    np.testing.assert_allclose(found.s.astype(float) ** 2 / 4999, expected, rtol=1e-4)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_variance_does_not_cancel(form, offset):
    """scikit-learn issue 19766: sparse variance as mean of squares minus square of mean."""
    rng = np.random.default_rng(0)
    Y = np.zeros((2000, 5))
    Y[:, 0] = offset + rng.standard_normal(2000)
    Y[:, 1:] = rng.standard_normal((2000, 4)) * (rng.random((2000, 4)) < 0.3)
    model = PCA(5).fit(form(Y))
    expected = np.linalg.svd(Y - Y.mean(axis=0), compute_uv=False) ** 2 / 1999
    np.testing.assert_allclose(model.explained_variance_, expected, rtol=1e-6)
    assert model.explained_variance_ratio_.sum() == pytest.approx(1, abs=1e-6)
    scaled = PCA(5, scale=True).fit(form(Y))
    np.testing.assert_allclose(scaled.scale_, Y.std(axis=0), rtol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [None, 5])
def test_whitening_of_rank_deficient_data(form, dtype, k):
    """scikit-learn issue 29534: whitened scores of 8.7e5 where 3.9 is the largest."""
    rng = np.random.default_rng(0)
    Y = (rng.standard_normal((100, 3)) @ rng.standard_normal((3, 8))).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # beyond the rank, float32 cannot certify 1e-8
        scores = PCA(k, whiten=True).fit_transform(form(Y))
    assert np.abs(scores).max() < 6
    np.testing.assert_allclose(scores[:, :3].std(axis=0, ddof=1), 1, rtol=1e-3)
    assert scores.shape[1] == 3 or np.abs(scores[:, 3:]).max() < 6


@pytest.mark.parametrize("shape", [(50, 10), (10, 50), (20, 20), (3, 1000)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_ratios_never_sum_above_one(shape, dtype, weighted):
    """scikit-learn issues 24205 and 5950."""
    rng = np.random.default_rng(sum(shape))
    Y = rng.standard_normal(shape).astype(dtype)
    weights = rng.random(len(Y)) if weighted else None
    eps = float(np.finfo(dtype).eps)
    above = 20 * eps + summed(max(shape))  # the sums behind variances and eigenvalues are in double
    for k in (None, 1, 2, min(shape)):
        ratios = PCA(k).fit(Y, sample_weight=weights).explained_variance_ratio_.astype(float)
        assert (ratios >= 0).all() and ratios.sum() <= 1 + above
    assert ratios.sum() == pytest.approx(1, abs=30 * eps + above)
    assert TruncatedSVD(2).fit(Y).explained_variance_ratio_.sum() <= 1 + above


@pytest.mark.parametrize("k", [1, 3, 7])
def test_noise_variance_is_the_mean_of_the_discarded_eigenvalues(k):
    """scikit-learn issue 8541, with n - 1 as the divisor (issues 9105, 11001)."""
    Y = np.random.default_rng(0).standard_normal((60, 8)) * np.geomspace(1, 0.1, 8)
    values = np.linalg.eigvalsh(np.cov(Y.T))[::-1]
    for solver in ("gram", "vr"):
        model = PCA(k, solver=solver, tol=1e-12, random_state=0, max_passes=1000).fit(Y)
        assert model.noise_variance_ == pytest.approx(values[k:].mean(), rel=1e-7)
        np.testing.assert_allclose(model.explained_variance_, values[:k], rtol=1e-7)
    assert PCA(8).fit(Y).noise_variance_ == 0


@pytest.mark.parametrize("solver", ["gram", "vr", "power", "hybrid"])
@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (6, 6)], ids=str)
@pytest.mark.parametrize("center", [False, True])
def test_k_is_the_smaller_side(solver, shape, center):
    """scikit-learn issue 22135: k = min(n, d); centred square and wide data have one value that is zero."""
    Y = np.random.default_rng(0).standard_normal(shape)
    found = vrpca.svd(Y, 6, center=center, solver=solver, random_state=0)
    s, _ = lapack(transformed(Y, center))
    np.testing.assert_allclose(found.s, s, atol=1e-7)
    assert_orthonormal(found.Vt, 1e-10)
    assert_orthonormal(np.ascontiguousarray(found.U.T), 1e-10)


def test_more_components_than_samples():
    """akt issue 37: k > n."""
    with pytest.raises(vrpca.OptionError, match=r"between 1 and min\(n_samples, n_features\)=4"):
        PCA(5).fit(np.random.default_rng(0).standard_normal((4, 50)))


@pytest.mark.parametrize("rows", [1, 2, 9, 33])
def test_last_batch_smaller_than_k(rows):
    """scikit-learn issues 12234, 13114, 6452, scanpy 3313: last batch smaller than k, or of one row."""
    Y = small_counts(100, 12)
    for k in (1, 5):
        found = vrpca.pca(ChunkedSource(Y, rows), k, solver="vr", random_state=0, max_passes=1000)
        assert_true_answer(found, transformed(Y, True), 1e-8)


def test_more_entries_than_an_int32_counts():
    """scikit-learn issues 17693 and 14851, cuML 2459: n * d overflows int32; here 3e9 entries, 1000 of them set."""
    rng = np.random.default_rng(0)
    n, d = 60_000, 50_000
    rows, columns = rng.integers(n, size=1000), rng.integers(20, size=1000) * 2500
    S = sp.csr_array((rng.standard_normal(1000), (rows, columns)), shape=(n, d))
    S.sum_duplicates()
    for center in (False, True):
        found = vrpca.svd(S, 1, center=center, solver="vr", oversample=3, random_state=0, tol=1e-6)
        small = S[:, ::2500].toarray()
        expected = np.linalg.svd(small - center * small.mean(axis=0), compute_uv=False)[0]
        np.testing.assert_allclose(found.s[0], expected, rtol=1e-5)


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("solver", ["gram", "vr"])
def test_int64_sparse_indices(format, solver):
    """scikit-learn issue 31073: 64-bit indices refused."""
    Y = small_counts(80, 10)
    S = sp.csr_array(Y).asformat(format)
    S.indptr, S.indices = S.indptr.astype(np.int64), S.indices.astype(np.int64)
    model = PCA(2, solver=solver, random_state=0).fit(S)
    assert_true_answer(vrpca.pca(S, 2, solver=solver, random_state=0), transformed(Y, True), 1e-8)
    np.testing.assert_allclose(model.transform(S), model.transform(Y), atol=1e-10)
    assert S.indices.dtype == S.indptr.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, ">f8"])
def test_a_writable_memory_map_is_not_centred_on_disk(tmp_path, dtype):
    """scikit-learn issue 5173."""
    path = tmp_path / "x.npy"
    np.save(path, (small_counts(80, 10) + 5).astype(dtype))
    before = path.read_bytes()
    mapped = np.load(path, mmap_mode="r+")
    for solver in ("gram", "vr"):
        model = PCA(2, solver=solver, scale=True, random_state=0).fit(mapped)
        model.transform(mapped)
    mapped.flush()
    assert path.read_bytes() == before


def test_a_memory_map_is_not_copied_whole(tmp_path, monkeypatch):
    """scikit-learn issue 5173: a map of another type is converted piece by piece."""
    path = tmp_path / "x.npy"
    Y = np.random.default_rng(0).integers(0, 100, (40_000, 64)).astype(np.int32)  # 20 MB as float64
    np.save(path, Y)
    mapped = np.load(path, mmap_mode="r")
    largest = 0
    original = np.ascontiguousarray

    def watch(array, *args, **kwargs):
        nonlocal largest
        result = original(array, *args, **kwargs)
        if not np.shares_memory(result, array):
            largest = max(largest, result.nbytes)
        return result

    monkeypatch.setattr(np, "ascontiguousarray", watch)
    vrpca.pca(mapped, 2, compute_u=False)
    assert 0 < largest <= 5 << 20
    os.remove(path)


def test_no_subclass_of_sklearns_pca():
    """dask-ml issue 1023: a subclass breaks with scikit-learn's next release."""
    for ours in (PCA, TruncatedSVD):
        assert issubclass(ours, sklearn.base.BaseEstimator)
        assert not issubclass(ours, sklearn.decomposition.PCA | sklearn.decomposition.TruncatedSVD)


def test_transform_subtracts_the_mean_and_ratios_divide_by_the_whole():
    """Spark's transform never subtracts the mean, and its ratios divide by the top-k sum only."""
    Y = small_counts(100, 10) + 50
    model = PCA(3).fit(Y)
    np.testing.assert_allclose(model.transform(Y), (Y - Y.mean(axis=0)) @ model.components_.T, atol=1e-9)
    np.testing.assert_allclose(model.transform(sp.csr_array(Y)), (Y - Y.mean(axis=0)) @ model.components_.T, atol=1e-9)
    total = np.var(Y, axis=0, ddof=1).sum()
    np.testing.assert_allclose(model.explained_variance_ratio_, model.explained_variance_ / total, rtol=1e-10)
    assert model.explained_variance_ratio_.sum() < 0.99


def test_signs_are_decided_by_the_components():
    """scikit-learn issue 28826: a sign rule by U changes with the rows; by V it does not."""
    Y = small_counts(200, 10)
    signs = {tuple(np.sign(PCA(2).fit(rows).components_[:, 0])) for rows in (Y, Y[::-1], np.vstack([Y, Y]), -Y)}
    assert len(signs) == 1
    components = PCA(3).fit(Y).components_
    assert (components[np.arange(3), np.abs(components).argmax(axis=1)] > 0).all()


def test_results_repeat():
    """scipy issue 13780, scanpy 1749, repeng 79: results that change from run to run."""
    Y = with_eigenvalues(300, 50, 0.95 ** np.arange(50))
    one, two = (PCA(2, solver="vr", random_state=0, tol=1e-3).fit(Y).components_ for _ in range(2))
    np.testing.assert_array_equal(one, two)
    auto = [PCA(2, random_state=seed).fit(Y).components_ for seed in (None, 1, 2)]
    for other in auto[1:]:
        np.testing.assert_allclose(other, auto[0], atol=1e-9)


def test_the_snapshot_is_not_the_iterate():
    """A public Julia package aliases the two, so that the correction cancels: then an epoch is one power step only."""
    Y = with_eigenvalues(1000, 20, 0.8 ** np.arange(20))
    vr = vrpca.svd(Y, 1, solver="vr", tol=1e-12, random_state=0)
    power = vrpca.svd(Y, 1, solver="power", tol=1e-12, random_state=0)
    assert vr.history[-1].epoch < power.history[-1].epoch / 3


def test_not_converged_still_returns(recwarn):
    """A public script returns None when it has not converged."""
    found = vrpca.svd(with_eigenvalues(100, 10, np.linspace(1, 0.9, 10)), 1, solver="vr", max_passes=4, random_state=0)
    assert found is not None and found.Vt.shape == (1, 10)
    assert len(recwarn) == 1


def test_importance_weights_use_the_probability():
    """A public Julia block version divides by the cumulative probability: its mean step is wrong."""
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((2000, 10)) * np.geomspace(1, 0.1, 10) * rng.lognormal(0, 1.5, (2000, 1))
    found = vrpca.svd(Y, 2, solver="vr", sampling="norm", tol=1e-11, random_state=0)
    assert sine(found.Vt, lapack(Y)[1][:2]) < 1e-4


def test_the_step_is_not_so_small_that_nothing_moves():
    """The same package's tests check shapes at step 1e-15: a test that cannot fail."""
    Y = with_eigenvalues(500, 15, 0.6 ** np.arange(15))
    found = vrpca.svd(Y, 1, solver="vr", random_state=0, tol=1e-10)
    assert found.history[0].objective < 0.9 * found.history[-1].objective
