"""Measurements: one process each, with its result written to the log at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.errors import OptionError
from vrpca.experiments.shared.datasets import Prepared
from vrpca.experiments.shared.log import Log, Result, Say
from vrpca.experiments.shared.truth import reference

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Conditions:
    """What all contenders have in common."""

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
    """A peer under a name of its own, with options that all its settings share."""

    name: str
    peer: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Session:
    """A series of measurements: their conditions, their log, the folder of prepared data, and who hears of progress."""

    conditions: Conditions
    log: Log
    cache: Path
    say: Say

    def optimum(self, data: Prepared, k: int) -> np.ndarray:
        """The k leading eigenvalues: from the cache, or computed. Large data take minutes."""
        return reference(data, k, self.cache, lambda: self.say(f"{data.name} k={k}: computing the true eigenvalues"))

    def measure(self, rival: Contender, setting: dict[str, Any], data: Prepared, k: int, optimum: np.ndarray) -> Result:
        """One measurement of a contender with one of its settings: from the log, or by a new process."""
        asked = self._asked(rival, setting, data, k)
        known = self.log.find(asked, self.conditions.timeout)
        if known is not None:
            return known
        job = asked | {"path": data.path, "sparse": data.sparse, "eigenvalues": [float(value) for value in optimum]}
        result = asked | {"load": load_average()} | launch(job)
        self.say(f"{data.name} k={k}  {rival.name} {setting or ''}: {outcome(result)}")
        self.log.add(result)
        return result

    def _asked(self, rival: Contender, setting: dict[str, Any], data: Prepared, k: int) -> Result:
        """What is measured: all that a reader of the result has to know."""
        return {
            "data": data.name,
            "key": data.key,
            "shape": list(data.shape),
            "nnz": data.nnz,
            "center": data.center,
            "k": k,
            "contender": rival.name,
            "peer": rival.peer,
            "setting": {**rival.options, **setting},
            **asdict(self.conditions),
        }


def load_average() -> float | None:
    """The mean number of processes that wanted a core in the last minute; None where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def launch(job: dict[str, Any]) -> Result:
    """Do a job in a new process; a failure is a result, too."""
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(job["threads"]))
    command = [sys.executable, "-m", "vrpca.experiments.bench.child"]
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
    """The last report of the process, which is the most complete; other output is skipped."""
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
