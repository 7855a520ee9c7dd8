"""Figures that need no window system, and their files. Matplotlib is imported where it is used."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

from vrpca.data.files.paths import written_whole

FLOOR = 1e-15  # smaller suboptimalities are rounding error: a few eps of double precision


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def new_figure(count: int, columns: int, height: float) -> tuple[Any, list[Any]]:
    """A new figure, and its panels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = math.ceil(count / columns)
    figure = Figure(figsize=(5.5 * columns, height * rows + 1.0), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(count)]


def save(figure: Any, path: Path) -> None:
    """Write a figure in the format of the file's suffix; a file that was there is replaced in one go."""
    with written_whole(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=130)
