"""Small arrays are decomposed at once: as the usual way does it, and as LAPACK does."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vrpca
from helpers import eps, matrix_with_spectrum, run_python, sine
from vrpca import decomposition, small
from vrpca.data.open import as_source
from vrpca.data.view import Problem
from vrpca.errors import DataError

pytestmark = pytest.mark.reference

NOTHING = {"callback": lambda record: None}  # a run is needed to call it: the usual way is taken
SPECTRA = {
    "power": lambda d: np.arange(1.0, d + 1) ** -1,
    "steep": lambda d: np.geomspace(1, 1e-9, d),
    "flat": lambda d: np.ones(d),
    "equal in front": lambda d: np.repeat([2.0, 1.0], [(d + 1) // 2, d // 2]),
    "few": lambda d: np.ones((d + 2) // 3),
}


def data(n, d, spectrum="power", dtype=np.float64, mean=0.0, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = matrix_with_spectrum(n, d, SPECTRA[spectrum](d), rng)
    return ((X + mean * rng.standard_normal(d) / np.sqrt(n * d)) * scale).astype(dtype)


def at_once(monkeypatch):
    """Makes sure that the usual way is not taken."""

    def usual(*arguments):
        raise AssertionError("the usual way was taken")

    monkeypatch.setattr(decomposition, "_usual", usual)


def truth(X, k, center):
    """The k leading right singular vectors, and all singular values, by LAPACK in double precision."""
    Z = X.astype(np.float64) - (X.astype(np.float64).mean(axis=0) if center else 0)
    _, s, Vt = np.linalg.svd(Z, full_matrices=False)
    return Z, s, Vt[:k]


@settings(max_examples=120, deadline=None)
@given(
    n=st.integers(2, 300),
    d=st.integers(2, 40),
    spectrum=st.sampled_from(sorted(SPECTRA)),
    dtype=st.sampled_from([np.float32, np.float64]),
    center=st.booleans(),
    mean=st.sampled_from([0.0, 1.0, 100.0]),
    part=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_answers_are_as_good_as_their_certificates_say(n, d, spectrum, dtype, center, mean, part, seed):
    d = min(n, d)
    if d < 2:
        return
    X = data(n, d, spectrum, dtype, mean, seed=seed)
    k = max(1, min(d - 1, round(part * d)))
    try:
        found = vrpca.svd(X, k, center=center, tol=1e-6)
    except DataError:  # two equal rows, say
        return
    Z, s, _ = truth(X, k, center)
    explained = float(np.square(Z @ np.linalg.qr(found.Vt.T.astype(np.float64))[0]).sum())
    suboptimality = 1 - explained / float(np.square(s[:k]).sum())
    assert suboptimality <= found.certificate.suboptimality + 1e-14
    assert found.certificate.kind == "exact"
    assert found.U is not None
    for vectors in (found.U, found.Vt.T):
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=40 * eps(dtype))
    np.testing.assert_allclose(found.s**2, s[:k] ** 2, rtol=40 * eps(dtype), atol=40 * eps(dtype) * s[0] ** 2)
    assert found.norm == pytest.approx(float(np.linalg.norm(s)), rel=40 * eps(np.float64) * (1 + mean**2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("compute_u", [True, False])
@pytest.mark.parametrize("solver", ["auto", "gram"])
@pytest.mark.parametrize("shape", [(200, 30), (3000, 20), (9, 9), (150, 2)])
@pytest.mark.parametrize("mean", [0.0, 1.0, 100.0])
def test_the_usual_way_gives_the_same_bits(dtype, center, compute_u, solver, shape, mean, monkeypatch):
    X = data(*shape, dtype=dtype, mean=mean)
    options = {"center": center, "compute_u": compute_u, "solver": solver, "tol": 1e-6, "random_state": 0}
    usual = vrpca.svd(X, min(4, shape[1] - 1), **options, **NOTHING)
    at_once(monkeypatch)
    found = vrpca.svd(X, min(4, shape[1] - 1), **options)
    for name in ("n_samples", "rank_limit", "status", "n_passes", "solver", "reason", "scale"):
        assert getattr(found, name) == getattr(usual, name), name
        assert type(getattr(found, name)) is type(getattr(usual, name)), name
    for name in ("s", "Vt", "U", "mean"):
        one, other = getattr(found, name), getattr(usual, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            assert one.flags.c_contiguous
            np.testing.assert_array_equal(one, other)
    for name in ("norm", "certificate"):
        assert repr(getattr(found, name)) == repr(getattr(usual, name))
    for name in ("residuals", "angles", "mu", "ceiling", "failure"):
        np.testing.assert_array_equal(getattr(found.certificate, name), getattr(usual.certificate, name))
    assert [replace(r, seconds=0.0) for r in found.history] == [replace(r, seconds=0.0) for r in usual.history]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_means_do_not_show(dtype, monkeypatch):
    X = data(500, 12, dtype=dtype) + np.asarray(20.0 / np.sqrt(500), dtype)  # some hundred deviations
    at_once(monkeypatch)
    found = vrpca.pca(X, 3, tol=1e-6)
    _, s, Vt = truth(X, 3, center=True)
    np.testing.assert_allclose(found.s, s[:3], rtol=20 * eps(dtype))
    assert sine(found.Vt.T, Vt.T) < 100 * eps(dtype)


@pytest.mark.parametrize(
    ("X", "options"),
    [
        (data(60, 5) * 1e20, {}),
        (data(60, 5) * 1e-20, {}),
        (data(60, 5) + 1e6, {"center": True}),
        (data(60, 5), {"tol": 0.0}),
        (np.where(np.eye(60, 5) > 0, np.nan, data(60, 5)), {}),
        (np.where(np.eye(60, 5) > 0, np.inf, data(60, 5)), {}),
        (np.zeros((60, 5)), {}),
        (np.ones((60, 5)), {"center": True}),
    ],
    ids=["huge", "tiny", "means", "tolerance", "nan", "infinity", "zeros", "constant"],
)
def test_what_is_not_ordinary_is_left_to_the_usual_way(X, options):
    asked = {"center": False, "tol": 1e-6} | options
    problem = Problem(as_source(X), None, asked["center"], False, 1)
    assert small.solve(problem, 2, 5, asked["tol"]) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_errors_are_those_of_the_usual_way(bad):
    X = data(60, 5)
    X[7, 3] = bad
    with pytest.raises(DataError, match="row 7, column 3"):
        vrpca.svd(X, 2)
    with pytest.raises(DataError, match="no variance"):
        vrpca.pca(np.ones((60, 5)), 2)
    with pytest.raises(ValueError, match=r"k=6 must be between 1 and min\(n_samples, n_features\)=5"):
        vrpca.svd(data(60, 5), 6)


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "power"},
        {"angle_tol": 1e-3},
        {"max_passes": 1, "compute_u": False},
        {"max_seconds": 100.0},
        {"restarts": 2},
        {"memory_limit": "1GB"},
        {"callback": print},
        {"scale": True},
        {"sample_weight": np.arange(1.0, 61.0)},
        {"start": np.eye(5)[:1]},
    ],
    ids=str,
)
def test_options_that_a_run_serves_are_left_to_it(options, monkeypatch):
    class Run(Exception):
        pass

    def usual(*arguments):
        raise Run

    monkeypatch.setattr(decomposition, "_usual", usual)
    with pytest.raises(Run):
        vrpca.svd(data(60, 5), 2, **options)
    with pytest.raises(Run):
        vrpca.pca(data(60, 5), 0.9)
    with pytest.raises(Run):
        vrpca.pca(data(60, 5))


@pytest.mark.parametrize("k", [np.int64(3), np.int8(3), np.uint8(3)])
def test_integers_of_any_type_are_plain_numbers(k):
    X = data(200, 5)
    found, expected = vrpca.pca(X, k, oversample=1000), vrpca.pca(X, 3, oversample=1000)
    np.testing.assert_array_equal(found.Vt, expected.Vt)
    assert type(found.certificate.suboptimality) is float and type(found.n_passes) is float


def test_a_random_state_is_drawn_from_as_in_the_usual_way():
    one, other = np.random.RandomState(0), np.random.RandomState(0)
    vrpca.pca(data(200, 5), 3, random_state=one)
    vrpca.pca(data(200, 5), 3, random_state=other, **NOTHING)
    assert one.randint(10**6) == other.randint(10**6)


def test_squares_that_overflow_do_not_warn():
    X = data(300, 33) * 2e152
    found = vrpca.pca(X, 3)
    assert found.converged


@pytest.mark.parametrize("d", [20, 40])
@pytest.mark.parametrize("exponent", [60, 85, 120, 140])
def test_columns_of_very_different_sizes_are_decomposed(d, exponent):
    X = np.random.default_rng(exponent).standard_normal((60, d)) * np.geomspace(1, 10.0**-exponent, d)
    np.testing.assert_allclose(vrpca.svd(X, 1).s, np.linalg.svd(X, compute_uv=False)[:1], rtol=1e-14)


@pytest.mark.parametrize("shape", [(60, 1), (5, 60), (300, 101), (2000, 100), (700_000, 3)])
def test_other_shapes_are_left_to_the_usual_way(shape):
    assert not small.suits(as_source(np.zeros(shape)))


def test_numbers_of_threads_do_not_change_the_answer_beyond_rounding():
    X = data(1500, 20, dtype=np.float32)
    one, two = (vrpca.pca(X, 3, n_threads=count) for count in (1, 2))
    np.testing.assert_allclose(one.Vt, two.Vt, atol=10 * eps(np.float32))
    again = vrpca.pca(X, 3, n_threads=2)
    np.testing.assert_array_equal(two.Vt, again.Vt)


def test_a_mapped_file_is_decomposed_as_the_array_is(tmp_path):
    X = data(100, 7)
    np.save(tmp_path / "X.npy", X)
    np.testing.assert_array_equal(vrpca.svd(X, 2).Vt, vrpca.svd(tmp_path / "X.npy", 2).Vt)


def test_a_small_fit_imports_nothing():
    code = (
        "import sys, numpy as np, vrpca\n"
        "X = np.random.default_rng(0).standard_normal((200, 20))\n"
        "before = set(sys.modules)\n"
        "vrpca.svd(X, 3)\n"
        "assert set(sys.modules) == before, set(sys.modules) - before\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
