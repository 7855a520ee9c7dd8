"""The solvers, by name. A new one is a file with a subclass of `Solver`, and a line in `SOLVERS`."""

from __future__ import annotations

from vrpca.solvers.accelerated import Sampled
from vrpca.solvers.base import Solver
from vrpca.solvers.gram import Gram
from vrpca.solvers.hybrid import Hybrid
from vrpca.solvers.krylov import Krylov
from vrpca.solvers.oja import Oja
from vrpca.solvers.power import Power
from vrpca.solvers.vr import VR

SOLVERS: dict[str, type[Solver]] = {
    "vr": VR,
    "oja": Oja,
    "power": Power,
    "hybrid": Hybrid,
    "krylov": Krylov,
    "accelerated": Sampled,
    "gram": Gram,
}
