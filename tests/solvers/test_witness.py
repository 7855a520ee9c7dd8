"""The witness: what it sees outside W is a Rayleigh quotient of A, whatever W is; and it sees what W has missed."""

import numpy as np
import pytest

from helpers import eps
from vrpca.solvers.witness import Witness, column_outside


class Matrix:
    """What a witness asks of an operator."""

    def __init__(self, A, dtype, support=None):
        self.d, self.dtype, self.support = len(A), np.dtype(dtype), support


pytestmark = pytest.mark.reference

DIMENSION = 120


def matrix(values, rng):
    """A symmetric matrix with these eigenvalues, and its eigenvectors as rows."""
    V = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return (V * values) @ V.T, V.T


def spectrum(ties):
    return np.r_[np.ones(ties), 0.2 * 0.95 ** np.arange(DIMENSION - ties)]


def after(A, products, rng, dtype=np.float64):
    witness = Witness.random(Matrix(A, dtype), rng)
    for _ in range(products):
        witness = witness.after((A @ witness.column).astype(dtype))
    return witness


def quotient(A, v):
    v = v.astype(np.float64)
    return v @ A @ v / (v @ v)


@pytest.mark.parametrize("products", [1, 2, 5, 30])
def test_the_invariant_holds(products, rng):
    A, _ = matrix(spectrum(4), rng)
    witness = after(A, products, rng)
    K = np.vstack(witness.vectors)
    assert K.shape == (products + 1, DIMENSION) and witness.products == products
    np.testing.assert_allclose(K[:-1] @ A, witness._tridiagonal().T @ K, atol=1e-14 * np.sqrt(DIMENSION))
    np.testing.assert_allclose(np.linalg.norm(K, axis=1), 1, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("products", [1, 2, 3, 8, 25])
@pytest.mark.parametrize("chosen", ["leading", "some", "random"])
def test_what_it_sees_is_a_rayleigh_quotient_outside_W(chosen, products, dtype, rng):
    """For a W of any kind; the value allows for rounding, so it is never above the quotient of its vector."""
    values = spectrum(6)
    A, V = matrix(values, rng)
    W = {"leading": V[:8], "some": V[3:11], "random": np.linalg.qr(rng.standard_normal((DIMENSION, 8)))[0].T}[chosen]
    theta, Y = np.linalg.eigh(W @ A @ W.T)
    W = (Y[:, ::-1].T @ W).astype(dtype)
    sight = after(A, products, rng, dtype).outside(W, (W @ A).astype(dtype), theta[::-1], eps(dtype))
    vector = sight.outside(W)
    assert np.abs(W @ vector).max() < 1e3 * eps(dtype) * np.linalg.norm(vector)
    assert 0.9 * quotient(A, vector) < sight.value <= quotient(A, vector)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ties", [2, 5, 9])
def test_it_objects_to_an_answer_without_one_of_several_equal_eigenvalues(ties, dtype):
    """Two of a hundred times, the missed direction may hold too little of its random vector."""
    objected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        values = spectrum(ties)
        A, V = matrix(values, rng)
        chosen = np.r_[: ties - 1, ties : ties + 3]
        W = V[chosen].astype(dtype)
        sight = after(A, 5, rng, dtype).outside(W, (W @ A).astype(dtype), values[chosen], eps(dtype))
        vector = sight.outside(W)
        objected += sight.value > 0.5 and abs(V[ties - 1] @ vector) > 0.5 * np.linalg.norm(vector)
    assert objected >= 98


def test_it_is_silent_about_a_right_answer():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = spectrum(5)
        A, V = matrix(values, rng)
        for products in (1, 3, 12):
            assert (
                after(A, products, rng).outside(V[:7], V[:7] * values[:7, None], values[:7], eps(float)).value
                <= values[7]
            )


def test_it_sees_nothing_where_nothing_is_left(rng):
    A, V = matrix(np.r_[1.0, 0.5, 0.25], rng)
    assert after(A, 2, rng).outside(V, V @ A, np.array([1.0, 0.5, 0.25]), eps(float)).value == 0
    assert after(A, 0, rng).outside(V[:1], V[:1] @ A, np.ones(1), eps(float)).value == 0


def test_a_huge_eigenvalue_makes_no_false_alarm(rng):
    """Rounding of its products would look like something outside."""
    values = np.r_[1.0, np.full(DIMENSION - 1, 1e-9)]
    A, V = matrix(values, rng)
    for dtype in (np.float64, np.float32):
        W = V[:3].astype(dtype)
        for products in (1, 2, 3, 6, 12):
            sight = after(A, products, rng, dtype).outside(W, (W @ A).astype(dtype), values[:3], eps(dtype))
            assert sight.value < 1.01e-9


def test_nothing_is_above_the_ceiling_but_for_the_failure_probability():
    above = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        values = np.r_[1.0, 0.9, np.full(DIMENSION - 2, 0.5)]
        A, V = matrix(values, rng)
        witness = after(A, 6, rng)
        seen = witness.outside(V[:1], V[:1], np.ones(1), eps(float)).value
        above += witness.ceiling(seen, DIMENSION - 1, failure=0.1) < 0.9
    assert above <= 30


def test_the_ceiling_falls_with_the_number_of_products(rng):
    A, V = matrix(spectrum(1), rng)
    ceilings = []
    for products in (1, 8, 16, 32):
        witness = after(A, products, rng)
        seen = witness.outside(V[:1], V[:1], np.ones(1), eps(float)).value
        ceilings.append(witness.ceiling(seen, DIMENSION - 1, 0.01))
    assert ceilings[0] is None and (np.diff(ceilings[1:]) < 0).all()
    assert 0.2 <= ceilings[-1] < 0.21
    assert Witness.random(Matrix(np.eye(4), float), rng).ceiling(1.0, 4, 0.01) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_outside_are_rayleigh_quotients(dtype, rng):
    """The largest of all columns, and a rare feature is found by it."""
    A, V = matrix(spectrum(3), rng)
    A[7] = A[:, 7] = 0
    A[7, 7] = 3.0
    W = V[:4].copy()
    W[:, 7] = 0
    W = np.linalg.qr(W.T)[0].T
    theta, Y = np.linalg.eigh(W @ A @ W.T)
    W = (Y[:, ::-1].T @ W).astype(dtype)
    P = np.eye(DIMENSION) - np.linalg.pinv(W.astype(float)) @ W
    quotients = [quotient(A, P[:, j]) for j in range(DIMENSION)]
    assert np.argmax(quotients) == 7
    for least in (0.0, 0.5, 2.9):
        sight = column_outside(W, (W @ A).astype(dtype), theta[::-1], A.diagonal(), eps(dtype), least)
        assert abs(sight.value - max(quotients)) < 1000 * eps(dtype)
        vector = sight.outside(W)
        assert abs(vector[7]) == np.abs(vector).max()


def test_columns_that_cannot_be_above_a_value_are_not_looked_at():
    """For eigenvectors W, whatever the value: no column above it is left out."""
    for seed in range(50):
        own = np.random.default_rng(seed)
        values = np.sort(own.random(20) ** 4)[::-1]
        A, V = matrix(values, own)
        A, V = (A, V) if seed % 2 else (np.diag(values), np.eye(20))
        kept = np.sort(own.choice(20, 5, replace=False))
        W, theta = V[kept], values[kept]
        best = column_outside(W, W @ A, theta, A.diagonal(), eps(float)).value
        for least in np.append(values, best * (1 - 1e-9)):
            seen = column_outside(W, W @ A, theta, A.diagonal(), eps(float), least).value
            assert seen == pytest.approx(best) if best > least else seen <= least
    assert column_outside(np.eye(3)[:1], np.eye(3)[:1], np.ones(1), np.r_[1.0, 0, 0], eps(float), 9.0).value <= 0
    assert column_outside(np.eye(3)[:1], np.eye(3)[:1], np.ones(1), np.r_[0.1, 0, 0], eps(float), 9.0).value == 0


def test_random_witnesses_stay_in_the_support(rng):
    support = np.arange(10) < 6
    column = Witness.random(Matrix(np.eye(10), np.float32, support), rng).column
    assert column.dtype == np.float32 and not column[~support].any() and column[support].all()
