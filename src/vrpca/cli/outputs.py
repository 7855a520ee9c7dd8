"""The check that no output of a command replaces one of its inputs or another output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from vrpca.errors import OptionError

File = tuple[str, Path | None]  # the argument or option for a file, such as "--out", and its path if it was given
REPORTS = (".csv", ".json", ".jsonl", ".md", ".png", ".svg")  # endings of the files in the --out of bench and reproduce


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
        if path is None:
            continue
        for other_name, other_path in taken:
            if _same_file(path, other_path):
                raise OptionError(
                    f"{name} {path} would replace {other_name} {other_path}: it is the same file. Name another {name}."
                )
        taken.append((name, path))


def _same_file(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # at least one of the files does not exist yet
        return os.path.realpath(one) == os.path.realpath(other)


def reports_in(folder: Path | None, names: Sequence[str]) -> list[File]:
    """The existing files in the folder --out that a command may replace.

    Parameters
    ----------
    folder : path or None
        The folder. It need not exist.
    names : sequence of str
        How the names of the command's files begin.
    """
    if folder is None or not folder.is_dir():
        return []
    files = sorted(path for path in folder.iterdir() if path.suffix in REPORTS and path.name.startswith(tuple(names)))
    return [("--out", path) for path in files]
