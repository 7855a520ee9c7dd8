"""Small dense linear algebra on tall matrices, in place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import eps, random_orthonormal, sine, summed
from vrpca.linalg import (
    aligned_copy,
    aligned_zeros,
    combinations,
    cross,
    orthonormal_rows,
    orthonormalise,
    recombine,
    residual_gram,
    ritz,
    rotate,
    sweep,
    triplets,
)

pytestmark = pytest.mark.reference

DTYPES = [np.float32, np.float64]
TALL = 4099


def orthonormal(M):
    """Orthonormalise a copy, and check that it is."""
    W = M.copy()
    longest = orthonormalise(W)
    if 1e-100 < float(np.abs(M).max()) < 1e100:
        assert longest == pytest.approx(np.linalg.norm(M.astype(float), axis=0).max(), rel=1e-10)
    W = W.astype(float)
    assert np.abs(W.T @ W - np.eye(W.shape[1])).max() < 20 * eps(M.dtype) + summed(len(W))  # sums are in double
    return W


def ill_conditioned(d, width, condition, rng):
    return (
        random_orthonormal(d, width, rng)
        * np.geomspace(1, 1 / condition, width)
        @ random_orthonormal(width, width, rng).T
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (5, 5), (100, 7), (TALL, 4), (3 * TALL, 2)])
def test_well_conditioned_columns(shape, dtype, rng):
    M = rng.standard_normal(shape).astype(dtype)
    W = orthonormal(M)
    for c in range(1, shape[1] + 1):
        assert sine(W[:, :c], M[:, :c]) < 1e3 * eps(dtype)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 40), st.floats(0, 16), st.sampled_from(DTYPES))
def test_columns_of_any_condition(seed, width, extra, exponent, dtype):
    rng = np.random.default_rng(seed)
    M = ill_conditioned(width + extra, width, 10**exponent, rng).astype(dtype)
    W = orthonormal(M)
    # M = W R: every column stays in the span of those before and itself, up to rounding of its own length
    R = W.T @ M
    assert np.abs(np.tril(R, -1)).max(initial=0) < 100 * eps(dtype) * np.abs(M).max() * width
    assert np.abs(M - W @ R).max() < 100 * eps(dtype) * np.abs(M).max() * width


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [0, 2, 4, 5, 6, 8, 12, 15])
def test_the_span_of_the_leading_columns_is_kept(exponent, dtype, rng):
    M = ill_conditioned(60, 5, 10.0**exponent, rng)
    M[:, 2] = M[:, 0] + 10.0**-exponent * rng.standard_normal(60)
    M = M.astype(dtype)
    W = orthonormal(M)
    for c in range(1, 6):
        s = np.linalg.svd(M[:, :c].astype(float) / np.linalg.norm(M[:, :c], axis=0), compute_uv=False)
        assert sine(W[:, :c], M[:, :c]) < 100 * eps(dtype) / s[-1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_orthonormal_columns_are_left_where_they_are(dtype, rng):
    M = random_orthonormal(50, 6, rng).astype(dtype)
    np.testing.assert_allclose(orthonormal(M), M, atol=10 * eps(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ["repeated", "zero", "all zero", "combination", "repeated first"])
def test_dependent_columns_are_completed(case, dtype, rng):
    M = rng.standard_normal((40, 4))
    if case == "repeated":
        M[:, 3] = M[:, 1]
    elif case == "repeated first":
        M[:, 1] = -2 * M[:, 0]
    elif case == "zero":
        M[:, 2] = 0
    elif case == "all zero":
        M[:] = 0
    else:
        M[:, 2] = M[:, 0] - 3 * M[:, 1]
    M = M.astype(dtype)
    W = orthonormal(M)
    assert np.abs(M - W @ (W.T @ M)).max() < 100 * eps(dtype)  # nothing of M is lost


@pytest.mark.parametrize(
    ("dtype", "scales"),
    [
        (np.float32, [1e-30, 1, 1e30]),
        (np.float32, [1e-40, 1, 1]),
        (np.float64, [1e-30, 1, 1e30]),
        (np.float64, [1e-120, 1, 1e120]),
        (np.float64, [1e-170, 1, 1]),
        (np.float64, [1e-200, 1e-200, 1e-200]),
        (np.float64, [1e150, 1e150, 1e150]),
        (np.float64, [1, 1, 1e170]),
        (np.float64, [1e200, 1e200, 1e200]),
    ],
)
def test_tiny_and_huge_columns(dtype, scales, rng):
    M = rng.standard_normal((50, 3))
    W = orthonormal((M * scales).astype(dtype))
    loss = 1e6 if scales[0] == 1e-40 else 1e3  # 1e-40 is subnormal in float32
    for c in range(1, 4):
        assert sine(W[:, :c], M[:, :c]) < loss * eps(dtype)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_left_alone(bad, rng):
    M = rng.standard_normal((20, 3))
    M[4, 1] = bad
    W = M.copy()
    orthonormalise(W)
    np.testing.assert_array_equal(W, M)


@pytest.mark.parametrize("exponent", [0, 1, 2])
def test_one_round_leaves_an_error_of_the_square_of_the_condition(exponent, rng):
    W = ill_conditioned(80, 5, 10.0**exponent, rng)
    span = W.copy()
    orthonormalise(W, rounds=1)
    assert np.abs(W.T @ W - np.eye(5)).max() < 50 * eps(float) * 10.0 ** (2 * exponent)
    assert sine(W, span) < 1e3 * eps(float) * 10.0**exponent


def test_orthonormalise_gives_the_same_bits_twice(rng):
    M = rng.standard_normal((TALL, 6)).astype(np.float32)
    assert orthonormal(M).tobytes() == orthonormal(M).tobytes()


# ---------------------------------------------------------------------------------------------------------- the others


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (3, 1), (17, 5), (0, 4), (100, 33)])
def test_aligned_arrays_start_on_a_cache_line(shape, dtype):
    for _ in range(20):
        Z = aligned_zeros(shape, np.dtype(dtype))
        assert Z.ctypes.data % 64 == 0 or Z.size == 0
        assert Z.shape == shape and Z.dtype == dtype and Z.flags.c_contiguous and Z.flags.writeable
        assert not Z.any()


@pytest.mark.parametrize("order", ["C", "F"])
def test_aligned_copies_are_copies(order, rng):
    W = np.asarray(rng.standard_normal((9, 4)), order=order)
    copy = aligned_copy(W)
    np.testing.assert_array_equal(copy, W)
    assert copy.flags.c_contiguous and copy.ctypes.data % 64 == 0 and not np.shares_memory(copy, W)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 100, TALL])
def test_cross_rotate_and_residual_are_what_they_say(d, dtype, rng):
    W, U = (rng.standard_normal((d, 4)).astype(dtype) for _ in range(2))
    theta, Y = rng.standard_normal(4), rng.standard_normal((4, 4))
    wide, tall = W.astype(float), U.astype(float)
    scale = np.sqrt(d)
    np.testing.assert_allclose(cross(W, U), wide.T @ tall, rtol=0, atol=1e-13 * scale * 10)
    assert cross(W, U[:, :2].copy()).shape == (4, 2) and cross(W, U).dtype == np.float64
    R = tall - wide * theta
    np.testing.assert_allclose(residual_gram(W, U, theta), R.T @ R, rtol=1e-11, atol=1e-12 * d)
    rotate(W, Y)
    np.testing.assert_allclose(W, wide @ Y, rtol=0, atol=8 * eps(dtype) * np.abs(wide @ Y).max())


def test_residuals_keep_their_digits_where_they_are_small(rng):
    """R^T R from U and W, not from differences of Gram matrices: a residual of 1e-7 is seen in float32 data."""
    W = random_orthonormal(500, 2, rng).astype(np.float32)
    theta = np.array([1.0, 0.5])
    U = W * theta.astype(np.float32)
    U[3, 0] += np.float32(1e-3)
    exact = U.astype(float) - W.astype(float) * theta
    np.testing.assert_allclose(residual_gram(W, U, theta), exact.T @ exact, rtol=1e-9, atol=1e-20)


def test_ritz_values_come_largest_first(rng):
    Q, values = random_orthonormal(6, 6, rng), np.array([3.0, -1, 2, 2, 0, 5])
    H = (Q * values) @ Q.T + 1e-13 * rng.standard_normal((6, 6))  # symmetric up to rounding only
    theta, Y = ritz(H)
    np.testing.assert_allclose(theta, np.sort(values)[::-1], atol=1e-12)
    np.testing.assert_allclose(Y.T @ Y, np.eye(6), atol=1e-14)
    np.testing.assert_allclose(H @ Y, Y * theta, atol=1e-12)


# ------------------------------------------------------------------------------------------------ vectors that are rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("others", [0, 1, 7])
def test_two_rounds_straighten_nearly_dependent_vectors(others, dtype, rng):
    """What V was is C S + F V, also where a direction is much shorter than the others."""
    S = np.ascontiguousarray(random_orthonormal(3000, 7, rng)[:, :others].T, dtype=dtype)
    V = rng.standard_normal((4, 3000)).astype(dtype)
    V[3] = V[0] + dtype(30 * np.sqrt(eps(dtype))) * V[3]
    V += (10 * rng.standard_normal((4, others))).astype(dtype) @ S
    before = V.astype(float)
    D = sweep(S, V, n_threads=2)
    C, F, D = orthonormal_rows(S, V, D, 1e-6, 2)
    again, second, D = orthonormal_rows(S, V, D, 0.01, 2)
    small = 100 * eps(dtype)
    both = np.vstack([S, V]).astype(float)
    np.testing.assert_allclose(both @ both.T, np.eye(others + 4), atol=small)
    rebuilt = (C + F @ again) @ S.astype(float) + F @ second @ V.astype(float)
    np.testing.assert_allclose(rebuilt, before, atol=small * np.abs(before).max() * 4)


def test_directions_that_are_too_short_are_left_out(rng):
    V = rng.standard_normal((3, 500))
    V[2] = V[0] - V[1] + 1e-9 * V[2]
    C, F, D = orthonormal_rows(V[:0], V, sweep(V[:0], V, n_threads=1), 1e-6, 1)
    assert D.shape == (2, 2) and F.shape == (3, 2) and C.shape == (3, 0)
    np.testing.assert_allclose(D, np.eye(2), atol=1e-10)


def test_vectors_of_small_singular_values_are_kept_down_to_rounding(rng):
    """They come from ``P = Z W``: what is longer than rounding is no rounding, however long the vectors are."""
    V, norms = random_orthonormal(300, 3, rng), np.array([1.0, 1e-2, 2e-5])
    _, _, Vt = triplets(np.eye(3, dtype=np.float32), (V * norms).astype(np.float32), norms, 3, True, False)
    np.testing.assert_allclose(np.abs((Vt @ V).diagonal()), 1, atol=32 * np.finfo(np.float32).eps)


@pytest.mark.reference
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("part", [1e-6, 1e-4, 1e-2, 0.5])
@pytest.mark.parametrize("ratio", [1.0, 5.0, 3000.0])
def test_what_is_not_measured_again_is_rounding(dtype, part, ratio):
    """The products that a round of orthonormalisation returns are those of its vectors, measured or not.

    Rows of V mix long and short directions, and those of S are orthonormal up to 30 units of rounding only.
    """
    rng = np.random.default_rng(0)
    both = np.ascontiguousarray(np.linalg.qr(rng.standard_normal((2000, 44)))[0].T)
    S = (both[:40] + 30 * eps(dtype) * rng.standard_normal((40, 40)) @ both[:40]).astype(dtype)
    V = random_orthonormal(4, 4, rng) @ (np.geomspace(1, 1 / ratio, 4)[:, None] * both[40:])
    V = (V + part / ratio * rng.standard_normal((4, 40)) / 6 @ both[:40]).astype(dtype)
    D = sweep(S, V, n_threads=2)
    _, _, D = orthonormal_rows(S, V, D, 1e-6, 2)
    np.testing.assert_allclose(D, V.astype(float) @ np.vstack([S, V]).astype(float).T, atol=8 * eps(dtype))


@pytest.mark.reference
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "count", "left"), [(1, 3, 2), (1023, 9, 4), (1025, 12, 12), (5000, 30, 11), (70, 8, 0)])
def test_combinations_of_rows(dtype, d, count, left, rng):
    """In a new array, and in place; other rows stay."""
    M, T = rng.standard_normal((count + 2, d)).astype(dtype), rng.standard_normal((count, left))
    expected, before = T.T @ M[:count].astype(float), M.copy()
    close = {"atol": 4 * count * eps(dtype), "rtol": 0}
    np.testing.assert_allclose(combinations(T.T, M[:count], 3), expected, **close)
    np.testing.assert_array_equal(M, before)
    recombine(M, count, T, 3)
    np.testing.assert_allclose(M[:left], expected, **close)
    np.testing.assert_array_equal(M[count:], before[count:])
