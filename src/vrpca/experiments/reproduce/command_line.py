"""``vrpca reproduce``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vrpca.cli.shared import EXPERIMENTS, Quiet, Threads, check_outputs
from vrpca.experiments.reproduce import commands
from vrpca.experiments.shared.log import reports_in

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(help=EXPERIMENTS["reproduce"])
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
    """Check the files and run the experiments."""
    names = commands.EXPERIMENTS if what == commands.ALL else [what]
    written = reports_in(out, ["reproduction", *names])
    check_outputs(written, [("--mnist", mnist), ("--rcv1", rcv1)])
    page = commands.reproduce(
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
