"""What a fit on a dask cluster costs: bytes per pass, passes by partitions, overhead, workers, kills, and the peers.

    python benchmarks/dask_scaling.py all --gigabytes 0.2
    python benchmarks/dask_scaling.py peers --gigabytes 4 --workers 2

Every part prints a table in Markdown. The rows are generated where they are read: nothing is written to disk. A chunk
is drawn from its number alone, so that data that are not kept are the same in every pass.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import vrpca
from vrpca.data.open import as_source
from vrpca.data.row_map import RowMap
from vrpca.data.view import KernelRows, ProductSum

D, K, LABELS = 1000, 10, 10


def table(*columns: str) -> Callable[..., None]:
    """Print the head of a table; return what prints its rows."""
    print(f"\n| {' | '.join(columns)} |\n| {' | '.join('---' for _ in columns)} |")
    return lambda *cells: print(f"| {' | '.join(str(cell) for cell in cells)} |", flush=True)


def centres(d: int) -> np.ndarray:
    """The means of the classes: they make up the leading components."""
    return (np.random.default_rng(99).standard_normal((LABELS, d)) * 2 / np.sqrt(np.arange(1, d + 1))).astype(
        np.float32
    )


def rows(number: int, count: int, total: int, d: int, ordered: bool) -> np.ndarray:
    """Rows of a chunk: of all classes or, if they are sorted by label, of one class after the other."""
    rng = np.random.default_rng(number)
    labels = (
        np.arange(number * count, (number + 1) * count) * LABELS // total
        if ordered
        else rng.integers(LABELS, size=count)
    )
    noise = rng.standard_normal((count, d), dtype=np.float32) / np.sqrt(np.arange(1, d + 1, dtype=np.float32))
    return noise + centres(d)[labels]


def generated(gigabytes: float, partitions: int, d: int = D, ordered: bool = False) -> da.Array:
    """A dask array of float32 of this size, drawn chunk by chunk."""
    count = max(1, int(gigabytes * 1e9 / 4 / d / partitions))
    make = dask.delayed(rows, pure=True)
    parts = [
        da.from_delayed(make(i, count, count * partitions, d, ordered), (count, d), np.float32)
        for i in range(partitions)
    ]
    return da.concatenate(parts)


@contextmanager
def cluster(workers: int, threads: int = 1, memory: str | int = "auto"):
    """A cluster of processes on this machine."""
    options = {"n_workers": workers, "threads_per_worker": threads, "memory_limit": memory}
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "10m"})  # a new worker may take a while
    with patient, LocalCluster(**options, dashboard_address=":0", silence_logs=50) as local, Client(local) as client:
        yield client
        client.wait_for_workers(workers)  # a cluster that is closed while a worker starts never ends


def sent(client: Client) -> int:
    """Bytes that workers have sent: to each other, and to the process of the fit."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def peak_memory(client: Client) -> float:
    """The largest resident memory of a worker so far, in bytes."""

    def peak() -> int:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    return max(client.run(peak).values())


def bytes_per_pass(options: argparse.Namespace) -> None:
    """Bytes on the wire in a pass, per worker, in units of d l numbers: what workers send, and W for the first one."""
    row = table("workers", "partitions", "chunks are", "times d l numbers, per worker", "seconds per pass")
    l = 60
    for workers in (2, 3):
        with cluster(workers) as client:
            for partitions in (8, 64):
                for limited in (False, True):
                    source = as_source(generated(options.gigabytes, partitions), limited)
                    W = np.random.default_rng(0).standard_normal((D, l)).astype(np.float32)

                    def multiply(source=source, W=W) -> None:
                        source.reduce(ProductSum(KernelRows(RowMap(np.dtype(np.float32))), W, 1))

                    multiply()
                    before, began, passes = sent(client), time.perf_counter(), 3
                    for _ in range(passes):
                        multiply()
                    seconds = (time.perf_counter() - began) / passes
                    units = (sent(client) - before) / passes / W.nbytes + 1
                    how = "made again" if limited else "kept"
                    row(workers, partitions, how, f"{units / workers:.2f}", f"{seconds:.3f}")


def passes_by_partitions(options: argparse.Namespace) -> None:
    """Passes to 1e-8 by the number of partitions; on the local scheduler, since answers do not depend on it."""
    row = table("rows", "partitions", "chunks are", "passes", "passes of the local solver", "true suboptimality")
    for ordered in (False, True):
        whole = generated(options.gigabytes, 512, ordered=ordered).compute()
        covariance = np.cov(whole, rowvar=False, bias=True, dtype=np.float64)
        exact = np.linalg.eigvalsh(covariance)[::-1][:K].sum()
        local = vrpca.PCA(K, solver="accelerated", cost="passes", random_state=0).fit(whole)
        for partitions in options.partitions:
            held = da.from_array(whole, chunks=(-(-len(whole) // partitions), D))
            for limit in (None, "2GB"):
                model = vrpca.PCA(K, solver="accelerated", cost="passes", random_state=0, memory_limit=limit).fit(held)
                V = np.linalg.qr(model.components_.T.astype(np.float64))[0]
                wrong = 1 - np.einsum("ij,ij->", V, covariance @ V) / exact
                how = "sorted" if ordered else "shuffled"
                row(
                    how,
                    partitions,
                    "kept" if limit is None else "made again",
                    f"{model.n_passes_:.2f}",
                    f"{local.n_passes_:.2f}",
                    f"{wrong:.0e}",
                )


def compared(what: str, model: vrpca.PCA, held: da.Array, base: float) -> tuple[Any, ...]:
    """Fit on two threads or workers in all: a row with the time, and how much longer that is than `base`."""
    began = time.perf_counter()
    model.fit(held)
    seconds = time.perf_counter() - began
    return what, 2, f"{seconds:.2f}", f"{model.n_passes_:.2f}", f"{seconds / base:.2f}"


def overhead(options: argparse.Namespace) -> None:
    """Seconds of a fit on a cluster against those of the local solver with the same settings, on data in memory."""
    row = table("what", "threads", "seconds", "passes", "ratio to the local solver")
    whole = generated(options.gigabytes, 16).compute()
    for cost in ("passes", "time"):
        base = None
        for threads, workers in ((2, 0), (1, 2)):
            model = vrpca.PCA(K, solver="accelerated", cost=cost, random_state=0)
            if workers == 0:
                began = time.perf_counter()
                model.set_params(n_threads=threads).fit(whole)
                base = time.perf_counter() - began
                row(f"local, cost={cost}", threads, f"{base:.2f}", f"{model.n_passes_:.2f}", "1")
                continue
            with dask.config.set(num_workers=2):
                held = da.from_array(whole, chunks=(-(-len(whole) // 16), D))
                row(*compared(f"local scheduler, cost={cost}", model, held, base))
            with cluster(workers, threads):
                held = generated(options.gigabytes, 16).persist()
                dask.compute(held.sum())
                row(*compared(f"{workers} workers, cost={cost}", model, held, base))


def workers(options: argparse.Namespace) -> None:
    """Seconds of a fit with 1 and 2 worker processes, chunks kept or made again."""
    row = table("workers", "chunks are", "seconds", "passes")
    for count in (1, 2):
        for limit in (None, "2GB"):
            with cluster(count):
                held = generated(options.gigabytes, 32)
                began = time.perf_counter()
                model = vrpca.PCA(K, solver="accelerated", random_state=0, memory_limit=limit).fit(held)
                seconds = time.perf_counter() - began
            row(count, "kept" if limit is None else "made again", f"{seconds:.2f}", f"{model.n_passes_:.2f}")


def suboptimality(held: da.Array, components: np.ndarray, mean: np.ndarray, best: float) -> float:
    """How much less variance these components explain than the best ones."""
    V = np.linalg.qr(components.T.astype(np.float64))[0]
    found = float((((held - mean) @ V) ** 2).sum().compute()) / held.shape[0]
    return 1 - found / best


def peers(options: argparse.Namespace) -> None:
    """The same cluster, the same array: svd_compressed and dask-ml's PCA beside this package."""
    try:
        from dask_ml.decomposition import PCA as DaskMlPCA
    except ImportError:
        DaskMlPCA = None
        print("\ndask-ml is not installed: left out.")

    def ours(held: da.Array, limit: str | None) -> tuple[np.ndarray, np.ndarray, float]:
        model = vrpca.PCA(K, random_state=0, tol=1e-8, memory_limit=limit).fit(held)
        return model.components_, model.mean_, model.n_passes_

    def compressed(held: da.Array, power: int) -> tuple[np.ndarray, np.ndarray, float]:
        mean = held.mean(axis=0)
        _, _, Vt = da.linalg.svd_compressed(held - mean, K, n_power_iter=power, compute=power > 0, seed=0)
        mean, Vt = dask.compute(mean, Vt)
        return Vt, mean, float("nan")

    def dask_ml(held: da.Array, solver: str) -> tuple[np.ndarray, np.ndarray, float]:
        model = DaskMlPCA(K, svd_solver=solver, random_state=0).fit(held)
        return model.components_, model.mean_, float("nan")

    row = table("data", "solver", "seconds", "passes", "suboptimality", "peak memory of a worker, MB")
    contestants: list[tuple[str, Callable]] = [("vrpca", lambda held: ours(held, None))]
    contestants += [(f"svd_compressed, {p} power iterations", lambda held, p=p: compressed(held, p)) for p in (0, 2, 4)]
    if DaskMlPCA is not None:
        contestants += [(f"dask-ml PCA, {s}", lambda held, s=s: dask_ml(held, s)) for s in ("randomized", "tsqr")]
    for name, memory in (
        ("fits", "auto"),
        ("exceeds the workers' memory", int(options.gigabytes * 1e9 / options.workers * 0.6)),
    ):
        if name.split()[0] not in options.data:
            continue
        held = generated(options.gigabytes, 32)
        with cluster(options.workers):
            best = vrpca.PCA(K, tol=1e-13, random_state=0).fit(held).explained_variance_.sum()
            best = float(best) * (1 - 1 / held.shape[0])
        for what, work in contestants:
            with cluster(options.workers, memory=memory) as client:
                began = time.perf_counter()
                try:
                    components, mean, passes = work(held)
                except Exception as error:  # a peer that fails is part of the result
                    row(name, what, f"failed: {type(error).__name__}", "", "", "")
                    continue
                seconds, peak = time.perf_counter() - began, peak_memory(client)
            with cluster(options.workers):
                wrong = suboptimality(held, components, mean, best)
            row(name, what, f"{seconds:.1f}", f"{passes:.2f}", f"{wrong:.0e}", round(peak / 1e6))


def kills(options: argparse.Namespace) -> None:
    """Kill one of three workers with SIGKILL at a random moment of a fit, again and again."""
    row = table("fit", "killed after, seconds", "fit took", "error of the variances")
    held = generated(options.gigabytes, 24)
    expected = vrpca.PCA(K, solver="accelerated", cost="passes", tol=1e-10, random_state=0).fit(held.compute())
    right = 0
    for number in range(options.kills):
        limit = "2GB" if number % 2 else None
        with cluster(3) as client:
            pids = list(client.run(os.getpid).values())
            delay = random.Random(number).uniform(0.0, options.seconds)
            timer = threading.Timer(delay, os.kill, (pids[number % 3], signal.SIGKILL))
            timer.start()
            began = time.perf_counter()
            model = vrpca.PCA(K, solver="accelerated", tol=1e-10, random_state=0, memory_limit=limit).fit(held)
            seconds = time.perf_counter() - began
            timer.join()
        error = np.abs(model.explained_variance_ / expected.explained_variance_ - 1).max()
        right += bool(model.converged_ and error < 1e-5)
        row(number, f"{delay:.2f}", f"{seconds:.2f}", f"{error:.0e}")
    print(f"\n{right} of {options.kills} answers are right.")


PARTS = {
    "bytes": bytes_per_pass,
    "partitions": passes_by_partitions,
    "overhead": overhead,
    "workers": workers,
    "peers": peers,
    "kills": kills,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=[*PARTS, "all"])
    parser.add_argument("--gigabytes", type=float, default=0.2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--partitions", type=int, nargs="*", default=[1, 8, 64, 512])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--data", nargs="*", default=["fits", "exceeds"], help="of the peers: what the array does")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="the last moment of a kill, after the start of the fit"
    )
    options = parser.parse_args()
    for name, part in PARTS.items():
        if options.part in (name, "all"):
            print(f"\n{part.__doc__} ({options.gigabytes} GB, d = {D}, k = {K})")
            part(options)


if __name__ == "__main__":
    main()
