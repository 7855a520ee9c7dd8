"""What the machine can do: how fast it reads memory and multiplies matrices. No product is faster than both allow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vrpca import kernels
from vrpca.experiments.shared.datasets import Prepared
from vrpca.threads import blas_threads, in_parallel

READ_BYTES = 1 << 28  # more than any cache holds
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
        speed = f"reads {self.bandwidth / 1e9:.1f} GB/s, multiplies {self.flops / 1e9:.0f} Gflop/s in float32"
        return f"kernels with {self.instruction_set}; memory {speed}"

    def as_json(self) -> dict[str, Any]:
        """The rates by name."""
        return asdict(self)

    def limit(self, data: Prepared, k: int, passes: float) -> float:
        """The least seconds that a number of passes can take, each a product of X and of its transpose with k columns.

        Rows of float32 are read once per pass; an entry takes four operations per column.
        """
        n, d = data.shape
        entries = n * d if data.nnz is None else data.nnz
        stored = entries * (8 if data.sparse else 4)  # a sparse entry has an index besides
        return passes * max(stored / self.bandwidth, 4 * entries * k / self.flops)


def measure(threads: int) -> Rates:
    """The rates of this machine."""
    return Rates(os.cpu_count() or 1, threads, kernels.instruction_set(), _bandwidth(threads), _flops(threads))


def _bandwidth(threads: int) -> float:
    """Bytes read per second, by inner products of long vectors with themselves."""
    parts = np.ones((threads, READ_BYTES // 4 // threads), np.float32)
    with blas_threads(1):
        seconds = _best(lambda: sum(in_parallel(threads, lambda part: float(part @ part), list(parts))))
    return parts.nbytes / seconds


def _flops(threads: int) -> float:
    A = np.ones((SIDE, SIDE), np.float32)
    out = np.empty_like(A)
    with blas_threads(threads):
        return 2 * SIDE**3 / _best(lambda: np.matmul(A, A.copy(), out=out))


def _best(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)
