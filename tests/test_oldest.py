"""The constraints of `make test-oldest` are read from pyproject.toml, and none is lost."""

import tomllib

import pytest

from oldest import PYPROJECT, constraint, python_problem, requirements


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [("numpy>=1.26", "numpy==1.26"), ("dask[array]>=2024.1", "dask==2024.1"), ("vrpca[plot,frames]", None)],
)
def test_a_lower_bound_becomes_a_version(requirement, expected):
    assert constraint(requirement) == expected


@pytest.mark.parametrize("requirement", ["numpy>=1.26,<3", "numpy>1", "numpy==2", "numpy>=2; python_version>'3'"])
def test_what_is_not_understood_is_an_error(requirement):
    with pytest.raises(ValueError, match="name>=version"):
        constraint(requirement)


def test_every_dependency_of_the_package_has_a_lower_bound():
    project = tomllib.loads(PYPROJECT.read_text())
    own = project["project"]["name"]
    unbound = [name for name in requirements(project) if not constraint(name) and not name.startswith(own)]
    assert unbound == ["pandas-stubs"]  # for mypy alone


def test_another_python_is_named_with_the_remedy():
    project = {"project": {"requires-python": ">=3.11"}}
    assert python_problem(project, (3, 11)) is None
    assert "PYTHON=python3.11" in python_problem(project, (3, 14))
