"""The work of ``vrpca reproduce``: run the experiments, print the verdicts, write files to --out."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vrpca.errors import OptionError
from vrpca.experiments.reproduce import claims, curves, drawing, page, scaling, scaling_claims
from vrpca.experiments.reproduce.curves import Recorder
from vrpca.experiments.reproduce.figures import Panel, panel
from vrpca.experiments.reproduce.stages import BLOCK_K, GAPS, SIZES, TINY_GAPS, Files, Size, real, size_named, synthetic
from vrpca.experiments.shared import plots, summary
from vrpca.experiments.shared.log import Log, Say, made_folder, teller
from vrpca.threads import n_threads

EXPERIMENTS = ("fig1", "fig2", "fig3", "scaling", "beyond")
ALL = "all"
TITLES = {
    "fig1": "Figure 1: synthetic data",
    "fig2": "Figure 2: MNIST and RCV1",
    "fig3": "Figure 3: blocks, MNIST with k = 6 and RCV1 with k = 3",
    "scaling": "Scaling: the claims about growth, and the open questions",
    "beyond": "Beyond the paper: the same axes with Krylov methods and randomized SVD",
}
BEYOND_GAPS = (0.16, 0.016)  # lambdas of the synthetic matrices in the experiment "beyond"


@dataclass(frozen=True)
class Request:
    """The checked options of the command."""

    size: Size
    out: Path
    gaps: tuple[float, ...]
    files: Files
    cache: Path | None
    threads: int
    seed: int
    resume: bool
    say: Say
    command: str


def reproduce(
    what: str,
    *,
    size: str = "default",
    out: Path,
    lambdas: str | None = None,
    mnist: Path | None = None,
    rcv1: Path | None = None,
    cache: Path | None = None,
    threads: int | None = None,
    seed: int = 0,
    resume: bool = False,
    quiet: bool = False,
) -> Path:
    """Run one experiment, or all of them, and return the path of the page."""
    names = EXPERIMENTS if what == ALL else (what,)
    _check_options(what, names, size, lambdas, threads, seed)
    request = Request(
        size_named(size),
        made_folder(out),
        _gaps(lambdas, size_named(size)),
        Files(mnist, rcv1),
        cache if cache is None else made_folder(cache),
        n_threads(threads),
        seed,
        resume,
        teller(quiet),
        shlex.join(["vrpca", "reproduce", *_arguments(what, size, lambdas, mnist, rcv1, threads, seed)]),
    )
    if not plots.can_plot():
        raise ImportError('Figures need matplotlib: pip install "vrpca[plot]".')
    page.check(request.out)
    for name in names:
        _check_log(request, _stem(name, request.size))
    for name in names:
        path = _experiment(name, request if name == "fig1" else replace(request, size=_other_size(request.size)))
    return path


def _check_options(
    what: str, names: Sequence[str], size: str, lambdas: str | None, threads: int | None, seed: int
) -> None:
    for name in names:
        if name not in EXPERIMENTS:
            raise OptionError(f"There is no experiment {name}: use {', '.join(EXPERIMENTS)} or {ALL}.")
    if lambdas is not None and "fig1" not in names:
        raise OptionError(f"--lambdas is for fig1; {what} has its own.")
    if size == "paper" and "fig1" not in names:
        raise OptionError(f"--size paper is for fig1; {what} has the sizes default and tiny.")
    if seed < 0 or (threads is not None and threads < 1):
        raise OptionError(f"--seed {seed} and --threads {threads}: a seed is not negative, and threads are positive.")


def _other_size(size: Size) -> Size:
    """The size of all experiments but figure 1. They have no paper size and take the default one instead."""
    return SIZES["default"] if size.name == "paper" else size


def _arguments(
    what: str, size: str, lambdas: str | None, mnist: Path | None, rcv1: Path | None, threads: int | None, seed: int
) -> list[str]:
    """The arguments for the page: those with influence on the results, with file names in place of paths."""
    words = [what, "--size", size]
    for option, value in (("--lambdas", lambdas), ("--mnist", mnist and mnist.name), ("--rcv1", rcv1 and rcv1.name)):
        words += [option, value] if value else []
    return [*words, *(["--threads", str(threads)] if threads else []), *(["--seed", str(seed)] if seed else [])]


def _gaps(text: str | None, size: Size) -> tuple[float, ...]:
    if text is None:
        return TINY_GAPS if size.tiny else GAPS
    try:
        gaps = tuple(map(float, text.split(",")))
    except ValueError:
        raise OptionError(f"--lambdas {text} must be numbers with commas between, such as 0.16,0.05.") from None
    if not all(0 < gap <= 0.5 for gap in gaps):
        raise OptionError(f"--lambdas {text}: each must lie in (0, 0.5].")
    return tuple(dict.fromkeys(gaps))


def _stem(name: str, size: Size) -> str:
    """The name of an experiment's files, without ending. Figure 1 has another name at the paper's size."""
    return f"{name}-paper" if (name, size.name) == ("fig1", "paper") else name


def _check_log(request: Request, stem: str) -> None:
    """Raise if --out holds an earlier run. This is checked for all experiments before the first one starts."""
    Log(request.out / f"{stem}.jsonl", resume=request.resume, same=())


def _experiment(name: str, request: Request) -> Path:
    """Run one experiment, write its section, print its verdicts, and return the path of the page."""
    stem = _stem(name, request.size)
    section = _scaling(stem, request) if name == "scaling" else _figure(name, stem, request)
    path = page.write(section, request.out)
    for finding in section.findings:
        print(f"{name}: {finding.claim}: {finding.verdict}")
    return path


def _figure(name: str, stem: str, request: Request) -> page.Section:
    log = Log(request.out / f"{stem}.jsonl", resume=request.resume, same=curves.SAME)
    recorder = Recorder(log, request.seed, request.threads, request.say)
    panels = list(_panels(name, recorder, request))
    page.write_curves(panels, request.out / f"{stem}.csv")
    return page.Section(
        stem,
        TITLES[name],
        request.command,
        summary.machine(request.threads),
        claims.figure_findings(name, panels),
        page.panel_tables(panels, timed=name == "beyond"),
        drawing.convergence(panels, stem, request.out),
        [f"{stem}.csv"],
    )


def _panels(name: str, recorder: Recorder, request: Request) -> Iterator[Panel]:
    gaps = {"fig1": request.gaps, "beyond": BEYOND_GAPS}.get(name, ())
    with _workplace(request) as folder:
        for gap in gaps:
            with synthetic(request.size, gap, folder, request.cache is not None, request.say) as stage:
                yield panel(name, stage, recorder, request.size.longest)
    single = dict.fromkeys(BLOCK_K, 1)
    for numbers in {"fig1": [], "fig2": [single], "fig3": [BLOCK_K], "beyond": [single, BLOCK_K]}[name]:
        for stage in real(request.files, request.size, numbers):
            yield panel(name, stage, recorder, request.size.longest)
            stage.forget()


@contextmanager
def _workplace(request: Request) -> Iterator[Path]:
    """The folder for generated matrices: --cache, or a temporary folder in --out."""
    if request.cache is not None:
        yield request.cache
        return
    with tempfile.TemporaryDirectory(prefix=".data-", dir=request.out) as temporary:
        yield Path(temporary)


def _scaling(stem: str, request: Request) -> page.Section:
    log = Log(request.out / f"{stem}.jsonl", resume=request.resume, same=scaling.SAME)
    study = scaling.Study(log, request.say, request.threads, request.seed)
    sweep = scaling.TINY if request.size.tiny else scaling.Sweep()
    for step in scaling.STUDIES:
        step(study, sweep)
    names = list(dict.fromkeys(result["study"] for result in study.results))
    files = [_write_study(study, name, stem, request.out) for name in names]
    return page.Section(
        stem,
        TITLES["scaling"],
        request.command,
        summary.machine(request.threads),
        scaling_claims.findings(study),
        scaling_claims.tables(study),
        drawing.scaling(study, stem, request.out),
        files,
    )


def _write_study(study: scaling.Study, name: str, stem: str, folder: Path) -> str:
    rows = study.rows(name)
    columns = [c for c in dict.fromkeys(key for row in rows for key in row) if c not in ("study", "setting", "status")]
    file = f"{stem}-{name.replace(' ', '-')}.csv"
    summary.write_csv(folder / file, rows, columns)
    return file
