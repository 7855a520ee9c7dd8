"""``vrpca bench``: the options of its three commands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from vrpca.cli.shared import EXPERIMENTS, check_outputs
from vrpca.errors import OptionError
from vrpca.experiments.bench import commands
from vrpca.experiments.shared.log import reports_in

UNRECORDED = ("ctx", "folder", "cache", "out", "resume", "quiet")  # parameters without influence on the results


class _PeersByDefault(TyperGroup):
    """``vrpca bench mnist`` is short for ``vrpca bench peers mnist``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "--help"):
            args = ["peers", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_PeersByDefault, rich_markup_mode=None, add_completion=False, help=EXPERIMENTS["bench"])

Names = Annotated[list[str] | None, typer.Argument(help="Named data sets, and files.", show_default=False)]
K = Annotated[
    str | None, typer.Option("-k", help="Numbers of components, such as 1,6; each set has its own by default.")
]
Solvers = Annotated[str, typer.Option(help="Solvers of this package, such as auto,vr:oversample=4.")]
Center = Annotated[bool, typer.Option(help="Whether to centre the columns of files.")]
DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder with mnist.npz, rcv1.npz, ...; VRPCA_DATA, or data/, by default.")
]
Cache = Annotated[Path | None, typer.Option(help="Keep prepared data and reference values in this folder.")]
Size = Annotated[str, typer.Option(help="full, or small generated sets for a quick look.")]
Threads = Annotated[int | None, typer.Option(help="Threads of everybody; all cores by default.")]
Repeats = Annotated[int, typer.Option(help="Runs of each setting, more of short ones; the best time counts.")]
Timeout = Annotated[float, typer.Option(help="Seconds for one setting of one contender, loading included.")]
Seed = Annotated[int, typer.Option(help="Seed of everybody.")]
Out = Annotated[Path | None, typer.Option(help="Write a page, a plot and the numbers to this folder.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run that --out holds.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Target = Annotated[float, typer.Option(help="Wanted suboptimality.")]


@app.command()
def peers(
    ctx: typer.Context,
    data: Names = None,
    k: K = None,
    solvers: Solvers = "auto",
    only: Annotated[
        str | None, typer.Option("--peers", help="Only peers whose names contain one of these words; empty for none.")
    ] = None,
    targets: Annotated[str, typer.Option(help="Suboptimalities to reach.")] = "1e-3,1e-6,1e-10",
    center: Center = True,
    folder: DataFolder = None,
    cache: Cache = None,
    size: Size = "full",
    threads: Threads = None,
    repeats: Repeats = 3,
    timeout: Timeout = 120,
    seed: Seed = 0,
    out: Out = None,
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Against its peers: time, passes, memory and true suboptimality, at several targets."""
    conditions = commands.conditions(threads, repeats, timeout, seed)
    _check_files("peers", out, data)
    commands.peers(
        commands.Run(_command(ctx), conditions, cache, out, resume, quiet),
        commands.Choice(data or (), _integers(k), folder, _is_small(size), center),
        solvers.split(","),
        None if only is None else [word for word in only.split(",") if word],
        _targets(targets),
    )


@app.command()
def growth(
    ctx: typer.Context,
    solvers: Solvers = "accelerated",
    target: Target = 1e-6,
    cache: Cache = None,
    size: Size = "full",
    threads: Threads = None,
    repeats: Repeats = 3,
    timeout: Timeout = 300,
    seed: Seed = 0,
    out: Out = None,
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Growth: time per pass and passes, as rows and nonzeros grow by a factor of 100."""
    conditions = commands.conditions(threads, repeats, timeout, seed)
    run = commands.Run(_command(ctx), conditions, cache, out, resume, quiet)
    commands.growth(run, solvers.split(","), _targets(str(target))[0], _is_small(size))


@app.command()
def passes(
    ctx: typer.Context,
    data: Names = None,
    k: K = None,
    solvers: Solvers = "krylov,accelerated,accelerated:cost=passes",
    target: Target = 1e-10,
    oversample: Annotated[int | None, typer.Option(help="Extra columns of the block; by k by default.")] = None,
    dtype: Annotated[
        str, typer.Option(help="float64, which shows small suboptimalities as they are, or float32.")
    ] = "float64",
    center: Center = True,
    folder: DataFolder = None,
    cache: Cache = None,
    size: Size = "full",
    threads: Threads = None,
    timeout: Timeout = 600,
    seed: Seed = 0,
    out: Out = None,
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Passes that solvers with blocks of the same width need."""
    if dtype not in ("float32", "float64"):
        raise OptionError(f"--dtype {dtype} is not known: use float32 or float64.")
    conditions = commands.conditions(threads, 1, timeout, seed, dtype)
    _check_files("passes", out, data)
    commands.passes(
        commands.Run(_command(ctx), conditions, cache, out, resume, quiet),
        commands.Choice(data or (), _integers(k), folder, _is_small(size), center),
        solvers.split(","),
        _targets(str(target))[0],
        oversample,
    )


def _check_files(name: str, out: Path | None, data: list[str] | None) -> None:
    """Raise if a file of the command's results in --out is one of the data files."""
    check_outputs(reports_in(out, [f"{name}."]), [("DATA", Path(word)) for word in data or ()])


def _targets(text: str) -> tuple[float, ...]:
    """Suboptimalities from text such as ``1e-3,1e-6``, the largest first."""
    try:
        targets = tuple(sorted(map(float, text.split(",")), reverse=True))
    except ValueError:
        raise OptionError(f"{text} must be numbers with commas between, such as 1e-3,1e-6.") from None
    if not all(0 < target < 1 for target in targets):
        raise OptionError(f"A target is a suboptimality between 0 and 1, not {text}.")
    return targets


def _integers(k: str | None) -> tuple[int, ...] | None:
    """Numbers of components from text such as ``1,6``."""
    if k is None:
        return None
    try:
        return tuple(map(int, k.split(",")))
    except ValueError:
        raise OptionError(f"-k {k} must be integers with commas between, such as 1,6.") from None


def _is_small(size: str) -> bool:
    if size not in ("full", "small"):
        raise OptionError(f"--size {size} is not known: use full or small.")
    return size == "small"


def _command(ctx: typer.Context) -> str:
    """The command for the page, without the `UNRECORDED` options and with file names in place of paths."""
    words = ["vrpca", "bench", str(ctx.info_name)]
    for parameter in ctx.command.params:
        name, value = str(parameter.name), ctx.params[str(parameter.name)]
        source = ctx.get_parameter_source(name)
        if name in UNRECORDED or source is None or source.name != "COMMANDLINE":
            continue
        words += [Path(word).name for word in value] if name == "data" else [parameter.opts[0], str(value)]
    return shlex.join(words)
