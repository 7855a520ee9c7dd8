"""``vrpca transform``: project a file onto the components of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import vrpca
from vrpca.cli.shared import Data, Model, Quiet, check_outputs, warnings_on_stderr
from vrpca.data.files import check_target, open_data, written_whole
from vrpca.data.open import as_source
from vrpca.errors import DataError, OptionError

ROWS = 8192  # number of rows transformed at a time


def transform(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Write the scores, one row per sample, to this .npy file.")],
    quiet: Quiet = False,
) -> None:
    """Project DATA onto the components of MODEL."""
    check_outputs([("--out", out)], [("MODEL", model), ("DATA", data)])
    if out.suffix != ".npy":
        raise OptionError(f"--out {out} must end in .npy: the scores are written as a NumPy array.")
    check_target(out)
    fitted = vrpca.load(model)
    X = open_data(data)
    with warnings_on_stderr(quiet):
        shape, dtype = _write_scores(fitted, X, out)
    print(f"{shape[0]} x {shape[1]} scores ({dtype}) written to {out}")


def _write_scores(model: Any, X: Any, out: Path) -> tuple[tuple[int, int], np.dtype]:
    """Write the scores to a mapped file, a few rows at a time: they need not fit in memory."""
    source = as_source(X)
    if source.shape[1] != model.n_features_in_:
        raise DataError(f"The data have {source.shape[1]} columns, but the model is for {model.n_features_in_}.")
    X = X.tocsr() if hasattr(X, "tocsr") else X
    shape, dtype = (source.shape[0], model.n_components_), np.result_type(source.dtype, model.components_.dtype)
    with written_whole(out) as temporary:
        scores = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
        for start in range(0, shape[0], ROWS):
            scores[start : start + ROWS] = model.transform(X[start : start + ROWS])
        scores.flush()
        del scores
    return shape, dtype
