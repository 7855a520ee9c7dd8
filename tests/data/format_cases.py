"""What the tests of file formats share: answers that must be those of the array in memory."""

import numpy as np

import vrpca
from vrpca.data.open import as_source


def matrix(rng, n=120, d=30, dtype=np.float64):
    """A matrix with a decaying spectrum and a mean; integers keep it to whole numbers, bools to signs."""
    X = rng.standard_normal((n, d)) * 8 / np.arange(1, d + 1) + np.arange(d) % 3
    if dtype is bool:
        return X > 1
    return np.round(X * 4).astype(dtype) if np.issubdtype(dtype, np.integer) else X.astype(dtype)


def read(source, rng=None):
    """All rows of a source, from its blocks."""
    source = as_source(source)
    out = np.full(source.shape, np.nan, source.dtype)
    for start, X in source.blocks(rng):
        out[start : start + X.shape[0]] = X.toarray() if source.sparse else X
    return out


def assert_same_rows(source, X):
    """Every row, in order and shuffled, of the matrix and of its transpose."""
    source = as_source(source)
    assert source.shape == X.shape
    for rng in (None, np.random.default_rng(5)):
        np.testing.assert_array_equal(read(source, rng), X)
        np.testing.assert_array_equal(read(source.transposed(), rng), X.T)


def assert_same_answer(source, X, k=3, **options):
    """The decomposition, the scores and the check are those of the array in memory."""
    rounding = 1e-10 if as_source(source).dtype == np.float64 else 2e-4
    tol = 1e-14 if rounding == 1e-10 else 1e-6
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    wanted = vrpca.pca(X, k, tol=tol, random_state=0, **options)
    found = vrpca.pca(source, k, tol=tol, random_state=0, **options)
    np.testing.assert_allclose(found.s, wanted.s, rtol=rounding)
    np.testing.assert_allclose(np.abs(np.sum(found.Vt * wanted.Vt, axis=1)), 1, rtol=rounding)
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=rounding, atol=rounding)
    return found
