"""The figures, in the paper's arrangement: effective passes to the right, log10 of the suboptimality upwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrpca.experiments.plots import FLOOR, new_figure, save
from vrpca.experiments.reproduce.claims import passes_text
from vrpca.experiments.reproduce.curves import TARGET, Curve
from vrpca.experiments.reproduce.figures import OJA, Panel
from vrpca.experiments.reproduce.scaling import LONG, STEPS, Study, columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = {"fig1": 3, "fig1-paper": 3, "fig2": 2, "fig3": 2, "beyond": 2}
STYLES: dict[str, dict[str, Any]] = {
    "VR-PCA": {"color": "black", "linewidth": 2.6},
    "VR-PCA (difference)": {"color": "black", "linewidth": 2.6},
    "VR-PCA (projection)": {"color": "#1f5fa8", "linewidth": 2.6},
    "hybrid": {"color": "black", "linewidth": 1.0},
    "power iterations": {"color": "#b5292e", "linestyle": "--", "linewidth": 1.6},
    "krylov": {"color": "#0b7a75", "linewidth": 1.4},
    "accelerated, cost=time": {"color": "#7a2f8f", "linewidth": 1.4},
    "accelerated, cost=passes": {"color": "#7a2f8f", "linewidth": 1.4, "linestyle": ":"},
    "ARPACK": {"color": "#c26a1b", "marker": "o", "linestyle": "-.", "linewidth": 1.0},
    "randomized SVD": {"color": "#5a7d1c", "marker": "s", "linestyle": "-.", "linewidth": 1.0},
}
FORMATS = (".png", ".svg")


def style(label: str) -> dict[str, Any]:
    """How a method is drawn; Oja's curves are dotted, in a colour that goes with c."""
    if label in STYLES:
        return STYLES[label]
    from matplotlib import colormaps

    names = [method.label for method in OJA]
    return {"color": colormaps["viridis"](names.index(label) / len(names)), "linestyle": ":", "linewidth": 1.4}


def convergence(panels: Sequence[Panel], stem: str, folder: Path) -> list[str]:
    """One plot per panel; returns the names of the files."""
    columns = min(COLUMNS.get(stem, 2), len(panels))
    figure, axes = new_figure(len(panels), columns, height=3.4)
    for panel, plot in zip(panels, axes, strict=True):
        for curve in panel.curves:
            plot.plot(curve.passes, _log(curve), label=curve.label, markersize=3, **style(curve.label))
        plot.axhline(np.log10(TARGET), color="0.8", linewidth=0.8, zorder=0)
        plot.set(xlim=(0, panel.end), ylim=(-14, 0.3), xlabel="effective passes", ylabel="log10 suboptimality")
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
    """Passes over the gap, rows over n, seconds over density and width, passes of all starts, steps over norms."""
    figure, plots = new_figure(6, 3, height=3.4)
    for name in ("gap", "best step", "theorem 1"):
        gaps, passes = columns_of(study.rows(name), "gap", "passes")
        plots[0].loglog([1 / gap for gap in gaps], passes, ".", label=name)
    plots[0].set(xlabel="1 / lambda", ylabel="passes to 1e-10")
    plots[1].loglog(*columns_of(study.rows("rows"), "n", "rows"), ".", label="lambda = 0.05")
    plots[1].set(xlabel="n", ylabel="rows read to 1e-10")
    for x, plot in (("per_row", plots[2]), ("d", plots[3])):
        plot.loglog(*columns_of(study.rows("cost"), x, "seconds"), ".", label="sparse rows")
        plot.set(xlabel={"per_row": "entries per row", "d": "columns"}[x], ylabel="seconds of an epoch")
    for gap in sorted({row["gap"] for row in study.rows("starts")}, reverse=True):
        passes = [row["passes"] for row in study.rows("starts") if row["gap"] == gap and row["passes"]]
        label = f"lambda = {gap:g}, median {passes_text(float(np.median(passes)))}"
        plots[4].plot(np.sort(passes), np.arange(1, len(passes) + 1) / len(passes), label=label)
    plots[4].set(xscale="log", xlabel="passes to 1e-10", ylabel="part of the starts")
    for sampling in ("uniform", "norm"):
        rows = [row for row in study.rows("norms") if row["sampling"] == sampling]
        plots[5].loglog(*columns_of(rows, "largest", "best"), ".", label=f"sampling={sampling}")
    plots[5].set(xlabel="largest / mean squared norm", ylabel="best step / the paper's", ylim=(STEPS[0], LONG))
    for plot in plots:
        plot.legend(frameon=False, fontsize=8)
    return _written(figure, stem, folder)
