"""Step sizes, apart from the solvers that take them.

Numbers given by a user are in the units of the data, as in the paper; a view is normalised to ``tr A = 1``, so a step
is multiplied by tr A on its way in. In those units the paper's heuristic ``1 / (rbar sqrt n)`` is ``1 / sqrt n``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vrpca.data.view import View
from vrpca.options import Theory


@dataclass(frozen=True)
class Step:
    """A step size in the view's units.

    Attributes
    ----------
    size : float
        The size.
    adaptive : bool
        Whether it comes from a rule, and may be halved when it proves too long. A user's number stays.
    noisy : bool
        Whether the objective may fall although the step is not too long.
    """

    size: float
    adaptive: bool
    noisy: bool = False

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
