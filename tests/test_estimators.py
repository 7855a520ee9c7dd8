"""`PCA` and `TruncatedSVD` against scikit-learn's own, and as members of its pipelines."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn.decomposition
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vrpca
from solvers.problems import ChunkedSource, assert_orthonormal, assert_sign_rule, small_counts, with_eigenvalues
from vrpca import PCA, TruncatedSVD

X = with_eigenvalues(200, 12, 0.7 ** np.arange(12)) + np.arange(12)
COUNTS = small_counts(150, 16)


def like_sklearn(ours, theirs, rtol=1e-9, atol=3e-6):
    """All fitted attributes that both have, components up to their different sign rules."""
    assert ours.n_components_ == theirs.n_components_
    assert ours.n_features_in_ == theirs.n_features_in_
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12, atol=1e-12)
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_", "noise_variance_"):
        mine, other = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=1e-12, err_msg=name)
    signs = np.sign((ours.components_ * theirs.components_).sum(axis=1))
    assert ours.components_.shape == theirs.components_.shape
    np.testing.assert_allclose(ours.components_, signs[:, None] * theirs.components_, atol=atol)


def assert_scores(found, expected, Z, certificate):
    """Scores up to their signs: those of a row change by its length times what the certificate's angles allow."""
    allowed = np.outer(np.linalg.norm(Z, axis=1), 1.5 * certificate.angles + 1e-12)
    assert certificate.angles.max() < 1e-5
    assert (np.abs(np.abs(found) - np.abs(expected)) <= allowed).all()


@pytest.mark.reference
@pytest.mark.parametrize("k", [None, 1, 3, 11, 12])
@pytest.mark.parametrize("solver", ["auto", "gram", "vr"])
def test_pca_equals_sklearns(k, solver):
    ours = PCA(k, solver=solver, tol=1e-13, random_state=0, max_passes=1000).fit(X)
    like_sklearn(ours, sklearn.decomposition.PCA(k, svd_solver="full").fit(X))
    assert ours.n_samples_ == 200
    assert_sign_rule(ours.components_)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_wide_pca_equals_sklearns(k):
    wide = with_eigenvalues(10, 60, 0.5 ** np.arange(10)) + 1
    like_sklearn(PCA(k).fit(wide), sklearn.decomposition.PCA(k, svd_solver="full").fit(wide))


@pytest.mark.parametrize("fraction", [0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("solver", ["gram", "vr"])
def test_a_fraction_takes_as_many_components_as_sklearn(fraction, solver):
    ours = PCA(fraction, solver=solver, tol=1e-13, random_state=0, max_passes=1000).fit(X)
    like_sklearn(ours, sklearn.decomposition.PCA(fraction, svd_solver="full").fit(X))


@pytest.mark.parametrize("solver", ["gram", "vr"])
@pytest.mark.parametrize("sparse", [sp.csr_array, sp.csc_array])
def test_sparse_pca_equals_dense(solver, sparse):
    """scikit-learn issues 12794 and 18689, scanpy 393: centred without densifying, the same answer."""
    ours = PCA(3, solver=solver, tol=1e-13, random_state=0, max_passes=500).fit(sparse(COUNTS))
    like_sklearn(ours, sklearn.decomposition.PCA(3, svd_solver="full").fit(COUNTS))
    np.testing.assert_allclose(ours.transform(sparse(COUNTS)), ours.transform(COUNTS), atol=1e-10)


@pytest.mark.parametrize("solver", ["gram", "vr"])
def test_truncated_svd_equals_scipys(solver):
    S = sp.csr_array(COUNTS)
    ours = TruncatedSVD(4, solver=solver, tol=1e-13, random_state=0, max_passes=500).fit(S)
    U, s, Vt = sp.linalg.svds(S, 4, rng=0)
    order = np.argsort(-s)
    np.testing.assert_allclose(ours.singular_values_, s[order], rtol=1e-9)
    assert np.abs((ours.components_ * Vt[order]).sum(axis=1)) == pytest.approx(np.ones(4), abs=1e-9)
    scores = ours.transform(S)
    assert_scores(scores, U[:, order] * s[order], COUNTS, ours.certificate_)
    np.testing.assert_allclose(ours.explained_variance_, scores.var(axis=0), rtol=1e-9)
    total = COUNTS.var(axis=0).sum()
    np.testing.assert_allclose(ours.explained_variance_ratio_, scores.var(axis=0) / total, rtol=1e-9)


@pytest.mark.parametrize("make", [lambda: PCA(3, random_state=0), lambda: PCA(3, whiten=True), lambda: TruncatedSVD(3)])
@pytest.mark.parametrize(
    "data", [X, X.astype(np.float32), sp.csr_array(COUNTS), X[:8]], ids=["64", "32", "sparse", "wide"]
)
def test_fit_transform_is_fit_then_transform(make, data):
    """scikit-learn issue 15144, cuML 488."""
    both = make().fit_transform(data)
    apart = make().fit(data).transform(data)
    np.testing.assert_array_equal(both, apart)
    assert both.dtype == data.dtype


@pytest.mark.parametrize(
    "options", [{}, {"scale": True}, {"whiten": True}, {"scale": True, "whiten": True}, {"center": False}]
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_round_trip(options, form):
    model = PCA(None, **options).fit(form(COUNTS))
    np.testing.assert_allclose(model.inverse_transform(model.transform(form(COUNTS))), COUNTS, atol=1e-9)


def test_a_truncated_round_trip_is_the_best_approximation():
    model = PCA(4).fit(X)
    back = model.inverse_transform(model.transform(X))
    s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    assert np.linalg.norm(X - back) ** 2 == pytest.approx((s[4:] ** 2).sum(), rel=1e-8)
    svd = TruncatedSVD(4).fit(X)
    s = np.linalg.svd(X, compute_uv=False)
    assert np.linalg.norm(X - svd.inverse_transform(svd.transform(X))) ** 2 == pytest.approx(
        (s[4:] ** 2).sum(), rel=1e-8
    )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_whitening(form):
    model = PCA(5, whiten=True).fit(form(COUNTS))
    scores = model.transform(form(COUNTS))
    np.testing.assert_allclose(np.cov(scores.T), np.eye(5), atol=1e-9)
    theirs = sklearn.decomposition.PCA(5, whiten=True, svd_solver="full").fit(COUNTS)
    np.testing.assert_allclose(np.abs(scores), np.abs(theirs.transform(COUNTS)), atol=1e-7)
    np.testing.assert_allclose(
        model.inverse_transform(scores), theirs.inverse_transform(theirs.transform(COUNTS)), atol=1e-7
    )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("solver", ["gram", "vr"])
def test_scale_is_a_standard_scaler_before(form, solver):
    data = COUNTS * np.geomspace(1, 100, 16) + 3
    data[:, 5] = 7.0  # constant
    ours = PCA(3, scale=True, solver=solver, tol=1e-13, random_state=0, max_passes=2000).fit(form(data))
    theirs = make_pipeline(StandardScaler(), sklearn.decomposition.PCA(3, svd_solver="full")).fit(data)
    np.testing.assert_allclose(ours.explained_variance_, theirs[-1].explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(ours.explained_variance_ratio_, theirs[-1].explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs[-1].components_), atol=1e-5)
    assert_scores(ours.transform(form(data)), theirs.transform(data), theirs[0].transform(data), ours.certificate_)
    np.testing.assert_allclose(ours.scale_, theirs[0].scale_, rtol=1e-10)
    np.testing.assert_allclose(ours.components_[:, 5], 0, atol=1e-12)


@pytest.mark.parametrize("solver", ["gram", "vr"])
@pytest.mark.parametrize("options", [{}, {"scale": True}, {"whiten": True}])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_integer_weights_are_repeated_rows(solver, options, form):
    weights = np.random.default_rng(1).integers(0, 4, len(COUNTS))
    weighted = PCA(3, solver=solver, tol=1e-13, random_state=0, max_passes=1000, **options)
    weighted.fit(form(COUNTS), sample_weight=weights)
    repeated = PCA(3, **options).fit(np.repeat(COUNTS, weights, axis=0))
    for name in ("explained_variance_", "singular_values_", "explained_variance_ratio_", "noise_variance_", "mean_"):
        np.testing.assert_allclose(
            getattr(weighted, name), getattr(repeated, name), rtol=1e-9, atol=1e-12, err_msg=name
        )
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-5)
    assert weighted.n_samples_ == repeated.n_samples_


def test_weights_of_truncated_svd():
    weights = np.random.default_rng(1).integers(0, 4, len(COUNTS))
    weighted = TruncatedSVD(3).fit(COUNTS, sample_weight=weights)
    repeated = TruncatedSVD(3).fit(np.repeat(COUNTS, weights, axis=0))
    np.testing.assert_allclose(weighted.singular_values_, repeated.singular_values_, rtol=1e-10)
    np.testing.assert_allclose(weighted.explained_variance_, repeated.explained_variance_, rtol=1e-10)


def test_a_constant_factor_of_the_weights_does_not_turn_the_axes():
    weights = np.random.default_rng(1).uniform(0.1, 1, len(COUNTS))
    one, other = (PCA(3).fit(COUNTS, sample_weight=c * weights) for c in (1, 1000))
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-9)
    np.testing.assert_allclose(one.explained_variance_ratio_, other.explained_variance_ratio_, rtol=1e-10)


@pytest.mark.parametrize("solver", ["gram", "vr"])
def test_float32_stays_float32(solver):
    model = PCA(2, solver=solver, random_state=0).fit(X.astype(np.float32))
    for name in ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"):
        assert getattr(model, name).dtype == np.float32, name
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    assert model.inverse_transform(model.transform(X.astype(np.float32))).dtype == np.float32
    theirs = sklearn.decomposition.PCA(2, svd_solver="full").fit(X)
    np.testing.assert_allclose(model.explained_variance_, theirs.explained_variance_, rtol=1e-5)


@pytest.mark.parametrize(("kind", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output(kind, frame):
    model = PCA(2).set_output(transform=kind).fit(X)
    out = model.transform(X)
    assert isinstance(out, frame) and list(out.columns) == ["pca0", "pca1"]
    np.testing.assert_array_equal(out.to_numpy(), PCA(2).fit_transform(X))
    assert list(TruncatedSVD(2).set_output(transform=kind).fit_transform(X).columns) == [
        "truncatedsvd0",
        "truncatedsvd1",
    ]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names(frame):
    names = [f"gene{j}" for j in range(12)]
    table = frame(dict(zip(names, X.T, strict=True)))
    model = PCA(2).fit(table)
    assert list(model.feature_names_in_) == names
    assert list(model.get_feature_names_out()) == ["pca0", "pca1"]
    np.testing.assert_allclose(model.transform(table), PCA(2).fit_transform(X), atol=1e-10)
    renamed = frame(dict(zip(reversed(names), X.T, strict=True)))
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(renamed)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.transform(X)


def test_a_frame_of_mixed_number_types():
    table = pd.DataFrame(
        {"a": np.arange(20), "b": np.linspace(0, 1, 20).astype(np.float32), "c": np.arange(20) % 2 == 0}
    )
    model = PCA(2).fit(table)
    theirs = sklearn.decomposition.PCA(2).fit(table.astype(float))
    np.testing.assert_allclose(model.explained_variance_, theirs.explained_variance_, rtol=1e-6)


@pytest.mark.parametrize("solver", ["gram", "vr"])
def test_pickling_copying_cloning(solver):
    model = PCA(2, solver=solver, random_state=0).fit(X)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.transform(X), model.transform(X))
        assert twin.certificate_.suboptimality == model.certificate_.suboptimality
        assert twin.history_ == model.history_ and twin.status_ is model.status_
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "components_")


def test_fit_does_not_change_parameters():
    model = PCA(None, solver="auto", random_state=0)
    before = model.get_params()
    model.fit(X)
    assert model.get_params() == before
    assert model.n_components is None and model.n_components_ == 12


def test_refitting_forgets_the_first_fit():
    model = PCA(2).fit(X)
    model.fit(COUNTS)
    np.testing.assert_array_equal(model.components_, PCA(2).fit(COUNTS).components_)
    assert model.n_features_in_ == 16


def test_in_a_pipeline_and_a_grid_search():
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    pipeline = make_pipeline(StandardScaler(), PCA(random_state=0), KNeighborsClassifier())
    search = GridSearchCV(pipeline, {"pca__n_components": [1, 3, 0.9], "pca__whiten": [False, True]}, cv=3)
    search.fit(X, y)
    theirs = make_pipeline(StandardScaler(), sklearn.decomposition.PCA(random_state=0), KNeighborsClassifier())
    expected = GridSearchCV(theirs, {"pca__n_components": [1, 3, 0.9], "pca__whiten": [False, True]}, cv=3).fit(X, y)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("k", [3, 0.7])
def test_warm_start_saves_passes(form, wide, k):
    data = with_eigenvalues(500, 40, 0.85 ** np.arange(40))
    data = form(np.ascontiguousarray(data.T) if wide else data)
    model = PCA(k, solver="vr", tol=1e-10, warm_start=True, random_state=0, max_passes=300).fit(data)
    cold = model.n_passes_
    model.fit(data)
    assert model.converged_
    assert model.n_passes_ < cold
    model.set_params(n_components=2).fit(data)
    assert model.components_.shape == (2, data.shape[1])
    other = with_eigenvalues(300, 30, 0.8 ** np.arange(30))
    model.fit(other)  # other columns: the old components are of no use
    assert model.components_.shape == (2, 30) and model.converged_


@pytest.mark.parametrize(("cost", "sparse"), [("time", False), ("time", True), ("passes", False)])
def test_more_components_take_no_more_passes_from_a_warm_start(cost, sparse):
    """The components that are known join the start; they do not take its place."""
    data = np.random.default_rng(0).standard_normal((4000, 40)) / np.sqrt(1 + np.arange(40))
    data = sp.csr_array(data) if sparse else data
    options = {"solver": "accelerated", "cost": cost, "tol": 1e-6, "random_state": 0}
    for few, more in ((1, 2), (2, 4), (4, 4)):
        cold = PCA(more, **options).fit(data)
        warm = PCA(few, warm_start=True, **options).fit(data).set_params(n_components=more).fit(data)
        assert warm.converged_ and warm.n_passes_ <= cold.n_passes_


def test_without_warm_start_every_fit_is_the_same():
    model = PCA(3, solver="vr", random_state=0)
    first = model.fit(X).components_
    np.testing.assert_array_equal(model.fit(X).components_, first)


@pytest.mark.parametrize("make", [lambda: PCA(2), lambda: PCA(2, whiten=True, scale=True), lambda: TruncatedSVD(2)])
def test_one_row_transforms_like_many(make):
    """flashpca issue 48: transforming one sample refused."""
    model = make().fit(COUNTS)
    all_rows = model.transform(COUNTS)
    for form in (np.asarray, sp.csr_array, sp.csc_array):
        np.testing.assert_allclose(model.transform(form(COUNTS[5:6])), all_rows[5:6], atol=1e-12)
    assert model.transform(COUNTS[:1]).shape == (1, 2)


def test_transform_takes_what_fit_takes():
    model = PCA(3).fit(COUNTS)
    expected = model.transform(COUNTS)
    forms = [
        COUNTS.tolist(),
        np.asfortranarray(COUNTS),
        COUNTS.astype(np.int8),
        sp.coo_array(COUNTS),
        ChunkedSource(COUNTS, 7),
    ]
    for data in [*forms, pd.DataFrame(COUNTS), pl.DataFrame(COUNTS)]:
        model = PCA(3).fit(data)
        rounding = 8 * np.finfo(model.components_.dtype).eps * np.abs(expected).max()
        np.testing.assert_allclose(model.transform(data), expected, atol=rounding)


def test_a_model_fitted_on_dense_data_transforms_sparse_and_back():
    dense, sparse = PCA(3).fit(COUNTS), PCA(3).fit(sp.csr_array(COUNTS))
    np.testing.assert_allclose(dense.transform(sp.csr_array(COUNTS)), sparse.transform(COUNTS), atol=1e-9)


def test_scores_are_centred_and_uncorrelated():
    scores = PCA(4).fit_transform(X)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-10)
    covariance = np.cov(scores.T)
    np.testing.assert_allclose(covariance - np.diag(np.diag(covariance)), 0, atol=1e-9)


def test_own_attributes():
    model = PCA(3, solver="vr", random_state=0).fit(X)
    assert model.solver_ == "vr" and model.solver_reason_ == "asked for"
    assert model.converged_ is True and model.status_ is vrpca.Status.CONVERGED
    assert model.n_passes_ == model.history_[-1].passes
    assert model.certificate_.suboptimality <= model.tol and model.certificate_.kind == "estimated"
    assert model.certificate_.residuals.shape == model.certificate_.angles.shape == (3,)
    assert model.n_iter_ >= 1
    assert_orthonormal(model.components_, 1e-12)


def test_not_converging_is_a_warning_with_a_full_result():
    with pytest.warns(ConvergenceWarning, match=r"3 component\(s\).*not tol=1.0e-12.*max_passes"):
        model = PCA(3, solver="vr", tol=1e-12, max_passes=4, random_state=0).fit(X)
    assert model.converged_ is False
    assert model.transform(X).shape == (200, 3)


def test_the_callback_and_verbose(capfd):
    seen = []
    model = PCA(2, solver="vr", random_state=0, callback=seen.append, verbose=True).fit(X)
    out, err = capfd.readouterr()
    assert out == "" and "rows/s, bound" in err
    assert seen == model.history_


def test_not_fitted():
    for method in ("transform", "inverse_transform", "get_feature_names_out"):
        arguments = () if method == "get_feature_names_out" else (X,)
        with pytest.raises(NotFittedError):
            getattr(PCA(2), method)(*arguments)
    with pytest.raises((NotFittedError, AttributeError)):
        _ = TruncatedSVD(2).explained_variance_


def recorder():
    """A scikit-learn callback that writes down what it is told."""
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")

    class Recorder:
        def __init__(self):
            self.events = []

        def setup(self, estimator, context):
            self.events.append(("setup", context.task_name))

        def on_fit_task_begin(self, estimator, context, **kwargs):
            self.events.append(("begin", context.task_name))

        def on_fit_task_end(self, estimator, context, **kwargs):
            self.events.append(("end", context.task_name))
            self.metadata = kwargs.get("metadata")
            return False

        def teardown(self, estimator, context):
            self.events.append(("teardown", context.task_name))

    return Recorder()


@pytest.mark.parametrize("solver", ["gram", "vr"])
def test_sklearn_callbacks_see_begin_steps_and_end(solver):
    watcher = recorder()
    model = PCA(2, solver=solver, random_state=0)
    model.set_callbacks(watcher)
    model.fit(X)
    kinds = [kind for kind, _ in watcher.events if kind in ("begin", "end")]
    records = len(model.history_)
    assert kinds == ["begin", *["begin", "end"] * records, "end"]
    assert sum(task == "step" for _, task in watcher.events) == 2 * records
    assert watcher.events[0][0] == "setup" and watcher.events[-1][0] == "teardown"
    np.testing.assert_array_equal(model.components_, PCA(2, solver=solver, random_state=0).fit(X).components_)


def test_a_sklearn_callback_can_stop_the_fit():
    watcher = recorder()
    watcher.on_fit_task_end = lambda estimator, context, **kwargs: True
    model = PCA(2, solver="vr", random_state=0)
    model.set_callbacks(watcher)
    with pytest.warns(ConvergenceWarning, match="asked to stop"):
        model.fit(X)
    assert len(model.history_) == 1


def test_sklearn_callbacks_see_the_end_of_an_interrupted_fit():
    def interrupt(record):
        raise KeyboardInterrupt

    watcher = recorder()
    model = PCA(2, solver="vr", random_state=0, callback=interrupt)
    model.set_callbacks(watcher)
    with pytest.raises(vrpca.Interrupted):
        model.fit(X)
    assert [kind for kind, _ in watcher.events] == ["setup", "begin", "end", "teardown"]
    assert model.components_.shape == (2, 12)


def test_a_sklearn_callback_that_fails_leaves_the_model_as_it_was():
    def fail(estimator, context, **kwargs):
        raise RuntimeError("no room for a log")

    watcher, model = recorder(), PCA(2, random_state=0).fit(X)
    watcher.on_fit_task_begin = fail
    model.set_callbacks(watcher)
    with pytest.raises(RuntimeError, match="no room"):
        model.fit(COUNTS)
    assert model.n_features_in_ == 12 and model.transform(X).shape == (200, 2)


@pytest.mark.parametrize("total", [0.5, 1.0, 1 + 2e-16, 1.01, 1.99])
def test_weights_that_sum_to_less_than_two_are_proportions(total):
    """Normalised weights must not divide by (sum - 1), which is next to nothing."""
    X = np.random.default_rng(0).standard_normal((100, 4)) * [3, 2, 1, 0.5]
    plain = vrpca.PCA(2, random_state=0).fit(X)
    weighted = vrpca.PCA(2, random_state=0).fit(X, sample_weight=np.full(100, total / 100))
    np.testing.assert_allclose(weighted.explained_variance_, plain.explained_variance_, rtol=1e-12)
    np.testing.assert_allclose(weighted.singular_values_, plain.singular_values_, rtol=1e-12)


def test_all_components_come_with_a_certificate_of_their_number():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 20)) + 0.1 * rng.standard_normal((50, 20))
    for components, count in ((None, 20), ("mle", 3)):
        model = vrpca.PCA(components).fit(data)
        assert model.n_components_ == count == len(model.certificate_.residuals) == len(model.certificate_.angles)


def test_a_source_that_lacks_rows_is_not_transformed():
    class Short(vrpca.Source):
        shape, dtype = (60, 4), np.dtype(np.float64)

        def blocks(self, rng=None):
            yield 0, np.ones((40, 4))

        def transposed(self):
            raise TypeError

    model = PCA(2, random_state=0).fit(np.random.default_rng(0).standard_normal((60, 4)))
    with pytest.raises(vrpca.DataError, match="has 60 rows, but its blocks have 40"):
        model.transform(Short())
