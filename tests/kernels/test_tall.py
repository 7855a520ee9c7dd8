"""The tall-matrix kernels: compiled against NumPy, in place, and on nothing but what they were made for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import DTYPES, WIDTHS, assert_close

from helpers import eps, summed
from vrpca.kernels import _native as native
from vrpca.kernels import reference

HEIGHTS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 100, 1001)
any_shape = (st.integers(0, 2**32 - 1), st.sampled_from(HEIGHTS), st.sampled_from(WIDTHS), st.sampled_from(DTYPES))


def matrices(seed, dtype, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def both(kernel, *inputs, out):
    found, twin = np.full(out, np.nan), np.full(out, np.nan)
    getattr(native, kernel)(*inputs, found)
    getattr(reference, kernel)(*inputs, twin)
    return found, twin


@settings(max_examples=80)
@given(*any_shape, st.sampled_from(WIDTHS))
def test_cross(seed, d, width, dtype, q):
    W, U = matrices(seed, dtype, (d, width), (d, q))
    found, twin = both("cross", W, U, out=(width, q))
    size = np.abs(W).T.astype(float) @ np.abs(U)
    assert_close(found, twin, eps(float) * (4 + np.sqrt(d)) * size)


@settings(max_examples=80)
@given(*any_shape)
def test_residual_gram(seed, d, width, dtype):
    W, U = matrices(seed, dtype, (d, width), (d, width))
    theta = np.random.default_rng(seed).uniform(-2, 2, width)
    found, twin = both("residual_gram", W, U, theta, out=(width, width))
    size = np.abs(W) * np.abs(theta) + np.abs(U)
    assert_close(found, twin, eps(float) * (4 + np.sqrt(d)) * (size.T @ size))
    np.testing.assert_array_equal(found, found.T)


@settings(max_examples=80)
@given(*any_shape, st.sampled_from(WIDTHS), st.sampled_from((0.0, 1.0, -2.5)))
def test_combine(seed, d, width, dtype, q, alpha):
    W, S = matrices(seed, dtype, (d, width), (d, q))
    (C,) = matrices(seed + 1, float, (width, q))
    twin = S.astype(float)
    size = abs(alpha) * np.abs(S) + np.abs(W).astype(float) @ np.abs(C)
    reference.combine(alpha, twin, W, C)
    native.combine(alpha, S, W, C)
    assert_close(S, twin, eps(dtype) * size + eps(float) * (4 + width) * size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_combine_with_itself(width, dtype, rng):
    W, C = rng.standard_normal((50, width)).astype(dtype), rng.standard_normal((width, width))
    expected = W.astype(float) @ C
    native.combine(0.0, W, W, C)
    assert_close(W, expected, 4 * eps(dtype) * np.abs(expected).max() + eps(float) * 4 * width)


def test_combine_with_alpha_zero_forgets_what_was_there(rng):
    for implementation in (native, reference):
        S = np.array([[np.nan, np.inf]])
        implementation.combine(0.0, S, np.ones((1, 2)), np.eye(2))
        np.testing.assert_array_equal(S, [[1, 1]])


def test_float32_columns_are_summed_in_double(rng):
    W = rng.uniform(0.5, 1, (300_000, 1)).astype(np.float32)
    found, twin = both("cross", W, W, out=(1, 1))
    assert found[0, 0] == pytest.approx((W.astype(float) ** 2).sum(), rel=1e-12)
    assert found[0, 0] == pytest.approx(twin[0, 0], rel=1e-12)


LENGTHS = (0, 1, 7, 8, 15, 16, 17, 1023, 1024, 1025, 9000)


@settings(max_examples=120)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(LENGTHS),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from(DTYPES),
    st.sampled_from((1, 2, 3)),
)
def test_sweep(seed, d, m, b, q, dtype, threads):
    S, V = matrices(seed, dtype, (m, d), (b, d))
    K = matrices(seed + 1, float, (min(q, b), m + b))[0] if q else None
    rows = b if K is None else len(K)
    twin, found, expected = V.copy(), np.full((rows, m + rows), np.nan), np.full((rows, m + rows), np.nan)
    size = np.abs(V) if K is None else np.abs(K) @ np.abs(np.vstack([S, V])).astype(float)
    native.sweep(S, K, V, found, threads)
    reference.sweep(S, K, twin, expected, threads)
    allowed = 4 * (4 + m + b) * eps(dtype)
    assert_close(V[:rows], twin[:rows].astype(float), allowed * size)
    both_sizes = size @ np.vstack([np.abs(S), size]).T
    assert_close(found, expected, (allowed + 20 * eps(dtype) + summed(d)) * both_sizes)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sweep_repeats_to_the_last_bit(threads, rng):
    S, V, K = rng.standard_normal((5, 30_000)), rng.standard_normal((3, 30_000)), rng.standard_normal((3, 8))
    results = set()
    for _ in range(5):
        copy, D = V.copy(), np.empty((3, 8))
        native.sweep(S, K, copy, D, threads)
        results.add(copy.tobytes() + D.tobytes())
    assert len(results) == 1


def test_sweep_sums_long_float32_vectors_in_double(rng):
    V = rng.uniform(0.5, 1, (1, 3_000_000)).astype(np.float32)
    D = np.empty((1, 1))
    native.sweep(V[:0], None, V, D, 2)
    assert D[0, 0] == pytest.approx((V.astype(float) ** 2).sum(), rel=2e-7)


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(1, 2500),
    st.integers(0, 9),
    st.integers(1, 6),
    st.sampled_from(["V alone", "none"]),
    st.sampled_from(DTYPES),
    st.sampled_from((1, 2)),
)
def test_sweep_without_products_that_nobody_wants(seed, d, m, b, wanted, dtype, threads):
    S, V = matrices(seed, dtype, (m, d), (b, d))
    (K,) = matrices(seed + 1, float, (b, m + b))
    columns = b if wanted == "V alone" else 0
    twin, found, whole = V.copy(), np.full((b, columns), np.nan), np.empty((b, m + b))
    native.sweep(S, K, V, found, threads)
    native.sweep(S, K, twin, whole, threads)
    np.testing.assert_array_equal(V, twin)
    np.testing.assert_array_equal(found, whole[:, m + b - columns :])


@pytest.mark.parametrize("kernels", [native, reference], ids=["native", "reference"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sweep_reads_no_vector_whose_coefficients_are_zero(kernels, dtype, rng):
    S = rng.standard_normal((7, 3000)).astype(dtype)
    V, K, D = np.full((6, 3000), np.nan, dtype), np.zeros((6, 13)), np.empty((6, 0))
    K[:, [0, 4, 5]] = rng.standard_normal((6, 3))
    expected = K[:, [0, 4, 5]] @ S[[0, 4, 5]].astype(float)
    S[[1, 2, 3, 6]] = np.nan
    kernels.sweep(S, K, V, D, 2)
    np.testing.assert_allclose(V, expected, rtol=20 * eps(dtype), atol=20 * eps(dtype))


@pytest.mark.parametrize("shape", [(8, 30_000), (30_000, 5), (400, 300)])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_transpose_on_several_threads(shape, threads, rng):
    W, out = rng.standard_normal(shape), np.full(shape[::-1], np.nan)
    native.transpose(W, out, threads)
    np.testing.assert_array_equal(out, W.T)


@settings(max_examples=60)
@given(st.integers(0, 40), st.integers(0, 40), st.sampled_from(DTYPES))
def test_transpose(rows, columns, dtype):
    (W,) = matrices(0, dtype, (rows, columns))
    for part in (slice(0, columns), slice(columns // 3, columns - columns // 4)):  # all columns, and some of them
        out = np.full((part.stop - part.start, rows + 3), np.nan, dtype)
        native.transpose(W[:, part], out[:, 1 : 1 + rows], 2)
        np.testing.assert_array_equal(out[:, 1 : 1 + rows], W[:, part].T)
        assert np.isnan(out[:, 0]).all() and np.isnan(out[:, 1 + rows :]).all()


def valid():
    rng = np.random.default_rng(0)
    W, U, S = (rng.standard_normal((6, c)) for c in (3, 3, 2))
    return {
        "sweep": [W, rng.standard_normal((6, 12)), U[:, ::-1].copy(), np.zeros((6, 12)), 1],
        "transpose": [W, np.zeros((3, 6)), 1],
        "cross": [W, U, np.zeros((3, 3))],
        "residual_gram": [W, U, np.ones(3), np.zeros((3, 3))],
        "combine": [1.0, S, W, rng.standard_normal((3, 2))],
    }


EACH = [(kernel, i) for kernel, given_ in valid().items() for i, a in enumerate(given_) if isinstance(a, np.ndarray)]


@pytest.mark.parametrize(("kernel", "which"), EACH)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda a: a.astype(np.float32),
        lambda a: a[:-1].copy(),
        lambda a: np.concatenate([a, a[:1]]),
        lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
        lambda a: np.asfortranarray(a) if a.ndim > 1 else a[:, None],
        lambda a: a.astype(int),
    ],
)
def test_wrong_arguments_are_refused(kernel, which, spoil):
    given_ = valid()[kernel]
    given_[which] = spoil(given_[which])
    before = [a.tobytes() for a in given_ if isinstance(a, np.ndarray)]
    with pytest.raises((TypeError, ValueError)):
        getattr(native, kernel)(*given_)
    assert before == [a.tobytes() for a in given_ if isinstance(a, np.ndarray)]


@pytest.mark.parametrize(
    ("kernel", "which"),
    [
        ("cross", 2),
        ("residual_gram", 3),
        ("combine", 1),
        ("sweep", 2),
        ("sweep", 3),
        ("transpose", 1),
    ],
)
def test_a_read_only_result_is_refused(kernel, which):
    given_ = valid()[kernel]
    given_[which].flags.writeable = False
    with pytest.raises(TypeError):
        getattr(native, kernel)(*given_)
