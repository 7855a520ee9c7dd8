"""The convergence plot: how the bound and the residual fell with every pass over the data."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vrpca.data.files.paths import written_whole
from vrpca.errors import OptionError
from vrpca.history import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
BOUND, RESIDUAL, TOL = "#1f5fa8", "#c26a1b", "#444444"


def check_plot(path: str | os.PathLike[str]) -> None:
    """Raise unless a plot can be written to such a file: before long work, not after it."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise OptionError(f"A plot cannot be written as {suffix or 'a file without suffix'}: name a .png or .svg file.")
    _new_figure()


def convergence_plot(history: Sequence[Record], path: str | os.PathLike[str], tol: float | None = None) -> None:
    """Draw bound and residual against passes, and write the picture to a file.

    Parameters
    ----------
    history : sequence of Record
        A model's `history_`, or a decomposition's `history`.
    path : str or path
        Where to: ``.png`` or ``.svg``. An existing file is replaced only once the new one is complete.
    tol : float, optional
        The wanted suboptimality, drawn as a dashed line.
    """
    if not history:
        raise OptionError("There is no history to plot: pass the history_ of a fitted model.")
    check_plot(path)
    figure = _new_figure()
    _draw(figure.add_subplot(), history, tol)
    with written_whole(Path(path)) as temporary:
        figure.savefig(temporary, format=Path(path).suffix[1:].lower(), dpi=150)


def _new_figure() -> Figure:
    """A figure of its own: no window system, no global state."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Plots need matplotlib: pip install "vrpca[plot]".') from error
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _draw(axes: Axes, history: Sequence[Record], tol: float | None) -> None:
    passes = [record.passes for record in history]
    bound = _positive([record.bound for record in history])
    residual = _positive([record.residual for record in history])
    axes.plot(passes, bound, "o-", color=BOUND, label="certificate: bound on the suboptimality")
    axes.plot(passes, residual, "s-", color=RESIDUAL, markersize=4, linewidth=1, label="largest relative residual")
    if tol is not None and tol > 0:
        axes.axhline(tol, color=TOL, linestyle="--", linewidth=1, label=f"tol = {tol:g}")
    axes.set_yscale("log")
    axes.set_xlim(left=0, right=1.05 * max(passes))
    axes.set_xlabel("passes over the data")
    axes.set_ylabel("relative error")
    axes.set_title(f"{history[-1].objective:.1%} of the variance explained after {passes[-1]:.3g} passes", fontsize=11)
    axes.grid(which="major", color="0.9")
    axes.legend(frameon=False)


def _positive(values: Sequence[float]) -> list[float]:
    """What a logarithmic axis can show; the rest becomes a gap."""
    return [value if value > 0 and math.isfinite(value) else math.nan for value in values]
