"""The reference is complete: every public name, every parameter and attribute, every command and every option."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import vrpca
import vrpca.check
import vrpca.cli
import vrpca.plot
import vrpca.report
from helpers import run_python

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "reference" / "python.rst").read_text(encoding="utf-8")
LISTED = set(re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", PAGE, re.MULTILINE))
# Modules beside the package itself whose functions the guides name.
MODULES = ("vrpca.anndata", "vrpca.check", "vrpca.plot", "vrpca.report")
ESTIMATORS = (vrpca.PCA, vrpca.TruncatedSVD)
# check_plot is for the command line, which checks its files first. Default marks an argument that was not given.
NOT_PROMISED = {"vrpca.plot.check_plot", "vrpca.anndata.Default"}
CLASSES = [member for name in vrpca.__all__ if inspect.isclass(member := getattr(vrpca, name))] + [vrpca.check.Check]


def public_functions(module):
    """The full names of what a module offers: its ``__all__``, else the functions and classes that it defines."""
    found = sys.modules[module]
    if hasattr(found, "__all__"):
        return {f"{module}.{name}" for name in found.__all__}
    members = inspect.getmembers(found, lambda each: inspect.isfunction(each) or inspect.isclass(each))
    return {f"{module}.{name}" for name, member in members if member.__module__ == module and name[0] != "_"}


def documented(docstring):
    """The names that the numpydoc sections of a docstring describe: ``a, b : type`` describes two."""
    heads = re.findall(r"^(\**[A-Za-z_]\w*(?:, \**\w+)*)(?: :.*)?$", inspect.cleandoc(docstring), re.MULTILINE)
    return {name.strip("* ") for head in heads for name in head.split(",")} | set(re.findall(r"`(\w+_)`", docstring))


def test_every_public_name_is_listed():
    names = {f"vrpca.{name}" for name in vrpca.__all__ if not inspect.ismodule(getattr(vrpca, name))}
    for module in MODULES:
        names |= public_functions(module)
    missing = names - LISTED - NOT_PROMISED
    assert not missing, f"add '.. autofunction:: NAME' or '.. autoclass:: NAME' to docs/reference/python.rst: {missing}"


def test_everything_that_is_listed_exists():
    for name in LISTED:
        module, _, attribute = name.rpartition(".")
        assert hasattr(sys.modules[module], attribute), name


@pytest.mark.parametrize("kind", [*filter(dataclasses.is_dataclass, CLASSES)], ids=lambda kind: kind.__name__)
def test_every_field_is_described(kind):
    fields = {field.name for field in dataclasses.fields(kind)}
    assert fields <= documented(kind.__doc__), fields - documented(kind.__doc__)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_attribute_of_a_fitted_model_is_described(kind):
    model = kind(2, random_state=0).fit(np.random.default_rng(0).standard_normal((40, 6)))
    properties = [name for name, member in inspect.getmembers(kind) if isinstance(member, property)]
    found = {name for name in [*vars(model), *properties] if name.endswith("_") and not name.startswith("_")}
    assert {"components_", "explained_variance_"} <= found
    described = documented(kind.__doc__)
    assert found <= described, f"describe in the docstring of {kind.__name__}: {found - described}"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_method_has_a_docstring(kind):
    for name, member in inspect.getmembers(kind):
        ours = (inspect.isfunction(member) or inspect.ismethod(member)) and member.__module__.startswith("vrpca")
        if not name.startswith("_") and (ours or isinstance(member, property)):
            assert member.__doc__, f"{kind.__name__}.{name}"


@pytest.mark.parametrize("function", [vrpca.svd, vrpca.pca, vrpca.info, vrpca.open_data, vrpca.save, vrpca.load])
def test_every_parameter_of_a_function_is_described(function):
    described = documented(function.__doc__)
    for name in inspect.signature(function).parameters:
        assert name in described, f"{function.__name__}: {name}"


@pytest.fixture(scope="module")
def page():
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        import command_line

        return command_line
    finally:
        sys.path.remove(str(DOCS / "_ext"))


def options_in_help(command, capsys):
    """The names of options in what ``vrpca COMMAND --help`` prints."""
    assert vrpca.cli.run([*command, "--help"]) == 0
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)))


COMMANDS = ("fit", "transform", "check", "info", "report", "reproduce", "bench peers", "bench growth", "bench passes")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_on_the_page(command, page, capsys, monkeypatch):
    """The help of the command itself is the witness: it is printed by typer, not by us."""
    monkeypatch.setenv("COLUMNS", "200")  # wide enough that no option is broken
    section = page.page().split(f"\n## vrpca {command}\n")[1].split("\n## ")[0]
    shown = {name for name in options_in_help(command.split(), capsys) if name != "--help"}
    assert shown, "the help was not understood"
    missing = {name for name in shown if name not in section}
    assert not missing, missing


def test_every_command_is_on_the_page(page):
    """The list above is complete, too."""
    names = [name.removeprefix("vrpca ") for name, command in page.commands() if not hasattr(command, "commands")]
    assert set(COMMANDS) == set(names), "add the command to COMMANDS"
    assert all(f"## vrpca {name}\n" in page.page() for name in names)


def test_documented_modules_are_there_after_the_import():
    code = (
        "import sys, vrpca\n"
        "assert not {'vrpca.check', 'vrpca.plot', 'vrpca.report'} & set(sys.modules)\n"
        f"for name in {sorted(LISTED)!r}:\n"
        "    eval(name)\n"
        "from vrpca.check import check\n"
        "assert vrpca.check.check is check and 'report' in dir(vrpca)\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
