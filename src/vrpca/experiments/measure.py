"""Measurements, one process each, written down as they come: an interrupted series goes on where it stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files import written_whole
from vrpca.errors import DataError, OptionError
from vrpca.experiments.datasets import Prepared
from vrpca.experiments.truth import reference

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
SAME = (
    "key",
    "center",
    "k",
    "contender",
    "setting",
    "threads",
    "seed",
    "dtype",
)  # what makes two measurements the same
FINAL = ("timeout", "killed")  # a more exact setting would need more time or memory still
Result = dict[str, Any]
Say = Callable[[str], None]


def teller(quiet: bool) -> Say:
    """Lines of progress to stderr, or to nobody."""
    return (lambda line: None) if quiet else lambda line: print(line, file=sys.stderr, flush=True)


def made_folder(path: Path) -> Path:
    """The folder, made if need be, or an error that says what to do."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path} cannot be made a folder ({error.strerror}): name another one.") from error
    return path


@dataclass(frozen=True)
class Conditions:
    """What is the same for all contenders."""

    threads: int
    repeats: int = 3
    timeout: float = 120.0
    seed: int = 0
    dtype: str | None = None

    def __post_init__(self) -> None:
        if self.threads < 1 or self.repeats < 1 or not self.timeout > 0:
            raise OptionError(
                f"threads = {self.threads}, repeats = {self.repeats}, timeout = {self.timeout:g}: all must be positive."
            )


@dataclass(frozen=True)
class Contender:
    """A peer with options that all its settings share, under a name of its own."""

    name: str
    peer: str
    options: dict[str, Any] = field(default_factory=dict)


class Log:
    """The results so far: in memory and, if there is a file, in JSON lines that are appended as they come.

    Parameters
    ----------
    path : path or None
        The file.
    resume : bool
        Whether to go on from what the file holds; without it, a file that exists is an error.
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
        """The results in a file; a last line that was cut off is removed, the newest of the same measurement counts."""
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


@dataclass(frozen=True)
class Session:
    """A series of measurements: under which conditions, written down where, prepared where, and told to whom."""

    conditions: Conditions
    log: Log
    cache: Path
    say: Say

    def optimum(self, data: Prepared, k: int) -> np.ndarray:
        """The k leading eigenvalues: known, or computed, which takes minutes where the data are large."""
        return reference(data, k, self.cache, lambda: self.say(f"{data.name} k={k}: computing the true eigenvalues"))

    def measure(self, rival: Contender, rung: dict[str, Any], data: Prepared, k: int, optimum: np.ndarray) -> Result:
        """One measurement of a contender with one of its settings: from the log, or by a process of its own."""
        asked = self._asked(rival, rung, data, k)
        known = self.log.find(asked, self.conditions.timeout)
        if known is not None:
            return known
        job = asked | {"path": data.path, "sparse": data.sparse, "eigenvalues": [float(value) for value in optimum]}
        result = asked | {"load": load_average()} | launch(job)
        self.say(f"{data.name} k={k}  {rival.name} {rung or ''}: {outcome(result)}")
        self.log.add(result)
        return result

    def _asked(self, rival: Contender, rung: dict[str, Any], data: Prepared, k: int) -> Result:
        """What is measured: everything that a reader of the result has to know."""
        return {
            "data": data.name,
            "key": data.key,
            "shape": list(data.shape),
            "nnz": data.nnz,
            "center": data.center,
            "k": k,
            "contender": rival.name,
            "peer": rival.peer,
            "setting": {**rival.options, **rung},
            **asdict(self.conditions),
        }


def load_average() -> float | None:
    """How many processes wanted a core during the last minute; None where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def launch(job: dict[str, Any]) -> Result:
    """Do a job in a fresh process; whatever becomes of it is a result."""
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(job["threads"]))
    command = [sys.executable, "-m", "vrpca.experiments.child"]
    try:
        done = subprocess.run(
            command, input=json.dumps(job).encode(), capture_output=True, env=environment, timeout=job["timeout"]
        )
    except subprocess.TimeoutExpired as expired:
        late = {"status": "timeout", "message": f"not done after {job['timeout']:g} s"}
        return _last_line(expired.stdout or b"") or late
    found = _last_line(done.stdout)
    if found is not None:
        return found
    if done.returncode < 0:
        return {"status": "killed", "message": f"ended by signal {-done.returncode}"}
    return {"status": "error", "message": _tail(done.stderr) or f"exit code {done.returncode}"}


def _last_line(output: bytes) -> Result | None:
    """The most complete report of the process; other things may have been printed in between."""
    for line in reversed(output.decode(errors="replace").splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "status" in found:
            return found
    return None


def _tail(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def outcome(result: Result) -> str:
    """One line about a result."""
    if result["status"] != "ok":
        return f"{result['status']} ({result['message']})"
    passes = "" if result["passes"] is None else f", {result['passes']:.4g} passes"
    return f"{result['seconds']:.3g} s{passes}, {result['memory'] / 2**20:.0f} MB, suboptimality {result['truth']:.1e}"
