"""Results on stdout: a table with a few lines below it, or one JSON object."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import vrpca
from vrpca.progress import console

FORMATS = {"variance": ".6g", "ratio": ".6f", "cumulative": ".6f", "residual": ".1e"}  # by the name of the column
Columns = dict[str, np.ndarray]  # one entry per component


def print_result(
    columns: Columns,
    certificate: vrpca.Certificate,
    files: dict[str, Path | str | None],
    facts: dict[str, Any],
    lines: Sequence[str],
    as_json: bool,
) -> None:
    """Print what is known of the components: a table and lines, or a JSON object with the files and facts.

    The last of the `columns` is the ratio of the variance; its sums and the residuals become columns, too.
    """
    columns = columns | {"cumulative": np.cumsum(columns["ratio"]), "residual": certificate.residuals}
    if not as_json:
        _print_table(columns)
        print("\n".join(lines))
        return
    paths = {name: None if path is None else str(path) for name, path in files.items()}
    components = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    bound = {"kind": certificate.kind, "suboptimality": certificate.suboptimality, "mu": certificate.mu}
    value = finite({**paths, "components": components, **facts, "certificate": bound})
    print(json.dumps(value, indent=2, allow_nan=False))


def _print_table(columns: Columns) -> None:
    """Print one numbered row per component: a drawn table on a terminal, aligned text elsewhere."""
    header = ("component", *columns)
    rows = [
        [str(number), *(format(float(entry), FORMATS[name]) for name, entry in zip(columns, row, strict=True))]
        for number, row in enumerate(zip(*columns.values(), strict=True), 1)
    ]
    if sys.stdout.isatty():
        _draw_table(header, rows)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for line in [header, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _draw_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in header:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def describe(certificate: vrpca.Certificate) -> str:
    """The certificate in a few words: the bound, its kind, and what that means in numbers."""
    words = f"suboptimality at most {certificate.suboptimality:.1e} ({certificate.kind} certificate)"
    ceiling = certificate.ceiling_in_words()
    return f"{words}; {ceiling}" if ceiling else words


def finite(value: Any) -> Any:
    """The value with None in place of NaN and infinity. JSON has no such numbers, but a bound may be infinite."""
    if isinstance(value, dict):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
