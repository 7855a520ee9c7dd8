"""The command line as a whole: its commands, its error messages and its exit codes.

Results go to stdout, progress and warnings to stderr. Exit codes: 0 done, 1 not converged or check failed, 2 bad input,
130 interrupted by Ctrl-C, 141 the reader of the output has left, 143 terminated by SIGTERM.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import vrpca
from vrpca.cli.check import check
from vrpca.cli.fit import fit
from vrpca.cli.info import info
from vrpca.cli.report import report
from vrpca.cli.shared import (
    BAD_INPUT,
    DONE,
    EXPERIMENTS,
    INTERRUPTED,
    READER_GONE,
    TERMINATED,
    complain,
    sigterm_as_ctrl_c,
)
from vrpca.cli.stdin import AFTERWARDS
from vrpca.cli.transform import transform

# The base class of the parser's errors: click.ClickException up to typer 0.25. Since 0.26, typer contains a copy of
# click, and this class has no public name.
PARSER_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Principal components of large matrices, to the accuracy you ask for, with a certificate.",
)


class _Forwarding(TyperCommand):
    """A command that takes its arguments as they are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = args
        return args


def _experiment(ctx: typer.Context) -> Any:
    """Run a command that `vrpca.experiments` declares, with its options. Nothing of that is imported before."""
    module = import_module(f"vrpca.experiments.{ctx.info_name}.command_line")
    return module.app(args=ctx.args, prog_name=ctx.command_path, standalone_mode=False)


def _short(about: str) -> str:
    """The beginning of a command's help, for the list of commands."""
    return re.split("[:.]", about)[0] + "."


for command in (fit, transform, check, info, report):
    app.command(epilog=import_module(command.__module__).EXAMPLES, short_help=_short(command.__doc__ or ""))(command)
for name, about in EXPERIMENTS.items():
    app.command(name, cls=_Forwarding, help=about, short_help=_short(about))(_experiment)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    _mend_streams()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _mend_streams() -> None:
    """Let everything be printed: nowhere if a stream is closed, and with escapes if stdout cannot encode a name."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (open to the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. A foreseeable error becomes one line on stderr."""
    with sigterm_as_ctrl_c() as terminated, AFTERWARDS:
        code = _run(arguments)
        if code in (INTERRUPTED, TERMINATED):
            return _interrupted(TERMINATED if terminated() else code)
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        code = int(app(args=list(arguments), prog_name="vrpca", standalone_mode=False) or DONE)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as left:  # the parser's answer to a broken pipe is an exit with code 1
        if isinstance(left.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    except (KeyboardInterrupt, typer.Abort):  # some versions of typer return the code themselves
        return INTERRUPTED
    except OSError as error:
        if error.filename is not None:
            return complain(str(error), BAD_INPUT)
        _discard(sys.stdout)
        return complain(f"the output cannot be written: {error.strerror}. Make room, or send it elsewhere.", BAD_INPUT)
    except (ValueError, MemoryError, ImportError) as error:
        return complain(str(error) or type(error).__name__, BAD_INPUT)
    except PARSER_ERROR as error:
        return complain(error.format_message(), BAD_INPUT)


def _reader_gone() -> int:
    """Leave without a word: nobody reads it."""
    for stream in (sys.stdout, sys.stderr):
        _discard(stream)
    return READER_GONE


def _discard(stream: Any) -> None:
    """Send the rest of a stream nowhere: Python flushes it once more at its exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _interrupted(code: int) -> int:
    """Report Ctrl-C or SIGTERM."""
    return complain("terminated." if code == TERMINATED else "interrupted.", code)


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
    """Options before the command."""
