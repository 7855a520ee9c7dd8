"""The loop: budgets, statuses, callbacks, and results that repeat. `test_interrupt` has Ctrl-C."""

from __future__ import annotations

import dataclasses
import itertools
import time

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import (
    assert_orthonormal,
    assert_sign_rule,
    assert_turned_no_further,
    suboptimality,
    view_of,
    with_eigenvalues,
)
from vrpca import Record, Status
from vrpca.run import Budget
from vrpca.solvers import SOLVERS

X = with_eigenvalues(400, 25, 0.9 ** np.arange(25))
STOCHASTIC = ["vr", "oja", "hybrid"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_unreachable_tol_ends_with_a_status(solver, dtype):
    with pytest.warns(ConvergenceWarning) as caught:
        found = vrpca.svd(X.astype(dtype), 2, solver=solver, tol=0, max_passes=150, random_state=0)
    assert found.status in (Status.STALLED, Status.PASSES, Status.EPOCHS)
    assert len(caught) == 1
    assert found.status.value in str(caught[0].message)
    assert "tol=0.0e+00" in str(caught[0].message)
    if solver != "oja":
        assert suboptimality(X, found.Vt) < (1e-13 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("k", [1, 3])
def test_a_run_at_the_level_of_rounding_stalls(k):
    """tol=0 cannot be met: the run notices well before its thousand passes are spent."""
    with pytest.warns(ConvergenceWarning, match="no longer falls"):
        found = vrpca.svd(X, k, solver="vr", tol=0, max_passes=1000, random_state=0)
    assert found.status is Status.STALLED
    assert found.n_passes < 500
    assert suboptimality(X, found.Vt) < 1e-14


@pytest.mark.parametrize("k", [1, 3])
def test_float32_stalls_too(k):
    with pytest.warns(ConvergenceWarning, match="Pass float64 data"):
        found = vrpca.svd(X.astype(np.float32), k, solver="vr", tol=0, max_passes=1000, random_state=0)
    assert found.status is Status.STALLED
    assert found.n_passes < 500


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "gram"])
@pytest.mark.parametrize("limit", [4.5, 6, 9.5])
def test_max_passes_stops_and_warns_with_a_full_result(solver, limit):
    flat = np.random.default_rng(0).standard_normal((400, 200))
    with pytest.warns(ConvergenceWarning, match=r"2 component\(s\).*max_passes was reached first: allow more passes"):
        found = vrpca.svd(flat, 2, solver=solver, max_passes=limit, tol=1e-12, random_state=0)
    assert found.status is Status.PASSES
    assert found.n_passes <= limit
    assert found.Vt.shape == (2, 200) and found.U.shape == (400, 2)
    assert_orthonormal(found.Vt, 1e-12)


@pytest.mark.parametrize("limit", [1, 2])
def test_a_budget_below_the_least_is_refused_or_kept(limit, recwarn):
    """The first pass and the first snapshot take two readings: one cannot do with less."""
    found, error = None, None
    try:
        found = vrpca.svd(X, 2, solver="vr", max_passes=limit, random_state=0)
    except vrpca.OptionError as caught:
        error = caught
    assert "max_passes" in str(error) if error else found.n_passes <= limit


def test_max_seconds_stops():
    def slow(record):
        time.sleep(0.02)

    with pytest.warns(ConvergenceWarning, match="max_seconds was reached first: allow more time"):
        found = vrpca.svd(X, 2, solver="power", tol=0, max_passes=1e6, max_seconds=0.1, callback=slow, random_state=0)
    assert found.status is Status.SECONDS
    assert len(found.history) <= 12
    assert found.history[-2].seconds < 0.1 <= found.history[-1].seconds + 0.02


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_callback_sees_every_record(solver, recwarn):
    seen = []
    found = vrpca.svd(X, 2, solver=solver, max_passes=20, random_state=0, callback=seen.append)
    assert seen == found.history
    assert all(isinstance(record, Record) for record in seen)
    assert [record.epoch for record in seen] == list(range(len(seen)))
    for earlier, later in itertools.pairwise(seen):
        assert later.rows_read > earlier.rows_read and later.seconds >= earlier.seconds
    for record in seen:
        assert record.passes == record.rows_read / 400
        assert 0 < record.objective <= 1 and record.residual >= 0 and record.bound >= 0
        assert record.asdict() == dataclasses.asdict(record)


def test_the_callback_can_stop_the_run():
    with pytest.warns(ConvergenceWarning, match="The callback asked to stop"):
        found = vrpca.svd(X, 2, solver="vr", random_state=0, callback=lambda record: record.epoch == 2)
    assert found.status is Status.STOPPED
    assert len(found.history) == 3
    assert np.isfinite(found.Vt).all()


def test_a_callback_that_stops_a_restart_stops_them_all():
    calls = []

    def stop(record):
        calls.append(record)
        return True

    with pytest.warns(ConvergenceWarning, match="The callback asked to stop"):
        vrpca.svd(X, 2, solver="vr", restarts=4, random_state=0, callback=stop)
    assert len(calls) == 1


def test_an_error_in_a_callback_is_the_users():
    def fail(record):
        raise RuntimeError("my own mistake")

    with pytest.raises(RuntimeError, match="my own mistake"):
        vrpca.svd(X, 2, solver="vr", callback=fail)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("k", [1, 3])
def test_the_same_seed_gives_the_same_bits(solver, k, sparse, recwarn):
    data = sp.csr_array(X) if sparse else X
    one, two = (vrpca.svd(data, k, solver=solver, max_passes=10, random_state=7) for _ in range(2))
    for a, b in ((one.Vt, two.Vt), (one.s, two.s), (one.U, two.U)):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(one.history, two.history, strict=True):
        assert dataclasses.replace(a, seconds=0) == dataclasses.replace(b, seconds=0)


@pytest.mark.parametrize("solver", [*STOCHASTIC, "power"])
def test_other_seeds_give_other_bits(solver, recwarn):
    one, two = (vrpca.svd(X, 2, solver=solver, max_passes=8, random_state=seed) for seed in (1, 2))
    assert not np.array_equal(one.Vt, two.Vt)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng, np.int64, int])
def test_all_kinds_of_random_state(make):
    one, two = (vrpca.svd(X, 2, solver="vr", random_state=make(5)) for _ in range(2))
    assert one.converged
    np.testing.assert_array_equal(one.Vt, two.Vt)


def test_a_generator_moves_on():
    rng = np.random.default_rng(5)
    one, two = (vrpca.svd(X, 2, solver="vr", random_state=rng) for _ in range(2))
    assert not np.array_equal(one.Vt, two.Vt)


def test_the_global_generator_is_not_touched():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    vrpca.svd(X, 2, solver="vr")
    vrpca.svd(X, 2, solver="vr", random_state=3)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("solver", ["vr", "power", "hybrid", "gram"])
def test_signs_do_not_depend_on_seed_or_solver(solver):
    reference = vrpca.svd(X, 3, solver="gram", random_state=0).Vt
    for seed in range(4):
        found = vrpca.svd(X, 3, solver=solver, random_state=seed, tol=1e-12, max_passes=1000)
        assert_sign_rule(found.Vt)
        assert_turned_no_further(found.Vt, reference, found.certificate)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_number_of_threads_does_not_change_the_answer(threads):
    one = vrpca.svd(X, 3, solver="vr", random_state=0, n_threads=1)
    other = vrpca.svd(X, 3, solver="vr", random_state=0, n_threads=threads)
    np.testing.assert_allclose(one.Vt, other.Vt, atol=1e-10)


def test_every_status_gives_advice():
    for status in Status:
        assert status.value.endswith(".") and len(status.value) > 20


def test_verbose_writes_to_stderr_only(capfd):
    found = vrpca.svd(X, 2, solver="vr", random_state=0, verbose=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("vrpca: ") and "rows/s, bound" in err
    quiet = vrpca.svd(X, 2, solver="vr", random_state=0)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(found.Vt, quiet.Vt)


def test_verbose_with_restarts_and_a_callback(capfd):
    seen = []
    vrpca.svd(X, 2, solver="vr", random_state=0, verbose=True, restarts=2, callback=seen.append)
    assert capfd.readouterr().out == ""
    assert sum(record.epoch == 0 for record in seen) == 2


@pytest.mark.parametrize("solver", ["krylov", "accelerated"])
def test_near_the_level_of_rounding_a_run_does_not_go_on_for_ever(solver):
    noise = np.random.default_rng(0).standard_normal((5000, 300)).astype(np.float32)
    with pytest.warns(ConvergenceWarning):
        found = vrpca.svd(noise, 2, solver=solver, tol=1e-13, random_state=0, compute_u=False, max_passes=300)
    assert found.status is Status.STALLED and found.n_passes < 150


def test_a_budget_counts_what_the_view_reads_and_what_was_read_before():
    view = view_of(X)
    budget = Budget(view, 600, time.perf_counter(), max_passes=4.0, max_seconds=None)
    assert (budget.rows_read, budget.passes) == (600, 1.5) and budget.in_time
    view.product(np.ones((25, 1)))
    assert (budget.rows_read, budget.passes) == (1000, 2.5)
    assert budget.affords(1.5) and not budget.affords(1.6)
    view.rows_read += 1000
    assert not budget.affords(0)


def test_a_share_of_a_budget_is_a_share_of_what_is_left():
    view = view_of(X)
    view.rows_read = 800
    budget = Budget(view, 400, time.perf_counter() - 10, max_passes=9.0, max_seconds=30.0)
    half = budget.share(0.5)
    assert half.max_passes == 6.0 and half.max_seconds == pytest.approx(20, abs=0.1)
    view.rows_read += 400
    assert half.passes == budget.passes == 4.0, "both count the same rows"
    assert budget.share(1.0).max_passes == 9.0
    late = Budget(view, 400, time.perf_counter() - 50, max_passes=9.0, max_seconds=30.0)
    assert not late.in_time and not late.share(0.5).in_time
