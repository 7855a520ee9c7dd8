"""The reference of the command line, made from the commands themselves: arguments, options, defaults and exit codes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from vrpca.cli.app import app
from vrpca.cli.shared import EXPERIMENTS

# What `--json` prints, by command.
JSON = {
    "fit": "data model scores plot components n_samples n_features solver reason status converged passes seconds tol "
    "certificate",
    "transform": "model data scores n_samples n_components dtype",
    "check": "model data components ok verdict at_least mean_deviation passes tol certificate",
    "info": "data shape dtype sparse entries density size_on_disk row_names column_names reading solver reason "
    "memory what available smallest_limit passes bytes_read",
    "report": "model data page bytes",
}

HEAD = """# Command line

This page is made from the commands themselves: `vrpca COMMAND --help` says the same.

## Streams and exit codes

Results go to stdout, progress and warnings to stderr. If the scores go to stdout (`--scores -`, `transform --out -`),
the table or the JSON object goes to stderr. With `--json` it is the only thing there then, as if `--quiet` was given.

| exit code | when |
| --- | --- |
| 0 | all went well |
| 1 | a fit did not converge, or a check failed |
| 2 | bad input: one line on stderr says what, and what to do |
| 130 | after Ctrl-C |
| 141 | the reader of the output has left, as `head` does |
| 143 | after SIGTERM |

An old output is replaced, but never an input of the same command.

`DATA` may be `-`, for stdin: `.npy`, `.npz`, `.parquet`, `.arrow`, `.h5`, `.h5ad`, MatrixMarket, CSV and TSV; the last
three may be compressed with gzip. What it is shows in its first bytes; what has no mark of its own is taken for CSV or
TSV. It is copied to a temporary file (`TMPDIR` says where), which is removed at the end, with whatever it was
converted to.

Tables and progress bars on a terminal have colours and bold letters, unless the variable `NO_COLOR` is set.

## JSON

`--json` prints one object. Numbers that are infinite or not known are `null`.

| command | fields |
| --- | --- |
%s

`components` is a list with one object per component: `variance` (`fit` only), `ratio` (its part of the variance),
`cumulative` (the sum of the ratios so far) and `residual`. `certificate` has `kind`, `suboptimality` (the bound) and
`mu`, as `vrpca.Certificate` has them. Sizes are in bytes.
"""


def write(path: Path) -> None:
    """Write the page, unless the file has it already: an unchanged file is not built again."""
    text = page()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def page() -> str:
    """The whole page."""
    fields = "\n".join(f"| `{name}` | {', '.join(f'`{each}`' for each in JSON[name].split())} |" for name in JSON)
    return "\n".join([HEAD % fields, *(section(name, command) for name, command in commands())])


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name, those of groups included; the program itself comes first."""
    yield from _walk("vrpca", typer.main.get_command(app))


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for part, inner in getattr(command, "commands", {}).items():  # only groups have commands
        if part in EXPERIMENTS:  # declared elsewhere, and imported when they are called
            inner = typer.main.get_command(import_module(f"vrpca.experiments.{part}.command_line").app)
        yield from _walk(f"{name} {part}", inner)


def section(name: str, command: Any) -> str:
    """The section of one command."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    shown = [f"[{each.name.upper()}]" if not each.required else each.name.upper() for each in arguments]
    usage = " ".join([name, *(["COMMAND"] if hasattr(command, "commands") else []), *shown, "[OPTIONS]"])
    parts = [f"## {name}\n", _escaped(inspect.cleandoc(command.help or "")) + "\n", f"```console\n{usage}\n```\n"]
    if arguments:
        parts.append(_table("argument", [(f"`{each.name.upper()}`", each.help, "") for each in arguments]))
    if options:
        parts.append(_table("option", [(_names(each), each.help, _default(each)) for each in options]))
    return "\n".join(parts)


def _table(what: str, rows: list[tuple[str, str | None, str]]) -> str:
    lines = [f"| {name} | {_escaped(about or '')} | {default} |" for name, about, default in rows]
    return "\n".join([f"| {what} | what it is | default |", "| --- | --- | --- |", *lines, ""])


def _names(option: Any) -> str:
    """All names of an option, the form that turns it off included."""
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _default(option: Any) -> str:
    """The default of an option in words."""
    if option.required:
        return "required"
    if option.default is None or (option.is_flag and not option.secondary_opts):
        return ""
    if option.is_flag:
        return f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    return f"`{option.default}`"


def _escaped(text: str) -> str:
    """Text for a cell of a table, in which stars and bars have no meaning of their own."""
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")
