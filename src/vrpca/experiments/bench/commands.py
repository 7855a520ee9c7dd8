"""The work of ``vrpca bench``: measure, print tables to stdout and progress to stderr, write files to --out."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vrpca.errors import OptionError
from vrpca.experiments.bench import contenders, contest, ours
from vrpca.experiments.bench.growth import growth as measured_growth
from vrpca.experiments.bench.growth import growth_tables
from vrpca.experiments.bench.measure import Conditions, Session
from vrpca.experiments.bench.passes import passes as counted_passes
from vrpca.experiments.bench.passes import passes_table
from vrpca.experiments.bench.plots import growth_plot, time_against_accuracy
from vrpca.experiments.bench.roofline import Rates
from vrpca.experiments.bench.roofline import measure as measure_rates
from vrpca.experiments.bench.summary import contest_table, ratios_table
from vrpca.experiments.shared import plots, summary
from vrpca.experiments.shared.datasets import DATA_FOLDER, Prepared, available, prepare
from vrpca.experiments.shared.log import Log, Result, made_folder, teller
from vrpca.experiments.shared.summary import Table
from vrpca.threads import n_threads

# The default data sets and their numbers of components; an empty tuple stands for the numbers of the set's recipe.
# Sets without their file are left out.
QUICK: dict[str, Sequence[int]] = {"mnist": (6,), "rcv1": (3,), "news20": (6,), "power-law": (10,), "flat": (1,)}
IN_PASSES: dict[str, Sequence[int]] = dict.fromkeys(("mnist", "rcv1", "news20", "clustered-5", "clustered-2"), ())
PEERS_ABOUT = (
    "First our time, the fastest peer and its time over ours. Then, for each data set: best time in seconds, its ratio "
    "to the first contender's, passes over the data, the time over what this machine needs to read the data so often "
    "(roof), peak extra memory and the true suboptimality, for each target: the fastest setting that reaches it. Made "
    "by `vrpca bench`; [how it is measured](../../benchmark-peers.md)."
)
GROWTH_ABOUT = "Time of a pass and number of passes as the data grow. Made by `vrpca bench growth`."
PASSES_ABOUT = "Passes over the data that solvers with blocks of the same width need. Made by `vrpca bench passes`."


@dataclass(frozen=True)
class Run:
    """How to run a series of measurements and where to keep it."""

    command: str  # the command for the page
    conditions: Conditions  # the conditions of every measurement
    cache: Path | None  # folder for prepared data and reference values; None for a temporary one
    out: Path | None  # folder for the results; None to print them only
    resume: bool  # whether to continue the run in `out`
    quiet: bool  # whether to print no progress


@dataclass(frozen=True)
class Choice:
    """The data sets and numbers of components of a series."""

    names: Sequence[str]  # named data sets and files; empty for the default sets
    ks: Sequence[int] | None  # numbers of components; None for those of each data set
    folder: Path | None  # folder with the files of named data sets; None for the default folder
    small: bool  # whether to generate small versions of the generated data sets
    center: bool  # whether to centre the columns of files


def conditions(threads: int | None, repeats: int, timeout: float, seed: int, dtype: str | None = None) -> Conditions:
    """The conditions of every measurement; `threads` None means all cores."""
    return Conditions(n_threads(threads), repeats, timeout, seed, dtype)


def peers(
    run: Run, choice: Choice, solvers: Sequence[str], words: Sequence[str] | None, targets: Sequence[float]
) -> None:
    """Compare this package with its peers: all of them, or those with one of the `words` in their names."""
    rivals = contenders(solvers, words)
    rates = _rates(run, "peers")
    with _session(run, "peers") as session:
        tasks = _tasks(choice, session.cache, QUICK)
        contests = [contest(data, k, rivals, targets, session) for data, k in tasks]
    tables = [ratios_table(contests), *(contest_table(contest, rates) for contest in contests)]
    picture = _picture(run.out, "peers", lambda path: time_against_accuracy(contests, path))
    _finish(run, "peers", "This package and its peers", PEERS_ABOUT, tables, session.log.results, picture, rates)


def growth(run: Run, solvers: Sequence[str], target: float, small: bool) -> None:
    """Measure the time of a pass and the number of passes on growing data."""
    rivals = [ours(solver) for solver in solvers]
    with _session(run, "growth") as session:
        series = measured_growth(rivals, target, small, session)
    picture = _picture(run.out, "growth", lambda path: growth_plot(series, path))
    _finish(run, "growth", "Growth", GROWTH_ABOUT, growth_tables(series), session.log.results, picture)


def passes(run: Run, choice: Choice, solvers: Sequence[str], target: float, oversample: int | None) -> None:
    """Count the passes of solvers with blocks of the same width."""
    rivals = [ours(solver) for solver in solvers]
    with _session(run, "passes") as session:
        tasks = _tasks(choice, session.cache, IN_PASSES)
        results = counted_passes(tasks, rivals, target, oversample, session)
    _finish(run, "passes", "Passes", PASSES_ABOUT, [passes_table(results, target)], results, None)


@contextmanager
def _session(run: Run, name: str) -> Iterator[Session]:
    """A series of measurements with its log in --out. Without --cache, prepared data are removed at the end."""
    if run.resume and run.out is None:
        raise OptionError("--resume goes on with a run that --out holds: name that folder.")
    log = Log(None if run.out is None else made_folder(run.out) / f"{name}.jsonl", resume=run.resume)
    with tempfile.TemporaryDirectory(prefix="vrpca-bench-") as temporary:
        cache = Path(temporary) if run.cache is None else made_folder(run.cache)
        yield Session(run.conditions, log, cache, teller(run.quiet))


def _tasks(choice: Choice, cache: Path, default: dict[str, Sequence[int]]) -> list[tuple[Prepared, int]]:
    """Prepared data sets, each with a number of components."""
    folder = choice.folder or DATA_FOLDER
    chosen: Sequence[tuple[str, Sequence[int]]] = [(name, ()) for name in choice.names]
    if not chosen:
        chosen = [(name, ks) for name, ks in default.items() if available(name, folder)]
    tasks = []
    for name, preferred in chosen:
        data = prepare(name, cache, folder=folder, small=choice.small, center=choice.center)
        ks = choice.ks or preferred or data.ks
        if not ks:
            raise OptionError(f"{name} needs -k: the number of components to find.")
        tasks += [(data, k) for k in ks]
    return tasks


def _picture(out: Path | None, name: str, draw: Callable[[Path], None]) -> str | None:
    """Draw a plot in --out and return the name of its file; None without --out or without matplotlib."""
    if out is None:
        return None
    if not plots.can_plot():
        print('vrpca: no plot without matplotlib: pip install "vrpca[plot]".', file=sys.stderr)
        return None
    draw(out / f"{name}.png")
    return f"{name}.png"


def _rates(run: Run, name: str) -> Rates:
    """The rates of this machine: those of the run that goes on, or measured."""
    before = None if run.out is None or not run.resume else run.out / f"{name}.json"
    if before is not None and before.exists():
        return Rates(**json.loads(before.read_text())["rates"])
    return measure_rates(run.conditions.threads)


def _finish(
    run: Run,
    name: str,
    title: str,
    about: str,
    tables: Sequence[Table],
    results: Sequence[Result],
    picture: str | None,
    rates: Rates | None = None,
) -> None:
    """Print the tables, and write the page and the numbers to --out."""
    rates = _rates(run, name) if rates is None else rates
    origin = f"`{run.command}`; {summary.machine(run.conditions.threads)}; {rates}"
    print(origin)
    for table in tables:
        table.show()
    if run.out is None:
        return
    summary.write_text(run.out / f"{name}.md", summary.page(title, about, origin, tables, picture))
    summary.write_json(
        run.out / f"{name}.json", {"machine": origin, "rates": rates.as_json(), "results": list(results)}
    )
    summary.write_csv(run.out / f"{name}.csv", results)
    print(f"page, numbers{' and plot' if picture else ''} written to {run.out}")
