"""Results on stdout: tables, one-line descriptions and JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import vrpca

FORMATS = {"variance": ".6g", "ratio": ".6f", "cumulative": ".6f", "residual": ".1e"}


def print_components(names: Sequence[str], columns: Sequence[np.ndarray]) -> None:
    """Print one numbered row per component: a drawn table on a terminal, aligned text elsewhere.

    Parameters
    ----------
    names : sequence of str
        The names of the columns, each one of `FORMATS`.
    columns : sequence of array
        The columns, with one entry per component.
    """
    header = ("component", *names)
    rows = [
        [str(number), *(format(float(entry), FORMATS[name]) for name, entry in zip(names, row, strict=True))]
        for number, row in enumerate(zip(*columns, strict=True), 1)
    ]
    if sys.stdout.isatty():
        _draw_table(header, rows)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for line in [header, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _draw_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in header:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def describe(certificate: vrpca.Certificate) -> str:
    """The certificate in a few words."""
    return f"suboptimality at most {certificate.suboptimality:.1e} ({certificate.kind} certificate)"


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object."""
    print(json.dumps(finite(value), indent=2, allow_nan=False))


def finite(value: Any) -> Any:
    """The value with None in place of NaN and infinity. JSON has no such numbers, but a bound may be infinite."""
    if isinstance(value, dict):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def certificate_object(certificate: vrpca.Certificate) -> dict[str, Any]:
    """The certificate for JSON."""
    return {"kind": certificate.kind, "suboptimality": certificate.suboptimality, "mu": certificate.mu}


def path_objects(files: dict[str, Path | None]) -> dict[str, Any]:
    """Paths as text for JSON."""
    return {name: None if path is None else str(path) for name, path in files.items()}


def component_objects(names: Sequence[str], columns: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """One dictionary per component for JSON."""
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]
