"""One contender, one setting, one process: load the data, solve, time it, and judge the answer.

``python -m vrpca.experiments.bench.child`` reads a job (one JSON object) from standard input. It prints what it found,
one JSON object per line, each more complete than the one before: the parent can stop waiting after any of them.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.experiments.bench.peers import PEERS, Answer, Peer, Setting, Task, count, small_task, solve
from vrpca.experiments.shared.datasets import UNCENTRED, load
from vrpca.experiments.shared.truth import suboptimality

LONG_ENOUGH = 20.0  # seconds, after which no repeat is begun: fits that take long vary little
SHORT, MOST = 1.0, 50  # seconds in which short fits are repeated more often than asked for, and how often: they vary


def main() -> None:
    """Do the job on standard input."""
    job = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    try:
        run(job)
    except Exception as error:  # whatever a peer raises is its result
        _say({"status": "error", "message": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]})


def run(job: dict[str, Any]) -> None:
    """Load, warm up, time, judge, count."""
    peer, setting, seed = PEERS[job["peer"]], job["setting"], job["seed"]
    X = load(job["path"], job.get("dtype"))
    task = Task(tuple(X.shape), job["sparse"], job["center"], job["k"])
    _warm_up(peer, task, setting, job["threads"])
    answer, found = _timed(peer, X, task, job)
    eigenvalues = np.array(job["eigenvalues"])
    found["truth"] = suboptimality(X, answer.Vt.T, task.center != UNCENTRED, eigenvalues)
    found |= {"status": "ok", "passes": answer.passes} | answer.notes
    _say(found)
    if answer.passes is None:
        _say(found | {"passes": count(peer, X, task, setting, seed)})


def _warm_up(peer: Peer, task: Task, setting: Setting, threads: int) -> None:
    """A first call on a small matrix: imports and the start of threads are not to be timed."""
    X, small = small_task(task)
    with suppress(ValueError, RuntimeError):  # the setting may not fit a small matrix
        solve(peer, X, small, setting, threads, 0)


def _timed(peer: Peer, X: Any, task: Task, job: dict[str, Any]) -> tuple[Answer, dict[str, Any]]:
    """The answer, the best time of a few runs, and the peak memory of the first run."""
    times: list[float] = []
    baseline = reset_peak()
    memory = 0
    while _again(times, job["repeats"]):
        began = time.perf_counter()
        answer = solve(peer, X, task, job["setting"], job["threads"], job["seed"])
        times.append(time.perf_counter() - began)
        memory = memory or max(peak() - baseline, 1)
    return answer, {"seconds": min(times), "times": times, "memory": memory}


def _again(times: list[float], repeats: int) -> bool:
    """Whether to run once more. Who asks for one run gets one."""
    seconds = sum(times)
    if len(times) < repeats:
        return seconds < LONG_ENOUGH
    return repeats > 1 and seconds < SHORT and len(times) < MOST


def limit_memory() -> None:
    """Let this process fail when it needs more memory than is free, rather than bring the machine down (Linux)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024
    except (OSError, StopIteration):
        return
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (free, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def reset_peak() -> int:
    """Forget the peak of the memory so far, where the system can (Linux); return the memory in use, in bytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except (OSError, StopIteration):
        return peak()


def peak() -> int:
    """Peak of the memory in use, in bytes."""
    try:
        return _status("VmHWM")
    except (OSError, StopIteration):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def _say(found: dict[str, Any]) -> None:
    print(json.dumps(finite(found), default=float, allow_nan=False), flush=True)


def finite(value: Any) -> Any:
    """The value with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    limit_memory()
    main()
