"""What the commands share: exit codes, declarations of arguments and options, checks of outputs, messages on stderr."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from vrpca.cli.stdin import from_stdin
from vrpca.cli.words import in_options
from vrpca.data.files import split_name
from vrpca.data.open import from_path
from vrpca.data.source import Source
from vrpca.errors import OptionError
from vrpca.score_files import STDOUT
from vrpca.solvers import SOLVERS

CHOICES = {  # of options that name one of a few things
    "solver": ("auto", *SOLVERS),
    "cost": ("auto", "time", "reading", "passes"),
    "certificate": ("estimated", "probabilistic"),
}
DONE, FAILED, BAD_INPUT = 0, 1, 2
INTERRUPTED, READER_GONE, TERMINATED = 130, 141, 143  # 128 and the number of SIGINT, SIGPIPE and SIGTERM, as in shells
EXPERIMENTS = {
    "reproduce": "Run the paper's experiments: curves as CSV, figures, and a page with a verdict on every claim.",
    "bench": "Measure this package: against its peers, its growth, its passes.",
}

Data = Annotated[
    str,
    typer.Argument(
        help="The data, samples in rows: a file (.npy, .npz, .csv, .parquet, .arrow, .h5, .h5ad, .mtx, .bed, "
        ".svmlight), a .zarr folder, a folder or 'pattern*' of files, an address (s3://...), or - for stdin. "
        "FILE::NAME names one of several matrices in a file."
    ),
]


def choice(name: str, about: str) -> Any:
    """The declaration of an option that names one of a few things: help, usage and shell completion list them."""
    words = CHOICES[name]
    return typer.Option(help=about, metavar="|".join(words), autocompletion=lambda: list(words))


Solver = Annotated[str, choice("solver", "How to find the components.")]
Cost = Annotated[str, choice("cost", "What to save.")]
Kind = Annotated[str, choice("certificate", "What the certificate rests on.")]
Model = Annotated[Path, typer.Argument(help="A model that `vrpca fit --out` wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
SCORES_HELP = (
    "Write the scores, one row per sample, to this file: .npy, .csv, .tsv, .parquet or .h5ad by its suffix, with the "
    "names of the samples where they are known; - for text on stdout."
)
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no warnings.")]
Memory = Annotated[str | None, typer.Option(help="Memory that the fit may take, such as 2GB, 500MB or 1GiB.")]
ScaleGenotypes = Annotated[
    bool, typer.Option("--scale-genotypes", help="For .bed: divide each variant by sqrt(2 p (1 - p)), p its frequency.")
]
ScaledAsFitted = Annotated[
    bool,
    typer.Option(
        "--scale-genotypes",
        help="Not needed: .bed files are scaled as in the fit, by its frequencies. An error if the fit did not scale.",
    ),
]
Threads = Annotated[int | None, typer.Option(help="Threads of the products; all cores by default.")]
File = tuple[str, Path | str | None]  # the argument or option for a file, such as "--out", and its path if it was given


def hushed(quiet: bool, as_json: bool, scores: Path | None) -> bool:
    """Whether to be quiet: on demand, or if scores take up stdout, so that stderr is for the JSON object alone."""
    return quiet or (as_json and scores == STDOUT)


def complain(message: str, code: int) -> int:
    """Print a message as one line on stderr and return the exit code. An empty message prints nothing."""
    line = in_options(" ".join(message.split()))
    if line:
        with suppress(OSError):  # a full or closed stderr does not change the exit code
            print(f"vrpca: {line}", file=sys.stderr)
    return code


@contextmanager
def warnings_on_stderr(quiet: bool) -> Iterator[None]:
    """Print each different warning for users once, as one line on stderr. With `quiet`, print none."""
    shown = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            complain(f"warning: {message}", DONE)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not quiet:
            warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


class _Notices(logging.Handler):
    """Prints what the package logs, as lines on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage(), DONE)


def open_input(data: str, quiet: bool = False, limited: bool = False, scale_genotypes: bool = False) -> Source:
    """Open the data; say on stderr if they are converted, unless `quiet`. Where memory is limited, load nothing yet."""
    with warnings_on_stderr(quiet), notices_on_stderr(quiet):
        data = from_stdin() if data == "-" else data
        return from_path(data, limited, "genotype" if scale_genotypes else None)


@contextmanager
def notices_on_stderr(quiet: bool) -> Iterator[None]:
    """Print what the package logs as lines on stderr. With `quiet`, print nothing."""
    log, notices = logging.getLogger("vrpca"), _Notices(logging.INFO)
    level = log.level
    log.addHandler(notices)
    log.setLevel(logging.CRITICAL if quiet else logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(notices)
        log.setLevel(level)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Handle SIGTERM like Ctrl-C within a ``with`` block; yield a function that says whether it has come."""
    came: list[int] = []

    def handle(number: int, frame: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only that one may handle signals
        yield lambda: False
        return
    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGTERM, before)


def check_outputs(outputs: Sequence[File], inputs: Sequence[File]) -> None:
    """Raise if an output is the same file as an input or as an earlier output. Call this before any work.

    The files are compared, not their names: links and relative paths make no difference.

    Examples
    --------
    >>> check_outputs([("--out", Path("model.npz"))], [("DATA", Path("data.npy"))])
    >>> check_outputs([("--out", Path("data.npy"))], [("DATA", Path("./data.npy"))])
    Traceback (most recent call last):
    vrpca.errors.OptionError: --out data.npy would replace DATA data.npy: it is the same file. Name another --out.
    """
    taken = [(name, path) for name, path in inputs if path is not None]
    for name, path in outputs:
        if path is None or path == STDOUT:
            continue
        for other_name, other_path in taken:
            if _same_file(path, other_path):
                raise OptionError(
                    f"{name} {path} would replace {other_name} {other_path}: it is the same file. Name another {name}."
                )
        taken.append((name, path))


def _same_file(one: Path | str, other: Path | str) -> bool:
    one, other = (split_name(Path(path))[0] for path in (one, other))
    try:
        return os.path.samefile(one, other)
    except OSError:  # at least one of the files does not exist yet
        return os.path.realpath(one) == os.path.realpath(other)
