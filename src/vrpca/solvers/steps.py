"""Step sizes, apart from the solvers that take them.

Numbers given by a user are in the units of the data, as in the paper; a view is normalised to ``tr A = 1``, so a step
is multiplied by tr A on its way in. In those units the paper's heuristic ``1 / (rbar sqrt n)`` is ``1 / sqrt n``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vrpca.data.view import View
from vrpca.errors import OptionError


@dataclass(frozen=True)
class Theory:
    """What Theorem 1 asks for, with its unnamed constants set to `c`.

    Attributes
    ----------
    gap : float
        The eigengap lambda between the first two eigenvalues of A, in the units of the data.
    delta : float
        Failure probability per epoch.
    epsilon : float
        Wanted accuracy, ``1 - <w, v_1>^2``.
    r : float or None
        Largest squared row norm; measured by one reading if None.
    c : float
        The theorem's constants c_1 and c_2, which the paper leaves open.
    """

    gap: float
    delta: float = 0.1
    epsilon: float = 1e-8
    r: float | None = None
    c: float = 1.0

    def __post_init__(self) -> None:
        for name in ("delta", "epsilon"):
            if not 0 < getattr(self, name) < 1:
                raise OptionError(f"{name}={getattr(self, name)} must lie in (0, 1).")
        if not (self.gap > 0 and self.c > 0 and (self.r is None or self.r > 0)):
            raise OptionError(f"gap={self.gap}, c={self.c} and r={self.r} must be positive.")

    def plan(self, r: float) -> tuple[float, int, int]:
        """Step size, epoch length and number of epochs: equation (thmcondme) of the paper, with equality.

        >>> eta, m, epochs = Theory(gap=0.1, delta=0.1, epsilon=1e-8).plan(r=1.0)
        >>> round(eta, 6), m, epochs
        (0.001, 29958, 7)
        """
        eta = self.c * self.delta**2 * self.gap / r**2
        m = math.ceil(self.c * math.log(2 / self.delta) / (eta * self.gap))
        epochs = math.ceil(math.log(1 / self.epsilon) / math.log(2 / self.delta))
        return eta, m, epochs


class Step:
    """A step size in the view's units: fixed by the user, or a rule that may be halved when it proves too long."""

    def __init__(self, size: float, adaptive: bool):
        self.size = size
        self.adaptive = adaptive

    def halve(self) -> bool:
        """Halve the step if it came from a rule; say whether it was."""
        if self.adaptive:
            self.size /= 2
        return self.adaptive


def trace(view: View) -> float:
    """``tr A`` in the units of the data."""
    return view.frobenius**2 / view.n


def vr_step(view: View, step: float | str) -> Step:
    """The step of `vr`: the user's number, or the paper's rule ``1 / (rbar sqrt n)``."""
    if isinstance(step, str):
        return Step(1 / math.sqrt(view.n), adaptive=True)
    return Step(float(step) * trace(view), adaptive=False)


def oja_step(view: View, step: float | str) -> Step:
    """The constant c of Oja's step c/t: the user's, or one that moves as far in n steps as `vr` does in an epoch."""
    if isinstance(step, str):
        return Step(math.sqrt(view.n) / (1 + math.log(view.n)), adaptive=True)
    return Step(float(step) * trace(view), adaptive=False)
