"""``vrpca transform``: project a file onto the components of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import vrpca
from vrpca.cli.shared import Data, Model, Quiet, ScaleGenotypes, check_outputs, open_input, warnings_on_stderr
from vrpca.data.files.paths import check_target, new_array, written_whole
from vrpca.errors import DataError, OptionError


def transform(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Write the scores, one row per sample, to this .npy file.")],
    scale_genotypes: ScaleGenotypes = False,
    quiet: Quiet = False,
) -> None:
    """Project DATA onto the components of MODEL."""
    check_outputs([("--out", out)], [("MODEL", model), ("DATA", data)])
    if out.suffix != ".npy":
        raise OptionError(f"--out {out} must end in .npy: the scores are written as a NumPy array.")
    check_target(out)
    fitted = vrpca.load(model)
    source = open_input(data, quiet, fitted.memory_limit is not None, scale_genotypes)
    if source.shape[1] != fitted.n_features_in_:
        wanted = f"the model is for {fitted.n_features_in_}: pass data like those of the fit"
        raise DataError(f"{data} has {source.shape[1]} columns, but {wanted}.")
    shape, dtype = (source.shape[0], fitted.n_components_), np.result_type(source.dtype, fitted.components_.dtype)
    with warnings_on_stderr(quiet), written_whole(out) as temporary:
        scores = new_array(temporary, shape, dtype)  # need not fit in memory
        fitted._transform(source, scores)
        scores.flush()
        del scores
    print(f"{shape[0]} x {shape[1]} scores ({dtype}) written to {out}")
