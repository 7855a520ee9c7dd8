"""Distributed variance reduction, simulated, beside wide residual blocks: it saves no rounds.

Each of p partitions runs the variance-reduced inner pass of Remark 1 (projection form) on its own rows, from the global
snapshot W with the global image U = A W. The p results enter the Rayleigh-Ritz space with an exact product, so that
unlike partitions can slow convergence but never bias the answer. A round is one reading of all rows: the inner passes
read them once (on the workers, without communication before their end), and the exact product reads them once more.

    python benchmarks/distributed_vr.py --rows 20000
"""

from __future__ import annotations

import argparse

import numpy as np

D, LABELS = 400, 10


def data(n: int, ordered: bool, spectrum: str) -> np.ndarray:
    """Rows of ten classes, centred; their order is by chance, or by class."""
    rng = np.random.default_rng(0)
    decay = {"steep": np.arange(1, D + 1) ** -1.0, "flat": np.arange(1, D + 1) ** -0.3}[spectrum]
    labels = rng.integers(LABELS, size=n)
    X = (rng.standard_normal((n, D)) + rng.standard_normal((LABELS, D))[labels]) * decay
    X = X[np.argsort(labels, kind="stable")] if ordered else X
    return X - X.mean(axis=0)


def orth(W: np.ndarray) -> np.ndarray:
    return np.linalg.qr(W)[0]


def inner_pass(
    Z: np.ndarray, W: np.ndarray, U: np.ndarray, eta: float, rng: np.random.Generator, batch: int
) -> np.ndarray:
    """One variance-reduced pass over the rows of a partition, in mini-batches."""
    V = W.copy()
    for start in range(0, len(Z), batch):
        B = Z[rng.integers(len(Z), size=min(batch, len(Z) - start))]
        T = W.T @ V
        V = V + eta * (B.T @ (B @ (V - W @ T)) / len(B) + U @ T)
    return orth(V)


def local_subspaces(
    X: np.ndarray, W: np.ndarray, U: np.ndarray, p: int, eta: float, rng: np.random.Generator
) -> np.ndarray:
    """The mean of the results of all partitions, each turned towards W, and what they differ by most."""
    turned = []
    for Z in np.array_split(X, p):
        V = inner_pass(Z, W, U, eta, rng, max(1, min(64, len(Z) // 8)))
        A, _, B = np.linalg.svd(V.T @ W)
        turned.append(V @ (A @ B))
    return np.mean(turned, axis=0)


def counted(X: np.ndarray, k: int, p: int | None, tol: float, most: int = 60) -> tuple[int, int]:
    """Products (rounds with communication) and readings until the suboptimality is below tol."""
    n, rng, l = len(X), np.random.default_rng(1), k + 4
    A = X.T @ X / n
    best = np.linalg.eigvalsh(A)[::-1][:k].sum()
    eta = 8 / (np.trace(A) * np.sqrt(n / (p or 1)))
    S, readings = orth(rng.standard_normal((D, 2 * l))), 0
    for products in range(1, most + 1):
        readings += 1
        theta, Y = np.linalg.eigh(S.T @ A @ S)
        W, theta = (S @ Y)[:, ::-1][:, : 2 * l], theta[::-1][: 2 * l]
        if 1 - theta[:k].sum() / best < tol:
            return products, readings
        new = [A @ W - W * theta]
        if p is not None:
            readings += 1
            new.append(local_subspaces(X, W[:, :l], A @ W[:, :l], p, eta, rng))
        S = orth(np.column_stack([S if S.shape[1] < 14 * l else W, *new]))
    return most, readings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--k", type=int, default=6)
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--partitions", type=int, nargs="*", default=[10, 100, 1000, 10000])
    options = parser.parse_args()
    print("| spectrum | rows | partitions | rounds | readings |\n| --- | --- | --- | --- | --- |")
    for spectrum in ("steep", "flat"):
        for ordered in (False, True):
            X = data(options.rows, ordered, spectrum)
            how = "sorted" if ordered else "shuffled"
            for p in [None, *options.partitions]:
                products, readings = counted(X, options.k, p, options.tol)
                print(f"| {spectrum} | {how} | {p or 'residual blocks alone'} | {products} | {readings} |", flush=True)


if __name__ == "__main__":
    main()
