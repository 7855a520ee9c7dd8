"""``vrpca transform``: project a file onto the components of a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from vrpca.cli.shared import (
    SCORES_HELP,
    Data,
    Json,
    Model,
    Quiet,
    ScaledAsFitted,
    check_outputs,
    complain,
    hushed,
    open_input,
    warnings_on_stderr,
)
from vrpca.data.source import Source
from vrpca.errors import DataError
from vrpca.model_io import load_model
from vrpca.score_files import STDOUT, check_scores, write_scores

EXAMPLES = """Examples:

vrpca transform model.npz data.npy --out scores.npy

vrpca transform model.npz new.csv --out - | head"""


def transform(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help=SCORES_HELP)],
    scale_genotypes: ScaledAsFitted = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Project DATA onto the components of MODEL."""
    silent = hushed(quiet, as_json, out)
    check_outputs([("--out", out)], [("MODEL", model), ("DATA", data)])
    check_scores(out)
    fitted = load_model(model)
    source = open_input(data, silent, fitted.memory_limit is not None, scale_genotypes)
    if source.shape[1] != fitted.n_features_in_:
        wanted = f"the model is for {fitted.n_features_in_}: pass data like those of the fit"
        raise DataError(f"{data} has {source.shape[1]} columns, but {wanted}.")
    facts = written_scores(fitted, source, out, silent)
    if as_json:
        text = json.dumps({"model": str(model), "data": data, "scores": str(out), **facts}, indent=2)
    else:
        text = f"{facts['n_samples']} x {facts['n_components']} scores ({facts['dtype']}) written to {out}"
    if as_json or out != STDOUT:
        print(text, file=sys.stderr if out == STDOUT else sys.stdout)
    elif not quiet:
        complain(text, 0)


def written_scores(fitted: Any, source: Source, out: Path, quiet: bool) -> dict[str, Any]:
    """Write the scores of data to a file; return what is to be said of them."""
    with warnings_on_stderr(quiet):
        (n, k), dtype = write_scores(fitted, source, out)
    return {"n_samples": n, "n_components": k, "dtype": str(dtype)}
