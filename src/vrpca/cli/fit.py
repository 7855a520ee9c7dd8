"""``vrpca fit``: find the principal components of a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

import vrpca
from vrpca.cli.printing import describe, print_result
from vrpca.cli.shared import (
    DONE,
    FAILED,
    INTERRUPTED,
    Data,
    Json,
    Memory,
    Quiet,
    Threads,
    check_outputs,
    open_input,
    warnings_on_stderr,
)
from vrpca.data.files.paths import check_target
from vrpca.errors import OptionError
from vrpca.solvers import SOLVERS


def fit(
    data: Data,
    k: Annotated[str, typer.Option("-k", help="Number of components, or a fraction of the variance such as 0.9.")],
    tol: Annotated[float, typer.Option(help="Wanted suboptimality.")] = 1e-8,
    angle_tol: Annotated[
        float | None, typer.Option(help="Wanted sine of the angle between each component and its eigenvector.")
    ] = None,
    solver: Annotated[str, typer.Option(help=f"auto, {', '.join(SOLVERS)}.")] = "auto",
    cost: Annotated[str, typer.Option(help="What to save: time, passes, or auto.")] = "auto",
    certificate: Annotated[str, typer.Option(help="What it rests on: estimated or probabilistic.")] = "estimated",
    center: Annotated[bool, typer.Option(help="Subtract the column means, implicitly.")] = True,
    scale: Annotated[bool, typer.Option("--scale", help="Divide by the columns' standard deviations.")] = False,
    max_passes: Annotated[float, typer.Option(help="Passes over the data that may be spent.")] = 100,
    threads: Threads = None,
    memory: Memory = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the model to this file (.npz).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the convergence to this file (.png or .svg).")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the principal components of DATA."""
    _check_files(data, out, plot)
    model = vrpca.PCA(
        components(k),
        tol=tol,
        angle_tol=angle_tol,
        solver=solver,
        cost=cost,
        certificate=certificate,
        center=center,
        scale=scale,
        max_passes=max_passes,
        n_threads=threads,
        memory_limit=memory,
        random_state=seed,
        verbose=not quiet,
    )
    X = open_input(data, quiet, limited=memory is not None)
    began = time.perf_counter()
    interrupted = _fit(model, X, quiet)
    seconds = time.perf_counter() - began
    _write(model, out, plot)
    _print(model, seconds, {"data": data, "model": out, "plot": plot}, as_json)
    raise typer.Exit(INTERRUPTED if interrupted else DONE if model.converged_ else FAILED)


def _check_files(data: str, out: Path | None, plot: Path | None) -> None:
    """Raise before the fit if --out or --plot cannot be written, or would replace another file of the command."""
    check_outputs([("--out", out), ("--plot", plot)], [("DATA", data)])
    if out is not None:
        check_target(out)
    if plot is not None:
        from vrpca.report import check_plot

        check_plot(plot)
        check_target(plot)


def components(k: str) -> int | float:
    """-k as a number. `PCA` checks later whether the number suits the data."""
    for kind in (int, float):
        try:
            return kind(k)
        except ValueError:
            continue
    raise OptionError(f"-k {k} must be a number of components or a fraction of the variance, such as 10 or 0.9.")


def _fit(model: vrpca.PCA, X: Any, quiet: bool) -> bool:
    """Fit the model and return whether Ctrl-C ended the fit early. Without any answer, KeyboardInterrupt is raised."""
    try:
        with warnings_on_stderr(quiet):
            model.fit(X)
    except KeyboardInterrupt:
        if not hasattr(model, "components_"):
            raise
        return True
    return False


def _write(model: vrpca.PCA, out: Path | None, plot: Path | None) -> None:
    if out is not None:
        vrpca.save(model.set_params(verbose=False), out)
    if plot is not None:
        from vrpca.report import convergence_plot

        convergence_plot(model.history_, plot, model.tol)


def _print(model: vrpca.PCA, seconds: float, files: dict[str, Path | str | None], as_json: bool) -> None:
    line = (
        f"{model.solver_} ({model.solver_reason_}): {'converged' if model.converged_ else 'NOT CONVERGED'} after "
        f"{model.n_passes_:.4g} passes, {seconds:.2f} s; {describe(model.certificate_)}, tol {model.tol:g}"
    )
    written = [f"{what} written to {files[what]}" for what in ("model", "plot") if files[what] is not None]
    columns = {"variance": model.explained_variance_, "ratio": model.explained_variance_ratio_}
    facts = {
        "n_samples": int(model.n_samples_),
        "n_features": model.n_features_in_,
        "solver": model.solver_,
        "reason": model.solver_reason_,
        "status": model.status_.name.lower(),
        "converged": model.converged_,
        "passes": model.n_passes_,
        "seconds": seconds,
        "tol": model.tol,
    }
    print_result(columns, model.certificate_, files, facts, [line, *written], as_json)
