"""``vrpca check``: check a model against a file."""

from __future__ import annotations

from typing import Annotated

import typer

from vrpca.check import check as check_model
from vrpca.cli.printing import describe, print_result
from vrpca.cli.shared import DONE, FAILED, Data, Json, Model, ScaledAsFitted, Threads, open_input
from vrpca.history import counted
from vrpca.model_io import load_model

EXAMPLES = """Examples:

vrpca check model.npz data.npy

vrpca check model.npz data.npy --tol 1e-6 --passes 30 --json"""


def check(
    model: Model,
    data: Data,
    tol: Annotated[float | None, typer.Option(help="Wanted suboptimality; the model's own by default.")] = None,
    passes: Annotated[int, typer.Option(help="Passes over the data that may be spent.")] = 12,
    scale_genotypes: ScaledAsFitted = False,
    threads: Threads = None,
    seed: Annotated[int, typer.Option(help="Seed of the search outside the model's components.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Check MODEL against DATA: a new certificate, with nothing but the components taken on trust."""
    fitted = load_model(model)
    X = open_input(data, scale_genotypes=scale_genotypes)
    result = check_model(fitted, X, passes=passes, tol=tol, n_threads=threads, random_state=seed)
    verdict = {
        "proven": f"ok: {describe(result.certificate)}",
        "wrong": f"WRONG: suboptimality at least {result.at_least:.1e}",
        "not proven": f"NOT PROVEN within {passes} passes: {describe(result.certificate)}; --passes allows more",
    }[result.verdict]
    line = (
        f"{verdict}, tol {result.tol:g}; {counted(result.n_passes)}; "
        f"the means deviate by at most {result.mean_deviation:.1e}"
    )
    print_result(
        {"ratio": result.explained_variance_ratio},
        result.certificate,
        {"model": model, "data": data},
        {"ok": result.ok, "verdict": result.verdict, "at_least": result.at_least}
        | {"mean_deviation": result.mean_deviation, "passes": result.n_passes, "tol": result.tol},
        [line],
        as_json,
    )
    raise typer.Exit(DONE if result.ok else FAILED)
