"""``vrpca bench``: the peers' benchmark, growth, and passes. Tables to stdout, progress to stderr, files to --out."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from vrpca.errors import OptionError

if TYPE_CHECKING:
    from vrpca.experiments.bench.measure import Conditions, Session
    from vrpca.experiments.shared.datasets import Prepared
    from vrpca.experiments.shared.log import Result
    from vrpca.experiments.shared.summary import Table

QUICK = (("mnist", 6), ("rcv1", 3), ("news20", 6), ("power-law", 10), ("flat", 1))  # those whose files are there
APART = ("ctx", "folder", "cache", "out", "resume", "quiet")  # options that do not change what is measured
IN_PASSES = ("mnist", "rcv1", "news20", "clustered-5", "clustered-2")
PEERS_ABOUT = (
    "Best time in seconds, its ratio to the first contender's, readings of the data, peak extra memory and the true "
    "suboptimality, for each target: the fastest setting that reaches it. Made by `vrpca bench`; "
    "[how it is measured](../../benchmark-peers.md)."
)
GROWTH_ABOUT = "Time of a pass and number of passes as the data grow. Made by `vrpca bench growth`."
PASSES_ABOUT = "Readings of the data that solvers with blocks of the same width need. Made by `vrpca bench passes`."


class _PeersByDefault(TyperGroup):
    """``vrpca bench mnist`` is short for ``vrpca bench peers mnist``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "--help"):
            args = ["peers", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_PeersByDefault, help="Measure this package: against its peers, its growth, its passes.")

Names = Annotated[list[str] | None, typer.Argument(help="Named data sets, and .npy or .npz files.", show_default=False)]
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
Repeats = Annotated[int, typer.Option(help="Runs of each setting; the best time counts.")]
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
    from vrpca.experiments import bench
    from vrpca.experiments.bench import plots, summary

    wanted = _targets(targets)
    rivals = bench.contenders(solvers.split(","), None if only is None else [w for w in only.split(",") if w])
    conditions = _conditions(threads, repeats, timeout, seed)
    with _session(conditions, cache, out, "peers", resume, quiet) as session:
        tasks = _tasks(data, k, session.cache, folder, size, center)
        contests = [bench.contest(prepared, number, rivals, wanted, session) for prepared, number in tasks]
    tables = [summary.contest_table(contest) for contest in contests]
    draw = _drawing(out, "peers", lambda path: plots.time_against_accuracy(contests, path))
    _finish(ctx, out, "This package and its peers", PEERS_ABOUT, conditions, tables, session.log.results, draw)


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
    from vrpca.experiments import bench
    from vrpca.experiments.bench import plots
    from vrpca.experiments.bench.growth import growth as measured
    from vrpca.experiments.bench.growth import growth_tables

    small, rivals = _small(size), [bench.ours(solver) for solver in solvers.split(",")]
    conditions = _conditions(threads, repeats, timeout, seed)
    with _session(conditions, cache, out, "growth", resume, quiet) as session:
        series = measured(rivals, _targets(str(target))[0], small, session)
    draw = _drawing(out, "growth", lambda path: plots.growth_plot(series, path))
    _finish(ctx, out, "Growth", GROWTH_ABOUT, conditions, growth_tables(series), session.log.results, draw)


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
    from vrpca.experiments import bench
    from vrpca.experiments.bench.passes import passes as counted
    from vrpca.experiments.bench.passes import passes_table

    if dtype not in ("float32", "float64"):
        raise OptionError(f"--dtype {dtype} is not known: use float32 or float64.")
    rivals = [bench.ours(solver) for solver in solvers.split(",")]
    conditions = _conditions(threads, 1, timeout, seed, dtype)
    with _session(conditions, cache, out, "passes", resume, quiet) as session:
        tasks = _tasks(data, k, session.cache, folder, size, center, default=IN_PASSES)
        results = counted(tasks, rivals, _targets(str(target))[0], oversample, session)
    _finish(ctx, out, "Passes", PASSES_ABOUT, conditions, [passes_table(results, target)], results, None)


# -------------------------------------------------------------------------------------------------------- options


def _targets(text: str) -> tuple[float, ...]:
    try:
        targets = tuple(sorted(map(float, text.split(",")), reverse=True))
    except ValueError:
        raise OptionError(f"{text} must be numbers with commas between, such as 1e-3,1e-6.") from None
    if not all(0 < target < 1 for target in targets):
        raise OptionError(f"A target is a suboptimality between 0 and 1, not {text}.")
    return targets


def _small(size: str) -> bool:
    if size not in ("full", "small"):
        raise OptionError(f"--size {size} is not known: use full or small.")
    return size == "small"


def _conditions(threads: int | None, repeats: int, timeout: float, seed: int, dtype: str | None = None) -> Conditions:
    from vrpca.experiments.bench.measure import Conditions
    from vrpca.threads import n_threads

    return Conditions(n_threads(threads), repeats, timeout, seed, dtype)


@contextmanager
def _session(
    conditions: Conditions, cache: Path | None, out: Path | None, name: str, resume: bool, quiet: bool
) -> Iterator[Session]:
    """A series of measurements, written down in --out; without --cache, what is prepared for it vanishes."""
    from vrpca.experiments.bench.measure import Session
    from vrpca.experiments.shared.log import Log, made_folder, teller

    if resume and out is None:
        raise OptionError("--resume goes on with a run that --out holds: name that folder.")
    log = Log(None if out is None else made_folder(out) / f"{name}.jsonl", resume=resume)
    with tempfile.TemporaryDirectory(prefix="vrpca-bench-") as temporary:
        yield Session(conditions, log, Path(temporary) if cache is None else made_folder(cache), teller(quiet))


def _tasks(
    names: Sequence[str] | None,
    k: str | None,
    cache: Path,
    folder: Path | None,
    size: str,
    center: bool,
    default: Sequence[str] | None = None,
) -> list[tuple[Prepared, int]]:
    """Data sets and numbers of components: those asked for, else those of the default whose files are there."""
    from vrpca.experiments.shared.datasets import DATA_FOLDER, available, prepare

    folder, small, asked = folder or DATA_FOLDER, _small(size), _numbers(k)
    quick = not names and default is None and asked is None
    chosen = names or [n for n in (default or [name for name, _ in QUICK]) if available(n, folder)]
    tasks = []
    for name in chosen:
        data = prepare(name, cache, folder=folder, small=small, center=center)
        ks = asked or ((dict(QUICK)[name],) if quick else data.ks)
        if not ks:
            raise OptionError(f"{name} needs -k: the number of components to find.")
        tasks += [(data, number) for number in ks]
    return tasks


def _numbers(k: str | None) -> tuple[int, ...] | None:
    if k is None:
        return None
    try:
        return tuple(map(int, k.split(",")))
    except ValueError:
        raise OptionError(f"-k {k} must be integers with commas between, such as 1,6.") from None


# -------------------------------------------------------------------------------------------------------- results


def _drawing(out: Path | None, name: str, draw: Any) -> str | None:
    """Draw, if there is a folder to draw to and something to draw with; return the picture's name."""
    from vrpca.experiments.shared.plots import can_plot

    if out is None:
        return None
    if not can_plot():
        print('vrpca: no plot without matplotlib: pip install "vrpca[plot]".', file=sys.stderr)
        return None
    draw(out / f"{name}.png")
    return f"{name}.png"


def _command(ctx: typer.Context) -> str:
    """The command that was given, as far as it matters for the result; files by their names alone."""
    told = ["vrpca", "bench", str(ctx.info_name)]
    for parameter in ctx.command.params:
        name, value = str(parameter.name), ctx.params[str(parameter.name)]
        source = ctx.get_parameter_source(name)
        if name in APART or source is None or source.name != "COMMANDLINE":
            continue
        told += [Path(word).name for word in value] if name == "data" else [parameter.opts[0], str(value)]
    return shlex.join(told)


def _finish(
    ctx: typer.Context,
    out: Path | None,
    title: str,
    about: str,
    conditions: Conditions,
    tables: Sequence[Table],
    results: Sequence[Result],
    picture: str | None,
) -> None:
    """Show the tables; write page and numbers."""
    from vrpca.experiments.shared import summary

    name, where = str(ctx.info_name), f"`{_command(ctx)}`; {summary.machine(conditions.threads)}"
    print(where)
    for table in tables:
        table.show()
    if out is None:
        return
    summary.write_text(out / f"{name}.md", summary.page(title, about, where, tables, picture))
    summary.write_json(out / f"{name}.json", {"machine": where, "results": list(results)})
    summary.write_csv(out / f"{name}.csv", results)
    print(f"page, numbers{' and plot' if picture else ''} written to {out}")
