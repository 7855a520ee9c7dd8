"""The figures, with the paper's axes: log10 of the suboptimality over effective passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrpca.experiments.reproduce.curves import TARGET, Curve
from vrpca.experiments.reproduce.figures import OJA, Panel
from vrpca.experiments.reproduce.fits import power_law
from vrpca.experiments.reproduce.scaling import LONG, STEPS, Study, columns_of, cost_sweeps
from vrpca.experiments.reproduce.scaling_claims import BORDER, FAR, small_gaps
from vrpca.experiments.shared.plots import FLOOR, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS_PER_ROW = {"fig1": 3, "fig1-paper": 3, "fig2": 2, "fig3": 2, "beyond": 2}
STYLES: dict[str, dict[str, Any]] = {
    "VR-PCA": {"color": "black", "linewidth": 2.6},
    "VR-PCA (difference)": {"color": "black", "linewidth": 3.2},
    "VR-PCA (projection)": {"color": "#6fb1f0", "linewidth": 1.4, "linestyle": "--"},
    "hybrid": {"color": "black", "linewidth": 1.0},
    "power iterations": {"color": "#b5292e", "linestyle": "--", "linewidth": 1.6},
    "krylov": {"color": "#0b7a75", "linewidth": 1.4},
    "krylov, k columns": {"color": "#0b7a75", "linewidth": 1.4, "linestyle": ":"},
    "accelerated, cost=time": {"color": "#7a2f8f", "linewidth": 1.4},
    "accelerated, cost=passes": {"color": "#7a2f8f", "linewidth": 1.4, "linestyle": ":"},
    "ARPACK": {"color": "#c26a1b", "marker": "o", "zorder": 5, "linestyle": "-.", "linewidth": 1.0},
    "randomized SVD": {"color": "#5a7d1c", "marker": "s", "linestyle": "-.", "linewidth": 1.0},
}
FORMATS = (".png", ".svg")


def style(label: str) -> dict[str, Any]:
    """How a method is drawn. Oja's curves are dotted, with colours in the order of c."""
    if label in STYLES:
        return STYLES[label]
    names = [method.label for method in OJA]
    if label not in names:  # VR-PCA on copied rows
        return {"color": "black", "linestyle": ":", "linewidth": 2.6}
    from matplotlib import colormaps

    return {"color": colormaps["plasma"](names.index(label) / len(names)), "linestyle": ":", "linewidth": 1.4}


def convergence(panels: Sequence[Panel], stem: str, folder: Path) -> list[str]:
    """One plot per panel; returns the names of the files."""
    columns = min(PANELS_PER_ROW.get(stem, 2), len(panels))
    figure, axes = new_figure(len(panels), columns, height=3.4)
    for panel, plot in zip(panels, axes, strict=True):
        for curve in panel.curves:
            plot.plot(curve.passes, _log(curve), label=curve.label, markersize=3, **style(curve.label))
        plot.axhline(np.log10(TARGET), color="0.8", linewidth=0.8, zorder=0)
        plot.set(
            xlim=(0, panel.end),
            ylim=(np.log10(FLOOR) - 0.3, 0.3),
            xlabel="effective passes",
            ylabel="log10 suboptimality",
        )
        plot.set_title(panel.title, fontsize=10)
    _legend(figure, axes, columns)
    return _written(figure, stem, folder)


def _log(curve: Curve) -> np.ndarray:
    return np.log10(np.maximum(curve.errors, FLOOR))


def _legend(figure: Any, axes: Sequence[Axes], columns: int) -> None:
    handles = {label: h for plot in axes for h, label in zip(*plot.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2 * columns, fontsize=8)


def _written(figure: Any, stem: str, folder: Path) -> list[str]:
    names = [f"{stem}{suffix}" for suffix in FORMATS]
    for name in names:
        save(figure, folder / name)
    return names


def scaling(study: Study, stem: str, folder: Path) -> list[str]:
    """Passes over the gap, rows over n, seconds over density and features, passes of all starts, steps over norms."""
    figure, plots = new_figure(6, 3, height=3.4)
    for name, label in (("gap", "the paper's step"), ("best step", "best step"), ("theorem 1", "theorem 1")):
        gaps, passes = columns_of(study.rows(name), "gap", "passes")
        small = study.rows(name) if name == "theorem 1" else small_gaps(study.rows(name))
        border = max(row["gap"] for row in small)
        _growth(plots[0], [1 / gap for gap in gaps], passes, label, (1 / border, math.inf))
    plots[0].set(xlabel="1 / lambda", ylabel="passes to 1e-10")
    for label, window in (("small n", (0, BORDER)), ("large n", (FAR * BORDER, math.inf))):
        _growth(plots[1], *columns_of(study.rows("rows"), "n", "rows"), label, window)
    plots[1].set(xlabel="n", ylabel="rows read to 1e-10")
    denser, wider = cost_sweeps(study.rows("cost"))
    _growth(plots[2], *columns_of(denser, "per_row", "seconds"), f"d = {denser[0]['d']}")
    plots[2].set(xlabel="entries per row", ylabel="seconds of an epoch")
    _growth(plots[3], *columns_of(wider, "d", "seconds"), f"{wider[0]['per_row']} entries per row")
    plots[3].set(xlabel="features", ylabel="seconds of an epoch")
    _starts(plots[4], study)
    for sampling in ("uniform", "norm"):
        rows = [row for row in study.rows("norms") if row["sampling"] == sampling]
        _growth(plots[5], *columns_of(rows, "largest", "best"), f"sampling={sampling}")
    plots[5].set(xlabel="largest / mean squared norm", ylabel="best step / the paper's", ylim=(STEPS[0], LONG))
    for plot in plots:
        plot.legend(frameon=False, fontsize=8)
        plot.tick_params(which="both", labelsize=7)
        for axis in (plot.xaxis, plot.yaxis):
            if axis.get_scale() == "log":
                axis.set_minor_formatter("")
    return _written(figure, stem, folder)


def _growth(
    plot: Axes, x: Sequence[float], y: Sequence[float], label: str, window: tuple[float, float] = (0, math.inf)
) -> None:
    """Points on logarithmic axes, and the power of x that fits the points in a window."""
    inside = [(a, b) for a, b in zip(x, y, strict=True) if window[0] * (1 - 1e-9) <= a <= window[1]]
    fit = power_law(*zip(*inside, strict=True))
    (points,) = plot.loglog(x, y, ".")
    ends = np.array([min(a for a, _ in inside), max(a for a, _ in inside)])
    line = 10**fit.intercept * ends**fit.slope
    plot.loglog(ends, line, "--", color=points.get_color(), linewidth=0.8, label=f"{label}: exponent {fit.slope:.2f}")


def _starts(plot: Axes, study: Study) -> None:
    """The fraction of the starts that have reached the target, over passes."""
    for gap in sorted({row["gap"] for row in study.rows("starts")}, reverse=True):
        passes = [row["passes"] for row in study.rows("starts") if row["gap"] == gap and row["passes"]]
        label = f"lambda = {gap:g}, median {np.median(passes):.4g}"
        plot.plot(np.sort(passes), np.arange(1, len(passes) + 1) / len(passes), label=label)
    plot.set(xscale="log", xlabel="passes to 1e-10", ylabel="fraction of the starts")
