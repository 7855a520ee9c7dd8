"""The log: results are written down as they come, so that an interrupted series goes on where it stopped."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vrpca.data.files.paths import written_whole
from vrpca.errors import DataError, OptionError

# Two results of the benchmark are of the same measurement if these entries agree.
SAME = ("key", "center", "k", "contender", "setting", "threads", "seed", "dtype")
FINAL = ("timeout", "killed")  # after these, no more exact setting is tried: it would need even more time or memory
REPORTS = (".csv", ".json", ".jsonl", ".md", ".png", ".svg")  # endings of the files that a command writes to --out
Result = dict[str, Any]
Say = Callable[[str], None]


def teller(quiet: bool) -> Say:
    """Where lines of progress go: to stderr, or nowhere."""
    return (lambda line: None) if quiet else lambda line: print(line, file=sys.stderr, flush=True)


def made_folder(path: Path) -> Path:
    """The folder, created if it is not there; else an error that says what to do."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path} cannot be made a folder ({error.strerror}): name another one.") from error
    return path


def reports_in(folder: Path | None, names: Sequence[str]) -> list[tuple[str, Path]]:
    """The existing files in the folder --out that a command may replace. Their names begin with one of `names`."""
    if folder is None or not folder.is_dir():
        return []
    files = sorted(path for path in folder.iterdir() if path.suffix in REPORTS and path.name.startswith(tuple(names)))
    return [("--out", path) for path in files]


class Log:
    """The results so far: in memory and, if there is a file, as JSON lines that are appended one by one.

    Parameters
    ----------
    path : path or None
        The file.
    resume : bool
        Whether to go on from what the file holds; otherwise a file that exists is an error.
    same : sequence of str
        The entries in which two results of the same measurement agree.
    """

    def __init__(self, path: Path | None = None, *, resume: bool = False, same: Sequence[str] = SAME):
        self.path, self.same = path, same
        self.results: list[Result] = []
        if path is not None and path.exists():
            if not resume:
                raise OptionError(f"{path} holds an earlier run: pass --resume to go on with it, or another --out.")
            self.results = self._read(path)
        self._known = {self._identity(result): result for result in self.results}

    def find(self, wanted: Result, timeout: float = 0.0) -> Result | None:
        """An earlier result of the same measurement that need not be repeated."""
        known = self._known.get(self._identity(wanted))
        if known is None or known["status"] == "error" or (known["status"] in FINAL and known["timeout"] < timeout):
            return None
        return known

    def add(self, result: Result) -> None:
        """Write a result down."""
        identity = self._identity(result)
        self.results = [r for r in self.results if self._identity(r) != identity] + [result]
        self._known[identity] = result
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(result) + "\n")

    def _read(self, path: Path) -> list[Result]:
        """The results in a file. A last line that was cut off is removed; of equal measurements the last one counts."""
        results: dict[str, Result] = {}
        lines = path.read_text().splitlines(keepends=True)
        for number, line in enumerate(lines):
            try:
                result = json.loads(line)
                results[self._identity(result)] = result
            except (ValueError, KeyError, TypeError) as error:
                if number < len(lines) - 1:
                    raise DataError(
                        f"Line {number + 1} of {path} is not a result ({error}): use another --out."
                    ) from None
                with written_whole(path) as temporary:
                    temporary.write_text("".join(lines[:-1]))
        return list(results.values())

    def _identity(self, result: Result) -> str:
        return json.dumps([result[name] for name in self.same], sort_keys=True)
