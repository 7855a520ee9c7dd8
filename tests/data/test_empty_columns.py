"""Empty columns of sparse data: left out where that pays, put back as zeros, and nothing else changes."""

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from helpers import eps, sparse_matrix
from vrpca.data.open import as_source
from vrpca.data.view import Problem
from vrpca.decomposition import VECTORS, _Columns, _without_empty_columns
from vrpca.options import Options

pytestmark = pytest.mark.reference


def spread(X, d, rng):
    """X's columns at random places among d, and those places."""
    places = np.sort(rng.choice(d, X.shape[1], replace=False))
    wide = sp.csr_array(X).tocoo()
    return sp.csr_array((wide.data, (wide.row, places[wide.col])), shape=(X.shape[0], d)), places


@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_what_is_left_is_the_matrix_without_its_empty_columns(fmt, index, dtype, rng):
    X = np.round(4 * sparse_matrix(40, 12, 0.6, rng)).astype(dtype)
    wide, places = spread(X, 5000, rng)
    wide = wide.asformat(fmt)
    wide.indices, wide.indptr = wide.indices.astype(index), wide.indptr.astype(index)
    before = [part.copy() for part in (wide.data, wide.indices, wide.indptr)]
    source = as_source(wide)
    smaller, kept = source.without_empty_columns(VECTORS * 2 * source.dtype.itemsize)
    np.testing.assert_array_equal(kept, places)
    assert smaller.shape == (40, 12) and smaller.dtype == source.dtype and smaller.entries == source.entries
    for start, block in smaller.blocks():
        np.testing.assert_array_equal(block.toarray(), X[start : start + block.shape[0]])
    for part, old in zip((wide.data, wide.indices, wide.indptr), before, strict=True):
        np.testing.assert_array_equal(part, old)


@pytest.mark.parametrize(
    ("fmt", "d", "width", "pays"),
    [
        ("csr", 120, 1, False),
        ("csr", 120, 6, False),  # it would pay, but looking whether it does costs a third of what it may save at most
        ("csr", 120, 50, True),
        ("csr", 25, 50, False),
        ("csr", 20000, 1, True),
        ("csc", 120, 1, True),
        ("csc", 22, 1, False),
    ],
)
def test_it_is_done_where_it_saves_more_than_it_takes(fmt, d, width, pays, rng):
    """A copy of about 4800 indices against 5 vectors, or 5 blocks, of as many floats as there are empty columns."""
    wide, _ = spread(sparse_matrix(600, 20, 0.4, rng), d, rng)
    source = as_source(wide.asformat(fmt))
    smaller, kept = source.without_empty_columns(VECTORS * width * source.dtype.itemsize)
    assert (kept is not None) == (smaller is not source) == pays


def test_it_is_not_done_where_too_few_columns_would_be_left(rng):
    wide, _ = spread(sparse_matrix(60, 5, 0.6, rng), 3000, rng)
    source, options = as_source(wide), Options(oversample=2)
    assert len(_without_empty_columns(source, options, 5)[1].kept) == 5
    assert _without_empty_columns(source, options, 6) == (source, _Columns(3000, None, None))
    found = vrpca.svd(wide, 8, random_state=0)
    assert found.Vt.shape == (8, 3000)
    np.testing.assert_allclose(found.Vt @ found.Vt.T, np.eye(8), atol=1e-12)


def test_dense_data_stay_as_they_are(rng):
    X = np.zeros((30, 500))
    X[:, :5] = rng.standard_normal((30, 5))
    source = as_source(X)
    assert source.without_empty_columns(np.inf) == (source, None)


def test_stored_zeros_count_as_entries(rng):
    wide, _ = spread(sparse_matrix(30, 4, 0.7, rng), 1000, rng)
    wide = sp.csr_array(
        (np.append(wide.data, 0.0), np.append(wide.indices, 999), np.append(wide.indptr[:-1], wide.nnz + 1)),
        shape=wide.shape,
    )
    smaller, kept = as_source(wide).without_empty_columns(VECTORS * 8)
    assert kept[-1] == 999 and smaller.shape[1] == len(kept)


def test_put_back():
    Vt = np.array([[1, 2], [3, 4]], np.float32)
    full = _Columns(5, np.array([1, 3]), None).put_back(Vt, 0.0)
    assert full.dtype == Vt.dtype
    np.testing.assert_array_equal(full, [[0, 1, 0, 2, 0], [0, 3, 0, 4, 0]])
    np.testing.assert_array_equal(_Columns(5, np.array([1, 3]), None).put_back(Vt[0], 1.0), [1, 1, 1, 2, 1])
    assert _Columns(2, None, None).put_back(Vt, 0.0) is Vt


@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_they_are_left_out_before_the_first_pass(fmt, monkeypatch, rng):
    """What the first pass sums up has no room for them, and means and deviations are put back as those of zeros."""
    wide, places = spread(sparse_matrix(60, 5, 0.6, rng), 3000, rng)
    lengths = []
    first_pass = Problem.first_pass
    monkeypatch.setattr(
        Problem,
        "first_pass",
        lambda problem, accumulator=None: lengths.append(problem.source.shape[1]) or first_pass(problem, accumulator),
    )
    found = vrpca.pca(wide.asformat(fmt), 2, scale=True, random_state=0)
    assert lengths == [5]
    assert found.mean.shape == found.scale.shape == (3000,)
    assert not np.delete(found.mean, places).any() and (np.delete(found.scale, places) == 1).all()
    np.testing.assert_allclose(found.mean, wide.mean(axis=0), atol=1e-15)


@pytest.mark.parametrize("fmt", ["csr", "csc", "csr int16"])
@pytest.mark.parametrize(("n", "d"), [(200, 20), (20, 200)], ids=["tall", "wide"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("solver", ["vr", "auto"])
def test_the_answer_is_that_of_the_columns_with_entries(fmt, n, d, center, scale, solver, rng):
    X = np.round(9 * sparse_matrix(n, d, 0.5, rng) * np.geomspace(1, 0.1, d) ** 2 * 4)
    wide, places = spread(X, 4000, rng)
    wide = wide.astype(np.int16) if fmt == "csr int16" else wide.asformat(fmt)
    weights = rng.uniform(0.5, 2, n)
    tol = 1e-10 if fmt == "csr int16" else 1e-11  # which is solved in float32
    options = {"center": center, "scale": scale, "sample_weight": weights, "solver": solver, "tol": tol}
    options |= {"random_state": 0, "max_passes": 3000}
    plain = vrpca.svd(X.astype(wide.dtype), 2, **options)
    start = rng.standard_normal((2, 4000))
    for found in (vrpca.svd(wide, 2, **options), vrpca.svd(wide, 2, start=start, **options)):
        tol = 1e-5 + 100 * eps(found.Vt.dtype)
        assert found.converged and found.Vt.shape == (2, 4000)
        np.testing.assert_allclose(found.s, plain.s, rtol=tol)
        np.testing.assert_allclose(found.Vt[:, places], plain.Vt, atol=100 * tol)
        np.testing.assert_allclose(found.U, plain.U, atol=100 * tol)
        assert np.count_nonzero(np.delete(found.Vt, places, axis=1)) == 0
        assert found.rank_limit == min(n, 4000)
        for name in ("mean", "scale"):
            if getattr(plain, name) is not None:
                np.testing.assert_allclose(getattr(found, name)[places], getattr(plain, name), atol=1e-12)
                assert getattr(found, name).shape == (4000,)
                assert (np.delete(getattr(found, name), places) == (name == "scale")).all()


def test_a_fraction_of_the_variance(rng):
    X = sparse_matrix(300, 15, 0.6, rng) * np.geomspace(1, 0.1, 15)
    wide, _ = spread(X, 3000, rng)
    found, plain = (vrpca.pca(data, 0.8, solver="vr", random_state=0, max_passes=2000) for data in (wide, X))
    assert len(found.s) == len(plain.s)
    np.testing.assert_allclose(found.s, plain.s, rtol=1e-6)
    assert found.Vt.shape[1] == 3000
