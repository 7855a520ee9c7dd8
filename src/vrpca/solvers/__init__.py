"""The solvers, by name. A new one is a file with a subclass of `Solver`, and a line in `SOLVERS`."""

from __future__ import annotations

from collections.abc import Callable

from vrpca.options import Options
from vrpca.solvers.accelerated import Sampled, accelerated_variant
from vrpca.solvers.base import Solver
from vrpca.solvers.gram import Gram
from vrpca.solvers.hybrid import Hybrid
from vrpca.solvers.krylov import Krylov
from vrpca.solvers.oja import Oja
from vrpca.solvers.power import Power
from vrpca.solvers.vr import VR
from vrpca.solvers.vr_block import vr_variant

SOLVERS: dict[str, type[Solver]] = {
    "vr": VR,
    "oja": Oja,
    "power": Power,
    "hybrid": Hybrid,
    "krylov": Krylov,
    "accelerated": Sampled,
    "gram": Gram,
}

# Where a name stands for several classes: the one that suits the options, the width, the entries that X stores, d, and
# whether X is sparse.
VARIANTS: dict[str, Callable[[Options, int, int, int, bool], type[Solver]]] = {
    "vr": vr_variant,
    "accelerated": accelerated_variant,
}
