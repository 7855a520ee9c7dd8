"""The oldest versions that pyproject.toml allows, as constraints for pip: ``python tests/oldest.py > constraints.txt``.

Every ``name>=version`` becomes ``name==version``. ``make test-oldest`` installs these versions and runs the suite.
"""

from __future__ import annotations

import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[\w,-]+\])?(>=(?P<version>[\w.]+))?")


def requirements(project: dict) -> list[str]:
    """All requirements: to build, to run, and of every extra."""
    extras = project["project"]["optional-dependencies"].values()
    return list(chain(project["build-system"]["requires"], project["project"]["dependencies"], *extras))


def constraint(requirement: str) -> str | None:
    """The oldest version of a requirement as a constraint; None if it has no lower bound."""
    found = REQUIREMENT.fullmatch(requirement)
    if not found:
        raise ValueError(f"{requirement!r} is not of the form name>=version: write it so, or teach tests/oldest.py.")
    return f"{found['name']}=={found['version']}" if found["version"] else None


def python_problem(project: dict, running: tuple[int, int]) -> str | None:
    """Why this Python is not the oldest one, if it is not: old versions have no wheels for newer ones."""
    oldest = project["project"]["requires-python"].removeprefix(">=")
    if running == tuple(int(part) for part in oldest.split(".")):
        return None
    here = ".".join(str(part) for part in running)
    return (
        f"The oldest versions need Python {oldest}, but this is {here}: run 'make test-oldest PYTHON=python{oldest}' "
        "(after 'make clean', if build/oldest is there already)."
    )


def main() -> int:
    """Print the constraints."""
    project = tomllib.loads(PYPROJECT.read_text())
    problem = python_problem(project, sys.version_info[:2])
    if problem:
        print(problem, file=sys.stderr)
        return 1
    print(*filter(None, map(constraint, requirements(project))), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
