"""Probabilistic certificates: a fresh random search outside the answer."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import suboptimality, with_eigenvalues, with_singular_values
from vrpca import Status, run
from vrpca.solvers.accelerated import Sampled
from vrpca.solvers.outside import RandomSearch


def problem(seed=0, d=60):
    return with_eigenvalues(500, d, 1 / (1 + np.arange(d)) ** 1.2, seed)


@pytest.mark.parametrize("solver", ["vr", "krylov", "accelerated"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_any_solver_can_have_one(solver, sparse):
    X = problem(3)
    data = sp.csr_array(X) if sparse else X
    found = vrpca.svd(data, 3, solver=solver, certificate="probabilistic", tol=1e-7, random_state=0, max_passes=300)
    assert found.converged
    assert found.certificate.kind == "probabilistic"
    assert suboptimality(X, found.Vt) <= found.certificate.suboptimality <= 1e-7
    plain = vrpca.svd(data, 3, solver=solver, tol=1e-7, random_state=0, max_passes=300)
    assert found.n_passes > plain.n_passes


def test_gram_is_exact_anyway():
    assert vrpca.svd(problem(), 2, solver="gram", certificate="probabilistic").certificate.kind == "exact"


def test_what_a_bad_start_hides_is_found_and_taken_in():
    """`vr` from a start without the leading direction stays without it; the search outside finds it."""
    d = 40
    X = np.diag(np.r_[5.0, 3.0, 2.0, np.full(d - 3, 0.1)])
    start = np.eye(d)[1:3]
    options = {"solver": "power", "oversample": 0, "start": start, "tol": 1e-6, "random_state": 0, "max_passes": 400}
    found = vrpca.svd(X, 2, certificate="probabilistic", **options)
    assert found.converged
    assert suboptimality(X, found.Vt) <= 1e-6
    np.testing.assert_allclose(found.s, [5, 3], rtol=1e-5)


def test_a_run_with_what_was_found_does_not_start_from_the_first_pass_again(monkeypatch):
    """It starts from what was found outside; a start that the first pass has left would take its place."""
    jobs = []
    monkeypatch.setattr(run, "proven", lambda job, outcome: jobs.append(job) or outcome)
    X = with_singular_values(4000, 60, 0.93 ** np.arange(60), 0)
    vrpca.svd(X, 3, solver="accelerated", certificate="probabilistic", cost="time", random_state=0)
    assert [type(job.solver) for job in jobs] == [Sampled] and jobs[0].first_pass.found is None


def test_too_few_passes_leave_it_unproven():
    X = problem(1)
    plain = vrpca.svd(X, 2, solver="krylov", tol=1e-6, random_state=0, compute_u=False)
    with pytest.warns(match="the probabilistic one is not"):
        found = vrpca.svd(
            X,
            2,
            solver="krylov",
            tol=1e-6,
            random_state=0,
            compute_u=False,
            certificate="probabilistic",
            max_passes=plain.n_passes + 2,
        )
    assert found.status is vrpca.Status.UNPROVEN and not found.converged
    assert found.certificate.kind == "probabilistic" and found.certificate.suboptimality > 1e-6
    assert found.n_passes <= plain.n_passes + 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"certificate": "proof"}, "certificate='proof' is not known: use 'estimated' or 'probabilistic'"),
        ({"failure_probability": 0}, "failure_probability=0 must lie in"),
        ({"failure_probability": 1.0}, "failure_probability=1.0 must lie in"),
        ({"cost": "money"}, "cost='money' is not known: use 'auto', 'time', 'reading' or 'passes'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(vrpca.OptionError, match=message):
        vrpca.svd(problem(), 2, **options)


def test_constant_and_tiny_data():
    X = np.ones((2, 3))
    found = vrpca.svd(X, 1, solver="krylov", certificate="probabilistic", random_state=0)
    np.testing.assert_allclose(found.s, np.sqrt(6))
    assert found.certificate.suboptimality < 1e-8


def test_without_a_pass_for_the_search_nothing_is_proven():
    X = problem(3, 200)
    options = {"solver": "krylov", "tol": 1e-7, "random_state": 0, "compute_u": False}
    plain = vrpca.svd(X, 3, **options)
    with pytest.warns(ConvergenceWarning):
        found = vrpca.svd(X, 3, certificate="probabilistic", max_passes=plain.n_passes, **options)
    assert found.status is Status.UNPROVEN and found.certificate.kind == "estimated"


@pytest.mark.parametrize("compute_u", [False, True])
def test_the_search_leaves_a_pass_for_left_vectors(compute_u):
    X = problem(3, 200)
    options = {"solver": "krylov", "tol": 1e-7, "random_state": 0, "compute_u": compute_u, "max_passes": 9}
    with pytest.warns(ConvergenceWarning):
        found = vrpca.svd(X, 3, certificate="probabilistic", **options)
    assert found.status is Status.UNPROVEN and found.n_passes == 9 and (found.U is not None) == compute_u


def test_the_search_ends_in_time(monkeypatch):
    X = problem(3, 200)
    steps = []
    step = RandomSearch.step
    monkeypatch.setattr(RandomSearch, "step", lambda search: (steps.append(time.sleep(0.3)), step(search)))
    with pytest.warns(ConvergenceWarning):
        found = vrpca.svd(X, 3, solver="krylov", certificate="probabilistic", tol=1e-7, random_state=0, max_seconds=0.7)
    assert found.status is Status.UNPROVEN and 0 < len(steps) <= 3


def test_a_search_that_is_interrupted_loses_nothing(monkeypatch):
    def interrupted(search):
        raise KeyboardInterrupt

    X = problem(3)
    monkeypatch.setattr(RandomSearch, "step", interrupted)
    with pytest.raises(vrpca.Interrupted) as caught:
        vrpca.svd(X, 3, solver="krylov", certificate="probabilistic", tol=1e-7, random_state=0)
    found = caught.value.decomposition
    assert found.status is Status.INTERRUPTED and suboptimality(X, found.Vt) <= 1e-7
