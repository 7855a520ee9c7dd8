"""Data that hide some of their leading components: rare rows, equal eigenvalues, and spectra in steps.

    python benchmarks/ties.py [--seeds N] [--first SEED] [--only WORD] [--jobs J]

A converged answer counts as wrong if it is worse than ten times its bound. `known` data are fixed but for the seed, in
both number types. `sweep` has 2 to 20 equal eigenvalues and 1 to 20 components: dense in random directions, sparse,
one-hot tables whose categories are equally frequent, and steps of so many equal eigenvalues, 2% apart. The iterative
solvers take turns. Prints a Markdown table; the exit code is 1 if an answer is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the workers fill the cores already

import numpy as np
import scipy.sparse as sp
from fuzz.pool import table

import vrpca

Rng = np.random.Generator
WRONG = 10  # times its bound: an answer that is worse is wrong
MULTIPLICITIES = range(2, 21)
COMPONENTS = range(1, 21)
TURNS: list[dict[str, Any]] = [
    {"solver": "accelerated", "cost": "time"},
    {"solver": "accelerated", "cost": "passes"},
    {"solver": "krylov"},
]
SWEEP_SEEDS = 20  # of `--seeds` that go to one seed of the sweep, which has 380 fits of each kind


@dataclass(frozen=True)
class Task:
    """A matrix, the number of components, and the options of the fit."""

    X: Any
    k: int
    options: dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """What came of one fit."""

    converged: bool
    bound: float
    truth: float
    passes: float

    @property
    def wrong(self) -> bool:
        """Whether the answer is far worse than its certificate says."""
        return self.converged and self.truth > WRONG * self.bound


# -------------------------------------------------------------------------------------------------------------- data


def outliers(rng: Rng, count: int) -> np.ndarray:
    """Geometric spectrum, and equal outlying rows in columns of their own."""
    X = rng.standard_normal((5000, 300)) * 0.9 ** np.arange(300) / 70
    X[:, -count:] = 0
    rows = np.arange(count) * (5000 // count)
    X[rows] = 0
    X[rows, np.arange(300 - count, 300)] = 3
    return X


def rotated(rng: Rng, n: int, singular_values: np.ndarray) -> np.ndarray:
    """A dense matrix with these singular values and random singular vectors."""
    d = len(singular_values)
    left, right = (np.linalg.qr(rng.standard_normal((m, d)))[0] for m in (n, d))
    return (left * singular_values) @ right.T


def sparse_outliers(rng: Rng, n: int, d: int, count: int) -> sp.csr_array:
    """A sparse matrix with equal outlying rows in columns of their own."""
    X = sp.random_array((n, d), density=0.02, rng=rng, format="lil")
    X[:, :count] = 0
    rows = rng.choice(n, count, replace=False)
    X[rows] = 0
    for j, i in enumerate(rows):
        X[i, j] = 20
    return X.tocsr()


def one_hot(rng: Rng, count: int) -> sp.csr_array:
    """A table with one column of `count + 1` equally frequent categories, and two of many rare ones."""
    n = 60 * (count + 1)
    columns = [rng.permutation(np.arange(n) % (count + 1))]
    columns += [count + 1 + 40 * c + (40 * rng.random(n) ** 2).astype(int) for c in range(2)]
    rows = np.tile(np.arange(n), 3)
    return sp.csr_array((np.ones(3 * n), (rows, np.concatenate(columns))), shape=(n, count + 81))


def five_outliers(rng: Rng) -> Task:
    return Task(outliers(rng, 5), 3, {})


def twenty_outliers(rng: Rng) -> Task:
    return Task(outliers(rng, 20), 5, {})


def unequal_outliers(rng: Rng) -> Task:
    X = outliers(rng, 2)
    X[2500] *= 1 + 1e-3
    return Task(X, 1, {"center": False, "tol": 1e-4})


def nine_equal(rng: Rng) -> Task:
    values = np.append(np.full(9, 3.0), 0.3 * 0.99 ** np.arange(691))
    return Task(rotated(rng, 900, values), 9, {"center": False, "tol": 1e-6})


def sparse_five(rng: Rng) -> Task:
    return Task(sparse_outliers(rng, 3000, 800, 5), 5, {"center": False, "tol": 1e-6})


def steps(rng: Rng) -> Task:
    values = 0.8 ** (np.arange(400) // 6)
    return Task(rotated(rng, 900, values), 4, {"center": False, "tol": 1e-6})


KNOWN: dict[str, Callable[[Rng], Task]] = {
    "five equal outliers, k=3": five_outliers,
    "twenty equal outliers, k=5": twenty_outliers,
    "two nearly equal outliers, k=1": unequal_outliers,
    "nine equal singular values, k=9": nine_equal,
    "sparse, five equal outliers, k=5": sparse_five,
    "steps of six, k=4": steps,
}


SWEEP = ("dense sweep", "sparse sweep", "one-hot sweep", "steps sweep")


def swept(rng: Rng, kind: str, count: int, k: int) -> Task:
    """One fit of the sweep."""
    if kind == "dense sweep":
        values = np.append(np.full(count, 3.0), 0.9 * 0.98 ** np.arange(250 - count))
        return Task(rotated(rng, 400, values), k, {"center": False})
    if kind == "sparse sweep":
        return Task(sparse_outliers(rng, 600, 250, count), k, {"center": False})
    if kind == "steps sweep":
        squares = np.append(np.repeat(1 - 0.02 * np.arange(5), count), 0.9 * 0.98 ** np.arange(150))
        return Task(rotated(rng, 400, np.sqrt(squares)), k, {"center": False})
    return Task(one_hot(rng, count), k, {"center": True})


# --------------------------------------------------------------------------------------------------------------- fits


def suboptimality(task: Task, components: np.ndarray) -> float:
    """The truth, by LAPACK."""
    Z = (task.X.toarray() if sp.issparse(task.X) else task.X).astype(np.float64)
    if task.options.get("center", True):
        Z -= Z.mean(axis=0)
    Q = np.linalg.qr(components.T.astype(np.float64))[0]
    largest = np.linalg.svd(Z, compute_uv=False)[: len(components)]
    return float(1 - np.linalg.norm(Z @ Q) ** 2 / (largest**2).sum())


def fit(task: Task, dtype: str, turn: int) -> Finding:
    """Fit, and find out how good the answer is."""
    task = replace(task, X=task.X.astype(dtype))
    options = {"center": True, "n_threads": 1} | TURNS[turn % len(TURNS)] | task.options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = vrpca.svd(task.X, task.k, random_state=turn, compute_u=False, **options)
    truth = suboptimality(task, found.Vt)
    return Finding(found.converged, found.certificate.suboptimality, truth, found.n_passes)


def work(what: tuple[str, str, int]) -> list[Finding]:
    """All fits of one name, number type and seed."""
    name, dtype, seed = what
    rng = np.random.default_rng([seed, 17])
    if name in KNOWN:
        return [fit(KNOWN[name](rng), dtype, seed)]
    return [fit(swept(rng, name, m, k), dtype, seed + m + k) for m in MULTIPLICITIES for k in COMPONENTS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="seeds of each known matrix")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them")
    parser.add_argument("--only", default="", metavar="WORD", help="matrices that have this word in their names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    options = parser.parse_args()
    began = time.monotonic()
    seeds = range(options.first, options.first + options.seeds)
    tasks = [(name, dtype, seed) for name in KNOWN for dtype in ("float64", "float32") for seed in seeds]
    few = seeds[: -(-len(seeds) // SWEEP_SEEDS)]
    tasks += [(name, dtype, seed) for name in SWEEP for dtype in ("float64", "float32") for seed in few]
    chosen = [task for task in tasks if options.only in task[0]]
    findings: dict[tuple[str, str], list[Finding]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for task, results in zip(chosen, pool.map(work, chosen), strict=True):
            findings.setdefault(task[:2], []).extend(results)
    rows = [(*name, *figures(group)) for name, group in findings.items()]
    header = ("data", "type", "fits", "converged", "wrong", "largest error, converged", "mean passes", "most passes")
    print(table(header, rows))
    print(f"\nvrpca {vrpca.__version__}, {time.monotonic() - began:.0f} s")
    sys.exit(any(f.wrong for group in findings.values() for f in group))


def figures(group: list[Finding]) -> tuple[Any, ...]:
    """The columns of a row after its name."""
    passes = [f.passes for f in group]
    worst = max((f.truth for f in group if f.converged), default=0.0)
    wrong = sum(f.wrong for f in group)
    ends = (f"{np.mean(passes):.1f}", f"{max(passes):g}")
    return len(group), sum(f.converged for f in group), wrong, f"{worst:.1e}", *ends


if __name__ == "__main__":
    main()
