"""``vrpca info``: what a fit of a file would do, by its headers alone."""

from __future__ import annotations

import json
from typing import Annotated, Any, cast

import typer

import vrpca
from vrpca.cli.fit import K_HELP, components
from vrpca.cli.printing import finite
from vrpca.cli.shared import Data, Json, Memory, ScaleGenotypes, Solver, Threads, open_input
from vrpca.cli.stdin import from_stdin
from vrpca.cli.words import in_options
from vrpca.options import SolverName

EXAMPLES = """Examples:

vrpca info data.npy

vrpca info counts.h5ad::layers/counts -k 50 --memory 1GB"""


def info(
    data: Data,
    k: Annotated[str, typer.Option("-k", help=K_HELP)] = "2",
    tol: Annotated[float, typer.Option(help="Wanted suboptimality.")] = 1e-8,
    solver: Solver = "auto",
    memory: Memory = None,
    scale_genotypes: ScaleGenotypes = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Tell what DATA are, how a fit would read them, and what it would take. Only headers are read."""
    X: Any = from_stdin() if data == "-" else data
    if scale_genotypes:
        X = open_input(X, limited=memory is not None, scale_genotypes=True)
    name = cast(SolverName, solver)  # checked by the options
    found = vrpca.info(X, components(k), tol=tol, solver=name, memory_limit=memory, n_threads=threads)
    print(json.dumps(finite({"data": str(data), **found.as_dict()}), indent=2) if as_json else in_options(str(found)))
