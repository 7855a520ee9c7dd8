"""The product by BLAS against the NumPy kernels, rows as they are mapped, and threads across a fork."""

from __future__ import annotations

import multiprocessing
import sys

import numpy as np
import pytest
from kernel_cases import DTYPES, MAPS, assert_close, make_case, rounding, to

import vrpca
from vrpca.kernels import _native as native
from vrpca.kernels import blas, reference


def check_product(case, width, threads, with_P, rng):
    dtype, (n, d) = case.dtype, case.shape
    s, m, a, _ = case.row_map
    (W,) = to(dtype, rng.standard_normal((d, width)))
    (U,) = to(dtype, rng.standard_normal((d, width)))
    before, twin, X = U.copy(), U.astype(float), case.X.copy()
    P = np.full((n, width), np.nan, dtype) if with_P else None
    P_twin = np.full((n, width), np.nan) if with_P else None
    factor = dtype(case.unit) if a is None else (case.unit * a).astype(dtype)
    blas.product(case.X, case.rows(native), s is not None or m is not None, factor, W, U, P, threads)
    reference.product(case.rows(reference), W, twin, P_twin, 1)
    size, bound = case.magnitude, rounding(case)
    assert_close(U, twin, bound * (size.T @ (size @ np.abs(W)) + np.abs(before)))
    if with_P:
        assert_close(P, P_twin, bound * (size @ np.abs(W)))
    np.testing.assert_array_equal(case.X, X)


@pytest.mark.parametrize("maps", MAPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_P", [False, True])
def test_product_with_every_row_map(maps, dtype, with_P, rng):
    if maps[3] and not maps[1]:
        pytest.skip("a factor of a shift that is not there")
    check_product(make_case(rng, 101, 17, "dense", dtype, maps), 5, 2, with_P, rng)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 95, 97, 200])
@pytest.mark.parametrize("maps", [(False,) * 4, (True,) * 4], ids=["plain", "mapped"])
def test_pieces_of_any_number(n, threads, maps, rng, monkeypatch):
    """Pieces of 32 rows: whole ones, a rest, fewer than there are threads."""
    monkeypatch.setattr(blas, "PIECE_BYTES", 1)
    check_product(make_case(rng, n, 23, "dense", np.float64, maps), 4, threads, True, rng)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_pieces_of_their_real_size(dtype, threads, rng):
    step = blas.PIECE_BYTES // (700 * np.dtype(dtype).itemsize)
    check_product(make_case(rng, 3 * step + 7, 700, "dense", dtype, (False, True, True, False)), 6, threads, True, rng)


@pytest.mark.parametrize("width", [1, 2, 3, 8, 33])
def test_any_width(width, rng):
    check_product(make_case(rng, 300, 40, "dense", np.float32, (True, True, True, True)), width, 2, True, rng)


@pytest.mark.parametrize("maps", MAPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 7, 16, 33, 100])
def test_mapped_rows_agree_with_their_twin(maps, dtype, d, rng):
    """``x_i * s - b_i m``, without the scale of the row, from any row on."""
    case = make_case(rng, 50, d, "dense", dtype, maps)
    if not (maps[0] or maps[1]):
        with pytest.raises(ValueError, match="not mapped"):
            native.map_rows(case.rows(native), 0, np.empty((50, d), dtype))
        return
    for first, count in ((0, 50), (0, 1), (49, 1), (13, 20)):
        out, twin = np.full((count, d), np.nan, dtype), np.full((count, d), np.nan)
        native.map_rows(case.rows(native), first, out)
        reference.map_rows(case.rows(reference), first, twin)
        _, x, m = case._parts()
        size = (np.abs(x) + np.abs(m * np.ones_like(x)))[first : first + count]
        assert_close(out, twin, 4 * np.finfo(dtype).eps * size)


def _child(X, solver, results):
    found = vrpca.svd(X, 3, solver=solver, n_threads=2, random_state=0)
    results.put((found.s, found.Vt))


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("solver", ["accelerated", "krylov", "vr", "gram"])
def test_threads_across_a_fork(solver, rng):
    """A child has none of its parent's threads: it must not wait for them."""
    X = rng.standard_normal((3000, 300)) * 0.97 ** np.arange(300)
    here = vrpca.svd(X, 3, solver=solver, n_threads=2, random_state=0)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_child, args=(X, solver, results), daemon=True)
    child.start()
    try:
        s, Vt = results.get(timeout=60)
        child.join(30)
        assert child.exitcode == 0
    finally:
        child.kill()
    np.testing.assert_allclose(s, here.s, rtol=1e-10)
    np.testing.assert_allclose(s, np.linalg.svd(X, compute_uv=False)[:3], rtol=1e-7)
    np.testing.assert_allclose(Vt, here.Vt, atol=1e-8)
    again = vrpca.svd(X, 3, solver=solver, n_threads=2, random_state=0)  # and the parent still has its own
    np.testing.assert_allclose(again.s, here.s, rtol=1e-12)
