"""The fuzz harnesses: a short part of both, the truth against other ways to it, and judges that object to lies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

if sys.platform != "linux":
    pytest.skip("the harness limits its workers by means of Linux", allow_module_level=True)

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import fuzz_certificates  # noqa: E402
import fuzz_inputs  # noqa: E402
from fuzz import objects  # noqa: E402
from fuzz.matrices import FAMILIES, Problem, make_problem  # noqa: E402
from fuzz.pool import Limits, Lost, run, until  # noqa: E402
from fuzz.truth import ERROR, EXTENDED, Truth, prepared  # noqa: E402

import vrpca  # noqa: E402

Long = np.longdouble
pytestmark = pytest.mark.skipif(not EXTENDED, reason="long double is no wider than double here")


def harness(name, *arguments):
    command = [sys.executable, str(BENCHMARKS / name), "--seed", "0", "--jobs", "1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})


# ------------------------------------------------------------------------------------------------- a short part of both


def test_no_objections_to_certificates():
    ended = harness("fuzz_certificates.py", "--cases", "240")  # one matrix of each family
    assert ended.returncode == 0, ended.stdout


def test_no_input_hurts():
    ended = harness("fuzz_inputs.py", "--cases", "400")
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("name", ["fuzz_certificates.py", "fuzz_inputs.py"])
def test_a_case_can_be_run_again(name):
    first, second = (harness(name, "--case", "11") for _ in range(2))
    assert first.stdout == second.stdout != ""
    assert first.returncode == second.returncode


# ------------------------------------------------------------------------------------------------------------ the truth


def jacobi(Z):
    """All singular values in long double by one-sided Jacobi: nothing in common with the truth but the precision."""
    Z = (Z if Z.shape[0] >= Z.shape[1] else Z.T).copy()
    d = Z.shape[1]
    for _ in range(40):
        largest = Long(0)
        for p in range(d - 1):
            for q in range(p + 1, d):
                a, b, c = Z[:, p] @ Z[:, p], Z[:, q] @ Z[:, q], Z[:, p] @ Z[:, q]
                if c * c <= Long(1e-36) * a * b:
                    continue
                largest = max(largest, abs(c) / np.sqrt(a * b))
                x = (b - a) / (2 * c)
                t = (1 if x >= 0 else -1) / (abs(x) + np.sqrt(1 + x * x))
                cosine = 1 / np.sqrt(1 + t * t)
                Z[:, p], Z[:, q] = cosine * (Z[:, p] - t * Z[:, q]), cosine * (t * Z[:, p] + Z[:, q])
        if largest == 0:
            break
    return np.sort(np.sqrt((Z**2).sum(axis=0)))[::-1]


def small_problems(family, count=2, side=14):
    """The first problems of a family that a slow method can solve."""
    made = (make_problem(family, [5, number]) for number in range(2000))
    small = (problem for problem in made if min(problem.X.shape) <= side and max(problem.X.shape) <= 400)
    return [problem for problem, _ in zip(small, range(count), strict=False)]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("wide", "tall", "larger")])
def test_the_sum_of_eigenvalues_is_that_of_one_sided_jacobi(family):
    for problem in small_problems(family):
        Z = prepared(problem.X, problem.center, problem.scale, problem.weights)
        truth = Truth(Z)
        if truth.total:
            expected = (jacobi(truth.Z)[: problem.k] ** 2).sum()
            assert abs(truth.largest(problem.k) / expected - 1) <= ERROR


def test_known_suboptimalities():
    truth = Truth(np.diag([3.0, 2.0, 1.0, 0.0]).astype(Long))
    axes = np.eye(4)
    for chosen, explained in (([0, 1], 13), ([0, 2], 10), ([2, 3], 1)):
        assert truth.suboptimality(axes[chosen]) == pytest.approx(1 - explained / 13, abs=1e-16)
    turned = np.array([[0.6, 0.8, 0, 0]])  # 9 * 0.36 + 4 * 0.64 = 5.8 of 9
    assert truth.suboptimality(turned) == pytest.approx(1 - 5.8 / 9, abs=1e-15)  # 0.6 and 0.8 are rounded


def test_the_truth_resolves_what_double_precision_does_not():
    """A component that is turned by 1e-9 misses 1e-18 of the first value, and twice the angle four times as much."""
    truth = Truth(np.diag([1.0, 0.0]).astype(Long))
    turned = [np.array([[np.sqrt(1 - Long(x) ** 2), Long(x)]]) for x in (1e-8, 2e-8)]
    assert [truth.suboptimality(w) for w in turned] == pytest.approx([1e-16, 4e-16], abs=1e-18)


def test_components_are_judged_by_their_span():
    truth = Truth(np.diag([3.0, 2.0, 1.0]).astype(Long))
    assert truth.suboptimality(np.array([[2.0, 0, 0], [5.0, 1e-3, 0]])) == pytest.approx(0, abs=ERROR)
    assert truth.suboptimality(np.array([[1.0, 0, 0], [1.0, 0, 0]])) == pytest.approx(1 - 9 / 13, abs=1e-16)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_prepared_rows_are_those_of_exact_arithmetic(dtype, center, scale, rng):
    """Rational numbers, up to the roots, for data whose means are far larger than their deviations."""
    X = rng.standard_normal((7, 3)).astype(dtype)
    X[:, 0] += dtype(1e6)
    X[:, 2] = dtype(0.1)
    weights = np.array([1.0, 0, 2, 3, 0.5, 1, 1])
    w = [Fraction(float(x)) for x in weights]
    rows = [[Fraction(float(x)) for x in row] for row in X]
    expected = np.zeros(X.shape, Long)
    for j in range(3):
        mean = sum(a * row[j] for a, row in zip(w, rows, strict=True)) / sum(w)
        variance = sum(a * (row[j] - mean) ** 2 for a, row in zip(w, rows, strict=True)) / sum(w)
        deviation = np.sqrt(_long(variance)) if scale and variance else Long(1)
        expected[:, j] = [_long(row[j] - (mean if center else 0)) / deviation for row in rows]
    expected *= np.sqrt(weights.astype(Long))[:, None]
    found = prepared(X, center, scale, weights)
    assert np.abs(found - expected).max() <= 20 * np.finfo(Long).eps * np.abs(expected).max()


def _long(x):
    """A fraction in long double: its double, and what that leaves."""
    high = float(x)
    return Long(high) + Long(float(x - Fraction(high)))


# --------------------------------------------------------------------------------------------------------- the matrices


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_repeatable_and_finite(family):
    for number in range(12):
        one, two = make_problem(family, [3, number]), make_problem(family, [3, number])
        X, Y = (p.X.toarray() if sp.issparse(p.X) else p.X for p in (one, two))
        np.testing.assert_array_equal(X, Y)
        assert one.describe() == two.describe()
        assert X.dtype == Y.dtype and np.isfinite(X).all()
        assert 1 <= one.k <= min(X.shape)


# ------------------------------------------------------------------------------------------------------------ the judge


@pytest.fixture
def judged(rng):
    """A function that falsifies an answer and returns what the judge objects to."""
    X = rng.standard_normal((60, 8)) * np.geomspace(1, 0.1, 8)
    problem = Problem("noise", X, 3, "C", True, False, None)
    fit = fuzz_certificates.Fit("pca", 3, {"tol": 1e-8, "random_state": 0}, None)
    truth = Truth(prepared(X, True, False, None))
    answer = fuzz_certificates.call(problem, fit)

    def objections(**changes):
        false = replace(answer, **changes)
        true = fuzz_certificates.true_suboptimality(false, truth)
        return {objection.what for objection in fuzz_certificates.judge(fit, false, truth, true)}

    objections.answer, objections.truth = answer, truth
    return objections


def test_the_judge_has_no_objections_to_a_good_answer(judged):
    assert judged() == set()


def test_the_judge_objects_to_a_falsified_certificate(judged):
    V = judged.answer.components.copy()
    V[2] = judged.truth.V[:, 3]  # the fourth axis instead of the third: the certificate was for the third
    assert "wrong certificate" in judged(components=V)
    assert judged(components=V, values=judged.truth.norms(V) * judged.truth.size) == {"wrong certificate"}
    slightly = judged.answer.components.copy()
    slightly[0] = np.cos(1e-6) * slightly[0] + np.sin(1e-6) * judged.truth.V[:, 7]
    assert judged(components=slightly, bound=1e-14) == {"wrong certificate"}
    assert judged(components=slightly, bound=1e-9) == set()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"bound": float("nan")}, {"bound outside [0, 1]", "converged above tol"}),
        ({"bound": 1.5, "converged": False}, {"bound outside [0, 1]"}),
        ({"bound": -1e-3}, {"bound outside [0, 1]", "wrong certificate"}),
        ({"bound": 1e-7}, {"converged above tol"}),
        ({"kind": "guessed"}, {"kind"}),
        ({"ratio": np.array([0.5, 0.3, 1.0 + 1e-15])}, {"ratio outside [0, 1]"}),
        ({"ratio": np.array([0.5, 0.3, np.nan])}, {"ratio outside [0, 1]"}),
        ({"numbers": {"mean": np.array([np.inf])}}, {"not finite"}),
    ],
)
def test_the_judge_objects(judged, changes, what):
    assert judged(**changes) == what


def test_the_judge_objects_to_components(judged):
    V, s = judged.answer.components, judged.answer.values
    assert "not orthonormal" in judged(components=V * (1 + 1e-9))
    assert "wrong count" in judged(components=V[:2], values=s[:2])
    assert judged(values=s * 1.01) == {"wrong singular values"}
    assert "wrong singular values" in judged(values=s[::-1])


def test_the_judge_counts_components_of_a_fraction(judged):
    shares = [judged.truth.largest(j) / judged.truth.total for j in (2, 3, 4)]
    middle = float(shares[0] + shares[1]) / 2
    assert not list(fuzz_certificates.judge_fraction(middle, 3, judged.truth))
    assert list(fuzz_certificates.judge_fraction(middle, 2, judged.truth))
    assert list(fuzz_certificates.judge_fraction(middle, 4, judged.truth))


# --------------------------------------------------------------------------------------------------------- bad input


def outcome(act):
    with pytest.raises(Exception) as raised:
        act()
    return fuzz_inputs._judged(raised.value)[0]


def test_errors_are_told_apart():
    X = np.full((5, 3), np.nan)
    assert outcome(lambda: vrpca.pca(X, 2)) == "refused"
    assert outcome(lambda: vrpca.load(None)) == "refused"
    assert outcome(lambda: {}["key"]) == "foreign exception"
    assert outcome(lambda: np.zeros(3) + np.zeros(4)) == "unclear error"
    assert outcome(lambda: np.load("/dev/null/none")) == "foreign exception"


def test_wrong_answers_are_told_from_right_ones(rng):
    X = fuzz_inputs.matrix(rng)
    found = vrpca.svd(X, 2)
    assert fuzz_inputs.wrong_answer(found, [None, X], False) == ""
    assert "wrong" in fuzz_inputs.wrong_answer(found, [X[:, ::-1]], False)
    assert "wrong" in fuzz_inputs.wrong_answer(replace(found, s=found.s * 1.1), [X], False)
    for useless in (None, X * np.nan, X[0], X.astype(str)):
        assert "not refused" in fuzz_inputs.wrong_answer(found, [useless], False)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_matrices_are_densified_with_every_check(form, rng):
    X = fuzz_inputs.matrix(rng)
    np.testing.assert_array_equal(objects.densified(sp.csr_array(X).asformat(form)), X)
    for what in ("an index is negative", "an index is too large", "indptr falls", "data are too short", "data are 2d"):
        assert objects.densified(objects.damaged_sparse(what, X, form)) is None
    for what, factor in (("entries are doubled", 2), ("data have strides", 1), ("indices are unsigned", 1)):
        np.testing.assert_array_equal(objects.densified(objects.damaged_sparse(what, X, form)), factor * X)


# ---------------------------------------------------------------------------------------------------------- the workers


def unruly(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 3:
        time.sleep(60)
    if number == 5:
        try:
            return len(bytes(1 << 30))
        except MemoryError:
            return "too much"
    return number


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it has threads, which the workers do not use
def test_a_crash_a_hang_and_much_memory_cost_one_case_each():
    found = list(run(unruly, iter([[0, 1, 2, 3], [4, 5, 6]]), 2, Limits(seconds=1.0, memory=256 << 20)))
    lost = {answer.number: answer.why for answer in found if isinstance(answer, Lost)}
    assert lost == {1: "crashed: SIGKILL", 3: "no answer after 1 s"}
    assert sorted(str(answer) for answer in found if not isinstance(answer, Lost)) == ["0", "2", "4", "6", "too much"]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fault_of_the_harness_is_not_a_finding():
    with pytest.raises(RuntimeError, match=r"(?s)harness is broken: case 0.*ZeroDivisionError"):
        list(run(lambda number: 1 / number, iter([[0]]), 1, Limits(seconds=10.0, memory=256 << 20)))


def test_cases_and_seconds_end_a_run():
    groups = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert list(until(groups, 4, None)) == [[0, 1, 2], [3]]
    assert list(until(groups, None, 1e9)) == groups
    assert list(until(groups, None, -1.0)) == []
