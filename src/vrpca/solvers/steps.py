"""Step sizes, apart from the solvers that take them.

A user gives them in the units of the data, as in the paper. A view is normalised to ``tr A = 1``, so they are
multiplied by tr A on their way in. In those units the paper's heuristic ``1 / (rbar sqrt n)`` is ``1 / sqrt n``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vrpca.data.view import View
from vrpca.options import Theory

FIRST_STRETCH = 4  # steps before the first orthonormalisation of a block: nothing is known of its growth yet


@dataclass(frozen=True)
class Step:
    """A step size in the view's units, and what it has come to."""

    size: float
    adaptive: bool  # whether it comes from a rule, and may be halved when it proves too long; a user's number stays
    noisy: bool = False  # whether the objective may fall although the step is not too long
    taken: int = 0  # steps taken so far, where the size decays with them
    stretch: int = FIRST_STRETCH  # steps between two orthonormalisations of a block

    def halved(self) -> Step:
        """Half the step."""
        return replace(self, size=self.size / 2)


NO_STEP = Step(0.0, adaptive=False)  # of solvers whose objective cannot fall


def vr_step(view: View, step: float | str) -> Step:
    """The step of `vr`: the user's number, or the paper's rule ``1 / (rbar sqrt n)``."""
    if isinstance(step, str):
        return Step(1 / math.sqrt(view.n), adaptive=True)
    return Step(float(step) * view.trace, adaptive=False)


def oja_step(view: View, step: float | str) -> Step:
    """The constant c of Oja's step c/t: the user's, or one that moves as far in n steps as `vr` does in an epoch.

    Oja's noise does not vanish, so that a lower objective is no sign of a bad step.
    """
    if isinstance(step, str):
        return Step(math.sqrt(view.n) / (1 + math.log(view.n)), adaptive=True, noisy=True)
    return Step(float(step) * view.trace, adaptive=False, noisy=True)


def theory_plan(view: View, theory: Theory | None) -> tuple[Step, int, int]:
    """Step, epoch length and number of epochs from Theorem 1; the largest row norm is read if it is not given."""
    assert theory is not None  # the options were checked
    r = theory.r if theory.r is not None else float(view.row_norms().max()) * view.trace
    eta, m, epochs = theory.plan(r)
    return Step(eta * view.trace, adaptive=False), m, epochs
