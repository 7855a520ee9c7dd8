"""What a user of scikit-learn's PCA and TruncatedSVD finds here under the same names, and what others are told."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.decomposition
from sklearn.decomposition._pca import _assess_dimension
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import vrpca
from helpers import eps
from solvers.problems import small_counts, with_eigenvalues
from vrpca import PCA, TruncatedSVD
from vrpca.errors import NotFiniteError
from vrpca.minka import log_evidence, most_likely_dimension

X = with_eigenvalues(200, 12, 0.7 ** np.arange(12)) + np.arange(12)
COUNTS = small_counts(150, 16)


class ByColumns(vrpca.Source):
    """Data that are stored by columns: a pass over rows is not possible."""

    by_columns = True

    def __init__(self, data, flipped=False):
        self.data, self.flipped, self.shape, self.dtype = data, flipped, data.shape, data.dtype
        self.sparse = sp.issparse(data)
        self.by_columns = not flipped

    def blocks(self, rng=None):
        assert self.flipped, "walked by rows"
        for start in range(0, self.shape[0], 5):
            part = self.data[start : start + 5]
            yield start, sp.csr_array(part) if self.sparse else np.ascontiguousarray(part)

    def transposed(self):
        return ByColumns(self.data.T.tocsr() if self.sparse else self.data.T, not self.flipped)


# ------------------------------------------------------------------------------------------------- explained variance


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_array, ByColumns])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_truncated_svd_explains_the_variance_of_its_scores(form, dtype):
    data = (COUNTS + 1).astype(dtype)
    ours = TruncatedSVD(4).fit(form(data))
    theirs = sklearn.decomposition.TruncatedSVD(4, algorithm="arpack").fit(data.astype(np.float64))
    rtol = 100 * eps(dtype)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=rtol)
    np.testing.assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=rtol)
    np.testing.assert_allclose(ours.singular_values_, theirs.singular_values_, rtol=rtol)
    assert ours.explained_variance_.dtype == ours.explained_variance_ratio_.dtype == dtype


@pytest.mark.parametrize("form", [np.asarray, ByColumns])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_variances_beside_a_large_mean_take_one_more_pass(form, dtype, weighted):
    """Mean squares less squared means would be rounding: the scores are read about their means instead."""
    rng = np.random.default_rng(0)
    data = (rng.standard_normal((300, 5)) + 1e5 * (dtype is np.float64) + 3e3).astype(dtype)
    weights = rng.integers(1, 4, 300).astype(float) if weighted else None
    model = TruncatedSVD(2, tol=1e-5).fit(form(data), sample_weight=weights)
    scores = (data - data.mean(axis=0, dtype=float)) @ model.components_.T.astype(float)
    mean = np.average(scores, axis=0, weights=weights)
    expected = np.average((scores - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(model.explained_variance_, expected, rtol=1e-5)
    if form is np.asarray:
        assert model.solver_ == "gram" and model.n_passes_ == 2
        assert TruncatedSVD(2).fit(data - data.mean(axis=0), sample_weight=weights).n_passes_ == 1


@pytest.mark.parametrize("solver", ["gram", "accelerated", "power"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("d", [20, 60, 400])
def test_variances_of_scores_are_exact_where_every_column_has_a_mean(d, kind, solver):
    """Means as large as deviations add up over the columns: the first score's mean square is d times its variance."""
    X = (np.random.default_rng(0).standard_normal((1500, d)) + 1).astype(np.float32)
    model = vrpca.TruncatedSVD(2, solver=solver, tol=1e-3, random_state=0).fit(kind(X))
    scores = X.astype(float) @ model.components_.T.astype(float)
    np.testing.assert_allclose(model.explained_variance_, scores.var(axis=0), rtol=1e-5)


def test_rows_that_are_all_equal_explain_nothing():
    model = TruncatedSVD(1).fit(np.ones((10, 4)))
    assert model.explained_variance_ratio_ == [0] and model.explained_variance_ == pytest.approx(0)


# ------------------------------------------------------------------------------------------------ probabilistic PCA


@pytest.mark.parametrize("k", [1, 4, 11, 12])
@pytest.mark.parametrize("whiten", [False, True])
def test_likelihood_is_sklearns(k, whiten):
    ours = PCA(k, whiten=whiten).fit(X)
    theirs = sklearn.decomposition.PCA(k, whiten=whiten, svd_solver="full").fit(X)
    fresh = X[:20] + np.random.default_rng(0).standard_normal((20, 12))
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-7)
    np.testing.assert_allclose(ours.get_precision(), theirs.get_precision(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.score_samples(fresh), theirs.score_samples(fresh), rtol=1e-6)
    assert ours.score(fresh) == pytest.approx(theirs.score(fresh), rel=1e-6)


@pytest.mark.parametrize(
    "form", [np.asarray, sp.csr_array, sp.csc_array, ByColumns, lambda Y: ByColumns(sp.csr_array(Y))]
)
@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": True}, {"scale": True, "whiten": True}])
def test_likelihood_is_the_density_of_the_covariance(form, options):
    """In every form, without a dense copy, and in the units of the data."""
    model = PCA(5, **options).fit(COUNTS)
    C = model.get_covariance()
    Z = COUNTS - (0 if model.mean_ is None else model.mean_)
    inverse, (_, logdet) = np.linalg.inv(C), np.linalg.slogdet(C)
    expected = -0.5 * ((Z @ inverse * Z).sum(axis=1) + logdet + 16 * np.log(2 * np.pi))
    np.testing.assert_allclose(model.score_samples(form(COUNTS)), expected, rtol=1e-9)
    np.testing.assert_allclose(model.get_precision(), inverse, atol=1e-9 * np.abs(inverse).max())


def test_directions_without_variance_have_no_density():
    """Three points in 40 dimensions: the density is that of the plane in which they lie."""
    points = np.random.default_rng(0).standard_normal((3, 40))
    model = PCA().fit(points)
    assert model.noise_variance_ == 0 and model.n_components_ == 3
    scores, variances = model.transform(points)[:, :2], model.explained_variance_[:2]
    expected = -0.5 * ((scores**2 / variances).sum(axis=1) + np.log(variances).sum() + 2 * np.log(2 * np.pi))
    np.testing.assert_allclose(model.score_samples(points), expected, rtol=1e-9)
    np.testing.assert_allclose(model.get_precision(), np.linalg.pinv(np.cov(points.T)), atol=1e-9)


def test_float32_likelihood_has_double_precision():
    data = X.astype(np.float32)
    model = PCA(3).fit(data)
    assert model.get_covariance().dtype == model.get_precision().dtype == np.float32
    np.testing.assert_allclose(model.score_samples(data), PCA(3).fit(X).score_samples(X), rtol=1e-4)


def test_components_are_chosen_by_cross_validation():
    rng = np.random.default_rng(1)
    data = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 10)) + 0.1 * rng.standard_normal((300, 10))
    choices = {"n_components": [1, 2, 3, 4, 6]}
    ours, theirs = (GridSearchCV(pca(), choices).fit(data) for pca in (PCA, sklearn.decomposition.PCA))
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], rtol=1e-6)


@pytest.mark.parametrize("call", ["get_covariance", "get_precision", "score", "score_samples"])
def test_likelihood_needs_a_fit(call):
    with pytest.raises(NotFittedError):
        getattr(PCA(2), call)(*([X] if call.startswith("score") else []))


def test_likelihood_checks_the_columns():
    with pytest.raises(ValueError, match="12 features"):
        PCA(2).fit(X).score(X[:, :5])


# ---------------------------------------------------------------------------------------------------- n_components


@pytest.mark.parametrize("seed", range(5))
def test_evidence_is_that_of_sklearn(seed):
    spectrum = np.sort(np.random.default_rng(seed).uniform(0.1, 5, 9))[::-1]
    ours = log_evidence(spectrum / spectrum[0], 70, 1e-15)
    theirs = np.array([_assess_dimension(spectrum / spectrum[0], k, 70) for k in range(1, 9)])
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_most_likely_number_of_components(form, dtype, unit):
    """The same in any unit: scikit-learn compares variances with 1e-15."""
    rng = np.random.default_rng(2)
    data = rng.standard_normal((400, 4)) @ rng.standard_normal((4, 15)) + 0.2 * rng.standard_normal((400, 15))
    model = PCA("mle").fit(form((unit * data).astype(dtype)))
    theirs = sklearn.decomposition.PCA("mle").fit(data)
    assert model.n_components_ == theirs.n_components_ == 4 == len(model.components_)
    assert model.noise_variance_ == pytest.approx(theirs.noise_variance_ * unit**2, rel=1e-4)
    assert model.converged_ and len(model.certificate_.angles) == 4
    assert len(vrpca.pca(data, "mle").s) == 4


def test_most_likely_dimension_of_ties_and_of_one_column():
    assert most_likely_dimension(np.array([3.0]), 10, 1e-15) == 1
    assert most_likely_dimension(np.array([1.0, 1e-30, 1e-30, 0.0]), 10, 1e-16) == 1
    assert most_likely_dimension(np.array([5.0, 5.0, 1.0, 1.0, 1.0]), 1000, 1e-15) >= 2


@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
@pytest.mark.parametrize("whiten", [False, True])
def test_all_components_are_as_many_as_sklearn_has(shape, whiten):
    data = small_counts(*shape)
    ours, theirs = PCA(whiten=whiten).fit(data), sklearn.decomposition.PCA(whiten=whiten).fit(data)
    assert ours.components_.shape == theirs.components_.shape == (8, shape[1])
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, atol=1e-12)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(data)), data, atol=1e-9)


# ----------------------------------------------------------------------------------------------------- other libraries


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ({"svd_solver": "randomized"}, "solver="),
        ({"algorithm": "arpack"}, "solver="),
        ({"n_jobs": 2}, "n_threads="),
        ({"copy": False}, "X is never changed"),
        ({"n_iter": 5}, "max_passes"),
        ({"zero_center": True}, "center="),
    ],
)
def test_options_of_others_are_answered_with_ours(option, advice):
    (name,) = option
    for make in (PCA, TruncatedSVD, PCA().set_params, lambda **given: vrpca.svd(X, 2, **given)):
        with pytest.raises(TypeError, match=f"no option '{name}' here.*{advice}"):
            make(**option)
    with pytest.raises(TypeError, match="nonsense"):
        PCA(nonsense=1)


@pytest.mark.parametrize("make", [lambda n: PCA(2, n_threads=n), lambda n: TruncatedSVD(2, n_threads=n)])
def test_minus_one_thread_is_all_of_them(make):
    np.testing.assert_array_equal(make(-1).fit(X).components_, make(None).fit(X).components_)
    for wrong in (0, -2):
        with pytest.raises(ValueError, match=f"n_threads={wrong} must be an integer, at least 1.* or -1 for all cores"):
            make(wrong).fit(X)


def test_a_decomposition_is_a_triple():
    found = vrpca.svd(X, 3)
    U, s, Vt = found
    assert U is found.U and s is found.s and Vt is found.Vt
    np.testing.assert_allclose(U * s @ Vt, found.U * found.s @ found.Vt)
    none, _, _ = vrpca.pca(X, 3, compute_u=False)
    assert none is None


def test_the_number_of_samples_is_an_integer():
    for model in (PCA(2).fit(X), TruncatedSVD(2).fit(X), PCA(2).fit(X, sample_weight=np.full(200, 3))):
        assert type(model.n_samples_) is int
    assert PCA(2).fit(X).n_samples_ == 200
    assert PCA(2).fit(X, sample_weight=np.full(200, 0.25)).n_samples_ == 50
    assert PCA(2).fit(X, sample_weight=np.full(200, 0.2512)).n_samples_ == pytest.approx(50.24)


# ---------------------------------------------------------------------------------------------------------- not finite


def test_the_column_of_a_frame_is_named_whatever_is_read():
    names = [f"gene{j}" for j in range(12)]
    frame = pd.DataFrame(X.copy(), columns=names)
    model = PCA(2).fit(frame)
    frame.loc[33, "gene7"] = np.inf
    message = r"infinity \(row 33, column 'gene7'\)"
    for call in (PCA(2).fit, PCA(2, solver="vr").fit, TruncatedSVD(2).fit, model.transform, model.score):
        with pytest.raises(NotFiniteError, match=message):
            call(frame)
    with pytest.raises(NotFiniteError, match=message):
        vrpca.svd(frame, 2)


def test_columns_keep_their_numbers_where_empty_ones_are_left_out():
    data = sp.csr_array(np.random.default_rng(0).random((300, 4)) > 0.5, dtype=float)
    wide = sp.csr_array((data.data, data.indices * 2000 + 999, data.indptr), shape=(300, 8000))
    wide.data[wide.indptr[50]] = np.nan
    column = wide.indices[wide.indptr[50]]
    with pytest.raises(NotFiniteError, match=rf"row 50, column {column}\)"):
        PCA(2).fit(wide)


def test_the_error_survives_another_process():
    error = pickle.loads(pickle.dumps(NotFiniteError("NaN", {"row": 3, "column": "age"})))
    assert "row 3, column 'age'" in str(error) and error.places == {"row": 3, "column": "age"}


def test_scores_that_overflow_are_not_called_not_finite():
    model = PCA(1).fit(X.astype(np.float32))
    with pytest.raises(ValueError, match="overflow float32: pass X as float64"), np.errstate(all="ignore"):
        model.transform(np.full((2, 12), 3e38, np.float32) * np.sign(model.components_))
