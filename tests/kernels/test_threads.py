"""Threads that stay, across a fork."""

from __future__ import annotations

import multiprocessing
import sys

import numpy as np
import pytest

import vrpca


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
