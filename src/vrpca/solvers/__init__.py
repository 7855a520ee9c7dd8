"""The solvers, by name. A new one is a file with a subclass of `Solver`, and a line in `SOLVERS`."""

from __future__ import annotations

from vrpca.options import Options
from vrpca.solvers.accelerated import Sampled, accelerated
from vrpca.solvers.base import Solver
from vrpca.solvers.deflation import Deflation
from vrpca.solvers.gram import Gram
from vrpca.solvers.hybrid import Hybrid
from vrpca.solvers.krylov import Krylov
from vrpca.solvers.oja import Oja
from vrpca.solvers.power import Power
from vrpca.solvers.vr import VR
from vrpca.solvers.vr_block import variance_reduced

SOLVERS: dict[str, type[Solver]] = {
    "vr": VR,
    "oja": Oja,
    "power": Power,
    "hybrid": Hybrid,
    "krylov": Krylov,
    "accelerated": Sampled,
    "gram": Gram,
}


def make_solver(name: str, options: Options, width: int, entries: int, d: int) -> Solver:
    """The solver of this name, for blocks of `width` columns and vectors of length d; X has so many stored entries."""
    if options.deflate:
        return Deflation(options, width)
    if name == "accelerated":
        return accelerated(options, width, entries, d)
    if name == "vr":
        return variance_reduced(options, width)
    if name == "hybrid":
        return Hybrid(options, width, variance_reduced(options, width))
    return SOLVERS[name](options, width)
