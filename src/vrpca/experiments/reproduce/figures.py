"""The paper's figures 1 to 3, and the same axes with methods from before and after the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vrpca.experiments.reproduce.curves import TARGET, Curve, Extent, Method, Recorder, Stage

OJA_FACTORS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # c of Oja's step c/t, in units of 1 / eigengap: theory wants 1
OJA_POINTS = 30  # points of a curve of Oja's algorithm, about: each costs a snapshot
SHORTEST = 30.0  # least length of an axis, in effective passes: fifteen epochs
OTHER_STARTS = {"fig2": 9}  # further starts of the quick methods: ten in all, to tell luck from a rule
MARGIN = 0.1  # the axis is longer than VR-PCA needs to the target, by this fraction

VR = Method("VR-PCA", "vr", {"step": "paper"})
DIFFERENCE = Method("VR-PCA (difference)", "vr", {"step": "paper", "control": "difference"})
PROJECTION = Method("VR-PCA (projection)", "vr", {"step": "paper", "control": "projection"})
HYBRID = Method("hybrid", "hybrid", {"step": "paper"})
POWER = Method("power iterations", "power")
OJA = tuple(Method(f"Oja, c = {factor:g}/gap", "oja", step_by_gap=factor) for factor in OJA_FACTORS)
KRYLOV = Method("krylov", "krylov", roomy=True)
KRYLOV_NARROW = Method("krylov, k columns", "krylov")
ACCELERATED = tuple(
    Method(f"accelerated, cost={cost}", "accelerated", {"cost": cost}, shared_start=False, roomy=True)
    for cost in ("time", "passes")
)
ARPACK = Method("ARPACK", "arpack")
RANDOMIZED = Method("randomized SVD", "randomized", shared_start=False)


@dataclass(frozen=True)
class Panel:
    """One plot: all curves on one data set, up to the end of its axis.

    `again` holds VR-PCA, the hybrid and power iterations from other starts. They are not drawn.
    """

    title: str
    k: int
    end: float
    curves: tuple[Curve, ...]
    again: tuple[tuple[Curve, Curve, Curve], ...] = ()

    @property
    def ours(self) -> list[Curve]:
        """All forms of VR-PCA on the data as they are."""
        return [curve for curve in self.of("vr") if curve.copies == 1]

    @property
    def rivals(self) -> list[Curve]:
        """What the paper compares VR-PCA with: Oja's algorithm with every step, and power iterations."""
        return self.of("oja", "power")

    def of(self, *solvers: str) -> list[Curve]:
        """The curves of some solvers."""
        return [curve for curve in self.curves if curve.solver in solvers]


def methods_for(figure: str, k: int) -> tuple[tuple[Method, ...], tuple[Method, ...]]:
    """The forms of VR-PCA, which determine the length of the axis; and the other methods."""
    if figure == "beyond":
        return (VR if k == 1 else PROJECTION,), (HYBRID, POWER, KRYLOV_NARROW, KRYLOV, *ACCELERATED, ARPACK, RANDOMIZED)
    ours = (VR,) if k == 1 else (DIFFERENCE, PROJECTION)
    hybrid = () if figure == "fig1" else (HYBRID,)
    return ours, (*hybrid, POWER, *OJA)


def panel(figure: str, stage: Stage, recorder: Recorder, longest: float) -> Panel:
    """All curves of one plot. VR-PCA goes down to the bottom, the others as far as the axis."""
    ours, others = methods_for(figure, stage.k)
    curves = [recorder.curve(stage, method, Extent(longest)) for method in ours]
    end = axis_end(curves)
    stride = max(1, int(end // OJA_POINTS))
    if figure in ("fig2", "fig3") and stage.copies > 1:
        options = ours[-1].options | {"copies": stage.copies}
        copied = replace(ours[-1], label=copied_label(stage.copies), options=options)
        curves.append(recorder.curve(stage, copied, Extent(end)))
    curves += [recorder.curve(stage, method, Extent(end, stride)) for method in others]
    again = []
    for start in range(OTHER_STARTS.get(figure, 0)):
        recorder.say(f"{stage.title}: start {start + 2}")
        other = replace(recorder, seed=recorder.seed + start + 1, say=lambda line: None)
        vr, hybrid, power = (other.curve(stage, method, Extent(2 * end)) for method in (VR, HYBRID, POWER))
        again.append((vr, hybrid, power))
    return Panel(stage.title, stage.k, end, tuple(curves), tuple(again))


def copied_label(copies: int) -> str:
    """The label of VR-PCA on data that hold every row `copies` times."""
    return f"VR-PCA, every row {copies} times"


def axis_end(ours: Sequence[Curve]) -> float:
    """Where the axis ends: a little after the slowest form of VR-PCA reaches the target, or ends."""
    needed = max(curve.passes_to(TARGET) for curve in ours)
    if math.isinf(needed):
        needed = max(float(curve.passes[-1]) for curve in ours)
    return max(SHORTEST, math.ceil(needed + MARGIN * needed))
