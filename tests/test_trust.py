"""Certificates that hold: searches that were blind once, rounding that was left out, one truth for all attributes."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

import vrpca
from helpers import matrix_with_spectrum
from vrpca.check import check

SEEDS = range(4)


def suboptimality(X, Vt, center):
    """The truth, by LAPACK in double precision."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    Z = X - X.mean(axis=0) if center else X
    values = np.linalg.svd(Z, compute_uv=False) ** 2
    Q = np.linalg.qr(Vt.T.astype(np.float64))[0]
    return 1 - np.linalg.norm(Z @ Q) ** 2 / values[: len(Vt)].sum()


def holds(X, k, center=False, **options):
    found = vrpca.svd(X, k, center=center, compute_u=False, **options)
    true, bound = suboptimality(X, found.Vt, center), found.certificate.suboptimality
    assert found.converged
    assert true <= bound + 1e-14
    return found


def outliers(seed, count, excess=0.0):
    """Equal outlying rows, each in a column of its own; the last one may be longer."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5000, 300)) * 0.9 ** np.arange(300) / 70
    X[:, -count:] = 0
    rows = np.arange(count) * (5000 // count)
    X[rows] = 0
    X[rows, np.arange(300 - count, 300)] = 3
    X[rows[-1]] *= 1 + excess
    return X


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cost", ["time", "passes"])
@pytest.mark.parametrize(("count", "k"), [(5, 3), (20, 5)])
def test_equal_outliers_are_found(count, k, cost, seed):
    holds(outliers(seed, count), k, center=True, cost=cost, random_state=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_longer_one_of_two_outliers_is_found(dtype, seed):
    X = outliers(seed, 2, excess=1e-3).astype(dtype)
    found = holds(X, 1, cost="time", tol=1e-4, random_state=seed)
    assert np.argmax(np.abs(found.Vt[0])) == 299


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("ties", "k"), [(9, 9), (6, 5), (20, 12), (2, 1)])
def test_no_copy_of_a_repeated_singular_value_is_missed(ties, k, seed):
    """Blocks are narrower than the eigenspace: only a witness can see what is missing."""
    rng = np.random.default_rng(seed)
    X = matrix_with_spectrum(450, 350, np.r_[np.full(ties, 3.0), 0.3 * 0.99 ** np.arange(350 - ties)], rng)
    holds(X, k, solver="accelerated", cost="time", tol=1e-6, random_state=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_outliers_of_sparse_data_are_found(seed):
    rng = np.random.default_rng(seed)
    X = sp.random_array((3000, 800), density=0.02, rng=rng, format="lil")
    for j, i in enumerate(rng.choice(3000, 5, replace=False)):
        X[i], X[:, [j]] = 0, 0
        X[i, j] = 20
    holds(X.tocsr(), 5, solver="accelerated", cost="time", tol=1e-6, random_state=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_spectra_in_steps(seed):
    rng, k = np.random.default_rng(seed), 4
    X = matrix_with_spectrum(600, 300, 0.8 ** (np.arange(300) // (k + 2)), rng)
    holds(X, k, solver="accelerated", cost="time", tol=1e-6, random_state=seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_steps_close_to_each_other(tol, seed):
    """What a search takes in when it has proved to be blind is followed until it can be told from the next step."""
    squares = np.r_[np.repeat([1, 0.9775, 0.9, 0.85, 0.8, 0.75, 0.7], 7), 0.7 * 0.99 ** np.arange(175)]
    X = matrix_with_spectrum(532, 224, np.sqrt(squares), np.random.default_rng(seed))
    holds(X, 5, solver="accelerated", cost="time", tol=tol, random_state=seed)


@pytest.mark.parametrize(("spread", "tol"), [(0, 1e-4), (1e-6, 1e-8), (1e-2, 1e-2)])
def test_more_nearly_equal_values_than_a_narrow_block_has_vectors(spread, tol):
    """A block sees no more of them than it has vectors, and its Ritz values look as if there were no others."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        close = 1 - spread * rng.random(15)
        values = np.concatenate([[6, 5, 4], close, 0.98 * 0.93 ** np.arange(102)])
        left, right = (np.linalg.qr(rng.standard_normal((m, 120)))[0] for m in (400, 200))
        X = (left * np.sqrt(values)) @ right.T
        holds(X, 12, solver="accelerated", cost="time", tol=tol, random_state=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tol", [1.7e-12, 1e-13])
def test_one_eigenvalue_a_billion_times_the_others(tol, seed):
    X = np.random.default_rng(1).standard_normal((496, 392)) * 1e-3
    X[:, 0] = 0
    X[0, 0] = 1000
    found = vrpca.svd(X, 9, solver="accelerated", cost="time", tol=tol, certificate="probabilistic", random_state=seed)
    Q = np.linalg.qr(found.Vt.T)[0].astype(np.longdouble)
    values = np.linalg.svd(X, compute_uv=False).astype(np.longdouble) ** 2
    true = 1 - ((X @ Q) ** 2).sum() / values[:9].sum()
    assert true <= found.certificate.suboptimality


@pytest.mark.parametrize("seed", range(12))
def test_what_has_converged_is_what_is_returned(seed):
    """`oja` may end with a state that is not the one of the largest objective."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 20)) * np.geomspace(1, 0.1, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = vrpca.PCA(2, solver="oja", tol=10.0 ** -(seed % 4), max_passes=40, random_state=seed).fit(X)
    assert model.converged_ == (model.certificate_.suboptimality <= model.tol)
    assert model.certificate_.suboptimality <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fraction", [0.3, 0.7])
def test_what_has_converged_to_a_fraction_is_below_the_tolerance(fraction, dtype):
    """The components that are needed have a certificate of their own, among equal values as well."""
    X = np.tile(np.eye(20, dtype=dtype), (5, 1))
    found = vrpca.pca(X, fraction, solver="gram", tol=1e-8)
    assert found.converged and found.certificate.suboptimality <= 1e-8
    assert suboptimality(X, found.Vt, center=True) <= found.certificate.suboptimality + 1e-14


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_part_of_the_variance_is_more_than_all_of_it(dtype):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = np.outer(rng.standard_normal(40), rng.standard_normal(10)).astype(dtype)
        model = vrpca.TruncatedSVD(1, solver="krylov").fit(sp.csr_array(X))
        assert model.explained_variance_ratio_.max() <= 1


@pytest.mark.parametrize("certificate", ["estimated", "probabilistic"])
@pytest.mark.parametrize("max_passes", [4, 10, 100])
def test_deflation_returns_as_many_components_as_are_asked_for(certificate, max_passes):
    X = np.random.default_rng(0).standard_normal((48, 74))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = vrpca.pca(
            X, 3, solver="vr", deflate=True, certificate=certificate, max_passes=max_passes, random_state=0
        )
    assert found.Vt.shape == (3, 74) and found.s.shape == (3,)
    assert suboptimality(X, found.Vt, True) <= found.certificate.suboptimality <= 1


def test_a_check_that_runs_out_of_passes_says_so():
    """Three verdicts: proven, wrong, and not proven."""
    rng = np.random.default_rng(0)
    X = matrix_with_spectrum(300, 120, 0.995 ** np.arange(120), rng)
    model = vrpca.PCA(5, center=False, solver="krylov", tol=1e-6, random_state=0).fit(X)
    assert [check(model, X, passes=passes).verdict for passes in (6, 30)] == ["not proven", "proven"]
    model.components_[4] = np.linalg.svd(X)[2][9]
    found = check(model, X)
    assert found.verdict == "wrong" and found.tol < found.at_least <= found.certificate.suboptimality


@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e160, 1e200])
def test_singular_values_of_extreme_scales(factor):
    X = np.random.default_rng(0).standard_normal((60, 12)) * np.geomspace(1, 0.1, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vrpca.svd(X * factor, 3, random_state=0)
    np.testing.assert_allclose(found.s / factor, np.linalg.svd(X, compute_uv=False)[:3], rtol=1e-9)
    np.testing.assert_allclose(found.explained_variance_ratio, vrpca.svd(X, 3).explained_variance_ratio, rtol=1e-9)
    with pytest.raises(vrpca.DataError, match="out of the range of float64: divide X"):
        vrpca.PCA(3).fit(X * factor)


@pytest.mark.parametrize("solver", ["hybrid", "oja", "vr", "krylov"])
@pytest.mark.parametrize("factor", [1e-250, 1e-170, 1e170, 1e250])
def test_wide_sparse_data_of_extreme_scales(factor, solver):
    """Their rows are the columns of X, with means of their own: no square of a shift may overflow."""
    X = sp.random_array((50, 209), density=0.3, rng=np.random.default_rng(0), format="csc")
    expected = vrpca.svd(X, 3, center=True, solver=solver, max_passes=40, tol=0.5, random_state=0)
    found = vrpca.svd(X * factor, 3, center=True, solver=solver, max_passes=40, tol=0.5, random_state=0)
    np.testing.assert_allclose(found.s / factor, expected.s, rtol=1e-6)


def test_columns_too_small_to_be_scaled_are_refused():
    X = np.random.default_rng(0).standard_normal((20, 30)).astype(np.float32)
    X[:, 3] = 0
    X[7, 3] = 1e-45
    for rows in (X, np.asfortranarray(X), sp.csr_array(X), sp.csc_array(X)):
        with pytest.raises(vrpca.DataError, match="too small for float32: multiply it by a power of ten"):
            vrpca.svd(rows, 2, center=True, scale=True)


def test_a_proof_for_fewer_pairs_than_components():
    """Rows without weight leave a rank below k: the search outside finds nothing, and ends."""
    X = np.random.default_rng(0).standard_normal((40, 30))
    weights = np.where(np.arange(40) < 10, 1.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = vrpca.svd(X, 12, solver="krylov", certificate="probabilistic", sample_weight=weights, random_state=0)
    np.testing.assert_allclose(found.s[:10], np.linalg.svd(X[:10], compute_uv=False), rtol=1e-6)


def test_float32_near_its_largest_number():
    X = np.random.default_rng(0).standard_normal((60, 12)).astype(np.float32)
    with pytest.raises(vrpca.DataError, match="out of the range of float32: pass X as float64"):
        vrpca.svd(X * np.float32(5e37), 3)
    with pytest.raises(vrpca.DataError, match="out of the range of float32: pass X as float64"):
        vrpca.PCA(3).fit(X * np.float32(1e20))
    model = vrpca.PCA(3).fit(X)
    with pytest.raises(vrpca.DataError):
        model.fit(X[:, :4] * np.float32(1e20))
    assert model.n_features_in_ == 12 and model.components_.shape == (3, 12)  # as it was


# ------------------------------------------------------------------------------------------------------------ angles


def sines(Vt, expected):
    signs = np.sign((Vt * expected).sum(axis=1))
    return np.linalg.norm(Vt - signs[:, None] * expected, axis=1)


@pytest.mark.parametrize("solver", ["auto", "accelerated", "krylov", "gram", "power"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("angle_tol", [1e-5, 1e-10])
def test_angles_are_below_their_tolerance(angle_tol, sparse, solver):
    X = matrix_with_spectrum(200, 80, 0.8 ** np.arange(80), np.random.default_rng(0))
    found = vrpca.svd(
        sp.csr_array(X) if sparse else X, 4, solver=solver, angle_tol=angle_tol, max_passes=300, random_state=0
    )
    assert found.converged and found.certificate.angles.max() <= angle_tol
    true = sines(found.Vt, np.linalg.svd(X)[2][:4])
    assert (true <= found.certificate.angles).all()
    assert found.history[-1].angle == found.certificate.angles.max()


def test_the_smallest_angles():
    X = matrix_with_spectrum(300, 100, 0.5 ** np.arange(100), np.random.default_rng(0))
    found = vrpca.svd(X, 3, solver="krylov", angle_tol=1e-13, random_state=0)
    assert found.converged
    assert sines(found.Vt, np.linalg.svd(X)[2][:3]).max() < 1e-13


def test_equal_variances_have_the_angle_of_their_subspace():
    values = np.r_[3.0, 2.0, 2.0, 1.0, 0.5 * 0.9 ** np.arange(60)]
    X = matrix_with_spectrum(200, 64, values, np.random.default_rng(0))
    found = vrpca.svd(X, 4, solver="krylov", angle_tol=1e-9, random_state=0)
    assert found.converged
    expected = np.linalg.svd(X)[2]
    outside = found.Vt[1:3] - found.Vt[1:3] @ expected[1:3].T @ expected[1:3]
    assert np.linalg.norm(outside, 2) <= found.certificate.angles[1] <= 1e-9


def test_components_that_cannot_have_an_angle_are_named():
    values = np.r_[3.0, 2.0, 1.0, 1.0, 0.5 * 0.9 ** np.arange(60)]
    X = matrix_with_spectrum(200, 64, values, np.random.default_rng(0))
    with pytest.warns(ConvergenceWarning, match=r"nothing bounds the angles of component\(s\) 3: their variances"):
        found = vrpca.svd(X, 3, solver="krylov", angle_tol=1e-9, random_state=0)
    assert found.certificate.suboptimality <= 1e-8
    assert (found.certificate.angles[:2] < 1e-9).all() and found.certificate.angles[2] == 1


# ---------------------------------------------------------------------------------------------------------- ceilings


def test_what_is_outside_in_numbers():
    """A witness says what no eigenvalue outside exceeds, but for a probability of 1%."""
    X = matrix_with_spectrum(400, 300, 0.9 ** np.arange(300), np.random.default_rng(0))
    above = told = 0
    for seed in range(20):
        certificate = vrpca.svd(X, 3, solver="krylov", tol=1e-13, random_state=seed).certificate
        if certificate.ceiling is not None:
            told += 1
            above += certificate.ceiling < 0.9**6  # the fourth eigenvalue, relative to the first
            assert certificate.failure == 0.01
    assert told == 20 and above == 0
    exact = vrpca.svd(X, 3, solver="gram").certificate
    assert exact.ceiling == exact.mu == pytest.approx(0.9**6) and exact.failure == 0


@pytest.mark.parametrize("solver", ["accelerated", "krylov", "power", "gram"])
@pytest.mark.parametrize("k", [1, 4, 6])
def test_what_is_left_out_is_left_out_of_the_answer(k, solver):
    """Solvers search with more vectors than are asked for; what these hold is left out as well."""
    values = np.r_[10, 7, 6, 5, 5, 5, 3 * 0.97 ** np.arange(194)]
    X = matrix_with_spectrum(600, 200, values, np.random.default_rng(0))
    for seed in range(5):
        found = vrpca.svd(X, k, solver=solver, certificate="probabilistic", max_passes=300, random_state=seed)
        assert found.certificate.ceiling >= (1 - 1e-12) * (values[k] / values[0]) ** 2
        assert found.certificate.mu >= (1 - 1e-12) * (values[k] / values[0]) ** 2


def test_words_about_directions():
    """Components of equal variance have no directions of their own; those next to an equal one have none at all."""
    values = np.r_[10, 5, 5, 5, 2, 2, 0.5 * 0.9 ** np.arange(94)]
    X = matrix_with_spectrum(300, 100, values, np.random.default_rng(0))
    words = {k: " ".join(vrpca.svd(X, k, solver="gram").certificate.in_words()) for k in (1, 3, 4, 6)}
    assert "The direction is right to within" in words[1]
    assert "Not certified is the direction of component 2, 3:" in words[3] and "Every other direction is" in words[3]
    assert "Components 2 to 4 have variances that are equal up to rounding" in words[4]
    assert "All that is certified is right to within" in words[4]
    assert "Components 5 to 6" in words[6] and "All that is certified is right to within" in words[6]
    equal = vrpca.svd(matrix_with_spectrum(90, 9, np.r_[np.ones(3), 0.5 * np.ones(6)], np.random.default_rng(0)), 3)
    said = " ".join(equal.certificate.in_words())
    assert "Components 1 to 3 have" in said and "All that is certified is right to within" in said


def test_advice_about_angles():
    X = matrix_with_spectrum(300, 100, np.r_[10, 5, 5, 5, 2 * 0.9 ** np.arange(96)], np.random.default_rng(0))
    with pytest.warns(ConvergenceWarning, match="Ask for more or fewer components"):
        vrpca.svd(X, 3, angle_tol=1e-10)
    with pytest.warns(ConvergenceWarning, match="Loosen angle_tol, allow more passes"):
        vrpca.svd(X, 4, angle_tol=1e-15)
    with pytest.raises(vrpca.OptionError, match="solver='gram' gives an exact one"):
        vrpca.svd(X, 4, certificate="exact")


def test_warnings_point_at_the_line_of_the_user():
    X = np.random.default_rng(0).standard_normal((300, 60))
    options = {"tol": 1e-14, "max_passes": 4, "solver": "power"}
    calls = [
        lambda: vrpca.svd(X, 3, **options),
        lambda: vrpca.PCA(3, **options).fit(X),
        lambda: vrpca.TruncatedSVD(3, **options).fit_transform(X),
        lambda: make_pipeline(vrpca.PCA(3, **options)).fit(X),
    ]
    for call in calls:
        with pytest.warns(ConvergenceWarning) as caught:
            call()
        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("solver", ["accelerated", "krylov"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_start_where_the_data_are_zero_hides_nothing(solver, dtype, rng):
    """Its vectors vanish where the data do. What takes their place has to lie where the data are."""
    X = np.zeros((36, 82), dtype)
    X[:, ::4] = rng.standard_normal((36, 21)) * np.r_[np.full(8, 3.0), np.linspace(1, 0.4, 13)]
    start = np.eye(82, dtype=dtype)[[1, 2, 3]]
    found = vrpca.svd(X, 3, solver=solver, cost="time", tol=1e-6, start=start, random_state=0)
    s = np.linalg.svd(X.astype(float))[1]
    V = np.linalg.qr(found.Vt.T.astype(float))[0]
    explained = np.linalg.norm(X.astype(float) @ V) ** 2 / (s[:3] ** 2).sum()
    assert 1 - explained <= found.certificate.suboptimality
    assert found.converged


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("solver", ["accelerated", "krylov", "power", "vr"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_many_equal_rows_of_float32_do_not_make_a_certificate_too_small(kind, solver, seed):
    """Large means that are not subtracted: almost all products that are added up are equal, and rounded one way."""
    rng = np.random.default_rng(seed)
    X = (rng.uniform(0.1, 1, 12) + 1e-8 * rng.standard_normal((16000, 12))).astype(np.float32)
    holds(kind(X), 1, solver=solver, tol=1e-4, random_state=seed)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["vr", "oja", "power"])
def test_a_loose_tolerance_is_met_whatever_the_start_sees(solver):
    """Three large eigenvalues, and a solver that stops as soon as an estimate counts: 100 starts."""
    X = matrix_with_spectrum(862, 120, np.sqrt(np.r_[0.42, 0.31, 0.27, np.full(117, 1e-6)]), np.random.default_rng(0))
    for seed in range(100):
        found = vrpca.svd(X, 1, solver=solver, tol=0.01, max_passes=60, random_state=seed, compute_u=False)
        assert suboptimality(X, found.Vt, False) <= found.certificate.suboptimality, seed


@pytest.mark.parametrize("solver", ["hybrid", "vr", "oja"])
def test_sparse_rows_with_a_huge_mean_are_refused_however_they_are_drawn(solver):
    """The norms that rows are drawn by are known all the same: what is refused are products, with cause and remedy."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = np.tile(1e4 * rng.standard_normal(200), (300, 1)).astype(np.float32)
        X[:, 0] = rng.standard_normal(300)
        with pytest.raises(vrpca.DataError, match=r"times as large as their deviations.*pass X as float64"):
            vrpca.svd(sp.csr_array(X), 1, center=True, solver=solver, sampling="norm", random_state=seed)
