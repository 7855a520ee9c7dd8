"""Products, norms and moments: compiled against NumPy, and both against the rows written out in full."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import (
    COLUMNS,
    DTYPES,
    KINDS,
    MAPS,
    ROWS,
    WIDTHS,
    assert_close,
    cases,
    make_case,
    rounding,
    to,
)

from helpers import eps
from vrpca.certificate import BIASED
from vrpca.kernels import _native as native
from vrpca.kernels import reference
from vrpca.linalg import CACHE_LINE, aligned_zeros


def csr_of(X, col_scale=None, shift=None, row_scale=None):
    """The rows of X as sparse ones."""
    i, j = np.nonzero(X)
    indptr = np.searchsorted(i, np.arange(len(X) + 1)).astype(np.int32)
    return native.csr_rows(indptr, j.astype(np.int32), X[i, j], X.shape[1], col_scale, shift, row_scale, None, 1.0)


def check_product(case, rng, width, threads, with_P, start=0.0):
    """Sparse rows are mapped after they were multiplied, dense ones before or after."""
    for late in (False, True) if case.csr is None else (False,):
        check_one_product(case, rng, width, threads, with_P, start, late)


def check_one_product(case, rng, width, threads, with_P, start, late):
    dtype, (n, d) = case.dtype, case.shape
    (W,) = to(dtype, rng.standard_normal((d, width)))
    (U,) = to(dtype, start * rng.standard_normal((d, width)))
    U0, W_before, twin = U.copy(), W.copy(), U.astype(float)
    P = np.full((n, width), np.nan, dtype) if with_P else None
    P_twin = np.full((n, width), np.nan) if with_P else None
    native.product(case.rows(native, late), W, U, P, threads)
    reference.product(case.rows(reference, late), W, twin, P_twin, threads)

    Z, size = case.Z, case.magnitude
    bound = rounding(case)
    allowed = bound * (size.T @ (size @ np.abs(W)) + np.abs(U0))
    assert_close(U, U0 + Z.T @ (Z @ W.astype(float)), allowed)
    assert_close(U, twin, allowed)
    if with_P:
        assert_close(P, Z @ W.astype(float), bound * (size @ np.abs(W)))
        assert_close(P, P_twin, bound * (size @ np.abs(W)))
    np.testing.assert_array_equal(W, W_before)


@settings(max_examples=150)
@given(cases(), st.sampled_from(WIDTHS), st.sampled_from((1, 2, 5)), st.booleans(), st.sampled_from((0.0, 1.0)))
def test_product_agrees_with_its_twin_on_any_input(drawn, width, threads, with_P, start):
    check_product(*drawn, width, threads, with_P, start)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS)
def test_product_of_every_width(kind, dtype, width, rng):
    check_product(make_case(rng, 65, 17, kind, dtype, (True,) * 4), rng, width, 2, True)


@pytest.mark.parametrize("maps", MAPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 5, 20])
@pytest.mark.parametrize("threads", [1, 2])
def test_float32_rows_times_float64_columns_are_rounded_to_nothing_less(maps, kind, width, threads, rng):
    case = make_case(rng, 300, 17, kind, np.float32, maps)
    W, U = rng.standard_normal((17, width)), rng.standard_normal((17, width))
    P, P_twin, twin = np.zeros((300, width)), np.zeros((300, width)), U.copy()
    native.product(case.rows(native, True), W, U, P, threads)
    reference.product(case.rows(reference, True), W, twin, P_twin, threads)
    size = case.magnitude
    assert_close(U, twin, 300 * eps(np.float64) * (size.T @ (size @ np.abs(W)) + np.abs(U)))
    assert_close(P, P_twin, 300 * eps(np.float64) * (size @ np.abs(W)))


@pytest.mark.parametrize("width", [17, 32, 40])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("with_P", [False, True])
def test_a_large_block_is_multiplied_strip_by_strip(width, threads, with_P, rng):
    """Beyond 1 MB of W, sparse rows are multiplied with 16 columns at a time."""
    n, d = 60, 9000
    case = make_case(rng, n, d, "csr32", np.float64, (True,) * 4)
    assert d * width * 8 > 1 << 20 and np.count_nonzero(case.Z) > 2 * d
    check_product(case, rng, width, threads, with_P, start=1.0)


@pytest.mark.parametrize("width", [17, 24, 25])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_large_block_of_up_to_24_floats_is_multiplied_at_once(width, threads, rng):
    """The last width is one more than that, and is multiplied in strips."""
    n, d = 60, 16000
    case = make_case(rng, n, d, "csr32", np.float32, (True,) * 4)
    assert d * width * 4 > 1 << 20 and np.count_nonzero(case.Z) > 2 * d
    check_product(case, rng, width, threads, True, start=1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [511, 512, 1024, 1025, 2100])
def test_product_of_long_rows(d, dtype, rng):
    """Rows longer than 4096 bytes are taken in parts."""
    for width in (1, 3, 13):
        check_product(make_case(rng, 23, d, "dense", dtype, (True,) * 4), rng, width, 2, True)


@pytest.mark.parametrize("maps", MAPS)
@pytest.mark.parametrize("kind", KINDS)
def test_product_with_every_row_map(kind, maps, rng):
    check_product(make_case(rng, 65, 16, kind, np.float32, maps), rng, 5, 2, True)


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("kind", ["dense", "csr32"])
def test_product_of_every_shape(kind, d, n, rng):
    for threads in (1, 2, 5):
        check_product(make_case(rng, n, d, kind, np.float64, (False, True, False, False)), rng, 3, threads, True)


@pytest.mark.parametrize("width", [1, 3, 8])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_product_adds_to_what_is_there(kind, threads, width, rng):
    check_product(
        make_case(rng, 200, 7, kind, np.float64, (False, True, True, False)), rng, width, threads, False, 10.0
    )


@pytest.mark.parametrize("kind", ["csr32", "csr64"])
@pytest.mark.parametrize("maps", [(False,) * 4, (True,) * 4])
def test_a_matrix_without_entries_is_only_its_shift(kind, maps, rng):
    case = make_case(rng, 9, 7, kind, np.float64, maps, density=0)
    assert len(case.csr[1]) == 0
    for threads in (1, 2, 5):
        check_product(case, rng, 4, threads, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_of_no_rows_adds_nothing(kind, rng):
    case = make_case(rng, 0, 5, kind, np.float64, unit=1.0)
    U = np.full((5, 2), 3.0)
    native.product(case.rows(native), np.ones((5, 2)), U, None, 2)
    np.testing.assert_array_equal(U, 3.0)
    for total, mean, M2 in (
        native.moments(case.rows(native), None, 1.0, 2),
        *(with_product(native, case, about_zero, None, 1.0, 2) for about_zero in (False, True)),
    ):
        assert total == 0 and not mean.any() and not M2.any()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_products_of_dense_rows_do_not_depend_on_the_layout_of_a_block(threads, late, rng):
    """The bits are the same; entries between those of a block stay as they are."""
    case = make_case(rng, 200, 33, "dense", np.float32, (True,) * 4)
    W, U = to(np.float32, rng.standard_normal((33, 6)), rng.standard_normal((33, 6)))
    expected = U.copy()
    native.product(case.rows(native, late), W, expected, None, threads)
    for layout in ("by columns", "with gaps"):
        if layout == "by columns":
            other, out = np.asfortranarray(W), np.asfortranarray(U)
        else:
            room = np.full((66, 18), 7.0, np.float32)
            other, out = W.repeat(2, axis=0)[::2], room[::2, ::3]
            out[...] = U
        native.product(case.rows(native, late), other, out, None, threads)
        np.testing.assert_array_equal(out, expected)
        if layout == "with gaps":
            assert (room[1::2] == 7).all() and (room[:, 1::3] == 7).all() and (room[:, 2::3] == 7).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_product_repeats_to_the_last_bit(kind, threads, rng):
    case = make_case(rng, 200, 33, kind, np.float32, (True,) * 4)
    (W,) = to(np.float32, rng.standard_normal((33, 6)))
    found = []
    for _ in range(3):
        U, P = np.zeros((33, 6), np.float32), np.zeros((200, 6), np.float32)
        native.product(case.rows(native), W, U, P, threads)
        found.append((U.tobytes(), P.tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [250, 512, 680, 1000, 1024, 1040, 2048])
def test_products_of_rows_whose_columns_would_lie_badly(d, dtype, rng):
    """Columns of W and U are further apart than they are long where they would meet modulo 4 kB, and U begins later."""
    case = make_case(rng, 29, d, "dense", dtype, (False,) * 4)
    check_product(case, rng, 9, 2, True)


def test_bits_do_not_depend_on_where_dense_rows_lie(rng):
    """Modulo 4 kB, which decides where the kernel has its sums."""
    X, W = to(np.float32, rng.standard_normal((40, 512)), rng.standard_normal((512, 5)))
    found = []
    for offset in range(0, 4096, 496):
        U = np.zeros_like(W)
        native.product(native.dense_rows(at_offset(X, offset), None, None, None, None, 1.0), W, U, None, 2)
        found.append(U)
    for U in found[1:]:
        np.testing.assert_array_equal(U, found[0])


def at_offset(M, offset):
    """A copy of M that begins so many bytes behind a cache line."""
    room = aligned_zeros((M.size + offset // M.itemsize,), M.dtype)[offset // M.itemsize :]
    moved = room[: M.size].reshape(M.shape)
    moved[...] = M
    return moved


@pytest.mark.parametrize("maps", [(False,) * 4, (True,) * 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 4, 8, 12, 16, 32])
@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_where_a_block_lies(kind, maps, width, threads, rng):
    """Memory that NumPy hands out begins with a cache line, or does not."""
    case = make_case(rng, 900, 40, kind, maps=maps)
    (W,) = to(case.dtype, rng.standard_normal((40, width)))
    found, with_moments = set(), set()
    for offset in range(0, CACHE_LINE, 16):
        for other in (0, offset):
            rows, V = case.rows(native), at_offset(W, offset)
            U = at_offset(np.zeros_like(W), other)
            native.product(rows, V, U, None, threads)
            found.add(U.tobytes())
            U[...] = 0
            moments = native.product_with_moments(rows, V, U, None, 1.0, False, threads)
            with_moments.add((U.tobytes(), moments[1].tobytes(), moments[2].tobytes()))
    assert len(found) == len(with_moments) == 1


def many_rows(rng, n=200_000, d=8):
    """float32 rows of large mean, and the same matrix centred in double."""
    X = (1e3 + 100 * np.arange(d) + rng.standard_normal((n, d)) * np.linspace(1, 3, d)).astype(np.float32)
    mean = X.astype(float).mean(0)
    return X, mean, X - mean


@pytest.mark.parametrize("width", [1, 3, 9])
@pytest.mark.parametrize("threads", [1, 2])
def test_float32_sums_over_many_dense_rows_keep_their_accuracy(threads, width, rng):
    X, mean, Z = many_rows(rng)
    (W,) = to(np.float32, rng.standard_normal((8, width)))
    U = np.zeros((8, width), np.float32)
    native.product(native.dense_rows(X, None, mean, None, None, 1.0), W, U, None, threads)
    exact = Z.T @ (Z @ W.astype(float))
    assert np.linalg.norm(U - exact) < 4 * eps(np.float32) * np.linalg.norm(exact)


@pytest.mark.parametrize("width", [1, 3, 9])
def test_products_that_are_centred_late_keep_their_accuracy(width, rng):
    """Means twice as large as deviations: rounding is as much larger."""
    n, d = 200_000, 24
    X = (rng.standard_normal((n, d)) + 2).astype(np.float32)
    mean = X.astype(float).mean(0)
    (W,) = to(np.float32, rng.standard_normal((d, width)))
    U = np.zeros((d, width), np.float32)
    native.product(native.dense_rows(X, None, mean, None, None, 1.0, late=True), W, U, None, 2)
    exact = (X - mean).T @ ((X - mean) @ W.astype(float))
    assert np.linalg.norm(U - exact) < 4 * np.sqrt(5) * eps(np.float32) * np.linalg.norm(exact)


def test_rounding_leaves_nothing_along_the_mean_where_it_is_subtracted_late(rng):
    """Rounding Z W by about the same in every row must not add up: U is about as exact as the products are."""
    n, d = 6000, 2000
    X = (rng.standard_normal((n, d)) + 3.8).astype(np.float32)
    mean = X.astype(float).mean(0)
    W = np.linalg.qr(rng.standard_normal((d, 4)))[0].astype(np.float32)
    U = np.zeros((d, 4), np.float32)
    native.product(native.dense_rows(X, None, mean, None, None, 1.0, late=True), W, U, None, 2)
    Z = X - mean
    off = (U - Z.T @ (Z @ W.astype(float))) / n
    along = np.abs(mean @ off) / np.linalg.norm(mean)
    assert along.max() < 4 * 3.9 * eps(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_float32_sums_over_many_sparse_rows_keep_their_accuracy(threads, rng):
    """One common column and a few rare ones, as in counts: U's entries are sums of n terms of one sign."""
    n, d = 200_000, 8
    X = rng.uniform(0.5, 1, (n, d)).astype(np.float32) * (rng.random((n, d)) < np.geomspace(1, 0.05, d))
    (W,) = to(np.float32, rng.uniform(0, 1, (d, 3)))
    U = np.zeros((d, 3), np.float32)
    native.product(csr_of(X), W, U, None, threads)
    exact = X.astype(float).T @ (X.astype(float) @ W.astype(float))
    assert np.linalg.norm(U - exact) < 8 * eps(np.float32) * np.linalg.norm(exact)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("others", [0, 3000], ids=["all columns are full", "most columns are empty"])
@pytest.mark.parametrize("kind", ["csr", "dense"])
def test_sums_of_equal_rows_are_not_rounded_one_way(kind, others, width, threads, rng):
    """However many rows there are: 10000 equal numbers, added up in float32, would be off by hundreds of roundings."""
    n, d = 10_000, 10
    X = np.zeros((n, d + others), np.float32)
    X[:, :d] = rng.uniform(0.1, 1, d)
    if others:
        X[np.arange(n), d + rng.integers(others, size=n)] = 0.01
    (W,) = to(np.float32, np.zeros((d + others, width)))
    W[:d] = (X[0, :d] / np.linalg.norm(X[0, :d]))[:, None]
    U = np.zeros_like(W)
    rows = csr_of(X) if kind == "csr" else native.dense_rows(X, None, None, None, None, 1.0)
    native.product(rows, W, U, None, threads)
    exact = X.astype(float).T @ (X.astype(float) @ W.astype(float))
    assert np.linalg.norm(U - exact) < BIASED * eps(np.float32) * np.linalg.norm(exact)


@settings(max_examples=100)
@given(cases())
def test_row_norms_agree_with_their_twin(drawn):
    case, _ = drawn
    norms, twin = np.full(case.shape[0], np.nan), np.full(case.shape[0], np.nan)
    native.row_norms(case.rows(native), norms)
    reference.row_norms(case.rows(reference), twin)
    allowed = rounding(case) * (case.magnitude**2).sum(1)
    assert_close(norms, (case.Z**2).sum(1), allowed)
    assert_close(norms, twin, allowed)
    assert (norms >= 0).all()


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e5), (np.float64, 1e6)])
@pytest.mark.parametrize("full", [True, False], ids=["all entries are stored", "columns of small means are sparse"])
def test_row_norms_keep_their_digits_where_means_are_large(full, dtype, size, scaled, rng):
    """Means are subtracted before anything is squared: centring would leave no digit of float32 squares."""
    n, d = 50, 12
    means = np.full(d, size)
    X = means + rng.standard_normal((n, d))
    if not full:
        means[::2] = 0.5
        X[:, ::2] = rng.random((n, 6)) < 0.5
    X, s = to(dtype, X, rng.uniform(0.5, 2, d) if scaled else np.ones(d))
    a, m = rng.uniform(0.5, 2, n), means * s
    norms = np.full(n, np.nan)
    native.row_norms(csr_of(X, s if scaled else None, m, a), norms)
    Z = (X.astype(np.longdouble) * s - m) * a[:, None]
    np.testing.assert_allclose(norms, (Z**2).sum(1).astype(float), rtol=d * eps(float) * size**2)


def check_moments(case, weight, factor, threads):
    args = weight, factor, threads
    found = [implementation.moments(case.rows(implementation), *args) for implementation in (native, reference)]
    found += [with_product(implementation, case, False, *args) for implementation in (native, reference)]
    X, w = factor * case.X.astype(float), np.ones(case.shape[0]) if weight is None else weight
    total = w.sum()
    mean = w @ X / total if total > 0 else np.zeros(case.shape[1])
    M2 = w @ (X - mean) ** 2
    bound = eps(float) * (8 + 2 * np.sqrt(case.shape[0]))
    for total_, mean_, M2_ in found:
        assert total_ == pytest.approx(total, rel=1e-14)
        assert_close(mean_, mean, bound * factor * np.abs(case.X).max(0, initial=0))
        assert_close(M2_, M2, bound * (w @ X**2 + total * (factor * np.abs(case.X).max(0, initial=0)) ** 2))
        assert (-bound * total * (factor * np.abs(case.X).max(0, initial=0)) ** 2 <= M2_).all()
    for implementation in (native, reference):
        _, mean_, squares_ = with_product(implementation, case, True, *args)
        assert not mean_.any()
        total_, squares = implementation.squares(case.rows(implementation), *args)
        assert total_ == pytest.approx(total, rel=1e-14)
        for each in (squares, squares_):
            assert_close(each, w @ X**2, bound * (w @ X**2))


def with_product(implementation, case, about_zero, weight, factor, threads):
    """The moments that come along with a product, which is the one that comes alone."""
    W = np.random.default_rng(1).standard_normal((case.shape[1], 5)).astype(case.dtype)
    U, alone = np.ones_like(W), np.ones_like(W)
    rows = case.rows(implementation)
    found = implementation.product_with_moments(rows, W, U, weight, factor, about_zero, threads)
    implementation.product(rows, W, alone, None, threads)
    np.testing.assert_array_equal(U, alone)
    return found


@settings(max_examples=100)
@given(
    cases(),
    st.sampled_from((None, "random", "zeros")),
    st.sampled_from((1.0, 2.0**-40, 2.0**40)),
    st.sampled_from((1, 2, 5)),
)
def test_moments_and_squares_agree_with_their_twins(drawn, weights, factor, threads):
    case, rng = drawn
    n = case.shape[0]
    weight = None if weights is None else rng.uniform(0.1, 3, n)
    if weights == "zeros":
        weight *= rng.random(n) < 0.5
    check_moments(case, weight, factor, threads)


def check_gram(case, rng, threads):
    """G may be rounded as the data are; the sums of the columns and of their squares are in double precision."""
    d, Z, size = case.shape[1], case.Z, case.magnitude
    G0, first0, squares0 = rng.standard_normal((d, d)), rng.standard_normal(d), rng.standard_normal(d)
    G0 += G0.T.copy()
    scales = np.ones(case.shape[0]) if case.row_map[2] is None else case.row_map[2]
    for implementation in (native, reference):
        G, first, squares = G0.copy(), first0.copy(), squares0.copy()
        implementation.gram(case.rows(implementation), G, first, squares, threads)
        assert_close(G, G0 + Z.T @ Z, rounding(case) * (size.T @ size) + 1e-12)
        assert_close(first, first0 + Z.T @ scales, 1e-13 * (size.T @ scales) + 1e-13)
        assert_close(squares, squares0 + (Z**2).sum(axis=0), 1e-13 * (size**2).sum(axis=0) + 1e-13)
        np.testing.assert_allclose(G, G.T, rtol=1e-12, atol=1e-12)


@settings(max_examples=100)
@given(cases(kinds=("dense",)), st.sampled_from((1, 2, 5)))
def test_gram_agrees_with_its_twin(drawn, threads):
    check_gram(*drawn, threads)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 7, 15, 16, 31, 200, 1100])
def test_gram_of_more_rows_than_are_packed_at_once(d, dtype, rng):
    check_gram(make_case(rng, 1300, d, "dense", dtype, (True,) * 4), rng, 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_float32_gram_of_many_rows_keeps_its_accuracy(threads, rng):
    X, mean, Z = many_rows(rng)
    G, first, squares = np.zeros((8, 8)), np.zeros(8), np.zeros(8)
    native.gram(native.dense_rows(X, None, mean, None, None, 1.0), G, first, squares, threads)
    exact = Z.T @ Z
    assert np.linalg.norm(G - exact) < 4 * eps(np.float32) * np.linalg.norm(exact)


@pytest.mark.parametrize("threads", [1, 2])
def test_gram_adds_up_millions_of_rows_in_parts(threads):
    """Sums of two million equal numbers, one by one, are off by 3e-11."""
    n, x = 2_000_000, 0.1
    sums = np.zeros((1, 1)), np.zeros(1), np.zeros(1)
    native.gram(native.dense_rows(np.full((n, 1), x), None, None, None, None, 1.0), *sums, threads)
    for found, exact in zip(sums, (n * x**2, n * x, n * x**2), strict=True):
        np.testing.assert_allclose(found.item(), exact, rtol=2e-12)


@pytest.mark.parametrize("in_double", [False, True])
def test_gram_of_no_rows_or_no_columns(in_double):
    for n, d in ((0, 5), (5, 0), (0, 0)):
        sums = np.zeros((d, d)), np.zeros(d), np.zeros(d)
        native.gram(native.dense_rows(np.zeros((n, d), np.float32), None, None, None, None, 1.0), *sums, 2, in_double)
        assert not any(each.any() for each in sums)


@pytest.mark.parametrize("parts", [(False,) * 4, (True,) * 4, (False, True, False, True)])
@pytest.mark.parametrize("d", [1, 7, 8, 31, 200])
@pytest.mark.parametrize("threads", [1, 2])
def test_float32_gram_in_double_rounds_nothing_to_float32(threads, d, parts, rng):
    case = make_case(rng, 700, d, "dense", np.float32, parts)
    G, first, squares = np.zeros((d, d)), np.zeros(d), np.zeros(d)
    native.gram(case.rows(native), G, first, squares, threads, in_double=True)
    scales = np.ones(700) if case.row_map[2] is None else case.row_map[2]
    largest = (case.magnitude.T @ np.column_stack([case.magnitude, scales])).max()
    assert np.abs(G - case.Z.T @ case.Z).max() < 1e-13 * largest
    assert np.abs(first - case.Z.T @ scales).max() < 1e-13 * largest
    assert np.abs(squares - np.diag(G)).max() < 1e-13 * largest


@pytest.mark.parametrize("kind", KINDS)
def test_moments_when_all_weights_are_zero(kind, rng):
    check_moments(make_case(rng, 9, 3, kind), np.zeros(9), 1.0, 2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["dense", "csr32"])
def test_a_row_of_weight_zero_does_not_spoil_the_variance_of_the_others(kind, threads, rng):
    case = make_case(rng, 200, 3, kind, density=1.0)
    huge = 1e9
    case.X[0] = huge
    if kind == "csr32":
        lo, hi = case.csr[0][:2]
        case.csr[2][lo:hi] = huge
        case.X[0] *= hi > lo
    weight = np.ones(200)
    weight[0] = 0
    alone = native.moments(case.rows(native), weight, 1.0, threads)
    for _, mean, M2 in (alone, with_product(native, case, False, weight, 1.0, threads)):
        rest = case.X[1:]
        np.testing.assert_allclose(mean, rest.mean(0), atol=1e-12)
        np.testing.assert_allclose(M2, ((rest - rest.mean(0)) ** 2).sum(0), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_data_without_columns(kind, threads, rng):
    rows = make_case(rng, 9, 0, kind).rows(native)
    P, norms = np.ones((9, 2)), np.ones(9)
    native.product(rows, np.ones((0, 2)), np.ones((0, 2)), P, threads)
    native.row_norms(rows, norms)
    assert not P.any() and not norms.any()
    assert [np.size(part) for part in native.moments(rows, None, 1.0, threads)] == [1, 0, 0]
    assert [np.size(part) for part in native.squares(rows, None, 1.0, threads)] == [1, 0]


@pytest.mark.parametrize("period", [1, 2, 12, 16, 24, 64, 128, 256])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_repeat_are_settled_as_others_are(period, threads):
    """One entry per row, in one column after the other: no column may escape, whatever the period."""
    n = 128_000
    indices, indptr = (np.arange(n) % period).astype(np.int32), np.arange(n + 1, dtype=np.int32)
    X = sp.csr_array((np.full(n, 0.7, np.float32), indices, indptr), shape=(n, period))
    W = (1 + np.random.default_rng(0).random((period, 3))).astype(np.float32)
    U = np.zeros_like(W)
    rows = native.csr_rows(X.indptr, X.indices, X.data, period, None, None, None, None, 1.0)
    native.product(rows, W, U, None, threads)
    expected = X.astype(float).T @ (X.astype(float) @ W.astype(float))
    off = np.linalg.norm(U - expected) / np.linalg.norm(expected) / eps(np.float32)
    assert off <= 25  # 7 to 16; without settling, 1000
