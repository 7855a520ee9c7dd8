"""The independent check, against the truth by LAPACK: good models pass, wrong ones fail, and the bound is honest."""

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from vrpca.check import check
from vrpca.errors import DataError, OptionError


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(5)
    return rng.standard_normal((600, 120)) * np.geomspace(1, 0.02, 120) + rng.standard_normal(120)


def truth(X, components):
    """Suboptimality of the components' span, by LAPACK; also the variance ratio of each component."""
    Z = X - X.mean(axis=0)
    s2 = np.linalg.svd(Z, compute_uv=False) ** 2
    Q = np.linalg.qr(components.T.astype(np.float64))[0]
    explained = np.linalg.norm(Z @ Q, axis=0) ** 2
    return 1 - explained.sum() / s2[: len(components)].sum(), explained / s2.sum()


def exact_components(X, k):
    return np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:k]


def fitted(X, k=4, **options):
    return vrpca.PCA(k, random_state=0, **options).fit(X)


@pytest.mark.reference
@pytest.mark.parametrize("solver", ["gram", "vr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_good_models_pass(X, solver, dtype):
    model = fitted(X.astype(dtype), solver=solver)
    result = check(model, X.astype(dtype))
    true, ratio = truth(X.astype(dtype).astype(float), model.components_)
    assert result.ok and result.tol == model.tol
    cancelled = np.linalg.norm(X) / np.linalg.norm(
        X - X.mean(axis=0)
    )  # rounding counts as often: products are centred late
    assert true - 1e-14 <= result.certificate.suboptimality <= 2 * true + 1e-10 * cancelled**2
    np.testing.assert_allclose(result.explained_variance_ratio, ratio, rtol=1e-5)
    assert result.mean_deviation < 1e-6
    assert 3 <= result.n_passes <= 12
    assert result.certificate.kind == "estimated"


def test_sparse_data_and_truncated_svd(X):
    S = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0))
    model = vrpca.TruncatedSVD(3, random_state=0).fit(S)
    result = check(model, S)
    assert result.ok and result.mean_deviation == 0
    s2 = np.linalg.svd(S.toarray(), compute_uv=False) ** 2
    np.testing.assert_allclose(result.explained_variance_ratio, s2[:3] / s2.sum(), rtol=1e-6)


def test_scale_and_weights_are_taken_into_account(X, rng):
    weights = rng.integers(1, 4, size=len(X))
    model = vrpca.PCA(4, scale=True, random_state=0).fit(X, sample_weight=weights)
    assert check(model, X, sample_weight=weights).ok
    assert not check(model, X).ok


def rotated(V):
    W = V[:4].copy()
    c, s = np.cos(0.01), np.sin(0.01)
    W[3] = c * V[3] + s * V[60]
    return W


def random_replaced(V):
    W = V[:4].copy()
    W[2] = np.random.default_rng(1).standard_normal(V.shape[1])
    return W


def second_dropped_for_third(V):
    return V[[0, 2, 3, 4]]


def last_dropped_for_next(V):
    return V[[0, 1, 2, 4]]


@pytest.mark.reference
@pytest.mark.parametrize("damage", [rotated, random_replaced, second_dropped_for_third, last_dropped_for_next])
@pytest.mark.parametrize("seed", range(5))
def test_wrong_components_fail_by_the_true_amount(X, damage, seed):
    model = fitted(X)
    model.components_ = damage(exact_components(X, 20 if damage is not rotated else 120))
    true, _ = truth(X, model.components_)
    assert true > 1e-6
    result = check(model, X, random_state=seed)
    assert not result.ok
    # The search lies below the optimum and the certificate above it: both within a few percent of the truth here.
    assert 0.97 * true <= result.certificate.suboptimality <= 1.2 * true


def test_a_missed_component_shows_in_the_angles(X):
    model = fitted(X)
    model.components_ = second_dropped_for_third(exact_components(X, 5))
    angles = check(model, X).certificate.angles
    assert angles[0] < 1e-6
    np.testing.assert_array_equal(angles[1:], 1.0)


def test_stored_results_are_not_trusted(X):
    model = fitted(X)
    model.components_ = last_dropped_for_next(exact_components(X, 5))
    assert model.certificate_.suboptimality < 1e-8 and model.converged_
    assert not check(model, X).ok


def test_length_and_skewness_of_components_do_not_matter(X):
    model = fitted(X)
    model.components_ = np.array([[2.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 3, 0], [0, 1, 0, -1]]) @ model.components_
    assert check(model, X).ok


def test_other_data_fail(X):
    model = fitted(X)
    other = X[:, ::-1].copy()
    result = check(model, other)
    assert not result.ok
    assert result.mean_deviation == pytest.approx(np.abs(model.mean_ - other.mean(axis=0)).max())


def test_tol_and_passes(X):
    model = fitted(X, solver="vr", tol=1e-4)
    assert check(model, X).ok
    assert not check(model, X, tol=1e-12).ok
    assert check(model, X, passes=6).n_passes <= 6


def test_as_many_components_as_columns(rng):
    X = rng.standard_normal((20, 3))
    result = check(vrpca.PCA(3).fit(X), X)
    assert result.ok and result.certificate.kind == "exact"


def test_low_rank_data_end_early(rng):
    X = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 30))
    assert check(vrpca.PCA(3).fit(X), X).ok
    assert check(vrpca.PCA(5).fit(X), X).ok
    assert check(vrpca.PCA(2).fit(X), X).n_passes < 12


def test_unusable_input(X):
    model = fitted(X)
    with pytest.raises(DataError, match="119 features, but the model was fitted on 120"):
        check(model, X[:, :-1])
    with pytest.raises(DataError, match="NaN"):
        check(model, np.where(np.arange(X.size).reshape(X.shape) == 77, np.nan, X))
    with pytest.raises(DataError, match="no variance"):
        check(model, np.ones_like(X))
    for passes in (2, "many", float("nan")):
        with pytest.raises(OptionError, match="passes"):
            check(model, X, passes=passes)
    for options in ({"n_threads": 0}, {"n_threads": 10**23}, {"random_state": -1}, {"tol": "small"}):
        with pytest.raises(OptionError, match=f"{next(iter(options))}=.* must be"):
            check(model, X, **options)
    with pytest.raises(OptionError, match="tol"):
        check(model, X, tol=-1.0)
    model.components_[0, 0] = np.nan
    with pytest.raises(DataError, match="components"):
        check(model, X)
