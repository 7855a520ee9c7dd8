"""The command line as a whole: its commands, its error messages and its exit codes.

Results go to stdout, progress and warnings to stderr. Exit codes: 0 done, 1 not converged or check failed, 2 bad input,
130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import vrpca
from vrpca.cli.bench import app as bench
from vrpca.cli.check import check
from vrpca.cli.fit import fit
from vrpca.cli.reproduce import reproduce
from vrpca.cli.shared import BAD_INPUT, DONE, FAILED, INTERRUPTED, complain
from vrpca.cli.transform import transform

# The base class of the parser's errors: click.ClickException up to typer 0.25. Since 0.26, typer contains a copy of
# click, and this class has no public name.
PARSER_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Principal components of large matrices, to the accuracy you ask for, with a certificate.",
)
for command in (fit, transform, check, reproduce):
    app.command()(command)
app.add_typer(bench, name="bench")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. A foreseeable error becomes one line on stderr."""
    try:
        code = int(app(args=list(arguments), prog_name="vrpca", standalone_mode=False) or DONE)
        sys.stdout.flush()
        return _interrupted() if code == INTERRUPTED else code
    except BrokenPipeError:
        # The reader of our output is gone. Python flushes stdout once more at its exit: that has to go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except (ValueError, OSError, MemoryError, ImportError) as error:
        return complain(str(error) or type(error).__name__, BAD_INPUT)
    except PARSER_ERROR as error:
        return complain(error.format_message(), BAD_INPUT)


def _interrupted() -> int:
    """Report Ctrl-C. Some versions of typer raise it, others return the code 130."""
    return complain("interrupted.", INTERRUPTED)


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
