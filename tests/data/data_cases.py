"""What the tests of the data share: a source of given blocks, matrices of every kind, Z written out in full."""

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

from helpers import densify, sparse_matrix
from vrpca.data.first_pass import column_moments
from vrpca.data.open import as_source
from vrpca.data.source import Source
from vrpca.data.view import Problem, View

KINDS = ("C", "F", "csr", "csc", "float32", "csr float32", "int8", "blocks", "csr blocks")
GATHERED = ("F", "int8", "csc", "csr int8", "pandas", "polars")  # their rows can be gathered from anywhere


class Blocks(Source):
    """A source of given blocks, as files and clusters have them; it counts how often it was read."""

    def __init__(self, *parts):
        self.parts = parts
        self.shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])
        self.dtype = parts[0].dtype
        self.sparse = sp.issparse(parts[0])
        self.starts = np.cumsum([0, *(part.shape[0] for part in parts[:-1])]).tolist()
        self.readings = 0

    def blocks(self, rng=None):
        self.readings += 1
        order = np.arange(len(self.parts))
        if rng is not None:
            rng.shuffle(order)
        for number in order:
            yield self.starts[number], self.parts[number]

    def transposed(self):
        X = sp.vstack(self.parts) if self.sparse else np.vstack(self.parts)
        return in_blocks(sp.csr_array(X.T) if self.sparse else np.ascontiguousarray(X.T), self.parts[0].shape[0])


def in_blocks(X, rows):
    """X as a source of blocks of so many rows."""
    return Blocks(*(X[lo : lo + rows] for lo in range(0, X.shape[0], rows)))


def source_of(X, kind):
    """X as a source of one of the KINDS or GATHERED."""
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
    return in_blocks(X, 7) if "blocks" in kind else as_source(X)


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


def view_of(source, center, scale=False, weights=None, transpose=False, n_threads=1):
    """The view of a source."""
    problem = Problem(source, weights, center, scale, n_threads)
    return View.of(problem, column_moments(source, weights, 1), transpose)


def view_and_z(kind, center, scale, weighted, transpose, rng, n=30, d=6, n_threads=2):
    """A view, its Z, and the norm of Z before it was normalised; columns 0 and 1 are zero and constant."""
    X = np.round(4 * sparse_matrix(n, d, 0.6, rng))
    X[:, 0], X[:, 1] = 0, 3
    weights = rng.uniform(0.2, 3, n) if weighted else None
    if weighted:
        weights[[0, n // 2]] = 0
    view = view_of(source_of(X, kind), center, scale, weights, transpose, n_threads)
    return view, *explicit(X, center, scale, weights, transpose)


def check_blocks(source, expected):
    """Blocks have the promised form, hold X, and cover every row exactly once, in order or at random."""
    expected = np.asarray(expected, float)
    assert isinstance(source, Source)
    assert source.shape == expected.shape
    assert source.dtype in (np.float32, np.float64)
    for rng in (None, np.random.default_rng(0)):
        count = np.zeros(expected.shape[0], int)
        starts = []
        for start, X in source.blocks(rng):
            assert X.dtype == source.dtype and X.dtype.isnative
            assert sp.issparse(X) == source.sparse
            assert X.format == "csr" if sp.issparse(X) else X.flags.c_contiguous
            np.testing.assert_array_equal(densify(X), expected[start : start + X.shape[0]])
            count[start : start + X.shape[0]] += 1
            starts.append(start)
        assert (count == 1).all()
        assert len(starts) == 1 or source.block is None
        if rng is None:
            assert starts == sorted(starts)
    if source.gather_rows:
        numbers = np.arange(expected.shape[0])[:: max(1, expected.shape[0] // 5)]
        rows = source.gather(numbers)
        assert rows.dtype == source.dtype
        np.testing.assert_array_equal(densify(rows), expected[numbers])
