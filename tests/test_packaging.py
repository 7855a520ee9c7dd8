"""What pyproject.toml says of the package: extras that are complete, and pages that name them."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from vrpca.versions import EXTRAS, NEEDED

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = {"bench", "primme", "intelex", "test", "test-anndata", "lint", "docs"}  # for work on vrpca itself
FOR_USERS = sorted(set(PROJECT["optional-dependencies"]) - OURS)
APART = {"anndata"}  # what `make test-oldest` cannot do with, as pyproject.toml explains, so that `all` does without


def brought_by(extra):
    """The names of the libraries that an extra installs, and of the extras that it includes."""
    libraries, extras = set(), {extra}
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name != "vrpca":
            libraries.add(requirement.name)
        for inner in requirement.extras if requirement.name == "vrpca" else ():
            more, included = brought_by(inner)
            libraries, extras = libraries | more, extras | included
    return libraries, extras


@pytest.mark.parametrize("extra", sorted(set(FOR_USERS) - APART))
def test_all_includes_every_extra_for_users(extra):
    assert extra in brought_by("all")[1]


@pytest.mark.parametrize("extra", FOR_USERS)
def test_the_page_on_installation_names_every_extra(extra):
    assert f"`{extra}`" in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_show_versions_knows_every_library():
    assert set(NEEDED) == {Requirement(text).name for text in PROJECT["dependencies"]}
    assert brought_by("all")[0] <= set(EXTRAS)


def test_there_are_addresses_and_classifiers():
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(PROJECT["urls"])
    assert any(text.startswith("Operating System ::") for text in PROJECT["classifiers"])
