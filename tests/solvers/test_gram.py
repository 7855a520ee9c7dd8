"""The eigenvectors of A by LAPACK, whatever its faster methods do among equal eigenvalues."""

import numpy as np
import pytest

from vrpca.solvers.gram import leading_pairs

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("seed", [*range(12), 22, 24, 29, 83, 165, 250, 254, 269])
def test_equal_eigenvalues_and_one_that_connects_them(seed):
    """For some of these, bisection with inverse iteration fails or returns fewer pairs than asked for."""
    rng = np.random.default_rng(seed)
    d, equal = int(rng.integers(30, 70)), int(rng.integers(2, 20))
    A = np.diag(rng.permutation(np.append(np.ones(equal), np.full(d - equal, rng.choice([0, 0.1])))))
    A -= np.outer(A.mean(axis=0), A.mean(axis=0))
    for count in (1, 6, 12, d):
        values, V = leading_pairs(A, count)
        assert V.shape == (d, count)
        np.testing.assert_allclose(V.T @ V, np.eye(count), atol=1e-13)
        np.testing.assert_allclose(A @ V, V * values, atol=1e-13)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[::-1][:count], atol=1e-13)
