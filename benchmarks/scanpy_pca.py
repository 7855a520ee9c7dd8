"""`vrpca.anndata.pca` beside scanpy's `pp.pca` on single cells: time as a ratio, and how far both are from the truth.

    pip install scanpy
    python benchmarks/scanpy_pca.py [--data ../shared/data/pbmc.npz] [-k 50] [--repeats 5] [--genes 2000]

The two run in turns, so that a busy machine slows down both. The truth is LAPACK's answer in double precision.
Counts are normalised to 10000 per cell and logarithmised; `--genes` takes that many highly variable ones.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import anndata
import numpy as np
import scanpy
import scipy.sparse as sp

import vrpca


def prepared(path: str, genes: int | None) -> anndata.AnnData:
    adata = anndata.AnnData(sp.load_npz(path).tocsr())
    scanpy.pp.normalize_total(adata, target_sum=1e4)
    scanpy.pp.log1p(adata)
    if genes is not None:
        scanpy.pp.highly_variable_genes(adata, n_top_genes=genes)
    return adata


def truth(adata: anndata.AnnData, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and loadings in double precision, with the sign rule of scikit-learn, by the Gram matrix of the cells."""
    kept = adata.var["highly_variable"].to_numpy() if "highly_variable" in adata.var else slice(None)
    Z = adata.X[:, kept].toarray().astype(np.float64)
    Z -= Z.mean(axis=0)
    values, U = np.linalg.eigh(Z @ Z.T)
    s, U = np.sqrt(values[::-1][:k]), U[:, ::-1][:, :k]
    V = Z.T @ U / s
    signs = np.sign(V[np.abs(V).argmax(axis=0), np.arange(k)])
    loadings = np.zeros((adata.n_vars, k))
    loadings[kept] = V * signs
    return U * s * signs, loadings


def errors(adata: anndata.AnnData, scores: np.ndarray, loadings: np.ndarray) -> tuple[float, float]:
    """The largest relative error of the scores along a component, signs included, and that of the loadings."""
    lengths = np.linalg.norm(scores, axis=0)
    return (
        float((np.linalg.norm(adata.obsm["X_pca"] - scores, axis=0) / lengths).max()),
        float(np.linalg.norm(adata.varm["PCs"] - loadings, axis=0).max()),
    )


def seconds(work: Callable[[anndata.AnnData], None], adata: anndata.AnnData) -> tuple[float, anndata.AnnData]:
    copy = adata.copy()
    began = time.perf_counter()
    work(copy)
    return time.perf_counter() - began, copy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/pbmc.npz")
    parser.add_argument("-k", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--genes", type=int, default=None)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    adata = prepared(given.data, given.genes)
    expected = truth(adata, given.k)
    print(f"{adata.n_obs} cells, {adata.n_vars} genes, {adata.X.nnz} entries of {adata.X.dtype}, k={given.k}")
    contenders: dict[str, Callable[[anndata.AnnData], None]] = {
        "scanpy": lambda data: scanpy.pp.pca(data, n_comps=given.k),
        "vrpca": lambda data: vrpca.anndata.pca(data, n_comps=given.k),
        "vrpca, as accurate as float32 allows": lambda data: vrpca.anndata.pca(data, n_comps=given.k, angle_tol=1e-4),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(given.repeats):
        for name, work in contenders.items():
            taken, done = seconds(work, adata)
            times[name].append(taken)
            if len(times[name]) == 1:
                scores, loadings = errors(done, *expected)
                print(f"{name}: scores off by {scores:.1e}, loadings by {loadings:.1e} (relative, worst component)")
    base = np.array(times["scanpy"])
    for name, taken in times.items():
        ratio = np.median(base / np.array(taken))
        print(
            f"{name}: {np.median(taken):.2f} s, {ratio:.2f} times as fast as scanpy (median of {given.repeats} turns)"
        )


if __name__ == "__main__":
    main()
