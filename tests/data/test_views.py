"""Views: implicit centring, scaling, weights and transposition against the matrix Z written out in full."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from helpers import eps, random_orthonormal, sparse_matrix
from vrpca import kernels
from vrpca.data import View, as_source
from vrpca.data.arrays import walk
from vrpca.data.moments import column_moments
from vrpca.data.view import PIECE, RowMap, column_scale, make_view

pytestmark = pytest.mark.reference

KINDS = ("C", "F", "csr", "csc", "float32", "csr float32", "int8", "blocks", "csr blocks")
GATHERED = ("F", "int8", "csc", "csr int8", "pandas", "polars")
OPTIONS = list(product((False, True), repeat=4))  # center, scale, weighted, transpose


class Blocks:
    """A matrix handed out in blocks of a few rows."""

    def __init__(self, X, rows):
        self.X, self.rows, self.shape, self.dtype = X, rows, X.shape, X.dtype

    def blocks(self, rng=None):
        for piece in walk(self.shape[0], self.rows, rng):
            yield piece.start, self.X[piece]

    def transposed(self):
        T = self.X.T
        return Blocks(sp.csr_array(T) if sp.issparse(T) else np.ascontiguousarray(T), self.rows)


def source_of(X, kind):
    if "int8" in kind:
        X = X.astype(np.int8)
    if "float32" in kind:
        X = X.astype(np.float32)
    if "csr" in kind:
        X = sp.csr_array(X)
    if kind == "csc":
        X = sp.csc_array(X)
    if kind == "F":
        X = np.asfortranarray(X)
    if kind == "pandas":
        X = pd.DataFrame(X)
    if kind == "polars":
        X = pl.DataFrame(X)
    return Blocks(X, 7) if "blocks" in kind else as_source(X)


def explicit(X, center, scale, weights, transpose):
    """Z, normalised to ``tr(Z^T Z) / n = 1``, and its Frobenius norm before."""
    w = np.ones(len(X)) if weights is None else weights
    mean = w @ X / w.sum()
    Z = X - mean if center else X.copy()
    if scale:
        deviation = np.sqrt(w @ (X - mean) ** 2 / w.sum())
        Z /= np.where(deviation > 1e-12, deviation, 1)
    Z *= np.sqrt(w * len(X) / w.sum())[:, None]
    if transpose:
        Z = Z.T
    size = np.linalg.norm(Z)
    return Z * np.sqrt(len(Z)) / size, size


def setup(kind, center, scale, weighted, transpose, rng, n=30, d=6, n_threads=2):
    """A view and its Z; columns 0 and 1 are zero and constant."""
    X = np.round(4 * sparse_matrix(n, d, 0.6, rng))
    X[:, 0], X[:, 1] = 0, 3
    weights = rng.uniform(0.2, 3, n) if weighted else None
    if weighted:
        weights[[0, n // 2]] = 0
    source = source_of(X, kind)
    options = {"center": center, "scale": scale, "weights": weights, "transpose": transpose}
    view = make_view(source, column_moments(source, weights, 1), n_threads=n_threads, **options)
    Z, size = explicit(X, **options)
    return view, Z, size


def drawn_rows(view, m, rng, sampling):
    """The numbers of the rows that are drawn, in order."""
    rows = np.arange(view.n)
    return np.concatenate([block.cut(rows)[order] for block, order in view.samples(m, rng, sampling)])


def tolerance(view):
    return 100 * eps(view.dtype)


@pytest.mark.parametrize(("center", "scale", "weighted", "transpose"), OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_everything_a_view_computes_is_that_of_z(kind, center, scale, weighted, transpose, rng):
    view, Z, size = setup(kind, center, scale, weighted, transpose, rng)
    n, d = Z.shape
    A, tol = Z.T @ Z / n, tolerance(view)
    assert (view.n, view.d) == (n, d)
    assert view.frobenius == pytest.approx(size, rel=1e-12)
    assert np.trace(A) == pytest.approx(1)

    W = np.ascontiguousarray(random_orthonormal(d, 3, rng), dtype=view.dtype)
    P = np.full((n, 3), np.nan, view.dtype)
    U = view.product(W, P)
    assert U.dtype == view.dtype
    np.testing.assert_allclose(U, A @ W, rtol=0, atol=tol)
    np.testing.assert_allclose(P, Z @ W, rtol=0, atol=tol * np.sqrt(n))
    np.testing.assert_allclose(view.product(W), U, rtol=0, atol=0)

    norms = view.row_norms()
    np.testing.assert_allclose(norms, (Z**2).sum(1), rtol=0, atol=tol * n)
    assert norms.mean() == pytest.approx(1, abs=tol * n)

    gram = view.gram()
    assert gram.dtype == np.float64
    np.testing.assert_allclose(gram, A, rtol=0, atol=tol)
    assert np.trace(gram) == pytest.approx(1, abs=tol)
    if view.support is not None:
        np.testing.assert_array_equal(view.support, np.abs(Z).max(0) > 1e-12)


@pytest.mark.parametrize("sampling", ["uniform", "norm"])
@pytest.mark.parametrize(("center", "scale", "weighted", "transpose"), OPTIONS)
def test_importance_weights_are_unbiased(center, scale, weighted, transpose, sampling, rng):
    """sum_i p_i rho_i z_i z_i^T = A exactly, with p_i the probability of drawing row i."""
    view, Z, _ = setup("C", center, scale, weighted, transpose, rng)
    rho = view.importance(sampling)
    if sampling == "uniform":
        assert rho is None
        return
    norms = view.row_norms()
    probability = norms / norms.sum()
    mean_step = (Z * (probability * rho)[:, None]).T @ Z
    np.testing.assert_allclose(mean_step, Z.T @ Z / len(Z), atol=1e-13)
    assert (rho * norms <= norms.mean() * (1 + 1e-12)).all()  # r becomes rbar: what norm sampling is for


@pytest.mark.parametrize("sampling", ["uniform", "norm"])
@pytest.mark.parametrize("kind", ["C", "csr", "blocks", "csr blocks"])
@pytest.mark.parametrize("m", [1, 2, 29, 30, 1000])
def test_every_block_gets_its_share_of_the_draws(kind, sampling, m, rng):
    view, _, _ = setup(kind, True, False, False, False, rng)
    share = np.full(30, m / 30) if sampling == "uniform" else m * view.row_norms() / view.row_norms().sum()
    counts, expected = {}, {}
    for block, order in view.samples(m, rng, sampling):
        assert order.dtype == np.int64
        assert ((order >= 0) & (order < block.length)).all()
        start = block.where.start
        counts[start] = counts.get(start, 0) + len(order)
        expected[start] = block.cut(share).sum()
    assert sum(counts.values()) == m
    assert all(abs(counts[start] - expected[start]) <= 1 for start in counts)


def test_blocks_are_drawn_from_in_random_order(rng):
    view = View(Blocks(rng.standard_normal((70, 3)), 7), RowMap(), 1.0, 1)
    orders = [
        [b.where.start for b, _ in view.samples(70, np.random.default_rng(seed), "uniform")] for seed in (0, 0, 1)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(0, 70, 7)) != orders[0]


def test_long_epochs_are_drawn_in_pieces(rng):
    view, _, _ = setup("C", True, False, False, False, rng)
    lengths = [len(order) for _, order in view.samples(2 * PIECE + 5, rng, "uniform")]
    assert lengths == [PIECE, PIECE, 5]


def test_rows_of_norm_zero_are_never_drawn(rng):
    X = rng.standard_normal((40, 3))
    X[::2] = 0
    X[-1] = 0
    source = Blocks(X, 10)
    moments = column_moments(source, None, 1)
    view = make_view(source, moments, center=False, scale=False, weights=None, transpose=False, n_threads=1)
    assert set(drawn_rows(view, 5000, rng, "norm")) == set(range(1, 39, 2))
    assert (view.importance("norm")[::2] == 0).all()


@pytest.mark.parametrize("kind", ["blocks", *GATHERED])
def test_draws_repeat_with_their_seed(kind, rng):
    view, _, _ = setup(kind, True, False, False, False, rng)
    for sampling in ("uniform", "norm"):
        first, second, other = (drawn_rows(view, 50, np.random.default_rng(seed), sampling) for seed in (3, 3, 4))
        assert first.tolist() == second.tolist() != other.tolist()


@pytest.mark.parametrize("sampling", ["uniform", "norm"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("kind", GATHERED)
def test_gathered_rows_are_those_of_z(kind, transpose, sampling, monkeypatch, rng):
    """The kernels are given the rows with the numbers that `cut` selects from any per-row array."""
    monkeypatch.setattr("vrpca.data.arrays.BLOCK_BYTES", 6 * 8 * 10)
    view, Z, _ = setup(kind, True, True, True, transpose, rng, n=40, d=6)
    numbers = np.arange(float(view.n))
    for block, order in view.samples(view.n, rng, sampling):
        W = np.ascontiguousarray(np.eye(view.d), dtype=view.dtype)
        P = np.empty((block.length, view.d), view.dtype)
        kernels.product(block.rows, W, np.zeros_like(W), P, 1)
        np.testing.assert_allclose(P, Z[block.cut(numbers).astype(int)], rtol=0, atol=tolerance(view) * np.sqrt(view.n))
        assert ((order >= 0) & (order < block.length)).all()


@pytest.mark.parametrize("kind", GATHERED)
def test_draws_are_as_likely_as_they_should_be(kind, monkeypatch, rng):
    """Counts of 40000 draws against their expectation; runs of rows and a last run cut short must not show."""
    monkeypatch.setattr("vrpca.data.arrays.BLOCK_BYTES", 6 * 8 * 10)
    view, _, _ = setup(kind, True, False, False, False, rng)
    norms = view.row_norms()
    for sampling, share in (("uniform", np.full(30, 1 / 30)), ("norm", norms / norms.sum())):
        for m in (40000, 7):  # long epochs, and short ones that see a part of the rows
            times = 40000 // m
            counts = sum(np.bincount(drawn_rows(view, m, rng, sampling), minlength=30) for _ in range(times))
            assert counts.sum() == m * times
            assert (np.abs(counts - share * m * times) <= 6 * np.sqrt(m * times * share) + 1e-9).all()


@pytest.mark.parametrize("kind", GATHERED)
def test_gathered_blocks_are_mixed(kind, monkeypatch, rng):
    """Rows from everywhere meet in each block, so that sorted data do no harm."""
    monkeypatch.setattr("vrpca.data.arrays.BLOCK_BYTES", 6 * 8 * 160)
    view, _, _ = setup(kind, True, False, False, False, rng, n=1600)
    for sampling in ("uniform", "norm"):
        blocks = [block.cut(np.arange(1600)) for block, _ in view.samples(1600, rng, sampling)]
        assert len(blocks) > 1
        assert all(rows[0] < 400 and rows[-1] > 1200 for rows in blocks if len(rows) > 50)


def test_mapped_files_that_must_be_converted_are_read_in_order(tmp_path, rng):
    np.save(tmp_path / "X.npy", np.asfortranarray(rng.standard_normal((30, 6))))
    view = View(as_source(tmp_path / "X.npy"), RowMap(), 1.0, 1)
    assert all(isinstance(block.where, slice) for block, _ in view.samples(30, rng, "uniform"))


@pytest.mark.parametrize("kind", ["C", "csr blocks", "csc", "F"])
def test_every_reading_is_counted(kind, rng):
    view, Z, _ = setup(kind, True, True, False, False, rng)
    n = len(Z)
    W = np.ones((view.d, 1), view.dtype)
    assert view.rows_read == 0
    view.product(W)
    assert view.rows_read == n and view.passes == 1
    view.gram()
    assert view.rows_read == 2 * n
    view.row_norms()
    view.row_norms()  # kept
    assert view.rows_read == 3 * n
    for sampling, m in (("uniform", 17), ("norm", 10), ("uniform", 4 * n)):
        before = view.rows_read
        assert sum(len(order) for _, order in view.samples(m, rng, sampling)) == m
        # rows of data in memory are read one by one; a block that had to be fetched was read whole, and once
        assert view.rows_read - before == (n if kind == "csr blocks" else m)
        assert view.passes_of_samples(m) == (view.rows_read - before) / n
    assert view.passes == view.rows_read / n


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kind", ["C", "csr", "float32"])
def test_any_number_of_threads_gives_the_same_product(kind, threads, rng):
    view, Z, _ = setup(kind, True, True, True, False, rng, n=200, d=9, n_threads=threads)
    W = np.ascontiguousarray(random_orthonormal(9, 4, rng), dtype=view.dtype)
    np.testing.assert_allclose(view.product(W), Z.T @ (Z @ W) / 200, rtol=0, atol=tolerance(view))
    np.testing.assert_array_equal(view.product(W), view.product(W))


# ------------------------------------------------------------------------------------------------------- hard numbers


def hard(X, center, scale, transpose, weights=None):
    source = as_source(X)
    options = {"center": center, "scale": scale, "weights": weights, "transpose": transpose}
    view = make_view(source, column_moments(source, weights, 1), n_threads=1, **options)
    return view, explicit(np.asarray(X, float), **options)[0]


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
    np.testing.assert_allclose(view.gram(), Z.T @ Z / len(Z), rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale_by", [1e-150, 1e-100, 1e100, 1e150])
@pytest.mark.parametrize("fmt", ["dense", "csr"])
@pytest.mark.parametrize("scale", [False, True])
def test_the_scale_of_the_data_does_not_matter(fmt, scale_by, scale, rng):
    X = scale_by * (1 + sparse_matrix(40, 5, 0.7, rng))
    given = X if fmt == "dense" else sp.csr_array(X)
    source = as_source(given)
    moments = column_moments(source, None, 1)
    view = make_view(source, moments, center=True, scale=scale, weights=None, transpose=False, n_threads=1)
    Z, _ = explicit(X / scale_by, True, scale, None, False)
    W = random_orthonormal(5, 2, rng).copy()
    np.testing.assert_allclose(view.product(W), Z.T @ (Z @ W) / 40, rtol=0, atol=1e-13)
    np.testing.assert_allclose(view.row_norms(), (Z**2).sum(1), rtol=1e-11)
    np.testing.assert_allclose(view.gram(), Z.T @ Z / 40, rtol=0, atol=1e-13)


@pytest.mark.parametrize("scale_by", [1e-25, 1e25])
@pytest.mark.parametrize("fmt", ["dense", "csr"])
def test_the_scale_of_float32_data_does_not_matter(fmt, scale_by, rng):
    X = (scale_by * sparse_matrix(40, 5, 0.7, rng)).astype(np.float32)
    view, Z = hard(X, False, False, False) if fmt == "dense" else hard_csr(X)
    W = random_orthonormal(5, 2, rng).astype(np.float32)
    np.testing.assert_allclose(view.product(W), Z.T @ (Z @ W) / 40, rtol=0, atol=1e-6)
    np.testing.assert_allclose(view.row_norms(), (Z**2).sum(1), rtol=1e-5)


def hard_csr(X):
    source = as_source(sp.csr_array(X))
    moments = column_moments(source, None, 1)
    view = make_view(source, moments, center=False, scale=False, weights=None, transpose=False, n_threads=1)
    return view, explicit(X.astype(float), False, False, None, False)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e8, 1 / 3])
def test_constant_columns_are_not_blown_up_by_scaling(value, dtype, rng):
    X = np.column_stack([np.full(300, value), 5 * rng.standard_normal((300, 2))]).astype(dtype)
    for given in (X, sp.csr_array(X)):
        found = column_scale(column_moments(as_source(given), None, 1))
        assert found[0] == 1
        np.testing.assert_allclose(found[1:], X[:, 1:].astype(float).std(0), rtol=1e-12)


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
    X = sp.csr_array(sparse_matrix(300, 40, density, rng, np.float64)) + sp.eye_array(300, 40)
    weights = rng.uniform(0.5, 2, 300) if weighted else None
    views = [
        make_view(
            as_source(data), column_moments(as_source(data), weights, 1), center=center, scale=scale, weights=weights,
            transpose=transpose, n_threads=2,
        )
        for data in (sp.csr_array(X), X.toarray())
    ]  # fmt: skip
    np.testing.assert_allclose(views[0].gram(), views[1].gram(), atol=1e-13)
