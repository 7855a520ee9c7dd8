"""The map from rows of the data to rows of Z: on the fly in the kernels, in NumPy, and written out in full."""

import pickle
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import densify, eps, sparse_matrix
from vrpca import kernels
from vrpca.data.row_map import EXTREME_UNIT, MappedRows, RowMap
from vrpca.data.view import KernelRows
from vrpca.errors import DataError

pytestmark = pytest.mark.reference

N, D = 23, 7
PARTS = ["".join(parts) for parts in product(*(("", name) for name in "smab"))]  # all combinations


def make_map(parts, dtype, rng, unit=3.0):
    s, m, a, b = rng.uniform(0.5, 2, D), rng.standard_normal(D), rng.uniform(0.2, 2, N), rng.uniform(-1, 1, N)
    used = (part if name in parts else None for name, part in zip("smab", (s, m, a, b), strict=True))
    return RowMap(np.dtype(dtype), *used, unit)


def written_out(X, row_map):
    """``z_i = a_i (x_i * s - b_i m)``, times the unit."""
    ones = {"col_scale": D, "row_scale": N, "row_shift": N}
    s, a, b = (
        np.ones(n) if getattr(row_map, name) is None else getattr(row_map, name).astype(float)
        for name, n in ones.items()
    )
    m = np.zeros(D) if row_map.shift is None else row_map.shift
    return row_map.unit * a[:, None] * (densify(X) * s - np.outer(b, m))


def by_kernels(rows, n, dtype):
    """The rows as the kernels see them: ``Z I``."""
    P = np.zeros((n, D), dtype)
    kernels.product(rows, np.eye(D, dtype=dtype), np.zeros((D, D), dtype), P, 1)
    return P


def data(fmt, dtype, rng):
    X = sparse_matrix(N, D, 0.6, rng, dtype)
    return sp.csr_array(X) if fmt == "sparse" else X


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fmt", ["dense", "sparse"])
def test_kernels_and_numpy_apply_the_map_as_it_is_written(fmt, dtype, parts, rng):
    X, row_map = data(fmt, dtype, rng), make_map(parts, dtype, rng)
    Z = written_out(X, row_map)
    tolerance = 20 * eps(dtype) * np.abs(Z).max()
    np.testing.assert_allclose(by_kernels(row_map.rows(slice(0, N), X), N, dtype), Z, atol=tolerance)
    rows = MappedRows(X, row_map)
    B, Y = rng.standard_normal((4, D)).astype(dtype), rng.standard_normal((N, 3)).astype(dtype)
    for found, expected in (
        (rows.times(B), Z @ B.T),
        (rows.inner_products(), Z @ Z.T),
        (rows.combined(Y), Y.T @ Z),
        (rows.square(), Z.T @ Z),
    ):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, atol=100 * eps(dtype) * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("fmt", ["dense", "sparse"])
@pytest.mark.parametrize("parts", ["", "sm", "smab"])
def test_parts_of_the_rows(fmt, parts, rng):
    """Consecutive ones, and any ones, keep the row scales and shifts that are theirs."""
    X, row_map = data(fmt, np.float64, rng), make_map(parts, np.float64, rng)
    Z = written_out(X, row_map)
    some = np.array([2, 3, 11, 22])
    block = X[4:19]
    for found, expected in (
        (by_kernels(row_map.rows(slice(4, 19), block), 15, float), Z[4:19]),
        (by_kernels(KernelRows(row_map).of_block(slice(4, 19), block), 15, float), Z[4:19]),
        (by_kernels(row_map.rows(some, X[some]), 4, float), Z[some]),
        (by_kernels(row_map.cut(some).rows(slice(0, 4), X[some]), 4, float), Z[some]),
        (by_kernels(row_map.cut(slice(4, 19)).rows(slice(0, 15), block), 15, float), Z[4:19]),
        (MappedRows(block, row_map, slice(4, 19)).times(np.eye(D)), Z[4:19]),
        (MappedRows(X[some], row_map.cut(some)).times(np.eye(D)), Z[some]),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_the_rows_of_the_only_block_are_kept(rng):
    """A source in memory hands out the same block every time; other blocks are mapped anew."""
    X, row_map = rng.standard_normal((N, D)), make_map("smab", np.float64, rng)
    kept = KernelRows(row_map, X)
    rows = kept.of_block(slice(0, N), X)
    assert kept.of_block(slice(0, N), X) is rows
    for start, block in ((5, X[5:]), (0, X[5:]), (0, X[:18].copy())):
        found = by_kernels(kept.of_block(slice(start, start + 18), block), 18, float)
        expected = row_map.rows(slice(start, start + 18), block)
        np.testing.assert_array_equal(found, by_kernels(expected, 18, float))
    assert KernelRows(row_map).of_block(slice(0, N), X) is not rows


def test_rows_pickle_without_the_data(rng):
    X, row_map = rng.standard_normal((N, D)), make_map("smab", np.float64, rng)
    kept = KernelRows(row_map, X)
    before = len(pickle.dumps(KernelRows(row_map)))
    rows = kept.of_block(slice(0, N), X)
    assert len(pickle.dumps(kept)) == before
    other = pickle.loads(pickle.dumps(kept))
    np.testing.assert_array_equal(by_kernels(other.of_block(slice(0, N), X), N, float), by_kernels(rows, N, float))


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("unit", [1e-200, 1e-13, 1e-3, 1e3, 1e13, 1e200])
def test_a_unit_is_a_factor_of_all_rows(unit, parts, rng):
    """An extreme one goes into the columns, where entries are brought to size before anything is squared."""
    X, row_map = rng.standard_normal((N, D)), make_map(parts, np.float64, rng, 1.0)
    Z = unit * written_out(X, row_map)
    found = row_map.normalised(unit, D)
    assert found.unit == (unit if 1 / EXTREME_UNIT < unit < EXTREME_UNIT else 1.0)
    np.testing.assert_allclose(written_out(X, found), Z, rtol=1e-13, atol=1e-14 * np.abs(Z).max())
    assert (found.row_scale is None) == ("a" not in parts) and (found.row_shift is None) == ("b" not in parts)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_an_extreme_unit_leaves_the_squares_of_the_shift_finite(unit, rng):
    """Where rows have shifts of their own, as columns of X have, these are extreme, and the shift need not be."""
    X, b = rng.standard_normal((N, D)) / unit, rng.standard_normal(N) / unit
    row_map = RowMap(np.dtype(float), shift=rng.uniform(1, 2, D), row_shift=b)
    found = row_map.normalised(unit, D)
    np.testing.assert_allclose(written_out(X, found), unit * written_out(X, row_map), rtol=1e-13, atol=1e-13)
    assert 0.1 < (found.shift**2).sum() < 1e3


def test_the_shift_goes_with_the_rounded_scale(rng):
    """Entries equal to the mean become zero in float32, too, where the scale is rounded."""
    mean, deviation = np.full(D, 1e6), rng.uniform(0.5, 2, D)
    row_map = RowMap(np.dtype(np.float32), 1 / deviation, mean / deviation)
    X = np.full((N, D), 1e6, np.float32)
    assert np.abs(by_kernels(row_map.rows(slice(0, N), X), N, np.float32)).max() < 1e-9
    naive = X[0] * (1 / deviation).astype(np.float32) - (mean / deviation).astype(np.float32)
    assert np.abs(naive).max() > 1e-3


def test_a_scale_that_the_type_cannot_hold_is_refused():
    scale = np.full(D, 1e39)
    RowMap(np.dtype(np.float64), scale)
    with pytest.raises(DataError, match="too small for float32: multiply it by a power of ten"):
        RowMap(np.dtype(np.float32), scale)
    with pytest.raises(DataError, match="too small for float32: multiply it by a power of ten"):
        RowMap(np.dtype(np.float32), row_scale=scale)
