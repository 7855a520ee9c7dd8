"""The paper's algorithm by itself: accuracy per epoch, ratios of time to a yardstick in the same run, and memory.

usage: python benchmarks/foundation.py [--data DIR] [--repeats N]

DIR holds mnist.npz (pixels as X) and rcv1.npz (a sparse matrix as scipy saves it). Generated data of the same shape
stand in for a file that is absent, and the output says so. Times are the best of N repeats; the two sides of a ratio
are timed in turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

import vrpca
from vrpca import kernels
from vrpca.data.open import as_source
from vrpca.data.row_map import make_rows
from vrpca.data.view import Problem, View
from vrpca.linalg import aligned_zeros
from vrpca.options import Options
from vrpca.plan import block_width, solver_for
from vrpca.run import certificate_of
from vrpca.threads import blas_threads, n_threads

THREADS = n_threads(None)
console = Console(width=180)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("VRPCA_DATA", "data")))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--memory-child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_child:
        memory_child(rcv1(options.data), options.memory_child)
        return
    X, R = mnist(options.data), rcv1(options.data)
    warnings.simplefilter("ignore", ConvergenceWarning)
    console.print(f"vrpca {vrpca.__version__}, kernels {kernels.instruction_set()}, {THREADS} threads\n")
    accuracy(X, R)
    speed(X, R, options.repeats)
    memory(options.data)


# ---------------------------------------------------------------------------------------------------------- data


def mnist(folder: Path) -> np.ndarray:
    """MNIST as the paper prepares it: centred, divided by the deviation times sqrt(784), constant pixels 0."""
    file = folder / "mnist.npz"
    if not file.exists():
        console.print(f"{file} is absent: using generated data of MNIST's shape")
        rng = np.random.default_rng(0)
        mix = np.linalg.qr(rng.standard_normal((784, 784)))[0].astype(np.float32)
        return (rng.standard_normal((70000, 784), dtype=np.float32) * np.arange(1, 785, dtype=np.float32) ** -0.6) @ mix
    pixels = np.load(file)["X"].astype(np.float64)
    deviation = pixels.std(0)
    return ((pixels - pixels.mean(0)) / np.where(deviation > 0, deviation * 28, 1)).astype(np.float32)


def rcv1(folder: Path) -> sp.csr_matrix:
    """The RCV1 sample as it is."""
    file = folder / "rcv1.npz"
    if not file.exists():
        console.print(f"{file} is absent: using generated data of RCV1's shape")
        rng = np.random.default_rng(0)
        n, d, per_row = 27613, 47236, 78
        columns = np.minimum((d * rng.random(n * per_row) ** 4).astype(np.int32), d - 1)
        rows = np.repeat(np.arange(n, dtype=np.int32), per_row)
        values = rng.random(n * per_row, dtype=np.float32) / np.sqrt(per_row, dtype=np.float32)
        return sp.csr_matrix((values, (rows, columns)), shape=(n, d))
    return sp.csr_matrix(sp.load_npz(file))


# ------------------------------------------------------------------------------------------------------ accuracy


def accuracy(X: np.ndarray, R: sp.csr_matrix) -> None:
    """True suboptimality after each epoch of `vr`, with the default step, from a random start."""
    table = Table(title="vr, default step, random start: true suboptimality (certificate) by epoch")
    for column in ("data", "k", "type", *map(str, range(1, 9)), "first epoch <= 1e-9", "truth <= bound at the end"):
        table.add_column(column, justify="right")
    X64, R64 = X.astype(np.float64), R.astype(np.float64)
    dense_top = np.linalg.eigvalsh(X64.T @ X64)[::-1]
    sparse_top = np.sort(scipy.sparse.linalg.svds(R64, 8, return_singular_vectors=False))[::-1] ** 2
    cases = (("MNIST", X64, dense_top, 1), ("MNIST", X, dense_top, 1), ("MNIST", X64, dense_top, 6))
    cases += (("RCV1", R64, sparse_top, 1), ("RCV1", R, sparse_top, 1), ("RCV1", R64, sparse_top, 3))
    for name, data, top, k in cases:
        table.add_row(*accuracy_row(name, data, top[:k].sum(), k))
    console.print(table)


def accuracy_row(name: str, data: np.ndarray | sp.csr_matrix, optimum: float, k: int) -> list[str]:
    found = vrpca.svd(data, k, solver="vr", tol=1e-13 if k == 1 else 1e-9, max_passes=120, random_state=0)
    total = found.total_variance
    truth = [max(1 - record.objective * total / optimum, 0.0) for record in found.history]
    cells = [f"{t:.0e} ({r.bound:.0e})" for t, r in zip(truth[1:9], found.history[1:9], strict=False)]
    first = next((r.epoch for r in found.history if r.bound <= 1e-9), None)
    axes = np.linalg.qr(found.Vt.T.astype(np.float64))[0]  # in float32 the axes have length 1 only up to rounding
    final = max(1 - float((np.asarray(data @ axes) ** 2).sum()) / optimum, 0.0)
    cells += [""] * (8 - len(cells))
    honest = f"{final:.1e} <= {found.certificate.suboptimality:.1e}: {final <= found.certificate.suboptimality + 1e-14}"
    return [name, str(k), str(data.dtype), *cells, str(first), honest]


# --------------------------------------------------------------------------------------------------------- speed


def in_turns(repeats: int, *tasks: Callable[[], object]) -> list[float]:
    """Best time of each task. A few runs of each alternate, so that other work on the machine hits all of them."""
    best = [np.inf] * len(tasks)
    for _ in range(repeats):
        for t, task in enumerate(tasks):
            for _ in range(3):
                began = time.perf_counter()
                task()
                best[t] = min(best[t], time.perf_counter() - began)
    return best


def epoch_of(
    X: np.ndarray | sp.csr_matrix, k: int, oversample: int | None = None, center: bool = False
) -> Callable[[], object]:
    """One epoch of `vr` as a task: m = n steps, the snapshot, and the certificate."""
    problem = Problem(as_source(X), None, center, scale=False, n_threads=THREADS)
    first_pass = problem.first_pass()
    view = View.of(problem, first_pass.moments)
    solver = solver_for(Options(oversample=oversample), "vr", k, problem.source.entries, view.d)
    rng = np.random.default_rng(0)
    held = [solver.start(view, first_pass, rng)]  # a step frees the state that it was given, if nobody else holds it

    def task() -> object:
        with blas_threads(1):  # as in a run
            held.append(solver.step(view, held.pop(), rng))
        return certificate_of(held[0], k, view)

    for _ in range(2):
        task()
    return task


def fused_numpy_pass(X: np.ndarray, w: np.ndarray, rows: int = 1024) -> Callable[[], np.ndarray]:
    return lambda: sum(X[i : i + rows].T @ (X[i : i + rows] @ w) for i in range(0, len(X), rows))


def speed(X: np.ndarray, R: sp.csr_matrix, repeats: int) -> None:
    """The table of times: each task, its yardstick, their ratio, and the aim for it (docs/benchmarks.md)."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(X.shape[1]).astype(np.float32)
    v = rng.standard_normal(R.shape[1]).astype(np.float32)
    W8 = aligned_zeros((R.shape[1], 8), np.dtype(np.float32))
    W8[...] = rng.standard_normal(W8.shape)
    U8 = aligned_zeros(W8.shape, W8.dtype)
    rows = make_rows(R)
    table = Table(title=f"speed, best of {repeats}, both sides in turns")
    for column in ("what", "ms", "yardstick", "ms", "ratio", "limit"):
        table.add_column(column, justify="right")
    numpy_pass = ("fused NumPy pass over blocks", fused_numpy_pass(X, w))
    scipy_vector = ("scipy X.T @ (X @ w)", lambda: R.T @ (R @ v))
    scipy_block = ("scipy X.T @ (X @ W)", lambda: R.T @ (R @ W8))

    def fused_csr() -> None:
        kernels.product(rows, W8, U8, None, min(2, THREADS))

    lines = (
        ("MNIST epoch, k=1, float32", epoch_of(X, 1), *numpy_pass, "<= 2.6", False),
        ("the same, centred implicitly", epoch_of(X, 1, center=True), *numpy_pass, "", False),
        ("MNIST epoch, k=6", epoch_of(X, 6), *numpy_pass, "", False),
        ("RCV1 epoch, k=1, float32", epoch_of(R, 1), *scipy_vector, "<= 2.5", False),
        ("the same, centred implicitly", epoch_of(R, 1, center=True), *scipy_vector, "", False),
        ("RCV1 epoch, k=3, block of 3", epoch_of(R, 3, 0), *scipy_vector, "<= 6", False),
        ("RCV1 epoch, k=3, default block", epoch_of(R, 3), *scipy_vector, "", False),
        (
            "fused CSR pass, 8 columns, 2 threads",
            fused_csr,
            *scipy_block,
            ">= 4",
            True,
        ),
    )
    for what, task, yardstick, reference, limit, inverse in lines:
        ours, theirs = in_turns(repeats, task, reference)
        ratio = theirs / ours if inverse else ours / theirs
        table.add_row(what, f"{1e3 * ours:.2f}", yardstick, f"{1e3 * theirs:.2f}", f"{ratio:.2f}", limit)
    ours, theirs = in_turns(7, import_time("vrpca"), import_time("sklearn.decomposition"))
    ratio = ours / theirs
    table.add_row(
        "import vrpca",
        f"{1e3 * ours:.0f}",
        "import sklearn.decomposition",
        f"{1e3 * theirs:.0f}",
        f"{ratio:.2f}",
        "<= 1.3",
    )
    console.print(table)


def import_time(module: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


# -------------------------------------------------------------------------------------------------------- memory


def memory(folder: Path) -> None:
    """Peak extra memory of a centred sparse fit, in a new process, against 5 d l + n l floats."""
    command = [sys.executable, __file__, "--data", str(folder), "--memory-child"]
    for k in (1, 3, 14, 30):
        child = subprocess.run([*command, str(k)], check=True, capture_output=True, text=True)
        console.print(child.stdout.strip())


def memory_child(R: sp.csr_matrix, k: int) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    n, d = R.shape
    l = block_width(Options(), "vr", k, sparse=False)
    vrpca.svd(R[:100], 1, center=True, solver="vr", max_passes=5, compute_u=False)  # a first fit does all imports
    before = reset_peak()
    vrpca.svd(R, k, center=True, solver="vr", tol=0, max_passes=12, random_state=0, compute_u=False)
    extra = peak() - before
    limit = 4 * (5 * d * l + n * l)
    print(f"RCV1 centred, k={k}, l={l}: peak extra memory {extra / 2**20:.1f} MB,", end=" ")
    print(f"{extra / limit:.2f} times 5 d l + n l floats")


def reset_peak() -> int:
    """Forget the peak so far (Linux); return the resident memory."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def peak() -> int:
    return status("VmHWM")


def status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
