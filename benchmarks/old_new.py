"""Two installed versions of the package, compared on the same machine at the same time: seconds and peak memory.

    python benchmarks/old_new.py OLD_PYTHON NEW_PYTHON [--data FOLDER] [--repeats N] [--threads N] [--only WORD]

OLD_PYTHON and NEW_PYTHON are the interpreters of two environments that hold a version each. FOLDER has mnist.npz,
rcv1.npz and news20.npz; without it, only generated data are used. Only the public interface is called.

Seconds: each version has one process, which loads the data of a case and stays. The two fit in turns (old, new, old,
new, ...), so that other work on the machine hits both. The best time of each counts. The median of the ratios within
a turn stands beside the ratio of the best times: where the two disagree, the machine was too busy to tell.

Memory: every figure comes from a process of its own. It is the peak of the resident memory above what was resident
before the fit; the lowest of a few processes counts. Freed arrays go back to the system at once
(MALLOC_MMAP_THRESHOLD_), so that the figure is what the code holds and not what the allocator keeps. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TOL = 1e-6  # the middle one of the targets that `vrpca bench` has
PROCESSES = 3  # per version and figure of memory
VR_PASSES = 12  # of a fit with `vr` whose memory is measured: the peak comes with the first epochs
EPOCHS = (2, 4)  # records of `vr` between which the memory of an epoch is measured: past the start, long before the end
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # bytes; numpy's small arrays stay below, all that matter are above
MEGABYTE = 2**20


@dataclass(frozen=True)
class Case:
    """A data set, the number of components, and whether the columns are centred."""

    name: str
    data: str
    k: int
    center: bool


CASES = (
    Case("MNIST, k = 6", "mnist", 6, True),
    Case("RCV1, k = 3", "rcv1", 3, False),
    Case("RCV1, k = 30", "rcv1", 30, False),
    Case("news20, k = 6", "news20", 6, False),
    Case("generated dense, k = 10", "dense", 10, True),
    Case("generated sparse, k = 5", "sparse", 5, True),
)
MEMORY = ("fit, accelerated", "fit, vr", "epoch, vr")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD_PYTHON")
    parser.add_argument("new", metavar="NEW_PYTHON")
    parser.add_argument("--data", type=Path, help="folder with mnist.npz, rcv1.npz and news20.npz")
    parser.add_argument("--repeats", type=int, default=15, help="timed fits of each version, per case")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of both versions")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    options = parser.parse_args()
    pythons = (options.old, options.new)
    cases = [case for case in CASES if options.only in case.name and available(case, options.data)]
    for python in pythons:
        print(f"{python}: {description(python)}")
    print(f"{options.threads} threads, best of {options.repeats}, tol {TOL:g}\n")
    line("seconds of a fit", "old", "new", "new/old", "median", "passes")
    for case in cases:
        line(case.name, *timed(pythons, case, options))
    print()
    line("peak memory, MB", "old", "new", "new/old")
    for case in cases:
        for what in MEMORY:
            line(f"{case.name}: {what}", *compared_memory(pythons, case, what, options))


def line(what: str, *cells: str) -> None:
    """Print a row of a table."""
    print(f"{what:44}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def description(python: str) -> str:
    """Which version an interpreter has, and where."""
    code = "import vrpca; print(vrpca.__version__, vrpca.__file__)"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def available(case: Case, folder: Path | None) -> bool:
    """Whether the data of a case are there; generated data always are."""
    return case.data in GENERATED or (folder is not None and (folder / f"{case.data}.npz").exists())


# ---------------------------------------------------------------------------------------------------------- parent


class Child:
    """A process with one of the versions, which holds the data of a case."""

    def __init__(self, python: str, case: Case, options: argparse.Namespace, environment: dict[str, str]):
        self.python = python
        job = {"case": asdict(case), "folder": str(options.data), "threads": options.threads}
        threads = dict.fromkeys(THREAD_VARIABLES, str(options.threads))
        self.process = subprocess.Popen(
            [python, __file__, "--child", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | threads | environment,
        )

    def ask(self, what: str) -> dict[str, float]:
        """The child's answer to one request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.python} ended without an answer to {what!r}.")
        found: dict[str, float] = json.loads(answer)
        return found

    def end(self) -> None:
        """Let the child go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def timed(pythons: tuple[str, str], case: Case, options: argparse.Namespace) -> tuple[str, ...]:
    """Cells of a row: best seconds of both, their ratio, the median ratio, and the passes of both."""
    children = [Child(python, case, options, {}) for python in pythons]
    warm = [child.ask("time") for child in children]
    turns = [[child.ask("time")["seconds"] for child in children] for _ in range(options.repeats)]
    for child in children:
        child.end()
    old, new = (min(seconds) for seconds in zip(*turns, strict=True))
    median = statistics.median(after / before for before, after in turns)
    passes = " ".join(f"{found['passes']:.4g}" for found in warm)
    return f"{old:.4f}", f"{new:.4f}", f"{new / old:.3f}", f"{median:.3f}", passes


def compared_memory(
    pythons: tuple[str, str], case: Case, what: str, options: argparse.Namespace
) -> tuple[str, str, str]:
    """Cells of a row: the peaks of both, and their ratio."""
    found: dict[str, list[float]] = {python: [] for python in pythons}
    for _ in range(PROCESSES):
        for python in pythons:
            child = Child(python, case, options, MALLOC)
            found[python].append(child.ask(what)["bytes"])
            child.end()
    old, new = (min(found[python]) for python in pythons)
    return f"{old / MEGABYTE:.1f}", f"{new / MEGABYTE:.1f}", f"{new / old:.3f}"


# ----------------------------------------------------------------------------------------------------------- child


def child(job: dict[str, Any]) -> None:
    """Load the data of a case, then answer requests until there are no more."""
    warnings.simplefilter("ignore")  # `vr` may not converge in the passes that it gets
    case, threads = Case(**job["case"]), job["threads"]
    X = load(case.data, Path(job["folder"]))
    fit(X[:200], case, threads, max_passes=3)  # imports and thread pools are not what is measured
    for request in sys.stdin:
        print(json.dumps(ANSWERS[request.strip()](X, case, threads)), flush=True)


def fit(X: Any, case: Case, threads: int, **options: Any) -> Any:
    """One fit with the right vectors only, as the peers of `vrpca bench` are asked for."""
    import vrpca

    fixed: dict[str, Any] = {"center": case.center, "compute_u": False, "random_state": 0, "n_threads": threads}
    return vrpca.svd(X, case.k, **fixed, **{"tol": TOL, **options})


def seconds(X: Any, case: Case, threads: int) -> dict[str, float]:
    """Time of a fit with the default solver, and its passes."""
    began = time.perf_counter()
    found = fit(X, case, threads)
    return {"seconds": time.perf_counter() - began, "passes": found.n_passes}


def memory_of_accelerated(X: Any, case: Case, threads: int) -> dict[str, float]:
    """Peak of a fit with `accelerated`."""
    before = reset_peak()
    fit(X, case, threads, solver="accelerated")
    return {"bytes": peak() - before}


def memory_of_vr(X: Any, case: Case, threads: int) -> dict[str, float]:
    """Peak of a fit with `vr`."""
    before = reset_peak()
    fit(X, case, threads, solver="vr", tol=0, max_passes=VR_PASSES)
    return {"bytes": peak() - before}


def memory_of_epoch(X: Any, case: Case, threads: int) -> dict[str, float]:
    """Peak between two records of `vr`: what an epoch and its snapshot hold, the first pass and the end left out."""
    first, last = EPOCHS
    peaks: list[int] = []

    def watch(record: Any) -> bool:
        if record.epoch == first:
            reset_peak()
        if record.epoch == last:
            peaks.append(peak())
        return bool(record.epoch == last)

    before = reset_peak()
    fit(X, case, threads, solver="vr", tol=0, callback=watch)
    return {"bytes": peaks[0] - before}


ANSWERS: dict[str, Callable[[Any, Case, int], dict[str, float]]] = {
    "time": seconds,
    "fit, accelerated": memory_of_accelerated,
    "fit, vr": memory_of_vr,
    "epoch, vr": memory_of_epoch,
}


def reset_peak() -> int:
    """Forget the peak so far; return the resident memory."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def peak() -> int:
    """The peak of the resident memory."""
    return status("VmHWM")


def status(name: str) -> int:
    """An entry of the kernel's report on this process, in bytes."""
    report = Path("/proc/self/status").read_text().splitlines()
    return int(next(entry for entry in report if entry.startswith(name)).split()[1]) * 1024


# ------------------------------------------------------------------------------------------------------------ data


def load(name: str, folder: Path) -> Any:
    """The data of a name, in float32."""
    if name in GENERATED:
        return GENERATED[name]()
    import numpy as np
    import scipy.sparse as sp

    if name == "mnist":
        return np.load(folder / "mnist.npz")["X"].astype(np.float32)
    return sp.load_npz(folder / f"{name}.npz").tocsr().astype(np.float32)


def dense() -> Any:
    """50000 x 500, eigenvalues of the covariance falling like 1/i: 100 MB."""
    import numpy as np

    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((500, 500)))[0]
    mix = (basis / np.sqrt(np.arange(1, 501))[:, None]).astype(np.float32)
    return rng.standard_normal((50_000, 500), dtype=np.float32) @ mix


def sparse() -> Any:
    """50000 x 20000 with popular and rare columns, 60 draws per row: the shape of short texts, 24 MB."""
    import numpy as np
    import scipy.sparse as sp

    n, d, per_row = 50_000, 20_000, 60
    rng = np.random.default_rng(0)
    columns = np.minimum((d * rng.random(n * per_row) ** 4).astype(np.int32), d - 1)
    values = rng.random(n * per_row, dtype=np.float32)
    X = sp.csr_matrix((values, columns, np.arange(0, n * per_row + 1, per_row, dtype=np.int32)), shape=(n, d))
    X.sum_duplicates()
    return X


GENERATED: dict[str, Callable[[], Any]] = {"dense": dense, "sparse": sparse}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(json.loads(sys.argv[2]))
    else:
        main()
