"""The solvers, by name. A new one is a file with the methods of `Solver` and a line in `SOLVERS`."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from vrpca.data.view import View
from vrpca.solvers.deflation import Deflation
from vrpca.solvers.gram import Gram
from vrpca.solvers.hybrid import Hybrid
from vrpca.solvers.iterate import Iterate
from vrpca.solvers.oja import Oja
from vrpca.solvers.options import Options
from vrpca.solvers.power import Power
from vrpca.solvers.vr import VR


class Solver(Protocol):
    """What the run asks of a solver. It sees views and small matrices; it never times, prints or stops by itself.

    Attributes
    ----------
    name : str
        The name in the registry.
    monotone : bool
        Whether a step that lowers the objective means that the step size is too long.
    max_epochs : int or None
        Number of steps after which there is nothing left to do.
    step_rule : Step or None
        The step size, which the run may ask to be halved.
    """

    name: str
    monotone: bool
    max_epochs: Any  # int or None
    step_rule: Any  # Step or None; a protocol's attribute would have to be exactly that in every solver

    def passes_to_start(self, view: View) -> float:
        """Readings of the data that the start takes."""
        ...

    def passes_per_step(self, view: View) -> float:
        """Readings of the data that one step takes."""
        ...

    def start(self, view: View, rng: np.random.Generator, W0: np.ndarray | None) -> Iterate:
        """The first iterate."""
        ...

    def step(self, view: View, it: Iterate, rng: np.random.Generator) -> Iterate:
        """The next iterate."""
        ...


SOLVERS: dict[str, Any] = {"vr": VR, "oja": Oja, "power": Power, "hybrid": Hybrid, "gram": Gram}


def make_solver(name: str, view: View, options: Options, deflate: bool) -> Solver:
    """Return the solver of this name, ready to start."""
    solver: Solver = Deflation(view, options) if deflate else SOLVERS[name](view, options)
    return solver
