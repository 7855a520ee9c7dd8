"""``vrpca info``: what a fit of a file would do, by its headers alone."""

from __future__ import annotations

import json
from typing import Annotated, cast

import typer

import vrpca
from vrpca.cli.fit import components
from vrpca.cli.printing import finite
from vrpca.cli.shared import Data, Json, Memory, Threads
from vrpca.options import SolverName
from vrpca.solvers import SOLVERS


def info(
    data: Data,
    k: Annotated[str, typer.Option("-k", help="Number of components, or a fraction of the variance.")] = "2",
    tol: Annotated[float, typer.Option(help="Wanted suboptimality.")] = 1e-8,
    solver: Annotated[str, typer.Option(help=f"auto, {', '.join(SOLVERS)}.")] = "auto",
    memory: Memory = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Tell what DATA are, how a fit would read them, and what it would take. Only headers are read."""
    name = cast(SolverName, solver)  # checked by the options
    found = vrpca.info(data, components(k), tol=tol, solver=name, memory_limit=memory, n_threads=threads)
    print(json.dumps(finite({"data": str(data), **found.as_dict()}), indent=2) if as_json else found)
