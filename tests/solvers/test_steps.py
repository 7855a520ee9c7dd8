"""The step rules, and Theorem 1's parameters in a run."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import NOTHING_FOUND, suboptimality, view_of, with_eigenvalues
from vrpca import OptionError, Theory
from vrpca.options import Options
from vrpca.solvers.oja import Oja
from vrpca.solvers.steps import NO_STEP, oja_step, vr_step
from vrpca.solvers.vr import VR

X = with_eigenvalues(500, 12, [4.0, 1.0, *np.linspace(0.5, 0.1, 10)])


@pytest.mark.parametrize("given", [None, 90.0])
def test_solver_takes_the_theorems_parameters(given):
    view = view_of(X)
    theory = Theory(gap=3.0, delta=0.2, epsilon=1e-6, r=given)
    solver = VR(Options(step="theory", theory=theory), 1)
    rng = np.random.default_rng(0)
    state = solver.start(view, NOTHING_FOUND, rng)
    r = given or (X**2).sum(axis=1).max()
    eta, m, epochs = theory.plan(r)
    trace = (X**2).sum() / len(X)
    assert state.step.size / trace == pytest.approx(eta, rel=1e-12)  # sizes are kept for tr A = 1
    assert (solver.epoch_length(view), state.steps_left) == (m, epochs)
    assert not state.step.adaptive, "the theorem's step is not a heuristic to be adapted"
    after = solver.step(view, state, rng)
    assert after.steps_left == epochs - 1 and after.step == state.step


def test_a_run_by_the_theorem_reaches_epsilon():
    theory = Theory(gap=3.0, delta=0.2, epsilon=1e-6)
    found = vrpca.svd(X, 1, solver="vr", step="theory", theory=theory, random_state=0, tol=1e-6, max_passes=1e9)
    v = np.linalg.svd(X)[2][0]
    assert 1 - (found.Vt[0] @ v) ** 2 <= 1e-6 or found.converged
    assert suboptimality(X, found.Vt) <= 1e-6


def test_a_run_by_the_theorem_ends_after_its_epochs():
    theory = Theory(gap=3.0, delta=0.5, epsilon=0.3)
    with pytest.warns(ConvergenceWarning, match="all the steps that it had planned"):
        found = vrpca.svd(X, 1, solver="vr", step="theory", theory=theory, random_state=0, tol=1e-14, max_passes=1e9)
    assert found.status is vrpca.Status.EPOCHS
    r = (X**2).sum(axis=1).max()
    _, m, epochs = theory.plan(r)
    assert found.history[-1].epoch == epochs
    steps = found.history[-1].rows_read - found.history[0].rows_read
    assert steps == epochs * (m + len(X))


def test_theory_needs_its_quantities_and_one_component():
    with pytest.raises(OptionError, match=r"needs the quantities of Theorem 1: pass theory=vrpca.Theory"):
        vrpca.svd(X, 1, solver="vr", step="theory")
    with pytest.raises(OptionError, match="one component: use n_components=1"):
        vrpca.svd(X, 2, solver="vr", step="theory", theory=Theory(gap=1.0))


def test_the_heuristic_is_one_over_rbar_sqrt_n():
    view = view_of(X, center=True)
    Z = X - X.mean(axis=0)
    rbar = (Z**2).sum(axis=1).mean()
    trace = rbar
    for rule in ("auto", "paper"):
        assert vr_step(view, rule).size / trace == pytest.approx(1 / (rbar * np.sqrt(len(X))), rel=1e-12)


def test_only_rules_are_adaptive():
    """A run halves the step of a rule, and leaves a number alone (test_bad_steps has the runs)."""
    view = view_of(X)
    for make in (vr_step, oja_step):
        rule, fixed = make(view, "paper"), make(view, 0.1)
        assert rule.adaptive and not fixed.adaptive and rule.noisy == fixed.noisy == (make is oja_step)
        half = rule.halved()
        assert half.size == rule.size / 2 and (half.adaptive, half.noisy) == (rule.adaptive, rule.noisy)
    assert not NO_STEP.adaptive


def test_ojas_step_is_c_over_t():
    view = view_of(X)
    trace = (X**2).sum() / len(X)
    state = Oja(Options(step=0.5), 1).start(view, NOTHING_FOUND, np.random.default_rng(0))
    assert state.step.size == pytest.approx(0.5 * trace, rel=1e-12)


@pytest.mark.parametrize("number", [np.float32(0.01), np.float64(0.01), np.int64(1), 1])
def test_numpy_numbers_are_steps(number):
    assert vr_step(view_of(X), number).size == pytest.approx(float(number) * (X**2).sum() / len(X), rel=1e-6)


def test_a_numpy_integer_is_an_epoch_length():
    assert VR(Options(epoch_length=np.int64(10)), 1).epoch_length(view_of(X)) == 10


@pytest.mark.parametrize("options", [{"solver": "oja"}, {"solver": "power"}, {"solver": "gram"}, {"deflate": True}])
def test_theory_is_refused_where_it_would_be_ignored(options):
    with pytest.raises(vrpca.OptionError, match="use solver='vr' or 'hybrid'"):
        vrpca.svd(np.eye(5), 1, step="theory", theory=vrpca.Theory(gap=0.1), **options)
