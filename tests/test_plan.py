"""Plans: which solver, on which side of X, and when to think again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from solvers.problems import small_counts
from vrpca import Record
from vrpca.data.open import as_source
from vrpca.options import Options
from vrpca.plan import Task, choose, for_source, gram_seconds, make_plan, pass_seconds, too_slow

LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
}


@pytest.mark.parametrize("cost", ["time", "reading", "passes"])
def test_auto_takes_gram_for_short_rows(cost):
    name, reason = choose(Task(10**6, 100, 5, 10**8, cost=cost))
    assert name == "gram" and "100" in reason


def test_auto_takes_accelerated_for_long_rows():
    name, reason = choose(Task(10**6, 50_000, 10, 5 * 10**10))
    assert name == "accelerated" and "50000 x 50000" in reason
    name, reason = choose(Task(20_000, 5000, 5, 10**8))
    assert name == "accelerated" and " s" in reason and "5000 x 5000" in reason


@pytest.mark.parametrize(("d", "k", "expected"), [(1400, 100, "gram"), (1401, 100, "accelerated"), (300, 22, "gram")])
def test_auto_where_passes_are_the_cost(d, k, expected):
    name, reason = choose(Task(10**5, d, k, 10**5 * d, cost="passes"))
    assert name == expected
    if name == "gram":
        assert f"{d} x {d}" in reason and str(k) in reason


def test_auto_takes_gram_for_most_of_the_components():
    assert choose(Task(10**4, 1000, 400, 10**7))[0] == "gram"


def test_the_answer_names_the_solver_and_the_reason():
    found = vrpca.svd(small_counts(), 2)
    assert found.solver == "gram" and "20" in found.reason


# --------------------------------------------------------------------------------------------------- which side of X


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(60, 30), (30, 60)])
def test_data_are_walked_as_they_are_stored(shape, layout, rng):
    """Solvers that do not care what a row is take the side that need not be put together."""
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    source = as_source(LAYOUTS[layout](X))
    options = Options(solver="accelerated", cost="time")
    assert make_plan(options, source, 2, False).transpose == (layout in ("F", "csc"))
    assert make_plan(replace(options, solver="gram"), source, 2, False).transpose == (shape[1] > shape[0])


def test_vectors_are_not_longer_than_the_data():
    """A hundred thousand rows with next to nothing in them: their columns are gathered after all."""
    X = sp.csc_array(([1.0, 2.0, 3.0], ([5, 70_000, 99_999], [0, 1, 2])), shape=(100_000, 3))
    options = Options(solver="accelerated", cost="time")
    assert not make_plan(options, as_source(X), 1, False).transpose


# ------------------------------------------------------------------------------------------------- when to think again


def history(*bounds):
    return [Record(number, number + 2.0, 0, 0.0, 0.5, 0.1, bound) for number, bound in enumerate(bounds)]


def test_slow_progress_is_compared_with_the_price_of_gram():
    """What is left, at the rate of the last step, against the steps that forming A takes."""
    task = Task(10**5, 1000, 5, 10**8, tol=1e-8)
    worth = gram_seconds(task) / pass_seconds(task)
    steps = int(np.ceil(worth))
    assert steps > 3
    slow, fast = 1e-2 * 0.9 ** np.arange(steps + 2), 1e-2 * 0.01 ** np.arange(steps + 2)
    assert too_slow(task, history(*slow), 100)
    assert not too_slow(task, history(*fast), 100)
    assert not too_slow(task, history(*slow[: steps - 1]), 100), "fewer steps than forming A takes say too little"
    assert not too_slow(task, history(*slow), steps + 2), "`gram` would come too late"
    rate = np.exp(-np.log(1e6) / worth)  # at this rate from 1e-2 to 1e-8 in as many steps as forming A takes
    for factor, expected in ((1.02, True), (0.98, False)):
        bounds = [1e-2 / (rate * factor), 1e-2]
        assert too_slow(task, history(*[1.0] * steps, *bounds), 100) == expected


def test_without_a_goal_or_a_rate_nothing_is_too_slow_at_once():
    task = Task(10**5, 1000, 5, 10**8, tol=1e-8)
    assert not too_slow(task, history(1.0), 100)
    assert not too_slow(task, history(*[1e-3] * 30, 1e-9), 100), "it has converged"
    assert not too_slow(replace(task, tol=0.0), history(*[1e-3] * 30), 100), "no rate leads to zero"
    assert too_slow(task, history(*[1e-3] * 30), 100), "no progress at all"


@pytest.mark.parametrize(
    ("options", "expected"), [({}, True), ({"solver": "accelerated"}, False), ({"cost": "passes"}, False)]
)
def test_only_auto_may_change_its_mind_and_only_where_time_is_the_cost(options, expected):
    source = as_source(sp.random_array((30_000, 3000), density=1e-3, rng=np.random.default_rng(0)))
    options = Options(**{"cost": "time", **options})
    plan = make_plan(options, source, 3, False)
    assert plan.name == "accelerated" and plan.may_switch(options) == expected


@pytest.mark.parametrize("options", [{"deflate": True}, {"step": "theory", "theory": vrpca.Theory(gap=0.1)}])
def test_auto_takes_the_solver_that_goes_with_an_option(options):
    plan = make_plan(Options(**options, cost="time"), as_source(small_counts()), 1, False)
    assert plan.name == "vr"


@pytest.mark.parametrize(("oversample", "width"), [(None, 7), (0, 3), (4, 7), (100, 20)])
def test_the_width_is_as_asked_for_or_as_the_solver_likes(oversample, width):
    options = Options(solver="gram", oversample=oversample, cost="time")
    assert make_plan(options, as_source(small_counts()), 3, False).solver.width == width


@pytest.mark.parametrize(("d", "expected"), [(800, "gram"), (4000, "accelerated"), (10**4, "accelerated")])
def test_auto_weighs_one_reading_with_much_arithmetic_against_several(d, expected):
    """At 1 GB/s, forming A of 800 columns takes less time than three readings."""
    assert choose(Task(10**6, d, 10, 10**6 * d, cost="reading"))[0] == expected


def test_files_are_solved_with_reading_in_mind_unless_the_user_says(tmp_path):
    np.save(tmp_path / "X.npy", small_counts())
    limited = as_source(tmp_path / "X.npy", limited=True)
    limited.slow_to_read = True
    assert for_source(Options(), limited).cost == "reading"
    assert for_source(Options(), as_source(small_counts())).cost == "time"
    for cost in ("time", "reading", "passes"):
        assert for_source(Options(cost=cost), limited).cost == cost
