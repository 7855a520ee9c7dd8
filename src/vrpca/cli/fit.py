"""``vrpca fit``: find the principal components of a file."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

import vrpca
from vrpca.cli.cluster import Scheduler, Workers, cluster, open_on_cluster
from vrpca.cli.printing import describe, print_result
from vrpca.cli.shared import (
    DONE,
    FAILED,
    INTERRUPTED,
    SCORES_HELP,
    TERMINATED,
    Cost,
    Data,
    Json,
    Kind,
    Memory,
    Quiet,
    ScaleGenotypes,
    Solver,
    Threads,
    check_outputs,
    complain,
    hushed,
    notices_on_stderr,
    open_input,
    sigterm_as_ctrl_c,
    warnings_on_stderr,
)
from vrpca.cli.transform import written_scores
from vrpca.data.files.paths import as_path, check_target
from vrpca.data.source import Source
from vrpca.errors import OptionError
from vrpca.history import counted
from vrpca.model_io import load_model
from vrpca.options import MLE, CertificateKind, SolverName
from vrpca.options import Cost as CostName
from vrpca.score_files import STDOUT, check_scores

EXAMPLES = """Examples:

vrpca fit data.npy -k 10 --out model.npz

vrpca fit counts.h5ad -k 50 --tol 1e-6 --memory 2GB --out model.npz --scores scores.csv

zcat table.csv.gz | vrpca fit - -k 0.9 --json"""

K_HELP = "Number of components, a part of the variance such as 0.9, or mle for the number that is most likely."
AngleTol = Annotated[
    float | None, typer.Option(help="Wanted sine of the angle between each component and its eigenvector.")
]
WarmStart = Annotated[
    Path | None, typer.Option(help="Start from the components of this model, which `vrpca fit --out` wrote.")
]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Write the state of the fit to this file, every so often and at Ctrl-C or SIGTERM.")
]
Scores = Annotated[Path | None, typer.Option(help=f"{SCORES_HELP} That takes one more pass.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the convergence to this file (.png or .svg).")]


def fit(
    data: Data,
    k: Annotated[str, typer.Option("-k", help=K_HELP)],
    tol: Annotated[float, typer.Option(help="Wanted suboptimality.")] = 1e-8,
    angle_tol: AngleTol = None,
    solver: Solver = "auto",
    cost: Cost = "auto",
    certificate: Kind = "estimated",
    center: Annotated[bool, typer.Option(help="Subtract the column means, implicitly.")] = True,
    scale: Annotated[bool, typer.Option("--scale", help="Divide by the columns' standard deviations.")] = False,
    scale_genotypes: ScaleGenotypes = False,
    max_passes: Annotated[float, typer.Option(help="Passes over the data that may be spent.")] = 100,
    threads: Threads = None,
    memory: Memory = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)] = 0,
    warm_start: WarmStart = None,
    checkpoint: Checkpoint = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the file that --checkpoint names.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the model to this file (.npz).")] = None,
    scores: Scores = None,
    plot: Plot = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the principal components of DATA."""
    quiet = hushed(quiet, as_json, scores)
    files = _checked_files(data, warm_start, (checkpoint, resume), out, scores, plot, as_json)
    model = vrpca.PCA(
        components(k),
        tol=tol,
        angle_tol=angle_tol,
        solver=cast(SolverName, solver),  # these are checked by the options
        cost=cast(CostName, cost),
        certificate=cast(CertificateKind, certificate),
        center=center,
        scale=scale,
        max_passes=max_passes,
        n_threads=threads,
        memory_limit=memory,
        random_state=seed,
        checkpoint=checkpoint,
        verbose=not quiet,
    )
    with cluster(scheduler, workers, threads) as connected:
        X = (open_on_cluster if connected else open_input)(data, quiet, memory is not None, scale_genotypes)
        cut_short, seconds = _fit(model, X, warm_start, quiet)
        _write(model, X, files, quiet)
    _print(model, seconds, {"data": data, "model": out, "scores": scores, "plot": plot}, as_json)
    raise typer.Exit(cut_short or (DONE if model.converged_ else FAILED))


def _checked_files(
    data: str,
    warm_start: Path | None,
    going_on: tuple[Path | None, bool],
    out: Path | None,
    scores: Path | None,
    plot: Path | None,
    as_json: bool,
) -> dict[str, Path | None]:
    """The outputs by their options; raise before the fit if one cannot be written, or would replace another file."""
    checkpoint, resume = going_on
    outputs = {"--checkpoint": checkpoint, "--out": out, "--scores": scores, "--plot": plot}
    check_outputs(list(outputs.items()), [("DATA", data), ("--warm-start", warm_start)])
    if out is not None:
        _check_model(out)
    if scores is not None:
        check_scores(scores)
    if plot is not None:
        from vrpca.plot import check_plot

        check_plot(plot)
        check_target(plot)
    _check_checkpoint(checkpoint, resume, hushed(False, as_json, scores))
    return outputs


def _check_model(path: Path) -> None:
    """Raise unless a model can be written to this file."""
    if path.suffix.lower() != ".npz":
        better = path.with_suffix(".npz") if path.name else "model.npz"
        raise OptionError(f"--out {path} must end in .npz, since a model is an archive of arrays: name {better}.")
    check_target(path)


def _check_checkpoint(path: Path | None, resume: bool, silent: bool) -> None:
    """Raise unless --resume agrees with what is there; where there is nothing to go on from, say so."""
    if path is None:
        if resume:
            raise OptionError("--resume needs the name of a checkpoint: add --checkpoint PATH.")
    elif as_path(path).exists() and not resume:
        raise OptionError(
            f"--checkpoint {path} exists: add --resume to go on from it, or remove it to start from the beginning."
        )
    elif resume and not silent and not as_path(path).exists():
        complain(f"there is no checkpoint {path} yet: the fit starts from the beginning.", DONE)


def _start_from(model: vrpca.PCA, path: Path | None, X: Source) -> None:
    """Let the fit start from the components of a saved model, if one is named."""
    if path is None:
        return
    start = load_model(path)
    features = X.shape[1]
    if start.components_.shape[1] != features:
        raise OptionError(
            f"--warm-start {path} is a model of {start.components_.shape[1]} columns, but the data have {features}: "
            "name a model of such data, or leave out --warm-start."
        )
    model.set_params(warm_start=True).components_ = start.components_


def components(k: str) -> int | float | Literal["mle"]:
    """-k as a number, or "mle". `PCA` checks later whether a number of components suits the data."""
    if k == MLE:
        return "mle"
    with suppress(ValueError):
        return int(k)
    with suppress(ValueError):
        if 0 < float(k) < 1:
            return float(k)
    raise OptionError(f"-k {k} must be a number of components such as 10, a part of the variance such as 0.9, or mle.")


def _fit(model: vrpca.PCA, X: Source, warm_start: Path | None, quiet: bool) -> tuple[int, float]:
    """Fit the model; return the exit code of Ctrl-C or SIGTERM if one of them ended the fit early, else 0; and seconds.

    Without any answer the command ends here with that code.
    """
    _start_from(model, warm_start, X)
    code, began = DONE, time.perf_counter()
    with sigterm_as_ctrl_c() as terminated:
        try:
            with warnings_on_stderr(quiet), notices_on_stderr(quiet):
                model.fit(X)
        except KeyboardInterrupt:
            code = TERMINATED if terminated() else INTERRUPTED
            if not hasattr(model, "status_"):
                raise typer.Exit(code) from None
    # A resumed fit has seconds of earlier processes, too, as it has their passes.
    return code, max(time.perf_counter() - began, model.history_[-1].seconds)


def _write(model: vrpca.PCA, X: Source, files: dict[str, Path | None], quiet: bool) -> None:
    out, scores, plot = (files[name] for name in ("--out", "--scores", "--plot"))
    if out is not None:
        vrpca.save(model.set_params(verbose=False, warm_start=False), out)
    if scores is not None:
        written_scores(model, X, scores, quiet)
    if plot is not None:
        from vrpca.plot import convergence_plot

        convergence_plot(model.history_, plot, model.tol)


def _print(model: vrpca.PCA, seconds: float, files: dict[str, Path | str | None], as_json: bool) -> None:
    line = (
        f"{model.solver_} ({model.solver_reason_}): {'converged' if model.converged_ else 'NOT CONVERGED'} after "
        f"{counted(model.n_passes_)}, {seconds:.2f} s; {describe(model.certificate_)}, tol {model.tol:g}"
    )
    written = [f"{what} written to {files[what]}" for what in ("model", "scores", "plot") if files[what] is not None]
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
    with redirect_stdout(sys.stderr) if files["scores"] == STDOUT else nullcontext():
        print_result(columns, model.certificate_, files, facts, [line, *written], as_json)
