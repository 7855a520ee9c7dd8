"""`angle_tol` against the truth, and against what it takes to get there: passes, and the largest true angle.

    python benchmarks/angles.py [--data FOLDER] [--angle A]

For each data set in float64: fits with ``angle_tol=A``, and `krylov` with ``tol=0``, stopped by `max_passes` as soon as
its true angles are below A. The truth is LAPACK's, or ARPACK's where a matrix is too large. FOLDER has mnist.npz and
rcv1.npz; without it, the generated matrix is the only one.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

import vrpca

MOST = 100  # passes


def problems(folder: Path | None) -> Iterator[tuple[str, Any, int, bool]]:
    """Name, matrix, number of components, and whether it is centred."""
    if folder is not None:
        yield "MNIST", np.load(folder / "mnist.npz")["X"].astype(np.float64) / 255, 6, True
        yield "RCV1", sp.csr_array(sp.load_npz(folder / "rcv1.npz")).astype(np.float64), 10, False
    rng = np.random.default_rng(0)
    yield "random sparse 300 x 1000", sp.random_array((300, 1000), density=0.05, format="csr", rng=rng), 10, False


def true_vectors(X: Any, k: int, center: bool) -> np.ndarray:
    """The leading right singular vectors, as rows."""
    if sp.issparse(X) and X.shape[1] > 10_000:
        _, s, Vt = svds(X, k, tol=0)
        return Vt[np.argsort(-s)]
    Z = X.toarray() if sp.issparse(X) else X
    Z = Z - Z.mean(axis=0) if center else Z
    if Z.shape[0] > 10 * Z.shape[1]:
        Z = np.linalg.qr(Z, mode="r")
    return np.linalg.svd(Z, full_matrices=False)[2][:k]


def largest_sine(Vt: np.ndarray, true: np.ndarray) -> float:
    """Of the angles between each vector and its own true one."""
    outside = Vt - (Vt * true).sum(axis=1, keepdims=True) * true
    return float(np.linalg.norm(outside, axis=1).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--angle", type=float, default=1e-10)
    options = parser.parse_args()
    print("| data | solver | passes | converged | certified sine | true sine |\n| --- | --- | --- | --- | --- | --- |")
    warnings.simplefilter("ignore")
    for name, X, k, center in problems(options.data):
        true = true_vectors(X, k, center)
        shared: dict[str, Any] = {"center": center, "random_state": 0, "compute_u": False}
        for solver in ("krylov", "auto"):
            found = vrpca.svd(X, k, solver=solver, angle_tol=options.angle, max_passes=MOST, **shared)
            sines = f"{found.certificate.angles.max():.1e} | {largest_sine(found.Vt, true):.1e}"
            print(f"| {name}, k={k} | {solver}, angle_tol | {found.n_passes:.4g} | {found.converged} | {sines} |")
        for passes in range(4, MOST):
            found = vrpca.svd(X, k, solver="krylov", tol=0, max_passes=passes, **shared)
            if (sine := largest_sine(found.Vt, true)) <= options.angle:
                print(f"| {name}, k={k} | krylov, tol=0 | {found.n_passes:.4g} | stopped | | {sine:.1e} |", flush=True)
                break


if __name__ == "__main__":
    main()
