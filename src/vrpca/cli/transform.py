"""``vrpca transform``: project a file onto the components of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from vrpca.cli.shared import Data, Model, Quiet, check_outputs, open_input, warnings_on_stderr
from vrpca.data.files.paths import check_target, new_array, written_whole
from vrpca.data.open import as_source
from vrpca.errors import DataError, OptionError
from vrpca.model_io import load_model


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
    fitted = load_model(model)
    source = as_source(open_input(data, quiet, limited=fitted.memory_limit is not None))
    if source.shape[1] != fitted.n_features_in_:
        raise DataError(f"The data have {source.shape[1]} columns, but the model is for {fitted.n_features_in_}.")
    shape, dtype = (source.shape[0], fitted.n_components_), np.result_type(source.dtype, fitted.components_.dtype)
    with warnings_on_stderr(quiet), written_whole(out) as temporary:
        scores = new_array(temporary, shape, dtype)  # need not fit in memory
        fitted._transform(source, scores)
        scores.flush()
        del scores
    print(f"{shape[0]} x {shape[1]} scores ({dtype}) written to {out}")
