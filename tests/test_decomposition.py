"""`svd` and `pca`: what they return, against LAPACK, for every way of asking."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import (
    ChunkedSource,
    assert_orthonormal,
    assert_sign_rule,
    assert_true_answer,
    assert_turned_no_further,
    lapack,
    small_counts,
    suboptimality,
    transformed,
    with_eigenvalues,
)
from vrpca import Status
from vrpca.data.view import View
from vrpca.plan import pass_seconds

X = small_counts()

LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
}


@pytest.mark.reference
@pytest.mark.parametrize("solver", ["vr", "gram"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse", "wide", "sparse wide"])
def test_centring_scaling_and_weights_in_all_combinations(solver, center, scale, weighted, form):
    """irlba issues 22 and 42: implicit centring wrong, alone or together with scaling."""
    data = small_counts(20, 120, seed=2) if "wide" in form else small_counts(120, 15, seed=1)
    data += np.arange(data.shape[1]) % 3
    weights = np.random.default_rng(3).integers(0, 4, len(data)).astype(float) if weighted else None
    Z = transformed(data, center, scale, weights)
    found = vrpca.svd(
        sp.csr_array(data) if "sparse" in form else data,
        3,
        center=center,
        scale=scale,
        sample_weight=weights,
        solver=solver,
        tol=1e-10,
        max_passes=2000,
        random_state=0,
    )
    assert found.converged
    assert_true_answer(found, Z, 1e-10)
    if center:
        w = np.ones(len(data)) if weights is None else weights
        np.testing.assert_allclose(found.mean, w @ data / w.sum(), rtol=1e-12, atol=1e-14)
    else:
        assert found.mean is None
    assert found.n_samples == pytest.approx(len(data) if weights is None else weights.sum())


def test_the_result_is_complete():
    found = vrpca.pca(X, 3, random_state=0)
    assert found.converged and found.status is Status.CONVERGED
    assert found.solver == "gram" and "20" in found.reason
    assert found.n_passes >= 2 and found.history
    assert found.certificate.suboptimality <= 1e-8
    s, _ = lapack(transformed(X, True))
    np.testing.assert_allclose(found.explained_variance_ratio, (s**2 / (s**2).sum())[:3], rtol=1e-10)
    np.testing.assert_allclose(found.total_variance, (s**2).sum(), rtol=1e-12)
    assert found.rank_limit == 20
    assert "history" not in repr(found) and len(repr(found)) < 1000
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.s = None


def test_left_vectors_are_optional():
    assert vrpca.svd(X, 2, compute_u=False).U is None
    wide = vrpca.svd(X.T.copy(), 2, compute_u=False)
    assert wide.U is None and wide.Vt.shape == (2, 240)


def test_auto_says_what_it_chose_and_why():
    tall = vrpca.svd(X, 2)
    assert tall.solver == "gram" and tall.reason
    rng = np.random.default_rng(0)
    big = sp.random_array((6000, 5000), density=1e-3, format="csr", rng=rng)
    big = sp.csr_array(
        big + 0.5 * sp.csr_array(np.outer(rng.random(6000) < 0.05, rng.random(5000) < 0.05).astype(float))
    )
    found = vrpca.svd(big, 1, random_state=0)
    assert found.solver == "accelerated" and "5000 x 5000" in found.reason
    s = sp.linalg.svds(big, 1, return_singular_vectors=False, rng=0)
    np.testing.assert_allclose(found.s, s, rtol=1e-7)
    assert vrpca.svd(X, 2, solver="power", max_passes=1000).reason == "asked for"


@pytest.mark.parametrize("solver", ["gram", "vr"])
@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("shape", [(300, 40), (40, 300)], ids=str)
def test_a_fraction_of_the_variance(solver, fraction, shape):
    Y = with_eigenvalues(*shape, 0.85 ** np.arange(40))
    s, _ = lapack(transformed(Y, True))
    ratio = np.cumsum(s**2) / (s**2).sum()
    needed = int(np.searchsorted(ratio, fraction) + 1)
    found = vrpca.pca(Y, fraction, solver=solver, tol=1e-9, random_state=0, max_passes=3000)
    assert len(found.s) == len(found.Vt) == needed
    assert found.explained_variance_ratio.sum() >= fraction
    assert found.converged
    assert found.certificate.suboptimality <= 1e-9, "converged, but the certificate of what is returned says no"
    assert_true_answer(found, transformed(Y, True), 1e-9)


def test_a_fraction_stops_when_the_callback_says_so():
    Y = with_eigenvalues(300, 60, 0.98 ** np.arange(60))
    calls = []

    def stop(record):
        calls.append(record)
        return True

    with pytest.warns(UserWarning, match="The callback asked to stop"):
        found = vrpca.pca(Y, 0.95, solver="vr", random_state=0, callback=stop)
    assert found.status is Status.STOPPED
    assert len(calls) == 1


def test_a_fraction_respects_max_passes(recwarn):
    Y = with_eigenvalues(300, 60, 0.98 ** np.arange(60))
    found = vrpca.pca(Y, 0.95, solver="vr", random_state=0, max_passes=12, tol=1e-12)
    assert found.n_passes <= 12


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", [(50, 12), (12, 50), (30, 30)], ids=str)
def test_none_means_as_many_as_the_smaller_side(shape, sparse):
    """As in scikit-learn: also where centring leaves one less that has any variance."""
    data = small_counts(*shape, seed=9)
    Z = transformed(data, True)
    found = vrpca.pca(sp.csr_array(data) if sparse else data)
    assert len(found.s) == min(shape) == len(found.certificate.residuals) == len(found.certificate.angles)
    np.testing.assert_allclose(found.s, lapack(Z)[0], rtol=1e-7, atol=1e-12 * found.norm)
    assert_orthonormal(found.Vt, 1e-10)
    np.testing.assert_allclose(found.U * found.s @ found.Vt, Z, atol=1e-6 * np.linalg.norm(Z))


@pytest.mark.parametrize("solver", ["gram", "vr", "power", "hybrid"])
@pytest.mark.parametrize("shape", [(40, 8), (8, 40), (12, 12)], ids=str)
def test_k_equal_to_the_smaller_side(solver, shape):
    data = np.random.default_rng(0).standard_normal(shape)
    found = vrpca.svd(data, min(shape), solver=solver, random_state=0)
    np.testing.assert_allclose(found.s, np.linalg.svd(data, compute_uv=False), rtol=1e-7)
    assert_orthonormal(found.Vt, 1e-10)
    np.testing.assert_allclose(found.U * found.s @ found.Vt, data, atol=1e-10)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_start_saves_passes(transpose, sparse):
    Y = with_eigenvalues(600, 40, 0.85 ** np.arange(40))
    Y = np.ascontiguousarray(Y.T) if transpose else Y
    data = sp.csr_array(Y) if sparse else Y
    options = {"solver": "vr", "tol": 1e-10, "random_state": 0, "max_passes": 400}
    cold = vrpca.svd(data, 3, **options)
    warm = vrpca.svd(data, 3, start=cold.Vt, **options)
    assert warm.converged
    assert warm.n_passes < cold.n_passes
    assert_true_answer(warm, Y, 1e-10)


def test_a_start_of_other_size_or_bad_content():
    good = vrpca.svd(X, 2, solver="vr", start=np.eye(20)[:5], random_state=0)
    assert_true_answer(good, X, 1e-8)
    fewer = vrpca.svd(X, 2, solver="vr", start=np.eye(20)[0], random_state=0)
    assert_true_answer(fewer, X, 1e-8)
    repeated = vrpca.svd(X, 2, solver="vr", start=np.ones((3, 20)), random_state=0)
    assert_true_answer(repeated, X, 1e-8)
    for start in (np.ones((2, 19)), np.full((2, 20), np.nan)):
        with pytest.raises(vrpca.OptionError, match="start must hold finite rows of length 20"):
            vrpca.svd(X, 2, start=start)


def test_integer_weights_are_repeated_rows():
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    for solver in ("gram", "vr"):
        weighted = vrpca.pca(X, 3, sample_weight=weights, solver=solver, tol=1e-12, random_state=0)
        repeated = vrpca.pca(np.repeat(X, weights, axis=0), 3, solver="gram", tol=1e-12, random_state=0)
        np.testing.assert_allclose(weighted.s, repeated.s, rtol=1e-9)
        np.testing.assert_allclose(weighted.Vt, repeated.Vt, atol=1e-5)
        np.testing.assert_allclose(weighted.mean, repeated.mean, atol=1e-12)
        np.testing.assert_allclose(weighted.total_variance, repeated.total_variance, rtol=1e-12)
        assert weighted.n_samples == repeated.n_samples


def test_a_row_of_weight_zero_is_not_there_whatever_it_holds():
    weights = np.ones(len(X))
    weights[[3, 50]] = 0
    spoilt = X.copy()
    spoilt[[3, 50]] = 1e9
    for solver in ("gram", "vr"):
        found = vrpca.pca(spoilt, 2, sample_weight=weights, solver=solver, random_state=0, tol=1e-12)
        expected = vrpca.pca(np.delete(X, [3, 50], axis=0), 2, solver="gram", random_state=0)
        np.testing.assert_allclose(found.s, expected.s, rtol=1e-6)
        assert_turned_no_further(found.Vt, expected.Vt, found.certificate)


@pytest.mark.parametrize("seed", range(20))
def test_nearly_singular_square_matrices(seed):
    """The values that are there are returned in order, although A's rounding shuffles the smallest ones."""
    recipe = {
        "shape": (28, 28),
        "rank": 27,
        "dtype": "float64",
        "exponent": 0,
        "density": 0.1,
        "sparse": False,
        "seed": seed,
    }
    Y, _ = cook(recipe)
    found = vrpca.pca(Y, center=False)
    s, _ = lapack(Y)
    assert (found.s >= 0).all() and (np.diff(found.s) <= 0).all()
    rank = (s > 1e-6 * s[0]).sum()
    np.testing.assert_allclose(found.s[:rank], s[:rank], rtol=1e-8)


@st.composite
def recipes(draw):
    """Shape, rank, type, magnitude, density, format and seed of a matrix: short to print when a test fails."""
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    magnitude = 150 if dtype == "float64" else 15
    return {
        "shape": (n, d),
        "rank": draw(st.integers(1, min(n, d))),
        "dtype": dtype,
        "exponent": draw(st.integers(-magnitude, magnitude)),
        "density": draw(st.sampled_from([0.1, 0.5, 1.0])),
        "sparse": draw(st.booleans()),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


def cook(recipe):
    """The matrix as an array, and in the format that the recipe asks for."""
    rng = np.random.default_rng(recipe["seed"])
    n, d = recipe["shape"]
    Y = rng.standard_normal((n, recipe["rank"])) @ rng.standard_normal((recipe["rank"], d))
    Y[rng.random((n, d)) >= recipe["density"]] = 0
    Y = (Y * 10.0 ** recipe["exponent"]).astype(recipe["dtype"])
    return Y, sp.csr_array(Y) if recipe["sparse"] else Y


def scaled_svd(Y):
    """LAPACK at extreme magnitudes: of Y over its largest entry."""
    top = np.abs(Y).max()
    return np.linalg.svd(Y.astype(float) / top, compute_uv=False), top


@settings(derandomize=True, deadline=None, max_examples=250)
@given(recipe=recipes(), centered=st.booleans())
def test_any_matrix_of_any_magnitude(recipe, centered):
    """Finite, orthonormal, descending, and LAPACK's values, from 1e-150 to 1e150."""
    Y, data = cook(recipe)
    with np.errstate(all="ignore"):
        Z = Y.astype(float) - Y.astype(float).mean(axis=0) if centered else Y.astype(float)
    eps = np.finfo(Y.dtype).eps
    if not np.abs(Z).max() > 1e3 * eps * max(np.abs(Y).max(), 1e-300):
        return  # constant data: see test_bad_input
    found = vrpca.pca(data, center=centered, random_state=0)
    s, top = scaled_svd(Z)
    k = len(found.s)
    assert np.isfinite(found.s).all() and np.isfinite(found.Vt).all() and np.isfinite(found.U).all()
    assert (np.diff(found.s) <= 0).all() and (found.s >= 0).all()
    assert_orthonormal(found.Vt, max(200 * eps, 1e-12))
    assert_sign_rule(found.Vt)
    spread = np.abs(Y).max() / top  # centring may cancel
    # A holds squares: values below 1e-6 of the largest are told apart from each other only down to its rounding
    allowed = np.where(s[:k] > 1e-6 * s[0], 500 * eps, max(200 * eps, 2e-8)) * s[0] * max(1, spread)
    assert (np.abs(found.s.astype(float) / top - s[:k]) <= allowed).all()
    ratios = found.explained_variance_ratio
    assert (ratios >= 0).all() and (ratios <= 1 + 200 * eps).all()
    assert ratios.sum() <= 1 + 200 * eps
    assert found.converged


@settings(derandomize=True, deadline=None, max_examples=100)
@given(recipe=recipes(), k=st.integers(1, 6), seed=st.integers(0, 100), centered=st.booleans())
def test_vr_on_any_matrix(recipe, k, seed, centered):
    """The stochastic solver on the same: finite, orthonormal, never above LAPACK, right where it says so."""
    Y, data = cook(recipe)
    with np.errstate(all="ignore"):
        Z = Y.astype(float) - Y.astype(float).mean(axis=0) if centered else Y.astype(float)
    eps = np.finfo(Y.dtype).eps
    if not np.abs(Z).max() > 1e3 * eps * max(np.abs(Y).max(), 1e-300):
        return
    k = min(k, *Y.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = vrpca.svd(data, k, solver="vr", center=centered, random_state=seed, max_passes=60)
    s, top = scaled_svd(Z)
    spread = np.abs(Y).max() / top
    assert np.isfinite(found.s).all() and np.isfinite(found.Vt).all() and np.isfinite(found.U).all()
    assert_orthonormal(found.Vt, 500 * eps)
    values = found.s.astype(float) / top
    assert (values <= s[:k] + 200 * eps * s[0] * max(1, spread)).all()
    if found.converged:
        true = suboptimality(Z / top, found.Vt, s)
        assert true <= 1e-8 + (1e-13 if Y.dtype == np.float64 else 1e-6) * max(1, spread)


def test_blocks_of_any_size_give_the_same_answer():
    """Last blocks smaller than k, or of one row (scikit-learn issues 12234, 13114, 6452)."""
    expected = vrpca.pca(X, 5, solver="gram")
    for rows in (1, 3, 7, 239, 240):
        for solver in ("gram", "vr"):
            found = vrpca.pca(ChunkedSource(X, rows), 5, solver=solver, tol=1e-11, random_state=0, max_passes=1000)
            np.testing.assert_allclose(found.s, expected.s, rtol=1e-7)
            assert_true_answer(found, transformed(X, True), 1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(20, 100), (100, 20)], ids=str)
def test_components_of_a_wide_matrix_are_orthonormal(shape, dtype):
    """Small singular values too: what becomes Vt is P / |P| on one side, which loses orthogonality by s_1 / s_j."""
    Y = with_eigenvalues(*shape, np.geomspace(1, np.finfo(dtype).eps ** 1.2, 20)).astype(dtype)
    found = vrpca.svd(Y, 20)
    assert_orthonormal(found.Vt, 100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("seed", range(3))
def test_a_fraction_is_reached_where_the_spectrum_falls_slowly(seed, recwarn):
    """A k that cannot explain the fraction is left as soon as its bound shows it, not after the whole budget."""
    g = np.random.default_rng(seed)
    X = g.standard_normal((1500, 300)) * np.geomspace(1, 0.05, 300) ** g.uniform(0.5, 2)
    fraction = g.uniform(0.2, 0.6)
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    needed = int(np.searchsorted(np.cumsum(values) / values.sum(), fraction)) + 1
    found = vrpca.pca(X, fraction, solver="vr", tol=1e-4, random_state=0)
    assert needed > 8 and len(found.s) in (needed, needed + 1)  # lower bounds may call for one more
    assert found.explained_variance_ratio.sum() >= fraction and found.n_passes <= 100


def decaying(n=4000, d=400):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)) @ np.diag(0.7 ** np.arange(d))


def slow_model(monkeypatch, worth=2.0):
    """A model that takes `accelerated`, and takes forming A to cost as much as so many of its passes."""
    monkeypatch.setattr("vrpca.plan.choose", lambda task: ("accelerated", "for the test"))
    monkeypatch.setattr("vrpca.plan.gram_seconds", lambda task: worth * pass_seconds(task))


def test_auto_changes_its_mind(monkeypatch):
    """A spectrum without a gap converges far more slowly than the model assumes; A is formed instead."""
    flat = np.random.default_rng(0).standard_normal((900, 300))
    slow_model(monkeypatch)
    found = vrpca.svd(flat, 2, tol=1e-10, random_state=0)
    assert found.solver == "gram" and "given up" in found.reason
    assert found.converged and found.certificate.kind == "exact"
    assert_true_answer(found, flat, 1e-10)
    assert len(found.history) > 3 and found.history[-1].passes > found.history[0].passes
    again = vrpca.svd(flat, 2, tol=1e-10, random_state=0)
    np.testing.assert_array_equal(found.Vt, again.Vt)  # steps are counted, not seconds


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("layout", ["C", "F", "csr", "csc"])
@pytest.mark.parametrize("shape", [(900, 300), (300, 900)])
def test_a_change_of_mind_forms_the_smaller_matrix(shape, layout, center, monkeypatch):
    flat = np.random.default_rng(0).standard_normal(shape)
    slow_model(monkeypatch)
    formed = []
    matrix = View.matrix
    monkeypatch.setattr(View, "matrix", lambda view: formed.append(view.d) or matrix(view))
    found = vrpca.svd(LAYOUTS[layout](flat), 2, center=center, tol=1e-10, random_state=0)
    assert found.solver == "gram" and formed == [300]
    assert_true_answer(found, flat - flat.mean(axis=0) if center else flat, 1e-10)
    passes = [record.passes for record in found.history]
    assert passes == sorted(passes) and found.n_passes == passes[-1] + 1


def test_what_is_given_up_is_not_projected(monkeypatch):
    flat = np.random.default_rng(0).standard_normal((900, 300))
    slow_model(monkeypatch)
    with_u, without = (vrpca.svd(flat, 2, tol=1e-10, random_state=0, compute_u=u) for u in (True, False))
    assert with_u.solver == without.solver == "gram" and with_u.n_passes == without.n_passes + 1


@pytest.mark.parametrize("more", [0, 1, 2, 3])
def test_a_change_of_mind_comes_before_the_passes_are_spent(more, monkeypatch):
    flat = np.random.default_rng(0).standard_normal((900, 300))
    slow_model(monkeypatch)
    records = len(vrpca.svd(flat, 2, tol=1e-10, random_state=0, compute_u=False).history)
    budget = records + more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = vrpca.svd(flat, 2, tol=1e-10, random_state=0, max_passes=budget)
    assert found.n_passes <= budget and (found.converged == (found.solver == "gram"))


def test_auto_stays_where_its_model_is_right(monkeypatch):
    slow_model(monkeypatch)
    found = vrpca.svd(decaying(), 2, tol=1e-10, random_state=0)
    assert found.solver == "accelerated" and found.converged and "given up" not in found.reason


def test_a_user_who_stops_a_run_is_not_overruled(monkeypatch):
    monkeypatch.setattr("vrpca.plan.choose", lambda task: ("accelerated", "for the test"))
    with pytest.warns(match="The callback asked to stop"):
        found = vrpca.svd(decaying(), 2, tol=1e-10, random_state=0, callback=lambda record: True)
    assert found.solver == "accelerated" and found.status is Status.STOPPED
    flat = np.random.default_rng(0).standard_normal((900, 300))
    slow_model(monkeypatch)
    given_up = vrpca.svd(flat, 2, tol=1e-10, random_state=0).reason
    record_number = int(given_up.split()[-2]) - 1  # where `auto` would change its mind
    with pytest.warns(match="The callback asked to stop"):
        found = vrpca.svd(flat, 2, tol=1e-10, random_state=0, callback=lambda record: record.epoch == record_number)
    assert found.solver == "accelerated" and found.status is Status.STOPPED


@pytest.mark.parametrize(("memory", "saved"), [(1e3, True), (1e12, False)])
def test_passes_are_saved_where_a_memory_map_does_not_fit(memory, saved, monkeypatch, tmp_path):
    monkeypatch.setattr("vrpca.data.memory.physical_memory", lambda: memory)
    np.save(tmp_path / "X.npy", decaying())
    X, options = np.load(tmp_path / "X.npy", mmap_mode="r"), {"solver": "accelerated", "random_state": 0}
    found = vrpca.svd(X, 2, compute_u=False, **options)
    few, many = (vrpca.svd(X, 2, compute_u=False, cost=cost, **options) for cost in ("reading", "time"))
    assert found.n_passes == (few if saved else many).n_passes
    assert found.converged and few.n_passes != many.n_passes


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(90, 40), (40, 90)])
@pytest.mark.parametrize("center", [False, True])
def test_every_layout_gives_the_same_answer(layout, shape, center, rng):
    X = 1 + rng.standard_normal(shape) * 0.8 ** np.arange(shape[1])
    weights = rng.uniform(0.5, 2, shape[0])
    found = vrpca.svd(
        LAYOUTS[layout](X), 3, center=center, sample_weight=weights, solver="accelerated", tol=1e-12, random_state=0
    )
    Z = X - np.average(X, axis=0, weights=weights) if center else X
    U, s, Vt = np.linalg.svd(np.sqrt(weights)[:, None] * Z, full_matrices=False)
    np.testing.assert_allclose(found.s, s[:3], rtol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(found.Vt * Vt[:3], axis=1)), 1, atol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(found.U * U[:, :3], axis=0)), 1, atol=1e-9)
