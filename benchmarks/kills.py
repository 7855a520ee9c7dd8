"""Fits that are killed (SIGKILL) at random moments and resumed from their checkpoints, compared with unbroken ones.

    python benchmarks/kills.py --kills 100

A child process fits, and writes a checkpoint at every occasion. It is killed after a random time and started again,
until the fit ends. Its result must have the bits of the unbroken fit. The fits of a list share the kills. A last table
says which part of the time is spent on checkpoints with the usual spacing.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

import vrpca
import vrpca.checkpoint
from vrpca.checkpoint import Checkpoint

FITS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "vr, 3 restarts": ("dense", 4, {"solver": "vr", "restarts": 3, "max_passes": 240, "tol": 1e-12}),
    "power": ("dense", 6, {"solver": "power", "max_passes": 150, "tol": 1e-14}),
    "accelerated, sparse": ("sparse", 30, {"solver": "accelerated", "tol": 1e-10, "max_passes": 150}),
    "krylov, fraction": ("dense", 0.9, {"solver": "krylov", "tol": 1e-8}),
    "krylov, proof": ("sparse", 4, {"solver": "krylov", "certificate": "probabilistic", "tol": 1e-4}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.child:
        child(*arguments.child)
        return
    different = kill_them(arguments.kills, random.Random(arguments.seed))
    overhead()
    sys.exit(different)


def data(kind: str) -> Any:
    rng = np.random.default_rng(0)
    if kind == "dense":
        return (rng.standard_normal((20000, 300)) * 0.98 ** np.arange(300)).astype(np.float32)
    X = sp.random_array((20000, 8000), density=0.003, rng=rng, format="csr", dtype=np.float32)
    return sp.csr_array(X @ sp.diags_array((1 / np.sqrt(1 + np.arange(8000))).astype(np.float32)))


def fit(name: str, path: str | None) -> vrpca.Decomposition:
    kind, k, options = FITS[name]
    return vrpca.pca(data(kind), k, random_state=0, n_threads=2, compute_u=False, checkpoint=path, **options)


def digest(found: vrpca.Decomposition) -> str:
    """All bits of a result, but for the seconds."""
    history = [{**record.asdict(), "seconds": 0} for record in found.history]
    text = repr((history, found.n_passes, found.status, found.certificate.suboptimality)).encode()
    return hashlib.sha256(found.Vt.tobytes() + found.s.tobytes() + text).hexdigest()


def child(name: str, path: str) -> None:
    with patch.multiple(vrpca.checkpoint, EVERY=0.0, SHARE=float("inf")):  # a checkpoint after every step
        print("begins", flush=True)
        print(digest(fit(name, path)), flush=True)


def kill_them(wanted: int, rng: random.Random) -> int:
    """Kill fits until there have been enough kills; return how many fits gave other bits."""
    truth: dict[str, tuple[str, float]] = {}
    kills = different = ended = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in itertools.cycle(FITS):
            if kills >= wanted:
                break
            if name not in truth:
                began = time.perf_counter()
                truth[name] = digest(fit(name, None)), time.perf_counter() - began
            unbroken, seconds = truth[name]
            share = min(wanted - kills, -(-wanted // len(FITS)))
            found, times = killed(name, Path(folder) / "fit.npz", rng, seconds, share)
            kills, ended, different = kills + times, ended + 1, different + (found != unbroken)
            litter = len(list(Path(folder).iterdir()))
            print(f"{name}: {times} kills, {'same bits' if found == unbroken else 'OTHER BITS'}, {litter} files left")
    print(f"{kills} kills in {ended} fits, {different} of them with other bits")
    return int(different > 0)


def killed(name: str, path: Path, rng: random.Random, seconds: float, most: int) -> tuple[str, int]:
    """The digest of a fit that is killed at most so often, after up to a third of its time; and how often it was."""
    kills = 0
    while True:
        command = [sys.executable, __file__, "--child", name, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(rng.uniform(0, seconds / 3 + 0.3) if kills < most else None)
                return process.stdout.read().strip(), kills
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1


def overhead() -> None:
    """Print the part of the time of a fit that goes into its checkpoint, with the usual spacing."""
    write, spent = Checkpoint._write, list[float]()

    def timed(*arguments: Any) -> None:
        began = time.perf_counter()
        write(*arguments)
        spent.append(time.perf_counter() - began)

    for name in FITS:
        spent.clear()
        with tempfile.TemporaryDirectory() as folder, patch.object(Checkpoint, "_write", timed):
            began = time.perf_counter()
            fit(name, os.path.join(folder, "fit.npz"))
            seconds = time.perf_counter() - began
        print(f"{name}: {seconds:.1f} s, {len(spent)} checkpoints, {sum(spent) / seconds:.2%} of the time")


if __name__ == "__main__":
    main()
