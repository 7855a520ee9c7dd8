"""The paper's claims, what the curves say about them, and verdicts that are computed from the curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vrpca.experiments.reproduce.curves import TARGET, Curve
from vrpca.experiments.reproduce.figures import KRYLOV_NARROW, Panel
from vrpca.experiments.reproduce.fits import decay

CONFIRMED, PARTLY, REFUTED, UNDECIDED = "confirmed", "partly confirmed", "not confirmed", "undecided"
# Thresholds of our own; the findings quote the figures beside them.
R2, DECADES = 0.98, 6.0  # a decay is exponential if a line fits its logarithm with this R^2, over 6 decades or more
SUBEXPONENTIAL = 0.5  # second half of the passes against the first, in decades gained; an exponential has 1
NOTHING = 0.5  # decades: a smaller gain is no progress


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, what was found (one line each), and the verdict."""

    claim: str
    found: Sequence[str]
    verdict: str


def verdict(holds: Sequence[bool]) -> str:
    """Confirmed if the claim holds everywhere, partly if it holds somewhere.

    >>> verdict([True, True]), verdict([True, False]), verdict([False])
    ('confirmed', 'partly confirmed', 'not confirmed')
    """
    return CONFIRMED if all(holds) else PARTLY if any(holds) else REFUTED


def over_panels(claim: str, panels: Sequence[Panel], judge: Callable[[Panel], tuple[bool, str]]) -> Finding:
    """A claim about every plot."""
    judged = [judge(panel) for panel in panels]
    found = [f"{panel.title}: {text}" for panel, (_, text) in zip(panels, judged, strict=True)]
    return Finding(claim, found, verdict([holds for holds, _ in judged]))


def passes_text(curve: Curve, target: float = TARGET) -> str:
    """Passes to a target as text; "> p" where the curve ends after p passes without reaching it."""
    passes = curve.passes_to(target)
    return f"> {curve.passes[-1]:.4g}" if math.isinf(passes) else f"{passes:.4g}"


def first_to_target(panel: Panel) -> tuple[bool, str]:
    """Whether every form of VR-PCA reaches the target first: before Oja with any step, and before power iterations.

    If there are other starts, it has to be ahead of power iterations from each of them.
    """
    ours = max(panel.ours, key=lambda curve: curve.passes_to(TARGET))
    rival = min(panel.rivals, key=lambda curve: (curve.passes_to(TARGET), curve.errors.min()))
    best_oja = min(panel.of("oja"), key=lambda curve: curve.errors.min())
    text = f"{passes_text(ours)} passes, "
    if math.isinf(rival.passes_to(TARGET)):
        text += f"nobody else by {panel.end:.4g} (nearest: {rival.label}, {rival.errors.min():.0e}; "
    else:
        text += f"{rival.label} {passes_text(rival)} ("
    text += f"best of Oja's: {best_oja.label}, {best_oja.errors.min():.0e})"
    ahead = [vr.passes_to(TARGET) < power.passes_to(TARGET) for vr, _, power in panel.again]
    if ahead:
        text += f"; ahead of power iterations from {sum(ahead)} of {len(ahead)} other starts"
    holds = ours.passes_to(TARGET) < rival.passes_to(TARGET) and all(ahead)
    return holds, text if holds else text + explanation(panel)


def explanation(panel: Panel) -> str:
    """Why power iterations are ahead: VR-PCA gains with n, and n may be too small for this spectrum."""
    advantage = panel.ours[0].advantage
    text = f"; expected: sqrt(n) lambda_(k+1) / (2 tr A) = {advantage:.2g} times the speed of power iterations"
    for curve in panel.of("vr"):
        if curve.copies > 1:
            text += f", and {advantage * math.sqrt(curve.copies):.2g} times with as many rows as in the paper; "
            text += f"{curve.label}: {passes_text(curve)} passes"
    return text


def exponential(panel: Panel) -> tuple[bool, str]:
    """Whether the logarithm of VR-PCA's error follows a falling line, over enough decades."""
    holds, texts = [], []
    for curve in panel.ours:
        found = decay(curve)
        holds.append(found is not None and found.r2 >= R2 and found.decades >= DECADES)
        texts.append(
            "too few points"
            if found is None
            else f"R^2 {found.r2:.3f} over {found.decades:.1f} decades and {found.points} points, {found.rate:.3g} "
            f"per epoch (R^2 {found.r2_whole:.3f} with what comes before)"
        )
    return all(holds), ", ".join(texts)


def subexponential(panel: Panel) -> tuple[bool, str]:
    """Whether all of Oja's curves gain much less in the second half of their passes than in the first, or nothing."""
    best = min(panel.of("oja"), key=lambda curve: curve.errors.min())
    slower = [gains(curve) for curve in panel.of("oja")]
    holds = [second <= max(SUBEXPONENTIAL * first, NOTHING) for first, second in slower]
    first, second = gains(best)
    text = f"{sum(holds)} of {len(holds)} steps; the best, {best.label}, gains {first:.1f} decades, then {second:.1f}"
    return all(holds), text


def gains(curve: Curve) -> tuple[float, float]:
    """Decades gained in the two halves of a curve's passes, by the best point so far."""
    best = np.log10(np.minimum.accumulate(curve.errors))
    middle = int(np.searchsorted(curve.passes, curve.passes[-1] / 2))
    return float(best[0] - best[middle]), float(best[middle] - best[-1])


def hybrid_helps(panel: Panel) -> tuple[bool, str]:
    """Whether the hybrid needs fewer passes than VR-PCA from most starts; Oja's algorithm needs far more."""
    pairs = [(panel.of("hybrid")[0], panel.ours[0]), *((hybrid, vr) for vr, hybrid, _ in panel.again)]
    passes = [(hybrid.passes_to(TARGET), alone.passes_to(TARGET)) for hybrid, alone in pairs]
    ahead = sum(hybrid < alone for hybrid, alone in passes)
    means = " and ".join(f"{np.mean(numbers):.3g}" for numbers in zip(*passes, strict=True))
    return 2 * ahead > len(passes), f"ahead of VR-PCA from {ahead} of {len(passes)} starts ({means} passes on average)"


def immediate(panel: Panel) -> tuple[bool, str]:
    """Whether the exponential fall is delayed by one epoch at most."""
    found = [decay(curve) for curve in panel.ours]
    delays = [fit.burn_in for fit in found if fit is not None]
    shares = [
        2 * fit.burn_in / curve.passes_to(TARGET)
        for fit, curve in zip(found, panel.ours, strict=True)
        if fit is not None
    ]
    worst = max(delays, default=math.inf)
    return worst <= 1, f"{worst:.1f} epochs behind ({max(shares, default=1.0):.0%} of the passes)"


FASTER = "VR-PCA, untuned, is faster than Oja's algorithm with any step and than power iterations (passes to 1e-10)"
EXPONENTIAL = "its rate is exponential"
OJA_SLOW = "Oja's algorithm converges sub-exponentially, whatever its step"
NO_BURN_IN = "from a random start, no burn-in is discernible"
HYBRID = "the hybrid can be better than each algorithm alone"
LANCZOS = "the Lanczos method can attain better performance than power iterations (a footnote)"


def figure_findings(figure: str, panels: Sequence[Panel]) -> list[Finding]:
    """The claims about a figure."""
    if figure == "beyond":
        return beyond_findings(panels)
    findings = [
        over_panels(FASTER, panels, first_to_target),
        over_panels(EXPONENTIAL, panels, exponential),
        over_panels(OJA_SLOW, panels, subexponential),
        over_panels(NO_BURN_IN, panels, immediate),
    ]
    if figure == "fig2":
        helped = over_panels(HYBRID, panels, hybrid_helps)
        can = CONFIRMED if helped.verdict != REFUTED else REFUTED  # the claim is that it can
        findings.append(Finding(HYBRID, helped.found, can))
    return findings


def beyond_findings(panels: Sequence[Panel]) -> list[Finding]:
    """Whether the paper's method needs fewer passes to the target: one finding per rival."""
    lanczos = over_panels(LANCZOS, panels, lambda panel: _faster(_narrow(panel), panel.of("power")))
    rivals = dict.fromkeys(c.label for c in panels[0].of("krylov", "accelerated", "arpack", "randomized"))
    return [lanczos, *(_against(label, panels) for label in rivals)]


def _against(label: str, panels: Sequence[Panel]) -> Finding:
    claim = f"(not a claim of the paper) VR-PCA needs fewer passes than {label}"
    return over_panels(claim, panels, lambda panel: _faster(panel.ours, [c for c in panel.curves if c.label == label]))


def _narrow(panel: Panel) -> list[Curve]:
    """Krylov methods with blocks of the same width as those of VR-PCA and power iterations."""
    return [*panel.of("arpack"), *(curve for curve in panel.of("krylov") if curve.label == KRYLOV_NARROW.label)]


def _faster(some: Sequence[Curve], others: Sequence[Curve]) -> tuple[bool, str]:
    """Whether the best of some curves is ahead of the best of others."""
    one, other = (min(group, key=lambda curve: curve.passes_to(TARGET)) for group in (some, others))
    text = ", ".join(f"{c.label} {passes_text(c)} ({_seconds(c)})" for c in (one, other))
    return one.passes_to(TARGET) < other.passes_to(TARGET), text


def _seconds(curve: Curve) -> str:
    """Seconds to the target."""
    reached = np.flatnonzero(curve.errors <= TARGET)
    return f"{curve.seconds[reached[0]]:.2g} s" if len(reached) else f"> {curve.seconds[-1]:.2g} s"
