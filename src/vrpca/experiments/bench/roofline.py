"""What the machine can do: how fast it reads memory and multiplies matrices. No pass is faster than reading."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vrpca import kernels
from vrpca.data.row_map import make_rows
from vrpca.experiments.shared.datasets import Prepared
from vrpca.threads import blas_threads, in_parallel

READ_BYTES = 1 << 28  # more than most caches hold
COLUMNS = 1024  # of the matrix that is read
SIDE = 1500  # of the matrices that are multiplied
REPEATS = 5  # the best time counts


@dataclass(frozen=True)
class Rates:
    """The rates of a machine with a number of threads."""

    cores: int
    threads: int
    instruction_set: str  # of the kernels
    bandwidth: float  # bytes per second
    flops: float  # per second, of products of float32 matrices by BLAS

    def __str__(self) -> str:
        reading, rate = f"{self.bandwidth / 1e9:.1f} GB/s", f"{self.flops / 1e9:.0f} Gflop/s"
        return f"kernels for {self.instruction_set}, memory read at {reading}, float32 matrices multiplied at {rate}"

    def as_json(self) -> dict[str, Any]:
        """The rates by name."""
        return asdict(self)

    def limit(self, data: Prepared, passes: float) -> float:
        """The least seconds that so many readings of float32 data can take."""
        n, d = data.shape
        stored = 4 * n * d if data.nnz is None else 8 * data.nnz  # a sparse entry has an index besides
        return passes * stored / self.bandwidth


def measure(threads: int, size: int = READ_BYTES) -> Rates:
    """The rates of this machine; `size` bytes are read."""
    return Rates(os.cpu_count() or 1, threads, kernels.instruction_set(), _bandwidth(threads, size), _flops(threads))


def _bandwidth(threads: int, size: int) -> float:
    """Bytes read per second: by inner products of long vectors or, if they are faster, by our products with one column.

    BLAS leaves it to the processor to read ahead, our kernels ask for what comes next.
    """
    rows = np.ones((max(1, size // 4 // COLUMNS), COLUMNS), np.float32)
    parts = list(rows.reshape(-1)[: rows.size // threads * threads].reshape(threads, -1))
    with blas_threads(1):
        seconds = _best(lambda: sum(in_parallel(threads, lambda part: float(part @ part), parts)))
    if kernels.instruction_set() != "reference":
        W, made = np.ones((COLUMNS, 1), np.float32), make_rows(rows)
        seconds = min(seconds, _best(lambda: kernels.product(made, W, np.zeros_like(W), None, threads)))
    return rows.nbytes / seconds


def _flops(threads: int) -> float:
    A = np.ones((SIDE, SIDE), np.float32)
    B, out = A.copy(), np.empty_like(A)
    with blas_threads(threads):
        return 2 * SIDE**3 / _best(lambda: np.matmul(A, B, out=out))


def _best(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)
