"""What the commands share: exit codes, declarations of arguments and options, and messages on stderr."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

Data = Annotated[Path, typer.Argument(help="The data, samples in rows: a .npy file, or a .npz file (dense or sparse).")]
Model = Annotated[Path, typer.Argument(help="A model that `vrpca fit --out` wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no warnings.")]
Threads = Annotated[int | None, typer.Option(help="Threads of the products; all cores by default.")]


def complain(message: str, code: int) -> int:
    """Print a message as one line on stderr and return the exit code. An empty message prints nothing."""
    line = " ".join(message.split())
    if line:
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
