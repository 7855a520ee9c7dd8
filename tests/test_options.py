"""Options: one list of them everywhere, and Theorem 1's parameters by hand."""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing

import pytest

import vrpca
from vrpca import OptionError, Theory, options, solvers
from vrpca.options import Options, SolveOptions


def test_the_names_of_the_solvers_are_those_that_exist():
    assert tuple(solvers.SOLVERS) == options.SOLVERS


def test_keywords_for_type_checkers_are_the_fields_with_the_same_types():
    assert SolveOptions.__annotations__.keys() == Options.__annotations__.keys()
    assert typing.get_type_hints(SolveOptions) == typing.get_type_hints(Options)
    assert options.names() == tuple(field.name for field in dataclasses.fields(Options))
    assert not SolveOptions.__required_keys__


@pytest.mark.parametrize("estimator", [vrpca.PCA, vrpca.TruncatedSVD])
def test_estimators_take_all_options_with_the_same_defaults(estimator):
    parameters = inspect.signature(estimator).parameters
    for field in dataclasses.fields(Options):
        assert field.name in parameters, field.name
        assert parameters[field.name].default == field.default, field.name
        assert parameters[field.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"{field.name} : " in estimator.__doc__, f"{field.name} is not described"


def test_options_that_are_not_given_have_their_defaults():
    assert Options.given({}) == Options()
    assert Options.given({"tol": 1e-3}) == Options(tol=1e-3) != Options()


def test_options_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().tol = 1.0


def test_a_copy_with_another_value_is_checked_too():
    with pytest.raises(OptionError, match="restarts=0"):
        dataclasses.replace(Options(), restarts=0)


# ------------------------------------------------------------------------------------------------------------ Theorem 1


@pytest.mark.parametrize(
    ("gap", "delta", "epsilon", "r", "c"), [(0.1, 0.1, 1e-8, 1.0, 1.0), (3.0, 0.2, 1e-3, 25.0, 2.0)]
)
def test_plan_is_the_theorem_with_equality(gap, delta, epsilon, r, c):
    eta, m, epochs = Theory(gap=gap, delta=delta, epsilon=epsilon, c=c).plan(r)
    assert eta == pytest.approx(c * delta**2 * gap / r**2, rel=1e-14)
    assert m == math.ceil(c * math.log(2 / delta) / (eta * gap))
    assert epochs == math.ceil(math.log(1 / epsilon) / math.log(2 / delta))


def test_units_cancel():
    """Data times 10: eta shrinks by 100 (it multiplies squared rows), m and the number of epochs stay."""
    eta, m, epochs = Theory(gap=3.0, delta=0.2).plan(40.0)
    other = Theory(gap=300.0, delta=0.2).plan(4000.0)
    assert other[0] == pytest.approx(eta / 100)
    assert other[1:] == (m, epochs)


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
        ({"gap": "1"}, "gap='1'.*positive numbers"),
        ({"gap": math.inf}, "gap=inf.*positive numbers"),
        ({"gap": 1.0, "r": [2]}, r"r=\[2\] must be positive numbers"),
        ({"gap": 1.0, "delta": None}, r"delta=None must lie in \(0, 1\)"),
    ],
)
def test_theory_checks_its_quantities(options, message):
    with pytest.raises(OptionError, match=message):
        Theory(**options)
