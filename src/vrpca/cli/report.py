"""``vrpca report``: a page about a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from vrpca.cli.shared import Json, Model, Quiet, check_outputs, open_input, warnings_on_stderr
from vrpca.data.files.paths import check_target
from vrpca.errors import OptionError
from vrpca.model_io import load_model
from vrpca.report.score_sample import ROWS, read_colour

EXAMPLES = """Examples:

vrpca report model.npz --out page.html

vrpca report model.npz data.csv --color labels.csv:species --out page.html"""

Data = Annotated[
    str | None, typer.Argument(help="The data of the model: adds a map of the samples. As for `vrpca fit`.")
]
Out = Annotated[Path, typer.Option(help="Write the page to this file (.html).")]
COLOR_HELP = (
    "Colour the samples by this column of a .csv or .tsv file. Names of samples in its first column say which line is "
    "whose, if DATA have names, too; else lines are in the order of the samples."
)
Color = Annotated[str | None, typer.Option(metavar="FILE:COLUMN", help=COLOR_HELP)]
Rows = Annotated[int, typer.Option(help="Samples to draw, at most; of more, some are chosen at random.", min=1)]


def report(
    model: Model,
    data: Data = None,
    out: Out = Path("report.html"),
    color: Color = None,
    rows: Rows = ROWS,
    seed: Annotated[int, typer.Option(help="Seed of the random choice of samples.", min=0)] = 0,
    title: Annotated[str | None, typer.Option(help="The heading of the page.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a page about MODEL: one HTML file with figures, tables and words, which works offline."""
    from vrpca.report import write_report

    _check(model, data, out, color)
    fitted = load_model(model)
    labels = None if color is None else read_colour(color)
    X = None if data is None else open_input(data, quiet, limited=fitted.memory_limit is not None)
    colour = None if labels is None or X is None else labels.colour(X.row_names)
    with warnings_on_stderr(quiet):
        write_report(
            fitted,
            out,
            X,
            color=None if colour is None else colour.values,
            color_name="" if colour is None else colour.name,
            rows=rows,
            seed=seed,
            title=title or (f"{type(fitted).__name__} of {Path(data).name}" if data else None),
        )
    _print(model, data, out, as_json)


def _check(model: Path, data: str | None, out: Path, color: str | None) -> None:
    """Raise before any work if the page cannot be written, or an option lacks another."""
    labels = None if color is None else color.rpartition(":")[0]
    check_outputs([("--out", out)], [("MODEL", model), ("DATA", data), ("--color", labels)])
    if out.suffix.lower() not in (".html", ".htm"):
        raise OptionError(f"--out {out} must end in .html: the report is a page for a browser.")
    if color is not None and data is None:
        raise OptionError(f"--color {color} needs the samples that it colours: add DATA after MODEL.")
    check_target(out)


def _print(model: Path, data: str | None, out: Path, as_json: bool) -> None:
    size = out.stat().st_size
    if as_json:
        print(json.dumps({"model": str(model), "data": data, "page": str(out), "bytes": size}, indent=2))
    else:
        print(f"report written to {out} ({size / 1e6:.1f} MB)")
