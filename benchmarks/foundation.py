"""The paper's algorithm by itself: accuracy per epoch, ratios of time to a yardstick in the same run, and memory.

usage: python benchmarks/foundation.py [--data DIR] [--repeats N] > docs/results/foundation/foundation.md

What it prints is a Markdown page, which docs/benchmarks.md shows. DIR holds mnist.npz (pixels as X) and rcv1.npz (a
sparse matrix as scipy saves it). Generated data of the same shape stand in for a file that is absent; the page says so.
Times are the best of N repeats; the two sides of a ratio are timed in turns.
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
from sklearn.exceptions import ConvergenceWarning

import vrpca
from vrpca import kernels
from vrpca.data.open import as_source
from vrpca.data.row_map import make_rows
from vrpca.data.view import Problem, View
from vrpca.experiments.shared.summary import Table, machine, page
from vrpca.linalg import aligned_zeros
from vrpca.options import Options
from vrpca.plan import block_width, solver_for
from vrpca.run import certificate_of
from vrpca.threads import blas_threads, n_threads

THREADS = n_threads(None)
EPOCHS = 8  # shown


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
    absent = [file for file in ("mnist.npz", "rcv1.npz") if not (options.data / file).exists()]
    about = f"`python benchmarks/foundation.py --data FOLDER --repeats {options.repeats}`"
    about += f", with generated data of the same shape for {' and '.join(absent)}" if absent else ""
    tables = [accuracy(X, R), speed(X, R, options.repeats), memory(options.data)]
    print(page("The foundation", about, machine(THREADS), tables, None))


# ---------------------------------------------------------------------------------------------------------- data


def mnist(folder: Path) -> np.ndarray:
    """MNIST as the paper prepares it: centred, divided by the deviation times sqrt(784), constant pixels 0."""
    file = folder / "mnist.npz"
    if not file.exists():
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
        rng = np.random.default_rng(0)
        n, d, per_row = 27613, 47236, 78
        columns = np.minimum((d * rng.random(n * per_row) ** 4).astype(np.int32), d - 1)
        rows = np.repeat(np.arange(n, dtype=np.int32), per_row)
        values = rng.random(n * per_row, dtype=np.float32) / np.sqrt(per_row, dtype=np.float32)
        return sp.csr_matrix((values, (rows, columns)), shape=(n, d))
    return sp.csr_matrix(sp.load_npz(file))


# ------------------------------------------------------------------------------------------------------ accuracy


def accuracy(X: np.ndarray, R: sp.csr_matrix) -> Table:
    """True suboptimality after each epoch of `vr`, with the default step, from a random start."""
    header = ("data", "k", *(f"epoch {epoch}" for epoch in range(1, EPOCHS + 1)), "first bound <= 1e-9", "in the end")
    X64, R64 = X.astype(np.float64), R.astype(np.float64)
    dense_top = np.linalg.eigvalsh(X64.T @ X64)[::-1]
    sparse_top = np.sort(scipy.sparse.linalg.svds(R64, 8, return_singular_vectors=False))[::-1] ** 2
    cases = (("MNIST", X64, dense_top, 1), ("MNIST", X, dense_top, 1), ("MNIST", X64, dense_top, 6))
    cases += (("RCV1", R64, sparse_top, 1), ("RCV1", R, sparse_top, 1), ("RCV1", R64, sparse_top, 3))
    rows = [accuracy_row(name, data, top[:k].sum(), k) for name, data, top, k in cases]
    return Table("Accuracy", header, rows)


def accuracy_row(name: str, data: np.ndarray | sp.csr_matrix, optimum: float, k: int) -> list[str]:
    found = vrpca.svd(data, k, solver="vr", tol=1e-13 if k == 1 else 1e-9, max_passes=120, random_state=0)
    total = found.total_variance
    truth = [max(1 - record.objective * total / optimum, 0.0) for record in found.history]
    shown = slice(1, EPOCHS + 1)
    cells = [f"{t:.0e} ({r.bound:.0e})" for t, r in zip(truth[shown], found.history[shown], strict=True)]
    first = next((r.epoch for r in found.history if r.bound <= 1e-9), None)
    axes = np.linalg.qr(found.Vt.T.astype(np.float64))[0]  # in float32 the axes have length 1 only up to rounding
    final = max(1 - float((np.asarray(data @ axes) ** 2).sum()) / optimum, 0.0)
    cells += [""] * (EPOCHS - len(cells))
    end = f"{final:.0e} ({found.certificate.suboptimality:.0e})"
    return [f"{name}, {data.dtype}", str(k), *cells, "never" if first is None else f"epoch {first}", end]


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
    solver = solver_for(Options(oversample=oversample), "vr", k, problem.source.entries, view.d, problem.source.sparse)
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


def speed(X: np.ndarray, R: sp.csr_matrix, repeats: int) -> Table:
    """Each task, its yardstick, their ratio, and the aim for it."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(X.shape[1]).astype(np.float32)
    v = rng.standard_normal(R.shape[1]).astype(np.float32)
    W8 = aligned_zeros((R.shape[1], 8), np.dtype(np.float32))
    W8[...] = rng.standard_normal(W8.shape)
    U8 = aligned_zeros(W8.shape, W8.dtype)
    csr = make_rows(R)
    numpy_pass = ("fused NumPy pass over blocks", fused_numpy_pass(X, w))
    scipy_vector = ("scipy `X.T @ (X @ w)`", lambda: R.T @ (R @ v))
    scipy_block = ("scipy `X.T @ (X @ W)`", lambda: R.T @ (R @ W8))

    def fused_csr() -> None:
        kernels.product(csr, W8, U8, None, THREADS)

    lines = (
        ("MNIST epoch, k=1, float32", epoch_of(X, 1), *numpy_pass, "at most 2.6"),
        ("the same, centred implicitly", epoch_of(X, 1, center=True), *numpy_pass, ""),
        ("MNIST epoch, k=6", epoch_of(X, 6), *numpy_pass, ""),
        ("RCV1 epoch, k=1, float32", epoch_of(R, 1), *scipy_vector, "at most 2.5"),
        ("the same, centred implicitly", epoch_of(R, 1, center=True), *scipy_vector, ""),
        ("RCV1 epoch, k=3, block of 3", epoch_of(R, 3, 0), *scipy_vector, "at most 6"),
        ("RCV1 epoch, k=3, default block", epoch_of(R, 3), *scipy_vector, ""),
        ("fused CSR pass, 8 columns", fused_csr, *scipy_block, "at most 0.25"),
    )
    timed = [(what, yardstick, aim, in_turns(repeats, task, other)) for what, task, yardstick, other, aim in lines]
    imports = in_turns(7, import_time("vrpca"), import_time("sklearn.decomposition"))
    timed.append(("`import vrpca`", "`import sklearn.decomposition`", "at most 1.3", imports))
    rows = [
        [what, f"{1e3 * ours:.1f}", yardstick, f"{1e3 * theirs:.1f}", f"{ours / theirs:.2f}", aim]
        for what, yardstick, aim, (ours, theirs) in timed
    ]
    return Table("Speed", ("what", "ms", "yardstick in the same run", "ms", "ratio", "aim"), rows)


def import_time(module: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


# -------------------------------------------------------------------------------------------------------- memory


def memory(folder: Path) -> Table:
    """Peak extra memory of a centred sparse fit, in a new process, against 5 d l + n l floats."""
    command = [sys.executable, __file__, "--data", str(folder), "--memory-child"]
    at_once = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # freed arrays go back to the system
    rows = []
    for k in (1, 14, 30):
        runs = [
            subprocess.run([*command, str(k)], check=True, capture_output=True, text=True, env=env).stdout.split()
            for env in (dict(os.environ), at_once)
        ]
        (width, *kept), (_, *freed) = runs
        rows.append([str(k), width, *kept, *freed])
    return Table("Memory", ("k", "l", "MB", "times the yardstick", "MB, freed at once", "times the yardstick"), rows)


def memory_child(R: sp.csr_matrix, k: int) -> None:
    """Print the width of the block, the MB of a fit, and their ratio to the yardstick."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    n, d = R.shape
    l = block_width(Options(), "vr", k, sparse=True)
    vrpca.svd(R[:100], 1, center=True, solver="vr", max_passes=5, compute_u=False)  # a first fit does all imports
    before = reset_peak()
    vrpca.svd(R, k, center=True, solver="vr", tol=0, max_passes=12, random_state=0, compute_u=False)
    extra = peak() - before
    print(l, f"{extra / 1e6:.1f}", f"{extra / (4 * (5 * d * l + n * l)):.2f}")


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
