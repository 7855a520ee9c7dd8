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
    TERMINATED,
    Data,
    Json,
    Memory,
    Quiet,
    Threads,
    check_outputs,
    complain,
    open_input,
    sigterm_as_ctrl_c,
    warnings_on_stderr,
)
from vrpca.data.files.paths import as_path, check_target
from vrpca.data.open import as_source
from vrpca.errors import OptionError
from vrpca.solvers import SOLVERS

AngleTol = Annotated[
    float | None, typer.Option(help="Wanted sine of the angle between each component and its eigenvector.")
]
WarmStart = Annotated[
    Path | None, typer.Option(help="Start from the components of this model, which `vrpca fit --out` wrote.")
]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Write the state of the fit to this file, every so often and at Ctrl-C or SIGTERM.")
]


def fit(
    data: Data,
    k: Annotated[str, typer.Option("-k", help="Number of components, or a fraction of the variance such as 0.9.")],
    tol: Annotated[float, typer.Option(help="Wanted suboptimality.")] = 1e-8,
    angle_tol: AngleTol = None,
    solver: Annotated[str, typer.Option(help=f"auto, {', '.join(SOLVERS)}.")] = "auto",
    cost: Annotated[str, typer.Option(help="What to save: time, passes, or auto.")] = "auto",
    certificate: Annotated[str, typer.Option(help="What it rests on: estimated or probabilistic.")] = "estimated",
    center: Annotated[bool, typer.Option(help="Subtract the column means, implicitly.")] = True,
    scale: Annotated[bool, typer.Option("--scale", help="Divide by the columns' standard deviations.")] = False,
    max_passes: Annotated[float, typer.Option(help="Passes over the data that may be spent.")] = 100,
    threads: Threads = None,
    memory: Memory = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    warm_start: WarmStart = None,
    checkpoint: Checkpoint = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the file that --checkpoint names.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the model to this file (.npz).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the convergence to this file (.png or .svg).")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the principal components of DATA."""
    _check_files(data, warm_start, checkpoint, out, plot)
    _check_checkpoint(checkpoint, resume)
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
        checkpoint=checkpoint,
        verbose=not quiet,
    )
    X = open_input(data, quiet, limited=memory is not None)
    if warm_start is not None:
        _start_from(model, warm_start, X)
    began = time.perf_counter()
    cut_short = _fit(model, X, quiet)
    seconds = time.perf_counter() - began
    _write(model, out, plot)
    _print(model, seconds, {"data": data, "model": out, "plot": plot}, as_json)
    raise typer.Exit(cut_short or (DONE if model.converged_ else FAILED))


def _check_files(
    data: str, warm_start: Path | None, checkpoint: Path | None, out: Path | None, plot: Path | None
) -> None:
    """Raise before the fit if a file cannot be written, or would replace another file of the command."""
    outputs = [("--checkpoint", checkpoint), ("--out", out), ("--plot", plot)]
    check_outputs(outputs, [("DATA", data), ("--warm-start", warm_start)])
    if out is not None:
        check_target(out)
    if plot is not None:
        from vrpca.plot import check_plot

        check_plot(plot)
        check_target(plot)


def _check_checkpoint(path: Path | None, resume: bool) -> None:
    """Raise unless --resume agrees with what is there; where there is nothing to go on from, say so."""
    if path is None:
        if resume:
            raise OptionError("--resume needs the name of a checkpoint: add --checkpoint PATH.")
    elif as_path(path).exists() and not resume:
        raise OptionError(
            f"--checkpoint {path} exists: add --resume to go on from it, or remove it to start from the beginning."
        )
    elif resume and not as_path(path).exists():
        complain(f"there is no checkpoint {path} yet: the fit starts from the beginning.", DONE)


def _start_from(model: vrpca.PCA, path: Path, X: Any) -> None:
    """Let the fit start from the components of a saved model."""
    start = vrpca.load(path)
    features = as_source(X).shape[1]
    if start.components_.shape[1] != features:
        raise OptionError(
            f"--warm-start {path} is a model of {start.components_.shape[1]} columns, but the data have {features}: "
            "name a model of such data, or leave out --warm-start."
        )
    model.set_params(warm_start=True).components_ = start.components_


def components(k: str) -> int | float:
    """-k as a number. `PCA` checks later whether the number suits the data."""
    for kind in (int, float):
        try:
            return kind(k)
        except ValueError:
            continue
    raise OptionError(f"-k {k} must be a number of components or a fraction of the variance, such as 10 or 0.9.")


def _fit(model: vrpca.PCA, X: Any, quiet: bool) -> int:
    """Fit the model; return the exit code of Ctrl-C or SIGTERM if one of them ended the fit early, else 0.

    Without any answer the command ends here with that code.
    """
    with sigterm_as_ctrl_c() as terminated:
        try:
            with warnings_on_stderr(quiet):
                model.fit(X)
        except KeyboardInterrupt:
            code = TERMINATED if terminated() else INTERRUPTED
            if not hasattr(model, "status_"):
                raise typer.Exit(code) from None
            return code
    return DONE


def _write(model: vrpca.PCA, out: Path | None, plot: Path | None) -> None:
    if out is not None:
        vrpca.save(model.set_params(verbose=False, warm_start=False), out)
    if plot is not None:
        from vrpca.plot import convergence_plot

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
