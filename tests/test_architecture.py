"""The shape of the package: who imports whom, how long functions are, and that nothing is probed for."""

from __future__ import annotations

import ast
import graphlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

import pytest

import vrpca

ROOT = Path(vrpca.__file__).parent
LONGEST = 50  # lines of a function, without its docstring

# From the bottom to the top: a module may import those of its own layer and of the layers below.
LAYERS = (
    (
        "errors",
        "history",
        "options",
        "kernels",
        "linalg",
        "machine",
        "markup",
        "memory",
        "minka",
        "threads",
        "typing",
        "values",
        "progress",
    ),
    ("data",),
    ("certificate", "solvers"),
    ("plan", "outcome", "serialise"),
    ("checkpoint",),
    ("run",),
    ("small",),
    ("decomposition", "check", "genotypes", "info", "scores", "score_files", "likelihood"),
    ("estimators", "sklearn_callbacks", "anndata"),
    ("model_io", "plot", "report", "versions", "cli", "__init__", "__main__"),
    ("experiments",),  # they may import everything; only commands may import them, when they are called
)


@dataclass(frozen=True)
class Import:
    """One module imports another; `when_called` says that it does so within a function."""

    module: str
    imported: str
    line: int
    when_called: bool

    def __str__(self) -> str:
        return f"{self.module} (line {self.line}) imports {self.imported}"


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {dotted(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def literal_import(node: ast.AST) -> str | None:
    """What ``import_module("...")`` imports."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args):
        return None
    name = node.args[0]
    return name.value if isinstance(name, ast.Constant) else None


def named(node: ast.AST) -> list[str]:
    """The modules of this package that a statement imports, wherever it stands."""
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute here"
        found = [
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in FILES else node.module
            for alias in node.names
        ]
    else:
        found = [literal_import(node)]
    return [name for name in found if name in FILES]


def imports_of(module: str, tree: ast.Module) -> list[Import]:
    called = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(outer)
    }
    return [
        Import(module, name, node.lineno, id(node) in called) for node in ast.walk(tree) for name in sorted(named(node))
    ]


IMPORTS = [found for module, tree in TREES.items() for found in imports_of(module, tree)]


def layer(module: str) -> int:
    top = module.split(".")[1] if "." in module else "__init__"
    found = [number for number, names in enumerate(LAYERS) if top in names]
    assert len(found) == 1, f"{module} belongs to no layer: give it a place in LAYERS"
    return found[0]


def of_commands(found: Import) -> bool:
    """Whether a command imports experiments when it is called."""
    return found.module.startswith("vrpca.cli") and found.when_called


def test_imports_are_seen_wherever_they_stand():
    """The other tests would be blind without this."""
    code = """
from __future__ import annotations
from typing import TYPE_CHECKING
from importlib import import_module
import numpy as np
import vrpca.linalg
from vrpca import kernels, Theory
if TYPE_CHECKING:
    from vrpca.data.view import View
def f():
    from vrpca.solvers import vr
    class C:
        from vrpca import options
    return import_module("vrpca.kernels.reference")
"""
    found = {(each.imported, each.when_called) for each in imports_of("test", ast.parse(code))}
    assert found == {
        ("vrpca.linalg", False),
        ("vrpca.kernels", False),
        ("vrpca", False),
        ("vrpca.data.view", False),
        ("vrpca.solvers.vr", True),
        ("vrpca.options", True),
        ("vrpca.kernels.reference", True),
    }
    assert {"vrpca", "vrpca.run", "vrpca.solvers", "vrpca.solvers.base"} <= set(FILES)
    assert len(IMPORTS) > 100


def test_no_import_cycles():
    graph: dict[str, set[str]] = {module: set() for module in FILES}
    for found in IMPORTS:
        graph[found.module].add(found.imported)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"{' <- '.join(error.args[1])}")


def test_nothing_lower_imports_anything_higher():
    wrong = [
        str(found)
        for found in IMPORTS
        if layer(found.imported) > layer(found.module)
        and not (found.imported.startswith("vrpca.experiments") and of_commands(found))
    ]
    assert not wrong, "\n".join(wrong)


def test_experiments_are_imported_by_commands_only_and_when_they_are_called():
    wrong = [
        str(found)
        for found in IMPORTS
        if found.imported.startswith("vrpca.experiments")
        and not found.module.startswith("vrpca.experiments")
        and not of_commands(found)
    ]
    assert not wrong, "\n".join(wrong)


def explained(lines: list[str], number: int) -> bool:
    """Whether a comment stands in this line (counted from 1) or in the one before it."""
    return any("# " in line for line in lines[max(0, number - 2) : number])


@pytest.mark.parametrize("part", ["vrpca.data", "vrpca.solvers"])
def test_nothing_is_probed_for(part):
    """What is optional has a default in the base class; ``getattr`` with a default needs a comment that says why."""
    wrong = []
    for module, tree in TREES.items():
        lines = FILES[module].read_text(encoding="utf-8").splitlines()
        for node in ast.walk(tree):
            probing = isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) > 2
            if module.startswith(part) and probing and not explained(lines, node.lineno):
                wrong.append(f"{module}, line {node.lineno}: {ast.unparse(node)}")
    assert not wrong, "\n".join(wrong)


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, signature included, docstring excluded."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def test_functions_are_short():
    wrong = [
        f"{module}.{node.name} has {lines_of(node)} lines"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of(node) > LONGEST
    ]
    assert not wrong, "\n".join(wrong)


def test_the_version_is_the_installed_one():
    assert vrpca.__version__ == importlib.metadata.version("vrpca")
