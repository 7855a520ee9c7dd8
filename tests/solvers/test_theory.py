"""Theorem 1's parameters, by hand, and the step rules."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import suboptimality, view_of, with_eigenvalues
from vrpca import OptionError, Theory
from vrpca.solvers.oja import Oja
from vrpca.solvers.options import Options
from vrpca.solvers.steps import vr_step
from vrpca.solvers.vr import VR

X = with_eigenvalues(500, 12, [4.0, 1.0, *np.linspace(0.5, 0.1, 10)])


@pytest.mark.parametrize(
    ("gap", "delta", "epsilon", "r", "c"), [(0.1, 0.1, 1e-8, 1.0, 1.0), (3.0, 0.2, 1e-3, 25.0, 2.0)]
)
def test_plan_is_the_theorem_with_equality(gap, delta, epsilon, r, c):
    eta, m, epochs = Theory(gap=gap, delta=delta, epsilon=epsilon, c=c).plan(r)
    assert eta == pytest.approx(c * delta**2 * gap / r**2, rel=1e-14)
    assert m == math.ceil(c * math.log(2 / delta) / (eta * gap))
    assert epochs == math.ceil(math.log(1 / epsilon) / math.log(2 / delta))


@pytest.mark.parametrize("given", [None, 90.0])
def test_solver_takes_the_theorems_parameters(given):
    view = view_of(X)
    theory = Theory(gap=3.0, delta=0.2, epsilon=1e-6, r=given)
    solver = VR(view, Options(1, step="theory", theory=theory))
    r = given or (X**2).sum(axis=1).max()
    eta, m, epochs = theory.plan(r)
    trace = (X**2).sum() / len(X)
    assert solver.step_rule.size / trace == pytest.approx(eta, rel=1e-12)  # sizes are kept for tr A = 1
    assert (solver.m, solver.max_epochs) == (m, epochs)
    assert not solver.step_rule.halve(), "the theorem's step is not a heuristic to be adapted"


def test_units_cancel():
    """Data times 10: eta shrinks by 100 (it multiplies squared rows), m and the number of epochs stay."""
    eta, m, epochs = Theory(gap=3.0, delta=0.2).plan(40.0)
    other = Theory(gap=300.0, delta=0.2).plan(4000.0)
    assert other[0] == pytest.approx(eta / 100)
    assert other[1:] == (m, epochs)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gap": 0.0}, "gap=0.0.*positive"),
        ({"gap": 1.0, "delta": 0.0}, r"delta=0.0 must lie in \(0, 1\)"),
        ({"gap": 1.0, "delta": 1.0}, r"delta=1.0 must lie in \(0, 1\)"),
        ({"gap": 1.0, "epsilon": 2}, r"epsilon=2 must lie in \(0, 1\)"),
        ({"gap": 1.0, "r": -1}, "r=-1 must be positive"),
        ({"gap": float("nan")}, "gap=nan.*positive"),
        ({"gap": 1.0, "c": 0}, "c=0.*positive"),
    ],
)
def test_theory_checks_its_quantities(options, message):
    with pytest.raises(OptionError, match=message):
        Theory(**options)


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


def test_only_rules_are_halved():
    view = view_of(X)
    rule, fixed = vr_step(view, "paper"), vr_step(view, 0.1)
    before = rule.size
    assert rule.halve() and rule.size == before / 2
    before = fixed.size
    assert not fixed.halve() and fixed.size == before


def test_ojas_step_is_c_over_t():
    view = view_of(X)
    trace = (X**2).sum() / len(X)
    assert Oja(view, Options(1, step=0.5)).step_rule.size == pytest.approx(0.5 * trace, rel=1e-12)


@pytest.mark.parametrize("number", [np.float32(0.01), np.float64(0.01), np.int64(1), 1])
def test_numpy_numbers_are_steps(number):
    assert vr_step(view_of(X), number).size == pytest.approx(float(number) * (X**2).sum() / len(X), rel=1e-6)


def test_a_numpy_integer_is_an_epoch_length():
    assert VR(view_of(X), Options(1, epoch_length=np.int64(10))).m == 10


@pytest.mark.parametrize("options", [{"solver": "oja"}, {"solver": "power"}, {"solver": "gram"}, {"deflate": True}])
def test_theory_is_refused_where_it_would_be_ignored(options):
    with pytest.raises(vrpca.OptionError, match="use solver='vr' or 'hybrid'"):
        vrpca.svd(np.eye(5), 1, step="theory", theory=vrpca.Theory(gap=0.1), **options)
