"""The command line: fit, transform, check, bench, reproduce. Results go to stdout, progress and warnings to stderr.

Exit codes: 0 done, 1 not converged or check failed, 2 bad input.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import vrpca
from vrpca.check import Check
from vrpca.check import check as check_model
from vrpca.data.files import check_target, open_data, written_whole
from vrpca.data.open import as_source
from vrpca.errors import DataError, OptionError
from vrpca.solvers import SOLVERS

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
ROWS = 8192  # rows whose scores are computed at a time
# what the parser raises, whether it is click or typer's own copy of it
PARSER_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
HEADER = ("component", "variance", "ratio", "cumulative", "residual")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Principal components of large matrices, to the accuracy you ask for, with a certificate.",
)


def _bench() -> typer.Typer:
    """The commands of `vrpca bench`: whoever imports the package does not import experiments."""
    from vrpca.experiments.commands import app as commands

    return commands


app.add_typer(_bench(), name="bench")

Data = Annotated[Path, typer.Argument(help="The data, samples in rows: a .npy file, or a .npz file (dense or sparse).")]
Model = Annotated[Path, typer.Argument(help="A model that `vrpca fit --out` wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no warnings.")]
Threads = Annotated[int | None, typer.Option(help="Threads of the products; all cores by default.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command; every foreseeable error becomes one line on stderr and a code."""
    try:
        code = int(app(args=list(arguments), prog_name="vrpca", standalone_mode=False) or DONE)
        sys.stdout.flush()
        return _interrupted() if code == INTERRUPTED else code
    except BrokenPipeError:  # the reader of our output has left: nothing to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except (ValueError, OSError, MemoryError, ImportError) as error:
        return _complain(str(error) or type(error).__name__, BAD_INPUT)
    except PARSER_ERROR as error:
        return _complain(error.format_message(), BAD_INPUT)


def _interrupted() -> int:
    """Ctrl-C: typer raises it or turns it into this code, depending on its version."""
    return _complain("interrupted.", INTERRUPTED)


def _complain(message: str, code: int) -> int:
    line = " ".join(message.split())
    if line:
        print(f"vrpca: {line}", file=sys.stderr)
    return code


def _version(wanted: bool) -> None:
    if wanted:
        print(f"vrpca {vrpca.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options that come before the command."""


@app.command()
def fit(
    data: Data,
    k: Annotated[str, typer.Option("-k", help="Number of components, or a fraction of the variance such as 0.9.")],
    tol: Annotated[float, typer.Option(help="Wanted suboptimality.")] = 1e-8,
    solver: Annotated[str, typer.Option(help=f"auto, {', '.join(SOLVERS)}.")] = "auto",
    cost: Annotated[str, typer.Option(help="What to save: time, passes, or auto.")] = "auto",
    certificate: Annotated[str, typer.Option(help="What it rests on: estimated or probabilistic.")] = "estimated",
    center: Annotated[bool, typer.Option(help="Subtract the column means, implicitly.")] = True,
    scale: Annotated[bool, typer.Option("--scale", help="Divide by the columns' standard deviations.")] = False,
    max_passes: Annotated[float, typer.Option(help="Readings of the data that may be spent.")] = 100,
    threads: Threads = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the model to this file (.npz).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the convergence to this file (.png or .svg).")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the principal components of DATA."""
    _check_outputs(out, plot)
    model = vrpca.PCA(
        _components(k),
        tol=tol,
        solver=solver,
        cost=cost,
        certificate=certificate,
        center=center,
        scale=scale,
        max_passes=max_passes,
        n_threads=threads,
        random_state=seed,
        verbose=not quiet,
    )
    X = open_data(data)
    began = time.perf_counter()
    with _warnings_on_stderr(quiet):
        model.fit(X)
    seconds = time.perf_counter() - began
    if out is not None:
        vrpca.save(model.set_params(verbose=False), out)
    if plot is not None:
        from vrpca.report import convergence_plot

        convergence_plot(model.history_, plot, tol)
    _print_fit(model, seconds, {"data": data, "model": out, "plot": plot}, as_json)
    raise typer.Exit(DONE if model.converged_ else FAILED)


@app.command()
def transform(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Write the scores, one row per sample, to this .npy file.")],
    quiet: Quiet = False,
) -> None:
    """Project DATA onto the components of MODEL."""
    if out.suffix != ".npy":
        raise OptionError(f"--out {out} must end in .npy: the scores are written as a NumPy array.")
    check_target(out)
    fitted = vrpca.load(model)
    X = open_data(data)
    with _warnings_on_stderr(quiet):
        shape, dtype = _write_scores(fitted, X, out)
    print(f"{shape[0]} x {shape[1]} scores ({dtype}) written to {out}")


@app.command()
def check(
    model: Model,
    data: Data,
    tol: Annotated[float | None, typer.Option(help="Wanted suboptimality; the model's own by default.")] = None,
    passes: Annotated[int, typer.Option(help="Readings of the data that may be spent.")] = 12,
    threads: Threads = None,
    seed: Annotated[int, typer.Option(help="Seed of the search outside the model's components.")] = 0,
    as_json: Json = False,
) -> None:
    """Check MODEL against DATA: a new certificate, with nothing but the components taken on trust."""
    fitted = vrpca.load(model)
    result = check_model(fitted, open_data(data), passes=passes, tol=tol, n_threads=threads, random_state=seed)
    _print_check(result, {"model": model, "data": data}, as_json)
    raise typer.Exit(DONE if result.ok else FAILED)


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(help="fig1, fig2, fig3, scaling, beyond, or all.")],
    size: Annotated[
        str, typer.Option(help="default (minutes), paper (figure 1 with 8 GB per lambda), tiny.")
    ] = "default",
    out: Annotated[Path, typer.Option(help="Folder for the page, the figures and the numbers.")] = Path("reproduction"),
    lambdas: Annotated[str | None, typer.Option(help="Figure 1 for these only, such as 0.16,0.05.")] = None,
    mnist: Annotated[Path | None, typer.Option(help="MNIST's pixels (.npz or .npy); fetched by default.")] = None,
    rcv1: Annotated[Path | None, typer.Option(help="RCV1 (sparse .npz); fetched by default.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Keep generated matrices in this folder.")] = None,
    threads: Threads = None,
    seed: Annotated[int, typer.Option(help="Seed of starts and draws.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that --out holds.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments: curves as CSV, figures, and a page with a verdict on every claim."""
    from vrpca.experiments.reproduce.commands import reproduce as run_experiments

    page = run_experiments(
        what,
        size=size,
        out=out,
        lambdas=lambdas,
        mnist=mnist,
        rcv1=rcv1,
        cache=cache,
        threads=threads,
        seed=seed,
        resume=resume,
        quiet=quiet,
    )
    print(f"page, figures and numbers written to {page.parent}")


def _components(k: str) -> int | float:
    """-k as a number; whether it suits the data shows later."""
    for kind in (int, float):
        try:
            return kind(k)
        except ValueError:
            continue
    raise OptionError(f"-k {k} must be a number of components or a fraction of the variance, such as 10 or 0.9.")


def _check_outputs(out: Path | None, plot: Path | None) -> None:
    """Find out before the fit, not after it, that a result could not be written."""
    if out is not None:
        check_target(out)
    if plot is not None:
        from vrpca.report.plots import check_plot

        check_plot(plot)
        check_target(plot)


@contextmanager
def _warnings_on_stderr(quiet: bool) -> Iterator[None]:
    """Show the warnings that are meant for users, one line each, and once; none with --quiet."""
    shown = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            _complain(f"warning: {message}", DONE)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not quiet:
            warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _write_scores(model: Any, X: Any, out: Path) -> tuple[tuple[int, int], np.dtype]:
    """Transform a few rows at a time into a mapped file: the scores need not fit in memory."""
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


def _print_fit(model: Any, seconds: float, files: dict[str, Path | None], as_json: bool) -> None:
    ratio = model.explained_variance_ratio_
    columns = (model.explained_variance_, ratio, np.cumsum(ratio), model.certificate_.residuals)
    if as_json:
        _print_json(
            _paths(files)
            | {
                "n_samples": int(model.n_samples_),
                "n_features": model.n_features_in_,
                "components": _objects(HEADER[1:], columns),
                "solver": model.solver_,
                "reason": model.solver_reason_,
                "status": model.status_.name.lower(),
                "converged": model.converged_,
                "passes": model.n_passes_,
                "seconds": seconds,
                "tol": model.tol,
                "certificate": _certificate(model.certificate_),
            }
        )
        return
    _print_table(HEADER, columns)
    print(
        f"{model.solver_} ({model.solver_reason_}): {'converged' if model.converged_ else 'NOT CONVERGED'} after "
        f"{model.n_passes_:.4g} passes, {seconds:.2f} s; {_describe(model.certificate_)}, tol {model.tol:g}"
    )
    for what in ("model", "plot"):
        if files[what] is not None:
            print(f"{what} written to {files[what]}")


def _print_check(result: Check, files: dict[str, Path | None], as_json: bool) -> None:
    ratio = result.explained_variance_ratio
    columns = (ratio, np.cumsum(ratio), result.certificate.residuals)
    if as_json:
        _print_json(
            _paths(files)
            | {
                "ok": result.ok,
                "components": _objects(HEADER[2:], columns),
                "mean_deviation": result.mean_deviation,
                "passes": result.n_passes,
                "tol": result.tol,
                "certificate": _certificate(result.certificate),
            }
        )
        return
    _print_table((HEADER[0], *HEADER[2:]), columns)
    print(
        f"{'ok' if result.ok else 'FAILED'}: {_describe(result.certificate)}, tol {result.tol:g}; "
        f"{result.n_passes:.4g} passes; the means deviate by at most {result.mean_deviation:.1e}"
    )


def _describe(certificate: vrpca.Certificate) -> str:
    return f"suboptimality at most {certificate.suboptimality:.1e} ({certificate.kind} certificate)"


def _certificate(certificate: vrpca.Certificate) -> dict[str, Any]:
    return {"kind": certificate.kind, "suboptimality": certificate.suboptimality, "mu": certificate.mu}


def _paths(files: dict[str, Path | None]) -> dict[str, Any]:
    return {name: None if path is None else str(path) for name, path in files.items()}


def _objects(names: Sequence[str], columns: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """One dictionary per component."""
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    """The value with null where JSON has no number: a bound may be infinite."""
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_table(header: Sequence[str], columns: Sequence[np.ndarray]) -> None:
    """A numbered table: drawn on a terminal, aligned text elsewhere."""
    formats = {"variance": ".6g", "ratio": ".6f", "cumulative": ".6f", "residual": ".1e"}
    rows = [
        [str(number), *(format(float(entry), formats[name]) for name, entry in zip(header[1:], row, strict=True))]
        for number, row in enumerate(zip(*columns, strict=True), 1)
    ]
    if sys.stdout.isatty():
        _draw_table(header, rows)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for line in [header, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _draw_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in header:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
