"""Eigenpairs of small symmetric matrices: compiled against LAPACK, and by what eigenpairs are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import eps, random_orthonormal
from vrpca import linalg
from vrpca.kernels import _native as native
from vrpca.kernels import reference

ORDERS = (1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 33, 50, 64, 65, 100)
SPECTRA = {
    "random": lambda d, rng: rng.standard_normal(d),
    "power": lambda d, rng: np.arange(1, d + 1) ** -2.0,
    "equal": lambda d, rng: np.ones(d),
    "two values": lambda d, rng: np.repeat([3.0, 1.0], [d // 2, d - d // 2]),
    "clusters": lambda d, rng: np.round(rng.uniform(0, 4, d)) + 1e-13 * rng.standard_normal(d),
    "graded": lambda d, rng: np.geomspace(1, 1e-30, d),
    "rank one": lambda d, rng: np.eye(d)[0],
    "negative": lambda d, rng: -np.arange(1.0, d + 1),
}
# In units of rounding of the largest eigenvalue, for orders up to 100: 35 were seen of values and residuals, 130 of
# products of vectors.
UNITS, ORTHOGONAL = 60, 500


def check(A, count=None, vectors=None):
    """The pairs are those of A: values as LAPACK's, orthonormal vectors, small residuals."""
    d, before = len(A), A.copy()
    count = d if count is None else count
    theta, V = np.full(count, np.nan), np.full((count if vectors is None else vectors, d), np.nan)
    assert native.eigenpairs(A, theta, V)
    values = np.linalg.eigvalsh(A)[::-1]
    size = np.abs(values).max()
    np.testing.assert_array_equal(A, before)
    np.testing.assert_allclose(theta, values[:count], rtol=0, atol=UNITS * eps(float) * size)
    np.testing.assert_allclose(V @ V.T, np.eye(len(V)), rtol=0, atol=ORTHOGONAL * eps(float))
    residuals = A @ V.T - V.T * theta[: len(V)]
    np.testing.assert_allclose(residuals, 0, atol=UNITS * eps(float) * size)
    assert (np.diff(theta) <= 0).all()


def matrix(d, spectrum, seed):
    rng = np.random.default_rng(seed)
    Q = random_orthonormal(d, d, rng)
    A = (Q * SPECTRA[spectrum](d, rng)) @ Q.T
    return (A + A.T) / 2


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(ORDERS), st.sampled_from(sorted(SPECTRA)), st.integers(0, 2**32 - 1), st.integers(0, 100))
def test_pairs_are_those_of_the_matrix(d, spectrum, seed, count):
    check(matrix(d, spectrum, seed), min(count, d))
    check(matrix(d, spectrum, seed), min(count, d), min(count, d) // 2)


@pytest.mark.parametrize("seed", range(20))
def test_no_eigenvalue_is_overlooked_where_blocks_do_not_see_each_other(seed):
    """The first vector is in one of the blocks. The largest eigenvalues are in others."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 15, 4)
    blocks = [matrix(int(m), "random", seed) + rng.uniform(-1, 1) * np.eye(m) for m in sizes]
    A = np.zeros((sizes.sum(), sizes.sum()))
    for block, end in zip(blocks, np.cumsum(sizes), strict=True):
        A[end - len(block) : end, end - len(block) : end] = block
    for count in (1, 3, int(sizes.sum())):
        check(A, min(count, len(A)))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-20, 1e20, 1e160, 1e300])
@pytest.mark.parametrize("d", [2, 9, 50])
def test_the_size_of_numbers_does_not_matter(d, scale):
    A = matrix(d, "power", d) * scale
    theta, V, expected = np.empty(d), np.empty((d, d)), np.empty(d)
    assert native.eigenpairs(A, theta, V)
    assert native.eigenpairs(A / scale, expected, np.empty((0, d)))
    np.testing.assert_allclose(theta / scale, expected, rtol=0, atol=UNITS * eps(float))
    np.testing.assert_allclose(V @ V.T, np.eye(d), atol=ORTHOGONAL * eps(float))


@pytest.mark.parametrize(
    "A",
    [
        np.zeros((5, 5)),
        np.eye(6),
        np.diag([1.0, -2.0, 3.0, 0.0]),
        np.ones((7, 7)),
        np.diag(np.ones(8), 1) + np.diag(np.ones(8), -1),  # tridiagonal already
        np.kron(np.eye(3), np.array([[2.0, 1.0], [1.0, 2.0]])),  # equal blocks
        np.fliplr(np.eye(10)).copy(),
        np.diag(np.abs(np.arange(-10.0, 11.0))) + np.diag(np.ones(20), 1) + np.diag(np.ones(20), -1),  # Wilkinson's
        np.array([[1.0, 5e-324], [5e-324, 1.0]]),
    ],
    ids=["zero", "identity", "diagonal", "ones", "tridiagonal", "blocks", "antidiagonal", "wilkinson", "denormal"],
)
def test_special_matrices(A):
    check(A)


@pytest.mark.parametrize("small", [1e-3, 1e-7, 1e-9, 1e-12, 1e-15])
def test_small_entries_count(small):
    """Beside larger ones, which they do not change by their squares."""
    A = np.zeros((6, 6))
    A[3, 3], A[4, 4] = 1 - small / 4, 1 + small / 4
    A[0, 3] = A[3, 0] = A[1, 3] = A[3, 1] = small
    A[4, 5] = A[5, 4] = A[2, 5] = A[5, 2] = -2 * small
    check(A)


def test_a_matrix_without_rows():
    assert native.eigenpairs(np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0)))


@pytest.mark.parametrize("kernels", [native, reference], ids=["native", "reference"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (2, 1), (4, 4)])
def test_what_is_not_finite_has_no_pairs(kernels, bad, place):
    A = np.eye(5)
    A[place] = bad
    assert not kernels.eigenpairs(A, np.empty(5), np.empty((2, 5)))


@pytest.mark.parametrize(
    "spoilt",
    [
        {"A": np.eye(3)},
        {"A": np.zeros((4, 3))},
        {"A": np.eye(4, dtype=np.float32)},
        {"A": np.asfortranarray(np.arange(16.0).reshape(4, 4))},
        {"theta": np.zeros(1)},
        {"theta": np.zeros(5)},
        {"theta": np.zeros(6)[::2]},
        {"V": np.zeros((3, 4)), "theta": np.zeros(2)},
        {"V": np.zeros((2, 5))},
        {"V": np.zeros((2, 4), np.float32)},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(spoilt):
    arguments = {"A": np.eye(4), "theta": np.zeros(3), "V": np.zeros((2, 4))} | spoilt
    with pytest.raises((TypeError, ValueError)):
        native.eigenpairs(**arguments)


def test_the_same_bits_wherever_the_matrix_lies():
    A = matrix(23, "random", 1)
    found = set()
    for offset in range(8):
        moved = np.empty(A.size + 8)[offset : offset + A.size].reshape(A.shape)
        moved[...] = A
        theta, V = np.empty(23), np.empty((5, 23))
        native.eigenpairs(moved, theta, V)
        found.add((theta.tobytes(), V.tobytes()))
    assert len(found) == 1


@pytest.mark.reference
@pytest.mark.parametrize("d", [1, 5, linalg.SMALL_ORDER, linalg.SMALL_ORDER + 1])
def test_our_kernel_and_lapack_give_the_same_pairs(d):
    A = matrix(d, "power", 3)
    theta, V = linalg.eigenpairs(A, min(3, d))
    values, vectors = np.linalg.eigh(A)
    np.testing.assert_allclose(theta, values[::-1][: len(theta)], rtol=0, atol=UNITS * eps(float))
    overlap = np.abs((V * vectors[:, ::-1][:, : V.shape[1]]).sum(axis=0))
    np.testing.assert_allclose(overlap, 1, atol=1e-12)


@pytest.mark.parametrize("exponent", [40, 70, 77, 79, 81, 100, 138, 142, 146, 160])
@pytest.mark.parametrize("d", [2, 4, 20, 40])
def test_columns_of_very_different_sizes(d, exponent):
    """Squares of some numbers are subnormal: their inverses would overflow."""
    rng = np.random.default_rng(exponent)
    B = rng.standard_normal((d, d))
    for sizes in (np.r_[1.0, np.full(d - 1, 10.0**-exponent)], np.geomspace(1, 10.0**-exponent, d)):
        check((B @ B.T) * np.outer(sizes, sizes), min(d, 3))
