"""Views: implicit centring, scaling, weights and transposition against the matrix Z written out in full."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from data_cases import KINDS, explicit, view_and_z, view_of

import vrpca
from helpers import eps, random_orthonormal, sparse_matrix
from vrpca.data.first_pass import column_moments
from vrpca.data.open import as_source
from vrpca.data.view import column_scale
from vrpca.options import SOLVERS
from vrpca.run import Budget

pytestmark = pytest.mark.reference

OPTIONS = list(product((False, True), repeat=4))  # center, scale, weighted, transpose


def tolerance(view):
    return 100 * eps(view.dtype)


@pytest.mark.parametrize(("center", "scale", "weighted", "transpose"), OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_everything_a_view_computes_is_that_of_z(kind, center, scale, weighted, transpose, rng):
    view, Z, size = view_and_z(kind, center, scale, weighted, transpose, rng)
    n, d = Z.shape
    A, tol = Z.T @ Z / n, tolerance(view)
    assert (view.n, view.d) == (n, d)
    assert view.frobenius == pytest.approx(size, rel=1e-12)
    assert np.trace(A) == pytest.approx(1)

    W = np.ascontiguousarray(random_orthonormal(d, 3, rng), dtype=view.dtype)
    P = np.zeros((n, 3), view.dtype)
    U = view.product(W, P)
    assert U.dtype == view.dtype
    np.testing.assert_allclose(U, A @ W, rtol=0, atol=tol)
    np.testing.assert_allclose(P, Z @ W, rtol=0, atol=tol * np.sqrt(n))
    np.testing.assert_allclose(view.product(W), U, rtol=0, atol=0)

    norms = view.row_norms()
    np.testing.assert_allclose(norms, (Z**2).sum(1), rtol=0, atol=tol * n)
    assert norms.mean() == pytest.approx(1, abs=tol * n)

    gram = view.matrix()
    assert gram.dtype == np.float64
    np.testing.assert_allclose(gram, A, rtol=0, atol=tol)
    assert np.trace(gram) == pytest.approx(1, abs=tol)
    if view.support is not None:
        np.testing.assert_array_equal(view.support, np.abs(Z).max(0) > 1e-12)


@pytest.mark.parametrize("kind", ["C", "csr blocks", "csc", "F"])
def test_every_reading_is_counted(kind, rng):
    view, Z, _ = view_and_z(kind, True, True, False, False, rng)
    n = len(Z)
    W = np.ones((view.d, 1), view.dtype)
    budget = Budget(view, 0, 0.0, np.inf, None)
    assert view.rows_read == 0
    view.product(W)
    assert view.rows_read == n and budget.passes == 1
    view.matrix()
    assert view.rows_read == 2 * n
    assert not view.norms_known
    view.row_norms()
    view.row_norms()  # kept
    assert view.norms_known and view.rows_read == 3 * n
    view.stream(2, rng)
    assert view.rows_read == 4 * n
    for sampling, m in (("uniform", 17), ("norm", 10), ("uniform", 4 * n)):
        before = view.rows_read
        assert sum(len(order) for _, order in view.samples(m, rng, sampling)) == m
        # rows of data in memory are read one by one; a block that had to be fetched was read whole, and once
        assert view.rows_read - before == (n if kind == "csr blocks" else m)
        assert view.passes_of_samples(m) == (view.rows_read - before) / n
    assert budget.rows_read == view.rows_read and budget.passes == view.rows_read / n


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kind", ["C", "csr", "float32"])
def test_any_number_of_threads_gives_the_same_product(kind, threads, rng):
    view, Z, _ = view_and_z(kind, True, True, True, False, rng, n=200, d=9, n_threads=threads)
    W = np.ascontiguousarray(random_orthonormal(9, 4, rng), dtype=view.dtype)
    np.testing.assert_allclose(view.product(W), Z.T @ (Z @ W) / 200, rtol=0, atol=tolerance(view))
    np.testing.assert_array_equal(view.product(W), view.product(W))


# ------------------------------------------------------------------------------------------------------- hard numbers


def hard(X, center, scale, transpose, weights=None):
    """The view of an array or a sparse matrix, and its Z."""
    dense = X.toarray() if sp.issparse(X) else X
    view = view_of(as_source(X), center, scale, weights, transpose)
    return view, explicit(dense.astype(float), center, scale, weights, transpose)[0]


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mean", [1e4, 1e6])
def test_a_large_mean_in_float32_is_taken_off_before_anything_is_rounded(mean, weighted, scale, transpose, rng):
    X = (mean + rng.standard_normal((200, 8)) @ np.diag(np.geomspace(4, 1, 8))).astype(np.float32)
    weights = rng.uniform(0.3, 2, 200) if weighted else None
    view, Z = hard(X, True, scale, transpose, weights)
    W = np.ascontiguousarray(random_orthonormal(view.d, 3, rng), dtype=np.float32)
    np.testing.assert_allclose(view.product(W), Z.T @ (Z @ W) / len(Z), rtol=0, atol=1e-6)
    np.testing.assert_allclose(view.row_norms(), (Z**2).sum(1), rtol=1e-5)
    np.testing.assert_allclose(view.matrix(), Z.T @ Z / len(Z), rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale_by", [1e-150, 1e-100, 1e100, 1e150])
@pytest.mark.parametrize("fmt", ["dense", "csr"])
@pytest.mark.parametrize("scale", [False, True])
def test_the_scale_of_the_data_does_not_matter(fmt, scale_by, scale, rng):
    X = scale_by * (1 + sparse_matrix(40, 5, 0.7, rng))
    given = X if fmt == "dense" else sp.csr_array(X)
    view = view_of(as_source(given), True, scale)
    Z, _ = explicit(X / scale_by, True, scale, None, False)
    W = random_orthonormal(5, 2, rng).copy()
    np.testing.assert_allclose(view.product(W), Z.T @ (Z @ W) / 40, rtol=0, atol=1e-13)
    np.testing.assert_allclose(view.row_norms(), (Z**2).sum(1), rtol=1e-11)
    np.testing.assert_allclose(view.matrix(), Z.T @ Z / 40, rtol=0, atol=1e-13)


@pytest.mark.parametrize("scale_by", [1e-25, 1e25])
@pytest.mark.parametrize("fmt", ["dense", "csr"])
def test_the_scale_of_float32_data_does_not_matter(fmt, scale_by, rng):
    X = (scale_by * sparse_matrix(40, 5, 0.7, rng)).astype(np.float32)
    view, Z = hard(X if fmt == "dense" else sp.csr_array(X), False, False, False)
    W = random_orthonormal(5, 2, rng).astype(np.float32)
    np.testing.assert_allclose(view.product(W), Z.T @ (Z @ W) / 40, rtol=0, atol=1e-6)
    np.testing.assert_allclose(view.row_norms(), (Z**2).sum(1), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e8, 1 / 3])
def test_constant_columns_are_not_blown_up_by_scaling(value, dtype, rng):
    X = np.column_stack([np.full(300, value), 5 * rng.standard_normal((300, 2))]).astype(dtype)
    for given in (X, sp.csr_array(X)):
        found = column_scale(column_moments(as_source(given), None, 1))
        assert found[0] == 1
        np.testing.assert_allclose(found[1:], X[:, 1:].astype(float).std(0), rtol=1e-12)


@pytest.mark.reference
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_zero_where_centring_leaves_nothing(sparse, dtype, rng):
    """Not what rounding leaves of large constant columns: a search would take that for new directions."""
    X = rng.standard_normal((50, 12)).astype(dtype)
    X[:, 3:] += 3
    X[:, [0, 7, 8]] = [5.7, 123.4, 0]
    view = view_of(as_source(sp.csr_array(X) if sparse else X), center=True)
    U = view.product(rng.standard_normal((12, 4)).astype(dtype))
    assert (U[[0, 7, 8]] == 0).all() and (U[[1, 2, 3, 4, 5, 6, 9, 10, 11]] != 0).all()


def test_one_row_uncentred(rng):
    view, Z = hard(rng.standard_normal((1, 5)), False, False, False)
    W = np.ones((5, 2))
    np.testing.assert_allclose(view.product(W), Z.T @ (Z @ W), atol=1e-14)
    assert np.linalg.norm(Z) == pytest.approx(1)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("density", [0.03, 0.5])
def test_gram_of_sparse_data(density, center, scale, weighted, transpose, rng):
    X = sp.csr_array(sp.csr_array(sparse_matrix(300, 40, density, rng, np.float64)) + sp.eye_array(300, 40))
    weights = rng.uniform(0.5, 2, 300) if weighted else None
    views = [view_of(as_source(data), center, scale, weights, transpose, n_threads=2) for data in (X, X.toarray())]
    np.testing.assert_allclose(views[0].matrix(), views[1].matrix(), atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream_that_keeps_everything_spans_the_rows(kind, transpose, weighted, rng):
    view, Z, _ = view_and_z(kind, True, True, weighted, transpose, rng)
    rank = np.linalg.matrix_rank(Z)
    basis = view.stream(min(Z.shape), rng)
    assert basis.dtype == view.dtype and basis.shape[1] >= rank
    Q = np.linalg.qr(basis[:, :rank].astype(float))[0]
    # Gram matrices take the square root of the rounding.
    np.testing.assert_allclose(Z @ Q @ Q.T, Z, rtol=0, atol=10 * np.sqrt(eps(view.dtype)) * np.linalg.norm(Z))


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e15])
def test_the_trace_is_that_of_the_data(unit, transpose, rng):
    X = unit * rng.standard_normal((40, 5))
    view = view_of(as_source(X), False, transpose=transpose)
    assert view.trace == pytest.approx((X**2).sum() / (5 if transpose else 40), rel=1e-13)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # of NumPy, before the error
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("fmt", ["array", "csr"])
@pytest.mark.parametrize(
    "options",
    [*({"solver": s} for s in SOLVERS), {"solver": "vr", "sampling": "norm"}, {"certificate": "probabilistic"}],
    ids=lambda options: " ".join(options.values()),
)
def test_data_that_are_not_finite_any_more(options, fmt, value, rng):
    """Another thread may write to X during a fit."""
    X = rng.standard_normal((600, 90)) * 0.97 ** np.arange(90)
    X = sp.csr_array(X) if fmt == "csr" else X

    def spoil(_record):
        (X if fmt == "array" else X.data)[..., 17] = value

    with pytest.raises(vrpca.DataError, match=r"X was finite in the first pass.* Leave X alone"):
        vrpca.pca(X, 3, callback=spoil, tol=1e-13, random_state=0, max_passes=300, **options)


@pytest.mark.parametrize("solver", ["krylov", "vr", "gram"])
def test_a_norm_beyond_all_numbers_is_refused(solver, rng):
    """Each number is finite, but no singular value would be."""
    X = rng.uniform(0.5, 1, (40, 6)) * 1e308
    with pytest.raises(vrpca.DataError, match="norm overflows: divide it by a power of ten"):
        vrpca.svd(X, 2, solver=solver, random_state=0)


def test_room_for_products_suits_the_rows():
    """Vectors are contiguous for dense rows; sparse rows have columns in eights."""
    dense, sparse = (view_of(as_source(X), False) for X in (np.eye(30), sp.eye_array(30, format="csr")))
    for vectors, columns in {1: 1, 4: 4, 5: 8, 8: 8, 9: 16}.items():
        by_vectors, by_rows = dense.room_for(vectors), sparse.room_for(vectors)
        assert (by_vectors.shape, by_rows.shape) == ((30, vectors), (30, columns))
        assert by_vectors.T.flags.c_contiguous and by_rows.flags.c_contiguous
